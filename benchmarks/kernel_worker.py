"""One library's kernels, in a process of its own; asked by `kernels.py` through pipes.

    python benchmarks/kernel_worker.py numpy

A question {"case": "matmul_512", "count": 3} is answered with the seconds of each of the runs, by
the clock, from the call in Python to the result in memory.
"""

import json
import os
import sys
import time

import cases

# Two threads each, as many as the machine of the measurements has.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, str(os.cpu_count()))


def main(library: str) -> None:
    """Answer until the pipe is closed."""
    made: dict = {}
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        name = question["case"]
        if name not in made:
            try:
                made[name] = cases.make(library, name)
                made[name]()
            except Exception as error:
                made[name] = error
        run, found = made[name], []
        if isinstance(run, Exception):
            print(json.dumps({"error": f"{type(run).__name__}: {run}"}), file=answers, flush=True)
            continue
        if question.get("only"):
            made = {name: run}
        run()
        for _ in range(question["count"]):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
        print(json.dumps({"seconds": found}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

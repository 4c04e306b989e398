"""What Python does around a kernel: one small realize, one cached training step."""

from __future__ import annotations

import statistics

from benchmarks import harness

WHAT = ("realize", "step")
LIBRARIES = ("tinylab", "tinygrad", "torch")


def run(rounds: int = 11) -> None:
    """Processor time of each, by turns."""
    workers = {}
    for library in LIBRARIES:
        python, reason = harness.interpreter(library)
        if python is None:
            print(f"(no {library} row: {reason})")
        elif library == "tinygrad" and not harness.has_clang():
            print("(no tinygrad row: its CPU device needs clang; CLANG_DIR may name its folder)")
        else:
            workers[library] = harness.Worker(python, "overhead_worker.py", library)
    rows = []
    for what in WHAT:
        subjects = {
            library: lambda library=library, what=what: workers[library].ask(what=what)["seconds"]
            for library in workers
        }
        times = harness.by_turns(subjects, rounds)
        for library in workers:
            beside = harness.shown_ratio(times["tinylab"], times[library])
            rows.append(
                [what, library, harness.shown_time(statistics.median(times[library])), beside]
            )
    for worker in workers.values():
        worker.close()
    title = (
        "around a kernel: (64, 64) + (64, 64) realized; a training step of a perceptron with Adam"
    )
    harness.table(title, ["what", "library", "processor time", "of tinylab"], rows)

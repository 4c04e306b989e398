"""One model lowered once, in this process: what `compile` and `recording` start afresh each time.

    python benchmarks/lower_once.py tinylab conv_adam [record]

Prints a line of JSON: seconds of processor time to build the lazy tensors and from them to rendered
source, seconds by the clock, kernels, peak memory in MB. Run by path, not with -m, so that
interpreters with other libraries can.
"""

import gc
import importlib
import json
import os
import sys
import time
from contextlib import nullcontext

# One process, nothing kept on disk, nothing run.
os.environ.update(DEV="NULL", CCACHE="0", CACHELEVEL="0", PARALLEL="0")


def main(library: str, model: str, record: str = "") -> None:
    """Lower one model and print what it took."""
    from memory import peak_mb
    from models import MODELS

    lib = importlib.import_module(library)
    importlib.import_module(f"{library}.nn")
    watch = lib.record() if record else nullcontext()
    gc.collect()
    with watch:
        # Processor time: one thread does all, and others may use the machine.
        clock, start = time.perf_counter(), time.process_time()
        tensors = MODELS[model](lib)
        built = time.process_time()
        lib.Tensor.realize(*tensors)
        end, clock_end = time.process_time(), time.perf_counter()
    facts = {
        "build_s": built - start,
        "lower_s": end - built,
        "clock_s": clock_end - clock,
        "kernels": lib.GlobalCounters.kernel_count,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])

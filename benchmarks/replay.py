"""Kernels of the benchmark models, from one revision to the next.

    python -m benchmarks.replay record FILE    # on the revision to compare with
    tinylab replay FILE                        # on this one

Nothing runs: the device only compiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tinylab
from benchmarks.models import MODELS
from tinylab import Context
from tinylab.engine.process_replay import capturing_kernels


def record(path: Path) -> int:
    """Write the kernels of every model to a file; how many there are."""
    path.unlink(missing_ok=True)
    with capturing_kernels(path), Context(DEV="NULL", TRAINING=1):
        for model in MODELS.values():
            tensors = model(tinylab)
            tensors[0].realize(*tensors[1:])
    return len(path.read_text().splitlines())


def main(arguments: list[str]) -> int:
    """Record, as the words say."""
    if len(arguments) != 2 or arguments[0] != "record":
        print(__doc__)
        return 2
    print(f"{record(Path(arguments[1]))} kernels in {arguments[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

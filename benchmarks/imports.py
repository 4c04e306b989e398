"""Import time, each in a fresh process."""

from __future__ import annotations

import statistics
import sys

from benchmarks import harness


def _seconds(python: str, statement: str) -> float:
    found = harness.run_json(python, "import_once.py", statement)
    return float(found["seconds"])


def run(rounds: int = 11) -> None:
    """`import tinylab`, the same with Tensor, and tinygrad's import, which loads its Tensor."""
    subjects = {
        "import tinylab": lambda: _seconds(sys.executable, "import tinylab"),
        "from tinylab import Tensor": lambda: _seconds(
            sys.executable, "from tinylab import Tensor"
        ),
    }
    other, reason = harness.interpreter("tinygrad")
    if other is not None:
        subjects["import tinygrad"] = lambda: _seconds(other, "import tinygrad")
    times = harness.by_turns(subjects, rounds)
    base = times.get("import tinygrad")
    rows = [
        [
            name,
            harness.shown_time(statistics.median(found)),
            "" if base is None else f"{harness.ratio(base, found)[0]:.2f} x",
        ]
        for name, found in times.items()
    ]
    harness.table("import", ["statement", "median", "of import tinygrad"], rows)
    if other is None:
        print(f"\n(no tinygrad row: {reason})")

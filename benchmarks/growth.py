"""What stays in memory of loops of thousands of steps: only what caches hold, up to a limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import harness

STEPS = {"constants": 4000, "shapes": 1200, "training": 2000, "jit": 4000, "captures": 1500}
STEPS["writes"] = 4000


def measured(name: str, steps: int) -> list[float]:
    """The memory of a fresh process in MB, at the start of a loop and after each quarter."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth_loops", name, str(steps)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run() -> None:
    """Each loop in a process of its own."""
    rows = []
    for name, steps in STEPS.items():
        mb = measured(name, steps)
        last = (mb[4] - mb[2]) * 1024 / (steps / 2)
        rows.append([name, str(steps), *(f"{x:.0f} MB" for x in mb), f"{last:.2f} kB"])
    columns = ["loop", "steps", "start", "1/4", "1/2", "3/4", "end", "a step of the second half"]
    harness.table("memory of long loops", columns, rows)

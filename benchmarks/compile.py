"""From lazy tensors to rendered source on the NULL device, cold: a fresh process for each model."""

from __future__ import annotations

import statistics
import sys
from typing import Any

from benchmarks import harness
from benchmarks.models import MODELS


def lower(library: str, python: str, model: str, *more: str) -> dict[str, Any]:
    """The facts of one lowering in a fresh process."""
    found: dict[str, Any] = harness.run_json(python, "lower_once.py", library, model, *more)
    return found


def run(rounds: int = 5) -> None:
    """tinylab beside tinygrad, every model."""
    other, reason = harness.interpreter("tinygrad")
    rows = []
    for model in MODELS:
        facts: dict[str, list[dict[str, Any]]] = {"tinylab": [], "tinygrad": []}

        def once(library: str, python: str, model: str = model, facts: Any = facts) -> float:
            facts[library].append(lower(library, python, model))
            return float(facts[library][-1]["build_s"] + facts[library][-1]["lower_s"])

        subjects = {"tinylab": lambda once=once: once("tinylab", sys.executable)}
        if other is not None:
            subjects["tinygrad"] = lambda once=once, other=other: once("tinygrad", other)
        times = harness.by_turns(subjects, rounds)
        ours = facts["tinylab"]
        row = [
            model,
            harness.shown_time(statistics.median(times["tinylab"])),
            f"{1e3 * statistics.median(f['build_s'] for f in ours):.1f} ms",
            ours[0]["kernels"],
        ]
        if other is not None:
            row += [
                harness.shown_time(statistics.median(times["tinygrad"])),
                facts["tinygrad"][0]["kernels"],
                harness.shown_ratio(times["tinylab"], times["tinygrad"]),
            ]
        rows.append(row)
    head = ["model", "tinylab", "of that, building", "kernels"]
    if other is not None:
        head += ["tinygrad", "kernels", "tinygrad / tinylab"]
    harness.table("lazy Tensor to rendered source, NULL device, cold", head, rows)
    if other is None:
        print(f"\n(no tinygrad column: {reason})")

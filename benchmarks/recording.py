"""What recording costs: the same lowering with and without someone who listens; and the file."""

from __future__ import annotations

import statistics
import sys

from benchmarks import harness
from benchmarks.compile import lower
from benchmarks.models import MODELS


def run(rounds: int = 5) -> None:
    """Time and peak memory of each model, recorded and not."""
    rows = []
    for model in MODELS:
        peaks: dict[str, list[float]] = {"": [], "record": []}

        def once(how: str, model: str = model, peaks: dict[str, list[float]] = peaks) -> float:
            facts = lower("tinylab", sys.executable, model, *([how] if how else []))
            peaks[how].append(facts["peak_mb"])
            return float(facts["build_s"] + facts["lower_s"])

        times = harness.by_turns(
            {"": lambda once=once: once(""), "record": lambda once=once: once("record")}, rounds
        )
        apart, recorded = (statistics.median(peaks[how]) for how in ("", "record"))
        rows.append(
            [
                model,
                harness.shown_time(statistics.median(times[""])),
                harness.shown_time(statistics.median(times["record"])),
                harness.shown_ratio(times[""], times["record"]),
                f"{apart:.1f} MB",
                f"{recorded:.1f} MB",
                f"{recorded / apart:.2f} x",
            ]
        )
    head = ["model", "unrecorded", "recorded", "time", "peak", "peak recorded", "memory"]
    harness.table("recording (time, process peak)", head, rows)

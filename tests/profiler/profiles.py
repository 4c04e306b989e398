"""Tables of events for tests: made by hand, and at random."""

from __future__ import annotations

import numpy as np

from tinylab.profiler.collected import Profile
from tinylab.profiler.table import KIND, EventTable, Lane

# N17 of the notebook cases: overlapping events, and begins and ends that lack their partner.
OVERLAPPING = [
    {"name": "outer", "ph": "X", "ts": 0, "dur": 100, "pid": 1, "tid": 1},
    {"name": "late", "ph": "X", "ts": 60, "dur": 80, "pid": 1, "tid": 1},
    {"name": "begin", "ph": "B", "ts": 0, "pid": 1, "tid": 2},
    {"name": "whole", "ph": "X", "ts": 0, "dur": 50, "pid": 1, "tid": 2},
    {"ph": "E", "ts": 50, "pid": 1, "tid": 2},
    {"ph": "E", "ts": 70, "pid": 1, "tid": 2},
    {"name": "open", "ph": "B", "ts": 200, "pid": 1, "tid": 2},
]


def table(
    spans: list[tuple[int, str, int, int]], lanes: int = 1, kind: str = "run", **more: object
) -> EventTable:
    """Events (lane, name, start, end) as a table that begins at 0."""
    names = list(dict.fromkeys(name for _, name, _, _ in spans))
    columns = {
        "lane": [lane for lane, *_ in spans],
        "kind": [KIND[kind]] * len(spans),
        "name": [names.index(name) for _, name, _, _ in spans],
        "start": [start for *_, start, _ in spans],
        "end": [end for *_, end in spans],
        "value": [0.0] * len(spans),
        "kernel": [-1] * len(spans),
    }
    made = [Lane(f"lane {i}", "device") for i in range(lanes)]
    return EventTable.build(made, names, columns, 0)


def profile(spans: list[tuple[int, str, int, int]], lanes: int = 1) -> Profile:
    return Profile("by hand", table=table(spans, lanes))


def levels(points: list[tuple[int, float]]) -> EventTable:
    """A lane of levels."""
    at = [time for time, _ in points]
    columns = {
        "lane": [0] * len(at),
        "kind": [KIND["memory"]] * len(at),
        "name": [0] * len(at),
        "start": at,
        "end": at,
        "value": [level for _, level in points],
        "kernel": [-1] * len(at),
    }
    return EventTable.build([Lane("memory", "memory", True, "B")], ["memory"], columns, 0)


def many(count: int, lanes: int, seed: int = 0) -> EventTable:
    """Events at random that do not overlap in their lane."""
    rng = np.random.default_rng(seed)
    lane = np.sort(rng.integers(0, lanes, count))
    length, gap = rng.integers(1, 2000, count), rng.integers(0, 1000, count)
    start = np.cumsum(length + gap) - length
    start -= start[np.searchsorted(lane, lane)]
    columns = {
        "lane": lane,
        "kind": np.full(count, KIND["run"]),
        "name": rng.integers(0, 50, count),
        "start": start,
        "end": start + length,
        "value": np.zeros(count),
        "kernel": np.full(count, -1),
    }
    made = [Lane(f"lane {i}", "device") for i in range(lanes)]
    return EventTable.build(made, [f"r_{i}" for i in range(50)], columns, 0)

"""What a canvas draws of a trace: which lanes there are, and one window of them as columns.

Lanes have numbers: below 256 wave slots of the traced unit, from 256 on execution units, then one
for instructions of other SIMDs, and from WAVE_LANE on every place where a wave may live.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinylab.profiler import view
from tinylab.profiler.sqtt.categories import CATEGORIES, categories
from tinylab.profiler.sqtt.events import FOREIGN, is_instruction
from tinylab.profiler.sqtt.execution import UNITS
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.packets import ALU_SOURCES, MEM_UNITS
from tinylab.profiler.sqtt.stats import class_name, class_of
from tinylab.profiler.sqtt.trace import DETAIL_CHUNKS, Trace

UNIT_LANE = 256
OTHER_LANE = UNIT_LANE + len(UNITS)
WAVE_LANE = 1 << 24
WAVE_COLOUR = len(CATEGORIES)  # colours below are categories
_MOST_SPANS = 120_000
_SECOND = "VALU_SALU"

Arrays = view.Arrays


# *** which lanes there are


def lanes(trace: Trace) -> dict[str, Any]:
    """The lanes of what has been read so far.

    "slots" and "units" are those with instructions, "other" whether other SIMDs have any, "waves"
    a column of numbers as in `view.wave_lanes`, "place" the names of their parts.
    """
    return {
        "slots": _slots(trace),
        "units": [name for name in UNITS if name in _units(trace)],
        "other": _has_foreign(trace),
        "place": list(trace.table.place),
        "waves": np.unique(trace.waves().lane).astype(np.uint32),
    }


def _slots(trace: Trace) -> list[int]:
    seen = np.zeros(256, bool)
    for first in trace.firsts:
        seen |= first.time >= 0
    return [int(slot) for slot in np.flatnonzero(seen)]


def _units(trace: Trace) -> set[str]:
    found: set[str] = set()
    for kind, names in (("ALUEXEC", ALU_SOURCES), ("VMEMEXEC", MEM_UNITS)):
        for number in np.flatnonzero(trace.facts.exec_counts[kind]):
            name = names[int(number)]
            found |= set(name.split("_")) if name == _SECOND else {name}
    return found


def _has_foreign(trace: Trace) -> bool:
    foreign = categories(trace.table) == CATEGORIES.index("other SIMD")
    return any(bool(row[foreign].any()) for row in trace.activity)


def class_names(trace: Trace) -> dict[int, str]:
    """Names of the classes that occur, by the number that windows use."""
    total = np.sum(trace.activity, axis=0) if trace.activity else np.zeros(0)
    return {int(n): class_name(trace.table, int(n)) for n in np.flatnonzero(total)}


# *** a window


def lane_window(
    trace: Trace,
    start: int,
    end: int,
    columns: int = 2000,
    keys: Sequence[int] | None = None,
    mark: int | None = None,
) -> dict[str, Any]:
    """All bars of some lanes in a window, sorted by lane, then start; all lanes by default.

    "columns": ``lane``, ``start``, ``length``, ``wait`` (cycles at its start that the wave stood
    still; the rest is work), ``colour`` (category, or WAVE_COLOUR), ``op``, ``number`` (of the
    instruction; of a wave, its threads), ``stall``, ``count`` and, if an instruction is to be
    marked, ``marked``.
    "level" is "detail", or "density" where a window is too wide for instructions: slots show their
    waves then. "exact" says that nothing was merged.
    """
    detailed = len(trace.chunks_of(start, end)) <= DETAIL_CHUNKS
    own = None if keys is None else {k for k in keys if k < WAVE_LANE}
    bars = [_wave_bars(trace, start, end, keys)]
    if detailed:
        bars.insert(0, _instruction_bars(trace, start, end, own, mark))
    else:
        bars.insert(0, _slot_waves(trace, start, end, own))
    every = {name: np.concatenate([b[name] for b in bars]) for name in bars[0]}
    picture = _merged(every, start, end, columns)
    while len(picture["lane"]) > _MOST_SPANS and columns > 64:
        columns //= 2
        picture = _merged(every, start, end, columns)
    if mark is None:
        picture.pop("marked")
    return {
        "level": "detail" if detailed else "density",
        "exact": detailed and not bool((picture["count"] > 1).any()),
        "columns": picture,
    }


@dataclass
class Groups:
    """Groups of rows: the first row of each, and how many it has."""

    first: Array
    count: Array


def merge(
    lane: Array, start: Array, end: Array, window_start: int, window_end: int, columns: int
) -> Groups:
    """Groups rows of one lane that lie in one column; rows are sorted by lane, then start.

    Bars longer than a column stay single.
    """
    n = len(lane)
    width = max(window_end - window_start, 1)
    column = (np.clip(start, window_start, window_end) - window_start) * columns // width
    short = (end - start) * columns < width
    joined = np.zeros(n, bool)
    if n > 1:
        joined[1:] = (lane[1:] == lane[:-1]) & (column[1:] == column[:-1]) & short[1:] & short[:-1]
    bounds = np.flatnonzero(~joined)
    count = np.diff(bounds, append=n).astype(np.uint32)
    return Groups(bounds, count)


def _merged(bars: Arrays, start: int, end: int, columns: int) -> Arrays:
    first, last = bars["start"], bars["end"]
    groups = merge(bars["lane"], first, last, start, end, columns)
    at = groups.first
    if not len(at):
        last, marked = last[:0], bars["marked"][:0]
    else:
        last = np.maximum.reduceat(last, groups.first)
        marked = np.logical_or.reduceat(bars["marked"], groups.first)
    length = np.maximum(last - first[at], 0)
    wait = np.where(groups.count > 1, 0, np.minimum(bars["wait"][at], length))
    wide = np.float64 if len(length) and length.max() >= 1 << 32 else np.uint32
    return {
        "lane": bars["lane"][at].astype(np.uint32),
        "start": first[at],
        "length": length.astype(wide),
        "wait": wait.astype(wide),
        "colour": bars["colour"][at].astype(np.uint8),
        "op": bars["op"][at].astype(np.int16),
        "number": bars["number"][at].astype(np.int32),
        "stall": np.minimum(bars["stall"][at], (1 << 32) - 1).astype(np.uint32),
        "count": groups.count,
        "marked": marked.astype(np.uint8),
    }


def _wave_bars(trace: Trace, start: int, end: int, keys: Sequence[int] | None) -> Arrays:
    waves = trace.waves()
    wanted = None if keys is None else [k - WAVE_LANE for k in keys if k >= WAVE_LANE]
    return _bars_of_waves(trace, start, end, WAVE_LANE + waves.lane, wanted, waves.lane)


def _slot_waves(trace: Trace, start: int, end: int, keys: Collection[int] | None) -> Arrays:
    """Waves of the traced unit in the lanes of their slots, where instructions are too many."""
    waves = trace.waves()
    slot = waves.slot + (0 if trace.table.rdna else 16 * waves.simd)
    traced = (waves.array == 0) & (waves.unit == 0)
    if trace.table.rdna:
        traced &= waves.simd == 0
    lane = np.where(traced, slot, -1)
    wanted = range(UNIT_LANE) if keys is None else keys
    return _bars_of_waves(trace, start, end, lane, [k for k in wanted if k < UNIT_LANE], lane)


def _bars_of_waves(
    trace: Trace, start: int, end: int, lane: Array, wanted: Sequence[int] | None, key: Array
) -> Arrays:
    waves = trace.waves()
    ends = np.where(waves.closed, waves.end, trace.end_time)
    inside = (waves.start < end) & (ends >= start)
    if wanted is not None:
        inside &= np.isin(key, np.array(wanted, np.int64))
    rows = waves.by_lane[inside[waves.by_lane]]
    none = np.full(len(rows), -1, np.int64)
    return {
        "lane": lane[rows].astype(np.int64),
        "start": waves.start[rows],
        "end": ends[rows],
        "wait": np.zeros(len(rows), np.int64),
        "colour": np.full(len(rows), WAVE_COLOUR, np.int64),
        "op": none,
        "number": waves.threads[rows].astype(np.int64),
        "stall": np.zeros(len(rows), np.int64),
        "marked": np.zeros(len(rows), bool),
    }


def _instruction_bars(
    trace: Trace, start: int, end: int, keys: Collection[int] | None, mark: int | None
) -> Arrays:
    """A wave's bar begins where it stood still for the event; a unit's where it began to work."""
    found = view.detail(trace, start, end)
    real = np.flatnonzero(is_instruction(found.events))
    execs = UNIT_LANE + found.exec_unit.astype(np.int64)
    row = np.concatenate([real, found.exec_issue])
    wait = np.concatenate([_waits(found)[real], np.zeros(len(execs), np.int64)])
    bars = {
        "lane": np.concatenate([lanes_of(found)[real], execs]),
        "start": np.concatenate([(found.events.time - found.stall)[real], found.exec_start]),
        "end": np.concatenate([ends_of(found)[real], found.exec_end]),
        "wait": wait,
        **_what(trace, found, row),
    }
    bars["marked"] = np.zeros(len(row), bool) if mark is None else bars["number"] == mark
    inside = (bars["start"] < end) & (bars["end"] > start)
    if keys is not None:
        inside &= np.isin(bars["lane"], np.array(sorted(keys), np.int64))
    picked = np.flatnonzero(inside)
    order = picked[np.lexsort((bars["start"][picked], bars["lane"][picked]))]
    return {name: column[order] for name, column in bars.items()}


def lanes_of(found: view.Detail) -> Array:
    """The lane of each event: its slot, or that of all other SIMDs."""
    slots = found.events.slot.astype(np.int64)
    return np.where(found.events.action == FOREIGN, OTHER_LANE, slots)


def ends_of(found: view.Detail) -> Array:
    """Where bars end: when the class has done its work; a barrier's when the wave is ready."""
    ends = found.events.time + np.maximum(found.busy, 1)
    rows, ready = view.barrier_ends(found)
    ends[rows] = np.maximum(ready, found.events.time[rows] + 1)
    return ends


def _waits(found: view.Detail) -> Array:
    """How much of each bar is waiting; a barrier is nothing else."""
    rows, ready = view.barrier_ends(found)
    waits = found.stall.copy()
    waits[rows] += np.maximum(ready - found.events.time[rows], 1)
    return waits


def _what(trace: Trace, found: view.Detail, row: Array) -> Arrays:
    """What the event of each bar is; executions that nothing was found for have none (row -1)."""
    known = row >= 0
    if not len(found.events):
        row, known = np.zeros(0, np.int64), np.zeros(0, bool)
    row = np.maximum(row, 0)
    kind = class_of(found.events)[row]
    numbers = trace.program.numbers(found.pcs) if trace.program else found.pcs
    return {
        "colour": np.where(known, categories(trace.table)[kind], len(CATEGORIES) - 1),
        "op": np.where(known, kind, -1),
        "number": np.where(known, numbers[row] if trace.program else -1, -1),
        "stall": np.where(known, found.stall[row], 0),
    }


# *** curves


def activity_window(trace: Trace, start: int, end: int, columns: int = 500) -> Array:
    """Instructions a cycle by category: (columns, categories), of all slots together."""
    chunks = trace.chunks_of(start, end)
    edges = np.linspace(start, end, columns + 1)
    if len(chunks) > DETAIL_CHUNKS:
        counts = _spread(trace, start, end, edges)
    else:
        counts = _counted(trace, start, end, columns)
    return (counts / max((end - start) / columns, 1e-9)).astype(np.float32)


def _counted(trace: Trace, start: int, end: int, columns: int) -> Array:
    found = view.detail(trace, start, end)
    events = found.events
    inside = (events.time >= start) & (events.time < end)
    rows = np.flatnonzero(found.own & is_instruction(events) & inside)
    column = (events.time[rows] - start) * columns // max(end - start, 1)
    category = categories(trace.table)[class_of(events)[rows]].astype(np.int64)
    size = columns * len(CATEGORIES)
    flat = np.bincount(column * len(CATEGORIES) + category, minlength=size)
    return flat.reshape(columns, len(CATEGORIES)).astype(np.float64)


def _spread(trace: Trace, start: int, end: int, edges: Array) -> Array:
    found = view.density(trace, start, end)
    times = np.append(found["start"], found["end"][-1:])
    times = np.maximum.accumulate(times)
    sums = np.concatenate([np.zeros((1, len(CATEGORIES))), np.cumsum(found["counts"], axis=0)])
    columns = [np.diff(np.interp(edges, times, sums[:, c])) for c in range(len(CATEGORIES))]
    return np.stack(columns, axis=1)

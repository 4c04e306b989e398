"""What a canvas draws of a trace: which lanes there are, and one window of them as columns.

Lanes have numbers: below 256 wave slots of the traced unit, from 256 on execution units, then one
for instructions of other SIMDs, and from WAVE_LANE on every place where a wave may live.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from tinylab.profiler.sqtt.wave_lanes import Bars, groups

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
    a column of numbers (array << 16, unit << 12, SIMD << 8, slot), "place" what these are called.
    """
    return {
        "slots": _slots(trace),
        "units": [name for name in UNITS if name in _units(trace)],
        "other": _has_foreign(trace),
        "place": list(trace.table.place),
        "waves": trace.seen.lanes.lanes.astype(np.uint32),
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
    step = (end - start) / columns
    if detailed:
        bars = [_instruction_bars(trace, start, end, own, mark)]
    else:
        bars = [_slot_waves(trace, start, end, step, own)]
    bars.append(_wave_bars(trace, start, end, step, keys))
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


def _merged(bars: Arrays, start: int, end: int, columns: int) -> Arrays:
    first, last = bars["start"], bars["end"]
    at = groups(bars["lane"], first, last, start, (end - start) / columns)
    if len(at):
        last = np.maximum.reduceat(last, at)
        marked = np.logical_or.reduceat(bars["marked"], at)
        count = np.add.reduceat(bars["count"], at)
    else:
        marked, count = bars["marked"], bars["count"]
    length = np.maximum(last - first[at], 0)
    wait = np.where(count > 1, 0, np.minimum(bars["wait"][at], length))
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
        "count": count.astype(np.uint32),
        "marked": marked.astype(np.uint8),
    }


def _wave_bars(
    trace: Trace, start: int, end: int, step: float, keys: Sequence[int] | None
) -> Arrays:
    wanted = None if keys is None else [k - WAVE_LANE for k in keys if k >= WAVE_LANE]
    bars = trace.seen.lanes.window(start, end, step, wanted)
    return _columns_of(bars, WAVE_LANE + bars.lane)


def _slot_waves(
    trace: Trace, start: int, end: int, step: float, keys: Collection[int] | None
) -> Arrays:
    """Waves of the traced unit in the lanes of their slots, where instructions are too many."""
    slots = range(UNIT_LANE) if keys is None else sorted(k for k in keys if k < UNIT_LANE)
    lanes = {_lane_of_slot(trace, slot): slot for slot in slots}
    bars = trace.seen.lanes.window(start, end, step, list(lanes))
    slot = np.array([lanes[int(lane)] for lane in bars.lane], np.int64)
    return _columns_of(bars, slot)


def _lane_of_slot(trace: Trace, slot: int) -> int:
    """The place of a wave in a slot of the traced unit: array 0, unit 0; on RDNA SIMD 0 too."""
    return slot if trace.table.rdna else slot >> 4 << 8 | slot & 15


def _columns_of(bars: Bars, lane: Array) -> Arrays:
    size = len(bars)
    return {
        "lane": lane.astype(np.int64),
        "start": bars.start,
        "end": bars.end,
        "wait": np.zeros(size, np.int64),
        "colour": np.full(size, WAVE_COLOUR, np.int64),
        "op": np.full(size, -1, np.int64),
        "number": bars.threads.astype(np.int64),
        "stall": np.zeros(size, np.int64),
        "marked": np.zeros(size, bool),
        "count": bars.count,
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
    bars["count"] = np.ones(len(row), np.uint32)
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
    if not len(found.events):
        none = np.full(len(row), -1, np.int64)
        colour = np.full(len(row), len(CATEGORIES) - 1)
        return {"colour": colour, "op": none, "number": none, "stall": np.zeros_like(none)}
    known = row >= 0
    row = np.maximum(row, 0)
    kind = class_of(found.events)[row]
    numbers = trace.program.numbers(found.pcs) if trace.program else found.pcs
    return {
        "colour": np.where(known, _category(trace, found)[row], len(CATEGORIES) - 1),
        "op": np.where(known, kind, -1),
        "number": np.where(known, numbers[row] if trace.program else -1, -1),
        "stall": np.where(known, found.stall[row], 0),
    }


def _category(trace: Trace, found: view.Detail) -> Array:
    """The category of each event: of its class, but the end of a program whatever its class."""
    kinds: Array = categories(trace.table)[class_of(found.events)]
    if trace.program is None:
        return kinds
    numbers = trace.program.numbers(found.pcs)
    ends = (numbers >= 0) & trace.program.ends[np.maximum(numbers, 0)]
    return np.where(ends, CATEGORIES.index("end"), kinds)


def used_categories(trace: Trace) -> list[int]:
    """The categories that occur."""
    by_class = categories(trace.table)
    found = {int(by_class[number]) for number in class_names(trace)}
    if trace.mapped and trace.program is not None and trace.program.ends.any():
        found.add(CATEGORIES.index("end"))
    return sorted(found)


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
    category = _category(trace, found)[rows].astype(np.int64)
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

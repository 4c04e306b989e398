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
from tinylab.profiler.sqtt.execution import UNITS, cycles_by_op
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.packets import ALU_SOURCES, MEM_UNITS
from tinylab.profiler.sqtt.stats import class_name, class_of
from tinylab.profiler.sqtt.trace import DETAIL_CHUNKS, Trace

OTHER_LANE = view.UNIT_LANE + len(UNITS)
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

    "columns": ``lane``, ``start``, ``length``, ``busy`` (cycles of work at its start; the rest is
    waiting), ``colour`` (category, or WAVE_COLOUR), ``op``, ``number`` (of the instruction; of a
    wave, its threads), ``stall``, ``count`` and, if an instruction is to be marked, ``marked``.
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


def _merged(bars: Arrays, start: int, end: int, columns: int) -> Arrays:
    first, last = bars["start"], bars["end"]
    groups = view.merge(bars["lane"], first, last, start, end, columns)
    at = groups.first
    if not len(at):
        last, marked = last[:0], bars["marked"][:0]
    else:
        last = np.maximum.reduceat(last, groups.bounds)
        marked = np.logical_or.reduceat(bars["marked"], groups.bounds)
    length = np.maximum(last - first[at], 0)
    busy = np.where(groups.count > 1, length, np.minimum(bars["busy"][at], length))
    wide = np.float64 if len(length) and length.max() >= 1 << 32 else np.uint32
    return {
        "lane": bars["lane"][at].astype(np.uint32),
        "start": first[at],
        "length": length.astype(wide),
        "busy": busy.astype(wide),
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
    wanted = range(view.UNIT_LANE) if keys is None else keys
    return _bars_of_waves(trace, start, end, lane, [k for k in wanted if k < view.UNIT_LANE], lane)


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
        "busy": np.maximum(ends[rows] - waves.start[rows], 0),
        "colour": np.full(len(rows), WAVE_COLOUR, np.int64),
        "op": none,
        "number": waves.threads[rows].astype(np.int64),
        "stall": np.zeros(len(rows), np.int64),
        "marked": np.zeros(len(rows), bool),
    }


def _instruction_bars(
    trace: Trace, start: int, end: int, keys: Collection[int] | None, mark: int | None
) -> Arrays:
    found = view.detail(trace, start, end)
    lane, first, last, row = view.bars(found)
    known, rows = row >= 0, np.maximum(row, 0)
    some = len(found.events) > 0
    kind = class_of(found.events)[rows] if some else rows
    lane = np.where((lane < view.UNIT_LANE) & _foreign(found, rows), OTHER_LANE, lane)
    busy = _busy(trace, found, lane, last - first, rows)
    last = np.where(lane < view.UNIT_LANE, _wait_ends(trace, found, rows, last), last)
    colour = np.where(known, categories(trace.table)[kind], len(CATEGORIES) - 1)
    busy = np.where(np.isin(colour, _WAITS) & (lane < view.UNIT_LANE), 0, busy)
    numbers = trace.program.numbers(found.pcs) if trace.program else found.pcs
    number = np.where(known, numbers[rows] if some else -1, -1)
    inside = (first < end) & (last > start)
    if keys is not None:
        inside &= np.isin(lane, np.array(sorted(keys), np.int64))
    picked = np.flatnonzero(inside)
    order = picked[np.lexsort((first[picked], lane[picked]))]
    marked = np.zeros(len(row), bool) if mark is None else number == mark
    bars = {
        "lane": lane,
        "start": first,
        "end": last,
        "busy": busy,
        "colour": colour,
        "op": np.where(known, kind, -1),
        "number": number,
        "stall": np.where(known, found.stall[rows] if some else 0, 0),
        "marked": marked,
    }
    return {name: column[order] for name, column in bars.items()}


_WAITS = (CATEGORIES.index("wait"), CATEGORIES.index("barrier"))


def _foreign(found: view.Detail, rows: Array) -> Array:
    if not len(found.events):
        return np.zeros(len(rows), bool)
    foreign: Array = found.events.action[rows] == FOREIGN
    return foreign


def _busy(trace: Trace, found: view.Detail, lane: Array, length: Array, rows: Array) -> Array:
    """How much of each bar its class needs; a wave stands still for the rest of it."""
    if not len(found.events):
        return length
    needed = cycles_by_op(trace.table)[found.events.op[rows]]
    return np.where(lane < view.UNIT_LANE, np.minimum(needed, length), length)


def _wait_ends(trace: Trace, found: view.Detail, rows: Array, last: Array) -> Array:
    """Ends of bars, those of barriers where the wave was ready again."""
    if not len(found.events):
        return last
    barrier, ends = view.barrier_ends(trace, found)
    moved = np.full(len(found.events), -1, np.int64)
    moved[barrier] = ends
    return np.where(moved[rows] >= 0, moved[rows], last)


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
    real = is_instruction(events) & (events.time >= start) & (events.time < end)
    rows = np.flatnonzero(real)
    if len(rows):
        # Events that were handed on from earlier chunks are here only for what executes them.
        rows = rows[
            events.packet[rows] >= trace.states[trace.chunks_of(start, end).start].cursor.position
        ]
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

"""What a timeline shows of a window of time, at any zoom, out of millions of events.

Each lane is parted into rows in which no two events overlap. In a row the events of a column of
pixels are two binary searches, the time that they take is a difference of running sums, and the
longest of them comes from a pyramid of blocks: a window costs the same at any zoom.

    timeline = Timeline(table)
    timeline.window(0, 1_000_000, 1200, lanes=[2, 3])   # columns of bars, see `Bars`
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tinylab.profiler.table import Array, EventTable

MOST_COLUMNS = 8192
MOST_ROWS = 128  # of one lane: what is nested deeper shares the last one
MOST_BYTES = 950_000  # of a window's bars
_BLOCK = 16
_FEW = 1 << 17  # events of a window that are looked at one by one
BAR_BYTES = 32  # as a front end gets them


class Row:
    """The events of a lane that are drawn in one row: sorted, none overlaps the next."""

    def __init__(self, events: Array, start: Array, end: Array) -> None:
        self.events, self.start = events, start
        # In the row that holds all deeper ones ends may come in any order.
        self.end = np.maximum.accumulate(end) if len(end) else end
        self.length = end - start
        self.sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.length)])
        # Length and number of each event in one integer: the largest of a range is its longest.
        self._bits = max(1, len(events).bit_length())
        most = int(self.length.max()) if len(events) else 0
        spare = max(0, most.bit_length() + self._bits - 63)
        self._keys = (self.length >> spare << self._bits) | np.arange(len(events))
        whole = len(events) // _BLOCK * _BLOCK
        self._blocks = self._keys[:whole].reshape(-1, _BLOCK).max(1)

    def inside(self, start: int, end: int) -> tuple[int, int]:
        """The first and last+1 of the events that touch a stretch of time, with those at its start.

        Moments, which end as they begin, are also at its end: a picture of all shows the last one.
        """
        first = int(np.searchsorted(self.end, start, "right"))
        first = min(first, int(np.searchsorted(self.start, start, "left")))
        last = int(np.searchsorted(self.start, end, "left"))
        while last < len(self.start) and self.start[last] == self.end[last] == end:
            last += 1
        return min(first, last), last

    def longest(self, first: Array, last: Array) -> Array:
        """The number of the longest event of each range first..last.

        Ranges follow one another without overlap, and none is empty. Lengths are told apart to the
        nanosecond, unless a row of millions of events holds one of more than some minutes.
        """
        if int(last[-1] - first[0]) <= _FEW:
            best = _most(self._keys, first, last)
        else:
            best = self._most_by_blocks(first, last)
        found: Array = best & ((1 << self._bits) - 1)
        return found

    def _most_by_blocks(self, first: Array, last: Array) -> Array:
        """The largest key of each range: its ends event by event, the rest block by block."""
        steps = np.arange(_BLOCK)
        left = np.minimum(first[:, None] + steps, last[:, None] - 1)
        right = np.maximum(last[:, None] - 1 - steps, first[:, None])
        best: Array = np.maximum(self._keys[left].max(1), self._keys[right].max(1))
        low, high = -(-first // _BLOCK), last // _BLOCK
        inner = np.flatnonzero(high > low)
        if len(inner):
            best[inner] = np.maximum(best[inner], _most(self._blocks, low[inner], high[inner]))
        return best


def _most(values: Array, first: Array, last: Array) -> Array:
    """The largest value of each range; ranges follow one another, and none is empty."""
    base, end = int(first[0]), int(last[-1])
    cuts = np.stack([first, last], 1).ravel() - base
    # The last range ends where the part does: that is no place to cut.
    found: Array = np.maximum.reduceat(values[base:end], cuts[:-1])[::2]
    return found


@dataclass(frozen=True)
class Bars:
    """Bars of one row, columns of equal length, from left to right.

    start, end in the table's time: of an event where it truly is, of several from the first start
    to the last end; event, the row in the table (of several: the longest); count, how many events
    the bar stands for; busy, how much of the bar they fill, 0 to 255.
    """

    start: Array
    end: Array
    event: Array
    count: Array
    busy: Array

    def __len__(self) -> int:
        return len(self.start)


@dataclass
class LaneRows:
    """A lane as it is drawn; overlapping: events that begin inside another and end after it."""

    rows: list[Row]
    overlapping: int = 0


def rows_of(start: Array, end: Array) -> tuple[Array, int]:
    """The row of each event (sorted by start, longest first), and how many overlap unnested.

    Nested events stand below what is around them; what overlaps otherwise goes to the first row
    that is free.
    """
    count = len(start)
    if not count:
        return np.zeros(0, np.int64), 0
    until = np.maximum(end, start + 1)
    if (start[1:] >= until[:-1]).all():
        return np.zeros(count, np.int64), 0
    depth = np.arange(count) - np.searchsorted(np.sort(until), start, "right")
    order = np.argsort(depth, kind="stable")
    same = depth[order][1:] == depth[order][:-1]
    clash = same & (start[order][1:] < until[order][:-1])
    if not clash.any():
        crossing = _crossing(depth, until, order)
        if not crossing:
            return np.minimum(depth, MOST_ROWS - 1), 0
    return _first_free(start, until), _overlapping(start, until)


def _crossing(depth: Array, until: Array, order: Array) -> int:
    """How many events end after the event that they are drawn in."""
    found, last_end = 0, np.zeros(len(depth), np.int64)
    levels = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    for level in range(1, len(levels) - 1):
        own = order[levels[level] : levels[level + 1]]
        above = order[levels[level - 1] : levels[level]]
        around = above[np.searchsorted(above, own) - 1]
        last_end = until[around]
        found += int((until[own] > last_end).sum())
    return found


def _first_free(start: Array, until: Array) -> Array:
    """The first row that is free, event by event; clusters that touch nobody begin anew."""
    reach = np.maximum.accumulate(until)
    alone = np.ones(len(start), bool)
    alone[1:] = start[1:] >= reach[:-1]
    firsts = np.flatnonzero(alone)
    sizes = np.diff(np.append(firsts, len(start)))
    rows = np.zeros(len(start), np.int64)
    for first, size in zip(firsts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        begins, ends = start[first : first + size].tolist(), until[first : first + size].tolist()
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        used = 0
        for i in range(size):
            while busy and busy[0][0] <= begins[i]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                row = heapq.heappop(free)
            else:
                row, used = used, used + 1
            rows[first + i] = row
            heapq.heappush(busy, (ends[i], row))
    return np.minimum(rows, MOST_ROWS - 1)


def _overlapping(start: Array, until: Array) -> int:
    """How many events begin inside another one and end after it."""
    found = 0
    stack: list[int] = []
    for begin, end in zip(start.tolist(), until.tolist(), strict=True):
        while stack and stack[-1] <= begin:
            stack.pop()
        found += bool(stack) and end > stack[-1]
        stack.append(end)
    return found


class Timeline:
    """Windows onto a table of events."""

    def __init__(self, table: EventTable) -> None:
        self.table = table
        self._lanes: dict[int, LaneRows] = {}
        self._lock = threading.Lock()

    def lane(self, lane: int) -> LaneRows:
        """The rows of a lane; worked out when first asked for."""
        found = self._lanes.get(lane)
        if found is not None:
            return found
        with self._lock:
            if lane not in self._lanes:
                self._lanes[lane] = self._part(lane)
            return self._lanes[lane]

    def _part(self, lane: int) -> LaneRows:
        own = self.table.rows_of(lane)
        start, end = self.table["start"][own], self.table["end"][own]
        numbers = np.arange(own.start, own.stop)
        if self.table.lanes[lane].levels:
            return LaneRows([])
        rows, overlapping = rows_of(start, end)
        count = int(rows.max()) + 1 if len(rows) else 0
        if count <= 1:
            return LaneRows([Row(numbers, start, end)] if count else [])
        order = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[order], np.arange(count + 1))
        parts = [order[bounds[i] : bounds[i + 1]] for i in range(count)]
        return LaneRows([Row(numbers[p], start[p], end[p]) for p in parts], overlapping)

    def notices(self) -> list[str]:
        """What lies in no order that a picture can have: events that begin inside others."""
        found = []
        for number, lane in enumerate(self.table.lanes):
            count = self.lane(number).overlapping
            if count == 1:
                found.append(f"1 event of {lane.name} begins inside another and ends after it")
            elif count:
                found.append(
                    f"{count} events of {lane.name} begin inside others and end after them"
                )
        return found

    def prepare(self) -> None:
        """Work out the rows of all lanes, so that the first window is as quick as later ones."""
        for lane in range(len(self.table.lanes)):
            self.lane(lane)

    def row_count(self, lane: int) -> int:
        """How many rows a lane is drawn in."""
        return max(1, len(self.lane(lane).rows))

    def window(
        self,
        start: int,
        end: int,
        columns: int,
        lanes: Sequence[int],
        only: Collection[tuple[int, int]] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> tuple[int, dict[tuple[int, int], Bars]]:
        """(columns, bars by lane and row) of start..end; fewer columns where bars would be many.

        only: these rows, (lane, row), of the lanes.
        """
        end = max(end, start + 1)
        drawn = {
            (lane, i): row
            for lane in lanes
            for i, row in enumerate(self.lane(lane).rows)
            if only is None or (lane, i) in only
        }
        most = most_bytes // BAR_BYTES
        inside = np.array([_count(row, start, end) for row in drawn.values()])
        columns = _fitting(inside, max(1, min(columns, MOST_COLUMNS)), most)
        while True:
            found = {key: bars(row, start, end, columns) for key, row in drawn.items()}
            size = sum(map(len, found.values()))
            if size <= most or columns <= 1:
                return columns, found
            columns = max(1, columns * most // size - 1)

    def levels(self, start: int, end: int, columns: int, lane: int) -> tuple[Array, Array]:
        """(lowest, highest) level of a quantity in each column; NaN before the first is known."""
        own = self.table.rows_of(lane)
        at, value = self.table["start"][own], self.table["value"][own]
        edges = _edges(start, max(end, start + 1), columns)
        first = np.searchsorted(at, edges[:-1], "left")
        last = np.searchsorted(at, edges[1:], "left")
        before = np.where(first > 0, value[np.maximum(first - 1, 0)], np.nan) if len(at) else None
        if before is None:
            nothing = np.full(columns, np.nan)
            return nothing, nothing
        low, high = before.copy(), before.copy()
        filled = np.flatnonzero(last > first)
        if len(filled):
            cuts = np.append(first[filled], last[filled[-1]])
            # An element of its own at the end, so that the last cut is a place in the array.
            closed = np.append(value, value[-1])
            low[filled] = np.fmin(low[filled], np.minimum.reduceat(closed, cuts)[:-1])
            high[filled] = np.fmax(high[filled], np.maximum.reduceat(closed, cuts)[:-1])
        return low, high


def _count(row: Row, start: int, end: int) -> int:
    first, last = row.inside(start, end)
    return last - first


def _fitting(inside: Array, columns: int, most: int) -> int:
    """So many columns that rows of so many events make about `most` bars at the most.

    A column of a crowded row is one bar, or two where an event goes on beyond it.
    """
    while columns > 1 and np.minimum(inside, 1.25 * columns).sum() > most:
        columns = max(1, columns * 7 // 8)
    return columns


def _edges(start: int, end: int, columns: int) -> Array:
    """Where columns begin, and where the last one ends."""
    return start + (np.arange(columns + 1) * (end - start)) // columns


def bars(row: Row, start: int, end: int, columns: int) -> Bars:
    """What is drawn of a row: single events in their true places, the rest column by column.

    The events that begin in one column are one bar, except the last one if it goes on beyond the
    column: that one is a bar by itself.
    """
    first, last = row.inside(start, end)
    edges = _edges(start, end, columns)
    cuts = np.searchsorted(row.start[first:last], edges[1:-1], "left") + first
    low = np.concatenate([[first], cuts])
    high = np.concatenate([cuts, [last]])
    filled = np.flatnonzero(high > low)
    low, high, right = low[filled], high[filled], edges[1:][filled]
    goes_on = row.end[high - 1] > right
    low = np.concatenate([low, (high - 1)[goes_on]])
    high = np.concatenate([high - goes_on, high[goes_on]])
    low, high = low[high > low], high[high > low]
    order = np.argsort(low)
    low, high = low[order], high[order]
    begin, until, count = row.start[low], row.end[high - 1], high - low
    event = low.copy()
    several = np.flatnonzero(count > 1)
    if len(several):
        event[several] = row.longest(low[several], high[several])
    share = (row.sums[high] - row.sums[low]) / np.maximum(until - begin, 1)
    busy = np.where(count == 1, 255, np.clip(share, 0, 1) * 255).astype(np.uint8)
    return Bars(begin, until, row.events[event], count.astype(np.uint32), busy)

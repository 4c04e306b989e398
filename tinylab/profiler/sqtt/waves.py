"""Waves: starts paired with ends, and how many live at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tinylab.profiler.sqtt.native import Array, Packets, field_of
from tinylab.profiler.sqtt.packets import Table


@dataclass
class Waves:
    """Waves as columns, sorted by start, then place. An end of -1: still running at the end."""

    table: Table
    lane: Array  # array, unit, SIMD and slot as one number that sorts like them
    start: Array
    end: Array
    threads: Array  # active threads at the start
    packet: Array  # first nibble of the start

    def __len__(self) -> int:
        return len(self.start)

    @property
    def closed(self) -> Array:
        """Which waves have an end."""
        found: Array = np.greater_equal(self.end, 0)
        return found

    @cached_property
    def array(self) -> Array:
        """The shader array of each."""
        return self.lane >> 16

    @cached_property
    def unit(self) -> Array:
        """The WGP or compute unit in its array."""
        return self.lane >> 12 & 15

    @cached_property
    def simd(self) -> Array:
        """The SIMD in its unit."""
        return self.lane >> 8 & 15

    @cached_property
    def slot(self) -> Array:
        """The slot in its SIMD."""
        return self.lane & 255

    def by_lane(self) -> Array:
        """Rows sorted by lane, then start."""
        if not len(self):
            return np.empty(0, np.int64)
        # Lanes are few: numbers of two bytes are sorted by their digits.
        is_used = np.zeros(int(self.lane.max()) + 1, bool)
        is_used[self.lane] = True
        rank = np.cumsum(is_used) - 1
        short = rank.astype(np.uint16) if rank[-1] < 1 << 16 else rank
        return np.argsort(short[self.lane], kind="stable")

    def flat_unit(self) -> Array:
        """One number for array and unit, as viewers count them."""
        found: Array = self.unit + self.table.units_per_array * self.array
        return found


class Piece(NamedTuple):
    """Some waves as narrow columns, sorted by start, then place; see `Waves`."""

    lane: Array  # int32
    start: Array
    end: Array
    threads: Array  # int16
    packet: Array


class Pairing:
    """Pairs starts with ends chunk by chunk; what is open is carried on."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.unopened = 0
        self._open = np.empty((0, 4), np.int64)  # place, time, threads, packet
        self._done: list[Piece] = []
        self._closed = 0
        self._lost: list[Array] = []  # opened again without an end in between

    def add(self, packets: Packets) -> None:
        """More packets, in stream order."""
        rows = packets.where(self.table.start, self.table.end)
        if not len(rows):
            return
        opens = packets.kind[rows] == self.table.kind[self.table.start]
        place = np.where(
            opens,
            _place(packets, rows, self.table.start),
            _place(packets, rows, self.table.end),
        )
        threads = np.where(opens, _threads(packets, rows), 0)
        new = np.stack([place, packets.time[rows], threads, packets.position[rows]], axis=1)
        every = np.concatenate([self._open, new])
        is_open = np.concatenate([np.ones(len(self._open), bool), opens])
        self._pair(every, is_open)

    def _pair(self, every: Array, opens: Array) -> None:
        order = np.argsort(every[:, 0], kind="stable")
        every, opens = every[order], opens[order]
        same = np.zeros(len(every), bool)
        same[:-1] = every[:-1, 0] == every[1:, 0]
        after_opens = np.zeros(len(every), bool)
        after_opens[:-1] = opens[1:]
        closed = opens & same & ~after_opens
        self._done.append(_piece(every[closed], every[np.flatnonzero(closed) + 1, 1]))
        count = int(closed.sum())
        self._closed += count
        self.unopened += int((~opens).sum()) - count
        self._lost.append(every[opens & same & after_opens])
        self._open = every[opens & ~same]

    def __len__(self) -> int:
        return self._closed + self.unclosed

    @property
    def unclosed(self) -> int:
        """Starts without an end so far."""
        return len(self._open) + sum(map(len, self._lost))

    def pieces(self) -> list[Piece]:
        """All waves so far, those without an end too, as they are now: more may be added beside."""
        ends = [_piece(rows, np.full(len(rows), -1)) for rows in (self._open, *self._lost)]
        return [*self._done, *ends]

    def forget(self) -> None:
        """Lets the waves with an end go, which somebody else holds now; their number stays."""
        self._done = []


def _piece(rows: Array, end: Array) -> Piece:
    lane, start, threads, packet = (rows[:, column] for column in range(4))
    order = _order(start, lane)
    narrow = lane[order].astype(np.int32), threads[order].astype(np.int16)
    return Piece(narrow[0], start[order], end[order], narrow[1], packet[order])


def _order(start: Array, lane: Array) -> Array:
    """Rows by start, then lane: by one integer of both, where that has room for them.

    Pieces follow one another in time, so that a stable sort finds long runs that are sorted.
    """
    if not len(start):
        return np.empty(0, np.int64)
    bits = int(lane.max()).bit_length()
    if int(start.min()) < 0 or int(lane.min()) < 0 or int(start.max()).bit_length() + bits > 63:
        return np.lexsort((lane, start))
    return np.argsort(start << bits | lane, kind="stable")


def joined(table: Table, pieces: Sequence[Piece]) -> Waves:
    """All waves of some pieces, a column at a time: they are never there twice over."""
    if not pieces:
        none = np.empty((0, 4), np.int64)
        pieces = [_piece(none, none[:, 0])]
    start, lane = (np.concatenate([piece[n] for piece in pieces]) for n in (1, 0))
    order = _order(start, lane)
    start, lane = start[order], lane[order]
    end, threads, packet = (np.concatenate([p[n] for p in pieces])[order] for n in (2, 3, 4))
    return Waves(table, lane, start, end, threads, packet)


def _place(packets: Packets, rows: Array, kind: str) -> Array:
    """Array, unit, SIMD and slot as one number that sorts like them."""
    fields = packets.table.by_name[kind].fields
    array, unit, simd, slot = (
        field_of(packets.raw[rows], fields[n].lo, fields[n].width).astype(np.int64)
        for n in packets.table.place
    )
    return array << 16 | unit << 12 | simd << 8 | slot


def _threads(packets: Packets, rows: Array) -> Array:
    """Active threads that a start tells: RDNA keeps the number less one in bits 29:25."""
    raw = packets.raw[rows]
    if packets.table.rdna:
        return field_of(raw, 25, 5).astype(np.int64) + 1
    return field_of(raw, 22, 7).astype(np.int64)


def occupancy(waves: Waves, end: int | None = None) -> tuple[Array, Array]:
    """How many waves live: (times, counts), the count holds from its time to the next.

    Waves at [0, 10), [5, 20)  ->  times 0 5 10 20, counts 1 2 1 0
    """
    ends = waves.end[waves.closed] if end is None else np.where(waves.closed, waves.end, end)
    ends = np.sort(ends, kind="stable")
    # Both rise: a start stands behind the starts before it, and the ends before its time.
    place = np.searchsorted(ends, waves.start, "left") + np.arange(len(waves))
    steps = np.full(len(waves) + len(ends), -1, np.int8)
    steps[place] = 1
    times = np.empty(len(steps), np.int64)
    times[steps > 0] = waves.start
    times[steps < 0] = ends
    living = np.cumsum(steps, dtype=np.int32)
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.empty(0, bool)
    return times[last], living[last]


_BLOCK = 64
_PART = _BLOCK << 14  # changes that are summed at a time


class Areas:
    """Areas under a curve of living waves, kept for each 64th of its times."""

    def __init__(self, times: Array, living: Array) -> None:
        self._times, self._living = times, living
        sums = [np.zeros(1, np.int64)]
        for first in range(0, len(times) - 1, _PART):
            sums.append(self._sums(np.arange(first, min(first + _PART, len(times) - 1), _BLOCK)))
        self._blocks = np.cumsum(np.concatenate(sums))

    def up_to(self, rows: Array) -> Array:
        """The area from the beginning of the curve to some of its times, by their numbers.

        times 0 5 10, living 1 2 0: up_to [0 1 2]  ->  0 5 15
        """
        blocks = rows // _BLOCK
        found: Array = self._blocks[blocks] + self._sums(blocks * _BLOCK, rows)
        return found

    def _sums(self, first: Array, last: Array | None = None) -> Array:
        """Areas from some times to others; to the beginnings of the next blocks, if not given."""
        at = first[:, None] + np.arange(_BLOCK)
        end = len(self._times) - 1
        inside = at < (end if last is None else last[:, None])
        at = np.minimum(at, max(end - 1, 0))
        steps = self._times[np.minimum(at + 1, end)] - self._times[at]
        found: Array = np.where(inside, self._living[at] * steps, 0).sum(axis=1)
        return found

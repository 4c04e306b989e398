"""Waves: starts paired with ends, and how many live at any time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def by_lane(self) -> Array:
        """Rows sorted by lane, then start."""
        return np.argsort(self.lane, kind="stable")

    def flat_unit(self) -> Array:
        """One number for array and unit, as viewers count them."""
        found: Array = self.unit + self.table.units_per_array * self.array
        return found


class Pairing:
    """Pairs starts with ends chunk by chunk; what is open is carried on."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.unopened = 0
        self._open = np.empty((0, 4), np.int64)  # place, time, threads, packet
        self._done: list[Array] = []
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
        self._done.append(
            np.concatenate([every[closed], every[np.flatnonzero(closed) + 1, 1:2]], axis=1)
        )
        self.unopened += int((~opens).sum() - closed.sum())
        self._lost.append(every[opens & same & after_opens])
        self._open = every[opens & ~same]

    def __len__(self) -> int:
        return len(self._open) + sum(map(len, self._done)) + sum(map(len, self._lost))

    @property
    def unclosed(self) -> int:
        """Starts without an end so far."""
        return len(self._open) + sum(map(len, self._lost))

    def waves(self) -> Waves:
        """All waves so far, those without an end too."""
        ends = [np.concatenate([a, np.full((len(a), 1), -1)], axis=1) for a in self._without_end()]
        rows = np.concatenate([np.empty((0, 5), np.int64), *self._done, *ends])
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
        # Copies, so that the table of all of them can go.
        lane, start, threads, packet, end = (rows[:, column].copy() for column in range(5))
        return Waves(self.table, lane, start, end, threads.astype(np.int16), packet)

    def _without_end(self) -> list[Array]:
        return [self._open, *self._lost]


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
    # Two rising runs: a stable sort only has to merge them.
    times = np.concatenate([waves.start, np.sort(ends)])
    steps = np.ones(len(times), np.int64)
    steps[len(waves) :] = -1
    order = np.argsort(times, kind="stable")
    times, living = times[order], np.cumsum(steps[order])
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.empty(0, bool)
    return times[last], living[last]

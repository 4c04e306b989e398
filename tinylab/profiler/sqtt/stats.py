"""How long instructions took: hits, latencies and stalls, by program counter and by class.

Latency of an event: cycles to the next event of its wave. Stall of an event: cycles its wave stood
still before it, beyond those that the instruction before it needs by its class. What retires in
the instruction buffer (wait counts) is stamped when it retires, so that its stall is its wait. A
barrier is stamped as the wave comes to it: the wait after it is its stall, not that of its
successor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinylab.profiler.sqtt.events import (
    FINISH,
    FOREIGN,
    SET,
    Events,
    concatenate,
    is_instruction,
)
from tinylab.profiler.sqtt.execution import cycles_by_op
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.packets import Table

CLASSES = 512  # codes of classes, then 256 + kind for packets without one


def class_of(events: Events) -> Array:
    """One number a class: the code of an INST, 256 + kind for other packets."""
    return np.where(events.op >= 0, events.op.astype(np.int64), 256 + events.kind.astype(np.int64))


def class_name(table: Table, number: int) -> str:
    """The name of such a number."""
    return table.op_name(number) if number < 256 else table.kinds[number - 256]


BARRIERS = ("BARRIER", "BARRIER_SIGNAL")


def is_barrier(events: Events) -> Array:
    """Which rows come to a barrier."""
    codes = [c for c, name in events.table.ops.items() if name in BARRIERS]
    return np.isin(events.op, codes)


@dataclass
class Gaps:
    """Cycles to the next event of the wave (-1: none known) and cycles stood still before.

    Of the latency, ``busy`` is what the class needs, ``wait`` what is waited at a barrier.
    """

    latency: Array
    stall: Array
    busy: Array
    wait: Array


def gaps(events: Events) -> Gaps:
    """Latency and stall of each row, in the rows' order; other SIMDs' rows have none."""
    n = len(events)
    latency, stall = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    own = np.flatnonzero(events.action != FOREIGN)
    order = own[np.argsort(events.slot[own], kind="stable")]
    if len(order) < 2:
        return Gaps(latency, stall, *spent(events, latency))
    here, after = order[:-1], order[1:]
    real = is_instruction(events)
    linked = (events.slot[here] == events.slot[after]) & real[after]
    linked &= (events.action[here] != SET) & (events.action[here] != FINISH)
    here, after = here[linked], after[linked]
    gap = np.maximum(events.time[after] - events.time[here], 0)
    latency[here] = gap
    # The way from a start to the first instruction is no stall, and a barrier has its own.
    timed = real[here] & ~is_barrier(events)[here]
    busy = cycles_by_op(events.table)[events.op[here]]
    stall[after] = np.where(timed, np.maximum(gap - busy, 0), 0)
    return Gaps(latency, stall, *spent(events, latency))


def spent(events: Events, latency: Array) -> tuple[Array, Array]:
    """Cycles of each row's latency that its class needs, and those of waiting at a barrier.

    Where the latency is not known: what the class needs.
    """
    needed = cycles_by_op(events.table)[events.op]
    busy = np.where(latency >= 0, np.minimum(latency, needed), needed)
    return busy, np.where(is_barrier(events) & (latency >= 0), latency - busy, 0)


@dataclass(frozen=True)
class Firsts:
    """The first event of each slot in a chunk: its time (-1: none), if it is an instruction."""

    time: Array
    real: Array


def last_of_slots(events: Events) -> Array:
    """The row of the last event of each slot, in stream order; other SIMDs' events do not count."""
    own = np.flatnonzero(events.action != FOREIGN)
    _slots, first = np.unique(events.slot[own][::-1], return_index=True)
    found: Array = np.sort(own[len(own) - 1 - first])
    return found


def firsts_of(events: Events) -> Firsts:
    """What ends the latency of events of earlier chunks."""
    time, real = np.full(256, -1, np.int64), np.zeros(256, bool)
    own = np.flatnonzero(events.action != FOREIGN)
    slots, first = np.unique(events.slot[own], return_index=True)
    time[slots] = events.time[own[first]]
    real[slots] = is_instruction(events)[own[first]]
    return Firsts(time, real)


class Tally:
    """Sums that grow chunk by chunk; a wave's last event waits for its successor."""

    def __init__(self, table: Table, instructions: int) -> None:
        self.table = table
        self.by_instruction = Sums(instructions)
        self.by_class = Sums(CLASSES)
        self.carry = concatenate(table, [])  # the last event of each slot so far
        self.carry_numbers = np.empty(0, np.int64)

    def add(self, events: Events, numbers: Array) -> None:
        """More events, and which instruction each is (-1: not known)."""
        old = len(self.carry)
        every = concatenate(self.table, [self.carry, events])
        number = np.concatenate([self.carry_numbers, numbers])
        found = gaps(every)
        real = is_instruction(every) & (every.action != FOREIGN)
        fresh = np.arange(len(every)) >= old
        for sums, key in ((self.by_instruction, number), (self.by_class, class_of(every))):
            sums.add(key, found, real & (key >= 0), fresh)
        self._keep(every, number)

    def _keep(self, every: Events, number: Array) -> None:
        last = last_of_slots(every)
        self.carry, self.carry_numbers = every.take(last), number[last]


class Sums:
    """Totals by some number."""

    def __init__(self, size: int) -> None:
        self.hits = np.zeros(size, np.int64)
        self.latency = np.zeros(size, np.int64)
        self.timed = np.zeros(size, np.int64)  # events whose latency is known
        self.longest = np.zeros(size, np.int64)
        self.stall = np.zeros(size, np.int64)
        self.busy = np.zeros(size, np.int64)  # what their classes need of the latencies

    @property
    def time(self) -> Array:
        """Cycles that waves spent at it: standing still before it, and while its class worked."""
        return self.stall + self.busy

    def add(self, key: Array, found: Gaps, real: Array, fresh: Array) -> None:
        """Adds rows; those that are not ``fresh`` were counted before and bring a latency only."""
        size = len(self.hits)
        if not size:
            return
        new = key[real & fresh]
        self.hits += np.bincount(new, minlength=size)
        self.stall += _sums(new, found.stall[real & fresh], size)
        timed = real & (found.latency >= 0)
        self.timed += np.bincount(key[timed], minlength=size)
        self.latency += _sums(key[timed], found.latency[timed], size)
        np.maximum.at(self.longest, key[timed], found.latency[timed])
        self.busy += _sums(key[timed], found.busy[timed], size)
        self.stall += _sums(key[timed], found.wait[timed], size)

    def row(self, number: int) -> dict[str, int | float]:
        """One number's figures."""
        timed = int(self.timed[number])
        return {
            "hits": int(self.hits[number]),
            "total": int(self.latency[number]),
            "mean": int(self.latency[number]) / timed if timed else 0.0,
            "longest": int(self.longest[number]),
            "stall": int(self.stall[number]),
            "time": int(self.time[number]),
        }


def _sums(key: Array, value: Array, size: int) -> Array:
    out = np.zeros(size, np.int64)
    np.add.at(out, key, value)
    return out

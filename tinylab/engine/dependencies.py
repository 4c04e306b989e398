"""Which captured steps wait for which: by the bytes that each reads and writes.

    step 0  writes bytes 0 to 64 of a buffer
    step 1  writes bytes 32 to 64            waits for step 0
    step 2  reads bytes 0 to 32              waits for step 0, not for step 1

What a partial write leaves of an earlier one stays known, so that its reader still waits for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.engine.capture import CapturedStep


class _Touch(NamedTuple):
    """Bytes from start to stop, and the step that touched them."""

    start: int
    stop: int
    step: int

    def without(self, start: int, stop: int) -> Iterator[_Touch]:
        """What is left when some bytes are taken out."""
        if self.start < min(start, self.stop):
            yield self._replace(stop=min(start, self.stop))
        if max(stop, self.start) < self.stop:
            yield self._replace(start=max(stop, self.start))


@dataclass
class _History:
    """Who wrote each byte of a buffer last, and who has read it since."""

    writes: list[_Touch] = field(default_factory=list)
    reads: list[_Touch] = field(default_factory=list)

    def before_read(self, start: int, stop: int) -> set[int]:
        """The steps that a read waits for."""
        return {t.step for t in self.writes if t.start < stop and start < t.stop}

    def before_write(self, start: int, stop: int) -> set[int]:
        """The steps that a write waits for."""
        readers = {t.step for t in self.reads if t.start < stop and start < t.stop}
        return readers | self.before_read(start, stop)

    def note_write(self, start: int, stop: int, step: int) -> None:
        """A write replaces what was known of its bytes, and of no others."""
        self.writes = [p for t in self.writes for p in t.without(start, stop)]
        self.reads = [p for t in self.reads for p in t.without(start, stop)]
        self.writes.append(_Touch(start, stop, step))


def _touched(s: CapturedStep) -> Iterator[tuple[bool, Buffer, int, int]]:
    """(whether it is written, the whole buffer, first byte, byte behind the last)."""
    for slot, b in enumerate(s.buffers):
        yield slot in s.step.outs, b.base, b.offset, b.offset + b.nbytes


def dependencies(steps: Sequence[CapturedStep]) -> list[set[int]]:
    """For each step the earlier ones that must be over before it begins."""
    histories: dict[Buffer, _History] = {}
    found = []
    for n, s in enumerate(steps):
        touched = list(_touched(s))
        before: set[int] = set()
        for written, base, start, stop in touched:
            history = histories.setdefault(base, _History())
            before |= (history.before_write if written else history.before_read)(start, stop)
        for written, base, start, stop in sorted(touched, key=lambda t: t[0]):
            if written:
                histories[base].note_write(start, stop, n)
            else:
                histories[base].reads.append(_Touch(start, stop, n))
        found.append(before)
    return found


def in_stretches(steps: Sequence[CapturedStep], kinds: Sequence[str]) -> list[int]:
    """The steps in an order with long stretches of one kind, each behind those it waits for."""
    if len(set(kinds)) < 2:
        return list(range(len(steps)))
    waits = [set(b) for b in dependencies(steps)]
    later: list[list[int]] = [[] for _ in steps]
    for n, before in enumerate(waits):
        for b in before:
            later[b].append(n)
    ready: dict[str, list[int]] = {kind: [] for kind in kinds}
    for n, before in enumerate(waits):
        if not before:
            ready[kinds[n]].append(n)
    order: list[int] = []
    kind = kinds[0]
    while len(order) < len(steps):
        if not ready[kind]:
            kind = min((k for k in ready if ready[k]), key=lambda k: ready[k][0])
        n = heapq.heappop(ready[kind])
        order.append(n)
        for m in later[n]:
            waits[m].discard(n)
            if not waits[m]:
                heapq.heappush(ready[kinds[m]], m)
    return order

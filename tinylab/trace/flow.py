"""Who reads what whom wrote: kernels by the bytes of the buffers that they were run with.

Schedules name what they are given by slots, so that two of them share nothing; buffers tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary


class Flow:
    """The last writers of memory, while it lives."""

    def __init__(self) -> None:
        # base -> [(first byte, end, kernels)], no two of which overlap
        self._written: WeakKeyDictionary[Any, list[tuple[int, int, frozenset[int]]]]
        self._written = WeakKeyDictionary()

    def ran(
        self, kernel: int, buffers: Sequence[Any], ins: Collection[int], outs: Collection[int]
    ) -> set[int]:
        """A kernel ran with these buffers, read some and wrote some: the kernels it follows."""
        slots = range(len(buffers))
        found = {w for slot in slots if slot in ins for w in self._writers(buffers[slot])}
        for slot in slots:
            if slot in outs:
                self._write(buffers[slot], frozenset({kernel}))
        return found - {kernel}

    def copied(self, to: Any, source: Any) -> None:
        """What was written to one buffer is in another one now."""
        self._write(to, self._writers(source))

    def _writers(self, buffer: Any) -> frozenset[int]:
        base, first, end = _bytes_of(buffer)
        parts = self._written.get(base, ())
        return frozenset().union(*(k for a, b, k in parts if a < end and first < b))

    def _write(self, buffer: Any, kernels: frozenset[int]) -> None:
        base, first, end = _bytes_of(buffer)
        parts = self._written.get(base, ())
        before = [(a, min(b, first), k) for a, b, k in parts if a < first]
        behind = [(max(a, end), b, k) for a, b, k in parts if end < b]
        self._written[base] = [*before, (first, end, kernels), *behind]


def _bytes_of(buffer: Any) -> tuple[Any, int, int]:
    """Its memory, the first byte in it, and the one behind the last."""
    return buffer.base, buffer.offset, buffer.offset + buffer.nbytes

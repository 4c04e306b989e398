"""The compiled decoder: the same packets as decode.py, a hundred million a second.

Two loops in LLVM IR. ``decode`` cuts a stream into columns, and writes down only the kinds that
are asked for while it counts all; ``walk`` follows program counters (see walk.py). Both stop when
told to and go on from where they stood, so that a caller may show progress and be cancelled.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinylab.profiler.sqtt.decode import Cursor, Opened, step
from tinylab.profiler.sqtt.native_ir import IR
from tinylab.profiler.sqtt.packets import CLOCK_LIMIT, Table
from tinylab.runtime.compilers.llvm import Linked, LLVMCompiler

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Packets:
    """Packets as columns, in stream order."""

    table: Table
    position: Array  # int64, first nibble
    kind: Array  # uint8, index into table.kinds
    time: Array  # int64, cycles
    raw: Array  # uint64, bits from the first nibble on; bits past the packet belong to the next

    def __len__(self) -> int:
        return len(self.kind)

    def field(self, kind: str, name: str) -> Array:
        """A field of all packets of one kind."""
        bits = self.table.by_name[kind].fields[name]
        raw = self.raw[self.kind == self.table.kind[kind]]
        return field_of(raw, bits.lo, bits.width)

    def where(self, *kinds: str) -> Array:
        """Indices of the packets of some kinds."""
        return np.flatnonzero(np.isin(self.kind, [self.table.kind[k] for k in kinds]))


def field_of(raw: Array, lo: int, width: int) -> Array:
    """Bits of many packets at once."""
    return (raw >> np.uint64(lo)) & np.uint64((1 << width) - 1)


def no_packets(table: Table) -> Packets:
    """Columns of length zero."""
    return Packets(table, *(np.empty(0, t) for t in (np.int64, np.uint8, np.int64, np.uint64)))


@functools.cache
def _linked() -> Linked:
    return Linked(LLVMCompiler().compile(IR), "decode", "walk")


@functools.cache
def function(name: str, arguments: int) -> Callable[..., int]:
    """A compiled loop; its arguments are addresses and 64-bit integers."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    found: Callable[..., int] = kind(_linked()[name])
    return found


def decode(
    stream: Opened,
    cursor: Cursor,
    counts: Array,
    keep: Collection[str] | None = None,
    stop: int | None = None,
    room: int = 1 << 20,
) -> Packets:
    """Columns of packets from the cursor on, which moves along.

    Args:
        stream: what to decode.
        cursor: where to begin; ends where the columns end.
        counts: int64 counters by kind, added to.
        keep: names of kinds to write down; None for all. The others are counted and passed over.
        stop: nibble before which to end; the stream's end by default.
        room: most packets to write down in this call.
    """
    end = stream.end if stop is None else min(stop, stream.end)
    columns = _Columns(stream.table, keep, max(0, min(room, end - cursor.position)))
    if cursor.position == 0 and end > 0 and room > 0:
        columns.first(step(stream, cursor), counts)
    if cursor.position < end and columns.used < columns.room and not cursor.overrun:
        columns.run(stream, cursor, counts, end)
    return columns.packets()


class _Columns:
    """Room for packets, and the rows that tell the loop what to write there."""

    def __init__(self, table: Table, keep: Collection[str] | None, room: int) -> None:
        self.table, self.room, self.used = table, room, 0
        self.kept = frozenset(table.kinds if keep is None else keep)
        self.position = np.empty(room, np.int64)
        self.kind = np.empty(room, np.uint8)
        self.time = np.empty(room, np.int64)
        self.raw = np.empty(room, np.uint64)

    def first(self, found: tuple[int, int, int, int] | None, counts: Array) -> None:
        """The first packet comes from the plain decoder: only there does CDNA have a header."""
        if found is None:
            return
        counts[found[1]] += 1
        if self.table.kinds[found[1]] in self.kept:
            self.position[0], self.kind[0], self.time[0], self.raw[0] = found
            self.used = 1

    def run(self, stream: Opened, at: Cursor, counts: Array, end: int) -> None:
        """The loop, from the cursor to ``end`` or until the columns are full."""
        state = np.array(
            [at.position, at.clock, at.anchored, at.offset, at.odd_timestamps, at.overrun], np.int64
        )
        rows = _rows(self.table, self.kept)
        data = np.frombuffer(stream.data, np.uint8)
        used = self.used
        self.used += function("decode", 10)(
            data.ctypes.data,
            state.ctypes.data,
            rows.ctypes.data,
            counts.ctypes.data,
            end,
            *(c[used:].ctypes.data for c in (self.position, self.kind, self.time, self.raw)),
            self.room - used,
        )
        at.position, at.clock, at.offset, at.odd_timestamps = (int(state[i]) for i in (0, 1, 3, 4))
        at.anchored, at.overrun = bool(state[2]), bool(state[5])

    def packets(self) -> Packets:
        """What was written; a copy if most of the room was not used."""
        columns = [c[: self.used] for c in (self.position, self.kind, self.time, self.raw)]
        if self.used < self.room // 2:
            columns = [c.copy() for c in columns]
        return Packets(self.table, *columns)


_ROWS: dict[tuple[int, frozenset[str]], Array] = {}


def _rows(table: Table, keep: frozenset[str]) -> Array:
    """What the loop looks up, a word for each low byte, then the pattern of a marker.

    Bits 0 size, 8 kind, 16 lowest time bit, 24 width, 32 bias, 40 clock rule, 44 scale, 48 keep.
    """
    key = (id(table), keep)
    if key not in _ROWS:
        out = np.zeros(259, np.uint64)
        for byte, kind in enumerate(table.by_byte):
            out[byte] = _row(table, kind) | (table.kinds[kind] in keep) << 48
        mark = next((p for p in table.packets if p.special == "mark"), None)
        rt, pl = (mark.fields["rt"].lo, mark.fields["pl"].lo) if mark else (0, 0)
        out[256:] = (1 << rt | 1 << pl, 1 << rt, CLOCK_LIMIT)
        _ROWS[key] = out
    return _ROWS[key]


def _row(table: Table, kind: int) -> int:
    if kind == len(table.packets):
        return 1 | kind << 8
    p = table.packets[kind]
    row = p.nibbles | kind << 8 | {"mark": 1, "timestamp": 2}.get(p.special, 0) << 40
    if p.time:
        bits, scale, bias = p.time
        row |= bits.lo << 16 | bits.width << 24 | bias << 32 | (scale.bit_length() - 1) << 44
    return row

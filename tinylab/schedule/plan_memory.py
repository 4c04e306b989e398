"""Memory for what lives only inside a schedule: buffers share arenas where their lives allow it.

Two arenas per device, one of them for what is copied from or to it; a buffer takes the smallest
free gap that holds it (best fit), in the order of the schedule.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule.add_buffers import FIRST_INTERNAL
from tinylab.schedule.split_kernels import plain
from tinylab.uop.intern import make
from tinylab.uop.ops import ParamArg, UOp, node_to_shape, shape_to_shape_arg

BLOCK = 256
# Devices whose memory is no block that views can be taken of at any byte.
_NO_VIEWS = frozenset({"DISK", "TINYFS", "CL", "WEBGPU"})


class MemoryPlan(NamedTuple):
    """What the planner reached: bytes of the buffers on their own, and of the arenas."""

    linear: UOp
    bytes_apart: int
    bytes_planned: int
    buffer_count: int


def is_internal(x: UOp) -> bool:
    """Whether a BUFFER belongs to a schedule alone."""
    return x.op is Ops.BUFFER and x.arg.slot <= FIRST_INTERNAL


def _kind(x: UOp) -> str:
    return str(x.arg.device).split(":")[0]


def _rounded(x: UOp) -> int:
    size: int = x.shape[0] * x.dtype.itemsize
    return (size + BLOCK - 1) // BLOCK * BLOCK


def lifetimes(linear: UOp, held: set[UOp]) -> dict[UOp, tuple[int, int]]:
    """(first use, last use) of each internal buffer that is not held from outside."""
    found: dict[UOp, tuple[int, int]] = {}
    for n, call in enumerate(linear.src):
        for b in map(plain, call.src[1:]):
            if is_internal(b) and b not in held and _kind(b) not in _NO_VIEWS:
                found[b] = (found[b][0] if b in found else n, n)
    return found


class _Arena:
    """Offsets in one growing block; free gaps are (offset, size), sorted."""

    def __init__(self) -> None:
        self.size = 0
        self.gaps: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        fitting = [gap for gap in self.gaps if gap[1] >= size]
        if fitting:
            offset, room = gap = min(fitting, key=lambda g: g[1])
            self.gaps.remove(gap)
            if room > size:
                self.gaps.append((offset + size, room - size))
            return offset
        # A gap at the end grows instead of being left behind.
        tail = next((g for g in self.gaps if g[0] + g[1] == self.size), None)
        offset = self.size if tail is None else tail[0]
        if tail is not None:
            self.gaps.remove(tail)
        self.size = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        merged: list[tuple[int, int]] = []
        for start, room in sorted([*self.gaps, (offset, size)]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        self.gaps = merged


class ArenaPlace(NamedTuple):
    """One arena: those of a device's buffers that are copied, or those that are not."""

    device: Any
    copied: bool


def _arena_of(b: UOp, copied: Collection[UOp]) -> ArenaPlace:
    return ArenaPlace(b.arg.device, b in copied)


def _offsets(
    lives: dict[UOp, tuple[int, int]], copied: Collection[UOp]
) -> tuple[dict[UOp, int], dict[ArenaPlace, _Arena]]:
    arenas: dict[ArenaPlace, _Arena] = {}
    offsets: dict[UOp, int] = {}
    moments: list[tuple[int, int, UOp]] = []
    for b, (start, end) in lives.items():
        moments += [(start, 1, b), (end, 2, b)]
    for _, what, b in sorted(moments, key=lambda m: m[:2]):
        arena = arenas.setdefault(_arena_of(b, copied), _Arena())
        if what == 1:
            offsets[b] = arena.take(_rounded(b))
        else:
            arena.give(offsets[b], _rounded(b))
    return offsets, arenas


def plan_memory(linear: UOp, held: set[UOp]) -> MemoryPlan:
    """The LINEAR with internal buffers as views of one arena per device.

    held: buffers that outlive the schedule (its outputs); they keep storage of their own.
    """
    lives = lifetimes(linear, held)
    copied = {plain(a) for call in linear.src if call.src[0].op is Ops.COPY for a in call.src[1:]}
    offsets, arenas = _offsets(lives, copied)
    slot = min((b.arg.slot for b in lives), default=FIRST_INTERNAL) - len(held) - 1
    blocks = {
        place: make(
            Ops.BUFFER,
            dtypes.uint8,
            (UOp.const(arena.size),),
            ParamArg(slot - n, dtypes.uint8, name="arena", device=place.device),
        )
        for n, (place, arena) in enumerate(arenas.items())
    }

    def placed(x: UOp) -> UOp:
        b = plain(x)
        if b not in offsets:
            return x
        inside = 0 if b is x else node_to_shape(x.src[1])[0] * b.dtype.itemsize
        return _view(blocks[_arena_of(b, copied)], offsets[b] + inside, x)

    calls = tuple(
        call.replace(src=(call.src[0], *map(placed, call.src[1:]))) for call in linear.src
    )
    apart = sum(_rounded(b) for b in lives)
    planned = sum(arena.size for arena in arenas.values())
    return MemoryPlan(linear.replace(src=calls), apart, planned, len(lives))


def _view(arena: UOp, offset: int, b: UOp) -> UOp:
    """A buffer as bytes of an arena."""
    count = int(b.shape[0]) * b.dtype.itemsize
    window = make(
        Ops.SHRINK,
        dtypes.uint8,
        (arena, shape_to_shape_arg((offset,)), shape_to_shape_arg((count,))),
    )
    return window if b.dtype is dtypes.uint8 else window.bitcast(b.dtype)

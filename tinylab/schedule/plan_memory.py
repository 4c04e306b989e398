"""Memory for what lives only inside a schedule: buffers share arenas where their lives allow it.

Two arenas per device, one of them for what is copied from or to it; a buffer takes the smallest
free gap that holds it (best fit), in the order of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable
from typing import Any, NamedTuple, TypeVar

from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule.add_buffers import FIRST_INTERNAL
from tinylab.schedule.effects import called_with
from tinylab.schedule.split_kernels import plain
from tinylab.uop.intern import make
from tinylab.uop.ops import ParamArg, UOp, node_to_shape, shape_to_shape_arg

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)

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


def rounded(size: int) -> int:
    """Bytes, up to a whole number of blocks."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


def _rounded(x: UOp) -> int:
    return rounded(x.shape[0] * x.dtype.itemsize)


def may_be_cut(device: Any) -> bool:
    """Whether memory of a device can be seen as views from any byte on."""
    return str(device).split(":")[0] not in _NO_VIEWS


def lifetimes(
    linear: UOp, held: Container[UOp], own: Callable[[UOp], bool] = is_internal
) -> dict[UOp, tuple[int, int]]:
    """(first use, last use) of each buffer of the schedule's own that is not held from outside."""
    found: dict[UOp, tuple[int, int]] = {}
    for n, call in enumerate(linear.src):
        for b in map(plain, call.src[1:]):
            if own(b) and b not in held and may_be_cut(b.arg.device):
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


def pack(
    lives: dict[K, tuple[int, int]], size_of: Callable[[K], int], place_of: Callable[[K], P]
) -> tuple[dict[K, int], dict[P, int]]:
    """Where each buffer lies in its arena, and how large the arenas are.

    lives: (first use, last use); size_of: bytes, whole blocks; place_of: which arena.
    """
    arenas: dict[P, _Arena] = {}
    offsets: dict[K, int] = {}
    moments: list[tuple[int, int, K]] = []
    for b, (start, end) in lives.items():
        moments += [(start, 1, b), (end, 2, b)]
    for _, what, b in sorted(moments, key=lambda m: m[:2]):
        arena = arenas.setdefault(place_of(b), _Arena())
        if what == 1:
            offsets[b] = arena.take(size_of(b))
        else:
            arena.give(offsets[b], size_of(b))
    return offsets, {place: arena.size for place, arena in arenas.items()}


def memory_plan_rewrite(linear: UOp, held_bufs: Collection[UOp] | None = None) -> UOp:
    """A LINEAR of CALLs with the buffers that have no memory yet as views of arenas.

    held_bufs: those that are looked at afterwards; they keep storage of their own.
    """
    return plan_memory(linear, held_bufs or (), _is_empty).linear


def _is_empty(x: UOp) -> bool:
    """Whether a BUFFER holds nothing that somebody could want."""
    if x.op is not Ops.BUFFER or x.is_variable:
        return False
    return x._buffer is None or not x._buffer.is_allocated()


def plan_memory(
    linear: UOp, held: Collection[UOp], own: Callable[[UOp], bool] = is_internal
) -> MemoryPlan:
    """The LINEAR with internal buffers as views of one arena per device.

    held: buffers that outlive the schedule (its outputs); they keep storage of their own.
    own: which buffers belong to the schedule.
    """
    lives = lifetimes(linear, held, own)
    buffers = {plain(a) for call in linear.src for a in call.src[1:]}
    copied = {plain(a) for call in linear.src if call.src[0].op is Ops.COPY for a in call.src[1:]}
    offsets, arenas = pack(lives, _rounded, lambda b: _arena_of(b, copied))
    slot = min((FIRST_INTERNAL, *(b.arg.slot for b in buffers if b.op is Ops.BUFFER))) - 1
    blocks = {
        place: make(
            Ops.BUFFER,
            dtypes.uint8,
            (UOp.const(size),),
            ParamArg(slot - n, dtypes.uint8, name="arena", device=place.device),
        )
        for n, (place, size) in enumerate(arenas.items())
    }

    def placed(x: UOp) -> UOp:
        b = plain(x)
        if b not in offsets:
            return x
        inside = 0 if b is x else node_to_shape(x.src[1])[0] * b.dtype.itemsize
        return _view(blocks[_arena_of(b, copied)], offsets[b] + inside, x)

    calls = tuple(called_with(call, map(placed, call.src[1:])) for call in linear.src)
    apart = sum(_rounded(b) for b in lives)
    return MemoryPlan(linear.replace(src=calls), apart, sum(arenas.values()), len(lives))


def _view(arena: UOp, offset: int, b: UOp) -> UOp:
    """A buffer as bytes of an arena."""
    count = int(b.shape[0]) * b.dtype.itemsize
    window = make(
        Ops.SHRINK,
        dtypes.uint8,
        (arena, shape_to_shape_arg((offset,)), shape_to_shape_arg((count,))),
    )
    return window if b.dtype is dtypes.uint8 else window.bitcast(b.dtype)

"""Values of several devices brought together: gathered on one, or reduced to one for all.

Everything is copies between two devices and kernels on one, so that the schedule shows them:

    naive       each device gets all the others' values and adds them itself
    ring        the value in pieces; each travels round the ring, adding up, then round once more
    all-to-all  each device adds up one piece of all, and sends it to everyone
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tinylab.dtype import dtypes
from tinylab.helpers.context import (
    ALL2ALL,
    ALLREDUCE_CAST,
    DEBUG,
    RING,
    RING_ALLREDUCE_THRESHOLD,
)
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.shard import Shards, is_device_number, joined, part_of_parts, shards_of
from tinylab.uop.args import CallInfo, ParamArg
from tinylab.uop.intern import make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, rebuild

# Slots of the buffers that pieces are gathered in; far from those of kernels and functions.
FIRST_GATHERED = -3_000_000
# Pieces of a value begin at whole vectors.
_PIECE = 16


def _buffer(count: int, like: UOp, device: str, slots: Iterator[int]) -> UOp:
    arg = ParamArg(next(slots), like.dtype, device=device)
    return make(Ops.BUFFER, like.dtype, (UOp.const(count),), arg)


def _copied_into(target: UOp, source: UOp, why: str) -> UOp:
    """The call that copies a value into a piece of a buffer."""
    count, device = target.shape[0], str(source.device)
    body = make(
        Ops.COPY, source.dtype, (UOp.param(1, source.dtype, (count,), device),), target.device
    )
    return make(Ops.CALL, dtypes.void, (body, target, source), CallInfo("copy", aux=why))


class Collectives(NamedTuple):
    """What the rules need: fresh slots, and reductions of which each device wants one part only."""

    slots: Iterator[int]
    scattered: frozenset[UOp]


# *** gather


def gather(x: UOp, ctx: Collectives) -> UOp | None:
    """The shards one after the other in a buffer of one device, and the whole as a view of it."""
    found = shards_of(x.src[0])
    if not isinstance(x.arg, str) or found is None or found.axis is None:
        return None
    return _gathered(found, x.arg, ctx.slots)


def _gathered(found: Shards, device: str, slots: Iterator[int]) -> UOp:
    shape, axis, n = found.parts[0].shape, found.axis or 0, len(found.parts)
    size = math.prod(shape)
    buffer = _buffer(size * n, found.parts[0], device, slots)
    calls = [
        _copied_into(
            buffer._shrink((i * size,), (size,)), p._reshape((size,)), f"gathered on {device}"
        )
        for i, p in enumerate(found.parts)
    ]
    whole = buffer.after(*calls)._reshape((n, *shape))
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    return whole._permute(order)._reshape((*shape[:axis], shape[axis] * n, *shape[axis + 1 :]))


# *** reduce


def reduce_everywhere(x: UOp, ctx: Collectives) -> UOp | None:
    """The way that settings and size ask for; halves are reduced before they are widened."""
    parts, (op, _) = x.src[0].src, x.arg
    if x in ctx.scattered:
        return None
    narrow = _before_cast(parts)
    if narrow is not None:
        whole = x.replace(src=(make(Ops.MSTACK, narrow[0].dtype, narrow),), dtype=narrow[0].dtype)
        done = reduce_everywhere(whole, ctx)
        assert done is not None, "narrow values have no casts before them"
        return joined([p.cast(x.dtype) for p in done.src], None)
    shape, count = parts[0].shape, math.prod(parts[0].shape)
    way = _way(count, len(parts))
    if DEBUG >= 2:
        print(f"{way} ALLREDUCE {len(parts)}x{count} | {x.dtype}")
    if way == "NAIVE":
        return joined([_folded(op, parts, str(p.device)) for p in parts], None)
    flat = [p.contiguous()._reshape((count,)) for p in parts]
    pieces = _pieces(count, len(parts))
    reduce = _ring if way == "RING" else _all_to_all
    return joined([p._reshape(shape) for p in reduce(op, flat, pieces, ctx.slots)], None)


def _before_cast(parts: Sequence[UOp]) -> tuple[UOp, ...] | None:
    """The halves that the values were, if they are halves made wide."""
    below = tuple(map(_uncast, parts))
    halves = all(b is not None and b.dtype in (dtypes.float16, dtypes.bfloat16) for b in below)
    return below if ALLREDUCE_CAST and halves else None  # type: ignore[return-value]


def _uncast(x: UOp) -> UOp | None:
    """What a value was before a cast, seen as the value is seen."""
    if x.op is Ops.CAST:
        return x.src[0]
    if x.op not in GroupOp.Movement:
        return None
    below = _uncast(x.src[0])
    return None if below is None else rebuild(x, (below, *x.src[1:]))


def _way(count: int, devices: int) -> str:
    large = devices > 2 and count > RING_ALLREDUCE_THRESHOLD.value
    if ALL2ALL.value >= 2 or (ALL2ALL.value >= 1 and large):
        return "ALL2ALL"
    return "RING" if RING.value >= 2 or (RING.value >= 1 and large) else "NAIVE"


def _folded(op: Ops, values: Sequence[UOp], device: str) -> UOp:
    """All values reduced on one device, in the same order on each: the same bits everywhere."""
    here = [v if v.device == device else v.copy_to_device(device) for v in values]
    found = here[0]
    for v in here[1:]:
        found = found.alu(op, v)
    return found


def _pieces(count: int, n: int) -> list[tuple[int, int]]:
    """(offset, size) of at most n pieces, all whole vectors but for the last."""
    size = -(-count // n // _PIECE) * _PIECE if count >= n * _PIECE else -(-count // n)
    return [(o, min(size, count - o)) for o in range(0, count, size)]


def _piece(x: UOp, piece: tuple[int, int]) -> UOp:
    return x._shrink((piece[0],), (piece[1],))


def _all_to_all(
    op: Ops, flat: Sequence[UOp], pieces: list[tuple[int, int]], slots: Iterator[int]
) -> list[UOp]:
    owners = [str(f.device) for f in flat]
    sums = [
        _folded(op, [_piece(f, p) for f in flat], d).contiguous()
        for p, d in zip(pieces, owners, strict=False)
    ]
    return [_spread(flat[0], d, pieces, sums, slots) for d in owners]


def _spread(
    like: UOp, device: str, pieces: list[tuple[int, int]], sums: Sequence[UOp], slots: Iterator[int]
) -> UOp:
    buffer = _buffer(like.shape[0], like, device, slots)
    why = f"a piece of the whole, for {device}"
    calls = [_copied_into(_piece(buffer, p), s, why) for p, s in zip(pieces, sums, strict=True)]
    return buffer.after(*calls)


def _ring(
    op: Ops, flat: Sequence[UOp], pieces: list[tuple[int, int]], slots: Iterator[int]
) -> list[UOp]:
    """Piece k starts at device k+1 and is whole when it comes to device k; then it goes on."""
    n = len(flat)
    devices = [str(f.device) for f in flat]
    buffers = [_buffer(f.shape[0], f, d, slots) for f, d in zip(flat, devices, strict=True)]
    calls: list[list[UOp]] = [[] for _ in flat]
    for k, piece in enumerate(pieces):
        found = _piece(flat[(k + 1) % n], piece)
        for at in ((k + 1 + hop) % n for hop in range(1, n)):
            found = found.copy_to_device(devices[at]).alu(op, _piece(flat[at], piece))
        value = found.contiguous()
        for at in ((k + hop) % n for hop in range(n)):
            target = _piece(buffers[at], piece)
            call = _copied_into(target, value, f"the ring passes a piece on to {devices[at]}")
            calls[at].append(call)
            value = _piece(buffers[at].after(call), piece)
    return [b.after(*c) for b, c in zip(buffers, calls, strict=True)]


# *** reduce-scatter


def reduce_part(a: UOp, m: UOp, x: UOp, ctx: Collectives) -> UOp | None:
    """Of a reduction each device wants its own part: it gets the others' values of that part."""
    if a not in ctx.scattered or not _by_device(m):
        return None
    number = x.arg
    here = [_at_numbers(s) for s in m.src[1:]]
    parts = [rebuild(m, (p, *here)) for p in a.src[0].src]
    return _folded(a.arg[0], parts, str(a.src[0].src[number].device))


def _at_numbers(offsets: UOp) -> UOp:
    """The place that is meant, for all devices to take it: the numbers in it are constants."""
    places = {u: u.const_like(u.arg.axis) for u in offsets.toposort() if is_device_number(u)}
    return offsets.substitute(places, walk=True).simplify()


def _by_device(m: UOp) -> bool:
    """Whether a SHRINK takes each device's own part."""
    return m.op is Ops.SHRINK and any(is_device_number(u) for u in m.src[1].toposort())


def collectives(root: UOp, ctx: Any = None) -> Collectives:
    """Which reductions are only ever looked at in parts."""
    wanted: dict[UOp, bool] = {}
    for u in root.toposort(enter_calls=False):
        for s in u.src:
            if s.op is Ops.MSELECT and s.src[0].op is Ops.ALLREDUCE:
                wanted[s.src[0]] = wanted.get(s.src[0], True) and _by_device(u)
    return Collectives(
        itertools.count(FIRST_GATHERED, -1), frozenset(a for a, parts in wanted.items() if parts)
    )


_REDUCED = UPat(Ops.MSELECT, src=(UPat(Ops.ALLREDUCE, name="a"),), name="x")

# fmt: off
pm_collectives = PatternMatcher([
    Rule("gather", "copy(unshard(mstack(a, b)), d) -> a buffer on d after copies of a and b",
         UPat(Ops.COPY, name="x"), gather),
    Rule("reduce_everywhere", "allreduce(mstack(a, b)) -> mstack(a + b on each device)",
         UPat(Ops.ALLREDUCE, name="x"), reduce_everywhere),
    Rule("reduce_part", "shrink(allreduce(mstack(a, b)) on d, part of d) -> part of a + part of b",
         UPat(Ops.SHRINK, src=(_REDUCED, UPat(), UPat()), name="m"), reduce_part),
    Rule("part_of_parts", "mselect(mstack(a, b), 1) -> b",
         UPat(Ops.MSELECT, src=(UPat({Ops.MSTACK, Ops.UNSHARD}, name="x"),), name="m"),
         part_of_parts),
])
# fmt: on


def joins_devices(root: UOp, ctx: Any = None) -> bool:
    """Whether a graph brings values of several devices together."""
    return any(
        u.op is Ops.ALLREDUCE or (u.op is Ops.COPY and isinstance(u.src[0].device, tuple))
        for u in root.toposort(enter_calls=False)
    )

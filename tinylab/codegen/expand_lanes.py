"""UPCAST and UNROLL ranges become lanes: constant vectors, one axis of the lane shape for each.

a[r*4 + u], u an UPCAST of 4  ->  a[r*4 + [0 1 2 3]]: one node, whose shape is (4,)

Unrolled axes lead, upcast ones follow, and the axis that most accesses step along with stride 1 is
last: it becomes the native vector. Nothing is copied lane by lane; broadcasting does the rest.
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.codegen.lanes import broadcast_lanes, lane_vector, permute, reshape
from tinylab.codegen.opt.strides import accesses
from tinylab.codegen.range_tools import range_key
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import ReduceArg
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

LANE_KINDS = (AxisType.UPCAST, AxisType.UNROLL)
# Up to this many vectors of accumulators an unrolled axis keeps its lanes through the loop.
KEPT_ROWS = 8


class LanePlan(NamedTuple):
    """The lane shape of a kernel, and the axis of each range in it."""

    shape: tuple[int, ...]
    axis: dict[UOp, int]
    unrolled: frozenset[int]


def lane_plan(sink: UOp, ctx: object = None) -> LanePlan:
    """Which lane axis each UPCAST and UNROLL range gets."""
    ranges = [u for u in sink.toposort() if _is_lane(u) and not _is_one_step(u)]
    found = accesses(sink) if len(ranges) > 1 else []

    def steps(rng: UOp) -> int:
        return sum((4 if a.in_reduce else 1) * (a.stride(rng) == 1) for a in found)

    ranges.sort(key=lambda r: (r.arg[-1] is AxisType.UPCAST, range_key(r)))
    if ranges:
        vector = max(ranges, key=lambda r: (steps(r), r.arg[-1] is AxisType.UPCAST, range_key(r)))
        ranges.remove(vector)
        ranges.append(vector)
    shape = tuple(int(r.src[0].arg) for r in ranges)
    unrolled = frozenset(i for i, r in enumerate(ranges) if r.arg[-1] is AxisType.UNROLL)
    return LanePlan(shape, {r: i for i, r in enumerate(ranges)}, unrolled)


def has_lanes(sink: UOp, ctx: object = None) -> bool:
    """Whether any range is UPCAST or UNROLL."""
    return any(_is_lane(u) for u in sink.toposort())


def _is_lane(u: UOp) -> bool:
    return u.op is Ops.RANGE and u.arg[-1] in LANE_KINDS


def _is_one_step(rng: UOp) -> bool:
    return rng.src[0].op is Ops.CONST and rng.src[0].arg == 1


def range_to_lanes(rng: UOp, ctx: LanePlan) -> UOp | None:
    """An UPCAST or UNROLL range as the vector of its steps; of a single step, that number."""
    if _is_lane(rng) and _is_one_step(rng):
        return rng.const_like(0)
    axis = ctx.axis.get(rng)
    return None if axis is None else lane_vector(ctx.shape[axis], axis, len(ctx.shape))


def end_without_lanes(end: UOp) -> UOp | None:
    """A loop's end does not close lanes."""
    loops = tuple(
        r for r in end.src[1:] if r.op is Ops.RANGE or (not r.shape and r.op is not Ops.CONST)
    )
    if len(loops) == len(end.src) - 1:
        return None
    return end.src[0].end(*loops)


def reduce_lanes(red: UOp, ctx: LanePlan) -> UOp | None:
    """A reduce over loops and lanes, taken apart.

    Lanes of leading axes are added up in each step; those of the vector axis, and all of them while
    there are few accumulators, stay in the accumulator until after the loop.
    """
    lanes = [r for r in red.src[1:] if r.op is not Ops.RANGE]
    if red.arg[1] or not lanes:
        return None
    op, rank = red.arg[0], len(ctx.shape)
    # A lane of one step, from an UNROLL by 1, is a constant and on no axis.
    axes = sorted(i for r in lanes for i, n in enumerate(r.shape) if n > 1)
    loops = [r for r in red.src[1:] if r.op is Ops.RANGE]
    x = _with_axes(red.src[0], axes, ctx)
    kept = axes if not loops or _few_rows(x.shape) else [a for a in axes if a == rank - 1]
    early = [a for a in axes if a not in kept]
    x = _reduce_axes(x, early, op)
    if loops:
        x = x.reduce(*loops, arg=ReduceArg(op, 0))
    return _reduce_axes(x, kept, op)


def _with_axes(x: UOp, axes: list[int], ctx: LanePlan) -> UOp:
    """The value with every lane that is reduced, also where it is the same in all of them."""
    rank = len(ctx.shape)
    shape = [1] * (rank - len(x.shape)) + list(x.shape)
    for axis in axes:
        shape[axis] = ctx.shape[axis]
    return broadcast_lanes(x, shape)


def _few_rows(shape: tuple[int, ...]) -> bool:
    rows = 1
    for n in shape[:-1]:
        rows *= n
    return rows <= KEPT_ROWS


def _reduce_axes(x: UOp, axes: list[int], op: Ops) -> UOp:
    """Some lane axes reduced; they stay with size 1."""
    if not axes:
        return x
    shape = list(x.shape)
    lead = permute(x, [*axes, *(i for i in range(len(shape)) if i not in axes)])
    for axis in axes:
        shape[axis] = 1
    reduced = UOp(Ops.REDUCE, x.dtype, (lead,), ReduceArg(op, len(axes)))
    return reshape(reduced, shape if any(n != 1 for n in shape) else ())


# fmt: off
pm_expand_lanes = PatternMatcher([
    Rule("range_to_lanes", "UPCAST or UNROLL range of n -> [0 … n-1] along its lane axis",
         UPat(Ops.RANGE, name="rng"), range_to_lanes),
    Rule("end_without_lanes", "END(x, loop, lanes) -> END(x, loop)",
         UPat(Ops.END, name="end"), end_without_lanes),
    Rule("reduce_lanes", "REDUCE(x, loop, lanes) -> REDUCE of the loop and of leading axes",
         UPat(Ops.REDUCE, name="red"), reduce_lanes),
])
# fmt: on

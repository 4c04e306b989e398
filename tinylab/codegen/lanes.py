"""Lane shapes: small helpers that move and pick the lanes of a shaped value.

A program's value has shape (), or one axis per UPCAST and UNROLL range; the last axis is a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp, shape_to_shape_arg


def reshape(x: UOp, shape: Sequence[int]) -> UOp:
    """The lanes in another shape; none if the shape is the same."""
    return x._reshape(shape)


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """The lane axes in another order; axes of size 1 only change the shape."""
    order = tuple(order)
    if order == tuple(range(len(order))):
        return x
    moved = [a for a in order if x.shape[a] != 1]
    if moved == sorted(moved):
        return reshape(x, [x.shape[a] for a in order])
    return UOp(Ops.PERMUTE, x.dtype, (x,), order)


def pick(x: UOp, i: int) -> UOp:
    """One item of the leading axis: (4, 8) -> (8,)."""
    if x.op is Ops.STACK:
        return x.src[i]
    return UOp(Ops.INDEX, x.dtype, (x, UOp.const(i)))


def lane_vector(size: int, axis: int, rank: int, dtype: object = None) -> UOp:
    """0 … size-1 along one axis of a lane shape: size 4, axis 0 of 2 -> shape (4, 1)."""
    numbers = UOp.stack(*(UOp.const(i) for i in range(size)))
    shape = [1] * rank
    shape[axis] = size
    return reshape(numbers, shape)


def is_lane_vector(x: UOp) -> bool:
    """Whether this is 0 … n-1 along one lane axis, as `lane_vector` makes it."""
    if sum(n != 1 for n in x.shape) > 1:
        return False
    if x.op is Ops.RESHAPE:
        x = x.src[0]
    if x.op is not Ops.STACK or x.dtype is not dtypes.weakint:
        return False
    return all(s.op is Ops.CONST and s.arg == i for i, s in enumerate(x.src))


def lane_axis(x: UOp) -> int:
    """The only axis of a value that has more than one lane, counted from the end (-1 the last)."""
    found = [i for i, n in enumerate(x.shape) if n != 1]
    return (found[0] if found else 0) - len(x.shape)


def broadcast_lanes(x: UOp, shape: Sequence[int]) -> UOp:
    """The value with exactly this lane shape: missing axes added in front, ones stretched."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    own = (1,) * (len(shape) - len(x.shape)) + tuple(x.shape)
    grown = [i for i, (a, b) in enumerate(zip(own, shape, strict=True)) if a != b]
    x = reshape(x, [n for i, n in enumerate(own) if i not in grown])
    x = UOp(Ops.EXPAND, x.dtype, (x, shape_to_shape_arg([shape[i] for i in grown])))
    order = [*grown, *(i for i in range(len(shape)) if i not in grown)]
    return permute(x, [order.index(i) for i in range(len(shape))])


def fold(x: UOp, op: Ops) -> UOp:
    """The leading axis reduced by one operation after another: (4, 8) -> (8,)."""
    found = pick(x, 0)
    for i in range(1, x.shape[0]):
        found = found.alu(op, pick(x, i))
    return found


def fold_last(x: UOp, op: Ops) -> UOp:
    """The last axis reduced to size 1 by halving it: (4, 16) -> (4, 8) -> … -> (4, 1)."""
    *lead, n = x.shape
    while n > 1 and n % 2 == 0:
        halves = reshape(x, [*lead, 2, n // 2])
        rank = len(lead)
        halves = permute(halves, [rank, *range(rank), rank + 1])
        x = pick(halves, 0).alu(op, pick(halves, 1))
        n //= 2
    if n > 1:
        rank = len(lead)
        x = fold(permute(reshape(x, [*lead, n]), [rank, *range(rank)]), op)
    return reshape(x, [*lead, 1])


def lane_count(shape: Sequence[int]) -> int:
    """Lanes of a value of this shape."""
    return math.prod(shape)

"""Movement: one node each, checked by the methods of the language that call them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tinylab.dtype import ConstType, DType, Invalid, as_const, dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import RangeArg, ReduceArg, StageArg, is_unit
from tinylab.uop.infer import node_to_shape
from tinylab.uop.intern import make

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Sint = Any  # int | UOp
# The axis id of the loop variable inside `_iota`: no loop of a kernel has a negative id.
IOTA_AXIS = -2


def const(value: ConstType, dtype: DType | None = None) -> UOp:
    """A CONST; without a dtype bool, weakint or weakfloat by value."""
    if dtype is None:
        if isinstance(value, bool) or value is Invalid:
            dtype = dtypes.bool
        else:
            dtype = dtypes.weakfloat if isinstance(value, float) else dtypes.weakint
    return make(Ops.CONST, dtype, (), as_const(value, dtype))


def sint_to_uop(x: Sint, dtype: DType = dtypes.weakint) -> UOp:
    """A size as a node; what has `__index__` is one."""
    if isinstance(x, int):
        return const(x, dtype)
    return cast("UOp", x) if hasattr(x, "src") else const(operator.index(x), dtype)


def shape_to_shape_arg(shape: Sequence[Sint]) -> UOp:
    """The node that holds sizes: one expression for one axis, a STACK for any other number."""
    items = tuple(sint_to_uop(s) for s in shape)
    if len(items) == 1:
        return items[0]
    return make(Ops.STACK, dtypes.weakint if items else dtypes.void, items)


def settled(sizes: Sequence[Sint]) -> tuple[Sint, ...]:
    """Sizes in the one form that equal ones have: n + 1 - 1 is n."""
    return tuple(s if isinstance(s, int) else s.ssimplify() for s in sizes)


class MoveMethods:
    """The six movements of a value, and the reductions that stand on them."""

    __slots__ = ()

    @property
    def marg(self: UOp) -> Any:
        """What a movement does: its shape, (offset, size) pairs, an order or flags."""
        if self.op in (Ops.PAD, Ops.SHRINK):
            offsets, sizes = node_to_shape(self.src[1]), node_to_shape(self.src[2])
            return tuple(zip(offsets, sizes, strict=True))
        return node_to_shape(self.src[1]) if len(self.src) > 1 else self.arg

    def _reshape(self: UOp, shape: Sequence[Sint]) -> UOp:
        shape = tuple(shape)
        if shape == self.shape:
            return self
        below = self.src[0] if self.op is Ops.RESHAPE else self
        if below.shape == shape:
            return below
        return make(Ops.RESHAPE, self.dtype, (below, shape_to_shape_arg(shape)))

    def _permute(self: UOp, order: Sequence[int]) -> UOp:
        order = tuple(order)
        if order == tuple(range(len(order))):
            return self
        return make(Ops.PERMUTE, self.dtype, (self,), order)

    def _expand_front(self: UOp, sizes: Sequence[Sint]) -> UOp:
        return make(Ops.EXPAND, self.dtype, (self, shape_to_shape_arg(sizes))) if sizes else self

    def _pad(self: UOp, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        return self._window(Ops.PAD, offsets, sizes)

    def _shrink(self: UOp, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        return self._window(Ops.SHRINK, offsets, sizes)

    def _window(self: UOp, op: Ops, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        if tuple(sizes) == self.shape and all(isinstance(o, int) and o == 0 for o in offsets):
            return self
        return make(op, self.dtype, (self, shape_to_shape_arg(offsets), shape_to_shape_arg(sizes)))

    def _flip(self: UOp, axes: Sequence[bool]) -> UOp:
        return make(Ops.FLIP, self.dtype, (self,), tuple(axes)) if any(axes) else self

    def _expand(self: UOp, shape: Sequence[Sint]) -> UOp:
        """Axes of size 1 stretched to a shape of the same rank: dropped, added in front, moved."""
        old = self.shape
        grown = [
            i for i, (a, b) in enumerate(zip(old, shape, strict=True)) if a is not b and a != b
        ]
        if not grown:
            return self
        kept = [i for i in range(len(old)) if i not in grown]
        front = self._reshape([old[i] for i in kept])._expand_front([shape[i] for i in grown])
        order = grown + kept
        return front._permute([order.index(i) for i in range(len(old))])

    def _rop(self: UOp, op: Ops, axis: Sequence[int]) -> UOp:
        """A tensor reduce: the axes move to the front and vanish.

        Sizes of 1 are not reduced, only dropped.
        """
        shape = self.shape
        real = [a for a in sorted(axis) if not is_unit(shape[a])]
        kept = [a for a in range(len(shape)) if a not in axis]
        small = [a for a in axis if a not in real]
        value = self._permute(real + small + kept)
        value = value._reshape([shape[a] for a in real + kept])
        if not real:
            return value
        return make(Ops.REDUCE, self.dtype, (value,), ReduceArg(op, len(real)))

    def _mop(self: UOp, op: Ops, arg: tuple[Any, ...]) -> UOp:
        """A movement in the words of the shared methods.

        RESHAPE a shape, PERMUTE an order, EXPAND sizes to put in front, PAD (before, after) pairs,
        SHRINK (begin, end) pairs, FLIP one bool per axis.
        """
        if op is Ops.RESHAPE:
            return self._reshape(settled(arg))
        if op is Ops.PERMUTE:
            return self._permute(arg)
        if op is Ops.EXPAND:
            return self._expand_front(settled(arg))
        if op is Ops.FLIP:
            return self._flip(arg)
        if op is Ops.PAD:
            grown = [b + s + a for (b, a), s in zip(arg, self.shape, strict=True)]
            return self._pad(settled([b for b, _ in arg]), settled(grown))
        # From v to v + 2 there are 2.
        sizes = settled([e if isinstance(b, int) and b == 0 else e - b for b, e in arg])
        return self._shrink(settled([b for b, _ in arg]), sizes)

    @staticmethod
    def _iota(size: Sint, dtype: DType) -> UOp:
        """(size,) 0, 1, 2, …: a loop variable staged over its own loop, never stored."""
        r = make(
            Ops.RANGE,
            dtypes.weakint,
            (sint_to_uop(size),),
            RangeArg((IOTA_AXIS, AxisType.PLACEHOLDER)),
        )
        return make(Ops.STAGE, dtype, (r.cast(dtype), r), StageArg(None))

"""Reductions over axes, and what is made of them: means, variances, softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import DType, DTypeLike, dtypes, strong_dtype, sum_acc_dtype, to_dtype
from tinylab.errors import ShapeError
from tinylab.mixin.activation import ActivationMixin
from tinylab.mixin.base import Axes, same_size, shape_text
from tinylab.mixin.creation import CreationMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="ReduceMixin")


class ReduceMixin(ActivationMixin, CreationMixin):
    """Many elements to one, along axes."""

    __slots__ = ()

    def _reduce(self, op: Ops, axis: Axes, keepdim: bool) -> Self:
        """Reduce axes with ADD, MUL or MAX; the empty reduction gives the neutral element.

        What is weak becomes strong: a reduction may be stored, and memory has no weak type.
        """
        if dtypes.is_weak(self.dtype):
            return self.cast(strong_dtype(self.dtype))._reduce(op, axis, keepdim)
        axes = self._axes(axis)
        kept = tuple(s for i, s in enumerate(self.shape) if i not in axes)
        empty = any(same_size(self.shape[i], 0) for i in axes)
        nothing = any(same_size(s, 0) for s in kept)
        if empty or nothing:
            start = self.dtype.min if op is Ops.MAX else int(op is Ops.MUL)
            found = self.const(start, self.dtype)._broadcast_to(kept)
        else:
            found = self._rop(op, axes)
        if not keepdim:
            return found
        return found.reshape(tuple(1 if i in axes else s for i, s in enumerate(self.shape)))

    def _accumulate(self, op: Ops, axis: Axes, keepdim: bool, dtype: DTypeLike | None) -> Self:
        """A sum or product in a type wide enough, given back as the type or the one wished for.

        Small floats are accumulated in float32 and rounded once.
        """
        if dtype is not None:
            wide = to_dtype(dtype)
            return self.cast(wide)._reduce(op, axis, keepdim)
        own = strong_dtype(self.dtype)
        wide = sum_acc_dtype(own)
        found = self.cast(wide)._reduce(op, axis, keepdim)
        return found.cast(own) if own.kind == "float" else found

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum of the elements along axes; small integers add up in 32 bits.

        (2, 3).sum(1) -> (2,)
        """
        return self._accumulate(Ops.ADD, axis, keepdim, dtype)

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """The product of the elements along axes."""
        return self._accumulate(Ops.MUL, axis, keepdim, dtype)

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The largest element along axes; NaN if one is NaN, of none the type's least value."""
        return self._reduce(Ops.MAX, axis, keepdim)

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The smallest element along axes; NaN if one is NaN, of none the type's largest value."""
        return self._mirrored()._reduce(Ops.MAX, axis, keepdim)._mirrored()

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Whether some element along axes is not zero."""
        return _logical(self.cast(dtypes.bool), axis, keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Whether all elements along axes are not zero."""
        return _logical(self.logical_not(), axis, keepdim).logical_not()

    def allclose(
        self, other: Self, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """Whether all elements are close, as `isclose` has it."""
        return self.isclose(other, rtol, atol, equal_nan).all()

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The mean along axes, as a float."""
        own = self._as_float().dtype
        wide = sum_acc_dtype(strong_dtype(own))
        total = self.cast(wide)._reduce(Ops.ADD, axis, keepdim)
        return total.div(self._count(axis)).cast(strong_dtype(own))

    def _count(self, axis: Axes) -> Any:
        """How many elements a reduction over the axes takes together."""
        count: Any = 1
        for a in self._axes(axis):
            count = count * self.shape[a]
        return count

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The variance along axes: squared distances from the mean over (count - correction).

        Too few elements give NaN, as in numpy.
        """
        return self._wide_var(axis, keepdim, correction).cast(strong_dtype(self._as_float().dtype))

    def _wide_var(self, axis: Axes, keepdim: bool, correction: int) -> Self:
        """The variance in the type of sums: that of small floats may not fit them."""
        x = self.cast(sum_acc_dtype(strong_dtype(self._as_float().dtype)))
        squares = (x - x.mean(axis, keepdim=True)).square()._reduce(Ops.ADD, axis, keepdim)
        left = self._count(axis) - correction
        return squares / (max(left, 0) if isinstance(left, int) else left)

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The standard deviation: the square root of `var`; of equal values its gradient is 0."""
        root = self._wide_var(axis, keepdim, correction)._root(2)
        return root.cast(strong_dtype(self._as_float().dtype))

    def var_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """(var, mean)."""
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """(std, mean)."""
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """Each vector along an axis divided by its p-norm, or by eps if that is larger."""
        if p == 0:
            return self / self.ne(0).cast(self.dtype).sum(dim, keepdim=True).maximum(eps)
        # The squares of small floats do not fit them.
        wide = self.cast(sum_acc_dtype(strong_dtype(self._as_float().dtype)))
        found = wide / wide._norm(p, dim).maximum(eps)
        return found.cast(self.dtype) if self.is_floating_point() else found

    def _norm(self, p: float, dim: int) -> Self:
        if p == math.inf:
            return self.abs().max(dim, keepdim=True)
        # Of an even power no sign is left, and |x| would hide how x² bends at 0.
        size = self if p % 2 == 0 else self.abs()
        return size.pow(p).sum(dim, keepdim=True)._root(p)

    def _root(self, p: float) -> Self:
        """The p-th root, constant at 0, where it has no slope: for lengths, which are 0 there."""
        zero = self.eq(0)
        return zero.where(0, zero.where(1, self).pow(1 / p))

    # *** exponentials of a row

    def softmax(self, axis: Axes = -1, dtype: DTypeLike | None = None) -> Self:
        """exp(self) over its sum along the axis.

        (2, 3) -> (2, 3), each row adding up to 1
        """
        x = self._softmax_input(dtype)
        top = x._top(axis)
        powers = (x - top).exp()
        return (powers / powers.sum(axis, keepdim=True)).cast(self._softmax_dtype(dtype))

    def _softmax_of_some(self, axis: Axes) -> Self:
        """`softmax`, but 0 where all are -inf: where there is nothing to choose from."""
        x = self._softmax_input(None)
        top = x._top(axis)
        powers = (x - top.eq(-math.inf).where(0, top)).exp()
        total = powers.sum(axis, keepdim=True)
        return (powers / total.eq(0).where(1, total)).cast(self._softmax_dtype(None))

    def softmin(self, axis: Axes = -1, dtype: DTypeLike | None = None) -> Self:
        """`softmax` of the negated values."""
        return (
            self._softmax_input(dtype).neg().softmax(axis, dtype).cast(self._softmax_dtype(dtype))
        )

    def log_softmax(self, axis: Axes = -1, dtype: DTypeLike | None = None) -> Self:
        """The logarithm of `softmax`, without the loss of small numbers."""
        x = self._softmax_input(dtype)
        top = x._top(axis)
        below = x - top
        found = below - below.exp().sum(axis, keepdim=True).log()
        return found.cast(self._softmax_dtype(dtype))

    def _top(self, axis: Axes) -> Self:
        """The maximum, 0 of no elements; it has no gradient."""
        nothing = any(same_size(self.shape[i], 0) for i in self._axes(axis))
        return (self.sum if nothing else self.max)(axis, keepdim=True).detach()

    def _softmax_dtype(self, dtype: DTypeLike | None) -> DType:
        return to_dtype(dtype) if dtype is not None else strong_dtype(self._as_float().dtype)

    def _softmax_input(self, dtype: DTypeLike | None) -> Self:
        """The values in at least float32: small floats are rounded once, at the end."""
        return self.cast(sum_acc_dtype(self._softmax_dtype(dtype)))

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log(sum(exp(self))) along axes, without overflow."""
        x = self._softmax_input(None)
        top = x._top(axis)
        # Rows of infinities only: what is subtracted must be finite.
        top = top.isfinite().where(top, 0)
        total = (x - top).exp().sum(axis, keepdim=True).log() + top
        if not keepdim:
            total = total.reshape(tuple(s for i, s in enumerate(x.shape) if i not in x._axes(axis)))
        return total.cast(self._softmax_dtype(None))

    # *** places of the extremes

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The first place of the largest element along an axis, or of all; NaN is the largest.

        [3, 1, 3].argmax() -> 0

        Raises: ShapeError where there is no element to be at a place.
        """
        if axis is None:
            return self.flatten().argmax(0).reshape((1,) * self.ndim if keepdim else ())
        place = self._axis(axis)
        if self.ndim == 0:
            return self.const(0, dtypes.default_int)
        n = self.shape[place]
        if same_size(n, 0) and not any(
            same_size(s, 0) for i, s in enumerate(self.shape) if i != place
        ):
            raise ShapeError(
                f"none of no elements is at a place: axis {place} of {shape_text(self.shape)} "
                "has size 0"
            )
        top = self.max(axis, keepdim=True)
        found = self.eq(top) | self.isnan() if self.dtype.kind == "float" else self.eq(top)
        # The largest of n - place among the hits belongs to the first place.
        shape = tuple(n if i == place else 1 for i in range(self.ndim))
        left = self._iota(n, dtypes.default_int).sub(n, reverse=True).reshape(shape)
        return found.where(left, 0).max(place, keepdim).sub(n, reverse=True)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The first place of the smallest element along an axis; NaN is the smallest."""
        return self._mirrored().argmax(axis, keepdim)


def _logical(truth: S, axis: Axes, keepdim: bool) -> S:
    """Whether some element is true: the maximum, or False of nothing."""
    return truth._reduce(Ops.MAX, axis, keepdim)

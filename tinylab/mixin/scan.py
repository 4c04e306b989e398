"""Running sums, products and extremes along an axis.

A scan in blocks: each element sees its block's elements up to itself, blocks are scanned by their
totals. The work is n times the block's size, not n squared, in as few kernels as there are levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import dtypes, strong_dtype, sum_acc_dtype
from tinylab.mixin.base import largest, same_size, surely
from tinylab.mixin.reduce import ReduceMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="ScanMixin")

BLOCK = 32
# Elements whose products without each one are made one by one: each order of a product's
# derivative costs this many times the one before.
GROUP = 8


class ScanMixin(ReduceMixin):
    """Prefix sums and their kin."""

    __slots__ = ()

    def cumsum(self, axis: int = 0) -> Self:
        """Running sum along one axis.

        (2, 3) [[1, 2, 3], [4, 5, 6]], axis=1  ->  (2, 3) [[1, 3, 6], [4, 9, 15]]

        Raises: IndexingError if axis is not in [-ndim, ndim).
        Source: Blelloch, "Prefix sums and their applications", 1990.
        """
        return _accumulated(self, Ops.ADD, axis)

    def cumprod(self, axis: int) -> Self:
        """Running product along one axis.

        [1, 2, 3] -> [1, 2, 6]

        Raises: IndexingError if axis is not in [-ndim, ndim).
        """
        return _accumulated(self, Ops.MUL, axis)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """(running maximum along an axis, the last place where it was reached).

        [3, 1, 4] -> [3, 3, 4], [0, 0, 2]

        A tensor's gradient goes to these places.

        Raises: IndexingError if axis is not in [-ndim, ndim).
        """
        place = self._axis(axis)
        if self.ndim == 0:
            return self, self.const(0, dtypes.default_int)
        values = self._running_max(place)
        return values, self._last_reached(values, place)

    def _running_max(self, axis: int) -> Self:
        return _scan(self, Ops.MAX, axis)

    def _last_reached(self, values: Self, axis: int) -> Self:
        """The last place, up to each, that holds the running maximum."""
        n = self.shape[axis]
        hit = self.eq(values) | self.isnan() if self.dtype.kind == "float" else self.eq(values)
        shape = tuple(n if i == axis else 1 for i in range(self.ndim))
        at = self._iota(n, dtypes.default_int).reshape(shape)
        return _scan(hit.where(at, 0), Ops.MAX, axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """(running minimum along an axis, the last place where it was reached)."""
        values, places = self._mirrored().cummax(axis)
        return values._mirrored(), places

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log(cumsum(exp(self))) along an axis, without overflow.

        Raises: IndexingError if axis is not in [-ndim, ndim).
        """
        place = self._axis(axis)
        if self.ndim == 0:
            return self._as_float()
        return _scan_logs(self._as_float(), place)

    def _others(self, axis: int) -> Self:
        """The product of all other elements along an axis, made by products only.

        [2, 0, 3] -> [0, 6, 0]

        The slope of `prod`: without a division or a case for zeros its own slopes hold too.
        """
        last = self.ndim - 1
        order = (*(i for i in range(self.ndim) if i != axis), axis)
        found = _without_each(self.permute(order))
        return found.permute((*range(axis), last, *range(axis, last)))


def _accumulated(x: S, op: Ops, axis: int) -> S:
    place = x._axis(axis)
    own = strong_dtype(x.dtype)
    wide = x.cast(sum_acc_dtype(own))
    found = wide if x.ndim == 0 else _scan(wide, op, place)
    return found.cast(own) if own.kind == "float" else found


def _neutral(op: Ops, dtype: Any) -> Any:
    return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: dtype.lowest}[op]


def _scan(x: S, op: Ops, axis: int) -> S:
    """The scan along one axis: inside blocks by windows, between blocks by recursion."""
    n = x.shape[axis]
    if any(same_size(s, 0) for s in x.shape):
        return x
    if surely(n <= BLOCK):
        return _scan_window(x, op, axis)
    last = x.ndim - 1
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    moved = x.permute(order)
    count = (n + BLOCK - 1) // BLOCK
    neutral = _neutral(op, x.dtype)
    padded = moved._pad_constant([(0, 0)] * last + [(0, count * BLOCK - n)], neutral)
    blocks = padded.reshape((*moved.shape[:-1], count, BLOCK))
    inner = _scan_window(blocks, op, last + 1).contiguous()
    totals = inner._shrink_axis(last + 1, BLOCK - 1, BLOCK).reshape(blocks.shape[:-1])
    before = _scan(totals._shrink_axis(last, 0, totals.shape[last] - 1), op, last).contiguous()
    before = before._pad_constant([(0, 0)] * last + [(1, 0)], neutral).unsqueeze(last + 1)
    found = before.alu(op, inner).reshape(padded.shape)._shrink_axis(last, 0, n)
    back = [order.index(i) for i in range(x.ndim)]
    return found.permute(tuple(back))


def _scan_window(x: S, op: Ops, axis: int) -> S:
    """Each element with all before it, as a reduction over windows of the axis."""
    n, last = x.shape[axis], x.ndim - 1
    if not isinstance(n, int):
        whole = x._zero_pad([(0, largest(n) - n if i == axis else 0) for i in range(x.ndim)])
        return _scan_window(whole, op, axis)._shrink_axis(axis, 0, n)
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    pads = [(0, 0)] * last + [(n - 1, 0)]
    windows = x.permute(order)._pad_constant(pads, _neutral(op, x.dtype))._windows((n,), (1,), (1,))
    found = windows._rop(op, (last + 1,))
    return found.permute(tuple(order.index(i) for i in range(x.ndim)))


def _without_each(x: S) -> S:
    """The products without each element of the last axis: of its group's others, of other groups.

    Groups are taken by their products, so n elements take n times GROUP products and a bit.
    """
    n, last = x.shape[-1], x.ndim - 1
    if surely(n <= GROUP):
        place = x._iota(n, dtypes.int32)
        rows = x.unsqueeze(last)._broadcast_to((*x.shape, n))
        return place.reshape((n, 1)).eq(place).where(1, rows)._rop(Ops.MUL, (last + 1,))
    count = (n + GROUP - 1) // GROUP
    padded = x._pad_constant([(0, 0)] * last + [(0, count * GROUP - n)], 1)
    groups = padded.reshape((*x.shape[:-1], count, GROUP))
    outside = _without_each(groups._rop(Ops.MUL, (last + 1,)).contiguous()).contiguous()
    inside = _without_each(groups).alu(Ops.MUL, outside.unsqueeze(last + 1))
    return inside.reshape(padded.shape)._shrink_axis(last, 0, n)


def _scan_logs(x: S, axis: int) -> S:
    """Every window's logsumexp; the running maximum keeps the exponentials small."""
    if any(same_size(s, 0) for s in x.shape):
        return x
    if not surely(x.shape[axis] <= BLOCK):
        return _scan_pairs(x, axis)
    top = _scan(x, Ops.MAX, axis).detach()
    return _log_windows(x, top.isfinite().where(top, 0), axis)


def _log_windows(x: S, top: S, axis: int) -> S:
    n, last = x.shape[axis], x.ndim - 1
    if not isinstance(n, int):
        after = [(0, largest(n) - n if i == axis else 0) for i in range(x.ndim)]
        whole = _log_windows(x._zero_pad(after), top._zero_pad(after), axis)
        return whole._shrink_axis(axis, 0, n)
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    back = tuple(order.index(i) for i in range(x.ndim))
    padded = x.permute(order)._pad_constant([(0, 0)] * last + [(n - 1, 0)], x.dtype.lowest)
    shift = top.permute(order)
    powers = (padded._windows((n,), (1,), (1,)) - shift.unsqueeze(last + 1)).exp()
    return (powers._rop(Ops.ADD, (last + 1,)).log() + shift).permute(back)


def _scan_pairs(x: S, axis: int) -> S:
    """A scan by doubling distances, for folds that are no reduction.

    Source: Hillis, Steele, "Data parallel algorithms", 1986.
    """
    n, distance = x.shape[axis], 1
    while distance < largest(n):
        pads = [(0, 0)] * x.ndim
        pads[axis] = (distance, 0)
        shifted = x._pad_constant(pads, x.dtype.lowest)._shrink_axis(axis, 0, n)
        x = x.logaddexp(shifted).contiguous()
        distance *= 2
    return x

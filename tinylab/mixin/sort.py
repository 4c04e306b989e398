"""Sorting by a bitonic network; places travel with values, so equal values keep their order.

A value of at most 32 bits and its place are one integer, which is all that the network moves; the
values are read from where they were. Wider ones move side by side with their places.

Source: Batcher, "Sorting networks and their applications", 1968.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.errors import ShapeError
from tinylab.mixin.base import Size, largest, same_size, size_text, surely
from tinylab.mixin.buckets import sorted_places
from tinylab.mixin.loss import LossMixin

if TYPE_CHECKING:
    from typing import Self


class SortMixin(LossMixin):
    """Order along an axis; NaN is larger than every number."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """(the values in order along an axis, where they came from); equal values keep their order.

        [3, 1, 2] -> [1, 2, 3], [1, 2, 0]
        """
        axis = self._axis(dim)
        if self.ndim == 0 or surely(self.shape[axis] <= 1) or _is_empty(self):
            return self, self.const_like(0, dtypes.default_int)
        n = self.shape[axis]
        order = (*(i for i in range(self.ndim) if i != axis), axis)
        values, places = _in_order(self.permute(order), n, n, descending)
        back = tuple(order.index(i) for i in range(self.ndim))
        return values.permute(back), places.permute(back)

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """Where the values in order come from."""
        return self.detach().sort(dim, descending)[1]

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """(the k largest or smallest values along an axis, their places).

        [3, 1, 2].topk(2) -> [3, 2], [0, 2]

        sorted_=False leaves the order open; it is the same one here.

        Raises: ShapeError when the axis has fewer than k elements.
        """
        axis = self._axis(dim)
        size = self.shape[axis] if self.ndim else 1
        if not isinstance(k, int) or not (k >= 0 and surely(k <= size)):
            raise ShapeError(
                f"topk: {k=} is out of range for axis {dim} of size {size_text(size)}",
                help=None if isinstance(size, int) else f"give its Variable a lower bound of {k}",
            )
        if self.ndim == 0 or surely(size <= 1) or _is_empty(self):
            values, places = self.sort(dim, descending=largest)
            if self.ndim == 0:
                return values, places
            return values._shrink_axis(axis, 0, k), places._shrink_axis(axis, 0, k)
        moved = self.transpose(axis, -1)
        values, places = _in_order(moved, size, k, descending=largest)
        return values.transpose(axis, -1), places.transpose(axis, -1)


# The gradient of a read of so many places compares each with each element.
_MOST_READ = 1 << 32


def _is_empty(x: Any) -> bool:
    return any(same_size(s, 0) for s in x.shape)


def _in_order(x: Any, n: Size, k: Size, descending: bool) -> tuple[Any, Any]:
    """The first k of the last axis in order, with their places."""
    last = x.ndim - 1
    if x.dtype.itemsize > 4 or largest(n) * largest(k) > _MOST_READ:
        values, places = _bitonic(x, n, descending)
        return values._shrink_axis(last, 0, k), places._shrink_axis(last, 0, k)
    places = sorted_places(x.detach(), descending)._shrink_axis(last, 0, k)
    return x.gather(last, places), places


def _bitonic(x: Any, n: Size, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, with places."""
    size = 1 << (largest(n) - 1).bit_length()
    lead = x.shape[:-1]
    # Padding comes last whatever its value: its places are the largest and it is marked.
    values = x._zero_pad([(0, 0)] * len(lead) + [(0, size - n)]).contiguous()
    places = x._iota(size, dtypes.default_int)._broadcast_to((*lead, size)).contiguous()
    length = 2
    while length <= size:
        values, places = _compare_halves(values, places, length, True, n, descending)
        step = length // 2
        while step > 1:
            values, places = _compare_halves(values, places, step, False, n, descending)
            step //= 2
        length *= 2
    return values._shrink_axis(x.ndim - 1, 0, n), places._shrink_axis(x.ndim - 1, 0, n)


def _compare_halves(
    values: Any, places: Any, length: int, mirrored: bool, n: Size, descending: bool
) -> tuple[Any, Any]:
    """In each block compare the first half with the second (mirrored or not) and exchange."""
    lead, size = values.shape[:-1], values.shape[-1]
    shape = (*lead, size // length, 2, length // 2)
    axis = len(lead) + 1

    def halves(t: Any) -> tuple[Any, Any]:
        t = t.reshape(shape)
        first, second = t._shrink_axis(axis, 0, 1), t._shrink_axis(axis, 1, 2)
        return first, second.flip(axis + 1) if mirrored else second

    (a, b), (p, q) = halves(values), halves(places)
    swap = _comes_after(a, p, b, q, n, descending)

    def joined(x: Any, y: Any) -> Any:
        low, high = swap.where(y, x), swap.where(x, y)
        high = high.flip(axis + 1) if mirrored else high
        return low.cat(high, dim=axis).reshape((*lead, size)).contiguous()

    return joined(a, b), joined(p, q)


def _comes_after(a: Any, p: Any, b: Any, q: Any, n: Size, descending: bool) -> Any:
    """Where the pair (a at p) belongs behind (b at q): by padding, value, then place."""
    if a.dtype.kind == "float":
        larger = (b < a) | (a.isnan() & b.isnan().logical_not())
        smaller = (a < b) | (b.isnan() & a.isnan().logical_not())
    else:
        larger, smaller = b < a, a < b
    after, before = (smaller, larger) if descending else (larger, smaller)
    tie = (after | before).logical_not() & (q < p)
    both_real = (p < n) & (q < n)
    return both_real.where(after | tie, q < p)

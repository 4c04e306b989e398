"""Sorting by integer keys whose order is that of the values; equal values keep their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes, strong_dtype
from tinylab.errors import ShapeError
from tinylab.mixin.base import Size, same_size, size_text, surely
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
        return self._first_in_order(self.shape[axis] if self.ndim else 1, axis, descending)

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
        return self._first_in_order(k, axis, descending=largest)

    def _first_in_order(self, k: Size, axis: int, descending: bool) -> tuple[Self, Self]:
        """The first k of an axis in order, and their places."""
        if self.ndim == 0:
            return self, self.const_like(0, dtypes.default_int)
        if surely(self.shape[axis] <= 1) or same_size(k, 0) or _is_empty(self):
            cut = self._shrink_axis(axis, 0, k)
            return cut, cut.const_like(0, dtypes.default_int)
        order = (*(i for i in range(self.ndim) if i != axis), axis)
        x = self.cast(strong_dtype(self.dtype)).permute(order)
        places = _sort_key(x.detach(), descending)._ordered(k)[1].cast(dtypes.default_int)
        values = x.gather(self.ndim - 1, places)
        back = tuple(order.index(i) for i in range(self.ndim))
        return values.permute(back), places.permute(back)


def _is_empty(x: Any) -> bool:
    return any(same_size(s, 0) for s in x.shape)


def _sort_key(x: Any, descending: bool) -> Any:
    """An int32, or int64 for what is wider, that orders as the values do.

    NaN is larger than every number, and 0.0 and -0.0 are equal.
    """
    wide = x.dtype.itemsize > 4
    own = dtypes.int64 if wide else dtypes.int32
    if x.dtype.kind == "float":
        x = x if wide else x.cast(dtypes.float32)
        bits = x.bitcast(own)
        bits = (bits < 0).where(bits ^ own.max, bits)
        key = x.eq(0).where(0, x.isnan().where(own.max, bits))
    elif x.dtype in (dtypes.uint32, dtypes.uint64):
        key = x.bitcast(own) ^ own.min
    else:
        key = x.cast(own)
    return ~key if descending else key

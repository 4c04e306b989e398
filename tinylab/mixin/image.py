"""Resizing of planes and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.errors import OperandError
from tinylab.mixin.sort import SortMixin

if TYPE_CHECKING:
    from typing import Self


class ImageMixin(SortMixin):
    """Resampling along the last axes."""

    __slots__ = ()

    def interpolate(
        self, size: tuple[int, ...], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """The last axes resampled to other sizes; mode is linear, nearest or nearest-exact.

        (1, 1, 2, 2), size (4, 4) -> (1, 1, 4, 4)

        Between integers it is rounded once, after the last axis.

        Raises: OperandError for an unknown mode, or for more sizes than axes.
        """
        if not isinstance(size, (tuple, list)) or not 0 < len(size) <= self.ndim:
            raise OperandError(f"interpolate: {size=} needs one number for each of the last axes")
        old_sizes = self.shape[-len(size) :]
        if any(not isinstance(n, int) or n < 1 for n in size) or 0 in old_sizes:
            raise OperandError(f"interpolate: cannot go from {old_sizes} to {tuple(size)}")
        if mode not in ("linear", "nearest", "nearest-exact"):
            raise OperandError(
                f"interpolate: {mode=} is unknown", help="use linear, nearest or nearest-exact"
            )
        if mode != "linear" and align_corners:
            raise OperandError("interpolate: align_corners only goes with mode='linear'")
        x = self
        if mode == "linear" and not self.is_floating_point():
            x = self.cast(dtypes.float64 if self.dtype.itemsize > 2 else dtypes.float32)
        for i, new in enumerate(size):
            axis = self.ndim - len(size) + i
            old = self.shape[axis]
            if mode == "linear":
                x = _linear(x, axis, old, new, align_corners)
            else:
                x = x[(*(slice(None),) * axis, _nearest(x, old, new, mode))]
        return x.cast(self.dtype) if self.is_floating_point() else x.round().cast(self.dtype)


def _nearest(x: Any, old: int, new: int, mode: str) -> Any:
    products = 2 * (new + 1) * old
    places = x._iota(new, dtypes.int32 if products < 1 << 31 else dtypes.int64)
    if mode == "nearest":
        return places * old // new
    return ((places * 2 + 1) * old // (2 * new)).clip(0, old - 1)


def _linear(x: Any, axis: int, old: int, new: int, align_corners: bool) -> Any:
    """Each new element between the two old ones beside it."""
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    places = x._iota(new, dtypes.int32).cast(wide)
    if align_corners:
        at = places * ((old - 1) / (new - 1) if new > 1 else 0.0)
    else:
        at = ((places + 0.5) * (old / new) - 0.5).clip(0, old - 1)
    low = at.floor()
    weight = (at - low).reshape(tuple(new if i == axis else 1 for i in range(x.ndim)))
    first = low.cast(dtypes.int32)
    second = (first + 1).minimum(old - 1)
    before = (slice(None),) * axis
    a, b = x[(*before, first)], x[(*before, second)]
    return a + (b - a) * weight

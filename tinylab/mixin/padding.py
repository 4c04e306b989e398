"""Elements around a value: zeros, a constant, or its own elements again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import ConstType, dtypes
from tinylab.errors import OperandError, ShapeError
from tinylab.mixin.base import PartSizes, Shape, Size, as_shape, shape_text, size_text
from tinylab.mixin.windows import WindowMixin

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound=WindowMixin)


class PaddingMixin(WindowMixin):
    """Padding in all modes."""

    __slots__ = ()

    def pad(
        self,
        padding: Sequence[Size] | Sequence[tuple[Size, Size] | None],
        mode: str = "constant",
        value: ConstType = 0.0,
    ) -> Self:
        """Elements around the value; negative numbers cut some off.

        padding is flat as in PyTorch (last axis first: left, right, top, bottom), or one pair or
        None for each axis. mode is constant, reflect, replicate or circular.

        [1, 2].pad((1, 2)) -> [0, 1, 2, 0, 0];  [1, 2].pad(((1, 0),)) -> [0, 1, 2]

        Raises: ShapeError for a padding of the wrong length or too large for its mode.
        """
        pads = _pad_pairs(self.shape, padding)
        if mode not in ("constant", "reflect", "replicate", "circular"):
            raise OperandError(
                f"pad: {mode=} is not supported",
                help="use constant, reflect, replicate or circular",
            )
        cut = self.shrink(
            tuple((max(-b, 0), s - max(-a, 0)) for (b, a), s in zip(pads, self.shape, strict=True))
            if any(b < 0 or a < 0 for b, a in pads)
            else (None,) * self.ndim
        )
        grow = [(max(b, 0), max(a, 0)) for b, a in pads]
        if mode == "constant":
            return cut._pad_constant(grow, value)
        for axis, (before, after) in enumerate(grow):
            if before or after:
                cut = _pad_like(cut, axis, before, after, mode)
        return cut

    def _pad_constant(self, pads: list[tuple[int, int]], value: ConstType) -> Self:
        padded = self._zero_pad(pads)
        if padded is self or (
            isinstance(value, (int, float)) and value == 0 and not _is_minus_zero(value)
        ):
            return padded
        if self.dtype.kind == "bool" and value in (0, 1):
            value = bool(value)
        dtype = self._operands(value, False, "pad")[0].dtype
        mask = self._true_like()._zero_pad(pads)
        return mask.where(padded.cast(dtype), self.const(value, dtype))

    def _true_like(self) -> Self:
        return self.const(True, dtypes.bool)._broadcast_to(self.shape)

    def pad_to(self, shape: PartSizes, *args: PartSizes, value: ConstType = 0) -> Self:
        """Elements put after the value along each axis, up to another shape; None keeps a size."""
        given = as_shape((shape, *args))
        if len(given) != self.ndim:
            raise ShapeError(
                f"pad_to: {given} has another number of axes than {shape_text(self.shape)}"
            )
        pairs = [(0, 0 if g is None else g - s) for g, s in zip(given, self.shape, strict=True)]
        if any(isinstance(a, int) and a < 0 for _, a in pairs):
            raise ShapeError(
                f"invalid pad: {shape_text(self.shape)} is larger than {shape_text(given)}"
            )
        return self._pad_constant(pairs, value)


def _pad_pairs(shape: Shape, padding: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Any form of padding as one (before, after) pair for each axis."""
    ndim = len(shape)
    if all(p is None or isinstance(p, (tuple, list)) for p in padding):
        pads = [(0, 0) if p is None else tuple(p) for p in padding]
        if len(pads) != ndim or any(len(p) != 2 for p in pads):
            raise ShapeError(
                f"padding length is improper, {padding} for shape {shape_text(shape)}",
                help="give one (before, after) pair for each axis",
            )
        return pads
    if len(padding) % 2 or len(padding) > 2 * ndim or any(p is None for p in padding):
        raise ShapeError(
            f"padding length is improper, {padding} for shape {shape_text(shape)}",
            help="give an even number of sizes, the last axis first",
        )
    flat = list(zip(padding[::2], padding[1::2], strict=True))
    return [(0, 0)] * (ndim - len(flat)) + flat[::-1]


def _pad_like(x: S, axis: int, before: int, after: int, mode: str) -> S:
    """One axis padded with its own elements: mirrored, the edge, or from the other end."""
    size = x.shape[axis]
    if mode == "reflect" and max(before, after) >= size:
        raise ShapeError(
            f"padding ({before}, {after}) should be less than input size {size_text(size)} for "
            "mode=reflect"
        )
    if mode == "circular" and max(before, after) > size:
        raise ShapeError(
            f"padding ({before}, {after}) should not wrap twice around size {size_text(size)}"
        )
    cut = x._shrink_axis
    if mode == "reflect":
        left, right = (
            cut(axis, 1, before + 1).flip(axis),
            cut(axis, size - 1 - after, size - 1).flip(axis),
        )
    elif mode == "circular":
        left, right = cut(axis, size - before, size), cut(axis, 0, after)
    else:

        def edge(begin: int, count: int) -> Any:
            shape = tuple(count if i == axis else s for i, s in enumerate(x.shape))
            return cut(axis, begin, begin + 1).expand(shape)

        if size == 0:
            raise ShapeError(f"pad: axis {axis} of {shape_text(x.shape)} has no edge to repeat")
        left, right = edge(0, before), edge(size - 1, after)
    parts = ([left] if before else []) + [x] + ([right] if after else [])
    return parts[0].cat(*parts[1:], dim=axis)


def _is_minus_zero(value: float) -> bool:
    return math.copysign(1.0, value) < 0

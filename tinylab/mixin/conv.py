"""Convolution and pooling, as windows that a reduction folds: no windows are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinylab.dtype import (
    DTypeLike,
    dtypes,
    least_upper_dtype,
    strong_dtype,
    sum_acc_dtype,
    to_dtype,
)
from tinylab.errors import OperandError, ShapeError
from tinylab.helpers.arguments import shown
from tinylab.helpers.context import WINO
from tinylab.helpers.seq import make_tuple
from tinylab.mixin import winograd
from tinylab.mixin.base import Sizes, larger_size, shape_text, size_text
from tinylab.mixin.linalg import LinalgMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

Pads = list[tuple[int, int]]  # (before, after) for each spatial axis


class ConvMixin(LinalgMixin):
    """Sliding windows over the last axes."""

    __slots__ = ()

    # *** pooling

    def _pooled(
        self,
        kernel: Any,
        stride: Sizes,
        dilation: Sizes,
        padding: Sizes,
        ceil_mode: bool,
        fill: Any,
    ) -> tuple[Self, tuple[int, ...], Pads]:
        """(windows, the axes of the windows' insides, the padding that was put on)."""
        size = make_tuple(kernel, 2)
        count = len(size)
        if not 0 < count <= self.ndim:
            raise ShapeError(
                f"pooling with a kernel of {count} axes needs as many, not {shape_text(self.shape)}"
            )
        steps = per_axis("stride", kernel if stride is None else stride, count)
        holes = per_axis("dilation", dilation, count)
        pads = spatial_pads(padding, count)
        grown = _ceil_pads(self.shape[-count:], size, steps, holes, pads) if ceil_mode else pads
        outer = self.ndim - count
        windows = self._pad_constant([(0, 0)] * outer + grown, fill)._windows(size, steps, holes)
        return windows, tuple(range(outer + count, outer + 2 * count)), grown

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of each window; stride is the kernel's size unless given.

        (1, 1, 4, 4) -> (1, 1, 2, 2)
        """
        x = self._as_float()
        windows, axes, grown = x._pooled(kernel_size, stride, dilation, padding, ceil_mode, 0)
        pads = spatial_pads(padding, len(axes))
        if count_include_pad and grown == pads:
            return windows.mean(axes)
        ones = x.const(1.0, x.dtype)._broadcast_to(self.shape[-len(axes) :])
        if count_include_pad:
            ones = ones._pad_constant(pads, 1)
            extra = [(0, g[1] - p[1]) for g, p in zip(grown, pads, strict=True)]
            counted = ones._zero_pad(extra)
        else:
            counted = ones._zero_pad(grown)
        steps = kernel_size if stride is None else stride
        count, inner, _ = counted._pooled(kernel_size, steps, dilation, 0, False, 0)
        return windows.sum(axes) / count.sum(inner)

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The largest element of each window; with return_indices also its place in the plane.

        (1, 1, 4, 4) -> (1, 1, 2, 2)
        """
        args = (kernel_size, stride, dilation, padding, ceil_mode)
        windows, axes, _ = self._pooled(*args, self.dtype.lowest)
        found = windows.max(axes)
        if not return_indices:
            return found
        plane = self.shape[-len(axes) :]
        places = self._iota(_product(plane), dtypes.default_int).reshape(plane)
        at = places._broadcast_to(self.shape)._pooled(*args, -1)[0]
        top = windows.max(axes, keepdim=True)
        hit = windows.eq(top) | windows.isnan() if self.dtype.kind == "float" else windows.eq(top)
        # The first of equal places, and never the padding.
        last = _product(plane)
        first = (hit & (at >= 0)).where(last - at, 0).max(axes)
        return found, last - first

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_size: Sizes | None = None,
    ) -> Self:
        """The opposite of `max_pool2d` with indices: each element at its place, zeros elsewhere."""
        size = make_tuple(kernel_size, 2)
        count = len(size)
        steps = per_axis("stride", kernel_size if stride is None else stride, count)
        pads, holes = spatial_pads(padding, count), per_axis("dilation", dilation, count)
        lead, plane = self.shape[:-count], self.shape[-count:]
        if not count or len(plane) < count:
            raise ShapeError(f"max_unpool2d: shape {self.shape} has fewer axes than kernel {size}")
        if output_size is None:
            new = tuple(
                (n - 1) * s - b - a + d * (k - 1) + 1
                for n, s, (b, a), d, k in zip(plane, steps, pads, holes, size, strict=True)
            )
        else:
            new = tuple(output_size)[-count:]
        flat = self.const(0, self.dtype)._broadcast_to((*lead, _product(new)))
        source = self.reshape((*lead, -1))
        return flat.scatter(-1, indices.reshape((*lead, -1)), source).reshape((*lead, *new))

    # *** convolution

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: int | Sequence[int] = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Each window times each filter, summed; works for any number of spatial axes.

        (N, Cin, H, W), weight (Cout, Cin / groups, KH, KW) -> (N, Cout, H', W')

        padding is one number, one for each spatial axis, or (left, right, top, bottom) as in `pad`.

        Raises: ShapeError when channels do not fit, with both shapes.
        """
        count = weight.ndim - 2
        _check_conv(self, weight, groups)
        batch, outs = self.shape[0], weight.shape[0]
        per_group = weight.shape[1]
        pads = spatial_pads(padding, count)
        x = self._zero_pad([(0, 0), (0, 0), *pads])
        kernel = tuple(weight.shape[2:])
        steps = per_axis("stride", stride, count)
        holes = per_axis("dilation", dilation, count)
        ones = (1,) * count
        own = (
            to_dtype(dtype)
            if dtype is not None
            else strong_dtype(least_upper_dtype(x.dtype, weight.dtype))
        )
        wide = sum_acc_dtype(own)
        x, w = x.cast(own).cast(wide), weight.cast(own).cast(wide)
        w = w.reshape((groups, outs // groups, per_group, *kernel))
        if WINO and wide.kind == "float" and winograd.fits(x.shape, kernel, steps, holes):
            found = winograd.convolve(x, w).cast(own)
        else:
            windows = x._windows(kernel, steps, holes)
            space = windows.shape[2 : 2 + count]
            # (N, groups, 1, H', W', C, KH, KW) against (1, groups, outs, 1, 1, C, KH, KW)
            x = windows.reshape((batch, groups, per_group, *space, *kernel))
            order = (0, 1, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count))
            x = x.permute(order).reshape((batch, groups, 1, *space, per_group, *kernel))
            product = x.mul(w.reshape((1, groups, outs // groups, *ones, per_group, *kernel)))
            reduced = tuple(range(3 + count, product.ndim))
            found = product._reduce(Ops.ADD, reduced, False).cast(own)
            found = found.reshape((batch, outs, *space))
        return found if bias is None else found + bias.reshape((1, -1, *ones))

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
    ) -> Self:
        """The gradient of `conv2d` with respect to its input, as a layer.

        (N, Cin, H, W), weight (Cin, Cout / groups, KH, KW) -> (N, Cout, H', W')

        Raises: ShapeError when channels do not fit, or for an output_padding that is not below the
        stride or the dilation.
        """
        count = weight.ndim - 2
        if self.ndim != weight.ndim or self.shape[1] != weight.shape[0] or weight.shape[0] % groups:
            raise ShapeError(
                f"conv_transpose2d: input {shape_text(self.shape)} does not fit weight "
                f"{shape_text(weight.shape)} with {groups} groups"
            )
        steps = per_axis("stride", stride, count)
        holes = per_axis("dilation", dilation, count)
        pads = spatial_pads(padding, count)
        extra = per_axis("output_padding", output_padding, count)
        for e, s, d in zip(extra, steps, holes, strict=True):
            if not 0 <= e < max(s, d):
                raise ShapeError(
                    f"conv_transpose2d: an output_padding of {e} is not below the stride {s} or "
                    f"the dilation {d}",
                    help="pad the result, or take a larger stride",
                )
        kernel = weight.shape[2:]
        w = weight.reshape((groups, weight.shape[0] // groups, weight.shape[1], *kernel))
        w = w.transpose(1, 2).flip(tuple(range(3, 3 + count)))
        w = w.reshape((-1, weight.shape[0] // groups, *kernel))
        x = self
        for i, s in enumerate(steps):
            x = _spaced(x, 2 + i, s)
        grow = [
            (d * (k - 1) - b, d * (k - 1) - a + e)
            for k, d, (b, a), e in zip(kernel, holes, pads, extra, strict=True)
        ]
        _check_output(self.shape, pads, x.shape[2:], grow, holes, kernel)
        x = x.pad([(0, 0), (0, 0), *grow])
        return x.conv2d(w, bias, groups, 1, dilation)

    def image_conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """As `conv2d`: the data layout of image devices changes no value."""
        return self.conv2d(weight, bias, groups, stride, dilation, padding, dtype)

    def image_dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """As `dot`: the data layout of image devices changes no value."""
        return self.dot(w, dtype)


def _check_output(
    shape: tuple[Any, ...],
    pads: Sequence[tuple[Any, Any]],
    spaced: Sequence[Any],
    grow: Sequence[tuple[Any, Any]],
    holes: Sequence[int],
    kernel: Sequence[Any],
) -> None:
    """Refuse a transposed convolution of which padding leaves nothing."""
    sizes = tuple(
        n + sum(g) - d * (k - 1) for n, g, d, k in zip(spaced, grow, holes, kernel, strict=True)
    )
    if any(isinstance(n, int) and n < 1 for n in sizes):
        raise ShapeError(
            f"conv_transpose2d: of {shape_text(shape)} padding by {pads} leaves {sizes}",
            help="pad less",
        )


def per_axis(name: str, given: Any, count: int) -> tuple[int, ...]:
    """A number for each spatial axis, of one for all or of as many as there are.

    Raises: ShapeError for another number of them.
    """
    found = make_tuple(given, count)
    if len(found) != count:
        raise ShapeError(
            f"{name}={shown(given)} is for {len(found)} spatial axes, not {count}",
            help="give one number, or one for each axis",
        )
    return found


def spatial_pads(padding: Any, count: int) -> Pads:
    """Padding as pairs for each spatial axis.

    1 -> [(1, 1), (1, 1)];  (1, 2) -> [(1, 1), (2, 2)];  (0, 1, 2, 3) -> [(2, 3), (0, 1)]

    Raises: ShapeError for another number of sizes.
    """
    if isinstance(padding, int):
        return [(padding, padding)] * count
    sizes = tuple(padding)
    if len(sizes) == count:
        return [(p, p) for p in sizes]
    if len(sizes) == 2 * count:
        return list(zip(sizes[::2], sizes[1::2], strict=True))[::-1]
    raise ShapeError(
        f"padding length is improper, {sizes} for {count} spatial axes",
        help="give one number, one for each axis, or two for each axis",
    )


def _ceil_pads(sizes: Any, kernel: Any, steps: Any, holes: Any, pads: Pads) -> Pads:
    """Padding so grown that a last, partial window counts; none begins in the padding."""
    found = []
    for n, k, s, d, (before, after) in zip(sizes, kernel, steps, holes, pads, strict=True):
        span = d * (k - 1) + 1
        outs = -(-(n + before + after - span) // s) + 1
        late = (outs - 1) * s >= n + before
        outs = outs - (int(late) if isinstance(late, bool) else late.where(1, 0))
        need = (outs - 1) * s + span - (n + before + after)
        found.append((before, after + larger_size(need, 0)))
    return found


def _product(sizes: Any) -> Any:
    total = 1
    for s in sizes:
        total = total * s
    return total


def _check_conv(x: Any, weight: Any, groups: int) -> None:
    if x.ndim != weight.ndim or weight.ndim < 3:
        raise ShapeError(
            f"conv2d: input {shape_text(x.shape)} and weight {shape_text(weight.shape)} need "
            "equally many axes, 3 or more",
            help="the input is (batch, channels, height, width)",
        )
    if groups < 1 or weight.shape[0] % groups:
        raise OperandError(
            f"conv2d: {weight.shape[0]} filters cannot be split into {groups} groups"
        )
    if groups * weight.shape[1] != x.shape[1]:
        raise ShapeError(
            f"conv2d: input {shape_text(x.shape)} has {size_text(x.shape[1])} channels, weight "
            f"{shape_text(weight.shape)} with {groups} groups takes {groups * weight.shape[1]}"
        )


def _spaced(x: Any, axis: int, step: int) -> Any:
    """step - 1 zeros between the elements of an axis."""
    if step == 1:
        return x
    n = x.shape[axis]
    x = x.unsqueeze(axis + 1)
    pads = [(0, 0)] * x.ndim
    pads[axis + 1] = (0, step - 1)
    x = x._zero_pad(pads)
    x = x.reshape((*x.shape[:axis], n * step, *x.shape[axis + 2 :]))
    return x._shrink_axis(axis, 0, (n - 1) * step + 1)

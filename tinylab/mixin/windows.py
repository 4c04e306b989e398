"""Sliding windows and diagonals, as views: a repeat and a reshape shear the axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.errors import IndexingError, ShapeError
from tinylab.mixin.base import (
    Size,
    larger_size,
    largest,
    same_size,
    shape_text,
    size_text,
    smaller_size,
    surely,
)
from tinylab.mixin.movement import MovementMixin

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound=MovementMixin)


class WindowMixin(MovementMixin):
    """Views in which one element may occur in several windows."""

    __slots__ = ()

    def unfold(self, dim: int, size: Size, step: int) -> Self:
        """Windows along an axis; their elements become a new last axis.

        [1, 2, 3, 4].unfold(0, 2, 1) -> [[1, 2], [2, 3], [3, 4]]

        Raises: ShapeError when a window is larger than the axis.
        """
        axis = self._axis(dim)
        if size <= 0 or step <= 0 or surely(size > self.shape[axis]):
            raise ShapeError(
                f"unfold: {size=} must be in [1, {size_text(self.shape[axis])}] and {step=} "
                f"above 0, for axis {axis} of {shape_text(self.shape)}"
            )
        others = [i for i in range(self.ndim) if i != axis]
        windows = self.permute((*others, axis))._windows((size,), (step,), (1,))
        found, window = self.ndim - 1, self.ndim
        return windows.permute((*range(axis), found, *range(axis, self.ndim - 1), window))

    def _windows(
        self, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
    ) -> Self:
        """Sliding windows over the last axes, as a view: (…, output sizes, kernel sizes).

        Each axis is repeated so often that a reshape shears it: row k of the result starts
        k * dilation later than row 0.

        (4,), kernel 2, stride 1 -> (3, 2)
        """
        count, lead = len(kernel), self.ndim - len(kernel)
        x = self
        sizes = self.shape[lead:]
        if min((*kernel, *stride, *dilation), default=1) < 1:
            raise ShapeError(f"{kernel=}, {stride=} and {dilation=} must be 1 or more")
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        for i, (size, span) in enumerate(zip(sizes, spans, strict=True)):
            if surely(span > size):
                raise ShapeError(
                    f"a kernel of {kernel} with dilation {dilation} does not fit into "
                    f"{shape_text(sizes)} (axis {lead + i} needs {span})",
                    help="add padding, or make the kernel smaller",
                )
        outs = [(n - span) // s + 1 for n, span, s in zip(sizes, spans, stride, strict=True)]
        if not all(isinstance(n, int) for n in sizes):
            # Of the largest sizes, where places are numbers; of that as many as there are.
            after = [(0, largest(n) - n) for n in sizes]
            found = x._zero_pad([(0, 0)] * lead + after)._windows(kernel, stride, dilation)
            return found.shrink((*[None] * lead, *((0, out) for out in outs), *[None] * count))
        for i in range(count):
            x = _window_axis(x, lead + 2 * i, kernel[i], stride[i], dilation[i], outs[i])
        order = [lead + 2 * i for i in range(count)] + [lead + 2 * i + 1 for i in range(count)]
        return x.permute((*range(lead), *order))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal of two axes, as a new last axis; offset moves it to the right.

        [[1, 2], [3, 4]].diagonal() -> [1, 4]

        Raises: IndexingError when both axes are the same one.
        """
        a, b = self._axis(dim1), self._axis(dim2)
        if a == b:
            raise IndexingError(f"diagonal: {dim1=} and {dim2=} are the same axis")
        rest = [i for i in range(self.ndim) if i not in (a, b)]
        x = self.permute((*rest, a, b))
        rows, cols = x.shape[-2:]
        top, left = max(-offset, 0), max(offset, 0)
        size = larger_size(smaller_size(rows - top, cols - left), 0)
        lead = tuple(x.shape[:-2])
        keep: list[Any] = [None] * len(lead)
        if same_size(size, 0):
            return x.shrink((*keep, (0, 0), (0, smaller_size(cols, 1)))).reshape((*lead, 0))
        x = x.shrink((*keep, (top, top + size), (left, left + size)))
        if not isinstance(size, int):
            after = (0, largest(size) - size)
            whole = x._zero_pad([(0, 0)] * len(lead) + [after, after])
            return whole.diagonal(0, -2, -1).shrink((*keep, (0, size)))
        # Rows one element longer shear the square: the diagonal becomes the first column.
        x = x.reshape((*lead, size * size))._zero_pad([(0, 0)] * len(lead) + [(0, size)])
        x = x.reshape((*lead, size, size + 1))
        return x.shrink((*keep, None, (0, 1))).reshape((*lead, size))

    def diag(self) -> Self:
        """A square with these elements on its diagonal.

        [1, 2] -> [[1, 0], [0, 2]]

        Raises: ShapeError unless there is one axis.
        """
        if self.ndim != 1:
            raise ShapeError(f"diag: expected one axis, got shape {shape_text(self.shape)}")
        n = self.shape[0]
        x = self.reshape((n, 1))._zero_pad([(0, 0), (0, n)]).reshape((-1,))
        return x.shrink(((0, n * n),)).reshape((n, n))


def _window_axis(x: S, axis: int, kernel: int, stride: int, dilation: int, out: int) -> S:
    """One axis of size n replaced by (out, kernel): [i, k] is element i * stride + k * dilation."""
    shape, n = x.shape, x.shape[axis]
    lead, tail = shape[:axis], shape[axis + 1 :]

    def box(*sizes: int) -> tuple[Any, ...]:
        return (*(None for _ in lead), *((0, s) for s in sizes), *(None for _ in tail))

    if kernel == 1:
        x = x.shrink(box((out - 1) * stride + 1))
        return _every(x, axis, stride, out).reshape((*lead, out, 1, *tail))
    if kernel <= stride and dilation == 1:
        # Windows that do not overlap are a reshape.
        need = out * stride
        x = x.shrink(box(min(n, need)))
        x = x._zero_pad([(0, 0)] * axis + [(0, max(need - n, 0))] + [(0, 0)] * len(tail))
        x = x.reshape((*lead, out, stride, *tail))
        return x.shrink((*(None for _ in lead), None, (0, kernel), *(None for _ in tail)))
    # Rows of n + dilation in a run of copies of n: row k starts k * dilation later.
    copies = -(-kernel * (n + dilation) // n)
    x = x.reshape((*lead, 1, n, *tail)).expand((*lead, copies, n, *tail))
    x = x.reshape((*lead, copies * n, *tail)).shrink(box(kernel * (n + dilation)))
    x = x.reshape((*lead, kernel, n + dilation, *tail)).shrink(box(kernel, (out - 1) * stride + 1))
    x = _every(x, axis + 1, stride, out)
    order = (*range(axis), axis + 1, axis, *range(axis + 2, x.ndim))
    return x.permute(order)


def _every(x: S, axis: int, step: int, out: int) -> S:
    """Each step-th element of an axis of size (out - 1) * step + 1."""
    if step == 1:
        return x
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, step - 1)
    shape = x.shape
    x = x._zero_pad(pads).reshape((*shape[:axis], out, step, *shape[axis + 1 :]))
    keep = tuple((0, 1) if i == axis + 1 else None for i in range(x.ndim))
    return x.shrink(keep).reshape((*shape[:axis], out, *shape[axis + 1 :]))

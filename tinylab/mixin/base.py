"""What the shared methods ask of a class: a few primitives, from which all the others are made.

UOp fulfils this; Tensor takes the finished methods and hands them its graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tinylab.dtype import ConstType, DType, DTypeLike, PyConst
from tinylab.errors import IndexingError, ShapeError
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

Size: TypeAlias = Any  # an int, or the expression of a symbolic size
Shape: TypeAlias = tuple[Size, ...]
Number: TypeAlias = Any  # of Python, or the expression of a symbolic size
Sizes: TypeAlias = Any  # one size, or a sequence of them
PartSizes: TypeAlias = Any  # the same, or None where a size stays
Axes: TypeAlias = int | Sequence[int] | None
ReductionStr: TypeAlias = Literal["mean", "sum", "none"]


class Primitives:
    """The class that the mixins stand on; its members belong to the class that inherits them."""

    __slots__ = ()

    if TYPE_CHECKING:
        op: Ops
        dtype: DType

        @property
        def shape(self) -> Shape:
            """The sizes of the value."""
            ...

        @property
        def device(self) -> str | tuple[str, ...] | None:
            """Where the value is; None for what is everywhere."""
            ...

        @classmethod
        def const(cls, b: ConstType, dtype: DType | None = None) -> Self:
            """A number of shape (); weak where no dtype is given."""
            ...

        def _known_count(self, mask: Self) -> int:
            """How many elements of a mask are true, worked out now."""
            ...

        def _ordered(self, count: int) -> tuple[Self, Self]:
            """(the first of the last axis' integers in order, where they came from)."""
            ...

        def _count_at_most(self, wanted: Self) -> Self:
            """How many of each row's ascending numbers are at most each wanted one."""
            ...

        def _stored_beside(self, x: Self) -> Self:
            """Another value in storage, on this value's device."""
            ...

        def _rows_at(self, index: Self) -> Self:
            """(n, r) read at places (m,) -> (m, r), with a gradient that is summed by place."""
            ...

        def _qr_tall(self, width: int) -> tuple[Self, Self]:
            """(the first columns of Q, R) of matrices (…, m, n) with m >= n > 0."""
            ...

        def _svd_tall(self, width: int) -> tuple[Self, Self, Self]:
            """(the first columns of U, S, V), V not transposed, of such matrices."""
            ...

        @classmethod
        def _iota(cls, size: Size, dtype: DType) -> Self:
            """The numbers 0, 1, 2, … up to, not including, size."""
            ...

        def alu(self, op: Ops, *src: Self) -> Self:
            """An elementwise operation; shapes broadcast."""
            ...

        def cast(self, dtype: DTypeLike) -> Self:
            """The values in another element type."""
            ...

        def bitcast(self, dtype: DTypeLike) -> Self:
            """The bits read as another element type."""
            ...

        def detach(self) -> Self:
            """The same value, where gradients stop."""
            ...

        def contiguous(self) -> Self:
            """The same value, stored."""
            ...

        def _mop(self, op: Ops, arg: tuple[Any, ...]) -> Self:
            """A movement.

            arg is the new shape, the order, the sizes to put in front, (before, after) pairs,
            (begin, end) pairs, or one bool per axis.
            """
            ...

        def _rop(self, op: Ops, axes: tuple[int, ...]) -> Self:
            """A reduction that drops the axes."""
            ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def numel(self) -> Size:
        """The number of elements.

        (2, 3) -> 6
        """
        total: Size = 1
        for size in self.shape:
            total = total * size
        return total

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The largest sizes that the shape can have; other than `shape` for symbolic sizes only."""
        return tuple(map(largest, self.shape))

    def max_numel(self) -> int:
        """The largest number of elements that the shape can have."""
        return math.prod(self.max_shape)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self.numel()) * self.element_size()

    def size(self, dim: int | None = None) -> Size | tuple[Size, ...]:
        """The sizes, or the size of one axis."""
        return self.shape if dim is None else self.shape[self._sized_axis(dim, "size")]

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.kind == "float"

    def _axis(self, dim: int, extra: int = 0) -> int:
        """The axis counted from the front; extra counts axes that a result will have more.

        Raises: IndexingError when there is no such axis.
        """
        try:
            dim = operator.index(dim)
        except TypeError:
            raise IndexingError(f"an axis is a whole number, not {dim!r}") from None
        total = self.ndim + extra
        limit = max(total, 1)
        if not -limit <= dim < limit:
            raise IndexingError(
                f"{dim=} out of range [{-limit}, {limit - 1}] for shape {shape_text(self.shape)}"
            )
        return dim + total if dim < 0 else dim

    def _sized_axis(self, dim: int, name: str) -> int:
        """The axis counted from the front, for a method that asks for its size.

        Raises: IndexingError when there is no such axis; ShapeError where there are no axes.
        """
        if self.ndim == 0:
            raise ShapeError(f"{name} needs an axis, not shape ()", help="use .reshape(1)")
        return self._axis(dim)

    def _axes(self, axis: Axes) -> tuple[int, ...]:
        """The axes as a tuple, counted from the front; None means all.

        Raises: IndexingError when there is no such axis, or one is named twice.
        """
        if axis is None:
            return tuple(range(self.ndim))
        given: tuple[Any, ...] = (axis,)
        if isinstance(axis, Iterable) and not isinstance(given[0], str):
            given = tuple(axis)
        if self.ndim == 0:
            for a in given:
                self._axis(a)
            return ()
        found = tuple([self._axis(a) for a in given])
        if len(set(found)) < len(found):
            twice = next(a for a in found if found.count(a) > 1)
            raise IndexingError(
                f"axis {twice} is named twice in {given} for shape {shape_text(self.shape)}"
            )
        return found


def is_number(x: object) -> bool:
    """Whether x is a Python number (bools are)."""
    return isinstance(x, (int, float))


def size_text(size: Size) -> str:
    """A size on one line: 3, n, (n+1)."""
    return str(size.render()) if hasattr(size, "render") else str(size)


def shape_text(shape: Shape) -> str:
    """A shape on one line, symbolic sizes as expressions: (n + 1, 3)."""
    sizes = [size_text(s) for s in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def as_shape(shape: Sequence[Any]) -> Shape:
    """Sizes given one by one or as one sequence.

    ((2, 3),) or (2, 3)  ->  (2, 3)

    Raises: ShapeError for several sequences.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, range)):
        shape = shape[0]
    if not all(s is None or isinstance(s, str) or _may_be_size(s) for s in shape):
        raise ShapeError(f"{shape} is no shape", help="give sizes one by one or as one sequence")
    return tuple(shape)


def _may_be_size(s: Any) -> bool:
    """Whether something counts, and is no collection."""
    return hasattr(s, "__add__") and not hasattr(s, "__len__")


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    difference = (a - b).ssimplify()
    return isinstance(difference, int) and difference == 0


def surely(condition: Any) -> bool:
    """Whether a comparison of sizes holds, whatever values their variables have."""
    return condition if isinstance(condition, bool) else bool(condition.simplify().vmin)


def largest(size: Size) -> int:
    """The largest number that a size may be."""
    return size if isinstance(size, int) else int(size.vmax)


def present(size: Size) -> int | None:
    """What a size is with the values that its variables have now; None where one has none."""
    if isinstance(size, int):
        return size
    bare, values = size.unbind_all()
    found = bare.substitute({v: v.const_like(n) for v, n in values.items()}).ssimplify()
    return found if isinstance(found, int) else None


# Told of boxes (begin, end, size of the axis) whose variables may leave the axis, with the values
# that they have: whoever runs the same again with other values checks those.
box_watchers: list[Callable[[Size, Size, Size], None]] = []


def check_present(low: Size, high: Size, size: Size, values: dict[str, int] | None = None) -> None:
    """Refuse a box that leaves its axis with the values of its variables, now or as given.

    Raises: ShapeError with the box and its values.
    """
    if values is None:
        found = [present(s) for s in (low, high, size)]
    else:
        found = [s if isinstance(s, int) else s.sym_infer(values) for s in (low, high, size)]
    begin, end, whole = found
    if begin is None or end is None or whole is None or 0 <= begin <= end <= whole:
        return
    raise ShapeError(
        f"invalid shrink ({size_text(low)}, {size_text(high)}) of an axis of {size_text(size)}: "
        f"its variables make it {begin} to {end} of {whole}",
        help="bind a value that the axis has",
    )


def larger_size(a: Size, b: Size) -> Size:
    """The larger of two sizes; an expression where that is not known."""
    if surely(a >= b):
        return a
    return b if surely(b >= a) else (b.maximum(a) if isinstance(a, int) else a.maximum(b))


def smaller_size(a: Size, b: Size) -> Size:
    """The smaller of two sizes; an expression where that is not known."""
    if surely(a <= b):
        return a
    return b if surely(b <= a) else (b.minimum(a) if isinstance(a, int) else a.minimum(b))


__all__ = [
    "Axes",
    "ConstType",
    "DTypeLike",
    "Number",
    "PartSizes",
    "Primitives",
    "PyConst",
    "ReductionStr",
    "Shape",
    "Size",
    "Sizes",
    "as_shape",
    "is_number",
    "larger_size",
    "largest",
    "present",
    "same_size",
    "shape_text",
    "size_text",
    "smaller_size",
    "surely",
]

"""Moving elements about: the six movement operations, and all that is made of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import dtypes, least_upper_dtype, strong_dtype
from tinylab.errors import IndexingError, OperandError, ShapeError, StackError
from tinylab.mixin.base import (
    PartSizes,
    Shape,
    Size,
    Sizes,
    as_shape,
    box_watchers,
    check_present,
    largest,
    same_size,
    shape_text,
    size_text,
)
from tinylab.mixin.elementwise import ElementwiseMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="MovementMixin")


class MovementMixin(ElementwiseMixin):
    """Views: other shapes and orders of the same elements."""

    __slots__ = ()

    # *** the six operations

    def reshape(self, shape: PartSizes, *args: PartSizes) -> Self:
        """Another shape for as many elements, in the same order; -1 is worked out, None is kept.

        (2, 6).reshape(3, -1) -> (3, 4)

        Raises: ShapeError when the numbers of elements differ.
        """
        given = as_shape((shape, *args))
        if any(s is None for s in given[self.ndim :]):
            raise ShapeError(f"reshape: None keeps a size, but {self.shape} has none for {given}")
        new = tuple(self.shape[i] if s is None else s for i, s in enumerate(given))
        if any(isinstance(s, int) and s == -1 for s in new):
            new = _fill_size(self.shape, new)
        if new == self.shape:
            return self
        old_count, new_count = _count(self.shape), _count(new)
        if any(isinstance(s, int) and s < 0 for s in new) or not same_size(old_count, new_count):
            raise ShapeError(
                f"size mismatch, can't reshape {shape_text(self.shape)} to {shape_text(new)}: "
                f"{size_text(old_count)} elements, not {size_text(new_count)}",
                help="write -1 for one size and it is worked out",
            )
        return self._mop(Ops.RESHAPE, new)

    def view(self, shape: PartSizes, *args: PartSizes) -> Self:
        """As `reshape`."""
        return self.reshape(shape, *args)

    def permute(self, order: Sizes, *args: Sizes) -> Self:
        """The axes in another order.

        (2, 3, 4).permute(2, 0, 1) -> (4, 2, 3)

        Raises: ShapeError when order does not name each axis once.
        """
        axes = tuple(self._axis(a) for a in as_shape((order, *args)))
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError(
                f"order is not a valid permutation: {as_shape((order, *args))} "
                f"for shape {shape_text(self.shape)}"
            )
        return self if axes == tuple(range(self.ndim)) else self._mop(Ops.PERMUTE, axes)

    def expand(self, shape: PartSizes, *args: PartSizes) -> Self:
        """Axes of size 1 repeated to another size, new axes in front; -1 and None keep a size.

        (2, 1).expand(3, 2, 4) -> (3, 2, 4)

        Raises: ShapeError when an axis has another size than 1.
        """
        given = as_shape((shape, *args))
        if len(given) < self.ndim:
            raise ShapeError(
                f"cannot broadcast tensor to fewer dimensions: {shape_text(self.shape)} to "
                f"{shape_text(given)}"
            )
        old = (1,) * (len(given) - self.ndim) + tuple(self.shape)
        kept = (None, -1)
        new = tuple(o if _is_any(n, kept) else n for o, n in zip(old, given, strict=True))
        return self._broadcast_to(new)

    def _broadcast_to(self, new: Shape) -> Self:
        """The value seen in a larger shape: axes of size 1 are dropped and put in front again."""
        if new == self.shape:
            return self
        lead = len(new) - self.ndim
        old = (1,) * lead + tuple(self.shape)
        if lead < 0 or not all(
            same_size(o, n) or same_size(o, 1) for o, n in zip(old, new, strict=True)
        ):
            raise ShapeError(
                f"cannot broadcast {shape_text(self.shape)} to new_shape={shape_text(new)}",
                help="only sizes of 1 stretch, aligned at the right",
            )
        grown = [i for i, (o, n) in enumerate(zip(old, new, strict=True)) if not same_size(o, n)]
        kept = [i for i in range(len(new)) if i not in grown]
        found = self._mop_reshape(tuple(new[i] for i in kept))
        if grown:
            found = found._mop(Ops.EXPAND, tuple(new[i] for i in grown))
        order = grown + kept
        back = tuple(order.index(i) for i in range(len(new)))
        return found if list(back) == list(range(len(new))) else found._mop(Ops.PERMUTE, back)

    def _mop_reshape(self, new: Shape) -> Self:
        return self if new == self.shape else self._mop(Ops.RESHAPE, new)

    def shrink(self, arg: Sequence[tuple[Size, Size] | None]) -> Self:
        """A box out of the value: (begin, end) per axis, None for a whole axis.

        (4, 5).shrink(((1, 3), None)) -> (2, 5)

        Raises: ShapeError when a box leaves the shape.
        """
        if len(arg) != self.ndim:
            raise ShapeError(
                f"{self.ndim=} != {len(arg)=}: shrink of {shape_text(self.shape)} by {arg}"
            )
        box = tuple((0, s) if a is None else tuple(a) for a, s in zip(arg, self.shape, strict=True))
        for (low, high), size in zip(box, self.shape, strict=True):
            _check_box(low, high, size, box, self.shape)
        whole = all(
            same_size(lo, 0) and same_size(hi, s)
            for (lo, hi), s in zip(box, self.shape, strict=True)
        )
        return self if whole else self._mop(Ops.SHRINK, box)

    def _zero_pad(self, pads: Sequence[tuple[Size, Size]]) -> Self:
        """Zeros around the value: (before, after) per axis."""
        if all(same_size(b, 0) and same_size(a, 0) for b, a in pads):
            return self
        return self._mop(Ops.PAD, tuple(tuple(p) for p in pads))

    def flip(self, axis: Sizes, *args: Sizes) -> Self:
        """The elements along some axes in reverse order.

        [1, 2, 3].flip(0) -> [3, 2, 1]
        """
        axes = self._axes(as_shape((axis, *args)))
        if self.ndim and len(axes) != len(as_shape((axis, *args))):
            raise IndexingError(f"flip: an axis occurs twice in {as_shape((axis, *args))}")
        if not axes:
            return self
        return self._mop(Ops.FLIP, tuple(i in axes for i in range(self.ndim)))

    # *** shapes

    def shrink_to(self, shape: PartSizes, *args: PartSizes) -> Self:
        """The first elements along each axis, to another shape; None keeps a size."""
        given = as_shape((shape, *args))
        return self.shrink(tuple(None if s is None else (0, s) for s in given))

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Two axes exchanged.

        (2, 3, 4).transpose(0, 2) -> (4, 3, 2)
        """
        order = list(range(self.ndim))
        if order or dim0 not in (0, 1, -1) or dim1 not in (0, 1, -1):
            a, b = self._axis(dim0), self._axis(dim1)
            if order:
                order[a], order[b] = order[b], order[a]
        return self.permute(tuple(order))

    @property
    def T(self) -> Self:
        """The axes in reverse order."""
        return self.permute(tuple(reversed(range(self.ndim))))

    def squeeze(self, dim: int | None = None) -> Self:
        """Axes of size 1 left out: all of them, or one if its size is 1.

        (1, 3, 1).squeeze() -> (3,)
        """
        if dim is None:
            return self.reshape(tuple(s for s in self.shape if not same_size(s, 1)))
        axis = self._axis(dim)
        if self.ndim == 0 or not same_size(self.shape[axis], 1):
            return self
        return self.reshape(self.shape[:axis] + self.shape[axis + 1 :])

    def unsqueeze(self, dim: int) -> Self:
        """A new axis of size 1.

        (2, 3).unsqueeze(1) -> (2, 1, 3)
        """
        axis = self._axis(dim, extra=1)
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Several neighbouring axes made one.

        (2, 3, 4).flatten(1) -> (2, 12)

        Raises: IndexingError when the last axis comes before the first.
        """
        first, last = self._axis(start_dim), self._axis(end_dim)
        if self.ndim and last < first:
            raise IndexingError(f"flatten: {start_dim=} is axis {first}, after {end_dim=}, {last}")
        middle = _count(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], middle, *self.shape[last + 1 :]))

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> Self:
        """One axis made several.

        (2, 12).unflatten(1, (3, -1)) -> (2, 3, 4)
        """
        axis = self._axis(dim)
        if any(s == -1 for s in sizes):
            sizes = _fill_size((self.shape[axis],), tuple(sizes))
        return self.reshape((*self.shape[:axis], *sizes, *self.shape[axis + 1 :]))

    # *** joining and splitting

    def cat(self, *args: Self, dim: int = 0) -> Self:
        """This value and others one after the other along an axis.

        (2, 3).cat((4, 3)) -> (6, 3)

        All of them may be one list, as for `stack`: Tensor.cat([x, y]), Tensor.cat([x, y], 1).

        Raises: StackError when the other axes differ.
        """
        given, dim = _one_by_one(self, args, dim)
        parts: list[Self] = _same_types(given)
        first = parts[0]
        axis = first._axis(dim)
        for part in parts[1:]:
            if part.ndim != first.ndim or not _same_but(part.shape, first.shape, axis):
                shapes = ", ".join(shape_text(p.shape) for p in parts)
                raise StackError(f"cat along axis {axis} needs equal other axes: {shapes}")
        return _join(parts, axis)

    def stack(self, *args: Self, dim: int = 0) -> Self:
        """This value and others along a new axis.

        (2, 3).stack((2, 3), dim=1) -> (2, 2, 3)

        Raises: StackError when the shapes differ.
        """
        given, dim = _one_by_one(self, args, dim)
        parts: list[Self] = _same_types(given)
        axis = parts[0]._axis(dim, extra=1)
        if any(p.shape != parts[0].shape for p in parts):
            shapes = ", ".join(shape_text(p.shape) for p in parts)
            raise StackError(f"all shapes must match for stack, got {shapes}")
        return _join([p.unsqueeze(axis) for p in parts], axis)

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along an axis, of one size (the last may be smaller) or of given sizes.

        (5,).split(2) -> (2,), (2,), (1,)

        Raises: ShapeError when given sizes do not add up.
        """
        axis = self._sized_axis(dim, "split")
        total = self.shape[axis]
        if isinstance(sizes, int):
            sizes = [min(sizes, total - i) for i in range(0, max(total, 1), max(sizes, 1))]
        if sum(sizes) != total:
            raise ShapeError(
                f"split: sizes {list(sizes)} do not add up to {size_text(total)}, the size of "
                f"axis {axis}"
            )
        ends = list(itertools.accumulate(sizes))
        return tuple(
            self._shrink_axis(axis, end - size, end) for size, end in zip(sizes, ends, strict=True)
        )

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """At most this many equal parts along an axis.

        (5,).chunk(2) -> [(3,), (2,)]

        Raises: OperandError unless chunks is positive.
        """
        if chunks <= 0:
            raise OperandError(f"chunk: expected a positive number of chunks, not {chunks}")
        size = self.shape[self._sized_axis(dim, "chunk")]
        return list(self.split(max(1, -(-size // chunks)), dim))

    def _shrink_axis(self, axis: int, begin: Size, end: Size) -> Self:
        return self.shrink(tuple((begin, end) if i == axis else None for i in range(self.ndim)))

    def meshgrid(self, *args: Self, indexing: str = "ij") -> tuple[Self, ...]:
        """Coordinates of a grid from 1-D axes.

        (3,), (4,) -> (3, 4), (3, 4); with indexing "xy" -> (4, 3), (4, 3)

        Raises: OperandError for an unknown indexing.
        """
        if indexing not in ("ij", "xy"):
            raise OperandError(f'meshgrid: indexing must be in ("ij", "xy"), got {indexing!r}')
        axes = [self, *args]
        if len(axes) == 1:
            return (self,)
        order = list(range(len(axes)))
        if indexing == "xy":
            order[:2] = order[1], order[0]
        count = len(axes)
        found = [
            a.reshape(tuple(-1 if i == place else 1 for i in range(count)))
            for a, place in zip(axes, order, strict=True)
        ]
        shape = tuple(found[order.index(i)].shape[i] for i in range(count))
        return tuple(f.expand(shape) for f in found)

    # *** repeating and shifting

    def repeat(self, repeats: Sizes, *args: Sizes) -> Self:
        """The whole value several times along each axis; extra counts make new axes in front.

        [1, 2].repeat(2, 2) -> [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = as_shape((repeats, *args))
        shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
        if len(counts) < self.ndim:
            raise ShapeError(
                f"repeat: {counts} has fewer numbers than {shape_text(self.shape)} has axes"
            )
        tall = tuple(x for s in shape for x in (1, s))
        wide = tuple(x for r, s in zip(counts, shape, strict=True) for x in (r, s))
        return (
            self.reshape(tall)
            .expand(wide)
            .reshape(tuple(r * s for r, s in zip(counts, shape, strict=True)))
        )

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Each element several times in a row.

        [1, 2].repeat_interleave(2) -> [1, 1, 2, 2]
        """
        x, axis = (self.flatten(), 0) if dim is None else (self, self._axis(dim))
        tall = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
        wide = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        new = (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])
        return x.reshape(tall).expand(wide).reshape(new)

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None
    ) -> Self:
        """The elements shifted along axes; what leaves at the end comes in at the front.

        [1, 2, 3].roll(1) -> [3, 1, 2]

        Raises: OperandError when there are not as many shifts as axes.
        """
        if dims is None:
            if isinstance(shifts, (tuple, list)) and len(shifts) != 1:
                raise OperandError(f"roll: several shifts {shifts} need dims")
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        places = (dims,) if isinstance(dims, int) else tuple(dims)
        amounts = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
        if not all(hasattr(amount, "__mod__") for amount in amounts):
            raise OperandError(f"roll: shifts are whole numbers, not {shifts}")
        if len(places) != len(amounts):
            raise OperandError(f"roll: {len(amounts)} shifts for {len(places)} axes")
        found = self
        for amount, dim in zip(amounts, places, strict=True):
            axis = found._sized_axis(dim, "roll")
            size = found.shape[axis]
            cut = 0 if same_size(size, 0) else amount % size
            if not same_size(cut, 0):
                tail = found._shrink_axis(axis, size - cut, size)
                found = tail.cat(found._shrink_axis(axis, 0, size - cut), dim=axis)
        return found


def _check_box(low: Size, high: Size, size: Size, box: Any, shape: Shape) -> None:
    """Refuse a box that leaves its axis, with the values that its variables have now."""
    if isinstance(low, int) and isinstance(high, int) and isinstance(size, int):
        if not 0 <= low <= high <= size:
            raise ShapeError(f"invalid shrink {box} for shape {shape_text(shape)}")
        return
    if isinstance(size, int) and largest(high) <= size:
        return
    check_present(low, high, size)
    for watch in box_watchers:
        watch(low, high, size)


def _is_any(x: Any, values: tuple[Any, ...]) -> bool:
    return x is None or (isinstance(x, int) and x in values)


def _count(shape: Shape) -> Size:
    total: Size = 1
    for s in shape:
        total = total * s
    return total


def _fill_size(old: Shape, new: Shape) -> Shape:
    """The -1 in new replaced by what is left of the elements of old."""
    missing = [i for i, s in enumerate(new) if isinstance(s, int) and s == -1]
    if len(missing) > 1:
        raise ShapeError(f"only one dimension can be inferred using -1, getting {shape_text(new)}")
    rest = _count(tuple(s for i, s in enumerate(new) if i != missing[0]))
    total = _count(old)
    if isinstance(rest, int) and isinstance(total, int) and (rest <= 0 or total % rest):
        raise ShapeError(
            f"size mismatch, can't reshape {shape_text(old)} to {shape_text(new)}: "
            f"{size_text(total)} elements are no multiple of {rest}"
        )
    return tuple(total // rest if i == missing[0] else s for i, s in enumerate(new))


def _one_by_one(first: Any, others: Sequence[Any], dim: int) -> tuple[list[Any], int]:
    """(values given one by one, or as one list that an axis may follow; the axis)."""
    if not isinstance(first, (list, tuple)):
        return [first, *others], dim
    if not first:
        raise StackError("nothing to join", help="give one value or more")
    if len(others) == 1 and isinstance(others[0], int):
        return list(first), others[0]
    return [*first, *others], dim


def _same_types(parts: list[S]) -> list[S]:
    """The parts in one element type."""
    if all(p.dtype is parts[0].dtype for p in parts):
        return parts
    dtype = least_upper_dtype(*(p.dtype for p in parts))
    if not all(dtypes.is_weak(p.dtype) for p in parts):
        dtype = strong_dtype(dtype)
    return [p.cast(dtype) for p in parts]


def _same_but(a: Shape, b: Shape, axis: int) -> bool:
    return all(same_size(x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)) if i != axis)


def _join(parts: list[S], axis: int) -> S:
    """Parts along an axis: each padded to the whole, then chosen where it lies.

    Few parts are one kernel; many are joined in groups that are stored, so that no kernel reads
    more than a few buffers.
    """
    while len(parts) > 1:
        if len(parts) <= _JOIN_LIMIT:
            return _join_few(parts, axis)
        groups = [parts[i : i + _JOIN_LIMIT] for i in range(0, len(parts), _JOIN_LIMIT)]
        parts = [_join_few(g, axis).contiguous() for g in groups]
    return parts[0]


# Each part is a buffer of the kernel; a CPU kernel takes 31.
_JOIN_LIMIT = 16
# Elements of a part that may be read as often as there are parts in a kernel.
_SMALL = 256


def _join_few(parts: list[S], axis: int) -> S:
    if all(same_size(p.shape[axis], 1) and _is_small(p) for p in parts):
        return _join_small(parts, axis)
    total = sum(p.shape[axis] for p in parts)
    begin, wide = 0, []
    for part in parts:
        end = begin + part.shape[axis]
        pads = [(0, 0)] * part.ndim
        pads[axis] = (begin, total - end)
        wide.append((part._zero_pad(pads), begin))
        begin = end
    found = wide[0][0]
    for part, begin in wide[1:]:
        # Selecting, not adding: 0 + NaN elsewhere stays out, and -0.0 stays itself.
        found = _first_part(found, begin, axis).where(found, part)
    return found


def _is_small(part: Any) -> bool:
    return isinstance(size := part.numel(), int) and size <= _SMALL


def _join_small(parts: list[S], axis: int) -> S:
    """Parts of one step each: they stand at every step, and are chosen at their own.

    Reads each part as often as there are parts, but plans no edges: 3 times faster for 10,000.
    """
    total, found = len(parts), parts[0]
    place = found._iota(total, dtypes.int32)
    place = place.reshape(tuple(total if i == axis else 1 for i in range(found.ndim)))
    for n, part in enumerate(parts[1:], 1):
        found = (place < n).where(found, part)
    return found


def _first_part(like: S, end: int, axis: int) -> S:
    """True before end along an axis, of a shape that broadcasts."""
    total = like.shape[axis]
    shape = tuple(total if i == axis else 1 for i in range(like.ndim))
    true = like.const(True, dtypes.bool)._broadcast_to((end,))
    return true._zero_pad([(0, total - end)]).reshape(shape)

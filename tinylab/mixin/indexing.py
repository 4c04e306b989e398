"""Reading by index: slices, numbers, tensors and masks, as numpy has it; gather and scatter.

A read by a tensor is a reduction that picks: sum over i of where(i == index, x[i], 0). The compiler
turns it into a load.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from tinylab.dtype import ConstType, PyConst, dtypes, sum_acc_dtype
from tinylab.errors import DTypeError, IndexingError, OperandError, ShapeError
from tinylab.helpers.context import USE_ATOMICS
from tinylab.helpers.seq import fully_flatten
from tinylab.mixin.base import (
    Primitives,
    Shape,
    Size,
    larger_size,
    largest,
    present,
    same_size,
    shape_text,
    smaller_size,
)
from tinylab.mixin.buckets import Buckets, buckets, too_many
from tinylab.mixin.elementwise import _broadcast, _check_broadcast
from tinylab.mixin.numbers import slice_part
from tinylab.mixin.scan import ScanMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="IndexingMixin")
_AS_MASK = "compare it first, as in x > 0, or cast it to bool"


class AxisIndex(NamedTuple):
    """What an index does to one axis of the source (or, with kind "new", to none).

    kind is slice, place, tensor or new; box is (begin, end) into the axis, step is not 0. A new
    axis has size 1; one of a False has none of it, box (0, 0). tensor: the places that are picked,
    also of the new axis of a bool that stands beside other places. apart: an ellipsis for no axis
    at all stands before it.
    """

    kind: str
    box: tuple[Size, Size] = (0, 1)
    step: int = 1
    tensor: Any = None
    apart: bool = False


class IndexingMixin(ScanMixin):
    """Picking elements out, and putting them together by index."""

    __slots__ = ()

    def __getitem__(self, indices: Any) -> Self:
        """x[…] with numbers, slices, None, an ellipsis, tensors, lists and masks.

        Raises: IndexingError for an index that is out of range or cannot index.
        """
        plan = parse_index(self, indices)
        view = slice_view(self, plan)
        places: list[Self] = [p.tensor for p in plan if p.tensor is not None]
        if not places:
            return view
        first, axes = tensor_axes(plan)
        return _gather_axes(view, axes, places, first)

    def _whole(self) -> Self:
        """This value; on several devices all of it on each."""
        return self

    # *** one-hot

    def _one_hot(self, axis_size: Size) -> Self:
        """Where a new last axis counts to this value."""
        return self.unsqueeze(-1).eq(self._iota(axis_size, self.dtype))

    def one_hot(self, num_classes: int) -> Self:
        """1 at the class and 0 elsewhere, along a new last axis.

        [2, 0].one_hot(3) -> [[0, 0, 1], [1, 0, 0]]

        Raises: DTypeError unless the classes are integers.
        """
        if self.dtype.kind not in ("sint", "uint"):
            raise DTypeError(f"one_hot expects integer classes, not {self.dtype}")
        places = self.cast(dtypes.int32) if self.dtype.itemsize < 4 else self
        return places._one_hot(num_classes).where(1, 0)

    # *** gather and scatter

    def gather(self, dim: int, index: Self) -> Self:
        """out[i][j] = self[index[i][j]][j] for dim 0, and so on for other axes.

        Raises: ShapeError when the index is larger than self along another axis.
        """
        axis = self._axis(dim)
        _check_index_shape(self, index, axis, "gather")
        if _has_large_gradient(self, index.shape, self.numel(), 1):
            flat = self._flat_places(axis, index)
            found: Self = take(self.flatten(), flat, index.shape, 0, 0)
            return found
        x = self.shrink(tuple(None if i == axis else (0, index.shape[i]) for i in range(self.ndim)))
        order = (*(i for i in range(self.ndim) if i != axis), axis)
        rows = x.permute(order).unsqueeze(axis)
        hit = _wrap_negative(index, self.shape[axis])._one_hot(self.shape[axis])
        return _picked(hit.where(rows, self.const(0, self.dtype)), (self.ndim,), self.dtype)

    def _scatter_hits(self, dim: int, index: Self, src: Self) -> tuple[Self, Self]:
        """(where a source element hits a place of the result, the elements), sources last."""
        axis = self._axis(dim)
        _check_index_shape(src, index, -1, "scatter")
        _check_index_shape(self, index, axis, "scatter")
        src = src.shrink(tuple((0, s) for s in index.shape))
        hit = _wrap_negative(index, self.shape[axis])._one_hot(self.shape[axis])
        order = list(range(self.ndim))
        order[axis], last = self.ndim, axis
        hit = hit.permute((*order, last))
        rows = src.permute((*(i for i in range(src.ndim) if i != axis), axis)).unsqueeze(axis)
        # Places that the index does not reach are hit by nothing.
        pads = [(0, s - h) for s, h in zip(self.shape, hit.shape[:-1], strict=True)]
        pads[axis] = (0, 0)
        return hit._zero_pad([*pads, (0, 0)]), rows._zero_pad([*pads, (0, 0)])

    def _scatters_many(self, dim: int, index: Self) -> bool:
        axis = self._axis(dim)
        if index.ndim != self.ndim or not self.ndim or self.max_numel() == 0:
            return False
        places = largest(self.shape[axis])
        return too_many(index.max_numel(), places, self.max_numel() // places)

    def _scatter_buckets(self, dim: int, index: Self, src: Self) -> tuple[Buckets, Self]:
        """(for each place of flat self the elements that go to it, the elements in a row)."""
        axis = self._axis(dim)
        _check_index_shape(src, index, -1, "scatter")
        _check_index_shape(self, index, axis, "scatter")
        src = src.shrink(tuple((0, s) for s in index.shape)).flatten().contiguous()
        flat = self._flat_places(axis, index).flatten().contiguous()
        return buckets(flat, self.numel()), src

    def _flat_places(self, axis: int, index: Self) -> Self:
        """Where each element that an index along one axis means stands in flat self; -1 outside."""
        size = self.shape[axis]
        along = _wrap_negative(index, size)
        outside = (along < 0) | (along >= size)
        place = along.cast(dtypes.int64) * math.prod(self.shape[axis + 1 :])
        for i in range(self.ndim):
            if i != axis:
                at = place._iota(index.shape[i], dtypes.int64) * math.prod(self.shape[i + 1 :])
                place = place + at.reshape((-1, *(1 for _ in index.shape[i + 1 :])))
        flat: Self = outside.where(-1, place)
        return flat

    def _scatter_reduce_many(
        self, dim: int, index: Self, src: Self, reduce: str, include_self: bool
    ) -> Self:
        """`scatter_reduce` by sorting."""
        found, elements = self._scatter_buckets(dim, index, src)
        before = self.flatten()
        wide = sum_acc_dtype(self.dtype) if self.dtype.kind == "float" else self.dtype
        op = {"prod": Ops.MUL, "amax": Ops.MAX}.get(reduce, Ops.ADD)
        rows = elements[found.order].cast(wide)
        result = found.reduced(rows, lambda a, b: a.alu(op, b))
        if include_self:
            result = result.alu(op, before.cast(wide))
        if reduce == "mean":
            count = found.counts() + (1 if include_self else 0)
            count = found.filled.where(count, 1)
            result = result / count if wide.kind == "float" else result // count
        written: Self = found.filled.where(result.cast(self.dtype), before).reshape(self.shape)
        return written

    def scatter(
        self,
        dim: int,
        index: Self,
        src: Self | PyConst,
        reduce: Literal["multiply", "add"] | None = None,
    ) -> Self:
        """The opposite of `gather`: out[index[i][j]][j] = src[i][j] for dim 0.

        Where an index occurs twice the last value stays; reduce adds or multiplies instead.

        Raises: OperandError for an unknown reduction.
        """
        if reduce not in (None, "add", "multiply"):
            raise OperandError(f"{reduce=} must be None, 'multiply', or 'add'")
        if not isinstance(src, Primitives):
            src = index.const_like(src, self.dtype)
        if reduce == "add":
            return self.scatter_reduce(dim, index, src, "sum")
        if reduce == "multiply":
            return self.scatter_reduce(dim, index, src, "prod")
        src = src.cast(self.dtype)
        if self._scatters_many(dim, index):
            found, elements = self._scatter_buckets(dim, index, src)
            picked = elements[found.last()]
            written: Self = found.filled.where(picked, self.flatten()).reshape(self.shape)
            return written
        hit, rows = self._scatter_hits(dim, index, src)
        return _last_hit(hit, rows, self)

    def scatter_reduce(
        self,
        dim: int,
        index: Self,
        src: Self,
        reduce: Literal["sum", "prod", "mean", "amax", "amin"],
        include_self: bool = True,
    ) -> Self:
        """The elements of src, reduced over those that go to one place, with self or not.

        Raises: OperandError for an unknown reduction.
        """
        if reduce not in ("sum", "prod", "mean", "amax", "amin"):
            raise OperandError(f"{reduce=} must be one of 'sum', 'prod', 'mean', 'amax', 'amin'")
        src = src.cast(self.dtype)
        if reduce == "amin":
            mirrored = self._mirrored()
            return mirrored.scatter_reduce(
                dim, index, src._mirrored(), "amax", include_self
            )._mirrored()
        if self._scatters_many(dim, index):
            return self._scatter_reduce_many(dim, index, src, reduce, include_self)
        hit, rows = self._scatter_hits(dim, index, src)
        op, start = {"prod": (Ops.MUL, 1), "amax": (Ops.MAX, self.dtype.lowest)}.get(
            reduce, (Ops.ADD, 0)
        )
        found = hit.where(rows, self.const(start, self.dtype))._reduce(op, -1, False)
        if include_self:
            found = found.alu(op, self)
        if reduce == "mean":
            count = hit.cast(dtypes.int32).sum(-1) + (1 if include_self else 0)
            mean = found / count if self.dtype.kind == "float" else found // count
            found = mean.cast(self.dtype)
        return hit.any(-1).where(found, self)

    def masked_select(self, mask: Self, size: int | None = None, fill_value: ConstType = 0) -> Self:
        """The elements where a mask is true, in order; size fixes how many (filled up).

        Raises: OperandError without a size where the number of elements is not known; DTypeError
        for a mask of anything but bools.
        """
        if mask.dtype is not dtypes.bool:
            raise DTypeError(f"masked_select: a mask is bools, not {mask.dtype}", help=_AS_MASK)
        shape = _broadcast(self.shape, mask.shape)
        # First, for to count may run a write that what is made here would repeat.
        at = _mask_places(mask.cast(dtypes.bool)._broadcast_to(shape)._whole().flatten(), size)
        picked = self._broadcast_to(shape)._whole().flatten()[at.maximum(0)]
        found: Self = at.ge(0).where(picked, self.const(fill_value, self.dtype))
        return found

    def nonzero(self, size: int | None = None, fill_value: ConstType = 0) -> Self:
        """The places of the elements that are not zero, a row for each; size fixes how many rows.

        Raises: OperandError without a size where the number of elements is not known.
        """
        at = _mask_places(self.cast(dtypes.bool)._whole().flatten(), size)
        rest, columns = at.maximum(0), []
        for n in reversed(self.shape):
            columns.append(rest % n)
            rest = rest // n
        if not columns:
            return at.reshape((-1, 1)).shrink((None, (0, 0)))
        table = columns[-1].stack(*columns[-2::-1], dim=1)
        return (at >= 0).unsqueeze(1).where(table, fill_value).cast(dtypes.default_int)


# *** reading an index


def parse_index(x: Any, indices: Any) -> list[AxisIndex]:
    """An index as one entry for each axis of x, with "new" entries for None in between.

    Raises: IndexingError for too many indices, two ellipses, or something that cannot index.
    """
    given = list(indices) if isinstance(indices, tuple) else [indices]
    items = [_as_item(x, i) for i in given]
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexingError(f"indices can only have a single ellipsis ('...'), in {indices}")
    # True and False alone make an axis of size 1 and 0; beside places they join those.
    joined = sum(i is not None and not isinstance(i, (slice, EllipsisType)) for i in items) > 1
    used = sum(_axes_used(i) for i in items)
    if used > x.ndim:
        raise IndexingError(f"too many indices: {used} for shape {shape_text(x.shape)}")
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    fill = [slice(None)] * (x.ndim - used)
    plan: list[AxisIndex] = []
    axis = 0
    given = [*given[:at], *fill, *given[at + 1 :]]
    for k, item in enumerate([*items[:at], *fill, *items[at + 1 :]]):
        entries, raw = _entries(x, item, axis, joined), given[k]
        if k == at and not fill and entries:
            entries[0] = entries[0]._replace(apart=True)
        if isinstance(item, Primitives) and item is not raw and item.dtype is not dtypes.bool:
            _check_places(raw, x.shape[axis], axis)
        plan += entries
        axis += sum(e.kind != "new" for e in entries)
    return plan


def _check_places(places: Any, size: Size, axis: int) -> None:
    """Refuse numbers in a list or an array of numpy's that no axis of this size has."""
    if hasattr(places, "min"):
        ends = [int(places.min()), int(places.max())] if places.size else []
    else:
        ends = fully_flatten(places)
    known = present(size)
    known = largest(size) if known is None else known
    for place in ends:
        if isinstance(place, int) and not -known <= place < known:
            raise IndexingError(f"index={place} is out of bounds with size={known} on axis {axis}")


def _as_item(x: Any, item: Any) -> Any:
    """Lists, tuples, ranges and numpy arrays as tensors."""
    if isinstance(item, (list, tuple, range)) or type(item).__name__ == "ndarray":
        return _as_item(x, x._index_tensor(list(item) if isinstance(item, range) else item))
    if isinstance(item, Primitives) and item.dtype is dtypes.bool and item.shape == ():
        return bool(x._known_count(item))
    if isinstance(item, (int, slice, type(None), EllipsisType, Primitives)):
        return item
    if type(item).__module__ == "numpy" and type(item).__name__ in ("bool", "bool_"):
        return bool(item)
    if hasattr(item, "__index__") and not isinstance(item, type):
        with contextlib.suppress(TypeError):  # some have it for what is no integer too
            return operator.index(item)
    raise IndexingError(
        f"{type(item).__name__} indexing is not supported",
        help="use numbers, slices, None, ..., tensors or lists",
    )


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Primitives) and item.dtype is dtypes.bool:
        return item.ndim
    return 1


def _entries(x: Any, item: Any, axis: int, joined: bool) -> list[AxisIndex]:
    if item is None:
        return [AxisIndex("new")]
    if isinstance(item, bool):
        place = x._iota(1, dtypes.int32).shrink(((0, int(item)),)) if joined else None
        return [AxisIndex("new", (0, 1 if joined else int(item)), tensor=place)]
    size = x.shape[axis]
    if isinstance(item, slice):
        return [_slice_entry(item, size)]
    if isinstance(item, Primitives) and (isinstance(item, type(x)) or isinstance(x, type(item))):
        return _tensor_entries(x, item, axis)
    if isinstance(item, int):
        _check_places([item], size, axis)
        place = item if item >= 0 else size + item
        return [AxisIndex("place", (place, place + 1))]
    return [AxisIndex("place", (item, item + 1))]  # a symbolic place


def _slice_entry(item: slice, size: Size) -> AxisIndex:
    item = slice(*map(slice_part, (item.start, item.stop, item.step)))
    step = 1 if item.step is None else item.step
    if not isinstance(step, int) or step == 0:
        raise IndexingError(f"slice step cannot be {step!r}", help="use an integer other than 0")
    if isinstance(size, int) and not any(hasattr(p, "op") for p in (item.start, item.stop)):
        begin, end, _ = item.indices(size)
        count = max(0, -((begin - end) // step))
        if step > 0:
            return AxisIndex("slice", (begin, begin if count == 0 else min(end, size)), step)
        last = begin + (count - 1) * step
        return AxisIndex("slice", (0, 0) if count == 0 else (last, begin + 1), step)
    if step < 0 and not (item.start is None and item.stop is None):
        raise IndexingError(f"a slice backward through a symbolic size is a whole one, not {item}")
    begin = 0 if item.start is None else _bound(item.start, size)
    end = size if item.stop is None else _bound(item.stop, size)
    return AxisIndex("slice", (begin, end), step)


def _bound(bound: Any, size: Size) -> Size:
    """The bound of a slice counted from the front; what lies outside now is moved inside."""
    if hasattr(bound, "op"):
        return bound
    place, known = bound, present(size)
    if place < 0:
        inside = known is None or known + place >= 0
        return size + place if inside else larger_size(size + place, 0)
    return place if known is None or place <= known else smaller_size(place, size)


def _tensor_entries(x: Any, item: Any, axis: int) -> list[AxisIndex]:
    """A tensor index; a mask becomes one tensor of places for each of its axes."""
    if item.dtype is dtypes.bool:
        expected = x.shape[axis : axis + item.ndim]
        if item.shape != expected:
            raise IndexingError(
                f"the mask of shape {shape_text(item.shape)} does not fit {shape_text(expected)}, "
                f"the axes from {axis} on of {shape_text(x.shape)}"
            )
        places = x._mask_index(item)
        return [
            AxisIndex("tensor", (0, n), tensor=p) for n, p in zip(expected, places, strict=True)
        ]
    if item.dtype.kind == "float":
        raise IndexingError(f"{item.dtype} indexing is not supported", help="index with integers")
    return [AxisIndex("tensor", (0, x.shape[axis]), tensor=item)]


def slice_view(x: S, plan: Sequence[AxisIndex]) -> S:
    """The view that the slices, numbers and None of an index give; tensor axes stay whole."""
    axes = [p for p in plan if p.kind != "new"]
    tensor = [p.kind == "tensor" for p in axes]
    x = x.shrink(tuple(None if t else p.box for p, t in zip(axes, tensor, strict=True)))
    backward = [i for i, p in enumerate(axes) if p.step < 0]
    x = x.flip(backward) if backward else x
    for i, p in enumerate(axes):
        if abs(p.step) > 1:
            x = _strided(x, i, abs(p.step))
    sizes = iter(x.shape)
    shape = []
    for p in plan:
        size = 1 if p.kind == "new" else next(sizes)
        if p.kind != "place":
            shape.append(size)
    x = x.reshape(tuple(shape))
    if any(p.kind == "new" and p.box == (0, 0) for p in plan):
        kept = [p for p in plan if p.kind != "place"]
        x = x.shrink(tuple((0, 0) if p.kind == "new" and p.box == (0, 0) else None for p in kept))
    return x


def _strided(x: S, axis: int, step: int) -> S:
    """Each step-th element along an axis, the first included."""
    n = x.shape[axis]
    count = -(-n // step)
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, count * step - n)
    x = x._zero_pad(pads)
    x = x.reshape((*x.shape[:axis], count, step, *x.shape[axis + 1 :]))
    x = x.shrink(tuple((0, 1) if i == axis + 1 else None for i in range(x.ndim)))
    return x.reshape((*x.shape[:axis], count, *x.shape[axis + 2 :]))


def tensor_axes(plan: Sequence[AxisIndex]) -> tuple[int, list[int]]:
    """(where the indexed axes go, the indexed axes of the view).

    Tensors that stand together are replaced in place; apart (a number counts as a tensor, and an
    ellipsis parts them even where it stands for no axis), they go first.
    """
    advanced = [i for i, p in enumerate(plan) if p.kind == "place" or p.tensor is not None]
    among = plan[advanced[0] : advanced[-1] + 1]
    together = len(among) == len(advanced) and not any(p.apart for p in among[1:])
    axes, at, first = [], 0, None
    for i, p in enumerate(plan):
        if i == advanced[0]:
            first = at
        if p.tensor is not None:
            axes.append(at)
        at += p.kind != "place"
    return (first or 0) if together else 0, axes


def _gather_axes(x: S, axes: list[int], tensors: list[S], first: int) -> S:
    """Some axes replaced by tensors of places, which broadcast; the new axes stand at `first`."""
    places = flat_places(tensors, [x.shape[a] for a in axes])
    rest = [i for i in range(x.ndim) if i not in axes]
    total = places.total
    x = x._whole() if len(axes) > 1 else x
    source = x.permute((*axes, *rest)).reshape((total, *(x.shape[i] for i in rest)))
    return take(source, places.flat, places.shape, first, len(rest) - first)


class FlatPlaces(NamedTuple, Generic[S]):
    """Places in several axes made one: the index, its shape, and how many places there are."""

    flat: S
    shape: Shape
    total: Size


def flat_places(tensors: list[S], sizes: Sequence[Size]) -> FlatPlaces[S]:
    """Tensors that index several axes as one tensor that indexes the axes made one."""
    shape: Shape = ()
    for t in tensors:
        _check_broadcast(shape, t.shape, "index")
        shape = _broadcast(shape, t.shape)
    flat, total = _wrap_negative(tensors[0], sizes[0]), sizes[0]
    for t, n in zip(tensors[1:], sizes[1:], strict=True):
        flat, total = flat * n + _wrap_negative(t, n), total * n
    return FlatPlaces(flat, shape, total)


def take(source: S, index: S, shape: Shape, before: int, after: int) -> S:
    """source (n, before…, after…) read at index -> (before…, shape…, after…)."""
    n, others = source.shape[0], source.shape[1:]
    if not _has_large_gradient(source, shape, n, math.prod(others)):
        return pick(source, index, shape, before, after)
    flat = index._broadcast_to(shape).flatten()
    rows = source.reshape((n, -1))._rows_at(flat).reshape((*shape, *others))
    order = [*range(len(shape), len(shape) + before), *range(len(shape))]
    return rows.permute((*order, *range(len(order), rows.ndim)))


def _has_large_gradient(x: Any, shape: Shape, places: Size, others: Size) -> bool:
    """Whether the gradient of a read would compare too many elements with too many places."""
    if x.dtype.kind != "float" or isinstance(x.device, tuple):
        return False
    known = all(isinstance(s, int) for s in (*x.shape, *shape))
    return known and (bool(USE_ATOMICS) or too_many(math.prod(shape), places, others))


def pick(source: S, index: S, shape: Shape, before: int, after: int) -> S:
    """As `take`: of each element of the source, whether its place is asked for."""
    n = source.shape[0]
    others = source.shape[1:]
    front, back = others[:before], others[before:]
    ones = (1,) * len(shape)
    rows = source.reshape((n, *front, *ones, *back))
    index = index.reshape((1,) * (len(shape) - index.ndim) + tuple(index.shape))
    index = index.reshape((*(1 for _ in front), *index.shape, *(1 for _ in back)))
    at = source._iota(n, index.dtype).reshape((n, *(1 for _ in range(index.ndim))))
    picked = at.eq(index).where(rows, source.const(0, source.dtype))
    found = _picked(picked, (0,), source.dtype)
    return found._broadcast_to((*front, *shape, *back))


def _picked(x: S, axes: tuple[int, ...], dtype: Any) -> S:
    """The sum of at most one element that is not 0, in its own type."""
    if dtype is dtypes.bool:
        return x._reduce(Ops.MAX, axes, False) if x.numel() else x._reduce(Ops.ADD, axes, False)
    return x._reduce(Ops.ADD, axes, False)


def _wrap_negative(index: S, size: Size) -> S:
    """Places counted from the end as places counted from the front."""
    if index.dtype.kind == "uint":
        return index.cast(dtypes.int64 if index.dtype.itemsize >= 4 else dtypes.int32)
    if index.dtype.kind != "sint":
        raise IndexingError(f"{index.dtype} indexing is not supported", help="index with integers")
    index = index.cast(dtypes.int32) if index.dtype.itemsize < 4 else index
    return (index < 0).where(index + size, index)


def _check_index_shape(x: Any, index: Any, axis: int, what: str) -> None:
    fits = index.ndim == x.ndim and all(
        i == axis or not isinstance(a, int) or not isinstance(b, int) or a <= b
        for i, (a, b) in enumerate(zip(index.shape, x.shape, strict=True))
    )
    if not fits:
        raise ShapeError(
            f"{what}: the index of shape {shape_text(index.shape)} does not fit "
            f"{shape_text(x.shape)}",
            help="it needs as many axes, and no other axis may be larger",
        )


def _last_hit(hit: S, rows: S, otherwise: S) -> S:
    """The value of the last hit along the last axis; elsewhere the other value."""
    n = hit.shape[-1]
    if same_size(n, 0):
        return otherwise
    order = hit._iota(n, dtypes.int32) + 1
    last = hit.where(order, 0)._reduce(Ops.MAX, -1, True)
    chosen = _picked(
        (hit & order.eq(last)).where(rows, otherwise.const(0, otherwise.dtype)),
        (hit.ndim - 1,),
        otherwise.dtype,
    )
    return last.squeeze(-1).ne(0).where(chosen, otherwise)


def _mask_places(mask: S, size: int | None) -> S:
    """The places of a flat mask's true elements, -1 after the last one."""
    count = mask._known_count(mask) if size is None else size
    n = mask.shape[0]
    if count == 0 or n == 0:
        return mask.const(-1, dtypes.default_int)._broadcast_to((count,))
    running = mask.cast(dtypes.default_int).cumsum(0).contiguous()
    below = running._count_at_most(mask._iota(count, running.dtype))
    places: S = below.lt(n).where(below, -1)
    return places

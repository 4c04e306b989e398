"""Order by kernels written in uops: runs are sorted, then merged two by two; and counts by halving.

The language alone has no store to a place that was worked out: it compares each element with each,
or needs a kernel for each exchange of a network. Merging is n log n work in log n kernels.

Source: Green, Odeh, Birk, "Merge path: a visually intuitive approach to parallel merging", 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tinylab.dtype import AddrSpace, DType, dtypes, sum_acc_dtype
from tinylab.helpers.context import USE_ATOMICS
from tinylab.mixin.base import Size, largest
from tinylab.mixin.buckets import summed_by_place
from tinylab.mixin.indexing import pick
from tinylab.opcodes import AxisType, Ops
from tinylab.tensor.data import empty_uop
from tinylab.tensor.random import TensorRandom
from tinylab.tensor.writing import stored_copy
from tinylab.uop.ops import KernelInfo, UOp

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T", bound="TensorOrdering")

# Elements of a run that is sorted by comparing each with each.
RUN = 32
# Elements that one step of a merge puts out, one after the other; it divides RUN.
GROUP = 16
# The same where long rows are sorted whole: fewer steps that look for their place (a million
# elements: 0.18 s of processor time with 16, 0.14 s with 64). It divides two runs.
LARGE_GROUP = 64
_LONG = 4096


class TensorOrdering(TensorRandom):
    """What sorting and searching are made of."""

    __slots__ = ()

    def _ordered(self, count: Size) -> tuple[Self, Self]:
        """(the first `count` integers of the last axis in order, where they came from).

        [3, 1, 3, 2], 3  ->  [1, 2, 3], [1, 3, 0]; equal ones keep their order.
        """
        n, last = largest(self.shape[-1]), self.ndim - 1
        if n == 1:
            return self, self.const(0, dtypes.int32)._broadcast_to(self.shape)
        if self.uop.axis == last:
            # What is cut along this axis comes together on every device.
            return self[..., self._iota(n, dtypes.int32)]._ordered(count)
        group = LARGE_GROUP if n >= _LONG and largest(count) == n else GROUP
        runs = Runs(min(n, RUN), n if n <= RUN else _rounded(n, max(RUN, group)), group)
        keys = self._filled_up(runs.width, self.dtype.max)
        found = _call(_sort_runs, keys._pair(runs.width), [keys], runs)
        spare: list[Self] = []
        while runs.size < runs.width:
            merged = runs.merged(_rounded(largest(count), group))
            # A merge writes where the one before the last did, if that has its size.
            fits = spare and spare[0].shape[-1] == merged.width
            into = spare if fits else keys._pair(merged.width)
            found, spare = _call(_merge_runs, into, found, runs, merged), found
            runs = merged
        values, places = (t.shrink_to((*self.shape[:-1], count)) for t in found)
        return values, places

    def _filled_up(self, width: int, value: Any) -> Self:
        """The values in storage with numbers for sizes: the last is `width`, others the largest."""
        return self._padded_to(width, value).contiguous()

    def _padded_to(self, width: int, value: Any) -> Self:
        room = (*map(largest, self.shape[:-1]), width)
        pads = [(0, r - s) for r, s in zip(room, self.shape, strict=True)]
        return self._pad_constant(pads, value)

    def _pair(self, size: int) -> list[Self]:
        """Storage for values of this type and for places, along a last axis of this size."""
        return [self._storage(size, dtype) for dtype in (self.dtype, dtypes.int32)]

    def _whole(self) -> Self:
        """This value; where devices hold parts of it, all of it on each."""
        devices = self.device
        if isinstance(devices, str) or self.uop.axis is None:
            return self
        return self._from_uop(self.uop.copy_to_device(devices[0]).shard(devices, None))

    def _stored_beside(self, x: Self) -> Self:
        """Another value in storage; what is on no device yet comes to this value's."""
        if x.uop.device is not None:
            return x.contiguous()
        return self._from_uop(stored_copy(x.uop, self.device))

    def _storage(self, size: int, dtype: DType) -> Self:
        """Storage like this value's with another last size and type, and nothing in it."""
        shape = (*self.shape[:-1], size)
        return self._from_uop(empty_uop(shape, dtype, self.device, self.uop.axis))

    def _first_in_order(self, k: Size, axis: int, descending: bool) -> tuple[Self, Self]:
        values, places = super()._first_in_order(k, axis, descending)
        # Of one element it is that one: a value of its own all the same.
        return (self._from_uop(self.uop) if values is self else values), places

    def _count_at_most(self, wanted: Self) -> Self:
        """How many of each row's ascending numbers are at most each wanted one.

        (…, n) [1, 3, 3], (…, m) [0, 3]  ->  (…, m) [0, 3]
        """
        rows = self._filled_up(largest(self.shape[-1]), self.dtype.max)
        asked = self._stored_beside(wanted._padded_to(largest(wanted.shape[-1]), 0))
        found = _call(_count, [asked._storage(asked.shape[-1], dtypes.int32)], [rows, asked])[0]
        return found.shrink_to(wanted.shape)

    def _rows_at(self, index: Self) -> Self:
        """(n, r) read at places (m,) -> (m, r), with a gradient that is summed by place."""
        source, places = (t._from_uop(t.uop.param_like(n)) for n, t in enumerate((self, index)))
        body = pick(source, places, index.shape, 0, 1).uop
        call = body.call(self.uop, index.uop, grad_fxn=_rows_gradient, name="rows_at")
        return self._from_uop(call.gettuple(0))

    def _running_max(self, axis: int) -> Self:
        """The running maximum; the gradient of each goes to the last place that reached it."""
        values = super()._running_max(axis)
        if not self.is_floating_point():
            return values
        # Stored, for the places are found by comparing with it.
        values = values.contiguous()

        def gradient(g: UOp, call: UOp) -> tuple[None, UOp]:
            grad, reached, x = (self._from_uop(u) for u in (g, call.gettuple(0), call.src[2]))
            places = x._last_reached(reached, axis)
            return None, x.zeros_like().scatter_reduce(axis, places, grad, "sum").uop

        call = values.uop.param_like(0).call(values.uop, self.uop, grad_fxn=gradient, name="cummax")
        return self._from_uop(call.gettuple(0))


def _rows_gradient(g: UOp, call: UOp) -> tuple[UOp, None]:
    """What comes to each row of the source, and nothing to the places."""
    source, places = call.src[1:]
    grad, index = (TensorOrdering._from_uop(u) for u in (g, places))
    if USE_ATOMICS:
        return _added_rows(grad, index, source.shape[0]).uop, None
    summed: TensorOrdering = summed_by_place(grad, index, source.shape[0])
    return summed.uop, None


def _added_rows(rows: TensorOrdering, places: TensorOrdering, total: int) -> TensorOrdering:
    """As `summed_by_place`, each row added where it goes, one after the other."""
    wide = rows.cast(sum_acc_dtype(rows.dtype))
    out = empty_uop((total, rows.shape[1]), wide.dtype, rows.device)
    zeros = out.after(out.store(UOp.const(0, wide.dtype)))
    srcs = (zeros, places.uop, wide.uop)
    summed = UOp.custom_kernel(*srcs, fxn=_add_rows, grad_fxn=_rows_of_sums)[0]
    return rows._from_uop(summed).cast(rows.dtype)


def _rows_of_sums(g: UOp, call: UOp) -> tuple[None, None, UOp]:
    """Each added row's gradient is that of the place it went to."""
    sums, index = (TensorOrdering._from_uop(u) for u in (g, call.src[2]))
    return None, None, sums._rows_at(index).uop


class Runs(NamedTuple):
    """Sorted runs of `size` elements, side by side in rows of `width`; the last may be shorter.

    group: how many elements one step of a merge puts out.
    """

    size: int
    width: int
    group: int = GROUP

    def merged(self, keep: int) -> Runs:
        """What merging two and two gives, of which the first `keep` stay."""
        pairs = -(-self.width // (2 * self.size))
        size = min(2 * self.size, keep)
        last = self.width - (pairs - 1) * 2 * self.size
        return Runs(size, (pairs - 1) * size + min(size, last), self.group)


def _rounded(n: int, step: int) -> int:
    return -(-n // step) * step


def _call(kernel: Callable[..., UOp], into: list[T], of: list[T], *sizes: Runs) -> list[T]:
    """Tensors after a kernel that writes them."""
    srcs = (t.uop for t in (*into, *of))
    found = UOp.custom_kernel(*srcs, fxn=lambda *p: kernel(*p, *sizes))
    return [into[0]._from_uop(u) for u in found[: len(into)]]


def _number(n: int) -> UOp:
    return UOp.const(n, dtypes.weakint)


def _least(a: UOp, b: UOp) -> UOp:
    return (a < b).where(a, b)


def _largest(holds: Callable[[UOp], UOp], most: int, inside: UOp, axis: int) -> UOp:
    """A register with the largest number up to `most` for which something holds, bit by bit.

    It holds for no number if not for all smaller ones. inside: the loop whose every step asks.
    """
    bits = most.bit_length()
    register = UOp.placeholder((1,), dtypes.int32, 0, AddrSpace.REG).after(inside)[0].set(0)
    step = UOp.range(bits, axis, AxisType.REDUCE)
    known = register.after(step)[0].cast(dtypes.weakint)
    bit = UOp.const(1, dtypes.int32).alu(Ops.SHL, (step * -1 + (bits - 1)).cast(dtypes.int32))
    more = known + bit.cast(dtypes.weakint)
    return register[0].set(holds(more).where(more, known).cast(dtypes.int32), end=step)


def _sort_runs(out: UOp, places: UOp, keys: UOp, runs: Runs) -> UOp:
    """Each element is stored behind as many as belong before it in its run."""
    total, size = keys.numel(), runs.size
    out, places, keys = (p.reshape(total) for p in (out, places, keys))
    i, j = UOp.range(total, 0), UOp.range(size, 1, AxisType.REDUCE)
    key, at = keys[i], i % size
    begin = i - at
    other = keys[begin + j]
    before = (other < key) | (other.eq(key) & (j < at))
    place = begin + before.cast(dtypes.int32).reduce(j, arg=Ops.ADD).cast(dtypes.weakint)
    came_from = (i % runs.width).cast(dtypes.int32)
    stores = UOp.group(out[place].store(key), places[place].store(came_from))
    return stores.end(i).sink(arg=KernelInfo(name=f"sort_runs_{size}"))


class _Pair(NamedTuple):
    """Two runs that are merged: where each begins, and its length."""

    a: UOp
    b: UOp
    len_a: UOp
    len_b: UOp

    def takes(self, keys: UOp, i: UOp, j: UOp) -> UOp:
        """Whether element i of the first run comes before element j of the second; equal ones do.

        Beyond the end of the second run everything of the first does.
        """
        inside = j < self.len_b
        ours, other = keys[(self.a + i).valid(i < self.len_a)], keys[(self.b + j).valid(inside)]
        return inside.logical_not() | (other < ours).logical_not()


def _merge_runs(out: UOp, places: UOp, keys: UOp, came_from: UOp, runs: Runs, merged: Runs) -> UOp:
    """A step finds how much of the first run comes before its outputs, and goes on from there."""
    rows, size = keys.numel() // runs.width, runs.size
    out, places = (p.reshape(p.numel()) for p in (out, places))
    keys, came_from = (p.reshape(p.numel()) for p in (keys, came_from))
    row, step = UOp.range(rows, 0), UOp.range(merged.width // merged.group, 1)
    first = step * merged.group
    number, at = first // merged.size, first % merged.size
    begin = number * (2 * size)
    left = (begin * -1) + runs.width
    len_a = _least(left, _number(size))
    base = row * runs.width + begin
    pair = _Pair(base, base + size, len_a, _least(left - len_a, _number(size)))

    def comes_before(count: UOp) -> UOp:
        fits = (count <= pair.len_a) & (count <= at)
        ours, others = (fits.where(n, _number(0)) for n in (count - 1, at - count))
        return fits & pair.takes(keys, ours, others)

    taken = _largest(comes_before, size, step, axis=2)

    g = UOp.range(merged.group, 3, AxisType.LOOP)
    i = taken.after(g)[0].cast(dtypes.weakint)
    j = at + g - i
    ours = (i < pair.len_a) & pair.takes(keys, i, j)
    source = ours.where(pair.a + i, pair.b + j)
    target = row * merged.width + first + g
    stores = UOp.group(
        out[target].store(keys[source]),
        places[target].store(came_from[source]),
        taken.after(g)[0].store((i + ours.where(_number(1), _number(0))).cast(dtypes.int32)),
    )
    return stores.end(g).end(row, step).sink(arg=KernelInfo(name=f"merge_runs_{size}"))


def _add_rows(out: UOp, places: UOp, rows: UOp) -> UOp:
    """Rows in order, so that two that go to one place both arrive; columns in any."""
    number, column = UOp.range(rows.shape[0], 0, AxisType.LOOP), UOp.range(rows.shape[1], 1)
    place = places[number].cast(dtypes.weakint)
    inside = (place < 0).logical_not() & (place < out.shape[0])
    target = out.after(number)[place.valid(inside), column]
    added = target.store(target + rows[number, column])
    return added.end(number, column).sink(arg=KernelInfo(name=f"add_rows_{rows.shape[0]}"))


def _count(out: UOp, ascending: UOp, wanted: UOp) -> UOp:
    """How many elements are at most the wanted one."""
    n, m = ascending.shape[-1], wanted.shape[-1]
    out, wanted, ascending = (p.reshape(p.numel()) for p in (out, wanted, ascending))
    i = UOp.range(wanted.numel(), 0)

    def are_at_most(count: UOp) -> UOp:
        fits = count <= n
        last = ascending[(i // m * n + count - 1).valid(fits)]
        more: UOp = fits & (wanted[i] < last).logical_not()
        return more

    found = _largest(are_at_most, n, i, axis=1)
    return out[i].store(found[0]).end(i).sink(arg=KernelInfo(name=f"count_at_most_{n}"))

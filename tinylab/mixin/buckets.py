"""Which elements go to a place, found by sorting: comparing each with each would take too long.

The place and the number of an element are one 64-bit key, so a network of minima and maxima sorts
them: 1, 0, 1 -> (0, 1), (1, 0), (1, 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tinylab.dtype import dtypes
from tinylab.mixin.base import largest

# As many comparisons take about a second.
MANY = 1 << 34
_MOST = (1 << 63) - 1


def too_many(elements: Any, places: Any, others: Any = 1) -> bool:
    """Whether sorting is faster than comparing each element with each place."""
    sizes = (elements, places)
    if not all(isinstance(s, int) and 0 < s < 1 << 31 for s in sizes) or others == 0:
        return False
    return isinstance(others, int) and elements * places * others > MANY


class Buckets(NamedTuple):
    """Elements sorted by place. Each place: how many stand before its end, and whether it has any.

    places: of the sorted elements; order: which elements they are.
    """

    places: Any
    order: Any
    ends: Any
    filled: Any

    def reduced(self, rows: Any, together: Callable[[Any, Any], Any]) -> Any:
        """The sorted elements of each place reduced to one; anything where there are none."""
        n, distance = rows.shape[0], 1
        while distance < n:
            before = rows._shrink_axis(0, 0, n - distance)._zero_pad([(distance, 0)])
            # Places count from 1 here, so that padding is no place.
            other = (self.places + 1)._shrink_axis(0, 0, n - distance)._zero_pad([(distance, 0)])
            same = other.eq(self.places + 1)
            rows = same.where(together(before, rows), rows).contiguous()
            distance *= 2
        return rows[(self.ends - 1).maximum(0)]

    def last(self) -> Any:
        """Of each place, the last of its elements."""
        return self.order[(self.ends - 1).maximum(0)]

    def counts(self) -> Any:
        """How many elements each place has."""
        size = self.ends.shape[0]
        return self.ends - self.ends._shrink_axis(0, 0, size - 1)._zero_pad([(1, 0)])


def buckets(flat: Any, total: int) -> Buckets:
    """The elements by the place that each goes to; what lies outside goes to none."""
    outside = (flat < 0) | (flat >= total)
    key = outside.where(total, flat.cast(dtypes.int64)) * (1 << 32)
    key = _sorted(key + flat._iota(flat.shape[0], dtypes.int64))
    places, order = (key >> 32).cast(dtypes.int32), (key & 0xFFFFFFFF).cast(dtypes.int32)
    places, order = places.contiguous(), order.contiguous()
    every = flat._iota(total, dtypes.int32)
    ends = count_at_most(places, every)
    filled = ends.ne(0) & places[(ends - 1).maximum(0)].eq(every)
    return Buckets(places, order, ends, filled)


def sort_key(x: Any, descending: bool) -> Any:
    """An int64 that orders as a number of at most 32 bits does, with room for 32 bits below.

    NaN is larger than every number, and 0.0 and -0.0 are equal.
    """
    if x.dtype.kind == "float":
        x = x.cast(dtypes.float32)
        bits = x.bitcast(dtypes.int32)
        bits = (bits < 0).where(bits ^ 0x7FFFFFFF, bits)
        bits = x.eq(0).where(0, x.isnan().where(0x7FFFFFFF, bits))
        key = bits.cast(dtypes.int64)
    else:
        key = x.cast(dtypes.int64) - (1 << 31 if x.dtype is dtypes.uint32 else 0)
    return (-1 - key if descending else key) * (1 << 32)


def sorted_places(x: Any, descending: bool) -> Any:
    """Where the elements of the last axis in order come from; equal ones keep their order."""
    key = sort_key(x, descending) + x._iota(x.shape[-1], dtypes.int64)
    return (_sorted(key) & 0xFFFFFFFF).cast(dtypes.default_int).contiguous()


def _sorted(keys: Any) -> Any:
    """Different int64 keys in ascending order along the last axis."""
    n = keys.shape[-1]
    size = 1 << (largest(n) - 1).bit_length()
    real = keys._iota(size, dtypes.int32) < n
    padded = keys._zero_pad([(0, 0)] * (keys.ndim - 1) + [(0, size - n)])
    keys = real.where(padded, _MOST).contiguous()
    length = 2
    while length <= size:
        keys = _exchange(keys, length, mirrored=True)
        step = length // 2
        while step > 1:
            keys = _exchange(keys, step, mirrored=False)
            step //= 2
        length *= 2
    return keys._shrink_axis(keys.ndim - 1, 0, n)


def _exchange(keys: Any, length: int, mirrored: bool) -> Any:
    axis = keys.ndim
    halves = keys.reshape((*keys.shape[:-1], keys.shape[-1] // length, 2, length // 2))
    a, b = halves._shrink_axis(axis, 0, 1), halves._shrink_axis(axis, 1, 2)
    b = b.flip(axis + 1) if mirrored else b
    low, high = (a < b).where(a, b), (a < b).where(b, a)
    high = high.flip(axis + 1) if mirrored else high
    return low.cat(high, dim=axis).reshape(keys.shape).contiguous()


def count_at_most(ascending: Any, wanted: Any) -> Any:
    """How many of some ascending numbers are at most each wanted one, by halving."""
    n = ascending.shape[0]
    found = wanted.const_like(0)
    for bit in reversed(range(largest(n).bit_length())):
        probe = found + (1 << bit)
        fits = (probe <= n) & (ascending[(probe - 1).minimum(n - 1)] <= wanted)
        found = fits.where(probe, found).contiguous()
    return found

"""Which elements go to a place, found by sorting: comparing each with each would take too long.

Places 1, 0, 1 -> sorted 0, 1, 1 of elements 1, 0, 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tinylab.dtype import dtypes, sum_acc_dtype

# As many comparisons take about half a second.
MANY = 1 << 32


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
        rest = [(0, 0)] * (rows.ndim - 1)
        while distance < n:
            before = rows._shrink_axis(0, 0, n - distance)._zero_pad([(distance, 0), *rest])
            # Places count from 1 here, so that padding is no place.
            other = (self.places + 1)._shrink_axis(0, 0, n - distance)._zero_pad([(distance, 0)])
            same = other.eq(self.places + 1).reshape((n, *(1 for _ in rest)))
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


def summed_by_place(rows: Any, places: Any, total: int) -> Any:
    """(m, r) rows added up by the places (m,) that they go to -> (total, r).

    [[1], [2], [3]] at [1, 0, 1], 3  ->  [[2], [4], [0]]
    """
    found = buckets(places, total)
    wide = rows[found.order].cast(sum_acc_dtype(rows.dtype))
    sums = found.reduced(wide, lambda a, b: a + b)
    return found.filled.reshape((total, 1)).where(sums, 0).cast(rows.dtype)


def buckets(flat: Any, total: int) -> Buckets:
    """The elements by the place that each goes to; what lies outside goes to none."""
    outside = (flat < 0) | (flat >= total)
    places, order = outside.where(total, flat).cast(dtypes.int32)._ordered(flat.shape[0])
    every = flat._iota(total, dtypes.int32)
    ends = places._count_at_most(every)
    filled = ends.ne(0) & places[(ends - 1).maximum(0)].eq(every)
    return Buckets(places, order, ends, filled)

"""What it costs to work out each value of a graph, and where to cut what costs too much.

y = x.sigmoid() fifty times over: each step reads the one before in several ways, but all of them go
through its result. Such a value is a waist; a long expression is cut at one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp

# Weights of operations in elementary ones, by the time they take; what is not named counts 1.
_WEIGHT = {
    Ops.EXP2: 12, Ops.LOG2: 12, Ops.SIN: 72, Ops.COS: 72, Ops.SQRT: 6, Ops.RECIPROCAL: 4,
    Ops.FDIV: 4, Ops.POW: 100, Ops.THREEFRY: 100, Ops.CDIV: 6, Ops.CMOD: 6, Ops.FLOORDIV: 6,
    Ops.FLOORMOD: 6, Ops.CAST: 0, Ops.BITCAST: 0,
}  # fmt: skip
# An expression of more operations is cut: compilers take more than linear time for a long one.
KERNEL_LIMIT = 1000
# So many values are looked at for the last one that two sources have in common.
_LOOK_BACK = 64


class Cost(NamedTuple):
    """What a value costs from the nearest stored values on; `first` of these in the order."""

    cost: int
    has_reduce: bool
    has_iota: bool
    first: int


class Costs:
    """The cost of each value of a graph, worked out from its sources on, one `add` after another.

    order: the graph, sources first. stored: values that are not worked out anew; it may grow.
    known: others of that kind.
    """

    def __init__(
        self, order: Sequence[UOp], stored: Collection[UOp], known: Collection[UOp]
    ) -> None:
        self.order, self.stored, self.known = order, stored, known
        self._number = {x: n for n, x in enumerate(order)}
        # What all operations before the n-th node of the order cost.
        self._before = list(itertools.accumulate(map(_weight, order), initial=0))
        self._found: dict[UOp, Cost] = {}
        # The last value that everything a value is worked out from goes through, and how many
        # such values there are before it.
        self._waist: dict[UOp, UOp | None] = {}
        self._depth: dict[UOp, int] = {}

    def __getitem__(self, x: UOp) -> Cost:
        return self._found[x]

    def add(self, x: UOp) -> Cost:
        """The cost of the next value in the order."""
        sources = [] if is_storage(x) else list(self._computed_sources(x))
        self._waist[x] = waist = self._common(sources)
        self._depth[x] = 0 if waist is None else self._depth[waist] + 1
        return self._update(x)

    def where_to_cut(self, x: UOp) -> UOp | None:
        """The value to store so that x costs less; None if it does not cost too much."""
        if self._counted(x) <= KERNEL_LIMIT:
            return None
        self._update_below(x)
        waists = list(self._waists(x))
        return next(filter(self._is_closed, waists), waists[0] if waists else x)

    def _waists(self, x: UOp) -> Iterator[UOp]:
        """Values that all of x goes through and that cost much themselves, last ones first."""
        waist = self._waist[x]
        while waist is not None and waist not in self.stored and waist not in self.known:
            if self._found[waist].cost < KERNEL_LIMIT // 2:
                return
            if waist.op in GroupOp.Elementwise:
                yield waist
            waist = self._waist[waist]

    def _is_closed(self, x: UOp) -> bool:
        """Whether what x is worked out from serves nothing else."""
        below = self._below(x)
        return all(u in below for s in below if s is not x for u in self._users[s])

    @functools.cached_property
    def _users(self) -> dict[UOp, list[UOp]]:
        users: dict[UOp, list[UOp]] = {x: [] for x in self.order}
        for x in self.order:
            for s in x.src:
                if s in users:
                    users[s].append(x)
        return users

    def _computed_sources(self, x: UOp) -> Iterator[UOp]:
        """The sources that are worked out together with x."""
        for s in x.src:
            found = self._found.get(s)
            if found is None or s._shape is None or s in self.stored or s in self.known:
                continue
            # What holds a reduction and is repeated will be stored underneath.
            if not (found.has_reduce and _repeats(x, s)):
                yield s

    def _update(self, x: UOp) -> Cost:
        self._found[x] = found = self._cost(x)
        return found

    def _cost(self, x: UOp) -> Cost:
        if is_storage(x):
            return Cost(0, False, x.op is Ops.STAGE, len(self.order))
        below = [self._found[s] for s in self._computed_sources(x)]
        number = self._number[x]
        first = min([number, *(b.first for b in below)])
        # A sum over the sources counts what they share more than once, and all that stands between
        # in the order counts what is no part of this: the value costs no more than either.
        apart = sum(b.cost for b in below) + _weight(x)
        cost = min(apart, self._before[number + 1] - self._before[first])
        has_reduce = x.op is Ops.REDUCE or any(b.has_reduce for b in below)
        return Cost(cost, has_reduce, any(b.has_iota for b in below), first)

    def _update_below(self, x: UOp) -> None:
        """The costs of x and of what it is worked out from, now that more is stored."""
        for u in sorted(self._below(x), key=self._number.__getitem__):
            self._update(u)

    def _counted(self, x: UOp) -> int:
        """What x costs, each value below counted once."""
        cost = sum(map(_weight, self._below(x)))
        self._found[x] = self._found[x]._replace(cost=cost)
        return cost

    def _below(self, x: UOp) -> dict[UOp, None]:
        """All that is worked out for x, with x."""
        below: dict[UOp, None] = {x: None}
        for u in (waiting := [x]):
            for s in self._computed_sources(u):
                if s not in below and not is_storage(s):
                    below[s] = None
                    waiting.append(s)
        return below

    def _common(self, sources: Sequence[UOp]) -> UOp | None:
        """The last value that all of these are or go through; storage apart."""
        computed = [s for s in sources if not is_storage(s)]
        found: UOp | None = computed[0] if computed else None
        steps = 0
        for other in computed[1:]:
            end: UOp | None = other
            while found is not end:
                if found is None or end is None or steps == _LOOK_BACK:
                    return None
                steps += 1
                if self._depth[found] >= self._depth[end]:
                    found = self._waist[found]
                else:
                    end = self._waist[end]
        return found


def is_storage(x: UOp) -> bool:
    """Whether the value lies in memory already (or is no memory at all)."""
    return x.op in (Ops.BUFFER, Ops.PARAM, Ops.CONST, Ops.AFTER, Ops.STAGE, Ops.MSELECT)


def _weight(x: UOp) -> int:
    return _WEIGHT.get(x.op, 1) if x.op in GroupOp.Elementwise else 0


def _repeats(x: UOp, s: UOp) -> bool:
    """Whether x reads elements of its source s more than once by broadcasting."""
    if x.op is Ops.EXPAND:
        return True
    return x.op in GroupOp.Elementwise and s.shape != x.shape

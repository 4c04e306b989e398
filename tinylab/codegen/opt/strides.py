"""How fast each range moves through memory: what heuristics and range passes look at.

idx = r0*1024 + r1 + 7  ->  {r0: 1024, r1: 1};  r0//3  ->  {r0: None}: no single stride
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import RangeArg
from tinylab.uop.ops import UOp

Strides = dict[UOp, int | None]


class Access(NamedTuple):
    """One place where a kernel touches memory."""

    buffer: UOp
    strides: dict[RangeArg, int | None]  # by the range's arg, which stays when the range is split
    is_store: bool
    in_reduce: bool
    itemsize: int

    def stride(self, rng: UOp) -> int | None:
        """The stride of a range; 0 where the access does not depend on it."""
        return self.strides.get(rng.arg, 0)


def sum_terms(x: UOp) -> Iterator[UOp]:
    """The terms of a sum: (a + b) + c  ->  a, b, c."""
    stack = [x]
    while stack:
        node = stack.pop()
        if node.op is Ops.ADD:
            stack.extend(reversed(node.src))
        else:
            yield node


def term_stride(term: UOp) -> tuple[UOp, int] | None:
    """(range, factor) of a term that is a range times a constant; None of any other."""
    if term.op is Ops.RANGE:
        return term, 1
    if term.op is Ops.MUL:
        a, b = term.src
        if a.op is Ops.CONST:
            a, b = b, a
        if a.op is Ops.RANGE and b.op is Ops.CONST:
            return a, int(b.arg)
    return None


@functools.lru_cache(maxsize=1024)
def _strides(idx: UOp) -> tuple[tuple[UOp, int | None], ...]:
    found: Strides = {}
    for term in sum_terms(idx.get_idx()):
        one = term_stride(term)
        if one is None:
            found.update(dict.fromkeys(term.ranges))
            continue
        rng, factor = one
        known = found.get(rng, 0)
        found[rng] = None if known is None else known + factor
    return tuple(found.items())


def index_strides(idx: UOp) -> Strides:
    """The stride of each range in an index, in elements; None where it is not constant."""
    return dict(_strides(idx))


def accesses(ast: UOp) -> list[Access]:
    """Every load and store of memory in a kernel, with strides."""
    order = ast.toposort()
    targets = {u.src[0] for u in order if u.op is Ops.STORE}
    found = []
    for u in order:
        if u.op is not Ops.INDEX or len(u.src) != 2:
            continue
        strides = index_strides(u.src[1])
        for rng in u.src[1].get_valid().ranges:
            strides.setdefault(rng, 0)
        in_reduce = any(r.arg[-1] in _REDUCES for r in strides)
        by_arg = {r.arg: stride for r, stride in strides.items()}
        found.append(Access(u.src[0], by_arg, u in targets, in_reduce, u.dtype.itemsize))
    return found


_REDUCES = (AxisType.REDUCE, AxisType.GROUP_REDUCE, AxisType.UNROLL)

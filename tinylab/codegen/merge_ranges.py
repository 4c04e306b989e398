"""Merge two nested ranges that memory walks through as one.

for i in 4, j in 8: out[i*8 + j] = a[i*8 + j]  ->  for r in 32: out[r] = a[r]

Fewer, longer loops leave more to choose: lanes and threads find divisors in one long axis.
"""

from __future__ import annotations

import itertools

from tinylab.codegen.opt.strides import sum_terms, term_stride
from tinylab.codegen.range_tools import (
    CLOSERS,
    FREE_KINDS,
    range_key,
    rebuild_with,
    size_of,
)
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp

MERGEABLE = (*FREE_KINDS, AxisType.REDUCE)


def merge_ranges(sink: UOp, ctx: object = None) -> UOp:
    """The kernel with neighbouring ranges merged where every index allows it."""
    while (pair := _first_pair(sink)) is not None:
        outer, inner = pair
        sink = _merged(sink, outer, inner)
    return sink


def _first_pair(sink: UOp) -> tuple[UOp, UOp] | None:
    order = sink.toposort()
    closers = [u for u in order if u.op in CLOSERS and len(u.src) > 1]
    uses = _range_uses(order)
    for closer in closers:
        ranges = sorted((r for r in closer.src[1:] if r.op is Ops.RANGE), key=range_key)
        for outer, inner in itertools.pairwise(ranges):
            if _closed_together(closers, outer, inner) and _may_merge(uses, outer, inner):
                return outer, inner
    return None


def _range_uses(order: dict[UOp, None]) -> dict[UOp, list[dict[UOp, int] | None]]:
    """For each range the indices that use it, as strides; None for any other use."""
    indices = {idx: _linear(idx) for u in order if u.op is Ops.INDEX for idx in u.src[1:]}
    uses: dict[UOp, list[dict[UOp, int] | None]] = {}
    sums: set[UOp] = set()
    for idx, strides in indices.items():
        if strides is not None:
            sums.update(_sum_nodes(idx))
        for rng in idx.ranges:
            uses.setdefault(rng, []).append(strides)
    for u in order:
        if u.op in CLOSERS or u.op is Ops.INDEX or u in sums:
            continue
        # A use that is no sum inside an index: a comparison, a cast, an effect's order.
        for rng in {r for s in u.src if s.op is Ops.RANGE or s in sums for r in s.ranges}:
            uses.setdefault(rng, []).append(None)
    return uses


def _linear(idx: UOp) -> dict[UOp, int] | None:
    """Strides of an index that is a plain sum; None if it holds anything else with a range."""
    strides: dict[UOp, int] = {}
    for term in sum_terms(idx):
        one = term_stride(term)
        if one is not None:
            strides[one[0]] = strides.get(one[0], 0) + one[1]
        elif term.ranges:
            return None
    return strides


def _sum_nodes(idx: UOp) -> list[UOp]:
    """The additions and products by constants that make up a linear index."""
    found, stack = [], [idx]
    while stack:
        u = stack.pop()
        if u.op is Ops.ADD or (u.op is Ops.MUL and term_stride(u) is not None):
            found.append(u)
            stack.extend(u.src)
    return found


def _closed_together(closers: list[UOp], outer: UOp, inner: UOp) -> bool:
    return all((outer in u.src[1:]) == (inner in u.src[1:]) for u in closers)


def _may_merge(uses: dict[UOp, list[dict[UOp, int] | None]], outer: UOp, inner: UOp) -> bool:
    size = size_of(inner)
    kinds_agree = outer.arg[-1] is inner.arg[-1] and outer.arg[-1] in MERGEABLE
    known = isinstance(size, int) and isinstance(size_of(outer), int)
    if not kinds_agree or not known or len(outer.src) > 1 or len(inner.src) > 1:
        return False
    found = uses.get(outer, []) + uses.get(inner, [])
    return all(
        strides is not None and strides.get(outer, 0) == strides.get(inner, 0) * size
        for strides in found
    )


def _merged(sink: UOp, outer: UOp, inner: UOp) -> UOp:
    """One range of both sizes: in sums the inner one stands for both, the outer one for 0."""
    size = int(outer.src[0].arg) * int(inner.src[0].arg)
    whole = outer.replace(src=(outer.src[0].const_like(size),))
    return rebuild_with(sink, {outer: outer.const_like(0), inner: whole}, drop=outer)

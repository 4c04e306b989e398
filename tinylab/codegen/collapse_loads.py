"""A reduce that only picks or counts needs no loop.

sum over r of (r == i).where(a[r], 0)  ->  a[i], if i is in range: a gather is a load
sum over r of (r < i).where(c, 0)      ->  c * clamp(i, 0, n): an arange is its own index
sum over r of x, x without r           ->  x * n
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.codegen.opt.strides import sum_terms, term_stride
from tinylab.codegen.range_tools import CLOSERS, rebuild_with, size_of
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.uop.bounds import known_finite
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


class Solved(NamedTuple):
    """factor*r + rest, with rest free of r."""

    factor: int
    rest: UOp


def collapse_reduce(red: UOp) -> UOp | None:
    """One range of a sum removed, if its term only picks, only counts or does not use it."""
    if red.arg[1]:
        return None
    for rng in red.src[1:]:
        if rng.op is not Ops.RANGE:
            continue
        found = _without_range(red.arg[0], red.src[0], rng)
        if found is not None:
            others = [r for r in red.src[1:] if r is not rng]
            return found.reduce(*others, arg=red.arg) if others else found
    return None


def _without_range(op: Ops, x: UOp, rng: UOp) -> UOp | None:
    if rng not in x.ranges:
        return _repeated(op, x, size_of(rng))
    if op is not Ops.ADD:
        return None
    if x.op is Ops.CAST and x.src[0].op is Ops.WHERE:
        cond, a, b = x.src[0].src
        x = cond.where(a.cast(x.dtype), b.cast(x.dtype))
    if x.op is Ops.CAST and x.src[0].dtype is dtypes.bool:
        x = x.src[0].where(UOp.const(1, x.dtype), UOp.const(0, x.dtype))
    if x.op is Ops.WHERE:
        return _selected(x, rng)
    return None


def _repeated(op: Ops, x: UOp, size: int | UOp) -> UOp | None:
    """What n times the same value reduces to."""
    if op is Ops.MAX:
        return x
    if op is not Ops.ADD:
        return None
    count = UOp.const(size, x.dtype) if isinstance(size, int) else size.cast(x.dtype)
    return x * count


def _selected(x: UOp, rng: UOp) -> UOp | None:
    """The sum over a range of cond.where(a, b)."""
    cond, a, b = x.src
    if _is_zero(a) and not _is_zero(b):
        cond, a, b = _negated(cond), b, a
    if not _is_zero(b):
        return None
    free = [c for c in cond.split_uop(Ops.AND) if rng not in c.ranges]
    bound = [c for c in cond.split_uop(Ops.AND) if rng in c.ranges]
    found = _picked(bound, a, rng) if bound else None
    if found is None:
        return None
    for c in free:
        found = c.where(found, found.const_like(0))
    return found


def _picked(bound: list[UOp], a: UOp, rng: UOp) -> UOp | None:
    for i, cond in enumerate(bound):
        place = _equal_place(cond, rng)
        if place is not None:
            others = bound[:i] + bound[i + 1 :]
            return _load_at(a, rng, place, others)
    if len(bound) == 1 and rng not in a.ranges:
        count = _count(bound[0], rng)
        return None if count is None else _times(a, count)
    return None


def _times(a: UOp, count: UOp) -> UOp:
    """The sum of as many a; of none it is 0, also where a is an infinity or NaN."""
    product = a * count.cast(a.dtype)
    if known_finite(a) or count.vmin > 0:
        return product
    return (count > 0).where(product, product.const_like(0))


def _is_zero(x: UOp) -> bool:
    return x.op is Ops.CONST and x.arg == 0


def _negated(cond: UOp) -> UOp:
    if cond.op is Ops.CMPNE and cond.src[1].op is Ops.CONST and cond.src[1].arg is True:
        return cond.src[0]
    return cond.logical_not()


def _solve(x: UOp, rng: UOp) -> Solved | None:
    """Takes x apart as factor*r + rest; None where it is not linear in r."""
    while x.op is Ops.CAST and dtypes.is_int(x.src[0].dtype) and rng in x.ranges:
        inner = x.src[0]
        if inner.vmin < x.dtype.min or inner.vmax > x.dtype.max:
            return None
        x = inner
    factor, rest = 0, UOp.const(0, dtypes.weakint)
    for term in sum_terms(x):
        one = term_stride(term)
        if one is not None and one[0] is rng:
            factor += one[1]
        elif rng in term.ranges:
            inside = term.op is Ops.CAST and term is not x
            below = _solve(term, rng) if inside else None
            if below is None:
                return None
            factor, rest = factor + below.factor, rest + below.rest
        else:
            rest = rest + _index_value(term)
    return Solved(factor, rest)


def _index_value(x: UOp) -> UOp:
    """A value as an index, in arithmetic that does not wrap."""
    while x.op is Ops.CAST and dtypes.is_int(x.src[0].dtype) and _keeps(x):
        x = x.src[0]
    return x.cast(dtypes.weakint)


def _keeps(cast: UOp) -> bool:
    inner = cast.src[0]
    return bool(inner.vmin >= cast.dtype.min and inner.vmax <= cast.dtype.max)


def _difference(cond: UOp, rng: UOp) -> Solved | None:
    a, b = cond.src
    if not (dtypes.is_int(a.dtype) and dtypes.is_int(b.dtype)):
        return None
    left, right = _solve(a, rng), _solve(b, rng)
    if left is None or right is None or left.factor == right.factor:
        return None
    return Solved(left.factor - right.factor, left.rest - right.rest)


def _equal_place(cond: UOp, rng: UOp) -> UOp | None:
    """The r for which the condition r == e holds, if it has that form; e may be out of range."""
    if cond.op is Ops.CMPNE and cond.src[1].op is Ops.CONST and cond.src[1].arg is True:
        cond = cond.src[0]
        if cond.op is not Ops.CMPNE:
            return None
    elif cond.op is not Ops.CMPEQ:
        return None
    found = _difference(cond, rng)
    if found is None or found.factor not in (1, -1):
        return None
    return found.rest * -found.factor


def _load_at(a: UOp, rng: UOp, place: UOp, conditions: list[UOp]) -> UOp | None:
    """The value a with r = place; 0 where the place is outside the range or a condition fails."""
    size = size_of(rng)
    if any(u.op is Ops.REDUCE and rng in u.ranges for u in a.toposort()):
        return None
    in_range = inside = (place >= 0) & (place < size)
    for cond in conditions:
        # What a condition loads lies outside its buffer, too, where the place does.
        inside = inside & _guarded(cond, rng, place, in_range)
    moved = _guarded(a, rng, place, inside)
    return inside.where(moved, moved.const_like(0))


def _guarded(a: UOp, rng: UOp, place: UOp, inside: UOp) -> UOp:
    """The value a with r = place, each index that uses the range valid only inside it.

    A reduce inside that runs over the range itself keeps it.
    """
    nodes = a.toposort()
    new = {rng: place, **{u: u for u in nodes if u.op in CLOSERS and rng in u.src[1:]}}
    for u in nodes:
        if u.op is Ops.INDEX and len(u.src) == 2 and rng in u.src[1].ranges:
            idx = rebuild_with(u.src[1], new)
            valid = idx.get_valid()
            both = inside if valid.op is Ops.CONST else valid & inside
            new[u] = u.replace(src=(u.src[0], idx.get_idx().valid(both)))
    return rebuild_with(a, new)


def _count(cond: UOp, rng: UOp) -> UOp | None:
    """For how many r in 0..n-1 a comparison holds: r < e -> clamp(e, 0, n)."""
    size = size_of(rng)
    flipped = cond.op is Ops.CMPNE and cond.src[1].op is Ops.CONST and cond.src[1].arg is True
    inner = cond.src[0] if flipped else cond
    if inner.op is not Ops.CMPLT or not isinstance(size, int):
        return None
    found = _difference(inner, rng)
    if found is None:
        return None
    factor, rest = found
    if factor > 0:  # factor*r + rest < 0  <=>  r < ceil(-rest / factor)
        held = _clamp((rest * -1 + (factor - 1)) // factor, size)
    else:  # r > rest / -factor  <=>  r >= rest // -factor + 1
        held = _clamp(rest // -factor + 1, size) * -1 + size
    return held * -1 + size if flipped else held


def _clamp(x: UOp, size: int) -> UOp:
    low = x.maximum(UOp.const(0, dtypes.weakint))
    return (low < size).where(low, UOp.const(size, dtypes.weakint))


def may_collapse(sink: UOp, ctx: object = None) -> bool:
    """Whether any reduce has the look of one that picks, counts or repeats."""
    for u in sink.toposort():
        if u.op is Ops.REDUCE and not u.arg[1]:
            x = u.src[0]
            selects = u.arg[0] is Ops.ADD and x.op in (Ops.WHERE, Ops.CAST)
            if selects or any(r not in x.ranges for r in u.src[1:]):
                return True
    return False


# fmt: off
pm_collapse_loads = PatternMatcher([
    Rule("collapse_reduce", "sum(r == i ? a[r] : 0) -> a[i]; sum(r < i ? c : 0) -> c*clamp(i)",
         UPat(Ops.REDUCE, name="red"), collapse_reduce),
])
# fmt: on

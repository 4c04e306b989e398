"""Comparisons of integers: constants to one side, common factors out, conditions joined.

x + 3 < 10      ->   x < 7
x*4 + y < 32    ->   x < 8        0 <= y < 4
!(x < 5)        ->   4 < x
x < 5 & x < 3   ->   x < 3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.symbolic.terms import Order, Sum, is_const, same_shape, span

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def less(x: UOp, y: UOp) -> UOp:
    """x < y as a node."""
    return make(Ops.CMPLT, dtypes.bool, (x, y))


def _in_range(value: int, dtype: DType) -> bool:
    return bool(dtype.min <= value <= dtype.max)


# *** one comparison with a constant


def less_than_constant(x: UOp, c: UOp) -> UOp | None:
    """x < c with nothing but terms on the left and no common factor among them."""
    if not is_const(c) or x.dtype is not c.dtype:
        return None
    if x.op is Ops.FLOORDIV:
        return _bounded_quotient(x, c.arg * _divisor(x))
    if x.op not in (Ops.ADD, Ops.MUL):
        return None
    total = Sum.of(x)
    if not total.exact:
        return None
    return same_shape(x, _at_most(total, c.arg - 1, _is_all_negative(total)))


def greater_than_constant(x: UOp, c: UOp) -> UOp | None:
    """c < x likewise, by way of -x < -c."""
    if not is_const(c) or x.dtype is not c.dtype:
        return None
    if x.op is Ops.FLOORDIV:
        return _bounded_quotient(x, (c.arg + 1) * _divisor(x) - 1, from_below=True)
    if x.op not in (Ops.ADD, Ops.MUL):
        return None
    total = Sum.of(x)
    if not total.exact:
        return None
    mirrored = Sum({t: -f for t, f in total.terms.items()}, -total.const, total.dtype)
    return same_shape(x, _at_most(mirrored, -c.arg - 1, _is_all_negative(total)))


def _is_all_negative(total: Sum) -> bool:
    return all(f < 0 for f in total.terms.values())


def _at_most(total: Sum, most: int, turn: bool) -> UOp | None:
    """sum <= most as a comparison, simpler than it was; None if it has that form already.

    turn: the comparison should change sides, even if nothing else changes.
    """
    if not total.terms:
        return None
    terms, most = total.terms, most - total.const
    quotient = _common_divisor(terms, most)
    if quotient is None and total.const == 0 and not turn:
        return None
    if quotient is not None:
        terms, most = quotient
    if all(f < 0 for f in terms.values()):
        return _compared({t: -f for t, f in terms.items()}, total.dtype, least=-most)
    return _compared(terms, total.dtype, most=most)


def _compared(
    terms: dict[UOp, int], dtype: DType, most: int | None = None, least: int | None = None
) -> UOp | None:
    """terms <= most, or least <= terms; None where a number does not fit the dtype."""
    total = Sum(terms, 0, dtype)
    limit = most + 1 if most is not None else (least or 0) - 1
    if not total.exact or not _in_range(limit, dtype):
        return None
    left, right = total.build(), const(limit, dtype)
    return less(left, right) if most is not None else less(right, left)


def _common_divisor(terms: dict[UOp, int], most: int) -> tuple[dict[UOp, int], int] | None:
    """terms <= most without a factor that all terms share but a rest that decides nothing.

    x*4 + y <= 31, 0 <= y < 4  ->  x <= 7
    """
    factors = {abs(f) for f in terms.values()} | {Sum(terms, 0, dtypes.weakint).gcd}
    for factor in sorted(factors - {1}, reverse=True):
        rest = {t: f for t, f in terms.items() if f % factor}
        low, high = span(rest, 0)
        room, left = divmod(most - low, factor)
        # factor * x + rest <= factor * room + (low + left): x <= room, if each rest fits beside it.
        if high <= low + left:
            return {t: f // factor for t, f in terms.items() if f % factor == 0}, room
    return None


def _divisor(x: UOp) -> int:
    """The positive constant that x is divided by; 0 if it is none."""
    ok = is_const(x.src[1]) and x.src[1].arg > 0 and x.src[0].dtype is x.dtype
    return int(x.src[1].arg) if ok else 0


def _bounded_quotient(x: UOp, limit: int, from_below: bool = False) -> UOp | None:
    """x//n < c  ->  x < c*n;  c < x//n  ->  c*n + n-1 < x."""
    if not _divisor(x) or not _in_range(limit, x.dtype):
        return None
    bound = const(limit, x.dtype)
    return less(bound, x.src[0]) if from_below else less(x.src[0], bound)


def unequal_to_constant(x: UOp, c: UOp) -> UOp | None:
    """x != c with nothing but terms on the left and no common factor among them."""
    if not is_const(c) or x.dtype is not c.dtype or x.op not in (Ops.ADD, Ops.MUL):
        return None
    total = Sum.of(x)
    if not total.terms or not total.exact:
        return None
    wanted, gcd = c.arg - total.const, total.gcd
    if gcd == 1 and total.const == 0:
        return None
    if wanted % gcd:
        return same_shape(x, const(True))
    left = Sum({t: f // gcd for t, f in total.terms.items()}, 0, x.dtype)
    if not left.exact or not _in_range(wanted // gcd, x.dtype):
        return None
    right = const(wanted // gcd, x.dtype)
    return same_shape(x, make(Ops.CMPNE, dtypes.bool, (left.build(), right)))


def shift_both_sides(x: UOp, y: UOp) -> UOp | None:
    """Two sums compared, without the terms that they share."""
    if Ops.ADD not in (x.op, y.op) or x.dtype is not dtypes.weakint or y.dtype is not x.dtype:
        return None
    left, right = Sum.of(x), Sum.of(y)
    shared = left.terms.keys() & right.terms.keys()
    if not shared and not (left.const and right.const):
        return None
    a, b = dict(left.terms), dict(right.terms)
    for term in shared:
        factor = min(a[term], b[term]) if a[term] > 0 and b[term] > 0 else max(a[term], b[term])
        if (a[term] > 0) != (b[term] > 0):
            return None
        for side in (a, b):
            side[term] -= factor
            if side[term] == 0:
                del side[term]
    moved = min(left.const, right.const)
    lower, upper = (Sum(t, k - moved, x.dtype) for t, k in ((a, left.const), (b, right.const)))
    return less(lower.build(), upper.build())


# *** opposites


def opposite_of_less(x: UOp, c: UOp) -> UOp | None:
    """!(x < c)  ->  c-1 < x, of integers."""
    if not is_const(c) or not dtypes.is_int(x.dtype) or not _in_range(c.arg - 1, c.dtype):
        return None
    return less(const(c.arg - 1, c.dtype), x)


def opposite_of_greater(x: UOp, c: UOp) -> UOp | None:
    """!(c < x)  ->  x < c+1, of integers."""
    if not is_const(c) or not dtypes.is_int(x.dtype) or not _in_range(c.arg + 1, c.dtype):
        return None
    return less(x, const(c.arg + 1, c.dtype))


def compare_bool(u: UOp, x: UOp, c: UOp) -> UOp | None:
    """A comparison of a bool's 0 or 1 with a constant, as the bool or its opposite.

    0 < x and x != 0 are x, x < 1 and x != 1 are !x; the bounds decide the rest.
    """
    if not is_const(c) or not dtypes.is_int(u.src[0].dtype):
        return None
    opposite = make(Ops.CMPNE, dtypes.bool, (x, const(True)))
    if u.op is Ops.CMPNE:
        return {0: x, 1: opposite}.get(c.arg)
    if u.src[1] is c:
        return opposite if c.arg == 1 else None
    return x if c.arg == 0 else None


# *** conditions that hold together


class Limit(NamedTuple):
    """One side of an interval: x <= most, or x >= least."""

    x: UOp
    most: int | None
    least: int | None


def limit_of(clause: UOp) -> Limit | None:
    """What a comparison of integers with a constant says; None for anything else."""
    if clause.op is not Ops.CMPLT:
        return None
    x, y = clause.src
    if is_const(y) and dtypes.is_int(x.dtype):
        return Limit(x, y.arg - 1, None)
    if is_const(x) and dtypes.is_int(y.dtype):
        return Limit(y, None, x.arg + 1)
    return None


def clauses_of(condition: UOp) -> Iterator[UOp]:
    """What is joined by `and`, from left to right."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if node.op is Ops.AND and node.dtype is dtypes.bool:
            stack.extend(reversed(node.src))
        else:
            yield node


def both(clauses: list[UOp]) -> UOp:
    """The clauses joined by `and`; True for none."""
    joined = clauses[0] if clauses else const(True)
    for clause in clauses[1:]:
        joined = make(Ops.AND, dtypes.bool, (joined, clause))
    return joined


def join_conditions(u: UOp) -> UOp | None:
    """A conjunction in order, nothing twice, of two limits on one value the tighter one."""
    clauses = list(clauses_of(u))
    if any(c._shape for c in clauses):
        return None  # lanes: what stands in one lane says nothing of the others' shapes
    kept: dict[object, UOp] = {}  # a key for each limit of each value -> its clause
    for clause in dict.fromkeys(clauses):
        limit = limit_of(clause)
        side = clause if limit is None else (limit.x, limit.most is None)
        kept[side] = _tighter(kept[side], clause) if side in kept else clause
    if _contradictory(list(kept.values())):
        return const(False)
    joined = both(sorted(kept.values(), key=Order))
    return None if joined is u else joined


def _tighter(a: UOp, b: UOp) -> UOp:
    """The narrower of x < c and x < d, or of c < x and d < x."""
    upper = is_const(a.src[1])
    side = 1 if upper else 0
    return a if (a.src[side].arg <= b.src[side].arg) == upper else b


def _contradictory(clauses: list[UOp]) -> bool:
    """Whether two limits leave a value no room."""
    least: dict[UOp, int] = {}
    most: dict[UOp, int] = {}
    for limit in filter(None, map(limit_of, clauses)):
        if limit.most is not None:
            most[limit.x] = limit.most
        if limit.least is not None:
            least[limit.x] = limit.least
    return any(least[x] > most[x] for x in least.keys() & most.keys())


X, Y, C = UPat.var("x"), UPat.var("y"), UPat.cvar("c")
TRUE = UPat.const(True, dtypes.bool)
WIDENED = UPat(Ops.CAST, src=(UPat.var("x", dtypes.bool),))

# fmt: off
pm_compare = PatternMatcher([
    Rule("lt_self",       "x < x -> False",                    UPat(Ops.CMPLT, src=(X, X), name="u"), lambda u, x: u.const_like(False)),
    Rule("lt_bool",       "0 < x as int -> x; x as int < 1 -> !x",           UPat(Ops.CMPLT, src=[WIDENED, C], name="u"), compare_bool),
    Rule("ne_bool",       "x as int != 0 -> x; x as int != 1 -> !x",          UPat(Ops.CMPNE, src=[WIDENED, C], name="u"), compare_bool),
    Rule("lt_constant",   "a*x + b < c -> x < (c-b)/a; x//a < c -> x < c*a",        UPat(Ops.CMPLT, src=(X, C)), less_than_constant),
    Rule("gt_constant",   "c < a*x + b -> (c-b)/a < x; c < x//a -> c*a+a-1 < x",        UPat(Ops.CMPLT, src=(C, X)), greater_than_constant),
    Rule("ne_constant",   "a*x + b != c -> x != (c-b)/a, True if none",      UPat(Ops.CMPNE, src=(X, C)), unequal_to_constant),
    Rule("lt_shared",     "x + z < y + z -> x < y",            UPat(Ops.CMPLT, src=(X, Y)), shift_both_sides),
    Rule("not_lt",        "!(x < c) -> c-1 < x",               UPat(Ops.CMPNE, src=(UPat(Ops.CMPLT, src=(X, C)), TRUE)), opposite_of_less),
    Rule("not_gt",        "!(c < x) -> x < c+1",               UPat(Ops.CMPNE, src=(UPat(Ops.CMPLT, src=(C, X)), TRUE)), opposite_of_greater),
    Rule("join_conditions", "x < c & x < d -> x < min(c, d); y & x -> x & y; x < c & c < x -> False",  UPat(Ops.AND, dtypes.bool, name="u"), join_conditions),
])
# fmt: on

"""Windows: a remainder that a condition holds inside one period.

Sliding windows are made by repeating rows and cutting them at another length. Read backwards, a
place is a row and a column of the wrong length, and a condition says that the column is a real one:

    (p + k*6) % 7 < 4        ->  -1 < p - k & p - k < 4       where -7 < p - k < 7 and p - k + 7 >= 4
    and there  (p + k*6)//7  ->  k,   (p + k*6)%7  ->  p - k
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.symbolic.terms import Sum, is_const

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def nearest_period(x: UOp, n: int) -> tuple[Sum, Sum]:
    """(q, r) with x = q*n + r, each coefficient of r as near to 0 as it can be.

    p + k*6 by 7  ->  k, p - k
    """
    total = Sum.of(x)
    whole = {t: (f + n // 2) // n for t, f in total.terms.items()}
    rest = {t: f - whole[t] * n for t, f in total.terms.items()}
    periods = {t: f for t, f in whole.items() if f}
    return (
        Sum(periods, 0, x.dtype),
        Sum({t: f for t, f in rest.items() if f}, total.const, x.dtype),
    )


def remainder_in_window(x: UOp, c: UOp, limit: UOp) -> UOp | None:
    """x % n < limit as two limits on what is left of x by whole periods."""
    n, most = c.arg, limit.arg
    if not is_const(c) or n <= 0 or x.dtype is not dtypes.weakint or x._shape != ():
        return None
    periods, rest = nearest_period(x, n)
    lo, hi = rest.bounds
    if not periods.terms or not -n < lo < 0 <= hi < n or lo + n < most:
        return None
    left = rest.build()
    inside = make(Ops.CMPLT, dtypes.bool, (const(-1), left))
    below = make(Ops.CMPLT, dtypes.bool, (left, const(most)))
    return make(Ops.AND, dtypes.bool, (inside, below))


def expose_windows(x: UOp, known: dict[UOp, tuple[int, int]]) -> UOp:
    """x with the quotients and remainders whose period is known from limits on sums."""
    sums = {frozenset(s.terms.items()): (v, s) for v in known if (s := Sum.of(v)).terms}
    found = {
        u: new
        for u in x.toposort()
        if u.op in (Ops.FLOORDIV, Ops.FLOORMOD)
        and (new := _in_one_period(u, sums, known)) is not None
    }
    return x.substitute(found) if found else x


def _in_one_period(
    u: UOp,
    sums: dict[frozenset[tuple[UOp, int]], tuple[UOp, Sum]],
    known: dict[UOp, tuple[int, int]],
) -> UOp | None:
    dividend, divisor = u.src
    if not is_const(divisor) or divisor.arg <= 0 or u.dtype is not dtypes.weakint:
        return None
    n = divisor.arg
    periods, rest = nearest_period(dividend, n)
    match = sums.get(frozenset(rest.terms.items()))
    if match is None or not periods.terms:
        return None
    value, total = match
    shift = rest.const - total.const
    lo, hi = (bound + shift for bound in known[value])
    if lo // n != hi // n:
        return None
    if u.op is Ops.FLOORDIV:
        return Sum(periods.terms, lo // n, u.dtype).build()
    return Sum(rest.terms, rest.const - lo // n * n, u.dtype).build()


X, C, LIMIT = UPat.var("x"), UPat.cvar("c"), UPat.cvar("limit")
REMAINDER = UPat(Ops.FLOORMOD, src=(X, C))

# fmt: off
pm_windows = PatternMatcher([
    Rule("mod_window", "(n*q + r) % n < c -> -1 < r & r < c",
         UPat(Ops.CMPLT, src=(REMAINDER, LIMIT)), remainder_in_window),
])
# fmt: on

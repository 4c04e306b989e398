"""Division and remainder of sums by a positive constant, rounded down: x//n and x%n.

    (x*8 + y) // 8        ->  x + y//8
    (x*4 + y) // 8        ->  x//2                0 <= y < 4
    (x*4 + y) % 8         ->  x%2*4 + y           0 <= y < 4
    (x//2 + 3) // 4       ->  (x + 6) // 8
    x//n*n + x%n          ->  x

Everything here holds for negative values too. In a concrete dtype a rule fires only where the sum
is known not to wrap (`Sum.exact`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.symbolic.terms import (
    Sum,
    is_const,
    mul,
    same_shape,
    span,
    term_and_coefficient,
)

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Terms = dict["UOp", int]


# *** nodes


def _divide(x: UOp, n: int) -> UOp:
    return x if n == 1 else make(Ops.FLOORDIV, x.dtype, (x, const(n, x.dtype)))


def _remainder(x: UOp, n: int) -> UOp:
    return const(0, x.dtype) if n == 1 else make(Ops.FLOORMOD, x.dtype, (x, const(n, x.dtype)))


def _plus(x: UOp, y: UOp) -> UOp:
    if is_const(x) and x.arg == 0:
        return y
    return x if is_const(y) and y.arg == 0 else make(Ops.ADD, x.dtype, (x, y))


def _sum(terms: Terms, offset: int, dtype: DType) -> UOp | None:
    """The sum as a node; None where its value may not fit the dtype."""
    total = Sum({t: f for t, f in terms.items() if f}, offset, dtype)
    return total.build() if total.exact else None


def is_positive_constant(c: UOp) -> bool:
    """Whether c is an integer above 0."""
    return is_const(c) and c.arg > 0


def _dividend(x: UOp, c: UOp) -> Sum | None:
    """What is divided, as a sum; None where the rules may not look into it."""
    if not is_positive_constant(c) or c.dtype is not x.dtype:
        return None
    total = Sum.of(x)
    return total if total.exact else None


# *** one period: the quotient is known


def remainder_in_period(x: UOp, c: UOp) -> UOp | None:
    """x % n  ->  x - k*n where x//n is always k."""
    if not is_positive_constant(c) or x.dtype is not c.dtype:
        return None
    (lo, hi), n = x.bounds, c.arg
    period = lo // n
    if hi // n != period:
        return None
    return x if period == 0 else _plus(x, const(-period * n, x.dtype))


# *** multiples of the divisor leave the dividend


def divide_multiples(x: UOp, c: UOp) -> UOp | None:
    """(x*n + y) // n  ->  x + y//n, and likewise for the multiple of n in the constant."""
    total = _dividend(x, c)
    if total is None:
        return None
    n = c.arg
    whole = {t: f // n for t, f in total.terms.items() if f % n == 0}
    rest = {t: f for t, f in total.terms.items() if f % n}
    k, left = divmod(total.const, n)
    if not whole and k == 0:
        return _divide_into_one_period(x, total, n)
    quotient, dividend = _sum(whole, k, x.dtype), _sum(rest, left, x.dtype)
    if quotient is None or dividend is None:
        return None
    return _plus(quotient, _divide(dividend, n)) if rest else quotient


def _reductions(total: Sum, n: int) -> list[tuple[Terms, Terms]]:
    """Ways to write each coefficient as a*n + b: b from 0 up, or b nearest to 0."""
    up = ({t: f // n for t, f in total.terms.items()}, {t: f % n for t, f in total.terms.items()})
    near_a = {t: (f + n // 2) // n for t, f in total.terms.items()}
    near = (near_a, {t: f - near_a[t] * n for t, f in total.terms.items()})
    return [up] if up == near else [up, near]


def _divide_into_one_period(x: UOp, total: Sum, n: int) -> UOp | None:
    """(x*5) // 4  ->  x, where x*1 stays within one period of 4."""
    for whole, rest in _reductions(total, n):
        lo, hi = span(rest, total.const)
        if any(whole.values()) and lo // n == hi // n:
            return same_shape(x, _sum(whole, lo // n, x.dtype))
    return None


def remainder_of_multiples(x: UOp, c: UOp) -> UOp | None:
    """(x*(n+1) + y*n + k) % n  ->  (x + k%n) % n."""
    total = _dividend(x, c)
    if total is None:
        return None
    n, offset = c.arg, total.const % c.arg
    for _, rest in _reductions(total, n):
        lo, hi = span(rest, offset)
        if lo // n == hi // n:
            return same_shape(x, _sum(rest, offset - lo // n * n, x.dtype))
    rest = {t: f % n for t, f in total.terms.items() if f % n}
    if rest == total.terms and offset == total.const:
        return None
    dividend = same_shape(x, _sum(rest, offset, x.dtype))
    return None if dividend is None else _remainder(dividend, n)


# *** factors that the dividend and the divisor share


def _shared_factor(total: Sum, n: int) -> tuple[int, Terms, Terms] | None:
    """(g, multiples of g, the rest): g divides n, and the rest with the constant is within 0..g-1."""
    for g in sorted({math.gcd(f, n) for f in total.terms.values()}, reverse=True):
        if g == 1:
            return None
        big = {t: f for t, f in total.terms.items() if f % g == 0}
        small = {t: f for t, f in total.terms.items() if f % g}
        lo, hi = span(small, total.const % g)
        if lo >= 0 and hi < g:
            return g, big, small
    return None


def divide_shared_factor(x: UOp, c: UOp) -> UOp | None:
    """(x*g + y) // (m*g)  ->  x // m, where 0 <= y < g."""
    total = _dividend(x, c)
    found = None if total is None else _shared_factor(total, c.arg)
    if total is None or found is None:
        return None
    g, big, _ = found
    dividend = same_shape(x, _sum({t: f // g for t, f in big.items()}, total.const // g, x.dtype))
    return None if dividend is None else _divide(dividend, c.arg // g)


def remainder_shared_factor(x: UOp, c: UOp) -> UOp | None:
    """(x*g + y) % (m*g)  ->  x % m * g + y, where 0 <= y < g."""
    total = _dividend(x, c)
    found = None if total is None else _shared_factor(total, c.arg)
    if total is None or found is None:
        return None
    g, big, small = found
    dividend = _sum({t: f // g for t, f in big.items()}, total.const // g, x.dtype)
    rest = _sum(small, total.const % g, x.dtype)
    if dividend is None or rest is None:
        return None
    return same_shape(x, _plus(mul(_remainder(dividend, c.arg // g), g, x.dtype), rest))


# *** divisions in divisions


def _inner(x: UOp, op: Ops) -> tuple[UOp, int] | None:
    """(y, n) of a y//n or y%n with a positive constant of the same dtype."""
    if x.op is op and is_positive_constant(x.src[1]) and x.src[0].dtype is x.dtype:
        return x.src[0], x.src[1].arg
    return None


def divide_quotient(x: UOp, c: UOp) -> UOp | None:
    """(x//m + k) // n  ->  (x + k*m) // (m*n)."""
    total = _dividend(x, c)
    if total is None or list(total.terms.values()) != [1]:
        return None
    inner = _inner(next(iter(total.terms)), Ops.FLOORDIV)
    if inner is None or inner[1] * c.arg > x.dtype.max:
        return None
    y, m = inner
    dividend = _sum({y: 1}, total.const * m, x.dtype)
    return None if dividend is None else _divide(dividend, m * c.arg)


def divide_remainder(x: UOp, c: UOp) -> UOp | None:
    """x % (m*n) // n  ->  x // n % m."""
    inner = _inner(x, Ops.FLOORMOD)
    if inner is None or not is_positive_constant(c) or inner[1] % c.arg or x.dtype is not c.dtype:
        return None
    return _remainder(_divide(inner[0], c.arg), inner[1] // c.arg)


def remainder_of_remainder(x: UOp, c: UOp) -> UOp | None:
    """(x % (m*n) + y) % n  ->  (x + y) % n."""
    total = _dividend(x, c)
    if total is None:
        return None
    terms: Terms = {}
    for term, factor in total.terms.items():
        inner = _inner(term, Ops.FLOORMOD)
        if inner is not None and inner[1] * factor % c.arg == 0:
            term = inner[0]
        terms[term] = terms.get(term, 0) + factor
    if terms == total.terms:
        return None
    dividend = same_shape(x, _sum(terms, total.const, x.dtype))
    return None if dividend is None else _remainder(dividend, c.arg)


# *** quotient and remainder meet again


def join_quotient(u: UOp) -> UOp | None:
    """x//n*n + x%n  ->  x, and x//n%m*n + x%n  ->  x % (m*n), times any factor."""
    if u.dtype is not dtypes.weakint:
        return None
    last, _ = term_and_coefficient(u.src[1])
    if last.op not in (Ops.FLOORDIV, Ops.FLOORMOD):
        return None
    total = Sum.of(u)
    for term, factor in total.terms.items():
        inner = _inner(term, Ops.FLOORMOD)
        joined = None if inner is None else _partner(total, *inner, factor)
        if joined is not None:
            partner, whole = joined
            terms = {t: f for t, f in total.terms.items() if t is not term and t is not partner}
            terms[whole] = terms.get(whole, 0) + factor
            return same_shape(u, _sum(terms, total.const, u.dtype))
    return None


def _partner(total: Sum, x: UOp, n: int, factor: int) -> tuple[UOp, UOp] | None:
    """(the term that holds x//n, what it makes with x%n) of a sum."""
    y, m = _inner(x, Ops.FLOORDIV) or (x, 1)
    quotient = _divide(y, m * n)
    for term, f in total.terms.items():
        if f != factor * n:
            continue
        if term is quotient:
            return term, x
        inner = _inner(term, Ops.FLOORMOD)
        if inner is not None and inner[0] is quotient:
            return term, _remainder(x, n * inner[1])
    return None


# *** divisors that are negative, or no constants


def divide_by_negative(x: UOp, c: UOp) -> UOp | None:
    """x // -n  ->  -x // n."""
    if not is_const(c) or c.arg >= 0 or x.dtype is not dtypes.weakint:
        return None
    return _divide(mul(x, -1, x.dtype), -c.arg)


def remainder_by_negative(x: UOp, c: UOp) -> UOp | None:
    """x % -n  ->  -(-x % n)."""
    if not is_const(c) or c.arg >= 0 or x.dtype is not dtypes.weakint:
        return None
    return mul(_remainder(mul(x, -1, x.dtype), -c.arg), -1, x.dtype)


def divisor_cancels(u: UOp, x: UOp, y: UOp) -> bool:
    """Whether the product is exact and the divisor is never 0."""
    lo, hi = y.bounds
    return (lo > 0 or hi < 0) and u.src[0].dtype is u.dtype and u.dtype is dtypes.weakint


def nested_cdiv(u: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """One division toward zero by both constants."""
    divisor = c.arg * d.arg
    if c.arg <= 0 or d.arg <= 0 or divisor > u.dtype.max or x.dtype is not u.dtype:
        return None
    return make(Ops.CDIV, u.dtype, (x, const(divisor, u.dtype)))


X, Y, C, D = UPat.var("x"), UPat.var("y"), UPat.cvar("c"), UPat.cvar("d")
DIV, MOD = UPat(Ops.FLOORDIV, src=(X, C)), UPat(Ops.FLOORMOD, src=(X, C))

# fmt: off
pm_divmod = PatternMatcher([
    Rule("div_negative",  "x // -n -> -x // n",                  DIV, divide_by_negative),
    Rule("mod_negative",  "x % -n -> -(-x % n)",                 MOD, remainder_by_negative),
    Rule("mod_in_period", "x % n -> x - k*n if x//n = k",        MOD, remainder_in_period),
    Rule("div_multiples", "(x*n + y) // n -> x + y//n",          DIV, divide_multiples),
    Rule("mod_multiples", "(x*n + y) % n -> y % n, y - k*n if y//n = k",              MOD, remainder_of_multiples),
    Rule("div_factor",    "(x*g + y) // (m*g) -> x // m",        DIV, divide_shared_factor),
    Rule("mod_factor",    "(x*g + y) % (m*g) -> x%m*g + y",      MOD, remainder_shared_factor),
    Rule("div_div",       "(x//m + k) // n -> (x + k*m) // (m*n)", DIV, divide_quotient),
    Rule("div_mod",       "x % (m*n) // n -> x // n % m",        DIV, divide_remainder),
    Rule("mod_mod",       "(x % (m*n) + y) % n -> (x + y) % n",  MOD, remainder_of_remainder),
    Rule("div_add_mod",   "x//n*n + x%n -> x; x//n%m*n + x%n -> x % (m*n)",                   UPat(Ops.ADD, dtypes.weakint, name="u"), join_quotient),
    Rule("div_cancel",    "x*y // y -> x",                       UPat(Ops.FLOORDIV, src=(UPat(Ops.MUL, src=[X, Y]), Y), name="u"), lambda u, x, y: same_shape(u, x), when=divisor_cancels),
    Rule("mod_cancel",    "x*y % y -> 0",                        UPat(Ops.FLOORMOD, src=(UPat(Ops.MUL, src=[X, Y]), Y), name="u"), lambda u, x, y: u.const_like(0), when=divisor_cancels),
    Rule("cdiv_cdiv",     "cdiv(cdiv(x, c), d) -> cdiv(x, c*d)", UPat(Ops.CDIV, src=(UPat(Ops.CDIV, src=(X, C)), D), name="u"), nested_cdiv),
])
# fmt: on

"""Division of integers by a constant as a product and a shift, where bounds show that it is exact.

0 <= x <= 100:  cdiv(x, 7) -> (x * 147) >> 10

Source: Granlund, Montgomery, "Division by invariant integers using multiplication", 1994.
"""

from __future__ import annotations

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


def multiplier(divisor: int, most: int) -> tuple[int, int]:
    """(m, s) such that x // divisor is x * m >> s for all 0 <= x <= most.

    The product exceeds x * 2**s / divisor by x * (m * divisor - 2**s) / divisor: less than the
    distance to the next multiple as long as the excess of the largest x is less than 2**s.
    """
    s = 0
    while True:
        m = -(-(1 << s) // divisor)
        if (m * divisor - (1 << s)) * most < 1 << s:
            return m, s
        s += 1


def cdiv_by_constant(x: UOp, c: UOp) -> UOp | None:
    """The quotient, rounded to zero, by a product that fits the type, or 64 bits."""
    divisor, bounds = c.arg, x.bounds
    if not dtypes.is_int(x.dtype) or not isinstance(divisor, int) or divisor < 2:
        return None
    most = max(int(bounds[1]), -int(bounds[0]))
    m, s = multiplier(divisor, most)
    exact = m * divisor == 1 << s
    wide = _fits(x.dtype, m * most)
    if wide is None or (exact and bounds[0] < 0):
        return None
    wide_x = x if wide is x.dtype else x.cast(wide)
    quotient: UOp = ((wide_x * m) >> s).cast(x.dtype)
    # The shift rounds down, and as the product is never exact a negative quotient is one less.
    return quotient if bounds[0] >= 0 else quotient + (x < 0).cast(x.dtype)


def cmod_by_constant(x: UOp, c: UOp) -> UOp | None:
    """The rest beside such a quotient."""
    quotient = cdiv_by_constant(x, c)
    return None if quotient is None else x - quotient * int(c.arg)


def _fits(dtype: DType, product: int) -> DType | None:
    """The narrowest of a type, 32 and 64 bits that holds a product."""
    for wide in (dtype, dtypes.int32, dtypes.int64):
        if product <= wide.max and wide.itemsize >= dtype.itemsize:
            return wide
    return None


X, C = UPat.var("x"), UPat.cvar("c")
# fmt: off
FAST_DIVISION = (
    Rule("cdiv_by_constant", "cdiv(x, c) -> x * m >> s", UPat(Ops.CDIV, src=(X, C)),
         cdiv_by_constant),
    Rule("cmod_by_constant", "cmod(x, c) -> x - c * (x * m >> s)", UPat(Ops.CMOD, src=(X, C)),
         cmod_by_constant),
)
# fmt: on
pm_fast_division = PatternMatcher([*FAST_DIVISION])

"""2 ** (y * log2 x) in double, the exponent kept in two parts: right to a unit in the last place.

Rounded to one double the exponent is off by up to half a unit of 1024, which is 400 units of the
result. So log2 x and its product with y are sums of a number of 26 bits, whose products are exact,
and what is left.

Source: Sun Microsystems' fdlibm, e_pow.c (the method); Dekker, "A floating-point technique for
extending the available precision", 1971 (numbers in parts).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tinylab.codegen.transcendental import EXP2_POLY, F64, clamp, fma, polynomial, scale
from tinylab.dtype import dtypes
from tinylab.uop.ops import UOp

# 3/2 log((1+s)/(1-s)) / s = 3 + z + z² p(z) with z = s², highest power first; error 2**-66 of it.
# A minimax fit made by tests/codegen/fit_polynomials.py.
_LOG_POLY = (
    0.19794534444422257, 0.19885221852138624, 0.23080136217551045, 0.2727267654547443,
    0.3333333377994969, 0.42857142855148955, 0.6000000000000338,
)  # fmt: skip
# 2 / (3 ln 2) in two parts, the first of 26 bits.
_SCALE = (0.9617966860532761, 7.872699542894897e-09)
_SCALE_WHOLE = 2.0 / (3.0 * math.log(2.0))
_UPPER_BITS = (1 << 64) - (1 << 27)


class Parts(NamedTuple):
    """A number as the sum of two: the upper has 26 bits."""

    upper: UOp
    lower: UOp


def exp2_of_product(y: UOp, x: UOp) -> UOp:
    """2 ** (y * log2 x) of doubles, x >= 0 or NaN."""
    log = _log2(x)
    plain = y * (log.upper + log.lower)
    inside = (plain < 1100.0) & (plain > -1100.0)
    upper_y = _upper(y)
    upper = inside.where(upper_y * log.upper, plain)
    lower = inside.where((y - upper_y) * log.upper + y * log.lower, plain.const_like(0.0))
    upper = clamp(upper, *F64.exp2_range)
    shifted = (upper + lower) + F64.to_nearest
    rest = (upper - (shifted - F64.to_nearest)) + lower
    return scale(fma(rest, polynomial(rest, EXP2_POLY[dtypes.float64]), 1.0), shifted, F64)


def _upper(x: UOp) -> UOp:
    """The first 26 bits of a double."""
    return (x.bitcast(dtypes.uint64) & _UPPER_BITS).bitcast(dtypes.float64)


def _log2(x: UOp) -> Parts:
    """log2 x: the exponent, and log2 of a mantissa within a factor sqrt 2 of 1."""
    denormal = x < 2.0**-1022
    normal = denormal.where(x * 2.0**53, x)
    # Subtracting the bits of sqrt(1/2) makes the exponent field step there, not at 1.
    root = UOp.const(math.sqrt(0.5), dtypes.float64).bitcast(dtypes.int64).simplify().arg
    raw = normal.bitcast(dtypes.int64)
    exponent = (raw - root) >> F64.mantissa
    mantissa = (raw - (exponent << F64.mantissa)).bitcast(dtypes.float64)
    whole = (exponent - denormal.where(exponent.const_like(53), 0)).cast(dtypes.float64)
    log = _log2_near_one(mantissa)
    upper = _upper((log.upper + log.lower) + whole)
    special = x.ne(0.0).where(x, x.const_like(-math.inf))  # also of inf and NaN
    usual = x.ne(0.0) & (x < math.inf)
    return Parts(
        usual.where(upper, special),
        usual.where(log.lower - ((upper - whole) - log.upper), x.const_like(0.0)),
    )


def _log2_near_one(m: UOp) -> Parts:
    """log2 m = 2 / (3 ln 2) * s * (3 + z + z² p(z)), s = (m - 1) / (m + 1), z = s²."""
    f, d = m - 1.0, m + 1.0
    s = f / d
    upper_s, upper_d = _upper(s), _upper(d)
    lower_d = m - (upper_d - 1.0)
    lower_s = ((f - upper_s * upper_d) - upper_s * lower_d) / d
    z = s * s
    rest = z * z * polynomial(z, _LOG_POLY) + lower_s * (upper_s + s)
    square = upper_s * upper_s
    factor = _upper((square + 3.0) + rest)
    lower_factor = rest - ((factor - 3.0) - square)
    product, lower = upper_s * factor, lower_s * factor + lower_factor * s
    upper = _upper(product + lower)
    lower = lower - (upper - product)
    return Parts(upper * _SCALE[0], upper * _SCALE[1] + lower * _SCALE_WHOLE)

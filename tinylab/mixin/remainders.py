"""Whole quotients of floats and what is left, exactly: as C's fmod, numpy and PyTorch have them.

6.0 / 0.1 rounds to 60, but 0.1 fits only 59 times into 6: 59 and 0.0999…. A quotient may be too
large for any type, so what is left is worked out on the significands: x = p 2**d and y = q in the
same unit leave (p 2**d) mod q = p (2**d mod q) mod q, with 2**d mod q by squaring.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tinylab.dtype import DType, dtypes

if TYPE_CHECKING:
    from tinylab.mixin.elementwise import ElementwiseMixin

S = TypeVar("S", bound="ElementwiseMixin")


class Quotient(NamedTuple):
    """|a| = count * |b| + rest, 0 <= rest < |b|; in a type of at least 32 bits.

    The rest is exact; the count, divided out, is near a whole number.
    """

    count: Any
    rest: Any


class _Parts(NamedTuple):
    """How a float is cut, and in what the pieces are multiplied exactly."""

    bits: DType
    mantissa: int
    whole: DType  # of the significands: float64 holds the products of 24 bits, int64 wraps
    squarings: int  # 2 ** (the largest difference of exponents >> squarings) fits into 2**33


_PARTS: dict[DType, _Parts] = {
    dtypes.float32: _Parts(dtypes.int32, 23, dtypes.float64, 4),
    dtypes.float64: _Parts(dtypes.int64, 52, dtypes.int64, 6),
}


def whole_quotient(a: S, b: S) -> Quotient:
    """How often |b| fits into |a|, and what is left; the gradient flows through what is left."""
    if a.dtype not in _PARTS:
        wide = dtypes.float32 if a.dtype.itemsize < 4 else dtypes.float64
        a, b = a.cast(wide), b.cast(wide)
    x, y = a.abs(), b.abs()
    fixed_x, fixed_y = x.detach(), y.detach()
    rest = _rest(fixed_x, fixed_y)
    count = (fixed_x - rest) / fixed_y
    # Zeros, but for the gradient: 1 of x, and minus the count of y.
    moved = (x - fixed_x) - count.isinf().where(0, (count + 0.5).trunc()) * (y - fixed_y)
    return Quotient(count, rest + moved)


def _rest(x: S, y: S) -> S:
    """What is left of x >= 0 beside y >= 0; NaN where there is no such number."""
    parts = _PARTS[x.dtype]
    (p, x_unit), (q, y_unit) = _taken_apart(x, parts), _taken_apart(y, parts)
    apart = (x_unit - y_unit).maximum(0)
    first: S = apart.const(1, dtypes.int64) << (apart >> parts.squarings)
    power = _mod(first.cast(parts.whole), q)
    for bit in reversed(range(parts.squarings)):
        power = _mod(power * power, q, wrapped=(power, power))
        power = ((apart >> bit) & 1).ne(0).where(power + power, power)
        power = (power < q).where(power, power - q)
    p = _mod(p, q)
    left = _mod(p * power, q, wrapped=(p, power))
    # y / q is the unit of y, a power of two; 0 / 0 where y is 0.
    found = (x < y).where(x, left.cast(x.dtype) * (y / q.cast(x.dtype)))
    return (x.isfinite() & y.isfinite()).where(found, math.nan)


def _taken_apart(x: S, parts: _Parts) -> tuple[S, S]:
    """(significand, number of its unit) of a float that is not negative."""
    bits: S = x.bitcast(parts.bits)
    exponent = bits >> parts.mantissa
    fraction = bits.bitwise_and((1 << parts.mantissa) - 1)
    significand = fraction + (exponent > 0).where(1 << parts.mantissa, 0)
    return significand.cast(parts.whole), exponent.maximum(1)


def _mod(left: S, m: S, wrapped: tuple[S, S] | None = None) -> S:
    """What is left of a whole number beside m, where the quotient fits into a double.

    wrapped: the numbers whose product it is. One of 106 bits wraps, and so does the multiple of m
    that is nearly as large: their difference is right, and within some m of 0.
    """
    if left.dtype is dtypes.float64:
        left = left - (left / m).trunc() * m
        return (left < 0).where(left + m, left)
    divisor: S = m.cast(dtypes.float64)
    if wrapped is not None:
        a, b = (v.cast(dtypes.float64) for v in wrapped)
        left = left - (a * b / divisor).cast(dtypes.int64) * m
    left = left - (left.cast(dtypes.float64) / divisor).cast(dtypes.int64) * m
    left = (left < 0).where(left + m, left)
    return (left < m).where(left, left - m)


def remainder(a: S, b: S) -> S:
    """What is left of a, with a's sign: C's fmod."""
    found = whole_quotient(a, b).rest.cast(a.dtype)
    signed: S = (a < 0).where(-found, found)
    # A finite number leaves itself when divided by an infinity (not inf - 0 * inf), and 0 by all
    # but 0: its size has no slope there.
    itself = (b.isinf() & a.isfinite()) | (a.eq(0) & ((b < 0) | (b > 0)))
    return itself.where(a, signed)


def floor_quotient(a: S, b: S) -> S:
    """The largest whole number of times that b fits into a; by 0 what a / b is.

    A zero has the sign of a / b.
    """
    count, rest = whole_quotient(a, b)
    left = b.isinf().where(a.ne(0), rest.ne(0))
    # The last step is numpy's, so that counts beyond what the type has exactly are the same ones.
    near = (a < 0).ne(b < 0).where((count + left.where(1, 0)).neg(), count)
    found = near.floor()
    found = (near - found > 0.5).where(found + 1, found).cast(a.dtype)
    found = (b.isinf() & a.isfinite()).where(((a < 0).ne(b < 0) & a.ne(0)).where(-1, 0), found)
    # inf // 3 has no remainder to take off, so it is no number.
    found = a.isinf().where(math.nan, found)
    found = found.eq(0).where((a.detach() / b.detach() * 0.0).cast(found.dtype), found)
    return b.eq(0).where(a / b, found)

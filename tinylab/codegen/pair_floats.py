"""Conversions between floats and 64-bit integers held as pairs of 32-bit words.

Towards float each is rounded once, to nearest and ties to even; towards integers a number is
truncated, what lies outside of the type becomes its nearest end, and NaN becomes 0.
"""

from __future__ import annotations

from tinylab.codegen.pair_math import (
    MASK,
    TOP,
    U32,
    Pair,
    bit,
    bit_length,
    constant,
    is_negative,
    magnitude,
    select,
    shift_right_odd,
    with_sign,
    word,
)
from tinylab.dtype import DType, dtypes
from tinylab.uop.ops import UOp

F32, F64 = dtypes.float32, dtypes.float64
_FRACTION, _EXPONENT = 0xFFFFF, 0x7FF  # of the high word of a float64


def to_float(x: Pair, dtype: DType, signed: bool) -> UOp:
    """The float nearest to a 64-bit integer."""
    if dtype is F64:
        hi = x.hi.cast(dtypes.int32) if signed else x.hi
        return hi.cast(F64) * 2.0**32 + x.lo.cast(F64)  # only the sum is rounded
    return to_float32(x, signed, odd=dtype is not F32).cast(dtype)


def to_float32(x: Pair, signed: bool, odd: bool) -> UOp:
    """The nearest float32; or one whose last bit says that more was lost, to be rounded again."""
    size = _size_to_float(magnitude(x) if signed else x, odd)
    return is_negative(x).where(size * -1.0, size) if signed else size


def _size_to_float(x: Pair, odd: bool) -> UOp:
    """An unsigned pair in float32: nearest, or 24 bits of which the last says that more are lost.

    The upper 32 bits hold all that rounding asks for once the last one is set for lost ones.
    """
    shift = Pair(bit_length(x.hi), word(0))
    upper = shift_right_odd(x, shift).lo
    if odd:  # for a smaller float, which then rounds once
        cut = (upper & (MASK - 0xFF)) | (bit((upper & 0xFF).ne(0)) << 8)
        upper = (upper < 1 << 24).where(upper, cut)
    return upper.cast(F32) * ((shift.lo + 127) << 23).bitcast(F32)


def from_float(x: UOp, signed: bool) -> Pair:
    """The 64-bit integer that a float is, without its fraction."""
    if x.dtype not in (F32, F64):
        x = x.cast(F32)
    if not signed:
        found = select(x < 2.0**64, _size_of_float(x), constant(-1))
        return select(x > 0.0, found, constant(0))
    negative = x < 0.0
    size = negative.where(x * -1.0, x)
    found = with_sign(negative, _size_of_float(size))
    end = Pair(negative.where(word(0), word(MASK)), negative.where(word(TOP), word(TOP - 1)))
    # NaN is not below 2**63 either.
    return select(x.ne(x), constant(0), select(size < 2.0**63, found, end))


def _size_of_float(x: UOp) -> Pair:
    hi = (x * 2.0**-32).cast(U32)
    lo = (x - hi.cast(x.dtype) * 2.0**32).cast(U32)  # exact: these are the lower bits of x
    return Pair(lo, hi)


# *** the bits of a double, where no integer is as wide


def double_of_bits(x: Pair) -> UOp:
    """The float64 with these bits; a NaN keeps no payload."""
    exponent, top = (x.hi >> 20) & _EXPONENT, x.hi & _FRACTION
    fraction = top.cast(F64) * 2.0**32 + x.lo.cast(F64)
    is_normal = exponent.ne(0)
    size = is_normal.where(fraction + 2.0**52, fraction)
    places = is_normal.where(exponent, word(1)).cast(dtypes.int32) - 1075
    up = (places < 0).where(places.const_like(0), places)
    down = (places < 0).where(places * -1, places.const_like(0))
    for i in range(11):  # steps of 2**1 … 2**1024 never leave the range on the way
        size = size * ((up >> i) & 1).ne(0).where(_power(1 << i), UOp.const(1.0, F64))
        size = size * ((down >> i) & 1).ne(0).where(_power(-(1 << i)), UOp.const(1.0, F64))
    special = (top | x.lo).ne(0).where(_double("nan"), _double("inf"))
    size = (exponent < _EXPONENT).where(size, special)
    return is_negative(x).where(size * -1.0, size)


def bits_of_double(x: UOp) -> Pair:
    """The bits of a float64; every NaN has the same."""
    negative = (x < 0.0) | (x.ne(0.0).logical_not() & (x.reciprocal() < 0.0))
    size = (x < 0.0).where(x * -1.0, x)
    scaled, exponent = size, word(1075)
    for i in reversed(range(10)):
        large = scaled >= 2.0 ** (52 + (1 << i))
        scaled = large.where(scaled * _power(-(1 << i)), scaled)
        exponent = exponent + large.where(word(1 << i), word(0))
    for i in (9, *reversed(range(10))):
        small = scaled < 2.0 ** (53 - (1 << i))
        scaled = small.where(scaled * _power(1 << i), scaled)
        exponent = exponent - small.where(word(1 << i), word(0))
    denormal = size < 2.0**-1022
    scaled = denormal.where(size * _power(537) * _power(537), scaled)
    exponent = denormal.where(word(0), exponent)
    lo, hi = _size_of_float(scaled)
    hi = (hi & _FRACTION) | (exponent << 20)
    finite = size < _double("inf")
    hi = finite.where(hi, x.ne(x).where(word(0x7FF80000), word(0x7FF00000)))
    return Pair(finite.where(lo, word(0)), hi | (bit(negative) << 31))


def _power(k: int) -> UOp:
    """The double 2**k; what is beyond the largest double is never chosen."""
    return _double(2.0**k if k < 1024 else "inf")


def _double(x: float | str) -> UOp:
    return UOp.const(float(x), F64)

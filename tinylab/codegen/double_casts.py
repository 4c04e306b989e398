"""Conversions of float64 held as the pair of words of its bits, for targets without doubles.

Towards floats each is rounded once, to nearest and ties to even; towards integers a number is
truncated, what lies outside of the type becomes its nearest end, and NaN becomes 0.
"""

from __future__ import annotations

from tinylab.codegen import pair_math
from tinylab.codegen.double_math import (
    BIAS,
    INFINITE,
    NAN_BITS,
    by,
    is_infinite,
    is_nan,
    parts_of,
    rounded,
    with_sign,
)
from tinylab.codegen.pair_math import (
    F32,
    I32,
    MASK,
    TOP,
    U32,
    ZERO,
    Pair,
    bit,
    constant,
    is_negative,
    is_nonzero,
    magnitude,
    pair_bit_length,
    select,
    shift_left,
    shift_right,
    shift_right_odd,
    word,
)
from tinylab.dtype import DType
from tinylab.uop.ops import UOp


def from_long(x: Pair, signed: bool) -> Pair:
    """The double nearest to a 64-bit integer."""
    size = magnitude(x) if signed else x
    length = pair_bit_length(size).cast(I32)
    none = length.const_like(0)
    up, down = (length < 56).where(56 - length, none), (length > 56).where(length - 56, none)
    mantissa = shift_right_odd(shift_left(size, by(up)), by(down))
    found = rounded(length + (BIAS - 1), mantissa)
    return with_sign(is_negative(x), found) if signed else found


def from_float(x: UOp) -> Pair:
    """The double of a float32, exact; of a smaller float by way of it."""
    raw = x.cast(F32).bitcast(U32)
    size = raw & (TOP - 1)
    # A denormal is made a normal number for the time being.
    tiny = size < 1 << 23
    moved = (size.bitcast(F32) * 2.0**64).bitcast(U32)
    size = tiny.where(moved, size)
    bias = tiny.where(word((BIAS - 127 - 64) << 20), word((BIAS - 127) << 20))
    found = Pair(size << 29, (size >> 3) + bias)
    found = select(size.ne(0), found, ZERO)
    special = (raw & (TOP - 1)) >= 0x7F800000
    top = ((raw << 9).ne(0)).where(word(NAN_BITS), word(INFINITE))
    return with_sign(raw >= TOP, select(special, Pair(word(0), top), found))


def to_float(x: Pair, dtype: DType) -> UOp:
    """The nearest float of a smaller type."""
    return _to_float32(x, odd=dtype is not F32).cast(dtype)


def _to_float32(x: Pair, odd: bool) -> UOp:
    """The nearest float32; or one whose last bit says that more was lost, to be rounded again."""
    a = parts_of(x)
    exponent = a.exponent - (BIAS - 127)
    low = exponent < 1
    places = 26 + low.where(1 - exponent, exponent.const_like(0))
    mantissa = shift_right_odd(a.mantissa, by(places)).lo
    kept, rest = mantissa >> 3, mantissa & 7
    kept = kept | bit(rest.ne(0)) if odd else kept + bit(rest + (kept & 1) > 4)
    base = low.where(exponent.const_like(0), exponent - 1).cast(U32)
    size = kept + (base << 23)
    beyond = (exponent > 254) | (size >= 0x7F800000)
    size = beyond.where(word(0x7F7FFFFF if odd else 0x7F800000), size)
    size = is_nonzero(a.mantissa).where(size, word(0))
    size = is_infinite(x).where(word(0x7F800000), is_nan(x).where(word(0x7FC00000), size))
    return (size | (bit(a.negative) << 31)).bitcast(F32)


def to_long(x: Pair, signed: bool) -> Pair:
    """The 64-bit integer that a double is, without its fraction."""
    a = parts_of(x)
    exponent = a.exponent - BIAS
    none = exponent.const_like(0)
    down, up = (
        (exponent < 52).where(52 - exponent, none),
        (exponent > 52).where(exponent - 52, none),
    )
    size = shift_left(shift_right(a.mantissa, by(down), False), by(up))
    if signed:
        end = Pair(
            a.negative.where(word(0), word(MASK)), a.negative.where(word(TOP), word(TOP - 1))
        )
        found = select(exponent < 63, pair_math.with_sign(a.negative, size), end)
    else:
        found = select(a.negative, ZERO, select(exponent < 64, size, constant(-1)))
    return select(is_nan(x), ZERO, found)


def to_int(x: Pair, dtype: DType) -> UOp:
    """An integer of at most 32 bits, without the fraction."""
    found = to_long(x, True)
    low, high = constant(int(dtype.min)), constant(int(dtype.max))
    found = select(pair_math.less(found, low, True), low, found)
    return select(pair_math.less(high, found, True), high, found).lo.cast(dtype)

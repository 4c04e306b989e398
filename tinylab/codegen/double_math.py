"""Arithmetic of float64 on its bits, for targets without doubles: exact, rounded once.

x * y  ->  signs apart, exponents added, 53 x 53 bits multiplied, rounded to nearest, ties to even

A number is held as the pair of words of its bits. On the way a mantissa has 56 bits: three more
than are kept, the last of which says whether anything below it was lost.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tinylab.codegen import pair_math
from tinylab.codegen.pair_math import (
    I32,
    MASK,
    TOP,
    U32,
    ZERO,
    Pair,
    bit,
    constant,
    divide_by_word,
    equal,
    is_negative,
    is_nonzero,
    multiply_words,
    pair_bit_length,
    select,
    shift_left,
    shift_right,
    shift_right_odd,
    word,
)
from tinylab.uop.ops import UOp

INFINITE, NAN_BITS = 0x7FF00000, 0x7FF80000  # high words
BIAS = 1023
NAN, INFINITY = Pair(word(0), word(NAN_BITS)), Pair(word(0), word(INFINITE))


class Parts(NamedTuple):
    """A number taken apart: its sign, its biased exponent, 53 bits with the first one set.

    The mantissa of 0 is 0; the exponent of a denormal may be below 1.
    """

    negative: UOp
    exponent: UOp
    mantissa: Pair


def bits_of(x: float) -> Pair:
    """The bits of a constant."""
    return constant(int.from_bytes(struct.pack("<d", x), "little"))


def by(n: UOp | int) -> Pair:
    """A distance to shift by."""
    return constant(n) if isinstance(n, int) else Pair(n.cast(U32), word(0))


def size_of(x: Pair) -> Pair:
    """The bits without the sign."""
    return Pair(x.lo, x.hi & (TOP - 1))


def is_nan(x: Pair) -> UOp:
    """Whether this is no number."""
    return pair_math.less(INFINITY, size_of(x), False)


def is_infinite(x: Pair) -> UOp:
    """Whether this is an infinity of either sign."""
    return equal(size_of(x), INFINITY)


def with_sign(negative: UOp, size: Pair) -> Pair:
    """Bits without a sign, and a sign."""
    return Pair(size.lo, size.hi | (bit(negative) << 31))


def _field(x: Pair) -> UOp:
    return (x.hi >> 20) & 0x7FF


def parts_of(x: Pair) -> Parts:
    """The number taken apart, a denormal's mantissa moved up."""
    field, fraction = _field(x), Pair(x.lo, x.hi & 0xFFFFF)
    room = 53 - pair_bit_length(fraction)
    moved = shift_left(fraction, by(room))
    normal = field.ne(0)
    mantissa = select(normal, Pair(x.lo, fraction.hi | 0x100000), moved)
    exponent = normal.where(field.cast(I32), 1 - room.cast(I32))
    return Parts(is_negative(x), exponent, mantissa)


def rounded(exponent: UOp, mantissa: Pair) -> Pair:
    """The bits of a size of 56 bits, of which 53 are kept; of 0, of an infinity."""
    low = exponent < 1
    places = low.where(1 - exponent, exponent.const_like(0))
    mantissa = shift_right_odd(mantissa, by(places))
    up = (mantissa.lo & 7) + ((mantissa.lo >> 3) & 1) > 4
    kept = pair_math.add(shift_right(mantissa, by(3), False), Pair(bit(up), word(0)))
    # The first bit of the mantissa counts as one of the exponent, and so does a carry.
    base = low.where(exponent.const_like(0), exponent - 1).cast(U32)
    found = Pair(kept.lo, kept.hi + (base << 20))
    beyond = (exponent > 2046) | (found.hi >= INFINITE)
    return select(is_nonzero(mantissa), select(beyond, INFINITY, found), ZERO)


def add(x: Pair, y: Pair) -> Pair:
    """The sum."""
    swap = pair_math.less(size_of(x), size_of(y), False)
    large, small = select(swap, y, x), select(swap, x, y)
    exponent, wide = _aligned(large)
    other_exponent, narrow = _aligned(small)
    narrow = shift_right_odd(narrow, by(exponent - other_exponent))
    alike = is_negative(x).ne(is_negative(y)).logical_not()
    total = select(alike, pair_math.add(wide, narrow), pair_math.subtract(wide, narrow))
    length = pair_bit_length(total).cast(I32)
    room = (length < 56).where(56 - length, length.const_like(0))
    over = length > 56
    total = select(over, shift_right_odd(total, by(1)), shift_left(total, by(room)))
    size = rounded(exponent - room + over.cast(I32), total)
    negative = is_nonzero(size).where(is_negative(large), is_negative(x) & is_negative(y))
    found = select(is_infinite(large), large, with_sign(negative, size))
    unknown = is_nan(x) | is_nan(y) | (is_infinite(small) & alike.logical_not())
    return select(unknown, NAN, found)


def _aligned(x: Pair) -> tuple[UOp, Pair]:
    """(exponent, mantissa of 56 bits); a denormal is left where it is."""
    field = _field(x)
    normal = field.ne(0)
    fraction = Pair(x.lo, (x.hi & 0xFFFFF) | (bit(normal) << 20))
    return normal.where(field, word(1)).cast(I32), shift_left(fraction, by(3))


def negate(x: Pair) -> Pair:
    """The number with the other sign."""
    return Pair(x.lo, x.hi ^ TOP)


def subtract(x: Pair, y: Pair) -> Pair:
    """The difference."""
    return add(x, negate(y))


def multiply(x: Pair, y: Pair) -> Pair:
    """The product."""
    a, b = parts_of(x), parts_of(y)
    product = _upper_product(shift_left(a.mantissa, by(11)), shift_left(b.mantissa, by(11)))
    size = _from_64(a.exponent + b.exponent - BIAS, product)
    endless = is_infinite(x) | is_infinite(y)
    nothing = is_nonzero(size_of(x)).logical_not() | is_nonzero(size_of(y)).logical_not()
    found = with_sign(a.negative.ne(b.negative), select(endless, INFINITY, size))
    return select(is_nan(x) | is_nan(y) | (endless & nothing), NAN, found)


def _from_64(exponent: UOp, x: Pair) -> Pair:
    """The bits of a size of 63 or 64 bits; the exponent is one more for 64."""
    top = is_negative(x)
    mantissa = select(top, shift_right_odd(x, by(8)), shift_right_odd(x, by(7)))
    return rounded(exponent + top.cast(I32), mantissa)


def _upper_product(x: Pair, y: Pair) -> Pair:
    """The upper half of a product of 128 bits; its last bit is set if any lower one is."""
    lowest, highest = multiply_words(x.lo, y.lo), multiply_words(x.hi, y.hi)
    one = pair_math.add(multiply_words(x.lo, y.hi), Pair(lowest.hi, word(0)))
    other = pair_math.add(multiply_words(x.hi, y.lo), Pair(one.lo, word(0)))
    upper = pair_math.add(highest, Pair(one.hi, word(0)))
    upper = pair_math.add(upper, Pair(other.hi, word(0)))
    return Pair(upper.lo | bit((other.lo | lowest.lo).ne(0)), upper.hi)


def divide(x: Pair, y: Pair) -> Pair:
    """The quotient."""
    a, b = parts_of(x), parts_of(y)
    divisor = shift_left(b.mantissa, by(11))
    first, rest = _quotient_word(shift_left(a.mantissa, by(10)), divisor)
    second, rest = _quotient_word(rest, divisor)
    quotient = Pair(second | bit(is_nonzero(rest)), first)
    size = _from_64(a.exponent - b.exponent + BIAS - 1, quotient)
    x_zero, y_zero = (is_nonzero(size_of(v)).logical_not() for v in (x, y))
    x_infinite, y_infinite = is_infinite(x), is_infinite(y)
    size = select(x_zero | y_infinite, ZERO, select(y_zero | x_infinite, INFINITY, size))
    found = with_sign(a.negative.ne(b.negative), size)
    unknown = is_nan(x) | is_nan(y) | (x_zero & y_zero) | (x_infinite & y_infinite)
    return select(unknown, NAN, found)


def _quotient_word(x: Pair, y: Pair) -> tuple[UOp, Pair]:
    """(word, rest) of x * 2**32 / y, where x < y and the top bit of y is set."""
    found = (x.hi < y.hi).where(divide_by_word(x, y.hi), word(MASK))
    # The estimate is at most 2 too large; the rest has three words, the last one with its sign.
    lower, upper = multiply_words(found, y.lo), multiply_words(found, y.hi)
    taken = pair_math.add(upper, Pair(lower.hi, word(0)))
    lowest = lower.lo * MASK  # that is, its negative
    rest = pair_math.subtract(x, taken)
    rest = pair_math.subtract(rest, Pair(bit(lower.lo.ne(0)), word(0)))
    for _ in range(2):
        below = is_negative(rest)
        back = select(below, y, ZERO)
        total = pair_math.add(Pair(lowest, rest.lo), back)
        carry = pair_math.less(total, back, False)
        lowest, rest = total.lo, Pair(total.hi, rest.hi + bit(carry))
        found = found - bit(below)
    return found, Pair(lowest, rest.lo)


def square_root(x: Pair) -> Pair:
    """The square root, a bit at a time: 56 bits of it, and whether anything is left."""
    a = parts_of(x)
    odd = ((a.exponent + 1) & 1).ne(0)  # of the exponent without its bias
    number = select(odd, shift_left(a.mantissa, by(1)), a.mantissa)
    root, rest = ZERO, ZERO
    for i in range(56):
        rest = shift_left(rest, by(2))
        if i < 27:
            digit = shift_right(number, by(52 - 2 * i), False).lo & 3
            rest = Pair(rest.lo | digit, rest.hi)
        trial = shift_left(root, by(2))
        trial = Pair(trial.lo | 1, trial.hi)
        fits = pair_math.less(rest, trial, False).logical_not()
        rest = select(fits, pair_math.subtract(rest, trial), rest)
        root = shift_left(root, by(1))
        root = Pair(root.lo | bit(fits), root.hi)
    exponent = ((a.exponent - BIAS - odd.cast(I32)) >> 1) + BIAS
    size = rounded(exponent, Pair(root.lo | bit(is_nonzero(rest)), root.hi))
    nothing = is_nonzero(size_of(x)).logical_not()
    found = select(nothing | equal(x, INFINITY), x, size)
    return select(is_nan(x) | (a.negative & nothing.logical_not()), NAN, found)


def truncate(x: Pair) -> Pair:
    """The number without its fraction."""
    exponent = _field(x).cast(I32) - BIAS
    places = by((exponent < 52).where(52 - exponent, exponent.const_like(0)))
    cut = shift_left(shift_right(x, places, False), places)
    small = Pair(word(0), x.hi & TOP)
    return select(exponent < 0, small, cut)


# *** comparison


def less(x: Pair, y: Pair) -> UOp:
    """Whether x < y; never of NaN, and zeros are equal."""
    a, b = is_negative(x), is_negative(y)
    nonzero = is_nonzero(size_of(x)) | is_nonzero(size_of(y))
    within = a.where(pair_math.less(y, x, False), pair_math.less(x, y, False))
    return a.ne(b).where(a & nonzero, within) & (is_nan(x) | is_nan(y)).logical_not()


def not_equal(x: Pair, y: Pair) -> UOp:
    """Whether they differ: NaN from everything."""
    nonzero = is_nonzero(size_of(x)) | is_nonzero(size_of(y))
    return is_nan(x) | is_nan(y) | (pair_math.not_equal(x, y) & nonzero)


def maximum(x: Pair, y: Pair) -> Pair:
    """The larger one; NaN if one of them is."""
    larger = select(less(x, y), y, x)
    return select(is_nan(x), x, select(is_nan(y), y, larger))

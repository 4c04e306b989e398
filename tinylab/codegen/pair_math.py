"""Arithmetic of 64-bit integers as pairs of 32-bit words.

(a, b) + (c, d)  ->  lo = a + c;  hi = b + d + (lo < a)

Words are uint32 values of any lane shape; the sign of a signed pair is the top bit of its high
word. Division by zero gives 0, and the smallest integer divided by -1 is itself, as everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

I32, U32, F32 = dtypes.int32, dtypes.uint32, dtypes.float32
MASK, HALF_MASK, TOP = 0xFFFFFFFF, 0xFFFF, 0x80000000


class Pair(NamedTuple):
    """The words of a 64-bit integer: what is below 2**32, and the rest."""

    lo: UOp
    hi: UOp


def word(value: int) -> UOp:
    """A constant word."""
    return UOp.const(value & MASK, U32)


def constant(value: int) -> Pair:
    """The words of a constant, in two's complement."""
    return Pair(word(value), word(value >> 32))


def known(x: Pair) -> int | None:
    """The value of a constant pair, unsigned; None for any other."""
    if x.lo.op is Ops.CONST and x.hi.op is Ops.CONST:
        return int(x.lo.arg) | int(x.hi.arg) << 32
    return None


ZERO = constant(0)


def extended(x: UOp) -> Pair:
    """The 64 bits of an integer of another type, or of a truth value."""
    if x.dtype is dtypes.bool or (x.dtype in dtypes.uints and x.dtype.itemsize <= 4):
        return Pair(x.cast(U32), word(0))
    if x.dtype.itemsize == 8:
        return Pair(x.cast(U32), (x >> 32).cast(U32))
    narrow = x.cast(I32)
    return Pair(narrow.cast(U32), (narrow >> 31).cast(U32))


def bit(flag: UOp) -> UOp:
    """A flag as the word 0 or 1."""
    return flag.cast(U32)


def select(flag: UOp, x: Pair, y: Pair) -> Pair:
    """The words of one of two pairs."""
    return Pair(flag.where(x.lo, y.lo), flag.where(x.hi, y.hi))


def bitwise(op: Ops, x: Pair, y: Pair) -> Pair:
    """AND, OR or XOR, word by word."""
    return Pair(x.lo.alu(op, y.lo), x.hi.alu(op, y.hi))


def add(x: Pair, y: Pair) -> Pair:
    """The sum, which wraps."""
    lo = x.lo + y.lo
    return Pair(lo, x.hi + y.hi + bit(lo < x.lo))


def subtract(x: Pair, y: Pair) -> Pair:
    """The difference, which wraps."""
    return Pair(x.lo - y.lo, x.hi - y.hi - bit(x.lo < y.lo))


def negate(x: Pair) -> Pair:
    """The number with the other sign; the smallest one is itself."""
    return subtract(ZERO, x)


def is_negative(x: Pair) -> UOp:
    """Whether the sign bit is set."""
    return x.hi.cast(I32) < 0


def magnitude(x: Pair) -> Pair:
    """The size of a signed number, as an unsigned one."""
    return select(is_negative(x), negate(x), x)


def with_sign(negative: UOp, x: Pair) -> Pair:
    """A size with a sign."""
    return select(negative, negate(x), x)


# *** comparison


def not_equal(x: Pair, y: Pair) -> UOp:
    """Whether two pairs differ."""
    return x.lo.ne(y.lo) | x.hi.ne(y.hi)


def equal(x: Pair, y: Pair) -> UOp:
    """Whether two pairs are the same."""
    return not_equal(x, y).logical_not()


def less(x: Pair, y: Pair, signed: bool) -> UOp:
    """Whether x < y: by the high words, and by the low ones where those are equal."""
    above = x.hi.cast(I32) < y.hi.cast(I32) if signed else x.hi < y.hi
    return x.hi.ne(y.hi).where(above, x.lo < y.lo)


def is_nonzero(x: Pair) -> UOp:
    """Whether any bit is set."""
    return (x.lo | x.hi).ne(0)


# *** multiplication


def multiply_words(x: UOp, y: UOp) -> Pair:
    """The whole product of two words, from the four products of their halves."""
    x0, x1, y0, y1 = x & HALF_MASK, x >> 16, y & HALF_MASK, y >> 16
    lowest = x0 * y0
    # None of these sums reaches 2**32: (2**16 - 1)**2 + 2**16 - 1 is below it.
    one = x1 * y0 + (lowest >> 16)
    other = x0 * y1 + (one & HALF_MASK)
    return Pair((other << 16) | (lowest & HALF_MASK), x1 * y1 + (one >> 16) + (other >> 16))


def multiply(x: Pair, y: Pair) -> Pair:
    """The product, which wraps; signs need no care."""
    lo, hi = multiply_words(x.lo, y.lo)
    return Pair(lo, hi + x.lo * y.hi + x.hi * y.lo)


# *** shifts


def shift_left(x: Pair, by: Pair) -> Pair:
    """The bits moved up; a shift of 64 or more gives 0."""
    amount = known(by)
    if amount is not None:
        return _left_by(x, amount)
    n = by.lo & 31
    lo = x.lo << n
    hi = (x.hi << n) | _top_bits(x.lo, n)
    far = (by.lo & 32).ne(0)
    return _within(by, Pair(far.where(word(0), lo), far.where(lo, hi)))


def _left_by(x: Pair, n: int) -> Pair:
    if n >= 32:
        return Pair(word(0), x.lo << (n - 32)) if n < 64 else ZERO
    return Pair(x.lo << n, (x.hi << n) | (x.lo >> (32 - n))) if n else x


def shift_right(x: Pair, by: Pair, signed: bool) -> Pair:
    """The bits moved down, the sign repeated; a shift of 64 or more gives 0."""
    amount = known(by)
    if amount is not None:
        return _right_by(x, amount, signed)
    n = by.lo & 31
    hi = _word_right(x.hi, n, signed)
    lo = (x.lo >> n) | ((x.hi << 1) << (n ^ 31))
    far = (by.lo & 32).ne(0)
    return _within(by, Pair(far.where(hi, lo), far.where(_fill(x, signed), hi)))


def _right_by(x: Pair, n: int, signed: bool) -> Pair:
    if n >= 64:
        return ZERO
    if n >= 32:
        return Pair(_word_right(x.hi, word(n - 32), signed), _fill(x, signed))
    if n == 0:
        return x
    return Pair((x.lo >> n) | (x.hi << (32 - n)), _word_right(x.hi, word(n), signed))


def _fill(x: Pair, signed: bool) -> UOp:
    """The sign in every bit of a word."""
    return _word_right(x.hi, word(31), True) if signed else word(0)


def shift_right_odd(x: Pair, by: Pair) -> Pair:
    """The bits moved down; the last one is set if any set bit was moved out."""
    moved = shift_right(x, by, False)
    amount = known(by)
    if amount is not None and amount < 32:
        lost = (x.lo & ((1 << amount) - 1)).ne(0)
    else:
        lost = not_equal(shift_left(moved, by), x)
    return Pair(moved.lo | bit(lost), moved.hi)


def _top_bits(x: UOp, n: UOp) -> UOp:
    """What a shift by n < 32 pushes out of a word; none for n = 0."""
    return (x >> 1) >> (n ^ 31)


def _word_right(x: UOp, n: UOp, signed: bool) -> UOp:
    return (x.cast(I32) >> n.cast(I32)).cast(U32) if signed else x >> n


def _within(by: Pair, shifted: Pair) -> Pair:
    inside = by.hi.ne(0).logical_not() & (by.lo < 64)
    return select(inside, shifted, ZERO)


# *** division


def bit_length(x: UOp) -> UOp:
    """How many bits a word needs, 0 for 0: float32 has counted them."""
    # Without the bit below the top one the conversion never rounds up to the next power.
    rounded_down = x & ((x >> 1) ^ MASK)
    exponent = rounded_down.cast(F32).bitcast(U32) >> 23
    return x.ne(0).where(exponent - 126, word(0))


def pair_bit_length(x: Pair) -> UOp:
    """How many bits a pair needs."""
    return x.hi.ne(0).where(bit_length(x.hi) + 32, bit_length(x.lo))


def divide(x: Pair, y: Pair, signed: bool) -> Pair:
    """The quotient, rounded to zero; 0 for y = 0."""
    if not signed:
        return _divide(x, y)
    quotient = _divide(magnitude(x), magnitude(y))
    return with_sign(is_negative(x).ne(is_negative(y)), quotient)


def remainder(x: Pair, y: Pair, signed: bool) -> Pair:
    """What is left of x, with its sign; 0 for y = 0."""
    if not signed:
        return _remainder(x, y)
    return with_sign(is_negative(x), _remainder(magnitude(x), magnitude(y)))


def _remainder(x: Pair, y: Pair) -> Pair:
    rest = subtract(x, multiply(_divide(x, y), y))
    return select(is_nonzero(y), rest, ZERO)


def _divide(x: Pair, y: Pair) -> Pair:
    """The quotient of unsigned pairs by one division of a pair by a word.

    A divisor of one word: that division is the second step of a long one, after the high word. A
    larger one is cut to its upper 32 bits: the estimate is right or one too large.
    Source: Warren, "Hacker's Delight", 2nd ed., 9-5.
    """
    narrow = y.hi.ne(0).logical_not()
    first = x.hi.alu(Ops.CDIV, y.lo)
    rest = x.hi - first * y.lo
    room = 32 - bit_length(y.hi)
    upper = shift_left(y, Pair(room, word(0))).hi
    half = Pair((x.lo >> 1) | (x.hi << 31), x.hi >> 1)
    top = Pair(narrow.where(x.lo, half.lo), narrow.where(rest, half.hi))
    found = divide_by_word(top, narrow.where(y.lo, upper))
    # found * 2**room // 2**31 of a pair is a word: the quotient is below 2**32.
    estimate = shift_right(shift_left(Pair(found, word(0)), Pair(room, word(0))), _31, False).lo
    low = estimate.ne(0).where(estimate - 1, estimate)
    left = subtract(x, multiply(Pair(low, word(0)), y))
    wide = low + bit(less(left, y, False).logical_not())
    quotient = Pair(narrow.where(found, wide), narrow.where(first, word(0)))
    return select(is_nonzero(y), quotient, ZERO)


_31 = constant(31)


def divide_by_word(x: Pair, y: UOp) -> UOp:
    """The quotient of a pair by a word that is larger than the pair's high word.

    Two digits of 16 bits, each estimated with the upper half of the divisor, whose top bit is set.
    Source: Knuth, "The Art of Computer Programming", vol. 2, 4.3.1, algorithm D.
    """
    room = (32 - bit_length(y)) & 31
    y = y << room
    y1, y0 = y >> 16, y & HALF_MASK
    upper, lower = shift_left(x, Pair(room, word(0))).hi, x.lo << room
    first = _digit(upper, lower >> 16, y1, y0)
    rest = (upper << 16) + (lower >> 16) - first * y
    second = _digit(rest, lower & HALF_MASK, y1, y0)
    return (first << 16) + second


def _digit(upper: UOp, next_digit: UOp, y1: UOp, y0: UOp) -> UOp:
    """One digit of a quotient: the estimate is at most 2 too large."""
    digit = upper.alu(Ops.CDIV, y1)
    rest = upper - digit * y1
    for _ in range(2):
        beyond = (digit > HALF_MASK) | ((rest << 16) + next_digit < digit * y0)
        beyond = beyond & (rest <= HALF_MASK)
        digit, rest = digit - bit(beyond), rest + beyond.where(y1, word(0))
    return digit

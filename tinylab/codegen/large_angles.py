"""Angles of any size less whole quarter turns, in integers: the reduction of Payne and Hanek.

An angle m * 2**k times 2/pi: only the bits of 2/pi from weight 2**1 / 2**k on can change the
quarter or the fraction, so a window of them is taken and multiplied by m, modulo four turns.
The window has bits enough for the angle of its type that is nearest to a whole quarter: there the
first bits of the fraction (61 for a double, 29 for a float) are all equal.

Source: Payne, Hanek, "Radian reduction for trigonometric functions", 1983.
"""

from __future__ import annotations

import functools
import math

from tinylab.dtype import dtypes
from tinylab.uop.ops import UOp

_PADDING = 64  # zero bits before the first of 2/pi, for small exponents


@functools.cache
def two_over_pi(words: int) -> tuple[int, ...]:
    """The first bits of 2/pi in words of 64, after the padding."""
    precision = 64 * words + 64
    one = 1 << precision

    def arctan_of_inverse(n: int) -> int:
        power, total, k = one // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    # Machin, 1706: pi/4 = 4 arctan(1/5) - arctan(1/239).
    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    fraction = (2 << (2 * precision)) // pi >> _PADDING  # of 2**precision, shifted by the padding
    mask = (1 << 64) - 1
    return tuple(fraction >> (precision - 64 * (i + 1)) & mask for i in range(words))


def reduce_large(x: UOp, mantissa: int, bias: int) -> tuple[UOp, UOp]:
    """(quarter turns, the rest as double within pi/4 of 0) of an angle >= 2**19."""
    u64 = dtypes.uint64
    narrow = mantissa == 23
    raw = x.bitcast(dtypes.uint32 if narrow else u64).cast(u64)
    m = (raw & ((1 << mantissa) - 1)) | UOp.const(1 << mantissa, u64)
    # Where the window starts; of infinities and NaN anything will do. Small angles are not used.
    start = (raw >> mantissa) + (_PADDING - 2)
    start = (start < bias + mantissa + 2).where(start.const_like(0), start - (bias + mantissa))
    window = _window(start, 2 if narrow else 3, bias + 1 - mantissa + _PADDING)
    high, low = _narrow_product(m, window) if narrow else _wide_product(m, window)
    # Two bits of quarters, the others of the fraction; read as signed it is nearest, not below.
    quarter = ((high >> 62) + ((high >> 61) & 1)).cast(dtypes.int32)
    if low is None:
        return quarter, _as_float(high << 2) * (math.pi / 2 * 2.0**-64)
    rest = _as_float((high << 2) | (low >> 62)) + _as_float((low << 2) >> 1) * 2.0**-63
    return quarter, rest * (math.pi / 2 * 2.0**-64)


def _as_float(x: UOp) -> UOp:
    return x.bitcast(dtypes.int64).cast(dtypes.float64)


def _window(start: UOp, count: int, most: int) -> list[UOp]:
    """`count` words of 2/pi beginning at a bit: chosen by the position's bits, then shifted."""
    places = most // 64 + 1
    words: list[UOp] = [UOp.const(w, dtypes.uint64) for w in two_over_pi(places + count)]
    index, step = start >> 6, 1 << (places - 1).bit_length() >> 1
    while step:
        later = (index & step).ne(0)
        kept = min(len(words), count + step)
        words = [
            later.where(words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(kept)
        ]
        step >>= 1
    shift = start & 63
    # In two steps: 64 - shift may be the width.
    return [(words[i] << shift) | (words[i + 1] >> 1 >> (63 - shift)) for i in range(count)]


def _narrow_product(m: UOp, window: list[UOp]) -> tuple[UOp, None]:
    """64 bits of m, a float's, times a window of 96, modulo its width."""
    return m * window[0] + ((m * (window[1] >> 32)) >> 32), None


def _wide_product(m: UOp, window: list[UOp]) -> tuple[UOp, UOp]:
    """128 bits, high and low, of m, a double's, times a window of 192, modulo its width."""
    product = m * window[1]
    low = product + _upper_product(m, window[2])
    carry = (low < product).cast(dtypes.uint64)
    return m * window[0] + _upper_product(m, window[1]) + carry, low


def _upper_product(x: UOp, y: UOp) -> UOp:
    """The upper 64 bits of a product, from those of halves; no sum here overflows."""
    mask = 0xFFFFFFFF
    x0, x1, y0, y1 = x & mask, x >> 32, y & mask, y >> 32
    middle = x1 * y0 + ((x0 * y0) >> 32)
    return x1 * y1 + (middle >> 32) + ((x0 * y1 + (middle & mask)) >> 32)

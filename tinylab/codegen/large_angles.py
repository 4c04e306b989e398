"""Angles of any size less whole quarter turns, in integers: the reduction of Payne and Hanek.

An angle m * 2**k times 2/pi: only the bits of 2/pi from weight 2**1 / 2**k on can change the
quarter or the fraction, so a window of them is taken and multiplied by m, modulo four turns.

Source: Payne, Hanek, "Radian reduction for trigonometric functions", 1983.
"""

from __future__ import annotations

import functools
import itertools
import math

from tinylab.dtype import dtypes
from tinylab.uop.ops import UOp

_PADDING = 64  # zero bits before the first of 2/pi, for small exponents


@functools.cache
def two_over_pi(words: int) -> tuple[int, ...]:
    """The first bits of 2/pi in words of 32, after the padding."""
    precision = 32 * words + 64
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
    return tuple(fraction >> (precision - 32 * (i + 1)) & 0xFFFFFFFF for i in range(words))


def reduce_large(x: UOp, mantissa: int, bias: int) -> tuple[UOp, UOp]:
    """(quarter turns, the rest as double within pi/4 of 0) of an angle >= 2**19."""
    u64 = dtypes.uint64
    narrow = mantissa == 23
    raw = x.bitcast(dtypes.uint32 if narrow else u64).cast(u64)
    m = (raw & ((1 << mantissa) - 1)) | UOp.const(1 << mantissa, u64)
    # Where the window starts; of infinities and NaN anything will do. Small angles are not used.
    start = (raw >> mantissa) + (_PADDING - 2)
    start = (start < bias + mantissa + 2).where(start.const_like(0), start - (bias + mantissa))
    most = bias + 1 - mantissa + _PADDING
    window = _window(start, 3 if narrow else 4, most)
    product = _product_of(m, window, narrow)
    # Two bits of quarters, 62 of the fraction; read as signed it is nearest, not rounded down.
    signed = (product << 2).bitcast(dtypes.int64)
    quarter = ((product >> 62) + ((product >> 61) & 1)).cast(dtypes.int32)
    return quarter, signed.cast(dtypes.float64) * (math.pi / 2 * 2.0**-64)


def _window(start: UOp, count: int, most: int) -> list[UOp]:
    """`count` words of 2/pi beginning at a bit: chosen by the position's bits, then shifted."""
    u64 = dtypes.uint64
    places = most // 32 + 1
    words: list[UOp] = [UOp.const(w, u64) for w in two_over_pi(places + count + 1)]
    step = 1 << (places - 1).bit_length() >> 1
    index = start >> 5
    while step:
        chosen = (index & step).ne(0)
        kept = len(words) - step if len(words) - step > count else count + 1
        words = [
            chosen.where(words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(len(words), max(kept, count + step)))
        ]
        step >>= 1
    shift = start & 31
    pairs = [(a << 32) | b for a, b in itertools.pairwise(words)]
    return [((p << shift) >> 32) for p in pairs[:count]]


def _product_of(m: UOp, window: list[UOp], narrow: bool) -> UOp:
    """The upper 64 bits of m times the window, modulo the window's width."""
    if narrow:
        w0, w1, w2 = window
        return ((m * w0) << 32) + m * w1 + ((m * w2) >> 32)
    w0, w1, w2, w3 = window
    low, high = m & 0xFFFFFFFF, m >> 32
    return (
        ((low * w0 + high * w1) << 32)
        + low * w1
        + high * w2
        + ((low * w2) >> 32)
        + ((high * w3) >> 32)
    )

"""Whole quotients of floats and what is left, without the rounding of the quotient.

6.0 / 0.1 rounds to 60, but 0.1 fits only 59 times into 6: 59 and 0.0999…, as C's fmod has it. Exact
for quotients that the type holds as integers (2**24 in float32).

Source: Dekker, "A floating-point technique for extending the available precision", 1971.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tinylab.dtype import DType, dtypes

if TYPE_CHECKING:
    from tinylab.mixin.elementwise import ElementwiseMixin

S = TypeVar("S", bound="ElementwiseMixin")

# Of each type: its bits as an integer, and those of the upper half of the significand.
_UPPER_HALF: dict[DType, tuple[DType, int]] = {
    dtypes.float32: (dtypes.uint32, 0xFFFF_F000),
    dtypes.float64: (dtypes.uint64, 0xFFFF_FFFF_F800_0000),
}


class Quotient(NamedTuple):
    """|a| = count * |b| + rest, 0 <= rest < |b|; in a type of at least 32 bits."""

    count: Any
    rest: Any


def whole_quotient(a: S, b: S) -> Quotient:
    """How often |b| fits into |a|, and what is left; the gradient flows through what is left."""
    if a.dtype.itemsize < 4:
        a, b = a.cast(dtypes.float32), b.cast(dtypes.float32)
    x, y = a.abs(), b.abs()
    count = (x / y).trunc().detach()
    rest = _less_product(x, count, y)
    # The quotient may have been rounded up to the next whole number.
    count = (rest < 0).where(count - 1, count).detach()
    return Quotient(count, _less_product(x, count, y))


def _less_product(x: S, count: S, y: S) -> S:
    """x - count * y, rounded once: the product's own rounding error is taken off too."""
    product = count * y
    if x.dtype not in _UPPER_HALF:
        return x - product
    (c1, c2), (y1, y2) = _halves(count), _halves(y)
    error = ((c1 * y1 - product.detach()) + c1 * y2 + c2 * y1) + c2 * y2
    return (x - product) - error


def _halves(x: S) -> tuple[S, S]:
    """Two numbers whose sum is x, with half as many bits each, so that products are exact."""
    x = x.detach()
    bits, mask = _UPPER_HALF[x.dtype]
    upper = x.bitcast(bits).bitwise_and(mask).bitcast(x.dtype)
    return upper, x - upper


def remainder(a: S, b: S) -> S:
    """What is left of a, with a's sign: C's fmod."""
    found = whole_quotient(a, b).rest.cast(a.dtype)
    signed: S = (a < 0).where(-found, found)
    # A finite number leaves itself when divided by an infinity (not inf - 0 * inf).
    return (b.isinf() & a.isfinite()).where(a, signed)


def floor_quotient(a: S, b: S) -> S:
    """The largest whole number of times that b fits into a; by 0 what a / b is."""
    count, rest = whole_quotient(a, b)
    left = b.isinf().where(a.ne(0), rest.ne(0))
    down = (count + left.where(1, 0)).neg()
    found: S = (a < 0).ne(b < 0).where(down, count).cast(a.dtype)
    found = (b.isinf() & a.isfinite()).where(((a < 0).ne(b < 0) & a.ne(0)).where(-1, 0), found)
    # inf // 3 has no remainder to take off, so it is no number.
    found = a.isinf().where(math.nan, found)
    return b.eq(0).where(a / b, found)

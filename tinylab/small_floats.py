"""How the bits of floats are laid out; numbers rounded to a layout, packed and unpacked.

1.3 in e4m3 -> 1.25 -> 0b0_0111_010
"""

from __future__ import annotations

import math
from typing import NamedTuple


class FloatLayout(NamedTuple):
    """The bits of a float: sign, exponent, mantissa. `special` says what is no finite number.

    "ieee": infinities and NaN under the last exponent. "fn": no infinity, NaN where all bits are
    set. "fnuz": no infinity and no -0.0, whose bits are the only NaN; the bias is one more.
    """

    exponent: int
    mantissa: int
    special: str = "ieee"

    @property
    def bias(self) -> int:
        """What the exponent field of 1.0 holds."""
        return (1 << (self.exponent - 1)) - (self.special != "fnuz")

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def top(self) -> int:
        """The code beyond the one of the largest number."""
        all_set = self.sign - 1
        if self.special == "ieee":
            return all_set - ((1 << self.mantissa) - 1)
        return all_set if self.special == "fn" else self.sign

    @property
    def nan(self) -> int:
        """A code of NaN."""
        return self.sign if self.special == "fnuz" else self.sign - 1

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return self.unpack(self.top - 1)

    @property
    def overflow(self) -> int:
        """The code of what is too large: infinity; the largest number ("fn"); NaN ("fnuz").

        The standard of "fn" leaves the choice between its largest number and NaN; PyTorch (2.13)
        and tinygrad take the largest number, for infinities too.
        """
        return self.top - (self.special == "fn")

    @property
    def beyond(self) -> float:
        """What a number that is too large becomes."""
        return self.unpack(self.overflow)

    def holds(self, other: FloatLayout) -> bool:
        """Whether each value of another layout is one of this."""
        return (
            other.mantissa <= self.mantissa
            and other.largest <= self.largest
            and other.bias + other.mantissa <= self.bias + self.mantissa
            and (other.special != "ieee" or self.special == "ieee")
            and (other.special == "fnuz" or self.special != "fnuz")
        )

    def round(self, value: float) -> float:
        """The nearest value, ties to even; `beyond` where it is too large."""
        if math.isnan(value):
            return value
        if abs(value) >= 2 * self.largest:  # of which the largest double itself would round up
            return math.copysign(self.beyond, value)
        rounded = 0.0
        if value:
            scale = max(math.frexp(value)[1] - 1, 1 - self.bias) - self.mantissa
            rounded = math.ldexp(round(math.ldexp(value, -scale)), scale)
        if abs(rounded) > self.largest:
            return math.copysign(self.beyond, value)
        if not rounded and self.special == "fnuz":
            return 0.0
        return math.copysign(rounded, value)

    def pack(self, value: float) -> int:
        """The bits of a value that is rounded already."""
        sign = self.sign if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return sign | self.nan
        if math.isinf(value):
            return sign | self.top
        if value == 0:
            return 0 if self.special == "fnuz" else sign
        e = max(math.frexp(value)[1] - 1, 1 - self.bias)
        significand = int(math.ldexp(abs(value), self.mantissa - e))
        return sign | (((e + self.bias - 1) << self.mantissa) + significand)

    def unpack(self, bits: int) -> float:
        """The value of bits."""
        size = bits & (self.sign - 1)
        if size >= self.top or (self.special == "fnuz" and bits == self.nan):
            infinite = self.special == "ieee" and size == self.top
            return (-math.inf if bits & self.sign else math.inf) if infinite else math.nan
        e, m = size >> self.mantissa, size & ((1 << self.mantissa) - 1)
        significand = m if e == 0 else m | (1 << self.mantissa)
        value = math.ldexp(significand, max(e, 1) - self.bias - self.mantissa)
        return -value if bits & self.sign else value

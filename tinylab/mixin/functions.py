"""Exponentials, logarithms, roots and angles, from EXP2, LOG2, SIN, COS, SQRT and RECIPROCAL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinylab.dtype import ConstType, dtypes
from tinylab.mixin.approximations import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cosh,
    erf,
    sinh,
    small_log1p,
    tanh,
)
from tinylab.mixin.elementwise import ElementwiseMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self


class FunctionsMixin(ElementwiseMixin):
    """Functions of one number; integers are taken as floats, small floats in float32."""

    __slots__ = ()

    def _in_float32(self, function: Callable[[Self], Self]) -> Self:
        """The function in float32 where the type is narrower, rounded once at the end."""
        x = self._as_float()
        if x.dtype.itemsize >= 4:
            return function(x)
        return function(x.cast(dtypes.float32)).cast(x.dtype)

    def exp2(self) -> Self:
        """2 ** self."""
        return self._in_float32(lambda x: x.alu(Ops.EXP2))

    def exp(self) -> Self:
        """e ** self."""
        return self._in_float32(lambda x: x.mul(1 / math.log(2)).alu(Ops.EXP2))

    def log2(self) -> Self:
        """The logarithm to base 2; -inf at 0, NaN below."""
        return self._in_float32(lambda x: x.alu(Ops.LOG2))

    def log(self) -> Self:
        """The natural logarithm; -inf at 0, NaN below."""
        return self._in_float32(lambda x: x.alu(Ops.LOG2).mul(math.log(2)))

    def log10(self) -> Self:
        """The logarithm to base 10; -inf at 0, NaN below."""
        return self._in_float32(lambda x: x.alu(Ops.LOG2).mul(math.log10(2)))

    def logaddexp(self, other: Self | ConstType) -> Self:
        """log(exp(self) + exp(other)), without overflow."""
        a, b = self._operands(other, False, "logaddexp", True)
        below = a < b
        # Between equal infinities the gap would be NaN; elsewhere both sides get their gradient.
        gap = (a.eq(b) & a.isinf()).where(0, below.where(a - b, b - a))
        return below.where(b, a) + gap._in_float32(lambda x: small_log1p(x.exp()))

    def sqrt(self) -> Self:
        """The square root; NaN below 0."""
        return self._in_float32(lambda x: x.alu(Ops.SQRT))

    def rsqrt(self) -> Self:
        """1 / sqrt(self)."""
        return self._in_float32(lambda x: x.alu(Ops.SQRT).alu(Ops.RECIPROCAL))

    def sin(self) -> Self:
        """The sine of an angle in radians."""
        return self._in_float32(lambda x: x.alu(Ops.SIN))

    def cos(self) -> Self:
        """The cosine of an angle in radians."""
        return self._in_float32(lambda x: x.alu(Ops.COS))

    def tan(self) -> Self:
        """The tangent of an angle in radians."""
        return self._in_float32(lambda x: x.sin() / x.cos())

    def asin(self) -> Self:
        """The angle in [-pi/2, pi/2] whose sine is self; NaN beyond 1."""
        return self._in_float32(asin)

    def acos(self) -> Self:
        """The angle in [0, pi] whose cosine is self; NaN beyond 1."""
        return self._in_float32(acos)

    def atan(self) -> Self:
        """The angle in [-pi/2, pi/2] whose tangent is self."""
        return self._in_float32(atan)

    def sinh(self) -> Self:
        """The hyperbolic sine."""
        return self._in_float32(sinh)

    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        return self._in_float32(cosh)

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return self._in_float32(tanh)

    def asinh(self) -> Self:
        """The inverse of the hyperbolic sine."""
        return self._in_float32(asinh)

    def acosh(self) -> Self:
        """The inverse of the hyperbolic cosine; NaN below 1."""
        return self._in_float32(acosh)

    def atanh(self) -> Self:
        """The inverse of the hyperbolic tangent; NaN beyond 1."""
        return self._in_float32(atanh)

    def erf(self) -> Self:
        """The error function.

        Source: in float64 Cody, "Rational Chebyshev Approximations for the Error Function", 1969.
        """
        return self._in_float32(erf)

    def sign(self) -> Self:
        """-1, 0 or 1; NaN stays, and the sign of a zero does not."""
        if self.dtype is dtypes.bool:
            return self
        return (self > 0).where(1, (self < 0).where(-1, self.trunc() + 0)).cast(self.dtype)

    def round(self) -> Self:
        """The nearest integer; halves go to the even one.

        [0.5, 1.5, 2.5] -> [0, 2, 2]
        """
        if self.dtype.kind != "float":
            return self
        whole, half = self.trunc(), self.trunc() * 0.5
        rest = (self - whole).abs()
        away = (rest > 0.5) | (rest.eq(0.5) & half.ne(half.trunc()))
        # From what is cut off toward 0, so that -0.3 is -0.0 as everywhere.
        return away.where(whole + (self < 0).where(-1, 1), whole)

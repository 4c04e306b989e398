"""Exponentials, logarithms, roots and trigonometry, from EXP2, LOG2, SIN, SQRT and RECIPROCAL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.dtype import ConstType, dtypes
from tinylab.mixin.elementwise import ElementwiseMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

# Odd powers of the arctangent on [-1, 1], error below 2e-8.
# Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 4.4.49.
_ATAN = (
    0.0028662257,
    -0.0161657367,
    0.0429096138,
    -0.0752896400,
    0.1065626393,
    -0.1420889944,
    0.1999355085,
    -0.3333314528,
    1.0,
)
# The series of the error function at 0: 2 / sqrt(pi) times (-1)^n / (n! (2n + 1)).
_ERF_SERIES = tuple(
    2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(6, -1, -1)
)
# Source: the same, 7.1.26, error below 1.5e-7.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


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
        a, b = self._operands(other, False, "logaddexp")
        a, b = a._as_float(), b._as_float()
        below = a < b
        # Between equal infinities the gap would be NaN; elsewhere both sides get their gradient.
        gap = (a.eq(b) & a.isinf()).where(0, below.where(a - b, b - a))
        return below.where(b, a) + (gap.exp() + 1).log()

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
        """The cosine of an angle in radians: 1 - 2 sin²(x/2), which rounds no argument."""
        return self._in_float32(lambda x: x.mul(0.5).alu(Ops.SIN).square().mul(-2) + 1)

    def tan(self) -> Self:
        """The tangent of an angle in radians."""
        return self._in_float32(lambda x: x.sin() / x.cos())

    def asin(self) -> Self:
        """The angle in [-pi/2, pi/2] whose sine is self; NaN beyond 1."""
        return self._in_float32(lambda x: _atan_core(x / (((1 - x) * (1 + x)).sqrt() + 1)) * 2)

    def acos(self) -> Self:
        """The angle in [0, pi] whose cosine is self; NaN beyond 1."""
        return self._in_float32(lambda x: math.pi / 2 - x.asin())

    def atan(self) -> Self:
        """The angle in [-pi/2, pi/2] whose tangent is self."""
        return self._in_float32(_atan)

    def sinh(self) -> Self:
        """The hyperbolic sine."""
        return self._in_float32(lambda x: (x.exp() - x.neg().exp()) * 0.5)

    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        return self._in_float32(lambda x: (x.exp() + x.neg().exp()) * 0.5)

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return self._in_float32(_tanh)

    def asinh(self) -> Self:
        """The inverse of the hyperbolic sine."""
        return self._in_float32(_asinh)

    def acosh(self) -> Self:
        """The inverse of the hyperbolic cosine; NaN below 1."""
        return self._in_float32(lambda x: (x + (x.square() - 1).sqrt()).log())

    def atanh(self) -> Self:
        """The inverse of the hyperbolic tangent; NaN beyond 1."""
        return self._in_float32(lambda x: ((1 + x) / (1 - x)).log() * 0.5)

    def erf(self) -> Self:
        """The error function.

        Source: Abramowitz, Stegun, "Handbook of Mathematical Functions", 7.1.26.
        """
        return self._in_float32(_erf)

    def sign(self) -> Self:
        """-1, 0 or 1; NaN stays."""
        if self.dtype is dtypes.bool:
            return self
        zero = self.detach()
        return (self > 0).where(1, (self < 0).where(-1, zero)).cast(self.dtype)

    def round(self) -> Self:
        """The nearest integer; halves go to the even one.

        [0.5, 1.5, 2.5] -> [0, 2, 2]
        """
        if self.dtype.kind != "float":
            return self
        below = self.detach().floor()
        rest = self.detach() - below
        half = below * 0.5
        up = (rest > 0.5) | (rest.eq(0.5) & half.ne(half.floor()))
        return up.where(below + 1, below)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """By Horner's rule, the highest power first.

    x, (1, 2, 3) -> (x + 2) * x + 3
    """
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def _atan_core(t: Any) -> Any:
    return polynomial(t.square(), _ATAN) * t


def _atan(x: Any) -> Any:
    """atan(x) = ±pi/2 - atan(1/x) beyond 1; no branch divides by zero, so gradients stay finite."""
    steep = x.abs() > 1
    core = _atan_core(steep.where(1, x) / steep.where(x, 1))
    quarter = (x > 0).where(math.pi / 2, -math.pi / 2)
    return steep.where(quarter - core, core)


def _tanh(x: Any) -> Any:
    """(1 - z) / (1 + z) with z = exp(-2|x|), which cannot overflow; a series near 0."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    z = (magnitude * -2).exp()
    large = (1 - z) / (1 + z)
    square = x.square()
    series = polynomial(square, (62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1)) * x
    return (magnitude < 0.25).where(series, negative.where(large.neg(), large))


def _asinh(x: Any) -> Any:
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    value = (magnitude + (magnitude.square() + 1).sqrt()).log()
    return negative.where(value.neg(), value)


def _erf(x: Any) -> Any:
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    t = (magnitude * 0.3275911 + 1).reciprocal()
    value = 1 - polynomial(t, _ERF) * t * magnitude.square().neg().exp()
    series = polynomial(x.square(), _ERF_SERIES) * x
    return (magnitude < 0.5).where(series, negative.where(value.neg(), value))

"""Activation functions of neural networks; stable for large arguments, gradients included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinylab.dtype import least_upper_float
from tinylab.errors import OperandError
from tinylab.mixin.approximations import expm1, small_log1p
from tinylab.mixin.functions import FunctionsMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self


class ActivationMixin(FunctionsMixin):
    """Activation functions, elementwise."""

    __slots__ = ()

    def relu(self) -> Self:
        """max(self, 0); NaN stays, and the gradient at 0 is 0."""
        return self._at_least(0) if self.dtype.kind == "float" else self.maximum(0)

    def relu6(self) -> Self:
        """The values held between 0 and 6."""
        return self.hardtanh(0, 6)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """The values held between two numbers; the gradient at the bounds is 0."""
        if self.dtype.kind != "float":
            return self.maximum(min_val).minimum(max_val)
        return self._at_least(min_val).neg()._at_least(-max_val).neg()

    def _at_least(self, bound: float) -> Self:
        """The larger one; at the bound the gradient is 0, and `maximum` would give the half of it.

        What says so is that the bound is detached.
        """
        return self.alu(Ops.MAX, self.const(bound, self.dtype).detach())

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * self + beta, held between 0 and 1."""
        return self._in_float32(lambda x: (x * alpha + beta).hardtanh(0, 1))

    def hardswish(self) -> Self:
        """self * relu6(self + 3) / 6."""
        return self._in_float32(lambda x: x * ((x + 3).relu6() * (1 / 6)))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-self))."""
        return self._in_float32(_sigmoid)

    def silu(self) -> Self:
        """self * sigmoid(self)."""
        return self._in_float32(lambda x: x * _sigmoid(x))

    def swish(self) -> Self:
        """As `silu`."""
        return self.silu()

    def quick_gelu(self) -> Self:
        """self * sigmoid(1.702 self)."""
        return self._in_float32(lambda x: x * _sigmoid(x * 1.702))

    def gelu(self, approximate: str = "tanh") -> Self:
        """self times the normal distribution's cumulative probability at self.

        Raises: OperandError if approximate is neither "tanh" nor "none".
        Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.
        """
        if approximate == "none":
            return self._in_float32(lambda x: x * ((x * (1 / math.sqrt(2))).erf() + 1) * 0.5)
        if approximate != "tanh":
            raise OperandError(f"gelu: {approximate=} is unknown", help='use "tanh" or "none"')
        return self._in_float32(_tanh_gelu)

    def elu(self, alpha: float = 1.0) -> Self:
        """self above 0, alpha * (exp(self) - 1) below."""
        return self._in_float32(lambda x: _elu(x, alpha, 1))

    def celu(self, alpha: float = 1.0) -> Self:
        """self above 0, alpha * (exp(self / alpha) - 1) below.

        Raises: OperandError when alpha is 0.
        """
        if alpha == 0:
            raise OperandError("celu: alpha must not be 0, which it divides by")
        return self._in_float32(lambda x: _elu(x, alpha, 1 / alpha))

    def selu(self, alpha: float = 1.67326, gamma: float = 1.0507) -> Self:
        """gamma times `elu` with this alpha.

        Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
        """
        return self._in_float32(lambda x: _elu(x, alpha, 1) * gamma)

    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """self above 0, neg_slope * self below."""
        return (self > 0).where(self, self * neg_slope)

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta * self)) / beta.

        Raises: OperandError when beta is 0.
        """
        if beta == 0:
            raise OperandError("softplus: beta must not be 0, which it divides by")
        return self._in_float32(lambda x: _softplus(x * beta) * (1 / beta))

    def logsigmoid(self) -> Self:
        """log(sigmoid(self))."""
        return self.cast(least_upper_float(self.dtype)).neg().softplus().neg()

    def softsign(self) -> Self:
        """self / (1 + |self|)."""
        return self / (self.abs() + 1)

    def mish(self) -> Self:
        """self * tanh(softplus(self)).

        Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.
        """
        return self._in_float32(_mish)


def _mish(x: Any) -> Any:
    """Beyond where tanh is 1 or 0 its slope is no longer multiplied by x, which may be anything."""
    bounded = x.clip(-1e4, 1e4)
    return x * _softplus(bounded).tanh()


def _elu(x: Any, alpha: float, slope: float) -> Any:
    """x above 0, alpha * (exp(slope * x) - 1) below, all digits kept near 0."""
    positive = x > 0
    return positive.where(x, expm1(positive.where(0, x) * slope) * alpha)


def _tanh_gelu(x: Any) -> Any:
    """x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x³): that factor is sigmoid(2u)."""
    return x * _sigmoid(x * (x.square() * 0.044715 + 1) * (2 * math.sqrt(2 / math.pi)))


def _sigmoid(x: Any) -> Any:
    """1 / (1 + z) or z / (1 + z) with z = exp(-|x|): neither overflows, nor do the gradients."""
    negative = x < 0
    z = negative.where(x, x.neg()).exp()
    return negative.where(z, 1).alu(Ops.MUL, (z + 1).reciprocal())


def _softplus(x: Any) -> Any:
    negative = x < 0
    z = negative.where(x, x.neg()).exp()
    return negative.where(0, x) + small_log1p(z)

"""Functions as polynomials and quotients of them, in float32 or float64 by the argument's type.

Near a zero of a function a series keeps all digits where differences would lose them. What a
`where` does not choose is computed too, so it gets an argument at which it and its gradient are
finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# atan(x) = x + x z P(z) with z = x², |x| <= 0.4286, error below 4e-11, which keeps its slope right
# too. A minimax fit made by tests/codegen/fit_polynomials.py.
_ATAN = (
    0.04563647810412409, -0.0838626184031559, 0.1102783812735991, -0.14280545189879243,
    0.19999845470187555, -0.3333333159025445,
)  # fmt: skip
# In float64 atan(x) = x + x z P(z) / Q(z), to |x| = 0.66. Source: Moshier, Cephes, atan.c.
_ATAN_P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
_ATAN_Q = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
# The error function in float32: erf(x) = x + x P(x²) to 0.9, error below 2e-8; beyond it
# 1 - exp(t Q(t) - t²) with t = |x|, error below 5e-9. Minimax fits made by
# tests/codegen/fit_polynomials.py.
_ERF_NEAR = (
    -0.000609036015630827, 0.00501196281260043, -0.02677890887306099, 0.11282140809474833,
    -0.37612523275944176, 0.1283791537975214,
)  # fmt: skip
_ERF_FAR = (
    8.416555525088259e-07, -2.9607988189311243e-05, 0.0004556988829950088, -0.004107775395702771,
    0.024652646418398982, -0.10718955084982605, 0.3653831560966261, -1.128770906528582,
)  # fmt: skip
# In float64: erf(x) = x A(x²) / B(x²) to 0.46875, then 1 - exp(-x²) C(x) / D(x).
# Source: Cody, "Rational Chebyshev Approximations for the Error Function", 1969.
_ERF_A = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
    3.20937758913846947e3,
)  # fmt: skip
_ERF_B = (
    1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3,
)  # fmt: skip
_ERF_C = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
    2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
    1.23033935479799725e3,
)  # fmt: skip
_ERF_D = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
    1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3,
    1.23033935480374942e3,
)  # fmt: skip
# Beyond it 1 - erf(x) is less than half a unit in the last place of a double.
_ERF_END = 6.0
# x² is not to overflow, and 1 is nothing beside it.
_LARGE = 1e9


def _tangent_series(count: int) -> tuple[float, ...]:
    """Of tanh(x) / x in x², highest power first: its derivative is 1 - tanh²."""
    found = [1.0]
    for n in range(1, count):
        found.append(-sum(found[i] * found[n - 1 - i] for i in range(n)) / (2 * n + 1))
    return tuple(reversed(found))


# By whether the type has the digits of a double.
_TANH_SERIES = {False: _tangent_series(5), True: _tangent_series(12)}
_SINH_SERIES = {
    wide: tuple(1 / math.factorial(2 * n + 1) for n in range(count - 1, -1, -1))
    for wide, count in ((False, 6), (True, 10))
}
_EXPM1_SERIES = {
    wide: tuple(1 / math.factorial(n) for n in range(count, 0, -1))
    for wide, count in ((False, 7), (True, 13))
}
_ATANH_SERIES = {
    wide: tuple(1 / (2 * n + 1) for n in range(count - 1, -1, -1))
    for wide, count in ((False, 9), (True, 18))
}


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """By Horner's rule, the highest power first.

    x, (1, 2, 3) -> (x + 2) * x + 3
    """
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def _wide(x: Any) -> bool:
    return bool(x.dtype.itemsize == 8)


def _odd(x: Any, coefficients: Sequence[float]) -> Any:
    return polynomial(x.square(), coefficients) * x


def _small_atanh(s: Any) -> Any:
    """atanh(s) = s + s³/3 + s⁵/5 + … for |s| <= 1/3."""
    return _odd(s, _ATANH_SERIES[_wide(s)])


def small_log1p(z: Any) -> Any:
    """log(1 + z) = 2 atanh(z / (2 + z)) for z in [0, 1], all digits of small ones kept."""
    return _small_atanh(z / (z + 2)) * 2


def atan_to_1(t: Any) -> Any:
    """atan(t) for |t| <= 1; from 0.4 as ±pi/4 + atan((|t| - 1) / (|t| + 1))."""
    negative = t < 0
    magnitude = negative.where(t.neg(), t)
    far = magnitude > 0.4
    near = far.where((magnitude - 1) / (magnitude + 1), magnitude)
    z = near.square()
    series = polynomial(z, _ATAN_P) / polynomial(z, _ATAN_Q) if _wide(t) else polynomial(z, _ATAN)
    core = (series * z + 1) * near  # so that -0.0 stays
    value = far.where(core + math.pi / 4, core)
    return negative.where(value.neg(), value)


def atan(x: Any) -> Any:
    """Beyond 1 the rest of ±pi/2 to that of 1/x; no branch divides by 0: gradients are finite."""
    steep = x.abs() > 1
    core = atan_to_1(steep.where(1, x) / steep.where(x, 1))
    quarter = (x > 0).where(math.pi / 2, -math.pi / 2)
    return steep.where(quarter - core, core)


def sinh(x: Any) -> Any:
    """(exp(x) - exp(-x)) / 2; a series to 1."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    near = magnitude < 1
    series = _odd(near.where(x, 0), _SINH_SERIES[_wide(x)])
    large = _half_exp(magnitude) - magnitude.neg().exp() * 0.5
    return near.where(series, negative.where(large.neg(), large))


def _half_exp(x: Any) -> Any:
    """exp(x) / 2 for x >= 1, also where exp(x) is infinite: x - 1 is exact."""
    return (x - 1).exp() * (math.e / 2)


def cosh(x: Any) -> Any:
    """(exp(x) + exp(-x)) / 2; 1 + 2 sinh²(x/2) to 1, whose slope keeps its digits near 0."""
    magnitude = x.abs()
    near = magnitude < 1
    half = _odd(near.where(x, 0) * 0.5, _SINH_SERIES[_wide(x)])
    return near.where(half.square() * 2 + 1, _half_exp(magnitude) + magnitude.neg().exp() * 0.5)


def tanh(x: Any) -> Any:
    """(1 - z) / (1 + z) with z = exp(-2|x|), which cannot overflow; a series near 0."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    z = (magnitude * -2).exp()
    large = (1 - z) / (1 + z)
    near = magnitude < 0.25
    series = _odd(near.where(x, 0), _TANH_SERIES[_wide(x)])
    return near.where(series, negative.where(large.neg(), large))


def asinh(x: Any) -> Any:
    """±log(|x| + sqrt(x² + 1)); atanh(x / sqrt(x² + 1)) to 0.35, log(2 |x|) where 1 is nothing."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    near, far = magnitude < 0.35, magnitude > _LARGE
    middle = far.where(1, magnitude)
    root = (middle.square() + 1).sqrt()
    value = far.where(magnitude, middle + root).log() + far.where(math.log(2), 0)
    small = near.where(x, 0)
    series = _small_atanh(small / (small.square() + 1).sqrt())
    return near.where(series, negative.where(value.neg(), value))


def acosh(x: Any) -> Any:
    """log(x + sqrt(x² - 1)); log(1 + z) near 1, where z = u + sqrt(u (u + 2)), u = x - 1.

    log(2x) where 1 is nothing.
    """
    near, far = x < 1.25, x > _LARGE
    u = near.where(x, 1.25) - 1
    close = small_log1p(u.sqrt() * (u + 2).sqrt() + u)  # each root is NaN below its 0
    middle = (far | near).where(2, x)
    root = (middle - 1).sqrt() * (middle + 1).sqrt()
    value = far.where(x, middle + root).log() + far.where(math.log(2), 0)
    return near.where(close, value)


def atanh(x: Any) -> Any:
    """(log(1 + x) - log(1 - x)) / 2; a series to 0.3."""
    near = x.abs() < 0.3
    series = _small_atanh(near.where(x, 0))
    return near.where(series, ((1 + x).log() - (1 - x).log()) * 0.5)


def asin(x: Any) -> Any:
    """2 atan(x / (1 + cos)) with cos = sqrt(1 - x) sqrt(1 + x), whose slope at 1 is infinite."""
    cosine = (1 - x).sqrt() * (1 + x).sqrt()
    return atan_to_1(x / (cosine + 1)) * 2


def acos(x: Any) -> Any:
    """2 atan(sqrt(1 - |x|) / sqrt(1 + |x|)), pi less that below 0: all digits are kept near 1."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    angle = atan_to_1((1 - magnitude).sqrt() / (1 + magnitude).sqrt()) * 2
    return negative.where(math.pi - angle, angle)


def expm1(x: Any) -> Any:
    """exp(x) - 1; a series to 0.35, which keeps all digits of small ones."""
    near = x.abs() < 0.35
    small = near.where(x, 0)
    return near.where(polynomial(small, _EXPM1_SERIES[_wide(x)]) * small, x.exp() - 1)


def erf(x: Any) -> Any:
    """An odd function: x times a polynomial or a quotient near 0, then 1 - erfc(|x|)."""
    negative = x < 0
    magnitude = negative.where(x.neg(), x)
    near = magnitude < (0.46875 if _wide(x) else 0.9)
    small = near.where(x, 0)
    square = small.square()
    m = (magnitude > _ERF_END).where(_ERF_END, magnitude)
    if _wide(x):
        series = polynomial(square, _ERF_A) / polynomial(square, _ERF_B) * small
        rest = polynomial(m, _ERF_C) / polynomial(m, _ERF_D) * m.square().neg().exp()
    else:
        series = polynomial(square, _ERF_NEAR) * small + small
        rest = (polynomial(m, _ERF_FAR) * m - m.square()).exp()
    return near.where(series, negative.where(rest - 1, 1 - rest))

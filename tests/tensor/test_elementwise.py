"""Elementwise operations: values and gradients, row by row; special values apart."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.tensor.rows_elementwise import ROWS
from tests.tensor.table import table_tests
from tinylab import Tensor, dtypes
from tinylab.errors import BroadcastError, DTypeError, OperandError

nan, inf = math.nan, math.inf
test_value, test_gradient = table_tests(ROWS)


SPECIAL = np.array(
    [nan, inf, -inf, 0.0, -0.0, 1e30, -1e30, 1e-30, 88.0, -88.0, 200.0, -200.0], np.float32
)


def _with(function):  # type: ignore[no-untyped-def]
    with np.errstate(all="ignore"):
        return function(SPECIAL.astype(np.float64)).astype(np.float32)


# fmt: off
SPECIAL_FUNCTIONS = {
    "exp": (Tensor.exp, np.exp), "exp2": (Tensor.exp2, np.exp2), "log": (Tensor.log, np.log),
    "log2": (Tensor.log2, np.log2), "sqrt": (Tensor.sqrt, np.sqrt), "tanh": (Tensor.tanh, np.tanh),
    "reciprocal": (Tensor.reciprocal, lambda x: 1 / x), "abs": (Tensor.abs, np.abs),
    "floor": (Tensor.floor, np.floor), "ceil": (Tensor.ceil, np.ceil),
    "round": (Tensor.round, np.round), "trunc": (Tensor.trunc, np.trunc),
    "sign": (Tensor.sign, np.sign),
    "relu": (Tensor.relu, lambda x: np.maximum(x, 0)),
    "sigmoid": (Tensor.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "softplus": (Tensor.softplus, lambda x: np.logaddexp(x, 0)),
    "elu": (Tensor.elu, lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)),
    "atan": (Tensor.atan, np.arctan), "erf": (Tensor.erf, np.vectorize(math.erf, otypes=[float])),
    "isnan": (Tensor.isnan, lambda x: np.isnan(x).astype(float)),
    "isinf": (Tensor.isinf, lambda x: np.isinf(x).astype(float)),
    "isfinite": (Tensor.isfinite, lambda x: np.isfinite(x).astype(float)),
    "times 0": (lambda t: t * 0, lambda x: x * 0),
    "minus itself": (lambda t: t - t, lambda x: x - x),
    "clip": (lambda t: t.clip(-1, 1), lambda x: np.clip(x, -1, 1)),
    "max": (lambda t: t.maximum(1), lambda x: np.maximum(x, 1)),
    "min": (lambda t: t.minimum(1), lambda x: np.minimum(x, 1)),
}
# fmt: on


@pytest.mark.parametrize("name", SPECIAL_FUNCTIONS)
def test_special_values(name: str) -> None:
    ours, numpy = SPECIAL_FUNCTIONS[name]
    np.testing.assert_allclose(ours(Tensor(SPECIAL)).numpy(), _with(numpy), rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize(
    "name",
    [
        "sigmoid",
        "tanh",
        "softplus",
        "logsigmoid",
        "elu",
        "selu",
        "silu",
        "gelu",
        "mish",
        "relu",
        "hardswish",
    ],
)
def test_gradients_of_large_arguments_are_finite(name: str) -> None:
    x = Tensor([-1e4, -200.0, -90.0, 0.0, 90.0, 200.0, 1e4])
    getattr(x, name)().sum().backward()
    assert np.isfinite(x.grad.numpy()).all(), x.grad.tolist()


def test_gradient_at_the_kink() -> None:
    for name, slope in {
        "relu": 0,
        "abs": 0,
        "elu": 1,
        "softplus": 0.5,
        "relu6": 0,
        "tanh": 1,
        "sigmoid": 0.25,
    }.items():
        x = Tensor([0.0])
        getattr(x, name)().sum().backward()
        assert x.grad.item() == pytest.approx(slope), name


def test_equal_maxima_share() -> None:
    a, b = Tensor([1.0, 3.0]), Tensor([1.0, 2.0])
    a.maximum(b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        (dtypes.int32, dtypes.float16, dtypes.float16),
        (dtypes.int8, dtypes.uint8, dtypes.int16),
        (dtypes.bool, dtypes.int32, dtypes.int32),
        (dtypes.float16, dtypes.bfloat16, dtypes.float32),
        (dtypes.float32, dtypes.float64, dtypes.float64),
        (dtypes.int64, dtypes.uint64, dtypes.float32),
        (dtypes.uint64, dtypes.float32, dtypes.float32),
    ],
)
def test_promotion(left, right, found) -> None:  # type: ignore[no-untyped-def]
    assert (Tensor([1], dtype=left) + Tensor([2], dtype=right)).dtype is found
    assert (Tensor([1], dtype=left) * Tensor([2], dtype=right)).numpy().tolist() == [2]


@pytest.mark.parametrize(
    ("dtype", "number", "found"),
    [
        (dtypes.int8, 2, dtypes.int8),
        (dtypes.int32, 2.5, dtypes.float32),
        (dtypes.float16, 2.5, dtypes.float16),
        (dtypes.bool, 2, dtypes.int32),
        (dtypes.bool, True, dtypes.bool),
        (dtypes.uint8, True, dtypes.uint8),
    ],
)
def test_numbers_are_weak(dtype, number, found) -> None:  # type: ignore[no-untyped-def]
    assert (Tensor([1], dtype=dtype) + number).dtype is found
    assert (number + Tensor([1], dtype=dtype)).dtype is found


def test_small_integers_wrap() -> None:
    assert (Tensor([200], dtype=dtypes.uint8) + 100).tolist() == [44]
    assert (Tensor([100], dtype=dtypes.int8) * 3).tolist() == [44]
    assert (-Tensor([1], dtype=dtypes.uint8)).tolist() == [255]
    assert Tensor([-(2**31)], dtype=dtypes.int32).abs().tolist() == [-(2**31)]
    assert Tensor([-(2**31), 5], dtype=dtypes.int32).minimum(3).tolist() == [-(2**31), 3]


def test_integer_division_by_zero_is_zero() -> None:
    a, b = Tensor([7, -(2**31)], dtype=dtypes.int32), Tensor([0, -1], dtype=dtypes.int32)
    assert (a // b).tolist() == [0, -(2**31)]
    assert (a % b).tolist()[1] == 0


def test_float_to_integer_saturates() -> None:
    assert Tensor([1e20, -1e20, nan, 300.7]).cast(dtypes.int32).tolist() == [
        2**31 - 1,
        -(2**31),
        0,
        300,
    ]
    assert Tensor([1e20, -5.0, nan, 254.9]).cast(dtypes.uint8).tolist() == [255, 0, 0, 254]


def test_division_is_correctly_rounded() -> None:
    x = np.arange(1, 60, dtype=np.float32)
    assert np.array_equal((Tensor(x) / 3).numpy(), x / np.float32(3))
    assert np.array_equal((Tensor(x) / Tensor(x[::-1].copy())).numpy(), x / x[::-1])


def test_remainder_by_infinity() -> None:
    x = Tensor([5.0, -5.0])
    assert x.fmod(inf).tolist() == [5.0, -5.0]
    assert (x % 0.0).isnan().tolist() == [True, True]


def test_errors_name_the_operation_and_both_shapes() -> None:
    a, b = Tensor.ones(2, 3), Tensor.ones(4, 3)
    with pytest.raises(BroadcastError, match=r"shape mismatch.*mul of \(2, 3\) and \(4, 3\)"):
        a * b
    with pytest.raises(IndexError):
        a + b
    with pytest.raises(DTypeError, match="where cond must be bool"):
        a.where(a, a)
    with pytest.raises(DTypeError, match="shift operands must be int"):
        a << 1
    with pytest.raises(OperandError):
        a + "x"
    with pytest.raises(OperandError, match="at least one"):
        a.clip()
    with pytest.raises(TypeError, match="__bool__ on Tensor is not defined"):
        bool(a)


@pytest.mark.parametrize("divisor", [3.0, -2.0, 0.0])
def test_floor_division_of_infinities(divisor: float) -> None:
    x = np.array([np.inf, -np.inf, 7.0, -7.0, np.nan, 3.0], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((Tensor(x) // divisor).numpy(), x // np.float32(divisor))


NEAR_ZERO = np.array([1e-30, -1e-8, 1e-8, 1e-4, -0.1, 0.29, 0.3, 0.349, 0.36, 0.47, 0.99, 1.0])
WIDE = np.concatenate([NEAR_ZERO, np.linspace(-9, 9, 181)])
FAR = np.concatenate([WIDE, [-31.62, 27.45, 80.1]])
ABOVE_1 = 1 + np.array([0.0, 1.2e-7, 5e-7, 1e-5, 1e-3, 0.01, 0.2499, 0.25, 0.5, 1.0])
FINE = {
    "sinh": (np.sinh, FAR),
    "cosh": (np.cosh, FAR),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), WIDE),
    "celu": (lambda x: np.where(x > 0, x, np.expm1(x)), WIDE),
    "selu": (lambda x: np.where(x > 0, x, 1.67326 * np.expm1(x)) * 1.0507, WIDE),
    "asinh": (np.arcsinh, np.array([*WIDE, 1e9, 1e10, -1e10, 1e30, -1e30])),
    "acosh": (np.arccosh, np.array([*ABOVE_1, 9.0, 1e9, 1.1e9, 1e30])),
    "atanh": (np.arctanh, np.concatenate([NEAR_ZERO[:-1], np.linspace(-0.999, 0.999, 101)])),
    "tanh": (np.tanh, WIDE),
    "atan": (np.arctan, np.array([*WIDE, 1e30, -1e30])),
    "asin": (np.arcsin, np.concatenate([NEAR_ZERO, np.linspace(-1, 1, 101)])),
    "acos": (np.arccos, np.array([-1.0, -0.9999999, -0.5, -1e-8, 0.0, 0.5, *(2 - ABOVE_1)])),
    "erf": (np.vectorize(math.erf, otypes=[float]), WIDE),
    "softplus": (lambda x: np.logaddexp(x, 0), np.concatenate([WIDE, [-80.0, -30.0, 40.0, 800.0]])),
}


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1.5e-6), (np.float64, 3e-15)], ids=["float32", "float64"]
)
@pytest.mark.parametrize("name", FINE)
def test_functions_keep_their_digits(name: str, dtype: type, tolerance: float) -> None:
    reference, points = FINE[name]
    x = points.astype(dtype)
    found = getattr(Tensor(x), name)().numpy()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, reference(x.astype(float)), rtol=tolerance, atol=1e-38)


def test_erf_in_float32_is_right_to_two_units() -> None:
    x = np.concatenate([np.linspace(-5, 5, 20_001), 10 ** np.linspace(-30, 1, 999)])
    x = x.astype(np.float32)
    right = np.array([math.erf(v) for v in x])
    units = np.abs(Tensor(x).erf().numpy() - right) / np.spacing(np.abs(right).astype(np.float32))
    assert units.max() < 2


HALVES = ["silu", "gelu", "quick_gelu", "mish", "elu", "celu", "selu", "hardswish", "hardsigmoid"]


@pytest.mark.parametrize("name", HALVES)
def test_activations_of_halves_are_rounded_once(name: str) -> None:
    x = np.concatenate([np.linspace(-18, 18, 721), 10 ** np.linspace(-7, 0, 99)])
    x = np.concatenate([x, -x]).astype(np.float16)
    right = getattr(Tensor(x.astype(np.float32)), name)().numpy().astype(np.float16)
    np.testing.assert_array_equal(getattr(Tensor(x), name)().numpy(), right)


def test_the_exponential_of_a_multiple_keeps_its_digits() -> None:
    """exp(-x), exp(x / 2) and the like multiply the factor that log2 e is told by."""
    x = np.linspace(-40, 40, 1001).astype(np.float32)
    multiples = [-1.0, 0.5, -2.0]
    found = [(Tensor(x) * m).exp() for m in multiples]
    Tensor.realize(*found)
    for m, t in zip(multiples, found, strict=True):
        np.testing.assert_allclose(t.numpy(), np.exp(x.astype(float) * m), rtol=2e-7)


def test_the_smaller_of_two_summands_counts_in_logaddexp() -> None:
    x = np.array([-20.0, -50.0, 0.0, 3.0], np.float32)
    zero = Tensor.zeros(4)
    np.testing.assert_allclose(Tensor(x).logaddexp(zero).numpy(), np.logaddexp(x, 0.0), rtol=1e-6)
    np.testing.assert_allclose(zero.logaddexp(Tensor(x)).numpy(), np.logaddexp(x, 0.0), rtol=1e-6)


def test_acosh_is_nan_below_1() -> None:
    assert np.isnan(Tensor([-1e30, -1e10, -2.0, -1.0, 0.0, 0.5]).acosh().numpy()).all()


SERIES = ["sinh", "asinh", "atanh", "tanh", "erf", "softplus", "acosh", "acos", "elu"]
INSIDE = (-0.95, 0.95)


@pytest.mark.parametrize("name", SERIES)
def test_gradients_of_series_and_formula_agree(name: str) -> None:
    special = {"acosh": (1.1, 9.0), "atanh": INSIDE, "acos": INSIDE, "elu": (-7.0, -0.01)}
    low, high = special.get(name, (-7.0, 7.0))
    x, step = np.linspace(low, high, 171), 1e-4
    t = Tensor(x)
    (grad,) = getattr(t, name)().sum().gradient(t)
    up, down = (getattr(Tensor(x + d), name)().numpy() for d in (step, -step))
    np.testing.assert_allclose(grad.numpy(), (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["asinh", "tanh", "erf", "atan", "softplus"])
def test_gradients_far_out_are_finite(name: str) -> None:
    x = Tensor([1e10, -1e10, 1e18])
    (grad,) = getattr(x, name)().sum().gradient(x)
    assert np.isfinite(grad.numpy()).all()


UNSIGNED = np.array([0, 1, 2**24, 2**24 + 1, 2**63, 2**64 - 1], np.uint64)
SIGNED = np.array([-1, 0, 1, 2**24, 2**24 + 1, -(2**63), 2**63 - 1], np.int64)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_uint64_and_signed_integers_are_compared_exactly(name: str) -> None:
    for a, b in ((UNSIGNED, SIGNED), (SIGNED, UNSIGNED), (UNSIGNED, SIGNED[:5].astype(np.int32))):
        exact = [[getattr(int(x), f"__{name}__")(int(y)) for y in b] for x in a]
        found = getattr(Tensor(a).reshape(-1, 1), name)(Tensor(b))
        np.testing.assert_array_equal(found.numpy(), np.array(exact))


def test_uint64_with_signed_integers_is_a_float() -> None:
    one, two, minus = (
        Tensor([1], dtype=dtypes.uint64),
        Tensor([2], dtype=dtypes.uint64),
        Tensor([-7]),
    )
    found = [minus.maximum(one), minus / two, two * minus, two + minus, two.cat(minus)]
    assert {t.dtype for t in found} == {dtypes.float32}
    assert [t.tolist() for t in found] == [[1.0], [-3.5], [-14.0], [-5.0], [2.0, -7.0]]
    assert (two * 3).dtype is dtypes.uint64  # a number takes the type of the tensor
    assert (two << Tensor([1])).tolist() == [4]
    with pytest.raises(DTypeError, match="cast"):
        _ = two & minus


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_beside_zeros_keep_their_digits(dtype: str, device: str) -> None:
    """The nearest to whole quarter turns: cos was 1 - 2 sin², with an error of a unit of 1."""
    x = (np.arange(1, 400) * np.longdouble(np.pi) / 2).astype(dtype)
    exact = x.astype(np.longdouble)
    close = {"rtol": 4 * float(np.finfo(dtype).eps)}
    t = Tensor(x, device=device)
    np.testing.assert_allclose(t.sin().numpy(), np.sin(exact), **close)
    np.testing.assert_allclose(t.cos().numpy(), np.cos(exact), **close)
    np.testing.assert_allclose(t.tan().numpy(), np.tan(exact), **close)
    for function, slope in ((Tensor.sin, np.cos), (Tensor.cos, lambda v: -np.sin(v))):
        (grad,) = function(t).sum().gradient(t)
        np.testing.assert_allclose(grad.numpy(), slope(exact), **close)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_zeros_keep_their_sign(dtype: str) -> None:
    x = np.array([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5], dtype)
    found, right = Tensor(x).round().numpy(), np.round(x)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
    for function in (Tensor.atan, Tensor.asin, Tensor.sin, Tensor.tan, Tensor.tanh, Tensor.sinh):
        assert np.signbit(function(Tensor(x[:2])).numpy()).tolist() == [True, False]


def test_hardswish_of_the_largest_numbers_is_finite() -> None:
    for dtype in ("float16", "float32", "float64"):
        top = np.array([np.finfo(dtype).max], dtype)
        np.testing.assert_array_equal(Tensor(top).hardswish().numpy(), top)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_slope_of_cosh_keeps_its_digits_near_0(dtype: str) -> None:
    x = np.concatenate([[0.0], 10 ** np.linspace(-30, 1, 200)]).astype(dtype)
    t = Tensor(x)
    (grad,) = t.cosh().sum().gradient(t)
    close = {"rtol": 8 * float(np.finfo(dtype).eps)}
    np.testing.assert_allclose(grad.numpy(), np.sinh(x.astype(float)), **close)
    np.testing.assert_allclose(t.cosh().numpy(), np.cosh(x.astype(float)), **close)


@pytest.mark.parametrize("remainder", [Tensor.fmod, Tensor.mod])
def test_the_slope_of_a_remainder_is_1_at_0_too(remainder: Callable[..., Tensor]) -> None:
    x, y = Tensor([0.0, -0.0, 3.0, -1.5]), Tensor([3.0, 2.0, 3.0, 2.0])
    (grad,) = remainder(x, y).sum().gradient(x)
    assert grad.tolist() == [1.0] * 4
    assert np.isnan(remainder(Tensor([0.0, 0.0]), Tensor([0.0, nan])).numpy()).all()


def test_the_slope_of_mish_far_out_is_finite() -> None:
    x = Tensor([3.4e38, 1e5, -1e5, -3.4e38])
    (grad,) = x.mish().sum().gradient(x)
    assert grad.tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("name", "slopes"), [
    ("asin", [inf, inf]), ("acos", [-inf, -inf]), ("atanh", [inf, inf]),
])  # fmt: skip
def test_slopes_at_the_ends_are_infinite(name: str, slopes: list[float]) -> None:
    for dtype in (dtypes.float32, dtypes.float64):
        x = Tensor([1.0, -1.0], dtype=dtype)
        (grad,) = getattr(x, name)().sum().gradient(x)
        assert grad.tolist() == slopes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_arctangent_and_its_slope_are_right_to_a_few_units(dtype: str) -> None:
    x = np.concatenate([np.linspace(-3, 3, 4001), 10 ** np.linspace(-30, 30, 400)]).astype(dtype)
    exact, eps = x.astype(np.longdouble), float(np.finfo(dtype).eps)
    t = Tensor(x)
    (grad,) = t.atan().sum().gradient(t)
    np.testing.assert_allclose(t.atan().numpy(), np.arctan(exact), rtol=2 * eps)
    np.testing.assert_allclose(grad.numpy(), 1 / (1 + exact**2), rtol=8 * eps, atol=1e-37)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [math.inf, -math.inf, math.nan, 1e30, -1e30, 2.0**70, 9.0])
def test_powers_by_numbers_without_bounds(dtype: str, exponent: float) -> None:
    base = [-2.0, -0.5, 0.5, 2.0, -1.0, 1.0, 0.0, -0.0, math.inf, -math.inf, math.nan]
    with np.errstate(all="ignore"):
        expected = np.array(base, dtype) ** np.array(exponent, dtype)
        turned = np.array(exponent, dtype) ** np.array(base, dtype)
    x = Tensor(base, dtype=dtype)
    np.testing.assert_array_equal((x**exponent).numpy(), expected)
    np.testing.assert_array_equal((x ** Tensor([exponent], dtype=dtype)).numpy(), expected)
    np.testing.assert_allclose((exponent**x).numpy(), turned, rtol=1e-2 if "16" in dtype else 1e-6)


@pytest.mark.parametrize("exponent", [0.5, 1.5, -1.5, 2, 3, -1, -2, 9, 0])
def test_powers_of_what_is_no_number(exponent: float) -> None:
    base = np.array([-2.0, -1.0, 0.0, -0.0, math.inf, -math.inf, math.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = base**exponent
    found = (Tensor(base) ** exponent).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    kept = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[kept].all()


@pytest.mark.parametrize(
    ("dtype", "top", "end"), [("float32", 89.4, 89.5), ("float64", 710.4, 710.5)]
)
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_reach_as_far_as_their_values(
    name: str, dtype: str, top: float, end: float
) -> None:
    """exp(x) is infinite there, half of it is not."""
    x = np.array([*np.linspace(-top, top, 101), -0.0, end, -end, math.inf, math.nan], dtype)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(x)
    t = Tensor(x).is_param_()
    np.testing.assert_allclose(
        getattr(t, name)().numpy(), expected, rtol=4 * np.finfo(dtype).eps, atol=0
    )
    slope = {"sinh": np.cosh, "cosh": np.sinh}[name](x[:101])
    (grad,) = getattr(t[:101], name)().sum().gradient(t)
    np.testing.assert_allclose(grad.numpy()[:101], slope, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_the_larger_zero_is_the_positive_one(device: str) -> None:
    x = Tensor([-0.0, 0.0, -1.0], device=device).realize()
    assert [math.copysign(1, v) for v in x.abs().tolist()] == [1, 1, 1]
    assert [math.copysign(1, v) for v in x.maximum(-x).tolist()] == [1, 1, 1]
    assert [math.copysign(1, v) for v in x.copysign(-1.0).tolist()] == [-1, -1, -1]
    assert [math.copysign(1, v) for v in x.copysign(1.0).tolist()] == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_values_have_the_same_bits_in_every_kernel(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        x, w, b = (rng.uniform(-1, 1, (4, 16)).astype(dtype) for _ in range(3))
        y = Tensor(x) * Tensor(w) + Tensor(b)
        exact = x * w + b
        largest = y.max(1, keepdim=True)
        assert ((largest - y) >= 0).all().item()
        assert (y.realize() == largest.realize()).sum().item() == 4
        np.testing.assert_array_equal(y.numpy(), exact)
        found = (y.relu() - y * 2 + Tensor(x)).numpy()
        np.testing.assert_array_equal(found, np.maximum(exact, 0) - exact * 2 + x)

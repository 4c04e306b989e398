"""Exponentials on a target that has 2**x of its own: errors in units of the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.test_transcendental import units
from tinylab import Context, Tensor
from tinylab.codegen.exact_exp import LN2, has_exponentials, pm_exact_exp
from tinylab.device import Device
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops

RNG = np.random.default_rng
LIMITS = {"float32": (-103.9, 88.72), "float64": (-745.1, 709.78)}


def arguments(dtype: str) -> np.ndarray:
    low, high = LIMITS[dtype]
    rng = RNG(3)
    drawn = [rng.uniform(low, high, 4000), rng.uniform(-1, 1, 2000), rng.uniform(-1e-7, 1e-7, 500)]
    ends = [rng.uniform(low, low + 0.1, 500), rng.uniform(high - 0.1, high, 500)]
    return np.concatenate(drawn + ends).astype(dtype)


def on_python(function: Callable[[Tensor], Tensor], x: np.ndarray) -> np.ndarray:
    found: np.ndarray = function(Tensor(x, device="PYTHON")).numpy()
    return found


# fmt: off
Function = Callable[[Any], Any]
FUNCTIONS: dict[str, tuple[Function, Function, float]] = {
    "exp": (Tensor.exp, np.exp, 1.1),
    "exp of its opposite": (lambda x: (-x).exp(), lambda x: np.exp(-x), 1.1),
    "exp of its double": (lambda x: (x * 2).exp(), lambda x: np.exp(x * 2), 1.1),
    "exp of its half": (lambda x: (x * -0.5).exp(), lambda x: np.exp(x * -0.5), 1.1),
    "sigmoid": (Tensor.sigmoid, lambda x: 1 / (1 + np.exp(-x)), 3.5),
    "tanh": (Tensor.tanh, np.tanh, 4),
}
# fmt: on


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error(name: str, dtype: str) -> None:
    """exp had 21 units of float32 here and 138 of float64: the product of x and log2 e rounded."""
    ours, right, most = FUNCTIONS[name]
    x = arguments(dtype)
    if "its" in name:
        x = x[np.abs(x) < LIMITS[dtype][1] / 2.1]
    if name == "sigmoid":  # where the reference is no denormal
        x = x[x > LIMITS[dtype][0] * 0.83]
    with np.errstate(all="ignore"):
        exact = right(x.astype(np.longdouble))
    assert units(on_python(ours, x), exact) <= most


@pytest.mark.parametrize("dtype", LIMITS)
def test_softmax(dtype: str) -> None:
    """Of numbers whose differences are exact; the quotient and the sum round."""
    low, _ = LIMITS[dtype]
    x = (np.linspace(low * 6.4, 0, 30).round() / 8).astype(dtype)
    powers = np.exp((x - x.max()).astype(np.longdouble))
    assert units(on_python(Tensor.softmax, x), powers / powers.sum()) <= 4


@pytest.mark.parametrize("dtype", LIMITS)
def test_special_values(dtype: str) -> None:
    low, high = LIMITS[dtype]
    x = np.array(
        [math.nan, math.inf, -math.inf, 0.0, -0.0, low, high, low - 2, high + 0.01, 1e30, -1e30,
         709.782712893384, 709.7827128933841, 88.72283, 88.72284], dtype,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        right = np.exp(x.astype(np.longdouble)).astype(dtype)
    found = on_python(Tensor.exp, x)
    tiny = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found, right, rtol=2 * float(np.finfo(dtype).eps), atol=float(tiny))
    assert not np.signbit(found[~np.isnan(right)]).any()


def test_one_kernel_with_both_types() -> None:
    """The exponential of a float32 that is made a float64 is that of a float64 all the same."""
    x = arguments("float32")[:2000]
    t = Tensor(x, device="PYTHON")
    wide = t.exp().double() * 0.0 + t.double().exp()
    assert units(wide.numpy(), np.exp(x.astype(np.longdouble))) <= 1.1


def test_log_2_in_two_parts_is_right_to_70_bits() -> None:
    import mpmath as mp

    with mp.workprec(200):
        assert abs(mp.mpf(LN2[0]) + mp.mpf(LN2[1]) - mp.log(2)) < mp.mpf(2) ** -70
    assert LN2[0] * 2**20 == int(LN2[0] * 2**20)


def test_halves_are_rounded_once() -> None:
    x = np.linspace(-17, 11, 500).astype(np.float16)
    np.testing.assert_array_equal(
        on_python(Tensor.exp, x), np.exp(x.astype(np.float64)).astype(np.float16)
    )


def test_where_it_applies() -> None:
    ren = Device["PYTHON"].renderer
    x = Tensor([1.0]).uop
    exponential, power = (x * (1 / math.log(2))).alu(Ops.EXP2).sink(), x.alu(Ops.EXP2).sink()
    assert has_exponentials(exponential, ren)
    assert not has_exponentials(power, ren)
    assert not has_exponentials(exponential, Device["CPU"].renderer)  # that has no exp2
    for setting in ({"TRANSCENDENTAL": 2}, {"EMULATED_DTYPES": "double"}):
        with Context(**setting):
            assert not has_exponentials(exponential, ren)
    small = (x.cast(dtypes.float16) * 1.5).alu(Ops.EXP2)
    assert pm_exact_exp.rewrite(small) is None

"""exp2, exp, log2, sin, cos and powers against exact values; errors in units of the last place."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tests.codegen.kernels import param, run, sink
from tinylab.codegen.large_angles import two_over_pi
from tinylab.device import Device
from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

F32, F64 = dtypes.float32, dtypes.float64
LOG2_E = 1.4426950408889634
FUNCTIONS: dict[str, tuple[Callable[[UOp], UOp], Callable[[Any], Any]]] = {
    "exp2": (lambda x: x.exp2(), np.exp2),
    "exp": (lambda x: (x * LOG2_E).exp2(), np.exp),
    "log2": (lambda x: x.log2(), np.log2),
    "sin": (lambda x: x.sin(), np.sin),
    "cos": (lambda x: x.cos(), np.cos),
}


def unary(function: Callable[[UOp], UOp], x: np.ndarray, dtype: DType) -> np.ndarray:
    i = UOp.range(len(x), 0)
    value = function(param(1, len(x), dtype).index(i))
    kernel = sink(param(0, len(x), dtype).index(i).store(value).end(i))
    return run(kernel, [np.zeros_like(x), x])[0]


def units(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the exact value."""
    info = np.finfo(got.dtype)
    size = np.abs(exact).astype(np.longdouble)
    exponent = np.floor(np.log2(np.where(size > 0, size, 1)))
    unit = np.exp2(np.maximum(exponent, info.minexp) - info.nmant)
    return float(np.max(np.abs(got.astype(np.longdouble) - exact) / unit))


def arguments(name: str, dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(7)
    lo, hi = (-150, 128) if dtype is F32 else (-1074, 1023)
    if name == "log2":
        x = np.concatenate([np.exp2(rng.uniform(lo, hi, 40000)), rng.uniform(0.5, 2, 40000)])
    elif name in ("sin", "cos"):
        x = np.concatenate([rng.uniform(-100, 100, 40000), rng.uniform(-(2**19), 2**19, 20000)])
    else:
        scale = 1.0 if name == "exp2" else np.log(2)
        x = np.concatenate([rng.uniform(lo, hi, 40000) * scale, rng.uniform(-1, 1, 20000)])
    return x.astype(dtype.name)


@pytest.mark.parametrize(
    ("name", "dtype", "most"),
    [("exp2", F32, 1), ("exp2", F64, 1), ("exp", F32, 1), ("exp", F64, 1.1), ("log2", F32, 2),
     ("log2", F64, 3), ("sin", F32, 2), ("sin", F64, 2), ("cos", F32, 2), ("cos", F64, 2)],
)  # fmt: skip
def test_error(name: str, dtype: DType, most: float) -> None:
    function, reference = FUNCTIONS[name]
    x = arguments(name, dtype)
    fused = Ops.MULACC in Device["CPU"].renderer.code_for_op
    error = units(unary(function, x, dtype), reference(x.astype(np.longdouble)))
    assert error <= most + (0 if fused else 0.5)


FAR = 1400  # bits of pi/2
with mp.workprec(FAR + 64):
    HALF_PI = int(mp.floor(mp.ldexp(mp.pi, FAR - 1)))


def beside_quarters(dtype: DType) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Angles of all sizes that are nearest to whole quarter turns, and what is left of them."""
    rng = np.random.default_rng(3)
    size = np.concatenate([rng.uniform(0, 19, 1500), rng.uniform(19, 127, 1500)])
    if dtype is F64:
        size = np.concatenate([size, rng.uniform(127, 1023, 3000)])
    quarters = [round(Fraction(2.0**s) / Fraction(HALF_PI, 1 << FAR)) for s in size]
    x = np.array([n * HALF_PI / (1 << FAR) for n in quarters]).astype(dtype.name)
    # The double that is nearest of all to a whole quarter turn.
    x = np.append(x, np.array([5.319372648326541e255] if dtype is F64 else [1.0], dtype.name))
    exact: dict[str, list[Any]] = {"sin": [], "cos": []}
    with mp.workprec(1300):
        for v in x.tolist():
            exact["sin"].append(np.longdouble(mp.nstr(mp.sin(v), 25)))
            exact["cos"].append(np.longdouble(mp.nstr(mp.cos(v), 25)))
    return x, {name: np.array(values) for name, values in exact.items()}


@pytest.mark.parametrize("dtype", [F32, F64])
def test_digits_beside_zeros(dtype: DType) -> None:
    """The reference is exact: long double has not the digits of large angles."""
    x, exact = beside_quarters(dtype)
    most = 2 if dtype is F32 else 3
    assert units(unary(lambda v: v.sin(), x, dtype), exact["sin"]) <= most
    assert units(unary(lambda v: v.cos(), x, dtype), exact["cos"]) <= most
    tangent = exact["sin"] / exact["cos"]
    assert units(unary(lambda v: v.sin() / v.cos(), x, dtype), tangent) <= 2 * most


def test_large_angles() -> None:
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(np.log(2**19), 88, 20000)).astype(np.float32)
    assert units(unary(lambda v: v.sin(), x, F32), np.sin(x.astype(np.longdouble))) <= 2
    assert units(unary(lambda v: v.cos(), x, F32), np.cos(x.astype(np.longdouble))) <= 2


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_special_values(name: str, dtype: DType) -> None:
    info = np.finfo(dtype.name)
    x = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, info.max, info.tiny, info.tiny / 8, -info.tiny,
         -149, -150, -126.5, 127.9, 128, -1074, -1075, -1022.5, 1023.9, 1024],
        dtype.name,
    )  # fmt: skip
    function, reference = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(np.longdouble)).astype(dtype.name)
    got = unary(function, x, dtype)
    np.testing.assert_allclose(
        got, wanted, rtol=4 * float(info.eps), atol=float(info.smallest_subnormal)
    )
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])


def test_powers() -> None:
    rng = np.random.default_rng(5)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 3.0, -3.0, 1e30]
    grid = np.array([(a, b) for a in special for b in special])
    pairs = np.concatenate([grid, np.stack([rng.uniform(0, 20, 500), rng.uniform(-8, 8, 500)], 1)])
    x, y = (np.ascontiguousarray(column.astype(np.float32)) for column in pairs.T)
    n, i = len(x), UOp.range(len(x), 0)
    value = param(1, n).index(i).alu(Ops.POW, param(2, n).index(i))
    got = run(sink(param(0, n).index(i).store(value).end(i)), [np.zeros_like(x), x, y])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.power(x, y), rtol=1e-5)


def test_powers_of_doubles_are_right_to_a_unit() -> None:
    """With the exponent rounded once they were off by a thousand, and x**1 was infinite."""
    rng = np.random.default_rng(4)
    x = np.concatenate([
        rng.uniform(0.1, 10, 600), np.exp2(rng.uniform(-1074, 1023, 600)),
        1 + rng.uniform(-1e-3, 1e-3, 600), [1.7976931348623157e308, 5e-324, 1e-310],
    ])  # fmt: skip
    y = np.concatenate([
        rng.uniform(-300, 300, 600), rng.uniform(-1, 1, 600), rng.uniform(-7e5, 7e5, 600), [1.0] * 3
    ])  # fmt: skip
    exact, normal = np.zeros(len(x), np.longdouble), np.zeros(len(x), bool)
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        with mp.workprec(200):
            power = mp.power(a, b)
            normal[k] = -1022 < mp.log(power, 2) < 1024
            exact[k] = np.longdouble(mp.nstr(power, 25)) if normal[k] else 0
    n, i = len(x), UOp.range(len(x), 0)
    value = param(1, n, F64).index(i).alu(Ops.POW, param(2, n, F64).index(i))
    got = run(sink(param(0, n, F64).index(i).store(value).end(i)), [np.zeros_like(x), x, y])[0]
    assert normal.sum() > 1500
    assert units(got[normal], exact[normal]) <= 1
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.power(x, y), rtol=1e-15, atol=5e-324)


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, np.inf, -np.inf, np.nan, 1e308, 5e-324, 1e-310,
    0.9999999999999999, 1.0000000000000002, 1e17, 2.0**53 - 1, 7.0, -7.0, 2.5,
]  # fmt: skip


def test_special_powers_of_doubles() -> None:
    x, y = (np.ascontiguousarray(c) for c in np.array([(a, b) for a in SPECIAL for b in SPECIAL]).T)
    n, i = len(x), UOp.range(len(x), 0)
    value = param(1, n, F64).index(i).alu(Ops.POW, param(2, n, F64).index(i))
    got = run(sink(param(0, n, F64).index(i).store(value).end(i)), [np.zeros_like(x), x, y])[0]
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-15, atol=5e-324)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])


def test_integer_powers_wrap() -> None:
    x = np.array([3, -3, 2, 7, 1, -1, 0, 5, -1, 2], np.int32)
    y = np.array([4, 3, 31, 20, -5, -3, 0, 1, -4, -1], np.int32)
    n, i = len(x), UOp.range(len(x), 0)
    value = param(1, n, dtypes.int32).index(i).alu(Ops.POW, param(2, n, dtypes.int32).index(i))
    kernel = sink(param(0, n, dtypes.int32).index(i).store(value).end(i))
    got = run(kernel, [np.zeros_like(x), x, y])[0]
    wanted = [
        (pow(int(a), int(b)) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(int(a), 0))
        for a, b in zip(x, y, strict=True)
    ]
    wrapped = [(w + 2**31) % 2**32 - 2**31 for w in wanted]
    assert got.tolist() == wrapped


def test_bits_of_two_over_pi() -> None:
    words = two_over_pi(3)
    value = sum(w * 2.0 ** (-64 * (i + 1)) for i, w in enumerate(words[1:]))
    assert words[0] == 0
    assert value == pytest.approx(2 / np.pi, abs=1e-16)

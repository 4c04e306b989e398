"""Each method in each element type: the type of the result, and its values against numpy.

A row gives numpy's function and the rule for the result's type. Small floats are computed in
float32 and rounded by the tests' own rounding (`oracle.round_small`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.tensor.rows_dtypes import FLOATS, INTS, ROWS, Row
from tests.tensor.test_names import NAMES
from tinylab import Tensor, dtypes
from tinylab.dtype import DType


def values(dtype: DType) -> Any:
    """Four elements that every type of the kind holds exactly."""
    if dtype is dtypes.bool:
        return np.array([True, False, True, True])
    return np.array([1, 3, 2, 4]) if dtype in INTS else np.array([0.5, 3.0, 1.5, 2.0])


def expected(row: Row, dtype: DType) -> Any:
    """numpy's result: integers wrap as C's do, small floats are rounded at the end."""
    wanted = row.result(dtype)
    x = values(dtype)
    if dtype not in FLOATS:
        # Float functions of small integers are in half precision in numpy, of wide ones in double.
        x = x.astype(np.float64 if wanted in FLOATS else oracle.storage(dtype))
    with np.errstate(all="ignore"):
        found = np.asarray(row.numpy(x))
    if wanted in oracle.SMALL_FLOATS:
        return oracle.round_small(found.astype(np.float32), wanted)
    return found.astype(oracle.storage(wanted))


# Within so many units of the last place: several roundings on the way.
CLOSE = {dtypes.float64: 1e-6, dtypes.float32: 1e-5, dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2,
         dtypes.fp8e4m3: 0.26, dtypes.fp8e4m3fnuz: 0.26, dtypes.fp8e5m2: 0.51,
         dtypes.fp8e5m2fnuz: 0.51}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_every_type(name: str) -> None:
    row = ROWS[name]
    found = {d: row.ours(Tensor(values(d).tolist(), dtype=d)) for d in row.types}
    types = {d: t.dtype for d, t in found.items()}
    assert types == {d: row.result(d) for d in row.types}
    Tensor.realize(*found.values())
    for d, t in found.items():
        right, got = expected(row, d), t.numpy()
        assert got.shape == right.shape, d
        if t.dtype in FLOATS:
            np.testing.assert_allclose(
                got.astype(np.float64), right.astype(np.float64), rtol=CLOSE[t.dtype], atol=1e-3,
                err_msg=str(d),
            )  # fmt: skip
        else:
            np.testing.assert_array_equal(got, right, err_msg=str(d))


REMAINDERS = np.array(
    [6.0, -6.0, 0.3, 7.5, -7.5, 1e6, 59.0, 0.0, np.inf, -np.inf, np.nan, 5.0], np.float64
)
DIVISORS = np.array([0.1, -0.1, 2.0, -2.0, 3.0, 0.7, np.inf, -np.inf, 0.0], np.float64)


each_remainder = pytest.mark.parametrize(
    ("ours", "numpy"),
    [
        (lambda a, b: a // b, np.floor_divide),
        (lambda a, b: a % b, np.mod),
        (lambda a, b: a.fmod(b), np.fmod),
    ],
    ids=["floor", "mod", "fmod"],
)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16])
@each_remainder
def test_quotients_are_not_rounded_before_they_are_cut(ours: Any, numpy: Any, dtype: DType) -> None:
    """6 // 0.1 is 59, as numpy and PyTorch have it: 0.1 is a little more than a tenth."""
    with np.errstate(all="ignore"):
        a, b = (x.astype(oracle.storage(dtype)) for x in np.meshgrid(REMAINDERS, DIVISORS))
        right = numpy(a, b)
    np.testing.assert_array_equal(ours(Tensor(a), Tensor(b)).numpy(), right)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16])
@each_remainder
def test_remainders_are_exact_however_large_the_quotient(
    ours: Any, numpy: Any, dtype: DType, device: str
) -> None:
    """Every pattern of bits: subnormal numbers, quotients of 2 ** 2000, infinities, NaN."""
    kind = oracle.storage(dtype)
    bits = np.random.default_rng(0).bytes(2 * (2000 if device == "CPU" else 60) * kind.itemsize)
    a, b = np.frombuffer(bits, kind).reshape(2, -1)
    with np.errstate(all="ignore"):
        right = numpy(a, b)
    found = ours(Tensor(a, device=device), Tensor(b, device=device)).numpy()
    np.testing.assert_array_equal(found, right)


def test_gradient_of_a_remainder() -> None:
    a, b = Tensor([7.5, -7.5, 6.0]), Tensor([2.0, 2.0, -4.0])
    ga, gb = (a % b).sum().gradient(a, b)
    assert (ga.tolist(), gb.tolist()) == ([1, 1, 1], [-3, 4, 2])
    ga, gb = a.fmod(b).sum().gradient(a, b)
    assert (ga.tolist(), gb.tolist()) == ([1, 1, 1], [-3, 3, 1])
    huge, tiny = Tensor([1e38]), Tensor([1e-30])
    ga, gb = huge.fmod(tiny).sum().gradient(huge, tiny)
    assert (ga.tolist(), gb.tolist()) == ([1], [0])


BEYOND: dict[str, Callable[[Any], Any]] = {
    "u > -1": lambda u: u > -1,
    "u >= -1": lambda u: u >= -1,
    "u < 300": lambda u: u < 300,
    "u <= 300": lambda u: u <= 300,
    "u < -1": lambda u: u < -1,
    "u > 300": lambda u: u > 300,
    "u == 257": lambda u: u == 257,
    "u != 256": lambda u: u != 256,
    "u == -255": lambda u: u == -255,
    "300 > u": lambda u: 300 > u,  # noqa: SIM300
    "clip": lambda u: u.clip(-1, 300),
    "clip numpy": lambda u: u.clip(np.int64(-1), np.int64(2)),
}


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8, dtypes.uint64, dtypes.int32])
@pytest.mark.parametrize("name", BEYOND)
def test_numbers_that_a_type_has_no_room_for_are_compared_as_they_are(
    name: str, dtype: DType
) -> None:
    """As numpy and tinygrad have it; PyTorch wraps them."""
    a = np.array([0, 1, 3, 255]).astype(oracle.storage(dtype))
    np.testing.assert_array_equal(BEYOND[name](Tensor(a)).numpy(), BEYOND[name](a))


def test_bounds_that_a_type_has_no_room_for_hold_nothing() -> None:
    u = Tensor([0, 1, 255], dtype=dtypes.uint8)
    assert u.maximum(-1).tolist() == u.minimum(300).tolist() == [0, 1, 255]
    i = Tensor([-128, 0, 127], dtype=dtypes.int8)
    assert i.maximum(-1000).tolist() == i.minimum(1000).tolist() == [-128, 0, 127]


def test_small_floats_without_infinities_are_finite() -> None:
    for d in (dtypes.fp8e4m3, dtypes.fp8e4m3fnuz, dtypes.fp8e5m2fnuz):
        t = Tensor([-d.lowest, d.lowest, 0.0, math.nan], dtype=d)
        assert t.isfinite().tolist() == [True, True, True, False]
        assert t.isinf().tolist() == [False] * 4
        assert t[:3].cummax()[0].tolist() == [-d.lowest] * 3
    assert Tensor([math.inf, 1.0], dtype=dtypes.fp8e5m2).isinf().tolist() == [True, False]


# What computes no elements of a type that is given, or draws them.
TYPELESS = """
    __bool__ __len__ as_param backward call callify custom_kernel data decode_hevc_frame device
    dtype element_size from_blob from_url grad gradient is_floating_point is_param is_param_ item
    linear_with_vars manual_seed max_numel max_shape nbytes ndim numel numpy realize
    schedule_linear shape shard shard_ shard_like size to to_ tolist uop hash keccak threefry
    random_bits glorot_uniform kaiming_normal kaiming_uniform multinomial normal rand rand_like
    randint randn randn_like randperm scaled_uniform uniform
"""


def test_every_method_has_a_row_of_types() -> None:
    named = {name.split(" ")[0] for name in ROWS}
    assert sorted(NAMES.keys() - named - set(TYPELESS.split())) == []
    assert sorted(named & set(TYPELESS.split())) == []


def test_bits_of_nothing_have_a_shape():
    assert Tensor.zeros(3, 0, dtype=dtypes.int32).bitcast(dtypes.uint8).shape == (3, 0)
    assert Tensor.zeros(0, 4, dtype=dtypes.uint8).bitcast(dtypes.int32).shape == (0, 1)
    assert Tensor.zeros(0, 4, dtype=dtypes.int32).bitcast(dtypes.uint8).shape == (0, 16)

"""Each of the 256 codes of each fp8 type, and what lies between them, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.dtype import (
    DType,
    can_lossless_cast,
    dtypes,
    float_layout,
    float_to_fp8,
    fp8_to_float,
    least_upper_dtype,
)

TORCH = {
    dtypes.fp8e4m3: "float8_e4m3fn",
    dtypes.fp8e5m2: "float8_e5m2",
    dtypes.fp8e4m3fnuz: "float8_e4m3fnuz",
    dtypes.fp8e5m2fnuz: "float8_e5m2fnuz",
}
CODES = np.arange(256, dtype=np.uint8)
LARGEST = {
    dtypes.fp8e4m3: 448.0, dtypes.fp8e5m2: 57344.0, dtypes.fp8e4m3fnuz: 240.0,
    dtypes.fp8e5m2fnuz: 57344.0, dtypes.float16: 65504.0, dtypes.float64: 1.7976931348623157e308,
}  # fmt: skip


def torch_values(dtype: DType) -> np.ndarray[Any, Any]:
    torch = pytest.importorskip("torch")
    codes = torch.from_numpy(CODES.copy()).view(getattr(torch, TORCH[dtype]))
    return np.asarray(codes.float().numpy())


def numbers(dtype: DType) -> np.ndarray[Any, Any]:
    """Values of the type, what is halfway between two, and a little beside that."""
    exact = np.array([fp8_to_float(int(c), dtype) for c in CODES], np.float32)
    some = np.unique(exact[np.isfinite(exact)])
    middle = (some[1:] + some[:-1]) / 2
    beyond = np.float32([1e-9, -1e-9, 460, 464, 465, 247, 248, 61439, 61440, 1e30, np.inf, np.nan])
    return np.concatenate(
        [some, middle, np.nextafter(middle, np.float32(9e9)), beyond, -beyond]
    ).astype(np.float32)


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(got, wanted)
    real = ~np.isnan(np.asarray(wanted, np.float32))
    np.testing.assert_array_equal(
        np.signbit(np.asarray(got))[real], np.signbit(np.asarray(wanted))[real]
    )


@pytest.mark.parametrize("dtype", dtypes.fp8s)
def test_codes_mean_what_they_mean_elsewhere(dtype: DType) -> None:
    wanted = torch_values(dtype)
    same([fp8_to_float(int(c), dtype) for c in CODES], wanted)
    same(Tensor(CODES).bitcast(dtype).cast(dtypes.float32).numpy(), wanted)


@pytest.mark.parametrize("dtype", dtypes.fp8s)
def test_numbers_are_rounded_to_the_nearest(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(dtype)
    wanted = torch.from_numpy(x).to(getattr(torch, TORCH[dtype])).float().numpy()
    if dtype is dtypes.fp8e4m3:  # older versions of PyTorch give NaN for what is too large
        wanted = np.where(np.abs(x) > 448, np.copysign(np.float32(448), x), wanted)
    same([fp8_to_float(float_to_fp8(float(v), dtype), dtype) for v in x], wanted)
    same(Tensor(x).cast(dtype).cast(dtypes.float32).numpy(), wanted)
    same(Tensor(x.tolist(), dtype=dtype).numpy(), wanted)


@pytest.mark.parametrize("dtype", dtypes.fp8s)
def test_arithmetic_and_gradients(dtype: DType) -> None:
    x = Tensor([0.5, -1.0, 3.0], dtype=dtype)
    y = (x * x + 1).sum()
    assert y.dtype is dtype
    near = float_layout(dtype).round
    assert y.item() == near(sum(near(near(v * v) + 1) for v in (0.5, -1.0, 3.0)))
    assert x.grad is None
    y.backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (dtype, [1.0, -2.0, 6.0])


@pytest.mark.parametrize("dtype", LARGEST)
def test_largest(dtype: DType) -> None:
    assert float_layout(dtype).largest == LARGEST[dtype]


def test_groups_and_promotion() -> None:
    assert dtypes.fp8_ocp == (dtypes.fp8e4m3, dtypes.fp8e5m2)
    assert dtypes.fp8_fnuz == (dtypes.fp8e4m3fnuz, dtypes.fp8e5m2fnuz)
    assert dtypes.fp8s == dtypes.fp8_ocp + dtypes.fp8_fnuz
    assert set(dtypes.fp8s) < set(dtypes.floats)
    assert least_upper_dtype(dtypes.fp8e4m3fnuz, dtypes.int64) is dtypes.fp8e4m3fnuz
    assert least_upper_dtype(dtypes.fp8e4m3fnuz, dtypes.fp8e4m3) is dtypes.float16


@pytest.mark.parametrize("narrow", dtypes.floats)
@pytest.mark.parametrize("wide", dtypes.fp8s)
def test_lossless_casts_lose_nothing(wide: DType, narrow: DType) -> None:
    if narrow in dtypes.fp8s:
        values = [fp8_to_float(int(c), narrow) for c in CODES]
        kept = [float_layout(wide).round(v) for v in values]
        exact = all(
            (math.isnan(a) and math.isnan(b))
            or (a == b and math.copysign(1, a) == math.copysign(1, b))
            for a, b in zip(values, kept, strict=True)
        )
        assert can_lossless_cast(narrow, wide) == exact
    else:
        assert not can_lossless_cast(narrow, wide)
        assert can_lossless_cast(wide, narrow)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, *dtypes.fp8s], ids=str)
def test_the_largest_double_is_too_large(dtype: DType) -> None:
    """Rounding it up would leave the doubles themselves."""
    layout = float_layout(dtype)
    for value in (1.7976931348623157e308, 2.0**1023, 2 * layout.largest):
        assert layout.round(value) == layout.beyond or math.isnan(layout.beyond)
        assert layout.round(-value) == -layout.beyond or math.isnan(layout.beyond)
    x = Tensor([1.7976931348623157e308, 1.0], dtype=dtypes.float64, device="PYTHON")
    assert x.cast(dtype).cast(dtypes.float32).tolist()[1] == 1.0

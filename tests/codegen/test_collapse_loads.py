"""Sums that pick, count or repeat: what they must not change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinylab import Tensor, dtypes


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_comparison_of_casts_of_floats(device: str) -> None:
    """A cast that hides no integer is no linear index: it used to be looked into for ever."""
    values = np.array([-1.5, 0.0, 2.0, 3.0], np.float32)
    x = Tensor(values, device=device).realize()
    index = (x.bool().cast(dtypes.int32) < Tensor.arange(4)).sum()
    assert index.item() == int((values.astype(bool).astype(np.int32) < np.arange(4)).sum())


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2.0])
def test_no_term_of_an_infinity_is_zero(device: str, value: float) -> None:
    """sum(r < n ? x : 0) is 0 for n = 0, not x * 0."""
    limit = Tensor(np.array([0, 2], np.int32), device=device).realize()
    x = Tensor(np.array([value, value], np.float32), device=device).realize()
    chosen = Tensor.arange(3).reshape(1, 3) < limit.reshape(2, 1)
    total = chosen.where(x.reshape(2, 1), 0.0).sum(1)
    np.testing.assert_array_equal(total.numpy(), [0.0, 2 * value])

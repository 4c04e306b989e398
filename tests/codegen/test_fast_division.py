"""Quotients by a product and a shift: exact for all integers that their bounds allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tinylab import Context, Tensor, dtypes
from tinylab.codegen.fast_division import multiplier
from tinylab.dtype import DType


@given(st.integers(2, 1 << 40), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_the_product_is_the_quotient(divisor: int, most: int, some: int) -> None:
    m, s = multiplier(divisor, most)
    worst = most // divisor * divisor  # a multiple, and what lies just below one
    for x in {0, most, min(some, most), worst, max(worst - 1, 0), min(divisor - 1, most)}:
        assert x * m >> s == x // divisor


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_division_of_every_type(dtype: DType, device: str) -> None:
    low, high = int(dtype.min), int(dtype.max)
    edges = [low, low + 1, high, high - 1, 0, 1, 2, 6, 7, 8, 13, 14, 100]
    data = np.array([x for x in edges if low <= x <= high] * 2, dtype=dtype.name)
    x = Tensor(data, device=device).realize()
    for divisor in (2, 3, 7, 10, 64, 100, 127):
        with Context(DISABLE_FAST_IDIV=0):
            found = [(x // divisor), (x % divisor), x.div(divisor, rounding_mode="trunc")]
            down, rest, cut = (t.numpy() for t in found)
        np.testing.assert_array_equal(down, data // divisor)
        np.testing.assert_array_equal(rest, data % divisor)
        wanted = [abs(int(v)) // divisor * (1 if v >= 0 else -1) for v in data]
        assert cut.tolist() == wanted


@pytest.mark.parametrize("shift", [15, 16, 17, 18, 20, 31, 32, 40, 63])
@pytest.mark.parametrize("factor", [18725, -18725, 32767, 9363, 74899])
def test_shifted_products_of_short_numbers(factor: int, shift: int) -> None:
    """LLVM 22 made -32768 * 18725 >> 17 of 64 bits, cast to 16, 28086 (its issue 218844)."""
    data = np.array([-32768, -32767, -300, -5, 5, 7, 100, 32767] * 4, np.int16)
    wide = Tensor(data).realize().cast(dtypes.int64) * factor
    wanted = (data.astype(np.int64) * factor >> shift).astype(np.int16)
    np.testing.assert_array_equal((wide >> shift).cast(dtypes.int16).numpy(), wanted)
    if shift < 62:
        np.testing.assert_array_equal((wide // (1 << shift)).cast(dtypes.int16).numpy(), wanted)

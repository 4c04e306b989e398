"""Values and gradients of the rows in rows_reduce.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tensor.rows_reduce import ROWS
from tests.tensor.table import table_tests
from tinylab import Tensor, dtypes
from tinylab.errors import ShapeError

test_value, test_gradient = table_tests(ROWS)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_exponentials_of_no_elements(shape: tuple[int, ...]) -> None:
    x = Tensor.zeros(*shape)
    assert x.softmax().shape == x.log_softmax().shape == shape
    assert x.softmax().numpy().shape == shape
    np.testing.assert_array_equal(x.logsumexp(-1).numpy(), np.full(shape[:-1], -np.inf, np.float32))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.half, dtypes.int32, dtypes.uint8])
def test_the_maximum_of_no_elements_is_the_least_value(dtype):
    x = Tensor.zeros(2, 0, 3, dtype=dtype)
    assert x.max(1).tolist() == [[dtype.min] * 3] * 2
    assert x.min((1, 2), keepdim=True).tolist() == [[[dtype.max]]] * 2
    assert (x.any().item(), x.all().item()) == (False, True)
    assert x.argmax(0).tolist() == []
    for place in (x.argmax, x.argmin):
        with pytest.raises(ShapeError, match="none of no elements is at a place: axis 1"):
            place(1)


def test_lengths_of_halves_are_right_where_their_squares_do_not_fit() -> None:
    x = np.random.default_rng(0).normal(size=(3, 300)) * 300
    half = x.astype(np.float16)
    np.testing.assert_allclose(
        Tensor(half).std(1).numpy(), half.astype(float).std(1, ddof=1), rtol=2e-3
    )
    right = half / np.linalg.norm(half.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(Tensor(half).normalize().numpy(), right, rtol=2e-3)
    assert Tensor(half).normalize().dtype is Tensor(half).std().dtype is dtypes.float16


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_scans_of_nothing_are_empty(shape: tuple[int, ...]) -> None:
    x = Tensor.ones(*shape)
    for found in (x.cumsum(0), x.cumprod(0), x.cummax(0)[0], x.logcumsumexp(0)):
        assert found.numpy().shape == shape

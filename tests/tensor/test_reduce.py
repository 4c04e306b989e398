"""Values and gradients of the rows in rows_reduce.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tensor.rows_reduce import ROWS
from tests.tensor.table import Row, check_gradient, check_value, ids
from tinylab import Tensor

WITH_GRADIENT = [r for r in ROWS if r.grad]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_value(row: Row) -> None:
    check_value(row)


@pytest.mark.parametrize("row", WITH_GRADIENT, ids=ids(WITH_GRADIENT))
def test_gradient(row: Row) -> None:
    check_gradient(row)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_exponentials_of_no_elements(shape: tuple[int, ...]) -> None:
    x = Tensor.zeros(*shape)
    assert x.softmax().shape == x.log_softmax().shape == shape
    assert x.softmax().numpy().shape == shape
    np.testing.assert_array_equal(x.logsumexp(-1).numpy(), np.full(shape[:-1], -np.inf, np.float32))

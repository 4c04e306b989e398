"""Values and gradients of the rows in rows_reduce.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tensor.rows_reduce import ROWS
from tests.tensor.table import table_tests
from tinylab import Tensor

test_value, test_gradient = table_tests(ROWS)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_exponentials_of_no_elements(shape: tuple[int, ...]) -> None:
    x = Tensor.zeros(*shape)
    assert x.softmax().shape == x.log_softmax().shape == shape
    assert x.softmax().numpy().shape == shape
    np.testing.assert_array_equal(x.logsumexp(-1).numpy(), np.full(shape[:-1], -np.inf, np.float32))

"""Values and gradients of the rows in rows_shapes.py."""

from __future__ import annotations

import pytest

from tests.tensor.rows_shapes import ROWS
from tests.tensor.table import Row, check_gradient, check_value, ids

WITH_GRADIENT = [r for r in ROWS if r.grad]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_value(row: Row) -> None:
    check_value(row)


@pytest.mark.parametrize("row", WITH_GRADIENT, ids=ids(WITH_GRADIENT))
def test_gradient(row: Row) -> None:
    check_gradient(row)

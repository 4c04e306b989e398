"""Values and gradients of the rows in rows_shapes.py."""

from __future__ import annotations

from tests.tensor.rows_shapes import ROWS
from tests.tensor.table import table_tests

test_value, test_gradient = table_tests(ROWS)

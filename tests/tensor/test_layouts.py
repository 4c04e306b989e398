"""The same rows with inputs that lie otherwise in memory: turned, cut out, reversed, empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tensor import rows_elementwise, rows_reduce, rows_shapes
from tests.tensor.table import Row, ids
from tinylab import Tensor

Array = np.ndarray[Any, Any]


def turned(x: Array) -> Tensor:
    """Stored with its axes in reverse order."""
    return Tensor(np.array(x.T, order="C")).permute(tuple(reversed(range(x.ndim))))


def cut_out(x: Array) -> Tensor:
    """Every second element, from the end, of a box of something larger without other numbers."""
    if not x.ndim:
        return Tensor(x)
    fill = np.nan if x.dtype.kind == "f" else 0
    wide = np.pad(np.repeat(x[::-1], 2, axis=0), [(1, 2)] * x.ndim, constant_values=fill)
    box = [(1, 1 + 2 * x.shape[0]), *((1, 1 + n) for n in x.shape[1:])]
    return Tensor(wide).shrink(tuple(box))[::-2]


LAYOUTS: dict[str, Callable[[Array], Tensor]] = {"turned": turned, "cut out": cut_out}
ROWS = [*rows_elementwise.ROWS, *rows_reduce.ROWS, *rows_shapes.ROWS]
# Thousands of elements, of which the plain layout is enough.
LARGE = {"cumsum long"}
ROWS = [r for r in ROWS if r.name not in LARGE]


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_keeps_the_values(name: str) -> None:
    for shape in ((), (3,), (3, 4), (2, 3, 4)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(LAYOUTS[name](x).numpy(), x)


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_layouts(row: Row) -> None:
    """All layouts give what numpy gives, whatever the strides."""
    arrays = row.inputs()
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in flat(row.numpy(*arrays))]
    for name, lay in LAYOUTS.items():
        for found, right in zip(flat(row.ours(*map(lay, arrays))), expected, strict=True):
            np.testing.assert_allclose(
                found.numpy(), right, rtol=row.rtol * 10, atol=row.atol * 10, err_msg=name
            )


# What works element by element, or along the last axis: shapes may have no elements.
EMPTY = [
    r for r in [*rows_elementwise.ROWS, *rows_reduce.ROWS]
    if all(isinstance(s, tuple) and s == (3, 4) for s in r.shapes)
]  # fmt: skip


@pytest.mark.parametrize("row", EMPTY, ids=ids(EMPTY))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_elements(row: Row) -> None:
    """As numpy: the same shape, or an error where a reduction has nothing to reduce."""
    arrays = [np.zeros((0, 4), np.float32) for _ in row.shapes]
    try:
        with np.errstate(all="ignore"):
            expected = [np.asarray(e) for e in flat(row.numpy(*arrays))]
    except (ValueError, IndexError):
        with pytest.raises((ValueError, IndexError)):
            [t.numpy() for t in flat(row.ours(*map(Tensor, arrays)))]
        return
    for found, right in zip(flat(row.ours(*map(Tensor, arrays))), expected, strict=True):
        assert found.shape == right.shape
        np.testing.assert_allclose(found.numpy(), right, rtol=row.rtol, atol=row.atol)

"""One row for each way to call a method: what it computes, in numpy, and on which inputs.

`check_value` compares values, `check_gradient` the gradient with central differences of the numpy
function in float64, so neither needs another framework; `test_torch.py` holds many against PyTorch
as well, where it is installed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A call. name: the method, then what is special after a space.

    shapes: of the float inputs, or arrays themselves. low, high: the range they are drawn from.
    grad: whether it has a gradient.
    """

    name: str
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    shapes: Sequence[Any] = ((3, 4),)
    low: float = -2.0
    high: float = 2.0
    grad: bool = True
    rtol: float = 1e-5
    atol: float = 1e-6

    @property
    def method(self) -> str:
        return self.name.split(" ")[0]

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """Arrays, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [
            np.array(s) if isinstance(s, (np.ndarray, list)) else
            rng.uniform(self.low, self.high, s).astype(np.float32)
            for s in self.shapes
        ]  # fmt: skip


def table_tests(rows: Sequence[Row]) -> tuple[Callable[[Row], None], Callable[[Row], None]]:
    """Two tests: the value of each row, and the gradients of those that have them."""

    @pytest.mark.parametrize("row", rows, ids=ids(rows))
    def test_value(row: Row) -> None:
        check_value(row)

    with_gradient = [row for row in rows if row.grad]

    @pytest.mark.parametrize("row", with_gradient, ids=ids(with_gradient))
    def test_gradient(row: Row) -> None:
        check_gradient(row)

    return test_value, test_gradient


def ids(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows]


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check_value(row: Row) -> None:
    arrays = row.inputs()
    with np.errstate(all="ignore"):
        expected = _flat(row.numpy(*arrays))
    got = _flat(row.ours(*(Tensor(a) for a in arrays)))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        e, found = np.asarray(e), g.numpy()
        assert found.shape == e.shape, f"{row.name}: shape {found.shape}, right is {e.shape}"
        if e.dtype.kind == "f":
            assert found.dtype.kind == "f", f"{row.name}: {found.dtype}, right is a float"
        np.testing.assert_allclose(found, e, rtol=row.rtol, atol=row.atol, err_msg=row.name)


def check_other_device(row: Row, device: str, further: str) -> None:
    """What is worked out from tensors on a device is on that device, and right.

    It is asked for on a further one: what is on no device yet must come to the first all the same.
    """
    arrays = row.inputs()
    with np.errstate(all="ignore"):
        expected = _flat(row.numpy(*arrays))
    got = _flat(row.ours(*(Tensor(a, device=device) for a in arrays)))
    for g, e in zip(got, expected, strict=True):
        everywhere = g.uop.device is None and all(0 in np.shape(a) for a in arrays)
        assert g.device == device or everywhere, f"{row.name}: on {g.device}, not {device}"
        found = g.to(further).numpy()
        np.testing.assert_allclose(found, np.asarray(e), row.rtol, row.atol, err_msg=row.name)


def _weights(row: Row, shapes: Sequence[Shape]) -> list[np.ndarray[Any, Any]]:
    """What the result is multiplied by, so that no symmetry hides a mistake."""
    rng = np.random.default_rng(zlib.crc32(row.name.encode()) + 1)
    return [rng.uniform(0.5, 1.5, s).astype(np.float32) for s in shapes]


def _ours_loss(row: Row, tensors: Sequence[Tensor], weights: Sequence[Any]) -> Tensor:
    found = [r for r in _flat(row.ours(*tensors)) if r.is_floating_point()]
    return Tensor.usum(*((r * Tensor(w)).sum() for r, w in zip(found, weights, strict=True)))


def our_gradients(row: Row) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any] | None]]:
    """(inputs, gradients of the float ones) of a weighted sum of the results."""
    arrays = row.inputs()
    shapes = [np.shape(e) for e in _flat(row.numpy(*arrays)) if np.asarray(e).dtype.kind == "f"]
    tensors = [Tensor(a) for a in arrays]
    _ours_loss(row, tensors, _weights(row, shapes)).backward()
    return arrays, [None if t.grad is None else t.grad.numpy() for t in tensors]


def check_gradient(row: Row) -> None:
    arrays, got = our_gradients(row)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    shapes = [np.shape(e) for e in _flat(row.numpy(*arrays)) if np.asarray(e).dtype.kind == "f"]
    weights = _weights(row, shapes)

    def loss() -> float:
        results = [e for e in _flat(row.numpy(*wide)) if np.asarray(e).dtype.kind == "f"]
        return float(
            sum(np.sum(e * w.astype(np.float64)) for e, w in zip(results, weights, strict=True))
        )

    for array, grad in zip(wide, got, strict=True):
        if array.dtype.kind != "f":
            continue
        assert grad is not None, f"{row.name}: no gradient"
        assert grad.shape == array.shape
        np.testing.assert_allclose(
            grad, _differences(array, loss), rtol=2e-3, atol=2e-4, err_msg=row.name
        )


def _differences(x: np.ndarray[Any, Any], f: Callable[[], float]) -> np.ndarray[Any, Any]:
    step = 1e-5
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        kept = x[at]
        x[at] = kept + step
        above = f()
        x[at] = kept - step
        below = f()
        x[at] = kept
        found[at] = (above - below) / (2 * step)
    return found

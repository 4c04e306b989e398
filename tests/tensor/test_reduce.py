"""Values and gradients of the rows in rows_reduce.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.tensor.rows_reduce import ROWS
from tests.tensor.table import table_tests
from tinylab import GlobalCounters, Tensor, dtypes
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


SEEN = np.array([[True, False, True], [False, False, False]])


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("added", [False, True])
def test_attention_that_looks_at_nothing_is_0(added: bool, dtype: str, device: str) -> None:
    """PyTorch's is; it was NaN, and so were all gradients."""
    q, k, v = (
        Tensor(np.random.default_rng(n).standard_normal((n, 4)).astype(dtype), device=device)
        for n in (2, 3, 3)
    )
    mask = Tensor(np.where(SEEN, 0, -np.inf).astype(dtype) if added else SEEN, device=device)
    found = q.scaled_dot_product_attention(k, v, attn_mask=mask)
    assert found[1].tolist() == [0] * 4
    assert found[0].ne(0).all().item()
    grads = found.sum().gradient(q, k, v)
    assert all(g.isfinite().all().item() for g in grads)
    assert grads[0][1].tolist() == [0] * 4
    assert grads[2][1].tolist() == [0] * 4  # the key that nobody looks at


def test_a_mask_costs_attention_no_kernel_and_hides_no_nan() -> None:
    x, mask = Tensor.ones(2, 3, 4).realize(), Tensor(SEEN[[0, 0, 1]]).realize()
    counts = []
    for m in (None, mask):
        GlobalCounters.reset()
        x.scaled_dot_product_attention(x * 2, x * 3, attn_mask=m).realize()
        counts.append(GlobalCounters.kernel_count)
    assert counts[0] == counts[1]
    key = Tensor([[[math.nan] * 4, [1.0] * 4, [1.0] * 4]] * 2)
    found = x.scaled_dot_product_attention(key, x, attn_mask=mask)
    assert found[0].isnan().all(-1).tolist() == [True, True, False]

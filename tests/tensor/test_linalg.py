"""Decompositions, unpooling, rearranging: what a formula in one row does not say."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.errors import OperandError, ShapeError


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_qr(shape: tuple[int, ...]) -> None:
    a = drawn(*shape)
    q, r = (t.numpy() for t in Tensor(a).qr())
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    np.testing.assert_allclose(
        q.swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(shape[-2]), q.shape), atol=1e-5
    )
    np.testing.assert_allclose(np.tril(r, -1), 0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
def test_svd(shape: tuple[int, ...]) -> None:
    a = drawn(*shape)
    u, s, v = (t.numpy() for t in Tensor(a).svd())
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=1e-4)
    k = len(s)
    np.testing.assert_allclose(u[:, :k] * s @ v[:k], a, atol=1e-4)
    np.testing.assert_allclose(u.T @ u, np.eye(len(u)), atol=1e-4)
    np.testing.assert_allclose(v @ v.T, np.eye(len(v)), atol=1e-4)


DEFICIENT = {
    "zero": np.zeros((1, 1)),
    "ones": np.ones((2, 2)),
    "rank_1": [[1, 2], [2, 4]],
    "tall": np.ones((4, 2)),
    "wide": np.zeros((2, 4)),
    "batch": [[[1, 1], [1, 1]], [[0, 0], [0, 0]], [[0, 2], [1, 0]]],
    "tiny": np.outer([1, 2], [1, 2]) * 1e-30,
    "large": np.ones((2, 2)) * 1e30,
}


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", DEFICIENT)
def test_svd_is_orthogonal_whatever_the_rank(name: str, full: bool) -> None:
    a = np.array(DEFICIENT[name], np.float32)
    u, s, v = (t.numpy() for t in Tensor(a).svd(full_matrices=full))
    right = np.linalg.svd(a, full_matrices=full)
    assert [m.shape for m in (u, s, v)] == [m.shape for m in right]
    top = np.abs(a).max() or 1
    np.testing.assert_allclose(s / top, right[1] / top, atol=1e-6)
    k = s.shape[-1]
    product = (u[..., :k] * (s / top)[..., None, :]) @ v[..., :k, :]
    np.testing.assert_allclose(product, a / top, atol=2e-6)
    for columns in (u, v.swapaxes(-1, -2)):
        eye = np.broadcast_to(np.eye(columns.shape[-1]), (*a.shape[:-2], *[columns.shape[-1]] * 2))
        np.testing.assert_allclose(columns.swapaxes(-1, -2) @ columns, eye, atol=2e-6)


def test_pooling_and_back() -> None:
    x = np.random.default_rng(0).permutation(32).reshape(1, 2, 4, 4).astype(np.float32)
    values, places = Tensor(x).max_pool2d(return_indices=True)
    flat = x.reshape(1, 2, 16)
    assert np.array_equal(
        np.take_along_axis(flat, places.numpy().reshape(1, 2, -1), -1),
        values.numpy().reshape(1, 2, -1),
    )
    back = values.max_unpool2d(places).numpy()
    kept = np.isin(x, values.numpy())
    assert np.array_equal(back, np.where(kept, x, 0))


def test_ceil_mode() -> None:
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    assert Tensor(x).max_pool2d(2, ceil_mode=True).tolist() == [
        [[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]
    ]
    assert Tensor(x).avg_pool2d(2, ceil_mode=True).tolist() == [
        [[[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]]]
    ]


def test_image_methods_change_no_value() -> None:
    x, w = Tensor(drawn(1, 4, 4, 4)), Tensor(drawn(4, 4, 3, 3))
    assert x.image_conv2d(w).tolist() == x.conv2d(w).tolist()
    a = Tensor(drawn(3, 4))
    assert a.image_dot(a.T).tolist() == a.dot(a.T).tolist()


def test_rearrange() -> None:
    x = drawn(2, 12, 5)
    t = Tensor(x)
    right = x.reshape(2, 3, 4, 5).transpose(2, 0, 1, 3)
    assert np.array_equal(t.rearrange("b (h w) c -> w b h c", h=3).numpy(), right)
    assert np.array_equal(t.rearrange("b ... -> ... b").numpy(), x.transpose(1, 2, 0))
    assert t.rearrange("b s c -> b 1 (s c)").shape == (2, 1, 60)
    assert t.rearrange("... c -> (...) c").shape == (24, 5)


@pytest.mark.parametrize(
    ("formula", "sizes", "error", "text"),
    [
        ("a b c", {}, OperandError, "needs one '->'"),
        ("a b -> b a", {}, ShapeError, "does not fit shape"),
        ("a (b c) d -> a b c d", {}, OperandError, "are not known"),
        ("a (b c) d -> a b c d", {"b": 5}, ShapeError, "size 12"),
        ("a b c -> a b", {}, OperandError, "same names"),
        ("a a c -> a c", {}, OperandError, "occurs twice"),
        ("a (b c -> a b c", {}, OperandError, "brackets"),
        ("a b c -> a b c", {"x": 1}, OperandError, "has no 'x'"),
        ("a b ? -> a b", {}, OperandError, "cannot read"),
    ],
)
def test_rearrange_says_what_is_wrong(formula, sizes, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        Tensor(drawn(2, 12, 5)).rearrange(formula, **sizes)


def test_matmul_keeps_small_floats_accurate() -> None:
    a = (np.ones((1, 4096)) * 0.01).astype(np.float16)
    b = np.ones((4096, 1), np.float16)
    got = (Tensor(a) @ Tensor(b)).item()
    assert got == pytest.approx(
        float((a.astype(np.float32) @ b.astype(np.float32))[0, 0]), rel=1e-3
    )


def test_large_scans_and_sorts_need_no_squares() -> None:
    n = 200_000
    x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    np.testing.assert_allclose(
        Tensor(x).cumsum().numpy(), np.cumsum(x.astype(np.float64)), atol=2e-2
    )
    assert Tensor(x)[Tensor([5, n - 1, 77])].tolist() == x[[5, n - 1, 77]].tolist()
    assert Tensor(x).argmax().item() == int(x.argmax())

"""Products, unpooling, rearranging: what a formula in one row does not say."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.errors import OperandError, ShapeError


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


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

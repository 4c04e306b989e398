"""WINO=1: the same convolution with fewer products."""

import numpy as np
import pytest

from tinylab import Context, Tensor, dtypes
from tinylab.mixin import winograd

CASES = {
    "two axes": ((2, 5, 17, 13), (6, 5, 3, 3), {"padding": 1}),
    "groups": ((1, 4, 6, 6), (4, 2, 3, 3), {"groups": 2}),
    "one axis": ((1, 3, 11), (5, 3, 3), {"padding": 1}),
    "three axes": ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), {"padding": (1, 1, 0, 1, 1, 1)}),
    "one window": ((1, 1, 3, 3), (1, 1, 3, 3), {}),
}


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_the_plain_way(case: str) -> None:
    shape, kernel, more = CASES[case]

    def found(wino: int) -> list[np.ndarray]:
        x, w, b = (Tensor(_normal(*s)) for s in (shape, kernel, kernel[:1]))
        with Context(WINO=wino):
            y = x.conv2d(w, b, **more)
            return [t.numpy() for t in (y, *(y * y).sum().gradient(x, w, b))]

    for plain, other in zip(found(0), found(1), strict=True):
        assert not np.array_equal(plain, other) or plain.size == kernel[0]  # it was another way
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-5 * np.abs(plain).max())


@pytest.mark.parametrize(
    ("kernel", "more"),
    [((5, 5), {}), ((3, 1), {}), ((3, 3), {"stride": 2}), ((3, 3), {"dilation": 2})],
)
def test_other_convolutions_stay_as_they_are(kernel: tuple[int, int], more: dict[str, int]) -> None:
    x, w = Tensor.ones(1, 2, 9, 9), Tensor.ones(3, 2, *kernel)
    plain = x.conv2d(w, **more)
    with Context(WINO=1):
        assert x.conv2d(w, **more).uop is plain.uop


def test_integers_stay_exact_and_small_floats_keep_their_type() -> None:
    x, w = Tensor.arange(36).reshape(1, 1, 6, 6), Tensor.ones(1, 1, 3, 3, dtype=dtypes.int)
    with Context(WINO=1):
        assert x.conv2d(w).tolist()[0][0][0][0] == 63
        assert x.cast(dtypes.half).conv2d(w.cast(dtypes.half)).dtype == dtypes.half


def test_the_matrices_filter_exactly() -> None:
    """y = A^T ((G g) * (B^T d)) for every basis vector of g and d, in exact arithmetic."""
    out, into, kernel = (np.array(m) for m in (winograd.OUTPUT, winograd.INPUT, winograd.FILTER))
    for i in range(winograd.KERNEL):
        for j in range(winograd.TILE):
            g, d = np.eye(winograd.KERNEL)[i], np.eye(winograd.TILE)[j]
            expected = [float(j == o + i) for o in range(winograd.OUT)]
            np.testing.assert_allclose(out @ ((kernel @ g) * (into @ d)), expected, atol=1e-12)

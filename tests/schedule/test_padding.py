"""Windows that hold nothing but padding: a guard that is never true is kept, not forgotten."""

import numpy as np
import pytest

from tinylab import Tensor


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_only_padding_is_zero(device, rows):
    values = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    x = Tensor(values).to(device).contiguous().realize()
    found = x.pad(((0, 0), (2, 0), (2, 2))).shrink(((0, 1), (0, rows), (0, 6))).numpy()
    wanted = np.pad(values, ((0, 0), (2, 0), (2, 2)))[:1, :rows, :6]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_one_element_stands_at_0_whatever_place_is_asked_for(device):
    a = Tensor([0.3]).to(device).realize()
    (grad,) = (a.cat(a * 2).softmax(0) * Tensor([1.0, 10.0]).to(device)).sum().gradient(a)
    # p = softmax(0.3, 0.6): 9 * p0 * p1, once for the second element's two and once for the first.
    e = np.exp([0.3, 0.6])
    p = e / e.sum()
    np.testing.assert_allclose(grad.numpy(), [9 * p[0] * p[1]], rtol=1e-5)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_numbers_side_by_side_over_one_divisor(device):
    t = Tensor(np.array(-0.3, np.float32)).to(device).realize()
    pair = Tensor.stack(t, t + 1).leaky_relu(0.1) / Tensor([2.0]).to(device)
    np.testing.assert_allclose(pair.numpy(), [-0.015, 0.35], rtol=1e-5)

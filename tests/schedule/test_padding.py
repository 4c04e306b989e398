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

"""Kernels of another device held against the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Context, Tensor, Variable
from tinylab.errors import DeviceError
from tinylab.runtime.ops_python import PythonProgram

A = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_what_agrees_passes() -> None:
    with Context(DEV="PYTHON", VALIDATE_WITH_CPU=1):
        x = Tensor(A).realize()
        np.testing.assert_allclose((x @ x.T).softmax().numpy().sum(1), np.ones(4), rtol=1e-5)
        part = x[: Variable("n", 1, 4).bind(3)]
        np.testing.assert_allclose(part.sum(0).numpy(), A[:3].sum(0))
        x[1:3] = x[1:3] * 2
        np.testing.assert_allclose(x.numpy()[1:3], A[1:3] * 2)


def test_what_differs_is_told_with_the_kernel_and_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = PythonProgram.__call__

    def wrong(self: PythonProgram, *bufs: memoryview, **how: object) -> float | None:
        seconds = plain(self, *bufs, **how)
        memoryview(bufs[0]).cast("B")[8:12] = bytes(4)
        return seconds

    with Context(DEV="PYTHON"):
        x = Tensor(A).realize()
        monkeypatch.setattr(PythonProgram, "__call__", wrong)
        assert (x + 1.5).numpy()[0, 2] == 0.0
        with (
            Context(VALIDATE_WITH_CPU=1),
            pytest.raises(
                DeviceError, match=r"on PYTHON gives 0.0 at element 2 of argument 0"
            ) as e,
        ):
            (x + 2.5).realize()
    assert "and the CPU 4.5; 1 of 12 elements differ" in str(e.value)

"""Every kernel of the collection, with and without opts, on two devices, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernels import KERNELS, accumulated, random_arrays, run
from tests.oracle import run_kernel
from tinylab.helpers.context import Context

TOLERANCE = {np.dtype(np.float16): 2e-3}


def assert_equal_arrays(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(got, wanted, strict=True):
        tolerance = TOLERANCE.get(a.dtype, 1e-5)
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=1e-5
        )


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("noopt", [1, 0])
@pytest.mark.parametrize("name", [n for n in KERNELS if n != "accumulated"])
def test_kernel(name: str, noopt: int, device: str) -> None:
    kernel = KERNELS[name]()
    arrays = random_arrays(kernel)
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    with Context(NOOPT=noopt):
        got = run(kernel, arrays, device)
    assert_equal_arrays(got, wanted)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("noopt", [1, 0])
def test_register_written_by_hand(noopt: int, device: str) -> None:
    kernel = accumulated()
    arrays = random_arrays(kernel)
    with Context(NOOPT=noopt):
        got = run(kernel, arrays, device)
    np.testing.assert_allclose(got[0], arrays[1].sum(keepdims=True), rtol=1e-6)


def test_special_values_in_padded_reduces() -> None:
    """Padding adds nothing: not to a product, not to a maximum below zero, not beside a NaN."""
    from tests.codegen.kernels import row_reduce
    from tinylab.codegen.opt import Opt, OptOps
    from tinylab.opcodes import Ops

    opts = (Opt(OptOps.PADTO, 1, 8), Opt(OptOps.UNROLL, 0, 8))
    for op, wanted in ((Ops.ADD, np.sum), (Ops.MUL, np.prod), (Ops.MAX, np.max)):
        kernel = row_reduce(op, 3, 11)
        kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
        x = np.random.default_rng(0).uniform(-2, -1, (3, 11)).astype(np.float32)
        x[1, 4] = np.nan
        got = run(kernel, [np.zeros(3, np.float32), x.reshape(-1)])
        np.testing.assert_allclose(got[0], wanted(x, axis=1), rtol=1e-5)

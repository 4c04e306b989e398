"""Every kernel of the collection, with and without opts, on two devices, against the oracle."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tests.codegen.kernels import (
    F32,
    KERNELS,
    accumulated,
    arange,
    column_sum,
    convolution,
    elementwise,
    flip,
    gather,
    in_place,
    matmul,
    pad,
    param,
    random_arrays,
    reshaped,
    row_reduce,
    run,
    sink,
    softmax,
    total,
    transpose,
    two_sums,
    variance,
)
from tests.oracle import run_kernel
from tinylab.codegen.gpu_dims import grouped_dims
from tinylab.codegen.opt import Opt, OptOps, heuristic
from tinylab.dtype import dtypes
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

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
    opts = (Opt(OptOps.PADTO, 1, 8), Opt(OptOps.UNROLL, 0, 8))
    for op, wanted in ((Ops.ADD, np.sum), (Ops.MUL, np.prod), (Ops.MAX, np.max)):
        kernel = row_reduce(op, 3, 11)
        kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
        x = np.random.default_rng(0).uniform(-2, -1, (3, 11)).astype(np.float32)
        x[1, 4] = np.nan
        got = run(kernel, [np.zeros(3, np.float32), x.reshape(-1)])
        np.testing.assert_allclose(got[0], wanted(x, axis=1), rtol=1e-5)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_whole_arrays_are_looped_over(device: str) -> None:
    """As a kernel written by hand says it: o.store(a + b), with a row broadcast over a matrix."""
    a, b = UOp.placeholder((6, 4), F32, 1), UOp.placeholder((1, 4), F32, 2)
    kernel = sink(UOp.placeholder((6, 4), F32, 0).store(a * 2.0 + b))
    x, y = np.arange(24, dtype=np.float32), np.arange(4, dtype=np.float32)
    got = run(kernel, [np.zeros(24, np.float32), x, y], device)
    np.testing.assert_array_equal(got[0].reshape(6, 4), x.reshape(6, 4) * 2 + y)


def test_the_last_tile_of_an_update_in_place_is_not_done_twice() -> None:
    kernel = in_place(41)
    opts = (Opt(OptOps.PADTO, 0, 16), Opt(OptOps.UPCAST, 0, 16))
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    x = np.arange(41, dtype=np.float32)
    np.testing.assert_array_equal(run(kernel, [x])[0], x * 2 + 1)


def test_heuristics_at_odd_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads from the first nanosecond, sizes around every tile: all paths of the heuristics."""
    rng = random.Random(11)
    monkeypatch.setattr(heuristic, "THREAD_NS", 1)
    for seed in range(150):
        m, n, k = (
            rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, rng.randint(1, 70)])
            for _ in range(3)
        )
        kernel = rng.choice(
            [
                matmul(m, n, k),
                row_reduce(Ops.MAX, m, n),
                column_sum(m, n),
                total(m, n),
                elementwise(m, n),
                transpose(m, n),
                flip(m),
                pad(m, n % 9, k % 9),
                reshaped(m, n),
                softmax(m, n),
                variance(m, n),
                two_sums(m, n),
                gather(m, n, k),
                arange(m),
                in_place(m),
                matmul(m, n, k, dtypes.float64),
                convolution(1 + k % 4, 1 + m % 18, 1 + 2 * (n % 2)),
            ]
        )
        arrays = random_arrays(kernel, seed)
        wanted = [a.copy() for a in arrays]
        run_kernel(kernel, wanted)
        for a, b in zip(run(kernel, arrays), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed}")


def test_a_large_grid_is_cut_into_axes_at_once() -> None:
    """Divisors were tried one by one: 2**40 places took half a minute."""
    limits = (1 << 31, 65535, 65535)
    places = grouped_dims("gidx", [3 << 40], limits)
    sizes = [int(u.src[0].arg) for u in places[0].toposort() if u.op is Ops.SPECIAL]
    assert math.prod(sizes) == 3 << 40
    assert all(a <= b for a, b in zip(sizes, limits, strict=False))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_stores_of_one_loop_that_end_at_different_places(device: str) -> None:
    """The last tile is not moved back to where one store ends: the other one writes further."""
    i = UOp.range(16, 0)
    x = param(2, 16).index(i)
    kernel = sink(
        param(0, 16).index(i).store(x + 1.0).end(i),
        param(1, 16).index(i.valid(i < 13)).store(x * 2.0).end(i),
        opts=[Opt(OptOps.UPCAST, 0, 4)],
    )
    arrays = random_arrays(kernel)
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    assert_equal_arrays(run(kernel, arrays, device), wanted)


@pytest.mark.parametrize("symbolic", [1, 2, 4])
def test_a_grid_of_more_axes_than_there_are_some_of_them_symbolic(symbolic: int) -> None:
    sizes: list[Any] = [2, 3, 2, 3]
    values = {f"n{i}": i + 1 for i in range(symbolic)}
    for i in range(symbolic):
        sizes[i] = UOp.variable(f"n{i}", 1, 4, param=True)
    axes = [UOp.range(n, i) for i, n in enumerate(sizes)]
    place = axes[0]
    for rng in axes[1:]:
        place = place * 5 + rng  # gaps, so that no two axes are merged
    kernel = sink(param(0, 625).index(place).store(param(1, 625).index(place) + 1.0).end(*axes))
    arrays = [np.zeros(625, np.float32), np.arange(625, dtype=np.float32)]
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted, values)
    assert_equal_arrays(run(kernel, arrays, "PYTHON", values), wanted)

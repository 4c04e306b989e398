"""What is stored, in which type; and buffers that several kernels write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, UOp, dtypes
from tinylab.engine.linear import run_linear
from tinylab.opcodes import Ops

RNG = np.random.default_rng(0)


def written(linear: UOp) -> list[UOp]:
    """The buffer that each call writes to, as far as it is one."""
    return [call.src[1] for call in linear.src]


def centred(x: Tensor) -> Tensor:
    """Reads each element in two ways."""
    return (x - x.max(1, keepdim=True)).exp().sum(1)


@pytest.mark.parametrize("narrow", [dtypes.half, dtypes.bfloat16])
def test_a_value_is_stored_before_a_cast_that_widens_it(narrow: Any):
    a = Tensor(RNG.standard_normal((32, 16)).astype(np.float32)).cast(narrow).realize()
    b = Tensor(RNG.standard_normal((16, 32)).astype(np.float32)).cast(narrow).realize()
    product = a @ b
    found = centred(product.cast(dtypes.float32))
    linear = found.schedule_linear()
    assert [m.dtype for m in written(linear)] == [narrow, dtypes.float32, dtypes.float32]
    run_linear(linear)
    x = (a @ b).cast(dtypes.float32).numpy()
    want = np.exp(x - x.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4)


def test_a_value_is_stored_after_a_cast_that_narrows_it():
    a, b = Tensor.empty(32, 16).realize(), Tensor.empty(16, 32).realize()
    linear = centred((a @ b).cast(dtypes.half)).schedule_linear()
    assert written(linear)[0].dtype is dtypes.half


def quarters(out: Any, a: Any, b: Any) -> Any:
    """Four kernels, each of which writes a quarter of one buffer."""
    half = a @ b
    out[:2, :2] = half[:2, :2]
    out[:2, 2:] = half[:2, 2:] * 2
    out[2:, :2] = a[:2].sum(0)[:2]
    out[2:, 2:] = half[2:, :2].max()
    return out


A = RNG.integers(-4, 5, (4, 4)).astype(np.float32)
B = RNG.integers(-4, 5, (4, 4)).astype(np.float32)


def test_several_kernels_write_one_buffer():
    out, a, b = Tensor.empty(4, 4).realize(), Tensor(A).realize(), Tensor(B).realize()
    linear = quarters(out, a, b).schedule_linear()
    writes = [m for m in written(linear) if m is out.uop.base]
    assert len(writes) == 4
    run_linear(linear)
    np.testing.assert_array_equal(out.numpy(), quarters(np.empty((4, 4), np.float32), A, B))


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_several_kernels_write_one_buffer_in_every_way_to_run(
    jit: int, planned: bool, stored: bool
):
    @TinyJit
    def step(a: Tensor, b: Tensor) -> Tensor:
        out = Tensor.full((4, 4), -1.0)
        out = out.contiguous().realize() if stored else out
        return quarters(out, a, b)

    with Context(JIT=jit, NO_MEMORY_PLANNER=int(not planned)):
        for n in range(4):
            found = step(Tensor(A + n).realize(), Tensor(B - n).realize())
            want = quarters(np.empty((4, 4), np.float32), A + n, B - n)
            np.testing.assert_array_equal(found.numpy(), want)


def test_the_same_elements_written_by_several_kernels_are_those_of_the_last():
    out, old = Tensor(A).realize(), A.copy()
    before = out + 0
    kept = []
    for n in range(4):
        out[n % 2 :] = out[n % 2 :].flip(0) + n
        old[n % 2 :] = old[n % 2 :][::-1] + n
        kept.append((out * 1, old.copy()))
    np.testing.assert_array_equal(out.numpy(), old)
    np.testing.assert_array_equal(before.numpy(), A)
    for found, want in kept:
        np.testing.assert_array_equal(found.numpy(), want)


def test_copies_from_several_devices_fill_one_buffer():
    devices = ("CPU:1", "CPU:2", "CPU:3")
    data = np.arange(24, dtype=np.float32).reshape(6, 4)
    whole = (Tensor(data).shard(devices, 0).realize() * 2).to("CPU")
    linear = whole.schedule_linear()
    copies = [c for c in linear.src if c.src[0].op is Ops.COPY]
    targets = {c.src[1].src[0] if c.src[1].op is Ops.SHRINK else c.src[1] for c in copies}
    assert (len(copies), len(targets)) == (3, 1)
    run_linear(linear)
    np.testing.assert_array_equal(whole.numpy(), data * 2)

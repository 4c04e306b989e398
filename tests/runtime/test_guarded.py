"""Kernels of the whole compiler, run between guard pages: none touches what is not its own."""

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.helpers import Context
from tinylab.lab.worker import Job, Slot, Worker
from tinylab.runtime.ops_cpu import CPUProgram
from tinylab.target import host_machine

SIZES = [1, 3, 17, 33, 100]

CASES = {
    "add": lambda n: Tensor.rand(n, n + 1) + Tensor.rand(n, n + 1),
    "matmul": lambda n: Tensor.rand(n, n + 2) @ Tensor.rand(n + 2, 2 * n + 1),
    "sum of rows": lambda n: Tensor.rand(n, 2 * n + 1).sum(1),
    "sum of columns": lambda n: Tensor.rand(n, 2 * n + 1).sum(0),
    "softmax": lambda n: Tensor.rand(n, n).softmax(),
    "transpose": lambda n: Tensor.rand(n, n + 3).T.contiguous(),
    "pad": lambda n: Tensor.rand(n, n).pad(((1, 2), (0, 3))) + 1,
    "shrink and flip": lambda n: Tensor.rand(n + 2, n).shrink(((1, n + 1), (0, n))).flip(1) * 2,
    "conv2d": lambda n: Tensor.rand(1, 2, n + 2, n + 2).conv2d(Tensor.rand(3, 2, 3, 3)),
    "max_pool2d": lambda n: Tensor.rand(1, 2, n + 1, n + 1).max_pool2d(),
    "gather": lambda n: Tensor.rand(n, 4)[Tensor.arange(n) % 2],
    "bytes": lambda n: (Tensor.rand(n, n) * 100).cast(dtypes.uint8) + 1,
    "half": lambda n: Tensor.rand(n, n).half().exp().float().sum(0),
    "cumsum": lambda n: Tensor.rand(n, n).cumsum(1),
}


@pytest.fixture
def guarded(monkeypatch):
    """Runs each kernel again, apart, on copies of its buffers, and compares what it left."""
    ran, worker, call = [], Worker.shared(), CPUProgram.__call__

    def both(self, *bufs, global_size=(1, 1, 1), local_size=None, vals=(), wait=False):
        before = [bytes(b.view()) for b in bufs]
        call(self, *bufs, global_size=global_size, vals=vals)
        slots = [
            Slot(f"data{i}", b.size, data, output=True)
            for i, (b, data) in enumerate(zip(bufs, before, strict=True))
        ]
        job = Job(self.name, self.obj.lib, slots, vals, global_size[0])
        outcome = worker.run(job, budget_s=0)
        assert outcome.ok, f"{self.name}: {outcome.message}"
        for i, b in enumerate(bufs):
            assert outcome.outputs[i] == bytes(b.view()), f"{self.name} differs in data{i}"
        ran.append(self.name)
        return 1e-6

    monkeypatch.setattr(CPUProgram, "__call__", both)
    return ran


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_no_kernel_leaves_its_buffers(guarded, case, n):
    result = CASES[case](n).numpy()
    assert np.isfinite(result).all()
    assert guarded


@pytest.mark.skipif(host_machine() != "x86_64", reason="names x86 processors")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("case", CASES)
def test_nor_one_for_a_lesser_processor(guarded, case, cpu):
    with Context(DEV=f"CPU:LLVM:x86_64,{cpu}"):
        assert np.isfinite(CASES[case](33).numpy()).all()

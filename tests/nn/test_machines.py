"""Several machines: what goes through the seam, and two real ranks where MPI is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.errors import DTypeError
from tinylab.nn.machines import Transport, all_gather, all_reduce, broadcast
from tinylab.opcodes import Ops

DATA = np.arange(8, dtype=np.float32)


class Mirror(Transport):
    """Two machines of which the other one has everything doubled."""

    rank, size = 0, 2

    def all_reduce(self, data: Any, op: Ops) -> Any:
        return {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op](data, data * 2)

    def all_gather(self, data: Any) -> list[Any]:
        return [data, data * 2]

    def broadcast(self, data: Any, root: int) -> Any:
        return data if root == 0 else data * 2

    def barrier(self) -> None:
        pass


def test_tensors_become_what_all_machines_reduce_to():
    for op, want in ((Ops.ADD, DATA * 3), (Ops.MUL, DATA * DATA * 2), (Ops.MAX, DATA * 2)):
        x = Tensor(DATA)
        old = x + 1
        all_reduce(x, transport=Mirror(), op=op)
        np.testing.assert_array_equal(x.numpy(), want)
        np.testing.assert_array_equal(old.numpy(), DATA + 1)


def test_tensors_on_several_devices_stay_as_they_are_cut():
    x = Tensor(DATA).shard(("CPU", "CPU:1"), 0)
    all_reduce(x, transport=Mirror())
    assert x.uop.axis == 0
    np.testing.assert_array_equal(x.numpy(), DATA * 3)


def test_halves_are_reduced_wide_and_types_without_a_name_are_refused():
    x = Tensor(DATA).cast(dtypes.bfloat16)
    all_reduce(x, transport=Mirror())
    assert x.dtype is dtypes.bfloat16
    np.testing.assert_array_equal(x.numpy(), DATA * 3)
    with pytest.raises(DTypeError, match="no counterpart to send"):
        broadcast(x, transport=Mirror())


def test_broadcast_and_gather():
    x = Tensor(DATA)
    broadcast(x, transport=Mirror(), root=1)
    np.testing.assert_array_equal(x.numpy(), DATA * 2)
    found = all_gather(x, Mirror())
    assert [t.tolist() for t in found] == [(DATA * 2).tolist(), (DATA * 4).tolist()]


RANK = """
import numpy as np
from tinylab import Tensor, dtypes
from tinylab.nn import optim
from tinylab.nn.machines import MPITransport, all_gather, all_reduce, broadcast
from tinylab.opcodes import Ops
m = MPITransport()
x = Tensor(np.full(4, m.rank + 1.0, np.float32))
first, most = x.clone(), x.clone()
broadcast(first, transport=m)
parts = all_gather(x, m)
all_reduce(most, transport=m, op=Ops.MAX)
all_reduce(x, transport=m)
m.barrier()
assert m.size == 2 and first.tolist() == [1.0] * 4 and x.tolist() == [3.0] * 4
assert most.tolist() == [2.0] * 4
assert [p.tolist() for p in parts] == [[1.0] * 4, [2.0] * 4]

cut = Tensor(np.full(4, m.rank + 1.0, np.float32)).cast(dtypes.bfloat16).shard(("CPU", "CPU:1"), 0)
all_reduce(cut, transport=m)
assert cut.uop.axis == 0 and cut.dtype is dtypes.bfloat16 and cut.tolist() == [3.0] * 4

def trained(rows, share):
    w = Tensor(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), requires_grad=True)
    sgd = optim.SGD([w], lr=0.1)
    for _ in range(3):
        with Tensor.train():
            sgd.zero_grad()
            (Tensor(rows) @ w).square().mean().backward()
            if share:
                all_reduce(w.grad, transport=m)
                w.grad.assign(w.grad / m.size)
            sgd.step()
    return w.numpy()

rows = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
mine = trained(rows[2 * m.rank : 2 * m.rank + 2], True)
np.testing.assert_allclose(mine, trained(rows, False), rtol=1e-6)
print("agrees", flush=True)
"""


def test_two_local_ranks_agree():
    pytest.importorskip("mpi4py")
    run = shutil.which("mpiexec") or shutil.which("mpiexec", path=os.path.dirname(sys.executable))
    if run is None:
        pytest.skip("mpi4py is here, but no mpiexec to start ranks with")
    done = subprocess.run(
        [run, "-n", "2", sys.executable, "-c", RANK],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("agrees") == 2  # lines of two ranks may run into each other

"""Memory: who holds it when there is none left, what stays valid then, views, and shared memory."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tinylab import Context, Tensor
from tinylab.device import Buffer, Device, buffer as device_buffer
from tinylab.dtype import dtypes
from tinylab.errors import AllocationError, BufferError, DeviceError
from tinylab.helpers.measure import GlobalCounters
from tinylab.runtime.ops_cpu import CPUAllocator

MB = 1 << 20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A CPU with 9 MB more than is in use now."""
    gc.collect()
    Device["CPU"].allocator.free_cache()  # else what an earlier test gave back is used again
    limit = GlobalCounters.mem_used_per_device["CPU"] + 9 * MB
    plain = CPUAllocator._alloc

    def alloc(self: CPUAllocator, size: int, options: object) -> object:
        if GlobalCounters.mem_used_per_device["CPU"] + size > limit:
            raise MemoryError
        return plain(self, size, options)  # type: ignore[arg-type]

    monkeypatch.setattr(CPUAllocator, "_alloc", alloc)
    with Context(LRU=0):
        yield


@pytest.mark.usefixtures("small")
def test_no_memory_left_names_the_largest_owners_and_loses_nothing() -> None:
    a = Tensor.ones(1024, 1024).realize()
    b = a * 3
    wanted = a + 1
    b.realize()
    with pytest.raises(AllocationError) as e:
        (a @ b).realize()
    message = str(e.value)
    assert "failed on CPU. Used: " in message
    assert f"4.00 MB of ones at {__file__}:" in message
    assert f"4.00 MB of mul at {__file__}:" in message
    assert f"it is needed for matmul at {__file__}:" in message
    assert (a[0, 0].item(), b[0, 0].item()) == (1.0, 3.0)
    del b, e  # the traceback holds the operands
    assert wanted.realize().sum().item() == 2 * MB  # the same can be asked for again


def test_a_limit_of_one_buffer_says_what_was_too_large() -> None:
    x = Tensor.ones(64).realize()
    with Context(MAX_BUFFER_SIZE=100), pytest.raises(BufferError) as e:
        (x.reshape(64, 1) + x).realize()
    assert "buffer of size 4096 is too large, MAX_BUFFER_SIZE is 100" in str(e.value)
    assert "it is needed for add" in str(e.value)
    assert x.sum().item() == 64


def test_memory_in_use_goes_down_with_the_tensors() -> None:
    gc.collect()
    before = GlobalCounters.mem_used
    x = Tensor.ones(MB).realize()
    y = (x + 1).realize()
    assert GlobalCounters.mem_used == before + 8 * MB
    assert y[0].item() == 2
    del x, y
    assert GlobalCounters.mem_used == before


def test_a_piece_of_a_tensor_takes_no_memory_and_keeps_its_values() -> None:
    x = Tensor(np.arange(24, dtype=np.float32)).realize()
    before, kernels = GlobalCounters.mem_used, GlobalCounters.kernel_count
    view = x[6:12].reshape(2, 3).contiguous().realize()
    assert (GlobalCounters.mem_used, GlobalCounters.kernel_count) == (before, kernels)
    x += 1
    x.realize()
    np.testing.assert_array_equal(view.numpy(), np.arange(6, 12).reshape(2, 3))
    later = x[2:4].contiguous()
    x *= 2
    Tensor.realize(x, later)
    np.testing.assert_array_equal(later.numpy(), [3, 4])
    np.testing.assert_array_equal(x[2:4].numpy(), [6, 8])


def test_data_of_a_piece_is_the_memory_itself() -> None:
    x = Tensor(np.arange(8, dtype=np.int32)).realize()
    x[2:4].data()[0] = 77
    assert x.tolist() == [0, 1, 77, 3, 4, 5, 6, 7]


def test_copies_between_strangers_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_buffer, "COPY_BYTES", 1000)
    monkeypatch.setattr(CPUAllocator, "_as_buffer", lambda self, src: None)
    sizes = []
    plain = CPUAllocator._copyin
    monkeypatch.setattr(
        CPUAllocator, "_copyin", lambda s, d, m: (sizes.append(len(m)), plain(s, d, m))[1]
    )
    data = np.arange(700, dtype=np.int32)
    source = Buffer("CPU", 700, dtypes.int32, initial_value=data.tobytes())
    sizes.clear()
    target = Buffer("CPU:1", 700, dtypes.int32).allocate().copy_from(source)
    assert sizes == [1000, 1000, 800]
    np.testing.assert_array_equal(target.numpy(), data)


def test_a_file_larger_than_what_is_read_of_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as f:
        f.truncate(1 << 40)  # a terabyte with nothing in it
        f.seek((1 << 39) + 8)
        f.write(np.arange(4, dtype=np.float32).tobytes())
    gc.collect()
    before = GlobalCounters.mem_used_per_device["CPU"]
    x = Tensor(path)
    part = x[(1 << 39) + 8 : (1 << 39) + 24].bitcast(dtypes.float32).to("CPU").realize()
    assert part.tolist() == [0, 1, 2, 3]
    assert GlobalCounters.mem_used_per_device["CPU"] - before == 16


OTHER = """
import sys
from tinylab import Tensor, dtypes
x = Tensor.empty(4, dtype=dtypes.float32, device=sys.argv[1])
assert x.to("CPU").tolist() == [1, 2, 3, 4]
x[1:3].assign(Tensor([20.0, 30.0]))
"""


def test_processes_share_memory_by_name() -> None:
    name = f"tinylab-test-{os.getpid()}"
    device = f"DISK:shm:{name}"
    x = Tensor.empty(4, dtype=dtypes.float32, device=device)
    try:
        x.assign(Tensor([1.0, 2.0, 3.0, 4.0]))
        subprocess.run([sys.executable, "-c", OTHER, device], check=True, timeout=120)
        assert x.to("CPU").tolist() == [1, 20, 30, 4]
    finally:
        for folder in ("/dev/shm", "/tmp"):
            pathlib.Path(folder, name).unlink(missing_ok=True)
    with pytest.raises(DeviceError, match="shared memory needs a plain name"):
        Tensor.empty(4, device="DISK:shm:a/b").assign(Tensor([1.0] * 4))

import gc
import pickle

import numpy as np
import pytest

from tinylab.device import Buffer, BufferSpec, Device, LRUAllocator
from tinylab.dtype import dtypes
from tinylab.errors import AllocationError, BufferError
from tinylab.helpers import Context, GlobalCounters

DATA = np.arange(6, dtype=np.float32)


def filled(device="CPU"):
    return Buffer(device, 6, dtypes.float32, initial_value=DATA.tobytes())


def test_data_in_and_out():
    buf = filled()
    assert (buf.nbytes, buf.is_allocated(), buf.is_initialized()) == (24, True, True)
    assert np.array_equal(buf.numpy(), DATA)
    assert bytes(buf.as_memoryview()) == DATA.tobytes()
    buf.copyin(memoryview(DATA[::-1].copy()))
    assert np.array_equal(buf.numpy(), DATA[::-1])
    assert repr(buf) == f"<buf real:True device:CPU size:6 dtype:{dtypes.float32}>"


def test_zero_copy_is_shared_and_a_copy_is_not():
    buf = filled()
    shared = np.frombuffer(buf.as_memoryview(allow_zero_copy=True), np.float32)
    copy = np.frombuffer(buf.as_memoryview(), np.float32)
    shared[0] = 9
    assert buf.numpy()[0] == 9
    assert copy[0] == 0


def test_memory_is_had_once():
    buf = Buffer("CPU", 4, dtypes.int32)
    assert not buf.is_allocated()
    buf.allocate()
    with pytest.raises(AssertionError, match="can't allocate already allocated buffer"):
        buf.allocate()
    buf.deallocate()
    assert not buf.is_allocated()
    with pytest.raises(BufferError, match="has no memory"):
        buf.deallocate()
    assert buf.ensure_allocated() is buf.ensure_allocated()


def test_reading_without_memory_is_an_error():
    with pytest.raises(BufferError, match="has no memory to read"):
        Buffer("CPU", 4, dtypes.int32).numpy()


def test_views_share_memory():
    buf = filled()
    view = buf.view(2, dtypes.float32, 8).ensure_allocated()
    assert np.array_equal(view.numpy(), DATA[2:4])
    inner = view.view(1, dtypes.float32, 4).allocate()
    assert inner.base is buf
    assert inner.offset == 12
    assert inner.numpy()[0] == DATA[3]
    assert repr(inner).endswith(" offset:12>")
    inner.copyin(memoryview(np.float32([7])))
    assert buf.numpy()[3] == 7


def test_a_view_keeps_its_base():
    view = filled().view(6, dtypes.float32, 0).ensure_allocated()
    gc.collect()
    assert np.array_equal(view.numpy(), DATA)


@pytest.mark.parametrize(("size", "offset"), [(1, 24), (3, 16), (1, 100)])
def test_a_view_lies_inside(size, offset):
    with pytest.raises(AssertionError, match=r"offset must be less than nbytes|a view to byte"):
        filled().view(size, dtypes.float32, offset)


def test_copies_need_equal_sizes():
    with pytest.raises(AssertionError, match="copy size mismatch"):
        Buffer("CPU", 5, dtypes.float32).allocate().copy_from(filled())
    target = Buffer("CPU", 3, dtypes.float64).allocate().copy_from(filled())
    assert bytes(target.as_memoryview()) == DATA.tobytes()


def test_between_devices():
    there = Buffer("CPU:1", 6, dtypes.float32).allocate().copy_from(filled())
    assert np.array_equal(there.numpy(), DATA)
    assert there.get_buf("CPU") is there._buf
    with pytest.raises(RuntimeError, match="NULL cannot use memory of CPU"):
        filled().get_buf("NULL")


def test_foreign_memory_is_used_in_place_and_not_freed():
    array = DATA.copy()
    used = GlobalCounters.mem_used
    buf = Buffer("CPU", 6, dtypes.float32).allocate(external_ptr=array.ctypes.data)
    array[1] = 5
    assert buf.numpy()[1] == 5
    assert GlobalCounters.mem_used == used
    del buf
    gc.collect()
    assert array[1] == 5


def test_memory_in_use_is_counted():
    before = GlobalCounters.mem_used, GlobalCounters.mem_used_per_device["CPU"]
    buf = filled()
    assert GlobalCounters.mem_used == before[0] + 24
    assert GlobalCounters.mem_used_per_device["CPU"] == before[1] + 24
    del buf
    gc.collect()
    assert (GlobalCounters.mem_used, GlobalCounters.mem_used_per_device["CPU"]) == before


def test_references_are_counted_on_the_base():
    buf = Buffer("CPU", 6, dtypes.float32, uop_refcount=1)
    view = buf.view(1, dtypes.float32, 0).ref(2)
    assert buf.uop_refcount == view.uop_refcount == 3
    assert buf.ref(-3).uop_refcount == 0


def test_pickling_takes_the_bytes_along():
    buf = filled()
    back = pickle.loads(pickle.dumps(buf))
    assert np.array_equal(back.numpy(), DATA)
    view = pickle.loads(pickle.dumps(buf.view(2, dtypes.float32, 8)))
    assert np.array_equal(view.ensure_allocated().numpy(), DATA[2:4])
    assert not pickle.loads(pickle.dumps(Buffer("CPU", 3, dtypes.int8))).is_allocated()


def test_sizes_may_be_limited_and_zero():
    with Context(MAX_BUFFER_SIZE=5), pytest.raises(BufferError, match="is too large"):
        Buffer("CPU", 6, dtypes.float32).allocate()
    empty = Buffer("CPU", 0, dtypes.float32).allocate()
    assert empty.numpy().size == 0


@pytest.mark.parametrize("size", [1, 63, 64, 4097, 5 << 20])
def test_memory_is_aligned(size):
    memory = Device["CPU"].allocator.alloc(size, BufferSpec(zero=True, nolru=True))
    assert memory.address % 64 == 0
    assert not any(memory.view()[:: max(size // 100, 1)])


def test_freed_memory_is_used_again():
    first = Buffer("CPU", 12345, dtypes.uint8).allocate()
    address = first._buf.address
    del first
    gc.collect()
    again = Buffer("CPU", 12345, dtypes.uint8).allocate()
    assert again._buf.address == address
    fresh = Buffer("CPU", 12345, dtypes.uint8).allocate()
    assert fresh._buf.address != address


class Counting(LRUAllocator[int]):
    """Hands out numbers; fails while ``full``."""

    def __init__(self, limit_bytes=10**9):
        super().__init__(Device["NULL"], limit_bytes)
        self.made, self.freed, self.full = 0, [], False

    def _alloc(self, size, options):
        if self.full and len(self.freed) == 0:
            raise MemoryError
        self.made += 1
        return self.made

    def _free(self, opaque, options):
        self.freed.append(opaque)


def test_kept_memory_has_a_limit_and_goes_oldest_first():
    pool = Counting(limit_bytes=250)
    blocks = [(pool.alloc(size), size) for size in (100, 101, 102)]
    for block, size in blocks:
        pool.free(block, size)
    assert pool.freed == [1]
    assert pool.alloc(102) == 3
    assert pool.kept_bytes == 101
    pool.free_cache()
    assert pool.kept_bytes == 0


def test_kept_memory_is_given_up_before_allocation_fails():
    pool = Counting()
    pool.free(pool.alloc(100), 100)
    pool.full = True
    assert pool.alloc(200) == 2
    assert pool.freed == [1]
    pool.freed = []
    with pytest.raises(AllocationError, match=r"Allocation of 300 failed on NULL. Used: "):
        pool.alloc(300)


def test_lru_can_be_off():
    pool = Counting()
    with Context(LRU=0):
        pool.free(pool.alloc(100), 100)
    pool.free(pool.alloc(100, BufferSpec(nolru=True)), 100, BufferSpec(nolru=True))
    assert pool.freed == [1, 2]


def test_out_of_memory_is_said():
    with pytest.raises(MemoryError, match=r"Allocation of .* failed on CPU"):
        Buffer("CPU", 1 << 60, dtypes.uint8).allocate()


def test_memory_that_goes_where_no_device_may_be_used_is_given_back():
    """The collector runs anywhere, also while a function is traced: the memory stayed counted."""
    buffer = Buffer("CPU", 1024, dtypes.uint8).allocate()
    used = GlobalCounters.mem_used
    with Context(ALLOW_DEVICE_USAGE=0):
        del buffer
    assert GlobalCounters.mem_used == used - 1024


def test_memory_that_goes_changes_no_setting(monkeypatch):
    """The collector runs while a context variable is set, too, and must not set one meanwhile."""
    buffer = Buffer("CPU", 1024, dtypes.uint8).allocate()
    used, entered = GlobalCounters.mem_used, []
    with Context(ALLOW_DEVICE_USAGE=0):
        monkeypatch.setattr(Context, "__enter__", entered.append)
        del buffer
        monkeypatch.undo()
    assert GlobalCounters.mem_used == used - 1024
    assert entered == []

import ctypes

import pytest

from tinylab.helpers import GlobalCounters, Profiling, Timing, memory


def test_addresses_of_writable_and_read_only_views():
    for data in (b"abcd", bytearray(b"abcd")):
        view = memoryview(data)
        assert bytes(memory.to_mv(memory.mv_address(view), 4)) == b"abcd"
    assert memory.mv_address(memoryview(b"")) == 0


def test_memory_is_shared():
    data = bytearray(8)
    memory.to_mv(memory.mv_address(memoryview(data)), 8)[3] = 7
    assert data[3] == 7
    memory.from_mv(memoryview(data), ctypes.c_uint32)[1] = 0x01020304
    assert data[4:] == bytes([4, 3, 2, 1])
    assert memory.flat_mv(memoryview(data).cast("I")).nbytes == 8


def test_a_view_with_gaps_has_no_address():
    with pytest.raises(AssertionError):
        memory.mv_address(memoryview(bytearray(8))[::2])


def test_padding():
    assert memory.pad_bytes(b"abc", 4) == b"abc\0"
    assert memory.pad_bytes(b"abcd", 4) == b"abcd"


def test_timing_and_profiling_print(capsys):
    with Timing("load: ", lambda ns: f", {ns > 0}"):
        pass
    assert capsys.readouterr().out.startswith("load: ")
    with Profiling(frac=1.0):
        sorted([3, 1, 2])
    assert "sorted" in capsys.readouterr().out


def test_counters_keep_memory():
    before = GlobalCounters.mem_used
    GlobalCounters.kernel_count += 1
    GlobalCounters.reset()
    assert GlobalCounters.kernel_count == 0
    assert GlobalCounters.mem_used == before

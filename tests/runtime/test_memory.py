"""Memory that a cycle of garbage gives back is whole when it is handed out again."""

from __future__ import annotations

import gc

import pytest

from tinylab.device import Buffer, Device
from tinylab.dtype import dtypes
from tinylab.runtime.ops_cpu import ALIGNMENT, _aligned


@pytest.mark.parametrize("size", [1, 63, 64, 4096, 100_000, 300_000, 9 << 20])
def test_memory_is_aligned_and_writable(size: int) -> None:
    buffer = Buffer("CPU", size, dtypes.uint8).allocate()
    assert buffer._buf.address % ALIGNMENT == 0
    view = buffer._buf.view()
    view[0] = view[size - 1] = 7
    assert bytes(view[:1]) == bytes(view[-1:]) == b"\x07"


@pytest.mark.parametrize("size", [64, 300_000])
def test_what_keeps_memory_has_no_finalizer(size: int) -> None:
    """Finalizers of a cycle run in any order; a buffer's own hands the memory to the cache."""
    assert not hasattr(_aligned(size)[1], "__del__")


def test_a_buffer_in_a_cycle_of_garbage() -> None:
    gc.collect()
    size = 12_344  # no other test's
    cycle: list[object] = [Buffer("CPU", size, dtypes.uint8).allocate()]
    cycle.append(cycle)
    address = cycle[0]._buf.address  # type: ignore[attr-defined]
    del cycle
    gc.collect()
    others = [bytearray(b"\xff" * (size + extra)) for extra in range(200)]
    again = Buffer("CPU", size, dtypes.uint8).allocate()
    assert again._buf.address == address, "kept for the next of its size"
    again._buf.view()[:] = b"\x01" * size
    more = [bytearray(b"\xee" * (size + extra)) for extra in range(200)]
    assert bytes(again._buf.view()) == b"\x01" * size
    assert all(set(b) == {0xFF} for b in others)
    assert len(more) == 200
    Device["CPU"].allocator.free_cache()

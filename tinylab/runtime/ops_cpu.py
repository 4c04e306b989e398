"""CPU: this process' own processors, through LLVM, with a pool of threads.

A kernel is a function ``NAME(buffers, values, core_id)``: a pointer to an array of addresses, one
to an array of 64-bit values, and which part of a THREAD axis to do. One signature serves every
kernel, so a call is two prepared pointers: 0.4 us when the buffers are those of the last call, 1.5
us when not.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from tinylab.device import BufferSpec, Compiled, LRUAllocator, Program, TinyELF, Toolchain
from tinylab.helpers.memory import mv_address, to_mv
from tinylab.runtime.compilers.llvm import Linked
from tinylab.runtime.compilers.processors import check_runs
from tinylab.runtime.cpu_threads import KERNEL, NativePool, pool
from tinylab.target import CPUArch, host_machine

ALIGNMENT = 64  # a vector register; rendered text promises it for every buffer
_MAPPED = 128 << 10  # from here on memory is pages of its own, given back when it is freed
_HUGE = 2 << 20  # large buffers start on a huge page: fewer faults, fewer address look-ups


class CPUMemory:
    """Bytes at an address; views into it keep it alive."""

    __slots__ = ("address", "owner", "size")

    def __init__(self, address: int, size: int, owner: Any = None) -> None:
        self.address, self.size, self.owner = address, size, owner

    def __repr__(self) -> str:
        return f"CPUMemory(0x{self.address:x}, {self.size})"

    def view(self) -> memoryview:
        """The bytes, shared."""
        return to_mv(self.address, self.size)


class CPUAllocator(LRUAllocator[CPUMemory]):
    """Aligned memory of this process, padded to a whole vector."""

    def __init__(self, dev: CPUDevice) -> None:
        super().__init__(dev, limit_bytes=_memory_bytes() // 4)

    def _alloc(self, size: int, options: BufferSpec) -> CPUMemory:
        if options.external_ptr is not None:
            return CPUMemory(options.external_ptr, size)
        address, owner = _aligned(max(size, 1))
        memory = CPUMemory(address, size, owner)
        if options.zero:
            ctypes.memset(address, 0, size)
        return memory

    def _copyin(self, dest: CPUMemory, src: memoryview) -> None:
        ctypes.memmove(dest.address, mv_address(src), len(src))

    def _copyout(self, dest: memoryview, src: CPUMemory) -> None:
        ctypes.memmove(mv_address(dest), src.address, len(dest))

    def _offset(self, buf: CPUMemory, size: int, offset: int) -> CPUMemory:
        return CPUMemory(buf.address + offset, size, buf)

    def _as_buffer(self, src: CPUMemory) -> memoryview:
        return src.view()

    def map(self, buf: Any) -> Any:
        """Every CPU device sees the memory of the others."""
        if buf.device.split(":")[0] == "CPU":
            return buf.get_buf(buf.device)
        return super().map(buf)


def _aligned(size: int) -> tuple[int, Any]:
    """(address, what keeps it) of fresh memory, a whole number of vectors long.

    What keeps it has no `__del__`: a buffer that is found in a cycle of garbage gives its memory to
    the cache while finalizers run, in any order, and memory that is kept must not be gone by then.
    """
    size = -(-size // ALIGNMENT) * ALIGNMENT
    if size < _MAPPED or sys.platform == "win32":
        block: Any = (ctypes.c_uint8 * (size + ALIGNMENT))()
        return -(-ctypes.addressof(block) // ALIGNMENT) * ALIGNMENT, block
    spare = _HUGE if size >= 2 * _HUGE else 0
    try:
        pages = mmap.mmap(-1, size + spare, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as refused:
        raise MemoryError from refused
    if spare and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # refused is as good
            pages.madvise(mmap.MADV_HUGEPAGE)
    block = (ctypes.c_uint8 * (size + spare)).from_buffer(pages)
    start = ctypes.addressof(block)
    return (-(-start // _HUGE) * _HUGE if spare else start), block


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


class CPUProgram(Program["CPUDevice"]):
    """A kernel linked into this process.

    It is called by `deque.extend`, which notes in the same breath that it is over: between two
    instructions of Python a signal's handler may raise.
    """

    all_or_nothing = True

    def __init__(self, dev: CPUDevice, obj: TinyELF) -> None:
        super().__init__(dev, obj)
        if obj.target.arch:
            check_runs(CPUArch.parse(obj.target.arch))
        self._linked = Linked(obj.lib, obj.name)
        self.address = self._linked[obj.name]
        self._function = KERNEL(self.address)
        # (buffers, values, their arrays): never changed, only replaced, so threads may share it.
        self._last: tuple[Any, Any, Any] = (None, None, None)

    def __call__(
        self,
        *bufs: CPUMemory,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = None,
        vals: Sequence[int | None] = (),
        wait: bool = False,
    ) -> float | None:
        """Runs to the end; global_size[0] is the number of parts, each done by one thread."""
        last_bufs, last_vals, arrays = self._last
        if bufs != last_bufs or vals != last_vals:
            arrays = _argument_arrays(bufs, vals)
            self._last = (bufs, vals, arrays)
        parts = global_size[0]
        if wait:
            start_ns = time.perf_counter_ns()
        if parts == 1:
            self.done.extend(itertools.starmap(self._function, arrays[0]))
        else:
            pointers, values, _ = arrays[0][0]
            pool().run(self.address, pointers, values, parts, self.done)
        return (time.perf_counter_ns() - start_ns) * 1e-9 if wait else None


def _argument_arrays(
    bufs: Sequence[CPUMemory], vals: Sequence[int | None]
) -> tuple[tuple[tuple[int, int, int]], Any, Any]:
    """The one call of a kernel of one part: the addresses of both arrays, and 0; and the arrays.

    core_id (None) keeps its place, unread.
    """
    pointers = (ctypes.c_uint64 * len(bufs))(*[b.address for b in bufs])
    values = (ctypes.c_int64 * len(vals))(*[v or 0 for v in vals])
    return ((ctypes.addressof(pointers), ctypes.addressof(values), 0),), pointers, values


class CPUDevice(Compiled[CPUMemory]):
    """The processors of this machine as one device; "CPU:1" is a second name for them."""

    def __init__(self, device: str) -> None:
        toolchains = (
            Toolchain(
                "LLVM",
                "tinylab.renderer.llvmir:LLVMRenderer",
                "tinylab.runtime.compilers.llvm:LLVMCompiler",
            ),
        )
        arch = f"{host_machine()},native"
        super().__init__(device, CPUAllocator(self), toolchains, CPUProgram, arch)

    @property
    def graph(self) -> NativePool | None:
        """Runs many kernels in one native call; None where the pool is Python's."""
        found = pool()
        return found if isinstance(found, NativePool) else None

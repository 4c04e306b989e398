"""PYTHON: runs the linear uops themselves, exactly, on Python numbers; checks every access.

Slow, and right: what another device computes can be held against it. Workgroups run in lockstep
from barrier to barrier, with memory of their own.
"""

from __future__ import annotations

import functools
import itertools
import operator
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from tinylab.device import Allocator, BufferSpec, Compiled, Compiler, Program, TinyELF, Toolchain
from tinylab.errors import DeviceError
from tinylab.runtime.python_code import Code
from tinylab.runtime.python_listing import Instruction, parse
from tinylab.runtime.python_numbers import ROUND, storage_format


class PythonAllocator(Allocator[memoryview]):
    """Memory is bytes of the process."""

    def _alloc(self, size: int, options: BufferSpec) -> memoryview:
        return memoryview(bytearray(size))

    def _copyin(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src

    def _copyout(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src

    def _offset(self, buf: memoryview, size: int, offset: int) -> memoryview:
        return buf[offset : offset + size]

    def _as_buffer(self, src: memoryview) -> memoryview:
        return src


_consumed: Callable[..., Any] = functools.partial(deque, maxlen=0)


@functools.lru_cache(256)
def code_of(listing: str) -> Code:
    """The function that a listing describes; compiling and loading share it."""
    return Code(parse(listing))


class PythonCompiler(Compiler):
    """Checks a listing and keeps its text: the program is data, never code from a file."""

    def __init__(self, arch: str = "") -> None:
        super().__init__(None)

    def compile(self, src: str) -> bytes:
        """The listing's bytes.

        Raises: CompileError naming the line that is not of the language.
        """
        code_of(src)
        return src.encode()

    def disassemble(self, lib: bytes) -> str:
        """The listing."""
        return lib.decode()


class PythonProgram(Program["PythonDevice"]):
    """A listing, ready to run.

    A kernel takes long enough to be interrupted in the middle: then what it wrote is taken back.
    """

    all_or_nothing = True

    def __init__(self, dev: PythonDevice, obj: TinyELF) -> None:
        super().__init__(dev, obj)
        self.code = code_of(obj.lib.decode())
        self.buffers = [p for p in self.code.listing.parameters if p.shape]
        self.slots = [int(p.name.removeprefix("data")) for p in self.buffers]
        variables = [p.name for p in self.code.listing.parameters if not p.shape]
        self.core_id = variables.index("core_id") if "core_id" in variables else None

    def __call__(
        self,
        *bufs: Any,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = None,
        vals: Sequence[int | None] = (),
        wait: bool = False,
    ) -> float | None:
        """Runs every workgroup in turn; with `wait` returns the seconds that it took.

        Raises: BoundsError (an IndexError) for a load or store outside its buffer.
        """
        start = time.perf_counter()
        self.done.clear()
        stored = [
            bufs[s]
            for s, p in zip(self.slots, self.buffers, strict=True)
            if p.name in self.code.stored
        ]
        before = [bytes(b) for b in stored]
        try:
            self._run(bufs, global_size, local_size, vals)
            self.done.append(None)
        except BaseException:
            if not self.done:
                _consumed(map(operator.setitem, stored, itertools.repeat(slice(None)), before))
            raise
        return time.perf_counter() - start if wait else None

    def _run(
        self,
        bufs: Sequence[Any],
        global_size: Sequence[int],
        local_size: Sequence[int] | None,
        vals: Sequence[int | None],
    ) -> None:
        memory = [_typed(bufs[s], p) for s, p in zip(self.slots, self.buffers, strict=True)]
        grid, variables = list(global_size), list(vals)
        threads = 1
        if self.core_id is not None:
            threads, grid[0] = grid[0], 1
        items = list(_corners(local_size or (1,)))
        for core in range(threads):
            if self.core_id is not None:
                variables[self.core_id] = core
            for place in _corners(grid):
                self._workgroup(memory, variables, place, items)

    def _workgroup(
        self,
        memory: list[memoryview],
        variables: list[int | None],
        place: tuple[int, ...],
        items: list[tuple[int, ...]],
    ) -> None:
        """All items of a workgroup, in lockstep from barrier to barrier."""
        code = self.code
        shared = [[ROUND[m.dtype](0)] * m.size for m in code.shared]
        if not code.has_barrier:
            for item in items:
                code.run(memory, variables, place, item, shared)
            return
        waiting: list[Generator[None, None, None]] = []
        for item in items:
            started = code.run(memory, variables, place, item, shared)
            assert started is not None, "a kernel with barriers is a generator"
            waiting.append(started)
        while waiting:
            reached = [_reaches_barrier(item) for item in waiting]
            if any(reached) and not all(reached):
                raise DeviceError(
                    f"{reached.count(True)} of {len(reached)} items of a workgroup of "
                    f"{code.listing.name} wait at a barrier that the others never reach"
                )
            waiting = waiting if all(reached) else []


def _typed(buffer: memoryview, parameter: Instruction) -> memoryview:
    """Bytes as elements of a buffer's type."""
    size, letter = parameter.dtype.itemsize, storage_format(parameter.dtype)
    elements: memoryview = buffer[: len(buffer) // size * size].cast(letter)  # type: ignore[call-overload]
    return elements


def _reaches_barrier(item: Generator[None, None, None]) -> bool:
    """Run an item to its next barrier; False when it ends instead."""
    try:
        next(item)
    except StopIteration:
        return False
    return True


def _corners(sizes: Sequence[int]) -> Any:
    """Every place of a grid, the first axis fastest."""
    for place in itertools.product(*(range(n) for n in reversed(sizes))):
        yield (*place[::-1], 0, 0)


class PythonDevice(Compiled[memoryview]):
    """The device that interprets."""

    def __init__(self, device: str) -> None:
        toolchain = Toolchain(
            "PYTHON",
            "tinylab.renderer.python:PythonRenderer",
            "tinylab.runtime.ops_python:PythonCompiler",
        )
        super().__init__(device, PythonAllocator(self), (toolchain,), PythonProgram)

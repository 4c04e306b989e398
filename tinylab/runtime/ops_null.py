"""NULL: everything but a machine; kernels are scheduled, lowered and rendered, and none runs.

``DEV=NULL`` renders LLVM IR and keeps it as text; ``DEV=NULL:LLVM`` makes machine code of it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinylab.device import Allocator, BufferSpec, Compiled, Compiler, Program, Toolchain
from tinylab.errors import DeviceError
from tinylab.helpers.context import NULL_ALLOW_COPYOUT
from tinylab.target import host_machine


class NullAllocator(Allocator[int]):
    """Hands out sizes in place of memory."""

    def _alloc(self, size: int, options: BufferSpec) -> int:
        return size

    def _copyin(self, dest: int, src: memoryview) -> None:
        """Takes any bytes and keeps none."""

    def _copyout(self, dest: memoryview, src: int) -> None:
        if not NULL_ALLOW_COPYOUT:
            raise DeviceError("no copyout on NULL", help="NULL_ALLOW_COPYOUT=1 answers with zeros")
        dest[:] = bytes(len(dest))

    def _offset(self, buf: int, size: int, offset: int) -> int:
        return size


class NullProgram(Program["NullDevice"]):
    """A kernel that is called and does nothing, in no time."""

    all_or_nothing = True

    def __call__(
        self,
        *bufs: Any,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = None,
        vals: Sequence[int | None] = (),
        wait: bool = False,
    ) -> float | None:
        """Returns at once."""
        return 1e-6 if wait else None


class TextCompiler(Compiler):
    """Leaves the text as it is; LLVM is loaded only if someone wants to see assembly."""

    def __init__(self, arch: str) -> None:
        super().__init__(None)
        self.arch = arch

    def assembly(self, src: str) -> str:
        """What LLVM would make of the text."""
        from tinylab.runtime.compilers.llvm import LLVMCompiler

        return LLVMCompiler(self.arch).assembly(src)


class NullDevice(Compiled[int]):
    """The device that compiles and runs nothing."""

    def __init__(self, device: str) -> None:
        llvm = "tinylab.renderer.llvmir:LLVMRenderer"
        toolchains = (
            Toolchain("NULL", llvm, "tinylab.runtime.ops_null:TextCompiler"),
            Toolchain("LLVM", llvm, "tinylab.runtime.compilers.llvm:LLVMCompiler"),
        )
        arch = f"{host_machine()},native"
        super().__init__(device, NullAllocator(self), toolchains, NullProgram, arch)

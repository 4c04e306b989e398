"""From text to something that can be called: compilers, programs, and the device that has them."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tinylab.device.buffer import Allocator, Opaque
from tinylab.dtype import DType
from tinylab.errors import CompileError, DeviceError
from tinylab.helpers.cache import diskcache_get, diskcache_put
from tinylab.helpers.context import ASSERT_COMPILE, CCACHE, DEV
from tinylab.helpers.text import select_by_name
from tinylab.target import Target


class Compiler:
    """Text to machine code. ``cachekey`` says with what; None is never cached."""

    def __init__(self, cachekey: str | None = None) -> None:
        self.cachekey = cachekey

    def compile(self, src: str) -> bytes:
        """Machine code of a program's text.

        Raises: CompileError with the compiler's words.
        """
        return src.encode()

    def compile_cached(self, src: str) -> bytes:
        """The same, kept on disk by text, compiler and version."""
        if self.cachekey is None or not CCACHE:
            return self._asked_for(src)
        version = getattr(sys.modules["tinylab"], "__version__", "")
        key = f"{version}/{hashlib.sha256(src.encode()).hexdigest()}"
        table = f"compile_{self.cachekey}"
        lib = diskcache_get(table, key)
        return lib if isinstance(lib, bytes) else diskcache_put(table, key, self._asked_for(src))

    def _asked_for(self, src: str) -> bytes:
        if ASSERT_COMPILE:
            raise CompileError(
                "a program must be compiled, and ASSERT_COMPILE is set",
                help="run once without it: the cache on disk keeps what was compiled",
            )
        return self.compile(src)

    def assembly(self, src: str) -> str:
        """The assembly text of what ``compile`` makes, with debug locations where there are any."""
        raise CompileError(f"{type(self).__name__} shows no assembly")

    def disassemble(self, lib: bytes) -> str:
        """Machine code as text."""
        raise CompileError(f"{type(self).__name__} does not disassemble")


class TinyELF(NamedTuple):
    """A program as it can be loaded anywhere: machine code, entry, target, what it is called with.

    signature: (name or None, slot, dtype, shape) per argument, buffers by slot, then values.
    """

    lib: bytes
    name: str
    target: Target = Target()
    signature: tuple[tuple[str | None, int, DType, tuple[int, ...]], ...] = ()
    profile_key: bytes | None = None


DeviceType = TypeVar("DeviceType", bound="Compiled[Any]")


class Program(Generic[DeviceType]):
    """Machine code loaded on a device; calling it runs it.

    all_or_nothing: whether a call that ends early (Ctrl-C, an error) has either left memory as it
    was, or is over, and `done` says so: it holds something then. Whoever wants to know empties it.
    """

    all_or_nothing = False

    def __init__(self, dev: DeviceType, obj: TinyELF) -> None:
        self.dev, self.obj, self.name = dev, obj, obj.name
        self.done: deque[Any] = deque(maxlen=1)

    def __call__(
        self,
        *bufs: Any,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = None,
        vals: Sequence[int | None] = (),
        wait: bool = False,
    ) -> float | None:
        """Runs; with ``wait`` until it is done, and returns the seconds that it took."""
        raise NotImplementedError(f"{type(self).__name__}.__call__")


class Toolchain(NamedTuple):
    """A way from a program to machine code, by name: "package.module:Class" for each part."""

    name: str
    renderer: str
    compiler: str | None = None

    def load(self, target: Target) -> tuple[Any, Compiler]:
        """(renderer, compiler) for a target."""
        renderer = _load(self.renderer)(target)
        return renderer, _load(self.compiler)(target.arch) if self.compiler else Compiler()


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


class Compiled(Generic[Opaque]):
    """An open device; its toolchain follows DEV, inside ``Context(DEV="CPU:LLVM")`` too."""

    def __init__(
        self,
        device: str,
        allocator: Allocator[Opaque],
        toolchains: Sequence[Toolchain],
        runtime: type[Program[Any]],
        arch: str = "",
    ) -> None:
        self.device, self.allocator, self.toolchains = device, allocator, tuple(toolchains)
        self.default_arch, self._program = arch, runtime
        self.kind, _, index = device.partition(":")
        self.device_id = int(index) if index.isdecimal() else 0  # DISK has a path there
        self._tools: dict[Target, tuple[Any, Compiler]] = {}
        self._programs: dict[TinyELF, Program[Any]] = {}

    @property
    def target(self) -> Target:
        """What DEV asks for on this device, its defaults filled in.

        Raises: DeviceError, with the nearest right name, for a renderer or an interface that it
        does not have.
        """
        asked = DEV.target(self.kind, arch=self.default_arch)
        if asked.interface or asked.indices:
            raise DeviceError(
                f"{self.kind} has no interface {asked.interface or asked.indices}",
                help=f"it is reached in one way only: write DEV={self.kind}",
            )
        message = f"{self.kind} has no renderer {asked.renderer}"
        try:
            found = select_by_name(self.toolchains, lambda t: t.name, asked.renderer, message)
        except DeviceError as error:
            names = ", ".join(t.name for t in self.toolchains)
            raise DeviceError(error.message, help=f"{self.kind} has {names}") from None
        return asked._replace(renderer=found[0].name)

    @property
    def graph(self) -> Any:
        """What runs many kernels in one call, or None: then they are called one by one."""
        return None

    @property
    def renderer(self) -> Any:
        """Turns linear uops into text."""
        return self._toolchain()[0]

    @property
    def compiler(self) -> Compiler:
        """Turns text into machine code."""
        return self._toolchain()[1]

    @property
    def arch(self) -> str:
        """The architecture that is compiled for."""
        return self.target.arch

    def _toolchain(self) -> tuple[Any, Compiler]:
        target = self.target
        found = self._tools.get(target)
        if found is None:
            chain = next(t for t in self.toolchains if t.name == target.renderer)
            found = self._tools[target] = chain.load(target)
        return found

    def runtime(self, obj: TinyELF) -> Program[Any]:
        """A program, loaded and ready to be called."""
        return self._program(self, obj)

    def count(self) -> int:
        """How many devices of this kind there are."""
        return 1

    def synchronize(self) -> None:
        """Waits for all that was started."""

    def finalize(self) -> None:
        """Gives up what must not outlive the process."""

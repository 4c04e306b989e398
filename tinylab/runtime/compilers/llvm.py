"""LLVM IR to machine code, and machine code to something that can be called, through llvmlite.

Two lists of passes, for two kinds of text. What the renderer writes with explicit vectors needs no
vectoriser, only the cleaning up of addresses and stack slots: PASSES. Text without a vector in it,
such as a loop that nobody tuned, goes through LLVM's own pipeline, which may find vectors in it.

Measured on Zen 5 with LLVM 22, eleven rendered kernels (matmul, convolution, softmax, sums, ...):

    passes      time of passes + code    run, matmul 512   run, convolution
    SROA only        2 + 57 ms               530 us             834 us
    PASSES          10 + 56 ms               526 us             738 us
    with GVN        14 + 57 ms               521 us             734 us
    O2              68 + 78 ms               534 us             632 us

There is no loop-invariant code motion in the list (llvmlite does not offer it alone): the
linearizer puts each operation at the depth of its ranges, and the code generator moves the rest.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import threading
from typing import Any

import llvmlite.binding as _binding

from tinylab.device import Compiler
from tinylab.errors import CompileError
from tinylab.runtime.compilers.elf import undefined_symbols
from tinylab.runtime.compilers.processors import check_known
from tinylab.runtime.compilers.support import LIBC_NAMES, SUPPORT_IR, SUPPORT_NAMES
from tinylab.target import CPUArch, host_machine

llvm: Any = _binding  # its functions have no types

PASSES = (
    "always_inliner",  # the wrapper takes in the body
    "sroa",  # stack slots -> values
    "simplify_cfg",
    "loop_rotate",  # test at the end
    "instruction_combine",
    "simplify_cfg",
)
_ASSEMBLY = re.compile(r"\basm\s+(?:sideeffect\b|alignstack\b|inteldialect\b|unwind\b|\")")
_PIPELINE = "2"  # counts changes of what is above, for the disk cache


class LLVMCompiler(Compiler):
    """Compiles for one architecture: "x86_64,native" (or ""), "x86_64,znver4,-avx512f"."""

    def __init__(self, arch: str = "", inline_assembly: bool = False) -> None:
        """Where ``inline_assembly`` is allowed, a mistake in it ends the process.

        Raises: DeviceError for a processor that LLVM does not have.
        """
        self.inline_assembly = inline_assembly
        self.arch = CPUArch.parse(arch)
        check_known(self.arch)
        self.cpu, self.features = _resolve(self.arch)
        config = "/".join(
            (*map(str, llvm.llvm_version_info), self.arch.machine, self.cpu, self.features)
        )
        digest = hashlib.sha256(f"{config}/{_PIPELINE}".encode()).hexdigest()[:16]
        super().__init__(f"llvm_{self.cpu}_{digest}")

    @functools.cached_property
    def machine(self) -> Any:
        """LLVM's code generator for the architecture."""
        _initialize(self.arch.is_host)
        native = self.arch.is_host
        triple = llvm.get_process_triple() if native else f"{self.arch.machine}-unknown-linux-gnu"
        try:
            target = llvm.Target.from_triple(triple)
        except RuntimeError as e:
            raise CompileError(f"LLVM does not know the machine {self.arch.machine}: {e}") from None
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small"
        )

    def compile(self, src: str) -> bytes:
        """An object file.

        Raises: CompileError for text that LLVM refuses, and for a call of what cannot be linked.
        """
        if _ASSEMBLY.search(src) and not self.inline_assembly:
            raise CompileError(
                "the kernel has inline assembly, which may end this process if it is wrong",
                help="run it in the kernel bench, which has a process for it",
            )
        obj: bytes = self.machine.emit_object(self.optimized(src))
        unknown = [name for name in undefined_symbols(obj) if not _may_call(name)]
        if unknown:
            raise CompileError(
                f"the kernel calls {', '.join(unknown)}, which is not defined",
                help="a kernel may call functions of its own module and libm's",
            )
        return obj

    def assembly(self, src: str) -> str:
        """The text of what ``compile`` makes, with a .loc before each change of debug line."""
        text: str = self.machine.emit_assembly(self.optimized(src))
        return text

    def optimized(self, src: str) -> Any:
        """The module after its passes."""
        try:
            module = llvm.parse_assembly(src)
            module.verify()
        except RuntimeError as e:
            raise CompileError(_in_one_line(str(e), src)) from None
        module.triple = self.machine.triple
        module.data_layout = str(self.machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(self.machine, options)
        # A pass manager is used up by one run; a second one would abort the process.
        if " x " in src:
            manager = llvm.create_new_module_pass_manager()
            for name in PASSES:
                getattr(manager, f"add_{name}_pass")()
        else:
            manager = builder.getModulePassManager()
        manager.run(module, builder)
        return module


def _in_one_line(message: str, src: str) -> str:
    """LLVM's words with their line: "<string>:3:7: error: what" -> "line 3: what: its text"."""
    lines = [line for line in message.splitlines() if line.strip()]
    first = next((line for line in lines if "error:" in line), lines[0] if lines else message)
    place, _, what = first.partition("error:")
    number = place.split(":")[1] if place.count(":") >= 2 else ""
    if not number.isdigit():
        return f"LLVM refuses the kernel: {first.strip()}"
    shown = "".join(src.splitlines()[int(number) - 1 : int(number)]).strip()
    return f"line {number}: {what.strip()}{': ' if shown else ''}{shown}"


@functools.cache
def _initialize(native: bool) -> None:
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.cache
def _resolve(arch: CPUArch) -> tuple[str, str]:
    """LLVM's names for a processor and its features; "native" is asked of this machine."""
    exact = _EXACT if arch.machine == "x86_64" else ""
    if arch.cpu != "native":
        return arch.cpu, ",".join(filter(None, (arch.llvm_features, exact)))
    if arch.machine != host_machine():
        raise CompileError(
            f"native code for {arch.machine} cannot be made on {host_machine()}",
            help=f"name a processor: {arch.machine},generic",
        )
    host = llvm.get_host_cpu_features().flatten()
    return llvm.get_host_cpu_name(), ",".join(filter(None, (host, arch.llvm_features, exact)))


# Their conversions to bfloat take subnormal numbers for zero.
_EXACT = "-avx512bf16,-avxneconvert"


# *** linking

_lock = threading.Lock()


class _Linkers:
    """LLVM's linkers, one after another.

    A linker keeps some 10 kB of each library for good, also of one that is freed; it goes itself
    with the last library that it linked.
    """

    most = 256  # libraries of one linker

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._linker: Any = None

    def next(self) -> tuple[Any, str]:
        """(a linker, the name of a library); names cannot be used twice."""
        with self._lock:
            if self._count % self.most == 0:
                # JITLink keeps an object's sections together, so that code reaches its constants
                # by a short offset.
                self._linker = llvm.create_lljit_compiler(LLVMCompiler().machine, use_jit_link=True)
            self._count += 1
            return self._linker, f"kernel{self._count}"


_linkers = _Linkers()


class Linked:
    """Machine code of an object in memory, ready to run; freed with its last reference."""

    def __init__(self, obj: bytes, *names: str, imports: dict[str, int] | None = None) -> None:
        """Links an object and finds the addresses of ``names`` in it.

        Raises: CompileError if it calls what it must not, or defines none of a name.
        """
        builder = llvm.JITLibraryBuilder().add_object_img(obj)
        for name in names:
            builder.export_symbol(name)
        for name in undefined_symbols(obj):
            builder.import_symbol(name, (imports or {}).get(name) or address_of(name))
        try:
            self._tracker = builder.link(*_linkers.next())
        except RuntimeError as e:
            raise CompileError(f"the kernel cannot be linked: {e}") from None
        self.addresses = {name: int(self._tracker[name]) for name in names}

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def _may_call(name: str) -> bool:
    return name in SUPPORT_NAMES or name in LIBC_NAMES


@functools.cache
def address_of(name: str) -> int:
    """Where a function lies that kernels may call.

    Raises: CompileError for any other.
    """
    if name in SUPPORT_NAMES:
        return _support()[name]
    if name not in LIBC_NAMES:
        raise CompileError(f"the kernel calls {name}, which is not defined")
    for library in (None, "libm.so.6"):
        found = getattr(_library(library), name, None)
        if found is not None:
            return int(ctypes.cast(found, ctypes.c_void_p).value or 0)
    raise CompileError(f"the kernel calls {name}, which this machine's libm does not have")


@functools.cache
def _library(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except (OSError, TypeError):  # no such file; no handle of the process itself on Windows
        return None


@functools.cache
def _support() -> Linked:
    with _lock:
        return Linked(
            LLVMCompiler(f"{host_machine()},{_baseline()}").compile(SUPPORT_IR), *SUPPORT_NAMES
        )


def _baseline() -> str:
    return "x86-64" if host_machine() == "x86_64" else "generic"

"""From the AST of a kernel to a program that can be called, each step kept for the next time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinylab.codegen import to_program
from tinylab.device import Compiler, Device, Program, TinyELF
from tinylab.engine.process_replay import note_kernel
from tinylab.errors import CompileError
from tinylab.helpers.context import CAPTURE_PROCESS_REPLAY, DEBUG
from tinylab.helpers.progress import tqdm
from tinylab.helpers.recent import Recent
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import Ops
from tinylab.renderer import Estimates
from tinylab.target import Target
from tinylab.trace import events
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, dtypes
from tinylab.uop.printer import listing

# A loaded kernel is some 40 kB of memory, a compiled one some 20 kB. Schedules and captured
# functions hold theirs themselves.
_MOST_KERNELS = 1024
_loaded: Recent[tuple[str, UOp], Program[Any]] = Recent(_MOST_KERNELS)
_compiled: Recent[tuple[UOp, str, Target], UOp] = Recent(_MOST_KERNELS)


def compiling(calls: Sequence[UOp]) -> Iterator[UOp]:
    """The calls one after another, with a bar on stderr where DEBUG=1 wants to see it."""
    kernels = sum(call.src[0].op is Ops.SINK for call in calls)
    with tqdm[UOp](total=kernels, desc="compiling", disable=not DEBUG or kernels < 2) as bar:
        for call in calls:
            yield call
            if call.src[0].op is Ops.SINK:
                bar.update(1)


def lower_kernel(
    ast: UOp, device: str, opts: Sequence[Any] | None = None, fresh: bool = False
) -> UOp:
    """The PROGRAM of a kernel on a device: (SINK, LINEAR, SOURCE, BINARY).

    opts: these instead of what heuristics choose. fresh: lower it again even if it is known, so
    that whoever listens hears of every rewrite.

    Raises: KernelOptError for an opt that cannot be applied, CompileError for refused text.
    """
    if opts is not None:
        ast = ast.replace(arg=ast.arg._replace(opts_to_apply=tuple(opts)))
    tools = Device[device]
    program = to_program(ast, tools.renderer, fresh=fresh)
    if CAPTURE_PROCESS_REPLAY:
        note_kernel(ast, device, program)
    key = (program, device, tools.target)
    found = None if fresh else _compiled.find(key)
    return _compiled.keep(key, _with_binary(program, device)) if found is None else found


@contextmanager
def _naming(program: UOp) -> Iterator[None]:
    """A refused text is told with the kernel that it is the source of."""
    try:
        yield
    except CompileError as e:
        e.help = e.help or f"it is the source of kernel {program.arg.function_name}"
        raise


def _with_binary(program: UOp, device: str) -> UOp:
    source = program.src[2].arg
    if DEBUG >= 4:
        _print_stages(program)
    with events.span("compile", program.arg.function_name, device=device), _naming(program):
        binary = Device[device].compiler.compile_cached(source)
    if DEBUG >= 7:
        print(_machine_code(Device[device].compiler, source, binary))
    estimates = Estimates.from_uops(program.src[1].src, ignore_indexing=True).simplify()
    return program.replace(
        src=(*program.src[:3], make(Ops.BINARY, dtypes.uint8, (), binary)),
        arg=program.arg._replace(estimates=estimates),
    )


def _print_stages(program: UOp) -> None:
    """The text of a kernel; with DEBUG=5 the graph that it came from, with 6 its lines."""
    sink, linear, source = program.src[:3]
    if DEBUG >= 5:
        print(sink.pyrender())
    if DEBUG >= 6:
        print("\n".join(listing(linear.src)))
    print(source.arg)


def _machine_code(compiler: Compiler, source: str, binary: bytes) -> str:
    """Machine code as text, or why there is none."""
    try:
        return compiler.assembly(source)
    except CompileError:
        try:
            return compiler.disassemble(binary)
        except CompileError as e:
            return e.message


def get_runtime(device: str, program: UOp, cache: bool = True) -> Program[Any]:
    """The loaded form of a PROGRAM, ready to be called with buffers; cache=False loads it anew."""
    key = (device, program)
    found = _loaded.find(key) if cache else None
    if found is None:
        with _naming(program):
            found = _loaded.keep(key, Device[device].runtime(to_elf(program)))
    return found


def to_elf(program: UOp) -> TinyELF:
    """A PROGRAM as it is loaded: machine code, entry, and what it is called with."""
    sink, linear, _, binary = program.src
    buffers = sorted(
        (u.arg.slot, u.dtype, u.shape)
        for u in dict.fromkeys(linear.src)
        if u.op is Ops.PARAM and not u.is_variable
    )
    signature = tuple((None, slot, dtype, shape) for slot, dtype, shape in buffers) + tuple(
        (v.arg.name, -1, v.dtype, ()) for v in program.arg.vars
    )
    return TinyELF(
        binary.arg, program.arg.function_name, program.arg.target or Target(), signature, sink.key
    )


def display_name(program: UOp) -> str:
    """A kernel's name without colours."""
    return ansistrip(program.arg.name)

"""The processes behind ``lab.worker``: a nursery that has everything loaded, and its children.

A notebook starts one nursery. Asked for a worker, the nursery forks: the child has LLVM loaded and
the fault handler in place and is ready in a few milliseconds. The nursery has a single thread and
runs no kernel, so it can always be forked and asked to end a child; when the notebook is gone its
socket closes, and it takes its children with it (they also ask the system for that).

Not built on ``multiprocessing``: its children import the user's main module again, which runs a
script a second time that does not expect it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinylab.errors import TinylabError
from tinylab.helpers.perf_events import Counters
from tinylab.runtime.compilers.llvm import Linked, LLVMCompiler
from tinylab.runtime.cpu_threads import KERNEL, pool
from tinylab.runtime.isolated.channel import Channel, Closed
from tinylab.runtime.isolated.memory import PAGE, UNKNOWN, Mapped, Region, map_page
from tinylab.target import host_machine

if TYPE_CHECKING:
    from tinylab.runtime.ops_python import PythonProgram

# Offsets into ucontext of the stack pointer, the instruction and the page fault's error (0:
# unknown).
_CONTEXT = {"x86_64": (160, 168, 192), "aarch64": (432, 440, 0)}

_HANDLER_IR = """
declare void @_exit(i32)

define void @fault(i32 %signal, ptr %info, ptr %context) {{
  %page = inttoptr i64 {page} to ptr
  store volatile i32 %signal, ptr %page
  %code.at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code.at
  %code.to = getelementptr i8, ptr %page, i64 4
  store volatile i32 %code, ptr %code.to
  %address.at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address.at
  %address.to = getelementptr i8, ptr %page, i64 8
  store volatile i64 %address, ptr %address.to
  %stack.at = getelementptr i8, ptr %context, i64 {stack}
  %stack = load i64, ptr %stack.at
  %stack.to = getelementptr i8, ptr %page, i64 16
  store volatile i64 %stack, ptr %stack.to
  %place.at = getelementptr i8, ptr %context, i64 {instruction}
  %place = load i64, ptr %place.at
  %place.to = getelementptr i8, ptr %page, i64 24
  store volatile i64 %place, ptr %place.to
  %error.at = getelementptr i8, ptr %context, i64 {error}
  %error.found = load i64, ptr %error.at
  %error = select i1 {known}, i64 %error.found, i64 {unknown}
  %error.to = getelementptr i8, ptr %page, i64 32
  store volatile i64 %error, ptr %error.to
  %exit = add i32 %signal, 128
  call void @_exit(i32 %exit)
  unreachable
}}
"""

_REPEAT_IR = """
define void @repeat(ptr %fn, ptr %bufs, ptr %vals, i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void %fn(ptr %bufs, ptr %vals, i64 0)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


# *** the nursery


def main(file: int) -> None:
    """Serves requests from a socket until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=file))
    tools = _Tools()
    children: set[int] = set()
    with contextlib.suppress(Closed):
        channel.send({"ready": os.getpid()})
        while True:
            request, _, files = channel.receive()
            if request["do"] == "fork":
                pid = os.fork()
                if pid == 0:
                    channel.close()
                    _serve(tools, *files)
                for each in files:
                    os.close(each)
                children.add(pid)
                channel.send({"pid": pid})
            else:
                channel.send({"status": _end(children, request["pid"])})
    for pid in children:
        _end(children | {pid}, pid)


def _end(children: set[int], pid: int) -> int:
    """Ends a child, if it has not ended itself, and says how it ended."""
    if pid not in children:
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    children.discard(pid)
    return os.waitpid(pid, 0)[1]


class _Tools:
    """What every child inherits: machine code of the fault handler and of the timing loop."""

    def __init__(self) -> None:
        machine = LLVMCompiler().machine
        compiler = LLVMCompiler()
        self.repeat = Linked(compiler.compile(_REPEAT_IR), "repeat")
        page = os.memfd_create("fault") if hasattr(os, "memfd_create") else _unnamed_file()
        os.truncate(page, PAGE)
        self.page = map_page(page)
        self.fault: Linked | None = None
        if sys.platform == "linux" and host_machine() in _CONTEXT:
            stack, instruction, error = _CONTEXT[host_machine()]
            text = _HANDLER_IR.format(
                page=self.page,
                stack=stack,
                instruction=instruction,
                error=error,
                known="true" if error else "false",
                unknown=UNKNOWN - (1 << 64),
            )
            obj = machine.emit_object(compiler.optimized(text))
            leave = ctypes.cast(ctypes.CDLL(None)._exit, ctypes.c_void_p).value or 0
            self.fault = Linked(obj, "fault", imports={"_exit": leave})


def _unnamed_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as f:
        return os.dup(f.fileno())


# *** a child


def _serve(tools: _Tools, sock: int, log: int, page: int) -> None:
    """Runs one job after another until nobody asks; never returns."""
    try:
        _settle(tools, log, page)
        channel = Channel(socket.socket(fileno=sock))
        with contextlib.suppress(Closed):
            while True:
                job, blob, files = channel.receive()
                _Run(tools, channel, job, blob, files[0]).answer()
                os.close(files[0])
    except BaseException:
        traceback.print_exc()  # to the log, which the parent reads
    finally:
        sys.stderr.flush()
        os._exit(0)


def _settle(tools: _Tools, log: int, page: int) -> None:
    libc = ctypes.CDLL(None)
    if sys.platform == "linux":
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: goes with the nursery
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(log, 1)
    os.dup2(log, 2)
    map_page(page, tools.page)
    if tools.fault is not None:
        _install_handler(libc, tools.fault["fault"])


def _install_handler(libc: ctypes.CDLL, handler: int) -> None:
    stack_bytes = 64 << 10
    _kept.append(ctypes.create_string_buffer(stack_bytes))
    where = ctypes.c_void_p(ctypes.addressof(_kept[-1]))
    _kept.append(_Stack(where, 0, stack_bytes))
    libc.sigaltstack(ctypes.byref(_kept[-1]), None)
    # On a stack of its own, so that a full stack can be reported too.
    action = _Action(handler, (ctypes.c_ulong * 16)(), 0x00000004 | 0x08000000, None)
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        libc.sigaction(int(number), ctypes.byref(action), None)


_kept: list[Any] = []


class _Stack(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _Action(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Run:
    """One job: compile, map, run once, and, if told to, run for the clock."""

    def __init__(
        self, tools: _Tools, channel: Channel, job: dict[str, Any], blob: bytes, file: int
    ) -> None:
        self.tools, self.channel, self.job, self.blob, self.file = tools, channel, job, blob, file
        self._interpret: Callable[[], Any] | None = None

    def answer(self) -> None:
        """Says how each stage ended."""
        try:
            prepare = self._loaded()
        except (TinylabError, KeyError) as e:
            self.channel.send({"refused": getattr(e, "message", str(e))})
            return
        mapped = Mapped(self.file, [Region(*r) for r in self.job["regions"]])
        prepare(mapped)
        self.channel.send({"mapped": mapped.addresses})
        try:
            once_ns = self._sample(1)
        except Exception as e:  # of the interpreter: machine code raises none
            self.channel.send({"failed": getattr(e, "message", f"{type(e).__name__}: {e}")})
            return
        self.channel.send({"ran": once_ns})
        request, _, _ = self.channel.receive()
        if request["do"] == "time":
            samples = self._time(request["budget_ns"])
            events = self._events(self.job["events"], request["budget_ns"])
            self.channel.send({"samples": samples, "first_ns": once_ns, **events})
        mapped.close()

    def _loaded(self) -> Callable[[Mapped], None]:
        """What makes the code, once it has its memory, ready to be called.

        Raises: TinylabError or KeyError for code that cannot be.
        """
        if self.job["kind"] == "listing":
            program = _program(self.blob)
            return lambda mapped: self._will_interpret(program, mapped)
        linked = Linked(self._compile(), self.job["name"])
        return lambda mapped: self._will_call(linked, mapped)

    def _will_call(self, linked: Linked, mapped: Mapped) -> None:
        self._keep = (ctypes.c_uint64 * len(mapped.addresses))(*mapped.addresses)
        values = self.job["vals"]
        self._vals = (ctypes.c_int64 * len(values))(*values)
        self.pointers, self.values = ctypes.addressof(self._keep), ctypes.addressof(self._vals)
        self.function, self.parts = linked[self.job["name"]], int(self.job["parts"])

    def _will_interpret(self, program: PythonProgram, mapped: Mapped) -> None:
        launch = {"global_size": self.job["grid"], "local_size": self.job["group"]}
        memory, values = self._memory(mapped), self.job["vals"]
        self._interpret = functools.partial(program, *memory, vals=values, **launch)

    def _memory(self, mapped: Mapped) -> list[memoryview]:
        """The buffers by slot, for a program that is interpreted; its slots are in their names."""
        regions = [Region(*r) for r in self.job["regions"]]
        found = {}
        for region, address in zip(regions, mapped.addresses, strict=True):
            data = (ctypes.c_char * region.size).from_address(address)
            found[int(region.name.removeprefix("data"))] = memoryview(data).cast("B")
        nothing = memoryview(b"")
        return [found.get(slot, nothing) for slot in range(max(found, default=-1) + 1)]

    def _compile(self) -> bytes:
        if self.job["kind"] == "object":
            return self.blob
        compiler = _compiler(self.job["arch"])
        text = self.blob.decode()
        lib = compiler.compile(text)
        if self.job["assembly"]:
            self.channel.send({"assembly": compiler.assembly(text)})
        return lib

    def _sample(self, times: int) -> float:
        """Nanoseconds of one run, as the mean of ``times``."""
        if self._interpret is not None:
            start = time.perf_counter_ns()
            for _ in range(times):
                self._interpret()
            return (time.perf_counter_ns() - start) / times
        if self.parts == 1:
            repeat = _REPEAT(self.tools.repeat["repeat"])
            start = time.perf_counter_ns()
            repeat(self.function, self.pointers, self.values, times)
            return (time.perf_counter_ns() - start) / times
        run = pool().run
        start = time.perf_counter_ns()
        for _ in range(times):
            run(self.function, self.pointers, self.values, self.parts)
        return (time.perf_counter_ns() - start) / times

    def _time(self, budget_ns: int) -> list[float]:
        """Samples of warm runs, each of them 20 us or one run long.

        At least 5; of runs that are longer than the budget just one, which is no shorter than the
        5 of others.
        """
        once = self._sample(1)
        if once > budget_ns:
            return [once]
        once = min(once, self._sample(1))
        times = max(int(20_000 // max(once, 1)), 1)
        samples: list[float] = []
        end = time.perf_counter_ns() + budget_ns
        while len(samples) < 5 or (len(samples) < 200 and time.perf_counter_ns() < end):
            samples.append(self._sample(times))
        return samples

    def _events(self, names: list[str], budget_ns: int) -> dict[str, Any]:
        """What the processor and the system counted in some runs, on this thread alone.

        The parts of a THREAD axis run one after another.
        """
        if not names:
            return {}
        call, runs, start = KERNEL(self.function), 0, time.perf_counter_ns()
        counters = Counters(names)
        with counters:
            while runs == 0 or time.perf_counter_ns() - start < budget_ns:
                for part in range(self.parts):
                    call(self.pointers, self.values, part)
                runs += 1
        found = {n: {"value": r.value, "share": r.share} for n, r in counters.readings().items()}
        counters.close()
        return {"events": found, "missing": counters.missing, "event_runs": runs}


_REPEAT = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 3, ctypes.c_int64)


def _program(listing: bytes) -> PythonProgram:
    """A listing of the PYTHON device, ready to run; no device has to be open for it.

    Raises: CompileError naming the line that is not of the language.
    """
    from tinylab.device import TinyELF
    from tinylab.runtime.ops_python import PythonDevice, PythonProgram

    return PythonProgram(PythonDevice("PYTHON"), TinyELF(listing, "listing"))


@functools.cache
def _compiler(arch: str) -> LLVMCompiler:
    # A mistake in inline assembly ends this process, and only this one.
    return LLVMCompiler(arch, inline_assembly=True)

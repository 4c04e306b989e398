"""A pool of threads that runs the parts of one kernel; written in LLVM IR, Python is not asked.

The workers are Python threads that enter ``worker`` once and stay in it, without the interpreter's
lock. A kernel of n parts is a job: the caller writes {function, buffers, values} and publishes
``state`` = (job number << 32) + parts left; whoever swaps ``state`` for one part less owns that
part. The caller takes parts too, and waits until all are done. A worker that comes late reads a
number that has moved on or no parts left, so it cannot run a part of a job that is over: a job is
written only after all parts of the one before are done.

Waiting spins first and then sleeps on a futex. Each worker is pinned to a processor of its own, and
the caller moves off a worker's processor for the length of a job: two threads that share one
processor stay so for 1 to 5 ms.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tinylab.runtime.compilers.llvm import Linked, LLVMCompiler
from tinylab.target import host_machine

# Bytes of the shared page; each field that threads write has a cache line of its own.
_SLEEPERS, _UNDONE, _STOP, _JOB, _HOME = 64, 128, 192, 256, 320
_SPIN = 1000  # about 20 us
_SYSCALL_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "pause", "aarch64": "yield"}

_POOL_IR = """
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @take(ptr %page) {{
entry:
  %left.old = load atomic i64, ptr %page seq_cst, align 8
  br label %again
again:
  %seen = phi i64 [%left.old, %entry], [%now, %swap]
  %left = and i64 %seen, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %nothing, label %swap
swap:
  %less = sub i64 %seen, 1
  %pair = cmpxchg ptr %page, i64 %seen, i64 %less seq_cst seq_cst
  %now = extractvalue {{i64, i1}} %pair, 0
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %got, label %again
got:
  ret i64 %left
nothing:
  ret i64 0
}}

define internal void @work(ptr %page, ptr %fn, ptr %bufs, ptr %vals, i64 %part) {{
entry:
  %undone = getelementptr i8, ptr %page, i64 {undone}
  %core = sub i64 %part, 1
  call void %fn(ptr %bufs, ptr %vals, i64 %core)
  %before = atomicrmw sub ptr %undone, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  %waiting.at = getelementptr i8, ptr %undone, i64 4
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  %needed = and i1 %last, %asleep
  br i1 %needed, label %wake, label %done
wake:
  %r0 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %undone, i64 129, i64 1)
  br label %done
done:
  ret void
}}

define void @worker(ptr %page) {{
entry:
  %sleepers = getelementptr i8, ptr %page, i64 {sleepers}
  %stop = getelementptr i8, ptr %page, i64 {stop}
  %job = getelementptr i8, ptr %page, i64 {job}
  %job.bufs = getelementptr i8, ptr %job, i64 8
  %job.vals = getelementptr i8, ptr %job, i64 16
  %number = getelementptr i8, ptr %page, i64 4
  br label %look
look:
  %state = load atomic i64, ptr %page seq_cst, align 8
  %left = and i64 %state, 4294967295
  %idle = icmp eq i64 %left, 0
  br i1 %idle, label %wait, label %read
read:
  %fn = load volatile ptr, ptr %job
  %bufs = load volatile ptr, ptr %job.bufs
  %vals = load volatile ptr, ptr %job.vals
  %less = sub i64 %state, 1
  %pair = cmpxchg ptr %page, i64 %state, i64 %less seq_cst seq_cst
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %run, label %look
run:
  call void @work(ptr %page, ptr %fn, ptr %bufs, ptr %vals, i64 %left)
  br label %look
wait:
  %seen64 = lshr i64 %state, 32
  %seen = trunc i64 %seen64 to i32
  %flag = load atomic i32, ptr %stop seq_cst, align 4
  %leave = icmp ne i32 %flag, 0
  br i1 %leave, label %exit, label %spin
spin:
  %i = phi i32 [0, %wait], [%i1, %idle.still]
  %current = load atomic i32, ptr %number seq_cst, align 4
  %moved = icmp ne i32 %current, %seen
  br i1 %moved, label %look, label %idle.still
idle.still:
  call void asm sideeffect "{pause}", ""()
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, {spin}
  br i1 %more, label %spin, label %sleep
sleep:
  %r1 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %r2 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %number, i64 128, i32 %seen, ptr null)
  %r3 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
exit:
  ret void
}}

define void @run(ptr %page, ptr %fn, ptr %bufs, ptr %vals, i64 %parts) {{
entry:
  %sleepers = getelementptr i8, ptr %page, i64 {sleepers}
  %undone = getelementptr i8, ptr %page, i64 {undone}
  %job = getelementptr i8, ptr %page, i64 {job}
  %job.bufs = getelementptr i8, ptr %job, i64 8
  %job.vals = getelementptr i8, ptr %job, i64 16
  %number = getelementptr i8, ptr %page, i64 4
  %home = getelementptr i8, ptr %page, i64 {home}
  %home.cpu.at = getelementptr i8, ptr %home, i64 128
  %waiting = getelementptr i8, ptr %undone, i64 4
  %before = alloca [128 x i8], align 8
  store volatile ptr %fn, ptr %job
  store volatile ptr %bufs, ptr %job.bufs
  store volatile ptr %vals, ptr %job.vals
  %parts32 = trunc i64 %parts to i32
  store atomic i32 %parts32, ptr %undone seq_cst, align 4
  %old = load atomic i64, ptr %page seq_cst, align 8
  %old.number = lshr i64 %old, 32
  %new.number = add i64 %old.number, 1
  %shifted = shl i64 %new.number, 32
  %new = or i64 %shifted, %parts
  store atomic i64 %new, ptr %page seq_cst, align 8
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %place
wake:
  %others = sub i64 %parts, 1
  %r0 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %number, i64 129, i64 %others)
  br label %place
place:
  %home.cpu = load i32, ptr %home.cpu.at
  %cpu = call i32 @sched_getcpu()
  %free = icmp eq i32 %cpu, %home.cpu
  br i1 %free, label %more, label %move
move:
  %r1 = call i32 @sched_getaffinity(i32 0, i64 128, ptr %before)
  %r4 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %home)
  br label %more
more:
  %part = call i64 @take(ptr %page)
  %none = icmp eq i64 %part, 0
  br i1 %none, label %await, label %part.run
part.run:
  call void @work(ptr %page, ptr %fn, ptr %bufs, ptr %vals, i64 %part)
  br label %more
await:
  %i = phi i32 [0, %more], [%i1, %await.next]
  %n = load atomic i32, ptr %undone seq_cst, align 4
  %finished = icmp eq i32 %n, 0
  br i1 %finished, label %back, label %await.more
await.more:
  call void asm sideeffect "{pause}", ""()
  %i1 = add i32 %i, 1
  %again = icmp slt i32 %i1, {spin}
  br i1 %again, label %await.next, label %await.sleep
await.sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %r2 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %undone, i64 128, i32 %n, ptr null)
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %await.next
await.next:
  br label %await
back:
  br i1 %free, label %exit, label %release
release:
  %r3 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %before)
  br label %exit
exit:
  ret void
}}

define void @graph(ptr %page, ptr %table, i64 %count) {{
entry:
  %end = getelementptr [4 x i64], ptr %table, i64 %count
  %none = icmp eq i64 %count, 0
  br i1 %none, label %exit, label %step
step:
  %at = phi ptr [%table, %entry], [%next, %after]
  %bufs.at = getelementptr i64, ptr %at, i64 1
  %vals.at = getelementptr i64, ptr %at, i64 2
  %parts.at = getelementptr i64, ptr %at, i64 3
  %fn = load ptr, ptr %at
  %bufs = load ptr, ptr %bufs.at
  %vals = load ptr, ptr %vals.at
  %parts = load i64, ptr %parts.at
  %many = icmp ugt i64 %parts, 1
  br i1 %many, label %together, label %alone
together:
  call void @run(ptr %page, ptr %fn, ptr %bufs, ptr %vals, i64 %parts)
  br label %after
alone:
  call void %fn(ptr %bufs, ptr %vals, i64 0)
  br label %after
after:
  %next = getelementptr [4 x i64], ptr %at, i64 1
  %more = icmp ne ptr %next, %end
  br i1 %more, label %step, label %exit
exit:
  ret void
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @copy(ptr %bufs, ptr %vals, i64 %core) {{
  %from.at = getelementptr ptr, ptr %bufs, i64 1
  %to = load ptr, ptr %bufs
  %from = load ptr, ptr %from.at
  %size = load i64, ptr %vals
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}}
"""


# Where nobody wants to know whether something is done.
UNHEARD: deque[Any] = deque(maxlen=0)
_consumed: Callable[..., Any] = functools.partial(deque, maxlen=0)


class Pool(Protocol):
    """Runs the parts of a kernel and returns when all are done."""

    def run(self, fn: int, bufs: int, vals: int, parts: int, done: deque[Any] = UNHEARD) -> None:
        """Calls the function at ``fn`` with core ids 0 to parts - 1, and notes that it is done."""


class NativePool:
    """The pool above; one job at a time, a second caller runs its parts alone."""

    def __init__(self, cpus: list[int]) -> None:
        import atexit

        machine = host_machine()
        text = _POOL_IR.format(
            undone=_UNDONE, sleepers=_SLEEPERS, stop=_STOP, job=_JOB, home=_HOME, spin=_SPIN,
            futex=_SYSCALL_FUTEX[machine], pause=_PAUSE[machine],
        )  # fmt: skip
        libc = ctypes.CDLL(None)
        imports = {
            name: _address(getattr(libc, name))
            for name in ("syscall", "sched_getcpu", "sched_getaffinity", "sched_setaffinity")
        }
        compiler = LLVMCompiler()
        self._code = Linked(
            compiler.machine.emit_object(compiler.optimized(text)),
            *("worker", "run", "graph", "copy"),
            imports=imports | {"memcpy": _address(libc.memcpy)},
        )
        self._memory = ctypes.create_string_buffer(4096 + 64)
        self._page = (ctypes.addressof(self._memory) + 63) // 64 * 64
        self._run, self._graph = _RUN(self._code["run"]), _GRAPH(self._code["graph"])
        self.copy_address = self._code["copy"]
        self._busy = threading.Lock()
        self._set_home(cpus[0])
        self._threads = [
            threading.Thread(target=self._work, args=(cpu,), name=f"tinylab-cpu{cpu}", daemon=True)
            for cpu in cpus[1:]
        ]
        for thread in self._threads:
            thread.start()
        # A worker must not be in code that the process' end unmaps.
        atexit.register(self.close)

    def _set_home(self, cpu: int) -> None:
        """Where the caller goes during a job, if it is on a worker's processor."""
        ctypes.memmove(self._page + _HOME, (1 << cpu).to_bytes(128, "little"), 128)
        ctypes.c_int32.from_address(self._page + _HOME + 128).value = cpu

    def _work(self, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        _WORKER(self._code["worker"])(self._page)

    def run(self, fn: int, bufs: int, vals: int, parts: int, done: deque[Any] = UNHEARD) -> None:
        """Calls the function at ``fn`` with core ids 0 to parts - 1, on all processors at once.

        No signal's handler runs in between, nor before `done` holds something.
        """
        if not self._busy.acquire(blocking=False):
            each = itertools.starmap(KERNEL(fn), [(bufs, vals, core) for core in range(parts)])
            done.extend(map(_consumed, (each,)))
            return
        try:
            done.extend(itertools.starmap(self._run, ((self._page, fn, bufs, vals, parts),)))
        finally:
            self._busy.release()

    def graph(self, table: int, count: int, done: deque[Any] = UNHEARD) -> None:
        """Runs ``count`` entries of {function, buffers, values, parts} in one call.

        Once it is over `done` holds something, whatever a signal's handler does.
        """
        with self._busy:
            done.extend(itertools.starmap(self._graph, ((self._page, table, count),)))

    def close(self) -> None:
        """Sends the workers home."""
        with self._busy:
            ctypes.c_int32.from_address(self._page + _STOP).value = 1
            self._run(self._page, 0, 0, 0, 0)  # a job of no parts: every worker looks up
            number, futex = ctypes.c_void_p(self._page + 4), _SYSCALL_FUTEX[host_machine()]
            ctypes.CDLL(None).syscall(futex, number, 129, 1 << 20, None, None, 0)
        for thread in self._threads:
            thread.join(timeout=1)


class PythonPool:
    """The same with Python's threads, for systems without futexes; a job costs 50 us more."""

    def __init__(self, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._others = ThreadPoolExecutor(max(count - 1, 1), "tinylab-cpu")
        self._callers = ThreadPoolExecutor(1, "tinylab-cpu-caller")

    def run(self, fn: int, bufs: int, vals: int, parts: int, done: deque[Any] = UNHEARD) -> None:
        """Calls the function at ``fn`` with core ids 0 to parts - 1, several at once."""
        whole = self._callers.submit(self._run, fn, bufs, vals, parts)
        whole.add_done_callback(done.append)
        try:
            whole.result()
        except BaseException:  # a signal's handler ends the waiting, not the kernel
            whole.exception()
            raise

    def _run(self, fn: int, bufs: int, vals: int, parts: int) -> None:
        call = KERNEL(fn)
        rest = [self._others.submit(call, bufs, vals, core) for core in range(1, parts)]
        call(bufs, vals, 0)
        for future in rest:
            future.result()


KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_WORKER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 4, ctypes.c_int64)
_GRAPH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def pool() -> Pool:
    """This process' pool; made on first use, and anew after a fork, which copies no thread."""
    return _pool_of(os.getpid())


@functools.cache
def _pool_of(pid: int) -> Pool:
    if sys.platform == "linux" and platform.libc_ver()[0] and host_machine() in _SYSCALL_FUTEX:
        cpus = sorted(os.sched_getaffinity(0))
        if cpus[-1] < 1024:
            return NativePool(cpus)
    return PythonPool(os.cpu_count() or 1)

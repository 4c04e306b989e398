"""What counting costs: a kernel on one thread, the same counting itself, the same with caches."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks import harness
from tinylab import Context, Tensor
from tinylab.device import BufferSpec, Device
from tinylab.engine.compile import lower_kernel
from tinylab.profiler.counters import counted
from tinylab.runtime.compilers.llvm import Linked
from tinylab.runtime.cpu_threads import KERNEL
from tinylab.trace.record import KernelRecord, record

SIZES = (256, 512, 1024)


def kernels() -> dict[str, KernelRecord]:
    """Products, and sums down columns, of square matrices: the last kernel of each."""
    found = {}
    for size in SIZES:
        a, b = (Tensor.rand(size, size).realize() for _ in range(2))
        for name, result in (("matmul", a @ b), ("column_sum", a.sum(0))):
            with record() as rec:
                result.realize()
            found[f"{name}_{size}"] = rec.kernels[-1]
    return found


def run(rounds: int = 5) -> None:
    """Processor time of each, by turns; and lines of the cache model a second."""
    rows = []
    with Context(NUM_CPU_THREADS=1):
        for name, kernel in kernels().items():
            program = lower_kernel(kernel.ast, "CPU")
            bare, full = counted.build(program, caches=()), counted.build(program)
            compile_ = Device["CPU"].compiler.compile
            plain_name = program.arg.function_name
            jobs = {
                "plain": _timed(program.src[3].arg, plain_name, bare.sizes[:-1]),
                "counts": _timed(compile_(bare.source), bare.name, bare.sizes),
                "caches": _timed(compile_(full.source), full.name, full.sizes),
            }
            times = harness.by_turns(jobs, rounds)
            plain, counts, caches = (statistics.median(times[n]) for n in jobs)
            touches = counted.count(program).levels[0].touches
            rows.append(
                [
                    name,
                    harness.shown_time(plain),
                    harness.shown_ratio(times["plain"], times["counts"]),
                    harness.shown_ratio(times["plain"], times["caches"]),
                    f"{touches / max(caches - counts, 1e-9) / 1e6:.0f} M/s",
                ]
            )
    title = "counting: one thread; the kernel, built to count itself, and with a model of caches"
    harness.table(title, ["kernel", "plain", "counts", "caches", "lines"], rows)


def _timed(lib: bytes, name: str, sizes: Sequence[int]) -> Callable[[], float]:
    """A kernel that can be run again and again; the seconds that one run takes."""
    linked = Linked(lib, name)
    memories = [Device["CPU"].allocator.alloc(n, BufferSpec(zero=True)) for n in sizes]
    pointers = (ctypes.c_uint64 * len(memories))(*[m.address for m in memories])
    values = (ctypes.c_int64 * 1)(0)
    call, arguments = KERNEL(linked[name]), (ctypes.addressof(pointers), ctypes.addressof(values))

    def once(kept: object = (linked, memories, pointers, values)) -> float:
        start = time.thread_time()
        call(*arguments, 0)
        return time.thread_time() - start

    return once

"""The roofline: what a kernel reaches, beside what the machine could.

    machine = measure()                                   # a second, once a process
    line = roofline(counters, elapsed_ns, machine)
    line.points     # a point per level of memory: operations per byte, operations per second
    line.bound      # "memory", "L2", "arithmetic": what the kernel has to wait for at least

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", 2009; a
roof per cache as in Ilic, Pratas, Sousa, "Cache-aware roofline model", 2014.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tinylab.device import BufferSpec, Device
from tinylab.dtype import dtypes
from tinylab.errors import CounterError
from tinylab.profiler.counters.cache import COMMON, Cache, machine_caches
from tinylab.profiler.counters.data import Counters, Json, Kind

_SAMPLE_NS = 4e6  # of one timing; the best of some is taken
_SAMPLES = 7
_CHAINS = 12  # sums in flight: more than the units need, fewer than there are registers


@dataclass(frozen=True)
class Roof:
    """A rate of the machine: GFLOP/s of arithmetic, or GB/s of reading from a level."""

    name: str
    rate: float
    unit: str
    kind: Kind
    note: str = ""


@dataclass(frozen=True)
class Machine:
    """What a machine can do with so many threads."""

    arithmetic: Roof
    levels: tuple[Roof, ...]  # "L1" … "memory"
    threads: int = 1


@dataclass(frozen=True)
class Point:
    """A kernel at one level: intensity in operations per byte that came from there."""

    level: str
    bytes: float
    intensity: float | None  # None: no byte came from there
    gflops: float
    gbs: float
    kind: Kind


@dataclass(frozen=True)
class Roofline:
    """Roofs, points, and what the kernel has to wait for: `reached` is the share of that roof."""

    machine: Machine
    points: tuple[Point, ...]
    gflops: float
    elapsed_ns: float
    bound: str
    reached: float

    def to_json(self) -> Json:
        """Plain data for a front end."""
        return asdict(self)


def given(gflops: float, levels: dict[str, float], threads: int = 1) -> Machine:
    """A machine whose rates somebody states: GFLOP/s, and GB/s by level, nearest first.

    Raises: CounterError for a rate that is none.
    """
    for name, rate in {"arithmetic": gflops, **levels}.items():
        if not rate > 0:
            raise CounterError(f"the rate of {name} is {rate}", help="give more than 0 per second")
    return Machine(
        Roof("arithmetic", gflops, "GFLOP/s", "given"),
        tuple(Roof(name, rate, "GB/s", "given") for name, rate in levels.items()),
        threads,
    )


def roofline(counters: Counters, elapsed_ns: float, machine: Machine) -> Roofline:
    """Where a kernel that took so long stands.

    Raises: CounterError for a time that is none, or counters without a cache model.
    """
    if not elapsed_ns > 0:
        raise CounterError(f"a kernel took {elapsed_ns} ns", help="run it first")
    if not counters.levels:
        raise CounterError("a roofline needs counters with a cache model", help="give caches")
    flops = counters.get("flops")
    gflops = flops / elapsed_ns
    points = tuple(
        Point(
            name,
            moved,
            flops / moved if moved else None,
            gflops,
            moved / elapsed_ns,
            counters.kind,
        )
        for name, moved in traffic(counters)
    )
    shares = {"arithmetic": gflops / machine.arithmetic.rate}
    rates = {roof.name: roof.rate for roof in machine.levels}
    for point in points:
        if point.level in rates:
            shares[point.level] = point.gbs / rates[point.level]
    bound = max(shares, key=lambda name: shares[name])
    return Roofline(machine, points, gflops, elapsed_ns, bound, shares[bound])


def traffic(counters: Counters) -> list[tuple[str, float]]:
    """Bytes that came from each level: from the first what was asked for, then whole lines."""
    asked = counters.get("bytes loaded") + counters.get("bytes stored")
    found = [(counters.levels[0].name, asked)]
    behind = [level.name for level in counters.levels[1:]] + ["memory"]
    for level, name in zip(counters.levels, behind, strict=True):
        found.append((name, level.misses * level.line_bytes))
    return found


# *** measuring the machine


@functools.cache
def measure(threads: int = 1) -> Machine:
    """The rates of this machine: arithmetic of float32 in vectors, reading from each level.

    Best of some short runs; about half a second, once a process for each number of threads. What
    each core has of its own is measured on one and counted for each thread.
    """
    caches = machine_caches() or COMMON
    lanes = Device["CPU"].renderer.vector_width(dtypes.float32)
    each = f", one core {threads} times" if threads > 1 else ""
    # In a turn each chain is one fused operation, two operations a lane.
    compute = _Benchmark(_compute_ir(lanes), "compute", 1)
    rate = threads * compute.best_rate(2 * lanes * _CHAINS, turns=4096)
    arithmetic = Roof(
        "arithmetic", rate, "GFLOP/s", "measured", f"float32 multiply-add, {lanes} lanes{each}"
    )
    shared = {cache.name for cache in caches if cache.shared} | {"memory"}
    per_turn = lanes * 4 * 8
    levels = []
    for name, size in _sizes(caches):
        together = threads if name in shared else 1
        read = _Benchmark(_read_ir(lanes), "read", together)
        found = read.best_rate(per_turn, max(1, size // together // per_turn))
        note = "reading" if name in shared else f"reading{each}"
        levels.append(Roof(name, found * threads / together, "GB/s", "measured", note))
    return Machine(arithmetic, tuple(levels), threads)


def _sizes(caches: Sequence[Cache]) -> list[tuple[str, int]]:
    """How much to read so that it comes from each level: half of it; memory: twice the last."""
    found = [(cache.name, cache.size_bytes // 2) for cache in caches]
    return [*found, ("memory", min(2 * caches[-1].size_bytes, 256 << 20))]


class _Benchmark:
    """A loop of machine code that can be run for so many turns on some threads."""

    def __init__(self, source: str, name: str, threads: int) -> None:
        from tinylab.runtime.compilers.llvm import Linked

        compiler: Any = Device["CPU"].compiler
        self.linked = Linked(compiler.compile_cached(source), name)
        self.address, self.threads = self.linked[name], threads

    def best_rate(self, per_turn: int, turns: int) -> float:
        """Work of a turn times turns per nanosecond, of all threads together.

        Each thread has memory of its own: as many bytes as a repeat's work.
        """
        allocator: Any = Device["CPU"].allocator
        size, spec = per_turn * turns, BufferSpec(zero=True)
        memory = allocator.alloc(size * self.threads, spec)
        try:
            repeats = 1
            while (elapsed := self._run(memory.address, size, turns, repeats)) < _SAMPLE_NS / 4:
                repeats = max(repeats * 2, int(repeats * _SAMPLE_NS / 2 / max(elapsed, 1)))
            best = min(self._run(memory.address, size, turns, repeats) for _ in range(_SAMPLES))
        finally:
            allocator.free(memory, size * self.threads, spec)
        return size * repeats * self.threads / best

    def _run(self, address: int, size: int, turns: int, repeats: int) -> float:
        from tinylab.runtime.cpu_threads import KERNEL, pool

        pointers = (ctypes.c_uint64 * 1)(address)
        values = (ctypes.c_int64 * 3)(size, turns, repeats)
        start = time.perf_counter_ns()
        arguments = (ctypes.addressof(pointers), ctypes.addressof(values))
        if self.threads == 1:
            KERNEL(self.address)(*arguments, 0)
        else:
            pool().run(self.address, *arguments, self.threads)
        return time.perf_counter_ns() - start


def _function(name: str, body: str) -> str:
    """A loop of `repeats` times `turns` turns; its memory starts at %base."""
    return f"""
define void @{name}(ptr %bufs, ptr %vals, i64 %core_id) {{
entry:
  %start = load ptr, ptr %bufs
  %size = load i64, ptr %vals
  %turns.at = getelementptr i64, ptr %vals, i64 1
  %turns = load i64, ptr %turns.at
  %repeats.at = getelementptr i64, ptr %vals, i64 2
  %repeats = load i64, ptr %repeats.at
  %own = mul i64 %size, %core_id
  %base = getelementptr i8, ptr %start, i64 %own
  br label %outer
outer:
  %repeat = phi i64 [ 0, %entry ], [ %repeat.next, %behind ]
  br label %loop
{body}
behind:
  %repeat.next = add i64 %repeat, 1
  %again = icmp slt i64 %repeat.next, %repeats
  br i1 %again, label %outer, label %done
done:
  ret void
}}
"""


def _compute_ir(lanes: int) -> str:
    """Chains of fused multiply-adds in registers; one store a repeat keeps them from going."""
    kind = f"<{lanes} x float>"
    chains = range(_CHAINS)
    lines = ["loop:", "  %turn = phi i64 [ 0, %outer ], [ %turn.next, %loop ]"]
    lines += [
        f"  %x{i} = phi {kind} [ splat (float {i}.0), %outer ], [ %y{i}, %loop ]" for i in chains
    ]
    lines += [
        f"  %y{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %x{i}, "
        f"{kind} splat (float 0.5), {kind} splat (float 1.0))"
        for i in chains
    ]
    lines += [
        "  %turn.next = add i64 %turn, 1",
        "  %more = icmp slt i64 %turn.next, %turns",
        "  br i1 %more, label %loop, label %after",
        "after:",
    ]
    return _function("compute", "\n".join(lines + _kept(kind, "fadd", _CHAINS)))


def _read_ir(lanes: int) -> str:
    """Eight vectors a turn, each added to a sum of its own."""
    kind = f"<{lanes} x i32>"
    lines = ["loop:", "  %turn = phi i64 [ 0, %outer ], [ %turn.next, %loop ]"]
    lines += [
        f"  %x{i} = phi {kind} [ zeroinitializer, %outer ], [ %y{i}, %loop ]" for i in range(8)
    ]
    lines += [f"  %ahead = mul i64 %turn, {lanes * 4 * 8}"]
    lines += ["  %here = getelementptr i8, ptr %base, i64 %ahead"]
    for i in range(8):
        lines += [
            f"  %p{i} = getelementptr i8, ptr %here, i64 {i * lanes * 4}",
            f"  %v{i} = load {kind}, ptr %p{i}, align 4",
            f"  %y{i} = add {kind} %x{i}, %v{i}",
        ]
    lines += [
        "  %turn.next = add i64 %turn, 1",
        "  %more = icmp slt i64 %turn.next, %turns",
        "  br i1 %more, label %loop, label %after",
        "after:",
    ]
    return _function("read", "\n".join(lines + _kept(kind, "add", 8)))


def _kept(kind: str, add: str, count: int) -> list[str]:
    """The sums are added up and stored where the memory begins, so that none is left out."""
    lines = []
    last = "%y0"
    for i in range(1, count):
        lines.append(f"  %sum{i} = {add} {kind} {last}, %y{i}")
        last = f"%sum{i}"
    return [*lines, f"  store volatile {kind} {last}, ptr %base, align 4", "  br label %behind"]

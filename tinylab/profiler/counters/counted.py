"""Counted figures: the same kernel, built to count itself, run on copies of its buffers.

    counters = count(program, buffers)       # PROGRAM of a CPU kernel; bytes by slot, or None
    counters["flops"], counters.uops, counters.levels

Exact, and the same on every machine: loads, stores, bytes, arithmetic by kind and loop turns are
what the program's lines executed. Cache hits and misses are a model's (`cache`), fed with every
address; where that would take too long it simulates some sets, and says so.

A program whose loops have no vectors may be given some by LLVM, which the lines do not show.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinylab.codegen import do_to_program
from tinylab.device import BufferSpec, Device
from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import CounterError, RenderError
from tinylab.helpers.arguments import explained
from tinylab.opcodes import Ops
from tinylab.profiler.counters.cache import (
    COMMON,
    Cache,
    Model,
    checked,
    layout,
    machine_caches,
    sampled_residues,
)
from tinylab.profiler.counters.data import (
    BufferCounts,
    Counters,
    Figure,
    LevelCounts,
    LoopCounts,
    UopCounts,
)
from tinylab.profiler.counters.instrument import COUNTING, Plan
from tinylab.profiler.counters.kinds import (
    FLOPS,
    addressing,
    buffer_of,
    lanes_of,
    sort_of,
    width_of,
)
from tinylab.profiler.counters.workgroups import as_loops, is_thread, threads_of
from tinylab.profiler.inputs import random_bytes
from tinylab.trace import events
from tinylab.uop.ops import UOp, run_passes

MOST_TOUCHES = 100e6  # of cache lines that are all simulated; beyond that some sets are
Bytes = bytes | bytearray | memoryview
Run = Callable[["Job"], Mapping[int, Bytes]]


@dataclass(frozen=True)
class Job:
    """A counting kernel: what to compile, what to call it with, how to read what it leaves.

    It is called as every CPU kernel, with one part: it does the parts of a THREAD axis one after
    another. sizes and data: of its buffers by position; None is zeros.
    """

    name: str
    source: str
    sizes: tuple[int, ...]
    data: tuple[Bytes | None, ...]
    vals: tuple[int | None, ...]
    arch: str
    program: UOp
    plan: Plan
    model: Model | None
    parts: int
    threads: int = 1

    def read(self, outputs: Mapping[int, Bytes]) -> Counters:
        """The counters, from the bytes of each buffer after the run, by position."""
        return _Reading(self, outputs).counters()


@explained
def count(
    program: UOp,
    buffers: Mapping[int, Bytes] | None = None,
    *,
    values: Mapping[str, int] | None = None,
    caches: Sequence[Cache] | None = None,
    most_touches: float = MOST_TOUCHES,
    run: Run | None = None,
) -> Counters:
    """The counters of one run of a kernel.

    program: PROGRAM of a CPU kernel. buffers: the bytes of each before the run, by slot; those not
    given are seeded random numbers. values: of its variables, by name; by custom the middle of
    their range. caches: the levels of the model, this machine's if not given; () for none. run: who
    runs the job, such as a process apart; by custom this process does, without a time limit.

    Raises: CounterError for a program that cannot count itself.
    """
    job = build(program, buffers, values=values, caches=caches, most_touches=most_touches)
    return job.read((run or run_here)(job))


def build(
    program: UOp,
    buffers: Mapping[int, Bytes] | None = None,
    *,
    values: Mapping[str, int] | None = None,
    caches: Sequence[Cache] | None = None,
    most_touches: float = MOST_TOUCHES,
) -> Job:
    """A kernel built to count itself, ready to be run; see `count`."""
    sink, linear = _parts(program)
    threads = threads_of(linear)
    linear = as_loops(linear, program.arg.function_name)
    lines = linear.src
    params = _params(lines)
    sizes = {u.arg.slot: math.prod(int(n) for n in u.shape) * u.dtype.itemsize for u in params}
    bases = layout(sizes.values())
    levels = checked(machine_caches() or COMMON) if caches is None else tuple(caches)
    plan = Plan(lines, dict(zip(sizes, bases, strict=True)), traced=bool(levels))
    info = program.arg
    parts = _part_count(program)
    end = max((b + n for b, n in zip(bases, sizes.values(), strict=True)), default=0)
    model = None
    if levels:
        kept = sampled_residues(checked(levels), _expected_touches(plan), most_touches)
        model = Model(levels, parts, end, *kept)
    ren = Device["CPU"].renderer
    with events.quietly():
        counting = run_passes(linear, COUNTING, plan)
        rendered = _rendered(program.replace(src=(sink, counting)), ren)
    name = f"{info.function_name}_counted"
    extra = [8 * plan.tallies]
    if model is not None:
        words = 1 + max(1, len(plan.site)) * model.words
        extra += [8 * words, model.scratch_bytes]
    own = [_bytes_of(u, sizes[u.arg.slot], (buffers or {}).get(u.arg.slot)) for u in params]
    texts = (rendered.src[2].arg, model.ir(plan.widths) if model else "")
    return Job(
        name,
        "\n".join([*texts, _entry(info, name, parts, plan)]),
        (*sizes.values(), *extra),
        (*own, *(None for _ in extra)),
        _values(info.vars, values or {}),
        str(getattr(info.target, "arch", "") or ""),
        program,
        plan,
        model,
        parts,
        threads,
    )


def _rendered(program: UOp, ren: Any) -> UOp:
    """Raises: CounterError for what another device's program has and the CPU lacks."""
    try:
        return do_to_program(program, ren)
    except RenderError as error:
        raise CounterError(
            f"{program.arg.function_name} cannot be counted by the CPU: {error.message}",
            help="run the cell on the CPU to count its kernels, or estimate it for a GPU",
        ) from None


def _parts(program: UOp) -> tuple[UOp, UOp]:
    """(SINK, LINEAR) of a program that runs on the CPU."""
    parts = {p.op: p for p in program.src} if program.op is Ops.PROGRAM else {}
    if Ops.LINEAR not in parts or Ops.SINK not in parts:
        raise CounterError(f"a {program.op.name} has no lines to count", help="give a PROGRAM")
    return parts[Ops.SINK], parts[Ops.LINEAR]


def _params(lines: Iterable[UOp]) -> list[UOp]:
    """The buffers that a program is called with, by slot.

    Raises: CounterError where a slot is missing, since buffers are passed by position.
    """
    found = {
        u.arg.slot: u for u in lines if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.GLOBAL
    }
    if sorted(found) != list(range(len(found))):
        raise CounterError(f"the program uses buffers {sorted(found)}, and not those between")
    return [found[slot] for slot in sorted(found)]


def _bytes_of(param: UOp, size: int, given: Bytes | None) -> Bytes:
    if given is None:
        return random_bytes(param.dtype, size, param.arg.slot)
    if memoryview(given).nbytes != size:
        raise CounterError(
            f"buffer {param.arg.slot} has {size} bytes, {memoryview(given).nbytes} are given"
        )
    return given


def _values(variables: Sequence[UOp], given: Mapping[str, int]) -> tuple[int | None, ...]:
    """A value for each variable; what the launch sets is left to it."""
    found: list[int | None] = []
    for v in variables:
        low, high = v.arg.vmin_vmax or (1, 1)
        middle = None if v.arg.name == "core_id" else (int(low) + int(high)) // 2
        found.append(given.get(v.arg.name, middle))
    return tuple(found)


def _expected_touches(plan: Plan) -> float:
    """About how many cache lines a run touches, by the sizes of its loops."""
    times, outer, total = 1.0, [], 0.0
    for i, u in enumerate(plan.lines):
        if u.op is Ops.RANGE:
            outer.append(times)
            times *= max(1.0, float(u.src[0].vmax)) if u.src[0].op is not Ops.NOOP else 1.0
        elif u.op is Ops.END:
            for s in u.src[1:]:
                times = outer.pop() if s.op is Ops.RANGE else times
        elif u.op is Ops.PARAM and u.arg.name == "core_id":
            times *= int(u.arg.vmin_vmax[1]) + 1
        elif i in plan.site:
            total += times * max(1.0, lanes_of(u) * buffer_of(u).dtype.itemsize / 64)
    return total


def _entry(info: Any, name: str, parts: int, plan: Plan) -> str:
    """The function that is called: each part of a THREAD axis on a core of the model, in turn."""
    core = ""
    if plan.traced:
        core = f"""  %at = getelementptr ptr, ptr %bufs, i64 {plan.first_slot + 1}
  %stats = load ptr, ptr %at
  store i64 %part, ptr %stats
"""
    return f"""
define void @{name}(ptr %bufs, ptr %vals, i64 %core_id) {{
entry:
  br label %loop
loop:
  %part = phi i64 [ 0, %entry ], [ %next, %loop ]
{core}  call void @{info.function_name}(ptr %bufs, ptr %vals, i64 %part)
  %next = add i64 %part, 1
  %more = icmp slt i64 %next, {parts}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def run_here(job: Job) -> dict[int, bytes]:
    """Run a counting kernel in this process; its buffers afterwards, by position."""
    with loaded(job) as (call, memories):
        call()
        return {
            i: bytes(m.view()[:n]) for i, (m, n) in enumerate(zip(memories, job.sizes, strict=True))
        }


@contextlib.contextmanager
def loaded(job: Job) -> Iterator[tuple[Callable[[], object], list[Any]]]:
    """(a kernel on copies of its buffers, ready to be called; their memory), in this process."""
    from tinylab.runtime.compilers.llvm import Linked
    from tinylab.runtime.cpu_threads import KERNEL

    device = Device["CPU"]
    linked = Linked(device.compiler.compile_cached(job.source), job.name)
    memories = [device.allocator.alloc(max(1, n), BufferSpec(zero=True)) for n in job.sizes]
    try:
        for memory, data in zip(memories, job.data, strict=True):
            if data is not None:
                memory.view()[: memoryview(data).nbytes] = memoryview(data).cast("B")
        pointers = (ctypes.c_uint64 * len(memories))(*[m.address for m in memories])
        values = (ctypes.c_int64 * max(1, len(job.vals)))(*[v or 0 for v in job.vals])
        run = KERNEL(linked[job.name])
        where = ctypes.addressof(pointers), ctypes.addressof(values)
        yield lambda: run(*where, 0), memories
    finally:
        for memory, size in zip(memories, job.sizes, strict=True):
            device.allocator.free(memory, max(1, size), BufferSpec(zero=True))


def alone(program: UOp, buffers: Mapping[int, Bytes] | None = None) -> Job:
    """A kernel as it is, for `loaded`: all parts of a THREAD axis, one after another.

    Raises: CounterError for a program that is no LLVM code.
    """
    _, linear = _parts(program)
    source = str(program.src[2].arg) if len(program.src) > 2 else ""
    if "define " not in source:
        name = program.arg.function_name
        raise CounterError(f"{name} is no LLVM code: its events are not measured")
    params, plan = _params(linear.src), Plan(linear.src, traced=False)
    sizes = {u.arg.slot: math.prod(int(n) for n in u.shape) * u.dtype.itemsize for u in params}
    own = tuple(_bytes_of(u, sizes[u.arg.slot], (buffers or {}).get(u.arg.slot)) for u in params)
    info = program.arg
    name, parts = f"{info.function_name}_alone", _part_count(program)
    return Job(
        name, "\n".join([source, _entry(info, name, parts, plan)]), tuple(sizes.values()), own,
        _values(info.vars, {}), str(getattr(info.target, "arch", "") or ""), program, plan, None,
        parts,
    )  # fmt: skip


def _part_count(program: UOp) -> int:
    info = program.arg
    return int(info.global_size[0]) if "core_id" in info.runtimevars else 1


# *** what the run left


class _Reading:
    """Tallies and statistics as counters."""

    def __init__(self, job: Job, outputs: Mapping[int, Bytes]) -> None:
        self.job, self.plan, self.model = job, job.plan, job.model
        self.lines = job.plan.lines
        self.first = job.plan.first_slot
        self.tallies = memoryview(outputs[self.first]).cast("B").cast("q")
        self.stats = memoryview(outputs[self.first + 1]).cast("B").cast("q") if job.model else None
        self.outputs = {slot: bytes(outputs[slot]) for slot in job.program.arg.outs}
        self.indexing = addressing(self.lines)

    def counters(self) -> Counters:
        rows = [row for i, u in enumerate(self.lines) if (row := self._row(i, u)) is not None]
        buffers = self._buffers(rows)
        levels = self._levels(rows)
        return Counters(
            self.job.program.arg.function_name,
            tuple(self._figures(rows, levels)),
            tuple(rows),
            buffers,
            self._loops(),
            levels,
            "counted",
            tuple(self._notes()),
            self.job.program.src[0].arg.applied_opts,
            self.outputs,
        )

    def _runs(self, i: int) -> int:
        return self.tallies[self.plan.block[i]]

    def _row(self, i: int, u: UOp) -> UopCounts | None:
        sort = sort_of(u)
        if sort is None:
            return None
        runs, lanes = self._runs(i), lanes_of(u)
        amount = self.tallies[self.plan.gate[i]] if i in self.plan.gate else runs * lanes
        row = UopCounts(i, u.op.name, sort, runs, lanes, amount, u in self.indexing)
        if i not in self.plan.site:
            return row
        buffer = buffer_of(u)
        touches, misses, cold = self._traffic(self.plan.site[i])
        return UopCounts(
            *(i, u.op.name, sort, runs, lanes, amount, False, buffer.arg.slot),
            amount * buffer.dtype.itemsize,
            touches,
            misses,
            cold,
        )

    def _traffic(self, site: int) -> tuple[float, tuple[float, ...], float]:
        """(touches, misses by level, first touches) of an access; scaled where sets are sampled."""
        if self.model is None or self.stats is None:
            return 0, (), 0
        at = 1 + site * self.model.words
        touches, seen, cold, *misses = self.stats[at : at + self.model.words]
        # Each access has its own share of the sets that are kept: its own scale.
        scale = touches / seen if seen else 0
        if self.model.scale == 1:
            return touches, tuple(misses), cold
        return touches, tuple(round(m * scale) for m in misses), round(cold * scale)

    def _buffers(self, rows: Sequence[UopCounts]) -> tuple[BufferCounts, ...]:
        found = []
        for u in _params(self.lines):
            slot = u.arg.slot
            own = [row for row in rows if row.buffer == slot]
            loads = [row for row in own if row.op == "LOAD"]
            stores = [row for row in own if row.op == "STORE"]
            levels = range(len(self.model.caches)) if self.model else ()
            line = self.model.caches[0].line_bytes if self.model else 0
            found.append(
                BufferCounts(
                    slot,
                    self.job.sizes[slot],
                    u.dtype.name,
                    sum(row.amount for row in loads),
                    sum(row.amount for row in stores),
                    sum(row.bytes for row in loads),
                    sum(row.bytes for row in stores),
                    sum(row.touches for row in own),
                    tuple(sum(row.misses[level] for row in own) for level in levels),
                    line * sum(row.cold for row in own),
                )
            )
        return tuple(found)

    def _levels(self, rows: Sequence[UopCounts]) -> tuple[LevelCounts, ...]:
        found: list[LevelCounts] = []
        reached: float = sum(row.touches for row in rows)
        for number, cache in enumerate(self.model.caches if self.model else ()):
            misses = sum(row.misses[number] for row in rows if row.misses)
            found.append(
                LevelCounts(
                    cache.name,
                    cache.size_bytes,
                    cache.ways,
                    cache.line_bytes,
                    cache.source,
                    reached,
                    misses,
                )
            )
            reached = misses
        return tuple(found)

    def _loops(self) -> tuple[LoopCounts, ...]:
        return tuple(
            LoopCounts(i, _loop_name(u), self._runs(i), self.tallies[self.plan.opens[i]])
            for i, u in enumerate(self.lines)
            if u.op is Ops.RANGE and not is_thread(u)
        )

    # *** the figures of the whole kernel

    def _figures(
        self, rows: Sequence[UopCounts], levels: Sequence[LevelCounts]
    ) -> Iterable[Figure]:
        amounts: Counter[str] = Counter()
        indexing = 0
        for row in rows:
            if row.addressing:
                indexing += row.amount
            else:
                amounts[row.sort] += row.amount
        flops = sum(weight * amounts[sort] for sort, weight in FLOPS.items())
        yield _counted("flops", flops, "operations", "a multiply-add is two")
        for sort in sorted(amounts):
            if not sort.endswith(("load", "store")):
                yield _counted(sort, amounts[sort], "operations")
        yield _counted("addressing", indexing, "operations", "addresses, gates, loop bounds")
        yield from self._memory(rows)
        yield _counted("loop turns", sum(loop.trips for loop in self._loops()), "turns")
        yield from self._vectors(rows)
        note = self._sampling() or "cache model"
        for level in levels:
            yield _counted(f"{level.name} hits", level.hits, "lines", note)
            yield _counted(f"{level.name} misses", level.misses, "lines", note)
        if levels:
            moved = levels[-1].misses * levels[-1].line_bytes
            yield _counted("bytes from memory", moved, "bytes", f"{levels[-1].name} misses, {note}")

    def _memory(self, rows: Sequence[UopCounts]) -> Iterable[Figure]:
        for op, word, past in (("LOAD", "load", "loaded"), ("STORE", "store", "stored")):
            own = [row for row in rows if row.op == op and row.buffer is not None]
            rows_run = sum(row.runs * max(1, row.lanes // self._width(row)) for row in own)
            yield _counted(f"{word}s", rows_run, "accesses", "a vector is one")
            yield _counted(f"elements {past}", sum(row.amount for row in own), "elements")
            yield _counted(f"bytes {past}", sum(row.bytes for row in own), "bytes")

    def _width(self, row: UopCounts) -> int:
        return width_of(self.lines[row.uop])

    def _vectors(self, rows: Sequence[UopCounts]) -> Iterable[Figure]:
        """How wide the rows of float arithmetic and of accesses are, and what the target has."""
        ren = Device["CPU"].renderer
        native = ren.vector_width(dtypes.float32)
        groups: dict[str, list[UopCounts]] = defaultdict(list)
        for row in rows:
            if row.sort in FLOPS and not row.addressing:
                groups["arithmetic"].append(row)
            elif row.buffer is not None:
                groups["access"].append(row)
        for name, own in groups.items():
            amount = sum(row.amount for row in own)
            instructions = sum(row.amount / self._width(row) for row in own)
            if instructions:
                yield _counted(
                    f"{name} width",
                    amount / instructions,
                    "lanes",
                    f"a mean; a register has {native} floats",
                )
        found = _llvm_width(self.job.program)
        if found > 1:
            yield _counted("vectors of LLVM", found, "lanes", "in loops that have none by opts")

    def _sampling(self) -> str:
        if self.model is None or self.model.scale == 1:
            return ""
        return f"cache model, {self.model.kept.bit_count()} of {self.model.residues} sets"

    def _notes(self) -> Iterable[str]:
        if self.job.threads > 1:
            yield f"the {self.job.threads} threads of its workgroups were counted as turns of loops"
        if self.model is None:
            return
        if self.model.scale > 1:
            kept, of = self.model.kept.bit_count(), self.model.residues
            yield f"cache misses are of {kept} of each {of} sets, scaled by what was left out"
        yield "the cache model starts empty, knows no prefetching and no write-backs"
        if self.job.parts > 1:
            yield f"the {self.job.parts} threads were counted one after another"


def _llvm_width(program: UOp) -> int:
    """Lanes of the vectors that LLVM finds in a program whose lines have none; 1 for none."""
    source = str(program.src[2].arg) if len(program.src) > 2 else ""
    if "define " not in source or " x " in source:
        return 1
    compiler: Any = Device["CPU"].compiler
    made = str(compiler.optimized(source))
    widths = re.findall(r"= .*\b(?:load|fadd|fmul|add|call).* <(\d+) x ", made)
    return max(map(int, widths), default=1)


def _counted(name: str, value: float, unit: str, note: str = "") -> Figure:
    return Figure(name, int(value) if value == int(value) else value, unit, "counted", note)


def _loop_name(u: UOp) -> str:
    from tinylab.renderer.base import loop_name

    return loop_name(u)

"""Estimated figures: of a kernel for a GPU that is not here, from its graph alone.

    counters = estimate(ast, "sm_80", opts)
    counters["occupancy"], counters["coalescing"], counters["bank conflicts"]

The kernel is lowered for a grid of workgroups, and its lines are looked at: arithmetic by how often
each runs; each access by the addresses of the lanes of a wave, for all workgroups and turns of
loops, or, where those are many, for some of them, which is said; occupancy by what registers and
shared memory leave room for. Nothing is run, nothing is timed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.codegen import do_to_program
from tinylab.codegen.opt import Opt
from tinylab.codegen.opt.strides import index_strides
from tinylab.dtype import AddrSpace
from tinylab.helpers.arguments import explained
from tinylab.opcodes import GroupOp, Ops
from tinylab.profiler.counters.data import BufferCounts, Counters, Figure, LoopCounts, UopCounts
from tinylab.profiler.counters.kinds import FLOPS, addressing, buffer_of, lanes_of, sort_of
from tinylab.profiler.counters.lanes import Unknown, conflicts, evaluate, transactions
from tinylab.profiler.counters.occupancy import occupancy, registers, shared_bytes
from tinylab.renderer import Renderer
from tinylab.target import Caps, GPULimits, Target, gpu_limits
from tinylab.trace import events
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

_ITEMS = 1 << 16  # threads whose addresses are worked out together
MOST_PLACES = 4096  # waves at places of the grid and turns of loops that are looked at
_GPU_OPS = GroupOp.ALU - {Ops.FLOORDIV, Ops.FLOORMOD, Ops.THREEFRY, Ops.POW}


class GridRenderer(Renderer):
    """A target with workgroups, by its limits alone: lowered for, never written."""

    device = "GRID"
    code_for_op = _GPU_OPS

    def __init__(self, name: str) -> None:
        super().__init__(Target(self.device, arch=name))
        limits = gpu_limits(name)
        self.caps = Caps(
            has_local=True,
            has_shared=True,
            global_max=(0x7FFFFFFF, 65535, 65535),
            local_max=(limits.most_threads, limits.most_threads, 64),
            shared_max=min(limits.group_shared_bytes, 48 << 10),
        )

    def render(self, uops: Sequence[UOp]) -> str:
        """Nothing: only the lines are wanted."""
        return ""


@explained
def estimate(
    ast: UOp, target: str, opts: Sequence[Opt] | None = None, most_places: int = MOST_PLACES
) -> Counters:
    """What a kernel would cost on a GPU: "sm_80", "gfx1100", … of `target.GPUS`.

    ast: the kernel before any opt; opts: what to apply, what heuristics choose if not given.

    Raises: DeviceError for a target without limits, KernelOptError for an opt that is refused,
    CounterError for a workgroup that no multiprocessor has room for.
    """
    limits = gpu_limits(target)
    tuned = ast
    if opts is not None:
        tuned = ast.replace(arg=ast.arg._replace(opts_to_apply=tuple(opts)))
    with events.quietly():
        program = do_to_program(tuned, GridRenderer(target))
        unique = unique_bytes(ast)
    return _Estimate(program, unique, target, limits, most_places).counters()


class _Access(NamedTuple):
    """What the lanes of waves do at one line, added up over the places that were looked at."""

    moved: int  # transactions, or turns of shared memory
    least: int
    bytes: int
    waves: int
    places: int


def _plus(a: _Access, b: _Access) -> _Access:
    return _Access(*(x + y for x, y in zip(a, b, strict=True)))


_NOTHING = _Access(0, 0, 0, 0, 0)


def _chunks(places: Iterable[tuple[int, ...]], size: int) -> Iterator[list[tuple[int, ...]]]:
    """The places, so many at a time."""
    rest = iter(places)
    while chunk := list(itertools.islice(rest, max(1, size))):
        yield chunk


class _Estimate:
    """One kernel on one GPU."""

    def __init__(
        self,
        program: UOp,
        unique: Mapping[int, int],
        target: str,
        limits: GPULimits,
        most_places: int,
    ) -> None:
        self.program, self.unique, self.target, self.limits = program, unique, target, limits
        self.lines = program.src[1].src
        self.most_places = most_places
        self.groups = {u: _steps(u) for u in self.lines if _is_index(u, "g", "i")}
        self.items = {u: _steps(u) for u in self.lines if _is_index(u, "l")}
        self.threads = math.prod(self.items.values())
        self.waves = -(-self.threads // limits.wave)
        self.indexing = addressing(self.lines)
        self.notes: dict[str, None] = {}
        self.accesses: dict[int, _Access] = {}

    def counters(self) -> Counters:
        times, loops = self._times()
        rows: list[UopCounts] = []
        for i, u in enumerate(self.lines):
            sort = sort_of(u)
            if sort is None:
                continue
            if u.op in (Ops.LOAD, Ops.STORE) and not sort.startswith("register"):
                found = self._access(i, u)
                if found is not None:
                    self.accesses[i] = found
            rows.append(self._row(i, u, sort, times[i]))
        figures = [*self._work(rows), *self._memory(rows), *self._occupancy()]
        return Counters(
            self.program.arg.function_name,
            tuple(figures),
            tuple(rows),
            self._buffers(rows),
            loops,
            kind="estimated",
            notes=(f"estimated for {self.target} from the kernel's graph", *self.notes),
            opts=self.program.src[0].arg.applied_opts,
        )

    # *** how often lines run

    def _times(self) -> tuple[list[int], tuple[LoopCounts, ...]]:
        """Runs of each line over all threads; loops of unknown length at their longest."""
        now = math.prod(self.groups.values()) * self.threads
        outer: list[int] = []
        times, loops = [], []
        for i, u in enumerate(self.lines):
            if u.op is Ops.END:
                for s in u.src[1:]:
                    now = outer.pop() if s.op is Ops.RANGE else now
            times.append(now)
            if u.op is Ops.RANGE:
                outer.append(now)
                now *= _steps(u)
                loops.append(LoopCounts(i, f"loop {u.arg[0]}", outer[-1], now))
                if u.src[0].op is not Ops.CONST:
                    self.notes["loops of unknown length are taken at their longest"] = None
        return times, tuple(loops)

    def _row(self, i: int, u: UOp, sort: str, runs: int) -> UopCounts:
        lanes = lanes_of(u)
        if u.op in (Ops.LOAD, Ops.STORE) and len(u.src) > 2:
            self.notes["gates are taken as open, except where lanes are looked at"] = None
        row = UopCounts(i, u.op.name, sort, runs, lanes, runs * lanes, u in self.indexing)
        if sort not in ("load", "store"):
            return row
        buffer, access = buffer_of(u), self.accesses.get(i)
        executions = runs / self.threads  # of the workgroup together
        return UopCounts(
            *(i, u.op.name, sort, runs, lanes, runs * lanes, False, buffer.arg.slot),
            bytes=runs * lanes * buffer.dtype.itemsize,
            touches=round(access.moved * executions / access.places) if access else 0,
        )

    # *** accesses

    def _access(self, i: int, u: UOp) -> _Access | None:
        """Transactions or turns of one access; None where its address depends on what is loaded."""
        buffer = buffer_of(u)
        is_shared = buffer.arg.addrspace is AddrSpace.LOCAL
        size = buffer.dtype.itemsize
        total = _NOTHING
        try:
            for waves, width, places in self._addresses(i, u):
                if is_shared:
                    turns = [conflicts(w, size * width, self.limits.banks) for w in waves]
                    moved, least = (sum(t[n] for t in turns) for n in (0, 1))
                    found = _Access(moved, least, 0, len(waves), places)
                else:
                    piece = self.limits.transaction_bytes
                    traffic = transactions(waves, size * width, piece)
                    found = _Access(*traffic, len(waves), places)
                total = _plus(total, found)
        except Unknown:
            self.notes[f"line {i} is left out: its address depends on what is loaded"] = None
            return None
        return total

    def _addresses(self, i: int, u: UOp) -> Iterator[tuple[Numbers, int, int]]:
        """Byte addresses of lanes, a row a wave; elements of each; how many places they are of."""
        import numpy as np

        place = u.src[0]
        while place.op is Ops.AFTER:
            place = place.src[0]
        index = place.src[1] if place.op in (Ops.INDEX, Ops.SHRINK) else UOp.const(0)
        gate = u.src[2] if len(u.src) > 2 else None
        is_window = not index.shape and (gate is None or not gate.shape)
        size, width = buffer_of(u).dtype.itemsize, lanes_of(u) if is_window else 1
        outside = {**self.groups, **self._loops_around(i)}
        for places in _chunks(self._places(outside, (index, gate)), _ITEMS // self.threads):
            values = self._values(outside, places)
            opened = np.True_ if gate is None else evaluate(gate, values)
            items = len(places) * self.threads
            shape = (*(index.shape or opened.shape[:-1]), items)
            found = np.broadcast_to(np.asarray(evaluate(index, values)), shape) * size
            if not index.shape and len(shape) > 1:  # a window whose lanes have gates of their own
                found = found + size * np.arange(shape[0])[:, None]
            found = np.where(opened, found, -1).reshape(-1, self.threads)
            padded = np.full((len(found), self.waves * self.limits.wave), -1, np.int64)
            padded[:, : self.threads] = found
            yield padded.reshape(-1, self.limits.wave), width, len(places)

    def _values(self, outside: Iterable[UOp], places: Sequence[tuple[int, ...]]) -> dict[UOp, Any]:
        """Grid, loops and items at some places, all threads of each, the first axis fastest."""
        import numpy as np

        table = np.array(places, np.int64).reshape(len(places), -1)
        found: dict[UOp, Any] = {
            u: np.repeat(table[:, k], self.threads) for k, u in enumerate(outside)
        }
        threads, ahead = np.tile(np.arange(self.threads), len(places)), 1
        for u, steps in sorted(self.items.items(), key=lambda item: str(item[0].arg)):
            found[u] = threads // ahead % steps
            ahead *= steps
        return found

    def _loops_around(self, i: int) -> dict[UOp, int]:
        """The loops that line i stands in."""
        found: list[UOp] = []
        for u in self.lines[:i]:
            if u.op is Ops.RANGE:
                found.append(u)
            elif u.op is Ops.END:
                found = [r for r in found if r not in u.src[1:]]
        return {r: _steps(r) for r in found}

    def _places(
        self, outside: dict[UOp, int], used: Iterable[UOp | None]
    ) -> Iterator[tuple[int, ...]]:
        """Places of the grid and turns of loops: all, or where they are many, some of each axis."""
        below = {s for u in used if u is not None for s in u.toposort()}
        axes = [range(steps) if u in below else range(1) for u, steps in outside.items()]
        while math.prod(map(len, axes)) * self.waves > self.most_places:
            longest = max(range(len(axes)), key=lambda a: len(axes[a]), default=-1)
            if longest < 0 or len(axes[longest]) <= 2:
                break
            steps = axes[longest]
            # An odd stride, so that neither only even nor only odd places are seen.
            axes[longest] = range(0, steps[-1] + 1, max(3, steps.step * 2 + 1))
            self.notes["some places of the grid and turns of loops were looked at"] = None
        return itertools.product(*axes)

    # *** figures

    def _work(self, rows: Sequence[UopCounts]) -> Iterator[Figure]:
        amounts: Counter[str] = Counter()
        for row in rows:
            amounts["addressing" if row.addressing else row.sort] += row.amount
        flops = sum(weight * amounts[sort] for sort, weight in FLOPS.items())
        yield _estimated("flops", flops, "operations", "a multiply-add is two")
        for sort in sorted(amounts):
            if not sort.endswith(("load", "store")):
                yield _estimated(sort, amounts[sort], "operations")

    def _memory(self, rows: Sequence[UopCounts]) -> Iterator[Figure]:
        for op, word in (("LOAD", "bytes loaded"), ("STORE", "bytes stored")):
            yield _estimated(word, sum(r.bytes for r in rows if r.op == op), "bytes")
        yield _estimated(
            "distinct bytes", sum(self.unique.values()), "bytes", "at most, with gates"
        )
        moved, least, waves = self._totals(row for row in rows if not row.sort.startswith("local"))
        if waves:
            piece = f"of {self.limits.transaction_bytes} bytes, per access"
            yield _estimated("transactions per wave", moved / waves, "transactions", piece)
            share = least / moved if moved else Fraction(1)
            yield _estimated("coalescing", share, "share", "fewest possible of what is moved")
        moved, least, _ = self._totals(row for row in rows if row.sort.startswith("local"))
        if least:
            yield _estimated("bank conflicts", moved / least, "turns", "per access; 1 is none")
        yield from self._each_access()

    def _totals(self, rows: Iterable[UopCounts]) -> tuple[Fraction, Fraction, Fraction]:
        """(moved, least, waves) of accesses over the whole grid and all turns of their loops.

        Of each access some places were looked at, of each as many as it needs: what was seen there
        counts as often as the line runs.
        """
        moved = least = waves = Fraction(0)
        for row in rows:
            found = self.accesses.get(row.uop)
            if found is not None and found.places:
                times = Fraction(row.runs, self.threads * found.places)
                moved += times * found.moved
                least += times * found.least
                waves += times * found.waves
        return moved, least, waves

    def _each_access(self) -> Iterator[Figure]:
        """The accesses one by one, where there are several."""
        for i, access in self.accesses.items():
            u = self.lines[i]
            if not access.moved or len(self.accesses) == 1:
                continue
            buffer, word = buffer_of(u), u.op.name.lower()
            if buffer.arg.addrspace is AddrSpace.LOCAL:
                name, value = f"conflicts of {word} {i}", access.moved / access.least
                yield _estimated(name, value, "turns", "shared memory; 1 is none")
                continue
            piece = self.limits.transaction_bytes
            note = f"{access.moved / access.waves:.3g} transactions of {piece} bytes a wave"
            name = f"coalescing of {word} {i} of data{buffer.arg.slot}"
            yield _estimated(name, access.least / access.moved, "share", note)

    def _occupancy(self) -> Iterator[Figure]:
        needed, shared = registers(self.lines), shared_bytes(self.lines)
        found = occupancy(self.limits, self.threads, needed, shared)
        yield _estimated("threads of a workgroup", self.threads, "threads")
        lanes = self.threads / (self.waves * self.limits.wave)
        yield _estimated("lanes in use", lanes, "share", f"of waves of {self.limits.wave}")
        yield _estimated("registers of a thread", needed, "registers", "what lives at most")
        yield _estimated("shared memory", shared, "bytes", "of a workgroup")
        yield _estimated("resident waves", found.waves, "waves", f"of {found.most_waves}")
        yield _estimated("occupancy", found.share, "share", f"limited by {found.limit}")

    def _buffers(self, rows: Sequence[UopCounts]) -> tuple[BufferCounts, ...]:
        found = []
        for u in sorted(
            (u for u in self.lines if u.op is Ops.PARAM and not u.is_variable),
            key=lambda u: u.arg.slot,
        ):
            own = [row for row in rows if row.buffer == u.arg.slot]
            loads, stores = ([r for r in own if r.op == op] for op in ("LOAD", "STORE"))
            found.append(
                BufferCounts(
                    u.arg.slot,
                    math.prod(int(n) for n in u.shape) * u.dtype.itemsize,
                    u.dtype.name,
                    sum(r.amount for r in loads),
                    sum(r.amount for r in stores),
                    sum(r.bytes for r in loads),
                    sum(r.bytes for r in stores),
                    unique_bytes=self.unique.get(u.arg.slot, 0),
                )
            )
        return tuple(found)


def _is_index(u: UOp, *letters: str) -> bool:
    return u.op is Ops.SPECIAL and u.arg[0] in letters


def _steps(u: UOp) -> int:
    """Steps of a range or of an axis of the grid, at most."""
    size = u.src[0]
    if size.op is Ops.NOOP:
        return 1
    return int(size.arg) if size.op is Ops.CONST else int(size.vmax)


def _estimated(name: str, value: float | Fraction, unit: str, note: str = "") -> Figure:
    figure = int(value) if value == int(value) else float(value)
    return Figure(name, figure, unit, "estimated", note)


# *** distinct memory


@functools.lru_cache(maxsize=16)
def unique_bytes(sink: UOp) -> Mapping[int, int]:
    """Bytes of each buffer (by slot) that a kernel touches at all.

    Exact for indices that are sums of ranges times constants, as a set of elements built range by
    range; at most the buffer for others, and where gates leave some out.
    """
    touched: dict[UOp, int] = {}
    for u in sink.toposort():
        if u.op is not Ops.INDEX or len(u.src) != 2 or u.src[0].op is not Ops.PARAM:
            continue
        size = int(u.src[0].shape[0])
        touched[u.src[0]] = touched.get(u.src[0], 0) | _elements(u.src[1], size)
    sizes = {buf.arg.slot: bits.bit_count() * buf.dtype.itemsize for buf, bits in touched.items()}
    return MappingProxyType(sizes)


def _elements(index: UOp, size: int) -> int:
    """The elements that an index takes, as bits of an integer."""
    everything = (1 << size) - 1
    plain = index.get_idx()
    strides = index_strides(index)
    if any(stride is None for stride in strides.values()) or plain.shape:
        return everything
    start = plain.substitute({r: r.const_like(0) for r in strides}).simplify()
    if start.op is not Ops.CONST:
        return everything
    base, bits = int(start.arg), 1
    for rng, stride in strides.items():
        step, count = int(stride or 0), int(rng.src[0].vmax)
        if step < 0:
            base, step = base + step * (count - 1), -step
        bits = _spread(bits, step, count)
    placed = bits << base if base >= 0 else bits >> -base
    return placed & everything


def _spread(bits: int, step: int, count: int) -> int:
    """The bits at each of `count` places, `step` apart: doubled until there are enough."""
    have = 1
    while have < count and step:
        more = min(have, count - have)
        bits |= bits << (step * more)
        have += more
    return bits

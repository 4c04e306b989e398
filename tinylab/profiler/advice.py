"""Advice: what to try on a kernel, with the figures that say so and the opts to try.

    for advice in advise(ast, opts, counters, renderer):
        advice.title    # "the load of data1 touches a new cache line at each step: ..."
        advice.opts     # all opts of the kernel to try, in order

Each rule looks at counted figures first, and at the strides of the kernel's axes for what to do. An
opt that the kernel refuses is not advised.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tinylab.codegen import SIMPLIFY, grid_axes
from tinylab.codegen.opt import KernelOptError, Opt, OptOps
from tinylab.codegen.opt.actions import max_threads
from tinylab.codegen.opt.kernel import Scheduler
from tinylab.codegen.opt.strides import Access, accesses
from tinylab.codegen.range_tools import OUTPUT_KINDS, size_of
from tinylab.dtype import dtypes
from tinylab.errors import CounterError
from tinylab.helpers.arguments import explained
from tinylab.opcodes import AxisType
from tinylab.profiler.counters.data import Counters, Figure, Json, UopCounts, number
from tinylab.trace import events
from tinylab.uop.ops import UOp, run_passes

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

_LANES = (AxisType.UPCAST, AxisType.UNROLL)
_IN_FLIGHT = 8
_FEW = 2  # beyond this, measured kernels lost more by a larger tile than they gained
_UNITS = "two units of four cycles each"
_MOST_VECTORS = 16  # of a tile: more of them do not stay in registers
_WORTH_OPTS = 1e4  # operations: a smaller kernel takes as long to call
_WORTH_THREADS = 4e6  # operations or elements: below, handing out the work costs more
_AMOUNTS = (32, 16, 8, 4, 2)


@dataclass(frozen=True)
class Advice:
    """One thing to try: all opts of the kernel, and the lines of the program it is about."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    opts: tuple[Opt, ...]
    uops: tuple[int, ...] = ()

    def to_json(self) -> Json:
        """Plain data; the opts in the form that the kernel bench takes."""
        rows = [
            {
                "op": o.op.name,
                "axis": o.axis,
                "arg": list(o.arg) if isinstance(o.arg, tuple) else o.arg,
            }
            for o in self.opts
        ]
        figures = [asdict(f) for f in self.figures]
        return {
            "name": self.name,
            "title": self.title,
            "figures": figures,
            "opts": rows,
            "uops": list(self.uops),
        }


@explained
def advise(ast: UOp, opts: Sequence[Opt], counters: Counters, renderer: Renderer) -> list[Advice]:
    """What to try on a kernel that was counted with these opts; at most one advice a rule.

    ast: the kernel before any opt. Opts that are already there stay, those to try come behind.
    """
    with events.quietly():
        known = _Kernel(run_passes(ast, SIMPLIFY, renderer), tuple(opts), counters, renderer)
        found: list[Advice] = []
        for rule in RULES:
            for advice in rule(known):
                if all(advice.opts != other.opts for other in found):
                    found.append(advice)
                    break
        return found


def advise_gpu(ast: UOp, opts: Sequence[Opt], target: str) -> list[Advice]:
    """What to try on a kernel for a GPU that is not here: what its estimates say is better.

    ast: the kernel before any opt. Each advice was estimated itself: its figures are both.
    """
    from tinylab.profiler.counters.estimated import GridRenderer, estimate

    with events.quietly():
        ren = GridRenderer(target)
        plain = grid_axes(run_passes(ast, SIMPLIFY, ren), ren)
        known = _Kernel(plain, tuple(opts), estimate(ast, target, opts), ren)
        found: dict[str, tuple[float, Advice]] = {}
        for title, tried in _workgroups(known):
            try:
                after = estimate(ast, target, tried, _PLACES)
            except CounterError:  # a workgroup that no multiprocessor has room for
                continue
            for name, gain in _gains(known.counters, after):
                if gain > found.get(name, (_GAIN,))[0]:
                    figures = (
                        known.counters[name],
                        dataclasses.replace(after[name], name=f"{name} with it"),
                    )
                    found[name] = gain, Advice(name, f"{_WHY[name]}: {title}", figures, tried)
        advised = [found[name][1] for name in _WHY if name in found]
        return [a for i, a in enumerate(advised) if a.opts not in [b.opts for b in advised[:i]]]


def _gains(before: Counters, after: Counters) -> Iterator[tuple[str, float]]:
    """How much better which estimates are; none where one is had at the cost of another.

    Lanes that do nothing touch no memory, which is no merit.
    """
    gains = {name: after.get(name) / (before.get(name) or 1) for name in _WHY}
    if gains["lanes in use"] > _GAIN:
        yield "lanes in use", gains["lanes in use"] * after.get("coalescing", 1)
    elif min(gains["coalescing"], gains["lanes in use"]) > 0.9:
        yield from gains.items()


_GAIN = 1.3
_PLACES = 256
_WHY = {
    "lanes in use": "most lanes of a wave do nothing",
    "coalescing": "neighbours of a wave touch memory far apart",
    "occupancy": "workgroups leave room for more waves",
}


def _workgroups(k: _Kernel) -> Iterator[tuple[str, tuple[Opt, ...]]]:
    """Workgroups along other axes, behind the opts that are there or in their place."""
    for axis, r in enumerate(k.axes):
        if r.arg[-1] is AxisType.GLOBAL:
            for amount in (128, 64, 32, 8, 4):
                more = k.with_opts(Opt(OptOps.LOCAL, axis, amount))
                if more:
                    yield f"{amount} steps of axis {axis} to the workgroup", more
    bare = _Kernel(k.bare, (), k.counters, k.ren)
    for axis, r in enumerate(bare.axes):
        if r.arg[-1] is AxisType.GLOBAL and k.opts:
            instead = bare.try_amounts(OptOps.LOCAL, axis, 32)
            if instead:
                steps = instead[-1].arg
                yield f"no opts but {steps} steps of axis {axis} to the workgroup", instead


class _Kernel:
    """A kernel with its opts applied: axes, strides, and what was counted."""

    def __init__(
        self, ast: UOp, opts: tuple[Opt, ...], counters: Counters, renderer: Renderer
    ) -> None:
        self.opts, self.counters, self.ren, self.bare = opts, counters, renderer, ast
        self.tuned = Scheduler(ast, renderer)
        for opt in opts:
            self.tuned.apply_opt(opt)
        self.axes = self.tuned.rngs
        self.accesses = accesses(self.tuned.ast)

    def with_opts(self, *more: Opt) -> tuple[Opt, ...] | None:
        """The opts and some more behind them; None if the kernel refuses one."""
        twin = self.tuned.copy()
        try:
            for opt in more:
                twin.apply_opt(opt)
        except KernelOptError:
            return None
        return (*self.opts, *more)

    def try_amounts(self, op: OptOps, axis: int, most: int) -> tuple[Opt, ...] | None:
        """The opts with the largest amount up to `most` that the kernel takes."""
        for amount in _AMOUNTS:
            if amount <= most and (found := self.with_opts(Opt(op, axis, amount))):
                return found
        return None

    def unroll_axis(self, position: int) -> int:
        """A reduce axis as UNROLL counts it."""
        return self.tuned.unrollable_dims.index(position)

    def loops(self, access: Access) -> list[int]:
        """Positions of the loops around an access, outermost first, without lanes."""
        return [
            i
            for i, r in enumerate(self.axes)
            if r.arg[-1] not in _LANES and (access.in_reduce or r.arg[-1] in OUTPUT_KINDS)
        ]

    def is_window(self, access: Access) -> bool:
        """Whether some lanes of an access lie side by side."""
        return any(r.arg[-1] in _LANES and access.stride(r) == 1 for r in self.axes)

    def unit_axis(self, access: Access) -> int | None:
        """The axis along which an access steps from one element to the next."""
        for i, r in enumerate(self.axes):
            if r.arg[-1] not in _LANES and access.stride(r) == 1:
                return i
        return None

    def rows(self, access: Access) -> list[UopCounts]:
        """What was counted of the accesses to the same buffer in the same direction."""
        op = "STORE" if access.is_store else "LOAD"
        slot = access.buffer.arg.slot
        return [row for row in self.counters.uops if row.buffer == slot and row.op == op]

    def is_output(self, position: int) -> bool:
        return self.axes[position].arg[-1] in OUTPUT_KINDS

    def size(self, position: int) -> int:
        """Steps of an axis; 0 where that is not known."""
        found = size_of(self.axes[position])
        return found if isinstance(found, int) else 0


def _name(access: Access) -> str:
    return f"{'store' if access.is_store else 'load'} of data{access.buffer.arg.slot}"


def _figure(name: str, value: float, unit: str, note: str = "") -> Figure:
    return Figure(name, value, unit, "counted", note)


def _ratio(rows: Iterable[UopCounts], top: Callable[[UopCounts], float]) -> float:
    rows = list(rows)
    amount = sum(row.amount for row in rows)
    return sum(top(row) for row in rows) / amount if amount else 0.0


# *** rules


def new_lines(k: _Kernel) -> Iterator[Advice]:
    """An access that touches another cache line at each step, of which it uses one element."""
    for access in k.accesses:
        unit = k.unit_axis(access)
        loops, rows = k.loops(access), k.rows(access)
        if unit is None or not loops or k.is_window(access) or unit == loops[-1]:
            continue
        step = access.stride(k.axes[loops[-1]])
        line = k.counters.levels[0].line_bytes if k.counters.levels else 64
        touched = _ratio(rows, lambda row: row.touches)
        missed = _ratio(rows, lambda row: row.misses[0] if row.misses else row.touches)
        if step is None or abs(step) * access.itemsize < line or touched < 0.5:
            continue
        for advice, opts in _turned(k, access, unit, loops[-1]):
            figures = (
                _figure("stride of the innermost loop", abs(step) * access.itemsize, "bytes"),
                _figure("lines touched per element", touched, "lines"),
                _figure("L1 misses per element", missed, "misses", "cache model"),
            )
            yield Advice(
                "new_lines",
                f"the {_name(access)} touches a new cache line at each step of axis "
                f"{loops[-1]}: {advice}",
                figures,
                opts,
                tuple(row.uop for row in rows),
            )


def _turned(
    k: _Kernel, access: Access, unit: int, innermost: int
) -> Iterator[tuple[str, tuple[Opt, ...]]]:
    """Ways to have the axis that steps by one element innermost, the best first."""
    others = [a for a in k.accesses if a is not access]
    both_output = k.is_output(unit) and k.is_output(innermost)
    # Exchanging loops helps where nobody else steps along the loop that is innermost now.
    if both_output and not any(a.stride(k.axes[innermost]) == 1 for a in others):
        swapped = k.with_opts(Opt(OptOps.SWAP, unit, innermost))
        if swapped:
            yield f"swap axes {unit} and {innermost}", swapped
    if k.is_output(unit):
        lanes = k.try_amounts(OptOps.UPCAST, unit, 16)
        if lanes:
            yield f"take {lanes[-1].arg} steps of axis {unit} at once as lanes", lanes
    elif k.axes[unit].arg[-1] is AxisType.REDUCE:
        lanes = k.try_amounts(OptOps.UNROLL, k.unroll_axis(unit), 16)
        if lanes:
            yield f"take {lanes[-1].arg} steps of the sum at once as lanes", lanes


def no_vectors(k: _Kernel) -> Iterator[Advice]:
    """Float arithmetic, or a copy, one element at a time."""
    native = _native(k)
    name = "arithmetic width" if k.counters.get("flops") else "access width"
    width = max(k.counters.get(name, native), k.counters.get("vectors of LLVM"))
    if width >= native / 2 or k.counters.get("elements loaded") < _WORTH_OPTS:
        return
    rows = [r for r in k.counters.uops if not r.addressing and r.lanes == 1]
    for position, op in _lane_axes(k):
        axis = position if op is OptOps.UPCAST else k.unroll_axis(position)
        opts = k.try_amounts(op, axis, max(4, native)) or _padded(k, op, position, native)
        if opts and isinstance(opts[-1].arg, int) and opts[-1].arg > 2 * width:
            what = "arithmetic" if name.startswith("a") and k.counters.get("flops") else "copy"
            yield Advice(
                "no_vectors",
                f"the {what} takes {number(width)} of {native} lanes of a register: take "
                f"{opts[-1].arg} steps of axis {position} at once",
                (
                    _figure(name, width, "lanes"),
                    _figure("lanes of a register", native, "lanes"),
                    _figure("flops", k.counters.get("flops"), "operations"),
                ),
                opts,
                tuple(r.uop for r in rows),
            )


def _native(k: _Kernel) -> int:
    """Lanes of a register, of the widest type that the kernel moves."""
    sizes = [a.itemsize for a in k.accesses]
    wide = dtypes.float64 if max(sizes, default=4) == 8 else dtypes.float32
    return k.ren.vector_width(wide)


def _lane_axes(k: _Kernel) -> list[tuple[int, OptOps]]:
    """Axes that could be lanes, those along which most accesses step by one element first."""
    found = []
    for i, r in enumerate(k.axes):
        if r.arg[-1] in _LANES or not isinstance(size_of(r), int):
            continue
        is_output = k.is_output(i)
        if not is_output and r.arg[-1] is not AxisType.REDUCE:
            continue
        units = sum((4 if a.in_reduce else 1) for a in k.accesses if a.stride(r) == 1)
        found.append((units, is_output, i))
    found.sort(reverse=True)
    return [(i, OptOps.UPCAST if out else OptOps.UNROLL) for units, out, i in found if units]


def _padded(k: _Kernel, op: OptOps, position: int, lanes: int) -> tuple[Opt, ...] | None:
    """The axis rounded up, where no amount divides it."""
    if op is not OptOps.UPCAST or k.size(position) < lanes:
        return None
    return k.with_opts(Opt(OptOps.PADTO, position, lanes), Opt(op, position, lanes))


def short_sums(k: _Kernel) -> Iterator[Advice]:
    """A sum with few lanes in flight: each addition waits for the one before."""
    reduces = [i for i in k.tuned.unrollable_dims if k.size(i) >= 4]
    vectors = _lanes(k) / _native(k)
    is_busy = vectors > _FEW or vectors < 0.5 or k.counters.get("vectors of LLVM") > 1
    if not reduces or is_busy or k.counters.get("flops") < _WORTH_OPTS:
        return
    wanted = max(2, int(_IN_FLIGHT / max(vectors, 0.25)))
    figures = (
        _figure("vectors of sums in flight", vectors, "vectors"),
        Figure("that keep the units busy", _IN_FLIGHT, "vectors", "estimated", _UNITS),
        _figure("loop turns", k.counters.get("loop turns"), "turns"),
    )
    opts = k.try_amounts(OptOps.UNROLL, k.unroll_axis(reduces[-1]), min(16, wanted))
    if opts:
        yield Advice(
            "short_sums",
            f"each addition waits for the one before: unroll the sum by {opts[-1].arg}, so that "
            "more of them are in flight",
            figures,
            opts,
        )


def little_reuse(k: _Kernel) -> Iterator[Advice]:
    """A sum of products that loads as much as it computes: hold a tile of the result."""
    loads = [a for a in k.accesses if not a.is_store and a.in_reduce]
    fused = k.counters.get("float multiply-add") + k.counters.get("float multiply")
    products = fused / max(1, k.counters.get("arithmetic width", 1))
    if len(loads) < 2 or not products:
        return
    per = k.counters.get("loads") / products
    ways = list(_tiles(k, loads, per, products))
    if not ways or per < 0.75:
        return
    left, axis, served, opts = min(ways, key=lambda way: way[:2])
    if left > 0.8 * per:
        return
    yield Advice(
        "little_reuse",
        f"each vector of products needs {number(round(per, 2))} loads: hold {opts[-1].arg} steps "
        f"of axis {axis}, which one {_name(served)} serves",
        (
            _figure("loads per vector of products", per, "loads"),
            Figure("loads per vector with the tile", left, "loads", "estimated"),
            _figure("elements loaded", k.counters.get("elements loaded"), "elements"),
        ),
        opts,
    )


def _tiles(
    k: _Kernel, loads: Sequence[Access], per: float, products: float
) -> Iterator[tuple[float, int, Access, tuple[Opt, ...]]]:
    """For each way (loads per vector that are left, axis, a load that serves its steps, opts)."""
    room = int(_MOST_VECTORS / max(1.0, _lanes(k) / _native(k)))
    for i, r in enumerate(k.axes):
        if not k.is_output(i) or r.arg[-1] in _LANES:
            continue
        shared = [a for a in loads if a.stride(r) == 0]
        if not shared or len(shared) == len(loads):
            continue
        opts = k.try_amounts(OptOps.UPCAST, i, min(8, room))
        if opts:
            amount = opts[-1].arg
            assert isinstance(amount, int), "an UPCAST has a number of steps"
            rows = [row for a in shared for row in k.rows(a)]
            held = sum(row.runs for row in rows) / products
            yield per - held * (1 - 1 / amount), i, shared[0], opts


def _lanes(k: _Kernel) -> int:
    """Lanes of the tile that the kernel holds."""
    sizes = [size_of(r) for r in k.axes if r.arg[-1] in _LANES]
    return math.prod(n for n in sizes if isinstance(n, int))


def one_thread(k: _Kernel) -> Iterator[Advice]:
    """A large kernel on one thread of several."""
    threads = max_threads(k.tuned) if k.ren.has_threads else 1
    work = max(k.counters.get("flops"), k.counters.get("elements loaded"))
    if threads < 2 or work < _WORTH_THREADS or k.tuned.axes_of(AxisType.THREAD):
        return
    for axis in range(len(k.axes)):
        for amount in range(threads, 1, -1):
            opts = k.with_opts(Opt(OptOps.THREAD, axis, amount))
            if opts:
                yield Advice(
                    "one_thread",
                    f"one thread does all of it: spread axis {axis} over {amount}",
                    (
                        _figure("threads", 1, "threads"),
                        _figure("flops", k.counters.get("flops"), "operations"),
                        _figure("elements loaded", k.counters.get("elements loaded"), "elements"),
                    ),
                    opts,
                )


RULES: tuple[Callable[[_Kernel], Iterator[Advice]], ...] = (
    new_lines,
    no_vectors,
    little_reuse,
    short_sums,
    one_thread,
)

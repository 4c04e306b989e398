"""A program that counts itself: the same lines in the same order, with counters between them.

RANGE r                 RANGE r
LOAD(a[i], 0, gate)     tally[1] += 1
                        tally[2] += number of open lanes
                        touch(site 0, a, i, gate)
                        LOAD(a[i], 0, gate)

A tally is a register through the run and one addition a block; at the end all are stored. What a
block executes is its tally times what stands in it, so that loops of unknown length and branches
are counted by running them. `touch` feeds the cache model with each access to a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinylab.dtype import AddrSpace, dtypes
from tinylab.opcodes import Ops
from tinylab.profiler.counters.kinds import buffer_of, lanes_of, width_of
from tinylab.uop.ops import ParamArg, Pass, UOp, shape_to_shape_arg

_MEMORY = (Ops.LOAD, Ops.STORE)


@dataclass
class Plan:
    """Which tally counts what; filled by looking at a program's lines.

    block: for each line the tally of its block. opens: for a RANGE or IF that of its body.
    gate: for a gated access the tally of open lanes. site: for an access to a buffer its place in
    the cache model's statistics. bases: the address of each buffer in the model, by slot. Tallies,
    statistics and scratch memory are passed behind the program's own buffers.
    """

    lines: Sequence[UOp]
    bases: dict[int, int] = field(default_factory=dict)
    traced: bool = True
    block: list[int] = field(default_factory=list)
    opens: dict[int, int] = field(default_factory=dict)
    gate: dict[int, int] = field(default_factory=dict)
    site: dict[int, int] = field(default_factory=dict)
    tallies: int = 1

    def __post_init__(self) -> None:
        open_blocks = [0]
        for i, u in enumerate(self.lines):
            if u.op is Ops.END:
                del open_blocks[len(open_blocks) - _closes(u) :]
            elif u.op is Ops.ENDIF:
                open_blocks.pop()
            self.block.append(open_blocks[-1])
            if u.op in (Ops.RANGE, Ops.IF):
                self.opens[i] = self._tally()
                open_blocks.append(self.opens[i])
            elif u.op in _MEMORY and len(u.src) > 2:
                self.gate[i] = self._tally()
            if u.op in _MEMORY and _is_traced(u):
                self.site[i] = len(self.site)

    def _tally(self) -> int:
        self.tallies += 1
        return self.tallies - 1

    @property
    def first_slot(self) -> int:
        """The slot behind the program's own buffers: tallies; then statistics, then scratch."""
        own = [u.arg.slot for u in self.lines if u.op is Ops.PARAM and u.arg.slot >= 0]
        return max(own, default=-1) + 1

    @property
    def widths(self) -> set[int]:
        """Lanes of the accesses that go lane by lane."""
        return {width_of(self.lines[i]) for i in self.site if _is_lanewise(self.lines[i])}


def _closes(end: UOp) -> int:
    return sum(s.op is Ops.RANGE for s in end.src[1:])


def _is_traced(u: UOp) -> bool:
    """Whether an access is to a buffer that the kernel was called with."""
    buffer = buffer_of(u)
    return buffer.op is Ops.PARAM and buffer.arg.addrspace is AddrSpace.GLOBAL


def _place(u: UOp) -> UOp:
    """The address of an access without what only orders it."""
    place = u.src[0]
    while place.op in (Ops.AFTER, Ops.RESHAPE):
        place = place.src[0]
    return place


def _offset(place: UOp) -> UOp | None:
    """The index of an address, one per lane if they have places of their own; None: the start."""
    return place.src[1] if place.op in (Ops.INDEX, Ops.SHRINK) else None


def _is_lanewise(u: UOp) -> bool:
    offset = _offset(_place(u))
    has_gates = len(u.src) > 2 and bool(u.src[2].shape)
    return has_gates or (offset is not None and bool(offset.shape))


class _Counting:
    """The lines of the counting program, as they are written."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        registers = [u.arg.slot for u in plan.lines if u.op is Ops.BUFFER]
        arg = ParamArg(max(registers, default=-1) + 1, dtypes.int64, addrspace=AddrSpace.REG)
        self.tally = UOp(Ops.BUFFER, dtypes.int64, (_shape(plan.tallies),), arg)
        # Nodes that have their line, or need none.
        self.known: set[UOp] = {s for u in plan.lines for s in u.toposort()}

    def lines(self) -> Iterator[UOp]:
        """Everything in order."""
        *body, sink = self.plan.lines
        yield from self._begin()
        for i, u in enumerate(body):
            yield from self._before(i, u)
            yield u
            if i in self.plan.opens:
                yield from self._add(self.plan.opens[i], UOp.const(1, dtypes.int64))
        yield from self._end(body[-1:])
        yield sink

    def _new(self, *nodes: UOp) -> Iterator[UOp]:
        """What the nodes are computed from and has no line yet, then the nodes."""
        for node in nodes:
            for u in node.toposort(lambda s: s not in self.known and s.op is not Ops.CONST):
                self.known.add(u)
                yield u

    # *** tallies

    def _cell(self, number: int) -> UOp:
        return self.tally.index(UOp.const(number, dtypes.int64))

    def _begin(self) -> Iterator[UOp]:
        """All tallies zero, but for that of the program itself."""
        self.known.update(self.tally.src)
        for number in range(self.plan.tallies):
            start = UOp.const(int(number == 0), dtypes.int64)
            yield from self._new(self._cell(number).store(start))

    def _add(self, number: int, amount: UOp) -> Iterator[UOp]:
        cell = self._cell(number)
        yield from self._new(cell.store(cell.load().alu(Ops.ADD, amount)))

    def _end(self, last: Sequence[UOp]) -> Iterator[UOp]:
        """Each tally added to its place in memory: every part of a THREAD axis adds its own."""
        out = self._memory(0, dtypes.int64, self.plan.tallies)
        done = self.tally.after(*last)
        for number in range(self.plan.tallies):
            place = out.index(UOp.const(number, dtypes.int64))
            found = done.index(UOp.const(number, dtypes.int64)).load()
            yield from self._new(place.store(place.load().alu(Ops.ADD, found)))
        if self.plan.traced:
            yield from self._new(self._memory(1, dtypes.int64, 1), self._memory(2, dtypes.uint8, 1))

    def _memory(self, number: int, dtype: Any, size: int) -> UOp:
        shape = _shape(size)
        self.known.add(shape)
        return UOp(Ops.PARAM, dtype, (shape,), ParamArg(self.plan.first_slot + number, dtype))

    # *** accesses

    def _before(self, i: int, u: UOp) -> Iterator[UOp]:
        """What counts an access, in front of it."""
        if i in self.plan.gate:
            yield from self._add(self.plan.gate[i], _open_lanes(u))
        if self.plan.traced and i in self.plan.site:
            yield from self._new(self._touch(u, self.plan.site[i]))

    def _touch(self, u: UOp, site: int) -> UOp:
        """The call of the cache model for an access."""
        buffer, offset = buffer_of(u), _offset(_place(u))
        index = UOp.const(0, dtypes.int64) if offset is None else offset
        if index.dtype is not dtypes.int64:
            index = _own(index.cast(dtypes.int64))
        gate = u.src[2:3]
        slot, size, lanes = self.plan.first_slot, buffer.dtype.itemsize, lanes_of(u)
        head = f"ptr %data{slot + 1}, ptr %data{slot + 2}, i64 {site}"
        head += f", i64 {self.plan.bases[buffer.arg.slot]}"
        if not _is_lanewise(u):
            open_ = "{1}" if gate else "true"
            text = (
                f"call void @touch({head}, i64 {{0}}, i64 {size}, i64 {size * lanes}, i1 {open_})"
            )
            return UOp(Ops.CUSTOM, dtypes.void, (index, *gate), text)
        width = width_of(u)
        if not index.shape:
            numbers = _own(UOp.stack(*(UOp.const(n, dtypes.int64) for n in range(width))))
            index = index.alu(Ops.ADD, numbers)
        open_ = "{1}" if gate else "splat (i1 true)"
        kinds = f"<{width} x i64> {{0}}, i64 {size}, <{width} x i1> {open_}"
        text = f"call void @touch{width}({head}, {kinds})"
        return UOp(Ops.CUSTOM, dtypes.void, (index, *gate), text)


def _shape(size: int) -> UOp:
    return shape_to_shape_arg((size,))


def _own(u: UOp) -> UOp:
    """The node as another one than any of the program's, which has a line of its own."""
    return u.replace(tag="count")


def _open_lanes(u: UOp) -> UOp:
    """How many lanes of a gated access are open, as an int64."""
    gate, lanes = _own(UOp(Ops.CAST, dtypes.int64, u.src[2:3], dtypes.int64)), lanes_of(u)
    if not gate.shape:
        return gate.alu(Ops.MUL, UOp.const(lanes, dtypes.int64)) if lanes > 1 else gate
    gate = gate._reshape((lanes,))
    total = gate.index(UOp.const(0, dtypes.int64))
    for n in range(1, lanes):
        total = total.alu(Ops.ADD, gate.index(UOp.const(n, dtypes.int64)))
    return total


def count_lines(linear: UOp, plan: Plan) -> UOp:
    """LINEAR -> LINEAR that counts, as the plan says."""
    return UOp(Ops.LINEAR, src=tuple(_Counting(plan).lines()))


# The pipeline that is handed in: a program's lines in, lines that count themselves out.
COUNTING = (
    Pass(
        "count_lines",
        run=count_lines,
        why="after linearize: what is counted is what the unchanged program executes",
    ),
)

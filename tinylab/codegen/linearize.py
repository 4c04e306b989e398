"""A graph put in order: loops nest, what does not change in a loop stands before it.

Each node belongs to the innermost loop that it uses. Loops nest in the order in which they are
closed; equal depths follow axis order. Within a loop body nodes are ordered by need, the operand
that keeps more lanes alive first, so that few registers are in use at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tinylab.codegen.index_dtype import value_order, value_sources
from tinylab.codegen.range_tools import range_key
from tinylab.dtype import AddrSpace
from tinylab.errors import CodegenError
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

_FIRST = frozenset({Ops.PARAM, Ops.BUFFER, Ops.SPECIAL, Ops.CONST})


class Loops:
    """Which loops are around each node of a program."""

    def __init__(self, order: list[UOp]) -> None:
        self.end: dict[UOp, UOp] = {}
        for u in order:
            if u.op is Ops.END:
                for rng in u.src[1:]:
                    if rng.op is Ops.RANGE:
                        self._close(rng, u)
        self._around: dict[UOp, tuple[UOp, ...]] = {}
        for u in order:
            for rng in u.ranges:
                if rng not in self.end:
                    raise CodegenError(
                        f"range {rng.arg} of {u.op.name} is never closed",
                        help="end its effects with .end(range)",
                    )

    def _close(self, rng: UOp, end: UOp) -> None:
        if self.end.setdefault(rng, end) is not end:
            raise CodegenError(f"range {rng.arg} is closed twice")

    def around(self, rng: UOp) -> tuple[UOp, ...]:
        """The loops around a loop, outermost first."""
        found = self._around.get(rng)
        if found is None:
            end = self.end[rng]
            # Loops of one END nest in axis order.
            together = sorted((r for r in end.src[1:] if r.op is Ops.RANGE), key=range_key)
            outer = [*end.ranges, *together[: together.index(rng)]]
            self._around[rng] = found = self.nest(outer)
        return found

    def nest(self, ranges: Iterable[UOp]) -> tuple[UOp, ...]:
        """A set of open loops and all loops around them, outermost first.

        Raises: CodegenError if neither of two of them is inside the other.
        """
        deepest: tuple[UOp, ...] = ()
        wanted = list(ranges)
        for rng in wanted:
            chain = (*self.around(rng), rng)
            if len(chain) > len(deepest):
                deepest = chain
        for rng in wanted:
            if rng not in deepest:
                raise CodegenError(
                    f"loops {[r.arg for r in wanted]} cross: {rng.arg} is not around the others"
                )
        return deepest


class _Block:
    """The body of a loop: nodes and inner loops, and what each waits for."""

    def __init__(self) -> None:
        self.units: dict[UOp, None] = {}  # nodes, and the RANGEs of inner loops
        self.needs: dict[UOp, dict[UOp, None]] = {}


class _Nest:
    """The loops of a program with what stands in each."""

    def __init__(self, sink: UOp) -> None:
        self.loops = Loops(order := value_order(sink))
        self.blocks: dict[UOp | None, _Block] = {None: _Block()}
        # Where a node stands: the loops around it, and what stands for it there.
        self.place: dict[UOp, tuple[tuple[UOp, ...], UOp]] = {}
        known: dict[int, tuple[UOp, ...]] = {}
        for u in order:
            self.place[u] = self._place_of(u, known)
        for u in order:
            path, unit = self.place[u]
            self._block(path).units[unit] = None
            for s in value_sources(u):
                self._edge(s, u)

    def _place_of(self, u: UOp, known: dict[int, tuple[UOp, ...]]) -> tuple[tuple[UOp, ...], UOp]:
        if u.op is Ops.RANGE:
            return self.loops.around(u), u
        if u.op is Ops.END:
            outermost = min(loops_of(u), key=lambda r: len(self.loops.around(r)))
            return self.loops.around(outermost), outermost
        key = id(u.ranges)  # one dict for all nodes with the same loops
        if key not in known:
            known[key] = self.loops.nest(u.ranges)
        return known[key], u

    def _block(self, path: tuple[UOp, ...]) -> _Block:
        return self.blocks.setdefault(path[-1] if path else None, _Block())

    def _edge(self, s: UOp, u: UOp) -> None:
        """Node s runs before u: so do, in the block around both, the loops that they are in."""
        (a, first), (b, second) = self.place[s], self.place[u]
        depth = 0
        while depth < len(a) and depth < len(b) and a[depth] is b[depth]:
            depth += 1
        first = a[depth] if len(a) > depth else first
        second = b[depth] if len(b) > depth else second
        if first is not second:
            self._block(a[:depth]).needs.setdefault(second, {})[first] = None

    def write(self) -> list[UOp]:
        """Every line, loops opened and closed around their bodies."""
        lines: list[UOp] = []
        opened: list[UOp] = []
        stack = [iter(_by_need(self.blocks[None]))]
        while stack:
            unit = next(stack[-1], None)
            if unit is None:
                stack.pop()
                if opened:
                    lines.extend(self._closing(opened.pop()))
                continue
            lines.append(unit)
            if unit.op is Ops.RANGE:
                opened.append(unit)
                stack.append(iter(_by_need(self.blocks.get(unit, _Block()))))
        return lines

    def _closing(self, loop: UOp) -> list[UOp]:
        """The END, once all of its loops are at their end."""
        end = self.loops.end[loop]
        outermost = min(loops_of(end), key=lambda r: len(self.loops.around(r)))
        return [end] if loop is outermost else []


def loops_of(end: UOp) -> list[UOp]:
    """The RANGEs that an END closes."""
    return [r for r in end.src[1:] if r.op is Ops.RANGE]


def _by_need(block: _Block) -> list[UOp]:
    """Depth first from what nobody waits for: what a node needs stands just before it."""
    units, needs = block.units, block.needs
    needed = {n for waits in needs.values() for n in waits}
    roots = [u for u in units if u.op in _FIRST]
    roots += [u for u in units if u not in needed and u.op not in _FIRST]
    done: dict[UOp, None] = {}
    waiting_for: set[UOp] = set()
    stack = [(u, False) for u in reversed(roots)]
    while stack:
        u, visited = stack.pop()
        if u in done:
            continue
        if visited:
            waiting_for.discard(u)
            done[u] = None
            continue
        if u in waiting_for:
            continue
        waiting_for.add(u)
        stack.append((u, True))
        waits = sorted((n for n in needs.get(u, ()) if n not in done), key=_weight, reverse=True)
        if any(n in waiting_for for n in waits):
            raise CodegenError(f"{u.op.name} and what it needs wait for each other")
        stack.extend((n, False) for n in reversed(waits))
    if len(done) != len(units):
        left = next(u for u in units if u not in done)
        raise CodegenError(f"{left.op.name} and what it needs wait for each other")
    return list(done)


def _weight(u: UOp) -> int:
    """Lanes that a value keeps alive; the heaviest operand is computed first (last on a stack)."""
    if u.op is Ops.RANGE:
        return 1 << 30
    return math.prod(u._shape) if u._shape else 1


def order_accesses(sink: UOp) -> UOp:
    """Loads of a buffer that is stored to later run before that store.

    STORE(b[i], x) beside a LOAD(b[j]) that does not wait for it  ->  the store waits for the load
    """
    order = value_order(sink)
    stores: dict[UOp, list[UOp]] = {}
    for u in order:
        if u.op is Ops.STORE and u.src[0].addrspace is not AddrSpace.REG:
            stores.setdefault(_buffer(u.src[0]), []).append(u)
    hazards: dict[UOp, list[UOp]] = {}
    for u in order:
        if u.op is not Ops.LOAD:
            continue
        for store in stores.get(_buffer(u.src[0]), ()):
            hazards.setdefault(store, []).append(u)
    new: dict[UOp, UOp] = {}
    for store, loads in hazards.items():
        below = store.toposort()
        waiting = [
            ld
            for ld in loads
            if ld not in below
            and store not in ld.toposort()
            and set(ld.ranges) <= set(store.ranges)
        ]
        if waiting:
            target = store.src[0]
            new[store] = store.replace(src=(target.after(*waiting), *store.src[1:]))
    return sink.substitute(new) if new else sink


def _buffer(x: UOp) -> UOp:
    while x.op not in (Ops.PARAM, Ops.BUFFER):
        x = x.src[0]
    return x


def linearize(sink: UOp, ctx: object = None) -> UOp:
    """LINEAR of the program's lines, with the SINK last."""
    lines = _Nest(order_accesses(sink)).write()
    kept = tuple(u for u in lines if not (u.op is Ops.STACK and not u.src))
    return UOp(Ops.LINEAR, src=kept)

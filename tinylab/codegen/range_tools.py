"""What passes and opts share about RANGEs: order, sizes, and putting others in their place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from tinylab.dtype import AddrSpace, dtypes
from tinylab.opcodes import AxisType, Ops, axis_to_pos
from tinylab.uop.kernel_order import stores_in_loops
from tinylab.uop.ops import UOp, rebuild

# A LOOP is none of them: it stays a loop, with its steps in order, whatever opts are chosen.
OUTPUT_KINDS = (AxisType.GLOBAL, AxisType.LOCAL, AxisType.WEAK)
# What may be split and merged, spread over threads and exchanged.
FREE_KINDS = (AxisType.GLOBAL, AxisType.WEAK)
REDUCE_KINDS = (AxisType.GROUP_REDUCE, AxisType.REDUCE)
CLOSERS = frozenset({Ops.END, Ops.REDUCE})


def range_key(rng: UOp) -> tuple[int, tuple[int, ...]]:
    """Where a range stands in a kernel's axis list: by kind, then by axis id."""
    return axis_to_pos[rng.arg[-1]], tuple(rng.arg[:-1])


def shared_writes(sink: UOp) -> list[set[UOp]]:
    """The loops around each write to memory that all threads see."""
    stores = stores_in_loops(sink).items()
    return [loops for u, loops in stores if u.src[0].addrspace is AddrSpace.GLOBAL]


def size_of(rng: UOp) -> int | UOp:
    """The number of steps of a range, as an int where it is known."""
    end = rng.src[0]
    return int(end.arg) if end.op is Ops.CONST else end


def ranges_in(root: UOp) -> list[UOp]:
    """The ranges below a node that take more than one step, in axis order."""
    found = [u for u in root.toposort() if u.op is Ops.RANGE and u.src[0].op is not Ops.NOOP]
    return sorted((r for r in found if size_of(r) != 1), key=range_key)


def remade(root: UOp, new: Mapping[UOp, UOp], remake: Callable[[UOp, tuple[UOp, ...]], UOp]) -> UOp:
    """Put nodes in the place of others, once; `remake` makes each node above them anew.

    It is given the node as it was and its new sources, one for each old one.
    """
    done: dict[UOp, UOp] = {}
    for u in root.toposort():
        if u in new:
            done[u] = new[u]
            continue
        src = tuple(done[s] for s in u.src)
        done[u] = u if src == u.src else remake(u, src)
    return done[root]


def replace_ranges(root: UOp, new: Mapping[UOp, UOp]) -> UOp:
    """Put expressions in the place of ranges; what closed a range closes those of its expression.

    END(store, r), {r: o*4 + i}  ->  END(store', o, i)

    So does what is read in each step anew: AFTER(a, r)  ->  AFTER(a, o, i)
    """

    def remake(u: UOp, src: tuple[UOp, ...]) -> UOp:
        if u.op is Ops.AFTER:
            waits = (
                closed_by([s]) if old.op is Ops.RANGE else [s]
                for s, old in zip(src[1:], u.src[1:], strict=True)
            )
            return src[0].after(*dict.fromkeys(itertools.chain(*waits)))
        if u.op not in CLOSERS:
            return rebuild(u, src)
        closed = closed_by(src[1:])
        if not closed and (u.op is Ops.END or not u.arg[1]):
            return src[0]
        return u.replace(src=(src[0], *closed))

    return remade(root, new, remake)


def closed_by(expressions: Iterable[UOp]) -> list[UOp]:
    """The ranges of the expressions that stand where a RANGE stood, outer ones first."""
    found: dict[UOp, None] = {}
    for x in expressions:
        if x.op is Ops.RANGE:
            found[x] = None
        elif x.op is not Ops.CONST:
            found.update((r, None) for r in x.toposort() if r.op is Ops.RANGE)
    return list(found)


def rebuild_with(root: UOp, new: Mapping[UOp, UOp], drop: UOp | None = None) -> UOp:
    """Put nodes in the place of others, once; what closed `drop` no longer does.

    Sums are folded on the way: x + 0 -> x, 0 * c -> 0.
    """

    def remake(u: UOp, src: tuple[UOp, ...]) -> UOp:
        if u.op not in CLOSERS:
            return _fold_zero(u, src)
        pairs = zip(src[1:], u.src[1:], strict=True)
        return u.replace(src=(src[0], *(s for s, old in pairs if old is not drop)))

    return remade(root, new, remake)


def _fold_zero(u: UOp, src: tuple[UOp, ...]) -> UOp:
    if u.op is Ops.ADD and dtypes.is_int(u.dtype):
        for zero, other in (src, src[::-1]):
            if zero.op is Ops.CONST and zero.arg == 0:
                return other
    if u.op is Ops.MUL and dtypes.is_int(u.dtype):
        for zero in src:
            if zero.op is Ops.CONST and zero.arg == 0:
                return zero
    return rebuild(u, src)

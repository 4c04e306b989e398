"""What passes and opts share about RANGEs: order, sizes, and putting others in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tinylab.dtype import dtypes
from tinylab.opcodes import AxisType, Ops, axis_to_pos
from tinylab.uop.ops import UOp, rebuild

OUTPUT_KINDS = (AxisType.GLOBAL, AxisType.LOCAL, AxisType.WEAK, AxisType.LOOP)
REDUCE_KINDS = (AxisType.GROUP_REDUCE, AxisType.REDUCE)
CLOSERS = frozenset({Ops.END, Ops.REDUCE})


def range_key(rng: UOp) -> tuple[int, tuple[int, ...]]:
    """Where a range stands in a kernel's axis list: by kind, then by axis id."""
    return axis_to_pos[rng.arg[-1]], tuple(rng.arg[:-1])


def size_of(rng: UOp) -> int | UOp:
    """The number of steps of a range, as an int where it is known."""
    end = rng.src[0]
    return int(end.arg) if end.op is Ops.CONST else end


def ranges_in(root: UOp) -> list[UOp]:
    """The ranges below a node that take more than one step, in axis order."""
    found = [u for u in root.toposort() if u.op is Ops.RANGE and u.src[0].op is not Ops.NOOP]
    return sorted((r for r in found if size_of(r) != 1), key=range_key)


def replace_ranges(root: UOp, new: Mapping[UOp, UOp]) -> UOp:
    """Put expressions in the place of ranges; what closed a range closes those of its expression.

    END(store, r), {r: o*4 + i}  ->  END(store', o, i)
    """
    done: dict[UOp, UOp] = {}
    for u in root.toposort():
        if u in new:
            done[u] = new[u]
            continue
        src = tuple(done[s] for s in u.src)
        if src == u.src:
            done[u] = u
            continue
        if u.op in CLOSERS:
            src = (src[0], *closed_by(src[1:]))
            if len(src) == 1 and (u.op is Ops.END or not u.arg[1]):
                done[u] = src[0]
                continue
            done[u] = u.replace(src=src)
            continue
        done[u] = rebuild(u, src)
    return done[root]


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
    done: dict[UOp, UOp] = {}
    for u in root.toposort():
        if u in new:
            done[u] = new[u]
            continue
        src = tuple(done[s] for s in u.src)
        if src == u.src:
            done[u] = u
        elif u.op in CLOSERS:
            kept = (done[s] for s in u.src[1:] if s is not drop)
            done[u] = u.replace(src=(src[0], *kept))
        else:
            done[u] = _fold_zero(u, src)
    return done[root]


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

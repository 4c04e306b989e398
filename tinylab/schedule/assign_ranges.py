"""Loops for what is stored, and movement turned into arithmetic on their variables.

An INDEX is pushed from each stored value towards the inputs: through movement by changing the
index, through operations by reading each source at its own place, through a reduction by adding
loops. It stops at memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.schedule.indexing import (
    Index,
    both,
    broadcast_index,
    guard_of,
    loops,
    pad_guard,
    source_index,
)
from tinylab.uop.args import ReduceArg
from tinylab.uop.intern import carry_metadata, make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

# Marks a STAGE or STORE whose loops are made.
LOOPED = "loops"


def at(x: UOp, idx: Index) -> UOp:
    """X at an index; constants are the same everywhere."""
    return x if x.op is Ops.CONST or x.is_variable else make(Ops.INDEX, x.dtype, (x, *idx))


def stage_gets_loops(x: UOp, ctx: Iterator[int]) -> UOp | None:
    """One loop for each axis of a stored value."""
    value = x.src[0]
    if x.tag is not None or len(x.src) > 1 or value.op is Ops.COPY:
        return None
    idx = loops(value.shape, ctx, AxisType.WEAK)
    plain = carry_metadata(value, value.rtag(None))
    return carry_metadata(x, x.replace(src=(at(plain, idx), *idx), tag=LOOPED))


def store_gets_loops(x: UOp, ctx: Iterator[int]) -> UOp | None:
    """A write in place runs over the places of its target."""
    if x.tag is not None:
        return None
    target, value = x.src[:2]
    idx = loops(target.shape, ctx, AxisType.WEAK)
    stored = x.replace(
        src=(at(target, idx), at(value, broadcast_index(idx, value.shape))), tag=LOOPED
    )
    return carry_metadata(x, stored.end(*(i for i in idx if i.op is Ops.RANGE)))


def index_of_movement(m: UOp, x: UOp) -> UOp:
    """The index moves instead of the value; a PAD is 0 outside its source."""
    idx = x.src[1:]
    inner = at(m.src[0], source_index(m, idx))
    if m.op is not Ops.PAD:
        return inner
    guard = pad_guard(m, idx)
    return inner if guard is None else guard.where(inner, UOp.const(0, x.dtype))


def index_of_elementwise(e: UOp, x: UOp) -> UOp:
    """Each operand is read at its own place."""
    idx = x.src[1:]
    src = tuple(at(s, broadcast_index(idx, s.shape)) for s in e.src)
    return carry_metadata(e, e.replace(src=src, dtype=e.dtype, tag=None))


def index_of_reduce(r: UOp, x: UOp, ctx: Iterator[int]) -> UOp:
    """The reduced axes become loops of the reduction."""
    inner = loops(r.src[0].shape[: r.arg.count], ctx, AxisType.REDUCE)
    value = at(r.src[0], (*inner, *x.src[1:]))
    ranges = tuple(i for i in inner if i.op is Ops.RANGE)
    if not ranges:
        return value
    return carry_metadata(r, make(Ops.REDUCE, r.dtype, (value, *ranges), ReduceArg(r.arg.op, 0)))


def index_of_iota(s: UOp, x: UOp) -> UOp | None:
    """A value over its own loop: the loop variable is the index itself."""
    if not s.arg.removable or len(s.src) != len(x.src):
        return None
    guard = None
    places: dict[UOp, UOp] = {}
    for r, i in zip(s.src[1:], x.src[1:], strict=True):
        guard = both(guard, guard_of(i))
        places[r] = i.get_idx()
    return s.src[0].substitute(places)


def index_of_written_view(a: UOp, x: UOp) -> UOp | None:
    """A view that was written to: the write concerns the storage below the view."""
    view = a.src[0]
    if view.op not in GroupOp.Movement:
        return None
    below = view.src[0].after(*a.src[1:])
    return at(below, source_index(view, x.src[1:]))


def reduce_of_reduce(a: UOp, b: UOp) -> UOp | None:
    """A reduction right inside one with the same operation is one reduction."""
    if a.arg != b.arg or a.dtype is not b.dtype or len(a.src) < 2 or len(b.src) < 2:
        return None
    return a.replace(src=(b.src[0], *a.src[1:], *b.src[1:]))


def sum_of_masked_sum(a: UOp, b: UOp, c: UOp, w: UOp, z: UOp) -> UOp | None:
    """The mask goes inside the inner sum, so that both sums are one."""
    if a.arg.op is not Ops.ADD or a.arg != b.arg or a.dtype is not b.dtype:
        return None
    return a.replace(src=(c.where(b.src[0], z), *a.src[1:], *b.src[1:]))


_INDEXED_MOVEMENT = UPat(GroupOp.Movement, name="m")

# fmt: off
pm_assign_ranges = PatternMatcher([
    Rule("stage_gets_loops", "stage(x) -> stage(x[r0, …], r0, …)", UPat(Ops.STAGE, name="x"),
         stage_gets_loops),
    Rule("store_gets_loops", "t <- x  becomes  for r: t[r] <- x[r]", UPat(Ops.STORE, name="x"),
         store_gets_loops),
    Rule("index_of_movement", "move(x)[i] -> x[i moved]",
         UPat(Ops.INDEX, src=(_INDEXED_MOVEMENT,), allow_any_len=True, name="x"),
         index_of_movement),
    Rule("index_of_elementwise", "op(a, b)[i] -> op(a[i], b[i])",
         UPat(Ops.INDEX, src=(UPat(GroupOp.Elementwise, name="e"),), allow_any_len=True, name="x"),
         index_of_elementwise),
    Rule("index_of_reduce", "reduce(x)[i] -> reduce over r of x[r, i]",
         UPat(Ops.INDEX, src=(UPat(Ops.REDUCE, name="r"),), allow_any_len=True, name="x"),
         index_of_reduce),
    Rule("index_of_iota", "iota[i] -> i",
         UPat(Ops.INDEX, src=(UPat(Ops.STAGE, name="s"),), allow_any_len=True, name="x"),
         index_of_iota),
    Rule("index_of_written_view", "(view of b after w)[i] -> (b after w)[i moved]",
         UPat(Ops.INDEX, src=(UPat(Ops.AFTER, name="a"),), allow_any_len=True, name="x"),
         index_of_written_view),
])

_ZERO = UPat.cvar("z", arg=0)
_MASKED_REDUCE = UPat(Ops.WHERE, src=(UPat.var("c"), UPat(Ops.REDUCE, name="b"), _ZERO), name="w")

pm_merge_reduces = PatternMatcher([
    Rule("reduce_of_reduce", "sum over a of sum over b -> sum over a, b",
         UPat(Ops.REDUCE, src=(UPat(Ops.REDUCE, name="b"),), allow_any_len=True, name="a"),
         reduce_of_reduce),
    Rule("mask_of_mask", "c ? (d ? x : 0) : 0 -> c & d ? x : 0",
         UPat.var("c").where(UPat(Ops.WHERE, src=(UPat.var("d"), UPat.var("x"), _ZERO)), _ZERO),
         lambda c, d, x, z: (c & d).where(x, z)),
    Rule("sum_of_masked_sum", "sum_a (c ? sum_b x : 0) -> sum_ab (c ? x : 0)",
         UPat(Ops.REDUCE, src=(_MASKED_REDUCE,), allow_any_len=True, name="a"), sum_of_masked_sum),
])
# fmt: on


def numbers(root: UOp, ctx: Any) -> Iterator[int]:
    """Fresh axis ids."""
    return itertools.count()

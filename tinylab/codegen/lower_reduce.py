"""Reduces become accumulators in registers, and additions of lanes.

sum over r of x  ->  acc = 0; for r: acc = acc + x; … acc

The order is held by AFTER: the first store after the loops around, the load in the loop after that
store, the value after the loop's END.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tinylab.codegen.lanes import fold, fold_last, permute, pick, reshape
from tinylab.codegen.range_tools import range_key, rebuild_with
from tinylab.dtype import AddrSpace
from tinylab.opcodes import Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.ops import (
    PatternMatcher,
    Rule,
    UOp,
    UPat,
    identity_element,
    rebuild,
    shape_to_shape_arg,
)


def first_register(sink: UOp, ctx: object = None) -> Iterator[int]:
    """Numbers for register buffers that the kernel does not use yet."""
    used = [
        u.arg.slot
        for u in sink.toposort()
        if u.op is Ops.BUFFER and u.arg.addrspace is not AddrSpace.GLOBAL
    ]
    return itertools.count(max(used, default=-1) + 1)


def reduce_to_accumulator(red: UOp, ctx: Iterator[int]) -> UOp | None:
    """A reduce over loops as a register that each step adds to."""
    if red.arg[1] or len(red.src) == 1:
        return None
    op, x, loops = red.arg[0], red.src[0], red.src[1:]
    arg = ParamArg(next(ctx), red.dtype, addrspace=AddrSpace.REG)
    acc = UOp(Ops.BUFFER, red.dtype, (shape_to_shape_arg(x.shape),), arg)
    nothing = UOp.const(identity_element(op, red.dtype), red.dtype)
    around = [r for r in x.ranges if r not in loops]
    first = acc.after(*sorted(around, key=range_key)).store(nothing)
    so_far = acc.after(first, *loops)
    added = so_far.store(_add(op, so_far.load(), x))
    return acc.after(added.end(*loops)).load()


def _add(op: Ops, acc: UOp, x: UOp) -> UOp:
    """The sum acc + x; lanes that are reduced at once are added one after another."""
    if x.op is Ops.REDUCE and x.arg == (op, 1) and len(x.src) == 1:
        for i in range(x.src[0].shape[0]):
            acc = acc.alu(op, _item(x.src[0], i))
        return acc
    return acc.alu(op, x)


def _item(x: UOp, i: int) -> UOp:
    """One item of the leading axis; of a product, the product of the items (they may fuse)."""
    if x.op is Ops.MUL and x._shape is not None:
        rank = len(x.shape)
        return UOp(Ops.MUL, x.dtype, tuple(_operand_item(s, i, rank) for s in x.src))
    return pick(x, i)


def _operand_item(x: UOp, i: int, rank: int) -> UOp:
    if len(x.shape) < rank:
        return x
    return pick(x, i if x.shape[0] > 1 else 0)


def reduce_of_lanes(red: UOp) -> UOp | None:
    """A reduce of leading axes as operations between their items.

    The vector axis is halved until one lane is left; the others are added item by item.
    """
    op, count = red.arg
    if not count or len(red.src) > 1:
        return None
    x = red.src[0]
    axes = list(range(count))
    if x.op is Ops.PERMUTE:
        axes, x = list(x.arg[:count]), x.src[0]
    elif all(n == 1 for n in x.shape[count:]):
        x = reshape(x, x.shape[:count])
    last = len(x.shape) - 1
    if last in axes:
        x = fold_last(x, op)
    rest = [a for a in axes if a != last]
    x = permute(x, [*rest, *(a for a in range(last + 1) if a not in rest)])
    for _ in rest:
        x = fold(x, op)
    return reshape(x, red.shape)


def share_loops(sink: UOp, ctx: object = None) -> UOp:
    """Each range closed once: equal loops that do not wait for each other become one.

    END(store a, r), END(store b, r)  ->  END(GROUP(store a, store b), r)

    A loop that waits for another one over the same range gets a range of its own.
    """
    while (pair := _closed_twice(sink)) is not None:
        rng, first, second = pair
        joined = _joined(sink, first, second)
        sink = _renamed(sink, second, rng) if joined is None else joined
    return sink


def _closed_twice(sink: UOp) -> tuple[UOp, UOp, UOp] | None:
    """(range, the END that closes it first, another one)."""
    closed: dict[UOp, UOp] = {}
    for u in sink.toposort():
        if u.op is not Ops.END:
            continue
        for rng in u.src[1:]:
            if rng.op is not Ops.RANGE:
                continue
            if rng in closed and closed[rng] is not u:
                return rng, closed[rng], u
            closed[rng] = u
    return None


def _joined(sink: UOp, first: UOp, second: UOp) -> UOp | None:
    same = set(first.src[1:]) == set(second.src[1:])
    if not same or set(first.ranges) != set(second.ranges):
        return None
    if first in second.toposort():
        return None
    effects = [e for end in (first, second) for e in _effects(end.src[0])]
    both = UOp.group(*effects).end(*first.src[1:])
    return rebuild_with(sink, {first: both, second: both})


def _effects(x: UOp) -> tuple[UOp, ...]:
    return x.src if x.op is Ops.GROUP else (x,)


def _renamed(sink: UOp, end: UOp, rng: UOp) -> UOp:
    """One loop of an END with a range of its own."""
    next_id = 1 + max(i for u in sink.toposort() if u.op is Ops.RANGE for i in u.arg[:-1])
    own = rng.replace(arg=type(rng.arg)((next_id, rng.arg[-1])))
    loops = (own if r is rng else r for r in end.src[1:])
    return rebuild_with(sink, {end: _in_scope(end.src[0], rng, own).end(*loops)})


def _in_scope(root: UOp, rng: UOp, own: UOp) -> UOp:
    """A range renamed where it is open; a loop inside that closes it keeps it."""
    done: dict[UOp, UOp] = {rng: own}
    for u in root.toposort():
        if u is not rng:
            src = tuple(done[s] for s in u.src) if rng in u.ranges else u.src
            done[u] = u if src == u.src else rebuild(u, src)
    return done[root]


# fmt: off
pm_lower_reduce = PatternMatcher([
    Rule("reduce_to_accumulator", "REDUCE(x, loops) -> register, set before, added to in the loops",
         UPat(Ops.REDUCE, name="red"), reduce_to_accumulator),
    Rule("reduce_of_lanes", "REDUCE of n leading lane axes -> x[0] + x[1] + …",
         UPat(Ops.REDUCE, name="red"), reduce_of_lanes),
])
# fmt: on

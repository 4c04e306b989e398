"""A reduce that is spread over a workgroup: partial results meet in local memory.

REDUCE(x, R, G)  ->  part = REDUCE(x, R); shared[g] = part; barrier; sum over g' of shared[g']

Every member adds all parts; only the first one stores the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from tinylab.codegen.range_tools import range_key
from tinylab.dtype import AddrSpace
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import ParamArg, RangeArg
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

WORKGROUP_KINDS = (AxisType.LOCAL, AxisType.WARP)
LANE_KINDS = (AxisType.UPCAST, AxisType.UNROLL)


class LocalContext(NamedTuple):
    """Fresh numbers for local buffers and for axes."""

    slots: Iterator[int]
    axes: Iterator[int]


def local_context(sink: UOp, ctx: object = None) -> LocalContext:
    """Numbers that the kernel does not use."""
    order = sink.toposort()
    slots = [u.arg.slot for u in order if u.op is Ops.BUFFER]
    axes = [i for u in order if u.op is Ops.RANGE for i in u.arg[:-1]]
    return LocalContext(
        itertools.count(max(slots, default=-1) + 1), itertools.count(max(axes, default=-1) + 1)
    )


def has_groups(sink: UOp, ctx: object = None) -> bool:
    """Whether a reduce is spread over the workgroup."""
    return any(u.op is Ops.RANGE and u.arg[-1] is AxisType.GROUP_REDUCE for u in sink.toposort())


def _is_group(rng: UOp) -> bool:
    return rng.op is Ops.RANGE and rng.arg[-1] is AxisType.GROUP_REDUCE


def group_to_local(red: UOp, ctx: LocalContext) -> UOp | None:
    """A reduce over GROUP_REDUCE ranges by way of local memory."""
    groups = [r for r in red.src[1:] if _is_group(r)]
    if red.arg[1] or not groups:
        return None
    loops = [r for r in red.src[1:] if r not in groups]
    part = red.src[0].reduce(*loops, arg=red.arg) if loops else red.src[0]
    # Lanes that the loop closes are gone; each other place in the workgroup has its own part.
    places = sorted(
        (r for r in part.ranges if r.arg[-1] in WORKGROUP_KINDS or r.arg[-1] in LANE_KINDS),
        key=range_key,
    )
    size = 1
    for r in (*places, *groups):
        size *= int(r.src[0].arg)
    arg = ParamArg(next(ctx.slots), red.dtype, addrspace=AddrSpace.LOCAL)
    shared = UOp(Ops.BUFFER, red.dtype, (UOp.const(size),), arg)
    stored = shared.index(_flat([*places, *groups])).store(part)
    again = [r.replace(arg=RangeArg((next(ctx.axes), AxisType.REDUCE))) for r in groups]
    found = shared.after(stored.barrier()).index(_flat([*places, *again]))
    return found.reduce(*again, arg=red.arg)


def _flat(ranges: list[UOp]) -> UOp:
    """Row-major position over the ranges."""
    found = UOp.const(0)
    for i, r in enumerate(ranges):
        found = r if i == 0 else found * int(r.src[0].arg) + r
    return found


def store_once(sink: UOp) -> UOp | None:
    """What a kernel with a grouped reduce stores is stored by the first member of the group only.

    That includes stores beside the reduce: what one reads and writes would be written again.
    """
    groups = sorted((u for u in sink.toposort() if _is_group(u)), key=range_key)
    effects = tuple(_once(effect, groups) for effect in sink.src)
    return None if effects == sink.src else sink.replace(src=effects)


def _once(effect: UOp, groups: list[UOp]) -> UOp:
    """An effect of the kernel for the first member of the groups that it does not close yet."""
    body, *closed = effect.src if effect.op is Ops.END else (effect,)
    stores = body.src if body.op is Ops.GROUP else (body,)
    missing = [r for r in groups if r not in closed]
    if not missing or any(s.op is not Ops.STORE for s in stores):
        return effect
    first = missing[0] < 1
    for r in missing[1:]:
        first = first & (r < 1)
    gated = [_gated(s, first) for s in stores]
    return (UOp.group(*gated) if len(gated) > 1 else gated[0]).end(*closed, *missing)


def _gated(store: UOp, gate: UOp) -> UOp:
    """A store that happens where a condition holds too."""
    target = store.src[0]
    idx = target.src[1]
    valid = idx.get_valid()
    both = gate if valid.op is Ops.CONST else valid & gate
    gated = target.replace(src=(target.src[0], idx.get_idx().valid(both)))
    return store.replace(src=(gated, *store.src[1:]))


# fmt: off
pm_local_buffers = PatternMatcher([
    Rule("group_to_local", "REDUCE(x, loops, groups) -> parts in local memory, barrier, REDUCE",
         UPat(Ops.REDUCE, name="red"), group_to_local),
    Rule("store_once", "SINK(STORE…) beside a GROUP_REDUCE -> stored where it is 0",
         UPat(Ops.SINK, name="sink"), store_once),
])
# fmt: on

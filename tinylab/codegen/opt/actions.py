"""What each opt does: a function per OptOps, which changes the kernel or says why it cannot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tinylab.codegen.opt import KernelOptError, Opt, OptOps, check
from tinylab.codegen.range_tools import (
    FREE_KINDS,
    OUTPUT_KINDS,
    REDUCE_KINDS,
    range_key,
    replace_ranges,
    shared_writes,
    size_of,
)
from tinylab.helpers.context import NUM_CPU_THREADS
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp, identity_element, rebuild

if TYPE_CHECKING:
    from tinylab.codegen.opt.kernel import Scheduler

MAX_UPCAST = 16
MAX_UNROLL = 32
WORKGROUP_KINDS = (AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE)


def _axis(k: Scheduler, opt: Opt) -> UOp:
    """The range of an opt's axis; its steps must not depend on each other, so it is no LOOP."""
    rng = k.rngs[k.real_axis(opt.op, opt.axis)]
    carried = any(u.op is Ops.AFTER and rng in u.src[1:] for u in k.ast.toposort())
    check(
        not carried,
        f"can't apply range to this dim: {opt.op.name} of axis {opt.axis}, a loop written by hand "
        "that carries a value from step to step",
    )
    check(
        rng.arg[-1] is not AxisType.LOOP,
        f"can't apply range to this dim: {opt.op.name} of axis {opt.axis}, a LOOP, which stays one",
        help="an axis whose steps may run in any order is a WEAK one, the default of UOp.range",
    )
    return rng


def _amount(opt: Opt, rng: UOp) -> int:
    """The opt's amount, 0 being the whole axis."""
    size = size_of(rng)
    check(isinstance(opt.arg, int), f"{opt.op.name} needs an amount, not {opt.arg!r}")
    assert isinstance(opt.arg, int), "checked above"
    check(
        opt.arg > 0 or isinstance(size, int),
        f"{opt.op.name} of a whole axis needs a known size, not {rng.src[0].render()}",
    )
    check(opt.arg >= 0, f"{opt.op.name} by {opt.arg}: an amount is 2 or more, 0 for the whole axis")
    check(opt.arg != 1, f"{opt.op.name} by 1 changes nothing: an amount is 2 or more")
    return opt.arg or int(size)


def _kind_name(rng: UOp) -> str:
    return str(rng.arg[-1].name)


def _whole(opt: Opt) -> str:
    """What a refusal adds where the amount was not written as a number of steps."""
    return ", the size of the axis, which 0 stands for" if opt.arg == 0 else ""


def upcast(k: Scheduler, opt: Opt) -> None:
    """Inner steps of an output axis become lanes."""
    rng = _axis(k, opt)
    amount = _amount(opt, rng)
    check(
        amount <= MAX_UPCAST,
        f"don't upcast more than {MAX_UPCAST}: {amount}{_whole(opt)}",
        help="upcast the axis twice: each upcast adds a lane axis",
    )
    check(
        rng.arg[-1] in OUTPUT_KINDS,
        f"upcast is for GLOBAL/LOCAL/LOOP, not {_kind_name(rng)}",
        help="UNROLL takes reduce axes",
    )
    k.shift_to(rng, amount, AxisType.UPCAST)


def unroll(k: Scheduler, opt: Opt) -> None:
    """Inner steps of a reduce axis become lanes."""
    rng = _axis(k, opt)
    amount = _amount(opt, rng)
    check(amount <= MAX_UNROLL, f"don't unroll more than {MAX_UNROLL}: {amount}")
    check(rng.arg[-1] in REDUCE_KINDS, f"unroll is for GROUP_REDUCE/REDUCE, not {_kind_name(rng)}")
    k.shift_to(rng, amount, AxisType.UNROLL)


def local(k: Scheduler, opt: Opt) -> None:
    """Inner steps of a grid axis become places in a workgroup."""
    check(not k.dont_use_locals, "can't use locals: NOLOCALS was applied")
    check(k.ren.has_local, f"locals needed for opt: {k.ren.target.device} has no workgroups")
    rng = _axis(k, opt)
    check(rng.arg[-1] in FREE_KINDS, f"local is for globals, not {_kind_name(rng)}")
    check(
        rng in _common_output_ranges(k),
        f"local is for globals: axis {opt.axis} is not in every store",
    )
    k.shift_to(rng, _amount(opt, rng), AxisType.LOCAL)


def thread(k: Scheduler, opt: Opt) -> None:
    """The outer part of an output axis is spread over the CPU's threads."""
    check(k.ren.has_threads, f"target does not support threads: {k.ren.target.device}")
    rng = _axis(k, opt)
    amount = _amount(opt, rng)
    most = max_threads(k)
    check(amount <= most, f"too many threads: {amount}, but the target has {most}")
    check(not k.axes_of(AxisType.THREAD), "already threaded: a kernel has one THREAD axis")
    check(
        rng.arg[-1] in FREE_KINDS and rng in _common_output_ranges(k),
        f"can't apply range to this dim: {_kind_name(rng)} axis {opt.axis} is not in every store",
    )
    k.shift_to(rng, amount, AxisType.THREAD, top=True)


def max_threads(k: Scheduler) -> int:
    """The most parts that a THREAD axis may have."""
    limit = k.ren.global_max[0] if k.ren.global_max else NUM_CPU_THREADS.value
    return min(limit, NUM_CPU_THREADS.value)


def _common_output_ranges(k: Scheduler) -> set[UOp]:
    """Ranges that every write of the kernel to memory runs over."""
    found = [set(u.src[1:]) if u.op is Ops.END else set() for u in k.ast.src]
    return set.intersection(*found, *shared_writes(k.ast)) if found else set()


def group(k: Scheduler, opt: Opt) -> None:
    """Part of a reduce axis is spread over the workgroup: its inner steps, or outer (GROUPTOP)."""
    check(not k.dont_use_locals, "can't use locals: NOLOCALS was applied")
    check(
        k.ren.has_local and k.ren.has_shared,
        f"locals needed for opt: {k.ren.target.device} has no shared memory",
    )
    rng = _axis(k, opt)
    amount = _amount(opt, rng)
    check(rng.arg[-1] is AxisType.REDUCE, f"group is for reduce, not {_kind_name(rng)}")
    reduces = [u for u in k.reduceops if rng in u.src[1:]]
    kinds = (AxisType.UPCAST, *WORKGROUP_KINDS)
    held = math.prod(int(size_of(k.rngs[i])) for i in k.axes_of(*kinds))
    needed = amount * held * sum(u.dtype.itemsize for u in reduces)
    check(
        needed <= k.ren.shared_max,
        f"exceeds maximum shared memory size: needs {needed}, max {k.ren.shared_max}",
    )
    around = {r for u in reduces for r in u.ranges}
    outer = {r for r in around if r.arg[-1] in REDUCE_KINDS}
    check(not outer, "cannot have a GROUP_REDUCE inside another reduce")
    # Each step of it would be taken by every member of the workgroup.
    in_order = {r for r in around if r.arg[-1] is AxisType.LOOP}
    check(not in_order, "cannot have a GROUP_REDUCE inside a LOOP, whose steps build on each other")
    k.shift_to(rng, amount, AxisType.GROUP_REDUCE, top=opt.op is OptOps.GROUPTOP)


def nolocals(k: Scheduler, opt: Opt) -> None:
    """A grid without workgroups."""
    grouped = k.axes_of(*WORKGROUP_KINDS)
    check(not grouped, f"no locals can't have locals: axes {grouped} are in the workgroup")
    k.dont_use_locals = True


def padto(k: Scheduler, opt: Opt) -> None:
    """An axis is rounded up; the added steps load nothing, add nothing and store nothing."""
    rng = _axis(k, opt)
    size = size_of(rng)
    check(isinstance(size, int), f"only pad const axes, not {rng.src[0].render()}")
    assert isinstance(size, int), "checked above"
    check(isinstance(opt.arg, int) and opt.arg > 0, f"PADTO needs a multiple, not {opt.arg!r}")
    assert isinstance(opt.arg, int), "checked above"
    kind = rng.arg[-1]
    check(kind not in (AxisType.UPCAST, AxisType.UNROLL), "cannot pad upcasted: pad before UPCAST")
    check(kind is not AxisType.THREAD, "cannot pad thread: pad before THREAD")
    padded = -(-size // opt.arg) * opt.arg
    check(padded <= size * 4, f"pad adds more than quadruple the work: {size} to {padded}")
    if padded != size:
        k.set_ast(pad_range(k.ast, rng, padded))


def pad_range(ast: UOp, rng: UOp, padded: int) -> UOp:
    """The AST with more steps in a range, and conditions that keep the result.

    buf[r], r of 30  ->  buf[(r < 30).where(r, Invalid)], r of 32;  a reduce adds its identity
    """
    longer = rng.replace(src=(rng.src[0].const_like(padded), *rng.src[1:]))
    inside = longer.alu(Ops.CMPLT, UOp.const(int(rng.src[0].arg)))
    done: dict[UOp, UOp] = {rng: longer}
    for u in ast.toposort():
        if u in done:
            continue
        src = tuple(done[s] for s in u.src)
        if src == u.src:
            done[u] = u
            continue
        if u.op is Ops.INDEX:
            src = (src[0], *(_also_valid(i, inside) if longer in i.ranges else i for i in src[1:]))
        elif u.op is Ops.REDUCE and longer in src[1:]:
            nothing = UOp.const(identity_element(u.arg[0], u.dtype), u.dtype)
            src = (inside.alu(Ops.WHERE, src[0], nothing), *src[1:])
        done[u] = rebuild(u, src)
    return done[ast]


def _also_valid(idx: UOp, cond: UOp) -> UOp:
    """An index that holds under one more condition."""
    before = idx.get_valid()
    both = cond if before.op is Ops.CONST else before.alu(Ops.AND, cond)
    return idx.get_idx().valid(both)


def swap(k: Scheduler, opt: Opt) -> None:
    """Two output axes exchange their places in the grid, or in the nest of loops."""
    check(isinstance(opt.arg, int), f"SWAP needs another axis, not {opt.arg!r}")
    assert isinstance(opt.arg, int), "checked above"
    a, b = _axis(k, opt), k.rngs[k.real_axis(opt.op, opt.arg)]
    for rng in (a, b):
        check(rng.arg[-1] in FREE_KINDS, f"swap only for globals, not {_kind_name(rng)}")
    check(
        a.arg[-1] is b.arg[-1],
        f"swap only for globals: axis {opt.axis} is {_kind_name(a)}, {opt.arg} is {_kind_name(b)}",
    )
    check(a is not b, f"swap only for globals that differ, not axis {opt.axis} with itself")
    new = {a: a.replace(arg=b.arg), b: b.replace(arg=a.arg)}
    swapped = replace_ranges(k.ast, new)
    order = [
        u.replace(src=(u.src[0], *sorted(u.src[1:], key=range_key))) if u.op is Ops.END else u
        for u in swapped.src
    ]
    k.set_ast(swapped.replace(src=tuple(order)))


def tensor_core(k: Scheduler, opt: Opt) -> None:
    """Matrix instructions; no target here has any yet."""
    check(not k.applied_opts, "tensor core opts must be first")
    check(opt.axis is not None, "tensor core opts must have an axis")
    check(
        isinstance(opt.arg, tuple) and len(opt.arg) == 3,
        f"tensor core opts must have valid arg: (select, opt, use), not {opt.arg!r}",
    )
    raise KernelOptError(f"no tensor core available on {k.ren.target.device}")


ACTIONS: Mapping[OptOps, Callable[[Scheduler, Opt], None]] = {
    OptOps.TC: tensor_core,
    OptOps.UPCAST: upcast,
    OptOps.UNROLL: unroll,
    OptOps.LOCAL: local,
    OptOps.THREAD: thread,
    OptOps.GROUP: group,
    OptOps.GROUPTOP: group,
    OptOps.NOLOCALS: nolocals,
    OptOps.PADTO: padto,
    OptOps.SWAP: swap,
}

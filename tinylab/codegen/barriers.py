"""Members of a workgroup wait for each other before they read what others wrote.

LOAD(AFTER(shared, STORE(shared[l], x)))  ->  LOAD(AFTER(shared, BARRIER(STORE …)))

A store in a loop also waits until everyone has read what the last step left.
"""

from __future__ import annotations

from tinylab.dtype import AddrSpace
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


def _is_local_effect(x: UOp) -> bool:
    """Whether an effect stores to local memory."""
    if x.op in (Ops.END, Ops.GROUP):
        return any(_is_local_effect(s) for s in x.src if s.op is not Ops.RANGE)
    return x.op is Ops.STORE and x.src[0].addrspace is AddrSpace.LOCAL


def barrier_after_store(after: UOp) -> UOp | None:
    """Local memory after stores to it: after a barrier behind them."""
    if after.addrspace is not AddrSpace.LOCAL:
        return None
    stores = [s for s in after.src[1:] if _is_local_effect(s)]
    if not stores:
        return None
    others = [s for s in after.src[1:] if s not in stores]
    return after.src[0].after(stores[0].barrier(*stores[1:]), *others)


def barrier_in_loop(end: UOp) -> UOp | None:
    """A loop that fills local memory and reads it ends each step with a barrier."""
    loops = [r for r in end.src[1:] if r.op is Ops.RANGE]
    body = end.src[0]
    if not loops or body.op is Ops.BARRIER:
        return None
    inside = body.toposort(lambda u: any(r in u.ranges for r in loops))
    fills = any(u.op is Ops.STORE and u.src[0].addrspace is AddrSpace.LOCAL for u in inside)
    reads = any(u.op is Ops.LOAD and u.src[0].addrspace is AddrSpace.LOCAL for u in inside)
    return body.barrier().end(*end.src[1:]) if fills and reads else None


# fmt: off
pm_barriers = PatternMatcher([
    Rule("barrier_after_store", "AFTER(shared, STORE) -> AFTER(shared, BARRIER(STORE))",
         UPat(Ops.AFTER, name="after"), barrier_after_store),
    Rule("barrier_in_loop", "END(x, r) that fills and reads shared -> END(BARRIER(x), r)",
         UPat(Ops.END, name="end"), barrier_in_loop),
])
# fmt: on

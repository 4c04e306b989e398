"""Indices that may be invalid become gates: what a gate closes is not loaded and not stored.

LOAD(a[c ? i : Invalid])           ->  LOAD(a[i], 0, gate c)
STORE(a[c ? i : Invalid], x)       ->  STORE(a[i], x, gate c)
c ? LOAD(a[i], 0, gate c) : other  ->  LOAD(a[i], other, gate c)
"""

from __future__ import annotations

from tinylab.codegen.lanes import broadcast_lanes
from tinylab.dtype import Invalid
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


def _is_guarded(x: UOp) -> bool:
    return x.op is Ops.WHERE and x.src[2].arg is Invalid


def hoist_valid(u: UOp) -> UOp | None:
    """Arithmetic on an index that may be invalid is invalid in the same cases."""
    for i, s in enumerate(u.src):
        if _is_guarded(s):
            inner = u.replace(src=(*u.src[:i], s.src[1], *u.src[i + 1 :]))
            return inner.valid(s.src[0])
    return None


def merge_valid(c: UOp, x: UOp) -> UOp | None:
    """A mask in a mask is one mask of both conditions."""
    return x.src[1].valid(c & x.src[0]) if _is_guarded(x) else None


def gate_load(ld: UOp, idx: UOp) -> UOp | None:
    """A load from an index that may be invalid."""
    place = idx.src[1] if len(idx.src) == 2 else None
    if place is not None and place.arg is Invalid:
        return broadcast_lanes(UOp.const(0, ld.dtype), ld.shape)
    if place is None or not _is_guarded(place) or len(ld.src) > 1:
        return None
    target = idx.replace(src=(idx.src[0], place.src[1]))
    return target.load(UOp.const(0, ld.dtype), place.src[0])


def gate_store(st: UOp, idx: UOp) -> UOp | None:
    """A store to an index that may be invalid."""
    place = idx.src[1] if len(idx.src) == 2 else None
    if place is not None and place.arg is Invalid:
        return UOp(Ops.NOOP)
    if place is None or not _is_guarded(place):
        return None
    target = idx.replace(src=(idx.src[0], place.src[1]))
    gate = place.src[0] if len(st.src) < 3 else st.src[2] & place.src[0]
    return target.store(st.src[1], gate)


def load_anyway(ld: UOp, idx: UOp) -> UOp | None:
    """One element behind a gate: load the first one instead, and choose afterwards.

    A choice costs less than a branch, and element 0 is always there.
    """
    if len(ld.src) != 3 or ld.shape or ld.src[2].shape or len(idx.src) != 2:
        return None
    other, gate = ld.src[1:]
    place = gate.where(idx.src[1], idx.src[1].const_like(0))
    return gate.where(idx.replace(src=(idx.src[0], place)).load(), other)


def alternative_of_load(c: UOp, ld: UOp, y: UOp) -> UOp | None:
    """A selection by the gate of a load is the load's alternative."""
    if len(ld.src) != 3 or ld.src[2] is not c or y.op is not Ops.CONST or y.arg is Invalid:
        return None
    return ld.replace(src=(ld.src[0], UOp.const(y.arg, ld.dtype), c))


def closed_load(ld: UOp) -> UOp | None:
    """A gate that is constant decides now."""
    if len(ld.src) != 3 or ld.src[2].op is not Ops.CONST:
        return None
    return ld.src[0].load() if ld.src[2].arg else broadcast_lanes(ld.src[1], ld.shape)


def closed_store(st: UOp) -> UOp | None:
    """A store with a constant gate is a plain one, or nothing."""
    if len(st.src) != 3 or st.src[2].op is not Ops.CONST:
        return None
    return st.src[0].store(st.src[1]) if st.src[2].arg else UOp(Ops.NOOP)


_INDEX_ALU = (Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD, Ops.MAX, Ops.CAST)
_LOAD = UPat(Ops.LOAD, src=(UPat(Ops.INDEX, name="idx"),), allow_any_len=True, name="ld")
_STORE = UPat(Ops.STORE, src=(UPat(Ops.INDEX, name="idx"),), allow_any_len=True, name="st")

# fmt: off
pm_gate_memory = PatternMatcher([
    Rule("hoist_valid", "(c ? i : Invalid) + x -> c ? (i + x) : Invalid",
         UPat(_INDEX_ALU, name="u"), hoist_valid),
    Rule("merge_valid", "c ? (d ? i : Invalid) : Invalid -> c&d ? i : Invalid",
         UPat(Ops.WHERE, src=(UPat.var("c"), UPat(Ops.WHERE, name="x"),
                              UPat(Ops.CONST, arg=Invalid))), merge_valid),
    Rule("gate_load", "LOAD(a[c ? i : Invalid]) -> LOAD(a[i], 0, c)", _LOAD, gate_load),
    Rule("gate_store", "STORE(a[c ? i : Invalid], x) -> STORE(a[i], x, c)", _STORE, gate_store),
    Rule("closed_load", "LOAD(a, alt, True) -> LOAD(a); LOAD(a, alt, False) -> alt",
         UPat(Ops.LOAD, name="ld"), closed_load),
    Rule("closed_store", "STORE(a, x, True) -> STORE(a, x); STORE(a, x, False) -> nothing",
         UPat(Ops.STORE, name="st"), closed_store),
    Rule("load_anyway", "LOAD(a[i], alt, c) of one element -> c ? LOAD(a[c ? i : 0]) : alt",
         _LOAD, load_anyway),
    Rule("alternative_of_load", "c ? LOAD(a, 0, c) : y -> LOAD(a, y, c)",
         UPat(Ops.WHERE, src=(UPat.var("c"), UPat(Ops.LOAD, name="ld"), UPat.var("y"))),
         alternative_of_load),
])
# fmt: on

"""Arrays with several axes, as kernels written by hand index them, become flat memory.

RESHAPE(PARAM(12), (3, 4))[i, j]  ->  PARAM(12)[i*4 + j]
"""

from __future__ import annotations

import math

from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


def has_arrays(sink: UOp, ctx: object = None) -> bool:
    """Whether any array has more than one axis."""
    return any(u.op is Ops.RESHAPE and u.addrspace is not None for u in sink.toposort())


def flatten_index(idx: UOp, arr: UOp) -> UOp | None:
    """An index with a place per axis as one place."""
    if arr.addrspace is None or len(idx.src) - 1 != len(arr.shape):
        return None
    flat: UOp | None = None
    valid: UOp | None = None
    for i, place in enumerate(idx.src[1:]):
        if place.get_idx() is not place:
            cond = place.get_valid()
            valid = cond if valid is None else valid & cond
        step = math.prod(arr.shape[i + 1 :])
        term = place.get_idx() if step == 1 else place.get_idx() * step
        flat = term if flat is None else flat + term
    if flat is None:
        flat = UOp.const(0)
    return arr.src[0].index(flat if valid is None else flat.valid(valid))


def reshape_outward(after: UOp, arr: UOp) -> UOp:
    """AFTER(RESHAPE(x)) -> RESHAPE(AFTER(x))."""
    flat = arr.src[0].after(*after.src[1:])
    return arr.replace(src=(flat, arr.src[1]))


# fmt: off
pm_flatten_arrays = PatternMatcher([
    Rule("flatten_index", "RESHAPE(a, (m, n))[i, j] -> a[i*n + j]",
         UPat(Ops.INDEX, src=(UPat(Ops.RESHAPE, name="arr"),), allow_any_len=True, name="idx"),
         flatten_index),
    Rule("reshape_outward", "AFTER(RESHAPE(a), x) -> RESHAPE(AFTER(a, x))",
         UPat(Ops.AFTER, src=(UPat(Ops.RESHAPE, name="arr"),), allow_any_len=True, name="after"),
         reshape_outward),
])
# fmt: on

"""Arrays with several axes, as kernels written by hand index them, become flat memory.

RESHAPE(PARAM(12), (3, 4))[i, j]  ->  PARAM(12)[i*4 + j]
STORE(o, a + 1), o and a of 8     ->  END(STORE(o[r], a[r] + 1), r) over a new range of 8
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from tinylab.codegen.add_loads import is_address
from tinylab.dtype import AddrSpace
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, rebuild


def has_arrays(sink: UOp, ctx: object = None) -> bool:
    """Whether any array has more than one axis, or is stored to as a whole."""
    return any(
        (u.op is Ops.RESHAPE and u.addrspace is not None) or _is_whole_store(u)
        for u in sink.toposort()
    )


def free_axes(sink: UOp, ctx: object = None) -> Iterator[int]:
    """Axis ids that no range of the kernel has."""
    used = [i for u in sink.toposort() if u.op is Ops.RANGE for i in u.arg[:-1]]
    return itertools.count(max(used, default=-1) + 1)


def _is_whole_store(u: UOp) -> bool:
    if u.op is not Ops.STORE or not u.src[0]._shape:
        return False
    target = u.src[0]
    return target.addrspace in (AddrSpace.GLOBAL, AddrSpace.LOCAL) and target.op is not Ops.INDEX


def loop_over_store(st: UOp, ctx: Iterator[int]) -> UOp | None:
    """A store of a whole array as a loop over its elements."""
    if not _is_whole_store(st):
        return None
    ranges = [UOp.range(n, next(ctx)) for n in st.src[0].shape]
    element = st.src[0].index(*ranges).store(_element(st.src[1], ranges))
    return element.end(*ranges)


def _element(x: UOp, ranges: Sequence[UOp]) -> UOp:
    """One element of a value made of arrays; axes of size 1 are broadcast."""
    done: dict[UOp, UOp] = {}
    for u in x.toposort(lambda u: bool(u._shape) and not is_address(u)):
        done[u] = rebuild(u, tuple(_element_of(s, ranges, done) for s in u.src))
    return _element_of(x, ranges, done)


def _element_of(s: UOp, ranges: Sequence[UOp], done: dict[UOp, UOp]) -> UOp:
    if not s._shape:
        return s
    if not is_address(s):
        return done[s]
    own = ranges[len(ranges) - len(s.shape) :]
    return s.index(*(r if n != 1 else r.const_like(0) for r, n in zip(own, s.shape, strict=True)))


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
    Rule("loop_over_store", "STORE(o, x) of whole arrays -> END(STORE(o[r], x[r]), r)",
         UPat(Ops.STORE, name="st"), loop_over_store),
    Rule("flatten_index", "RESHAPE(a, (m, n))[i, j] -> a[i*n + j]",
         UPat(Ops.INDEX, src=(UPat(Ops.RESHAPE, name="arr"),), allow_any_len=True, name="idx"),
         flatten_index),
    Rule("reshape_outward", "AFTER(RESHAPE(a), x) -> RESHAPE(AFTER(a, x))",
         UPat(Ops.AFTER, src=(UPat(Ops.RESHAPE, name="arr"),), allow_any_len=True, name="after"),
         reshape_outward),
])
# fmt: on

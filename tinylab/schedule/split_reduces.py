"""A big reduction to few results in two: parts that threads can share, then the parts together.

sum of (1_000_000,)  ->  sum of the 250 sums of (250, 4000) over its second axis
"""

from __future__ import annotations

import math
from typing import Any

from tinylab.helpers.context import REDUCEOP_SPLIT_SIZE, REDUCEOP_SPLIT_THRESHOLD, SPLIT_REDUCEOP
from tinylab.opcodes import Ops
from tinylab.uop.args import ReduceArg
from tinylab.uop.intern import make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

# With so many results there is enough to share without this.
_ENOUGH_RESULTS = 256
_MOST_PARTS, _FEWEST_PARTS = 256, 8
_DONE = "split"


def _parts(size: Any, results: int) -> int | None:
    """In how many equal parts an axis is cut; None where none fits."""
    if not isinstance(size, int):
        return None
    limit = min(_MOST_PARTS, 2**REDUCEOP_SPLIT_SIZE.value // max(results, 1), size // 2)
    return next((n for n in range(limit, _FEWEST_PARTS - 1, -1) if size % n == 0), None)


def _picks_by_position(x: UOp) -> bool:
    """Whether a value compares positions: what picks by them becomes a load, if it stays whole."""
    return any(u.op is Ops.STAGE for u in x.toposort(enter_calls=False))


def split_reduce(r: UOp) -> UOp | None:
    """The reduction of parts, stored, and that of their results."""
    x, count = r.src[0], r.arg.count
    reduced, kept = x.shape[:count], x.shape[count:]
    if r.tag is not None or not all(isinstance(s, int) for s in x.shape):
        return None
    results = math.prod(kept)
    few = 0 < results < _ENOUGH_RESULTS
    if not few or math.prod(reduced) < REDUCEOP_SPLIT_THRESHOLD.value or _picks_by_position(x):
        return None
    for axis, size in enumerate(reduced):
        n = _parts(size, results)
        if n is not None:
            return _in_two(r, axis, n)
    return None


def _in_two(r: UOp, axis: int, n: int) -> UOp:
    x, count = r.src[0], r.arg.count
    shape = x.shape
    cut = x._reshape((*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :]))
    inner = [i for i in range(count + 1) if i != axis]
    parts = cut._permute((*inner, axis, *range(count + 1, len(shape) + 1)))
    sums = make(Ops.REDUCE, r.dtype, (parts,), ReduceArg(r.arg.op, count), _DONE)
    stored = make(
        Ops.CONTIGUOUS, r.dtype, (sums,), f"a reduction in {n} parts, for threads to share"
    )
    return make(Ops.REDUCE, r.dtype, (stored,), ReduceArg(r.arg.op, 1), _DONE)


pm_split_reduces = PatternMatcher(
    [
        Rule(
            "split_reduce",
            "reduce of many to few -> reduce of (parts of it reduced, stored)",
            UPat(Ops.REDUCE, name="r"),
            split_reduce,
        )
    ]
)


def wanted(root: UOp, ctx: Any = None) -> bool:
    """Whether reductions are to be split at all."""
    return bool(SPLIT_REDUCEOP)

"""Masked indices: what is known of a value where its condition holds.

An index that may be out of bounds is `valid ? index : Invalid`. Where it is used, `valid` holds, so
its limits hold for the index too:

    i < 4 ? (i % 8) : Invalid    ->   i < 4 ? i : Invalid

and a clause that the others imply is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import Invalid, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.rewrite import graph_rewrite
from tinylab.uop.symbolic.compare import both, clauses_of, limit_of, pm_compare
from tinylab.uop.symbolic.divmod import pm_divmod
from tinylab.uop.symbolic.identities import pm_identities
from tinylab.uop.symbolic.masks import pm_masks
from tinylab.uop.symbolic.normal_form import pm_normal_form
from tinylab.uop.symbolic.windows import expose_windows, pm_windows

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

# Masks first: a law that drops an operand (x*0, x-x) must not meet a masked one.
symbolic_simple = pm_masks + pm_identities
symbolic = symbolic_simple + pm_normal_form + pm_divmod + pm_windows + pm_compare

READS = (Ops.INDEX, Ops.LOAD)
_STAND_IN = -100  # slot of the variables that stand for a value with tighter bounds


# *** what a condition says


def limits(condition: UOp) -> dict[UOp, tuple[int, int]]:
    """For each value that the condition compares with constants: (least, most) where it holds.

    i < 4 & 1 < j  ->  {i: (lo(i), 3), j: (2, hi(j))}
    """
    found: dict[UOp, tuple[int, int]] = {}
    for limit in filter(None, map(limit_of, clauses_of(condition))):
        lo, hi = found.get(limit.x, limit.x.bounds)
        lo = lo if limit.least is None else max(lo, limit.least)
        hi = hi if limit.most is None else min(hi, limit.most)
        found[limit.x] = lo, hi
    return found


def simplify_under(x: UOp, condition: UOp) -> UOp:
    """x, simplified with what holds where the condition holds; x itself if that says nothing.

    Each value with a limit is replaced by a variable of those bounds, and put back afterwards.
    What is read from memory stays as it is: it is read where the condition does not hold, too.
    """
    known = {v: b for v, b in limits(condition).items() if b[0] <= b[1] and b != v.bounds}
    if not known:
        return x
    reads = {u: _stand_in(len(known) + i, u, u.bounds) for i, u in enumerate(_reads(x))}
    if reads:
        x = x.substitute(reads)
        known = {v.substitute(reads): b for v, b in known.items()}
    x = expose_windows(x, known)
    nodes = x.toposort()
    stand_ins = {v: _stand_in(i, v, b) for i, (v, b) in enumerate(known.items()) if v in nodes}
    guarded = graph_rewrite(x.substitute(stand_ins), symbolic) if stand_ins else x
    # A constant stays: other constants of its value are not the value's.
    back = {s: v for v, s in stand_ins.items() if s.op is not Ops.CONST}
    simpler = guarded.substitute(back).substitute({s: u for u, s in reads.items()})
    return graph_rewrite(simpler, symbolic)


def _reads(x: UOp) -> list[UOp]:
    """The elements of memory that a value is made of, without those that their places need."""
    found: list[UOp] = []

    def is_computed(u: UOp) -> bool:
        if u.op in READS and u._shape == ():
            found.append(u)
            return False
        return True

    x.toposort(is_computed)
    return found


def _stand_in(number: int, value: UOp, bounds: tuple[int, int]) -> UOp:
    lo, hi = bounds
    if lo == hi:
        return const(lo, value.dtype)
    arg = ParamArg(_STAND_IN - number, value.dtype, bounds)
    return make(Ops.PARAM, value.dtype, (make(Ops.STACK, dtypes.void),), arg)


# *** rules


def simplify_masked(u: UOp, x: UOp, y: UOp, z: UOp) -> UOp | None:
    """x ? y : Invalid with y simplified where x holds."""
    simpler = simplify_under(y, x)
    if simpler is y or simpler._shape != y._shape:
        return None
    return make(Ops.WHERE, u.dtype, (x, simpler, z))


def drop_implied(u: UOp) -> UOp | None:
    """A conjunction without the clauses that the others imply."""
    clauses = list(clauses_of(u))
    kept: list[UOp] = []
    for i, clause in enumerate(clauses):
        others = both([*kept, *clauses[i + 1 :]])
        simpler = simplify_under(clause, others)
        if simpler.op is Ops.CONST and simpler.arg is True:
            continue
        kept.append(clause)
    return None if len(kept) == len(clauses) else both(kept)


X = UPat.var("x")
INVALID = UPat.cvar("z", arg=Invalid)

# fmt: off
pm_ranges = PatternMatcher([
    Rule("mask_known",     "x ? y : Invalid -> y where x holds",       UPat(Ops.WHERE, src=(X, UPat(dtype=(dtypes.weakint, *dtypes.ints), name="y"), INVALID), name="u"), simplify_masked),
    Rule("clause_implied", "x & y -> x, where x implies y",            UPat(Ops.AND, dtypes.bool, name="u"), drop_implied),
])
# fmt: on

sym = symbolic + pm_ranges

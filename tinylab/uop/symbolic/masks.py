"""A mask moves outward: arithmetic on `valid ? x : Invalid` is arithmetic on x, masked.

    (a ? x : Invalid) + y       ->   a ? x + y : Invalid
    c ? (a ? x : Invalid) : y   ->   !c | a ? (c ? x : y) : Invalid

So no other rule meets an operand that may be Invalid, and none drops a mask by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import Invalid, dtypes
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.infer import infer_dtype
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def is_invalid(z: UOp) -> bool:
    """Whether z is the Invalid constant."""
    return z.op is Ops.CONST and z.arg is Invalid


def is_valid(z: UOp) -> bool:
    """Whether z is anything but the Invalid constant."""
    return not is_invalid(z)


def _is_masked(x: UOp) -> bool:
    return x.op is Ops.WHERE and is_invalid(x.src[2])


def _opposite(condition: UOp) -> UOp:
    return make(Ops.CMPNE, dtypes.bool, (condition, const(True)))


def _masked(u: UOp, condition: UOp, x: UOp, invalid: UOp) -> UOp | None:
    """The masked value in the place of u."""
    if x._shape != u._shape:
        return None
    return make(
        Ops.WHERE, infer_dtype(Ops.WHERE, (condition, x, invalid), None), (condition, x, invalid)
    )


def push_into_mask(u: UOp) -> UOp | None:
    """(x ? y : Invalid) op z  ->  x ? (y op z) : Invalid."""
    place = next((i for i, s in enumerate(u.src) if _is_masked(s)), None)
    if place is None:
        return None
    condition, value, invalid = u.src[place].src
    src = (*u.src[:place], value, *u.src[place + 1 :])
    return _masked(u, condition, make(u.op, u.dtype, src, u.arg, u.tag), invalid)


def push_choice_into_mask(u: UOp) -> UOp | None:
    """c ? (a ? x : Invalid) : y  ->  !c | a ? (c ? x : y) : Invalid, and the other way round."""
    condition, yes, no = u.src
    if _is_masked(condition):
        valid, inner, invalid = condition.src
        return _masked(u, valid, make(Ops.WHERE, u.dtype, (inner, yes, no)), invalid)
    if _is_masked(yes) and not is_invalid(no):
        valid, x, invalid = yes.src
        valid = make(Ops.OR, dtypes.bool, (_opposite(condition), valid))
        return _masked(u, valid, make(Ops.WHERE, u.dtype, (condition, x, no)), invalid)
    if _is_masked(no) and not is_invalid(yes):
        valid, y, invalid = no.src
        valid = make(Ops.OR, dtypes.bool, (condition, valid))
        return _masked(u, valid, make(Ops.WHERE, u.dtype, (condition, yes, y)), invalid)
    return None


def order_masks(x: UOp, y: UOp, z: UOp) -> UOp:
    """y ? Invalid : z  ->  !y ? z : Invalid."""
    src = (_opposite(x), z, y)
    return make(Ops.WHERE, infer_dtype(Ops.WHERE, src, None), src)


X, Y, Z = UPat.var("x"), UPat.cvar("y", arg=Invalid), UPat.var("z")
PUSHED = (GroupOp.Binary | GroupOp.Unary | {Ops.CAST}) - {Ops.THREEFRY}

# fmt: off
pm_masks = PatternMatcher([
    Rule("mask_order",   "x ? Invalid : z -> !x ? z : Invalid",            UPat(Ops.WHERE, src=(X, Y, Z)), order_masks, when=is_valid),
    Rule("mask_outward", "(x ? y : Invalid) op z -> x ? y op z : Invalid", UPat(PUSHED, custom_early_reject={Ops.WHERE}, name="u"), push_into_mask),
    Rule("mask_out_of_choice", "c ? (a ? x : Invalid) : y -> !c | a ? (c ? x : y) : Invalid", UPat(Ops.WHERE, custom_early_reject={Ops.WHERE}, name="u"), push_choice_into_mask),
])
# fmt: on

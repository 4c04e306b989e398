"""One form for equal integer expressions: terms in order, constants gathered on the right.

    3 + x        ->  x + 3                 y*2 + x + y  ->  x + y*3
    (x + 3) + 4  ->  x + 7                 (x + 3) * 4  ->  x*4 + 12   (index arithmetic)

Equal expressions then are the same node, and what does not change in an inner loop stands first.
Of floats only constants move, since every other change could round differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import DType, Invalid, dtypes
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.evaluate import exec_alu
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.symbolic.terms import (
    Sum,
    addends,
    is_const,
    precedes,
    same_shape,
    term_and_coefficient,
)

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


# *** order


def swap_operands(u: UOp, x: UOp, y: UOp) -> UOp:
    """The operands the other way round."""
    return make(u.op, u.dtype, (y, x), u.arg, u.tag)


def out_of_order(u: UOp, x: UOp, y: UOp) -> bool:
    """Whether the right operand stands before the left one in the common order.

    A chain of one operation keeps the order in which it was built.
    """
    if u.op in (x.op, y.op) or Ops.CONST in (x.op, y.op):
        return False
    return precedes(y, x)


def is_no_constant(y: UOp) -> bool:
    """Whether y is anything but a constant."""
    return y.op is not Ops.CONST


def _last_addend(x: UOp) -> UOp:
    return x.src[1] if x.op is Ops.ADD and x.dtype is dtypes.weakint else x


def _stands_right(left: UOp, right: UOp) -> bool:
    """Whether right may follow left in a sum: another term, later in the order; constants last."""
    if is_const(right):
        return not is_const(left) and right.arg != 0
    if is_const(left):
        return False
    a, b = term_and_coefficient(left)[0], term_and_coefficient(right)[0]
    return a is not b and precedes(a, b)


def is_in_order(u: UOp) -> bool:
    """Whether a sum has its terms in order, each once, and its constant last.

    Looks at two terms only: the sum on the left has that form already. True as well of a sum that
    is none of weak integers alone, which is left as it is.
    """
    left, right = u.src
    if right.op is not Ops.ADD and _stands_right(_last_addend(left), right):
        return True
    return left.dtype is not u.dtype or right.dtype is not u.dtype


def has_like_terms(u: UOp) -> bool:
    """Whether a sum has a term twice, two constants, or a constant zero."""
    if is_in_order(u):
        return False
    seen: set[UOp] = set()
    constants = 0
    for addend in addends(u):
        if is_const(addend):
            constants += 1
            if constants > 1 or addend.arg == 0:
                return True
            continue
        term = term_and_coefficient(addend)[0]
        if term in seen:
            return True
        seen.add(term)
    return False


def is_out_of_order(u: UOp) -> bool:
    """Whether the terms of a sum do not follow each other as they should."""
    return not is_in_order(u)


def ordered_sum(u: UOp) -> UOp | None:
    """A sum with its terms in order, like terms joined and the constant last."""
    return same_shape(u, Sum.of(u).build())


# *** constants


def gather(u: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x op c) op d  ->  x op (c op d)."""
    if x.dtype is not u.dtype or u.src[0].dtype is not u.dtype or Invalid in (c.arg, d.arg):
        return None
    folded = const(exec_alu(u.op, u.dtype, (c.arg, d.arg)), u.dtype)
    return make(u.op, u.dtype, (x, folded))


def move_constant_out(u: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    """(x op c) op y  ->  (x op y) op c."""
    if y.op is Ops.CONST or any(s.dtype is not u.dtype for s in (x, y, c)):
        return None
    return make(u.op, u.dtype, (make(u.op, u.dtype, (x, y)), c))


def associate_left(u: UOp, x: UOp, y: UOp, z: UOp) -> UOp | None:
    """x op (y op z)  ->  (x op y) op z.

    Not where x is such a chain too: a value that was multiplied with itself over and over has few
    nodes, but exponentially many factors.
    """
    if any(s.dtype is not u.dtype for s in (x, y, z)):
        return None
    if x.op is u.op and u.dtype is not dtypes.weakint:
        return None
    return make(u.op, u.dtype, (make(u.op, u.dtype, (x, y)), z))


def distribute(x: UOp, y: UOp, c: UOp) -> UOp | None:
    """(x + y) * c  ->  x*c + y*c, of weak integers."""
    if not is_const(c) or x.dtype is not dtypes.weakint or y.dtype is not dtypes.weakint:
        return None
    factor = const(c.arg, dtypes.weakint)
    a, b = (make(Ops.MUL, dtypes.weakint, (s, factor)) for s in (x, y))
    return make(Ops.ADD, dtypes.weakint, (a, b))


# *** like terms of concrete integers, which wrap as their sum does


def double(u: UOp, x: UOp) -> UOp | None:
    """x + x  ->  x*2."""
    return None if x.dtype is not u.dtype else make(Ops.MUL, u.dtype, (x, const(2, u.dtype)))


def add_once_more(u: UOp, x: UOp, c: UOp) -> UOp | None:
    """x*c + x  ->  x * (c+1)."""
    if x.dtype is not u.dtype or not is_const(c):
        return None
    return make(Ops.MUL, u.dtype, (x, const(c.arg + 1, u.dtype)))


def add_factors(u: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """x*c + x*d  ->  x * (c+d)."""
    if x.dtype is not u.dtype or not (is_const(c) and is_const(d)):
        return None
    return make(Ops.MUL, u.dtype, (x, const(c.arg + d.arg, u.dtype)))


X, Y, Z, C, D = UPat.var("x"), UPat.var("y"), UPat.var("z"), UPat.cvar("c"), UPat.cvar("d")
LOGIC = (dtypes.bool, dtypes.weakint, *dtypes.ints)
EXACT = (dtypes.weakint, *dtypes.ints)
# What gathers whatever the type: no rounding, no NaN that another order would lose.
GATHERED: dict[Ops, tuple[DType, ...] | None] = {
    Ops.ADD: EXACT,
    Ops.MUL: EXACT,
    Ops.AND: LOGIC,
    Ops.OR: LOGIC,
    Ops.XOR: LOGIC,
    Ops.MAX: None,
}
ORDERED = GroupOp.Commutative - {Ops.ADD}


def _nested(op: Ops, dtype: tuple[DType, ...] | None) -> UPat:
    return UPat(op, dtype, src=(UPat(op, src=(X, C)), D), name="u")


# fmt: off
pm_normal_form = PatternMatcher([
    Rule("constant_right", "c op x -> x op c",              UPat(GroupOp.Commutative, src=(UPat(Ops.CONST, name="x"), Y), name="u"), swap_operands, when=is_no_constant),
    Rule("join_terms",     "y*a + x + y*b -> x + y*(a+b)",  UPat(Ops.ADD, dtypes.weakint, name="u"), ordered_sum, when=has_like_terms),
    Rule("order_sum",      "y + x -> x + y; x + (y + z) -> x + y + z", UPat(Ops.ADD, dtypes.weakint, name="u"), ordered_sum, when=is_out_of_order),
    *(Rule(f"gather_{op.name.lower()}", "(x op c) op d -> x op (c op d)", _nested(op, dtype), gather) for op, dtype in GATHERED.items()),
    Rule("distribute",     "(x + y) * c -> x*c + y*c",      UPat(Ops.MUL, dtypes.weakint, src=(UPat(Ops.ADD, src=(X, Y)), C)), distribute),
    Rule("associate_mul",  "x * (y * z) -> x * y * z",      UPat(Ops.MUL, EXACT, src=(X, UPat(Ops.MUL, src=(Y, Z))), name="u"), associate_left),
    Rule("associate_add",  "x + (y + z) -> x + y + z",      UPat(Ops.ADD, dtypes.ints, src=(X, UPat(Ops.ADD, src=(Y, Z))), name="u"), associate_left),
    Rule("constant_out_of_sum", "(x + c) + y -> x + y + c", UPat(Ops.ADD, dtypes.ints, src=(UPat(Ops.ADD, src=(X, C)), Y), name="u"), move_constant_out),
    Rule("constant_out_of_product", "(x * c) * y -> x * y * c", UPat(Ops.MUL, EXACT, src=(UPat(Ops.MUL, src=(X, C)), Y), name="u"), move_constant_out),
    Rule("double",         "x + x -> x*2",                  UPat(Ops.ADD, dtypes.ints, src=(X, X), name="u"), double),
    Rule("add_once_more",  "x*c + x -> x * (c+1)",          UPat(Ops.ADD, dtypes.ints, src=[UPat(Ops.MUL, src=(X, C)), X], name="u"), add_once_more),
    Rule("add_factors",    "x*c + x*d -> x * (c+d)",        UPat(Ops.ADD, dtypes.ints, src=(UPat(Ops.MUL, src=(X, C)), UPat(Ops.MUL, src=(X, D))), name="u"), add_factors),
    Rule("order_operands", "y op x -> x op y",              UPat(ORDERED, src=(UPat(dtype=LOGIC, name="x"), Y), name="u"), swap_operands, when=out_of_order),
])
# fmt: on

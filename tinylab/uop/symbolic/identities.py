"""What is true of one operation: constants fold, x + 0 is x, a selection with a known condition.

Laws that hold for reals but not for floats (x*0, x-x, x/x) have the condition that the operand is
known to be finite, and keep the sign of zero: -0.0 + 0.0 is 0.0, -1.0 * 0.0 is -0.0. What would round differently is no law here: (x + 1) + 1 of floats stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import Invalid, bitcast, can_lossless_cast, dtypes
from tinylab.errors import ZeroDivisorError
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.bounds import is_minus_zero, known_finite, never_minus_zero
from tinylab.uop.evaluate import exec_alu
from tinylab.uop.intern import make
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import const
from tinylab.uop.pattern import UPat
from tinylab.uop.printer import render_short
from tinylab.uop.symbolic.terms import in_place_of

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

X, Y, Z, C, D = UPat.var("x"), UPat.var("y"), UPat.var("z"), UPat.cvar("c"), UPat.cvar("d")
TRUE, FALSE = UPat.const(True, dtypes.bool), UPat.const(False, dtypes.bool)
BOOL, ZERO = UPat.var("x", dtypes.bool), UPat.const(0).named("c")


# *** conditions


def finite(x: UOp) -> bool:
    """Whether x can be neither an infinity nor NaN."""
    return known_finite(x)


def never_zero(x: UOp) -> bool:
    """Whether bounds keep x away from 0."""
    lo, hi = x.bounds
    return bool(lo > 0 or hi < 0)


def finite_and_never_zero(x: UOp) -> bool:
    """Whether x is a number other than 0."""
    return known_finite(x) and never_zero(x)


def zero_times_finite(u: UOp, x: UOp, c: UOp) -> bool:
    """Whether c is 0 and x a number, and the product 0 with no sign."""
    if not (is_zero(c) and known_finite(x)):
        return False
    if u.dtype.kind != "float":
        return True
    return bool(x.bounds[0] >= 0) and never_minus_zero(x) and not is_minus_zero(c.arg)


def adds_nothing(u: UOp, x: UOp, c: UOp) -> bool:
    """Whether x + c is x for a zero c: of floats -0.0 adds nothing, and 0.0 to all but -0.0."""
    return u.dtype.kind != "float" or is_minus_zero(c.arg) or never_minus_zero(x)


def takes_nothing(u: UOp, x: UOp, c: UOp) -> bool:
    """Whether x - c is x for a zero c: of floats 0.0 takes nothing, and -0.0 from all but -0.0."""
    return u.dtype.kind != "float" or not is_minus_zero(c.arg) or never_minus_zero(x)


def same_type(u: UOp, x: UOp) -> bool:
    """Whether the operation gives the type that x has."""
    return u.dtype is x.dtype


def same_width(u: UOp, x: UOp, y: UOp) -> bool:
    """Whether the three types have the same size."""
    return u.dtype.itemsize == y.dtype.itemsize == x.dtype.itemsize


def not_invalid(z: UOp) -> bool:
    """Whether z is anything but Invalid."""
    return z.arg is not Invalid


def is_integer(x: UOp) -> bool:
    """Whether x has an integer type."""
    return dtypes.is_int(x.dtype)


def is_all_ones(c: UOp) -> bool:
    """Whether each bit of the constant is set."""
    if c.dtype.kind == "bool":
        return bool(c.arg)
    return bool(c.arg == (c.dtype.max if c.dtype.kind == "uint" else -1))


def is_zero(c: UOp) -> bool:
    """Whether the constant is 0, of any sign and type."""
    return c.arg is not Invalid and float(c.arg) == 0.0


def both_in_width(u: UOp, c: UOp, d: UOp) -> bool:
    """Whether two shifts together stay below the width."""
    return bool(c.arg >= 0 and d.arg >= 0 and c.arg + d.arg < u.dtype.bits)


# *** constants


def fold_constants(u: UOp) -> UOp:
    """The operation's value as a constant of its type."""
    return const(exec_alu(u.op, u.dtype, [s.arg for s in u.src]), u.dtype)


def fold_bounds(u: UOp) -> UOp | None:
    """The only value that the bounds leave; a masked one keeps its mask."""
    lo, hi = u.bounds
    if lo != hi or (u.op is Ops.WHERE and Invalid in (u.src[1].arg, u.src[2].arg)):
        return None
    return u.const_like(lo)


def fold_cast(u: UOp, c: UOp) -> UOp:
    """The constant in the other type; Invalid stays Invalid."""
    return const(c.arg, u.dtype)


def fold_bitcast(u: UOp, c: UOp) -> UOp | None:
    """The constant's bits in the other type."""
    if c.arg is Invalid or c.dtype.itemsize != u.dtype.itemsize or dtypes.is_weak(c.dtype):
        return None
    return const(bitcast(c.arg, c.dtype, u.dtype), u.dtype)


# *** one operation


def keep(u: UOp, x: UOp) -> UOp | None:
    """x in the place of the operation."""
    return in_place_of(u, x)


def zero(u: UOp) -> UOp:
    """0 in the place of the operation."""
    return u.const_like(0)


def one(u: UOp) -> UOp:
    """1 in the place of the operation."""
    return u.const_like(1)


def keep_larger(u: UOp, x: UOp, y: UOp) -> UOp | None:
    """The operand that is never below the other one, if no NaN can come in."""
    if not (known_finite(x) and known_finite(y)):
        return None
    if x.bounds[0] >= y.bounds[1]:
        return in_place_of(u, x)
    return in_place_of(u, y) if y.bounds[0] >= x.bounds[1] else None


def merge_shifts(u: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    """One shift by both amounts."""
    return make(u.op, u.dtype, (x, const(c.arg + d.arg, d.dtype)))


def negate_factor(u: UOp, x: UOp, c: UOp) -> UOp | None:
    """One product: a change of sign never rounds."""
    if x.dtype is not u.dtype or c.arg is Invalid:
        return None
    return make(Ops.MUL, u.dtype, (x, const(-c.arg, u.dtype)))


# *** casts


def merge_casts(u: UOp, x: UOp, y: UOp) -> UOp | None:
    """One cast where the step between loses nothing, or both only drop high bits."""
    if x.dtype is u.dtype and can_lossless_cast(x.dtype, y.dtype):
        return x
    if can_lossless_cast(x.dtype, y.dtype):
        return None if _saturates(u, x, y) else x.cast(u.dtype)
    integers = all(dtypes.is_int(d) for d in (x.dtype, y.dtype, u.dtype))
    narrowing = x.dtype.itemsize >= y.dtype.itemsize >= u.dtype.itemsize
    if integers and narrowing and not dtypes.is_weak(y.dtype):
        return x.cast(u.dtype)
    return None


def _saturates(u: UOp, x: UOp, y: UOp) -> bool:
    """Whether an integer may leave the type that a float of it is cast to: an integer wraps."""
    if not (dtypes.is_float(y.dtype) and dtypes.is_int(x.dtype) and dtypes.is_int(u.dtype)):
        return False
    return bool(x.vmin < u.dtype.min or x.vmax > u.dtype.max)


def cast_choices(u: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """Cast what is selected, now that both are constants."""
    if c.arg is Invalid or d.arg is Invalid:
        return None
    return make(Ops.WHERE, u.dtype, (x, const(c.arg, u.dtype), const(d.arg, u.dtype)))


# *** selections


def keep_choice(u: UOp, c: UOp, y: UOp, z: UOp) -> UOp | None:
    """The side that a constant condition selects."""
    return None if c.arg is Invalid else in_place_of(u, y if c.arg else z)


def choose_once(u: UOp, x: UOp, y: UOp, z: UOp) -> UOp | None:
    """Without the choice that the same condition has made already."""
    return None if z.dtype is not u.dtype else make(Ops.WHERE, u.dtype, (x, y, z))


def swap_choices(u: UOp, x: UOp, y: UOp, z: UOp) -> UOp:
    """Select on the condition itself, not on its opposite."""
    return make(Ops.WHERE, u.dtype, (x, z, y))


def choose_if_both(u: UOp, x: UOp, y: UOp, z: UOp, w: UOp) -> UOp | None:
    """One selection by both conditions."""
    if x._shape != y._shape:
        return None
    return make(Ops.WHERE, u.dtype, (make(Ops.AND, dtypes.bool, (x, y)), z, w))


def choose_if_either(u: UOp, x: UOp, y: UOp, z: UOp, w: UOp) -> UOp | None:
    """One selection by either condition."""
    if x._shape != y._shape:
        return None
    return make(Ops.WHERE, u.dtype, (make(Ops.OR, dtypes.bool, (x, y)), z, w))


def divided_by_zero(u: UOp, x: UOp) -> UOp:
    """What every device gives, 0; of a size or a place it is a mistake.

    Raises: ZeroDivisorError where an expression of sizes is divided.
    """
    if u.dtype is dtypes.weakint:
        raise ZeroDivisorError(
            f"Division by zero trying to rewrite {render_short(u)}",
            help="a size that may be 0 cannot divide: give its Variable a lower bound of 1",
        )
    return zero(u)


def negation(u: UOp, x: UOp) -> UOp | None:
    """The opposite of x, as `x != True`."""
    return None if x._shape != u._shape else make(Ops.CMPNE, dtypes.bool, (x, const(True)))


W = UPat.var("w")
NOT_X = UPat(Ops.CMPNE, dtypes.bool, src=[BOOL, TRUE])
INTEGERS = (dtypes.weakint, *dtypes.ints)
FOLDABLE = GroupOp.ALU - {Ops.WHERE}
BOUNDED = GroupOp.ALU | {Ops.CAST}


def _where(condition: UPat, yes: UPat, no: UPat) -> UPat:
    return UPat(Ops.WHERE, src=(condition, yes, no), name="u")


def _op(op: Ops, *src: UPat) -> UPat:
    return UPat(op, src=src, name="u")


def _either(op: Ops, x: UPat, y: UPat) -> UPat:
    """Of a commutative operation: the sources in either order."""
    return UPat(op, src=[x, y], name="u")


# fmt: off
pm_identities = PatternMatcher([
    Rule("fold_constants", "op of constants -> its value",  UPat(FOLDABLE, src=UPat(Ops.CONST), name="u"), fold_constants),
    # sums and products
    Rule("add_zero",       "x + 0 -> x",                    _either(Ops.ADD, X, ZERO), lambda u, x, c: in_place_of(u, x), when=adds_nothing),
    Rule("add_opposite",   "x + x*-1 -> 0",                 _either(Ops.ADD, X, X * -1), lambda u, x: zero(u), when=finite),
    Rule("mul_one",        "x * 1 -> x",                    _either(Ops.MUL, X, UPat.const(1)), keep),
    Rule("mul_zero",       "x * 0 -> 0",                    _either(Ops.MUL, X, UPat.cvar("c")), lambda u, x, c: zero(u), when=zero_times_finite),
    Rule("mul_opposite",   "(x * -1) * c -> x * -c",        _either(Ops.MUL, X * -1, C), negate_factor),
    Rule("mul_inverse",    "x * (1/x) -> 1",                _either(Ops.MUL, X, UPat(Ops.RECIPROCAL, src=(X,))), lambda u, x: one(u), when=finite_and_never_zero),
    Rule("sub_zero",       "x - 0 -> x",                    _op(Ops.SUB, X, ZERO), lambda u, x, c: in_place_of(u, x), when=takes_nothing),
    Rule("sub_self",       "x - x -> 0",                    _op(Ops.SUB, X, X), lambda u, x: zero(u), when=finite),
    Rule("neg_twice",      "-(-x) -> x",                    _op(Ops.NEG, UPat(Ops.NEG, src=(X,))), keep),
    Rule("fdiv_one",       "x / 1 -> x",                    _op(Ops.FDIV, X, UPat.const(1)), keep),
    Rule("pow_one",        "x ** 1 -> x",                   _op(Ops.POW, X, UPat.const(1)), keep),
    Rule("pow_zero",       "x ** 0 -> 1",                   _op(Ops.POW, X, UPat.cvar("c")), lambda u, x, c: one(u), when=is_zero),
    Rule("max_self",       "max(x, x) -> x",                _op(Ops.MAX, X, X), keep),
    Rule("max_known",      "max(x, y) -> x if x >= y, y if y >= x",      _op(Ops.MAX, X, Y), keep_larger),
    Rule("trunc_integer",  "trunc(x) -> x of an integer",   _op(Ops.TRUNC, X), keep, when=is_integer),
    Rule("trunc_twice",    "trunc(trunc(x)) -> trunc(x)",   _op(Ops.TRUNC, UPat(Ops.TRUNC, src=(Y,), name="x")), lambda u, x, y: x),
    # division
    Rule("div_one",        "x // 1 -> x",                   UPat((Ops.FLOORDIV, Ops.CDIV), src=(X, UPat.const(1)), name="u"), keep),
    Rule("div_self",       "x // x -> 1",                   UPat((Ops.FLOORDIV, Ops.CDIV), src=(X, X), name="u"), lambda u, x: one(u), when=never_zero),
    Rule("mod_self",       "x % x -> 0",                    UPat((Ops.FLOORMOD, Ops.CMOD), src=(X, X), name="u"), lambda u, x: zero(u)),
    Rule("div_of_zero",    "0 // x -> 0, 0 % x -> 0",       UPat((Ops.FLOORDIV, Ops.CDIV, Ops.FLOORMOD, Ops.CMOD), src=(UPat.const(0), X), name="u"), lambda u, x: zero(u)),
    Rule("div_by_zero",    "x // 0 -> 0, x % 0 -> 0",       UPat((Ops.FLOORDIV, Ops.CDIV, Ops.FLOORMOD, Ops.CMOD), src=(X, UPat.const(0)), name="u"), divided_by_zero),
    # bits
    Rule("and_self",       "x & x -> x, x | x -> x",        UPat((Ops.AND, Ops.OR), src=(X, X), name="u"), keep),
    Rule("xor_self",       "x ^ x -> 0",                    _op(Ops.XOR, X, X), lambda u, x: zero(u)),
    Rule("or_zero",        "x | 0 -> x, x ^ 0 -> x",        UPat((Ops.OR, Ops.XOR), src=[X, UPat.const(0)], name="u"), keep),
    Rule("and_zero",       "x & 0 -> 0",                    _either(Ops.AND, X, UPat.const(0)), lambda u, x: zero(u)),
    Rule("and_ones",       "x & ...1 -> x",                 _either(Ops.AND, X, C), lambda u, x, c: in_place_of(u, x), when=is_all_ones),
    Rule("or_ones",        "x | ...1 -> ...1",              _either(Ops.OR, X, C), lambda u, x, c: u.const_like(c.arg), when=is_all_ones),
    Rule("and_opposite",   "x & !x -> False",               _either(Ops.AND, BOOL, NOT_X), lambda u, x: u.const_like(False)),
    Rule("or_opposite",    "x | !x -> True",                _either(Ops.OR, BOOL, NOT_X), lambda u, x: u.const_like(True)),
    Rule("shift_zero",     "x << 0 -> x, x >> 0 -> x",      UPat((Ops.SHL, Ops.SHR), src=(X, UPat.const(0)), name="u"), keep),
    Rule("shift_left_twice",  "x << c << d -> x << c+d",    _op(Ops.SHL, UPat(Ops.SHL, src=(X, C)), D), merge_shifts, when=both_in_width),
    Rule("shift_right_twice", "x >> c >> d -> x >> c+d",    _op(Ops.SHR, UPat(Ops.SHR, src=(X, C)), D), merge_shifts, when=both_in_width),
    # truth
    Rule("not_not",        "!!x -> x",                      UPat(Ops.CMPNE, src=[NOT_X, TRUE], name="u"), keep),
    Rule("ne_false",       "x != False -> x",               UPat(Ops.CMPNE, src=[BOOL, FALSE], name="u"), keep),
    Rule("xor_true",       "x ^ True -> !x",                UPat(Ops.XOR, dtypes.bool, src=[BOOL, TRUE], name="u"), negation),
    # selections
    Rule("where_known",    "True ? y : z -> y; False ? y : z -> z",             _where(C, Y, Z), keep_choice),
    Rule("where_same",     "c ? x : x -> x",                _where(UPat(), X, X), keep),
    Rule("where_not",      "!x ? y : z -> x ? z : y",       _where(NOT_X, Y, Z), swap_choices, when=not_invalid),
    Rule("where_bool",     "x ? True : False -> x",         _where(BOOL, TRUE, FALSE), keep),
    Rule("where_not_bool", "x ? False : True -> !x",        _where(BOOL, FALSE, TRUE), negation),
    Rule("where_yes_again", "x ? (x ? y : w) : z -> x ? y : z", _where(X, UPat(Ops.WHERE, src=(X, Y, UPat())), Z), choose_once),
    Rule("where_no_again",  "x ? y : (x ? w : z) -> x ? y : z", _where(X, Y, UPat(Ops.WHERE, src=(X, UPat(), Z))), choose_once),
    Rule("where_both",     "x ? (y ? z : w) : w -> x & y ? z : w", _where(X, UPat(Ops.WHERE, src=(Y, Z, W)), W), choose_if_both),
    Rule("where_either",   "x ? z : (y ? z : w) -> x | y ? z : w", _where(X, Z, UPat(Ops.WHERE, src=(Y, Z, W))), choose_if_either),
    # casts
    Rule("cast_same",      "x as its own type -> x",        UPat(Ops.CAST, src=(X,), name="u"), keep, when=same_type),
    Rule("cast_constant",  "constant as a type -> constant", UPat(Ops.CAST, src=(C,), name="u"), fold_cast),
    Rule("cast_twice",     "(x as a) as b -> x as b",       UPat(Ops.CAST, src=(UPat(Ops.CAST, src=(X,), name="y"),), name="u"), merge_casts),
    Rule("cast_choice",    "(x ? c : d) as a -> x ? c as a : d as a", UPat(Ops.CAST, src=(UPat(Ops.WHERE, src=(X, C, D)),), name="u"), cast_choices),
    Rule("bitcast_same",   "bits of x as its own type -> x", UPat(Ops.BITCAST, src=(X,), name="u"), keep, when=same_type),
    Rule("bitcast_constant", "bits of a constant -> constant", UPat(Ops.BITCAST, src=(C,), name="u"), fold_bitcast),
    Rule("bitcast_twice",  "bits of bits -> bits",          UPat(Ops.BITCAST, src=(UPat(Ops.BITCAST, src=(X,), name="y"),), name="u"), lambda u, x, y: x.bitcast(u.dtype), when=same_width),
    # bounds
    Rule("fold_bounds",    "lo(x) = hi(x) = c -> c",        UPat(BOUNDED, (dtypes.bool, *INTEGERS), name="u"), fold_bounds),
])
# fmt: on

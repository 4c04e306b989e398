"""Inclusive bounds of a node's value, by interval rules: one row per operation.

A row sees the bounds of the sources and answers for the node; where nothing is known, or where the
value may wrap, it answers with the limits of the dtype. Of a float the bounds say more: if both are
finite, the value is a number (no NaN) between them; if one is infinite, it may be NaN as well.

An index that is `Invalid` is never used, so it does not widen the bounds of a selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tinylab.dtype import DType, Invalid, dtypes, truncate
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.evaluate import cdiv, cmod

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Bounds: TypeAlias = tuple[Any, Any]

FALSE: Bounds = (False, False)
TRUE: Bounds = (True, True)
EITHER: Bounds = (False, True)


def is_finite(bounds: Bounds) -> bool:
    """Whether both bounds are finite: then the value is no NaN."""
    return bool(-math.inf < bounds[0] and bounds[1] < math.inf)


def known_finite(u: UOp) -> bool:
    """Whether the value can be neither an infinity nor NaN; true of every integer and bool."""
    return u.dtype.kind != "float" or is_finite(u.bounds)


def is_minus_zero(value: Any) -> bool:
    """Whether a constant's value is the -0.0 of floats."""
    return value is not Invalid and value == 0 and math.copysign(1.0, value) < 0


def never_minus_zero(u: UOp, depth: int = 4) -> bool:
    """Whether the value is known not to be -0.0: true of every integer and bool.

    depth: how many operations down is looked.
    """
    if u.dtype.kind != "float":
        return True
    if u.op is Ops.CONST:
        return not is_minus_zero(u.arg)
    lo, hi = u.bounds
    if lo > 0 or hi < 0:
        return True
    if depth == 0:
        return False
    if u.op is Ops.CAST:
        return u.src[0].dtype.kind != "float"  # of a float: a small one may round to -0.0
    if u.op is Ops.ADD:  # -0.0 is the sum of two of it, and of nothing else
        return any(never_minus_zero(x, depth - 1) for x in u.src)
    if u.op is Ops.WHERE:
        return all(never_minus_zero(x, depth - 1) for x in u.src[1:])
    return (u.op is Ops.MUL and u.src[0] is u.src[1]) or u.op is Ops.EXP2


def bounds_of(u: UOp) -> Bounds:
    """The bounds of a node from those of its sources; the dtype's limits where unknown."""
    row = BOUNDS.get(u.op)
    if row is not None:
        found = row(u)
        if found is not None:
            return found
    return (0, 0) if u.dtype is dtypes.void else (u.dtype.min, u.dtype.max)


def _fit(u: UOp, lo: int, hi: int) -> Bounds | None:
    """Exact bounds of an integer result; None (unknown) where it may wrap."""
    dtype = u.dtype
    if dtype is dtypes.weakint or (dtype.min <= lo and hi <= dtype.max):
        return lo, hi
    return None


def _const(u: UOp) -> Bounds | None:
    value = u.arg
    if value is Invalid or value != value:
        return None
    if value.__class__ is not int and value.__class__ is not bool:
        value = float(value)
        if math.isnan(value):
            return None
    return value, value


def _counted(u: UOp) -> Bounds | None:
    """RANGE and SPECIAL: 0 to size - 1. An unbounded loop has no size."""
    if not u.src or u.src[0].dtype is dtypes.void:
        return None
    return 0, max(0, u.src[0].bounds[1] - 1)


def _stated(u: UOp) -> Bounds | None:
    found: Bounds | None = u.arg.vmin_vmax
    return found


def _first(u: UOp) -> Bounds | None:
    return u.src[0].bounds if u.src else None


def _add(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if u.dtype.kind == "bool":
        return a or c, b or d
    return None if u.dtype.kind == "float" else _fit(u, a + c, b + d)


def _sub(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    return _fit(u, a - d, b - c) if dtypes.is_int(u.dtype) else None


def _neg(u: UOp) -> Bounds | None:
    a, b = u.src[0].bounds
    if u.dtype.kind == "float":
        return -b, -a
    return _fit(u, -b, -a) if dtypes.is_int(u.dtype) else None


def _mul(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if u.dtype.kind == "bool":
        return a and c, b and d
    if u.dtype.kind == "float":
        # Only a change of sign is exact.
        return (-b, -a) if c == d == -1 else None
    corners = (a * c, a * d, b * c, b * d)
    return _fit(u, min(corners), max(corners))


def _max(u: UOp) -> Bounds | None:
    x, y = u.src[0].bounds, u.src[1].bounds
    lo, hi = max(x[0], y[0]), max(x[1], y[1])
    if u.dtype.kind == "float" and not (is_finite(x) and is_finite(y)) and is_finite((lo, hi)):
        return None  # one of them may be NaN, and so then is the result
    return lo, hi


def _division(divide: Callable[[int, int], int]) -> Callable[[UOp], Bounds | None]:
    def row(u: UOp) -> Bounds | None:
        (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
        if c <= 0 <= d or not dtypes.is_int(u.dtype):
            return None
        corners = [divide(x, y) for x in (a, b) for y in (c, d)]
        return _fit(u, min(corners), max(corners))

    return row


def _floormod(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if c == d and c > 0:
        # Within one period the remainder keeps the order.
        return (a % c, b % c) if a // c == b // c else (0, c - 1)
    if c > 0:
        return 0, d - 1
    return (c + 1, 0) if d < 0 else None


def _cmod(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if c == d and c != 0 and (a >= 0 or b <= 0) and cdiv(a, c) == cdiv(b, c):
        return cmod(a, c), cmod(b, c)
    most = max(abs(c), abs(d)) - 1
    if c <= 0 <= d:
        return None
    return (0 if a >= 0 else max(a, -most)), (0 if b <= 0 else min(b, most))


def _shl(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if c < 0 or d >= u.dtype.bits:
        return None
    corners = (a << c, a << d, b << c, b << d)
    return _fit(u, min(corners), max(corners))


def _shr(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if c < 0 or d >= u.dtype.bits:
        return None
    corners = (a >> c, a >> d, b >> c, b >> d)
    return min(corners), max(corners)


def _and(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if u.dtype.kind == "bool":
        return a and c, b and d
    if a >= 0 and c >= 0:
        return 0, min(b, d)
    # A mask that is not negative clears the sign of the other.
    return (0, b) if a >= 0 else (0, d) if c >= 0 else None


def _or(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if u.dtype.kind == "bool":
        return a or c, b or d
    return (max(a, c), (1 << max(b, d).bit_length()) - 1) if a >= 0 and c >= 0 else None


def _xor(u: UOp) -> Bounds | None:
    (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
    if u.dtype.kind == "bool":
        return (a != c, a != c) if a == b and c == d else EITHER
    if c == d == -1:
        return -1 - b, -1 - a  # all bits turned
    return (0, (1 << max(b, d).bit_length()) - 1) if a >= 0 and c >= 0 else None


def _cmplt(u: UOp) -> Bounds:
    x, y = u.src
    (a, b), (c, d) = x.bounds, y.bounds
    if a >= d:
        return FALSE  # also where one is NaN
    return TRUE if b < c and known_finite(x) and known_finite(y) else EITHER


def _cmpne(u: UOp) -> Bounds:
    x, y = u.src
    (a, b), (c, d) = x.bounds, y.bounds
    if b < c or d < a:
        return TRUE  # also where one is NaN
    if known_finite(x) and known_finite(y) and (x is y or a == b == c == d):
        return FALSE
    return EITHER


def _cmpeq(u: UOp) -> Bounds:
    lo, hi = _cmpne(u)
    return not hi, not lo


def _where(u: UOp) -> Bounds | None:
    condition, x, y = u.src
    if condition.bounds == TRUE or y.arg is Invalid:
        return x.bounds
    if condition.bounds == FALSE or x.arg is Invalid:
        return y.bounds
    (a, b), (c, d) = x.bounds, y.bounds
    return min(a, c), max(b, d)


def _cast(u: UOp) -> Bounds | None:
    x = u.src[0]
    lo, hi = x.bounds
    if u.dtype.kind == "bool":
        return TRUE if lo > 0 or hi < 0 else FALSE if lo == hi == 0 and known_finite(x) else EITHER
    if u.dtype.kind == "float":
        return _cast_to_float(u.dtype, lo, hi)
    if x.dtype.kind != "float":
        return _fit(u, int(lo), int(hi))
    if not is_finite((lo, hi)):
        return None
    return _clamp(u.dtype, lo), _clamp(u.dtype, hi)


def _clamp(dtype: DType, value: float) -> int:
    return int(max(dtype.min, min(dtype.max, int(value))))


def _cast_to_float(dtype: DType, lo: Any, hi: Any) -> Bounds:
    try:
        return truncate[dtype](float(lo)), truncate[dtype](float(hi))
    except OverflowError:
        return dtype.min, dtype.max


def _union(u: UOp) -> Bounds | None:
    if not u.src:
        return None
    return min(s.bounds[0] for s in u.src), max(s.bounds[1] for s in u.src)


def _pad(u: UOp) -> Bounds:
    lo, hi = u.src[0].bounds
    return min(lo, type(lo)(0)), max(hi, type(hi)(0))


def _reduce(u: UOp) -> Bounds | None:
    return u.src[0].bounds if u.arg[0] is Ops.MAX else None


def _trunc(u: UOp) -> Bounds | None:
    lo, hi = u.src[0].bounds
    if dtypes.is_int(u.dtype):
        return lo, hi
    return (float(int(lo)), float(int(hi))) if is_finite((lo, hi)) else None


def _index(u: UOp) -> Bounds | None:
    """An element of a literal vector; what memory holds is unknown."""
    return u.src[0].bounds if u.src[0].op not in _MEMORY else None


_MEMORY = frozenset({*GroupOp.Defines, Ops.AFTER, Ops.RESHAPE, Ops.SHRINK, Ops.CONTIGUOUS})

BOUNDS: dict[Ops, Callable[[UOp], Bounds | None]] = {
    Ops.CONST: _const,
    Ops.RANGE: _counted,
    Ops.SPECIAL: _counted,
    Ops.PARAM: _stated,
    Ops.BUFFER: _stated,
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.NEG: _neg,
    Ops.MUL: _mul,
    Ops.MAX: _max,
    Ops.CDIV: _division(cdiv),
    Ops.CMOD: _cmod,
    Ops.FLOORDIV: _division(lambda x, y: x // y),
    Ops.FLOORMOD: _floormod,
    Ops.SHL: _shl,
    Ops.SHR: _shr,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _xor,
    Ops.CMPLT: _cmplt,
    Ops.CMPNE: _cmpne,
    Ops.CMPEQ: _cmpeq,
    Ops.WHERE: _where,
    Ops.CAST: _cast,
    Ops.TRUNC: _trunc,
    Ops.STACK: _union,
    Ops.PAD: _pad,
    Ops.REDUCE: _reduce,
    Ops.INDEX: _index,
    **dict.fromkeys(
        (Ops.AFTER, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.RESHAPE), _first
    ),
    **dict.fromkeys((Ops.EXPAND, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP, Ops.STAGE), _first),
}

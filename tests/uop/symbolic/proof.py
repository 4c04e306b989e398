"""Nodes as z3 terms, so that a rewrite is proved for every value and not for those that were tried.

Weak integers are unbounded integers, concrete ones bit vectors, floats IEEE 754 floats (equal up to
the sign of zero). A value that may be Invalid comes with the condition under which it is valid.
"""

from __future__ import annotations

from typing import Any

import z3

from tinylab.dtype import DType, Invalid, dtypes
from tinylab.uop.ops import Ops, UOp

Term = Any
FLOATS = {dtypes.float16: z3.Float16(), dtypes.float32: z3.Float32(), dtypes.float64: z3.Float64()}
NEAREST = z3.RNE()


class Unprovable(Exception):
    """No z3 term is written for this operation."""


def sort_of(dtype: DType) -> Any:
    if dtype.kind == "bool":
        return z3.BoolSort()
    if dtype is dtypes.weakint:
        return z3.IntSort()
    if dtypes.is_int(dtype):
        return z3.BitVecSort(dtype.bits)
    if dtype not in FLOATS:
        raise Unprovable(str(dtype))
    return FLOATS[dtype]


def literal(value: Any, dtype: DType) -> Term:
    if dtype.kind == "bool":
        return z3.BoolVal(bool(value))
    if dtype is dtypes.weakint:
        return z3.IntVal(value)
    if dtypes.is_int(dtype):
        return z3.BitVecVal(value, dtype.bits)
    return z3.FPVal(float(value), sort_of(dtype))


class Terms:
    """The terms of a set of nodes, and what their leaves' bounds say."""

    def __init__(self) -> None:
        self.terms: dict[UOp, tuple[Term, Term]] = {}
        self.known: list[Term] = []

    def of(self, u: UOp) -> tuple[Term, Term]:
        """(value, where it is valid)."""
        if u not in self.terms:
            self.terms[u] = self.make(u)
        return self.terms[u]

    def make(self, u: UOp) -> tuple[Term, Term]:
        yes = z3.BoolVal(True)
        if u.op is Ops.CONST:
            if u.arg is Invalid:
                return literal(0, u.dtype), z3.BoolVal(False)
            return literal(u.arg, u.dtype), yes
        if u.op in (Ops.RANGE, Ops.PARAM, Ops.BUFFER, Ops.SPECIAL):
            return self.leaf(u), yes
        below = [self.of(s) for s in u.src]
        if u.op is Ops.WHERE:
            (c, vc), (x, vx), (y, vy) = below
            x, y = (
                convert(v, s.dtype, u.dtype) if s.arg is not Invalid else literal(0, u.dtype)
                for v, s in ((x, u.src[1]), (y, u.src[2]))
            )
            return z3.If(c, x, y), z3.And(vc, z3.If(c, vx, vy))
        valid = z3.And(*(v for _, v in below)) if below else yes
        if u.op is Ops.CAST:
            return convert(below[0][0], u.src[0].dtype, u.dtype), valid
        return operation(u, [x for x, _ in below]), valid

    def leaf(self, u: UOp) -> Term:
        x = z3.Const(f"v{len(self.terms)}_{len(self.known)}_{u.op.name}", sort_of(u.dtype))
        lo, hi = u.bounds
        if u.dtype is dtypes.weakint:
            self.known += [x >= lo, x <= hi]
        elif dtypes.is_int(u.dtype) and (lo, hi) != (u.dtype.min, u.dtype.max):
            below = z3.ULE if dtypes.is_unsigned(u.dtype) else lambda a, b: a <= b
            self.known += [below(literal(lo, u.dtype), x), below(x, literal(hi, u.dtype))]
        elif u.dtype.kind == "float" and lo != -float("inf") and hi != float("inf"):
            self.known += [z3.fpLEQ(literal(lo, u.dtype), x), z3.fpLEQ(x, literal(hi, u.dtype))]
        return x


def convert(x: Term, source: DType, target: DType) -> Term:
    """A cast; between floats and integers it is left out."""
    if source is target:
        return x
    if source.kind == "bool":
        return z3.If(x, literal(1, target), literal(0, target))
    if target.kind == "bool":
        if source.kind == "float":
            return z3.Not(z3.fpIsZero(x))
        return x != literal(0, source)
    if source.kind == "float" and target.kind == "float":
        return z3.fpFPToFP(NEAREST, x, sort_of(target))
    if not (dtypes.is_int(source) and dtypes.is_int(target)):
        raise Unprovable(f"{source} to {target}")
    if source is dtypes.weakint:
        return z3.Int2BV(x, target.bits)
    if target is dtypes.weakint:
        return z3.BV2Int(x, not dtypes.is_unsigned(source))
    if target.bits <= source.bits:
        return z3.Extract(target.bits - 1, 0, x)
    more = target.bits - source.bits
    return z3.ZeroExt(more, x) if dtypes.is_unsigned(source) else z3.SignExt(more, x)


def operation(u: UOp, operands: list[Term]) -> Term:
    from tinylab.dtype import least_upper_dtype

    common = least_upper_dtype(*(s.dtype for s in u.src))
    shift = u.op in (Ops.SHL, Ops.SHR)
    xs = [
        convert(x, s.dtype, u.dtype if shift else common)
        for x, s in zip(operands, u.src, strict=True)
    ]
    if common.kind == "float":
        return float_operation(u.op, xs, common)
    if common.kind == "bool":
        return bool_operation(u.op, xs)
    if common is dtypes.weakint:
        return integer_operation(u.op, xs)
    return word_operation(u.op, xs, common)


def bool_operation(op: Ops, xs: list[Term]) -> Term:
    x, y = xs
    table = {
        Ops.ADD: lambda: z3.Or(x, y),
        Ops.OR: lambda: z3.Or(x, y),
        Ops.MAX: lambda: z3.Or(x, y),
        Ops.AND: lambda: z3.And(x, y),
        Ops.MUL: lambda: z3.And(x, y),
        Ops.XOR: lambda: z3.Xor(x, y),
        Ops.CMPNE: lambda: x != y,
        Ops.CMPEQ: lambda: x == y,
        Ops.CMPLT: lambda: z3.And(z3.Not(x), y),
    }
    return pick(table, op)


def pick(table: dict[Ops, Any], op: Ops) -> Term:
    if op not in table:
        raise Unprovable(str(op))
    return table[op]()


def integer_operation(op: Ops, xs: list[Term]) -> Term:
    x, y = xs[0], xs[-1]
    # z3 divides so that the remainder is not negative.
    floor = z3.If(y > 0, x / y, (-x) / (-y))
    toward_zero = z3.If(
        (x >= 0) == (y > 0),
        z3.If(x >= 0, x, -x) / z3.If(y > 0, y, -y),
        -(z3.If(x >= 0, x, -x) / z3.If(y > 0, y, -y)),
    )
    table = {
        Ops.ADD: lambda: x + y,
        Ops.SUB: lambda: x - y,
        Ops.NEG: lambda: -x,
        Ops.MUL: lambda: x * y,
        Ops.MAX: lambda: z3.If(x > y, x, y),
        Ops.FLOORDIV: lambda: z3.If(y == 0, 0, floor),
        Ops.FLOORMOD: lambda: z3.If(y == 0, 0, x - y * floor),
        Ops.CDIV: lambda: z3.If(y == 0, 0, toward_zero),
        Ops.CMOD: lambda: z3.If(y == 0, 0, x - y * toward_zero),
        Ops.CMPLT: lambda: x < y,
        Ops.CMPNE: lambda: x != y,
        Ops.CMPEQ: lambda: x == y,
        Ops.TRUNC: lambda: x,
    }
    return pick(table, op)


def word_operation(op: Ops, xs: list[Term], dtype: DType) -> Term:
    x, y = xs[0], xs[-1]
    unsigned = dtypes.is_unsigned(dtype)
    zero, one = literal(0, dtype), literal(1, dtype)
    less = z3.ULT(x, y) if unsigned else x < y
    quotient = z3.UDiv(x, y) if unsigned else x / y
    rest = x - quotient * y
    down = z3.And(rest != zero, (rest < zero) != (y < zero)) if not unsigned else z3.BoolVal(False)
    floor = z3.If(down, quotient - one, quotient)
    inside = z3.ULT(y, literal(dtype.bits, dtype))
    table = {
        Ops.ADD: lambda: x + y,
        Ops.SUB: lambda: x - y,
        Ops.NEG: lambda: -x,
        Ops.MUL: lambda: x * y,
        Ops.MAX: lambda: z3.If(less, y, x),
        Ops.AND: lambda: x & y,
        Ops.OR: lambda: x | y,
        Ops.XOR: lambda: x ^ y,
        Ops.SHL: lambda: z3.If(inside, x << y, zero),
        Ops.SHR: lambda: z3.If(inside, z3.LShR(x, y) if unsigned else x >> y, zero),
        Ops.CDIV: lambda: z3.If(y == zero, zero, quotient),
        Ops.CMOD: lambda: z3.If(y == zero, zero, rest),
        Ops.FLOORDIV: lambda: z3.If(y == zero, zero, floor),
        Ops.FLOORMOD: lambda: z3.If(y == zero, zero, x - floor * y),
        Ops.CMPLT: lambda: less,
        Ops.CMPNE: lambda: x != y,
        Ops.CMPEQ: lambda: x == y,
        Ops.TRUNC: lambda: x,
    }
    return pick(table, op)


def float_operation(op: Ops, xs: list[Term], dtype: DType) -> Term:
    x, y = xs[0], xs[-1]
    larger = z3.If(z3.fpGT(x, y), x, y)
    nan = z3.fpNaN(sort_of(dtype))
    table = {
        Ops.ADD: lambda: z3.fpAdd(NEAREST, x, y),
        Ops.SUB: lambda: z3.fpSub(NEAREST, x, y),
        Ops.MUL: lambda: z3.fpMul(NEAREST, x, y),
        Ops.FDIV: lambda: z3.fpDiv(NEAREST, x, y),
        Ops.RECIPROCAL: lambda: z3.fpDiv(NEAREST, literal(1.0, dtype), x),
        Ops.NEG: lambda: z3.fpNeg(x),
        Ops.SQRT: lambda: z3.fpSqrt(NEAREST, x),
        Ops.TRUNC: lambda: z3.fpRoundToIntegral(z3.RTZ(), x),
        Ops.MAX: lambda: z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), nan, larger),
        Ops.CMPLT: lambda: z3.fpLT(x, y),
        Ops.CMPNE: lambda: z3.Not(z3.fpEQ(x, y)),
        Ops.CMPEQ: lambda: z3.fpEQ(x, y),
    }
    return pick(table, op)


def same(x: Term, y: Term) -> Term:
    if z3.is_fp(x):
        return z3.Or(z3.fpEQ(x, y), z3.And(z3.fpIsNaN(x), z3.fpIsNaN(y)))
    return x == y


def prove(before: UOp, after: UOp, timeout_ms: int = 20_000) -> str:
    """ "proved", "unknown" (out of time), "unprovable: why", or "wrong: a counterexample"."""
    terms = Terms()
    try:
        (x, vx), (y, vy) = terms.of(before), terms.of(after)
    except Unprovable as missing:
        return f"unprovable: {missing}"
    solver = z3.Solver()
    solver.set("timeout", timeout_ms)
    solver.add(*terms.known)
    solver.add(z3.Not(z3.And(vx == vy, z3.Implies(vx, same(x, y)))))
    verdict = solver.check()
    if verdict == z3.unsat:
        return "proved"
    return "unknown" if verdict == z3.unknown else f"wrong: {solver.model()}"

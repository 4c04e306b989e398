"""Arithmetic, comparison and selection of rows, with the numbers of the language.

Integers wrap, a division by zero gives 0, INT_MIN / -1 is INT_MIN, a shift beyond the width gives
0, MAX propagates NaN. Half types are computed in float32 and rounded once after each operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinylab.dtype import DType, dtypes, truncate
from tinylab.errors import RenderError
from tinylab.opcodes import GroupOp, Ops
from tinylab.renderer.llvm_convert import cast_row
from tinylab.renderer.llvm_types import SMALL_FLOATS, constant, scalar_type, splat, suffix, vector
from tinylab.renderer.llvm_writer import Value, Writer, named
from tinylab.uop.ops import UOp

# What LLVM code is written for; everything else is lowered before.
NATIVE = frozenset(
    {
        Ops.SQRT,
        Ops.RECIPROCAL,
        Ops.NEG,
        Ops.TRUNC,
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.FDIV,
        Ops.CDIV,
        Ops.CMOD,
        Ops.MAX,
        Ops.SHL,
        Ops.SHR,
        Ops.XOR,
        Ops.OR,
        Ops.AND,
        Ops.CMPLT,
        Ops.CMPNE,
        Ops.CMPEQ,
        Ops.WHERE,
    }
)

# fmt: off
_PLAIN = {
    "float": {Ops.ADD: "fadd", Ops.SUB: "fsub", Ops.MUL: "fmul", Ops.FDIV: "fdiv"},
    "int": {Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.XOR: "xor", Ops.OR: "or",
            Ops.AND: "and"},
    # As in numpy, True + True is True.
    "bool": {Ops.ADD: "or", Ops.SUB: "xor", Ops.MUL: "and", Ops.MAX: "or", Ops.XOR: "xor",
             Ops.OR: "or", Ops.AND: "and"},
}
_COMPARE = {
    "float": {Ops.CMPLT: "fcmp olt", Ops.CMPNE: "fcmp une", Ops.CMPEQ: "fcmp oeq"},
    "sint": {Ops.CMPLT: "icmp slt", Ops.CMPNE: "icmp ne", Ops.CMPEQ: "icmp eq"},
    "uint": {Ops.CMPLT: "icmp ult", Ops.CMPNE: "icmp ne", Ops.CMPEQ: "icmp eq"},
    "bool": {Ops.CMPLT: "icmp ult", Ops.CMPNE: "icmp ne", Ops.CMPEQ: "icmp eq"},
}
# fmt: on


@dataclass(frozen=True)
class Row:
    """What an operation on one row needs to know."""

    w: Writer
    uop: UOp
    dtype: DType  # of the operands
    lanes: int
    name: str | None
    flags: str = ""

    @property
    def scalar(self) -> str:
        """The type of a lane."""
        return scalar_type(self.dtype)

    @property
    def type(self) -> str:
        """The type of the row."""
        return vector(self.scalar, self.lanes)

    @property
    def ending(self) -> str:
        """How intrinsics on the row end."""
        return suffix(self.scalar, self.lanes)

    def each(self, value: float) -> str:
        """A number in each lane, as a literal of the operands' type."""
        return splat(self.scalar, constant(value, self.dtype), self.lanes)

    def let(self, text: str, last: bool = False) -> str:
        """A statement; the last one bears the name of the result."""
        return self.w.let(text, self.name if last else None)

    def test(self, how: str, x: str, y: str) -> str:
        """A comparison of two rows."""
        return self.let(f"{how} {self.type} {x}, {y}")

    def select(self, condition: str, x: str, y: str, last: bool = False) -> str:
        """A choice: x where the condition holds, else y."""
        bits = vector("i1", self.lanes)
        return self.let(f"select {bits} {condition}, {self.type} {x}, {self.type} {y}", last)


def alu(w: Writer, u: UOp, values: list[Value], flags: str = "") -> Value:
    """The value of an arithmetic uop from the values of its sources, already of one dtype."""
    dtype = values[-1].dtype
    if u.op is Ops.WHERE:
        return _where(w, u, values)
    kind = "cmp" if u.op in GroupOp.Comparison else "alu"

    def make(name: str, lanes: int, *operands: str) -> str:
        return _row(Row(w, u, dtype, lanes, name, flags), *operands)

    return w.rowwise(u.dtype, u.shape, values, kind, make)


def _where(w: Writer, u: UOp, values: list[Value]) -> Value:
    """A selection; a condition that is the same for a whole row stays a scalar."""
    gate, *others = values
    typed = scalar_type(u.dtype)
    lanes = u.shape[-1] if u.shape else 1
    # One condition per row of the result: a last axis of 1 is not stretched.
    narrow = gate.width == 1 and lanes > 1
    rows = w.broadcast(gate, (*u.shape[:-1], 1) if narrow else u.shape)
    operands = [w.broadcast(v, u.shape) for v in others]
    bits, whole = vector("i1", 1 if narrow else lanes), vector(typed, lanes)
    names = []
    for name, g, x, y in zip(w.row_names("alu", u.shape), rows, *operands, strict=True):
        condition = w.whole(g, dtypes.bool, 1 if narrow else lanes)
        a, b = (w.whole(r, u.dtype, lanes) for r in (x, y))
        names.append(w.let(f"select {bits} {condition}, {whole} {a}, {whole} {b}", name))
    return named(names, u.dtype, u.shape)


def _row(r: Row, *operands: str) -> str:
    op = r.uop.op
    if r.dtype in SMALL_FLOATS:
        return _small_float(r, *operands)
    if op in GroupOp.Comparison:
        return r.let(f"{_COMPARE[r.dtype.kind][op]} {r.type} {', '.join(operands)}", last=True)
    kind = "int" if dtypes.is_int(r.dtype) else r.dtype.kind
    plain = _PLAIN[kind].get(op)
    if plain is not None:
        flags = f" {r.flags}" if r.flags else ""
        return r.let(f"{plain}{flags} {r.type} {', '.join(operands)}", last=True)
    special = _SPECIAL.get((kind, op))
    if special is None:
        raise RenderError(
            f"LLVM code has no {op.name} on {r.dtype.name}",
            help="lower it to operations of the target first",
        )
    return special(r, *operands)


def _small_float(r: Row, *operands: str) -> str:
    """float16 and bfloat16: in float32, rounded once. Signs are a matter of one bit."""
    op, w = r.uop.op, r.w
    if op is Ops.NEG:
        return r.let(f"xor {r.type} {operands[0]}, {splat('i16', '-32768', r.lanes)}", last=True)
    wide = [_widened(r, x, s) for x, s in zip(operands, r.uop.src, strict=True)]
    compare = op in GroupOp.Comparison
    inner = Row(w, r.uop, dtypes.float32, r.lanes, r.name if compare else None)
    if op is Ops.MULACC:
        product = r.w.let(f"fmul {inner.type} {wide[0]}, {wide[1]}")
        product = _rounded(r, product)
        found = r.w.let(f"fadd {inner.type} {product}, {wide[2]}")
    else:
        found = _row(inner, *wide)
    return found if compare else cast_row(w, found, dtypes.float32, r.dtype, r.lanes, r.name)


def _widened(r: Row, x: str, source: UOp) -> str:
    """A half operand as float32; a constant needs no conversion."""
    if source.op is Ops.CONST:
        return splat("float", constant(truncate[r.dtype](source.arg), dtypes.float32), r.lanes)
    return cast_row(r.w, x, r.dtype, dtypes.float32, r.lanes)


def _rounded(r: Row, wide: str) -> str:
    """A float32 row rounded to the half type, as float32."""
    narrow = cast_row(r.w, wide, dtypes.float32, r.dtype, r.lanes)
    return cast_row(r.w, narrow, r.dtype, dtypes.float32, r.lanes)


# *** float


def _float_max(r: Row, x: str, y: str) -> str:
    call = f"call nsz {r.type} @llvm.maximum.{r.ending}({r.type} {x}, {r.type} {y})"
    return r.let(call, last=True)


def _sqrt(r: Row, x: str) -> str:
    return r.let(f"call {r.type} @llvm.sqrt.{r.ending}({r.type} {x})", last=True)


def _trunc(r: Row, x: str) -> str:
    """The integral part. Where the CPU has no instruction for it: through an integer."""
    if r.w.round:
        return r.let(f"call {r.type} @llvm.trunc.{r.ending}({r.type} {x})", last=True)
    bits = "i32" if r.dtype is dtypes.float32 else "i64"
    whole = vector(bits, r.lanes)
    most = r.each(2.0**23 if r.dtype is dtypes.float32 else 2.0**52)
    ending = f"{suffix(bits, r.lanes)}.{r.ending}"
    size = r.let(f"call {r.type} @llvm.fabs.{r.ending}({r.type} {x})")
    small = r.test("fcmp olt", size, most)
    integral = r.let(f"call {whole} @llvm.fptosi.sat.{ending}({r.type} {size})")
    back = r.let(f"sitofp {whole} {integral} to {r.type}")
    signed = r.let(f"call {r.type} @llvm.copysign.{r.ending}({r.type} {back}, {r.type} {x})")
    return r.select(small, signed, x, last=True)


def _reciprocal(r: Row, x: str) -> str:
    return r.let(f"fdiv {r.type} {r.each(1.0)}, {x}", last=True)


def _float_mulacc(r: Row, x: str, y: str, z: str) -> str:
    # fmuladd is one instruction where there is one, and no call to libm where there is none.
    function = "fma" if r.w.fused else "fmuladd"
    call = f"@llvm.{function}.{r.ending}({r.type} {x}, {r.type} {y}, {r.type} {z})"
    return r.let(f"call {r.type} {call}", last=True)


# *** integers


def _int_max(r: Row, x: str, y: str) -> str:
    name = "umax" if r.dtype.kind == "uint" else "smax"
    call = f"call {r.type} @llvm.{name}.{r.ending}({r.type} {x}, {r.type} {y})"
    return r.let(call, last=True)


def _int_neg(r: Row, x: str) -> str:
    return r.let(f"sub {r.type} {r.each(0)}, {x}", last=True)


def _int_mulacc(r: Row, x: str, y: str, z: str) -> str:
    product = r.let(f"mul {r.type} {x}, {y}")
    return r.let(f"add {r.type} {product}, {z}", last=True)


def _divide(r: Row, x: str, y: str) -> str:
    """Division or remainder toward zero that cannot trap.

    A divisor of 0, and -1 under the smallest number, become 1; then x / 0 is made 0.
    """
    sign = "u" if r.dtype.kind == "uint" else "s"
    quotient = r.uop.op is Ops.CDIV
    word = f"{sign}{'div' if quotient else 'rem'}"
    low, high = r.uop.src[1].bounds
    may_be_zero, may_overflow = low <= 0 <= high, sign == "s" and low <= -1 <= high
    if may_overflow and r.uop.src[0].bounds[0] > r.dtype.min:
        may_overflow = False
    divisor = y
    zero = ""
    if may_be_zero:
        zero = r.test("icmp eq", y, r.each(0))
        divisor = r.select(zero, r.each(1), divisor)
    if may_overflow:
        smallest = r.test("icmp eq", x, r.each(r.dtype.min))
        minus = r.test("icmp eq", y, r.each(-1))
        both = r.let(f"and {vector('i1', r.lanes)} {smallest}, {minus}")
        divisor = r.select(both, r.each(1), divisor)
    if not (may_be_zero and quotient):
        return r.let(f"{word} {r.type} {x}, {divisor}", last=True)
    found = r.let(f"{word} {r.type} {x}, {divisor}")
    return r.select(zero, r.each(0), found, last=True)


def _shift(r: Row, x: str, y: str) -> str:
    """A shift by an amount of the same type; outside 0 … width - 1 the result is 0."""
    right = "ashr" if r.dtype.kind == "sint" else "lshr"
    word = "shl" if r.uop.op is Ops.SHL else right
    low, high = r.uop.src[1].bounds
    if low >= 0 and high < r.dtype.bits:
        return r.let(f"{word} {r.type} {x}, {y}", last=True)
    inside = r.test("icmp ult", y, r.each(r.dtype.bits))
    amount = r.select(inside, y, r.each(0))
    shifted = r.let(f"{word} {r.type} {x}, {amount}")
    return r.select(inside, shifted, r.each(0), last=True)


def _float_neg(r: Row, x: str) -> str:
    return r.let(f"fneg {r.type} {x}", last=True)


def _same(r: Row, x: str) -> str:
    return x


def _bool_mulacc(r: Row, x: str, y: str, z: str) -> str:
    both = r.let(f"and {r.type} {x}, {y}")
    return r.let(f"or {r.type} {both}, {z}", last=True)


_SPECIAL: dict[tuple[str, Ops], Callable[..., str]] = {
    ("float", Ops.MAX): _float_max,
    ("float", Ops.SQRT): _sqrt,
    ("float", Ops.TRUNC): _trunc,
    ("float", Ops.RECIPROCAL): _reciprocal,
    ("float", Ops.NEG): _float_neg,
    ("float", Ops.MULACC): _float_mulacc,
    ("int", Ops.MAX): _int_max,
    ("int", Ops.NEG): _int_neg,
    ("int", Ops.TRUNC): _same,
    ("int", Ops.MULACC): _int_mulacc,
    ("int", Ops.CDIV): _divide,
    ("int", Ops.CMOD): _divide,
    ("int", Ops.SHL): _shift,
    ("int", Ops.SHR): _shift,
    ("bool", Ops.NEG): _same,
    ("bool", Ops.TRUNC): _same,
    ("bool", Ops.MULACC): _bool_mulacc,
}

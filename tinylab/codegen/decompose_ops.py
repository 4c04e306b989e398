"""Operations that a target lacks, by ones that it has.

x // 8 -> x >> 3;  x % 8 -> x & 7;  x // y -> cdiv(x, y), less 1 where the signs differ
a*b + c -> one fused operation, where there is one

Division by zero gives 0 and INT_MIN / -1 gives INT_MIN: CDIV and CMOD of every target keep to that.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import TYPE_CHECKING

from tinylab.codegen.fast_division import FAST_DIVISION
from tinylab.dtype import AddrSpace, dtypes
from tinylab.helpers.context import DISABLE_FAST_IDIV
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer


def _power_of_two(c: UOp) -> int | None:
    """The k of a constant 2**k."""
    if c.op is Ops.CONST and isinstance(c.arg, int) and c.arg > 0 and c.arg & (c.arg - 1) == 0:
        return int(c.arg).bit_length() - 1
    return None


# *** division that rounds down


def floordiv(x: UOp, y: UOp) -> UOp | None:
    """Quotient of integers, rounded down."""
    if not dtypes.is_int(x.dtype):
        return _float_floordiv(x, y) if dtypes.is_float(x.dtype) else x & y
    shift = _power_of_two(y)
    if shift is not None:
        shifted: UOp = x >> shift
        return shifted if shift else x
    if x.vmin >= 0 and y.vmin >= 0:
        return x.alu(Ops.CDIV, y)
    if (k := _lift_to_positive(x, y)) is not None:
        quotient: UOp = (x + int(y.arg) * k).alu(Ops.CDIV, y)
        return quotient - k
    rounded = x.alu(Ops.CDIV, y)
    rest = x.alu(Ops.CMOD, y)
    down = rest.ne(0) & (rest < 0).ne(y < 0)
    return down.where(rounded - 1, rounded)


def floormod(x: UOp, y: UOp) -> UOp | None:
    """Remainder of integers; the sign is the divisor's."""
    if not dtypes.is_int(x.dtype):
        if not dtypes.is_float(x.dtype):
            return x & y.logical_not()
        quotient = _float_floordiv(x, y)
        return x - quotient * y
    shift = _power_of_two(y)
    if shift is not None:
        masked: UOp = x & ((1 << shift) - 1)
        return masked
    if x.vmin >= 0 and y.vmin >= 0:
        return x.alu(Ops.CMOD, y)
    if (k := _lift_to_positive(x, y)) is not None:
        lifted: UOp = x + int(y.arg) * k
        return lifted.alu(Ops.CMOD, y)
    rest = x.alu(Ops.CMOD, y)
    return (rest.ne(0) & (rest < 0).ne(y < 0)).where(rest + y, rest)


def _lift_to_positive(x: UOp, y: UOp) -> int | None:
    """How often y must be added to x until it is never negative, if that is safe."""
    if y.op is not Ops.CONST or y.arg <= 0 or dtypes.is_unsigned(x.dtype):
        return None
    times = -(x.vmin // y.arg)
    most = x.vmax + times * y.arg
    return times if most <= x.dtype.max and times * y.arg <= x.dtype.max else None


def _float_floordiv(x: UOp, y: UOp) -> UOp:
    quotient = x / y
    whole = quotient.alu(Ops.TRUNC)
    return (quotient < whole).where(whole - 1.0, whole)


# *** random bits

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(x: UOp, key: UOp) -> UOp:
    """Threefry-2x32 with 20 rounds: 64 bits of counter and key to 64 random bits.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    u32, u64 = dtypes.uint32, dtypes.uint64
    a, b = x.cast(u32), (x.cast(u64) >> 32).cast(u32)
    k0, k1 = key.cast(u32), (key.cast(u64) >> 32).cast(u32)
    keys = (k0, k1, k0 ^ k1 ^ UOp.const(_PARITY, u32))
    a, b = a + keys[0], b + keys[1]
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + UOp.const(block + 1, u32)
    return (b.cast(u64) << 32) | a.cast(u64)


# *** shorter forms


def subtract(x: UOp, y: UOp) -> UOp:
    """Writes x + y * -1 as one subtraction."""
    return x.alu(Ops.SUB, y)


def divide(x: UOp, y: UOp) -> UOp:
    """Writes x * (1 / y) as one division, rounded once."""
    return x.alu(Ops.FDIV, y)


def fuse(a: UOp, b: UOp, c: UOp, u: UOp) -> UOp | None:
    """a*b + the running value of a reduction as one operation.

    No other sum: what is worked out again in another kernel has to get the same bits there.
    """
    if not dtypes.is_float(u.dtype) or u.dtype.itemsize < 4 or not is_running_value(c):
        return None
    return UOp(Ops.MULACC, u.dtype, (a, b, c))


def is_running_value(c: UOp) -> bool:
    """Whether a value is what a register holds."""
    while c.op in GroupOp.Movement or c.op is Ops.INDEX:
        c = c.src[0]
    return c.op is Ops.LOAD and c.src[0].addrspace is AddrSpace.REG


def unfuse(a: UOp, b: UOp, c: UOp) -> UOp:
    """mulacc(a, b, c) with two roundings."""
    return a * b + c


def shift_narrow_product(a: UOp, b: UOp, s: UOp, u: UOp) -> UOp | None:
    """(a * b) >> s of 64 bits in 32, where that holds the product.

    LLVM 22 shifts zeros into such a product of 16-bit numbers that is negative and is cast to 16
    bits again (llvm-project issue 218844).
    """
    low, high = dtypes.int32.min, dtypes.int32.max
    if u.dtype is not dtypes.int64 or not isinstance(s.arg, int) or s.arg < 0:
        return None
    if not all(low <= x.vmin and x.vmax <= high for x in (a, b, u.src[0])):
        return None
    product = a.cast(dtypes.int32).alu(Ops.MUL, b.cast(dtypes.int32))
    return (product >> min(s.arg, 31)).cast(dtypes.int64)


def is_minus_one(c: UOp) -> bool:
    """Whether a constant is -1."""
    return bool(c.arg == -1)


X, Y, A, B, C = UPat.var("x"), UPat.var("y"), UPat.var("a"), UPat.var("b"), UPat.var("c")

# fmt: off
_FLOOR = (
    Rule("floordiv", "x // y -> a shift, or cdiv and a correction",
         UPat(Ops.FLOORDIV, src=(X, Y)), floordiv),
    Rule("floormod", "x % y -> a mask, or cmod and a correction",
         UPat(Ops.FLOORMOD, src=(X, Y)), floormod),
)
_THREEFRY = (Rule("threefry", "threefry(x, key) -> 20 rounds of add, rotate, xor",
                  UPat(Ops.THREEFRY, src=(X, UPat.var("key"))), threefry),)
_SUB = (Rule("subtract", "x + y * -1 -> x - y",
             UPat(Ops.ADD, src=[X, UPat(Ops.MUL, src=(Y, UPat.cvar("c")))]),
             lambda x, y, c: subtract(x, y), when=is_minus_one),)
_FDIV = (Rule("divide", "x * (1/y) -> x / y",
              UPat(Ops.MUL, src=[X, UPat(Ops.RECIPROCAL, src=(Y,))]), divide),)
_SHIFTS = (Rule("shift_narrow_product", "(a*b) >> s of 64 bits -> of 32",
                UPat(Ops.SHR, src=(UPat(Ops.MUL, src=(A, B)), UPat.cvar("s")), name="u"),
                shift_narrow_product),)
_MULACC = (Rule("fuse", "a*b + acc -> mulacc(a, b, acc)",
                UPat(Ops.ADD, src=[UPat(Ops.MUL, src=(A, B)), C], name="u"), fuse),)
_UNFUSE = (Rule("unfuse", "mulacc(a, b, c) -> a*b + c",
                UPat(Ops.MULACC, src=(A, B, C)), unfuse),)
# fmt: on


@functools.cache
def _table(lacking: frozenset[Ops], native: frozenset[Ops], fast: bool) -> PatternMatcher:
    rows: list[Rule] = [*_SHIFTS, *(FAST_DIVISION if fast else ())]
    for op, rules in ((Ops.FLOORDIV, _FLOOR), (Ops.THREEFRY, _THREEFRY)):
        if op in lacking:
            rows += rules
    rows += () if Ops.MULACC in native else _UNFUSE
    for op, rules in ((Ops.SUB, _SUB), (Ops.FDIV, _FDIV), (Ops.MULACC, _MULACC)):
        if op in native:
            rows += rules
    return PatternMatcher(rows)


# All rows, for catalogues and tests.
pm_decompose_ops = PatternMatcher(
    [*_FLOOR, *_THREEFRY, *_SHIFTS, *_SUB, *_FDIV, *_MULACC, *_UNFUSE]
)


def decompositions(native: Collection[Ops]) -> PatternMatcher:
    """The rows that a target with these operations needs."""
    have = frozenset(native)
    return _table(frozenset(Ops) - have, have, not DISABLE_FAST_IDIV)


def for_target(sink: UOp, ren: Renderer) -> UOp:
    """The kernel in the operations of a target."""
    from tinylab.uop.ops import graph_rewrite

    return graph_rewrite(sink, decompositions(ren.code_for_op), name="decompose_ops")

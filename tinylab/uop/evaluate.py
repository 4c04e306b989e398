"""One elementwise operation on Python numbers, exactly as every device computes it.

Integers wrap to their dtype, a division by zero gives 0, a shift beyond the width gives 0, floats are
rounded to their dtype and NaN goes where IEEE 754 sends it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from tinylab.dtype import ConstType, DType, Invalid, PyConst, dtypes, truncate
from tinylab.opcodes import GroupOp, Ops

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_MASK = 0xFFFFFFFF


def threefry2x32(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds; counter and key are 64 bits, low word first.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    key0, key1 = key & _MASK, (key >> 32) & _MASK
    keys = (key0, key1, key0 ^ key1 ^ 0x1BD11BDA)
    low, high = (counter + key0) & _MASK, ((counter >> 32) + key1) & _MASK
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            low = (low + high) & _MASK
            high = (((high << turn) | (high >> (32 - turn))) & _MASK) ^ low
        low = (low + keys[(group + 1) % 3]) & _MASK
        high = (high + keys[(group + 2) % 3] + group + 1) & _MASK
    return high << 32 | low


def floordiv(x: int, y: int) -> int:
    """x // y, rounded down; 0 where y is 0."""
    return x // y if y else 0


def floormod(x: int, y: int) -> int:
    """x % y with the sign of y; 0 where y is 0."""
    return x % y if y else 0


def cdiv(x: int, y: int) -> int:
    """x / y, rounded toward zero as in C; 0 where y is 0.

    -7, 2  ->  -3
    """
    if not y:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def cmod(x: int, y: int) -> int:
    """The remainder of `cdiv`, with the sign of x; 0 where y is 0.

    -7, 2  ->  -1
    """
    return x - cdiv(x, y) * y if y else 0


def fdiv(x: float, y: float) -> float:
    """x / y as IEEE 754 has it: a division by zero is an infinity or NaN."""
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x) or math.isnan(y):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def safe_exp2(x: float) -> float:
    """2**x; too large is inf."""
    try:
        return math.exp2(x)
    except OverflowError:
        return math.inf


def safe_log2(x: float) -> float:
    """log2(x); -inf at 0, NaN below."""
    if x > 0:
        return math.log2(x)
    return -math.inf if x == 0 else math.nan


def safe_pow(x: float, y: float) -> float:
    """x**y; NaN where it would be complex, inf where it is too large or divides by zero."""
    try:
        power = x**y
    except ZeroDivisionError:
        odd = float(y).is_integer() and y % 2 == 1
        return math.copysign(math.inf, x) if odd else math.inf
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    return math.nan if isinstance(power, complex) else power


def larger(x: PyConst, y: PyConst) -> PyConst:
    """The larger of two numbers; NaN if either is."""
    if x != x or y != y:
        return math.nan
    return x if x > y else y


def round_toward_zero(x: PyConst) -> PyConst:
    """The integral part, in the type of x."""
    if isinstance(x, int) or math.isinf(x) or math.isnan(x):
        return x
    return math.copysign(float(math.trunc(x)), x)


def _in_word(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda x, y: shift(x, y) if 0 <= y < 64 else 0


python_alu: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.EXP2: safe_exp2,
    Ops.LOG2: safe_log2,
    Ops.SIN: lambda x: math.nan if math.isinf(x) else math.sin(x),
    Ops.SQRT: lambda x: math.nan if x < 0 else math.sqrt(x),
    Ops.RECIPROCAL: lambda x: fdiv(1.0, x),
    Ops.NEG: operator.neg,
    Ops.TRUNC: round_toward_zero,
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.FDIV: fdiv,
    Ops.POW: safe_pow,
    Ops.MAX: larger,
    Ops.CDIV: cdiv,
    Ops.CMOD: cmod,
    Ops.FLOORDIV: floordiv,
    Ops.FLOORMOD: floormod,
    Ops.CMPLT: operator.lt,
    Ops.CMPNE: operator.ne,
    Ops.CMPEQ: operator.eq,
    Ops.XOR: operator.xor,
    Ops.OR: operator.or_,
    Ops.AND: operator.and_,
    Ops.SHL: _in_word(operator.lshift),
    Ops.SHR: _in_word(operator.rshift),
    Ops.THREEFRY: threefry2x32,
    Ops.WHERE: lambda c, x, y: x if c else y,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


def exec_alu(
    op: Ops, dtype: DType, operands: Sequence[ConstType], truncate_output: bool = True
) -> ConstType:
    """The value of an operation whose result has this dtype.

    ADD, uint8, (200, 100)  ->  44

    Invalid in, Invalid out, except that a selection only looks at what it selects.
    """
    if op is Ops.WHERE:
        if operands[0] is Invalid:
            return Invalid
        picked = operands[1] if operands[0] else operands[2]
        return picked if picked is Invalid else _rounded(picked, dtype, truncate_output)
    if any(v is Invalid for v in operands):
        return Invalid
    # ConstFloat compares by bits, IEEE 754 by value: leave the subclass here.
    values = [float(v) if isinstance(v, float) else v for v in operands]
    if dtype.kind == "float" and op not in GroupOp.Comparison:
        values = [_as_float(v) for v in values]
    if op in (Ops.SHL, Ops.SHR) and values[1] >= dtype.bits:  # type: ignore[operator]  # no Invalid here
        return 0
    return _rounded(python_alu[op](*values), dtype, truncate_output)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _rounded(value: Any, dtype: DType, truncate_output: bool) -> ConstType:
    result: ConstType = truncate[dtype](value) if truncate_output else value
    return result


def convert(value: ConstType, dtype: DType) -> ConstType:
    """A constant cast to a dtype: integers wrap, a float out of an integer's range saturates.

    300, uint8  ->  44;  300.0, uint8  ->  255;  nan, int32  ->  0
    """
    if value is Invalid or isinstance(value, type(Invalid)):
        return value
    if dtype.kind == "bool":
        return bool(value)
    if dtype.kind == "float":
        return _rounded(_as_float(value), dtype, True)
    if not isinstance(value, float):
        return _rounded(int(value), dtype, True)
    if value != value:
        return 0
    if dtype is dtypes.weakint and not math.isinf(value):
        return int(value)
    return int(dtype.max if value >= dtype.max else dtype.min if value <= dtype.min else value)


@functools.cache
def identity_element(op: Ops, dtype: DType) -> PyConst:
    """What leaves a value as it is under the operation, and so starts its reduction.

    MAX, int8  ->  -128
    """
    if op is Ops.ADD:
        return False if dtype.kind == "bool" else 0.0 if dtype.kind == "float" else 0
    if op is Ops.MUL:
        return True if dtype.kind == "bool" else 1.0 if dtype.kind == "float" else 1
    if op is Ops.MAX:
        return dtype.min
    raise KeyError(f"{op} has no identity element")

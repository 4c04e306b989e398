"""What an operation computes, on Python numbers: used to fold constants and by interpreters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinylab.dtype import DType, Invalid, PyConst, dtypes, saturate, to_float, truncate
from tinylab.errors import SymbolicError
from tinylab.opcodes import Ops


def cdiv(x: int, y: int) -> int:
    """Quotient toward zero; division by zero gives 0."""
    if y == 0:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def cmod(x: int, y: int) -> int:
    """Remainder with the sign of x; by zero gives 0."""
    return 0 if y == 0 else x - cdiv(x, y) * y


def floordiv(x: Any, y: Any) -> Any:
    """Quotient toward minus infinity; an integer divided by zero gives 0."""
    if isinstance(x, float) or isinstance(y, float):
        return math.floor(x / y) if y else _divide(x, y)
    return 0 if y == 0 else x // y


def floormod(x: Any, y: Any) -> Any:
    """Remainder with the sign of y; an integer by zero gives 0."""
    if isinstance(x, float) or isinstance(y, float):
        return math.nan if y == 0 or math.isinf(x) else x % y
    return 0 if y == 0 else x % y


def _divide(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or x != x:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _nan_where_undefined(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*operands: Any) -> Any:
        try:
            return function(*operands)
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf

    return guarded


def _log2(x: float) -> float:
    if x > 0:
        return math.inf if math.isinf(x) else math.log2(x)
    return -math.inf if x == 0 else math.nan


def safe_pow(x: Any, y: Any) -> Any:
    """X to the power y; a complex or undefined result is NaN, of floats as IEEE 754 has it."""
    try:
        found = math.pow(x, y) if isinstance(x, float) or isinstance(y, float) else x**y
    except ZeroDivisionError:
        return math.inf
    except (ValueError, OverflowError):
        if x < 0 and y % 1 != 0:
            return math.nan
        odd = y % 2 == 1 and y % 1 == 0  # -1 + 1e-16 leaves 1 of 2, rounded
        return math.copysign(math.inf, x) if odd else math.inf
    return math.nan if isinstance(found, complex) else found


safe_exp2 = _nan_where_undefined(lambda x: 2.0**x)


def _max(x: Any, y: Any) -> Any:
    if isinstance(x, float) and x == y == 0:
        return x + y  # 0.0 unless both are -0.0
    return x if x != x else y if y != y else max(x, y)


def _shift_left(x: int, y: int) -> int:
    return x << y if 0 <= y < 64 else 0


def _shift_right(x: int, y: int) -> int:
    return x >> y if 0 <= y < 64 else 0


def threefry2x32(counter: int, key: int) -> int:
    """Twenty rounds of Threefry-2x32 on 64-bit counter and key, the low half first.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    mask = 0xFFFFFFFF
    keys = [key & mask, key >> 32 & mask]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x0, x1 = (counter + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x0 = (x0 + x1) & mask
            x1 = (x1 << turn | x1 >> (32 - turn)) & mask
            x1 ^= x0
        x0 = (x0 + keys[(block + 1) % 3]) & mask
        x1 = (x1 + keys[(block + 2) % 3] + block + 1) & mask
    return x1 << 32 | x0


python_alu: dict[Ops, Callable[..., Any]] = {
    Ops.EXP2: safe_exp2,
    Ops.LOG2: _log2,
    Ops.SIN: _nan_where_undefined(math.sin),
    Ops.COS: _nan_where_undefined(math.cos),
    Ops.SQRT: _nan_where_undefined(math.sqrt),
    Ops.RECIPROCAL: lambda x: _divide(1.0, x),
    Ops.NEG: lambda x: -x,
    Ops.TRUNC: lambda x: x if math.isinf(x) or math.isnan(x) else math.copysign(math.trunc(x), x),
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.FDIV: _divide,
    Ops.POW: safe_pow,
    Ops.MAX: _max,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.XOR: lambda x, y: x ^ y,
    Ops.OR: lambda x, y: x | y,
    Ops.AND: lambda x, y: x & y,
    Ops.CDIV: cdiv,
    Ops.CMOD: cmod,
    Ops.FLOORDIV: floordiv,
    Ops.FLOORMOD: floormod,
    Ops.CMPLT: lambda x, y: x < y,
    Ops.CMPNE: lambda x, y: x != y,
    Ops.CMPEQ: lambda x, y: x == y,
    Ops.THREEFRY: threefry2x32,
    Ops.WHERE: lambda c, x, y: x if c else y,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


def exec_alu(op: Ops, dtype: DType, operands: Sequence[Any], truncate_output: bool = True) -> Any:
    """The value of an operation on Python numbers, rounded or wrapped to the dtype.

    An operation with Invalid as an operand is Invalid (WHERE: only when it is chosen).
    """
    if op is not Ops.WHERE and any(o is Invalid for o in operands):
        return Invalid
    # ConstFloat compares by its bits, arithmetic by value: NaN != NaN and 0.0 == -0.0.
    operands = [float(o) if isinstance(o, float) else o for o in operands]
    if op is Ops.MULACC and dtype.kind == "float":
        operands = [float(o) for o in operands]
    if op in (Ops.SHL, Ops.SHR) and not 0 <= operands[1] < dtype.bits:
        return 0
    found = python_alu[op](*operands)
    if found is Invalid or not truncate_output:
        return found
    return convert(found, dtype)


def convert(value: PyConst, dtype: DType) -> PyConst:
    """A value cast to a type: integers wrap, floats round, floats to integers saturate."""
    if dtypes.is_int(dtype) and isinstance(value, float):
        return saturate(value, dtype)
    if dtype.kind == "float" and not isinstance(value, float):
        value = to_float(value, dtype)
    result: PyConst = truncate[dtype](value)
    return result


def identity_element(op: Ops, dtype: DType) -> PyConst:
    """What a reduction starts with: 0, 1, or the type's smallest value."""
    if op is Ops.ADD:
        return convert(0, dtype)
    if op is Ops.MUL:
        return convert(1, dtype)
    if op is Ops.MAX:
        return dtype.lowest
    raise SymbolicError(f"{op} has no identity element", help="ADD, MUL and MAX have one")

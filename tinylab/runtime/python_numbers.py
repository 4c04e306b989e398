"""The numbers of the PYTHON device: what its generated code calls, one exact function per task."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tinylab.dtype import DType, dtypes, from_storage_scalar, saturate, to_storage_scalar, truncate
from tinylab.errors import BoundsError
from tinylab.uop.evaluate import python_alu

_EXACT = 1 << 53


def float32(x: float) -> float:
    """The nearest float32; too large is an infinity."""
    return ctypes.c_float(x).value


ROUND: dict[DType, Callable[[Any], Any]] = {**truncate, dtypes.float32: float32}


def int_to_float(x: int) -> float:
    """An integer as a float from which any smaller float type is rounded correctly.

    Beyond 2**53 the last bit says whether anything was cut off (rounding to odd).
    """
    if -_EXACT <= x <= _EXACT:
        return float(x)
    return float((x & ~0x7FF) | (0x800 if x & 0x7FF else 0))


def caster(old: DType, new: DType) -> Callable[[Any], Any]:
    """The conversion between two types: ints wrap, floats round once, float to int saturates."""
    if new.kind == "bool":
        return bool
    if new.kind == "float":
        if old.kind == "float":
            return ROUND[new]
        if new is dtypes.float64 or old.itemsize < 8:
            return lambda x: ROUND[new](float(x))
        return lambda x: ROUND[new](int_to_float(int(x)))
    if old.kind == "float":
        return lambda x: saturate(x, new)
    return truncate[new]


def storage_format(dtype: DType) -> str:
    """The letter of `memoryview.cast`: halves are read as their 16 bits."""
    if dtype is dtypes.float16 or dtype is dtypes.bfloat16:
        return "H"
    return dtype.fmt or "B"


def decoder(dtype: DType) -> Callable[[Any], Any] | None:
    """From what a memoryview gives to a number; None where that is the number."""
    if dtype is dtypes.float16:
        return lambda bits: struct.unpack("<e", struct.pack("<H", bits))[0]
    if dtype.fmt is None:
        return lambda bits: from_storage_scalar(bits, dtype)
    return None


def encoder(dtype: DType) -> Callable[[Any], Any] | None:
    """From a number to what a memoryview takes; None where that is the number."""
    if dtype is dtypes.float16:
        return lambda x: struct.unpack("<H", struct.pack("<e", x))[0]
    if dtype.fmt is None:
        return lambda x: to_storage_scalar(x, dtype)
    return None


def bitcaster(old: DType, new: DType) -> Callable[[Sequence[Any]], list[Any]]:
    """The same bits as numbers of another type, for a whole list."""
    encode, decode = encoder(old), decoder(new)
    source, target = storage_format(old), storage_format(new)

    def convert(values: Sequence[Any]) -> list[Any]:
        raw = [encode(v) for v in values] if encode else values
        data = struct.pack(f"<{len(raw)}{source}", *raw)
        count = len(data) // struct.calcsize(target)
        found = list(struct.unpack(f"<{count}{target}", data))
        return [decode(v) for v in found] if decode else found

    return convert


def out_of_bounds(kind: str, name: str, index: int, size: int, kernel: str) -> NoReturn:
    """Raises BoundsError (an IndexError) that says which access went where."""
    raise BoundsError(
        f"{kind} out of bounds: index {index} of {name}, which has {size} elements, in {kernel}"
    )


ALU: dict[str, Callable[..., Any]] = {op.name: function for op, function in python_alu.items()}

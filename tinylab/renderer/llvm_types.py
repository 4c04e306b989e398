"""LLVM's names for element types and constants, and what a CPU can do without a helper function."""

from __future__ import annotations

import functools
import math
import struct
from fractions import Fraction
from typing import NamedTuple

from tinylab.dtype import ConstType, DType, Invalid, dtypes, truncate
from tinylab.errors import RenderError
from tinylab.target import CPUArch, cpu_flags, vector_bytes

# Registers. Half types are held as their 16 bits: LLVM's own `half` and `bfloat` call runtime
# helpers that a JIT lacks, so their conversions are written out (llvm_convert.py).
_TYPES = {
    dtypes.bool: "i1",
    dtypes.float16: "i16",
    dtypes.bfloat16: "i16",
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.weakint: "i64",
    dtypes.weakfloat: "double",
    **{d: f"i{d.itemsize * 8}" for d in dtypes.ints},
}
SUPPORTED = frozenset((dtypes.bool, dtypes.float16, dtypes.bfloat16, *dtypes.ints)) | {
    dtypes.float32,
    dtypes.float64,
}
SMALL_FLOATS = (dtypes.float16, dtypes.bfloat16)


def scalar_type(dtype: DType) -> str:
    """The type of one element in a register: bool i1, float16 i16 (its bits), uint8 i8.

    Raises: RenderError for a type that LLVM code is not written for (fp8).
    """
    if dtype not in _TYPES:
        raise RenderError(f"LLVM code has no {dtype}", help="cast to float16 or float32 first")
    return _TYPES[dtype]


def memory_type(dtype: DType) -> str:
    """The type of one element in memory: as in a register, but a bool fills a byte."""
    return "i8" if dtype is dtypes.bool else scalar_type(dtype)


def vector(scalar: str, lanes: int) -> str:
    """float, 8 -> <8 x float>;  float, 1 -> float."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(scalar: str, lanes: int) -> str:
    """How an intrinsic's name ends: float, 8 -> v8f32;  i32, 1 -> i32."""
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


def splat(scalar: str, literal: str, lanes: int) -> str:
    """A literal in each lane, as a constant: i32, 7, 4 -> splat (i32 7)."""
    if lanes == 1:
        return literal
    return "zeroinitializer" if literal == "0" else f"splat ({scalar} {literal})"


def constant(value: ConstType, dtype: DType) -> str:
    """An exact literal: 2.5 -> 2.5, float32 0.1 -> 0x3FB99999A0000000, float16 1.0 -> 15360."""
    if value is Invalid:
        raise RenderError("an Invalid index is used", help="loads and stores of it are gated first")
    if dtype is dtypes.bool:
        return "true" if value else "false"
    if dtype.kind != "float":
        return str(int(value))  # type: ignore[arg-type]
    exact = float(truncate[dtype](float(value)))  # type: ignore[arg-type]
    if dtype is dtypes.float16:
        return str(struct.unpack("<H", struct.pack("<e", exact))[0])
    if dtype is dtypes.bfloat16:
        return str(struct.unpack("<I", struct.pack("<f", exact))[0] >> 16)
    return _float_literal(exact)


def _float_literal(value: float) -> str:
    """Decimal where it is short and exact, else the 64 bits (also for float, as LLVM wants)."""
    text = repr(value)
    if math.isfinite(value) and "e" not in text and Fraction(text) == Fraction(value):
        return text
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class CpuFeatures(NamedTuple):
    """What decides the shape of the text for a CPU."""

    vector_bytes: int  # of a native register
    fused: bool  # multiply-add in one instruction
    half_convert: bool  # float <-> half in one instruction
    round: bool  # trunc without a call to libm


@functools.cache
def cpu_features(arch: str) -> CpuFeatures:
    """Features of an arch string (`target.CPUArch`); unknown processors count as the baseline.

    "x86_64,native" -> what this machine has;  "x86_64,x86-64" -> 16-byte vectors, nothing else
    """
    machine, cpu, changes = CPUArch.parse(arch)
    width = vector_bytes(arch)
    if machine == "aarch64":
        return CpuFeatures(width, True, True, True)
    if machine != "x86_64":
        return CpuFeatures(width, False, False, False)
    has = set(cpu_flags()) if cpu == "native" else set()
    if cpu != "native" and vector_bytes(f"{machine},{cpu}") > 16:
        has |= {"fma", "f16c", "sse4_1"}
    for change in changes:
        name = change.lstrip("+-").replace(".", "_")
        (has.discard if change.startswith("-") else has.add)(name)
    return CpuFeatures(width, "fma" in has, "f16c" in has, "sse4_1" in has)

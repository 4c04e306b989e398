"""Linear programs made by hand, and run on LLVM (this CPU and a generic one) and on PYTHON."""

from __future__ import annotations

import ctypes
import math
import platform
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tinylab.device import TinyELF
from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.renderer.llvmir import LLVMRenderer
from tinylab.renderer.python import PythonRenderer
from tinylab.runtime.compilers.elf import undefined_symbols
from tinylab.runtime.compilers.llvm import Linked, LLVMCompiler
from tinylab.runtime.ops_python import PythonCompiler, PythonProgram
from tinylab.uop.args import ParamArg, RangeArg
from tinylab.uop.build import shape_to_shape_arg
from tinylab.uop.ops import AxisType, KernelInfo, Ops, UOp

HOST = ""
GENERIC = "x86_64,x86-64"
ARCHES = [
    pytest.param(HOST, id="host"),
    pytest.param(
        GENERIC,
        id="generic",
        marks=pytest.mark.skipif(
            platform.machine().lower() not in ("x86_64", "amd64"),
            reason="code for a generic x86-64 runs on x86-64 only",
        ),
    ),
]
TYPES = (
    dtypes.bool,
    *dtypes.sints,
    *dtypes.uints,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
)


# *** building


def index(value: int) -> UOp:
    return UOp.const(value, dtypes.int32)


def param(slot: int, size: int, dtype: DType) -> UOp:
    return UOp(Ops.PARAM, dtype, (shape_to_shape_arg((size,)),), ParamArg(slot, dtype))


def variable(name: str, lo: int, hi: int, dtype: DType = dtypes.int32) -> UOp:
    arg = ParamArg(-1, dtype, (lo, hi), name=name, addrspace=AddrSpace.ALU)
    return UOp(Ops.PARAM, dtype, (shape_to_shape_arg(()),), arg)


def register(shape: tuple[int, ...], dtype: DType, slot: int = 0) -> UOp:
    arg = ParamArg(slot, dtype, addrspace=AddrSpace.REG)
    return UOp(Ops.BUFFER, dtype, (shape_to_shape_arg(shape),), arg)


def window(buffer: UOp, offset: UOp, size: int) -> UOp:
    return UOp(Ops.SHRINK, None, (buffer, offset, UOp.const(size)))


class Program:
    """Collects lines in order; each method adds a line and returns its uop."""

    def __init__(self, name: str = "test_kernel") -> None:
        self.name = name
        self.lines: list[UOp] = []

    def add(self, u: UOp) -> UOp:
        if u not in self.lines:
            self.lines.append(u)
        return u

    def op(self, op: Ops, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
        return self.add(UOp(op, dtype, src, arg))

    def load(self, target: UOp, *rest: UOp) -> UOp:
        self.add(target)
        return self.op(Ops.LOAD, target, *rest)

    def store(self, target: UOp, value: UOp, *gate: UOp) -> UOp:
        self.add(target)
        return self.op(Ops.STORE, target, value, *gate)

    def loop(
        self,
        count: int | UOp,
        axis: int = 0,
        kind: AxisType = AxisType.LOOP,
        dtype: DType = dtypes.int32,
    ) -> UOp:
        end = UOp.const(count, dtype) if isinstance(count, int) else count
        return self.add(UOp(Ops.RANGE, dtype, (end,), RangeArg((axis, kind))))

    def end(self, effect: UOp, *ranges: UOp) -> UOp:
        return self.op(Ops.END, effect, *ranges)

    def done(self) -> list[UOp]:
        return [*self.lines, UOp(Ops.SINK, None, (self.lines[-1],), KernelInfo(self.name))]


# *** running


def run_llvm(
    lines: Sequence[UOp],
    *arrays: np.ndarray,
    arch: str = HOST,
    vals: Sequence[int] = (),
    threads: int = 1,
) -> str:
    """Compile and call; the object must need no function from outside. The text is returned."""
    text = LLVMRenderer(f"CPU:LLVM:{arch}").render(lines)
    obj = LLVMCompiler(arch).compile(text)
    helpers = set(undefined_symbols(obj)) - {"memcpy", "memset"}
    assert not helpers, f"LLVM calls {helpers}, which a JIT may not have"
    linked = Linked(obj, lines[-1].arg.function_name)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        linked[lines[-1].arg.function_name]
    )
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
    values = (ctypes.c_int64 * max(1, len(vals)))(*vals)
    for core in range(threads):
        function(ctypes.addressof(pointers), ctypes.addressof(values), core)
    return text


def run_python(
    lines: Sequence[UOp],
    *arrays: np.ndarray,
    vals: Sequence[int | None] = (),
    global_size: Sequence[int] = (1, 1, 1),
    local_size: Sequence[int] | None = None,
) -> str:
    text = PythonRenderer().render(lines)
    program = PythonProgram(None, TinyELF(PythonCompiler().compile(text), lines[-1].arg.name))  # type: ignore[arg-type]
    views = [memoryview(a.reshape(-1).view(np.uint8)) for a in arrays]
    program(*views, global_size=global_size, local_size=local_size, vals=vals)
    return text


def run_everywhere(
    lines: Sequence[UOp], *arrays: np.ndarray, vals: Sequence[int] = ()
) -> list[np.ndarray]:
    """The first array as each way of running fills it, from equal starts."""
    found = []
    for arch in (p.values[0] for p in ARCHES if not (p.marks and p.marks[0].args[0])):
        copies = [a.copy() for a in arrays]
        run_llvm(lines, *copies, arch=str(arch), vals=vals)
        found.append(copies[0])
    copies = [a.copy() for a in arrays]
    run_python(lines, *copies, vals=vals)
    return [*found, copies[0]]


# *** numbers, written apart from the package's


def numpy_type(dtype: DType) -> np.dtype:
    """How an array of the type is stored; bfloat16 as its bits."""
    return np.dtype(np.uint16) if dtype is dtypes.bfloat16 else np.dtype(dtype.fmt)


def to_array(values: Sequence[Any], dtype: DType) -> np.ndarray:
    if dtype is dtypes.bfloat16:
        return np.array([bfloat_bits(v) for v in values], np.uint16)
    return np.array(values, numpy_type(dtype))


def from_array(array: np.ndarray, dtype: DType) -> list[Any]:
    """Python numbers, exact."""
    if dtype is dtypes.bfloat16:
        return [bfloat_value(int(b)) for b in array]
    return array.astype(np.float64).tolist() if dtype is dtypes.float16 else array.tolist()


def bfloat_value(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def bfloat_bits(value: float) -> int:
    """Of a value that bfloat16 has."""
    if math.isnan(value):
        return 0x7FC0
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


_LAYOUT = {
    dtypes.float16: (5, 10),
    dtypes.bfloat16: (8, 7),
    dtypes.float32: (8, 23),
    dtypes.float64: (11, 52),
}


def nearest(value: float | int | Fraction, dtype: DType) -> float:
    """The value of a float type nearest to an exact number; ties to even; too large is inf."""
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value) or value == 0.0):
        return value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    exponent_bits, mantissa = _LAYOUT[dtype]
    bias = (1 << (exponent_bits - 1)) - 1
    size = abs(exact)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** e:
        e -= 1
    unit = Fraction(2) ** (max(e, 1 - bias) - mantissa)
    steps = abs(exact) / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    found = whole * unit
    if found >= 2 ** (bias + 1):
        return math.inf if exact > 0 else -math.inf
    return float(found) if exact > 0 else -float(found)


def wrap(value: int, dtype: DType) -> int:
    bits = dtype.itemsize * 8
    low = value % (1 << bits)
    return low - (1 << bits) if dtype.kind == "sint" and low >> (bits - 1) else low


def converted(value: Any, new: DType) -> Any:
    """A number cast to a type, by the rules of the language."""
    if new is dtypes.bool:
        return bool(value != 0)
    if new.kind == "float":
        return nearest(value if isinstance(value, float) else int(value), new)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return new.max if value > 0 else new.min
        return max(new.min, min(new.max, math.trunc(value)))
    return wrap(int(value), new)


def same(found: Any, wanted: Any) -> bool:
    """Equal, with the sign of zero; NaN is NaN."""
    if isinstance(wanted, float):
        if math.isnan(wanted):
            return math.isnan(found)
        return bool(found == wanted) and math.copysign(1, found) == math.copysign(1, wanted)
    return bool(found == wanted)


def edges(dtype: DType) -> list[Any]:
    """Values at which something may go wrong."""
    if dtype is dtypes.bool:
        return [False, True]
    if dtype.kind != "float":
        lo, hi = int(dtype.min), int(dtype.max)
        near = [0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 256, 2047, 2049, 65504, 65519, 65520, 65535]
        near += [
            (1 << n) + d
            for n in (8, 11, 16, 23, 24, 25, 31, 32, 52, 53, 54, 62)
            for d in (-1, 0, 1)
        ]
        # Ties of float32 and bfloat16 that only the last bit decides.
        near += [(1 << 60) + (1 << 36) + d for d in (-1, 0, 1)]
        near += [(1 << 62) + (1 << 54) + d for d in (-1, 0, 1)] + [(1 << 30) + (1 << 22) + 1]
        both = [*near, *(-n for n in near), lo, lo + 1, hi - 1, hi]
        return list(dict.fromkeys(v for v in both if lo <= v <= hi))
    tiny = [
        5e-324,
        1e-310,
        2**-149,
        2**-150,
        2**-151,
        2**-126,
        2**-133,
        2**-134,
        2**-24,
        2**-25,
        2**-14,
    ]
    tiny += [2**-25 * (1 + 2**-30), 2**-24 * 1.5, 6.1e-5, 1e-8, 3e-41]
    plain = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.5,
        0.1,
        3.999,
        127.9,
        128.5,
        255.9,
        256.5,
        1e5,
        65504.0,
        65519.99,
        65520.0,
    ]
    # Between two halves, and a little more than fits float32: double rounding would go wrong.
    plain += [
        1 + 2**-11,
        1 + 2**-11 + 2**-40,
        1 + 3 * 2**-11,
        1 + 2**-8 + 2**-40,
        1 + 2**-8,
        1 + 3 * 2**-8,
    ]
    plain += [1 + 2**-11 - 2**-40, 1 + 2**-24 + 2**-50, 2**-15 * (1 + 2**-10) + 2**-50]
    huge = [
        2.0**31,
        2.0**31 - 1,
        2.0**32,
        2.0**63,
        2.0**64,
        2.0**53 + 2,
        1e30,
        3.4e38,
        3.39e38,
        1e300,
    ]
    values = [*tiny, *plain, *huge, math.inf]
    both = [*values, *(-v for v in values), math.nan]
    rounded = [nearest(v, dtype) for v in both]
    return [v for i, v in enumerate(rounded) if not any(same(v, w) for w in rounded[:i])]

"""Whether two runs of a kernel on the same inputs agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.profiler.inputs import params, size_of_axis
from tinylab.trace.record import KernelRecord

if TYPE_CHECKING:
    import numpy as np

    from tinylab.dtype import DType
    from tinylab.uop.ops import UOp

# Relative rounding of one operation, and how often an operation may differ by it.
_ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_OPERATIONS = 16


@dataclass(frozen=True)
class Difference:
    """How far two results are apart, and whether rounding explains it."""

    largest: float = 0.0
    within: bool = True
    message: str = ""


def as_numbers(data: bytes, dtype: DType) -> np.ndarray[Any, Any]:
    """The elements of a buffer as numpy numbers."""
    import numpy as np

    if dtype is dtypes.bfloat16:
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtypes.is_float(dtype) and dtype.itemsize > 1:
        return np.frombuffer(data, f"f{dtype.itemsize}")
    if dtype is dtypes.bool or dtype.itemsize == 1:
        return np.frombuffer(data, np.uint8)
    sort = "u" if dtypes.is_unsigned(dtype) else "i"
    return np.frombuffer(data, f"{sort}{dtype.itemsize}")


def reduce_length(ast: UOp) -> int:
    """How many elements go into one element of the result."""
    ranges = [
        u
        for u in ast.toposort()
        if u.op is Ops.RANGE and u.arg[-1] in (AxisType.REDUCE, AxisType.GROUP_REDUCE)
    ]
    return math.prod(size_of_axis(r.src[0].vmax) for r in ranges)


def shaken(kernel: KernelRecord, inputs: dict[int, bytes]) -> dict[int, bytes]:
    """The inputs with each float moved by one rounding, up or down; all else stays."""
    found = dict(inputs)
    for slot, param in params(kernel).items():
        if param.dtype.name in _ROUNDING and slot in inputs:
            found[slot] = _shaken_bytes(inputs[slot], param.dtype, slot)
    return found


def _shaken_bytes(data: bytes, dtype: DType, seed: int) -> bytes:
    import numpy as np

    values = as_numbers(data, dtype)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        moved = values.astype(np.float64) * (1 + signs * _ROUNDING[dtype.name])
        if dtype is dtypes.bfloat16:  # to the nearest: half of what is cut off is added first
            return (
                ((moved.astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype("u2").tobytes()
            )
        return moved.astype(values.dtype).tobytes()


def compare(
    kernel: KernelRecord,
    expected: dict[int, bytes],
    found: dict[int, bytes],
    moved: dict[int, bytes] | None = None,
) -> Difference:
    """Whether two results agree: integers exactly, floats up to the rounding of their sums.

    Outputs are by position among the kernel's buffers, as the worker gives them. moved: the
    expected ones from `shaken` inputs. Another order of operations is as good as the same order on
    inputs a few roundings away (Wilkinson's backward error), so where terms cancel, how far those
    move the result tells what rounding may do.
    """
    slots = list(params(kernel).items())
    length = reduce_length(kernel.ast) if kernel.ast is not None else 1
    worst = Difference()
    for position, data in expected.items():
        slot, param = slots[position]
        near = (moved or {}).get(position)
        difference = _differ(slot, param.dtype, data, found.get(position, b""), length, near)
        if not difference.within:
            return difference
        if difference.largest >= worst.largest:
            worst = difference
    return worst


def _differ(
    slot: int,
    dtype: DType,
    expected: bytes,
    found: bytes,
    length: int,
    moved: bytes | None = None,
) -> Difference:
    import numpy as np

    a, b = as_numbers(expected, dtype), as_numbers(found, dtype)
    if not (dtypes.is_float(dtype) and dtype.itemsize > 1):
        wrong = np.flatnonzero(a != b)
        gap = float(np.max(np.abs(a.astype(float) - b.astype(float)), initial=0.0))
        return _verdict(slot, wrong, a, b, gap)
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap_each = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap_each[same] = 0.0
    finite = np.abs(a[np.isfinite(a)])
    # A sum's rounding grows with the root of its length and goes by the size of its terms, which
    # the largest result stands for.
    scale = float(np.max(finite, initial=0.0)) if length > 1 else 0.0
    rounding = _ROUNDING.get(dtype.name, 2.0**-23)
    shift = 0.0 if moved is None else _typical_shift(a, as_numbers(moved, dtype))
    near = rounding * _OPERATIONS * np.abs(np.where(np.isfinite(a), a, 0.0))
    allowed = near + 4 * math.sqrt(length) * (rounding * scale + shift)
    wrong = np.flatnonzero(~same & ~(gap_each <= allowed))
    largest = float(np.max(gap_each[np.isfinite(gap_each)], initial=0.0))
    return _verdict(slot, wrong, a, b, largest)


def _typical_shift(a: Any, moved: Any) -> float:
    """How far most elements moved; a comparison that turned over moves a few of them much more."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        gaps = np.abs(moved.astype(np.float64) - a)
    gaps = gaps[np.isfinite(gaps)]
    return float(np.quantile(gaps, 0.9)) if len(gaps) else 0.0


def _verdict(slot: int, wrong: Any, a: Any, b: Any, gap: float) -> Difference:
    if not len(wrong):
        return Difference(gap)
    first = int(wrong[0])
    message = (
        f"{len(wrong)} of {len(a)} elements of buffer {slot} differ: "
        f"element {first} is {b[first]!s}, not {a[first]!s}"
    )
    return Difference(gap, False, message)

"""Which types a target lacks, or is said to lack."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tinylab.dtype import DType, dtypes
from tinylab.errors import CodegenError
from tinylab.helpers.context import EMULATED_DTYPES

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer
    from tinylab.opcodes import Ops
    from tinylab.uop.ops import UOp

LONGS = frozenset({dtypes.int64, dtypes.uint64})
IN_WORDS = LONGS | {dtypes.float64}
NARROW = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})
# What the others are computed in.
NEEDED = (dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32)


def foreign_dtypes(ren: Renderer) -> frozenset[DType]:
    """Types that the target lacks, or is said to lack by EMULATED_DTYPES."""
    supported = set(ren.supported_dtypes())
    return frozenset(d for d in dtypes.all if d not in supported) | _said_to_lack()


def _said_to_lack() -> frozenset[DType]:
    return frozenset(d for d in EMULATED_DTYPES.tolist(dtypes) if isinstance(d, DType))


def emulated_dtypes(ren: Renderer) -> frozenset[DType]:
    """Types that the target lacks, for a kernel that uses some of them.

    Raises: CodegenError if the target lacks a type that emulation computes in.
    """
    foreign = foreign_dtypes(ren)
    for d in NEEDED:
        if d in foreign:
            others = ", ".join(n.name for n in NEEDED[:-1])
            raise CodegenError(
                f"{ren.target.device} has no {d.name}, and it cannot be emulated: other types are"
                f" computed in {others} and {NEEDED[-1].name}, so a device needs these four",
                help=f"take {d.name} out of EMULATED_DTYPES"
                if d in _said_to_lack()
                else "cast to a type that the device has",
            )
    return foreign


def _uses(sink: UOp, ren: Renderer, those: Collection[DType]) -> bool:
    foreign = foreign_dtypes(ren).intersection(those)
    return bool(foreign) and any(u.dtype in foreign for u in sink.toposort())


def has_foreign_floats(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel uses a small float, or a type that emulation needs, that is lacking."""
    return _uses(sink, ren, (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16, *NEEDED))


def has_foreign_words(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel uses a 64-bit type that the target lacks."""
    return _uses(sink, ren, IN_WORDS)


def has_foreign_narrow(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel uses an integer of 8 or 16 bits that the target lacks."""
    return _uses(sink, ren, NARROW)


def computes_doubles(op: Ops, sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel has an operation on a float64 that the target lacks."""
    if dtypes.float64 not in foreign_dtypes(ren):
        return False
    return any(u.op is op and u.dtype is dtypes.float64 for u in sink.toposort())

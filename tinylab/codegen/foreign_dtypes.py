"""Which types a target lacks, or is said to lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import DType, dtypes
from tinylab.helpers.context import EMULATED_DTYPES

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer
    from tinylab.opcodes import Ops
    from tinylab.uop.ops import UOp

LONGS = frozenset({dtypes.int64, dtypes.uint64})
IN_WORDS = LONGS | {dtypes.float64}


def foreign_dtypes(ren: Renderer) -> frozenset[DType]:
    """Types that the target lacks, or is said to lack by EMULATED_DTYPES."""
    supported = set(ren.supported_dtypes())
    emulated = {d for d in EMULATED_DTYPES.tolist(dtypes) if isinstance(d, DType)}
    return frozenset(d for d in dtypes.all if d not in supported) | emulated


def has_foreign_dtypes(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel uses a type that the target lacks."""
    foreign = foreign_dtypes(ren)
    return bool(foreign) and any(u.dtype in foreign for u in sink.toposort())


def has_foreign_words(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel uses a 64-bit type that the target lacks."""
    foreign = foreign_dtypes(ren) & IN_WORDS
    return bool(foreign) and any(u.dtype in foreign for u in sink.toposort())


def computes_doubles(op: Ops, sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel has an operation on a float64 that the target lacks."""
    if dtypes.float64 not in foreign_dtypes(ren):
        return False
    return any(u.op is op and u.dtype is dtypes.float64 for u in sink.toposort())

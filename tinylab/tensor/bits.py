"""Bits read as another element type: a view of memory, found again in the graph that reads it."""

from __future__ import annotations

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.tensor.core import TensorCore
from tinylab.uop.ops import UOp

# A change of size takes at most so many nodes.
_DEPTH = 8


def as_bits(x: UOp, dtype: DType) -> UOp:
    """The bits of a value read as another type; the last axis takes up a change of size."""
    return TensorCore._from_uop(x).bitcast(dtype).uop


def bits_below(view: UOp) -> UOp | None:
    """The value whose bits a node reads as another type; None for any other node.

    A change of size is arithmetic: it is one of a value if the same, made again, is this node.
    """
    parts = view.src[0] if view.op is Ops.BITCAST else view
    split = parts.op is Ops.RESHAPE and parts.src[0].op is Ops.CAST
    if split or parts.op is Ops.REDUCE:
        x = parts
        for _ in range(_DEPTH):
            if not x.src:
                break
            x = x.src[0]
            if _same_bytes(x, view) and as_bits(x, view.dtype) is view:
                return x
    return view.src[0] if view.op is Ops.BITCAST else None


def _same_bytes(x: UOp, view: UOp) -> bool:
    """Whether two values of elements of other sizes have the same axes of bytes."""
    if dtypes.is_weak(x.dtype) or x.dtype.itemsize == view.dtype.itemsize:
        return False
    a, b = x._shape, view._shape
    if not a or not b or a[:-1] != b[:-1]:
        return False
    return bool(a[-1] * x.dtype.itemsize == b[-1] * view.dtype.itemsize)

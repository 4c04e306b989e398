"""Python numbers beside values: the type they take, and what a type has no room for."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

from tinylab.dtype import DType, PyConst, dtypes, least_upper_dtype, strong_dtype
from tinylab.errors import IndexingError, OperandError
from tinylab.helpers.arguments import shown
from tinylab.mixin.base import Primitives


def unboxed(x: Any) -> Any:
    """What a numpy scalar or array of no axes holds; anything else as it is."""
    if isinstance(x, (int, float, Primitives)):
        return x
    item = getattr(x, "item", None)
    return item() if callable(item) and getattr(x, "ndim", 1) == 0 else x


def plain_number(x: Any) -> PyConst:
    """A numpy scalar as a Python number.

    Raises: OperandError for what is no number.
    """
    value = unboxed(x)
    if not isinstance(value, (int, float)):
        raise _no_operand(x)
    return value


def refuse_array(x: Any) -> None:
    """Refuse an array, which has a product of its own, as an operand of matrices.

    Raises: OperandError.
    """
    if hasattr(x, "__array__") and not isinstance(x, Primitives):
        raise _no_operand(x)


def _no_operand(x: Any) -> OperandError:
    return OperandError(
        f"{type(x).__name__} is no operand of a tensor", help="make a Tensor of it first"
    )


def number_dtype(x: PyConst, dtype: DType) -> DType:
    """The type that a Python number takes beside a value of this type.

    2, float16 -> float16;  2.5, int32 -> float32 (the default);  2, weakfloat -> weakfloat
    """
    weak = (
        dtypes.bool
        if isinstance(x, bool)
        else dtypes.weakint
        if isinstance(x, int)
        else dtypes.weakfloat
    )
    found = least_upper_dtype(weak, dtype)
    return found if dtypes.is_weak(dtype) else strong_dtype(found)


def side_of(x: Any, dtype: DType) -> int:
    """Where an integer lies to all values of an integer type: -1 below, 1 above, 0 among them.

    300, uint8 -> 1: every uint8 is less, as numpy says, though 300 wraps to 44 as an operand
    """
    if not dtypes.is_int(dtype) or dtypes.is_weak(dtype) or isinstance(x, Primitives):
        return 0
    if not hasattr(x, "__index__"):
        return 0
    try:
        value = operator.index(x)
    except TypeError:  # an array has it, and means to refuse
        return 0
    return (value > dtype.max) - (value < dtype.min)


def as_real(x: Any) -> Any:
    """An integer as a float, anything else as it is."""
    x = unboxed(x)
    return float(x) if type(x) is int and x.bit_length() < 1024 else x


def beyond(x: Any, dtype: DType) -> int:
    """As `side_of`; beyond truth values is any integer but 0 and 1."""
    if dtype is dtypes.bool and type(x) is int:
        return (x > 1) - (x < 0)
    return side_of(x, dtype)


def held(x: Any, dtype: DType) -> Any:
    """A bound for values of a type: an integer that it has no room for becomes its last one."""
    side = side_of(x, dtype)
    return x if side == 0 else dtype.max if side > 0 else dtype.min


def slice_part(part: Any) -> Any:
    """A bound or the step of a slice: None, an int, or the expression of a size.

    Raises: IndexingError for anything else.
    """
    if part is None or type(part) is int or hasattr(part, "op"):
        return part
    with contextlib.suppress(TypeError):
        return operator.index(part)
    raise IndexingError(
        f"a slice is made of integers, not {shown(part)}",
        help="ask .item() of it" if isinstance(part, Primitives) else None,
    )

"""uint64 against signed integers, compared exactly: no float holds all values of both."""

from __future__ import annotations

from typing import Any, TypeVar

from tinylab.dtype import dtypes

S = TypeVar("S")


def signs_apart(a: Any, b: Any) -> bool:
    """Whether one is a value of uint64 and the other of a signed type with a size."""
    types = (a.dtype, getattr(b, "dtype", None))
    return dtypes.uint64 in types and any(t in dtypes.sints for t in types)


def less_exactly(x: S, y: Any, reverse: bool = False) -> S:
    """x < y, or y < x with reverse; of those whose `signs_apart`."""
    a: Any = y if reverse else x
    b: Any = x if reverse else y
    less = a.cast(dtypes.uint64).lt(b.cast(dtypes.uint64))
    found: S = less & b.ge(0) if a.dtype is dtypes.uint64 else less | a.lt(0)
    return found

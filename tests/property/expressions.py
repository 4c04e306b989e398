"""Random small expressions for hypothesis: integers of loop ranges and conditions on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tinylab.dtype import DType, dtypes
from tinylab.uop.ops import Ops, UOp

Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = (4, 3, 5, 8)
RANGES = [UOp.range(n, axis) for axis, n in enumerate(SIZES)]
CONSTANTS = st.integers(-20, 20) | st.sampled_from([1, 2, 3, 4, 8, 12, 16, 32, 64])


@st.composite
def weak_integers(draw: Draw, depth: int = 4) -> UOp:
    """Index arithmetic: sums, products with constants, division, remainder, max, selection."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(RANGES) | CONSTANTS.map(UOp.const))
    x = draw(weak_integers(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "+y", "*", "//", "%", "max", "where"]))
    if kind in ("+", "*", "//", "%"):
        # Dividing a size by zero is an error of its own.
        c = draw(CONSTANTS.filter(bool) if kind in ("//", "%") else CONSTANTS)
        return {"+": x + c, "*": x * c, "//": x // c, "%": x % c}[kind]
    y = draw(weak_integers(depth - 1))
    if kind == "where":
        return draw(conditions(1, depth - 2 if depth > 1 else 0)).where(x, y)
    return {"-": x + y * -1, "+y": x + y, "max": x.maximum(y)}[kind]


@st.composite
def conditions(draw: Draw, depth: int = 2, below: int = 2) -> UOp:
    """Comparisons of integers, joined by and, or, not."""
    kind = draw(st.sampled_from(["and", "or", "not", "where"] if depth else ["compare"]))
    if kind == "compare" or draw(st.booleans()):
        x = draw(weak_integers(below))
        y = draw(st.one_of(CONSTANTS.map(UOp.const), weak_integers(below)))
        return {"<": x < y, ">": x > y, "!=": x.ne(y), "==": x.eq(y)}[
            draw(st.sampled_from(["<", ">", "!=", "=="]))
        ]
    p = draw(conditions(depth - 1, below))
    if kind == "not":
        return p.logical_not()
    q = draw(conditions(depth - 1, below))
    if kind == "where":
        return p.where(q, draw(conditions(depth - 1, below)))
    return p & q if kind == "and" else p | q


CONCRETE_OPS = [Ops.ADD, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR]
CONCRETE_OPS += [Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD]


@st.composite
def concrete(draw: Draw, dtype: DType, depth: int = 4) -> UOp:
    """Arithmetic in a type that wraps; leaves are casts of ranges and any constant of the type."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        lo, hi = int(dtype.min), int(dtype.max)
        constant = st.integers(max(lo, -9), 9) | st.integers(lo, hi)
        return draw(
            st.sampled_from(RANGES).map(lambda r: r.cast(dtype))
            | constant.map(lambda v: UOp.const(v, dtype))
        )
    x = draw(concrete(dtype, depth - 1))
    kind = draw(st.sampled_from([*CONCRETE_OPS, "<", "!=", "cast"]))
    if kind == "cast":
        return x.cast(draw(st.sampled_from(dtypes.ints))).cast(dtype)
    y = draw(concrete(dtype, depth - 1))
    if isinstance(kind, Ops):
        return x.alu(kind, y)
    condition = x < y if kind == "<" else x.ne(y)
    return condition.where(draw(concrete(dtype, depth - 2 if depth > 1 else 0)), y)


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -3.0,
    1e30,
    3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
]


@st.composite
def floats(draw: Draw, x: UOp, y: UOp, depth: int = 4) -> UOp:
    """Arithmetic of two unknown float32 values and special constants."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        constant = st.sampled_from(FLOATS).map(lambda v: UOp.const(v, dtypes.float32))
        return draw(st.sampled_from([x, y]) | constant)
    a = draw(floats(x, y, depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "max", "<", "!=", "double", "int", "1/x"]))
    if kind == "double":
        return a.cast(dtypes.float64).cast(dtypes.float32)
    if kind == "int":
        return a.cast(dtypes.int32).cast(dtypes.float32)
    if kind == "1/x":
        return a.reciprocal()
    b = draw(floats(x, y, depth - 1))
    if kind in ("<", "!="):
        return (a < b if kind == "<" else a.ne(b)).where(b, a)
    return {"+": a + b, "-": a + b * -1.0, "*": a * b, "max": a.maximum(b)}[kind]

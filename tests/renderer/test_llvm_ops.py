"""Every operation on every type, at values where it may go wrong: two CPUs and PYTHON."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tests.renderer.programs import (
    ARCHES,
    TYPES,
    Program,
    converted,
    edges,
    from_array,
    index,
    nearest,
    numpy_type,
    param,
    run_llvm,
    run_python,
    same,
    to_array,
    window,
    wrap,
)
from tinylab.dtype import DType, dtypes
from tinylab.renderer.llvm_alu import NATIVE
from tinylab.uop.ops import GroupOp, Ops

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTS = dtypes.ints
ALL = TYPES


# *** what each operation means, on exact numbers


def is_special(*values):
    return any(isinstance(v, float) and (math.isnan(v) or math.isinf(v)) for v in values)


def float_add(x, y):
    if is_special(x, y) or (x == 0 and y == 0):
        return x + y
    total = Fraction(x) + Fraction(y)
    return total if total else 0.0


def float_mul(x, y):
    if is_special(x, y) or x == 0 or y == 0:
        return x * y
    return Fraction(x) * Fraction(y)


def float_div(x, y):
    if is_special(x, y) or x == 0 or y == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(x) / np.float64(y))
    return Fraction(x) / Fraction(y)


def square_root(x, dtype):
    if is_special(x) or x <= 0:
        return math.nan if x < 0 else x
    # The root to 2**-1200, and whether anything is left, which decides ties.
    scaled = int(Fraction(x) * 2**2400)
    root = math.isqrt(scaled)
    rest = Fraction(1, 2**2000) if root * root != scaled else 0
    return nearest(Fraction(root, 2**1200) + rest, dtype)


def c_divide(x, y):
    if y == 0:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def shift_left(dtype):
    return lambda x, y: x << y if 0 <= y < dtype.bits else 0


def shift_right(dtype):
    return lambda x, y: x >> y if 0 <= y < dtype.bits else 0


def larger(x, y):
    if x != x or y != y:
        return math.nan
    return max(x, y)


def reference(op: Ops, dtype: DType):
    """The function of an operation on a type; its result is then held to the type."""
    if op in GroupOp.Comparison:
        return {
            Ops.CMPLT: lambda x, y: x < y,
            Ops.CMPNE: lambda x, y: x != y,
            Ops.CMPEQ: lambda x, y: x == y,
        }[op]
    if op is Ops.WHERE:
        return lambda c, x, y: x if c else y
    if op is Ops.MAX:
        return larger
    if dtype.kind == "float":
        return {
            Ops.ADD: float_add,
            Ops.SUB: lambda x, y: float_add(x, -y),
            Ops.MUL: float_mul,
            Ops.FDIV: float_div,
            Ops.RECIPROCAL: lambda x: float_div(1.0, x),
            Ops.NEG: lambda x: -x,
            Ops.SQRT: lambda x: square_root(x, dtype),
            Ops.TRUNC: lambda x: x if is_special(x) else math.copysign(float(math.trunc(x)), x),
        }[op]
    return {
        Ops.ADD: lambda x, y: x + y,
        Ops.SUB: lambda x, y: x - y,
        Ops.MUL: lambda x, y: x * y,
        Ops.NEG: lambda x: -x,
        Ops.CDIV: c_divide,
        Ops.CMOD: lambda x, y: x - c_divide(x, y) * y if y else 0,
        Ops.XOR: lambda x, y: x ^ y,
        Ops.OR: lambda x, y: x | y,
        Ops.AND: lambda x, y: x & y,
        Ops.SHL: shift_left(dtype),
        Ops.SHR: shift_right(dtype),
        Ops.TRUNC: lambda x: x,
    }[op]


def held(value, dtype):
    if dtype is dtypes.bool:
        return bool(value)
    if dtype.kind == "float":
        return value if is_special(value) else nearest(value, dtype)
    return wrap(int(value), dtype)


WHERE_DEFINED = {
    **dict.fromkeys((Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV), FLOATS),
    **dict.fromkeys((Ops.CDIV, Ops.CMOD, Ops.SHL, Ops.SHR), INTS),
    **dict.fromkeys((Ops.XOR, Ops.OR, Ops.AND), (dtypes.bool, *INTS)),
    Ops.NEG: (*INTS, *FLOATS),
    Ops.SUB: (*INTS, *FLOATS),
    Ops.TRUNC: (*INTS, *FLOATS),
}
MATRIX = [(op, d) for op in sorted(NATIVE) for d in WHERE_DEFINED.get(op, ALL)]


# *** running


def operands(op: Ops, dtype: DType) -> list[list]:
    """Columns of operands: all pairs of chosen values."""
    values = edges(dtype)
    rng = random.Random(f"{op}{dtype}")
    if op in GroupOp.Unary:
        rows = [(v,) for v in values]
    else:
        few = values if len(values) < 30 else rng.sample(values, 22) + values[-4:]
        if op in (Ops.SHL, Ops.SHR):
            amounts = [
                v
                for v in (0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, -1, 100)
                if dtype.min <= v <= dtype.max
            ]
            rows = list(itertools.product(few, amounts))
        elif op in (Ops.CDIV, Ops.CMOD):
            divisors = [
                v
                for v in (0, 1, -1, 2, -3, 7, 10, int(dtype.min), int(dtype.max))
                if dtype.min <= v <= dtype.max
            ]
            rows = list(itertools.product([*few, int(dtype.min)], divisors))
        else:
            rows = list(itertools.product(few, few))
        if op is Ops.WHERE:
            rows = [(bool(i % 2), *r) for i, r in enumerate(rows)]
    while len(rows) % 16:
        rows.append(rows[0])
    return [list(c) for c in zip(*rows, strict=True)]


def one_op(op: Ops, types: list[DType], count: int, lanes: int):
    p = Program()
    result = dtypes.bool if op in GroupOp.Comparison else types[-1]
    out = p.add(param(0, count, result))
    sources = [p.add(param(i + 1, count, d)) for i, d in enumerate(types)]
    loop = p.loop(count // lanes)
    at = p.op(Ops.MUL, loop, index(lanes))
    place = (lambda b: window(b, at, lanes)) if lanes > 1 else (lambda b: b.index(at))
    loaded = [p.load(place(s)) for s in sources]
    p.end(p.store(place(out), p.op(op, *loaded)), loop)
    return p.done(), result


EVERYWHERE = [
    *(pytest.param(*p.values, n, id=f"{p.id}-{n}", marks=p.marks) for p in ARCHES for n in (1, 8)),
    pytest.param(None, 4, id="python"),
]


@pytest.mark.parametrize(("where", "lanes"), EVERYWHERE)
@pytest.mark.parametrize(("op", "dtype"), MATRIX, ids=lambda x: getattr(x, "name", str(x)))
def test_operation(op, dtype, lanes, where):
    columns = operands(op, dtype)
    types = [dtypes.bool, dtype, dtype] if op is Ops.WHERE else [dtype] * len(columns)
    lines, result = one_op(op, types, len(columns[0]), lanes)
    found = np.zeros(len(columns[0]), numpy_type(result))
    arrays = [found, *(to_array(c, d) for c, d in zip(columns, types, strict=True))]
    if where is None:
        run_python(lines, *arrays)
    else:
        run_llvm(lines, *arrays, arch=where)
    function = reference(op, dtype)
    for row, value in zip(zip(*columns, strict=True), from_array(found, result), strict=True):
        wanted = held(function(*row), result)
        ok = same(value, wanted) or (op is Ops.MAX and value == wanted == 0)
        assert ok, f"{op.name}{row} on {dtype.name}: {value!r}, not {wanted!r}"


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=lambda d: d.name)
def test_mulacc(dtype, lanes, arch):
    """a*b + c: exact for integers; for floats rounded once or twice."""
    rng = random.Random(dtype.name)
    finite = [v for v in edges(dtype) if not is_special(v)]
    columns = [[rng.choice(finite) for _ in range(256)] for _ in range(3)]
    lines, _ = one_op(Ops.MULACC, [dtype] * 3, 256, lanes)
    found = np.zeros(256, numpy_type(dtype))
    run_llvm(lines, found, *(to_array(c, dtype) for c in columns), arch=arch)
    for x, y, z, value in zip(*columns, from_array(found, dtype), strict=True):
        if dtype.kind != "float":
            assert value == wrap(x * y + z, dtype)
            continue
        twice = held(float_add(held(float_mul(x, y), dtype), z), dtype)
        once = held(Fraction(x) * Fraction(y) + Fraction(z), dtype)
        assert same(value, twice) or value == once


@pytest.mark.parametrize(("where", "lanes"), EVERYWHERE)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_constant(dtype, lanes, where):
    """A constant is exactly its value, in every type; also infinity, NaN and -0.0."""
    from tinylab.uop.ops import UOp

    p = Program()
    values = edges(dtype)
    out = p.add(param(0, len(values) * lanes, dtype))
    for i, v in enumerate(values):
        c = p.add(UOp.const(v, dtype))
        place = window(out, index(i * lanes), lanes) if lanes > 1 else out.index(index(i))
        p.store(place, c)
    found = np.zeros(len(values) * lanes, numpy_type(dtype))
    if where is None:
        run_python(p.done(), found)
    else:
        run_llvm(p.done(), found, arch=where)
    for i, value in enumerate(from_array(found, dtype)):
        wanted = converted(values[i // lanes], dtype)
        assert same(value, wanted), f"{dtype.name}({wanted!r}) became {value!r}"

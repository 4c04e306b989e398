"""Each row of `pm_identities`: a case that fires, a near miss, and a proof."""

from __future__ import annotations

import math

import pytest

from tests.uop.symbolic.cases import (
    Case,
    b,
    c,
    f,
    g,
    half,
    i,
    j,
    k,
    op,
    p,
    q,
    s,
    table_tests,
    u8,
    unit,
    x,
    y,
    z,
)
from tinylab.dtype import DType, Invalid, dtypes
from tinylab.uop.ops import Ops, UOp
from tinylab.uop.symbolic import pm_identities

f32, i32, i64 = dtypes.float32, dtypes.int32, dtypes.int64
nan, inf = math.nan, math.inf
bits = "a bitcast, or a cast between floats and integers"


def F(v: float) -> UOp:
    return k(v, f32)


def N(v: int) -> UOp:
    return k(v, i32)


def cast_node(a: UOp, dtype: DType) -> UOp:
    return UOp(Ops.CAST, dtype, (a,), dtype)


def bitcast_node(a: UOp, dtype: DType) -> UOp:
    return UOp(Ops.BITCAST, dtype, (a,), dtype)


def no(a: UOp) -> UOp:
    return a.ne(k(True))


CASES = {
    "fold_constants": Case(
        [
            (k(3) + k(4), k(7)),
            (k(250, dtypes.uint8) + k(10, dtypes.uint8), k(4, dtypes.uint8)),
            (op("FLOORDIV", N(-7), N(2)), N(-4)),
            (op("CDIV", N(-7), N(2)), N(-3)),
            (op("CDIV", N(dtypes.int32.min), N(-1)), N(dtypes.int32.min)),
            (op("FLOORMOD", N(5), N(0)), N(0)),
            (op("SHL", N(1), N(40)), N(0)),
            (op("MAX", F(nan), F(1.0)), F(nan)),
            (F(nan).ne(F(nan)), k(True)),
            (F(0.0).ne(F(-0.0)), k(False)),
            (F(1e38) * F(10.0), F(inf)),
            (op("RECIPROCAL", F(4.0)), F(0.25)),
        ],
        [x + k(4), c.where(k(1), k(2))],
    ),
    "add_zero": Case(
        [
            (x + 0, x),
            (f + -0.0, f),
            (k(0) + x, x),
            (UOp(Ops.ADD, src=(x, N(0))), x.cast(i32)),
            (b.cast(f32) + 0.0, b.cast(f32)),
            (f * f + 0.0, f * f),
            (f + 0.0 + 0.0, f + 0.0),
            (c.where(f * f, F(2.0)) + 0.0, c.where(f * f, F(2.0))),
        ],
        [x + 1, f * 0.0, f + 0.0, half + 0.0, c.where(f * f, f) + 0.0, f.cast(dtypes.half) + 0.0],
    ),
    "add_opposite": Case(
        [(x + x * -1, k(0)), (half + half * -1.0, F(0.0)), (i * -1 + i, N(0))],
        [f + f * -1.0, x + y * -1, x + x * -2],
    ),
    "mul_one": Case(
        [(x * 1, x), (f * 1.0, f), (b * k(True), b), (UOp(Ops.MUL, src=(x, N(1))), x.cast(i32))],
        [x * 2, f * -1.0],
    ),
    "mul_zero": Case(
        [(x * 0, k(0)), (b.cast(f32) * 0.0, F(0.0)), (i * 0, N(0))],
        [f * 0.0, x * 1, x * y, half * 0.0, half * -0.0, b.cast(f32) * -0.0],
    ),
    "mul_opposite": Case(
        [(x * -1 * 3, x * -3), (f * -1.0 * 3.0, f * -3.0)], [x * -2 * 3, f * -1.0 * g]
    ),
    "mul_inverse": Case(
        [(unit * op("RECIPROCAL", unit), F(1.0))],
        [half * op("RECIPROCAL", half), f * op("RECIPROCAL", f), unit * op("RECIPROCAL", half)],
        rounds="the product of x and 1/x may round to 1 - 2**-24, x / x itself is 1",
    ),
    "sub_zero": Case(
        [(op("SUB", x, k(0)), x), (op("SUB", f, F(0.0)), f), (op("SUB", f * f, F(-0.0)), f * f)],
        [op("SUB", x, k(1)), op("SUB", k(0), x), op("SUB", f, F(-0.0))],
    ),
    "sub_self": Case(
        [(op("SUB", i, i), N(0)), (op("SUB", half, half), F(0.0))],
        [op("SUB", f, f), op("SUB", i, j)],
    ),
    "neg_twice": Case([(op("NEG", op("NEG", f)), f)], [op("NEG", f), op("NEG", op("TRUNC", f))]),
    "fdiv_one": Case([(op("FDIV", f, F(1.0)), f)], [op("FDIV", f, F(2.0)), op("FDIV", F(1.0), f)]),
    "pow_one": Case(
        [(op("POW", f, F(1.0)), f)], [op("POW", f, F(2.0)), op("POW", F(1.0), f)], unproved="POW"
    ),
    "pow_zero": Case(
        [(op("POW", f, F(0.0)), F(1.0))],
        [op("POW", f, F(1.0)), op("POW", F(0.0), f)],
        unproved="POW",
    ),
    "max_self": Case([(op("MAX", f, f), f)], [op("MAX", f, g)]),
    "max_known": Case(
        [(op("MAX", x, k(200)), k(200)), (op("MAX", p, k(1)), p), (op("MAX", half, unit), unit)],
        [op("MAX", x, k(0)), op("MAX", f, unit), op("MAX", half, F(0.0))],
    ),
    "trunc_integer": Case([(op("TRUNC", i), i)], [op("TRUNC", f)]),
    "trunc_twice": Case(
        [(op("TRUNC", op("TRUNC", f)), op("TRUNC", f))], [op("TRUNC", op("NEG", f))]
    ),
    "div_one": Case([(x // 1, x), (op("CDIV", i, N(1)), i)], [x // 2, x // -1]),
    "div_self": Case([(p // p, k(1)), (op("CDIV", q, q), k(1))], [z // z, p // q]),
    "mod_self": Case([(z % z, k(0)), (op("CMOD", i, i), N(0))], [p % q]),
    "div_of_zero": Case([(k(0) // x, k(0)), (k(0) % x, k(0))], [k(1) // x, x // 1]),
    "div_by_zero": Case([(i // 0, N(0)), (op("CMOD", i, N(0)), N(0))], [x // 1, x // y]),
    "and_self": Case([(i & i, i), (b | b, b)], [i & j, i ^ i]),
    "xor_self": Case([(i ^ i, N(0)), (b ^ b, k(False))], [i ^ j]),
    "or_zero": Case([(i | 0, i), (i ^ 0, i), (b | k(False), b)], [i | 1, i & 0]),
    "and_zero": Case([(i & 0, N(0)), (b & k(False), k(False))], [i & 1]),
    "and_ones": Case([(i & -1, i), (b & k(True), b), (u8 & 255, u8)], [i & 255, u8 & 127]),
    "or_ones": Case(
        [(i | -1, N(-1)), (b | k(True), k(True)), (u8 | 255, k(255, dtypes.uint8))],
        [i | 255, u8 | 127],
    ),
    "and_opposite": Case([(b & no(b), k(False))], [b & no(c), b | no(b)]),
    "or_opposite": Case([(b | no(b), k(True))], [b | no(c), b & no(b)]),
    "shift_zero": Case([(i << 0, i), (i >> 0, i)], [i << 1, N(0) << j]),
    "shift_left_twice": Case([(i << 3 << 4, i << 7)], [i << 30 << 4, i << 3 >> 4]),
    "shift_right_twice": Case(
        [(i >> 3 >> 4, i >> 7), (u8 >> 3 >> 4, u8 >> 7)], [i >> 30 >> 4, i >> 3 << 4]
    ),
    "not_not": Case([(no(no(b)), b)], [no(b), no(b.ne(c))]),
    "ne_false": Case([(b.ne(k(False)), b)], [b.ne(k(True)), x.ne(0)]),
    "xor_true": Case([(b ^ k(True), no(b))], [b ^ c, i ^ 1]),
    "where_known": Case([(k(True).where(x, y), x), (k(False).where(x, y), y)], [b.where(x, y)]),
    "where_same": Case([(b.where(f, f), f)], [b.where(f, g)]),
    "where_not": Case([(no(b).where(x, y), b.where(y, x))], [b.where(x, y), x.valid(no(b))]),
    "where_bool": Case(
        [(b.where(k(True), k(False)), b)], [b.where(k(True), c), b.where(k(1), k(0))]
    ),
    "where_not_bool": Case(
        [(b.where(k(False), k(True)), no(b))], [b.where(c, k(True)), b.where(k(0), k(1))]
    ),
    "where_yes_again": Case(
        [(b.where(b.where(x, y), z), b.where(x, z))], [b.where(c.where(x, y), z)]
    ),
    "where_no_again": Case(
        [(b.where(x, b.where(y, z)), b.where(x, z))], [b.where(x, c.where(y, z))]
    ),
    "where_both": Case(
        [(b.where(c.where(x, y), y), (b & c).where(x, y))], [b.where(c.where(x, y), z)]
    ),
    "where_either": Case(
        [(b.where(x, c.where(x, y)), (b | c).where(x, y))], [b.where(x, c.where(z, y))]
    ),
    "cast_same": Case([(cast_node(i, i32), i)], [cast_node(i, i64)]),
    "cast_constant": Case(
        [
            (cast_node(k(300), dtypes.uint8), k(44, dtypes.uint8)),
            (cast_node(F(0.1), dtypes.float16), k(0.1, dtypes.float16)),
            (cast_node(F(nan), i32), N(0)),
            (cast_node(F(1e20), i32), N(dtypes.int32.max)),
            (cast_node(k(Invalid), i32), k(Invalid, i32)),
        ],
        [cast_node(x, i32)],
        unproved=bits,
    ),
    "cast_twice": Case(
        [
            (u8.cast(i32).cast(i64), u8.cast(i64)),
            (u8.cast(i32).cast(dtypes.uint8), u8),
            (i.cast(dtypes.int16).cast(dtypes.int8), i.cast(dtypes.int8)),
            (f.cast(dtypes.float64).cast(f32), f),
            (b.cast(f32).cast(i32), b.cast(i32)),
            (u8.cast(f32).cast(i32), u8.cast(i32)),
        ],
        [
            u8.cast(f32).cast(dtypes.int8),  # a float saturates
            i.cast(dtypes.float64).cast(dtypes.uint32),
            i.cast(dtypes.int8).cast(i32),
            f.cast(dtypes.float16).cast(f32),
            f.cast(i32).cast(f32),
            i.cast(f32).cast(i32),
            i.cast(dtypes.int8).cast(dtypes.bool),
        ],
        unproved=bits,
    ),
    "cast_choice": Case(
        [(cast_node(b.where(k(1), k(0)), f32), b.where(F(1.0), F(0.0)))],
        [cast_node(b.where(k(1), x), f32), cast_node(b.where(k(1), k(Invalid)), i32)],
        unproved=bits,
    ),
    "bitcast_same": Case([(bitcast_node(f, f32), f)], [bitcast_node(f, i32)], unproved=bits),
    "bitcast_constant": Case(
        [
            (bitcast_node(F(1.0), i32), N(0x3F800000)),
            (bitcast_node(N(-1), dtypes.uint32), k(0xFFFFFFFF, dtypes.uint32)),
        ],
        [bitcast_node(f, i32), bitcast_node(F(1.0), dtypes.int16)],
        unproved=bits,
    ),
    "bitcast_twice": Case(
        [
            (bitcast_node(bitcast_node(f, i32), f32), f),
            (bitcast_node(bitcast_node(f, i32), dtypes.uint32), bitcast_node(f, dtypes.uint32)),
        ],
        [bitcast_node(f, i32)],
        unproved=bits,
    ),
    "fold_bounds": Case(
        [
            ((s < 4), k(True)),
            (s // 4, k(0)),
            (p < 1, k(False)),
            (s.cast(i32) // 4, N(0)),
            (x.ne(200), k(True)),
        ],
        [s < 3, s // 3, f < f, half < 1.0, (s < 2).where(k(1), k(Invalid))],
    ),
}


test_row, test_proof, test_no_stale_cases = table_tests((pm_identities, CASES))


@pytest.mark.parametrize("divided", [x // 0, x % 0, (x + 1) // (y * 0), (x + y) % (k(3) - 3)])
def test_a_size_divided_by_zero_is_an_error(divided: UOp) -> None:
    with pytest.raises(ZeroDivisionError, match=r"Division by zero trying to rewrite .*x") as e:
        divided.simplify()
    assert "lower bound of 1" in str(e.value)

"""Constants fold as the devices compute: every operation against the oracle's numpy."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from tests.oracle import compute, storage
from tinylab.dtype import DType, Invalid, as_const, dtypes
from tinylab.uop.evaluate import python_alu
from tinylab.uop.ops import GroupOp, Ops, exec_alu, identity_element

INTEGER_ONLY = {Ops.CDIV, Ops.CMOD, Ops.SHL, Ops.SHR, Ops.XOR, Ops.OR, Ops.AND}
FLOAT_ONLY = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV, Ops.POW}
EXACT = {Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.SQRT, Ops.RECIPROCAL, Ops.NEG, Ops.MAX, Ops.TRUNC}
BINARY = sorted(GroupOp.Binary - {Ops.THREEFRY})
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 65504.0, 1e-8, 3e38, math.inf, -math.inf, math.nan]


def integers(dtype: DType) -> list[int]:
    lo, hi = int(dtype.min), int(dtype.max)
    return [v for v in (lo, lo + 1, -7, -2, -1, 0, 1, 2, 3, 7, 31, hi - 1, hi) if lo <= v <= hi]


def held_against_numpy(op: Ops, dtype: DType, operands: tuple[Any, ...]) -> None:
    result = dtypes.bool if op in GroupOp.Comparison else dtype
    arrays = [(np.array([v], storage(dtype)), dtype) for v in operands]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = compute(op, result, arrays)[0]
    found = exec_alu(op, result, [as_const(v, dtype) for v in operands])
    if result.kind != "float":
        assert found == expected, (op, dtype, operands)
    elif op in EXACT:
        assert np.array_equal(np.float64(found), np.float64(expected), equal_nan=True), operands
    else:
        np.testing.assert_allclose(found, expected, rtol=3 * 2.0 ** -dtypes.finfo(dtype)[1])


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
@pytest.mark.parametrize(
    "op", [op for op in BINARY if op not in FLOAT_ONLY], ids=lambda op: op.name
)
def test_integers(op: Ops, dtype: DType) -> None:
    for operands in itertools.product(integers(dtype), repeat=2):
        held_against_numpy(op, dtype, operands)


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=str
)
@pytest.mark.parametrize(
    "op",
    [op for op in BINARY if op not in INTEGER_ONLY | {Ops.FLOORDIV, Ops.FLOORMOD}],
    ids=lambda op: op.name,
)
def test_floats(op: Ops, dtype: DType) -> None:
    values = [float(as_const(v, dtype)) for v in FLOATS]
    for operands in itertools.product(values, repeat=2):
        held_against_numpy(op, dtype, operands)


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=str
)
@pytest.mark.parametrize("op", sorted(GroupOp.Unary), ids=lambda op: op.name)
def test_unary(op: Ops, dtype: DType) -> None:
    for v in FLOATS:
        value = float(as_const(v, dtype))
        if op is Ops.SIN and abs(value) > 1e30:
            continue
        held_against_numpy(op, dtype, (value,))


def test_threefry() -> None:
    for counter, key in ((0, 0), (1, 2), (2**64 - 1, 2**63 + 5), (0x0123456789ABCDEF, 42)):
        held_against_numpy(Ops.THREEFRY, dtypes.uint64, (counter, key))


def test_threefry_known_answer() -> None:
    """The published vectors of Threefry-2x32 with 20 rounds."""
    assert exec_alu(Ops.THREEFRY, dtypes.uint64, (0, 0)) == 0x99BA4EFE_6B200159
    ones = 2**64 - 1
    pi = 0x85A308D3_243F6A88, 0x03707344_13198A2E
    assert exec_alu(Ops.THREEFRY, dtypes.uint64, pi) == 0x483DF7A0_C4923A9C
    assert exec_alu(Ops.THREEFRY, dtypes.uint64, (ones, ones)) == 0xBB002BE7_1CB996FC


def test_invalid() -> None:
    assert exec_alu(Ops.ADD, dtypes.weakint, (Invalid, 3)) is Invalid
    assert exec_alu(Ops.WHERE, dtypes.weakint, (True, 3, Invalid)) == 3
    assert exec_alu(Ops.WHERE, dtypes.weakint, (False, 3, Invalid)) is Invalid


@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats, dtypes.bool], ids=str)
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX], ids=lambda op: op.name)
def test_identity_element(op: Ops, dtype: DType) -> None:
    start = identity_element(op, dtype)
    for value in (0, 1, dtype.max) if dtype.kind != "float" else (0.5, -2.0, math.inf):
        assert exec_alu(op, dtype, (start, value)) == as_const(value, dtype)


FLOAT_POWERS = [
    (-0.0, -5.0, -math.inf), (-0.0, -4.0, math.inf), (-0.0, -0.9999999999999999, math.inf),
    (0.0, -1.5, math.inf), (-6.75, 434.25, math.nan),
    (-10.0, 309.0, -math.inf), (-10.0, 400.0, math.inf), (-8.0, 1 / 3, math.nan), (-1.0, math.inf, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y", "found"), FLOAT_POWERS)
def test_powers_of_floats_are_those_of_ieee(x: float, y: float, found: float) -> None:
    np.testing.assert_equal(python_alu[Ops.POW](x, y), found)
    with np.errstate(all="ignore"):
        np.testing.assert_equal(np.power(x, y), found)

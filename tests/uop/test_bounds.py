"""vmin and vmax, row by row; the property tests hold them against values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tinylab.dtype import Invalid, dtypes
from tinylab.uop.bounds import known_finite
from tinylab.uop.ops import AxisType, Ops, ReduceArg, UOp

x, y = UOp.variable("x", -3, 5), UOp.variable("y", 2, 4)
i = UOp.variable("i", -100, 100, dtypes.int8)
u = UOp.variable("u", 3, 12, dtypes.uint8)
b = UOp.variable("b", False, True, dtypes.bool)
f, g = (UOp.param(n, dtypes.float32, ()) for n in range(2))
unit = UOp.variable("unit", 0.0, 1.0, dtypes.float32)
data = UOp.param(3, dtypes.int8, (8,))
i8, u8, i32, f32 = dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.float32
ROWS: list[tuple[str, UOp, tuple[Any, Any]]] = [
    ("constant", UOp.const(3), (3, 3)),
    ("nan", UOp.const(math.nan), (-math.inf, math.inf)),
    ("range", UOp.range(8, 0), (0, 7)),
    ("range of a variable", UOp.range(y, 0), (0, 3)),
    ("special", UOp.special(8, "gidx0"), (0, 7)),
    ("variable", x, (-3, 5)),
    ("memory", data.index(UOp.range(8, 0)), (-128, 127)),
    ("add", x + y, (-1, 9)),
    ("add may wrap", i + i, (-128, 127)),
    ("sub", x.alu(Ops.SUB, y), (-7, 3)),
    ("neg", x.alu(Ops.NEG), (-5, 3)),
    ("mul", x * y, (-12, 20)),
    ("mul may wrap", i * 2, (-128, 127)),
    ("mul by a negative", x * -2, (-10, 6)),
    ("max", x.maximum(y), (2, 5)),
    ("min", x.minimum(y), (-3, 4)),
    ("floordiv", x // 2, (-2, 2)),
    ("floordiv by a variable", x // y, (-2, 2)),
    ("floordiv by what may be 0", x // (y - 3), (dtypes.weakint.min, dtypes.weakint.max)),
    ("cdiv", x.alu(Ops.CDIV, UOp.const(2)), (-1, 2)),
    ("floormod", x % 4, (0, 3)),
    ("floormod in one period", (y + 8) % 5, (0, 2)),
    ("floormod by a negative", x % -4, (-3, 0)),
    ("cmod", x.alu(Ops.CMOD, UOp.const(4)), (-3, 3)),
    ("cmod of one sign", u.alu(Ops.CMOD, UOp.const(20, u8)), (3, 12)),
    ("shl", u << 2, (12, 48)),
    ("shl may wrap", u << 7, (0, 255)),
    ("shr", x.cast(i32) >> 1, (-2, 2)),
    ("and", u & 3, (0, 3)),
    ("and of a negative", i & 7, (0, 7)),
    ("or", u | 1, (3, 15)),
    ("xor", u ^ u.alu(Ops.SHL, UOp.const(1, u8)), (0, 31)),
    ("not", ~i, (-101, 99)),
    ("less", x < 6, (True, True)),
    ("not less", x < -3, (False, False)),
    ("perhaps less", x < 0, (False, True)),
    ("never equal", x.ne(6), (True, True)),
    ("itself", x.ne(x), (False, False)),
    ("a float itself may be nan", f.ne(f), (False, True)),
    ("a float below infinity", UOp.const(math.inf, f32) < f, (False, False)),
    ("a finite float", unit < 2.0, (True, True)),
    ("where", b.where(x, y), (-3, 5)),
    ("where known", UOp.const(True).where(x, y), (-3, 5)),
    ("masked", y.valid(b), (2, 4)),
    ("cast", x.cast(i32), (-3, 5)),
    ("cast may wrap", x.cast(u8), (0, 255)),
    ("cast to bool", y.cast(dtypes.bool), (True, True)),
    ("cast to float", x.cast(f32), (-3.0, 5.0)),
    ("cast of a bounded float", (unit * -1.0).cast(i32), (-1, 0)),
    ("cast of any float", f.cast(u8), (0, 255)),
    ("float add rounds", unit + unit, (-math.inf, math.inf)),
    ("float negated", unit * -1.0, (-1.0, 0.0)),
    ("max with what may be nan", unit.maximum(f), (0.0, math.inf)),
    ("max hides no nan", unit.maximum(f * -1.0).maximum(unit), (0.0, math.inf)),
    ("stack", UOp.stack(x, y), (-3, 5)),
    ("item of a stack", UOp.stack(UOp.const(1), UOp.const(7)).index(UOp.range(2, 0)), (1, 7)),
    ("reduce max", UOp(Ops.REDUCE, src=(UOp.range(8, 0, AxisType.REDUCE) * 2, UOp.range(8, 0, AxisType.REDUCE)), arg=ReduceArg(Ops.MAX, 0)), (0, 14)),
    ("reduce add", UOp(Ops.REDUCE, src=(u, UOp.range(8, 0, AxisType.REDUCE)), arg=ReduceArg(Ops.ADD, 0)), (0, 255)),
    ("void", UOp.const(1).sink(), (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("node", "bounds"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_bounds(node: UOp, bounds: tuple[Any, Any]) -> None:
    assert (node.vmin, node.vmax) == bounds


def test_finite() -> None:
    assert known_finite(unit)
    assert known_finite(x)
    assert not known_finite(f)
    assert not known_finite(UOp.const(math.inf))
    assert not known_finite(UOp.const(math.nan))
    assert not known_finite(unit.maximum(f))


def test_invalid_alone_says_nothing() -> None:
    assert UOp.const(Invalid).bounds == (False, True)

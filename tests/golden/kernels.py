"""Programs whose text is kept whole: made by hand, so that only renderers change them."""

from __future__ import annotations

from tests.renderer.programs import Program, index, param, register, variable, window
from tests.renderer.test_lines import dot
from tinylab.dtype import DType, dtypes
from tinylab.uop.build import shape_to_shape_arg
from tinylab.uop.ops import AxisType, Ops, UOp

F = dtypes.float32


def tile() -> list[UOp]:
    """A 2x8 tile of a matmul of 8x8 matrices: rows of A broadcast, a row of B as a vector."""
    p = Program("tile")
    out, a, b = (p.add(param(i, 64, F)) for i in range(3))
    acc = p.add(register((2, 8), F))
    i = p.loop(4)
    first = p.op(Ops.MUL, i, index(16))
    start = p.store(acc.after(i), UOp.const(0.0, F))
    k = p.loop(8, 1, AxisType.REDUCE)
    column = [p.load(a.index(p.op(Ops.ADD, p.op(Ops.ADD, first, index(8 * r)), k))) for r in (0, 1)]
    rows = p.op(Ops.RESHAPE, p.op(Ops.STACK, *column), shape_to_shape_arg((2, 1)))
    row = p.load(window(b, p.op(Ops.MUL, k, index(8)), 8))
    done = p.end(p.store(acc, p.op(Ops.MULACC, rows, row, p.load(acc.after(start, k)))), k)
    total = p.load(acc.after(done))
    stores = [
        p.store(
            window(out, p.op(Ops.ADD, first, index(8 * r)), 8),
            p.op(Ops.INDEX, total, UOp.const(r)),
        )
        for r in (0, 1)
    ]
    p.end(p.op(Ops.GROUP, *stores), i)
    return p.done()


def shifted(dtype: DType = F) -> list[UOp]:
    """A copy moved by a variable, zero where nothing is: gates per lane and per access."""
    p = Program("shifted")
    out, x, n = p.add(param(0, 8, dtype)), p.add(param(1, 8, dtype)), p.add(variable("n", 0, 7))
    lanes = p.op(Ops.STACK, *(index(i) for i in range(8)))
    gate = p.op(Ops.CMPLT, p.op(Ops.ADD, lanes, n), index(8))
    value = p.load(window(x, n, 8), UOp.const(0, dtype), gate)
    p.store(window(out, index(0), 8), value, p.op(Ops.CMPNE, n, index(0)))
    return p.done()


def halves() -> list[UOp]:
    """Half types: storage as bits, arithmetic in float32."""
    p = Program("halves")
    out = p.add(param(0, 8, dtypes.bfloat16))
    x = p.add(param(1, 8, dtypes.float16))
    twice = p.op(Ops.MUL, p.load(window(x, index(0), 8)), UOp.const(2.0, dtypes.float16))
    p.store(window(out, index(0), 8), p.op(Ops.CAST, twice, arg=dtypes.bfloat16))
    return p.done()


def divided() -> list[UOp]:
    """Integer division that cannot trap, by places that are looked up."""
    p = Program("divided")
    out, x, places = (p.add(param(i, 4, dtypes.int32)) for i in range(3))
    found = p.load(x.index(p.load(window(places, index(0), 4))))
    quotient = p.op(Ops.CDIV, p.load(window(x, index(0), 4)), found)
    p.store(window(out, index(0), 4), p.op(Ops.CMOD, quotient, UOp.const(10, dtypes.int32)))
    return p.done()


KERNELS = {"dot": dot, "tile": tile, "shifted": shifted, "halves": halves, "divided": divided}

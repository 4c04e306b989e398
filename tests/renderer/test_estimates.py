"""Estimates: arithmetic, bytes moved, bytes of distinct memory; lanes and loops multiplied in."""

from tests.renderer.programs import Program, index, param, register, variable, window
from tests.renderer.test_lines import dot
from tinylab.dtype import dtypes
from tinylab.renderer import Estimates
from tinylab.uop.ops import AxisType, Ops, UOp

F = dtypes.float32


def total(count: int | UOp, size: int = 4) -> Program:
    """Sum of `count` floats in a loop."""
    p = Program()
    out, x = p.add(param(0, 1, F)), p.add(param(1, size, F))
    if isinstance(count, UOp):
        p.add(count)
    acc = p.add(register((), F))
    start = p.store(acc, UOp.const(0.0, F))
    i = p.loop(count, kind=AxisType.REDUCE)
    value = p.load(x.index(i))
    new = p.op(Ops.ADD, p.load(acc.after(start, i)), value)
    done = p.end(p.store(acc, new), i)
    p.store(out.index(index(0)), p.load(acc.after(done)))
    return p


def test_sum_of_four():
    assert Estimates.from_uops(total(4).done()) == Estimates(ops=4, lds=20, mem=20)


def test_lanes_count():
    # 4 turns of 16 lanes: a multiply and an add each, and the index.
    found = Estimates.from_uops(dot())
    assert found == Estimates(ops=4 * 32 + 4, lds=2 * 256 + 64, mem=2 * 256 + 64)
    assert Estimates.from_uops(dot(), ignore_indexing=True).ops == 4 * 32


def test_memory_is_counted_once():
    p = Program()
    out, x = p.add(param(0, 8, F)), p.add(param(1, 8, F))
    i = p.loop(100)
    p.end(p.store(window(out, index(0), 8), p.load(window(x, index(0), 8))), i)
    assert Estimates.from_uops(p.done()) == Estimates(0, 100 * 64, 64)


def test_mulacc_is_two():
    p = Program()
    out = p.add(param(0, 4, F))
    v = p.load(window(out, index(0), 4))
    p.store(window(out, index(0), 4), p.op(Ops.MULACC, v, v, v))
    assert Estimates.from_uops(p.done()).ops == 8


def test_threads_multiply():
    p = Program()
    out, core = p.add(param(0, 4, F)), p.add(variable("core_id", 0, 3))
    v = p.load(out.index(core))
    p.store(out.index(core), p.op(Ops.MUL, v, v))
    assert Estimates.from_uops(p.done()) == Estimates(4, 32, 32)


def test_symbolic_length():
    n = variable("n", 1, 64)
    found = Estimates.from_uops(total(n, 64).done())
    assert isinstance(found.ops, UOp)
    assert found.ops.substitute({n: UOp.const(10, dtypes.int32)}).ssimplify() == 10


def test_estimates_add_and_simplify():
    found = Estimates(1, 2, 3) + Estimates(10, 20, 30)
    assert found == Estimates(11, 22, 33)
    assert Estimates(UOp.const(3) * 2, 1, 1).simplify() == Estimates(6, 1, 1)

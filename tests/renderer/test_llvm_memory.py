"""Buffers, windows, gates, gathers and control flow: LLVM on two CPUs, and PYTHON, agree."""

import numpy as np
import pytest

from tests.renderer.programs import (
    Program,
    from_array,
    index,
    numpy_type,
    param,
    register,
    run_everywhere,
    run_llvm,
    run_python,
    to_array,
    variable,
    window,
)
from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import RenderError
from tinylab.renderer.llvmir import LLVMRenderer
from tinylab.uop.args import ParamArg
from tinylab.uop.build import shape_to_shape_arg
from tinylab.uop.ops import AxisType, Ops, UOp

F = dtypes.float32
TYPES = (dtypes.bool, dtypes.int8, dtypes.uint16, dtypes.int64, dtypes.float16, dtypes.bfloat16, F)


def everywhere(p: Program, *arrays, vals=()):
    """The result, once all ways of running agree on it."""
    found = run_everywhere(p.done(), *arrays, vals=vals)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    return found[0]


def numbers(count, dtype=F):
    rng = np.random.default_rng(count)
    if dtype is dtypes.bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    return to_array(
        [float(v) if dtype.kind == "float" else int(v) for v in rng.integers(1, 60, count)], dtype
    )


def stack(p: Program, *items: UOp) -> UOp:
    return p.op(Ops.STACK, *items)


def shape_of(*sizes: int) -> UOp:
    return shape_to_shape_arg(sizes)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("lanes", [2, 3, 7, 8, 32])
def test_window(dtype, lanes):
    """A window of any width starts anywhere: its alignment is that of one element."""
    p = Program()
    out, x = p.add(param(0, 64, dtype)), p.add(param(1, 64, dtype))
    value = p.load(window(x, index(5), lanes))
    p.store(window(out, index(3), lanes), value)
    source = numbers(64, dtype)
    found = everywhere(p, np.zeros(64, numpy_type(dtype)), source)
    np.testing.assert_array_equal(found[3 : 3 + lanes], source[5 : 5 + lanes])
    assert not found[:3].any()
    assert not found[3 + lanes :].any()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_gather_and_scatter(dtype):
    p = Program()
    out, x = p.add(param(0, 64, dtype)), p.add(param(1, 64, dtype))
    places = stack(p, *(index(i) for i in (3, 17, 3, 60)))
    value = p.load(x.index(places))
    p.store(out.index(stack(p, *(index(i) for i in (9, 1, 5, 33)))), value)
    source = numbers(64, dtype)
    found = everywhere(p, np.zeros(64, numpy_type(dtype)), source)
    assert [found[i] for i in (9, 1, 5, 33)] == [source[i] for i in (3, 17, 3, 60)]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("alternative", [True, False])
def test_masked_window_may_lie_outside(dtype, alternative):
    """Lanes whose gate is false are not touched: here the window starts before the buffer."""
    p = Program()
    out, x = p.add(param(0, 8, dtype)), p.add(param(1, 8, dtype))
    lanes = stack(p, *(index(i) for i in range(8)))
    gate = p.op(Ops.CMPLT, index(2), lanes)
    other = [UOp.const(1, dtype)] if alternative else [UOp.const(0, dtype)]
    value = p.load(window(x, index(-3), 8), *other, gate)
    p.store(window(out, index(0), 8), value)
    source = numbers(8, dtype)
    found = from_array(everywhere(p, np.zeros(8, numpy_type(dtype)), source), dtype)
    assert found[:3] == [int(alternative)] * 3
    assert found[3:] == from_array(source, dtype)[:5]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_masked_gather_scatter_and_store(dtype):
    p = Program()
    out, x = p.add(param(0, 16, dtype)), p.add(param(1, 16, dtype))
    lanes = stack(p, *(index(i) for i in range(4)))
    gate = p.op(Ops.CMPNE, lanes, index(2))
    far = p.op(Ops.MUL, lanes, p.op(Ops.WHERE, gate, index(3), index(1000)))
    value = p.load(x.index(far), UOp.const(1, dtype), gate)
    p.store(out.index(far), value, gate)
    p.store(window(out, index(12), 4), value, gate)
    source = numbers(16, dtype)
    found = from_array(everywhere(p, np.zeros(16, numpy_type(dtype)), source), dtype)
    values = from_array(source, dtype)
    assert [found[i] for i in (0, 3, 9)] == [values[i] for i in (0, 3, 9)]
    assert found[12] == values[0]
    assert found[13] == values[3]
    assert found[14] == 0
    assert found[15] == values[9]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_scalar_gate(dtype):
    """One gate for the whole access: elements outside are never read or written."""
    p = Program()
    out, x = p.add(param(0, 8, dtype)), p.add(param(1, 4, dtype))
    i = p.loop(8)
    inside = p.op(Ops.CMPLT, i, index(4))
    value = p.load(x.index(i), UOp.const(1, dtype), inside)
    twice = p.op(Ops.CMPNE, i, index(6))
    st = p.store(out.index(i), value, twice)
    p.end(st, i)
    source = numbers(4, dtype)
    found = from_array(everywhere(p, np.zeros(8, numpy_type(dtype)), source), dtype)
    assert found == [*from_array(source, dtype), 1, 1, 0, 1]


def test_gate_per_row():
    """Rows of one lane have a gate each."""
    p = Program()
    out, x = p.add(param(0, 4, F)), p.add(param(1, 4, F))
    rows = p.op(Ops.RESHAPE, stack(p, *(index(i) for i in (0, 9, 2, 50))), shape_of(4, 1))
    gate = p.op(Ops.CMPLT, rows, index(4))
    value = p.load(x.index(rows), UOp.const(-1.0, F), gate)
    p.store(window(out, index(0), 4), p.op(Ops.RESHAPE, value, shape_of(4)))
    assert everywhere(p, np.zeros(4, np.float32), np.arange(4, dtype=np.float32)).tolist() == [
        0,
        -1,
        2,
        -1,
    ]


def test_if_guards_a_region():
    p = Program()
    out = p.add(param(0, 8, F))
    i = p.loop(8)
    place = p.add(out.index(i))
    branch = p.op(Ops.IF, p.op(Ops.CMPLT, i, index(3)), place)
    st = p.store(place, UOp.const(2.0, F))
    p.op(Ops.ENDIF, branch)
    p.end(st, i)
    assert everywhere(p, np.zeros(8, np.float32)).tolist() == [2.0] * 3 + [0.0] * 5


def test_lanes_broadcast_permute_and_split():
    """(3, 1) + (4,) -> (3, 4), transposed, then taken apart by constants."""
    p = Program()
    out, x = p.add(param(0, 12, F)), p.add(param(1, 8, F))
    column = p.op(Ops.RESHAPE, p.load(window(x, index(0), 3)), shape_of(3, 1))
    row = p.load(window(x, index(4), 4))
    table = p.op(Ops.ADD, column, row)
    assert table.shape == (3, 4)
    turned = p.op(Ops.PERMUTE, table, arg=(1, 0))
    for i in range(4):
        p.store(window(out, index(3 * i), 3), p.op(Ops.INDEX, turned, UOp.const(i)))
    source = np.arange(8, dtype=np.float32) ** 2
    found = everywhere(p, np.zeros(12, np.float32), source)
    np.testing.assert_array_equal(found.reshape(4, 3), (source[:3, None] + source[4:]).T)


def test_shrink_flip_expand_and_lane():
    p = Program()
    out, x = p.add(param(0, 12, F)), p.add(param(1, 8, F))
    value = p.load(window(x, index(0), 8))
    middle = p.op(Ops.SHRINK, value, UOp.const(2), UOp.const(4))
    flipped = p.op(Ops.FLIP, middle, arg=(True,))
    p.store(window(out, index(0), 4), flipped)
    twice = p.op(
        Ops.RESHAPE,
        p.op(Ops.EXPAND, p.op(Ops.SHRINK, value, UOp.const(0), UOp.const(3)), UOp.const(2)),
        shape_of(6),
    )
    p.store(window(out, index(4), 6), twice)
    p.store(out.index(index(10)), p.op(Ops.INDEX, value, UOp.const(7)))
    found = everywhere(p, np.zeros(12, np.float32), np.arange(8, dtype=np.float32))
    assert found.tolist() == [5, 4, 3, 2, 0, 1, 2, 0, 1, 2, 7, 0]


def test_accumulator_in_rows():
    """A register of lane shape becomes values that go around the loop: no memory is left."""
    p = Program()
    out, x = p.add(param(0, 16, F)), p.add(param(1, 64, F))
    acc = p.add(register((2, 8), F))
    start = p.store(acc, UOp.const(0.0, F))
    i = p.loop(8, kind=AxisType.REDUCE)
    row = p.load(window(x, p.op(Ops.MUL, i, index(8)), 8))
    scale = p.op(Ops.RESHAPE, stack(p, UOp.const(1.0, F), UOp.const(2.0, F)), shape_of(2, 1))
    old = p.load(acc.after(start, i))
    new = p.op(Ops.ADD, old, p.op(Ops.MUL, row, scale))
    done = p.end(p.store(acc, new), i)
    total = p.load(acc.after(done))
    p.store(window(out, index(0), 16), p.op(Ops.RESHAPE, total, shape_of(16)))
    source = np.arange(64, dtype=np.float32)
    found = everywhere(p, np.zeros(16, np.float32), source)
    sums = source.reshape(8, 8).sum(0)
    assert found.tolist() == [*sums, *(2 * sums)]


def test_register_array_with_a_running_index():
    """Places that are not constant make it memory."""
    p = Program()
    out = p.add(param(0, 8, dtypes.bool))
    acc = p.add(register((8,), dtypes.bool))
    i = p.loop(8, 0)
    first = p.end(p.store(acc.index(i), p.op(Ops.CMPLT, i, index(3))), i)
    j = p.loop(8, 1)
    value = p.load(acc.after(first).index(p.op(Ops.SUB, index(7), j)))
    p.end(p.store(out.index(j), value), j)
    assert everywhere(p, np.zeros(8, np.bool_)).tolist() == [False] * 5 + [True] * 3


def test_register_taken_at_several_widths():
    """Scalars and a whole read of one register: cells are as wide as the narrowest access."""
    p = Program()
    out = p.add(param(0, 4, dtypes.int32))
    acc = p.add(register((4,), dtypes.int32))
    first = p.store(acc, UOp.const(5, dtypes.int32))
    second = p.store(acc.after(first).index(UOp.const(2)), UOp.const(9, dtypes.int32))
    p.store(window(out, index(0), 4), p.load(acc.after(second)))
    assert everywhere(p, np.zeros(4, np.int32)).tolist() == [5, 5, 9, 5]


def test_nested_loops_closed_by_one_end():
    p = Program()
    out = p.add(param(0, 6, dtypes.int32))
    i, j = p.loop(2, 0), p.loop(3, 1)
    at = p.op(Ops.ADD, p.op(Ops.MUL, i, index(3)), j)
    p.end(p.store(out.index(at), p.op(Ops.MUL, at, at)), i, j)
    assert everywhere(p, np.zeros(6, np.int32)).tolist() == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop_of_a_variable_length(count):
    """A loop whose length may be 0 is tested before it runs."""
    p = Program()
    out, n = p.add(param(0, 5, F)), p.add(variable("n", 0, 5))
    i = p.loop(n)
    p.end(p.store(out.index(i), UOp.const(1.0, F)), i)
    found = everywhere(p, np.zeros(5, np.float32), vals=(count,))
    assert found.tolist() == [1.0] * count + [0.0] * (5 - count)


def test_variables_come_in_the_order_of_their_names():
    p = Program()
    out = p.add(param(0, 2, dtypes.int64))
    b, a = p.add(variable("b", -9, 9)), p.add(variable("a", 0, 2**40, dtypes.int64))
    p.store(out.index(index(0)), a)
    p.store(out.index(index(1)), p.op(Ops.CAST, b, arg=dtypes.int64))
    assert everywhere(p, np.zeros(2, np.int64), vals=(2**39, -7)).tolist() == [2**39, -7]


def test_buffers_are_found_by_slot():
    """A slot that the program does not use still has its place in the call."""
    p = Program()
    out, x = p.add(param(0, 2, F)), p.add(param(3, 2, F))
    p.store(window(out, index(0), 2), p.load(window(x, index(0), 2)))
    unused = np.full(2, -1, np.float32)
    source = np.array([5, 6], np.float32)
    found = everywhere(p, np.zeros(2, np.float32), unused, unused, source)
    assert found.tolist() == [5, 6]


def test_unbounded_loop():
    """Goes on while its condition holds; the body runs once at least."""
    p = Program()
    out = p.add(param(0, 1, dtypes.int32))
    acc = p.add(register((), dtypes.int32))
    start = p.store(acc, UOp.const(1, dtypes.int32))
    loop = p.add(UOp.loop(0))
    new = p.op(Ops.MUL, p.load(acc.after(start, loop)), UOp.const(3, dtypes.int32))
    st = p.store(acc, new)
    done = p.op(Ops.END, st, loop, p.op(Ops.CMPLT, new, UOp.const(200, dtypes.int32)))
    p.store(out.index(index(0)), p.load(acc.after(done)))
    assert everywhere(p, np.zeros(1, np.int32)).tolist() == [243]


def test_threads_share_the_work():
    p = Program()
    out, core = p.add(param(0, 4, dtypes.int32)), p.add(variable("core_id", 0, 3))
    p.store(out.index(core), p.op(Ops.ADD, core, index(10)))
    found = np.zeros(4, np.int32)
    run_llvm(p.done(), found, threads=4)
    assert found.tolist() == [10, 11, 12, 13]
    found = np.zeros(4, np.int32)
    run_python(p.done(), found, global_size=(4, 1, 1), vals=(None,))
    assert found.tolist() == [10, 11, 12, 13]


def test_custom_text():
    p = Program()
    out, x = p.add(param(0, 4, F)), p.add(param(1, 4, F))
    value = p.load(window(x, index(0), 4))
    text = "call <4 x float> @llvm.floor.v4f32(<4 x float> {0})"
    p.store(window(out, index(0), 4), p.op(Ops.CUSTOMI, value, dtype=F, arg=text))
    found = np.zeros(4, np.float32)
    run_llvm(p.done(), found, np.array([1.5, -1.5, 2.0, 0.1], np.float32))
    assert found.tolist() == [1.0, -2.0, 2.0, 0.0]


def test_local_array():
    p = Program()
    out = p.add(param(0, 4, F))
    shape = shape_to_shape_arg((4,))
    arg = ParamArg(0, F, addrspace=AddrSpace.LOCAL)
    local = p.add(UOp(Ops.BUFFER, F, (shape,), arg))
    i = p.loop(4)
    done = p.end(p.store(local.index(i), p.op(Ops.CAST, i, arg=F)), i)
    p.store(window(out, index(0), 4), p.load(window(local.after(done), index(0), 4)))
    assert everywhere(p, np.zeros(4, np.float32)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("op", "words"), [(Ops.EXP2, "EXP2 on float32"), (Ops.POW, "POW on float32")]
)
def test_an_operation_without_words_is_named(op, words):
    p = Program()
    out = p.add(param(0, 1, F))
    x = p.load(out.index(index(0)))
    p.store(out.index(index(0)), p.op(op, *([x] if op is Ops.EXP2 else [x, x])))
    with pytest.raises(RenderError, match=words):
        LLVMRenderer().render(p.done())


def test_an_open_loop_is_refused():
    p = Program()
    out = p.add(param(0, 1, F))
    i = p.loop(1)
    p.store(out.index(i), UOp.const(1.0, F))
    with pytest.raises(RenderError, match="1 loops"):
        LLVMRenderer().render(p.done())

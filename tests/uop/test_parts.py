"""Nodes taken apart and made of other nodes; what a node asks a tensor for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, Variable, dtypes
from tinylab.codegen import to_program
from tinylab.device import Device
from tinylab.errors import ContractError, GradientError, ShardError
from tinylab.uop.args import BufferizeOpts, WmmaArg
from tinylab.uop.ops import AxisType, KernelInfo, Ops, UOp

TWO = ("CPU", "CPU:1")
C3 = UOp.const(3, dtypes.int)


@pytest.fixture
def x() -> UOp:
    return Tensor([1.0, 2.0, 3.0, 4.0]).realize().uop


def test_arguments_and_tags_as_text() -> None:
    loop = UOp.range(4, 0)
    assert (C3.argstr(), (C3 + loop).argstr(), loop.argstr()) == ("3", "None", "(0, AxisType.WEAK)")
    assert [C3.tagstr(), C3.rtag(3).tagstr(), C3.rtag("a").tagstr()] == ["", ", tag=3", ", tag=a"]


def test_order_is_op_argument_type_and_sources() -> None:
    assert C3.tuplize == (Ops.CONST.value, 3, dtypes.int)
    assert (C3 + 1).tuplize[3:] == (C3.tuplize, UOp.const(1, dtypes.int).tuplize)
    assert C3.rtag(1).tuplize == C3.tuplize
    deep = C3
    for _ in range(5000):
        deep = deep + 1
    assert deep.tuplize[0] == Ops.ADD.value


def test_sizes_of_a_shape_node() -> None:
    n = Variable("n", 1, 9)
    assert UOp.stack(C3, C3).as_shape == (3, 3)
    assert UOp.stack(C3, n).as_shape == (3, n)
    assert (C3.as_shape, n.as_shape) == ((3,), (n,))


def test_truth_values_below() -> None:
    loop = UOp.range(4, 0)
    small = loop < 2
    assert small.bool_slice == {small}
    assert (small & (loop < 3)).bool_slice == {small, loop < 3, small & (loop < 3)}
    assert loop.bool_slice == frozenset()


def test_what_is_on_no_device(x: UOp) -> None:
    loop = UOp.range(4, 0)
    assert all(u.is_virtual for u in (C3, loop, Variable("n", 1, 9), UOp.sink()))
    assert not any(u.is_virtual for u in (x, x + 1, x.reshape((2, 2)), x.shard(TWO, 0)))


def test_numbers_are_the_next() -> None:
    first = next(UOp.unique_num)
    assert UOp.new_buffer("CPU", 4, dtypes.int).arg.slot == first + 1


def test_a_constant_for_each_element(x: UOp) -> None:
    assert C3.vconst_like(5) is UOp.const(5, dtypes.int)
    assert [s.arg for s in x.vconst_like(5).src] == [5.0] * 4
    assert x.reshape((2, 2)).vconst_like(1).shape == (4,)
    assert UOp.const((2, 3), dtypes.int).vconst_like(7) is UOp.const((7, 7), dtypes.int)


VIEWS: list[tuple[Any, int | None]] = [
    (lambda x: x, 0),
    (lambda x: x.reshape((2, 2)), 0),
    (lambda x: x.shrink(((1, 3),)), 1),
    (lambda x: x.reshape((2, 2)).shrink(((1, 2), (0, 2))), 2),
    (lambda x: x.reshape((4, 1)).permute((1, 0)), 0),
    (lambda x: x.shrink(((1, 3),)).bitcast(dtypes.int16), 1),
    (lambda x: x.shrink(((0, Variable("n", 1, 4).bind(2)),)), 0),
    (lambda x: x.reshape((2, 2)).permute((1, 0)), None),
    (lambda x: x.reshape((2, 2)).shrink(((0, 2), (0, 1))), None),
    (lambda x: x.flip((0,)), None),
    (lambda x: x.expand((2, 4)), None),
    (lambda x: x.pad(((0, 2),)), None),
]


@pytest.mark.parametrize(("move", "offset"), VIEWS)
def test_where_a_view_begins(x: UOp, move: Any, offset: int | None) -> None:
    for base in (x, x + 1):
        view = move(base)
        assert view.contiguous_view() == (None if offset is None else (base, offset))
        assert view.contiguous_view_offset() == offset


def test_a_value_stored_over_ranges(x: UOp) -> None:
    loop = UOp.range(4, 0)
    stored = (x + 1).bufferize(loop)
    assert (stored.op, stored.src, stored.device) == (Ops.STAGE, (x + 1, loop), "CPU")
    assert x.bufferize(arg=BufferizeOpts("CPU:1")).device == "CPU:1"
    with pytest.raises(ContractError, match="takes arg=BufferizeOpts"):
        x.bufferize(loop, arg=3)


def test_what_one_device_holds(x: UOp) -> None:
    both = Tensor([1.0, 2.0]).shard(TWO).realize().uop
    assert [both.mselect(n).device for n in (0, 1)] == list(TWO)
    assert Tensor(both.mselect(1)).tolist() == [1.0, 2.0]
    cut = Tensor([1.0, 2.0, 3.0, 4.0]).shard(TWO, 0).realize().uop
    assert Tensor(cut.unsharded_base.mselect(1)).tolist() == [3.0, 4.0]
    with pytest.raises(ShardError, match="on several devices, and this one is on CPU"):
        x.mselect(0)
    with pytest.raises(ShardError, match="cut along axis 0"):
        cut.mselect(1)
    moved = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(TWO).realize().uop.mselect(0)
    assert Tensor(moved).permute(1, 0).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert Tensor(moved).flatten().tolist() == [1.0, 2.0, 3.0, 4.0]
    for wrong in (2, -1, "a"):
        with pytest.raises(ShardError, match="is none of 0 to 1"):
            both.mselect(wrong)


def test_values_of_several_devices_are_joined(x: UOp) -> None:
    there = Tensor([5.0, 6.0, 7.0, 8.0], device="CPU:1").realize().uop
    joined = x.mstack(there)
    assert (joined.device, joined.shape) == (TWO, (4,))
    assert Tensor(joined.unshard(0)).numpy().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert x.mstack() is x
    for wrong in (x, there.cast(dtypes.int), there.reshape((2, 2)), C3):
        with pytest.raises(ShardError, match="each on a device of its own"):
            x.mstack(wrong)


def test_addresses(x: UOp) -> None:
    address = x.getaddr()
    assert (address.op, address.dtype, address.shape, address.arg) == (
        Ops.GETADDR, dtypes.uint64, (), "CPU",
    )  # fmt: skip
    assert x.getaddr("CPU:1").arg == "CPU:1"
    with pytest.raises(ContractError, match="holds no storage"):
        C3.getaddr()


def test_tensor_cores_are_nodes() -> None:
    a, acc = UOp.const((1.0,) * 16, dtypes.half), UOp.const((1.0,) * 8, dtypes.float)
    found = UOp.wmma(a, a, acc, (16, 16, 16), "AMD", 32)
    assert (found.op, found.dtype, found.shape) == (Ops.WMMA, dtypes.float, (8,))
    assert found.arg == WmmaArg((16, 16, 16), dtypes.half, "AMD", 32)
    assert found.arg[3] == 32


def test_storage_of_a_shape(x: UOp) -> None:
    made = UOp.empty(2, 3, dtype=dtypes.int8, device="CPU:1")
    assert (made.shape, made.dtype, made.device) == ((2, 3), dtypes.int8, "CPU:1")
    assert made.has_buffer_identity()
    assert UOp.empty((2,)) is not UOp.empty((2,))
    assert UOp.invalids(2, 3).shape == (2, 3)
    like = x.reshape((2, 2)).empty_like(dtype=dtypes.int)
    assert (like.shape, like.dtype, like.device) == ((2, 2), dtypes.int, "CPU")
    assert x.shard(TWO, 0).empty_like().axis == 0


def test_numbers_of_a_node(x: UOp) -> None:
    assert ((x + 1).sum().item(), C3.item(), Variable("n", 1, 9).bind(4).item()) == (14.0, 3, 4)
    assert (x.reshape((2, 2)) + 1).data().tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(ContractError, match="one element"):
        x.item()


def test_only_tensors_draw_random_numbers(x: UOp) -> None:
    for draw in (lambda: UOp.rand(3), lambda: UOp.randn(3), lambda: UOp.randint(3), x.rand_like):
        with pytest.raises(ContractError, match=r"Tensor.rand\(3\).uop"):
            draw()


def test_derivatives_of_a_node(x: UOp) -> None:
    (slope,) = (x * x).sum().gradient(x)
    np.testing.assert_array_equal(Tensor(slope).numpy(), [2, 4, 6, 8])
    (scaled,) = (x * x).gradient(x, gradient=x)
    np.testing.assert_array_equal(Tensor(scaled).numpy(), [2, 8, 18, 32])
    assert (x * x).sum().gradient() == []
    with pytest.raises(GradientError, match="only float Tensors have gradient"):
        (x * x).sum().gradient(x, C3)


def test_a_compiled_program_as_a_device_loads_it() -> None:
    out = UOp.placeholder((4,), dtypes.float, 0)
    loop = UOp.range(4, 0, AxisType.LOOP)
    body = out[loop].store(1.0).end(loop).sink(arg=KernelInfo("ones"))
    program = to_program(body, Device["CPU"].renderer)
    with pytest.raises(ContractError, match="not compiled yet"):
        program.replace(src=program.src[:3]).to_elf()
    with pytest.raises(ContractError, match="this one is a CONST"):
        C3.to_elf()

"""Schedules in the hand: looked at, compiled, run later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import GlobalCounters, Tensor, TinyJit, UOp, Variable
from tinylab.engine import launch
from tinylab.engine.linear import compile_linear, run_linear
from tinylab.opcodes import AxisType, Ops

A = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)


def test_nothing_runs_until_it_is_run():
    x = Tensor(A).realize()
    y = (x @ x.T).softmax()
    GlobalCounters.reset()
    linear = y.schedule_linear()
    assert GlobalCounters.kernel_count == 0
    assert linear.op is Ops.LINEAR
    assert {call.op for call in linear.src} == {Ops.CALL}
    run_linear(linear)
    assert GlobalCounters.kernel_count == len(linear.src) > 1
    e = np.exp(A @ A.T - (A @ A.T).max(1, keepdims=True))
    np.testing.assert_allclose(y.numpy(), e / e.sum(1, keepdims=True), rtol=1e-4)


def test_a_schedule_alone_compiles_nothing(monkeypatch):
    compiled = []
    plain = launch.lower_kernel
    monkeypatch.setattr(
        launch, "lower_kernel", lambda *args, **how: compiled.append(args) or plain(*args, **how)
    )
    x = Tensor(A).realize() * 1.25 + 7
    linear = x.schedule_linear()
    assert compiled == []
    run_linear(linear)
    assert len(compiled) == 1
    # The same schedule, known and not compiled yet.
    y = Tensor(A).realize() * 1.25 + 7
    np.testing.assert_allclose(y.numpy(), A * 1.25 + 7, rtol=1e-6)


def test_what_is_in_memory_gives_an_empty_list():
    assert Tensor(A).realize().schedule_linear().src == ()


def test_compiled_kernels_are_programs():
    y = Tensor(A).realize() + 1
    linear = compile_linear(y.schedule_linear())
    assert [call.src[0].op for call in linear.src] == [Ops.PROGRAM]
    run_linear(linear)
    np.testing.assert_allclose(y.numpy(), A + 1)


def test_variables_and_their_values():
    x = Tensor(A).realize()[: Variable("n", 1, 8).bind(5)]
    linear, var_vals = x.sum().linear_with_vars()
    assert var_vals == {"n": 5}
    assert linear.src
    with pytest.raises(RuntimeError, match="depends on"):
        (x + 1).sum().schedule_linear()


def test_calls_of_bodies():
    x, y = Tensor(A), Tensor(A + 1)
    body = x.as_param(0) * 2 + y.as_param(1)
    np.testing.assert_allclose(x.call(y, fxn=body).numpy(), A * 2 + A + 1, rtol=1e-6)


def test_callify_keeps_the_value():
    x = Tensor(A).realize()
    y = (x * 3).callify()
    assert y.uop.op is Ops.GETTUPLE
    np.testing.assert_allclose(y.numpy(), A * 3, rtol=1e-6)


def test_an_input_that_is_no_buffer_is_named():
    x = Tensor(A).realize()
    linear = (x + 1).schedule_linear()
    (call,) = linear.src
    out, given = call.src[1:]

    def with_input(node):
        return linear.replace(src=(call.replace(src=(call.src[0], out, node)),))

    with pytest.raises(RuntimeError, match=r"must be a buffer on one device, not Ops.CONST 1.0"):
        run_linear(with_input(UOp.const(1.0, given.dtype)))
    param = with_input(UOp.param(1, given.dtype, given.shape, "CPU"))
    with pytest.raises(RuntimeError, match="reads input 1, and 0 were given"):
        run_linear(param)
    with pytest.raises(RuntimeError, match="reads input 0, and 0 were given"):
        x.as_param(0).realize()
    sharded = Tensor(A).shard(("CPU:0", "CPU:1"), 0).realize()
    with pytest.raises(RuntimeError, match=r"not Ops.UNSHARD of shape \(8, 6\) on"):
        run_linear(param, input_uops=[x.uop.base, sharded.uop])
    run_linear(param, input_uops=[x.uop.base, x.uop.base])


def test_a_device_loop_is_a_variable_of_its_own():
    r = UOp.range(2, -1, AxisType.DEVICE)
    (found,) = (r + 1).variables()
    assert (found.expr, found.vmin, found.vmax) == ("_device_num", 0, 1)
    # The kernel of several devices is one; each launch has its number.
    x = Tensor(A).shard(("CPU:0", "CPU:1"), 0).realize()
    linear = (x.sum(0) + Tensor.arange(6).shard(("CPU:0", "CPU:1"))).schedule_linear()
    numbers = {call.arg.device_number for call in linear.src}
    assert numbers <= {None, 0, 1}


def _taken() -> tuple[Tensor, UOp]:
    y = Tensor([1, 2]).realize() + 1
    return y, y.schedule_linear()


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.tolist(),
        lambda y: y.numpy(),
        lambda y: (y + 1).realize(),
        lambda y: y[1:].tolist(),
        lambda y: y.to("CPU:1").realize(),
        lambda y: y.sum().item(),
        lambda y: _plus_one()(y),
    ],
)
def test_a_value_whose_schedule_was_taken_says_so_until_it_is_run(read: Callable[[Tensor], Any]):
    y, linear = _taken()
    with pytest.raises(RuntimeError, match="was taken, and was not run") as e:
        read(y)
    assert "run_linear" in str(e.value.help)
    run_linear(linear)
    read(y)
    assert y.tolist() == [2, 3]


def _plus_one() -> TinyJit:
    f = TinyJit(lambda x: x + 1)
    for _ in range(2):
        f(Tensor([1, 2]).realize())
    return f


def test_schedules_are_run_in_the_order_in_which_they_were_taken():
    y, first = _taken()
    z = y * 10
    second = z.schedule_linear()
    with pytest.raises(RuntimeError, match="was taken, and was not run"):
        run_linear(second)
    run_linear(first)
    run_linear(second)
    assert z.tolist() == [20, 30]


def test_a_part_on_each_device_is_awaited():
    y = (Tensor([1, 2]).realize() + 1).shard(("CPU", "CPU:1"), 0) * 2
    linear = y.schedule_linear()
    with pytest.raises(RuntimeError, match="was taken, and was not run"):
        y.tolist()
    run_linear(linear)
    assert y.tolist() == [4, 6]

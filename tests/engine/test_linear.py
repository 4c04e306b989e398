"""Schedules in the hand: looked at, compiled, run later."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import GlobalCounters, Tensor, Variable
from tinylab.engine.linear import compile_linear, run_linear
from tinylab.opcodes import Ops

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

"""Traced functions: values, gradients, nesting, precompiled bodies, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import GlobalCounters, Tensor, Variable, function
from tinylab.errors import ForbiddenDeviceError, FunctionError
from tinylab.opcodes import Ops

A = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


def plain(x, w):
    return (x @ w).relu() + 1


@pytest.mark.parametrize("precompile", [False, True])
def test_values(precompile: bool):
    layer = function(plain, precompile=precompile)
    x, w = Tensor(A), Tensor(W)
    got = layer(x, w)
    assert got.uop.op is Ops.GETTUPLE
    assert got.shape == (4, 3)
    np.testing.assert_allclose((got * 2).numpy(), 2 * (np.maximum(A @ W, 0) + 1), rtol=1e-5)


@pytest.mark.parametrize("precompile", [False, True])
def test_gradients(precompile: bool):
    layer = function(plain, precompile=precompile)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    got = layer(x * 2, w).square().sum().gradient(x, w)
    want = plain(x * 2, w).square().sum().gradient(x, w)
    for g, e in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-4, atol=1e-5)


def test_equal_calls_are_equal_nodes():
    layer = function(plain)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    assert layer(x, w).uop is layer(x, w).uop


def test_several_results_and_only_one_used():
    @function
    def both(x):
        return x.sum(0), x.max(1)

    x = Tensor(A)
    _, most = both(x)
    np.testing.assert_allclose(most.numpy(), A.max(1), rtol=1e-6)


def test_nested():
    @function
    def inner(x):
        return x * 3

    @function
    def outer(x, y):
        return inner(x) + inner(y)

    x, y = Tensor(A), Tensor(A + 1)
    np.testing.assert_allclose(outer(x, y).numpy(), A * 3 + (A + 1) * 3, rtol=1e-5)
    (grad,) = outer(x, y).sum().gradient(x)
    np.testing.assert_allclose(grad.numpy(), np.full_like(A, 3))


def test_a_precompiled_body_called_twice_keeps_its_buffers_apart():
    layer = function(lambda x: (x @ x).softmax() @ x, precompile=True)
    square = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
    x, y = Tensor(square), Tensor(square + 1)

    def reference(a):
        e = np.exp(a @ a - (a @ a).max(1, keepdims=True))
        return e / e.sum(1, keepdims=True) @ a

    got = (layer(x) + layer(y)).numpy()
    np.testing.assert_allclose(got, reference(square) + reference(square + 1), rtol=1e-4)


def test_a_precompiled_result_that_is_not_used_runs_nothing():
    layer = function(plain, precompile=True)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    layer(x, w)
    GlobalCounters.reset()
    (x + 1).realize()
    assert GlobalCounters.kernel_count == 1


def test_state_of_objects_is_an_input():
    class Layer:
        def __init__(self):
            self.weight = Tensor(W).realize()

        @function
        def __call__(self, x):
            return x @ self.weight

    layer = Layer()
    np.testing.assert_allclose(layer(Tensor(A)).numpy(), A @ W, rtol=1e-5)


def test_buffers_from_outside_must_be_allowed():
    hidden = Tensor(A).realize()
    with pytest.raises(RuntimeError, match="has 1 implicit buffer"):
        function(lambda x: x + hidden)(Tensor(A))
    got = function(lambda x: x + hidden, allow_implicit=True)(Tensor(A))
    np.testing.assert_allclose(got.numpy(), A + A)


def test_a_gradient_function_of_its_own():
    double = function(lambda x: x * 2, grad_fxn=lambda g, call: (g * 7,))
    x = Tensor(A).realize()
    (grad,) = double(x).sum().gradient(x)
    np.testing.assert_allclose(grad.numpy(), np.full_like(A, 7))


def test_only_tensors_are_returned():
    with pytest.raises(RuntimeError, match="function return type"):
        function(lambda x: 3)(Tensor(A))


def test_values_cannot_be_asked_for_inside():
    with pytest.raises(RuntimeError):
        function(lambda x: x * x.sum().item())(Tensor(A))


def test_writing_into_an_input_is_refused():
    def writes(x):
        x += 1
        return x

    x = Tensor(A).realize()
    with pytest.raises(RuntimeError):
        function(writes)(x)
    np.testing.assert_allclose(x.numpy(), A)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_write_to_a_tensor_from_outside_is_refused_and_undone(precompile: bool):
    total = Tensor([1.0, 2.0]).realize()

    @function(precompile=precompile, allow_implicit=True)
    def add(x: Tensor) -> Tensor:
        total.assign(total + x)
        return total * 2

    with pytest.raises(FunctionError, match="must not write into tensors from outside"):
        add(Tensor([10.0, 10.0]))
    assert total.tolist() == [1.0, 2.0]


def test_realizing_inside_is_refused_by_name():
    with pytest.raises(ForbiddenDeviceError, match="usage of device CPU disallowed"):
        function(lambda x: x.realize() + 1)(Tensor([1.0]).realize() * 2)


@pytest.mark.parametrize("precompile", [False, True])
def test_symbolic_sizes(precompile: bool):
    v = Variable("v", 1, 10).bind(3)
    x = Tensor.arange(10).contiguous().realize()
    outside = function(lambda a: a * 2 + 1, precompile=precompile)
    assert outside(x[:v]).sum().item() == 9
    inside = function(lambda a: (a[:v] * 2).sum(), precompile=precompile)
    assert inside(x).item() == 6

"""Derivatives beyond one operation: accumulation, writes, depth, order, and what has none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.errors import GradientError, ScalarGradientError, ShapeError
from tinylab.gradient import GRADIENTS
from tinylab.opcodes import GroupOp, Ops


def test_every_operation_of_the_language_has_a_row() -> None:
    late = {Ops.BITCAST}
    for op in (GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.STACK}) - late:
        assert op in GRADIENTS, op


def test_gradients_add_up() -> None:
    x = Tensor([1.0, 2.0])
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_gradient_of_several_targets() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    gx, gy = (x * y + x).sum().gradient(x, y)
    assert (gx.tolist(), gy.tolist()) == ([4.0, 5.0], [1.0, 2.0])
    assert x.grad is None


def test_incoming_gradient() -> None:
    x = Tensor([1.0, 2.0])
    (x * 2).backward(gradient=Tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(ShapeError, match="gradient shape must match"):
        (x * 2).backward(gradient=Tensor([1.0]))


def test_second_derivative() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    (first,) = (x**3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert second.tolist() == [6.0, 12.0, 18.0]


def test_gradient_of_an_intermediate_value() -> None:
    x = Tensor([2.0])
    y = x * 3
    z = y * y
    assert z.sum().gradient(y)[0].tolist() == [12.0]


def test_looking_does_not_cut_the_gradient_off() -> None:
    x = Tensor([1.0, 2.0])
    y = x * 3
    loss = (y * y).sum()
    assert (y.tolist(), loss.item()) == ([3.0, 6.0], 45.0)
    loss.backward()
    assert x.grad.tolist() == [18.0, 36.0]


def test_detach_stops() -> None:
    x = Tensor([2.0])
    (x * x.detach()).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_only_marked_tensors_get_gradients_where_some_are() -> None:
    x, w = Tensor([2.0]), Tensor([3.0]).is_param_()
    (x * w).sum().backward()
    assert (x.grad, w.grad.tolist()) == (None, [2.0])


def test_unrealized_marked_tensor_gets_its_gradient() -> None:
    w = (Tensor([1.0, 2.0]) + 1).is_param_()
    (w * w).sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]


def test_views_are_leaves_of_their_own() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    w = x.reshape(4)
    (x.sum() + (w * 3).sum()).backward()
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_through_writes() -> None:
    value, board = Tensor([1.0, 2.0]).realize(), Tensor.zeros(4)
    weights = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    board[1:3] = value * 2
    (board * weights).sum().backward()
    assert value.grad.tolist() == [4.0, 6.0]


def test_what_was_overwritten_has_no_gradient() -> None:
    start = Tensor([1.0, 2.0, 3.0]).realize()
    x = start * 1.0
    x[1] = 5.0
    (x * x).sum().backward()
    assert start.grad.tolist() == [2.0, 0.0, 6.0]


def test_ties_share_the_gradient() -> None:
    x = Tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    x.max(1).sum().backward()
    assert np.allclose(x.grad.numpy(), [[0, 0.5, 0.5], [1 / 3] * 3])


def test_product_with_zeros() -> None:
    x = Tensor([[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0]])
    x.prod(1).sum().backward()
    assert x.grad.tolist() == [[6, 3, 2], [6, 0, 0], [0, 0, 0]]


def test_power_at_zero() -> None:
    x = Tensor([0.0, 2.0])
    (x ** Tensor([2.0, 0.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    y = Tensor([0.0, 2.0])
    (Tensor([0.0, 2.0]) ** y).sum().backward()
    assert np.isfinite(y.grad.numpy()[1])


def test_small_floats() -> None:
    x = Tensor([1.0, 2.0], dtype=dtypes.float16)
    (x * x).sum().backward()
    assert x.grad.dtype is dtypes.float16
    assert x.grad.tolist() == [2.0, 4.0]


def test_through_casts() -> None:
    x = Tensor([1.5, 2.5])
    (x.half().float() * x.int()).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_deep_graphs_need_no_recursion() -> None:
    x = Tensor([1.0])
    y = x
    for _ in range(3000):
        y = y + 1
    (grad,) = y.sum().gradient(x)
    assert grad.uop.toposort() is not None


def test_shared_nodes_are_visited_once() -> None:
    x = Tensor([1.0, 0.5])
    y = x
    for _ in range(60):
        y = y * 0.5 + y * 0.5
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_bilinear_gather_adds_up() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    x[Tensor([0, 0, 2])].sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize("f", [lambda z: z.detach(), lambda z: z.sign(), lambda z: (z > 1).float()])
def test_what_a_value_does_not_depend_on_has_zeros(f: Callable[[Tensor], Tensor]) -> None:
    x, z = Tensor([1.0, 2.0]), Tensor([3.0, 4.0, 5.0], dtype=dtypes.float16)
    gx, gz = (x.sum() + f(z).sum()).gradient(x, z)
    assert (gx.tolist(), gz.tolist(), gz.dtype) == ([1, 1], [0, 0, 0], dtypes.float16)
    assert x.sum().gradient(z)[0].tolist() == [0, 0, 0]


def test_errors() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(ScalarGradientError, match="backward must be called on a scalar tensor"):
        x.backward()
    with pytest.raises(GradientError, match="only float Tensors have gradient"):
        Tensor([1, 2]).sum().backward()
    with pytest.raises(AssertionError):
        x.backward()


@pytest.mark.parametrize("last", [lambda a: a.sort(0)[0], lambda a: (a * a).contiguous()])
def test_a_look_at_something_stored_leaves_its_gradient(last):
    a = Tensor([3.0, 1.0])
    value = last(a)
    value.numpy()
    (grad,) = value.sum().gradient(a)
    want = Tensor([3.0, 1.0])
    (untouched,) = last(want).sum().gradient(want)
    np.testing.assert_allclose(grad.numpy(), untouched.numpy())

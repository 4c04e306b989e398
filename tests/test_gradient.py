"""Derivatives beyond one operation: accumulation, writes, depth, order, and what has none."""

from __future__ import annotations

import types
from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, Variable, dtypes, function, nn
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


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([2.0, 0, 3], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
        ([0.0, 0, 3], [[0, 3, 0], [3, 0, 0], [0, 0, 0]]),
        ([0.0, 0, 0], [[0, 0, 0]] * 3),
        ([2.0, 5, 3], [[0, 3, 5], [3, 0, 2], [5, 2, 0]]),
    ],
)
def test_second_derivative_of_a_product(values: list[float], right: list[list[float]]) -> None:
    x = Tensor(values)
    (first,) = x.prod().gradient(x)
    assert [first[k].gradient(x)[0].tolist() for k in range(3)] == right


def test_third_derivative_of_a_product() -> None:
    x = Tensor([0.0, 0, 0, 5])
    (first,) = x.prod().gradient(x)
    (second,) = first[0].gradient(x)
    assert second[1].gradient(x)[0].tolist() == [0, 0, 5, 0]
    assert second[3].gradient(x)[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("values", "right"), [([2, 0, 3], [484, 22, 264]), ([0, 0, 1], [0, 10, 0])]
)
def test_second_derivative_of_running_products(values: list[int], right: list[int]) -> None:
    x = Tensor(values, dtype=dtypes.float64)
    weight = Tensor([1, 2, 3], dtype=dtypes.float64)
    (first,) = (x.cumprod(0) * weight).sum().gradient(x)
    assert (first * first).sum().gradient(x)[0].tolist() == right


@pytest.mark.parametrize("zeros", [(), (17,), (3, 90)])
def test_derivatives_of_long_products(zeros: tuple[int, ...]) -> None:
    """Of more elements than one group has, over two axes; f is linear in each element."""
    values = np.random.default_rng(0).choice([-1.0, 1.0, 1.25, 0.8], 100)
    values[list(zeros)] = 0
    x = Tensor(values.reshape(4, 25))
    (first,) = x.prod().gradient(x)
    weight = np.arange(100.0)
    (second,) = (first.flatten() * Tensor(weight)).sum().gradient(x)
    without = [
        [np.delete(values, [i, j]).prod() * (i != j) for i in range(100)] for j in range(100)
    ]
    np.testing.assert_allclose(
        first.flatten().numpy(), [np.delete(values, i).prod() for i in range(100)], rtol=1e-12
    )
    np.testing.assert_allclose(second.flatten().numpy(), without @ weight, rtol=1e-10)


def test_a_product_of_large_elements_has_small_slopes() -> None:
    x = Tensor([1e30, 1e-30, 1e30])
    np.testing.assert_allclose(x.prod().gradient(x)[0].numpy(), [1, np.inf, 1], rtol=1e-5)


def test_products_of_sizes_and_devices_that_vary() -> None:
    values = np.arange(1, 41, dtype=np.float32) / 5
    whole = Tensor(values)
    right = whole[:13].prod().gradient(whole)[0].numpy()
    x = Tensor(values)
    got = x[: Variable("products", 1, 40).bind(13)].prod()
    (first,) = got.gradient(x)
    np.testing.assert_allclose(first.numpy(), right, rtol=1e-5)
    shared = Tensor(values[:16].reshape(4, 4)).shard(("CPU:0", "CPU:1"), axis=1).realize()
    np.testing.assert_allclose(
        shared.prod().gradient(shared)[0].numpy() * shared.numpy(),
        np.full((4, 4), values[:16].prod()),
        rtol=1e-5,
    )


def test_power_bends_at_zero() -> None:
    """What a mask takes away must not come back as NaN: an infinite slope times 0."""
    x, y = Tensor([0.0, 0.0, 2.0]), Tensor([0.0, 2.0, 0.0])
    (by_x, by_y) = (x**y).sum().gradient(x, y)
    assert (by_x.tolist(), by_y.tolist()[:2]) == ([0, 0, 0], [0, 0])
    assert by_x.sum().gradient(x)[0].tolist() == [0, 2, 0]
    assert by_x.sum().gradient(y)[0].tolist()[1:] == [0, 0.5]
    np.testing.assert_allclose(by_y.sum().gradient(y)[0].numpy(), [0, 0, np.log(2) ** 2], rtol=1e-6)
    (first,) = (x**0).sum().gradient(x)
    assert first.sum().gradient(x)[0].tolist() == [0, 0, 0]


def test_lengths_and_deviations_of_zero_have_no_slope() -> None:
    x = Tensor([[0.0, 0.0], [3.0, 4.0]])
    slope = (x.normalize(dim=1, eps=0.5) * Tensor([1.0, 2.0])).sum().gradient(x)[0]
    np.testing.assert_allclose(slope.numpy(), [[2, 4], [-0.064, 0.048]], atol=1e-6)
    y = Tensor([1.0, 1.0, 1.0])
    (first,) = y.std().gradient(y)
    assert (first.tolist(), first.sum().gradient(y)[0].tolist()) == ([0, 0, 0], [0, 0, 0])


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


FLAT = {
    "sign": Tensor.sign,
    "floor": Tensor.floor,
    "ceil": Tensor.ceil,
    "round": Tensor.round,
    "trunc": Tensor.trunc,
    "a whole quotient": lambda x: x.div(3, rounding_mode="trunc"),
    "floor of a function": function(lambda x: (x * 2).floor()),
    "a function of floor": lambda x: function(lambda y: y * 3)(x.floor()),
    "what is written": lambda x: _written(Tensor.zeros(3).contiguous(), x.round()),
    "a cast": lambda x: x.half().floor().float(),
    "a look": lambda x: (x * 2).floor().contiguous().reshape(3, 1).sum(1),
}


def _written(target: Tensor, x: Tensor) -> Tensor:
    target[:] = x
    return target


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_function_has_a_gradient_of_zeros(name: str) -> None:
    """PyTorch's has; None would say that the value does not depend on it."""
    for loss in (lambda x: FLAT[name](x).sum(), lambda x: FLAT[name](x * 2).exp2().sum()):
        x, other = Tensor([1.5, -2.5, float("inf")]).realize(), Tensor([1.0]).realize()
        loss(x).backward()
        assert x.grad.dtype is x.dtype
        assert x.grad.tolist() == [0.0] * 3
        assert other.grad is None
        assert loss(x).gradient(x)[0].tolist() == [0.0] * 3


def test_what_is_flat_adds_nothing_to_other_gradients() -> None:
    x = Tensor([1.5, -2.5]).realize()
    (x * x - x.floor() * 7).sum().backward()
    assert x.grad.tolist() == [3.0, -5.0]
    (x.round() * x).sum().backward()  # the factor counts, rounding does not
    assert x.grad.tolist() == [3.0 + 2.0, -5.0 - 2.0]
    x.sign().sum().backward()
    assert x.grad.tolist() == [5.0, -7.0]
    (second,) = x.floor().sum().gradient(x)[0].sum().gradient(x)
    assert second.tolist() == [0.0, 0.0]


def test_no_zeros_come_through_what_is_detached_or_compared() -> None:
    for loss in (lambda x: x.floor().detach().sum(), lambda x: (x.floor() > 1).float().sum()):
        x = Tensor([1.5, 2.5]).realize()
        (loss(x) * Tensor([1.0]).realize()).sum().backward()
        assert x.grad is None


def test_zeros_below_what_is_flat_are_not_worked_out() -> None:
    w, x = Tensor.ones(4, 4).realize(), Tensor.ones(4, 4).realize()
    (x @ w).floor().sum().backward()
    GlobalCounters.reset()
    assert w.grad.tolist() == [[0.0] * 4] * 4
    assert GlobalCounters.kernel_count <= 1


@pytest.mark.parametrize("bound", [0.0, 1.5])
def test_a_value_at_a_bound_shares_but_for_activations(bound: float) -> None:
    """As PyTorch and tinygrad have it: half of the slope for maximum, none for relu's kind."""
    x = Tensor([bound, bound + 1, bound - 1])
    for right in (bound, Tensor(bound), Tensor.full((3,), bound)):
        assert x.maximum(right).sum().gradient(x)[0].tolist() == [0.5, 1.0, 0.0]
        assert x.minimum(right).sum().gradient(x)[0].tolist() == [0.5, 0.0, 1.0]
    assert x.clip(bound).sum().gradient(x)[0].tolist() == [1.0, 1.0, 0.0]
    y = x - bound
    assert y.relu().sum().gradient(x)[0].tolist() == [0.0, 1.0, 0.0]
    assert y.hardtanh(0, 9).sum().gradient(x)[0].tolist() == [0.0, 1.0, 0.0]
    assert y.hardtanh(-9, 0).sum().gradient(x)[0].tolist() == [0.0, 0.0, 1.0]


def test_an_activation_of_a_number_is_a_number() -> None:
    for found, right in ((Tensor(-2.0).relu(), "0."), (Tensor(9.0).hardtanh(), "1.")):
        assert repr(found).startswith(f"Tensor({right}")


def test_a_number_that_is_a_parameter_has_memory_of_its_own():
    x = Tensor([1.0, 2.0])
    marked, older = Tensor(2.0).is_param_(), Tensor(2.0)
    with pytest.warns(DeprecationWarning, match="requires_grad"):
        older.requires_grad = True
    with pytest.warns(DeprecationWarning, match="requires_grad"):
        made = Tensor(2.0, requires_grad=True)
    for scale in (marked, older, made):
        assert (scale.dtype, scale.item()) == (dtypes.float32, 2.0)
        loss = (x * scale * 2.0).sum()  # the other 2.0 is none of it
        assert loss.gradient(scale)[0].item() == 6
        loss.backward()
        assert scale.grad.item() == 6
    spread = Tensor.full((2,), 3.0, buffer=False).is_param_()
    (x * spread).sum().backward()
    assert spread.grad.tolist() == [1, 2]


def test_an_optimizer_learns_a_number():
    model = types.SimpleNamespace(scale=Tensor(1.0))
    optimizer = nn.optim.SGD([model.scale], lr=0.5)
    with Context(TRAINING=1):
        (model.scale * Tensor([1.0, 2.0])).sum().backward()
        optimizer.step()
    assert model.scale.item() == 1 - 0.5 * 3


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (lambda: Tensor(2.0), "a weak Tensor: 2.0"),
        (lambda: Tensor.const(2.0, dtypes.float32), "a constant: 2.0"),
    ],
)
def test_a_bare_number_is_no_target(target, what):
    number = target()
    with pytest.raises(GradientError, match=f"cannot take gradient wrt {what} is no place") as e:
        (Tensor([1.0, 2.0]) * number).sum().gradient(number)
    assert "is_param_() makes it one" in str(e.value)


def _largest_of_a_difference(x):
    z = x.cat(x * x, dim=0)
    return (z - z.mean(0, keepdim=True)).max(0)


def _largest_after_a_norm(x):
    return x.reshape(1, -1).cat((x * x).reshape(1, -1), dim=1).layernorm().max(1)


def _smallest(x):
    return -_largest_of_a_difference(-x)


def _pooled(x):
    z = (x * x + x * 3).cat(x, dim=0)
    return z.reshape(1, 1, 4, -1).max_pool2d(2)


@pytest.mark.parametrize("noopt", [0, 1])
@pytest.mark.parametrize(
    "largest", [_largest_of_a_difference, _largest_after_a_norm, _smallest, _pooled]
)
def test_the_gradient_of_a_maximum_finds_what_is_worked_out_again(largest, noopt):
    for seed in range(30):
        array = np.random.default_rng(seed).uniform(-1, 1, (4, 1)).astype(np.float32)
        x = Tensor(array)
        with Context(NOOPT=noopt):
            found = largest(x).sum().gradient(x)[0].numpy()
            wide = Tensor(array, dtype="float64")
            expected = largest(wide).sum().gradient(wide)[0].numpy()
        np.testing.assert_allclose(found, expected, atol=2e-2)

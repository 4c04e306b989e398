"""Traced functions: values, gradients, nesting, precompiled bodies, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit, UOp, Variable, dtypes, function
from tinylab.errors import ForbiddenDeviceError, FunctionError, GradientError
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


def cube_gradient(g, call):
    return (g * 3 * call.src[1] * call.src[1],)


@pytest.mark.parametrize("how", [{}, {"precompile": True, "precompile_backward": True}])
@pytest.mark.parametrize("grad_fxn", [None, cube_gradient])
def test_derivatives_of_higher_order(how, grad_fxn):
    cube = function(lambda x: x * x * x, grad_fxn=grad_fxn, **how)
    x = Tensor(A).realize()
    (first,) = cube(x).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    (third,) = second.sum().gradient(x)
    np.testing.assert_allclose(first.numpy(), 3 * A**2, rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), 6 * A, rtol=1e-5)
    np.testing.assert_allclose(third.numpy(), np.full_like(A, 6), rtol=1e-5)


def test_a_written_gradient_is_used_wherever_the_function_is():
    seven = function(lambda x: x * 2, grad_fxn=lambda g, call: (g * 7,))
    outer = function(lambda x: seven(x) * 3)
    x = Tensor(A).realize()
    for f, factor in ((outer, 21), (lambda x: seven(seven(x)), 49), (lambda x: seven(x) + x, 8)):
        np.testing.assert_allclose(f(x).sum().gradient(x)[0].numpy(), np.full_like(A, factor))
    np.testing.assert_allclose(seven(x).gradient(x, gradient=x)[0].numpy(), 7 * A, rtol=1e-6)
    w = Tensor(A).is_param_()
    seven(w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.full_like(A, 7))
    np.testing.assert_allclose(seven(x.detach()).sum().gradient(x)[0].numpy(), np.zeros_like(A))


def test_a_written_gradient_is_captured():
    square = function(lambda x: x * x, grad_fxn=lambda g, call: (g * call.src[1] * 2,))

    @TinyJit
    def step(x):
        return square(x).sum().gradient(x)[0].realize()

    for n in range(5):
        assert step(Tensor([float(n)]).realize()).tolist() == [2.0 * n]


def test_an_argument_without_a_gradient_has_zeros():
    both = function(lambda x, y: x * 2 + y, grad_fxn=lambda g, call: (g * 7, None))
    x, y = Tensor(A).realize(), Tensor(A).realize()
    gx, gy = both(x, y).sum().gradient(x, y)
    np.testing.assert_allclose(gx.numpy(), np.full_like(A, 7))
    np.testing.assert_allclose(gy.numpy(), np.zeros_like(A))


def test_a_written_gradient_may_be_a_list_of_tensors():
    double = function(lambda x: x * 2, grad_fxn=lambda g, call: [Tensor(g) * 7])
    x = Tensor(A, dtype=dtypes.float16).realize()
    (grad,) = double(x).sum().gradient(x)
    assert grad.dtype is dtypes.float16
    np.testing.assert_allclose(grad.numpy(), np.full_like(A, 7))


@pytest.mark.parametrize(
    ("back", "says"),
    [
        (lambda g, call: g, "the gradient function gave UOp"),
        (lambda g, call: None, "the gradient function gave None"),
        (lambda g, call: (g, g), "the gradient function gave 2 gradients for 1 argument"),
        (lambda g, call: (), "the gradient function gave 0 gradients for 1 argument"),
        (lambda g, call: (3,), "the gradient function gave 3 for argument 0"),
        (lambda g, call: (g.sum(0),), r"gave shape \(5,\) for argument 0 of shape \(4, 5\)"),
    ],
)
def test_a_gradient_function_that_gives_something_else_is_told(back, says):
    double = function(lambda x: x * 2, grad_fxn=back)
    x = Tensor(A).realize()
    with pytest.raises(GradientError, match=says):
        double(x).sum().gradient(x)


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


def test_a_refusal_names_the_function_and_the_remedy():
    def asks(x):
        return x * x.sum().item()

    with pytest.raises(ForbiddenDeviceError, match="asks asks for a value") as e:
        function(asks)(Tensor([1.0, 2.0]))
    assert "make the value outside" in e.value.help


def with_a_write(x: Tensor) -> Tensor:
    y = x * 1
    y[0] = 5
    return y


EVERYDAY = {
    "itself": (lambda x: x, [[1, 2, 3]], [1, 1, 1]),
    "itself and more": (lambda x: (x, x + 1), [[1, 2, 3], [2, 3, 4]], [1, 1, 1]),
    "twice": (lambda x: (x, x), [[1, 2, 3], [1, 2, 3]], [1, 1, 1]),
    "its own type": (lambda x: x.float(), [[1, 2, 3]], [1, 1, 1]),
    "contiguous": (lambda x: x.contiguous(), [[1, 2, 3]], [1, 1, 1]),
    "a list as index": (lambda x: x[[1, 0]], [[2, 1]], [1, 1, 0]),
    "a tensor as index": (lambda x: x[Tensor([1, 0])], [[2, 1]], [1, 1, 0]),
    "scatter": (lambda x: x.scatter(0, Tensor([0, 1]), 9.0), [[9, 9, 3]], [0, 0, 1]),
    "constants": (lambda x: x * Tensor([2.0, 3.0, 4.0]), [[2, 6, 12]], [2, 3, 4]),
    "numpy": (lambda x: x * Tensor(np.array([2, 3, 4], np.float32)), [[2, 6, 12]], [2, 3, 4]),
    "a write": (with_a_write, [[5, 2, 3]], [0, 1, 1]),
    "also contiguous": (lambda x: (x + 1, (x + 1).contiguous()), [[2, 3, 4]] * 2, [1, 1, 1]),
    "contiguous first": (lambda x: ((x + 1).contiguous(), x + 1), [[2, 3, 4]] * 2, [1, 1, 1]),
    "detached too": (lambda x: (x.contiguous_backward(), x.detach()), [[1, 2, 3]] * 2, [1, 1, 1]),
    "stretched": (
        lambda x: (x[:1].expand(2), x[:1].expand(2).contiguous()),
        [[1, 1]] * 2,
        [2, 0, 0],
    ),
    "sums": (lambda x: (x.sum(), x.sum().contiguous(), x.sum() + 1), [6, 6, 7], [1, 1, 1]),
    "places": (
        lambda x: (x * 1, Tensor.arange(3), Tensor.arange(3).contiguous()),
        [[1, 2, 3], [0, 1, 2], [0, 1, 2]],
        [1, 1, 1],
    ),
    "a number": (lambda x: (x + 1, Tensor(3.0)), [[2, 3, 4], 3], [1, 1, 1]),
    "only a number": (lambda x: Tensor(3.0), [3], [0, 0, 0]),
    "nothing": (lambda x: (x + 1, x[0:0]), [[2, 3, 4], []], [1, 1, 1]),
}


@pytest.mark.parametrize("name", EVERYDAY)
@pytest.mark.parametrize("precompile", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_everyday_bodies(name: str, precompile: bool, stored: bool):
    body, right, gradient = EVERYDAY[name]
    x = Tensor([1.0, 2.0, 3.0]).realize()
    x = x if stored else x * 1
    traced = function(body, precompile=precompile)
    nested = function(lambda x: traced(x), precompile=precompile)
    for called in (traced, nested, traced):
        found = called(x)
        found = found if isinstance(found, tuple) else (found,)
        assert [r.tolist() for r in found] == right
        assert found[0].sum().gradient(x)[0].tolist() == gradient
        Tensor.realize(*found)  # all at once
        assert [r.tolist() for r in found] == right


def test_data_made_inside_is_kept_by_a_jit():
    picked = function(lambda x: x[[1, 0]] + Tensor([10.0, 20.0]))
    jitted = TinyJit(lambda x: picked(x).realize())
    for n in range(5):
        assert jitted(Tensor([1.0 + n, 2.0]).realize()).tolist() == [12.0, 21.0 + n]


def test_data_from_outside_still_has_to_be_passed():
    hidden = Tensor([1.0, 2.0]).realize()
    with pytest.raises(FunctionError, match="1 implicit buffer"):
        function(lambda x: x[[1, 0]] + hidden)(Tensor([1.0, 2.0]))


V = Variable("v", 1, 10)


def rows(t: Tensor, count: int) -> np.ndarray:
    return t[:count].numpy()


@pytest.mark.parametrize("precompile", [False, True])
def test_symbolic_sizes(precompile: bool):
    x = Tensor.arange(10).contiguous().realize()
    outside = function(lambda a: a * 2 + 1, precompile=precompile)
    inside = function(lambda a, v: (a[:v] * 2).sum(), precompile=precompile)
    for n in (3, 7, 1, 10):
        v = V.bind(n)
        found = outside(x[:v])
        assert found.uop.op is Ops.GETTUPLE
        assert found.shape == (v,)
        np.testing.assert_array_equal(rows(found + 0, n), np.arange(n) * 2 + 1)
        assert inside(x, v).item() == n * (n - 1)


def test_a_precompiled_body_of_symbolic_size_is_scheduled_once(capsys):
    layer = function(lambda a: (a.softmax(0) @ a.T).sum(1), precompile=True)
    x = Tensor(np.random.default_rng(3).standard_normal((10, 4)).astype(np.float32)).realize()
    with Context(DEBUG=2):
        for n in (3, 7):
            part = x[: V.bind(n)]
            linear, values = (layer(part) + layer(part * 2)).linear_with_vars()
            assert values == {"v": n}
            assert all(c.src[0].op is Ops.SINK for c in linear.src)
    assert capsys.readouterr().out.count("function ") == 1


def test_a_part_in_the_middle_of_a_buffer_is_copied_for_a_precompiled_body():
    layer = function(lambda a: a.flip(0) * 2, precompile=True)
    x = Tensor.arange(12).contiguous().realize()
    assert rows(layer(x[2 : V.bind(5) + 2]), 5).tolist() == [12, 10, 8, 6, 4]


@pytest.mark.parametrize("precompile", [False, True])
def test_gradients_of_symbolic_sizes(precompile: bool):
    layer = function(plain, precompile=precompile, precompile_backward=precompile)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    part = x[: Variable("v", 1, 4).bind(3)]
    got = layer(part, w).square().sum().gradient(x, w)
    want = plain(x[:3], w).square().sum().gradient(x, w)
    for g, e in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-4, atol=1e-5)


def functions_below(t: Tensor) -> list[str]:
    return [u.arg.name for u in t.uop.toposort() if u.op is Ops.FUNCTION]


def test_a_precompiled_backward_is_a_function_of_its_own():
    layer = function(plain, precompile=True, precompile_backward=True)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    got = layer(x, w).square().sum().gradient(x, w)
    assert "backward of plain" in functions_below(got[0])
    want = plain(x, w).square().sum().gradient(x, w)
    for g, e in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-4, atol=1e-5)
    assert "backward of plain" not in functions_below(
        function(plain, precompile=True)(x, w).sum().gradient(w)[0]
    )


def test_only_arguments_that_need_a_gradient_get_one():
    layer = function(plain, precompile=True, precompile_backward=True)
    x, w = Tensor(A).realize(), Tensor(W).realize()
    (grad,) = layer(x, w).sum().gradient(w)
    found = [u for u in grad.uop.toposort() if u.op is Ops.FUNCTION]
    backward = next(f for f in found if f.arg.name == "backward of plain")
    assert len(backward.src[0].src) == 1
    np.testing.assert_allclose(grad.numpy(), plain(x, w).sum().gradient(w)[0].numpy(), rtol=1e-5)


def test_gradients_of_several_results_come_together():
    seen = []

    def back(*grads, call):
        seen.append(len(grads))
        return (grads[0] * 2 + grads[1] * 3,)

    both = function(lambda x: (x * 2, x * 3), grad_fxn=back)
    x = Tensor(A).realize()
    double, triple = both(x)
    (grad,) = (double.sum() * 5 + triple.sum() * 7).gradient(x)
    np.testing.assert_allclose(grad.numpy(), np.full_like(A, 31))
    assert seen == [2]


def test_arguments_that_do_not_fit_a_body_are_refused():
    p = UOp.param(0, dtypes.float32, (4, 5))
    body, x = p * UOp.param(1, dtypes.float32, (4, 5)), Tensor(A).uop
    with pytest.raises(TypeError, match="expected 2 args, got 1"):
        body.call(x)
    with pytest.raises(TypeError, match=r"arg 1 shape mismatch: \(5, 3\) for \(4, 5\)"):
        body.call(x, Tensor(W).uop)
    with pytest.raises(TypeError, match="arg 1 dtype mismatch"):
        body.call(x, x.cast(dtypes.int32))
    with pytest.raises(TypeError, match="arg 1 axis mismatch"):
        body.call(x, Tensor(A).shard(("CPU:0", "CPU:1"), 0).uop)


def test_storage_that_is_made_and_filled_inside_is_no_input() -> None:
    @function
    def inner(t: Tensor) -> Tensor:
        filled = Tensor.zeros(2, 3).contiguous()
        filled[:, 1] = t
        return filled + Tensor.ones(3)

    assert inner(Tensor([5.0, 6.0])).tolist() == [[1, 6, 1], [1, 7, 1]]


def test_storage_that_nobody_fills_is_refused() -> None:
    with pytest.raises(FunctionError, match="1 implicit buffer"):
        function(lambda t: t + Tensor.empty(2))(Tensor([5.0, 6.0]))


@pytest.mark.parametrize("precompile", [False, True])
def test_random_numbers_inside_are_new_each_time(precompile: bool) -> None:
    draw = function(lambda t: t + Tensor.rand(4), precompile=precompile)
    Tensor.manual_seed(3)
    found = [draw(Tensor.zeros(4)).tolist() for _ in range(2)]
    Tensor.manual_seed(3)
    assert found == [Tensor.rand(4).tolist() for _ in range(2)]


@pytest.mark.parametrize("settings", [{}, {"precompile": True, "precompile_backward": True}])
def test_numbers_are_arguments(settings):
    scaled = function(lambda x, s: x * s, allow_implicit=False, **settings)
    for dtype in (dtypes.half, dtypes.float32):  # a number takes the type it meets
        x = Tensor([1.0, 2.0], dtype=dtype)
        assert scaled(x, Tensor(2.0)).dtype is dtype
        assert scaled(x, Tensor(2.0)).tolist() == [2, 4]
        assert scaled(x, Tensor(3.0)).tolist() == [3, 6]
        assert scaled(x, Tensor(3.0)).sum().gradient(x)[0].tolist() == [3, 3]
    learned = Tensor(2.0).is_param_()
    assert scaled(x, learned).sum().gradient(learned)[0].item() == 3


def test_weak_values_in_memory_are_arguments():
    scaled = function(lambda x, s: x * s, allow_implicit=False)
    chosen = Tensor([True, False]).where(1.5, 2)
    assert dtypes.is_weak(chosen.dtype)
    found = scaled(Tensor([1.0, 2.0], dtype=dtypes.half), chosen)
    assert (found.dtype, found.tolist()) == (dtypes.half, [1.5, 4])
    both = function(lambda s: (s + 1, s * 2))(Tensor(2.0))
    assert [t.item() for t in both] == [3, 4]


def test_a_number_is_not_written_to_inside():
    def written(s):
        s += 1
        return s

    with pytest.raises(FunctionError, match="must not write into"):
        function(written)(Tensor(2.0))


OUTSIDE = {
    "ones": lambda: Tensor.ones(2),
    "random": lambda: Tensor.rand(2),
    "computed": lambda: Tensor([1.0, 2.0]) + 1,
    "positions": lambda: Tensor.arange(2.0),
    "in memory": lambda: Tensor([1.0, 2.0]).realize(),
    "matrix": lambda: Tensor.ones(3, 2).realize(),
    "turned": lambda: Tensor.ones(2, 1).T,
    "number": lambda: Tensor(2.0).is_param_(),
    "number in memory": lambda: Tensor(2.0).is_param_().realize(),
}


@pytest.mark.parametrize("precompile", [False, True])
@pytest.mark.parametrize("make", OUTSIDE)
def test_gradients_of_tensors_that_are_read_without_being_passed(make, precompile):
    x = Tensor([3.0, 4.0])
    w = OUTSIDE[make]()
    scaled = function(lambda x: x * w, allow_implicit=True, precompile=precompile)
    expected = (x * w).sum().gradient(w)[0].tolist()
    assert scaled(x).sum().gradient(w)[0].tolist() == expected
    w.is_param_()
    scaled(x).sum().backward()
    assert w.grad.tolist() == expected


def test_a_parameter_that_is_updated_between_calls_keeps_its_gradient():
    w, x = Tensor([1.0, 2.0]).is_param_().realize(), Tensor([3.0, 4.0])
    scaled = function(lambda x: x * w, allow_implicit=True)
    for _ in range(3):
        w.grad = None
        scaled(x).sum().backward()
        assert w.grad.tolist() == [3, 4]
        w.assign(w - w.grad * 0.125)  # waits until somebody looks
    np.testing.assert_array_equal(w.numpy(), [1 - 3 * 0.375, 2 - 4 * 0.375])


def test_old_and_new_values_of_one_buffer_are_both_read():
    w = Tensor([1.0, 2.0]).realize()
    old = w * 1
    w.assign(w * 10)
    assert function(lambda x: x * w + old, allow_implicit=True)(Tensor([1.0, 1.0])).tolist() == [
        11,
        22,
    ]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_function_within_reads_what_the_outer_one_made(dtype):
    @function(allow_implicit=True)
    def outer(x):
        doubled = x * 2

        @function(allow_implicit=True)
        def inner(y):
            return y + doubled + x

        return inner(x * 10)

    x = Tensor([1, 2], dtype=dtype)
    assert outer(x).tolist() == [13, 26]
    if dtype == "float32":
        assert outer(x).sum().gradient(x)[0].tolist() == [13, 13]


@pytest.mark.parametrize("precompile", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_write_that_waits_is_done_once(dtype, precompile):
    w = Tensor([1, 2], dtype=dtype).realize()
    w += 1
    seen = w * 10
    scaled = function(lambda x: x * w + seen, allow_implicit=True, precompile=precompile)
    x = Tensor([1, 1], dtype=dtype)
    assert [scaled(x).tolist() for _ in range(3)] == [[22, 33]] * 3
    assert w.tolist() == [2, 3]
    w += 1
    assert scaled(x).tolist() == [23, 34]
    assert w.tolist() == [3, 4]


def test_a_call_of_what_waits_for_a_write_does_not_write():
    w = Tensor([1.0, 2.0]).realize()
    w += 1
    a, b = w * 2, w * 3
    a.callify()
    b.callify()
    assert (a.tolist(), b.tolist(), w.tolist()) == ([4, 6], [6, 9], [2, 3])

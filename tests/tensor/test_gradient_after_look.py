"""A look at values runs the writes below them, and cuts off no gradient."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from tinylab import GlobalCounters, Tensor, TinyJit

X = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def _parameter() -> Tensor:
    return Tensor(X).is_param_()


def _set(a: Tensor, x: Tensor) -> Tensor:
    a[0] = x[1] * 2
    return a


def _row(a: Tensor, x: Tensor) -> Tensor:
    v = a[1:]
    v += x[:2]
    return a


def _detached(a: Tensor, x: Tensor) -> Tensor:
    v = a.detach()
    v[0] = x[1] * 2
    return a


def _one_by_one(x: Tensor) -> Tensor:
    out = Tensor.zeros(3).contiguous()
    for i in range(3):
        out[i] = x[: i + 1].sum()
    return out


def _times(a: Tensor, x: Tensor) -> Tensor:
    a *= x
    return a


# Each with its gradient of (a * a).sum().
FORMS: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
    "clone": (lambda x: x.clone(), [2, 4, 6]),
    "setitem of a copy": (lambda x: _set(x.clone(), x), [0, 20, 6]),
    "setitem of an expression": (lambda x: _set(x * 3, x), [0, 52, 54]),
    "setitem of zeros": (lambda x: _set(Tensor.zeros(3), x), [0, 16, 0]),
    "assign": (lambda x: (x * 3).assign(x * x), [4, 32, 108]),
    "assign of memory": (lambda x: Tensor([0.0] * 3).realize().assign(x * x), [4, 32, 108]),
    "in place": (lambda x: _times(x.clone(), x), [4, 32, 108]),
    "through a view": (lambda x: _row(x.clone(), x), [8, 16, 10]),
    "through detach": (lambda x: _detached(x.clone(), x), [0, 20, 6]),
    "one by one": (_one_by_one, [20, 18, 12]),
    "copy of a copy": (lambda x: x.clone().clone().flip(0).clone(), [2, 4, 6]),
}


@pytest.mark.parametrize("look", ["none", "loss", "value", "both", "before"])
@pytest.mark.parametrize("form", FORMS)
def test_a_look_keeps_the_gradient(form: str, look: str) -> None:
    """`loss.item()` before `loss.backward()` left no gradient where a value was written."""
    make, wanted = FORMS[form]
    x = _parameter()
    if look == "before":
        x.numpy()
    a = make(x)
    if look in ("value", "both"):
        a.numpy()
    loss = (a * a).sum()
    if look in ("loss", "both"):
        loss.item()
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == wanted


@pytest.mark.parametrize("form", FORMS)
def test_second_derivatives_after_a_look(form: str) -> None:
    make, _ = FORMS[form]
    found = []
    for look in (False, True):
        x = _parameter()
        a = make(x)
        loss = (a * a * a).sum()
        if look:
            loss.item()
        (first,) = loss.gradient(x)
        if look:
            first.numpy()
        found.append(first.sum().gradient(x)[0].tolist())
    assert found[0] == found[1] != [0, 0, 0]


def test_what_was_looked_at_is_a_place_for_gradients_too() -> None:
    x = _parameter()
    a = x.clone()
    a.numpy()
    (a * a).sum().backward()
    found = (a * x).sum().gradient(a, x)
    assert [t.tolist() for t in found] == [[1, 2, 3], [2, 4, 6]]


def test_a_write_behind_the_look() -> None:
    x = _parameter()
    a = x.clone()
    a.numpy()
    a[0] = x[1] * 5
    (a * a).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 104, 6]
    assert x.tolist() == [1, 2, 3]
    assert a.tolist() == [10, 2, 3]


def test_values_are_read_not_worked_out_again() -> None:
    x = _parameter()
    a = (x.exp() * 2).clone()
    a.numpy()
    (grad,) = (a * a).sum().gradient(a)
    GlobalCounters.reset()
    assert np.allclose(grad.numpy(), 4 * np.exp(X))
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.global_mem <= 2 * X.nbytes


def _write(x: Tensor) -> None:
    x.assign(Tensor([7.0, 7.0, 7.0]))


def _write_now(x: Tensor) -> None:
    x.assign(Tensor([7.0, 7.0, 7.0])).realize()


def _write_in_replays(x: Tensor) -> None:
    step = TinyJit(lambda: x.assign(x * 0 + 7).realize())
    for _ in range(3):
        step()


@pytest.mark.parametrize("write", [_write, _write_now, _write_in_replays])
def test_what_it_was_made_of_is_written(write: Callable[[Tensor], None]) -> None:
    """What was known of the value is over: its memory is right, its gradient ends there."""
    x, w = _parameter(), Tensor([1.0, 1.0, 1.0]).is_param_()
    a = (x * x).clone()
    a.numpy()
    write(x)
    assert x.tolist() == [7, 7, 7]
    loss = (a * w).sum()
    (grad,) = loss.gradient(w)
    assert grad.tolist() == [1, 4, 9]
    assert loss.gradient(x)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("write", [_write, _write_now, _write_in_replays])
def test_it_is_written_itself(write: Callable[[Tensor], None]) -> None:
    x = _parameter()
    a = (x * x).clone()
    a.numpy()
    write(a)
    assert a.tolist() == [7, 7, 7]
    assert (a * x).sum().gradient(x)[0].tolist() == [7, 7, 7]


def _held_memory() -> int:
    gc.collect()
    return GlobalCounters.mem_used


def test_a_loop_that_looks_holds_no_memory_of_its_past() -> None:
    """A simulation that shows each state keeps the last few, unless a parameter is below."""
    steps = 20

    def run(u: Tensor) -> tuple[int, Tensor]:
        first = 0
        for i in range(steps):
            new = (u * 0.5).clone()
            new[1:] = u[:-1]
            u = new
            u.numpy()
            if i == 2:
                first = _held_memory()
        return _held_memory() - first, u

    assert run(Tensor.ones(1 << 16).contiguous().realize())[0] <= 0
    start = Tensor.ones(1 << 16).contiguous().realize().is_param_()
    grown, last = run(start)
    assert grown > 0
    found = last.sum().gradient(start)[0].numpy()
    assert found[0] == pytest.approx(2 - 0.5**steps)
    assert found[1:-steps].tolist() == [1] * (len(found) - 1 - steps)
    assert not found[-steps:].any()


@pytest.mark.parametrize("look", [False, True])
def test_a_value_that_was_read_between_two_writes(look: bool) -> None:
    """It is kept in memory of its own before the second write, and the loss with it."""
    w = _parameter()
    s = w.clone()
    r = s * 2
    s.assign(s * w)
    loss = (s * s).sum() + (r * w).sum()
    if look:
        loss.item()
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [8, 40, 120]


@pytest.mark.parametrize("write", ["whole", "part"])
def test_a_gradient_that_ends_at_memory_written_again_is_told(write: str) -> None:
    """What the memory held before is gone; in silence the gradient was only a part of it."""
    x = _parameter()
    s = (x * 3).clone()
    s.numpy()
    if write == "whole":
        s += x
    else:
        s[0] = x[1]
    loss = (s * s).sum()
    loss.item()
    with pytest.warns(
        UserWarning, match=r"gradients end at memory .* ran a write to it; call backward"
    ):
        loss.backward()


def test_values_that_no_parameter_is_below_are_written_in_silence() -> None:
    x, total = _parameter(), Tensor([0.0, 0.0, 0.0]).realize()
    for _ in range(2):
        total += Tensor([1.0, 2.0, 3.0])
        total.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * total).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4, 6]


def _add_one(x: Tensor, _: Tensor) -> Tensor:
    x += 1
    return x


def _held(x: Tensor, _: Tensor) -> Tensor:
    y = (x * 2).contiguous()
    y.sum().item()
    x.assign(Tensor([9.0, 9.0, 9.0]))
    x.sum().item()
    return y


def _other_memory(x: Tensor, _: Tensor) -> Tensor:
    y = Tensor.zeros(3).contiguous().realize()
    y.assign(x * 3)
    y.sum().item()
    x.assign(Tensor([9.0, 9.0, 9.0]))
    x.sum().item()
    return y


def _waiting(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    x.assign(Tensor([9.0, 9.0, 9.0])).realize()
    return y


def _replayed(x: Tensor, w: Tensor) -> Tensor:
    step = TinyJit(lambda: x.assign(x + 1).realize())
    for _ in range(2):
        step()
    y = x * w
    step()
    return y


@pytest.mark.parametrize("begin", ["zeros", "ones"])
@pytest.mark.parametrize("lose", [_add_one, _held, _other_memory, _waiting, _replayed])
def test_lost_gradients_are_told(begin: str, lose: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Where what a value was made of is gone; PyTorch refuses `backward` there."""
    w = _parameter()
    x = getattr(Tensor, begin)(3).contiguous().realize()
    x += w
    x.sum().item()
    y = lose(x, w)
    with pytest.warns(UserWarning, match="gradients end at memory"):
        (y * y).sum().backward()


def test_what_is_read_before_a_write_of_the_same_run_is_not_worked_out_of_the_new_value() -> None:
    """It gave [9, 9, 9]."""
    w, x = _parameter(), Tensor.ones(3).contiguous().realize()
    y = x * w
    x.assign(Tensor([9.0, 9.0, 9.0]))
    x.sum().item()
    with pytest.warns(UserWarning, match="gradients end at memory"):
        y.sum().backward()
    assert w.grad is None


def test_detached_values_are_written_in_silence() -> None:
    """A running mean, a target network: no gradient goes through what they hold."""
    w, mean = _parameter(), Tensor.zeros(3).contiguous().realize()
    count = Tensor.zeros(3).contiguous().realize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            h = w * w
            mean.assign(mean * 0.9 + h.detach() * 0.1)
            count += (h > 2).cast("float32")
            loss = (h * mean.detach()).sum() + (h * count).sum()
            loss.item()
            w.grad = None
            loss.backward()
    assert w.grad is not None
    m = X * X * (0.1 * (1 + 0.9 + 0.81))
    np.testing.assert_allclose(w.grad.numpy(), 2 * X * (m + np.array([0, 3, 3])), rtol=1e-5)


def test_a_parameter_that_is_made_of_others_is_written_in_silence() -> None:
    """Each step of one parameter depends on the other: gradients are meant to end at both."""
    a, b = _parameter(), Tensor([3.0, 4.0, 5.0]).is_param_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            a.grad = b.grad = None
            loss = (a * b).sum()
            loss.backward()
            assert a.grad is not None
            a.assign(a - a.grad * 0.5)
            loss.item()
            a.numpy()
    assert b.grad is not None
    assert b.grad.tolist() == (X - np.array([3.0, 4.0, 5.0])).tolist()


@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("name", ["uniform", "randn", "rand", "kaiming_uniform", "glorot_uniform"])
def test_a_parameter_of_random_numbers_is_where_gradients_end(name: str, realized: bool) -> None:
    x = Tensor([[1.0, 2.0]])
    for _ in range(2):  # the next numbers count on in memory that the first were made of
        w = getattr(Tensor, name)(1, 2).is_param_()
        if realized:
            w.realize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (w * x).sum().gradient(w)[0].tolist() == [[1, 2]]
            w.numpy()
            (w * x).sum().backward()
        assert w.grad is not None
        assert w.grad.tolist() == [[1, 2]]

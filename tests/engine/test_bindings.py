"""One variable with several values: each write runs with its own, in program order."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tinylab import Tensor, TinyJit, Variable
from tinylab.errors import BindMismatchError

AT = Variable("at", 0, 7)


def _zeros() -> Tensor:
    return Tensor.zeros(8).contiguous().realize()


def _set(a: Tensor, n: int, value: object) -> None:
    place = AT.bind(n)
    a[place : place + 1] = value


def test_writes_at_places_of_one_variable_are_in_program_order():
    a = _zeros()
    for n, value in ((3, 1.0), (5, 2.0), (3, 4.0), (0, 7.0)):
        _set(a, n, value)
    assert a.tolist() == [7.0, 0.0, 0.0, 4.0, 0.0, 2.0, 0.0, 0.0]


def test_storage_that_is_not_filled_yet_is_written_in_order():
    a = Tensor.zeros(8).contiguous()
    for n in range(8):
        _set(a, n, float(n))
    assert a.tolist() == [float(n) for n in range(8)]


def test_a_write_reads_what_earlier_ones_wrote():
    a = _zeros()
    _set(a, 3, 1.0)
    p = AT.bind(5)
    a[p : p + 1] = a[p - 2 : p - 1] + 1
    q = AT.bind(6)
    a[q : q + 1] = a.sum()
    assert a.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 3.0, 0.0]


def test_several_tensors_are_computed_at_once():
    a, b = _zeros(), _zeros()
    _set(a, 3, 1.0)
    _set(b, 5, 2.0)
    total = a.sum() + b.sum() * 10
    Tensor.realize(a, b, total)
    assert (a.tolist()[3], b.tolist()[5], total.item()) == (1.0, 2.0, 21.0)


def test_what_was_built_between_writes_has_the_value_of_then():
    a = _zeros()
    before = a.sum()
    _set(a, 3, 1.0)
    between = a.sum() + 0
    _set(a, 5, 2.0)
    after = a.sum() + between
    assert (after.item(), between.item(), before.item()) == (4.0, 1.0, 0.0)


def test_two_values_in_one_expression_are_refused():
    x = Tensor(np.arange(8)).realize()
    p, q = AT.bind(3), AT.bind(5)
    with pytest.raises(BindMismatchError, match=r"bind mismatch on at, 3 != 5"):
        (x[p : p + 1].sum() + x[q : q + 1].sum()).realize()


def test_an_expression_that_needs_the_old_value_too_is_never_wrong():
    a = _zeros()
    a += 1
    a.realize()
    old = a.sum()
    _set(a, 3, 11.0)
    _set(a, 5, 21.0)
    total = old * 100 + a.sum()
    with pytest.raises(BindMismatchError, match=r"bind mismatch on at") as e:
        total.realize()
    assert "realize" in str(e.value.help)
    old.realize()
    assert total.item() == 838.0
    assert a.tolist() == [1.0, 1.0, 1.0, 11.0, 1.0, 21.0, 1.0, 1.0]


@pytest.fixture(params=[True, False], ids=["realised between", "at once"])
def captured(request: pytest.FixtureRequest) -> tuple[Tensor, TinyJit]:
    a = _zeros()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        _set(a, 3, x)
        if request.param:
            a.realize()
        _set(a, 5, x + 1)
        a.realize()
        return a + 0

    return a, step


def test_each_captured_kernel_keeps_its_own_value(captured: tuple[Tensor, TinyJit]):
    _, step = captured
    for n in range(4):
        found = step(Tensor([float(n)]).realize()).tolist()
        assert (found[3], found[5]) == (n, n + 1.0)


def test_each_saved_kernel_keeps_its_own_value(captured: tuple[Tensor, TinyJit]):
    _, step = captured
    for n in range(2):
        step(Tensor([float(n)]).realize())
    again = pickle.loads(pickle.dumps(step))
    found = again(Tensor([9.0]).realize()).tolist()
    assert (found[3], found[5]) == (9.0, 10.0)


def test_a_variable_of_the_inputs_has_another_value_inside():
    x = Tensor(np.arange(8, dtype=np.float32)).realize()

    @TinyJit
    def step(x: Tensor, at: Variable) -> tuple[Tensor, Tensor]:
        mine = AT.bind(7)
        own = x[mine : mine + 1].contiguous().realize()
        return x[at : at + 1].contiguous().realize(), own

    for n in (1, 2, 3, 4):
        found = step(x, AT.bind(n))
        assert [t.item() for t in found] == [n, 7.0]


def test_a_schedule_in_the_hand_has_one_value_of_a_variable():
    a = _zeros()
    _set(a, 3, 1.0)
    _set(a, 5, 2.0)
    with pytest.raises(BindMismatchError, match="bind mismatch on at"):
        a.linear_with_vars()
    assert (a.tolist()[3], a.tolist()[5]) == (1.0, 2.0)

"""Replays among many tensors that wait: only those that a replay touches are looked at."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tinylab import Tensor, TinyJit, dtypes
from tinylab.tensor import replaying
from tinylab.tensor.held import live


def _adding() -> tuple[Tensor, TinyJit]:
    """A state, and a captured function that adds to it."""
    state = Tensor([1.0, 2.0, 3.0]).realize()

    @TinyJit
    def step(x: Tensor) -> None:
        state.assign(state + x).realize()

    for _ in range(2):
        step(Tensor([1.0, 1.0, 1.0]).realize())
    return state, step


def _one() -> Tensor:
    return Tensor([1.0, 1.0, 1.0]).realize()


def test_a_replay_looks_at_no_tensor_that_it_does_not_touch(monkeypatch: pytest.MonkeyPatch):
    _, step = _adding()
    base = Tensor([5.0, 6.0, 7.0]).realize()
    held = [base * float(n) + Tensor.full((3,), float(n)) for n in range(200)]
    step(_one())
    looked: list[object] = []

    def is_stored(uop):
        looked.append(uop)
        return replaying.to_store(uop) is None

    monkeypatch.setattr(replaying, "is_stored", is_stored)
    monkeypatch.setattr(replaying, "storage_looked_at", lambda uop: pytest.fail("nothing is new"))
    given = _one()
    looked.clear()
    step(given)
    assert len(looked) < 5  # the input
    assert held[2].tolist() == [12.0, 14.0, 16.0]


def test_a_value_that_waits_for_state_is_computed_before_each_replay():
    state, step = _adding()
    for n in range(3):
        before = state.tolist()
        waits, again = state * 2, (state + 1).sum()
        step(_one())
        assert waits.tolist() == [2 * x for x in before]
        assert again.item() == sum(before) + 3
        assert state.tolist() == [x + 1 for x in before], n


def test_a_value_that_came_to_look_at_state_is_computed_before_a_replay():
    """It was filed when a part of it was still to be computed; that part is the state now."""
    source = Tensor([1.0, 2.0]).realize()
    state = source + 1
    waits = state * 10
    _, other = _adding()
    other(_one())  # files what waits
    state.realize()  # now it looks at memory

    @TinyJit
    def step(x: Tensor) -> None:
        state.assign(state + x).realize()

    ones = [Tensor([1.0, 1.0]).realize() for _ in range(4)]
    kept = []
    for one in ones:
        kept.append(state * 10)
        step(one)
    assert waits.tolist() == [20.0, 30.0]
    assert [k.tolist() for k in kept] == [[20.0 + 10 * n, 30.0 + 10 * n] for n in range(4)]


def test_storage_that_gets_memory_later_is_known_by_its_readers():
    @TinyJit
    def step(x: Tensor) -> None:
        x.assign(x + 1).realize()

    for _ in range(3):
        step(Tensor([1, 2, 3, 4]).realize())
    given = Tensor.empty(4, dtype=dtypes.int32)  # no memory yet
    waits = given + 1
    step(Tensor([1, 2, 3, 4]).realize())  # files what waits
    step(given)
    np.testing.assert_array_equal(waits.numpy(), given.numpy())


def test_a_pending_write_to_what_a_replay_reads_happens_first():
    state, step = _adding()
    for _ in range(3):
        state[0] = 100.0  # waits
        step(_one())
        assert state.tolist()[0] == 101.0


def test_nothing_is_kept_of_tensors_that_are_gone():
    _, step = _adding()
    base = Tensor([5.0, 6.0, 7.0]).realize()
    held = [base + n for n in range(50)]
    step(_one())
    gc.collect()
    waiting = live._waiting
    filed = len(waiting._filed)
    assert filed >= 50
    del held
    assert len(waiting._filed) == filed - 50
    assert not any(not there for there in waiting._readers.values())

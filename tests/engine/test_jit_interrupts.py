"""Ctrl-C in a captured function, and in replays of it: the next call works, and is right."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tinylab import Context, Tensor, TinyJit
from tinylab.engine import captured
from tinylab.engine.capture import before_replay, capturing
from tinylab.engine.captured import CapturedJit
from tinylab.helpers.interrupts import held_back
from tinylab.mixin.base import box_watchers
from tinylab.tensor.held import live


def one() -> Tensor:
    return Tensor([1.0]).realize()


class Step:
    """A function that adds what it gets to its state; an interrupt comes at a place of it."""

    def __init__(self) -> None:
        self.state, self.total = Tensor([0.0]).realize(), 0.0
        self.comes_at = ""
        self.jit = TinyJit(self.add)

    def at(self, place: str) -> None:
        if self.comes_at == place:
            raise KeyboardInterrupt

    def add(self, x: Tensor) -> Tensor:
        self.at("begin")
        double = (x * 2).realize()
        self.at("middle")
        self.state.assign(self.state + x)
        self.at("before it runs")
        self.state.realize()
        self.at("end")
        return double + self.state

    def call(self) -> None:
        """A call that is right."""
        self.total += 1
        assert self.jit(one()).item() == 2 + self.total
        assert self.state.item() == self.total


@pytest.mark.parametrize("place", ["begin", "middle", "before it runs", "end"])
@pytest.mark.parametrize("first", [0, 1])
def test_an_interrupt_while_a_function_is_captured(place: str, first: int):
    step = Step()
    for _ in range(first):
        step.call()
    step.comes_at = place
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            step.jit(one())
        step.total += place in ("before it runs", "end")
    step.comes_at = ""
    assert not capturing
    assert not box_watchers
    assert not live._listening
    for _ in range(4):
        step.call()
    assert step.jit.captured is not None


def _interrupted(function: Callable[..., Any], after: bool) -> Callable[..., Any]:
    """A function in which, the first time, Ctrl-C comes before or after what it does."""
    left = [True]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if left and not after:
            left.clear()
            signal.raise_signal(signal.SIGINT)
        found = function(*args, **kwargs)
        if left and after:
            left.clear()
            signal.raise_signal(signal.SIGINT)
        return found

    return interrupted


@pytest.mark.parametrize("what", ["_place", "_run"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_around_the_parts_of_a_replay(
    what: str, after: bool, monkeypatch: pytest.MonkeyPatch
):
    step = Step()
    for _ in range(3):
        step.call()
    monkeypatch.setattr(CapturedJit, what, _interrupted(getattr(CapturedJit, what), after))
    with pytest.raises(KeyboardInterrupt):
        step.jit(one())
    step.total += (what, after) == ("_run", True)
    for _ in range(4):
        step.call()


def test_an_interrupt_where_values_are_kept_before_a_replay(monkeypatch: pytest.MonkeyPatch):
    step = Step()
    for _ in range(3):
        step.call()
    waits, want = step.state * 10, step.total * 10
    keep_order = before_replay[0]
    for after in (False, True):
        hooks = [_interrupted(keep_order, after)]
        monkeypatch.setattr(captured, "before_replay", hooks)
        with pytest.raises(KeyboardInterrupt):
            step.jit(one())
    for _ in range(3):
        step.call()
    assert waits.item() == want


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("launch", [0, 1, 2])
def test_launches_of_one_replay_happen_all_or_not_at_all(launch: int, after: bool):
    """An interrupt comes at a launch; the state that the others write moves on with its own."""
    states = [Tensor([float(n)]).realize() for n in range(7)]

    @TinyJit
    def step(x: Tensor) -> None:
        for n, s in enumerate(states):
            s.assign(s + x + n).realize()

    with Context(JIT_BATCH_SIZE=1):
        for _ in range(3):
            step(one())
    assert step.captured is not None
    launcher: Any = step.captured.launchers[launch]

    class Driver:
        graph = staticmethod(_interrupted(launcher.driver.graph, after))

    launcher.driver = Driver()
    with pytest.raises(KeyboardInterrupt):
        step(one())
    assert [s.item() for s in states] == [n + 4.0 * (1 + n) for n in range(7)]
    step(one())
    assert [s.item() for s in states] == [n + 5.0 * (1 + n) for n in range(7)]


def test_an_interrupt_waits_for_the_end_of_a_block_and_the_handler_is_back():
    handler, done = signal.getsignal(signal.SIGINT), []

    @held_back()
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append(1)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [1]
    with pytest.raises(ValueError, match="own"), held_back():
        raise ValueError("own")
    assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_hold_nothing_back():
    handler, found = signal.getsignal(signal.SIGINT), []

    def run() -> None:
        with held_back():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [handler]

"""What a replay returns: made anew only where somebody still has what an earlier call returned."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, Variable, dtypes
from tinylab.engine import results
from tinylab.engine.graph import NativeGraph
from tinylab.engine.results import KEPT_BYTES


def numbers(n: float, size: int = 4) -> Tensor:
    return Tensor([float(n)] * size).realize()


def two_results() -> TinyJit:
    f = TinyJit(lambda x: ((x * 2).contiguous(), (x.reshape(2, 2) + 1).contiguous().T))
    for n in range(4):
        f(numbers(n))
    return f


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The outcomes that are made anew."""
    found: list[object] = []
    plain = results.Outcome.__init__

    def noted(self: Any, *args: Any) -> None:
        found.append(args[0])
        plain(self, *args)

    monkeypatch.setattr(results.Outcome, "__init__", noted)
    return found


def test_what_the_program_dropped_is_used_again(made: list[object]):
    f = two_results()
    last: Any = None
    for n in range(3):
        last = f(numbers(n))
    made.clear()
    for n in range(20):
        last = f(numbers(n))
        assert (last[0].tolist(), last[1].tolist()) == ([2.0 * n] * 4, [[n + 1.0] * 2] * 2)
    assert made == []
    kept = [f(numbers(n)) for n in range(20)]
    assert len(made) >= 2 * 18
    assert [a.tolist()[0] for a, _ in kept] == [2.0 * n for n in range(20)]


# What the program still has of the results, and how it reads the first number.
# fmt: off
HELD: dict[str, tuple[Callable[[Tensor, Tensor], Any], Callable[[Any], float], float]] = {
    "a tensor": (lambda a, b: a, lambda h: h.tolist()[0], 2.0),
    "a view": (lambda a, b: b[0], lambda h: h.tolist()[0] * 2 - 2, 2.0),
    "bits": (
        lambda a, b: a.bitcast(dtypes.int32), lambda h: h.bitcast(dtypes.float32)[0].item(), 2.0,
    ),
    "an expression": (lambda a, b: a + 1, lambda h: h.tolist()[0] - 1, 2.0),
    "a node": (lambda a, b: a.uop, lambda h: Tensor(h).tolist()[0], 2.0),
    "a node between": (lambda a, b: b.uop.src[0], lambda h: Tensor(h).tolist()[0][0] * 2 - 2, 2.0),
    "the memory": (
        lambda a, b: a.uop.base.realized,
        lambda h: float(np.frombuffer(h.as_memoryview(), np.float32)[0]), 2.0,
    ),
    "a piece of it": (
        lambda a, b: a.uop.base.realized.view(1, a.dtype, 0),
        lambda h: float(np.frombuffer(h.ensure_allocated().as_memoryview(), np.float32)[0]), 2.0,
    ),
    "bytes": (lambda a, b: a.data(), lambda h: h.tolist()[0], 2.0),
    "an array": (lambda a, b: np.from_dlpack(a), lambda h: float(h[0]), 2.0),
}
# fmt: on


@pytest.mark.parametrize("what", HELD)
def test_whatever_is_held_of_a_result_keeps_its_value(what: str):
    take, read, factor = HELD[what]
    f = two_results()
    held = [take(*f(numbers(n))) for n in range(10, 16)]
    for n in range(4):
        f(numbers(n))
    assert [read(h) for h in held] == [factor * n for n in range(10, 16)]


def test_results_on_several_devices_are_used_again_and_keep_their_values(made: list[object]):
    devices = ("CPU", "CPU:1")

    def sharded(n: int) -> Tensor:
        return numbers(n).shard(devices, 0).realize()

    f = TinyJit(lambda x: (x * 2, x.sum()))
    for n in range(5):
        f(sharded(n))
    made.clear()
    for n in range(5):
        double, total = f(sharded(n))
        assert (double.tolist(), total.item()) == ([2.0 * n] * 4, 4.0 * n)
        del double, total
    assert made == []
    kept = [f(sharded(n)) for n in range(6)]
    assert [(a.tolist()[3], b.item()) for a, b in kept] == [(2.0 * n, 4.0 * n) for n in range(6)]


def test_results_with_sizes_that_are_bound_anew_are_used_again(made: list[object]):
    f = TinyJit(lambda x, at: x[:at] * 2)
    at, x = Variable("at", 1, 4), Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    for n in range(1, 5):
        f(x, at.bind(n))
    made.clear()
    for n in range(1, 5):
        assert f(x, at.bind(n)).shrink_to((n,)).tolist() == [2.0, 4.0, 6.0, 8.0][:n]
    assert made == []


def test_copies_of_state_are_used_again(made: list[object]):
    state = numbers(1)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        return state

    for _ in range(4):
        step(numbers(1))
    made.clear()
    assert [step(numbers(1)).tolist()[0] for _ in range(4)] == [6.0, 7.0, 8.0, 9.0]
    assert made == []


def test_large_results_are_not_kept():
    size = KEPT_BYTES // 4 + 1
    f = TinyJit(lambda x: (x * 2).contiguous())
    for n in range(4):
        f(numbers(n, size))
    gone = weakref.ref(f(numbers(1, size)).uop.base.realized)
    f(numbers(2, size))  # the memory of the last call stays in its place
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_of_a_function_that_is_gone():
    f = two_results()
    found = weakref.ref(f(numbers(1))[0].uop.base.realized)
    assert found() is not None
    del f
    gc.collect()
    assert found() is None


def _chained(x: Tensor) -> Tensor:
    for n in range(100):
        x = (x * 1.5 + n).contiguous()
    return x


def _apart(x: Tensor) -> list[Tensor]:
    return [(x * n).contiguous() for n in range(1, 101)]


@pytest.mark.parametrize("function", [_chained, _apart])
def test_a_hundred_kernels_are_one_native_call(function: Callable[[Tensor], Any]):
    with Context(JIT_BATCH_SIZE=0):
        f = TinyJit(function)
        for n in range(3):
            f(numbers(n))
    assert f.captured is not None
    assert len(f.captured.steps) == 100
    (launcher,) = f.captured.launchers
    assert isinstance(launcher, NativeGraph)
    driver = Counting(launcher.driver)
    launcher.driver = driver
    f(numbers(1))
    assert driver.calls == [100]


class Counting:
    """A driver that notes how many kernels each launch has."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.calls = driver, list[int]()

    def graph(self, table: int, count: int, done: deque[Any]) -> None:
        self.calls.append(count)
        self.driver.graph(table, count, done)

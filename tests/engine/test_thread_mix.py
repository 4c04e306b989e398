"""All that a program does, in several threads at once: each gets what numpy gives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tinylab
from tests.engine.test_threads import _switch_often, in_threads
from tinylab import Context, Tensor, TinyJit, function
from tinylab.nn.state import safe_load, safe_save

__all__ = ["_switch_often"]

N = 16
SHARED = np.arange(N, dtype=np.float32)
Data = Callable[[], np.ndarray]


@function
def _both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return (a * b).sum(), a + b


class Mix:
    """What threads share, and the work that each of them does."""

    def __init__(self, folder: Path) -> None:
        self.shared = Tensor(SHARED).realize()
        self.replayed = TinyJit(lambda a, b: (a * b + self.shared).realize())
        self.folder, self.numbers = folder, itertools.count()
        for _ in range(3):
            self.replayed(*(Tensor(SHARED).realize() for _ in range(2)))

    def chain(self, data: Data) -> None:
        """Writes, and readers of what was before each."""
        want = data()
        x, held = Tensor(want).realize(), []
        for k in range(4):
            held.append((x * 2 + k, want * 2 + k))
            if k == 0:
                x += 1
                want = want + 1
            elif k == 1:
                x[2:5] = x[5:8]
                want[2:5] = want[5:8].copy()
            else:
                x.assign(x.flip(0) + x)
                want = want[::-1] + want
        np.testing.assert_array_equal(x.numpy(), want)
        for t, value in held:
            np.testing.assert_array_equal(t.numpy(), value)

    def replay(self, data: Data) -> None:
        """Two results of one captured function."""
        a, b = data(), data()
        first = self.replayed(Tensor(a).realize(), Tensor(b).realize())
        second = self.replayed(Tensor(b).realize(), Tensor(b).realize())
        np.testing.assert_array_equal(first.numpy(), a * b + SHARED)
        np.testing.assert_array_equal(second.numpy(), b * b + SHARED)

    def capture(self, data: Data) -> None:
        """A function with state, captured and replayed.

        Another thread's capture did the write that waited inside this one: no replay did it.
        """
        state, want = Tensor(SHARED * 0).realize(), SHARED * 0

        @TinyJit
        def step(x: Tensor) -> Tensor:
            state.assign(state + x)
            return (state * 3).realize()

        for _ in range(4):
            x = data()
            want = want + x
            np.testing.assert_array_equal(step(Tensor(x).realize()).numpy(), want * 3)
        np.testing.assert_array_equal(state.numpy(), want)

    def trace(self, data: Data) -> None:
        """A function, and the gradient of a value that was looked at."""
        a, b = data(), data()
        total, both = _both(Tensor(a), Tensor(b))
        np.testing.assert_array_equal(both.numpy(), a + b)
        assert total.item() == (a * b).sum()
        x = Tensor(a)
        y = x.clone()
        y[0] = x[1] * 2
        y.numpy()
        want = 2 * a
        want[0], want[1] = 0, want[1] + 8 * a[1]
        (found,) = (y * y).sum().gradient(x)
        np.testing.assert_array_equal(found.numpy(), want)

    def record(self, data: Data) -> None:
        """A record, which hears of other threads too."""
        a = data()
        with tinylab.record() as found:
            total = (Tensor(a) * 3 + 1).sum().item()
        assert total == (a * 3 + 1).sum()
        assert found.error is None

    def files(self, data: Data) -> None:
        """A file, and the sum of shards."""
        a, path = data(), self.folder / f"{next(self.numbers)}.safetensors"
        safe_save({"a": Tensor(a)}, path)
        np.testing.assert_array_equal(safe_load(path)["a"].numpy(), a)
        shards = Tensor(a).shard(("CPU:0", "CPU:1"), 0)
        np.testing.assert_array_equal((shards.sum() + shards).numpy(), a.sum() + a)

    def settings(self, data: Data) -> None:
        """Kernels with and without opts, and random numbers."""
        a = data().reshape(4, 4)
        with Context(NOOPT=int(a[0, 0]) % 2):
            np.testing.assert_array_equal((Tensor(a) @ Tensor(a)).numpy(), a @ a)
        assert not np.array_equal(Tensor.rand(32).numpy(), Tensor.rand(32).numpy())
        np.testing.assert_array_equal((self.shared + 5).numpy(), SHARED + 5)


KINDS = [Mix.chain, Mix.replay, Mix.capture, Mix.trace, Mix.record, Mix.files, Mix.settings]


@pytest.mark.parametrize("kind", [*KINDS, None], ids=[*(k.__name__ for k in KINDS), "all"])
def test_threads_that_work_side_by_side(
    kind: Callable[[Mix, Data], None] | None, tmp_path: Path
) -> None:
    """Of one kind beside captures, and of all kinds."""
    mix = Mix(tmp_path)

    def work(n: int) -> None:
        rng = np.random.default_rng(n)
        order = random.Random(n)
        for k in range(8):
            chosen = order.choice(KINDS) if kind is None else (kind if k % 2 else Mix.capture)
            chosen(mix, lambda: rng.integers(0, 9, N).astype(np.float32))

    in_threads(work)

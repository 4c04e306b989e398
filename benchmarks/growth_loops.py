"""One long loop in a process of its own: its memory after each quarter, as JSON."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tinylab import Context, Tensor, TinyJit, Variable, nn


def resident_mb() -> float:
    """The memory that this process has now, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def constants() -> Callable[[int], None]:
    """A kernel that no step before had."""
    x = Tensor([1.0, 2.0, 3.0]).realize()

    def step(n: int) -> None:
        (x * (n + 0.37)).realize()

    return step


def shapes() -> Callable[[int], None]:
    """Sizes that no step before had: a reduction and two elementwise kernels."""
    x = Tensor.rand(20000).realize()

    def step(n: int) -> None:
        part = x[: n + 2]
        ((part - part.mean()).relu().sum() + part.max()).realize()

    return step


def _training() -> Callable[[], None]:
    layers = nn.Linear(64, 64), nn.Linear(64, 10)
    optimizer = nn.optim.Adam([p for layer in layers for p in (layer.weight, layer.bias)])
    x, y = Tensor.rand(32, 64).realize(), Tensor.randint(32, high=10).realize()

    def step() -> None:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = layers[1](layers[0](x).dropout(0.1).relu()).sparse_categorical_crossentropy(y)
            loss.backward()
            loss.realize(*optimizer.schedule_step())

    return step


def training() -> Callable[[int], None]:
    """A step of a perceptron with dropout and Adam."""
    step = _training()
    return lambda n: step()


def jit() -> Callable[[int], None]:
    """The same, captured."""
    step = TinyJit(_training())
    return lambda n: step()


def captures() -> Callable[[int], None]:
    """A function that is captured anew, replayed once, and dropped."""
    x = Tensor([1.0, 2.0, 3.0]).realize()

    def step(n: int) -> None:
        captured = TinyJit(lambda x: (x * 2).contiguous().sum(keepdim=True) + 1)
        for _ in range(3):
            captured(x)

    return step


def writes() -> Callable[[int], None]:
    """Elements written in place, at a place that a variable says and at one that Python says."""
    x, at = Tensor.zeros(64).contiguous().realize(), Variable("at", 0, 63)

    def step(n: int) -> None:
        place = at.bind(n % 64)
        x[place : place + 1] = float(n % 5)
        x[n % 7] += 1
        x.realize()

    return step


LOOPS = {f.__name__: f for f in (constants, shapes, training, jit, captures, writes)}


def main(name: str, steps: int) -> None:
    """Run one loop; the last line of output is its memory in MB at the start and each quarter."""
    step = LOOPS[name]()
    found = []
    for n in range(steps + 1):
        step(n)
        if n % (steps // 4) == 0:
            gc.collect()
            found.append(round(resident_mb(), 1))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

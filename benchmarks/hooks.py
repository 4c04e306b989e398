"""What the hooks of profiles cost while nobody listens: beside a run in which they are nothing."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from benchmarks import harness
from tinylab import Tensor, TinyJit
from tinylab.trace import events

ROUNDS = 21


class _Nothing:
    """A span of no kind."""

    data: ClassVar[dict[str, Any]] = {}

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


_NOTHING = _Nothing()


@contextlib.contextmanager
def stubbed() -> Iterator[None]:
    """The hooks replaced by functions that do nothing."""
    stubs: dict[str, Callable[..., Any]] = {
        "span": lambda *args, **kwargs: _NOTHING,
        "point": lambda *args, **kwargs: None,
        "listening": lambda: False,
    }
    kept = {name: getattr(events, name) for name in stubs}
    for name, stub in stubs.items():
        setattr(events, name, stub)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(events, name, function)


def subjects() -> dict[str, tuple[Callable[[], Any], int]]:
    """What runs, and how often in one round."""
    a, b = Tensor.rand(64, 64).realize(), Tensor.rand(64, 64).realize()

    def chain(x: Tensor) -> Tensor:
        for _ in range(100):
            x = (x * 0.5 + 1).contiguous()
        return x

    captured = TinyJit(chain)
    for _ in range(3):
        captured(a)
    return {
        "a realize, scheduled before": (lambda: (a + b).realize(), 300),
        "100 kernels realized": (lambda: chain(a).realize(), 5),
        "100 kernels replayed": (lambda: captured(a), 100),
    }


def _seconds(work: Callable[[], Any], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def run() -> None:
    """By turns with the hooks and without them."""
    rows = []
    for name, (work, times) in subjects().items():
        work()
        found: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            plain = _seconds(work, times)
            with stubbed():
                found.append((plain, _seconds(work, times)))
        with_, without = (statistics.median(column) for column in zip(*found, strict=True))
        ratio = statistics.median(a / b for a, b in found)
        rows.append(
            [name, harness.shown_time(with_), harness.shown_time(without), f"{ratio:.3f} x"]
        )
    harness.table("hooks that nobody listens to", ["what", "hooks", "stubs", "ratio"], rows)

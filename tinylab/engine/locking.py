"""One lock for what threads share: memory, caches, the tensors that somebody holds.

Whoever computes values, writes in place, traces a function, captures or replays one holds it, so
that each of these happens as if no other thread were there. The order in which threads come to it
is theirs to arrange. A function that waits for another thread's values while it is captured waits
for ever.

So a value is never torn, and a write is all there or not at all. But `a.assign(a + 1)`, `a += 1`
and `a[i] = v` read what the tensor is, and write what it becomes, in two steps: of two threads that
do so with ONE tensor at once, one may overwrite the other's update. Threads that share a tensor
which they write take turns with a lock of their own, or with `engine_lock`, around both steps.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Re-entrant: computing one value may ask for another.
engine_lock = threading.RLock()


def alone(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called by one thread at a time."""

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # a notebook shows the lines that mean something
        with engine_lock:
            return function(*args, **kwargs)

    return locked

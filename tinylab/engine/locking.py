"""One lock for what threads share: memory, caches, the tensors that somebody holds.

Expressions are built without it. Whoever computes values, writes in place or replays a captured
function holds it, so that each of these happens as if no other thread were there. The order in
which threads come to it is theirs to arrange.
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

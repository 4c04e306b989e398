"""Runs that end early, on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinylab.engine import launch


class Stopped(Exception):
    """What the handler of a signal raises."""


@contextmanager
def ending(*at: int, how: str) -> Iterator[None]:
    """Some of the kernels and copies that run inside, by number, end their run.

    how: "interrupted before" it ran, "interrupted behind" it, "stopped behind" it, or it "fails".
    """
    plain, count = launch.execute, 0

    def execute(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count - 1 not in at:
            return plain(*args, **kwargs)
        if how.endswith("behind"):
            plain(*args, **kwargs)
        if how == "fails":
            raise RuntimeError("this kernel fails")
        raise Stopped if how.startswith("stopped") else KeyboardInterrupt

    launch.execute = execute
    try:
        yield
    finally:
        launch.execute = plain

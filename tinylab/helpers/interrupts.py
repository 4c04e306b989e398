"""Ctrl-C, held back while several things must happen together or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[None]:
    """Inside the block an interrupt waits; it is raised at its end.

    By a handler of Python, not by a mask of signals: another thread may be given them, and a
    notebook's kernel has some. Only the main thread is ever interrupted. Costs 2 us.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    try:  # around this too: the handler of another signal may raise behind it
        signal.signal(signal.SIGINT, lambda *how: came.append(how))
        yield
    finally:
        try:
            signal.signal(signal.SIGINT, handler)
        except BaseException:
            signal.signal(signal.SIGINT, handler)
            raise
        if came:
            handler(*came[0])

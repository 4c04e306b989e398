"""What happens, as one stream of events on one clock (``time.perf_counter_ns``).

The engine opens spans and marks points; whoever attached a listener hears of them. With no
listener a span costs one look at an empty tuple.

    with span("kernel", "r_64_64", ast=ast) as s:
        s.data["program"] = lower(ast)
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from tinylab.helpers.arguments import explained

now_ns = time.perf_counter_ns


class EventListener(Protocol):
    """Hears each event twice: when it opens and when it closes (a point only closes)."""

    def opened(self, event: Event) -> None:
        """Take notice of a span that has just begun."""

    def closed(self, event: Event) -> None:
        """Take notice of a span that has ended, or of a point."""


class Event:
    """One span or point; as a context manager it opens and closes itself.

    ``kind`` is what sort of thing happened ("schedule", "kernel", "compile", "run", ...),
    ``parent`` the span that was open around it on the same thread, ``error`` what ended it early.
    """

    __slots__ = ("data", "end_ns", "error", "kind", "name", "parent", "start_ns", "thread")

    def __init__(self, kind: str, name: str, data: dict[str, Any]) -> None:
        self.kind = kind
        self.name = name
        self.data = data
        self.start_ns = 0
        self.end_ns = 0
        self.thread = 0
        self.parent: Event | None = None
        self.error: BaseException | None = None

    @property
    def elapsed_ns(self) -> int:
        """Time from start to end; 0 for a point and for a span that is still open."""
        return max(0, self.end_ns - self.start_ns)

    def __enter__(self) -> Event:
        self.thread = threading.get_ident()
        stack = _open.spans
        self.parent = stack[-1] if stack else None
        stack.append(self)
        for listener in _listeners:
            listener.opened(self)
        self.start_ns = now_ns()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.end_ns = now_ns()
        self.error = error
        stack = _open.spans
        while stack and stack.pop() is not self:
            pass  # a span left open by a generator that was dropped
        for listener in _listeners:
            listener.closed(self)

    def __repr__(self) -> str:
        return f"Event({self.kind!r}, {self.name!r}, {self.elapsed_ns} ns)"


class _Sieve(dict[str, Any]):
    """The data of a span that nobody hears: takes anything and keeps nothing."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Drop the value."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Drop the values."""


class _Silence:
    """The span of a quiet program; shared, since it holds nothing."""

    __slots__ = ()
    data: dict[str, Any] = _Sieve()  # takes nothing, so it may be shared

    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        return None


class _OpenSpans(threading.local):
    """The spans that are open on this thread, outermost first."""

    def __init__(self) -> None:
        self.spans: list[Event] = []


_open = _OpenSpans()
_silence = _Silence()
_lock = threading.Lock()
# A tuple that is replaced, never changed: a thread that walks it is safe from one that attaches.
_listeners: tuple[EventListener, ...] = ()


class _Quiet(threading.local):
    """Whether this thread works for a viewer, whose work is no part of what it looks at."""

    depth = 0


_quiet = _Quiet()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Nothing that happens on this thread meanwhile is heard: a viewer compiles for itself."""
    _quiet.depth += 1
    try:
        yield
    finally:
        _quiet.depth -= 1


def is_quiet() -> bool:
    """Whether this thread must not be listened to."""
    return _quiet.depth > 0


def listening() -> bool:
    """Whether anyone hears events; ask before work that only a listener would want."""
    return bool(_listeners) and not _quiet.depth


def span(kind: str, name: str, /, **data: Any) -> Event | _Silence:
    """A stretch of time, used in a ``with``; its ``data`` may be filled until it ends."""
    return Event(kind, name, data) if listening() else _silence


def point(kind: str, name: str, /, **data: Any) -> None:
    """Something that happened at one instant, or whose times are in its data."""
    if not listening():
        return
    event = Event(kind, name, data)
    event.thread = threading.get_ident()
    event.parent = _open.spans[-1] if _open.spans else None
    event.start_ns = event.end_ns = now_ns()
    for listener in _listeners:
        listener.closed(event)


def line(number: int, text: str) -> Event | _Silence:
    """The time that one line of a cell takes; what a profiled cell is written with."""
    return span("line", text, line=number)


@explained
def profile_marker(name: str, color: str = "gray") -> None:
    """Mark this moment in the profiles that listen; timelines draw all markers in one colour.

    `tinylab profile FILE --interval A B` and the timeline measure from one marker to another.
    """
    point("mark", name, color=color)


def open_spans() -> tuple[Event, ...]:
    """The spans around the caller on this thread, outermost first."""
    return tuple(_open.spans)


def attach(listener: EventListener) -> None:
    """Let a listener hear what follows."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)


def detach(listener: EventListener) -> None:
    """Let a listener hear no more; nothing happens if it never did."""
    global _listeners
    with _lock:
        _listeners = tuple(each for each in _listeners if each is not listener)

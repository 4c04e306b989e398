"""Between a widget's comm and what answers: questions come in, plain data goes out.

Columns of numbers (the key "columns" of an answer) travel as one buffer, in pieces that keep
every message under 1 MB.

The kernel's main thread may be busy with a cell: questions are answered wherever the message
arrives (a subshell's thread where the kernel has them), and slow ones on a thread of their own.
"""

import contextvars
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

from tinylab.lab.desk import SLOW_ASKS
from tinylab.profiler.columns import pack

Json = dict[str, Any]


# How a message leaves, with buffers where it has any: `send` of a widget.
Send = Callable[..., None]


class Desk(Protocol):
    """What answers: the desk of a record, of a capture, of a profile."""

    def answer(self, ask: str, args: Json, push: Callable[[Json], None]) -> Any:
        """The answer to one question, as plain data."""


_PUSHES_A_SECOND = 10
_LATE_S = 1.0
# A record of more passes sends only those that did something: a message stays under 1 MB.
_MOST_PASSES = 12_000
_RUNS_WITH_SOURCE = 2
_PIECE_BYTES = 900_000


class Answerer:
    """Answers the messages of one front end about one record, capture or profile.

    Questions in `slow` are answered from a thread of their own.
    """

    def __init__(self, desk: Desk, send: Send, slow: Collection[str] = SLOW_ASKS) -> None:
        self.desk = desk
        self._slow = slow
        self._send = send
        self._sending = threading.Lock()
        self._pushed_at = 0.0

    def hear(self, message: Json) -> None:
        """Answer one message, at once or from a thread."""
        if message.get("ask") in self._slow:
            # The thread answers in the name of the message that asked.
            context = contextvars.copy_context()
            run = (self._answer, message)
            threading.Thread(target=context.run, args=run, name="tinylab-run", daemon=True).start()
        else:
            self._answer(message)

    def _answer(self, message: Json) -> None:
        number, ask = message.get("id"), str(message.get("ask", ""))
        late = self._tell_if_late(number)
        try:
            data = self.desk.answer(ask, message.get("args") or {}, self._push)
            if isinstance(data, dict) and "columns" in data:
                self._send_columns(number, data)
                return
            if ask == "kernel":
                data = light(data)
            self.send({"id": number, "ok": data if ask in _ALWAYS_FINITE else finite(data)})
        except Exception as error:  # a widget's errors appear in no cell: the view shows them
            self.send({"id": number, "error": sentence(error)})
        finally:
            late.cancel()

    def _tell_if_late(self, number: Any) -> threading.Timer:
        """Says that a question was heard if it is not answered soon.

        Whoever asks would take a kernel that looks idle for one that has forgotten the widget.
        """
        context = contextvars.copy_context()
        message = {"id": number, "heard": True}
        timer = threading.Timer(_LATE_S, context.run, (self.send, message))
        timer.daemon = True
        timer.start()
        return timer

    def send(self, message: Json, buffer: memoryview | None = None) -> None:
        """One message at a time, from whichever thread."""
        with self._sending:
            if buffer is None:
                self._send(message)
            else:
                self._send(message, [buffer])

    def _send_columns(self, number: Any, data: Json) -> None:
        specs, blob = pack(data["columns"])
        rest = memoryview(blob)
        while len(rest) > _PIECE_BYTES:
            self.send({"id": number, "piece": 1}, rest[:_PIECE_BYTES])
            rest = rest[_PIECE_BYTES:]
        self.send({"id": number, "ok": finite({**data, "columns": specs})}, rest)

    def _push(self, event: Json) -> None:
        now = time.monotonic()
        if now - self._pushed_at < 1 / _PUSHES_A_SECOND:
            return
        self._pushed_at = now
        self.send(event)


_ALWAYS_FINITE = frozenset({"step", "text", "more", "search", "lines", "node"})


def sentence(error: BaseException) -> str:
    """An error for the status line: what is wrong, then what helps.

    Ours say both; of others the type says most.
    """
    message, hint = getattr(error, "message", None), getattr(error, "help", None)
    if message is None:
        return f"{type(error).__name__}: {error}"
    return f"{message}; {hint}" if hint else str(message)


def finite(data: Any) -> Any:
    """Plain data with None for numbers that JSON does not have."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return data


def light(kernel: Json) -> Json:
    """A kernel whose history holds the source of the latest runs only: a message has its limit."""
    history = kernel["history"]
    earlier = [{**row, "source": [], "assembly": []} for row in history[:-_RUNS_WITH_SOURCE]]
    return {**kernel, "history": [*earlier, *history[-_RUNS_WITH_SOURCE:]]}


def packed(overview: Json) -> Json:
    """The overview with passes as short rows: a training step has thousands of them.

    {"passes": [{"id": 7, ...}]} -> {"passes": [[7, 0, 3, 12.5, 1, 40, 0, null, 1]]}
    """
    kinds: dict[tuple[Any, ...], int] = {}
    total = sum(len(stage["passes"]) for stage in overview["stages"])

    def row(info: Json) -> list[Any]:
        place = info.get("place") or {}
        kind = (info["name"], info["direction"], place.get("file", ""), place.get("line", 0))
        return [
            info["id"],
            kinds.setdefault(kind, len(kinds)),
            info["matches"],
            round(info["elapsed_us"], 1),
            int(info["changed"]),
            info["nodes"],
            int(info["failed"]),
            info.get("parent"),
            info.get("realize", 0),
        ]

    def kept(info: Json) -> bool:
        return total <= _MOST_PASSES or info["changed"] or info["failed"] or info["matches"] > 0

    stages = [
        {**stage, "passes": [row(info) for info in stage["passes"] if kept(info)]}
        for stage in overview["stages"]
    ]
    return {**overview, "stages": stages, "kinds": [list(kind) for kind in kinds]}

"""Between a widget's comm and `tinylab.lab`: questions come in, plain data goes out.

The kernel's main thread may be busy with a cell: questions are answered wherever the message
arrives (a subshell's thread where the kernel has them), and slow ones on a thread of their own.
"""

import contextvars
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from tinylab.lab.desk import SLOW_ASKS, Desk

Json = dict[str, Any]
Send = Callable[[Json], None]

_PUSHES_A_SECOND = 10
# A record of more passes sends only those that did something: a message stays under 1 MB.
_MOST_PASSES = 12_000
_RUNS_WITH_SOURCE = 2


class Answerer:
    """Answers the messages of one front end about one record."""

    def __init__(self, desk: Desk, send: Send) -> None:
        self.desk = desk
        self._send = send
        self._sending = threading.Lock()
        self._pushed_at = 0.0

    def hear(self, message: Json) -> None:
        """Answer one message, at once or from a thread."""
        if message.get("ask") in SLOW_ASKS:
            # The thread answers in the name of the message that asked.
            context = contextvars.copy_context()
            run = (self._answer, message)
            threading.Thread(target=context.run, args=run, name="tinylab-run", daemon=True).start()
        else:
            self._answer(message)

    def _answer(self, message: Json) -> None:
        number, ask = message.get("id"), str(message.get("ask", ""))
        try:
            data = self.desk.answer(ask, message.get("args") or {}, self._push)
            if ask == "kernel":
                data = light(data)
            self.send({"id": number, "ok": data if ask in _ALWAYS_FINITE else finite(data)})
        except Exception as error:  # a widget's errors appear in no cell: the view shows them
            self.send({"id": number, "error": sentence(error)})

    def send(self, message: Json) -> None:
        """One message at a time, from whichever thread."""
        with self._sending:
            self._send(message)

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

    {"passes": [{"id": 7, "name": "split", ...}]}  ->  {"passes": [[7, 0, 3, 12.5, 1, 40, 0, null]]}
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
        ]

    def kept(info: Json) -> bool:
        return total <= _MOST_PASSES or info["changed"] or info["failed"] or info["matches"] > 0

    stages = [
        {**stage, "passes": [row(info) for info in stage["passes"] if kept(info)]}
        for stage in overview["stages"]
    ]
    return {**overview, "stages": stages, "kinds": [list(kind) for kind in kinds]}

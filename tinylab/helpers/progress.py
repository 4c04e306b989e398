"""Progress bars: a line of a terminal, or a bar in the output of a notebook's cell."""

from __future__ import annotations

import html
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from tinylab.helpers.text import stderr_log

T = TypeVar("T")


class _Cell:
    """One output of a notebook's cell, drawn again and again."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    @staticmethod
    def here() -> _Cell | None:
        """An output of the cell that runs, if this is a notebook."""
        shell = sys.modules.get("IPython")
        running = shell.get_ipython() if shell is not None else None
        if running is None or not hasattr(running, "kernel"):
            return None
        from IPython.display import display

        return _Cell(display)

    def show(self, done: float | None, line: str, close: bool) -> None:
        """Draw the bar (None: it is not known how much there is) and what stands beside it."""
        bundle = {"text/plain": line, "text/html": _bar(done, line, close)}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        """Take the bar away."""
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _bar(done: float | None, line: str, close: bool) -> str:
    width = 100 if done is None else 100 * min(done, 1.0)
    faint = "opacity:.35;" if done is None and not close else ""
    color = "var(--jp-brand-color1,#1976d2)"
    if close:
        whole = done is None or done >= 1
        color = "var(--jp-success-color1,#388e3c)" if whole else "var(--jp-warn-color1,#f57c00)"
    return (
        '<div style="display:flex;align-items:center;gap:8px;font-family:monospace">'
        '<div style="flex:0 0 200px;height:10px;border-radius:5px;overflow:hidden;'
        'background:rgba(128,128,128,.3)">'
        f'<div style="width:{width:.1f}%;height:100%;{faint}background:{color}"></div></div>'
        f"<span>{html.escape(line)}</span></div>"
    )


class tqdm(Generic[T]):
    """A progress bar around an iterable, drawn at most ``rate`` times a second.

    On stderr of a terminal; in a notebook, a bar in the cell's output. Without ``leave`` it is gone
    when all is done. ``disable=None`` draws none where stderr is a file.

    for x in tqdm(files, desc="read"): ...
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str = "",
        disable: bool | None = False,
        unit: str = "it",
        unit_scale: bool = False,
        total: int | None = None,
        rate: int = 100,
        leave: bool = True,
    ) -> None:
        self.iterable, self.unit, self.unit_scale, self.rate = iterable, unit, unit_scale, rate
        self._cell = None if disable else _Cell.here()
        if disable is None:  # nobody looks at a file
            disable = self._cell is None and not sys.stderr.isatty()
        self.disable, self.leave = disable, leave
        self.total = (
            total if total is not None else getattr(iterable, "__len__", lambda: 0)() or None
        )
        self.n, self.i = 0, -1  # how much is done, and in how many steps
        if self._cell is not None:
            self.rate = min(rate, 10)  # a page need not be told more often
        self._start = time.perf_counter()
        self._drawn = 0.0
        self.set_description(desc)
        self.update(0)

    def __iter__(self) -> Iterator[T]:
        try:
            for item in self.iterable or ():
                yield item
                self.update(1)
        finally:  # a loop that is left early leaves the bar where it was
            self.update(close=True)

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.update(close=True)

    @property
    def t(self) -> int:
        """How much there is to do; 0 where that is not known."""
        return self.total or 0

    def set_description(self, desc: str) -> None:
        """What stands before the bar."""
        self.desc = f"{desc}: " if desc else ""

    def update(self, n: int = 0, close: bool = False) -> None:
        """``n`` more are done; draws when the last picture is old enough."""
        self.n += n
        self.i += not close
        now = time.perf_counter()
        if self.disable or (not close and now - self._drawn < 1 / self.rate):
            return
        self._drawn = now
        line = self._line(now - self._start)
        if self._cell is not None:
            self._cell.show(self.n / self.total if self.total else None, line, close)
        else:
            stderr_log("\r" + line + ("\n" if close and self.leave else ""))
        if close and not self.leave:
            self._clear()

    def _clear(self) -> None:
        if self._cell is not None:
            self._cell.clear()
        else:
            stderr_log("\r\033[K")

    def close(self) -> None:
        """The last picture, which stays if it is to be left."""
        self.update(close=True)

    @staticmethod
    def write(s: str) -> None:
        """A line above the bar."""
        if _Cell.here() is not None:
            print(s)
        else:
            stderr_log(f"\r\033[K{s}\n")

    def _line(self, elapsed: float) -> str:
        speed = (
            f"{self._count(self.n / elapsed)}{self.unit}/s"
            if self.n and elapsed > 0
            else f"?{self.unit}/s"
        )
        if not self.total:
            return f"{self.desc}{self._count(self.n)}{self.unit} [{_clock(elapsed)}, {speed}]"
        done = min(self.n / self.total, 1.0)
        left = _clock(elapsed / done - elapsed) if done > 0 else "?"
        tail = (
            f"{self._count(self.n)}/{self._count(self.total)} [{_clock(elapsed)}<{left}, {speed}]"
        )
        if self._cell is not None:
            return f"{self.desc}{100 * done:3.0f}% {tail}"
        room = shutil.get_terminal_size().columns - len(self.desc) - len(tail) - 10
        width = max(room, 1)
        full = int(width * done)
        return f"{self.desc}{100 * done:3.0f}%|{'█' * full}{' ' * (width - full)}| {tail}"

    def _count(self, x: float) -> str:
        if not self.unit_scale:
            return str(x) if isinstance(x, int) else f"{x:.2f}"
        for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if x >= unit:
                return f"{x / unit:.2f}{name}"
        return f"{x:.2f}"


def trange(n: int, **kwargs: str | bool | int | None) -> tqdm[int]:
    """A progress bar over range(n)."""
    return tqdm(range(n), **kwargs)  # type: ignore[arg-type]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"

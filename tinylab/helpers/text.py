"""Text for people: colours, padding, sizes and times, near names, progress bars."""

from __future__ import annotations

import difflib
import linecache
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from tinylab.errors import DeviceError
from tinylab.helpers.context import NO_COLOR

T = TypeVar("T")

COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


# *** colours


def colored(st: object, color: str | None, background: bool = False) -> str:
    """Text in a terminal's colour; capitals are the bright ones: "x", "GREEN"."""
    if color is None or NO_COLOR:
        return str(st)
    base = 10 * background + 60 * (color.upper() == color) + 30
    return f"\x1b[{base + COLORS.index(color.lower())}m{st}\x1b[0m"


def ansistrip(s: str) -> str:
    """Text without its colours."""
    return re.sub(r"\x1b\[(?:K|.*?m)", "", s)


def ansilen(s: str) -> int:
    """How many characters are seen."""
    return len(ansistrip(s))


def ansipad(s: str, w: int) -> str:
    """Coloured text padded with spaces to ``w`` seen characters."""
    return s + " " * max(w - ansilen(s), 0)


def colorize_float(x: float) -> str:
    """A ratio of times: green below 0.75, red above 1.15, yellow between."""
    return colored(f"{x:7.2f}x", "green" if x < 0.75 else "red" if x > 1.15 else "yellow")


# *** names, numbers, sizes, times


def to_function_name(s: str) -> str:
    """A name that any language takes: "my kernel!" -> "my20kernel21"."""
    return "".join(c if c in _WORD else f"{ord(c):02X}" for c in ansistrip(s))


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def pluralize(st: str, cnt: int) -> str:
    """A count with its noun: "kernel", 2 -> "2 kernels"."""
    return f"{cnt} {st}" + ("" if cnt == 1 else "s")


def size_to_str(s: int) -> str:
    """Bytes in the unit that reads best: 4096 -> "4.10 KB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if s >= unit:
            return f"{s / unit:.2f} {name}"
    return f"{s} B"


def time_to_str(t: float, w: int = 8) -> str:
    """Seconds in the unit that reads best, padded: 0.5 -> "  500.00ms"."""
    for unit, name in ((10.0, "s "), (1e-2, "ms")):
        if t > unit:
            return f"{t * (1 if name == 's ' else 1e3):{w}.2f}{name}"
    return f"{t * 1e6:{w}.2f}us"


def strip_parens(fst: str) -> str:
    """Text without the parentheses around all of it: "(a+b)" -> "a+b", "(a)+(b)" stays."""
    if not (fst.startswith("(") and fst.endswith(")")):
        return fst
    depth = 0
    for i, c in enumerate(fst):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return fst[1:-1] if i == len(fst) - 1 else fst
    return fst


def word_wrap(x: str, wrap: int = 80) -> str:
    """Text broken into lines of ``wrap`` seen characters; colours take no room."""
    if "\n" in x:
        return "\n".join(word_wrap(line, wrap) for line in x.split("\n"))
    if ansilen(x) <= wrap:
        return x
    out, seen = "", 0
    for part in re.split(r"(\x1b\[.*?m)", x):
        if part.startswith("\x1b["):
            out += part
            continue
        for c in part:
            if seen == wrap:
                out, seen = out + "\n", 0
            out, seen = out + c, seen + 1
    return out


def printable(loc: tuple[str, int]) -> str:
    """The source line at (file, line), or "" where there is none."""
    return linecache.getline(*loc).strip()


def closest(name: str, names: Iterable[str]) -> str | None:
    """The nearest of some names, if one is near: "CLAG" of CLANG, LLVM -> CLANG."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return near[0] if near else None


def select_by_name(
    candidates: Sequence[T], get_name: Callable[[T], str], query: str, err_msg: str
) -> list[T]:
    """The candidates called ``query``, all when it is empty.

    Raises: DeviceError with ``err_msg``, and the nearest name if there is one.
    """
    if not query:
        return list(candidates)
    found = [c for c in candidates if get_name(c) == query]
    if found:
        return found
    near = closest(query, map(get_name, candidates))
    raise DeviceError(err_msg + (f", did you mean: {near}?" if near else ""))


def stderr_log(msg: str) -> None:
    """Text to stderr at once, with no line end of its own."""
    sys.stderr.write(msg)
    sys.stderr.flush()


# *** progress


class tqdm(Generic[T]):
    """A progress bar around an iterable, drawn on stderr at most ``rate`` times a second.

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
    ) -> None:
        self.iterable, self.unit, self.unit_scale, self.rate = iterable, unit, unit_scale, rate
        self.disable = bool(disable)
        self.total = (
            total if total is not None else getattr(iterable, "__len__", lambda: 0)() or None
        )
        self.n = 0
        self._start = time.perf_counter()
        self._drawn = 0.0
        self.set_description(desc)
        self.update(0)

    def __iter__(self) -> Iterator[T]:
        for item in self.iterable or ():
            yield item
            self.update(1)
        self.update(close=True)

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.update(close=True)

    def set_description(self, desc: str) -> None:
        """What stands before the bar."""
        self.desc = f"{desc}: " if desc else ""

    def update(self, n: int = 0, close: bool = False) -> None:
        """``n`` more are done; draws when the last picture is old enough."""
        self.n += n
        now = time.perf_counter()
        if self.disable or (not close and now - self._drawn < 1 / self.rate):
            return
        self._drawn = now
        stderr_log("\r" + self._line(now - self._start) + ("\n" if close else ""))

    def write(self, s: str) -> None:
        """A line above the bar."""
        stderr_log(f"\r\033[K{s}\n")

    def _line(self, elapsed: float) -> str:
        speed = (
            f"{self._count(self.n / elapsed)}{self.unit}/s"
            if self.n and elapsed > 0
            else f"?{self.unit}/s"
        )
        if self.total is None:
            return f"{self.desc}{self._count(self.n)}{self.unit} [{_clock(elapsed)}, {speed}]"
        done = min(self.n / self.total, 1.0)
        left = _clock(elapsed / done - elapsed) if done > 0 else "?"
        tail = (
            f"{self._count(self.n)}/{self._count(self.total)} [{_clock(elapsed)}<{left}, {speed}]"
        )
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

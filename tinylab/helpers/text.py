"""Text for people: colours, padding, sizes and times, near names."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from tinylab.errors import DeviceError, OperandError
from tinylab.helpers.context import NO_COLOR
from tinylab.helpers.near import closest

T = TypeVar("T")

COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


# *** colours


def colored(st: object, color: str | None, background: bool = False) -> str:
    """Text in a terminal's colour; capitals are the bright ones: "x", "GREEN"."""
    if color is None or NO_COLOR:
        return str(st)
    if color.lower() not in COLORS:
        raise OperandError(f"no colour is called {color!r}", help=f"there are {', '.join(COLORS)}")
    base = 10 * background + 60 * (color.upper() == color) + 30
    return f"\x1b[{base + COLORS.index(color.lower())}m{st}\x1b[0m"


def ansistrip(s: str) -> str:
    """Text without its colours."""
    return re.sub(r"\x1b\[(?:K|.*?m)", "", s) if "\x1b" in s else s


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
    """Bytes in the unit that reads best, of 1024 each: 4096 -> "4.00 KB"."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
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


def without_controls(text: str) -> str:
    r"""A text of a stranger for the terminal: control characters are written out, not obeyed.

    "a\x1b[2Jb" -> the letters a \ x 1 b [ 2 J b
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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

"""Names and parameters as a list says they are, held against what is there."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Iterator
from typing import Any


def listed(path: pathlib.Path) -> Iterator[tuple[str, str | None]]:
    """(name, parameters as text) of each line; None for what is no function."""
    for line in path.read_text().splitlines():
        name, bracket, rest = line.partition("(")
        yield name, rest[:-1] if bracket else None


def parameters(function: Any) -> str:
    """The parameters as text, without the first of a method; no types."""
    found = []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for p in inspect.signature(function).parameters.values():
        if p.name in ("self", "cls"):
            continue
        default = "" if p.default is p.empty else f"={plain(p.default)}"
        found.append(f"{stars.get(p.kind, '')}{p.name}{default}")
    return ", ".join(found)


def plain(default: object) -> str:
    if type(default).__name__ == "ContextVar":
        return "<ContextVar object>"
    if isinstance(default, type):
        return f"<class {default.__name__}>"
    text = default if isinstance(default, str) else repr(default)
    return {"dtypes.int": "dtypes.int"}.get(text, text)

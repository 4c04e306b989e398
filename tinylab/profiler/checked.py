"""Values of JSON from strangers, each held against what it should be before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tinylab.errors import CaptureError
from tinylab.profiler.regular import open_file

_MOST_BYTES = 64 << 20
_LARGEST = 1 << 62


def read_json(path: Path) -> Checked:
    """The object in a file.

    Raises: CaptureError if it is too long, is no JSON, or is something else than an object.
    """
    with open_file(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise CaptureError(f"{path.name} has more than {_MOST_BYTES} bytes")
    try:
        value = json.loads(data)
    except UnicodeDecodeError:
        raise CaptureError(f"{path.name} is no JSON: it is no text") from None
    except (ValueError, RecursionError) as e:
        raise CaptureError(f"{path.name} is no JSON: {e}") from None
    if not isinstance(value, dict):
        raise CaptureError(f"{path.name} holds no object but a {type(value).__name__}")
    return Checked(value, path.name)


class Checked:
    """A JSON object whose values are asked for by name and type."""

    def __init__(self, value: Mapping[str, Any], where: str) -> None:
        self.value, self.where = value, where

    def __contains__(self, key: str) -> bool:
        return self.value.get(key) is not None

    def whole(
        self, key: str, low: int = 0, high: int = _LARGEST, default: int | None = None
    ) -> int:
        """An integer from low to high."""
        found = self.value.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise self._wrong(key, f"an integer from {low} to {high}")
        return found

    def number(self, key: str, default: float | None = None) -> float:
        """An integer or a fraction."""
        found = self.value.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._wrong(key, "a number")
        return float(found)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        found = self.value.get(key, default)
        if not isinstance(found, str):
            raise self._wrong(key, "a string")
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self.value.get(key, default))

    def file(self, key: str) -> str:
        """The name of a file in the same folder, never a path out of it."""
        name = self.text(key)
        if not name or name in (".", "..") or PurePosixPath(name).name != name or "\\" in name:
            raise self._wrong(key, "the name of a file beside it")
        return name

    def inner(self, key: str) -> Checked:
        """An object; an empty one if it is not there."""
        found = self.value.get(key, {})
        if not isinstance(found, dict):
            raise self._wrong(key, "an object")
        return Checked(found, f"{self.where}: {key}")

    def each(self, key: str) -> Iterator[Checked]:
        """The objects of a list; none if it is not there."""
        found = self.value.get(key, [])
        if not isinstance(found, list):
            raise self._wrong(key, "a list")
        for i, item in enumerate(found):
            if not isinstance(item, dict):
                raise self._wrong(f"{key}[{i}]", "an object")
            yield Checked(item, f"{self.where}: {key}[{i}]")

    def _wrong(self, key: str, wanted: str) -> CaptureError:
        if key not in self.value and "[" not in key:
            return CaptureError(f"{self.where}: {key} is missing, it should be {wanted}")
        found = json.dumps(self.value.get(key), default=str)[:60]
        return CaptureError(f"{self.where}: {key} is {found}, not {wanted}")

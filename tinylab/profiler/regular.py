"""Files of captures and profiles, opened only where they are files.

A folder of a stranger may hold pipes, devices and links to them: opening one may wait forever, and
reading one may never end.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from tinylab.errors import CaptureError

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_file(path: Path) -> BinaryIO:
    """A regular file to be read, or one that a link leads to.

    Raises: CaptureError for what is something else, is not there, or may not be read.
    """
    with _in_words(path):
        mode = path.stat().st_mode
    _refuse_others(path, mode)
    with _in_words(path):
        # Opened without waiting for whoever writes into a pipe that is there by now.
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        file = os.fdopen(os.open(path, flags), "rb")
    try:
        _refuse_others(path, os.fstat(file.fileno()).st_mode)
    except CaptureError:
        file.close()
        raise
    return file


def map_file(path: Path) -> memoryview:
    """A file's bytes without reading them.

    Raises: CaptureError if it cannot be opened.
    """
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        with _in_words(path):
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def reason(error: Exception) -> str:
    """An error of the system in words: "there is no such file", without its number and path."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    words = error.strerror if isinstance(error, OSError) else None
    return (words or str(error)).lower()


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Raises: CaptureError where the system refuses."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {path.name}: {reason(error)}") from None


def _refuse_others(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((word for is_kind, word in _KINDS if is_kind(mode)), "something else")
        raise CaptureError(f"cannot read {path.name}: it is {kind}, not a regular file")

"""Profiles from files, whatever they are: ours, or traces of Chrome and Perfetto."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.profiler import saved
from tinylab.profiler.chrome import read_chrome
from tinylab.profiler.collected import Profile
from tinylab.profiler.reading import LARGE, reading_bar
from tinylab.profiler.regular import open_file, reason

MOST_BYTES = 4 << 30
_PIECE = 1 << 22
_SQLITE, _GZIP, _PERFETTO = b"SQLite format 3\0", b"\x1f\x8b", b"\n"


def is_profile(path: Path) -> bool:
    """Whether a file is read by `load_profile`: a .tlab file, or JSON that is no capture."""
    name = path.name.lower()
    return path.is_file() and (
        name.endswith((".tlab", ".gz", ".pftrace"))
        or (name.endswith(".json") and name != "capture.json")
    )


@explained
def load_profile(
    path: str | Path,
    progress: Callable[[float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Profile:
    """A profile from a .tlab file or a trace of Chrome's, also compressed with gzip.

    progress hears the share that was read, by custom a bar shows it where the file is large;
    cancelled is asked now and then, and the stop button or Ctrl+C cancels too.

    Raises: CaptureError or TraceError for what is neither, and where reading was cancelled.
    """
    where = Path(path)
    try:
        with open_file(where) as file:
            head = file.read(16)
            if head == _SQLITE:
                return _of(saved.load(where))
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise CaptureError(f"{where.name} has {size} bytes, more than {MOST_BYTES}")
            data = head + file.read()
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {reason(error)}") from None
    if progress is not None or len(data) < LARGE:
        return parse_profile(data, where.name, progress, cancelled)
    with reading_bar(where.name) as shown:
        return parse_profile(data, where.name, shown, cancelled)


def parse_profile(
    data: bytes,
    where: str,
    progress: Callable[[float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Profile:
    """The profile of a trace's bytes.

    Raises: CaptureError for what is none.
    """
    if data[:2] == _GZIP:
        data = _unzipped(data, where)
    if not data.strip():
        raise CaptureError(f"{where} is empty")
    if data[:1] == _PERFETTO and b"\0" in data[:4096]:
        raise CaptureError(
            f"{where} is a trace in Perfetto's binary form",
            help="convert it with `traceconv json`, and open the JSON",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaptureError(f"{where} is no text: {error}") from None
    del data
    table, facts, name = read_chrome(text, where, progress, cancelled)
    return Profile(name, None, table, facts)


def _of(parts: saved.Saved) -> Profile:
    found = Profile(parts.name, None, parts.table, parts.facts)
    found.record, found.numbers = parts.record, parts.numbers
    found.counted, found.asked = parts.counted, parts.asked
    return found


def _unzipped(data: bytes, where: str) -> bytes:
    """Raises: CaptureError for what is damaged, cut, or swells without bound."""
    machine = zlib.decompressobj(31)
    found = bytearray()
    try:
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            while piece:
                found += machine.decompress(piece, _PIECE)
                piece = machine.unconsumed_tail
                if len(found) > MOST_BYTES:
                    raise CaptureError(f"{where} unpacks to more than {MOST_BYTES} bytes")
    except zlib.error as error:
        raise CaptureError(f"{where} cannot be unpacked: {error}") from None
    if not machine.eof:
        raise CaptureError(f"{where} is cut: its compressed data ends in the middle")
    return bytes(found)

"""How much a packed file may grow to; gzip and tar files within that bound."""

from __future__ import annotations

import gzip
import io
import lzma
import pathlib
import tarfile
import zlib

from tinylab.errors import FileFormatError
from tinylab.helpers.text import size_to_str

_MOST_FOR_ALL, _MOST_FOR_EACH = 1 << 30, 100
_CHUNK = 1 << 20


def most_from(size_bytes: int) -> int:
    """Into how many bytes a file of so many may be unpacked: 1 GiB, or a hundred times as many."""
    return max(_MOST_FOR_ALL, _MOST_FOR_EACH * size_bytes)


def refuse_growth(count: int, size_bytes: int, what: str) -> None:
    """Refuse a file of so many bytes that asks for count bytes of memory.

    Raises: FileFormatError where a small file asks for much more memory than it has bytes.
    """
    most = most_from(size_bytes)
    if count > most:
        raise FileFormatError(
            f"{what} makes more than {size_to_str(most)} of a file of {size_bytes} bytes",
            help="if you trust it, unpack it with unzip, tar or gunzip and load what it holds",
        )


def gunzipped(raw: bytes, what: str) -> bytes:
    """What a gzip file holds.

    Raises: FileFormatError for what is none, is cut off, or is much larger than its file.
    """
    chunks, count = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while chunk := file.read(_CHUNK):
                count += len(chunk)
                refuse_growth(count, len(raw), what)
                chunks.append(chunk)
    except (OSError, EOFError, zlib.error) as e:
        raise FileFormatError(f"{what} is no whole gzip file: {e}") from e
    return b"".join(chunks)


def untar(path: pathlib.Path, folder: str) -> None:
    """Unpack a tar archive, also a packed one, into a folder; nothing leaves that folder.

    Raises: FileFormatError for what is none, is cut off, or makes much more than it has bytes.
    """
    members, count, size_bytes = [], 0, path.stat().st_size
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                count += member.size
                refuse_growth(count, size_bytes, str(path))
                members.append(member)
            archive.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as e:
        raise FileFormatError(str(e)) from e

"""What survives a process: a checked cache in one SQLite file, and downloaded files.

A row of the cache is (table, key, value, digest of all three). Values are plain data in a small
text form or bytes; a pickle given as one is unpacked without looking any name up. A row whose
digest does not fit, from a torn write or an edited file, is dropped as if it were not there. The
cache can only save time: a file that cannot be opened or written is one warning, never an error.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.errors import ContractError, FetchError, FileFormatError
from tinylab.helpers.arguments import explained, shown
from tinylab.helpers.context import CACHELEVEL, getenv

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

VERSION = 1  # of the rows; a file with another number is emptied


def _default_dir() -> str:
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches")
    return os.path.expanduser("~/.cache")


cache_dir: str = os.path.join(getenv("XDG_CACHE_HOME", _default_dir()), "tinylab")
CACHEDB: str = getenv("CACHEDB", os.path.join(cache_dir, "cache.db"))

# *** the cache


class _Store:
    """The open file; one connection per process, made anew after a fork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.opened: tuple[int, str] | None = None  # process and file
        self.broken = False

    def execute(self, sql: str, *values: object) -> list[Any]:
        """Rows of one statement; none if the cache cannot be used."""
        import sqlite3

        with self.lock:
            try:
                connection = self._connect()
                if connection is None:
                    return []
                rows = connection.execute(sql, values).fetchall()
                connection.commit()
                return rows
            except (sqlite3.Error, OSError) as e:
                self._give_up(e)
                return []

    def _connect(self) -> sqlite3.Connection | None:
        import sqlite3

        here = (os.getpid(), CACHEDB)
        if self.opened != here:
            self.opened, self.broken = here, False
            self.connection = None
        if self.broken:
            return None
        if self.connection is None:
            pathlib.Path(CACHEDB).parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(CACHEDB, timeout=10, check_same_thread=False)
            # Several notebooks write at once; a lost row costs one compilation.
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma synchronous=off")
            if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                connection.execute("drop table if exists cached")
                connection.execute(f"pragma user_version={VERSION}")
            connection.execute(_CREATE)
            connection.commit()
            self.connection = connection
        return self.connection

    def _give_up(self, error: Exception) -> None:
        import sqlite3

        self.broken, self.connection = True, None
        damaged = type(error) is sqlite3.DatabaseError  # those below it are about a statement
        if damaged:
            for suffix in ("", "-wal", "-shm"):
                pathlib.Path(CACHEDB + suffix).unlink(missing_ok=True)
        what = "was damaged and is removed" if damaged else "cannot be used"
        warnings.warn(f"the cache {CACHEDB} {what}: {error}", stacklevel=4)


_CREATE = """create table if not exists cached
    (kind text, key text, value blob, digest blob, primary key (kind, key)) without rowid"""
_store = _Store()


def diskcache_get(table: str, key: dict[str, Any] | str | int) -> Any:
    """What was put under a key, or None.

    Raises: ContractError for a key that is not text, a number or plain data.
    """
    name = _key_text(table, key)
    if CACHELEVEL < 1:
        return None
    rows = _store.execute("select value, digest from cached where kind=? and key=?", table, name)
    if not rows:
        return None
    value, digest = rows[0]
    if digest != _digest(table, name, value):
        _store.execute("delete from cached where kind=? and key=?", table, name)
        return None
    return _decode(value)


def diskcache_put(
    table: str, key: dict[str, Any] | str | int, val: T, prepickled: bool = False
) -> T:
    """Keeps plain data (numbers, text, bytes, lists, tuples, dicts); returns it.

    prepickled: the bytes are a pickle; what it holds is kept, which must be plain data too.

    Raises: ContractError for other values, and for a key that is not text, a number or plain data.
    """
    name = _key_text(table, key)
    if CACHELEVEL < 1:
        return val
    value = _encode(_unpickled(val) if prepickled else val)
    digest = _digest(table, name, value)
    _store.execute("replace into cached values (?, ?, ?, ?)", table, name, value, digest)
    return val


class _PlainUnpickler(pickle.Unpickler):
    """Loads what needs no name: no class is looked up, so nothing of a pickle is executed."""

    def find_class(self, module: str, name: str) -> Any:
        raise ContractError(
            f"the pickle names {module}.{name}, and only plain data is cached",
            help="numbers, text, bytes, lists, tuples, dicts",
        )


def _unpickled(raw: Any) -> Any:
    try:
        return _PlainUnpickler(io.BytesIO(raw)).load()
    except ContractError:
        raise
    except Exception as error:  # whatever damaged bytes make of it
        raise ContractError(f"{shown(raw)} is no pickle: {error}") from error


def diskcache_clear() -> None:
    """Empties the cache."""
    _store.execute("delete from cached")


def diskcache(func: F) -> F:
    """A function whose results are kept on disk, by its name and arguments."""

    @functools.wraps(func)
    def cached(*args: Any, **kwargs: Any) -> Any:
        key = hashlib.sha256(_encode([args, kwargs])).hexdigest()
        found = diskcache_get(f"cache_{func.__name__}", key)
        return (
            diskcache_put(f"cache_{func.__name__}", key, func(*args, **kwargs))
            if found is None
            else found
        )

    return cached  # type: ignore[return-value]


def _key_text(table: Any, key: Any) -> str:
    """A key as text: equal ones are equal text."""
    if not isinstance(table, str):
        raise ContractError(f"a table of the cache is called by text, not {shown(table)}")
    if isinstance(key, str):
        text = key
    else:
        try:
            text = json.dumps(key, sort_keys=True)
        except (TypeError, ValueError):
            raise ContractError(
                f"{shown(key)} cannot be a key of the cache",
                help="make one of text, numbers, lists, tuples and dicts",
            ) from None
    return text.encode(errors="backslashreplace").decode()


def _digest(table: str, key: str, value: bytes) -> bytes:
    parts = (table.encode(), key.encode(), value)
    return hashlib.sha256(b"".join(len(p).to_bytes(8, "little") + p for p in parts)).digest()


def _encode(val: Any) -> bytes:
    if isinstance(val, (bytes, bytearray, memoryview)):
        return b"b" + bytes(val)
    return b"j" + json.dumps(_tagged(val), separators=(",", ":")).encode()


def _decode(value: bytes) -> Any:
    return value[1:] if value[:1] == b"b" else _untagged(json.loads(value[1:]))


def _tagged(val: Any) -> Any:
    """Plain data as JSON can hold it: (1, b"x") -> {"t": [1, {"b": "78"}]}."""
    if val is None or isinstance(val, (bool, int, float, str)):
        return val
    if isinstance(val, (bytes, bytearray)):
        return {"b": val.hex()}
    if isinstance(val, list):
        return [_tagged(item) for item in val]
    if isinstance(val, tuple):
        return {"t": [_tagged(item) for item in val]}
    if isinstance(val, dict):
        return {"d": [[_tagged(k), _tagged(v)] for k, v in val.items()]}
    raise ContractError(
        f"a {type(val).__name__} cannot be kept in the cache",
        help="turn it into numbers, text, bytes, lists, tuples and dicts",
    )


def _untagged(val: Any) -> Any:
    if isinstance(val, list):
        return [_untagged(item) for item in val]
    if not isinstance(val, dict):
        return val
    ((tag, body),) = val.items()
    if tag == "b":
        return bytes.fromhex(body)
    if tag == "t":
        return tuple(_untagged(item) for item in body)
    return {_untagged(k): _untagged(v) for k, v in body}


# *** files


def temp(x: str, append_user: bool = False) -> str:
    """A path in the folder for temporary files."""
    name = f"{x}.{os.getuid()}" if append_user and hasattr(os, "getuid") else x
    return os.path.join(tempfile.gettempdir(), name)


@explained
def fetch(
    url: str,
    name: pathlib.Path | str | None = None,
    subdir: str | None = None,
    gunzip: bool = False,
    allow_caching: bool = True,
    headers: dict[str, str] = {},  # noqa: B006 (as scripts read it; it is never changed)
    sha256: str | None = None,
    extract: bool = False,
) -> pathlib.Path:
    """The file at a URL, downloaded once into the cache folder; a path of this machine is itself.

    A download is written beside its place and moved there whole, so a broken one leaves nothing.
    extract: the folder that a tar archive is unpacked into. What is packed must not grow to more
    than 1 GiB or a hundred times its size.

    Raises: FetchError if it cannot be had or is not the one that ``sha256`` names.
    """
    if url.startswith(("/", ".")):
        return _local(pathlib.Path(url), name, subdir, gunzip, sha256, extract)
    if "://" not in url:
        raise FetchError(
            f"{url!r} is no address",
            help=f"write https://… , or ./{url} for a file of this machine",
        )
    path = _place(url, name, subdir, gunzip)
    if not (path.is_file() and allow_caching and not getenv("DISABLE_HTTP_CACHE")):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = _download(url, headers, gunzip)
        _write_whole(path, data)
    try:
        _check_digest(path, url, sha256)
    except FetchError:
        path.unlink()
        raise
    return _unpacked(path) if extract else path


def _write_whole(path: pathlib.Path, data: bytes) -> None:
    """A file that is there whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
        try:
            f.write(data)
            f.flush()
            os.replace(f.name, path)
        except BaseException:
            os.unlink(f.name)
            raise


def _local(
    path: pathlib.Path,
    name: pathlib.Path | str | None,
    subdir: str | None,
    gunzip: bool,
    sha256: str | None,
    extract: bool,
) -> pathlib.Path:
    """A file of this machine, or what is packed in it, which goes where a download would."""
    if not path.exists():
        raise FetchError(f"there is no {path}", help=f"the folder is {pathlib.Path.cwd()}")
    _check_digest(path, str(path), sha256)
    if gunzip:
        place = _place(str(path.resolve()), name, subdir, gunzip)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(_gunzipped(path.read_bytes(), str(path)))
        path = place
    return _unpacked(path) if extract else path


def _check_digest(path: pathlib.Path, url: str, sha256: str | None) -> None:
    if sha256 is not None and (got := hashlib.sha256(path.read_bytes()).hexdigest()) != sha256:
        raise FetchError(
            f"{url} has SHA-256 {got}, not {sha256}", help="the file there has changed"
        )


def _unpacked(path: pathlib.Path) -> pathlib.Path:
    """The folder of an archive's files, made whole or not at all; nothing leaves that folder."""
    from tinylab.helpers.unpack import untar

    folder = path.with_name(path.name + ".extract")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as whole:
            try:
                untar(path, whole)
            except FileFormatError as e:
                raise FetchError(f"{path} cannot be unpacked: {e}") from e
            os.replace(shutil.copytree(whole, f"{whole}.done"), folder)
    return folder


def _place(
    url: str, name: pathlib.Path | str | None, subdir: str | None, gunzip: bool
) -> pathlib.Path:
    if name is not None and (isinstance(name, pathlib.Path) or "/" in name):
        return pathlib.Path(name)
    file = name or hashlib.md5(url.encode()).hexdigest() + (".gunzip" if gunzip else "")
    return pathlib.Path(cache_dir) / "downloads" / (subdir or "") / file


def _download(url: str, headers: dict[str, str], gunzip: bool) -> bytes:
    import http.client
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "tinylab"} | headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data: bytes = answer.read()
            length = answer.headers.get("content-length")
    except http.client.IncompleteRead as e:
        got = len(e.partial)
        whole = f"{got + e.expected} bytes" if e.expected else "its bytes"
        raise FetchError(f"{url} broke off after {got} of {whole}", help="try again") from e
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise FetchError(
            f"cannot fetch {url}: {shown(str(e))}", help="check the address and the connection"
        ) from e
    if length is not None and length.isdecimal() and int(length) != len(data):
        raise FetchError(f"{url} broke off after {len(data)} of {length} bytes", help="try again")
    return _gunzipped(data, url) if gunzip else data


def _gunzipped(data: bytes, url: str) -> bytes:
    from tinylab.helpers.unpack import gunzipped

    try:
        return gunzipped(data, url)
    except FileFormatError as e:
        raise FetchError(f"cannot unpack {e}") from e

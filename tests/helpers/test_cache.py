import gzip
import hashlib
import os
import pathlib
import pickle
import sqlite3
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tinylab.errors import ContractError, FetchError
from tinylab.helpers import Context, cache


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CACHEDB", str(tmp_path / "sub" / "cache.db"))
    monkeypatch.setattr(cache, "cache_dir", str(tmp_path))


VALUES = [
    b"\0\xff",
    "text",
    1,
    1.5,
    True,
    (1, (2, "x")),
    [1, [b"b"]],
    {"a": (1,)},
    {1: {2: 3}},
    {},
    (),
]


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back_as_they_were(value):
    assert cache.diskcache_put("table", "key", value) == value
    found = cache.diskcache_get("table", "key")
    assert found == value
    assert type(found) is type(value)


def test_keys_and_tables_are_apart():
    cache.diskcache_put("a", {"x": 1, "y": (2,)}, "first")
    cache.diskcache_put("b", {"x": 1, "y": (2,)}, "second")
    assert cache.diskcache_get("a", {"y": (2,), "x": 1}) == "first"
    assert cache.diskcache_get("b", {"x": 1, "y": (2,)}) == "second"
    assert cache.diskcache_get("a", {"x": 2}) is None
    cache.diskcache_clear()
    assert cache.diskcache_get("a", {"x": 1, "y": (2,)}) is None


@pytest.mark.parametrize(
    "key", [object(), {1, 2}, b"x", {"a": object()}, {(1,): 2}, {1: 2, "a": 3}]
)
def test_what_is_no_key_is_told_and_nothing_is_lost(key):
    cache.diskcache_put("t", "k", 1)
    for ask in (cache.diskcache_get, lambda t, k: cache.diskcache_put(t, k, 1)):
        with pytest.raises(ContractError, match="cannot be a key of the cache"):
            ask("t", key)
        with pytest.raises(ContractError, match="a table of the cache is called by text"):
            ask(key, "k")
    assert cache.diskcache_get("t", "k") == 1


@pytest.mark.parametrize("key", ["\ud800", 2**70, (1, (2, "x")), None, 1.5])
def test_any_plain_data_is_a_key(key):
    cache.diskcache_put("t", key, 1)
    assert cache.diskcache_get("t", key) == 1


def test_off_means_off():
    with Context(CACHELEVEL=0):
        cache.diskcache_put("t", "k", 1)
        assert cache.diskcache_get("t", "k") is None
    assert not os.path.exists(cache.CACHEDB)


def test_a_changed_row_is_not_believed():
    cache.diskcache_put("t", "k", b"machine code")
    with sqlite3.connect(cache.CACHEDB) as db:
        db.execute("update cached set value=?", (b"bother code",))
    assert cache.diskcache_get("t", "k") is None
    cache.diskcache_put("t", "k", b"machine code")
    assert cache.diskcache_get("t", "k") == b"machine code"


def test_a_row_moved_to_another_key_is_not_believed():
    cache.diskcache_put("t", "k", b"machine code")
    with sqlite3.connect(cache.CACHEDB) as db:
        db.execute("update cached set key='other'")
    assert cache.diskcache_get("t", "other") is None


def test_a_damaged_file_is_one_warning_and_made_anew():
    os.makedirs(os.path.dirname(cache.CACHEDB))
    with open(cache.CACHEDB, "wb") as f:
        f.write(b"this is no database" * 100)
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.diskcache_get("t", "k") is None
    cache.diskcache_put("t", "k", 1)  # silent
    cache._store.opened = None  # as a new process finds it
    cache.diskcache_put("t", "k", 2)
    assert cache.diskcache_get("t", "k") == 2


def test_a_folder_that_cannot_be_written_is_one_warning(monkeypatch):
    monkeypatch.setattr(cache, "CACHEDB", "/proc/nowhere/cache.db")
    with pytest.warns(UserWarning, match="cannot be used"):
        cache.diskcache_put("t", "k", 1)
    assert cache.diskcache_get("t", "k") is None


def test_a_file_of_another_version_is_emptied(monkeypatch):
    cache.diskcache_put("t", "k", 1)
    monkeypatch.setattr(cache, "VERSION", 999)
    cache._store.opened = None
    assert cache.diskcache_get("t", "k") is None


def test_what_is_no_plain_data_is_refused():
    with pytest.raises(ContractError, match="object cannot be kept"):
        cache.diskcache_put("t", "k", object())


def test_a_pickle_of_plain_data_is_what_it_holds():
    value = {"a": [1, 2.5, (3, b"x")], "b": None}
    raw = pickle.dumps(value)
    assert cache.diskcache_put("t", "pickled", raw, prepickled=True) is raw
    assert cache.diskcache_get("t", "pickled") == value


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (pickle.dumps(os.getcwd), "the pickle names posix.getcwd, and only plain data is cached"),
        (b"\x80\x04.", "is no pickle"),
        ("text", "is no pickle"),
    ],
)
def test_what_is_no_plain_pickle_is_refused(raw, text):
    with pytest.raises(ContractError, match=text):
        cache.diskcache_put("t", "refused", raw, prepickled=True)
    assert cache.diskcache_get("t", "refused") is None


def test_many_threads_at_once():
    def work(n):
        for i in range(50):
            cache.diskcache_put("t", f"{n}-{i}", (n, i))
            assert cache.diskcache_get("t", f"{n}-{i}") == (n, i)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.diskcache_get("t", "3-49") == (3, 49)


def test_a_function_is_called_once_per_argument():
    calls = []

    @cache.diskcache
    def slow(x):
        calls.append(x)
        return (x, x)

    assert [slow(1), slow(1), slow(2)] == [(1, 1), (1, 1), (2, 2)]
    assert calls == [1, 2]


def test_fetch_keeps_and_checks(tmp_path):
    source = tmp_path / "served.bin"
    source.write_bytes(b"data")
    url = source.as_uri()
    right = hashlib.sha256(b"data").hexdigest()
    path = cache.fetch(url, sha256=right)
    assert path.read_bytes() == b"data"
    source.write_bytes(b"other")
    assert cache.fetch(url, sha256=right) == path
    with pytest.raises(FetchError, match="has SHA-256"):
        cache.fetch(url, sha256=right, allow_caching=False)
    source.unlink()
    with pytest.raises(FetchError, match="cannot fetch"):
        cache.fetch(url, "new-name")


def test_fetch_unpacks_archives_and_nothing_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_dir", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("text")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "in/a.txt")
    folder = cache.fetch((tmp_path / "x.tar.gz").as_uri(), extract=True)
    assert (folder / "in" / "a.txt").read_text() == "text"
    assert cache.fetch((tmp_path / "x.tar.gz").as_uri(), extract=True) == folder
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.add(tmp_path / "a.txt", "../outside.txt")
    with pytest.raises(FetchError, match="cannot be unpacked"):
        cache.fetch((tmp_path / "bad.tar").as_uri(), extract=True)
    assert not list(tmp_path.rglob("outside.txt"))
    assert len(list((tmp_path / "cache" / "downloads").glob("*.extract"))) == 1


def test_files_of_this_machine_are_checked_too(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.bin"
    with pytest.raises(FetchError, match=r"there is no .*x\.bin"):
        cache.fetch(str(file))
    file.write_bytes(gzip.compress(b"words"))
    assert cache.fetch(str(file)) == file
    with pytest.raises(FetchError, match="has SHA-256"):
        cache.fetch(str(file), sha256="0" * 64)
    assert file.exists(), "what is the user's own is not deleted"
    plain = cache.fetch(str(file), name=tmp_path / "plain.bin", gunzip=True)
    assert plain.read_bytes() == b"words"


class Broken(BaseHTTPRequestHandler):
    """Answers that end before they are whole, or are none."""

    def do_GET(self) -> None:
        if self.path == "/length":
            head, body = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n", b"12345"
        elif self.path == "/chunks":
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
            body = b"5\r\n12345\r\n5\r\n12"
        elif self.path == "/status":
            head, body = b"nonsense\r\n", b""
        else:
            head, body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", b"nonsense\r\n"
        self.wfile.write(head + b"\r\n" + body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.mark.parametrize("path", ["length", "chunks", "status", "nonsense"])
def test_a_download_that_breaks_off_leaves_nothing(path: str, tmp_path: pathlib.Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            with pytest.raises(FetchError, match=r"broke off after|cannot fetch"):
                cache.fetch(f"http://127.0.0.1:{server.server_port}/{path}")
        finally:
            server.shutdown()
            thread.join()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_download_that_cannot_be_written_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"12345")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cache.fetch(source.as_uri())
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [source]

"""The .tlab file: a record as an SQLite database of rows and blobs.

Opening one runs no code from it: rows are numbers and text, blobs are packed integers or JSON;
there is no pickle and no eval. It opens without the compiler having run. What is large is read
when asked for: a pass's matches, a kernel's page, the nodes.

    meta     key, value            name, cell, device, error, version of the form
    texts    id, text              names and files that passes share
    heads    first, data           JSON: [op, dtype, arg, label, tag, numbers] for each head
    nodes    first, data           packed: a head and a number of sources per node, then distances
    rules    id, data              JSON: name, law, source, file, line
    passes   first, data, blocks   JSON: a list per field; packed matches one after another
    kernels  first, data, pages    JSON: facts, and what a viewer would show
    notes    sites, nodes          JSON: [method, [[file, line, function], ...]] for each origin;
                                   packed pairs of a node and the number of an origin
    events   first, data           JSON: [kind, name, start, end, thread, plain data]
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tinylab.errors import TraceError
from tinylab.helpers.arguments import explained
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import Ops
from tinylab.trace.events import Event
from tinylab.trace.facts import RuleFacts, head_facts, rule_facts
from tinylab.trace.nodes import Head, NodeTable
from tinylab.trace.packing import inflate, pack, unpack
from tinylab.trace.provenance import Frame
from tinylab.trace.record import Cell, KernelRecord, PassRecord, Record, Site
from tinylab.trace.shapes import StoredArg

FORM = 1
_CHUNK = 8192
_PLAIN = (str, int, float, bool, type(None))
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE heads (first INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE nodes (first INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE rules (id INTEGER PRIMARY KEY, data TEXT);
CREATE TABLE passes (first INTEGER PRIMARY KEY, data BLOB, blocks BLOB);
CREATE TABLE kernels (first INTEGER PRIMARY KEY, data BLOB, pages BLOB);
CREATE TABLE notes (sites BLOB, nodes BLOB);
CREATE TABLE events (first INTEGER PRIMARY KEY, data BLOB);
"""

_PASSES_A_CHUNK = 512
_KERNELS_A_CHUNK = 32


class Page(NamedTuple):
    """What a viewer knows of a kernel: its row of the table, and all else, in plain data."""

    row: Mapping[str, Any]
    page: Mapping[str, Any]


def save(record: Record, path: str | Path, pages: Mapping[int, Page] | None = None) -> None:
    """Write a record to a file; one that is there is replaced when the new one is complete.

    `pages` holds what a viewer would answer about each kernel, since the compiler that could answer
    is not there when the file is read.

    Raises: TraceError if the file cannot be written.
    """
    with replacing(path, "part") as unfinished, closing(sqlite3.connect(unfinished)) as db:
        db.executescript("PRAGMA journal_mode=OFF; PRAGMA page_size=4096;" + _TABLES)
        _Writer(record, db).write(pages or {})
        db.commit()


@contextlib.contextmanager
def replacing(path: str | Path, ending: str) -> Iterator[Path]:
    """A path beside `path` to write to: the file there takes its place if nothing goes wrong.

    Raises: TraceError if the file cannot be written.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise TraceError(f"{path} is a folder", help="name a file in it, such as cell.tlab")
    if not target.parent.is_dir():
        raise TraceError(f"there is no folder {target.parent} to write {target.name} to")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.{ending}")
    try:
        unfinished.unlink(missing_ok=True)
        yield unfinished
        os.replace(unfinished, target)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path} cannot be written: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


class _Writer:
    def __init__(self, record: Record, db: sqlite3.Connection) -> None:
        self.record = record
        self.db = db
        self.texts: dict[str, int] = {}

    def write(self, pages: Mapping[int, Page]) -> None:
        record, db = self.record, self.db
        db.executemany("INSERT INTO passes VALUES (?,?,?)", self.passes())
        db.executemany("INSERT INTO texts VALUES (?,?)", [(i, t) for t, i in self.texts.items()])
        db.executemany("INSERT INTO meta VALUES (?,?)", self.meta())
        db.executemany("INSERT INTO heads VALUES (?,?)", self.heads())
        db.executemany("INSERT INTO nodes VALUES (?,?)", self.nodes())
        rules = [rule_facts(rule) for rule in record.rules]
        db.executemany(
            "INSERT INTO rules VALUES (?,?)", ((i, _json(r)) for i, r in enumerate(rules))
        )
        db.executemany("INSERT INTO kernels VALUES (?,?,?)", self.kernels(pages))
        db.executemany("INSERT INTO notes VALUES (?,?)", self.notes())
        db.executemany("INSERT INTO events VALUES (?,?)", self.events())

    def meta(self) -> Iterator[tuple[str, str]]:
        record = self.record
        cell = record.cell
        yield "form", str(FORM)
        yield (
            "record",
            _json(
                {
                    "name": record.name,
                    "device": record.device,
                    "created": record.created,
                    "start_ns": record.start_ns,
                    "end_ns": record.end_ns,
                    "cell": [cell.text, cell.filename] if cell else None,
                    "error": record.error_facts(),
                    "events_dropped": record.events_dropped,
                }
            ),
        )

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def passes(self) -> Iterator[tuple[int, bytes, bytes]]:
        passes = self.record.passes
        for first in range(0, len(passes), _PASSES_A_CHUNK):
            chunk = passes[first : first + _PASSES_A_CHUNK]
            columns = list(zip(*map(self.pass_row, chunk), strict=True))
            yield first, _squeezed(columns), b"".join(p.block for p in chunk)

    def pass_row(self, p: PassRecord) -> tuple[Any, ...]:
        flags = p.bottom_up | p.walk << 1 | p.enter_calls << 2
        return (self.text(p.name), self.text(p.place[0]), p.place[1], flags, self.text(p.stage),
                p.batch, p.kernel, p.parent, p.root_before, p.root_after,
                self.record.nodes.size(p.root_before), p.start_ns - self.record.start_ns,
                p.elapsed_ns, p.count, p.error, p.failed_rule, p.failed_node,
                len(p.block))  # fmt: skip

    def heads(self) -> Iterator[tuple[int, bytes]]:
        heads = self.record.nodes.heads
        for first in range(0, len(heads), _CHUNK):
            facts = [head_facts(head) for head in heads[first : first + _CHUNK]]
            numbers = [_numbers(head.arg) for head in heads[first : first + _CHUNK]]
            rows = [
                [f.op, f.dtype, f.arg, f.label, f.tag, n]
                for f, n in zip(facts, numbers, strict=True)
            ]
            yield first, _squeezed(rows)

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        table = self.record.nodes
        for first in range(0, len(table), _CHUNK):
            heads, counts, distances, shapes = array("I"), array("I"), array("I"), []
            for node in range(first, min(first + _CHUNK, len(table))):
                src = table.src(node)
                heads.append(table.head_of[node])
                counts.append(len(src))
                distances.extend([node - s for s in src])
                shapes.append(table.shape(node))
            known = list(dict.fromkeys(shapes))
            number = {shape: i for i, shape in enumerate(known)}
            parts = [
                pack(column, 9)
                for column in (heads, counts, distances, [number[s] for s in shapes])
            ]
            yield first, _joined([*parts, _squeezed(known)])

    def kernels(self, pages: Mapping[int, Page]) -> Iterator[tuple[int, bytes, bytes]]:
        kernels = self.record.kernels
        for first in range(0, len(kernels), _KERNELS_A_CHUNK):
            chunk = kernels[first : first + _KERNELS_A_CHUNK]
            facts = [_kernel_facts(k, pages.get(k.id)) for k in chunk]
            shown = [pages[k.id].page if k.id in pages else k.page and k.page() for k in chunk]
            yield first, _squeezed(facts), _squeezed(shown)

    def notes(self) -> Iterator[tuple[bytes, bytes]]:
        numbers: dict[Site, int] = {}
        pairs = array("I")
        for node, sites in self.record.notes.items():
            for site in sites:
                pairs.extend((node, numbers.setdefault(site, len(numbers))))
        rows = [[method, [list(f) for f in frames]] for frames, method in numbers]
        yield _squeezed(rows), pack(pairs)

    def events(self) -> Iterator[tuple[int, bytes]]:
        events = self.record.events
        for first in range(0, len(events), _CHUNK):
            rows = [_event_row(self.record, e) for e in events[first : first + _CHUNK]]
            yield first, _squeezed(rows)


def _kernel_facts(k: KernelRecord, page: Page | None) -> dict[str, Any]:
    return {
        "name": ansistrip(k.name),
        "reason": k.reason,
        "device": k.device,
        "cached": k.cached,
        "batch": k.batch,
        "error": k.error,
        "start_ns": k.start_ns,
        "elapsed_ns": k.elapsed_ns,
        "outs": list(getattr(getattr(k.program, "arg", None), "outs", ())),
        "ast": k.ast_id,
        "call": k.call_id,
        "reads": sorted(k.reads),
        "runs": k.runs_ns.tolist(),
        "row": page.row if page is not None else k.row,
    }


def _squeezed(data: Any) -> bytes:
    """Plain data as compressed JSON."""
    return zlib.compress(_json(data).encode(), 9)


def _numbers(arg: Any) -> int | list[int] | None:
    """An argument that is an integer or made of integers (axes, a count), for shapes."""
    if isinstance(arg, StoredArg):
        arg = arg.numbers
    if isinstance(arg, tuple) and all(isinstance(x, int) for x in arg):
        return [int(x) for x in arg]
    return int(arg) if isinstance(arg, int) else None


def _event_row(record: Record, event: Event) -> list[Any]:
    data = {k: v for k, v in event.data.items() if isinstance(v, _PLAIN)}
    if "kernel" in data:
        kernel = record.kernel_of(event)
        data["kernel"] = None if kernel is None else kernel.id
    return [event.kind, event.name, event.start_ns, event.end_ns, event.thread, data]


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def _joined(parts: list[bytes]) -> bytes:
    """Blobs one after another, each behind its length."""
    return b"".join([len(p).to_bytes(4, "little") + p for p in parts])


# *** reading


@explained
def load(path: str | Path) -> StoredRecord:
    """The record in a file.

    Raises: TraceError if it is no such file, is damaged, or was written in a newer form.
    """
    if not Path(path).is_file():
        raise TraceError(f"there is no file {path}")
    try:
        return StoredRecord(str(path))
    except (sqlite3.Error, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path} is no trace: {error}", help="a .tlab file is expected") from None


class StoredRecord(Record):
    """A record that is read from its file as far as it is asked for."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._pages: dict[int, list[Any]] = {}
        self._events: list[Event] | None = None
        self._check_form()
        self._read_meta()
        texts: dict[int, str] = dict(self._rows("SELECT id, text FROM texts"))
        for first, data in self._rows("SELECT first, data FROM passes ORDER BY first"):
            self._read_passes(first, json.loads(inflate(data)), texts)
        for first, data in self._rows("SELECT first, data FROM kernels ORDER BY first"):
            for facts in json.loads(inflate(data)):
                self.kernels.append(self._read_kernel(facts, first))
        self.rules = [RuleFacts(*json.loads(data)) for (data,) in self._rows(_RULE_COLUMNS)]
        for sites, nodes in self._rows(_NOTE_COLUMNS):
            self.notes = _read_notes(sites, nodes)
        self.nodes = _StoredNodes(self)

    @property
    def events(self) -> list[Event]:
        """The stream of events, read when first asked for."""
        if self._events is None:
            self._events = self.read_events()
        return self._events

    @events.setter
    def events(self, events: list[Event]) -> None:
        self._events = events

    def kernel_of(self, event: Event) -> KernelRecord | None:
        """The kernel that an event is about: the file keeps its row."""
        number = event.data.get("kernel")
        if not isinstance(number, int) or not 0 <= number < len(self.kernels):
            return None
        return self.kernels[number]

    def read(self, query: str) -> list[Any]:
        """Rows of a table that stands beside the record's own.

        Raises: sqlite3.OperationalError where there is no such table.
        """
        return self._rows(query)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        # Read only, and nothing that the file itself defines (views, triggers) is trusted.
        uri = f"{Path(self.path).resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            db.execute("PRAGMA trusted_schema=OFF")
            return db.execute(query, values).fetchall()

    def _check_form(self) -> None:
        odd = self._rows("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index')")
        if odd:
            raise TraceError(f"{self.path} holds {odd[0][0]}, which no trace has")
        form = int(self._rows("SELECT value FROM meta WHERE key='form'")[0][0])
        if form > FORM:
            raise TraceError(
                f"{self.path} is of form {form}, and this tinylab reads up to {FORM}",
                help="update tinylab",
            )

    def _read_meta(self) -> None:
        meta = json.loads(self._rows("SELECT value FROM meta WHERE key='record'")[0][0])
        self.name, self.device, self.created = meta["name"], meta["device"], meta["created"]
        self.start_ns, self.end_ns = meta["start_ns"], meta["end_ns"]
        self.cell = Cell(*meta["cell"]) if meta["cell"] else None
        self.error, self.events_dropped = meta["error"], meta["events_dropped"]

    def read_all(self) -> StoredRecord:
        """Read what is left in the file, which may go then."""
        for each in self.passes:
            each.columns()
        for kernel in self.kernels:
            if kernel.page is not None:
                kernel.page()
        self.nodes.forget_uops()  # touches the nodes, which are read whole
        self._events = self.read_events()
        return self

    def _read_passes(self, first: int, columns: list[list[Any]], texts: dict[int, str]) -> None:
        start = 1  # SQLite counts bytes from 1
        for row in zip(*columns, strict=True):
            found = _StoredPass.read(len(self.passes), row, texts, self.start_ns)
            found.owner, found.place_in_file = self, (first, start, row[-1])
            start += row[-1]
            self.passes.append(found)

    def _read_kernel(self, facts: dict[str, Any], first: int) -> KernelRecord:
        number = len(self.kernels)
        found = KernelRecord(
            number, ansistrip(facts["name"]), {"reason": facts["reason"], "outs": facts["outs"]}
        )
        found.batch, found.device, found.cached = facts["batch"], facts["device"], facts["cached"]
        found.error, found.ast_id, found.call_id = facts["error"], facts["ast"], facts["call"]
        found.start_ns, found.elapsed_ns = facts["start_ns"], facts["elapsed_ns"]
        found.runs_ns = array("Q", facts["runs"])
        found.reads = set(facts.get("reads", ()))
        found.row = facts["row"]
        if found.row is not None:
            found.page = functools.partial(self._read_page, first, number)
        return found

    def _read_page(self, first: int, number: int) -> dict[str, Any]:
        if first not in self._pages:
            blob = self._rows("SELECT pages FROM kernels WHERE first=?", first)[0][0]
            self._pages[first] = json.loads(inflate(blob))
        page: dict[str, Any] = self._pages[first][number - first]
        return page

    def read_block(self, first: int, start: int, length: int) -> bytes:
        """The packed matches of a pass: a part of the blob of its chunk."""
        query = "SELECT substr(blocks, ?, ?) FROM passes WHERE first=?"
        return bytes(self._rows(query, start, length, first)[0][0])

    def read_events(self) -> list[Event]:
        """The stream of events; only their plain data was kept."""
        found = []
        for (blob,) in self._rows("SELECT data FROM events ORDER BY first"):
            for kind, name, start, end, thread, data in json.loads(inflate(blob)):
                event = Event(kind, name, data)
                event.start_ns, event.end_ns, event.thread = start, end, thread
                found.append(event)
        return found

    def chunks(self, table: str) -> Iterable[bytes]:
        """The blobs of `heads` or `nodes`, in order."""
        assert table in ("heads", "nodes"), "tables of chunks"
        return (blob for (blob,) in self._rows(f"SELECT data FROM {table} ORDER BY first"))


_RULE_COLUMNS = "SELECT data FROM rules ORDER BY id"
_NOTE_COLUMNS = "SELECT sites, nodes FROM notes"


class _StoredPass(PassRecord):
    """A pass whose matches stay in the file until they are looked at."""

    __slots__ = ("owner", "place_in_file", "size")
    owner: StoredRecord
    place_in_file: tuple[int, int, int]
    size: int

    @classmethod
    def read(
        cls, number: int, row: tuple[Any, ...], texts: dict[int, str], start_ns: int
    ) -> _StoredPass:
        name, file, line, flags, stage, batch, kernel, parent, before, after = row[:10]
        size, start, elapsed, count, error, failed_rule, failed_node, _ = row[10:]
        found = cls(
            id=number,
            name=texts[name],
            place=(texts[file], line),
            bottom_up=bool(flags & 1),
            walk=bool(flags & 2),
            enter_calls=bool(flags & 4),
            root_before=before,
            root_after=after,
            stage=texts[stage],
            batch=batch,
            kernel=kernel,
            parent=parent,
            start_ns=start_ns + start,
            elapsed_ns=elapsed,
            count=count,
            error=error,
            failed_rule=failed_rule,
            failed_node=failed_node,
        )
        found.size = size
        return found

    def columns(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Rules, nodes before, nodes after, times in ns: one list each."""
        if self.count and not self.block:
            self.block = self.owner.read_block(*self.place_in_file)
        return PassRecord.columns(self)


class _StoredNodes(NodeTable):
    """Nodes that are read when the first of them is asked for."""

    def __init__(self, owner: StoredRecord) -> None:
        self._owner = owner
        self._known_sizes = {p.root_before: p.size for p in owner.passes}  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        # Reached only while the attribute is not there: before anything was read.
        if name.startswith("_owner") or "heads" in self.__dict__:
            raise AttributeError(name)
        self._read()
        return getattr(self, name)

    def size(self, root: int) -> int:
        """How many nodes there are under a root."""
        found = self._known_sizes.get(root)
        return NodeTable.size(self, root) if found is None else found

    def _read(self) -> None:
        NodeTable.__init__(self)
        for blob in self._owner.chunks("heads"):
            for op, dtype, arg, label, tag, numbers in json.loads(inflate(blob)):
                kept = tuple(numbers) if isinstance(numbers, list) else numbers
                words = StoredArg(arg, label, kept)
                self.head_id(Head(Ops[op], sys.intern(dtype), words, tag))
        stored: list[tuple[int | str, ...] | None] = []
        for blob in self._owner.chunks("nodes"):
            stored.extend(self._read_chunk(blob))
        self._shapes.stored = stored
        self._rows = None

    def _read_chunk(self, blob: bytes) -> Iterator[tuple[int | str, ...] | None]:
        heads, counts, distances, shapes, known = _parted(blob)
        start, sources, first = 0, unpack(distances), len(self.head_of)
        self.head_of.extend(unpack(heads))
        for node, count in enumerate(unpack(counts), first):
            self.sources.extend([node - d for d in sources[start : start + count]])
            start += count
            self.ends.append(len(self.sources))
        listed = [None if s is None else tuple(s) for s in json.loads(inflate(known))]
        return (listed[number] for number in unpack(shapes))


def _parted(blob: bytes) -> list[bytes]:
    parts, place = [], 0
    while place < len(blob):
        length = int.from_bytes(blob[place : place + 4], "little")
        parts.append(blob[place + 4 : place + 4 + length])
        place += 4 + length
    return parts


def _read_notes(sites: bytes, nodes: bytes) -> dict[int, list[Site]]:
    known: list[Site] = [
        (tuple(Frame(*frame) for frame in frames), method)
        for method, frames in json.loads(inflate(sites))
    ]
    notes: dict[int, list[Site]] = {}
    pairs = unpack(nodes)
    for node, number in zip(pairs[::2], pairs[1::2], strict=True):
        notes.setdefault(node, []).append(known[number])
    return notes

"""Profiles in .tlab files: the record's tables, and beside them the events in columns.

    profile         key, data      JSON: name, lanes, names, kernels, notices, form
    profile_events  first, data    65,536 rows: each column by bytes of equal weight, then zlib

Opening one runs no code from it. `tinylab.load` reads the record of the same file.
"""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinylab.errors import TraceError
from tinylab.profiler.recorder import KernelFacts
from tinylab.profiler.table import COLUMNS, KINDS, Array, EventTable, Lane
from tinylab.trace import store
from tinylab.trace.packing import inflate
from tinylab.trace.record import Record

if TYPE_CHECKING:
    from tinylab.profiler.collected import Profile

FORM = 1
_COUNTED = ("figures", "notes", "message")  # of a kernel's counters
_CHUNK = 65_536
_MOST_EVENTS = 1 << 28
_DAMAGE = (
    KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, sqlite3.Error,
)  # fmt: skip
_TABLES = """
CREATE TABLE profile (key TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID;
CREATE TABLE profile_events (first INTEGER PRIMARY KEY, data BLOB);
"""


def save(profile: Profile, path: str | Path) -> None:
    """Write a profile, with its record if it has one; a file that is there is replaced.

    Raises: TraceError if the file cannot be written.
    """
    with store.replacing(path, "profile") as unfinished:
        if profile.record is None:
            store.save(Record(profile.name), unfinished)
        else:
            profile.record.save(unfinished)
        with closing(sqlite3.connect(unfinished)) as db:
            db.executescript(_TABLES)
            rows = [(key, json.dumps(data)) for key, data in _facts(profile).items()]
            db.executemany("INSERT INTO profile VALUES (?,?)", rows)
            db.executemany("INSERT INTO profile_events VALUES (?,?)", _chunks(profile.table))
            db.commit()


def _facts(profile: Profile) -> dict[str, Any]:
    table = profile.table
    return {
        "form": FORM,
        "name": profile.name,
        "events": len(table),
        "origin_ns": table.origin_ns,
        "recorded": profile.record is not None,
        "lanes": [[lane.name, lane.group, lane.levels, lane.unit] for lane in table.lanes],
        "names": table.names,
        "notices": table.notices,
        "kinds": KINDS,
        "counted": _plain(profile.counted),
        "asked": _plain(profile.asked),
        "kernels": [
            [f.name, f.device, f.ops, f.mem, f.lds, f.origin, profile.recorded_number(f)]
            for f in profile.facts
        ],
    }


def _plain(counted: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {n: {k: row[k] for k in _COUNTED if k in row} for n, row in counted.items()}


def _chunks(table: EventTable) -> Any:
    for first in range(0, len(table), _CHUNK):
        part = {name: column[first : first + _CHUNK] for name, column in table.columns.items()}
        # Ends as lengths, starts as distances: small numbers, which pack well.
        part["end"] = part["end"] - part["start"]
        part["start"] = np.diff(part["start"], prepend=np.int64(0))
        blob = b"".join(_planes(part[name].astype(dtype)) for name, dtype in COLUMNS.items())
        yield first, zlib.compress(blob, 3)


def _planes(column: Array) -> bytes:
    """Bytes of equal weight side by side."""
    size = column.dtype.itemsize
    return np.ascontiguousarray(column).view(np.uint8).reshape(-1, size).T.tobytes()


@dataclass
class Saved:
    """What a file holds of a profile; numbers: kernels of the profile -> those of its record."""

    name: str
    table: EventTable
    facts: list[KernelFacts]
    record: store.StoredRecord | None
    numbers: dict[int, int]
    counted: dict[int, dict[str, Any]]
    asked: dict[int, dict[str, Any]]


def load(path: str | Path) -> Saved:
    """The profile in a .tlab file, in its parts.

    Raises: TraceError if there is none in it, or it is damaged.
    """
    record = store.load(path)
    try:
        rows = record.read("SELECT key, data FROM profile")
        facts = {key: json.loads(data) for key, data in rows}
        return _read(facts, record, str(path))
    except TraceError:
        raise
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise TraceError(f"{path} is damaged: {error}") from None
        raise TraceError(
            f"{path} holds a record and no profile", help="tinylab.load reads records"
        ) from None
    except _DAMAGE as error:
        raise TraceError(f"{path} is damaged: {type(error).__name__}, {error}") from None


def has_profile(record: store.StoredRecord) -> bool:
    """Whether the file of a record holds a profile, with a record of rewrites or without."""
    return bool(record.read("SELECT name FROM sqlite_master WHERE name = 'profile'"))


def is_alone(record: store.StoredRecord) -> bool:
    """Whether a file holds a profile, and no record of rewrites beside it.

    Raises: TraceError if it is damaged.
    """
    try:
        rows = record.read("SELECT data FROM profile WHERE key = 'recorded'")
        return [data for (data,) in rows] == ["false"]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return False
        raise TraceError(f"{record.path} is damaged: {error}") from None


def _read(facts: dict[str, Any], record: store.StoredRecord, where: str) -> Saved:
    if int(facts["form"]) > FORM:
        raise TraceError(f"{where} is of form {facts['form']}, newer than {FORM}", help="update")
    lanes = [Lane(str(n), str(g), bool(v), str(u)) for n, g, v, u in facts["lanes"]]
    names = [str(name) for name in facts["names"]]
    kernels, numbers = [], {}
    for i, (name, device, ops, mem, lds, origin, number) in enumerate(facts["kernels"]):
        made = KernelFacts(str(name), str(device))
        made.ops, made.mem, made.lds, made.origin = int(ops), int(mem), int(lds), str(origin)
        kernels.append(made)
        if number is not None and 0 <= int(number) < len(record.kernels):
            numbers[i] = int(number)
    columns = _read_columns(record, int(facts["events"]), where)
    _check(columns, len(lanes), len(names), len(kernels), where)
    notices = [str(each) for each in facts["notices"]]
    table = EventTable.build(lanes, names, columns, 0, notices)
    table.origin_ns = int(facts["origin_ns"])
    kept = record if facts["recorded"] else None
    counted = _counted(facts.get("counted", {})) if kept else {}
    asked = {n: found for n, found in _counted(facts.get("asked", {})).items() if n < len(kernels)}
    return Saved(str(facts["name"]), table, kernels, kept, numbers if kept else {}, counted, asked)


def _counted(found: Any) -> dict[int, dict[str, Any]]:
    """Counters of kernels as they were saved, with nothing in them but what is looked for.

    Raises: ValueError for a figure that is no number.
    """
    counted = {}
    for number, row in found.items():
        figures = [
            {
                "name": str(f["name"]), "value": float(f["value"]), "unit": str(f["unit"]),
                "kind": str(f["kind"]), "note": str(f["note"]),
            }
            for f in row.get("figures", [])
        ]  # fmt: skip
        if not all(math.isfinite(float(f["value"])) for f in row.get("figures", [])):
            raise ValueError("a counter is not finite")
        notes = [str(note) for note in row.get("notes", [])]
        message = str(row.get("message", ""))
        counted[int(number)] = {"figures": figures, "notes": notes, "message": message}
    return counted


def _read_columns(record: store.StoredRecord, count: int, where: str) -> dict[str, Array]:
    if not 0 <= count <= _MOST_EVENTS:
        raise TraceError(f"{where} claims {count} events", help="the file is damaged")
    parts: dict[str, list[Array]] = {name: [] for name in COLUMNS}
    read = 0
    for (blob,) in record.read("SELECT data FROM profile_events ORDER BY first"):
        data = inflate(blob)
        size = min(_CHUNK, count - read)
        if size <= 0 or len(data) != size * sum(d.itemsize for d in COLUMNS.values()):
            raise TraceError(f"{where}: the events after {read} are not whole")
        at = 0
        for name, dtype in COLUMNS.items():
            raw = np.frombuffer(data, np.uint8, size * dtype.itemsize, at)
            column = np.ascontiguousarray(raw.reshape(dtype.itemsize, size).T).view(dtype).ravel()
            parts[name].append(np.cumsum(column) if name == "start" else column)
            at += size * dtype.itemsize
        read += size
    if read != count:
        raise TraceError(f"{where} holds {read} events of {count}", help="the file is damaged")
    columns = {
        name: np.concatenate(found) if found else np.zeros(0, COLUMNS[name])
        for name, found in parts.items()
    }
    columns["end"] = columns["start"] + columns["end"]
    return columns


def _check(columns: dict[str, Array], lanes: int, names: int, kernels: int, where: str) -> None:
    """Whether all numbers are places in what they mean.

    Raises: TraceError.
    """
    limits = {"lane": lanes, "name": names, "kind": len(KINDS), "kernel": kernels}
    for name, most in limits.items():
        column = columns[name]
        if len(column) and (int(column.max()) >= most or int(column.min()) < -(name == "kernel")):
            raise TraceError(f"{where}: an event has {name} {int(column.max())} of {most}")
    if len(columns["start"]) and bool((columns["end"] < columns["start"]).any()):
        raise TraceError(f"{where}: an event ends before it begins")

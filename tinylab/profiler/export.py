"""Profiles for other programs: traces for Chrome and Perfetto, lines of comma-separated values."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tinylab.errors import CaptureError, TraceError
from tinylab.profiler.table import KINDS, EventTable
from tinylab.trace import store

if TYPE_CHECKING:
    from tinylab.profiler.collected import Profile

PRODUCER = "tinylab"
FORM = 1
_CHUNK = 50_000
_INSTANT, _COUNTER = "i", "C"


def to_chrome(
    profile: Profile, path: str | Path, progress: Callable[[float], None] | None = None
) -> None:
    """Write a trace in Chrome's JSON; a group of lanes is a process, a lane is a thread.

    Raises: CaptureError if it cannot be written.
    """
    with _opened(path) as out:
        table = profile.table
        facts = [[f.name, f.device, f.ops, f.mem, f.lds, f.origin] for f in profile.facts]
        other = {"producer": PRODUCER, "form": FORM, "name": profile.name, "kernels": facts}
        out.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n')
        out.write(",\n".join(json.dumps(row) for row in _lanes(table)))
        for first in range(0, len(table), _CHUNK):
            rows = _events(table, first, min(first + _CHUNK, len(table)))
            out.write(",\n" + ",\n".join(rows))
            if progress is not None:
                progress(min(1.0, (first + _CHUNK) / len(table)))
        out.write("\n]}\n")


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    """A file to write text to, packed if its name ends in .gz; it is there once it is whole.

    Raises: CaptureError if it cannot be opened or written.
    """
    try:
        with contextlib.ExitStack() as files:
            target = files.enter_context(_target(Path(path)))
            if Path(path).suffix == ".gz":
                packed = files.enter_context(gzip.open(target, "wb", compresslevel=4))
                yield files.enter_context(io.TextIOWrapper(packed, encoding="utf-8"))
            else:
                yield files.enter_context(target.open("w", encoding="utf-8", newline=""))
    except TraceError as error:
        raise CaptureError(error.message, help=error.help) from None
    except OSError as error:
        raise CaptureError(f"{path} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _target(path: Path) -> Iterator[Path]:
    """Where to write: beside a file, to replace it; straight to a terminal, a pipe, a device."""
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        yield place
        return
    with store.replacing(place, "export") as unfinished:
        yield unfinished


def _places(table: EventTable) -> list[tuple[int, int]]:
    """(process, thread) of each lane."""
    groups = list(dict.fromkeys(lane.group for lane in table.lanes))
    return [(groups.index(lane.group) + 1, i + 1) for i, lane in enumerate(table.lanes)]


def _lanes(table: EventTable) -> Iterator[dict[str, Any]]:
    known = set()
    for lane, (pid, tid) in zip(table.lanes, _places(table), strict=True):
        if pid not in known:
            known.add(pid)
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": lane.group}}
        facts = {"name": lane.name, "levels": lane.levels, "unit": lane.unit}
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": facts}


def _events(table: EventTable, first: int, last: int) -> Iterator[str]:
    names = [json.dumps(name) for name in table.names]
    places = _places(table)
    part = {name: column[first:last].tolist() for name, column in table.columns.items()}
    for lane, kind, name, start, end, value, kernel in zip(*part.values(), strict=True):
        pid, tid = places[lane]
        # Microseconds with three digits: nanoseconds stay whole.
        head = (
            f'{{"name":{names[name]},"cat":"{KINDS[kind]}","pid":{pid},"tid":{tid},'
            f'"ts":{start // 1000}.{start % 1000:03d}'
        )
        if table.lanes[lane].levels:
            yield f'{head},"ph":"C","args":{{{names[name]}:{value!r}}}}}'
            continue
        more = ""
        if value or kernel >= 0:
            more = f',"args":{{"value":{value!r},"kernel":{kernel}}}'
        if KINDS[kind] == "mark":
            yield f'{head},"ph":"i","s":"g"{more}}}'
        else:
            length = end - start
            yield f'{head},"ph":"X","dur":{length // 1000}.{length % 1000:03d}{more}}}'


def to_csv(profile: Profile, path: str | Path) -> None:
    """Write a line an event, with a line of headings.

    Raises: CaptureError if it cannot be written.
    """
    columns = profile.table.arrays()
    with _opened(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for first in range(0, len(profile.table), _CHUNK):
            part = [column[first : first + _CHUNK].tolist() for column in columns.values()]
            writer.writerows(zip(*part, strict=True))

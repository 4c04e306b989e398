"""Traces in Chrome's JSON (also what Perfetto and PyTorch write) as tables of events.

The text is read event by event: 150 MB of it become columns without becoming objects first. No
duration is cut or stretched: what begins without an end, ends without a beginning or cannot be read
is counted, and named in a notice.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tinylab.errors import CaptureError
from tinylab.helpers.text import pluralize
from tinylab.profiler.export import PRODUCER
from tinylab.profiler.recorder import KernelFacts
from tinylab.profiler.table import COLUMNS, KIND, EventTable, Lane

Progress = Callable[[float], None]
_SAY_EVERY = 20_000
_LATEST_NS = 1 << 60
_MOST_LANES = 60_000
_NO_SPANS = ("mark", "level", "memory")  # kinds that only other phases have
_END = -1  # in place of a kind
_SPACE = re.compile(r"[\s,]*")
_SHORT = 8  # "false" and the like may be cut in two where a file ends
_CODES = {
    "lane": "H", "kind": "B", "name": "I", "start": "q", "end": "q", "value": "d", "kernel": "i",
}  # fmt: skip


class Cancelled(CaptureError):
    """Reading was ended before it was done."""


def read_chrome(
    text: str,
    where: str,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[EventTable, list[KernelFacts], str]:
    """The table of a trace, the kernels and the name that a profile of ours left in it.

    progress hears the share that was read; cancelled is asked now and then.

    Raises: CaptureError for what is no trace, Cancelled where that was asked for.
    """
    reader = _Reader()
    text_of = _Text(text, where)
    for number, (place, event) in enumerate(text_of.events()):
        if number % _SAY_EVERY == 0:
            if cancelled is not None and cancelled():
                raise Cancelled(f"reading {where} was cancelled at event {number}")
            if progress is not None:
                progress(place / len(text))
        reader.take(event)
    ours = text_of.other.get("otherData")
    if progress is not None:
        progress(1.0)
    return _finished(reader, text_of, ours if isinstance(ours, dict) else {})


def _finished(
    reader: _Reader, text: _Text, other: dict[str, Any]
) -> tuple[EventTable, list[KernelFacts], str]:
    own = other.get("producer") == PRODUCER
    facts = _facts(other.get("kernels")) if own else []
    table = reader.table(own, len(facts))
    table.notices.extend(text.notices)
    name = other.get("name") if own else None
    return table, facts, name if isinstance(name, str) else text.where


def _facts(rows: Any) -> list[KernelFacts]:
    found = []
    for row in rows if isinstance(rows, list) else []:
        kinds = (str, str, int, int, int, str)
        if not isinstance(row, list) or len(row) != len(kinds):
            return []
        if not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
            return []
        facts = KernelFacts(row[0], row[1])
        facts.ops, facts.mem, facts.lds, facts.origin = row[2:]
        found.append(facts)
    return found


class _Text:
    """The JSON text of a trace: an array of events, or an object that holds one."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.other: dict[str, Any] = {}
        self.notices: list[str] = []
        decoder: Any = json.JSONDecoder(parse_constant=_no_number)
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once

    def events(self) -> Iterator[tuple[int, Any]]:
        """(place in the text, event), one after another."""
        at = self._skip(0)
        first = self.text[at : at + 1]
        if first == "[":
            yield from self._array(at + 1)
        elif first == "{":
            yield from self._object(at + 1)
        else:
            raise CaptureError(
                f"{self.where} is no trace: it begins with {self.text[at : at + 12]!r}",
                help="a trace is an array of events, or an object with traceEvents",
            )

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return at if found is None else found.end()

    def _object(self, at: int) -> Iterator[tuple[int, Any]]:
        found = False
        while True:
            at = self._skip(at)
            if self.text[at : at + 1] in ("}", ""):
                break
            key, at = self._value(at)
            at = self._skip(at)
            if self.text[at : at + 1] != ":":
                raise self._wrong(at, "a colon is missing")
            at = self._skip(at + 1)
            if key == "traceEvents" and self.text[at : at + 1] == "[":
                found = True
                yield from self._array(at + 1)
                at = self._end
            else:
                self.other[str(key)], at = self._value(at)
        if not found:
            raise CaptureError(f"{self.where} has no traceEvents: it is no trace of Chrome's")

    def _array(self, at: int) -> Iterator[tuple[int, Any]]:
        self._end = len(self.text)
        scan, text, skip = self._scan, self.text, _SPACE.match
        number = 0
        while True:
            space = skip(text, at)
            at = at if space is None else space.end()
            if at >= len(text):
                self.notices.append("the file ends without closing its list of events")
                return
            if text[at] == "]":
                self._end = at + 1
                return
            try:
                event, at = scan(text, at)
            except (ValueError, StopIteration, RecursionError) as error:
                if not self._is_cut(error):
                    raise self._error(error, f"event {number}") from None
                self.notices.append(f"the file ends in the middle of event {number}")
                return
            yield at, event
            number += 1

    def _value(self, at: int) -> tuple[Any, int]:
        try:
            return self._scan(self.text, at)
        except (ValueError, StopIteration, RecursionError) as error:
            raise self._error(error, "a value") from None

    def _is_cut(self, error: BaseException) -> bool:
        """Whether an error comes from the text's end, not from what is in it."""
        if isinstance(error, json.JSONDecodeError):
            return error.msg.startswith("Unterminated") or error.pos >= len(self.text)
        return isinstance(error, StopIteration) and error.value >= len(self.text) - _SHORT

    def _error(self, error: BaseException, what: str) -> CaptureError:
        if isinstance(error, json.JSONDecodeError):
            return self._wrong(error.pos, f"{what}: {error.msg}")
        if isinstance(error, StopIteration):
            return self._wrong(int(error.value), f"{what} is no JSON")
        return CaptureError(f"{self.where}: {what} cannot be read: {error or 'it is too deep'}")

    def _wrong(self, at: int, what: str) -> CaptureError:
        shown = self.text[at : at + 20]
        return CaptureError(f"{self.where} is no trace: {what} at letter {at}, {shown!r}")


def _no_number(word: str) -> float:
    return math.nan


class _Reader:
    """Events of a trace, one by one, into columns."""

    def __init__(self) -> None:
        self.columns: dict[str, Any] = {name: array(_CODES[name]) for name in COLUMNS}
        self.lanes: dict[tuple[Any, ...], int] = {}
        self.names: dict[str, int] = {}
        self.processes: dict[Any, str] = {}
        self.threads: dict[tuple[Any, Any], dict[str, Any]] = {}
        self.begun: defaultdict[Any, list[tuple[int, int, str, int]]] = defaultdict(list)
        self.bad = 0
        self.first_bad = ""
        self.unread: defaultdict[str, int] = defaultdict(int)
        self.lone_ends: list[str] = []
        self.open_begins: list[str] = []
        self._number = 0

    def take(self, event: Any) -> None:
        """One event of the list."""
        self._number += 1
        if not isinstance(event, dict):
            self._refuse(f"event {self._number - 1} is {str(event)[:30]!r}")
            return
        phase = event.get("ph")
        taken = _PHASES.get(phase) if isinstance(phase, str) else None
        if taken is None:
            self.unread[str(phase)[:8]] += 1
            return
        problem = taken(self, event)
        if problem:
            self._refuse(
                f"event {self._number - 1}, {str(event.get('name', ''))[:30]!r}: {problem}"
            )

    def _refuse(self, sentence: str) -> None:
        self.bad += 1
        self.first_bad = self.first_bad or sentence

    def _metadata(self, event: dict[str, Any]) -> str:
        args = event.get("args")
        if not isinstance(args, dict) or not isinstance(args.get("name"), str):
            return ""
        if event.get("name") == "process_name":
            self.processes[_hashable(event.get("pid"))] = args["name"]
        elif event.get("name") == "thread_name":
            key = (_hashable(event.get("pid")), _hashable(event.get("tid")))
            self.threads[key] = args
        return ""

    def _complete(self, event: dict[str, Any]) -> str:
        start, length = _ns(event.get("ts")), _ns(event.get("dur"))
        if start is None or length is None or length < 0:
            word = "ts" if start is None else "dur"
            return _wrong(event, word)
        return self._add(_thread(event), event, start, start + length)

    def _instant(self, event: dict[str, Any]) -> str:
        at = _ns(event.get("ts"))
        if at is None:
            return _wrong(event, "ts")
        return self._add(_thread(event), event, at, at, "mark")

    def _counter(self, event: dict[str, Any]) -> str:
        at, args = _ns(event.get("ts")), event.get("args")
        if at is None or not isinstance(args, dict):
            return "a counter without ts or args"
        title = str(event.get("name", ""))
        for series, value in args.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return f"{series} is {str(value)[:20]}"
            key = ("C", _hashable(event.get("pid")), _hashable(event.get("tid")), title, series)
            kind = "memory" if event.get("cat") == "memory" else "level"
            problem = self._add(key, event, at, at, kind, float(value))
            if problem:
                return problem
        return ""

    def _begin_or_end(self, event: dict[str, Any]) -> str:
        at = _ns(event.get("ts"))
        if at is None:
            return _wrong(event, "ts")
        # Kept until all are there: a file need not be in the order of time.
        is_begin = event["ph"] in "Bb"
        name = str(event.get("name", ""))
        key = _thread(event) if event["ph"] in "BE" else _async(event)
        kind = _kind(event) if is_begin else _END
        self.begun[key].append((at, self._number, name, kind))
        return ""

    def _add(
        self,
        lane: tuple[Any, ...],
        event: dict[str, Any],
        start: int,
        end: int,
        kind: str | None = None,
        value: float = 0.0,
    ) -> str:
        args, kernel = event.get("args"), -1
        if kind is None and isinstance(args, dict):
            value = args.get("value", 0.0)
            value = float(value) if isinstance(value, int | float) else 0.0
            kernel = args.get("kernel", -1)
            kernel = kernel if type(kernel) is int and -1 <= kernel < 1 << 31 else -1
        number = _kind(event) if kind is None else KIND[kind]
        return self._row(lane, number, str(event.get("name", "")), start, end, value, kernel)

    def _row(
        self,
        lane: tuple[Any, ...],
        kind: int,
        name: str,
        start: int,
        end: int,
        value: float = 0.0,
        kernel: int = -1,
    ) -> str:
        if lane not in self.lanes and len(self.lanes) >= _MOST_LANES:
            return f"there are more than {_MOST_LANES} threads"
        number = self.lanes.setdefault(lane, len(self.lanes))
        name_id = self.names.setdefault(name, len(self.names))
        row = (number, kind, name_id, start, end, value, kernel)
        for column, one in zip(self.columns.values(), row, strict=True):
            column.append(one)
        return ""

    # *** the end

    def table(self, own: bool, kernels: int) -> EventTable:
        """All events; own: lanes and kinds are those that tinylab wrote."""
        self._pair()
        lanes = [self._lane(key, own) for key in self.lanes]
        if not own:
            self._only_spans()
        self.columns["kernel"] = array(
            "i", (k if k < kernels else -1 for k in self.columns["kernel"])
        )
        return EventTable.build(lanes, list(self.names), self.columns,
                                0 if own else None, self._notices())  # fmt: skip

    def _only_spans(self) -> None:
        """Categories of other programs are none of our kinds."""
        kept = {KIND[kind] for kind in _NO_SPANS}
        span = KIND["span"]
        kinds = self.columns["kind"]
        self.columns["kind"] = array("B", (k if k in kept else span for k in kinds))

    def _pair(self) -> None:
        """Begins with their ends, by time; of one moment ends of what is open come first."""
        for key, points in self.begun.items():
            points.sort(key=lambda p: (p[0], p[1]))
            open_: list[tuple[int, str, int]] = []
            for at, _, name, kind in points:
                if kind != _END:
                    open_.append((at, name, kind))
                elif open_:
                    start, begun, number = open_.pop()
                    self._row(key, number, begun, start, at)
                else:
                    self.lone_ends.append(f"at {at / 1000:g} µs in {self._named(key)}")
            self.open_begins += [f"{n!r} at {at / 1000:g} µs" for at, n, _ in open_]

    def _named(self, key: tuple[Any, ...]) -> str:
        return self._lane(key, False).name

    def _lane(self, key: tuple[Any, ...], own: bool) -> Lane:
        if key[0] == "C":
            _, pid, tid, title, series = key
            known = self.threads.get((pid, tid)) if own else None
            process = self.processes.get(pid, f"process {pid}")
            if known is not None:
                return Lane(known["name"], process, True, str(known.get("unit", "")))
            name = title if series in ("value", title) else f"{title} {series}"
            return Lane(name, process, True)
        if key[0] == "async":
            _, pid, category, _ = key
            return Lane(str(category) or "async", self.processes.get(pid, f"process {pid}"))
        _, pid, tid = key
        known = self.threads.get((pid, tid))
        process = self.processes.get(pid, f"process {pid}")
        return Lane(known["name"] if known else f"thread {tid}", process)

    def _notices(self) -> list[str]:
        found = []
        if self.lone_ends:
            found.append(_counted(self.lone_ends, "end without a begin", "ends without a begin"))
        if self.open_begins:
            found.append(
                _counted(self.open_begins, "begin without an end", "begins without an end")
            )
        if self.bad:
            found.append(
                f"{pluralize('event', self.bad)} cannot be read, the first: {self.first_bad}"
            )
        if self.unread:
            kinds = ", ".join(f"{n} of {phase!r}" for phase, n in sorted(self.unread.items()))
            found.append(f"events of phases that are not shown: {kinds}")
        return found


_PHASES: dict[str, Callable[[_Reader, dict[str, Any]], str]] = {
    "X": _Reader._complete,
    "B": _Reader._begin_or_end,
    "E": _Reader._begin_or_end,
    "b": _Reader._begin_or_end,
    "e": _Reader._begin_or_end,
    "i": _Reader._instant,
    "I": _Reader._instant,
    "R": _Reader._instant,
    "C": _Reader._counter,
    "M": _Reader._metadata,
}


def _wrong(event: dict[str, Any], key: str) -> str:
    """What is wrong with a value that should be a time."""
    return f"{key} is {str(event[key])[:20]}" if key in event else f"it has no {key}"


def _counted(found: list[str], one: str, many: str) -> str:
    shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
    return f"{len(found)} {one if len(found) == 1 else many}: {shown}"


def _kind(event: dict[str, Any]) -> int:
    category = event.get("cat")
    if not isinstance(category, str) or category in _NO_SPANS:
        return KIND["span"]
    return KIND.get(category, KIND["span"])


def _thread(event: dict[str, Any]) -> tuple[Any, ...]:
    return ("X", _hashable(event.get("pid")), _hashable(event.get("tid")))


def _async(event: dict[str, Any]) -> tuple[Any, ...]:
    category = _hashable(event.get("cat", ""))
    return ("async", _hashable(event.get("pid")), category, _hashable(event.get("id")))


def _hashable(value: Any) -> Any:
    """What identifies a process or thread: a number or a text."""
    return value if isinstance(value, int | str) else json.dumps(value)[:80]


def _ns(value: Any) -> int | None:
    """Microseconds as whole nanoseconds; None for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or abs(value) * 1000 > _LATEST_NS:
        return None
    return round(value * 1000)

"""Events found by their text or their instruction, a stretch of the stream at a time.

A recording may hold a hundred million packets: each call looks for so long and says where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinylab.profiler.capture import LoadedProgram
from tinylab.profiler.sqtt.events import is_instruction
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.stats import class_name, class_of
from tinylab.profiler.sqtt.trace import Trace


def search(
    trace: Trace, words: str, loaded: LoadedProgram | None = None, limit: int = 1000
) -> Iterator[dict[str, Any]]:
    """Events whose class, or whose instruction's text, holds ``words``; at most ``limit``."""
    left = limit
    for number in range(len(trace.states)):
        for hit in _Query(trace, words, loaded).chunk(number, left):
            left -= 1
            yield hit
        if not left:
            return


def search_page(
    trace: Trace,
    words: str,
    loaded: LoadedProgram | None = None,
    chunk: int = 0,
    limit: int = 200,
    seconds: float = 0.3,
) -> dict[str, Any]:
    """Hits from a chunk on; "next" is the chunk to go on with, None at the end.

    {"hits": [{"time", "slot", "op", "pc"}, ...], "next": 12, "of": 40}
    """
    query = _Query(trace, words, loaded)
    until = time.perf_counter() + seconds
    hits: list[dict[str, Any]] = []
    while chunk < len(trace.states) and len(hits) < limit and time.perf_counter() < until:
        hits += query.chunk(chunk, limit - len(hits))
        chunk += 1
    more = chunk < len(trace.states)
    return {"hits": hits, "next": chunk if more else None, "of": len(trace.states)}


class _Query:
    """What is looked for: classes and instructions."""

    def __init__(self, trace: Trace, words: str, loaded: LoadedProgram | None) -> None:
        wanted = words.lower()
        self.trace = trace
        self.classes = [
            n
            for n in range(512)
            if _named(trace, n) and wanted in class_name(trace.table, n).lower()
        ]
        self.lines = _lines_with(trace, wanted, loaded)

    def chunk(self, number: int, limit: int) -> list[dict[str, Any]]:
        """The first hits of a chunk."""
        trace = self.trace
        if not trace.activity[number][self.classes].any() and not self.lines:
            return []
        part = trace.part(number)
        events = part.events
        numbers = trace.program.numbers(part.pcs) if trace.program else part.pcs
        hit = np.isin(class_of(events), self.classes) | np.isin(numbers, self.lines)
        hit[: part.first] = False
        rows = np.flatnonzero(hit & is_instruction(events))[:limit]
        return [
            {
                "time": int(events.time[row]),
                "slot": int(events.slot[row]),
                "op": events.op_name(int(row)),
                "pc": int(part.pcs[row]) if part.pcs[row] >= 0 else None,
            }
            for row in rows
        ]


def _named(trace: Trace, number: int) -> bool:
    return number in trace.table.ops if number < 256 else number - 256 < len(trace.table.kinds)


def _lines_with(trace: Trace, wanted: str, loaded: LoadedProgram | None) -> list[int]:
    if trace.program is None or loaded is None:
        return []
    count = len(trace.program.instructions)
    return [n for n in range(count) if wanted in loaded.line(n).lower()]


def event_beside(
    trace: Trace, number: int, at: int, step: int = 1, seconds: float = 0.5
) -> dict[str, Any]:
    """The next event of an instruction after a time, or the last before it (``step`` of -1).

    {"found": {"time": 1204, "slot": 3, "end": 1210}}; where time ran out "found" is None and
    "next" the time to go on from; both are None if there is no such event.
    """
    until = time.perf_counter() + seconds
    chunks = trace.chunks_of(at, at)
    chunk = chunks.start if len(chunks) else 0
    while 0 <= chunk < len(trace.states):
        found = _beside(trace, chunk, number, at, step)
        if found is not None:
            return {"found": found, "next": None}
        chunk += step
        if time.perf_counter() > until and 0 <= chunk < len(trace.states):
            clock = trace.states[chunk].cursor.clock
            return {"found": None, "next": clock if step > 0 else clock + 1}
    return {"found": None, "next": None}


def _beside(trace: Trace, chunk: int, number: int, at: int, step: int) -> dict[str, Any] | None:
    part = trace.part(chunk)
    events = part.events
    mine = _rows_of(trace, part.pcs, number)
    mine = mine[
        (mine >= part.first) & (events.time[mine] > at if step > 0 else events.time[mine] < at)
    ]
    if not len(mine):
        return None
    row = int(
        mine[np.argmin(events.time[mine])] if step > 0 else mine[np.argmax(events.time[mine])]
    )
    later = np.flatnonzero(events.slot[row + 1 :] == events.slot[row])
    start = int(events.time[row])
    end = int(events.time[row + 1 + later[0]]) if len(later) else start + 1
    return {"time": start, "slot": int(events.slot[row]), "end": max(end, start + 1)}


def _rows_of(trace: Trace, pcs: Array, number: int) -> Array:
    if trace.program is None or not 0 <= number < len(trace.program.instructions):
        return np.empty(0, np.int64)
    return np.flatnonzero(pcs == trace.program.instructions[number].pc)

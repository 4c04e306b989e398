"""Events found by their text or their instruction, a stretch of the stream at a time.

A recording may hold a hundred million packets: each call looks for so long and says where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinylab.profiler import scene, view
from tinylab.profiler.capture import LoadedProgram
from tinylab.profiler.sqtt.events import is_instruction
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

    {"hits": [{"time", "lane", "start", "end", "op", "pc"}, ...], "next": 12, "of": 40}
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
        found = view.detail_of_chunks(trace, range(number, number + 1))
        events = found.events
        numbers = trace.program.numbers(found.pcs) if trace.program else found.pcs
        hit = np.isin(class_of(events), self.classes) | np.isin(numbers, self.lines)
        rows = np.flatnonzero(hit & found.own & is_instruction(events))[:limit].tolist()
        return [
            {
                **_place(found, row),
                "op": events.op_name(row),
                "pc": int(found.pcs[row]) if found.pcs[row] >= 0 else None,
            }
            for row in rows
        ]


def _place(found: view.Detail, row: int) -> dict[str, int]:
    """Where an event stands: when it was issued, and its bar, standing still and working."""
    time = int(found.events.time[row])
    return {
        "time": time,
        "lane": int(scene.lanes_of(found)[row]),
        "start": time - int(found.stall[row]),
        "end": int(scene.ends_of(found)[row]),
    }


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

    {"found": {"time": 1204, "lane": 3, "start": 1200, "end": 1205}, "next": None}; where the search
    ran out of time "found" is None and "next" where to go on; there is no such event if both are.
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


def _beside(trace: Trace, chunk: int, number: int, at: int, step: int) -> dict[str, int] | None:
    found = view.detail_of_chunks(trace, range(chunk, chunk + 1))
    time = found.events.time
    mine = np.flatnonzero((found.pcs == _address(trace, number)) & found.own)
    mine = mine[time[mine] > at] if step > 0 else mine[time[mine] < at]
    if not len(mine):
        return None
    order = np.argmin(time[mine]) if step > 0 else np.argmax(time[mine])
    return _place(found, int(mine[order]))


def _address(trace: Trace, number: int) -> int:
    """Where an instruction stands; of none, an address that no event has."""
    program = trace.program
    inside = program is not None and 0 <= number < len(program.instructions)
    return program.instructions[number].pc if program is not None and inside else -2

"""Where a viewer of captures asks: a method a question, answers in plain data and columns.

Streams are read when they are asked for, a slice at a time (`advance`), so that the start of a long
one is shown at once and reading can be left off at any point.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.helpers.near import closest
from tinylab.profiler import find, report, scene, view
from tinylab.profiler.capture import (
    Capture,
    Captures,
    CountersInfo,
    LoadedProgram,
    StreamInfo,
    names_apart,
)
from tinylab.profiler.counters import grid
from tinylab.profiler.sqtt.categories import CATEGORIES
from tinylab.profiler.sqtt.trace import Trace

Json = dict[str, Any]
_SMALL_BYTES = 1 << 20  # streams up to this size are read to see what is in them
_MOST_SECONDS = 2.0
_LOOK_SECONDS = 0.15
_MOST_COLUMNS = 20_000
_MOST_ROWS = 4000
_FIGURES = ("hits", "total", "mean", "longest", "stall", "time")


class Desk:
    """All that can be asked about some captures; sources have numbers, in order of `overview`."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        self.captures = tuple(captures)
        self.names = names_apart([c.name for c in self.captures])
        self.streams = [Stream(c, s) for c in self.captures for s in c.streams]
        self.readouts = [(c, r) for c in self.captures for r in c.counters]
        self._lock = threading.RLock()
        self._asks: dict[str, Callable[..., Any]] = {
            "overview": self.overview,
            "advance": self.advance,
            "window": self.window,
            "program": self.program,
            "classes": self.classes,
            "selection": self.selection,
            "search": self.search,
            "beside": self.beside,
            "compare": self.compare,
            "counters": self.counters,
            "grid": self.grid,
            "together": self.together,
        }

    @property
    def asks(self) -> list[str]:
        """The names of all questions."""
        return sorted(self._asks)

    def answer(self, ask: str, args: Json | None = None, push: object = None) -> Any:
        """The answer to one question.

        Raises: CaptureError for a question that there is not, for arguments that do not fit it, and
            for what cannot be read.
        """
        found = self._asks.get(ask)
        if found is None:
            near = closest(ask, self.asks)
            hint = f"did you mean {near}?" if near else None
            raise CaptureError(f"nobody answers {ask!r}", help=hint)
        with self._lock:
            try:
                return found(**(args or {}))
            except TypeError as error:
                raise CaptureError(f"{ask} cannot be asked like that: {error}") from None

    # *** what there is

    def overview(self) -> Json:
        """Captures with their kernels, trace streams, counter read-outs, and what to show first."""
        return {
            "name": ", ".join(self.names),
            "captures": [*map(_capture_row, self.captures, self.names)],
            "streams": [s.row(self._number(s.capture)) for s in self.streams],
            "readouts": [_readout_row(c, r, self._number(c)) for c, r in self.readouts],
            "categories": list(CATEGORIES),
            "first": self._first(),
        }

    def _number(self, capture: Capture) -> int:
        return next(i for i, c in enumerate(self.captures) if c is capture)

    def _first(self) -> int | None:
        """The first stream with instructions; if there is none, with waves; else the first."""
        numbered = list(enumerate(self.streams))
        found = [n for n, s in numbered if s.has_instructions][:1]
        found = found or [n for n, s in numbered if s.has_waves][:1]
        return found[0] if found else 0 if self.streams else None

    def stream(self, number: int) -> Stream:
        """A stream by its number.

        Raises: CaptureError if there is none with it.
        """
        if not isinstance(number, int) or not 0 <= number < len(self.streams):
            raise CaptureError(f"there is no stream {number!r}, there are {len(self.streams)}")
        return self.streams[number]

    # *** a thread trace

    def advance(self, stream: int, seconds: float = 0.2, full: bool = True) -> Json:
        """Reads a stream on for about so long; what there is to see of what has been read.

        Without ``full`` only how far reading is. With no time at all nothing is read: everything
        that was read is made ready to be looked at; while that takes longer than a moment, there is
        no "info", and one asks again.
        """
        found = self.stream(stream)
        trace = found.trace
        if seconds > 0:
            trace.advance(min(float(seconds), _MOST_SECONDS))
        is_ready = seconds > 0 or trace.look(_LOOK_SECONDS)
        out: Json = {"done": trace.done, "progress": trace.progress, "end": trace.end_time}
        if (not full and not trace.done) or not is_ready:
            return out
        seen = scene.lanes(trace)
        info = view.overview(trace)
        names = {str(number): name for number, name in scene.class_names(trace).items()}
        info["notes"] += self.where_to_look(found)
        info["used"] = scene.used_categories(trace)
        info |= {"lanes": {k: v for k, v in seen.items() if k != "waves"}, "classes": names}
        info |= {"most_waves": int(trace.occupancy()[1].max(initial=0))}
        return {**out, "info": info, "columns": {"waves": seen["waves"]}}

    def where_to_look(self, stream: Stream) -> list[str]:
        """For a read stream without instructions: which of the same dispatch have some."""
        if not stream.trace.done or view.instruction_count(stream.trace):
            return []
        tag = stream.info.exec_tag
        others = [s for s in self.streams if s.capture is stream.capture and s is not stream]
        others = [s for s in others if s.info.exec_tag == tag and s.info.itrace]
        where = report.traced_on([s.name for s in others if s.has_instructions])
        return [where] if where else []

    def window(
        self,
        stream: int,
        start: float,
        end: float,
        columns: int = 1000,
        keys: Sequence[int] | None = None,
        mark: int | None = None,
        curves: bool = True,
    ) -> Json:
        """Bars of some lanes in a window (see `scene.lane_window`), and curves over it.

        "occupancy_mean", "occupancy_most" and "activity" have a row a column; activity is
        instructions a cycle by category.
        """
        trace = self.stream(stream).trace
        first, last = _whole(start), max(_whole(end), _whole(start) + 1)
        columns = min(max(int(columns), 1), _MOST_COLUMNS, last - first)
        found = scene.lane_window(trace, first, last, columns, keys, mark)
        if curves:
            living = view.occupancy_window(trace, first, last, columns)
            found["columns"] |= {
                "occupancy_mean": living["mean"].astype(np.float32),
                "occupancy_most": living["most"].astype(np.uint32),
                "activity": scene.activity_window(trace, first, last, columns),
            }
        return {"start": first, "end": last, **found}

    def program(self, stream: int, first: int = 0, last: int | None = None) -> Json:
        """Instructions of a stream's program with their figures, some thousand at a time.

        "rows" has pc, text and target of each; "columns" hits, total, mean, longest, stall, time.
        """
        found = self.stream(stream)
        trace, loaded = found.trace, found.loaded
        if trace.program is None or not trace.program.instructions:
            return {"total": 0, "first": 0, "rows": [], "note": found.no_program, "columns": {}}
        total = len(trace.program.instructions)
        first = min(max(int(first), 0), total)
        last = min(total if last is None else int(last), first + _MOST_ROWS, total)
        rows = []
        for number in range(first, last):
            instruction = trace.program.instructions[number]
            text = loaded.line(number) if loaded else instruction.hex
            rows.append([instruction.pc, text, instruction.target])
        sums = trace.tally.by_instruction
        timed = np.maximum(sums.timed, 1)
        mean = sums.latency / timed
        figures = (sums.hits, sums.latency, mean, sums.longest, sums.stall, sums.time)
        return {
            "total": total,
            "first": first,
            "rows": rows,
            "tool": loaded.disassembly.tool if loaded else "",
            "note": loaded.disassembly.note if loaded else "",
            "columns": {n: f[first:last] for n, f in zip(_FIGURES, figures, strict=True)},
        }

    def classes(self, stream: int) -> Json:
        """Sums by class of instructions."""
        return {"rows": view.class_table(self.stream(stream).trace)}

    def selection(self, stream: int, start: float, end: float) -> Json:
        """Statistics of a stretch of time."""
        return view.selection(self.stream(stream).trace, _whole(start), _whole(end))

    def search(self, stream: int, query: str, chunk: int = 0) -> Json:
        """Events whose class or instruction holds a text, a page of them."""
        found = self.stream(stream)
        return find.search_page(found.trace, str(query), found.loaded, max(int(chunk), 0))

    def beside(self, stream: int, instruction: int, at: float, step: int = 1) -> Json:
        """The next event of an instruction after a time, or the last before it."""
        trace = self.stream(stream).trace
        return find.event_beside(trace, int(instruction), _whole(at), 1 if step > 0 else -1)

    def compare(self, first: int, second: int) -> Json:
        """Two streams, read to their ends, side by side."""
        a, b = self.stream(first), self.stream(second)
        for each in (a, b):
            if not each.trace.done:
                raise CaptureError(f"{each.name} has not been read to its end")
        found = view.compare(a.trace, b.trace)
        columns = {
            f"{side}_{name}": np.array(
                [row[side][name] if row[side] else 0 for row in found["instructions"]], np.float64
            )
            for side in ("first", "second")
            for name in _FIGURES
        }
        same = bool(found["instructions"])
        return {"classes": found["classes"], "same_program": same, "columns": columns}

    # *** counters

    def readout(self, number: int) -> tuple[Capture, CountersInfo]:
        """A counter read-out by its number.

        Raises: CaptureError if there is none with it.
        """
        if not isinstance(number, int) or not 0 <= number < len(self.readouts):
            raise CaptureError(f"there is no read-out {number!r}, there are {len(self.readouts)}")
        return self.readouts[number]

    def counters(self, readout: int) -> Json:
        """Totals of a read-out, ratios with their formulas, and a note where its file was cut."""
        capture, info = self.readout(readout)
        found = capture.readout(info)
        return {"rows": grid.totals(found), "metrics": grid.metrics(found), "note": found.fault}

    def grid(self, readout: int, counter: str, rows: Sequence[str], columns: Sequence[str]) -> Json:
        """A counter's values by two groups of axes, summed over the others."""
        capture, info = self.readout(readout)
        return grid.table(capture.readout(info), str(counter), rows, columns)

    def together(self, readouts: Sequence[int]) -> Json:
        """Counters and metrics of several read-outs, a value each, and last over first."""
        picked = [self.readout(number) for number in readouts]
        return {"rows": grid.together([c.readout(r) for c, r in picked])}


class Stream:
    """A trace stream, opened when it is first asked for."""

    def __init__(self, capture: Capture, info: StreamInfo) -> None:
        self.capture, self.info = capture, info
        self._trace: Trace | None = None
        self._has_instructions: bool | None = None

    @property
    def trace(self) -> Trace:
        """The trace; reading goes on with `advance`."""
        if self._trace is None:
            self._trace = self.capture.trace(self.info)
        return self._trace

    @property
    def name(self) -> str:
        """What selects it: its file without the ending."""
        return report.source_name(self.info)

    @property
    def loaded(self) -> LoadedProgram | None:
        """Its code object, if its instructions are known."""
        has = self.trace.program is not None
        return self.capture.program(self.info.program) if has else None

    @property
    def no_program(self) -> str:
        """Why there are no instructions to list."""
        try:
            _ = self.capture.program(self.info.program).code
        except CaptureError as error:
            return error.message
        return f"instructions of {self.capture.target or 'this chip'} cannot be told apart"

    @property
    def size_bytes(self) -> int:
        """How long its file is; 0 if it cannot be read."""
        try:
            return (self.capture.folder / self.info.file).stat().st_size
        except OSError:
            return 0

    @property
    def has_instructions(self) -> bool:
        """Whether instructions were traced: short streams are read, long ones are believed."""
        if self._has_instructions is None:
            self._has_instructions = self._look()
        return self._has_instructions

    def _look(self) -> bool:
        if not self.info.itrace or self.size_bytes > _SMALL_BYTES:
            return self.info.itrace
        found = self._read()
        return found is not None and view.instruction_count(found) > 0

    @property
    def has_waves(self) -> bool:
        """Whether waves ran, as far as a short stream tells; of a long one it is believed."""
        found = None if self.size_bytes > _SMALL_BYTES else self._read()
        return self.size_bytes > _SMALL_BYTES or (found is not None and len(found.waves()) > 0)

    def _read(self) -> Trace | None:
        """The trace to its end; None if it cannot be read."""
        try:
            return self.trace.index()
        except CaptureError:
            return None

    def row(self, capture: int) -> Json:
        """A line of the list of sources."""
        kernel = self.capture.kernel(self.info.exec_tag)
        return {
            "capture": capture,
            "name": self.name,
            "engine": self.info.engine,
            "xcc": self.info.xcc,
            "exec": self.info.exec_tag,
            "run": self.capture.run_number(self.info.program, self.info.exec_tag),
            "kernel": kernel.name if kernel else _program_name(self.capture, self.info.program),
            "instructions": self.has_instructions,
            "waves": self.has_waves,
            "bytes": self.size_bytes,
        }


_desks: weakref.WeakKeyDictionary[Capture | Captures, Desk] = weakref.WeakKeyDictionary()


@explained
def desk_of(captures: Capture | Captures) -> Desk:
    """The desk of a capture, or of several: always the same one."""
    found = _desks.get(captures)
    if found is None:
        every = captures.captures if isinstance(captures, Captures) else (captures,)
        found = _desks[captures] = Desk(every)
    return found


def _capture_row(capture: Capture, name: str) -> Json:
    kernels = [
        {"name": r.name, "exec": r.exec_tag, "run": capture.run_number(r.program, r.exec_tag)}
        | {"elapsed_ns": r.duration_ns}
        for r in capture.ranges
        if r.kind == "kernel" and r.exec_tag is not None and r.program is not None
    ]
    return {"name": name, "target": capture.target, "kernels": kernels[:1000]}


def _readout_row(capture: Capture, info: CountersInfo, number: int) -> Json:
    kernel = capture.kernel(info.exec_tag)
    return {
        "capture": number,
        "name": report.source_name(info),
        "exec": info.exec_tag,
        "run": capture.run_number(info.program, info.exec_tag),
        "kernel": kernel.name if kernel else _program_name(capture, info.program),
        "elapsed_ns": kernel.duration_ns if kernel else None,
        "counters": len(info.schedule),
    }


def _program_name(capture: Capture, number: int) -> str:
    return next((p.name for p in capture.programs if p.number == number), "")


def _whole(time: float) -> int:
    return int(min(max(float(time), 0.0), float(1 << 53)))

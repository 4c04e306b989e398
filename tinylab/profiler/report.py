"""Captures as rows, for a terminal and for scripts. A section is a title and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.text import pluralize
from tinylab.profiler import view
from tinylab.profiler.capture import (
    Capture,
    CountersInfo,
    LoadedProgram,
    StreamInfo,
    names_apart,
)
from tinylab.profiler.counters.pmc import AXES, Counter, Readout, compare
from tinylab.profiler.reading import read_to_end
from tinylab.profiler.sqtt.events import is_instruction
from tinylab.profiler.sqtt.execution import UNITS
from tinylab.profiler.sqtt.lanes import event_name
from tinylab.profiler.sqtt.trace import Trace
from tinylab.profiler.sqtt.waves import Waves

Row = dict[str, Any]
_MOST_LISTED = 100_000  # rows that are printed though nobody asked for a listing
LISTING = ("clk", "unit", "op", "dur", "delay", "info")


@dataclass
class Section:
    """A table: its title, rows that may be made while they are read, sentences under it.

    Rows hold plain values, None where one is absent; ``shown`` says how people read a column's.
    """

    title: str
    rows: Iterable[Row]
    columns: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    shown: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)


def share(value: float) -> str:
    """A part of one as a percentage."""
    return percentage(100 * value)


def percentage(value: float) -> str:
    """With one decimal."""
    return f"{value:.1f}%"


def ratio(value: float) -> str:
    """How many times as much."""
    return f"{value:.2f}x"


# *** what there is


def sources(capture: Capture) -> list[Section]:
    """Runs, then each counter read-out and trace stream with the name that selects it."""
    found = [
        Section(f"{capture.name}: {capture.target}", _runs(capture)),
        Section("sources", [*_source_rows(capture)]),
    ]
    return [*found, comparison([capture])] if len(capture.counters) > 1 else found


def _runs(capture: Capture) -> list[Row]:
    rows = []
    for r in capture.ranges:
        if r.kind != "kernel" or r.exec_tag is None or r.program is None:
            continue
        run = capture.run_number(r.program, r.exec_tag)
        rows.append({"kernel": r.name, "run": run, "exec": r.exec_tag, "ns": r.duration_ns})
    return rows


def _source_rows(capture: Capture) -> Iterator[Row]:
    """A row a source; of one that cannot be read, why."""
    for c in capture.counters:
        yield _source_row(c, "PMC", _counters_found(capture, c))
    streams = [_source_row(s, "SQTT", _stream_found(capture, s)) for s in capture.streams]
    for row in streams:
        if row["instructions"] == 0:
            beside = [r for r in streams if r["exec"] == row["exec"] and r["instructions"]]
            where = traced_on([str(r["source"]) for r in beside])
            row["note"] = "; ".join(filter(None, [row["note"], where]))
        yield row


def traced_on(names: Sequence[str]) -> str:
    """Where the instructions are that a stream does not have: "… on se0, se1 and se4"; or ""."""
    if len(names) > 9:
        names = [*names[:8], f"{len(names) - 8} more"]
    words = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    return f"instructions were traced on {words}" if names else ""


def _source_row(source: StreamInfo | CountersInfo, kind: str, found: Row) -> Row:
    row = {"source": source_name(source), "kind": kind, "exec": source.exec_tag}
    return row | {"waves": None, "instructions": None} | found


def _counters_found(capture: Capture, c: CountersInfo) -> Row:
    try:
        readout = capture.readout(c)
    except CaptureError as error:
        return {"note": error.message}
    words = [pluralize("counter", len(readout.counters)), readout.fault]
    return {"note": "; ".join(filter(None, words))}


def _stream_found(capture: Capture, s: StreamInfo) -> Row:
    try:
        trace = read_to_end(capture.trace(s), s.file)
    except CaptureError as error:
        return {"note": error.message}
    return _what_is_in(trace)


def _what_is_in(trace: Trace) -> Row:
    return {
        "waves": len(trace.waves()),
        "instructions": view.instruction_count(trace),
        "note": "; ".join(view.notes(trace)),
    }


def stream_sections(trace: Trace, name: str, is_limited: bool) -> list[Section]:
    """A bare stream: what is in it, and its listing if that is not long or printed in part."""
    row = {"source": name, "kind": "SQTT", "packets": int(trace.counts.sum())}
    section = Section("sources", [row | _what_is_in(trace)])
    count = _listing_length(trace)
    if is_limited or count <= _MOST_LISTED:
        return [section, *trace_sections(trace, name, None)]
    section.notes.append(
        f"its listing has about {count:,} rows: -s {name} prints them, with -n N the first N"
    )
    return [section, instruction_section(trace, None)]


def _listing_length(trace: Trace) -> int:
    """About how many rows a listing has: where an execution takes two units there are more."""
    executions = sum(int(counts.sum()) for counts in trace.facts.exec_counts.values())
    return int(trace.tally.by_class.hits.sum()) + executions + len(trace.waves())


def source_name(source: StreamInfo | CountersInfo) -> str:
    """What selects a source on the command line: its file without the ending."""
    return source.file.rsplit(".", 1)[0]


def top_kernels(capture: Capture, count: int) -> Section:
    """Kernels by total time, longest first."""
    times: dict[str, list[int]] = {}
    for r in capture.ranges:
        if r.kind == "kernel":
            times.setdefault(r.name, []).append(r.duration_ns)
    total = sum(map(sum, times.values())) or 1
    rows: list[Row] = [
        {
            "kernel": name,
            "runs": len(ns),
            "total ns": sum(ns),
            "mean ns": sum(ns) // len(ns),
            "share": sum(ns) / total,
        }
        for name, ns in times.items()
    ]
    rows.sort(key=lambda r: -r["total ns"])
    return Section(f"top {pluralize('kernel', count)}", rows[:count], shown={"share": share})


# *** counters


def counter_sections(capture: Capture, counters: CountersInfo) -> list[Section]:
    """Totals, metrics with formulas, and sums along each axis that has more than one value."""
    readout = capture.readout(counters)
    totals = [
        {"counter": c.name, "block": c.block, "sum": c.sum, "max": c.max, "count": c.count}
        | {"nonzero": c.nonzero, "max at": _place(c)}
        for c in readout.counters
    ]
    metrics = [
        {"metric": m.label, "value": m.value, "formula": m.formula, "note": m.note}
        for m in readout.metrics()
    ]
    sections = [
        Section(source_name(counters), totals, notes=[*filter(None, [readout.fault])]),
        Section("metrics", metrics, shown={"value": percentage}),
    ]
    for axis in AXES:
        rows = [_along(c, axis) for c in readout.counters if c.values.shape[AXES.index(axis)] > 1]
        if rows:
            sections.append(Section(f"sums by {axis}", rows))
    return sections


def _place(c: Counter) -> str | None:
    where = c.max_at
    shape = dict(zip(AXES, c.values.shape, strict=True))
    return " ".join(f"{a}{n}" for a, n in where.items() if shape[a] > 1) if where else None


def _along(c: Counter, axis: str) -> Row:
    return {"counter": c.name} | {f"{axis}{i}": int(v) for i, v in enumerate(c.along(axis))}


def comparison(captures: Sequence[Capture]) -> Section:
    """Counters and metrics of all runs of all captures, side by side."""
    names: list[str] = []
    found: list[Readout] = []
    notes = []
    sources = [(c, p) for c in captures for p in c.counters]
    for name, (capture, counters) in zip(_run_names(captures), sources, strict=True):
        try:
            readout = capture.readout(counters)
        except CaptureError as error:
            notes.append(f"{name} is left out: {error.message}")
            continue
        found.append(readout)
        names.append(name)
        notes += [f"{name}: {readout.fault}"] if readout.fault else []
    rows = []
    for line in compare(found):
        values = dict(zip(names, line.values, strict=True))
        rows.append({"counter": line.name, **values, "last/first": line.change})
    shown = {**dict.fromkeys(names, _sum_or_metric), "last/first": ratio}
    return Section("counters compared", rows, notes=notes, shown=shown)


def _run_names(captures: Sequence[Capture]) -> list[str]:
    """A name for each read-out: "gemm (2) r_16_4 #1", its kernel where there are several."""
    found = []
    for capture, name in zip(captures, names_apart([c.name for c in captures]), strict=True):
        programs = {c.program for c in capture.counters}
        for c in capture.counters:
            kernel = capture.kernel(c.exec_tag) if len(programs) > 1 else None
            words = (
                name,
                kernel.name if kernel else "",
                f"#{capture.run_number(c.program, c.exec_tag)}",
            )
            found.append(" ".join(filter(None, words)))
    return names_apart(found)


def _sum_or_metric(value: float) -> str:
    return str(value) if isinstance(value, int) else percentage(value)


# *** traces


def trace_sections(trace: Trace, title: str, loaded: LoadedProgram | None) -> list[Section]:
    """A stream's listing: issues, executions and waves by clock."""
    return [Section(title, listing(trace, loaded), LISTING, _notes(trace, loaded))]


def _notes(trace: Trace, loaded: LoadedProgram | None) -> list[str]:
    """What is wrong with a stream or absent from it, and with the text of its program."""
    notes = view.notes(trace)
    if loaded is not None and trace.mapped and loaded.disassembly.note:
        notes.append(loaded.disassembly.note)
    return notes


def listing(trace: Trace, loaded: LoadedProgram | None = None) -> Iterator[Row]:
    """Rows clk, unit, op, dur, delay, info; chunk by chunk, so that any length can be listed.

    An issue lasts until its wave's next event and is delayed by its stall; an execution lasts as
    long as its unit is kept and is delayed since its issue; a wave lasts from start to end.
    """
    bounds = [s.cursor.position for s in trace.states] + [2 * len(trace.stream.data)]
    waves = _wave_rows(trace)
    pending = next(waves, None)
    for number in range(len(trace.states)):
        rows = _chunk_rows(trace, loaded, number, bounds[number], bounds[number + 1])
        for row in sorted(rows, key=lambda r: int(r["clk"])):
            while pending is not None and pending["clk"] <= row["clk"]:
                yield pending
                pending = next(waves, None)
            yield row
    while pending is not None:
        yield pending
        pending = next(waves, None)


def _chunk_rows(
    trace: Trace, loaded: LoadedProgram | None, number: int, start: int, end: int
) -> Iterator[Row]:
    found = view.detail_of_chunks(trace, range(number, number + 1))
    events = found.events
    for row in np.flatnonzero(found.own & is_instruction(events)).tolist():
        pc, latency = int(found.pcs[row]), int(found.latency[row])
        yield {
            "clk": int(events.time[row]),
            "unit": _wave_name(trace, int(events.slot[row])),
            "op": event_name(events, row, pc, trace.program),
            "dur": latency if latency >= 0 else None,
            "delay": int(found.stall[row]),
            "info": _line(trace, loaded, pc),
        }
    inside = (found.exec_packet >= start) & (found.exec_packet < end)
    for row in np.flatnonzero(inside).tolist():
        first, issue = int(found.exec_start[row]), int(found.exec_issue[row])
        by = ""
        if issue >= 0:
            slot, at = int(events.slot[issue]), int(events.time[issue])
            by = f"{_wave_name(trace, slot)} {events.op_name(issue)} issued at {at}"
        yield {
            "clk": first,
            "unit": UNITS[int(found.exec_unit[row])],
            "op": "EXEC",
            "dur": int(found.exec_end[row]) - first,
            "delay": first - int(events.time[issue]) if issue >= 0 else None,
            "info": by,
        }


def _wave_name(trace: Trace, slot: int) -> str:
    return f"WAVE:{slot}" if trace.table.rdna else f"WAVE:{slot >> 4}.{slot & 15}"


def _line(trace: Trace, loaded: LoadedProgram | None, pc: int) -> str:
    number = trace.program.at(pc) if trace.program and pc >= 0 else None
    if number is None:
        return ""
    text = loaded.line(number) if loaded else ""
    return f"0x{pc:x} {text}".rstrip()


def _simd(waves: Waves, row: int) -> str:
    return f"simd{waves.simd[row]}:{waves.slot[row]}"


def _wave_rows(trace: Trace) -> Iterator[Row]:
    waves = trace.waves()
    array, unit = trace.table.place[:2]
    for i in range(len(waves)):
        end = int(waves.end[i])
        yield {
            "clk": int(waves.start[i]),
            "unit": f"{array}{waves.array[i]} {unit}{waves.unit[i]} {_simd(waves, i)}",
            "op": "WAVE",
            "dur": end - int(waves.start[i]) if end >= 0 else None,
            "delay": None,
            "info": f"{waves.threads[i]} threads" + ("" if end >= 0 else ", still running"),
        }


def instruction_section(trace: Trace, loaded: LoadedProgram | None) -> Section:
    """The program with hits, latencies and stalls of each instruction; classes if there is none."""
    notes = _notes(trace, loaded)
    if trace.mapped:
        rows = [
            {
                "pc": f"0x{r['pc']:x}",
                "text": r["text"],
                **_figures(r),
                "share": r["share"],
            }
            for r in view.instruction_table(trace, loaded)
        ]
        return Section("instructions", rows, notes=notes, shown=_FIGURES)
    rows = [{"class": r["class"], **_figures(r)} for r in view.class_table(trace)]
    return Section("instruction classes", rows, notes=notes, shown=_FIGURES)


_FIGURES: Mapping[str, Callable[[Any], str]] = {"share": share, "mean": "{:.1f}".format}


def _figures(r: Row) -> Row:
    return {
        "hits": r["hits"],
        "total": r["total"],
        "mean": r["mean"],
        "longest": r["longest"],
        "stall": r["stall"],
    }

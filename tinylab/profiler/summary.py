"""A capture as one JSON object: packets, waves, instructions, lanes, launch facts, counters.

Needs no disassembler: program counters follow from instruction sizes alone.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.profiler.capture import Capture, CountersInfo, StreamInfo
from tinylab.profiler.counters.pmc import Counter, Readout
from tinylab.profiler.reading import read_to_end
from tinylab.profiler.sqtt.decode import Fault
from tinylab.profiler.sqtt.events import is_instruction
from tinylab.profiler.sqtt.lanes import viewer_lanes
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.packets import (
    ALU_SOURCES,
    ISSUE_STATES,
    MEM_UNITS,
    NO_MATCH,
)
from tinylab.profiler.sqtt.stats import class_name
from tinylab.profiler.sqtt.trace import Part, Trace
from tinylab.profiler.sqtt.waves import Waves
from tinylab.profiler.view import instruction_count

# As in the recorded results, with which ours are compared word for word.
_WALK_NOTE = (
    "not from the reference decoder: sequential walk over INST packets and ISSUE immediates of "
    "compute unit 0, checked against the instruction classes of the disassembly"
)
_MOST_ROWS = 2_000_000
_COLUMNS = ["time", "packet", "op", "wave", "simd", "pc"]


@explained
def summarize(capture: Capture) -> dict[str, Any]:
    """The whole capture; keys and layouts of the reference results."""
    durations = [
        {"name": r.name, "exec_tag": r.exec_tag, "duration_ns": r.duration_ns}
        for r in capture.ranges
        if r.kind == "kernel"
    ]
    streams = [summarize_stream(capture, s) for s in capture.streams]
    readouts = [summarize_counters(capture, c) for c in capture.counters]
    return {
        "format": "amd-profile-golden",
        "format_version": 1,
        "capture": capture.name,
        "sqtt": [summary for summary, _faults in streams],
        "pmc": [summary for summary, _faults in readouts],
        "kernel_durations_ns": durations,
        "faults": [fault for _summary, faults in streams + readouts for fault in faults]
        + _program_faults(capture),
    }


def _program_faults(capture: Capture) -> list[dict[str, Any]]:
    """Code objects that cannot be read: without them instructions have no addresses."""
    out = []
    for info in capture.programs:
        try:
            _ = capture.program(info.number).code
        except CaptureError as error:
            out.append(_fault(info.file, error))
    return out


def _fault(file: str, error: CaptureError) -> dict[str, Any]:
    return {"file": file, **asdict(Fault(0, 0, error.message, fatal=True))}


# *** trace streams


def summarize_stream(
    capture: Capture, stream: StreamInfo
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One stream, read to its end, and what is wrong with it.

    Of one that cannot be read there is "fault", a sentence, in place of what it holds.
    """
    head = {
        "file": stream.file,
        "exec_tag": stream.exec_tag,
        "se": stream.engine,
        "itrace": stream.itrace,
    }
    try:
        trace = read_to_end(capture.trace(stream), stream.file)
        found = summarize_trace(trace, stream.itrace)
    except CaptureError as error:
        return _unread(head, error)
    code_hash = None
    load_base = None
    if trace.program is not None:
        loaded = capture.program(stream.program)
        code_hash, load_base = loaded.object.hash, loaded.info.load_base
    out = {**head, **found}
    out["dispatch"] = trace.registers.dispatch(load_base, code_hash)
    return out, [{"file": stream.file, **asdict(f)} for f in trace.faults]


def _unread(
    head: dict[str, Any], error: CaptureError
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A source that cannot be read: why, on its row and among the faults."""
    return {**head, "fault": error.message}, [_fault(head["file"], error)]


def summarize_trace(trace: Trace, itrace: bool = True) -> dict[str, Any]:
    """What a stream alone tells.

    Raises: CaptureError where that is more than one object should hold.
    """
    _refuse_millions(trace)
    parts = [trace.part(i) for i in range(len(trace.states))]
    rows = _instructions(trace, parts)
    shared = {
        "layout": trace.table.layout,
        "packet_total": int(trace.counts.sum()),
        "first_time": trace.first_time,
        "last_time": trace.end_time,
        "monotonic": trace.facts.monotonic,
        "packets": packet_counts(trace),
        "waves": _waves(trace.waves()),
        "waves_unclosed": trace.pairing.unclosed,
        "waves_unopened": trace.pairing.unopened,
        "inst_ops": _inst_ops(trace),
    }
    return {**shared, **(_rdna(trace, rows, itrace) if trace.table.rdna else _cdna(trace, rows))}


def _refuse_millions(trace: Trace) -> None:
    """An object of JSON is made in memory, half a kilobyte a row."""
    count = instruction_count(trace) + len(trace.waves())
    if count > _MOST_ROWS:
        raise CaptureError(
            f"{count:,} waves and instructions are more than one JSON object should hold "
            f"({_MOST_ROWS:,})",
            help="list them a line each: -s NAME --json",
        )


def packet_counts(trace: Trace) -> dict[str, int]:
    """Packets by type; nibbles that start none count as NOP, as the reference has it."""
    counts: dict[str, int] = {}
    for kind, count in zip(trace.table.kinds, trace.counts.tolist(), strict=True):
        name = "NOP" if kind == NO_MATCH else kind
        if count:
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def _waves(waves: Waves) -> dict[str, Any]:
    closed = waves.closed
    columns = (waves.array, waves.unit, waves.simd, waves.slot, waves.start, waves.end)
    rows = np.stack([c[closed] for c in columns], axis=1).tolist()
    return {"columns": [*waves.table.place, "start", "end"], "rows": rows}


def _inst_ops(trace: Trace) -> dict[str, int]:
    total = np.sum(trace.activity, axis=0) if trace.activity else np.zeros(0, np.int64)
    found = {class_name(trace.table, int(i)): int(total[i]) for i in np.flatnonzero(total[:256])}
    return dict(sorted(found.items()))


def _instructions(trace: Trace, parts: list[Part]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for part in parts:
        events = part.events
        real = is_instruction(events)
        for row in range(part.first, len(events)):
            if real[row]:
                rows.append(_instruction(trace, part, row))
    return rows


def _instruction(trace: Trace, part: Part, row: int) -> list[Any]:
    events, pc, slot = part.events, int(part.pcs[row]), int(part.events.slot[row])
    op = events.op_name(row)
    foreign = trace.table.rdna and op.startswith("OTHER_")
    simd = None if foreign else slot >> 4 if not trace.table.rdna else 0
    wave = slot if trace.table.rdna else slot & 15
    known = pc if pc >= 0 else None
    return [int(events.time[row]), events.packet_name(row), op, wave, simd, known]


def _rdna(trace: Trace, rows: list[list[Any]], itrace: bool) -> dict[str, Any]:
    exec_names = {"ALUEXEC": ALU_SOURCES, "VMEMEXEC": MEM_UNITS}
    counts = {
        kind: {names[i]: int(n) for i, n in enumerate(trace.facts.exec_counts[kind]) if n}
        for kind, names in exec_names.items()
    }
    out: dict[str, Any] = {
        "exec": counts,
        "immediate_mask_waves": trace.facts.mask_waves,
        "realtime_marks": _marks(trace),
        "instructions": _table(rows, trace.mapped > 0),
        "shader_clock": shader_clock(trace),
    }
    if itrace:
        lanes = [
            {"lane": k, "events": [list(e) for e in v]} for k, v in viewer_lanes(trace).items()
        ]
        out["viewer_lanes"] = {"columns": ["name", "start", "end", "ref"], "lanes": lanes}
    return out


def _table(rows: list[list[Any]], mapped: bool) -> dict[str, Any]:
    return {"columns": _COLUMNS, "rows": rows, "mapped_to_pc": mapped}


def _cdna(trace: Trace, rows: list[list[Any]]) -> dict[str, Any]:
    stamps, values = trace.facts.pairs(trace.facts.timestamps)
    plain = [[*r[:5], None] for r in rows if r[1] == "INST"]
    misc = trace.facts.misc.tolist()
    out: dict[str, Any] = {
        "issue_slots": dict(zip(ISSUE_STATES, trace.facts.issue_slots.tolist(), strict=True)),
        "misc_types": {str(i): n for i, n in enumerate(misc) if n},
        "timestamps": {"count": len(stamps), **_ends(stamps, values)},
        "instructions": _table(plain, False),
    }
    if trace.mapped:
        out["pc_walk"] = {"note": _WALK_NOTE, "columns": _COLUMNS, "rows": rows}
    return out


def _ends(stamps: Array, values: Array) -> dict[str, list[int] | None]:
    if not len(stamps):
        return {"first": None, "last": None}
    return {
        "first": [int(stamps[0]), int(values[0])],
        "last": [int(stamps[-1]), int(values[-1])],
    }


def _marks(trace: Trace) -> dict[str, Any]:
    stamps, values = trace.facts.pairs(trace.facts.marks)
    out: dict[str, Any] = {"count": len(stamps), **_ends(stamps, values)}
    if len(stamps) > 1 and values[-1] > values[0]:
        ticks = int(values[-1] - values[0])
        out["mean_clock_hz"] = round(int(stamps[-1] - stamps[0]) * 100_000_000 / ticks)
    return out


def shader_clock(trace: Trace) -> dict[str, Any]:
    """Hertz between neighbouring real-time markers; a few cycles apart they are nonsense."""
    stamps, values = trace.facts.pairs(trace.facts.marks)
    ticks = np.diff(values)
    good = ticks > 0
    hertz = (np.diff(stamps)[good] * 100_000_000) // ticks[good]
    if not len(hertz):
        return {"count": 0, "first": None, "last": None, "min_hz": None, "max_hz": None}
    at = stamps[1:][good]
    return {
        "count": len(hertz),
        **_ends(at, hertz),
        "min_hz": int(hertz.min()),
        "max_hz": int(hertz.max()),
    }


# *** counters


def summarize_counters(
    capture: Capture, counters: CountersInfo
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One read-out, and what is wrong with it; see `summarize_stream`."""
    head = {"file": counters.file, "exec_tag": counters.exec_tag}
    try:
        readout = capture.readout(counters)
    except CaptureError as error:
        return _unread(head, error)
    found = {**head, **summarize_readout(readout)}
    if not readout.fault:
        return found, []
    fault = asdict(Fault(len(readout.counters) and _end_of(readout), 0, readout.fault))
    return {**found, "fault": readout.fault}, [{"file": counters.file, **fault}]


def _end_of(readout: Readout) -> int:
    """The byte behind the last value that is there."""
    return 8 * sum(c.count for c in readout.counters)


def summarize_readout(readout: Readout) -> dict[str, Any]:
    """Counters and metrics; the first two metrics are the reference viewer's."""
    metrics = readout.metrics()
    rows: list[list[Any]] = [[c.name, c.sum] for c in readout.counters]
    rows += [[m.label, m.text] for m in metrics[:2] if m.value is not None]
    return {
        "counters": {c.name: _counter(c) for c in readout.counters},
        "reference_rows": rows,
        "derived": {m.key: {"value_percent": m.value, "text": m.text} for m in metrics[:2]},
        "derived_suggested": {m.key: m.value for m in metrics[2:]},
    }


def _counter(c: Counter) -> dict[str, Any]:
    xcc, _inst, se, _sa, _wgp = c.values.shape
    return {
        "sum": c.sum,
        "max": c.max,
        "count": c.count,
        "nonzero": c.nonzero,
        "max_at": c.max_at,
        "sum_by_se": c.along("se").tolist() if se > 1 else None,
        "sum_by_xcc": c.along("xcc").tolist() if xcc > 1 else None,
    }

"""What a viewer asks of a trace: plain data, columns of numbers, never more than fits a screen.

Times are cycles of the stream. A window is [start, end) cut into ``columns``; what is shorter than
a column is merged with its neighbours of the same lane and said to be several (``count``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tinylab.profiler.capture import LoadedProgram
from tinylab.profiler.sqtt.categories import CATEGORIES, categories, category_of
from tinylab.profiler.sqtt.events import FINISH, FOREIGN, Events, concatenate, is_instruction
from tinylab.profiler.sqtt.execution import UNITS, cycles_by_op
from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.stats import class_name, class_of, gaps, is_barrier, last_of_slots
from tinylab.profiler.sqtt.trace import DETAIL_CHUNKS, Part, Trace

Arrays = dict[str, Array]


@dataclass
class Detail:
    """All instructions and executions of some chunks. Executions name rows of ``events``.

    Events that are not ``own`` belong to other chunks: some were under way, some end latencies.
    """

    events: Events
    own: Array
    pcs: Array
    latency: Array
    stall: Array
    busy: Array
    exec_start: Array
    exec_end: Array
    exec_unit: Array
    exec_issue: Array
    exec_packet: Array
    ready_time: Array
    ready_mask: Array


def overview(trace: Trace) -> dict[str, Any]:
    """What there is to see, in numbers and, where there is nothing, in words."""
    waves = trace.waves()
    start, end = trace.span
    return {
        "family": trace.table.family,
        "done": trace.done,
        "progress": trace.progress,
        "bytes": trace.size_bytes,
        "packets": int(trace.counts.sum()),
        "end": trace.end_time,
        "span": [start, end],
        "waves": len(waves),
        "instructions": instruction_count(trace),
        "mapped": trace.mapped,
        "problems": trace.problems,
        "faults": [asdict(f) for f in trace.faults],
        "notes": notes(trace),
        "categories": list(CATEGORIES),
        "units": list(UNITS),
    }


def instruction_count(trace: Trace) -> int:
    """Instruction events of the traced waves and of other SIMDs."""
    ends = trace.tally.by_class.hits[256 + trace.table.kind[trace.table.end]]
    return int(trace.tally.by_class.hits.sum() - ends)


def notes(trace: Trace) -> list[str]:
    """Sentences for what is absent, and for what went wrong."""
    if not trace.size_bytes:
        return ["nothing was captured here"]
    out = [str(f) for f in trace.faults]
    if trace.done and not len(trace.waves()):
        out.append("no wave ran on this shader engine")
    elif trace.done and not instruction_count(trace):
        out.append("waves, but no instructions: they were traced on another engine or unit")
    elif instruction_count(trace) and trace.program is None:
        out.append(f"{trace.no_program}: instructions have no addresses")
    problems = trace.problems
    if not trace.done:  # what is open may be closed by what has not been read
        problems |= dict.fromkeys(("waves_unclosed", "executions_unmatched"), 0)
    return out + [words(problems[key]) for key, words in _PROBLEMS.items() if problems[key]]


def _counted(one: str, many: str) -> Callable[[int], str]:
    return lambda n: one if n == 1 else many.format(n=n)


_PROBLEMS = {
    "lost": _counted(
        "packets were lost once, as the hardware says",
        "packets were lost {n} times, as the hardware says",
    ),
    "registers_dropped": _counted(
        "register writes were dropped once, as the hardware says",
        "register writes were dropped {n} times, as the hardware says",
    ),
    "undecoded_nibbles": _counted(
        "1 half byte starts no packet and was skipped",
        "{n} half bytes start no packet and were skipped",
    ),
    "odd_timestamps": _counted(
        "1 timestamp is not absolute and was passed over",
        "{n} timestamps are not absolute and were passed over",
    ),
    "waves_unclosed": _counted("1 wave has no end", "{n} waves have no end"),
    "waves_unopened": _counted("1 end of a wave has no start", "{n} ends of waves have no start"),
    "executions_unmatched": _counted("1 execution has no issue", "{n} executions have no issue"),
}


# *** waves


def occupancy_window(trace: Trace, start: int, end: int, columns: int = 500) -> Arrays:
    """Living waves: mean and most in each column."""
    times, counts = trace.occupancy()
    edges = np.linspace(start, end, columns + 1)
    if not len(times):
        return {"mean": np.zeros(columns), "most": np.zeros(columns, np.int64)}
    at = np.clip(np.searchsorted(times, edges, "right") - 1, 0, len(times) - 1)
    inside = np.clip(edges, times[0], times[-1])
    total = trace.seen.areas.up_to(at) + counts[at] * np.maximum(inside - times[at], 0)
    mean = np.diff(total) / max((end - start) / columns, 1e-9)
    most = np.array([counts[a : b + 1].max() for a, b in pairwise(at)])
    return {"mean": mean, "most": most}


# *** instructions


def detail(trace: Trace, start: int, end: int) -> Detail:
    """Everything around a window; latencies are complete inside it."""
    return detail_of_chunks(trace, trace.chunks_of(start, end))


def detail_of_chunks(trace: Trace, numbers: range) -> Detail:
    """Some chunks, with what was under way as they begin, and what ends it after them."""
    parts = [trace.part(n) for n in numbers]
    before, early = _under_way(trace, numbers.start)
    inner = [p.events.take(slice(p.first, None)) for p in parts]
    events = concatenate(trace.table, [before, *inner])
    after, late = _following(trace, events, numbers.stop)
    own = np.zeros(len(events) + len(after), bool)
    own[len(before) : len(events)] = True
    events = concatenate(trace.table, [events, after])
    found = gaps(events)
    none = np.empty(0, np.int64)
    stamps, unit, issue = none, none, none
    if parts:
        stamps = np.concatenate([p.executions.time for p in parts])
        unit = np.concatenate([p.executions.unit for p in parts]).astype(np.int64)
        issue = np.concatenate([_issue_rows(events, p.events, p.executions.issue) for p in parts])
    first, last = _busy(trace, events, stamps, unit, issue)
    return Detail(
        events,
        own,
        np.concatenate([early, *(p.pcs[p.first :] for p in parts), late]),
        found.latency,
        found.stall,
        found.busy,
        first,
        last,
        unit,
        issue,
        np.concatenate([none, *(p.executions.packet for p in parts)]),
        np.concatenate([none, *(p.ready_time for p in parts)]),
        np.concatenate([none, *(p.ready_mask for p in parts)]),
    )


def _under_way(trace: Trace, chunk: int) -> tuple[Events, Array]:
    """Events of earlier chunks: the last of each slot, and those that still have to execute."""
    if chunk >= len(trace.states):
        return concatenate(trace.table, []), np.empty(0, np.int64)
    state = trace.states[chunk]
    waiting = state.pending.take(slice(None))
    # They are here only because executions name them.
    waiting.action = np.full(len(waiting), FOREIGN, np.uint8)
    parts, pcs = [waiting], [state.pending_pcs]
    if state.carry is not None and state.carry_numbers is not None:
        addresses = trace.program.addresses if trace.program else np.array([-1], np.int64)
        parts.append(state.carry)
        pcs.append(np.where(state.carry_numbers >= 0, addresses[state.carry_numbers], -1))
    every = concatenate(trace.table, parts)
    order = np.argsort(every.packet, kind="stable")
    return every.take(order), np.concatenate(pcs)[order]


def _following(trace: Trace, events: Events, chunk: int) -> tuple[Events, Array]:
    """The next event of each slot whose last one is still open, from later chunks."""
    last = last_of_slots(events)
    is_open = is_instruction(events)[last] & (events.action[last] != FINISH)
    wanted: dict[int, list[int]] = {}
    for slot in events.slot[last[is_open]].tolist():
        later = (n for n in range(chunk, len(trace.firsts)) if trace.firsts[n].time[slot] >= 0)
        number = next(later, None)
        if number is not None and trace.firsts[number].real[slot]:
            wanted.setdefault(number, []).append(slot)
    parts, pcs = [], [np.empty(0, np.int64)]
    for number in sorted(wanted):
        part = trace.part(number)
        rows = _first_of_slots(part, wanted[number])
        parts.append(part.events.take(rows))
        pcs.append(part.pcs[rows])
    return concatenate(trace.table, parts), np.concatenate(pcs)


def _first_of_slots(part: Part, slots: list[int]) -> Array:
    """The first event of some slots in a chunk, in stream order."""
    events = part.events
    own = np.flatnonzero(events.action[part.first :] != FOREIGN) + part.first
    found, first = np.unique(events.slot[own], return_index=True)
    return np.sort(own[first[np.isin(found, slots)]])


def _issue_rows(every: Events, own: Events, issue: Array) -> Array:
    """Rows of a part as rows of all: a packet that executes is one event, so its place tells."""
    if not len(every):
        return issue
    packets = own.packet[np.maximum(issue, 0)] if len(own) else np.zeros(len(issue), np.int64)
    rows = np.minimum(np.searchsorted(every.packet, packets), len(every) - 1)
    return np.where((issue >= 0) & (every.packet[rows] == packets), rows, -1)


def _busy(
    trace: Trace, events: Events, stamps: Array, unit: Array, issue: Array
) -> tuple[Array, Array]:
    """First cycle and end of each execution: some units stamp the first cycle, some the last."""
    op = events.op[np.maximum(issue, 0)] if len(events) else np.zeros(len(issue), np.int64)
    cycles = np.where(issue >= 0, cycles_by_op(trace.table)[np.where(issue >= 0, op, -1)], 1)
    late = np.isin(unit, [UNITS.index("VALU"), UNITS.index("VALU_ALT")])
    late &= ~np.isin(op, [c for c, n in trace.table.ops.items() if n.startswith("VALUT")])
    first = np.where(late, stamps - cycles, stamps)
    return first, first + cycles


def density(trace: Trace, start: int, end: int) -> Arrays:
    """Events of each category, a row a chunk: what a wide window shows."""
    chunks = trace.chunks_of(start, end)
    clocks = [s.cursor.clock for s in trace.states] + [trace.end_time]
    activity = trace.activity[chunks.start : chunks.stop]
    rows = np.stack(activity) if activity else np.zeros((0, len(categories(trace.table))))
    groups = categories(trace.table)
    columns = [rows[:, groups == c].sum(axis=1) for c in range(len(CATEGORIES))]
    return {
        "start": np.array(clocks[chunks.start : chunks.stop], np.int64),
        "end": np.array(clocks[chunks.start + 1 : chunks.stop + 1], np.int64),
        "counts": np.stack(columns, axis=1).astype(np.int64),
    }


def barrier_waits(trace: Trace, start: int, end: int) -> Arrays:
    """Waits at barriers in a window: slot, start, end. A ready slot ends its wait early."""
    found = detail(trace, start, end)
    events = found.events
    rows, ends = barrier_ends(found)
    inside = (events.time[rows] < end) & (events.time[rows] + found.latency[rows] > start)
    rows = rows[inside]
    return {"slot": events.slot[rows], "start": events.time[rows], "end": ends[inside]}


def barrier_ends(found: Detail) -> tuple[Array, Array]:
    """Rows of the events at barriers whose wave went on, and when it could: ready, or at its next.

    A slot that becomes ready (WAVERDY) while it waits ends its wait.
    """
    events = found.events
    rows = np.flatnonzero(is_barrier(events) & (found.latency >= 0))
    ends = events.time[rows] + found.latency[rows]
    for slot in np.unique(events.slot[rows]).tolist():
        mine = np.flatnonzero(events.slot[rows] == slot)
        ready = found.ready_time[(found.ready_mask >> slot & 1) == 1]
        if not len(ready):
            continue
        after = np.searchsorted(ready, events.time[rows[mine]], "right")
        first = ready[np.minimum(after, len(ready) - 1)]
        ready_first = (after < len(ready)) & (first < ends[mine])
        ends[mine] = np.where(ready_first, first, ends[mine])
    return rows, ends


# *** tables


def instruction_table(trace: Trace, loaded: LoadedProgram | None = None) -> list[dict[str, Any]]:
    """A row an instruction of the program: address, text, hits, latencies, stall, share of time.

    "time" is what waves spent at it (see stats), and its "share" the part of all time.
    """
    program = trace.program
    if program is None:
        return []
    total = int(trace.tally.by_instruction.time.sum()) or 1
    rows = []
    for number, instruction in enumerate(program.instructions):
        figures = trace.tally.by_instruction.row(number)
        text = loaded.line(number) if loaded else instruction.hex
        head = {"number": number, "pc": instruction.pc, "size": instruction.size, "text": text}
        target = {"target": instruction.target} if instruction.target >= 0 else {}
        rows.append({**head, **target, **figures, "share": figures["time"] / total})
    return rows


def class_table(trace: Trace) -> list[dict[str, Any]]:
    """A row a class of instructions that occurs, most total latency first."""
    sums = trace.tally.by_class
    rows = []
    for number in np.flatnonzero(sums.hits):
        name = class_name(trace.table, int(number))
        row = {"class": name, "category": category_of(name), **sums.row(int(number))}
        rows.append(row)
    return sorted(rows, key=lambda r: (-int(r["total"]), str(r["class"])))


def selection(trace: Trace, start: int, end: int) -> dict[str, Any]:
    """Statistics of a stretch of time: waves, occupancy, classes, instructions by number."""
    waves = trace.waves()
    ends = np.where(waves.closed, waves.end, trace.end_time)
    touching = (waves.start < end) & (ends > start)
    lived = np.minimum(ends, end)[touching] - np.maximum(waves.start, start)[touching]
    out: dict[str, Any] = {
        "cycles": end - start,
        "waves": int(touching.sum()),
        "waves_started": int(((waves.start >= start) & (waves.start < end)).sum()),
        "mean_occupancy": int(lived.sum()) / max(end - start, 1),
    }
    if len(trace.chunks_of(start, end)) > DETAIL_CHUNKS:
        note = "too wide for latencies: hits only"
        return {**out, "classes": _hits_by_class(trace, start, end), "note": note}
    found = detail(trace, start, end)
    return {**out, "classes": _sums_by_class(trace, found, _own_rows(found, start, end))}


def _own_rows(found: Detail, start: int, end: int) -> Array:
    """Instructions of the traced waves in a stretch of time."""
    events = found.events
    own = found.own & is_instruction(events) & (events.action != FOREIGN)
    return np.flatnonzero(own & (events.time >= start) & (events.time < end))


def _hits_by_class(trace: Trace, start: int, end: int) -> list[dict[str, Any]]:
    """How many of each class a wide stretch holds: chunks inside it whole, the two at its ends cut.

    Starts of waves are no instructions, and other SIMDs have no latencies to compare with.
    """
    chunks = trace.chunks_of(start, end)
    hits = np.sum(trace.activity[chunks.start + 1 : chunks.stop - 1], axis=0)
    for number in (chunks.start, chunks.stop - 1):
        found = detail_of_chunks(trace, range(number, number + 1))
        own = _own_rows(found, start, end)
        hits = hits + np.bincount(class_of(found.events)[own], minlength=len(hits))
    hits[256 + trace.table.kind[trace.table.start]] = 0
    hits[_foreign_classes(trace)] = 0
    names = {int(n): class_name(trace.table, int(n)) for n in np.flatnonzero(hits)}
    rows = [{"class": name, "category": category_of(name), "hits": int(hits[n])}
            for n, name in names.items()]  # fmt: skip
    return sorted(rows, key=lambda r: (-int(r["hits"]), str(r["class"])))


def _foreign_classes(trace: Trace) -> Array:
    """Classes of other SIMDs."""
    return np.flatnonzero(categories(trace.table) == CATEGORIES.index("other SIMD"))


def _sums_by_class(trace: Trace, found: Detail, rows: Array) -> list[dict[str, Any]]:
    kind = class_of(found.events)[rows]
    latency = np.maximum(found.latency[rows], 0)
    out = []
    for number in np.unique(kind):
        mine = kind == number
        name = class_name(trace.table, int(number))
        figures = {
            "hits": int(mine.sum()),
            "total": int(latency[mine].sum()),
            "longest": int(latency[mine].max()),
            "stall": int(found.stall[rows][mine].sum()),
        }
        out.append({"class": name, "category": category_of(name), **figures})
    return sorted(out, key=lambda r: (-int(r["total"]), str(r["class"])))


# *** comparison


def compare(
    first: Trace, second: Trace, loaded: LoadedProgram | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Two traces side by side: instructions if they ran one program, classes in any case.

    Each row has the figures of both and ``change``, second over first of the time spent at it.
    """
    a, b = class_table(first), class_table(second)
    out = {"classes": _beside(a, b, "class"), "instructions": []}
    if _same_program(first, second):
        out["instructions"] = _beside(
            instruction_table(first, loaded), instruction_table(second, loaded), "number"
        )
    return out


def _same_program(first: Trace, second: Trace) -> bool:
    a, b = first.program, second.program
    if a is None or b is None or len(a.instructions) != len(b.instructions):
        return False
    pairs = zip(a.instructions, b.instructions, strict=True)
    return all(x.raw == y.raw for x, y in pairs)


def _beside(
    first: list[dict[str, Any]], second: list[dict[str, Any]], key: str
) -> list[dict[str, Any]]:
    a, b = {r[key]: r for r in first}, {r[key]: r for r in second}
    figures = ("hits", "total", "mean", "longest", "stall", "time")
    rows = []
    for name in dict.fromkeys((*a, *b)):
        x, y = a.get(name), b.get(name)
        some = x or y or {}
        row = {k: v for k, v in some.items() if k not in (*figures, "share")}
        row["first"] = {k: x[k] for k in figures} if x else None
        row["second"] = {k: y[k] for k in figures} if y else None
        row["change"] = y["time"] / x["time"] if x and y and x["time"] else None
        rows.append(row)
    return rows

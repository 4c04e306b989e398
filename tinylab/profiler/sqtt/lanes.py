"""A stream as lanes: one for each wave slot of the traced unit, one for each execution unit.

Every execution names the issue that it completes, as "<lane>-<place in that lane>"; every event of
a wave names its program counter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tinylab.profiler.code.sizes import IU4, MATRIX
from tinylab.profiler.sqtt.events import Events, is_instruction
from tinylab.profiler.sqtt.execution import NO_UNIT, UNITS, units_of
from tinylab.profiler.sqtt.packets import cycles_of
from tinylab.profiler.sqtt.trace import Part, Trace
from tinylab.profiler.sqtt.walk import Program

_FIRST_CYCLE = ("SALU", "TFU", "VMEM", "LDS")  # units whose stamp is the first cycle, not the last
_BARRIERS = ("BARRIER", "BARRIER_SIGNAL")


class LaneEvent(NamedTuple):
    """One bar: name, first cycle, cycle after the last, and what it refers to."""

    name: str
    start: int
    end: int
    ref: int | str | None


def event_name(events: Events, row: int, pc: int, program: Program | None) -> str:
    """What a lane calls an event; RDNA3's matrix instructions are told by their encoding."""
    if events.op[row] >= 0:
        return events.op_name(row)
    name = events.packet_name(row).removesuffix("_MASK")
    if name == "VALUINST" and program is not None and pc >= 0:
        number = program.at(pc)
        instruction = program.instructions[number] if number is not None else None
        if instruction and instruction.flags & MATRIX:
            return "WMMA_VALU_16" if instruction.raw[2] & 0x7F == IU4 else "WMMA_VALU_32"
    return name


def viewer_lanes(trace: Trace) -> dict[str, list[LaneEvent]]:
    """All lanes of an indexed stream, by name, in order of their first event."""
    builder = _Lanes(trace)
    for number in range(len(trace.states)):
        builder.add(trace.part(number))
    return builder.lanes


class _Lanes:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lanes: dict[str, list[LaneEvent]] = {}
        self.pending: list[tuple[str, str]] = []  # name and reference of rows of earlier chunks
        self.barriers: dict[int, tuple[str, int]] = {}  # slot -> lane, place of its open barrier

    def add(self, part: Part) -> None:
        """The events of one chunk, in stream order."""
        if part.first != len(self.pending):
            self.pending = [("", "")] * part.first
        issued = self.pending + [("", "")] * (len(part.events) - part.first)
        for _position, act, row in sorted(self._actions(part), key=lambda a: a[:2]):
            if act == 0:
                self._ready(int(part.ready_time[row]), int(part.ready_mask[row]))
            elif act == 1:
                issued[row] = self._issue(part, row)
            else:
                self._execute(part, row, issued)
        self._keep(part, issued)

    def _actions(self, part: Part) -> Iterator[tuple[Any, int, int]]:
        real = is_instruction(part.events)
        for row in range(part.first, len(part.events)):
            if real[row]:
                yield (int(part.events.packet[row]), row), 1, row
        for row in range(len(part.executions.time)):
            yield (int(part.executions.packet[row]), row), 2, row
        for row in range(len(part.ready_time)):
            yield (int(part.ready_packet[row]), row), 0, row

    def _issue(self, part: Part, row: int) -> tuple[str, str]:
        events, pc = part.events, int(part.pcs[row])
        slot, start = int(events.slot[row]), int(events.time[row])
        name = event_name(events, row, pc, self.trace.program)
        lane = f"WAVE:{slot}"
        self._close_barrier(slot, start)
        bars = self.lanes.setdefault(lane, [])
        if name in _BARRIERS:
            self.barriers[slot] = (lane, len(bars))
        bars.append(LaneEvent(name, start, start + 1, pc if pc >= 0 else None))
        return name, f"{lane}-{len(bars) - 1}"

    def _ready(self, stamp: int, mask: int) -> None:
        for slot in [s for s in self.barriers if mask >> s & 1]:
            lane, _place = self.barriers[slot]
            self._close_barrier(slot, stamp)
            self.lanes[lane].append(LaneEvent("WAVERDY", stamp, stamp + 1, None))

    def _close_barrier(self, slot: int, stamp: int) -> None:
        if slot in self.barriers:
            lane, place = self.barriers.pop(slot)
            self.lanes[lane][place] = self.lanes[lane][place]._replace(end=stamp)

    def _execute(self, part: Part, row: int, issued: list[tuple[str, str]]) -> None:
        unit = UNITS[int(part.executions.unit[row])]
        issue, stamp = int(part.executions.issue[row]), int(part.executions.time[row])
        name, ref = issued[issue] if issue >= 0 else ("", "")
        lane, shown = execution_lane(unit, name, self.trace.table.family)
        cycles = cycles_of(name)
        first = any(word in lane.split()[-1] for word in _FIRST_CYCLE)
        start = stamp if first else stamp - cycles
        bar = LaneEvent(shown, start, start + cycles, ref or None)
        self.lanes.setdefault(lane, []).append(bar)

    def _keep(self, part: Part, issued: list[tuple[str, str]]) -> None:
        """Names of what the next chunk still has to execute."""
        taken = {int(i) for i in part.executions.issue if i >= 0}
        waits = units_of(part.events) != NO_UNIT
        self.pending = [n for i, n in enumerate(issued) if waits[i] and i not in taken]


def execution_lane(unit: str, name: str, family: str) -> tuple[str, str]:
    """(lane, bar's name) of an execution: "VALU", "VALUT_4" -> "ALUEXEC:0 TFU", "VALU"."""
    base = unit.removesuffix("_ALT")
    if base in ("VMEM", "LDS"):
        return f"VMEMEXEC:0 {base}", unit
    if name.startswith("VALUT"):
        return "ALUEXEC:0 TFU", unit
    if name.startswith("WMMA"):
        return f"ALUEXEC:0 {'WMMA' if family == 'rdna4' else base}", f"{unit}_WMMA"
    return f"ALUEXEC:0 {base}", unit

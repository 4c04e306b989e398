"""Execution packets matched with the issues they complete: first in, first out, a queue a unit.

INST and VALUINST mark issue, ALUEXEC and VMEMEXEC mark execution and name a unit only. A packet
that finds its queue empty, as in a stream that lost some, belongs to no issue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinylab.profiler.sqtt.events import Events
from tinylab.profiler.sqtt.native import Array, Packets, field_of
from tinylab.profiler.sqtt.packets import ALU_SOURCES, MEM_UNITS, Table, cycles_of, unit_of

UNITS = ("SALU", "VALU", "VMEM", "VMEM_ALT", "LDS", "LDS_ALT", "SALU_ALT", "VALU_ALT")
NO_UNIT = 255
NO_ISSUE = -1


@dataclass
class Executions:
    """What units executed, as columns in stream order."""

    time: Array  # int64, the packet's stamp
    unit: Array  # uint8, index into UNITS
    issue: Array  # int64, row of the issuing event, -1 if there is none
    packet: Array  # int64, first nibble


def units_of(events: Events) -> Array:
    """The queue that each event enters, NO_UNIT for those that execute nowhere."""
    table = events.table
    by_op = np.full(257, NO_UNIT, np.uint8)
    for code, name in table.ops.items():
        unit = unit_of(name)
        if unit in UNITS:
            by_op[code] = UNITS.index(unit)
    out = by_op[events.op]  # -1 asks for the last entry
    return np.where(events.kind == table.kind.get("VALUINST", NO_UNIT), UNITS.index("VALU"), out)


def executions(packets: Packets) -> tuple[Array, Array]:
    """(packet number, unit) of all execution packets; VALU_SALU makes two."""
    if not packets.table.rdna:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    mem = packets.where("VMEMEXEC")
    mem_units = np.array([UNITS.index(u) for u in MEM_UNITS], np.uint8)
    alu = packets.where("ALUEXEC")
    source = field_of(packets.raw[alu], 6, 2)
    rows = [mem]
    units = [mem_units[field_of(packets.raw[mem], 6, 2).astype(np.int64)]]
    for unit in ("VALU", "SALU"):
        names = [i for i, name in enumerate(ALU_SOURCES) if unit in name.split("_")]
        found = alu[np.isin(source, names)]
        rows.append(found)
        units.append(np.full(len(found), UNITS.index(unit), np.uint8))
    every, unit_column = np.concatenate(rows), np.concatenate(units)
    order = np.argsort(every, kind="stable")
    return every[order], unit_column[order]


def match(issued: Array, executed: Array) -> Array:
    """For one unit: which issue each execution takes, -1 where the queue is empty.

    Both are stream positions, rising.  issued 1 2 9, executed 3 4 5 10  ->  0 1 -1 2

    If d executions so far found nothing, execution k takes issue k - d; and k found nothing if
    fewer than k + 1 - d issues came before it. So d is a running maximum, and there is no loop.
    """
    number = np.arange(len(executed))
    before = np.searchsorted(issued, executed)
    if not len(number):
        return number
    missed = np.maximum.accumulate(np.maximum(number + 1 - before, 0))
    found = np.diff(missed, prepend=0) == 0
    return np.where(found, number - missed, NO_ISSUE)


def match_reference(issued: Sequence[int], executed: Sequence[int]) -> list[int]:
    """The same with a queue."""
    queue: deque[int] = deque()
    out, next_issue = [], 0
    for position in executed:
        while next_issue < len(issued) and issued[next_issue] < position:
            queue.append(next_issue)
            next_issue += 1
        out.append(queue.popleft() if queue else NO_ISSUE)
    return out


def match_all(packets: Packets, events: Events) -> Executions:
    """All executions of a stretch with the rows of ``events`` that issued them."""
    rows, unit = executions(packets)
    position = packets.position[rows]
    issue = np.full(len(rows), NO_ISSUE, np.int64)
    units = units_of(events)
    for number in range(len(UNITS)):
        mine = np.flatnonzero(unit == number)
        if len(mine):
            queued = np.flatnonzero(units == number)
            taken = match(events.packet[queued], position[mine])
            issue[mine] = np.where(taken >= 0, queued[taken] if len(queued) else NO_ISSUE, NO_ISSUE)
    return Executions(packets.time[rows], unit, issue, position)


def cycles_by_op(table: Table) -> Array:
    """Cycles that each class keeps its unit, by code; the last entry is for packets without one.

    CDNA's names say nothing of time, and its clock moves by four cycles.
    """
    out = np.full(257, 1 if table.rdna else 4, np.int64)
    for code, name in table.ops.items() if table.rdna else ():
        out[code] = cycles_of(name)
    return out

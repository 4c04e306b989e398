"""From packets to instruction events: one row for each wave and instruction, in stream order.

RDNA traces one SIMD of one workgroup processor, CDNA one compute unit; waves elsewhere have starts
and ends only. A packet may stand for several instructions: IMMEDIATE_MASK and ISSUE name the wave
slots that retired one in the same cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tinylab.profiler.sqtt.native import Array, Packets, field_of
from tinylab.profiler.sqtt.packets import Table

# What an event does to its slot's program counter; the compiled walk knows these numbers.
START, STEP, STEP_PLAIN, TAKEN, NOT_TAKEN, FOREIGN, FINISH, SET = range(8)
NO_OP = -1
SLOTS = 64  # CDNA: SIMD * 16 + slot; RDNA: slot

RDNA_KINDS = ("VALUINST", "IMMEDIATE", "INST", "IMMEDIATE_MASK", "WAVESTART", "WAVEEND")
CDNA_KINDS = ("INST", "ISSUE", "INST_PC", "WAVE_START", "WAVE_END")


@dataclass
class Events:
    """Instruction events as columns."""

    table: Table
    time: Array  # int64
    kind: Array  # uint8, of the packet
    op: Array  # int16, code of an INST, -1 for others
    slot: Array  # uint8, see SLOTS
    action: Array  # uint8
    arg: Array  # int64, program counter that START and SET give
    packet: Array  # int64, first nibble of the packet

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: Array | slice) -> Events:
        """Some of the rows."""
        columns = [getattr(self, f.name)[rows] for f in fields(self)[1:]]
        return Events(self.table, *columns)

    def packet_name(self, row: int) -> str:
        """Of which packet an event is."""
        return self.table.kinds[int(self.kind[row])]

    def op_name(self, row: int) -> str:
        """Its instruction class; VALU and IMMEDIATE for packets that say no more."""
        op = int(self.op[row])
        return self.table.op_name(op) if op >= 0 else PACKET_OPS.get(self.packet_name(row), "")


PACKET_OPS = {
    "VALUINST": "VALU",
    "IMMEDIATE": "IMMEDIATE",
    "IMMEDIATE_MASK": "IMMEDIATE",
    "ISSUE": "IMMEDIATE",
    "WAVEEND": "WAVEEND",
}


def concatenate(table: Table, parts: Sequence[Events]) -> Events:
    """Rows of several, one after the other."""
    names = [f.name for f in fields(Events)[1:]]
    if not parts:
        types = (np.int64, np.uint8, np.int16, np.uint8, np.uint8, np.int64, np.int64)
        return Events(table, *(np.empty(0, t) for t in types))
    return Events(table, *(np.concatenate([getattr(p, n) for p in parts]) for n in names))


def events_of(packets: Packets, entries: Array, load_base: int = 0) -> Events:
    """Instruction events, and starts and ends of waves of the traced unit.

    Args:
        packets: at least those of RDNA_KINDS or CDNA_KINDS.
        entries: program counter at which a wave that starts now begins, one a packet.
        load_base: GPU address of the loaded image, for packets with whole addresses.
    """
    find = _rdna if packets.table.rdna else _cdna
    rows, slot, action, op, arg = find(packets, entries, load_base)
    return Events(
        packets.table,
        packets.time[rows],
        packets.kind[rows],
        op,
        slot.astype(np.uint8),
        action,
        arg,
        packets.position[rows],
    )


def _field(packets: Packets, rows: Array, kind: str, name: str) -> Any:
    bits = packets.table.by_name[kind].fields[name]
    return field_of(packets.raw[rows], bits.lo, bits.width).astype(np.int64)


def _traced(packets: Packets, kind: str) -> Array:
    """Starts or ends of waves in the traced unit: array 0, unit 0 (and SIMD 0 on RDNA)."""
    rows = packets.where(kind)
    array, unit, simd, _slot = packets.table.place
    inside = (_field(packets, rows, kind, array) == 0) & (_field(packets, rows, kind, unit) == 0)
    if packets.table.rdna:
        inside &= _field(packets, rows, kind, simd) == 0
    found: Array = rows[inside]
    return found


def _masked(packets: Packets, rows: Array, states: Array) -> tuple[Array, Array]:
    """(packet, slot) of all set entries of a matrix, slots rising within a packet."""
    packet, slot = np.nonzero(states)
    return rows[packet], slot.astype(np.int64)


class _Parts:
    """Rows of several kinds of packet, put into stream order at the end."""

    def __init__(self, packets: Packets) -> None:
        self.packets = packets
        self.rows: list[Array] = []
        self.columns: list[tuple[Array, ...]] = []

    def add(self, rows: Array, slot: Array, action: Any, op: Any = NO_OP, arg: Any = -1) -> None:
        n = len(rows)
        self.rows.append(rows)
        self.columns.append(
            (
                slot,
                np.broadcast_to(np.asarray(action, np.uint8), n),
                np.broadcast_to(np.asarray(op, np.int16), n),
                np.broadcast_to(np.asarray(arg, np.int64), n),
            )
        )

    def done(self) -> tuple[Array, ...]:
        rows = np.concatenate(self.rows)
        order = np.argsort(rows, kind="stable")
        columns = (np.concatenate(c)[order] for c in zip(*self.columns, strict=True))
        return (rows[order], *columns)


def _rdna(packets: Packets, entries: Array, _load_base: int) -> tuple[Array, ...]:
    parts = _Parts(packets)
    for kind in ("VALUINST", "IMMEDIATE"):
        rows = packets.where(kind)
        parts.add(rows, _field(packets, rows, kind, "wave"), STEP)
    rows = packets.where("INST")
    op = _field(packets, rows, "INST", "op")
    parts.add(rows, _field(packets, rows, "INST", "wave"), _actions(packets.table)[op], op)
    rows = packets.where("IMMEDIATE_MASK")
    mask = _field(packets, rows, "IMMEDIATE_MASK", "mask")
    parts.add(*_masked(packets, rows, mask[:, None] >> np.arange(16) & 1), STEP_PLAIN)
    rows = _traced(packets, "WAVESTART")
    parts.add(rows, _field(packets, rows, "WAVESTART", "wave"), START, arg=entries[rows])
    rows = _traced(packets, "WAVEEND")
    parts.add(rows, _field(packets, rows, "WAVEEND", "wave"), FINISH)
    return parts.done()


def _cdna(packets: Packets, entries: Array, load_base: int) -> tuple[Array, ...]:
    parts = _Parts(packets)
    rows = packets.where("INST")
    op = _field(packets, rows, "INST", "op")
    parts.add(rows, _slot(packets, rows, "INST"), _actions(packets.table)[op], op)
    rows = packets.where("ISSUE")
    raw = packets.raw[rows].astype(np.int64)
    states = (raw[:, None] >> (8 + 2 * np.arange(10))) & 3
    rows, slot = _masked(packets, rows, states == 3)
    parts.add(rows, 16 * _field(packets, rows, "ISSUE", "simd") + slot, STEP)
    rows = packets.where("INST_PC")
    address = _field(packets, rows, "INST_PC", "pc") - load_base
    parts.add(rows, _slot(packets, rows, "INST_PC"), SET, arg=address)
    rows = _traced(packets, "WAVE_START")
    parts.add(rows, _slot(packets, rows, "WAVE_START"), START, arg=entries[rows])
    rows = _traced(packets, "WAVE_END")
    parts.add(rows, _slot(packets, rows, "WAVE_END"), SET)
    return parts.done()


def _slot(packets: Packets, rows: Array, kind: str) -> Any:
    return 16 * _field(packets, rows, kind, "simd") + _field(packets, rows, kind, "wave")


def _actions(table: Table) -> Array:
    """What each class does to a program counter, by its code."""
    out = np.full(256, STEP, np.uint8)
    for code, name in table.ops.items():
        if table.rdna and name.startswith("OTHER_"):
            out[code] = FOREIGN
    for name, action in (
        ("JUMP", TAKEN),
        ("CALL", TAKEN),
        ("JUMP_NO", NOT_TAKEN),
        ("NEXT", NOT_TAKEN),
    ):
        if name in table.op_code:
            out[table.op_code[name]] = action
    return out


def is_instruction(events: Events) -> Array:
    """Which rows are instructions of the traced waves or of other SIMDs; starts are not.

    On RDNA the end of a wave is the trace of its last instruction.
    """
    return ~np.isin(events.action, (START, SET))

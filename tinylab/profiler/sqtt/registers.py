"""What the command processor wrote: launch facts, from the register packets of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinylab.profiler.sqtt.native import Array, Packets, field_of

WINDOW = 0x2E00  # dword address of the compute registers
THREADS_XYZ = (0x2E07, 0x2E08, 0x2E09)
PROGRAM_LOW, PROGRAM_HIGH = 0x2E0C, 0x2E0D
USERDATA = (0xC342, 0xC343)
_MARKER_WORDS = 9
NAMES = {
    0x2E00: "COMPUTE_DISPATCH_INITIATOR",
    0x2E07: "COMPUTE_NUM_THREAD_X",
    0x2E08: "COMPUTE_NUM_THREAD_Y",
    0x2E09: "COMPUTE_NUM_THREAD_Z",
    0x2E0B: "COMPUTE_PERFCOUNT_ENABLE",
    0x2E0C: "COMPUTE_PGM_LO",
    0x2E0D: "COMPUTE_PGM_HI",
    0x2E0E: "COMPUTE_DISPATCH_PKT_ADDR_LO",
    0x2E0F: "COMPUTE_DISPATCH_PKT_ADDR_HI",
    0x2E10: "COMPUTE_DISPATCH_SCRATCH_BASE_LO",
    0x2E11: "COMPUTE_DISPATCH_SCRATCH_BASE_HI",
    0x2E12: "COMPUTE_PGM_RSRC1",
    0x2E13: "COMPUTE_PGM_RSRC2",
    0x2E15: "COMPUTE_RESOURCE_LIMITS",
    0x2E16: "COMPUTE_STATIC_THREAD_MGMT_SE0",
    0x2E17: "COMPUTE_STATIC_THREAD_MGMT_SE1",
    0x2E18: "COMPUTE_TMPRING_SIZE",
    0x2E19: "COMPUTE_STATIC_THREAD_MGMT_SE2",
    0x2E1A: "COMPUTE_STATIC_THREAD_MGMT_SE3",
    0x2E1E: "COMPUTE_THREAD_TRACE_ENABLE",
    0x2E22: "COMPUTE_REQ_CTRL",
    0x2E28: "COMPUTE_PGM_RSRC3",
    0x2E29: "COMPUTE_DDID_INDEX",
    0x2E2A: "COMPUTE_SHADER_CHKSUM",
    0x2E2D: "COMPUTE_PGM_RSRC3 or STATIC_THREAD_MGMT_SE6",
    **{0x2E40 + i: f"COMPUTE_USER_DATA_{i}" for i in range(16)},
    0x2E7E: "COMPUTE_DISPATCH_END",
    0x2E7F: "event code",
    0x2EFF: "event code",
    0xC200: "GRBM_GFX_INDEX",
    0xC342: "SQ_THREAD_TRACE_USERDATA_2",
    0xC343: "SQ_THREAD_TRACE_USERDATA_3",
}
EVENT_CODES = {
    7: "CS_PARTIAL_FLUSH",
    20: "CACHE_FLUSH_AND_INV_TS",
    51: "THREAD_TRACE_START",
    52: "THREAD_TRACE_STOP",
    53: "THREAD_TRACE_MARKER",
    54: "THREAD_TRACE_FLUSH",
    55: "THREAD_TRACE_FINISH",
}
REG_KINDS = ("REG", "REG_CS", "REG_CSPRIV")


def register_of(kind: str, fields: dict[str, int]) -> tuple[int, int]:
    """(dword address, value) of one register packet of any family."""
    if "subop" in fields:
        window = WINDOW if fields["hi_byte"] & 0x80 else 0
        return window + fields["subop"], fields["val32"]
    return fields["addr"] + (0 if kind == "REG" else WINDOW), fields["data"]


def writes(packets: Packets) -> tuple[Array, Array, Array]:
    """(packet number, dword address, value) of all register writes, in stream order."""
    kinds = [k for k in REG_KINDS if k in packets.table.kind]
    rows = packets.where(*kinds)
    raw = packets.raw[rows]
    if packets.table.rdna:
        address = field_of(raw, 16, 16) + np.where(field_of(raw, 15, 1), WINDOW, 0).astype(
            np.uint64
        )
        return rows, address.astype(np.int64), field_of(raw, 32, 32).astype(np.int64)
    whole = packets.kind[rows] == packets.table.kind["REG"]
    address = np.where(whole, field_of(raw, 16, 16), field_of(raw, 9, 7) + np.uint64(WINDOW))
    value = np.where(whole, field_of(raw, 32, 32), field_of(raw, 16, 32))
    return rows, address.astype(np.int64), value.astype(np.int64)


@dataclass
class Registers:
    """The last value of each register, and the words of the capture software's markers."""

    values: dict[int, int] = field(default_factory=dict)
    words: list[int] = field(default_factory=list)

    def add(self, packets: Packets) -> Array:
        """More packets; gives the kernel's entry address in force at each of them, 0 if unknown."""
        rows, address, value = writes(packets)
        entries = np.empty(len(packets), np.int64)
        before, at = self.entry_address or 0, 0
        for row, register, written in _relevant(rows, address, value):
            self.values[register] = written
            if register in (PROGRAM_LOW, PROGRAM_HIGH):
                entries[at:row] = before
                before, at = self.entry_address or 0, row
            elif register in USERDATA:
                self.words.append(written)
                del self.words[: -4 * _MARKER_WORDS]
        entries[at:] = before
        return entries

    @property
    def entry_address(self) -> int | None:
        """GPU address of the kernel's first instruction."""
        if PROGRAM_LOW not in self.values or PROGRAM_HIGH not in self.values:
            return None
        return (self.values[PROGRAM_HIGH] & 0xFF) << 40 | self.values[PROGRAM_LOW] << 8

    def dispatch(
        self, load_base: int | None = None, code_hash: str | None = None
    ) -> dict[str, Any]:
        """Launch facts, None for each that the stream does not tell."""
        words = self._marker()
        entry = self.entry_address
        hashed = f"{words[2]:08x}{words[1]:08x}" if words else None
        sizes = [self.values.get(r) for r in THREADS_XYZ]
        return {
            "workgroup": None if None in sizes else sizes,
            "entry_address": entry,
            "code_object_hash": hashed,
            "grid_workgroups": words[6:9] if words else None,
            "userdata_words": words,
            "entry_pc": None if entry is None or load_base is None else entry - load_base,
            "hash_matches_program": None if not (hashed and code_hash) else hashed == code_hash,
        }

    def _marker(self) -> list[int] | None:
        """The words of the last whole marker: a bind (low digit C), then an event."""
        for start in range(len(self.words) - _MARKER_WORDS, -1, -1):
            if self.words[start] & 15 == 0xC and self.words[start + 3] == 0x80000000:
                return self.words[start : start + _MARKER_WORDS]
        return None


def _relevant(rows: Array, address: Array, value: Array) -> Iterator[tuple[int, int, int]]:
    """Writes of the registers that say something about the launch."""
    wanted = np.isin(address, (*THREADS_XYZ, PROGRAM_LOW, PROGRAM_HIGH, *USERDATA))
    picked = (a[wanted].tolist() for a in (rows, address, value))
    yield from zip(*picked, strict=True)

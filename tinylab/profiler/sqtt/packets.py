"""What a packet table is: types found by their low byte, a size, a time field, named bit fields.

A stream is a string of nibbles, the low half of each byte first. The low eight bits at a position
choose the type; the type fixes the size; the next packet follows. One table a chip family stands
in rdna3.py, rdna4.py and cdna.py; everything else here is worked out from those.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MASK64 = (1 << 64) - 1
WINDOW_NIBBLES = 16  # a packet is decoded only while this many nibbles are left
CLOCK_LIMIT = 1 << 53  # no recording is that long; a clock beyond it is a corrupt stream
NO_MATCH = "UNKNOWN"  # a nibble that starts no packet; counted apart, skipped like filler


class Bits(NamedTuple):
    """Bits lo to hi of a packet, both counted."""

    lo: int
    hi: int

    @property
    def width(self) -> int:
        """How many bits."""
        return self.hi - self.lo + 1

    def of(self, raw: int) -> int:
        """Their value in a packet: Bits(4, 6).of(0x25) -> 2."""
        return (raw >> self.lo) & ((1 << self.width) - 1)

    def put(self, value: int) -> int:
        """A packet with these bits set, the rest zero.

        Raises: OverflowError if the value does not fit.
        """
        if not 0 <= value < 1 << self.width:
            raise OverflowError(f"{value} does not fit in {self.width} bits")
        return value << self.lo


class Advance(NamedTuple):
    """How a packet moves the clock before it is stamped: + scale * field + bias cycles."""

    bits: Bits
    scale: int = 1
    bias: int = 0


@dataclass(frozen=True)
class PacketType:
    """One row of a table.

    ``special`` names a clock rule of its own: "mark" (no advance when it is a real-time marker),
    "timestamp" (sets the clock), "header" (found at position 0 only).
    """

    name: str
    mask: int  # of the low eight bits
    value: int
    nibbles: int
    time: Advance | None = None
    fields: Mapping[str, Bits] = field(default_factory=dict)
    special: str = ""

    def values(self, raw: int) -> dict[str, int]:
        """All fields of a packet by name."""
        return {name: bits.of(raw) for name, bits in self.fields.items()}


def packet(
    name: str,
    pattern: str,
    bits: int,
    time: str = "",
    fields: str = "",
    special: str = "",
    scale: int = 1,
    bias: int = 0,
) -> PacketType:
    """A type as a line of a table: "IMMEDIATE", "----1101", 12, "6:4", "11:7 wave".

    The pattern is the low byte, highest bit first, "-" for any.
    """
    mask = int("".join("0" if c == "-" else "1" for c in pattern), 2)
    value = int(pattern.replace("-", "0"), 2)
    advance = Advance(_bits(time), scale, bias) if time else None
    named = dict(_named(part) for part in fields.split(",")) if fields else {}
    return PacketType(name, mask, value, bits // 4, advance, named, special)


def _bits(text: str) -> Bits:
    hi, _, lo = text.partition(":")
    return Bits(int(lo or hi), int(hi))


def _named(text: str) -> tuple[str, Bits]:
    bits, name = text.split()
    return name, _bits(bits)


@dataclass(frozen=True)
class Table:
    """The packets and instruction classes of one chip family.

    Attributes:
        family: "rdna3", "rdna4" or "cdna".
        layout: what summaries call it: 3, 4 or "cdna".
        packets: types; rows are tried in order, so that a header comes before what it shadows.
        ops: class names by code.
        start, end: names of the packets that open and close a wave.
        place: names of array, unit, SIMD and slot in the packets of waves.
        units_per_array: stride from (array, unit) to a flat unit number.
    """

    family: str
    layout: int | str
    packets: tuple[PacketType, ...]
    ops: Mapping[int, str]
    start: str
    end: str
    place: tuple[str, str, str, str]  # names of array, unit, SIMD, slot in start and end packets
    units_per_array: int

    @functools.cached_property
    def kinds(self) -> tuple[str, ...]:
        """Names by kind number; the last one stands for nibbles that start no packet."""
        return (*(p.name for p in self.packets), NO_MATCH)

    @functools.cached_property
    def kind(self) -> dict[str, int]:
        """Kind numbers by name."""
        return {name: i for i, name in enumerate(self.kinds)}

    @functools.cached_property
    def by_name(self) -> dict[str, PacketType]:
        """Rows by name."""
        return {p.name: p for p in self.packets}

    @functools.cached_property
    def by_byte(self) -> tuple[int, ...]:
        """The kind that each low byte chooses, after position 0."""
        rows = [(i, p) for i, p in enumerate(self.packets) if not self._only_first(p)]
        none = len(self.packets)
        return tuple(
            next((i for i, p in rows if byte & p.mask == p.value), none) for byte in range(256)
        )

    def _only_first(self, p: PacketType) -> bool:
        return p.special == "header" and self.family == "cdna"

    @property
    def rdna(self) -> bool:
        """Whether packets start at any nibble and memory units have packets of their own."""
        return self.family != "cdna"

    def op_name(self, code: int) -> str:
        """A class by its code; codes that nobody knows read 0x..."""
        return self.ops.get(code, f"0x{code:02x}")

    @functools.cached_property
    def op_code(self) -> dict[str, int]:
        """Codes by class name."""
        return {name: code for code, name in self.ops.items()}


MEM_UNITS = ("LDS", "LDS_ALT", "VMEM", "VMEM_ALT")
ALU_SOURCES = ("NONE", "SALU", "VALU", "VALU_SALU")
ISSUE_STATES = ("null", "stall", "inst", "immediate")
MISC_TYPES = (
    "TIME",
    "TIME_RESET",
    "PACKET_LOST",
    "SURF_SYNC",
    "STALL_BEGIN",
    "STALL_END",
    "SAVE_CONTEXT",
    "SHOOT_DOWN",
)

# Execution units by the first word of a class, without OTHER_.
_UNITS = {
    **dict.fromkeys(("VALU", "VALU1", "VALUT", "VALUB", "VALUINST", "VINTERP", "WMMA"), "VALU"),
    **dict.fromkeys(("SALU", "SMEM"), "SALU"),
    **dict.fromkeys(("SGMEM", "VMEM", "FLAT"), "VMEM"),
    "LDS": "LDS",
}


def unit_of(op: str) -> str | None:
    """The unit that executes a class, _ALT for another SIMD's; None where nothing executes.

    "SGMEM_RD_2" -> "VMEM", "OTHER_LDS_1" -> "LDS_ALT", "JUMP" -> None
    """
    unit = _UNITS.get(op.removeprefix("OTHER_").split("_")[0])
    return f"{unit}_ALT" if unit and op.startswith("OTHER_") else unit


def cycles_of(op: str) -> int:
    """Cycles that a class keeps its unit: "VALUB_16" -> 16, "SALU" -> 1."""
    last = op.rsplit("_", 1)[-1]
    return int(last) if last.isdigit() and "_" in op else 1

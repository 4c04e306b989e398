"""From bytes to packets, in plain Python: slow, short, and the judge of the compiled decoder.

The stream is untrusted. Work is bounded by its length, every byte decodes to something or is
counted as undecoded, and where decoding cannot go on a Fault says at which byte and clock, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tinylab.errors import CaptureError
from tinylab.profiler.sqtt.cdna import CDNA, EXACT
from tinylab.profiler.sqtt.packets import CLOCK_LIMIT, MASK64, WINDOW_NIBBLES, Table
from tinylab.profiler.sqtt.rdna3 import RDNA3
from tinylab.profiler.sqtt.rdna4 import RDNA4

TABLES = {t.family: t for t in (RDNA3, RDNA4, CDNA)}
_BY_LAYOUT = {3: RDNA3, 4: RDNA4}
_HEADER = 0x11  # low seven bits of the first packet of any family


class Packet(NamedTuple):
    """One packet: first nibble, kind number, clock after its own advance, its 64 bits or more."""

    position: int
    kind: int
    time: int
    raw: int


@dataclass(frozen=True)
class Fault:
    """Something wrong with a stream: where, when, why; ``fatal`` if decoding ended there."""

    byte: int
    clock: int
    why: str
    fatal: bool = False

    def __str__(self) -> str:
        """As a line: "byte 96, clock 1204: the stream ends inside a packet"."""
        return f"byte {self.byte}, clock {self.clock}: {self.why}"


@dataclass
class Cursor:
    """Where a decoder stands, all it needs to go on: it may be copied and kept.

    Attributes:
        position: next nibble.
        clock: cycles since the stream began.
        anchored, offset: CDNA counter minus clock, once the first timestamp has been seen.
        odd_timestamps: timestamps that are not absolute and were passed over.
        overrun: whether the last packet would move the clock out of bounds; decoding ends.
    """

    position: int = 0
    clock: int = 0
    anchored: bool = False
    offset: int = 0
    odd_timestamps: int = 0
    overrun: bool = False


@dataclass
class Opened:
    """A stream whose table is known."""

    data: memoryview
    table: Table
    faults: list[Fault] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The first nibble at which no packet is decoded any more."""
        return max(2 * len(self.data) - WINDOW_NIBBLES + 1, 0)


def open_stream(
    data: bytes | bytearray | memoryview, family: str | None = None, exact_time: bool = False
) -> Opened:
    """Chooses the table that a stream's header asks for, or the one that is named.

    Raises: CaptureError if there is no such family.
    """
    view = memoryview(data).cast("B")
    table, why = _table_of(view)
    faults = [Fault(0, 0, why, fatal=table is None and family is None)] if why else []
    if family is not None:
        if family not in TABLES:
            raise CaptureError(
                f"there is no packet table {family!r}", help=f"one of {', '.join(TABLES)}"
            )
        table = TABLES[family]
    if table is None:
        return Opened(view[:0], CDNA, faults)
    return Opened(view, EXACT if exact_time and table is CDNA else table, faults)


def _table_of(data: memoryview) -> tuple[Table | None, str]:
    if len(data) < WINDOW_NIBBLES // 2:
        return None, f"the stream has {len(data)} bytes, a header alone has 8"
    first = int.from_bytes(data[:8], "little")
    if first & 0x7F != _HEADER:
        return None, f"no stream begins with the byte 0x{data[0]:02x}: not a thread trace"
    layout = (first >> 7) & 63
    if layout in _BY_LAYOUT:
        return _BY_LAYOUT[layout], ""
    if layout or (first >> 13) & 7 != 4:
        return CDNA, f"the header says layout {layout}, which has no table: read as CDNA"
    return CDNA, ""


def packets(
    stream: Opened, cursor: Cursor | None = None, stop: int | None = None
) -> Iterator[Packet]:
    """Packets from the cursor on, which moves along, to nibble ``stop`` or the stream's end."""
    at = Cursor() if cursor is None else cursor
    end = stream.end if stop is None else min(stop, stream.end)
    while at.position < end:
        found = step(stream, at)
        if found is None:
            return
        yield found


def step(stream: Opened, at: Cursor) -> Packet | None:
    """The packet at the cursor, which moves past it; None if the clock would leave its bounds."""
    table = stream.table
    raw = window(stream.data, at.position)
    kind = table.by_byte[raw & 0xFF]
    if at.position == 0 and raw & 0x7F == _HEADER:
        kind = next(i for i, p in enumerate(table.packets) if p.special == "header")
    position, clock = at.position, at.clock
    if kind < len(table.packets):
        clock = _clock_after(table, kind, raw, at)
    if not 0 <= clock < CLOCK_LIMIT:
        at.overrun = True
        return None
    at.clock = clock
    at.position += table.packets[kind].nibbles if kind < len(table.packets) else 1
    return Packet(position, kind, clock, raw)


def window(data: memoryview, position: int) -> int:
    """The 64 bits from a nibble on."""
    byte = position >> 1
    return (int.from_bytes(data[byte : byte + 9], "little") >> (4 * (position & 1))) & MASK64


def _clock_after(table: Table, kind: int, raw: int, at: Cursor) -> int:
    row = table.packets[kind]
    if row.special == "timestamp":
        return _clock_from_timestamp(raw, at)
    if row.special == "mark" and row.fields["rt"].of(raw) and not row.fields["pl"].of(raw):
        return at.clock
    if row.time is None:
        return at.clock
    return at.clock + row.time.scale * row.time.bits.of(raw) + row.time.bias


def _clock_from_timestamp(raw: int, at: Cursor) -> int:
    if (raw >> 4) & 0xFFF:
        at.odd_timestamps += 1
        return at.clock
    counter = raw >> 16
    if at.anchored:
        # One unit less: the convention of the recorded reference figures.
        return ((counter - at.offset) & ~3) - 4
    at.anchored, at.offset = True, counter - at.clock
    return at.clock


def end_faults(stream: Opened, at: Cursor) -> list[Fault]:
    """What is wrong with the place where decoding ended, if anything is.

    A packet is decoded only while 16 nibbles are left, so that up to 15 stay: padding, or whole
    small packets, as a recording ends in blocks of 32 bytes. Anything else was cut.
    """
    if not len(stream.data):
        return []
    byte = at.position >> 1
    if at.overrun:
        return [Fault(byte, at.clock, "the next packet moves the clock out of all bounds", True)]
    if at.position < stream.end:
        return []
    faults = []
    extra = len(stream.data) % 32 - (0 if stream.table.rdna else 8)
    if extra:
        why = f"{len(stream.data)} bytes are no whole number of 32-byte blocks: cut short"
        faults.append(Fault(byte, at.clock, why))
    cut = _cut_packet(stream, at.position)
    if cut:
        faults.append(Fault(cut[1] >> 1, at.clock, f"the stream ends inside a packet {cut[0]}"))
    return faults


def _cut_packet(stream: Opened, position: int) -> tuple[str, int] | None:
    """Name and place of the packet that the end of the stream cuts in two."""
    end, table = 2 * len(stream.data), stream.table
    while position < end:
        kind = table.by_byte[window(stream.data, position) & 0xFF]
        size = table.packets[kind].nibbles if kind < len(table.packets) else 1
        if position + size > end:
            return table.kinds[kind], position
        position += size
    return ("of the last kind", position) if position > end else None

"""Writes streams: packets at given times, or waves and instructions turned into packets.

The reverse of decode.py, for round trips, for fuzzing, and for captures that can be shipped. Time
that a packet's own field cannot hold goes into packets that do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.profiler.sqtt.decode import TABLES
from tinylab.profiler.sqtt.packets import (
    ALU_SOURCES,
    MEM_UNITS,
    WINDOW_NIBBLES,
    PacketType,
    Table,
)

MOST_CYCLES = 1 << 47  # a counter of CDNA has 48 bits
_MISC = 255 * 4  # cycles that one packet of CDNA's can pass
_LONG_GAP, _MOST_MISC = 64 * _MISC, 1 << 18
_TIME_RESET = 1  # type of a MISC packet before a timestamp
_BLOCK = 32  # streams come in blocks of that many bytes
_IMMEDIATE = 3  # state of a slot in an ISSUE packet


@dataclass(frozen=True)
class WaveSpec:
    """A wave: where it ran, from which cycle to which."""

    start: int
    end: int | None
    slot: int = 0
    simd: int = 0
    unit: int = 0
    array: int = 0
    threads: int = 32


@dataclass(frozen=True)
class InstSpec:
    """An instruction of the traced unit: its class, and when its unit executed it, if it did.

    Classes are those of the family's table; "VALUINST" and "IMMEDIATE" are packets of their own on
    RDNA, "IMMEDIATE" a slot state on CDNA.
    """

    time: int
    op: str
    slot: int = 0
    simd: int = 0


@dataclass(frozen=True)
class ExecSpec:
    """A unit executed: "SALU", "VALU", "VALU_SALU", "LDS", "LDS_ALT", "VMEM", "VMEM_ALT"."""

    time: int
    unit: str


@dataclass(frozen=True)
class RegSpec:
    """A register write by dword address."""

    time: int
    address: int
    value: int


@dataclass(frozen=True)
class MarkSpec:
    """The constant-rate counter: a real-time marker on RDNA, a timestamp on CDNA."""

    time: int
    counter: int


Spec = WaveSpec | InstSpec | ExecSpec | RegSpec | MarkSpec


class Writer:
    """Packets one after the other, each at its time."""

    def __init__(self, family: str, stream: int = 0) -> None:
        """Writes the header.

        Raises: CaptureError if there is no such family.
        """
        if family not in TABLES:
            raise CaptureError(f"there is no packet table {family!r}")
        self.table: Table = TABLES[family]
        self.clock = 0
        # Of CDNA: the counter less the clock, once the first timestamp has fixed it; whether a
        # timestamp of the writer's own may be that first one.
        self.offset: int | None = None
        self.may_anchor = False
        self._nibbles = bytearray()
        if self.table.rdna:
            self.raw("LAYOUT_HEADER", layout=int(self.table.layout), sel_a=6)
        else:
            self.raw("STREAM_HEADER", magic=0x11, version=4, simd_mask=15, stream=stream & 0xFF)

    def raw(self, name: str, advance: int = 0, **values: int) -> None:
        """One packet with its time field set to ``advance``, which must fit."""
        p = self.table.by_name[name]
        word = p.value
        for key, value in values.items():
            word |= p.fields[key].put(value)
        if p.time:
            word |= p.time.bits.put((advance - p.time.bias) // p.time.scale)
        self._nibbles += bytes((word >> (4 * i)) & 15 for i in range(p.nibbles))

    def packet(self, name: str, time: int, **values: int) -> None:
        """One packet stamped ``time``; packets that only move the clock go before it if need be.

        Raises: CaptureError if the time lies behind, or between two units of the clock.
        """
        p = self.table.by_name[name]
        gap = self._gap(time, name)
        own = gap if 0 <= gap - _bias(p) <= _reach(p) and not gap % _scale(p) else 0
        if own < gap:
            self.advance(gap - own)
        self.raw(name, own, **values)
        self.clock = time

    def advance(self, cycles: int) -> None:
        """Time that no packet of interest brings.

        Raises: CaptureError on CDNA for a gap of more packets than are worth it.
        """
        if not self.table.rdna:
            self._advance_by_units(cycles)
        elif 4 <= cycles <= 19:
            self.raw("TS_DELTA_SHORT", cycles)
        else:
            most = _reach(self.table.by_name["TS_DELTA_OR_MARK"])
            while cycles > most:
                self.raw("TS_DELTA_OR_MARK", most)
                cycles -= most
            self.raw("TS_DELTA_OR_MARK", cycles)

    def _advance_by_units(self, cycles: int) -> None:
        """On CDNA a long gap is a counter that ran out, and a timestamp with the new position."""
        if cycles > _LONG_GAP and self.offset is None and self.may_anchor:
            self._stamp(self.clock)
        if cycles > _LONG_GAP and self.offset is not None:
            counter = self.clock + cycles + 4 + self.offset
            if counter < 1 << self.table.by_name["TIMESTAMP"].fields["timestamp"].width:
                self.raw("MISC", _MISC, misc_type=_TIME_RESET)
                self.raw("TIMESTAMP", timestamp=counter)
                return
        if cycles > _MOST_MISC * _MISC:
            raise CaptureError(
                f"a gap of {cycles} cycles would be {-(-cycles // _MISC)} packets",
                help="put a MarkSpec with a small counter before the gap",
            )
        whole, rest = divmod(cycles, _MISC)
        for now in (*[_MISC] * whole, *([rest] if rest else [])):
            self.raw("MISC", now)

    def _stamp(self, counter: int) -> None:
        self.raw("TIMESTAMP", timestamp=counter)
        if self.offset is None:
            self.offset = counter - self.clock

    def mark(self, time: int, counter: int) -> None:
        """A sample of the constant-rate counter."""
        gap = self._gap(time, "marker")
        if not self.table.rdna:
            self._timestamp(time, gap, counter)
            return
        if gap:
            self.advance(gap)
        p = self.table.by_name["TS_DELTA_OR_MARK"]
        value = counter & ((1 << p.fields["delta"].width) - 1)
        word = p.value | p.fields["rt"].put(1) | p.fields["delta"].put(value)
        self._nibbles += bytes((word >> (4 * i)) & 15 for i in range(p.nibbles))
        self.clock = time

    def _timestamp(self, time: int, gap: int, counter: int) -> None:
        if gap:
            self.advance(gap)
        self.clock = time
        self._stamp(counter)

    def _gap(self, time: int, name: str) -> int:
        gap = time - self.clock
        unit = 1 if self.table.rdna else 4
        if gap < 0 or gap % unit:
            raise CaptureError(f"a {name} at {time} cannot follow a packet at {self.clock}")
        if time > MOST_CYCLES:
            raise CaptureError(
                f"a {name} at {time} is too late: a stream is written up to cycle {MOST_CYCLES}"
            )
        return gap

    def finish(self) -> bytes:
        """The stream, padded to whole blocks so that every packet is decoded."""
        nibbles = self._nibbles + bytes(WINDOW_NIBBLES)
        extra = 0 if self.table.rdna else 16
        nibbles += bytes(-(len(nibbles) - extra) % (2 * _BLOCK))
        return bytes(nibbles[i] | nibbles[i + 1] << 4 for i in range(0, len(nibbles), 2))


def _scale(p: PacketType) -> int:
    return p.time.scale if p.time else 1


def _bias(p: PacketType) -> int:
    return p.time.bias if p.time else 0


def _reach(p: PacketType) -> int:
    """The most that a packet's own field can hold."""
    return p.time.scale * ((1 << p.time.bits.width) - 1) if p.time else 0


@dataclass
class _Plan:
    """A packet to come: time, rank among equal times, name, fields."""

    time: int
    rank: int
    name: str
    values: dict[str, int] = field(default_factory=dict)


# Among packets of one cycle a slot's new wave follows the end of the one before.
_END, _REG, _START, _INST, _EXEC, _MARK = range(6)


@explained
def encode(family: str, specs: Iterable[Spec], stream: int = 0) -> bytes:
    """A stream with waves, instructions, executions, register writes and markers.

    Times are cycles from the start of the stream; on CDNA multiples of four. What happens in one
    cycle is written in this order: ends of waves, registers, starts, then in the order given.

    Raises: CaptureError for what the family has no packet for, what does not fit in one, times
    beyond `MOST_CYCLES`, and two waves in one slot.
    """
    writer = Writer(family, stream)
    specs = list(specs)
    writer.may_anchor = not any(isinstance(spec, MarkSpec) for spec in specs)
    _refuse_shared_slots([spec for spec in specs if isinstance(spec, WaveSpec)])
    plans = [p for spec in specs for p in _plans(writer.table, spec)]
    for plan in sorted(plans, key=lambda p: (p.time, p.rank)):
        try:
            if plan.name == "":
                writer.mark(plan.time, plan.values["counter"])
            else:
                writer.packet(plan.name, plan.time, **plan.values)
        except OverflowError as error:
            name = plan.name or "marker"
            raise CaptureError(f"a {name} at {plan.time} cannot be written: {error}") from None
    return writer.finish()


def _refuse_shared_slots(waves: list[WaveSpec]) -> None:
    """A slot holds a wave at a time: starts and ends are paired by nothing else."""
    last: dict[tuple[int, ...], WaveSpec] = {}
    for wave in sorted(waves, key=lambda w: w.start):
        if wave.end is not None and wave.end < wave.start:
            raise CaptureError(f"a wave ends at {wave.end}, before its start at {wave.start}")
        place = (wave.array, wave.unit, wave.simd, wave.slot)
        before = last.get(place)
        if before is not None and before.end is not None and wave.start < before.end:
            array, unit, simd, slot = place
            raise CaptureError(
                f"slot {slot} of SIMD {simd}, unit {unit}, array {array} has a wave until "
                f"{before.end}: none can start there at {wave.start}",
                help="give it another slot",
            )
        last[place] = wave


def _plans(table: Table, spec: Spec) -> Sequence[_Plan]:
    if isinstance(spec, WaveSpec):
        return _wave(table, spec)
    if isinstance(spec, InstSpec):
        return (_instruction(table, spec),)
    if isinstance(spec, ExecSpec):
        return (_execution(table, spec),)
    if isinstance(spec, RegSpec):
        return (_register(table, spec),)
    return (_Plan(spec.time, _MARK, "", {"counter": spec.counter}),)


def _wave(table: Table, w: WaveSpec) -> list[_Plan]:
    place = dict(zip(table.place, (w.array, w.unit, w.simd, w.slot), strict=True))
    start = dict(place)
    if table.rdna:
        lowest = table.by_name[table.start].fields["id7"].lo
        start["id7"] = (w.threads - 1 & 31) << (25 - lowest)
    else:
        start["count"] = w.threads
    plans = [_Plan(w.start, _START, table.start, start)]
    if w.end is not None:
        # A wave that ends as it starts would end before it.
        plans.append(_Plan(w.end, _END if w.end > w.start else _INST, table.end, place))
    return plans


def _instruction(table: Table, i: InstSpec) -> _Plan:
    if not table.rdna and i.op == "IMMEDIATE":
        return _Plan(i.time, _INST, "ISSUE", {"simd": i.simd, f"inst{i.slot}": _IMMEDIATE})
    if table.rdna and i.op in ("VALUINST", "IMMEDIATE"):
        return _Plan(i.time, _INST, i.op, {"wave": i.slot})
    if i.op not in table.op_code:
        raise CaptureError(f"{table.family} has no instruction class {i.op!r}")
    values = {"wave": i.slot, "op": table.op_code[i.op]}
    return _Plan(i.time, _INST, "INST", values if table.rdna else {**values, "simd": i.simd})


def _execution(table: Table, e: ExecSpec) -> _Plan:
    for name, units in (("ALUEXEC", ALU_SOURCES), ("VMEMEXEC", MEM_UNITS)):
        if table.rdna and e.unit in units:
            return _Plan(e.time, _EXEC, name, {"src": units.index(e.unit)})
    raise CaptureError(f"{table.family} has no execution packet for {e.unit!r}")


def _register(table: Table, r: RegSpec) -> _Plan:
    compute = 0x2E00 <= r.address < 0x2F00
    if table.rdna:
        values = {"hi_byte": 0x84 if compute else 4, "val32": r.value}
        values["subop"] = r.address - 0x2E00 if compute else r.address
        return _Plan(r.time, _REG, "REG", values)
    if 0x2E00 <= r.address < 0x2E80:
        return _Plan(r.time, _REG, "REG_CS", {"me": 1, "addr": r.address - 0x2E00, "data": r.value})
    values = {"me": 1, "reg_type": 3, "op": 1, "addr": r.address, "data": r.value}
    return _Plan(r.time, _REG, "REG", values)

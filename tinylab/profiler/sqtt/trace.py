"""One stream, read in chunks: an index of it, and any stretch of time in detail.

The index is one pass over the stream. It keeps every wave, sums over instructions, how much went
on in each chunk, and at the head of each chunk what is needed to begin there: clock, program
counters, instructions issued and not yet executed. A window of time is then decoded from the chunk
that holds its start; nothing of a stream is out of reach, and no more memory is taken than the
windows that are looked at.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np

from tinylab.helpers.text import pluralize
from tinylab.profiler.sqtt.decode import Cursor, Fault, end_faults, open_stream, step
from tinylab.profiler.sqtt.events import (
    CDNA_KINDS,
    RDNA_KINDS,
    Events,
    concatenate,
    events_of,
)
from tinylab.profiler.sqtt.execution import Executions, match_all, units_of
from tinylab.profiler.sqtt.native import Array, Packets, decode, field_of
from tinylab.profiler.sqtt.packets import MISC_TYPES, Table
from tinylab.profiler.sqtt.registers import PROGRAM_HIGH, PROGRAM_LOW, REG_KINDS, Registers
from tinylab.profiler.sqtt.stats import Firsts, Tally, class_of, firsts_of
from tinylab.profiler.sqtt.walk import Program, no_waves, walk
from tinylab.profiler.sqtt.wave_lanes import WaveLanes
from tinylab.profiler.sqtt.waves import Areas, Pairing, Piece, Waves, joined, occupancy

NO_PROGRAM = "no code object"
CHUNK_NIBBLES = 1 << 19
DETAIL_CHUNKS = 16  # a window of more is shown as densities
_CACHED = 96  # chunks kept decoded
_OFTEN = 1 << 17  # up to so many waves are sorted anew whenever more has been read
_SELDOM = 1 << 19  # beyond, not before all has been read
_WAIT_S = 0.1  # for what is sorted beside, before one looks whether to go on waiting
_MOST_PENDING = 1 << 14  # issues without execution that a chunk hands to the next

_RDNA_KEEP = (*RDNA_KINDS, *REG_KINDS, "ALUEXEC", "VMEMEXEC", "WAVERDY", "TS_DELTA_OR_MARK")
_CDNA_KEEP = (*CDNA_KINDS, *REG_KINDS, "MISC", "TIMESTAMP")


@dataclass
class State:
    """What the next chunk needs to know of those before it."""

    cursor: Cursor
    pcs: Array
    pending: Events
    pending_pcs: Array
    carry: Events | None = None  # the last event of each slot, and which instruction it is
    carry_numbers: Array | None = None
    entry: dict[int, int] = field(default_factory=dict)  # registers that say where waves begin
    mapping: bool = True  # false once events and program disagreed

    def copy(self) -> State:
        """One that stays as it is."""
        return replace(self, cursor=replace(self.cursor), pcs=self.pcs.copy())


@dataclass
class Part:
    """A chunk in detail. Rows of ``events`` before ``first`` were issued in an earlier chunk."""

    events: Events
    pcs: Array  # program counter of each event, -1 where it is not known
    executions: Executions
    ready_time: Array  # WAVERDY: stamps and masks of slots
    ready_mask: Array
    ready_packet: Array
    first: int


class Trace:
    """A stream with its index."""

    def __init__(
        self,
        data: bytes | memoryview,
        program: Program | None = None,
        load_base: int = 0,
        family: str | None = None,
        exact_time: bool = False,
        itrace: bool = True,
        no_program: str = NO_PROGRAM,
        chunk_nibbles: int = CHUNK_NIBBLES,
    ) -> None:
        """Reads the header; ``advance`` or ``index`` read on.

        Args:
            data: the raw stream.
            program: instructions that waves run, for program counters.
            load_base: GPU address of the program's image.
            family: packet table to use, instead of what the header says.
            exact_time: for CDNA, counts time steps that the recorded figures leave out.
            itrace: whether the stream has packets of instructions; without, waves only.
            no_program: why there is no program, where there is none.
            chunk_nibbles: distance of the places from which decoding can begin.
        """
        self.size_bytes = len(data)
        self.no_program = no_program
        self.stream = open_stream(data, family, exact_time)
        self.table = self.stream.table
        self.program, self.load_base, self.itrace = program, load_base, itrace
        first = step(self.stream, Cursor()) if self.stream.end else None
        self.first_time = first.time if first else 0
        self.faults: list[Fault] = list(self.stream.faults)
        self.counts = np.zeros(len(self.table.kinds), np.int64)
        self.registers = Registers()
        self.pairing = Pairing(self.table)
        self.tally = Tally(self.table, len(program.instructions) if program else 0)
        self.facts = Facts(self.table)
        self.states: list[State] = []
        self.activity: list[Array] = []  # events by class, a row a chunk
        self.firsts: list[Firsts] = []  # first event of each slot, one a chunk
        self.unmatched = 0  # executions without an issue
        self.mapped = 0
        self._chunk = chunk_nibbles
        keep: tuple[str, ...] = _RDNA_KEEP if self.table.rdna else _CDNA_KEEP
        self._keep = tuple(k for k in keep if k in self.table.kind)
        none = concatenate(self.table, [])
        self._state = State(Cursor(), no_waves(), none, np.empty(0, np.int64))
        self._cache: OrderedDict[int, Part] = OrderedDict()
        self._seen: Seen | None = None
        self._sorting: tuple[int, Future[Seen]] | None = None  # of so many chunks
        self._read = False  # to its end; what was read may still have to be sorted
        self.done = self.stream.end == 0
        if self.done and len(self.stream.data):
            self.faults.append(Fault(0, 0, "the stream is shorter than one packet", fatal=True))

    def __repr__(self) -> str:
        packets = pluralize("packet", int(self.counts.sum()))
        waves = pluralize("wave", len(self.pairing))
        read = "" if self.done else f", {100 * self.progress:.0f} % read"
        return f"<thread trace of {self.table.family}: {packets}, {waves}{read}>"

    # *** the index

    def index(
        self,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Trace:
        """Reads to the end; ``progress`` hears the fraction done, ``cancelled`` may stop it."""
        while not self.done and not (cancelled and cancelled()):
            self._step(_WAIT_S)
            if progress:
                progress(self.progress)
        return self

    def advance(self, seconds: float) -> bool:
        """Reads on for about that long; whether there is more to read."""
        limit = time.perf_counter() + seconds
        while not self.done:
            self._step(max(limit - time.perf_counter(), 0))
            if time.perf_counter() >= limit:
                break
        return not self.done

    @property
    def progress(self) -> float:
        """The fraction of the stream that has been read."""
        return 1.0 if self.done else 0.99 * self._state.cursor.position / self.stream.end

    @property
    def end_time(self) -> int:
        """The clock where reading stands."""
        return self._state.cursor.clock

    @property
    def cursor(self) -> Cursor:
        """Where reading stands."""
        return self._state.cursor

    def _step(self, seconds: float) -> None:
        """Reads a chunk; after the last, waits so long for what windows will ask for."""
        if not self._read:
            self._next_chunk()
        elif self.look(seconds):
            self.done = True
            self.pairing.forget()

    def _next_chunk(self) -> None:
        state = self._state
        state.carry, state.carry_numbers = self.tally.carry, self.tally.carry_numbers
        self.states.append(state.copy())
        packets = self._decode(state.cursor, self.counts)
        self.facts.add(packets)
        entries = self.registers.add(packets)
        self.pairing.add(packets)
        part = self._detail(packets, entries, state, self.faults)
        self._account(part)
        if len(self.states) <= DETAIL_CHUNKS:
            self._cache[len(self.states) - 1] = part  # the start is what is looked at first
        if state.cursor.overrun or state.cursor.position >= self.stream.end:
            self.faults += end_faults(self.stream, state.cursor)
            self._read = True

    def _account(self, part: Part) -> None:
        fresh = part.events.take(slice(part.first, None))
        pcs = part.pcs[part.first :]
        numbers = self.program.numbers(pcs) if self.program else pcs
        self.tally.add(fresh, numbers)
        self.firsts.append(firsts_of(fresh))
        self.activity.append(np.bincount(class_of(fresh), minlength=512))
        self.unmatched += int((part.executions.issue < 0).sum())
        self.mapped += int((pcs >= 0).sum())

    def _decode(self, cursor: Cursor, counts: Array) -> Packets:
        stop = (cursor.position // self._chunk + 1) * self._chunk
        # What is kept is two nibbles long or more.
        return decode(self.stream, cursor, counts, self._keep, stop, self._chunk // 2 + 1)

    # *** a chunk in detail

    def _detail(self, packets: Packets, entries: Array, state: State, faults: list[Fault]) -> Part:
        fresh = concatenate(self.table, [])
        if self.itrace:
            fresh = events_of(packets, self._entry_pcs(entries), self.load_base)
        pcs = self._map(fresh, state, faults)
        first = len(state.pending)
        events = concatenate(self.table, [state.pending, fresh])
        every = np.concatenate([state.pending_pcs, pcs])
        done = match_all(packets, events)
        self._hand_on(state, events, every, done)
        ready = packets.where("WAVERDY") if self.table.rdna else np.empty(0, np.int64)
        mask = field_of(packets.raw[ready], 8, 16).astype(np.int64)
        where = packets.position[ready]
        return Part(events, every, done, packets.time[ready], mask, where, first)

    def _map(self, events: Events, state: State, faults: list[Fault]) -> Array:
        if self.program is None or not self.program.length or not state.mapping:
            return np.full(len(events), -1, np.int64)
        pcs, end = walk(events, self.program, state.pcs)
        if end is not None:
            state.mapping = False
            byte, clock = int(events.packet[end.row]) >> 1, int(events.time[end.row])
            faults.append(Fault(byte, clock, f"{end}: no addresses from here on"))
        return pcs

    def _entry_pcs(self, entries: Array) -> Array:
        """Where waves begin: as the registers say, or at the first instruction."""
        if self.program is None:
            return entries
        pcs = entries - self.load_base
        inside = (pcs >= self.program.base) & (pcs < self.program.base + 4 * self.program.length)
        return np.where(inside & (entries > 0), pcs, self.program.entry)

    def _hand_on(self, state: State, events: Events, pcs: Array, done: Executions) -> None:
        waiting = units_of(events) != 255
        waiting[done.issue[done.issue >= 0]] = False
        rows = np.flatnonzero(waiting)[:_MOST_PENDING] if self.table.rdna else slice(0, 0)
        state.pending, state.pending_pcs = events.take(rows), pcs[rows]
        values = self.registers.values
        state.entry = {r: values[r] for r in (PROGRAM_LOW, PROGRAM_HIGH) if r in values}

    def part(self, number: int) -> Part:
        """A chunk that has been indexed, in detail."""
        if number in self._cache:
            self._cache.move_to_end(number)
            return self._cache[number]
        state = self.states[number].copy()
        packets = self._decode(state.cursor, np.zeros_like(self.counts))
        registers = Registers(dict(state.entry))
        found = self._detail(packets, registers.add(packets), state, [])
        self._cache[number] = found
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return found

    def chunks_of(self, start: int, end: int) -> range:
        """The chunks that hold a stretch of time."""
        clocks = np.maximum.accumulate([s.cursor.clock for s in self.states] or [0])
        first = max(int(np.searchsorted(clocks, start, "right")) - 1, 0)
        last = int(np.searchsorted(clocks, end, "right"))
        return range(first, min(max(last, first + 1), len(self.states)))

    # *** what the index knows

    @property
    def seen(self) -> Seen:
        """Waves and how many live, sorted for windows: of all that was read, or of most of it.

        To sort millions of waves takes seconds. While a long stream is read that is done now and
        then, and at the end of the pass; `look` does it at once.
        """
        found = self._seen
        if found is None or (found.chunks != len(self.states) and self._is_due(found)):
            self.look()
        assert self._seen is not None, "whoever looks as long as it takes has seen"
        return self._seen

    def _is_due(self, found: Seen) -> bool:
        count = len(self.pairing)
        return self.done or count < _OFTEN or (2 * len(found.waves) < count < _SELDOM)

    def look(self, seconds: float | None = None) -> bool:
        """Sorts all waves that have been read; false if that is not done in so many seconds.

        Many are sorted in a thread beside this one, where numpy lets others run: whoever waits for
        a part of it only is never held up for longer.
        """
        chunks = len(self.states)
        if self._seen is not None and self._seen.chunks == chunks:
            return True
        if self._sorting is None or self._sorting[0] != chunks:
            pieces, end = self.pairing.pieces(), self.end_time
            few = len(self.pairing) < _OFTEN
            run = _at_once if few else _beside
            self._sorting = chunks, run(lambda: Seen.of(chunks, self.table, pieces, end))
        try:
            self._seen = self._sorting[1].result(seconds)
        except TimeoutError:
            return False
        self._sorting = None
        return True

    def waves(self) -> Waves:
        """All waves read so far; see `seen`."""
        return self.seen.waves

    def occupancy(self) -> tuple[Array, Array]:
        """Living waves: (times, counts), a count holds from its time to the next."""
        return self.seen.times, self.seen.living

    @property
    def span(self) -> tuple[int, int]:
        """First wave start to last wave end, where a viewer should open; else the whole stream."""
        waves = self.waves()
        if not len(waves):
            return 0, self.end_time
        last = int(waves.end.max())
        return int(waves.start.min()), last if last >= 0 else self.end_time

    @property
    def problems(self) -> dict[str, int]:
        """What was lost, passed over or not understood, counted."""
        return {
            "lost": self.facts.lost,
            "registers_dropped": self.facts.registers_dropped,
            "undecoded_nibbles": int(self.counts[-1]),
            "odd_timestamps": self.cursor.odd_timestamps,
            "dropped_tail_nibbles": max(2 * len(self.stream.data) - self.cursor.position, 0)
            if self.done
            else 0,
            "waves_unclosed": self.pairing.unclosed,
            "waves_unopened": self.pairing.unopened,
            "executions_unmatched": self.unmatched,
        }


@dataclass
class Seen:
    """The waves of the part of a stream that was read, in the forms that windows need."""

    chunks: int
    waves: Waves
    lanes: WaveLanes
    times: Array  # when the number of living waves changes, and what it is from then on
    living: Array
    areas: Areas

    @staticmethod
    def of(chunks: int, table: Table, pieces: list[Piece], end_time: int) -> Seen:
        """Sorts all waves of the pieces of so many chunks."""
        waves = joined(table, pieces)
        lanes = WaveLanes.of(waves, end_time)
        times, living = occupancy(waves, end_time)
        return Seen(chunks, waves, lanes, times, living, Areas(times, living))


def _at_once(work: Callable[[], Seen]) -> Future[Seen]:
    found: Future[Seen] = Future()
    found.set_result(work())
    return found


def _beside(work: Callable[[], Seen]) -> Future[Seen]:
    """What work comes to, done in a thread of its own."""
    found: Future[Seen] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # whoever waits for it hears of it
            found.set_exception(error)

    threading.Thread(target=run, name="tinylab-sort", daemon=True).start()
    return found


class Facts:
    """Small things that are gathered on the way: markers, timestamps, losses."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.monotonic = True
        self.lost = 0  # packets that the hardware says it lost
        self.registers_dropped = 0
        self.exec_counts = {"ALUEXEC": np.zeros(4, np.int64), "VMEMEXEC": np.zeros(4, np.int64)}
        self.mask_waves = 0
        self.issue_slots = np.zeros(4, np.int64)
        self.misc = np.zeros(8, np.int64)
        self.marks: list[tuple[Array, Array]] = []  # stamps, values
        self.timestamps: list[tuple[Array, Array]] = []
        self._last = 0

    def add(self, packets: Packets) -> None:
        """More packets."""
        if len(packets):
            steps = np.diff(packets.time, prepend=self._last)
            self.monotonic &= not bool((steps < 0).any())
            self._last = int(packets.time[-1])
        if packets.table.rdna:
            self._rdna(packets)
        else:
            self._cdna(packets)

    def _rdna(self, packets: Packets) -> None:
        for kind, counts in self.exec_counts.items():
            counts += np.bincount(packets.field(kind, "src").astype(np.int64), minlength=4)
        mask = packets.field("IMMEDIATE_MASK", "mask").astype(np.int64)
        self.mask_waves += int((mask[:, None] >> np.arange(16) & 1).sum())
        kind = "TS_DELTA_OR_MARK"
        lost, real = packets.field(kind, "pl"), packets.field(kind, "rt")
        marks = (real == 1) & (lost == 0)
        rows = packets.where(kind)[marks]
        self.lost += int(lost.sum())
        if len(rows):
            values = packets.field(kind, "delta")[marks].astype(np.int64)
            self.marks.append((packets.time[rows], values))

    def _cdna(self, packets: Packets) -> None:
        self.misc += np.bincount(packets.field("MISC", "misc_type").astype(np.int64), minlength=8)
        self.lost = int(self.misc[MISC_TYPES.index("PACKET_LOST")])
        self.registers_dropped += int(packets.field("REG", "dropped_prev").sum())
        raw = packets.raw[packets.where("ISSUE")].astype(np.int64)
        states = (raw[:, None] >> (8 + 2 * np.arange(10))) & 3
        self.issue_slots += np.bincount(states.ravel(), minlength=4)
        rows = packets.where("TIMESTAMP")
        rows = rows[field_of(packets.raw[rows], 4, 12) == 0]
        if len(rows):
            self.timestamps.append((packets.time[rows], field_of(packets.raw[rows], 16, 48)))

    def pairs(self, which: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """All stamps and values of markers or timestamps."""
        none = np.empty(0, np.int64)
        stamps = np.concatenate([none, *(a for a, _ in which)])
        values = np.concatenate([none, *(b.astype(np.int64) for _, b in which)])
        return stamps, values

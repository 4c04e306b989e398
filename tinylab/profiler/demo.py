"""The demonstration capture: a small kernel, played out by rules of thumb, written as a capture.

No chip made it. A wave runs the program below in order; each SIMD issues one instruction a cycle
and wave; memory answers after a fixed time and a little more for each wave that asks at once; a
barrier holds a workgroup together. That is enough to show waits, barriers, a loop and occupancy.

    python -m tinylab.profiler.demo FOLDER
"""

from __future__ import annotations

import hashlib
import heapq
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinylab.profiler.code.elf import read_code_object
from tinylab.profiler.sqtt.encode import (
    ExecSpec,
    InstSpec,
    MarkSpec,
    RegSpec,
    Spec,
    WaveSpec,
    encode,
)
from tinylab.profiler.sqtt.packets import cycles_of, unit_of
from tinylab.profiler.sqtt.registers import PROGRAM_HIGH, PROGRAM_LOW, THREADS_XYZ, USERDATA

FOLDER = Path(__file__).with_name("demo_capture")
LOAD_BASE = 0x7F0000000000
TEXT = 0x1000
LOOPS = 8
WAVES_A_GROUP, GROUPS, ENGINES = 4, 24, 2
# Cycles that an answer takes, and for which it keeps others from being served.
_ANSWERS = {"memory": (420, 5), "local": (32, 3), "scalar": (180, 2)}


@dataclass(frozen=True)
class Line:
    """One instruction: words, text, class of its packet, and what it waits for or asks for."""

    words: tuple[int, ...]
    text: str
    op: str
    asks: str = ""  # "memory", "local", "scalar": an answer that a wait will wait for
    waits: str = ""


# fmt: off
KERNEL = (
    Line((0xF4040001, 0xF8000000), "s_load_b64 s[0:1], s[2:3], null", "SMEM_RD", asks="scalar"),
    Line((0x30020082,), "v_lshlrev_b32_e32 v1, 2, v0", "VALUINST"),
    Line((0xBE840088,), "s_mov_b32 s4, 8", "SALU"),
    Line((0x7E040280,), "v_mov_b32_e32 v2, 0", "VALUINST"),
    Line((0xBF89FC07,), "s_waitcnt lgkmcnt(0)", "IMMEDIATE", waits="scalar"),
    Line((0xDC520000, 0x03000001), "global_load_b32 v3, v1, s[0:1]", "SGMEM_RD_1", asks="memory"),
    Line((0x4A0202FF, 0x80), "v_add_nc_u32_e32 v1, 0x80, v1", "VALUINST"),
    Line((0x8104C104,), "s_add_i32 s4, s4, -1", "SALU"),
    Line((0xBF8903F7,), "s_waitcnt vmcnt(0)", "IMMEDIATE", waits="memory"),
    Line((0x56040703,), "v_fmac_f32_e32 v2, v3, v3", "VALUINST"),
    Line((0xBF870001,), "s_delay_alu instid0(VALU_DEP_1)", ""),
    Line((0x20040702,), "v_max_f32_e32 v2, v2, v3", "VALUINST"),
    Line((0xBF078004,), "s_cmp_lg_u32 s4, 0", "SALU"),
    Line((0xBFA2FFF5,), "s_cbranch_scc1 65525", "JUMP"),
    Line((0x30080082,), "v_lshlrev_b32_e32 v4, 2, v0", "VALUINST"),
    Line((0xD8340000, 0x00000204), "ds_store_b32 v4, v2", "LDS_WR_2", asks="local"),
    Line((0xBF89FC07,), "s_waitcnt lgkmcnt(0)", "IMMEDIATE", waits="local"),
    Line((0xBFBD0000,), "s_barrier", "BARRIER"),
    Line((0xD8D80004, 0x05000004), "ds_load_b32 v5, v4 offset:4", "LDS_RD", asks="local"),
    Line((0xBF89FC07,), "s_waitcnt lgkmcnt(0)", "IMMEDIATE", waits="local"),
    Line((0x06040B02,), "v_add_f32_e32 v2, v2, v5", "VALUINST"),
    Line((0x7E045502,), "v_rcp_f32_e32 v2, v2", "VALUT_4"),
    Line((0xDC6A0000, 0x00000204), "global_store_b32 v4, v2, s[0:1]", "SGMEM_WR_2", asks="memory"),
    Line((0xBFB00000,), "s_endpgm", ""),
)
# fmt: on
_LOOP_HEAD, _LOOP_END, _BARRIER = 5, 13, 17
_CODE_END = 0xBF9F0000


def code_object() -> bytes:
    """The kernel as an ELF file with one section of instructions."""
    words = [w for line in KERNEL for w in line.words] + [_CODE_END] * 16
    text = struct.pack(f"<{len(words)}I", *words)
    names = b"\0.text\0.shstrtab\0"
    table = TEXT + len(text) + len(names)
    table += -table % 8
    header = b"\x7fELF\x02\x01\x01\x40\x04" + bytes(7)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, table, 0x41, 64, 56, 0, 64, 3, 2)
    image = bytearray(table)
    image[: len(header)] = header
    image[TEXT : TEXT + len(text)] = text
    image[TEXT + len(text) : TEXT + len(text) + len(names)] = names
    sections = (
        (0,) * 10,
        (1, 1, 6, TEXT, TEXT, len(text), 0, 0, 256, 0),
        (7, 3, 0, 0, TEXT + len(text), len(names), 0, 0, 1, 0),
    )
    return bytes(image) + b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections)


# *** playing it out


@dataclass
class _Wave:
    """One wave on its way through the kernel."""

    slot: int
    simd: int
    unit: int
    group: int
    start: int
    place: int = 0
    loops: int = LOOPS
    answers: dict[str, int] = field(default_factory=dict)

    @property
    def traced(self) -> bool:
        """Whether its instructions are recorded."""
        return self.unit == 0 and self.simd == 0


class _Engine:
    """What waves of one engine share: when each port is free again, who waits at a barrier."""

    def __init__(self) -> None:
        self.free: dict[str, int] = {}
        self.specs: list[Spec] = []
        self.queue: list[tuple[int, int, _Wave]] = []  # next time, number, wave
        self.waiting: dict[int, list[tuple[int, _Wave]]] = {}

    def take(self, port: str, time: int, cycles: int = 1) -> int:
        """The first cycle from ``time`` on at which a port is free; it is busy for ``cycles``."""
        start = max(time, self.free.get(port, 0))
        self.free[port] = start + cycles
        return start

    def run(self) -> None:
        """Until every wave has ended: always the wave that is due first moves on."""
        while self.queue:
            time, number, wave = heapq.heappop(self.queue)
            line = KERNEL[wave.place]
            if line.waits and wave.answers.get(line.waits, 0) > time:
                heapq.heappush(self.queue, (wave.answers[line.waits], number, wave))
            elif line is KERNEL[-1]:
                place = (wave.slot, wave.simd, wave.unit)
                self.specs.append(WaveSpec(wave.start, time + 20, *place))
            else:
                self._step(time, number, wave, line)

    def _step(self, time: int, number: int, wave: _Wave, line: Line) -> None:
        wave.place += 1
        op = line.op
        if op == "JUMP":
            wave.loops -= 1
            op = "JUMP" if wave.loops else "JUMP_NO"
            wave.place = _LOOP_HEAD if wave.loops else wave.place
        after = self._issue(time, wave, line, op) if op else time
        if op == "BARRIER":
            self._wait(after, number, wave)
        else:
            heapq.heappush(self.queue, (after, number, wave))

    def _issue(self, time: int, wave: _Wave, line: Line, op: str) -> int:
        """Issues, executes, asks memory; when the wave may go on."""
        time = self.take(f"issue {wave.unit}.{wave.simd}", time)
        unit = unit_of(op)
        done = self.take(f"{unit} {wave.unit}.{wave.simd}", time + 3, cycles_of(op))
        if line.asks:
            latency, busy = _ANSWERS[line.asks]
            where = wave.unit if line.asks == "local" else ""
            wave.answers[line.asks] = self.take(f"{line.asks} {where}", done, busy) + latency
        if wave.traced:
            self.specs.append(InstSpec(time, op, wave.slot))
            if unit:
                first = unit in ("SALU", "VMEM", "LDS") or op.startswith("VALUT")
                self.specs.append(ExecSpec(done if first else done + cycles_of(op), unit))
        return time + (4 if op.startswith("JUMP") else 1)

    def _wait(self, time: int, number: int, wave: _Wave) -> None:
        waiting = self.waiting.setdefault(wave.group, [])
        waiting.append((number, wave))
        if len(waiting) == WAVES_A_GROUP:
            for other, released in waiting:
                heapq.heappush(self.queue, (time + 6, other, released))


def play(engine: int) -> list[Spec]:
    """All that one shader engine would record."""
    here = _Engine()
    here.specs += _launch(engine)
    for group in range(GROUPS):
        start = 2000 + 140 * group + 11 * engine
        for i in range(WAVES_A_GROUP):
            wave = _Wave(group // 4, i, group % 4, group, start + 3 * i)
            heapq.heappush(here.queue, (wave.start + 60, WAVES_A_GROUP * group + i, wave))
    here.run()
    return here.specs


def _launch(engine: int) -> Iterator[Spec]:
    entry = LOAD_BASE + TEXT
    digest = int(read_code_object(code_object()).hash, 16)
    words = (0x8C, digest & 0xFFFFFFFF, digest >> 32, 1 << 31, 0, 0, GROUPS * ENGINES, 1, 1)
    for i, word in enumerate(words):  # two markers, each begins at the first of the registers
        yield RegSpec(1000 + i, USERDATA[(i if i < 3 else i - 3) % 2], word)
    for i, (register, size) in enumerate(zip(THREADS_XYZ, (128, 1, 1), strict=True)):
        yield RegSpec(1100 + i, register, size)
    yield RegSpec(1200, PROGRAM_LOW, entry >> 8 & 0xFFFFFFFF)
    yield RegSpec(1201, PROGRAM_HIGH, entry >> 40)
    yield from (MarkSpec(400 + 900 * i, 7_000_000 + 4 * engine + 36 * i) for i in range(12))


# *** as files


def write_demo(folder: Path) -> None:
    """Writes the capture: the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    code = code_object()
    files = {"program0.co": code}
    streams = []
    for engine in range(ENGINES):
        files[f"se{engine}.sqtt"] = encode("rdna3", play(engine), engine)
        streams.append(_stream(engine, files[f"se{engine}.sqtt"]))
    schedule, files["pmc0.bin"] = counters()
    capture = {
        "format": "amd-profile-capture",
        "format_version": 1,
        "capture": "demonstration",
        "source": "made by tinylab.profiler.demo: no chip recorded it",
        "arch_family": "rdna3",
        "target": "gfx1100",
        "clock": {"unit": "ns", "queues": [{"queue": "compute", "cpu_offset_ns": 0}]},
        "programs": [_program(code)],
        "ranges": [_range()],
        "sqtt": streams,
        "pmc": [_readout(schedule, files["pmc0.bin"])],
    }
    files["capture.json"] = (json.dumps(capture, indent=1) + "\n").encode()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _stream(engine: int, data: bytes) -> dict[str, Any]:
    where = {"exec_tag": 1, "program": 0, "se": engine, "xcc": 0, "se_in_xcc": engine}
    return {**where, "itrace": True, "file": f"se{engine}.sqtt", **_facts(data)}


def _program(code: bytes) -> dict[str, Any]:
    return {
        "program": 0,
        "name": "demo_squares",
        "load_base": LOAD_BASE,
        "file": "program0.co",
        **_facts(code),
    }


def _span() -> tuple[int, int]:
    """First start and last end of all waves."""
    waves = [w for e in range(ENGINES) for w in play(e) if isinstance(w, WaveSpec)]
    return min(w.start for w in waves), max(w.end or 0 for w in waves)


def _range() -> dict[str, Any]:
    first, last = _span()
    return {
        "kind": "kernel",
        "name": "demo_squares",
        "program": 0,
        "queue": "compute",
        "start_ns": 1000,
        "end_ns": 1000 + (last - first) * 10 // 25,  # 2.5 GHz, as the markers say
        "exec_tag": 1,
    }


def _readout(schedule: list[dict[str, Any]], blob: bytes) -> dict[str, Any]:
    head = {"exec_tag": 1, "program": 0, "file": "pmc0.bin", "used_bytes": len(blob)}
    return {**head, "schedule": schedule, **_facts(blob)}


def _facts(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def counters() -> tuple[list[dict[str, Any]], bytes]:
    """Counters that follow from the program: instructions a wave times waves of each WGP."""
    loop = KERNEL[_LOOP_HEAD : _LOOP_END + 1]
    rest = KERNEL[:_LOOP_HEAD] + KERNEL[_LOOP_END + 1 :]
    vector = LOOPS * _count(loop, "VALU") + _count(rest, "VALU")
    scalar = LOOPS * _count(loop, "SALU") + _count(rest, "SALU")
    local = _count(KERNEL, "LDS")
    waves = GROUPS * WAVES_A_GROUP // 4  # groups go around the WGPs of array 0
    used = [waves] * 4 + [0] * 4  # two arrays, one of them used
    everywhere = (1, 1, ENGINES, 2, 4)
    last = _span()[1]
    table = (
        ("SQ_INSTS_VALU", "SQ", everywhere, [vector * n for n in used] * ENGINES),
        ("SQ_INSTS_SALU", "SQ", everywhere, [scalar * n for n in used] * ENGINES),
        ("SQC_LDS_IDX_ACTIVE", "SQ", everywhere, [local * n for n in used] * ENGINES),
        ("SQC_LDS_BANK_CONFLICT", "SQ", everywhere, [0] * len(used) * ENGINES),
        ("GRBM_GUI_ACTIVE", "GRBM", (1, 1, 1, 1, 1), [last]),
    )
    schedule, blob = [], b""
    for name, block, shape, values in table:
        entry = dict(zip(("xcc", "inst", "se", "sa", "wgp"), shape, strict=True))
        sizes = {"offset": len(blob), "size": 8 * len(values)}
        schedule.append({"name": name, "block": block, **entry, **sizes})
        blob += struct.pack(f"<{len(values)}Q", *values)
    return schedule, blob


def _count(lines: tuple[Line, ...], unit: str) -> int:
    return sum(line.op.startswith(unit) for line in lines)


if __name__ == "__main__":
    write_demo(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

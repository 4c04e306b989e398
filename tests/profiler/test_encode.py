"""What is written is read again: waves, instructions, executions, registers, markers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.profiler.captures import FAMILIES, specs
from tinylab.errors import CaptureError
from tinylab.profiler.sqtt.decode import open_stream, packets
from tinylab.profiler.sqtt.encode import (
    MOST_CYCLES,
    ExecSpec,
    InstSpec,
    MarkSpec,
    RegSpec,
    WaveSpec,
    Writer,
    encode,
)
from tinylab.profiler.sqtt.registers import register_of
from tinylab.profiler.sqtt.trace import Trace

streams = st.sampled_from(FAMILIES).flatmap(lambda f: specs(f).map(lambda s: (f, s)))


@given(streams)
def test_waves_come_back(made: tuple[str, list[object]]) -> None:
    family, wanted = made
    waves = Trace(encode(family, wanted)).index().waves()  # type: ignore[arg-type]
    columns = (waves.start, waves.end, waves.slot, waves.simd, waves.unit, waves.array)
    rows = zip(*(c.tolist() for c in (*columns, waves.threads)), strict=True)
    given_ = [w for w in wanted if isinstance(w, WaveSpec)]
    fields = ("start", "end", "slot", "simd", "unit", "array", "threads")
    assert Counter(rows) == Counter(tuple(getattr(w, f) for f in fields) for w in given_)


@given(streams)
def test_instructions_executions_registers_and_markers_come_back(
    made: tuple[str, list[object]],
) -> None:
    family, wanted = made
    data = encode(family, wanted)  # type: ignore[arg-type]
    stream = open_stream(data)
    found = list(packets(stream))
    table = stream.table
    seen: Counter[tuple[object, ...]] = Counter()
    for p in found:
        kind = table.kinds[p.kind]
        fields = table.packets[p.kind].values(p.raw) if p.kind < len(table.packets) else {}
        seen.update(_meaning(table.family, kind, p.time, fields))
    assert seen == Counter(filter(None, map(_spec, wanted)))


def _meaning(family: str, kind: str, time: int, f: dict[str, int]) -> list[tuple[object, ...]]:
    from tinylab.profiler.sqtt.decode import TABLES

    if kind in ("VALUINST", "IMMEDIATE"):
        return [("inst", time, kind, f["wave"], 0)]
    if kind == "INST":
        return [("inst", time, TABLES[family].op_name(f["op"]), f["wave"], f.get("simd", 0))]
    if kind == "ISSUE":
        slots = [i for i in range(10) if f[f"inst{i}"] == 3]
        return [("inst", time, "IMMEDIATE", slot, f["simd"]) for slot in slots]
    if kind in ("ALUEXEC", "VMEMEXEC"):
        return [("exec", time, kind, f["src"])]
    if kind in ("REG", "REG_CS"):
        return [("reg", time, *register_of(kind, f))]
    if kind == "TS_DELTA_OR_MARK" and f["rt"]:
        return [("mark", time, f["delta"])]
    return []


def _spec(s: object) -> tuple[object, ...] | None:
    if isinstance(s, InstSpec):
        return ("inst", s.time, s.op, s.slot, s.simd)
    if isinstance(s, ExecSpec):
        alu = ("NONE", "SALU", "VALU", "VALU_SALU")
        mem = ("LDS", "LDS_ALT", "VMEM", "VMEM_ALT")
        name, units = ("ALUEXEC", alu) if s.unit in alu else ("VMEMEXEC", mem)
        return ("exec", s.time, name, units.index(s.unit))
    if isinstance(s, RegSpec):
        return ("reg", s.time, s.address, s.value)
    return ("mark", s.time, s.counter) if isinstance(s, MarkSpec) else None


@given(streams, st.integers(16, 400))
def test_an_index_in_small_chunks_is_the_index_in_one(
    made: tuple[str, list[object]], chunk: int
) -> None:
    data = encode(made[0], made[1])  # type: ignore[arg-type]
    whole, small = Trace(data).index(), Trace(data, chunk_nibbles=chunk).index()
    assert whole.counts.tolist() == small.counts.tolist()
    assert whole.problems == small.problems
    assert whole.span == small.span
    for name in ("hits", "latency", "timed", "longest", "stall"):
        mine, other = getattr(whole.tally.by_class, name), getattr(small.tally.by_class, name)
        assert mine.tolist() == other.tolist()
    assert np.sum(whole.activity, axis=0).tolist() == np.sum(small.activity, axis=0).tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_come_in_whole_blocks(family: str) -> None:
    data = encode(family, [WaveSpec(400, 4000)])
    assert len(data) % 32 == (8 if family == "cdna" else 0)
    assert Trace(data).index().faults == []


def test_what_a_family_cannot_say_is_refused() -> None:
    with pytest.raises(CaptureError, match="WMMA_16"):
        encode("rdna3", [InstSpec(0, "WMMA_16")])
    with pytest.raises(CaptureError, match="VALU"):
        encode("cdna", [ExecSpec(0, "VALU")])
    with pytest.raises(CaptureError, match="cannot follow"):
        encode("cdna", [WaveSpec(3, 8)])
    writer = Writer("rdna3")
    writer.packet("WAVERDY", 100, mask=1)
    with pytest.raises(CaptureError, match="a WAVERDY at 50"):
        writer.packet("WAVERDY", 50, mask=1)
    with pytest.raises(OverflowError, match="99"):
        writer.packet("IMMEDIATE", 100, wave=99)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gap", [2**16, 2**20, 2**36, 2**37, 10**9, 10**12, MOST_CYCLES - 4096])
def test_a_gap_of_any_length_takes_few_packets(family: str, gap: int) -> None:
    end = gap // 4 * 4 + 400
    data = encode(family, [WaveSpec(400, end), WaveSpec(end + 4, end + 2000)])
    assert len(data) < 40_000
    trace = Trace(data).index()
    waves = trace.waves()
    assert (waves.start.tolist(), waves.end.tolist()) == ([400, end + 4], [end, end + 2000])
    assert trace.faults == []


def test_a_gap_after_a_timestamp_is_crossed_by_another() -> None:
    marks = [MarkSpec(400, 77_000_000)]
    data = encode("cdna", [*marks, WaveSpec(800, 10**11)])
    assert len(data) < 4000
    assert Trace(data).index().waves().end.tolist() == [10**11]


def test_times_and_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CaptureError, match=f"is too late: .* up to cycle {MOST_CYCLES}"):
        encode("rdna3", [WaveSpec(8, 2**60)])
    with pytest.raises(CaptureError, match="a gap of 99999999600 cycles would be 98039216 packets"):
        encode("cdna", [WaveSpec(400, 10**11), MarkSpec(10**11 + 4, 0)])
    with pytest.raises(CaptureError, match="cannot be written: 99 does not fit"):
        encode("rdna3", [InstSpec(8, "SALU", slot=99)])


@pytest.mark.parametrize("family", FAMILIES)
def test_waves_that_share_a_slot_are_refused(family: str) -> None:
    waves = [
        WaveSpec(400, 800, 3, 2, 1),
        WaveSpec(800, 1200, 3, 2, 1),
        WaveSpec(400, 1200, 3, 1, 1),
    ]
    assert len(Trace(encode(family, waves)).index().waves()) == 3
    with pytest.raises(
        CaptureError, match="slot 3 of SIMD 2, unit 1, array 0 has a wave until 800"
    ):
        encode(family, [*waves, WaveSpec(796, 1600, 3, 2, 1)])
    with pytest.raises(CaptureError, match="ends at 4, before its start at 8"):
        encode(family, [WaveSpec(8, 4)])

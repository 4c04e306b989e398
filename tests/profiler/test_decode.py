"""Streams cut short, corrupt or of no kind at all: decoded as far as they go, and said where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.profiler.captures import FAMILIES
from tinylab.errors import CaptureError
from tinylab.profiler.sqtt.decode import (
    TABLES,
    Cursor,
    Opened,
    end_faults,
    open_stream,
    packets,
)
from tinylab.profiler.sqtt.encode import InstSpec, WaveSpec, Writer, encode
from tinylab.profiler.sqtt.native import decode
from tinylab.profiler.sqtt.packets import CLOCK_LIMIT
from tinylab.profiler.sqtt.trace import Trace


def both(stream: Opened, step: int = 1 << 30) -> tuple[list[tuple[int, ...]], Cursor]:
    """Packets of the compiled decoder, ``step`` nibbles a time, held against the plain one."""
    plain, fast = Cursor(), Cursor()
    counts = np.zeros(len(stream.table.kinds), np.int64)
    found: list[tuple[int, ...]] = []
    while fast.position < stream.end and not fast.overrun:
        c = decode(stream, fast, counts, stop=fast.position + step)
        rows = zip(c.position, c.kind, c.time, c.raw, strict=True)
        found += [tuple(map(int, row)) for row in rows]
    wanted = [tuple(p) for p in packets(stream, plain)]
    assert found == wanted
    assert fast == plain
    assert counts.sum() == len(wanted)
    return found, fast


@pytest.mark.parametrize("family", [*FAMILIES, "exact"])
@given(body=st.binary(max_size=300), step=st.integers(1, 80))
def test_decoders_agree_on_random_bytes(family: str, body: bytes, step: int) -> None:
    exact = family == "exact"
    name = "cdna" if exact else family
    header = Writer(name).finish()[:8]
    both(open_stream(header + body, name, exact_time=exact), step)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_cut_at_any_byte_keeps_what_came_before(family: str) -> None:
    specs = [WaveSpec(400, 2000), WaveSpec(800, 4000, slot=1)]
    specs += [InstSpec(1000 + 8 * i, "IMMEDIATE", i % 2) for i in range(20)]  # type: ignore[list-item]
    whole = encode(family, specs)
    every, _ = both(open_stream(whole))
    for length in range(len(whole)):
        stream = open_stream(whole[:length])
        found, at = both(stream)
        assert found[: len(found)] == [(p, k, t, r) for p, k, t, r in every[: len(found)]]
        last = end_faults(stream, at)
        assert length % 32 == (0 if TABLES[family].rdna else 8) or stream.faults or last


@pytest.mark.parametrize("family", FAMILIES)
def test_an_index_of_a_cut_stream_is_whole_up_to_the_cut(family: str) -> None:
    specs = [WaveSpec(100 + 40 * i, 180 + 40 * i, slot=i % 8) for i in range(40)]
    whole = encode(family, specs)
    total = len(Trace(whole).index().waves())
    for length in range(0, len(whole), 7):
        trace = Trace(whole[:length]).index()
        assert trace.done
        assert len(trace.waves()) <= total
        blocks = length % 32 == (0 if trace.table.rdna else 8)
        assert trace.faults or blocks


def test_what_is_no_trace_says_so() -> None:
    for data, words in ((b"", "0 bytes"), (b"\x11", "1 bytes"), (b"hello, world", "0x68")):
        stream = open_stream(data)
        assert list(packets(stream)) == []
        assert words in str(stream.faults[0])
        assert stream.faults[0].fatal


def test_an_unknown_layout_is_read_as_cdna_and_said() -> None:
    stream = open_stream((0x11 | 9 << 7).to_bytes(8, "little") + bytes(24))
    assert stream.table.family == "cdna"
    assert "layout 9" in str(stream.faults[0])


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(CaptureError, match="rdna9"):
        open_stream(bytes(64), "rdna9")


def test_a_clock_out_of_bounds_ends_decoding_and_says_where() -> None:
    writer = Writer("rdna4")
    for _ in range(4):
        writer.raw("TS_DELTA_OR_MARK", (1 << 52) - 1)
    data = writer.finish()
    _found, at = both(open_stream(data))
    assert at.overrun
    assert at.clock < CLOCK_LIMIT
    fault = Trace(data).index().faults[0]
    assert (fault.byte, fault.fatal) == (24, True)
    assert "bounds" in fault.why


def test_nibbles_that_start_no_packet_are_counted() -> None:
    table = TABLES["rdna3"]
    nothing = next(b for b in range(256) if table.by_byte[b] == len(table.packets))
    data = Writer("rdna3").finish()[:8] + bytes([nothing]) + bytes(31)
    trace = Trace(data).index()
    assert trace.problems["undecoded_nibbles"] == 1


def test_18_bytes_start_no_packet() -> None:
    for family in ("rdna3", "rdna4"):
        table = TABLES[family]
        assert sum(k == len(table.packets) for k in table.by_byte) == 18


def test_exact_time_counts_steps_that_golden_times_leave_out() -> None:
    writer = Writer("cdna")
    writer._nibbles += bytes((0x16 >> 4 * i) & 15 for i in range(4))  # WAVE_END with its time bit
    data = writer.finish()
    assert list(packets(open_stream(data)))[1].time == 0
    assert list(packets(open_stream(data, exact_time=True)))[1].time == 4

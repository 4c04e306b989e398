"""What a viewer is given: windows, levels of detail, sums, search, comparison, buffers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tinylab.profiler import find, scene, view
from tinylab.profiler.capture import Capture, read_capture
from tinylab.profiler.columns import pack
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.sqtt.categories import CATEGORIES
from tinylab.profiler.sqtt.encode import InstSpec, Spec, WaveSpec, encode
from tinylab.profiler.sqtt.lanes import viewer_lanes
from tinylab.profiler.sqtt.trace import Trace


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(FOLDER)


@pytest.fixture(scope="module")
def trace(capture: Capture) -> Trace:
    return capture.trace(capture.streams[0]).index()


def small_chunks(capture: Capture, nibbles: int) -> Trace:
    info = capture.streams[0]
    loaded = capture.program(info.program)
    blob = capture.blob(info.file)
    return Trace(blob, loaded.code, loaded.info.load_base, chunk_nibbles=nibbles).index()


def test_overview_says_what_there_is(trace: Trace) -> None:
    found = view.overview(trace)
    assert (found["family"], found["waves"], found["done"]) == ("rdna3", 96, True)
    assert found["mapped"] == found["instructions"] + 6
    json.dumps(found)


def test_empty_states_in_words() -> None:
    assert view.notes(Trace(encode("rdna3", [])).index()) == ["no wave ran on this shader engine"]
    waves = Trace(encode("rdna3", [WaveSpec(1, 9, unit=2)])).index()
    assert "no instructions" in view.notes(waves)[0]
    bare = Trace(encode("rdna3", [WaveSpec(1, 9), InstSpec(3, "SALU")])).index()
    assert "no code object" in view.notes(bare)[0]


@pytest.mark.parametrize("nibbles", [256, 1000])
def test_windows_are_the_same_for_any_chunks(capture: Capture, trace: Trace, nibbles: int) -> None:
    small = small_chunks(capture, nibbles)
    start, end = trace.span
    assert viewer_lanes(small) == viewer_lanes(trace)
    width = (end - start) // 8
    for left in range(start, end, width):
        a = scene.lane_window(trace, left, left + width, 1 << 30)["columns"]
        b = scene.lane_window(small, left, left + width, 1 << 30)["columns"]
        assert {k: v.tolist() for k, v in a.items()} == {k: v.tolist() for k, v in b.items()}
        assert view.selection(trace, left, left + width) == view.selection(
            small, left, left + width
        )


def test_chunks_in_detail_are_the_same_whether_kept_or_read_again(capture: Capture) -> None:
    trace = Trace(capture.blob("se0.sqtt"), capture.program(0).code, chunk_nibbles=512).index()
    kept = {number: trace.part(number) for number in range(min(16, len(trace.states)))}
    assert len(kept) > 3
    trace._cache.clear()
    for number, part in kept.items():
        again = trace.part(number)
        assert again is not part
        assert again.first == part.first
        for name in ("pcs", "ready_time", "ready_mask", "ready_packet"):
            assert np.array_equal(getattr(again, name), getattr(part, name)), name
        for name in ("time", "slot", "op", "kind", "action", "packet"):
            assert np.array_equal(getattr(again.events, name), getattr(part.events, name)), name
        for name in ("time", "unit", "issue", "packet"):
            ours, theirs = getattr(again.executions, name), getattr(part.executions, name)
            assert np.array_equal(ours, theirs), name


def test_a_window_shows_what_lanes_show(trace: Trace) -> None:
    start, end = trace.span
    found = scene.lane_window(trace, start, end + 1, 1 << 30)["columns"]
    bars = found["lane"] < scene.WAVE_LANE
    lanes = viewer_lanes(trace)
    waves = sum(len(v) for k, v in lanes.items() if k.startswith("WAVE"))
    own = (found["lane"] < scene.UNIT_LANE) | (found["lane"] == scene.OTHER_LANE)
    assert int(own.sum()) == waves
    assert int((bars & ~own).sum()) == sum(map(len, lanes.values())) - waves
    assert found["count"][bars].sum() == sum(map(len, lanes.values()))


def test_merging_keeps_counts_and_ends(trace: Trace) -> None:
    start, end = trace.span
    fine = scene.lane_window(trace, start, end + 1, 1 << 30)["columns"]
    coarse = scene.lane_window(trace, start, end + 1, 40)["columns"]
    assert coarse["count"].sum() == fine["count"].sum()
    assert len(coarse["start"]) < len(fine["start"]) / 2
    assert (coarse["start"] + coarse["length"]).max() == (fine["start"] + fine["length"]).max()


def test_wide_windows_are_densities(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = small_chunks(capture, 64)
    found = view.density(trace, *trace.span)
    real = view.instruction_count(trace)
    starts = int(found["counts"][:, CATEGORIES.index("other")].sum())
    assert found["counts"].sum() - starts == real + 6  # ends count too
    monkeypatch.setattr(view, "DETAIL_CHUNKS", 4)
    assert view.selection(trace, *trace.span)["note"]


def test_waves_in_a_window_merge_by_lane(trace: Trace) -> None:
    start, end = trace.span
    every = scene.lane_window(trace, start, end)["columns"]
    waves = every["lane"] >= scene.WAVE_LANE
    assert every["count"][waves].sum() == 96
    assert len(scene.lanes(trace)["waves"]) == len(np.unique(every["lane"][waves]))
    many: list[Spec] = [WaveSpec(10 * i, 10 * i + 5, slot=i % 2) for i in range(400)]
    lanes = [scene.WAVE_LANE, scene.WAVE_LANE + 1]
    merged = scene.lane_window(Trace(encode("rdna3", many)).index(), 0, 4000, 10, lanes)["columns"]
    assert merged["count"].sum() == 400
    assert len(merged["lane"]) == 20


def test_occupancy_in_columns() -> None:
    trace = Trace(encode("rdna3", [WaveSpec(100, 200), WaveSpec(150, 250, slot=1)])).index()
    found = view.occupancy_window(trace, 100, 300, 4)
    assert found["mean"].tolist() == [1, 2, 1, 0]
    assert found["most"].tolist() == [2, 2, 1, 0]


def test_barrier_waits_end_when_the_wave_is_ready() -> None:
    specs: list[Spec] = [WaveSpec(0, 100), InstSpec(10, "BARRIER"), InstSpec(50, "SALU")]
    waits = view.barrier_waits(Trace(encode("rdna3", specs)).index(), 0, 100)
    assert (waits["start"].tolist(), waits["end"].tolist()) == ([10], [50])


def test_the_program_with_its_figures(capture: Capture, trace: Trace) -> None:
    rows = view.instruction_table(trace, capture.program(0))
    assert len(rows) == 24
    assert sum(r["hits"] for r in rows) == trace.mapped
    before = max(rows, key=lambda r: r["total"])
    assert before["number"] == 7  # before the wait for memory
    assert rows[8]["stall"] > 0.8 * before["total"]
    assert max(rows, key=lambda r: r["time"])["number"] == 8  # the wait itself
    assert abs(sum(r["share"] for r in rows) - 1) < 1e-9


def test_search_finds_classes_and_instructions(capture: Capture, trace: Trace) -> None:
    found = list(find.search(trace, "barrier", capture.program(0)))
    assert len(found) == 6
    assert {f["pc"] for f in found} == {4180}
    assert len(list(find.search(trace, "salu", limit=5))) == 5
    assert list(find.search(trace, "no such thing")) == []


def test_two_traces_compared(capture: Capture, trace: Trace) -> None:
    other = capture.trace(capture.streams[1]).index()
    found = view.compare(trace, other, capture.program(0))
    assert len(found["instructions"]) == 24
    assert all(r["first"]["hits"] == r["second"]["hits"] for r in found["instructions"])
    lone = view.compare(trace, Trace(encode("rdna3", [WaveSpec(0, 9)])).index())
    assert lone["instructions"] == []
    assert any(r["second"] is None for r in lone["classes"])


def test_buffers_unpack_to_what_was_packed(trace: Trace) -> None:
    arrays = scene.lane_window(trace, *trace.span)["columns"]
    specs, blob = pack(arrays)
    for spec in specs:
        count = int(np.prod(spec["shape"]))
        got = np.frombuffer(blob, spec["type"], count, spec["offset"])
        assert got.tolist() == arrays[spec["name"]].tolist()
        assert spec["offset"] % 8 == 0


def test_indexing_tells_progress_and_can_be_cancelled(capture: Capture) -> None:
    blob = bytes(capture.blob(capture.streams[0].file))
    heard: list[float] = []
    Trace(blob, chunk_nibbles=512).index(heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    trace = Trace(blob, chunk_nibbles=512)
    trace.index(heard.append, cancelled=lambda: trace.progress > 0.5)
    assert 0.5 < trace.progress < 1
    assert not trace.done
    assert len(scene.lane_window(trace, 0, trace.end_time)["columns"]["lane"])
    assert trace.advance(10) is False
    assert trace.problems == Trace(blob).index().problems


def test_problems_are_counted_in_words() -> None:
    from tinylab.profiler.sqtt.encode import Writer

    writer = Writer("rdna3")
    writer.packet("WAVEEND", 5, wave=1)
    writer.packet("ALUEXEC", 6, src=1)
    writer.packet("WAVESTART", 7, wave=2)
    writer.raw("TS_DELTA_OR_MARK", 9, pl=1, rt=1)
    writer.raw("INST", wave=2, op=0x7F)
    trace = Trace(writer.finish()).index()
    notes = view.notes(trace)
    assert "packets were lost once, as the hardware says" in notes
    assert "1 wave has no end" in notes
    assert "1 end of a wave has no start" in notes
    assert "1 execution has no issue" in notes
    assert "0x7f" in [r["class"] for r in view.class_table(trace)]

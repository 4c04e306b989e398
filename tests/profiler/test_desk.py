"""What a viewer of captures is answered: windows of lanes, curves, programs, hits, grids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.profiler.captures import every_capture, recorded
from tinylab.errors import CaptureError
from tinylab.profiler import scene, view
from tinylab.profiler.capture import Capture, read_capture, read_captures
from tinylab.profiler.columns import pack
from tinylab.profiler.counters import grid
from tinylab.profiler.counters.pmc import Counter, Readout
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.desk import Desk, desk_of
from tinylab.profiler.sqtt.categories import CATEGORIES
from tinylab.profiler.sqtt.encode import ExecSpec, InstSpec, Spec, WaveSpec, encode
from tinylab.profiler.sqtt.trace import Trace


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(FOLDER)


@pytest.fixture(scope="module")
def desk(capture: Capture) -> Desk:
    made = Desk((capture,))
    made.advance(0, 2)
    made.advance(1, 2)
    return made


def whole(desk: Desk, stream: int = 0, **more: Any) -> dict[str, Any]:
    start, end = desk.stream(stream).trace.span
    found: dict[str, Any] = desk.window(stream, start, end + 1, 1 << 14, **more)
    return found


def sized(answer: dict[str, Any]) -> int:
    """Bytes of an answer without its columns: it must fit one message."""
    return len(json.dumps({k: v for k, v in answer.items() if k != "columns"}))


def test_the_overview_names_all_sources(desk: Desk) -> None:
    found = desk.answer("overview")
    assert [s["name"] for s in found["streams"]] == ["se0", "se1"]
    assert found["first"] == 0
    assert found["readouts"][0]["counters"] > 3
    json.dumps(found)


def test_one_desk_a_capture(capture: Capture) -> None:
    assert desk_of(capture) is desk_of(capture)
    both = read_captures(FOLDER, FOLDER)
    assert len(desk_of(both).streams) == 4
    assert [s["capture"] for s in desk_of(both).overview()["streams"]] == [0, 0, 1, 1]


def test_reading_in_slices_shows_more_and_more(capture: Capture) -> None:
    desk = Desk((capture,))
    info = capture.streams[0]
    desk.streams[0]._trace = Trace(capture.blob(info.file), chunk_nibbles=256)
    assert desk.advance(0, 0)["info"]["waves"] == 0
    seen = [desk.advance(0, 1e-9)]
    while not seen[-1]["done"]:
        seen.append(desk.advance(0, 1e-9))
    assert len(seen) > 5
    counts = [s["info"]["waves"] for s in seen]
    assert counts == sorted(counts)
    assert counts[-1] == 96
    assert [s["progress"] for s in seen] == sorted(s["progress"] for s in seen)


def test_a_window_has_all_bars_of_a_trace(desk: Desk) -> None:
    trace = desk.stream(0).trace
    found = whole(desk)
    lane = found["columns"]["lane"]
    assert found["level"] == "detail"
    assert (np.diff(lane.astype(np.int64)) >= 0).all()
    waves = int((lane >= scene.WAVE_LANE).sum())
    assert waves == len(trace.waves())
    pack(found["columns"])


def test_a_window_of_some_lanes_is_that_part_of_the_whole(desk: Desk) -> None:
    every, keys = whole(desk)["columns"], [0, 2, scene.UNIT_LANE + 1]
    some = whole(desk, keys=keys)["columns"]
    inside = np.isin(every["lane"], keys)
    for name in ("lane", "start", "length", "number"):
        assert some[name].tolist() == every[name][inside].tolist()
    assert not len(whole(desk, keys=[77])["columns"]["lane"])


def test_marked_bars_are_those_of_the_instruction(desk: Desk) -> None:
    found = whole(desk, mark=7)["columns"]
    assert (
        found["marked"].sum() == (found["number"][found["lane"] < scene.WAVE_LANE] == 7).sum() > 0
    )
    assert "marked" not in whole(desk)["columns"]
    start, end = desk.stream(0).trace.span
    coarse = desk.window(0, start, end + 1, 20, mark=7)["columns"]
    assert coarse["marked"].sum() > 0  # also where they are merged with others
    assert coarse["count"][coarse["marked"] == 1].max() > 1


def test_work_is_told_from_waiting() -> None:
    specs: list[Spec] = [WaveSpec(0, 200), InstSpec(10, "SALU"), InstSpec(60, "SMEM_RD"),
                         InstSpec(90, "BARRIER"), InstSpec(150, "SALU")]  # fmt: skip
    trace = Trace(encode("rdna3", specs)).index()
    found = scene.lane_window(trace, 0, 200, 200, [0])["columns"]
    bars = {int(s): (int(n), int(w)) for s, n, w in
            zip(found["start"], found["length"], found["wait"], strict=True)}  # fmt: skip
    assert bars[10] == (1, 0)
    assert bars[11] == (50, 49)  # stands still, then reads at 60
    # Stands still, comes to the barrier at 90, waits there until the next goes on at 150.
    assert bars[61] == (89, 89)
    assert bars[150] == (1, 0)
    rows = {r["class"]: r for r in view.class_table(trace)}
    assert (rows["BARRIER"]["stall"], rows["BARRIER"]["time"]) == (29 + 59, 29 + 60)
    assert rows["SALU"]["stall"] == 0


def test_sums_are_the_same_for_any_chunks(capture: Capture) -> None:
    info, loaded = capture.streams[0], capture.program(0)
    traces = [
        Trace(capture.blob(info.file), loaded.code, loaded.info.load_base, chunk_nibbles=n).index()
        for n in (1 << 19, 300, 64)
    ]
    tables = [view.instruction_table(trace, loaded) for trace in traces]
    assert tables[0] == tables[1] == tables[2]
    assert any(r["stall"] and "barrier" in r["text"] for r in tables[0])
    total = sum(r["time"] for r in tables[0])
    # Together they are the time that waves were at instructions, but for starts and ends.
    assert 0.9 < total / sum(r["total"] for r in tables[0]) <= 1


def test_instructions_of_other_simds_have_a_lane_of_their_own() -> None:
    specs: list[Spec] = [WaveSpec(0, 100), InstSpec(10, "SALU"), InstSpec(20, "OTHER_VMEM_34")]
    trace = Trace(encode("rdna4", specs)).index()
    assert scene.lanes(trace)["other"]
    found = scene.lane_window(trace, 0, 100, 100)["columns"]
    assert found["start"][found["lane"] == scene.OTHER_LANE].tolist() == [20]
    assert 20 not in found["start"][found["lane"] == 0]


def test_executions_without_instructions_are_still_shown() -> None:
    specs: list[Spec] = [WaveSpec(0, 90), InstSpec(10, "VALUT_4"), ExecSpec(14, "VALU")]
    trace = Trace(encode("rdna3", specs), itrace=False).index()
    found = scene.lane_window(trace, 0, 100, 100, mark=3)["columns"]
    assert found["lane"].tolist() == [scene.UNIT_LANE + 1, scene.WAVE_LANE]
    assert found["op"].tolist() == [-1, -1]
    assert view.selection(trace, 0, 100)["classes"] == []


def test_lanes_are_those_with_something_in_them() -> None:
    specs: list[Spec] = [WaveSpec(0, 90, slot=3), WaveSpec(5, 50, slot=1, simd=2, unit=4),
                         InstSpec(10, "VALUT_4", 3), ExecSpec(14, "VALU")]  # fmt: skip
    found = scene.lanes(Trace(encode("rdna3", specs)).index())
    assert found["slots"] == [3]
    assert found["units"] == ["VALU"]
    assert found["waves"].tolist() == [3, 4 << 12 | 2 << 8 | 1]


def test_wide_windows_show_waves_in_the_slots(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, loaded = capture.streams[0], capture.program(0)
    blob = capture.blob(info.file)
    trace = Trace(blob, loaded.code, loaded.info.load_base, chunk_nibbles=64).index()
    start, end = trace.span
    close = scene.activity_window(trace, start, end, 64)
    monkeypatch.setattr(scene, "DETAIL_CHUNKS", 4)
    found = scene.lane_window(trace, start, end, 500)
    assert found["level"] == "density"
    assert not found["exact"]
    slots = found["columns"]["lane"] < scene.UNIT_LANE
    assert set(found["columns"]["colour"][slots].tolist()) == {scene.WAVE_COLOUR}
    wide = scene.activity_window(trace, start, end, 64)
    # The curve is the same, but for starts of waves and where in a chunk an instruction stood.
    assert abs(wide.sum() / close.sum() - 1) < 0.1


def test_activity_counts_each_instruction_once(desk: Desk) -> None:
    trace = desk.stream(0).trace
    start, end = trace.span
    for columns in (1, 10, end + 1 - start):
        rates = scene.activity_window(trace, start, end + 1, columns)
        total = float(rates.sum()) * (end + 1 - start) / columns
        assert round(total) == view.instruction_count(trace) + 6  # ends too


def test_hits_of_a_wide_stretch_are_exact(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, loaded = capture.streams[0], capture.program(0)
    trace = Trace(capture.blob(info.file), loaded.code, loaded.info.load_base,
                  chunk_nibbles=256).index()  # fmt: skip
    start, end = trace.span
    left, right = start + (end - start) // 7, end - (end - start) // 9
    fine = view.selection(trace, left, right)
    monkeypatch.setattr(view, "DETAIL_CHUNKS", 3)
    wide = view.selection(trace, left, right)
    assert "hits only" in wide["note"]
    counts = [{r["class"]: r["hits"] for r in found["classes"]} for found in (fine, wide)]
    assert counts[0] == counts[1]


def test_the_program_in_pages(desk: Desk) -> None:
    every = desk.program(0)
    assert every["total"] == len(every["rows"]) == 24
    page = desk.program(0, 5, 9)
    assert page["rows"] == every["rows"][5:9]
    assert page["columns"]["hits"].tolist() == every["columns"]["hits"][5:9].tolist()
    assert desk.program(0, 99)["rows"] == []
    assert sized(every) < 10_000


def test_a_stream_without_a_program_says_why(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "capture"))
    (folder / "program0.co").write_bytes(b"nothing")
    found = Desk((read_capture(folder),)).program(0)
    assert found["rows"] == []
    assert "code object" in found["note"]


def test_search_goes_on_where_it_stopped(capture: Capture) -> None:
    desk = Desk((capture,))
    info, loaded = capture.streams[0], capture.program(0)
    desk.streams[0]._trace = Trace(
        capture.blob(info.file), loaded.code, loaded.info.load_base, chunk_nibbles=512
    ).index()
    hits: list[Any] = []
    chunk: int | None = 0
    while chunk is not None:
        page = desk.search(0, "salu", chunk)
        hits += page["hits"]
        chunk = page["next"]
    trace = desk.stream(0).trace
    rows = [r for r in view.class_table(trace) if "salu" in r["class"].lower()]
    assert len(hits) >= sum(r["hits"] for r in rows) > 0
    assert [h["time"] for h in hits] == sorted(h["time"] for h in hits)


def test_events_of_an_instruction_one_after_the_other(desk: Desk) -> None:
    trace = desk.stream(0).trace
    wanted = int(trace.tally.by_instruction.hits[7])
    at, seen = -1, 0
    times = []
    while (found := desk.beside(0, 7, at)["found"]) is not None:
        assert found["time"] > at
        at = found["time"]
        times.append(at)
        seen += 1
    assert 0 < seen <= wanted  # those of one cycle are passed as one
    back = desk.beside(0, 7, times[-1], -1)["found"]
    assert back is not None
    assert back["time"] == times[-2]
    assert desk.beside(0, 999, 0) == {"found": None, "next": None}


def test_streams_compared(desk: Desk, capture: Capture) -> None:
    found = desk.compare(0, 1)
    assert found["same_program"]
    assert found["columns"]["first_hits"].tolist() == found["columns"]["second_hits"].tolist()
    fresh = Desk((capture,))
    fresh.streams[0]._trace = Trace(capture.blob("se0.sqtt"), chunk_nibbles=64)
    with pytest.raises(CaptureError, match="read to its end"):
        fresh.compare(0, 1)


def test_an_empty_engine_names_those_with_instructions(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "capture"))
    (folder / "se0.sqtt").write_bytes(b"")
    desk = Desk((read_capture(folder),))
    assert desk.overview()["first"] == 1
    notes = desk.advance(0)["info"]["notes"]
    assert notes == ["nothing was captured here", "instructions were traced on se1"]


def test_a_stream_cut_inside_a_packet_says_where(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "capture"))
    data = (folder / "se0.sqtt").read_bytes()
    (folder / "se0.sqtt").write_bytes(data[: len(data) // 2 + 1])
    desk = Desk((read_capture(folder),))
    info = desk.advance(0)["info"]
    assert any("byte" in n and "clock" in n and "cut short" in n for n in info["notes"])
    assert info["waves"] > 0
    assert len(desk.window(0, *info["span"])["columns"]["lane"])


def test_questions_that_make_no_sense_are_refused_in_words(desk: Desk) -> None:
    with pytest.raises(CaptureError, match="nobody answers 'windw'"):
        desk.answer("windw")
    with pytest.raises(CaptureError, match="no stream 9"):
        desk.answer("window", {"stream": 9, "start": 0, "end": 1})
    with pytest.raises(CaptureError, match="cannot be asked like that"):
        desk.answer("window", {"where": 1})
    for start, end in ((-5, -9), (1e300, 0), (5, 5)):
        assert desk.window(0, start, end)["end"] > 0


# *** counters


def readout() -> Readout:
    values = np.arange(16, dtype=np.uint64).reshape(2, 1, 2, 2, 2)
    return Readout((Counter("A", "SQ", values), Counter("B", "GL2C", values * 10)))


def test_a_grid_sums_over_the_axes_that_are_left_out() -> None:
    found = grid.table(readout(), "A", ["se"], ["wgp"])
    values = np.arange(16).reshape(2, 2, 2, 2).sum(axis=(0, 2))
    assert found["columns"]["values"].tolist() == values.tolist()
    assert (found["rows"], found["labels"]) == (["se0", "se1"], ["wgp0", "wgp1"])


@pytest.mark.parametrize("axes", [(["wgp"], ["xcc", "se"]), (["se", "xcc"], []), ([], ["sa"])])
def test_a_grid_is_the_counter_with_its_axes_turned(axes: tuple[list[str], list[str]]) -> None:
    found = grid.table(readout(), "B", *axes)
    assert found["columns"]["values"].shape == (len(found["rows"]), len(found["labels"]))
    counter = readout().counters[1]
    for i, row in enumerate(found["rows"]):
        for j, label in enumerate(found["labels"]):
            place = {p.rstrip("0123456789"): int(p[-1]) for p in f"{row} {label}".split()}
            wanted = [v for p, v in counter.grid() if all(p[a] == n for a, n in place.items())]
            assert found["columns"]["values"][i, j] == sum(wanted)


def test_grids_that_make_no_sense_are_refused() -> None:
    with pytest.raises(CaptureError, match="there is no counter 'C'"):
        grid.table(readout(), "C", ["se"], [])
    with pytest.raises(CaptureError, match="each once"):
        grid.table(readout(), "A", ["se"], ["se"])
    with pytest.raises(CaptureError, match="each once"):
        grid.table(readout(), "A", ["floor"], [])


def test_formulas_are_shown_with_their_numbers(desk: Desk) -> None:
    found = {m["key"]: m for m in desk.counters(0)["metrics"]}
    for metric in found.values():
        if metric["value"] is not None:
            numbers = metric["counted"].replace(",", "")
            assert abs(eval(numbers, {"__builtins__": {}}) - metric["value"]) < 1e-9
    lone = grid.metrics(Readout((Counter("GL2C_HIT", "GL2C", np.ones((1,) * 5, np.uint64)),)))
    assert {m["counted"] for m in lone} == {""}


def test_read_outs_beside_each_other(desk: Desk) -> None:
    rows = desk.together([0, 0])["rows"]
    assert all(r["values"][0] == r["values"][1] for r in rows)
    assert {r["change"] for r in rows} <= {1.0, None}
    assert any(r["percent"] for r in rows)
    assert desk.together([])["rows"] == []
    totals = {r["name"]: r["sum"] for r in desk.counters(0)["rows"]}
    assert all(totals[r["name"]] == r["values"][0] for r in rows if not r["percent"])


@recorded
@every_capture
def test_real_captures_answer_every_question(folder: Path) -> None:
    desk = Desk((read_capture(folder),))
    overview = desk.overview()
    assert sized(overview) < 100_000
    for number in range(len(desk.streams)):
        info = desk.advance(number)["info"]
        found = whole(desk, number)
        lane = found["columns"]["lane"]
        assert int((lane >= scene.WAVE_LANE).sum()) == info["waves"]
        slots = set(lane[lane < scene.UNIT_LANE].tolist())
        assert slots <= set(info["lanes"]["slots"])
    first = overview["first"]
    best = max(view.instruction_count(s.trace) for s in desk.streams)
    assert desk.stream(first).has_instructions == (best > 0)
    assert desk.stream(first).has_waves == any(s.has_waves for s in desk.streams)
    program = desk.program(first)
    assert program["columns"]["hits"].sum() == desk.stream(first).trace.mapped
    for row in desk.counters(0)["rows"]:
        axes = list(row["axes"]) or ["se"]
        values = desk.grid(0, row["name"], axes[:1], axes[1:])["columns"]["values"]
        assert values.sum() == row["sum"]


@recorded
@every_capture
def test_ends_of_programs_have_one_colour_on_every_chip(folder: Path) -> None:
    """CDNA calls s_endpgm a message; a reader looks for where a wave ends."""
    end = CATEGORIES.index("end")
    desk = desk_of(read_capture(folder))
    found = 0
    for number, stream in enumerate(desk.streams):
        info = desk.advance(number, 5)["info"]
        if not stream.trace.mapped:
            continue
        columns = desk.window(number, *info["span"], 2000)["columns"]
        program = stream.trace.program
        assert program is not None
        is_event = (columns["lane"] < scene.UNIT_LANE) & (columns["op"] >= 0)
        is_event &= (columns["number"] >= 0) & (columns["count"] == 1)
        at_end = np.flatnonzero(is_event)[program.ends[columns["number"][is_event]]]
        found += len(at_end)
        assert (columns["colour"][at_end] == end).all()
        assert end in info["used"]
    assert found or not folder.name.startswith("gemm")

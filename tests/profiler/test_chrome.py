"""Traces of Chrome and Perfetto: there and back, and what is wrong with those of strangers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tinylab
from tests.profiler.profiles import OVERLAPPING, many, table
from tinylab import Tensor
from tinylab.errors import CaptureError
from tinylab.profiler.chrome import Cancelled
from tinylab.profiler.collected import Profile
from tinylab.profiler.files import load_profile, parse_profile
from tinylab.profiler.table import EventTable
from tinylab.profiler.timeline_desk import TimelineDesk


def parsed(events: Any, **kwargs: Any) -> Profile:
    return parse_profile(json.dumps(events).encode(), "given.json", **kwargs)


def rows(events: EventTable) -> list[tuple[Any, ...]]:
    found = events.arrays()
    return sorted(zip(*(found[name].tolist() for name in found), strict=True))


def test_no_duration_is_cut_or_stretched() -> None:
    p = parsed(OVERLAPPING)
    e = p.events
    times = {
        name: (start, length)
        for name, start, length in zip(
            e["name"].tolist(), e["start_ns"].tolist(), e["duration_ns"].tolist(), strict=True
        )
    }
    us = 1000
    assert times == {
        "outer": (0, 100 * us), "late": (60 * us, 80 * us), "begin": (0, 50 * us),
        "whole": (0, 50 * us),
    }  # fmt: skip
    notices = TimelineDesk(p).notices()
    assert "1 end without a begin: at 70 µs in thread 2" in notices
    assert "1 begin without an end: 'open' at 200 µs" in notices
    assert "1 event of thread 1 begins inside another and ends after it" in notices
    assert [len(p.timeline.lane(lane).rows) for lane in range(2)] == [2, 2]


def test_a_profile_of_ours_comes_back_as_it_was(tmp_path: Path) -> None:
    with tinylab.profile("mine") as p:
        tinylab.profile_marker("here")
        (Tensor.ones(16, 16).contiguous() @ Tensor.ones(16, 16).contiguous()).sum().item()
    for name in ("trace.json", "trace.json.gz"):
        shares: list[float] = []
        p.to_chrome(tmp_path / name, shares.append)
        assert shares[-1] == 1.0
        again = load_profile(tmp_path / name)
        assert again.name == "mine"
        assert rows(again.table) == rows(p.table)
        assert sorted(map(str, again.table.lanes)) == sorted(map(str, p.table.lanes))
        assert {k.name: k.row() for k in again.kernels.values()} == {
            k.name: k.row() for k in p.kernels.values()
        }
        assert again.table.notices == []


def test_what_is_written_is_what_chrome_reads(tmp_path: Path) -> None:
    events = many(2000, 3)
    Profile("many", table=events).to_chrome(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == 2000
    assert {"name", "ts", "dur", "pid", "tid"} <= set(complete[0])
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in complete} <= named


times = st.integers(0, 10**15)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.text(max_size=8), times, st.integers(0, 10**9)),
        max_size=30,
    )
)
def test_round_trips_keep_every_nanosecond(found: list[tuple[int, str, int, int]]) -> None:
    import tempfile

    spans = [(lane, name, start, start + length) for lane, name, start, length in found]
    events = table(spans, 3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        Profile("t", table=events).to_chrome(path)
        again = load_profile(path)
    names = [lane.name for lane in events.lanes]
    assert rows(again.table) == rows(events)
    assert set(again.events["lane"].tolist()) <= set(names)


def test_lines_of_values(tmp_path: Path) -> None:
    events = table([(0, 'a "b", c', 0, 10), (0, "d", 20, 25)])
    Profile("t", table=events).to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        "kind,name,lane,start_ns,duration_ns,value",
        'run,"a ""b"", c",lane 0,0,10,0.0',
        "run,d,lane 0,20,5,0.0",
    ]


def test_counters_async_events_instants_and_names() -> None:
    p = parsed(
        {
            "traceEvents": [
                {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "trainer"}},
                {"ph": "M", "name": "thread_name", "pid": 7, "tid": "a", "args": {"name": "main"}},
                {"ph": "X", "name": "work", "pid": 7, "tid": "a", "ts": 1.5, "dur": 2.25},
                {"ph": "C", "name": "heap", "pid": 7, "ts": 1, "args": {"used": 5, "free": 2}},
                {"ph": "C", "name": "heap", "pid": 7, "ts": 3, "args": {"used": 9, "free": 1}},
                {"ph": "b", "name": "load", "cat": "io", "id": 4, "pid": 7, "ts": 2},
                {"ph": "b", "name": "other", "cat": "io", "id": 5, "pid": 7, "ts": 2},
                {"ph": "e", "name": "load", "cat": "io", "id": 4, "pid": 7, "ts": 9},
                {"ph": "e", "name": "other", "cat": "io", "id": 5, "pid": 7, "ts": 8},
                {"ph": "i", "name": "now", "pid": 7, "tid": "a", "ts": 4},
                {"ph": "s", "name": "flow", "pid": 7, "ts": 4},
            ],
            "otherData": {"version": "x"},
        }
    )
    lanes = {lane.name: lane for lane in p.table.lanes}
    assert lanes["main"].group == "trainer"
    assert lanes["heap used"].levels
    e = p.events
    found = dict(zip(e["name"].tolist(), e["duration_ns"].tolist(), strict=True))
    assert (found["work"], found["load"], found["other"]) == (2250, 7000, 6000)
    assert p.table.markers() == [(3000, "now")]
    used = e["value"][e["lane"] == "heap used"].tolist()
    assert used == [5.0, 9.0]
    assert p.table.notices == ["events of phases that are not shown: 1 of 's'"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is empty"),
        (b"   ", "is empty"),
        (b"hello", "it begins with 'hello'"),
        (b"{}", "has no traceEvents"),
        (b'{"traceEvents": 3}', "has no traceEvents"),
        (b'{"a" 1}', "a colon is missing"),
        (b'[{"ph":"X"} {"ph" "X"}]', "event 1"),
        (b'[{"ph":"X",]', "event 0"),
        (b"[nope, nope, nope, nope]", "event 0 is no JSON at letter 1"),
        (b"[" * 100_000, "event 0"),
        (b"\xff\xfe\x00", "is no text"),
        (b"\x1f\x8b\x09\x00broken", "cannot be unpacked"),
        (gzip.compress(b"[]" * 999, mtime=0)[:-9], "is cut"),
        (b"\n\x08\x00\x01binary", "Perfetto's binary form"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError) as caught:
        parse_profile(text, "given")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "notice", "count"),
    [
        (b'[{"ph":"X","ts":1,"dur":2}', "ends without closing its list", 1),
        (b'[{"ph":"X","ts":1,"dur":2},', "ends without closing its list", 1),
        (b'[{"ph":"X","ts":1,"dur":2},{"ph":"X","ts":', "in the middle of event 1", 1),
        (b'[{"ph":"X","ts":1,"dur":2},{"name":"cut of', "in the middle of event 1", 1),
        (b'[{"ph":"X","ts":1,"dur":2},{"a":tr', "in the middle of event 1", 1),
    ],
)
def test_a_file_that_ends_early_shows_what_came_before(
    text: bytes, notice: str, count: int
) -> None:
    p = parse_profile(text, "given")
    assert len(p.table) == count
    assert any(notice in n for n in p.table.notices)


def test_events_that_cannot_be_read_are_counted_and_the_first_is_named() -> None:
    p = parsed(
        [
            {"ph": "X", "name": "good", "ts": 0, "dur": 1},
            {"ph": "X", "name": "bad", "ts": "now", "dur": 1},
            {"ph": "X", "name": "back", "ts": 0, "dur": -1},
            {"ph": "X", "name": "late", "ts": 1e300, "dur": 1},
            {"ph": "C", "name": "c", "ts": 1, "args": {"x": "y"}},
            7,
            None,
        ]
    )
    assert len(p.table) == 1
    assert p.table.notices == ["6 events cannot be read, the first: event 1, 'bad': ts is now"]


def test_reading_says_how_far_it_is_and_can_be_cancelled() -> None:
    events = [{"ph": "X", "name": "e", "ts": i, "dur": 1} for i in range(60_000)]
    shares: list[float] = []
    assert len(parsed(events, progress=shares.append).table) == 60_000
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) >= 3
    with pytest.raises(Cancelled, match="was cancelled at event 20000"):
        parsed(
            events, cancelled=lambda: len(shares) > 0 and bool(asked.append(1) or len(asked) > 1)
        )


asked: list[int] = []


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 3))
def test_mutated_traces_are_read_or_refused(noise: bytes, at: int, kind: int) -> None:
    good = json.dumps({"traceEvents": OVERLAPPING, "otherData": {"producer": "tinylab"}}).encode()
    at = min(at, len(good))
    text = [good[:at] + noise + good[at:], good[:at], good[:at] + noise, noise][kind]
    try:
        found = parse_profile(text, "mutated")
    except CaptureError:
        return
    assert len(found.table) <= 100
    assert (found.table["end"] >= found.table["start"]).all()
    TimelineDesk(found).overview()


def test_foreign_kernel_numbers_point_nowhere() -> None:
    other = {"producer": "tinylab", "form": 1, "name": "x", "kernels": [["a", "CPU", 1, 2, 3, ""]]}
    events = [
        {"ph": "X", "name": "a", "cat": "run", "ts": 0, "dur": 1, "args": {"kernel": k}}
        for k in (0, 1, 99, "x", -5)
    ]
    p = parsed({"traceEvents": events, "otherData": other})
    assert np.sort(p.table["kernel"]).tolist() == [-1, -1, -1, -1, 0]

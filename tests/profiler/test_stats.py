"""Sums, top kernels, search, comparison: against closed figures and brute force."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tinylab
from tests.profiler.profiles import levels, many, profile, table
from tinylab import Context, Tensor
from tinylab.errors import CaptureError
from tinylab.profiler import Profile, compare, load_profile, stats, still
from tinylab.profiler.recorder import KernelFacts
from tinylab.profiler.table import KIND, EventTable, Lane, lane_labels
from tinylab.profiler.timeline_desk import TimelineDesk

some = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 90), st.integers(0, 30)),
    max_size=40,
)


def spans(found: list[tuple[int, str, int, int]]) -> list[tuple[int, str, int, int]]:
    return [(lane, name, start, start + length) for lane, name, start, length in found]


@given(some, st.integers(0, 80), st.integers(1, 60))
def test_a_selection_is_what_brute_force_sums(
    found: list[tuple[int, str, int, int]], begin: int, size: int
) -> None:
    given_spans, end = spans(found), begin + size
    chosen = stats.select(table(given_spans, 3), (begin, end))
    for lane in range(3):
        own = [
            (s, e)
            for number, _, s, e in given_spans
            if number == lane and s < end and (e > begin or s >= begin)
        ]
        sums = chosen.lanes.get(f"lane {lane}")
        assert (sums is None) == (not own)
        if sums is None:
            continue
        lengths = [e - s for s, e in own]
        inside = sum(min(e, end) - max(s, begin) for s, e in own)
        busy = len({t for s, e in own for t in range(max(s, begin), min(e, end))})
        assert (sums.count, sums.total_ns, sums.longest_ns) == (
            len(own), inside, max(lengths),
        )  # fmt: skip
        assert sums.median_ns == statistics.median(lengths)
        assert sums.mean_ns == pytest.approx(statistics.fmean(lengths))
        assert sums.busy == pytest.approx(busy / size)
    assert chosen.all.count == sum(s.count for s in chosen.lanes.values())


@given(some)
def test_top_kernels_are_what_brute_force_ranks(found: list[tuple[int, str, int, int]]) -> None:
    given_spans = spans(found)
    rows = stats.by_name(table(given_spans, 3))
    assert {row["name"] for row in rows} == {name for _, name, _, _ in given_spans}
    for row in rows:
        lengths = [e - s for _, name, s, e in given_spans if name == row["name"]]
        assert (row["runs"], row["total_ns"]) == (len(lengths), sum(lengths))
        assert row["median_ns"] == statistics.median(lengths)
        assert row["longest_ns"] == max(lengths)
    totals = [row["total_ns"] for row in rows]
    assert totals == sorted(totals, reverse=True)
    if sum(totals):
        assert sum(row["share"] for row in rows) == pytest.approx(1)


@given(some, st.integers(0, 80), st.integers(1, 60))
def test_kernels_of_a_stretch_have_the_time_that_is_inside(
    found: list[tuple[int, str, int, int]], begin: int, size: int
) -> None:
    given_spans, end = spans(found), begin + size
    rows = stats.by_name(table(given_spans, 3), (begin, end))
    touching = [(name, s, e) for _, name, s, e in given_spans if s < end and e > begin]
    assert {row["name"] for row in rows} == {name for name, _, _ in touching}
    for row in rows:
        own = [(s, e) for name, s, e in touching if name == row["name"]]
        assert row["total_ns"] == sum(min(e, end) - max(s, begin) for s, e in own)
        assert row["mean_ns"] == pytest.approx(statistics.fmean(e - s for s, e in own))
        assert row["longest_ns"] == max(e - s for s, e in own)
    if sum(row["total_ns"] for row in rows):
        assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_programs_of_one_name_are_counted_in_all_tables() -> None:
    def ran(name: str, kernels: list[int]) -> Profile:
        count = len(kernels)
        columns = {
            "lane": [0] * count, "kind": [KIND["run"]] * count, "name": [0] * count,
            "start": range(0, 10 * count, 10), "end": range(5, 10 * count, 10),
            "value": [0] * count, "kernel": kernels,
        }  # fmt: skip
        facts = [KernelFacts("r_4", "CPU") for _ in range(max(kernels) + 1)]
        for number, each in enumerate(facts):
            each.origin = f"{number}"
        events = EventTable.build([Lane("CPU", "device")], ["r_4"], columns, 0)
        return Profile(name, None, events, facts)

    before, after = ran("before", [0, 1, 0, 2]), ran("after", [0, 1])
    assert list(before.kernels) == ["r_4", "r_4 #2", "r_4 #3"]
    (row,) = before.top()
    assert (row["name"], row["runs"], row["programs"]) == ("r_4", 4, 3)
    assert before.top(1, 0, 12)[0]["programs"] == 2
    (changed,) = before.compare(after)
    assert (changed["runs"], changed["programs"]) == ([4, 2], [3, 2])
    assert "r_4 (3 programs)" in still.text(before)
    assert "r_4 (3 programs)" in still.text(compare(before, after))
    merged = compare(before, after).merged
    assert merged.top()[0]["programs"] == 3, "what both ran is one program"
    assert [kernel.runs for kernel in merged.kernels.values()] == [3, 2, 1]


def test_search_finds_all_words_in_any_case_by_time() -> None:
    events = table([(0, "Matmul big", 50, 60), (0, "matmul small", 0, 10), (0, "other", 20, 30)])
    rows, count = stats.search(events, "MATMUL")
    assert [events.name(row) for row in rows] == ["matmul small", "Matmul big"]
    assert count == 2
    assert stats.search(events, "big mat")[1] == 1
    assert stats.search(events, "  ") == ([], 0)
    assert stats.search(events, "none") == ([], 0)
    rows, count = stats.search(many(5000, 2), "r_1", 10)
    assert (len(rows), count > 10) == (10, True)


def test_two_runs_by_kernel() -> None:
    before = profile([(0, "a", 0, 100), (0, "a", 200, 300), (0, "gone", 400, 410)])
    after = profile([(0, "a", 50, 100), (0, "new", 400, 500)])
    rows = before.compare(after)
    assert [(r["name"], r["runs"], r["change_ns"], r["ratio"]) for r in rows] == [
        ("a", [2, 1], -150, 0.25),
        ("new", [0, 1], 100, None),
        ("gone", [1, 0], -10, None),
    ]
    both = compare(before, after)
    assert len(both.merged.table) == 5
    starts = both.merged.events["start_ns"][both.merged.events["name"] == "a"]
    assert sorted(starts.tolist()) == [0, 0, 200], "both begin at zero"
    groups = {lane.group for lane in both.merged.table.lanes}
    assert groups == {"by hand, before", "by hand, after"}
    answer = TimelineDesk(both).answer("compare")
    assert answer["rows"] == rows


def test_a_kernel_with_other_opts_is_the_same_kernel(tmp_path: Path) -> None:
    def run(noopt: int) -> Profile:
        with Context(NOOPT=noopt), tinylab.profile(f"NOOPT={noopt}") as p:
            (Tensor.ones(24, 8).contiguous() @ Tensor.ones(8, 24).contiguous()).realize()
        return p

    before, after = run(1), run(0)
    before.save(tmp_path / "before.tlab")
    before.to_chrome(tmp_path / "before.json")
    for each in (before, *(load_profile(tmp_path / f"before.{end}") for end in ("tlab", "json"))):
        rows = each.compare(after)
        changed = [row for row in rows if row["names"][0] != row["names"][1]]
        assert changed, "heuristics give the product another name"
        for row in changed:
            assert row["runs"][0] == row["runs"][1] > 0
            assert row["ratio"] is not None
            assert row["name"] == " -> ".join(row["names"])


def test_lanes_and_events_that_are_not_there_are_named() -> None:
    p = profile([(0, "a", 0, 10)])
    with pytest.raises(CaptureError, match=r"(?s)no lane 'lane 1'.*did you mean 'lane 0'"):
        p.select(lanes=["lane 1"])
    with pytest.raises(CaptureError, match="there is no event 7: the profile has 1"):
        p.event(7)
    desk = TimelineDesk(p)
    with pytest.raises(CaptureError, match=r"(?s)nobody answers 'windows'.*did you mean window"):
        desk.answer("windows")
    with pytest.raises(CaptureError, match="window cannot be answered"):
        desk.answer("window", {"start": 0})
    with pytest.raises(CaptureError, match="nothing to compare with"):
        desk.answer("compare")
    with pytest.raises(CaptureError, match="no record beside this profile"):
        desk.answer("open", {"kernel": 0, "tab": "kernels"})


def test_a_selection_of_some_names_and_lanes() -> None:
    p = profile([(0, "a", 0, 10), (0, "b", 20, 25), (1, "a", 0, 40)], 2)
    chosen = p.select(lanes=["lane 0"], words="a")
    assert (chosen.all.count, chosen.all.total_ns) == (1, 10)
    assert [row["lane"] for row in p.select().rows()] == ["lane 0", "lane 1"]


def test_levels_are_no_events_of_a_selection() -> None:
    chosen = stats.select(levels([(0, 5.0), (10, 7.0)]))
    assert chosen.all.count == 0


def test_the_desk_finds_the_row_that_an_event_is_drawn_in() -> None:
    events = many(3000, 4, seed=3)
    desk = TimelineDesk(profile([(0, "x", 0, 1)]))
    assert desk.event(0)["key"] == 0
    desk = TimelineDesk(type(desk.profile)("many", table=events))
    for row in np.random.default_rng(0).integers(0, 3000, 40).tolist():
        found = desk.event(row)
        assert desk.places[found["key"]].lane == int(events["lane"][row])


def test_lanes_of_one_name_are_told_apart() -> None:
    """Of two runs in one picture, each lane has its own figures."""
    one, two = profile([(0, "a", 0, 10)]), profile([(0, "a", 0, 70), (0, "b", 80, 90)])
    both = compare(one, two).merged
    rows = {row["lane"]: row for row in both.select().rows()}
    names = ["by hand, before: lane 0", "by hand, after: lane 0"]
    assert list(rows) == names
    assert [rows[name]["total_ns"] for name in names] == [10, 80]
    assert [row["lane"] for row in TimelineDesk(both).select(0, 100)["lanes"]] == names
    assert list(both.select(lanes=names[1:]).lanes) == names[1:]
    twins = [Lane("x", "g"), Lane("x", "g"), Lane("y", "g")]
    assert lane_labels(twins) == ["g: x", "g: x #2", "y"]

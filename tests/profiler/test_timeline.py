"""Windows of a timeline against brute force: bars, busy shares, rows, curves, sizes."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.profiler.profiles import levels, many, table
from tinylab.profiler import stats, timeline
from tinylab.profiler.collected import Profile
from tinylab.profiler.columns import pack
from tinylab.profiler.table import Lane, drawn_order
from tinylab.profiler.timeline import (
    MOST_ROWS,
    Row,
    Timeline,
    bars,
    rows_of,
)
from tinylab.profiler.timeline_desk import TimelineDesk

spans = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=60)


def sorted_spans(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(start, length) pairs as starts and ends, in a table's order."""
    order = sorted(found, key=lambda p: (p[0], -p[1]))
    start = np.array([p[0] for p in order], np.int64)
    return start, start + np.array([p[1] for p in order], np.int64)


def disjoint(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(gap, length) pairs one after another."""
    starts, ends, at = [], [], 0
    for gap, length in found:
        at += gap
        starts.append(at)
        at += length
        ends.append(at)
    return np.array(starts, np.int64), np.array(ends, np.int64)


# *** rows


@given(spans)
def test_no_two_events_of_a_row_overlap(found: list[tuple[int, int]]) -> None:
    start, end = sorted_spans(found)
    rows, _ = rows_of(start, end)
    for row in set(rows.tolist()):
        own = np.flatnonzero(rows == row)
        # A moment takes room too: two of them at one time are two events.
        assert (start[own][1:] >= np.maximum(end, start + 1)[own][:-1]).all()


@given(spans)
def test_rows_are_as_few_as_events_that_go_on_together(found: list[tuple[int, int]]) -> None:
    start, end = sorted_spans(found)
    rows, _ = rows_of(start, end)
    until = np.maximum(end, start + 1)
    most = max((int(((start <= t) & (until > t)).sum()) for t in start.tolist()), default=0)
    assert (int(rows.max()) + 1 if len(rows) else 0) == most


@given(spans)
def test_events_that_cross_are_counted(found: list[tuple[int, int]]) -> None:
    start, end = sorted_spans(found)
    until = np.maximum(end, start + 1)
    crossing = 0
    for i in range(len(start)):
        around = [j for j in range(i) if until[j] > start[i]]
        crossing += any(until[i] > until[j] for j in around)
    _, counted = rows_of(start, end)
    assert (counted > 0) == (crossing > 0)
    assert counted <= crossing


def test_nested_events_stand_under_what_is_around_them() -> None:
    start = np.array([0, 10, 20, 60])
    end = np.array([100, 50, 30, 90])
    rows, crossing = rows_of(start, end)
    assert rows.tolist() == [0, 1, 2, 1]
    assert crossing == 0


def test_events_that_overlap_go_to_rows_of_their_own_and_are_counted() -> None:
    rows, crossing = rows_of(np.array([0, 60, 120]), np.array([100, 140, 130]))
    assert rows.tolist() == [0, 1, 0]
    assert crossing == 1


def test_rows_have_a_limit_and_no_event_is_lost() -> None:
    count = MOST_ROWS + 40
    start = np.arange(count)
    shown = Timeline(table([(0, "deep", int(s), 10_000 - int(s)) for s in start]))
    lane = shown.lane(0)
    assert len(lane.rows) == MOST_ROWS
    _, found = shown.window(0, 10_000, 4000, [0])
    assert sum(int(b.count.sum()) for b in found.values()) == count


# *** bars


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=80),
    st.integers(0, 400),
    st.integers(1, 500),
    st.integers(1, 64),
)
def test_bars_are_what_brute_force_finds(
    found: list[tuple[int, int]], begin: int, size: int, columns: int
) -> None:
    start, end = disjoint(found)
    row = Row(np.arange(len(start)) + 1000, start, end)
    drawn = bars(row, begin, begin + size, columns)
    last = begin + size
    moments = (start == end) & ((start == begin) | (start == last))
    inside = np.flatnonzero(((end > begin) & (start < last)) | moments).tolist()
    assert int(drawn.count.sum()) == len(inside), "each event of the window in one bar"
    at = 0
    for n in range(len(drawn)):
        own = inside[at : at + int(drawn.count[n])]
        at += len(own)
        first, last = own[0], own[-1]
        assert (drawn.start[n], drawn.end[n]) == (start[first], end[last]), "true places"
        lengths = [int(end[i] - start[i]) for i in own]
        assert int(end[drawn.event[n] - 1000] - start[drawn.event[n] - 1000]) == max(lengths)
        share = sum(lengths) / max(1, int(end[last] - start[first]))
        wanted = 255 if len(own) == 1 else int(min(1.0, share) * 255)
        assert abs(int(drawn.busy[n]) - wanted) <= 1
        if len(own) > 1:
            edges = [begin + k * size // columns for k in range(columns + 1)]
            column = max(0, np.searchsorted(edges, start[last], "right") - 1)
            assert end[last] <= edges[column + 1], "what goes on is drawn by itself"
            assert start[first] >= edges[column] or first == inside[0], "of one column"


@pytest.mark.parametrize("few", [0, 1 << 17], ids=["by blocks", "one by one"])
@given(st.integers(1, 3000), st.data())
def test_the_longest_event_of_any_ranges(few: int, count: int, data: st.DataObject) -> None:
    lengths = np.random.default_rng(count).integers(0, 50, count)
    row = Row(np.arange(count), np.arange(count) * 100, np.arange(count) * 100 + lengths)
    cuts = sorted(set(data.draw(st.lists(st.integers(0, count), min_size=2, max_size=12))))
    kept = data.draw(st.lists(st.booleans(), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
    pairs = [p for p, keep in zip(itertools.pairwise(cuts), kept, strict=True) if keep]
    if not pairs:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "_FEW", few)
        found = row.longest(*np.array(pairs).T)
    for (a, b), i in zip(pairs, found.tolist(), strict=True):
        assert a <= i < b
        assert lengths[i] == lengths[a:b].max()


def test_lengths_of_years_are_ranked_too() -> None:
    year = 365 * 24 * 3600 * 10**9
    start = np.arange(5) * 10 * year
    row = Row(np.arange(5), start, start + np.array([1, 5, 2, 9, 3]) * year)
    assert row.longest(np.array([0, 2]), np.array([2, 5])).tolist() == [1, 3]


def test_closest_zoom_shows_every_event_in_its_true_place() -> None:
    events = many(20_000, 3)
    shown = Timeline(events)
    start, end = 500_000, 520_000
    _, found = shown.window(start, end, 20_000, [0, 1, 2])
    for (lane, _), drawn in found.items():
        own = events.rows_of(lane)
        starts, ends = events["start"][own], events["end"][own]
        wanted = np.flatnonzero((ends > start) & (starts < end))
        assert drawn.start.tolist() == starts[wanted].tolist()
        assert drawn.end.tolist() == ends[wanted].tolist()


@pytest.mark.parametrize("lanes", [1, 40])
@pytest.mark.parametrize("part", [1, 7, 1000])
def test_any_window_of_many_events_stays_under_a_megabyte(lanes: int, part: int) -> None:
    events = many(400_000, lanes)
    desk = TimelineDesk(Profile("many", table=events))
    start, end = events.span
    width = (end - start) // part
    answer = desk.answer(
        "window", {"start": start, "end": start + width, "columns": 4000,
                   "keys": list(range(lanes))},
    )  # fmt: skip
    specs, blob = pack(answer["columns"])
    assert len(blob) + len(str(specs)) < 1_000_000
    found = answer["columns"]
    touched = (events["end"] > start) & (events["start"] < start + width)
    assert int(found["count"].sum()) == int(touched.sum())


# *** curves


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), max_size=40),
    st.integers(0, 200),
    st.integers(1, 200),
    st.integers(1, 40),
)
def test_curves_are_what_brute_force_finds(
    points: list[tuple[int, int]], begin: int, size: int, columns: int
) -> None:
    points = sorted(points, key=lambda p: p[0])
    shown = Timeline(levels([(t, float(v)) for t, v in points]))
    low, high = shown.levels(begin, begin + size, columns, 0)
    for n in range(columns):
        left, right = begin + n * size // columns, begin + (n + 1) * size // columns
        before = [v for t, v in points if t < left]
        values = [*before[-1:], *[v for t, v in points if left <= t < right]]
        if not values:
            assert math.isnan(low[n])
            assert math.isnan(high[n])
        else:
            assert (low[n], high[n]) == (min(values), max(values))


def test_nothing_at_all_is_an_empty_window() -> None:
    desk = TimelineDesk(Profile("nothing", table=table([])))
    answer = desk.answer("window", {"start": 0, "end": 1, "columns": 10, "keys": [0, 7]})
    assert len(answer["columns"]["start"]) == 0
    assert desk.overview()["events"] == 0


def test_lanes_of_devices_stand_in_one_order_whichever_was_heard_of_first() -> None:
    names = ["CPU copies", "CL kernels", "CPU kernels", "CL copies"]
    lanes = [Lane(name, "device") for name in names] + [Lane("cell lines", "cell")]
    wanted = ["cell lines", "CL kernels", "CL copies", "CPU kernels", "CPU copies"]
    for made in (lanes, lanes[::-1]):
        assert [made[i].name for i in drawn_order(made)] == wanted


def test_slow_sums_hold_up_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    go, begun = threading.Event(), threading.Event()
    select = stats.select

    def slow(*args: Any) -> Any:
        begun.set()
        assert go.wait(60)
        return select(*args)

    monkeypatch.setattr(stats, "select", slow)
    desk = TimelineDesk(Profile("many", table=many(1000, 3)))
    summed: list[Any] = []
    asked = threading.Thread(
        target=lambda: summed.append(desk.answer("select", {"start": 0, "end": 1000}))
    )
    asked.start()
    assert begun.wait(60)
    window = {"start": 0, "end": 1000, "columns": 10, "keys": [0, 1, 2]}
    assert len(desk.answer("window", window)["columns"]["lane"])
    assert not summed
    go.set()
    asked.join(60)
    assert summed[0]["all"]["count"] > 0

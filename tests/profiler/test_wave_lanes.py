"""Waves by lane: windows of any level hold what a look at every wave finds, merged and counted."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tinylab.profiler.sqtt import trace as trace_module, wave_lanes
from tinylab.profiler.sqtt.encode import Spec, WaveSpec, encode
from tinylab.profiler.sqtt.trace import Trace
from tinylab.profiler.sqtt.wave_lanes import groups
from tinylab.profiler.sqtt.waves import Areas, Pairing, joined, occupancy


def many(count: int, seed: int = 3) -> Trace:
    """Short and long waves in six slots of three units, none at the same time in one slot."""
    random = np.random.default_rng(seed)
    specs: list[Spec] = []
    for slot in range(6):
        time = 0
        for _ in range(count // 6):
            time += int(random.integers(1, 40))
            length = int(random.integers(1, 8 if random.random() < 0.9 else 4000))
            specs.append(WaveSpec(time, time + length, slot=slot, unit=slot // 2))
            time += length
    return Trace(encode("rdna3", specs)).index()


@pytest.mark.parametrize("few", [1, 50, 1 << 17])
def test_windows_of_all_levels(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(wave_lanes, "_FEW", few)
    monkeypatch.setattr(wave_lanes, "_FIRST_COLUMNS", 16)
    trace = many(1200)
    waves, lanes = trace.waves(), trace.seen.lanes
    assert (len(lanes.levels) > 2) == (few < 100)
    assert all(int(level.bars.count.sum()) == len(waves) for level in lanes.levels)
    start, end = trace.span
    for left, right in ((start, end + 1), (start + 500, start + 900), (end // 2, end // 2 + 3)):
        inside = (waves.start < right) & (waves.end >= left)
        for step in (0.0, 10.0, (end - start) / 16, 1e9):
            found = lanes.window(left, right, step, None)
            touching = (found.start < right) & (found.end >= left)
            assert touching.all()
            # What is merged reaches out of the window at most by what it is merged with.
            assert int(found.count.sum()) >= int(inside.sum())
            if step == 0:
                rows = sorted(zip(found.lane, found.start, found.end, strict=True))
                every = (waves.lane[inside], waves.start[inside], waves.end[inside])
                assert rows == sorted(zip(*every, strict=True))
        some = lanes.window(left, right, 0.0, [0x1002, 7])
        assert set(some.lane.tolist()) <= {0x1002}


def test_groups_join_what_is_short_and_near() -> None:
    lane, start, end = np.array([1, 1, 1, 2]), np.array([0, 2, 9, 9]), np.array([1, 3, 10, 30])
    assert groups(lane, start, end, 0, 4).tolist() == [0, 2, 3]
    assert groups(lane, start, end, 0, 0.5).tolist() == [0, 1, 2, 3]
    assert groups(lane[:0], start[:0], end[:0], 0, 4).tolist() == []


def test_sorting_many_waves_waits_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "_OFTEN", 100)
    monkeypatch.setattr(trace_module, "_SELDOM", 400)
    data = bytes(many(1200).stream.data)
    trace = Trace(data, chunk_nibbles=256)
    sizes = set()
    while trace.advance(1e-9):
        sizes.add(len(trace.waves()))
        assert len(trace.waves()) <= len(trace.pairing)
    assert len(sizes) < 40
    assert len(trace.waves()) == 1200
    half = Trace(data, chunk_nibbles=256)
    half.index(cancelled=lambda: half.progress > 0.6)
    before = len(half.waves())
    assert half.look()
    assert before <= len(half.waves()) == len(half.pairing)
    assert half.progress < 1


def test_many_waves_are_sorted_beside_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "_OFTEN", 100)
    monkeypatch.setattr(trace_module, "_SELDOM", 200)
    go, sort = threading.Event(), trace_module.Seen.of

    def held_up(*args: Any) -> trace_module.Seen:
        go.wait()
        assert threading.current_thread() is not threading.main_thread()
        return sort(*args)

    trace = Trace(bytes(many(1200).stream.data), chunk_nibbles=256)
    while len(trace.waves()) < 90:
        trace.advance(1e-9)
    monkeypatch.setattr(trace_module.Seen, "of", held_up)
    for _ in range(400):
        assert trace.advance(1e-9), "what is not sorted is not done"
    seen = len(trace.waves())
    assert trace.progress == pytest.approx(0.99, abs=1e-3)
    assert not trace.look(0)
    assert seen < 1200
    go.set()
    assert not trace.advance(60)
    assert trace.progress == 1
    assert len(trace.waves()) == len(trace.pairing) == 1200


def test_what_goes_wrong_while_sorting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "_OFTEN", 100)
    monkeypatch.setattr(trace_module, "_SELDOM", 200)

    def fail(*_args: object) -> None:
        raise MemoryError("too many waves")

    trace = Trace(bytes(many(1200).stream.data))
    monkeypatch.setattr(trace_module.Seen, "of", fail)
    with pytest.raises(MemoryError, match="too many waves"):
        trace.index()


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 90)), max_size=200))
def test_the_curve_of_living_waves_and_its_areas(spans: list[tuple[int, int]]) -> None:
    trace = Trace(b"")
    rows = sorted(spans)
    waves = joined(trace.table, Pairing(trace.table).pieces())
    waves.start = np.array([start for start, _ in rows], np.int64)
    waves.end = np.array([start + length for start, length in rows], np.int64)
    times, living = occupancy(waves)
    assert (np.diff(times) > 0).all()
    for time, count in zip(times.tolist(), living.tolist(), strict=True):
        assert count == sum(s <= time < s + n for s, n in spans)
    if len(times):
        whole = np.concatenate([np.zeros(1), np.cumsum(living[:-1] * np.diff(times))])
        assert Areas(times, living).up_to(np.arange(len(times))).tolist() == whole.tolist()


@pytest.mark.parametrize("late", [0, 1 << 61])
def test_waves_come_by_start_then_place(late: int) -> None:
    """Also where both do not fit into one number."""
    pairing, random = Pairing(Trace(b"").table), np.random.default_rng(1)
    for _ in range(3):
        rows = random.integers(0, 40, (50, 4))
        rows[:, 0] <<= 12
        every = np.concatenate([rows, rows + np.array([0, 5, 0, 0])])
        every[:, 1] += late
        pairing._pair(every, np.repeat([True, False], 50))
    count = len(pairing)
    waves = joined(pairing.table, pairing.pieces())
    keys = list(zip(waves.start.tolist(), waves.lane.tolist(), strict=True))
    assert keys == sorted(keys)
    assert len(keys) == count > 20
    lanes = waves.lane[waves.by_lane()]
    assert (np.diff(lanes) >= 0).all()
    pairing.forget()
    assert len(pairing) == count

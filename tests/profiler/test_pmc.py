"""Counters: every value in its place, ratios with their formulas, runs side by side."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tinylab.errors import CaptureError
from tinylab.profiler.checked import Checked
from tinylab.profiler.counters.pmc import AXES, Readout, ScheduleEntry, compare, read_schedule

shapes = st.tuples(*[st.integers(1, 4)] * 5)


def readout(**values: list[int]) -> Readout:
    entries, offset, blob = [], 0, b""
    for name, v in values.items():
        entries.append(ScheduleEntry(name, "SQ", (1, 1, 1, 1, len(v)), offset))
        blob += struct.pack(f"<{len(v)}Q", *v)
        offset = len(blob)
    return Readout.from_blob(blob, entries)


@given(shapes, st.data())
def test_values_stand_where_the_schedule_says(shape: tuple[int, ...], data: st.DataObject) -> None:
    n = int(np.prod(shape))
    values = data.draw(st.lists(st.integers(0, (1 << 64) - 1), min_size=n, max_size=n))
    entry = ScheduleEntry("C", "SQ", shape, 0)  # type: ignore[arg-type]
    c = Readout.from_blob(struct.pack(f"<{n}Q", *values), [entry]).counters[0]
    assert (c.sum, c.max, c.count) == (sum(values), max(values), n)
    for index, (place, value) in enumerate(c.grid()):
        expected = 0
        for axis, size in zip(AXES, shape, strict=True):
            expected = expected * size + place[axis]
        assert (index, value) == (expected, values[expected])
    where = c.max_at
    assert where is None or c.values[tuple(where.values())] == c.max


def test_ratios_by_hand() -> None:
    r = readout(SQ_INSTS_VALU=[300, 100], GRBM_GUI_ACTIVE=[500, 1000], GL2C_HIT=[3], GL2C_MISS=[1])
    found = {m.key: m.value for m in r.metrics()}
    assert found["valu_utilization"] == 100 * (400 / 2) / (4 * 1000)
    assert found["l2_hit_percent"] == 75
    assert found["salu_utilization"] is None
    assert found["lds_bank_conflict_percent"] is None


def test_undefined_ratios_are_none() -> None:
    r = readout(TCC_HIT=[0], TCC_MISS=[0], SQ_INSTS_VALU=[1], GRBM_GUI_ACTIVE=[0])
    assert {m.value for m in r.metrics()} == {None}
    assert {m.text for m in r.metrics()} == {None}


def test_runs_side_by_side() -> None:
    rows = compare([readout(A=[1, 2], B=[4]), readout(A=[6])])
    found = {r.name: (r.values, r.change) for r in rows}
    assert found["A"] == ((3, 6), 2.0)
    assert found["B"] == ((4, None), None)


def test_a_blob_that_is_too_short_is_refused() -> None:
    entry = ScheduleEntry("C", "SQ", (1, 1, 1, 1, 4), 0)
    with pytest.raises(CaptureError, match="need 32 bytes, there are 31"):
        Readout.from_blob(bytes(31), [entry])
    with pytest.raises(CaptureError, match="need 32 bytes, there are 16"):
        Readout.from_blob(bytes(64), [entry], used_bytes=16)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "C", "xcc": 0},
        {"name": "C", "wgp": -1},
        {"name": "C", "wgp": 2, "size": 8},
        {"name": "C", "offset": 8},
        {"name": "C", "inst": 1 << 60},
        {"name": "C", "se": 4096, "wgp": 1 << 20},
        {"name": 7},
        {"name": "C", "sa": True},
        {"name": "C", "sa": 1.5},
    ],
)
def test_schedules_that_contradict_themselves_are_refused(entry: dict[str, object]) -> None:
    with pytest.raises(CaptureError):
        read_schedule(Checked({"schedule": [entry]}, "test"))

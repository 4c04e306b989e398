"""Profiles in .tlab files: there and back, and damaged ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tinylab
from tests.profiler.profiles import many
from tinylab import Tensor
from tinylab.errors import CaptureError, TinylabError, TraceError
from tinylab.profiler import still
from tinylab.profiler.collected import Profile
from tinylab.profiler.files import load_profile
from tinylab.profiler.timeline_desk import TimelineDesk


def same(a: Profile, b: Profile) -> bool:
    return all(np.array_equal(a.table[n], b.table[n]) for n in a.table.columns)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Path]:
    with tinylab.profile("run", record=True) as p:
        tinylab.profile_marker("begin")
        (Tensor.ones(6, 11).contiguous() * 3).sum().realize()
    path = tmp_path_factory.mktemp("saved") / "run.tlab"
    p.save(path)
    return p, path


def test_a_profile_comes_back_with_its_record(saved: tuple[Profile, Path]) -> None:
    p, path = saved
    again = load_profile(path)
    assert same(p, again)
    assert (again.name, again.table.names, again.table.lanes) == (
        "run", p.table.names, p.table.lanes,
    )  # fmt: skip
    assert again.record is not None
    for name, kernel in p.kernels.items():
        assert again.kernels[name].row() == kernel.row()
        number = again.kernels[name].number
        assert number == kernel.number
        assert again.record.kernels[number].source
    with pytest.raises(CaptureError, match="counters need it"):
        _ = next(iter(again.kernels.values())).counters


def test_counters_come_back_and_stand_beside_their_kernels(tmp_path: Path) -> None:
    with tinylab.profile("counted", record=True) as p:
        (Tensor.ones(6, 11).contiguous() * 3).sum().realize()
    figure = {"name": "flops", "value": 66, "unit": "operations", "kind": "counted", "note": "n"}
    first, *others = [k for k in p.kernels.values() if k.number is not None]
    assert first.number is not None
    p.counted[first.number] = {"figures": [figure], "notes": ["sampled"], "message": "", "uops": []}
    p.save(tmp_path / "counted.tlab")
    for shown in (p, load_profile(tmp_path / "counted.tlab")):
        desk = TimelineDesk(shown)
        assert desk.overview()["counted"]
        rows = {row["name"]: row.get("figures") for row in desk.overview()["top"]}
        assert rows[first.name] == [figure]
        whole = desk.select(*shown.table.span)["top"]
        assert [r["figures"] for r in whole if r["name"] == first.name] == [[figure]]
        runs = {
            shown.event(row)["name"]: desk.event(row)["counters"]
            for row in np.flatnonzero(shown.table["kernel"] >= 0).tolist()
        }
        assert runs[first.name] == {"figures": [figure], "notes": ["sampled"], "message": ""}
        for other in others:
            assert "was not counted: only the 1 kernels" in runs[other.name]["message"]
        assert "flops, counted" in still.text(shown)
        assert "flops, counted" in still.html(shown)


@pytest.mark.parametrize("record", [False, True])
def test_counters_that_were_asked_for_are_kept(tmp_path: Path, record: bool) -> None:
    with tinylab.profile("asked", record=record) as p:
        (Tensor.ones(6, 11).contiguous() * 3).sum().realize()
        Tensor.arange(37).contiguous().realize()
    first, other = list(p.kernels)[:2]
    figures = p.kernels[first].counters.figures
    p.save(tmp_path / "asked.tlab")
    again = load_profile(tmp_path / "asked.tlab")
    assert again.kernels[first].counters.figures == figures
    with pytest.raises(CaptureError, match="counters need it"):
        _ = again.kernels[other].counters
    for shown in (p, again):
        desk = TimelineDesk(shown)
        rows = {row["name"]: row.get("figures") for row in desk.overview()["top"]}
        assert rows[first]
        assert not rows[other]
        messages = {
            shown.event(row)["name"]: desk.event(row)["counters"]["message"]
            for row in np.flatnonzero(shown.table["kernel"] >= 0).tolist()
        }
        assert messages[first] == ""
        assert messages[other] == "This kernel was not counted: nobody asked for its counters."


@pytest.mark.parametrize(
    "counted",
    [
        '{"0": {"figures": [{"name": "", "value": Infinity, "unit": "", "kind": "", "note": ""}]}}',
        '{"0": {"figures": [{"name": "a", "value": NaN, "unit": "", "kind": "", "note": ""}]}}',
        '{"0": {"figures": [{"name": "a"}]}}',
        '{"0": {"figures": 3}}',
        '{"0": []}',
        '{"x": {}}',
        "[]",
        "7",
    ],
)
def test_counters_that_are_none_are_refused(
    saved: tuple[Profile, Path], tmp_path: Path, counted: str
) -> None:
    path = tmp_path / "strange.tlab"
    path.write_bytes(saved[1].read_bytes())
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE profile SET data = ? WHERE key = 'counted'", (counted,))
        db.commit()
    with pytest.raises(TraceError, match="is damaged"):
        load_profile(path)


def test_a_file_from_before_counters_were_saved_opens(
    saved: tuple[Profile, Path], tmp_path: Path
) -> None:
    path = tmp_path / "older.tlab"
    path.write_bytes(saved[1].read_bytes())
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM profile WHERE key = 'counted'")
        db.commit()
    assert load_profile(path).counted == {}


def test_without_counters_no_kernel_says_that_it_has_none(saved: tuple[Profile, Path]) -> None:
    desk = TimelineDesk(saved[0])
    run = int(np.flatnonzero(saved[0].table["kernel"] >= 0)[0])
    assert desk.event(run)["counters"] is None
    assert not desk.overview()["counted"]


def test_its_record_is_one_that_load_reads(saved: tuple[Profile, Path]) -> None:
    p, path = saved
    assert p.record is not None
    assert [k.name for k in tinylab.load(path).kernels] == [k.name for k in p.record.kernels]


def test_many_events_are_packed(tmp_path: Path) -> None:
    p = Profile("many", table=many(200_000, 5))
    p.save(tmp_path / "many.tlab")
    assert same(p, load_profile(tmp_path / "many.tlab"))
    assert (tmp_path / "many.tlab").stat().st_size < 10 * 200_000


def test_a_record_alone_is_no_profile(tmp_path: Path) -> None:
    with tinylab.record() as rec:
        Tensor.ones(3).contiguous().realize()
    rec.save(tmp_path / "rec.tlab")
    with pytest.raises(TraceError, match="holds a record and no profile"):
        load_profile(tmp_path / "rec.tlab")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    p = Profile("p", table=many(10, 1))
    with pytest.raises(TraceError, match="is a folder"):
        p.save(tmp_path)
    with pytest.raises(TraceError, match=r"there is no folder .*none to write x\.tlab to"):
        p.save(tmp_path / "none" / "x.tlab")
    with pytest.raises(CaptureError, match=r"there is no folder .*none to write x\.csv to"):
        p.to_csv(tmp_path / "none" / "x.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE profile SET data='99' WHERE key='form'",
        "UPDATE profile SET data='[[1]]' WHERE key='lanes'",
        "UPDATE profile SET data='[]' WHERE key='lanes'",
        "UPDATE profile SET data='[]' WHERE key='names'",
        "UPDATE profile SET data='[]' WHERE key='kernels'",
        "UPDATE profile SET data='1e99' WHERE key='events'",
        "UPDATE profile SET data='-1' WHERE key='events'",
        "UPDATE profile SET data='100000000' WHERE key='events'",
        "UPDATE profile SET data='{' WHERE key='names'",
        "DELETE FROM profile WHERE key='name'",
        "DELETE FROM profile_events",
        "UPDATE profile_events SET data=x'00'",
        "CREATE TRIGGER t AFTER INSERT ON profile BEGIN DELETE FROM profile; END",
    ],
)
def test_damaged_files_are_refused(
    saved: tuple[Profile, Path], tmp_path: Path, change: str
) -> None:
    copy = tmp_path / "copy.tlab"
    copy.write_bytes(saved[1].read_bytes())
    with closing(sqlite3.connect(copy)) as db:
        db.execute(change)
        db.commit()
    with pytest.raises(TraceError):
        load_profile(copy)


@settings(max_examples=60)
@given(st.data())
def test_flipped_bytes_are_read_or_refused(
    saved: tuple[Profile, Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = bytearray(saved[1].read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        good[data.draw(st.integers(16, len(good) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / "x.tlab"
    path.write_bytes(good[: data.draw(st.sampled_from([len(good), len(good) // 2, 5000]))])
    try:
        found = load_profile(path)
    except TinylabError:
        return
    TimelineDesk(found).overview()

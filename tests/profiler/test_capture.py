"""Captures from strangers: nothing outside the folder, nothing believed, every refusal in words."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.profiler import fuzz
from tinylab.errors import CaptureError
from tinylab.profiler import page, report
from tinylab.profiler.capture import read_capture
from tinylab.profiler.demo import FOLDER, write_demo
from tinylab.profiler.desk import Desk
from tinylab.profiler.files import load_profile
from tinylab.profiler.summary import summarize


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "capture"))


def change(folder: Path, key: str, **values: Any) -> None:
    file = folder / "capture.json"
    found = json.loads(file.read_text())
    found[key][0].update(values)
    file.write_text(json.dumps(found))


@pytest.mark.parametrize("name", ["../se0.sqtt", "/etc/hostname", "", "..", "a/b", "a\\b", 7])
def test_files_stay_in_the_folder(folder: Path, name: object) -> None:
    change(folder, "sqtt", file=name)
    with pytest.raises(CaptureError, match="file is"):
        read_capture(folder)


def test_what_is_missing_is_named(folder: Path) -> None:
    (folder / "capture.json").unlink()
    with pytest.raises(CaptureError, match=r"no capture\.json"):
        read_capture(folder)
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    with pytest.raises(CaptureError, match="there are captures in capture"):
        read_capture(folder.parent)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\xff"])
def test_json_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "capture.json").write_text(text, encoding="latin-1")
    with pytest.raises(CaptureError, match=r"capture\.json"):
        read_capture(folder)


def test_a_stream_without_its_program_is_still_shown(folder: Path) -> None:
    (folder / "program0.co").write_bytes(b"nothing")
    found = summarize(read_capture(folder))["sqtt"][0]
    assert "fault" not in found
    assert len(found["waves"]["rows"]) == 96
    assert not found["instructions"]["mapped_to_pc"]
    assert len(found["instructions"]["rows"]) == 474


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"nothing", "no code object: 7 bytes that begin with 6e6f7468"),
        (b"\x7fELF" + bytes(60), "the code object has no section with instructions"),
        (None, "there is no such file"),
    ],
)
def test_a_code_object_that_cannot_be_read_is_told_from_none(
    folder: Path, data: bytes | None, why: str
) -> None:
    (folder / "program0.co").unlink()
    if data is not None:
        (folder / "program0.co").write_bytes(data)
    capture = read_capture(folder)
    sentence = f"cannot read program0.co: {why}"
    (fault,) = summarize(capture)["faults"]
    assert (fault["file"], fault["why"]) == ("program0.co", sentence)
    notes = [str(row["note"]) for row in report.sources(capture)[1].rows]
    assert f"{sentence}: instructions have no addresses" in notes


def test_runs_of_a_program_are_numbered_in_order(folder: Path) -> None:
    file = folder / "capture.json"
    found = json.loads(file.read_text())
    found["ranges"] += [{**found["ranges"][0], "exec_tag": tag} for tag in (7, 3)]
    file.write_text(json.dumps(found))
    capture = read_capture(folder)
    assert [capture.run_number(0, tag) for tag in (1, 3, 7)] == [1, 2, 3]


def test_the_shipped_demonstration_is_what_its_script_makes(tmp_path: Path) -> None:
    write_demo(tmp_path)
    made = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert made == {p.name: p.read_bytes() for p in FOLDER.iterdir()}


def test_the_demonstration_is_whole() -> None:
    found = summarize(read_capture(FOLDER))
    assert found["faults"] == []
    for stream in found["sqtt"]:
        assert stream["instructions"]["mapped_to_pc"]
        assert stream["dispatch"]["hash_matches_program"]
        assert stream["dispatch"]["entry_pc"] == 4096
        assert stream["waves_unclosed"] == stream["waves_unopened"] == 0
    valu = found["pmc"][0]["counters"]["SQ_INSTS_VALU"]
    traced = [r for r in found["sqtt"][0]["instructions"]["rows"] if r[2].startswith("VALU")]
    waves = 96 * len(found["sqtt"])
    assert valu["sum"] == len(traced) // 6 * waves


def test_damaged_captures_are_read_or_refused() -> None:
    seen = fuzz.run(60)
    assert seen["read"] > 10
    assert seen["refused"] > 2


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("se1.sqtt", None, "cannot read se1.sqtt: there is no such file"),
        ("pmc0.bin", None, "cannot read pmc0.bin: there is no such file"),
        ("pmc0.bin", 0, "the counters need 520 bytes, there are 0"),
    ],
)
def test_what_cannot_be_read_hides_nothing_else(
    folder: Path, name: str, data: int | None, why: str
) -> None:
    whole = summarize(read_capture(folder))
    kept = (folder / name).read_bytes()[:data]
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(kept)
    capture = read_capture(folder)
    found = summarize(capture)
    fault = {"file": name, "byte": 0, "clock": 0, "why": why, "fatal": True}
    assert found["faults"] == [fault]
    for key in ("sqtt", "pmc"):
        for before, row in zip(whole[key], found[key], strict=True):
            assert row == before or (row["file"], row["fault"]) == (name, why)
    rows = list(report.sources(capture)[1].rows)
    notes = {row["source"]: row["note"] for row in rows}
    assert len(rows) == 3
    assert notes[name.split(".")[0]] == why
    assert any(row["waves"] == 96 for row in rows)


def test_a_comparison_leaves_out_what_cannot_be_read_and_says_so(folder: Path) -> None:
    (folder / "pmc0.bin").unlink()
    found = report.comparison([read_capture(FOLDER), read_capture(folder)])
    assert found.notes == [
        "demonstration (2) #1 is left out: cannot read pmc0.bin: there is no such file"
    ]
    counters = read_capture(FOLDER).readout(read_capture(FOLDER).counters[0]).counters
    sums = {row["counter"]: row["demonstration (1) #1"] for row in found.rows}
    assert {c.name: c.sum for c in counters}.items() <= sums.items()


def test_captures_of_one_name_stand_in_columns_of_their_own(folder: Path) -> None:
    values = np.fromfile(folder / "pmc0.bin", "<u8")
    (folder / "pmc0.bin").write_bytes((3 * values).tobytes())
    row = next(iter(report.comparison([read_capture(FOLDER), read_capture(folder)]).rows))
    assert row["demonstration (2) #1"] == 3 * row["demonstration (1) #1"]
    assert row["last/first"] == 3
    desk = Desk((read_capture(FOLDER), read_capture(folder)))
    names = [c["name"] for c in desk.overview()["captures"]]
    assert names == ["demonstration (1)", "demonstration (2)"]


def test_runs_of_one_capture_are_compared(folder: Path) -> None:
    file = folder / "capture.json"
    found = json.loads(file.read_text())
    found["pmc"].append({**found["pmc"][0], "exec_tag": 2})
    file.write_text(json.dumps(found))
    section = report.sources(read_capture(folder))[-1]
    assert all(row["demonstration #1"] == row["demonstration #2"] for row in section.rows)


def test_a_cut_counter_file_shows_what_is_whole_and_says_where_it_ends(folder: Path) -> None:
    whole = read_capture(folder)
    entries = whole.counters[0].schedule
    kept = entries[2].offset + entries[2].size
    (folder / "pmc0.bin").write_bytes((folder / "pmc0.bin").read_bytes()[: kept + 5])
    why = (
        f"the counters need 520 bytes, there are {kept + 5}: "
        f"{len(entries) - 3} of {len(entries)} are left out, from {entries[3].name} on"
    )
    capture = read_capture(folder)
    (row,) = (found := summarize(capture))["pmc"]
    assert (list(row["counters"]), row["fault"]) == ([e.name for e in entries[:3]], why)
    assert (found["faults"][0]["byte"], found["faults"][0]["why"]) == (kept, why)
    sections = report.counter_sections(capture, capture.counters[0])
    assert (len(list(sections[0].rows)), sections[0].notes) == (3, [why])
    assert report.comparison([read_capture(FOLDER), capture]).notes == [
        f"demonstration (2) #1: {why}"
    ]
    assert any(why in str(r["note"]) for r in report.sources(capture)[1].rows)
    answer = Desk((capture,)).counters(0)
    assert (len(answer["rows"]), answer["note"]) == (3, why)
    assert why in page.html(capture)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("make", "kind"),
    [(_pipe, "a named pipe"), (_zero, "a device"), (Path.mkdir, "a folder"), (_socket, "a socket")],
)
@pytest.mark.parametrize("name", ["capture.json", "se1.sqtt", "program0.co", "pmc0.bin"])
def test_what_is_no_regular_file_is_refused_at_once(
    folder: Path, name: str, make: Callable[[Path], None], kind: str
) -> None:
    (folder / name).unlink()
    make(folder / name)
    sentence = f"^cannot read {name}: it is {kind}, not a regular file"
    with pytest.raises(CaptureError, match=sentence):
        read_capture(folder).blob(name)


def test_links_to_files_are_followed(folder: Path) -> None:
    (folder / "se1.sqtt").rename(folder / "real")
    (folder / "se1.sqtt").symlink_to(folder / "real")
    assert summarize(read_capture(folder))["faults"] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["trace.sqtt", "trace.json", "trace.tlab"])
def test_a_pipe_in_place_of_a_profile_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(CaptureError, match="it is a named pipe"):
        read_capture(tmp_path / name)
    with pytest.raises(CaptureError, match="it is a named pipe"):
        load_profile(tmp_path / name)

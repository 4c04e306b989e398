"""What is left of a capture without a kernel: text, tables, a picture, all of it escaped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.profiler.captures import every_capture, recorded
from tests.profiler.profiles import many
from tinylab.profiler import page
from tinylab.profiler.capture import Capture, Captures, read_capture, read_captures
from tinylab.profiler.collected import Profile
from tinylab.profiler.demo import FOLDER


def test_text_has_a_line_a_source() -> None:
    text = page.text(read_capture(FOLDER))
    lines = text.splitlines()
    assert lines[0] == "demonstration on gfx1100: 2 thread traces, 1 counter read-out"
    assert "96 waves, 468 instructions" in lines[1]
    assert lines[-1].startswith("pmc0")


def test_html_has_the_hottest_first_and_the_formulas() -> None:
    html = page.html(read_capture(FOLDER))
    assert html.index("s_waitcnt vmcnt(0)") < html.index("s_barrier") if "s_barrier" in html else 1
    assert "GRBM_GUI_ACTIVE" in html
    assert "data:image/svg+xml;base64," in html
    assert "<script" not in html


def test_names_of_strangers_are_escaped(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "capture"))
    found = json.loads((folder / "capture.json").read_text())
    found["capture"] = "<script>alert(1)</script>"
    found["pmc"][0]["schedule"][0]["name"] = "<img src=x>"
    (folder / "capture.json").write_text(json.dumps(found))
    html = page.html(read_capture(folder))
    assert "<script" not in html
    assert "<img src=x" not in html


@pytest.mark.parametrize("capture", [Capture(Path(), "nothing", ""), Captures(())])
def test_nothing_is_said_in_words(capture: Capture | Captures) -> None:
    assert page.html(capture).startswith("<div>")
    if isinstance(capture, Capture):
        assert "nothing was captured" in page.text(capture)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "capture"))
    (folder / "se0.sqtt").unlink()
    (folder / "pmc0.bin").write_bytes(b"")
    bundle = page.mimebundle(read_capture(folder))
    assert "se0.sqtt" in bundle["text/plain"]
    assert "there are 0" in bundle["text/html"]


@recorded
@every_capture
def test_pictures_of_real_captures_are_small_and_well_formed(folder: Path) -> None:
    capture = read_capture(folder)
    trace = capture.trace(capture.streams[0]).index()
    svg = page.picture(trace)
    ElementTree.fromstring(svg)
    assert len(svg) < 400_000
    assert len(page.html(capture)) < 700_000


def test_what_is_held_prints_as_a_line_or_a_few() -> None:
    """In a terminal and in a log, where no viewer shows."""
    capture = read_capture(FOLDER)
    trace = capture.trace(capture.streams[0])
    assert "0 % read" in repr(trace)
    readout = capture.readout(capture.counters[0])
    profile = Profile("p", table=many(50, 2))
    printed = {
        repr(capture): "<capture demonstration on gfx1100: 2 thread traces, 1 counter read-out>",
        repr(read_captures(FOLDER, FOLDER)): "\n".join([repr(capture)] * 2),
        repr(trace.index()): f"{int(trace.counts.sum())} packets, 96 waves>",
        repr(readout): "\n".join(map(repr, readout.counters)),
        repr(readout.counters[0]): "<counter SQ_INSTS_VALU of SQ: 5568 in 16 values>",
        repr(profile.table): "<table of 50 events in 2 lanes>",
        repr(profile.select(lanes=["lane 0"])): "lane 0: ",
    }
    for text, wanted in printed.items():
        assert wanted in text
        assert max(map(len, text.splitlines())) < 100

"""`tinylab view`: which cell shows a file, what is refused, what is kept of a cell's messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tinylab
from tinylab import Tensor
from tinylab.errors import TinylabError
from tinylab.lab.cli import main
from tinylab.lab.view import Shown, cell_of
from tinylab.profiler.demo import FOLDER


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """profile.tlab, both.tlab, record.tlab, trace.json"""
    folder = tmp_path_factory.mktemp("files")
    for name, recorded in (("profile", False), ("both", True)):
        with tinylab.profile(name, record=recorded) as p:
            Tensor.ones(2, 5).contiguous().realize()
        p.save(folder / f"{name}.tlab")
    p.to_chrome(folder / "trace.json")
    with tinylab.record() as rec:
        Tensor.ones(2, 5).contiguous().realize()
    rec.save(folder / "record.tlab")
    return folder


displayed: list[Any] = []


def shown(*paths: Path) -> Any:
    """The value of the cell that shows some files."""
    *lines, value = cell_of(paths).splitlines()
    assert lines[0] == "%load_ext tinylab"
    namespace: dict[str, Any] = {"display": displayed.append}
    exec("\n".join(lines[1:]), namespace)
    return eval(value, namespace)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["profile.tlab"], "Profile"),
        (["trace.json"], "Profile"),
        (["profile.tlab", "trace.json"], "Comparison"),
        (["record.tlab"], "StoredRecord"),
        ([FOLDER], "Capture"),
        ([FOLDER / "capture.json"], "Capture"),
        ([FOLDER / "se0.sqtt"], "Capture"),
        ([FOLDER, FOLDER / "se0.sqtt"], "Captures"),
    ],
)
def test_the_cell_shows_what_the_files_hold(files: Path, names: list[str], kind: str) -> None:
    assert type(shown(*(files / name for name in names))).__name__ == kind


def test_a_profile_with_its_record_is_shown_with_the_debugger(files: Path) -> None:
    displayed.clear()
    record = shown(files / "both.tlab")
    (profile,) = displayed
    assert type(profile).__name__ == "Profile"
    assert record is profile.record
    assert record.kernels


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["nothing.tlab"], "there is no file"),
        (["nothing"], "there is no nothing in"),
        (["record.tlab", "record.tlab"], "2 records are not compared"),
        (["trace.json"] * 3, "3 profiles are not compared"),
        (["record.tlab", "trace.json"], "profiles and records are not shown together"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence_before_anything_starts(
    files: Path, names: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [files / name for name in names]
    with pytest.raises(TinylabError, match=sentence):
        cell_of(paths)
    assert main(["view", *map(str, paths)]) == 2
    assert sentence in capsys.readouterr().err


def test_what_a_cell_shows_is_kept_and_its_bars_are_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = Shown()
    bar = {"data": {"text/plain": "reading 1%"}, "metadata": {}, "transient": {"display_id": "b"}}
    for kind, content in (
        ("display_data", bar),
        ("status", {"execution_state": "busy"}),
        ("update_display_data", bar | {"data": {"text/plain": "reading 100%"}}),
        ("stream", {"name": "stdout", "text": "printed"}),
        ("execute_result", {"data": {"text/plain": "4"}, "metadata": {}, "execution_count": 1}),
    ):
        shown.hear({"msg_type": kind, "header": {"msg_type": kind}, "content": content})
    shown.end_line()
    assert [o["output_type"] for o in shown.outputs] == ["display_data", "stream", "execute_result"]
    assert shown.outputs[0]["data"]["text/plain"] == "reading 100%"
    assert capsys.readouterr().err.endswith("reading 100%\n")
    assert json.loads(json.dumps(shown.outputs))
    error = {"ename": "CaptureError", "evalue": "a.json is empty", "traceback": []}
    shown.hear({"msg_type": "error", "content": error})
    assert shown.error == "a.json is empty"

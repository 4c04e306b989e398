"""`tinylab profile` on saved profiles and traces: tables for people, lines for scripts."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import tinylab
from tests.profiler.profiles import many
from tinylab import Tensor
from tinylab.lab.cli import main
from tinylab.profiler import load_profile
from tinylab.profiler.collected import Profile
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.table import KIND, EventTable, Lane


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """run.tlab and run.json: two kernels, a copy, three markers, memory."""
    folder = tmp_path_factory.mktemp("files")
    lanes = [
        Lane("CPU kernels", "device"), Lane("CPU copies", "device"), Lane("markers", "marks"),
        Lane("CPU memory", "memory", True, "B"),
    ]  # fmt: skip
    names = ["r_4", "E_8", "to CPU", "warm", "begin", "end", "memory in use"]
    rows = [
        (0, "run", 0, 100, 300, 0), (0, "run", 0, 500, 900, 0), (0, "run", 1, 950, 1000, 0),
        (1, "copy", 2, 10, 60, 64), (2, "mark", 3, 0, 0, 0), (2, "mark", 4, 400, 400, 0),
        (2, "mark", 5, 940, 940, 0), (3, "memory", 6, 5, 5, 4096),
    ]  # fmt: skip
    lane, kind, name, start, end, value = zip(*rows, strict=True)
    columns = {
        "lane": lane, "kind": [KIND[k] for k in kind], "name": name, "start": start, "end": end,
        "value": value, "kernel": [-1] * len(rows),
    }  # fmt: skip
    p = Profile("run", table=EventTable.build(lanes, names, columns, 0))
    p.save(folder / "run.tlab")
    p.to_chrome(folder / "run.json")
    return folder


def run(capsys: pytest.CaptureFixture[str], *args: object) -> list[str]:
    assert main(["profile", *map(str, args)]) == 0
    return capsys.readouterr().out.splitlines()


def rows(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["run.tlab", "run.json"])
def test_lanes_and_markers(capsys: pytest.CaptureFixture[str], files: Path, name: str) -> None:
    found = rows(run(capsys, files / name, "--json"))
    by_lane = {row["lane"]: row for row in found if "lane" in row}
    assert by_lane["CPU kernels"]["events"] == 3
    assert by_lane["CPU kernels"]["total ns"] == 650
    assert by_lane["CPU kernels"]["busy"] == pytest.approx(0.65)
    assert by_lane["CPU memory"]["peak"] == 4096
    assert [row["marker"] for row in found if "marker" in row] == ["warm", "begin", "end"]
    text = "\n".join(run(capsys, files / name))
    assert "CPU copies" in text
    assert "\x1b" not in text, "colours are for terminals"


def test_top_kernels_and_those_between_markers(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    found = rows(run(capsys, files / "run.tlab", "-t", 2, "--json"))
    assert [(r["kernel"], r["runs"], r["total ns"], r["share"]) for r in found] == [
        ("r_4", 2, 600, pytest.approx(600 / 650)),
        ("E_8", 1, 50, pytest.approx(50 / 650)),
    ]
    args = ("-t", 2, "--interval", "begin", "end", "--json")
    (only,) = rows(run(capsys, files / "run.json", *args))
    assert (only["kernel"], only["runs"], only["total ns"]) == ("r_4", 1, 400)


def test_an_interval_counts_what_is_in_it(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    whole = run(capsys, files / "run.tlab")
    assert whole[0] == "run: 8 events, 1 µs", "as many as the profile's repr says"
    found = rows(run(capsys, files / "run.tlab", "--interval", "begin", "end", "--json"))
    by_lane = {row["lane"]: row for row in found if "lane" in row}
    assert by_lane["CPU kernels"]["events"] == 1
    assert by_lane["CPU memory"] | {"table": ""} == {
        "table": "", "lane": "CPU memory", "events": 0, "busy": None, "total ns": None,
        "mean ns": None, "median ns": None, "longest ns": None, "peak": 4096.0,
    }, "a level lasts until the next"  # fmt: skip
    assert [row["marker"] for row in found if "marker" in row] == ["begin", "end"]
    text = run(capsys, files / "run.tlab", "--interval", "begin", "end")
    assert text[0] == "run from begin to end: 2 events, 540 ns"
    assert any("inside the interval" in line for line in text)
    both = (files / "run.tlab", files / "run.json", "--interval", "begin", "end", "--json")
    (only,) = rows(run(capsys, *both))
    assert (only["kernel"], only["before ns"]) == ("r_4", 400)
    assert (only["before runs"], only["after runs"]) == (1, 1)


def test_counters_that_were_saved_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with tinylab.profile("counted", record=True) as p:
        Tensor.ones(6, 11).contiguous().sum().realize()
    first, second = (k for k in p.kernels.values() if k.number is not None)
    figure = {"name": "flops", "value": 66, "unit": "operations", "kind": "counted", "note": "n"}
    p.counted[first.number or 0] = {"figures": [figure]}
    p.counted[second.number or 0] = {"figures": [], "message": "it took too long"}
    p.save(tmp_path / "counted.tlab")
    found = rows(run(capsys, tmp_path / "counted.tlab", "--json"))
    counted = [row for row in found if row["table"] == "counters of one run"]
    wanted = {"kernel": first.name, "figure": "flops", "value": 66, "kind": "counted"}
    assert wanted.items() <= counted[0].items()
    assert (counted[1]["kernel"], counted[1]["note"]) == (second.name, "it took too long")


def test_a_limit_says_what_it_left_out(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    text = run(capsys, files / "run.tlab", "-s", "CPU kernels", "-n", 1)
    assert text[3] == "... 2 more"
    assert not any("more" in line for line in run(capsys, files / "run.tlab", "-t", 9, "-n", 9))
    found = rows(run(capsys, files / "run.tlab", "-s", "CPU kernels", "-n", 1, "--json"))
    assert len(found) == 1


def test_a_lane_is_listed_by_time(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    found = rows(run(capsys, files / "run.tlab", "-s", "CPU kernels", "--json"))
    assert [(r["start ns"], r["dur ns"], r["name"]) for r in found] == [
        (100, 200, "r_4"), (500, 400, "r_4"), (950, 50, "E_8"),
    ]  # fmt: skip
    args = ("-s", "CPU kernels", "--interval", "begin", "end", "--json", "-n", 1)
    assert [r["start ns"] for r in rows(run(capsys, files / "run.tlab", *args))] == [500]


def test_sums_of_nested_events_are_said_to_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.json"
    one = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        {**one, "name": "outer", "ts": 0, "dur": 10},
        {**one, "name": "after", "ts": 10, "dur": 5},
    ]
    file.write_text(json.dumps(events))
    assert not any("nested" in line for line in run(capsys, file))
    file.write_text(json.dumps([*events, {**one, "name": "inner", "ts": 2, "dur": 3}]))
    assert any("time of nested ones counts again" in line for line in run(capsys, file))
    file.write_text(json.dumps(events[:1]))
    assert run(capsys, file)[0] == "a.json: 1 event, 10 µs"


def test_events_that_begin_inside_others_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = [
        {"name": "outer", "ph": "X", "ts": 0, "dur": 100, "pid": 1, "tid": 1},
        {"name": "late", "ph": "X", "ts": 60, "dur": 80, "pid": 1, "tid": 1},
        {"ph": "X", "dur": 3, "pid": 1, "tid": 1},
    ]
    (tmp_path / "run.json").write_text(json.dumps(events))
    text = "\n".join(run(capsys, tmp_path / "run.json"))
    assert "1 event of thread 1 begins inside another and ends after it" in text
    assert "event 2, '': it has no ts" in text


def test_two_profiles_are_compared(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    found = rows(run(capsys, files / "run.tlab", files / "run.json", "--json"))
    assert [(r["kernel"], r["after/before"]) for r in found] == [("r_4", 1.0), ("E_8", 1.0)]


def test_one_object_for_scripts(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    (line,) = run(capsys, files / "run.tlab", "--summary-json")
    found = json.loads(line)
    assert found["events"] == 8
    assert found["top"][0]["name"] == "r_4"


def test_profiles_are_written_for_other_programs(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    assert run(capsys, files / "run.tlab", "--chrome", tmp_path / "x.json.gz",
               "--csv", tmp_path / "x.csv") == []  # fmt: skip
    assert len(load_profile(tmp_path / "x.json.gz").table) == 8
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 9


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["run.tlab", "-s", "CPU kernel"], "did you mean 'CPU kernels'?"),
        (["run.tlab", "--interval", "begin", "warm"], "there is no marker 'warm' after 'begin'"),
        (["run.tlab", "--interval", "begn", "end"], "did you mean 'begin'?"),
        (["run.tlab", "--interval", "begin", "ned"], "did you mean 'end'?"),
        (["run.tlab", "--interval", "end", "begin"], "'begin' to 'end' is an interval"),
        (["run.tlab", "--interval", "end", "end"], "'end' was set once"),
        (["run.tlab", "-i"], "--instructions is for thread traces"),
        (["run.tlab", "--family", "cdna"], "--family is for thread traces"),
        (["run.tlab", "--csv", "x.csv", "--interval", "begin", "end"], "--interval does not cut"),
        (["run.tlab", "--summary-json", "-t", "3"], "--top does nothing beside --summary-json"),
        (["run.tlab", "run.tlab", "run.tlab"], "3 profiles cannot be compared"),
        (["broken.json"], "broken.json is no trace"),
        (["run.tlab", "--csv", "none/x.csv"], "there is no folder"),
        (["run.tlab", "--csv", "."], "cannot be written"),
        (["run.tlab", "--csv", "x", "--chrome", "./x"], "--chrome and --csv would both write x"),
        (["run.tlab", "run.json", "--csv", "x.csv"], "--csv writes one profile, and 2 are given"),
    ],
)
def test_mistakes_are_answered_with_sentences(
    capsys: pytest.CaptureFixture[str],
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(files)
    (files / "broken.json").write_text("nothing of that kind")
    assert main(["profile", *args]) == 2
    assert sentence in capsys.readouterr().err


def test_options_of_profiles_are_refused_for_captures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(FOLDER), "--interval", "a", "b"]) == 2
    assert "--interval is for profiles" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--csv", "--chrome"])
@pytest.mark.parametrize("link", ["no link", "symlink", "hardlink"])
def test_what_is_read_is_not_written_over(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path, option: str, link: str
) -> None:
    source = tmp_path / "run.tlab"
    source.write_bytes((files / "run.tlab").read_bytes())
    target = source if link == "no link" else tmp_path / "other"
    if link == "symlink":
        target.symlink_to(source)
    elif link == "hardlink":
        target.hardlink_to(source)
    assert main(["profile", str(source), option, str(target)]) == 2
    assert f"{option} would write" in capsys.readouterr().err
    assert len(load_profile(source).table) == 8


def test_an_export_that_is_stopped_leaves_the_file_before(files: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("before")

    def stop(done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_profile(files / "run.tlab").to_chrome(target, stop)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_an_export_goes_through_a_link_and_to_a_device(files: Path, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    p = load_profile(files / "run.tlab")
    p.to_csv(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "real.csv").read_text().splitlines()) == 9
    p.to_csv("/dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("no_color", ["", "1", "yes"])
def test_colours_on_a_terminal_yield_to_no_color(files: Path, no_color: str) -> None:
    """NO_COLOR that is set and not empty means no colours, whatever it says."""
    parent, child = pty.openpty()
    env = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    code = f"from tinylab.lab.cli import main; main(['profile', {str(files / 'run.tlab')!r}])"
    subprocess.run([sys.executable, "-c", code], stdout=child, env=env, check=True)
    os.close(child)
    text = os.read(parent, 100_000).decode()
    os.close(parent)
    assert "CPU kernels" in text
    assert ("\x1b[" in text) == (no_color == "")


def test_reading_a_large_trace_says_how_far_it_is(tmp_path: Path) -> None:
    """Progress goes to the terminal, not into what a script reads."""
    Profile("many", table=many(60_000, 4)).to_chrome(tmp_path / "many.json")
    code = f"from tinylab.lab.cli import main; main(['profile', {str(tmp_path / 'many.json')!r}])"
    parent, child = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=child,
                          check=True, text=True)  # fmt: skip
    os.close(child)
    said = os.read(parent, 100_000).decode()
    os.close(parent)
    assert "reading many.json" in said
    assert "100%" in said
    assert "reading" not in done.stdout


@pytest.mark.parametrize("option", ["-t", "-n"])
@pytest.mark.parametrize("count", ["0", "-2", "many"])
def test_a_number_of_rows_is_one_or_more(
    capsys: pytest.CaptureFixture[str], files: Path, option: str, count: str
) -> None:
    with pytest.raises(SystemExit):
        main(["profile", str(files / "run.tlab"), f"{option}={count}" if count == "-2" else option,
              *([] if count == "-2" else [count])])  # fmt: skip
    assert "is no number of rows: give 1 or more" in capsys.readouterr().err


def test_what_strangers_wrote_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = "evil\x1b]0;owned\x07\x1b[2J\nnext"
    events = [
        {"name": evil, "ph": "X", "ts": 0, "dur": 5, "pid": 1, "tid": 1},
        {"name": evil, "ph": "i", "ts": 1, "pid": 1, "tid": 1, "s": "g"},
    ]
    (tmp_path / "evil.json").write_text(json.dumps(events))
    for options in ([], ["-s", "thread 1"]):
        assert main(["profile", str(tmp_path / "evil.json"), *options]) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "\nnext" not in shown

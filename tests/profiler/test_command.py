"""`tinylab profile` in a terminal and for scripts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiler.captures import RECORDED, every_capture, recorded
from tinylab.lab.cli import main
from tinylab.profiler import reading, report, summary, terminal
from tinylab.profiler.demo import FOLDER


def run(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main(["profile", *args]) == 0
    return capsys.readouterr().out.splitlines()


def rows(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines]


def test_sources_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out = "\n".join(run(capsys, str(FOLDER)))
    for word in ("demo_squares", "pmc0", "se0", "se1", "2859"):
        assert word in out


def test_a_listing_has_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, str(FOLDER), "-s", "se0")
    assert lines[0] == "se0"
    assert lines[1].split() == ["clk", "unit", "op", "dur", "delay", "info"]
    clocks = [int(line.split()[0]) for line in lines[2:] if line and line[0].isdigit()]
    assert clocks == sorted(clocks)
    assert len(clocks) == 96 + 474 + 354 - 6


def test_a_listing_as_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(run(capsys, str(FOLDER), "-s", "se0", "--json", "-n", "200"))
    assert len(found) == 200
    assert list(found[0]) == ["table", "clk", "unit", "op", "dur", "delay", "info"]
    issued = next(r for r in found if r["op"] == "SMEM_RD")
    assert issued["clk"] == 2060
    assert str(issued["info"]).startswith("0x1000")


def test_counters_as_tables_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(run(capsys, str(FOLDER), "-s", "pmc0"))
    assert "VALU utilization" in text
    assert "100 * (sum(SQ_INSTS_VALU)" in text
    found = rows(run(capsys, str(FOLDER), "-s", "pmc0", "--json"))
    by_engine = [r for r in found if r["table"] == "sums by se"]
    assert by_engine[0]["se0"] == by_engine[0]["se1"]


def test_sums_over_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(run(capsys, str(FOLDER), "-s", "se0", "-i", "--json"))
    found = [r for r in found if "note" not in r]  # what it says where no disassembler is
    assert len(found) == 24
    assert sum(int(str(r["hits"])) for r in found) == 474


def test_sums_over_instructions_say_what_is_wrong_with_the_stream(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "capture")
    data = (folder / "se0.sqtt").read_bytes()
    (folder / "se0.sqtt").write_bytes(data[: len(data) // 2 + 1])
    listed = rows(run(capsys, str(folder), "-s", "se0", "--json"))
    summed = rows(run(capsys, str(folder), "-s", "se0", "-i", "--json"))
    notes = [r["note"] for r in listed if "note" in r]
    assert any("have no end" in str(note) for note in notes)
    assert [r["note"] for r in summed if "note" in r] == notes
    text = run(capsys, str(folder), "-s", "se0", "-i")
    assert set(map(str, notes)) <= set(text)


def test_top_kernels_and_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(run(capsys, str(FOLDER), "-t", "1", "--json"))
    assert found == [
        {
            "table": "top 1 kernel",
            "kernel": "demo_squares",
            "runs": 1,
            "total ns": 2859,
            "mean ns": 2859,
            "share": 1.0,
        }
    ]
    assert "1.00x" in "\n".join(run(capsys, str(FOLDER), str(FOLDER)))


def test_a_bare_stream(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(FOLDER / "se0.sqtt")
    assert "no code object" in run(capsys, file)[-2]
    found = json.loads(run(capsys, file, "--summary-json")[0])
    assert found["sqtt"][0]["layout"] == 3
    forced = json.loads(run(capsys, file, "--family", "cdna", "--summary-json")[0])
    assert forced["sqtt"][0]["layout"] == "cdna"


def test_a_bare_stream_is_listed_as_a_source_and_picked_by_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(FOLDER / "se0.sqtt")
    found = rows(run(capsys, file, "--json"))
    assert (found[0]["source"], found[0]["waves"], found[0]["instructions"]) == ("se0", 96, 468)
    listed = [row for row in found if row["table"] == "se0"]
    assert rows(run(capsys, file, "-s", "se0", "--json")) == listed
    assert main(["profile", file, "-s", "se1"]) == 2
    assert "it has se0" in capsys.readouterr().err
    assert main(["profile", file, "-t", "1"]) == 2
    assert "--top is of kernels" in capsys.readouterr().err


def test_a_long_stream_is_summed_and_listed_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_MOST_LISTED", 100)
    file = str(FOLDER / "se0.sqtt")
    found = rows(run(capsys, file, "--json"))
    assert {row["table"] for row in found} == {"sources", "instruction classes"}
    assert any("-s se0 prints them" in str(row.get("note")) for row in found)
    listed = [row for row in rows(run(capsys, file, "--json", "-n", "3")) if "clk" in row]
    assert len(listed) == 3


def test_no_object_of_json_is_made_of_millions_of_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "_MOST_ROWS", 100)
    assert main(["profile", str(FOLDER / "se0.sqtt"), "--summary-json"]) == 2
    assert "564 waves and instructions are more than" in capsys.readouterr().err
    found = json.loads(run(capsys, str(FOLDER), "--summary-json")[0])
    assert "more than one JSON object" in found["sqtt"][0]["fault"]
    assert found["pmc"]


def test_reading_a_long_stream_shows_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE", 100)
    run(capsys, str(FOLDER / "se0.sqtt"))
    assert capsys.readouterr().err == ""  # scripts read no bars
    monkeypatch.setattr(reading.sys.stderr, "isatty", lambda: True)
    main(["profile", str(FOLDER), "-s", "se0"])
    assert "reading se0.sqtt: 100%" in capsys.readouterr().err


@recorded
def test_an_engine_without_instructions_says_which_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = str(RECORDED / "gfx950" / "gemm_run_0")
    for more in ((), ("-i",)):
        notes = run(capsys, folder, "-s", "se1", *more)
        assert "instructions were traced on se0" in notes


@recorded
def test_an_engine_without_instructions_is_listed_with_where_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [
        json.loads(line) for line in run(capsys, str(RECORDED / "gfx950" / "gemm_run_0"), "--json")
    ]
    notes = {row["source"]: row for row in found if row.get("kind") == "SQTT"}
    assert "instructions were traced on se0" in notes["se1"]["note"]
    for row in notes.values():
        assert bool(row["instructions"]) != ("instructions were traced on" in row["note"])


@pytest.mark.parametrize("option", [["-s", "se0"], ["-n", "3"], ["-t", "3"], ["--family", "cdna"]])
def test_an_option_is_given_once(capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["profile", str(FOLDER), *option, *option])
    assert "is given twice, and takes one value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pmc0.bin", "pmc0.bin is a part of a capture"),
        ("program0.co", "program0.co is a part of a capture"),
        ("../README.md", "README.md is no capture"),
    ],
)
def test_what_is_no_capture_says_what_it_is(
    capsys: pytest.CaptureFixture[str], name: str, sentence: str
) -> None:
    assert main(["profile", str(FOLDER / name)]) == 2
    assert sentence in capsys.readouterr().err


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "tinylab", "profile", str(FOLDER), "-s", "pmc0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[0])["table"] == "pmc0"


def test_the_summary_asks_no_disassembler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a child process was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    found = json.loads(run(capsys, str(FOLDER), "--summary-json")[0])
    assert found["sqtt"][0]["instructions"]["mapped_to_pc"]


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["-s", "pmc0"],
        ["-s", "se0", "-i"],
        ["-s", "se0"],
        ["-t", "5"],
        [str(FOLDER)],
    ],
)
def test_a_column_holds_values_of_one_type_and_null(
    capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    """Numbers are numbers, not words rounded for reading."""
    found = rows(run(capsys, str(FOLDER), *args, "--json"))
    kinds: dict[object, set[bool]] = {}
    for row in found:
        for key, value in row.items():
            assert not (isinstance(value, str) and re.fullmatch(r"-?[\d.]+[%x]?", value)), row
            if value is not None:
                kinds.setdefault((row["table"], key), set()).add(isinstance(value, str))
    assert found
    assert all(len(each) == 1 for each in kinds.values())


def test_people_read_percentages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, str(FOLDER), "-t", "1")[2].split()[-1] == "100.0%"
    listed = [line for line in run(capsys, str(FOLDER), "-s", "se0", "-i") if line[:2] == "0x"]
    assert len(listed) == 24
    assert all(re.search(r" \d+\.\d  .* \d+\.\d%$", line) for line in listed)


@recorded
@every_capture
def test_the_summary_of_a_recorded_capture(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = json.loads((folder / "golden.json").read_text())
    found = json.loads(run(capsys, str(folder), "--summary-json")[0])
    assert found["pmc"] == golden["pmc"]
    assert [list(s) for s in found["sqtt"]] == [list(s) for s in golden["sqtt"]]


def test_mistakes_are_one_sentence_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(FOLDER), "-s", "nothing"]) == 2
    assert "it has pmc0, se0, se1" in capsys.readouterr().err
    assert main(["profile", "/no/such/folder"]) == 2
    assert capsys.readouterr().err.startswith("tinylab: there is no")


def test_colours_are_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in "".join(run(capsys, str(FOLDER)))
    monkeypatch.setattr(terminal.sys.stdout, "isatty", lambda: True)
    assert "\x1b" not in "".join(run(capsys, str(FOLDER)))  # NO_COLOR is set in tests


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m tinylab.lab.cli profile {FOLDER} -s se0 | head -2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["-i"], "--instructions is of one stream"),
        (["--family", "rdna3"], "--family is for bare .sqtt files"),
        (["--summary-json", "-s", "se0"], "--source does nothing beside --summary-json"),
        (["-s", "pmc0", "-i"], "--instructions is of one stream, and pmc0 holds counters"),
        (["-s", "pmc0", "-t", "1"], "--source does nothing beside --top"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], args: list[str], sentence: str
) -> None:
    assert main(["profile", str(FOLDER), *args]) == 2
    assert sentence in capsys.readouterr().err


def test_limited_tables_say_how_many_rows_are_left(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, str(FOLDER), "-s", "pmc0", "-n", "3")
    assert lines[5] == "... 2 more"
    assert "... 914 more" in run(capsys, str(FOLDER), "-s", "se0", "-n", "4")

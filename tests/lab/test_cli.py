import nbformat
import pytest

from tests.lab.test_report import NASTY, Tags
from tinylab.errors import LabError
from tinylab.lab import cli
from tinylab.lab.notebook import RanNotebook, run_notebook
from tinylab.lab.page import match_records, page

pytest.importorskip("nbclient")

# One grey pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63680000"
    "008200811dd6c1d80000000049454e44ae426082"
)
RECORDED = """\
%%tinygrad --device NULL
from tinygrad import Tensor
(Tensor.empty(16, 8).sum(1) + 1).realize();
"""


def notebook(tmp_path, *sources):
    made = nbformat.v4.new_notebook()
    cell, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    made.cells = [text(s[3:]) if s.startswith("md:") else cell(s) for s in sources]
    path = tmp_path / "test.ipynb"
    nbformat.write(made, path)
    return path


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    path = notebook(
        tmp_path_factory.mktemp("run"),
        "md:# The *title*\n\n<b>raw</b>",
        "%load_ext tinylab",
        "print('loss', 0.5)\nprint('done\\rover')",
        RECORDED,
        "from IPython.display import Image, display\n"
        f"display(Image(data={PNG!r}, format='png'))\n{{'a': 1}}",
        f"raise ValueError({NASTY!r})",
        "print('never')",
    )
    said = []
    return run_notebook(path, say=said.append), said


def test_a_run_tells_of_its_progress(ran):
    _, said = ran
    assert said[0].startswith("[1/6] %load_ext")
    assert any(line.startswith("[3/6] from tinygrad import Tensor") for line in said)
    assert "      loss 0.5" in said
    assert any(line.endswith(" s") for line in said)


def test_a_cell_that_fails_ends_the_run_and_loses_nothing(ran):
    ran, _ = ran
    assert ran.error.startswith("ValueError")
    cells = ran.notebook.cells
    assert cells[2].outputs[0].text.startswith("loss 0.5")
    assert cells[5].outputs[-1].output_type == "error"
    assert cells[6].outputs == []


def test_records_come_back_from_the_kernel(ran):
    ran, _ = ran
    (record,) = ran.records
    assert len(record.kernels) == 1
    assert record.device == "NULL"
    assert match_records(ran.notebook.cells, ran.records) == {3: 0}


def test_the_page_shows_cells_outputs_and_kernels(ran):
    ran, _ = ran
    text = page(ran)
    assert "<title>The *title*</title>" in text
    assert "<h1>The <em>title</em></h1>" in text
    assert "&lt;b&gt;raw&lt;/b&gt;" in text
    assert "loss 0.5" in text
    assert "over" in text
    assert 'src="data:image/png;base64,' in text
    assert "data:image/svg+xml;base64," in text
    assert ran.records[0].kernels[0].row["name"] in text
    assert "<b>failed:</b> ValueError" in text


def test_the_page_asks_for_nothing_from_elsewhere(ran):
    ran, _ = ran
    found = Tags.__new__(Tags)
    body = page(ran).partition('<script type="text/plain"')[0]
    Tags.__init__(found, body.replace("<!doctype html>", "") + "</body></html>")
    links = [value for name, value in found.attributes if name in ("src", "href")]
    assert all(value.startswith("data:") for value in links)
    assert "alert(" in body
    assert "<script>alert" not in body


def test_the_command_writes_a_report_and_says_whether_it_went_well(tmp_path, capsys):
    path = notebook(tmp_path, "print('hello')")
    out = tmp_path / "out.html"
    assert (
        cli.main(["run", str(path), "--html", str(out), "--save", str(tmp_path / "kept.ipynb")])
        == 0
    )
    assert "hello" in out.read_text()
    assert nbformat.read(tmp_path / "kept.ipynb", 4).cells[0].outputs[0].text == "hello\n"
    said = capsys.readouterr().out
    assert "[1/1] print('hello')" in said
    assert f"report: {out}" in said
    assert cli.main(["run", str(notebook(tmp_path, "1 / 0")), "--html", str(out)]) == 1
    assert "failed: ZeroDivisionError" in capsys.readouterr().out
    assert "ZeroDivisionError" in out.read_text()


def test_a_cell_that_takes_too_long_is_told(tmp_path):
    path = notebook(tmp_path, "import time\ntime.sleep(60)")
    ran = run_notebook(path, timeout_s=1, say=lambda line: None)
    assert ran.error == "a cell took more than 1 s"


def test_a_kernel_that_dies_is_told(tmp_path):
    path = notebook(tmp_path, "print('before')", "import os\nos._exit(3)")
    ran = run_notebook(path, say=lambda line: None)
    assert ran.error == "the kernel died"
    assert ran.notebook.cells[0].outputs[0].text == "before\n"
    assert isinstance(ran, RanNotebook)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "gone.ipynb"], "there is no notebook gone.ipynb"),
        (["lab", "gone.ipynb"], "there is no notebook gone.ipynb"),
        (["run", "bad.ipynb", "--html", "nowhere/out.html"], "there is no folder nowhere"),
        (["run", "bad.ipynb"], "bad.ipynb is no notebook"),
    ],
)
def test_bad_arguments_are_answered(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.ipynb").write_text("not json")
    assert cli.main(argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1}', "it is JSON, but does not say its nbformat"),
        ("[]", "it is JSON, but does not say its nbformat"),
        ("3", "it is JSON, but does not say its nbformat"),
        ("{", "Expecting property name"),
        ('{"nbformat": 9, "nbformat_minor": 5, "cells": [], "metadata": {}}', "version 9"),
        ('{"nbformat": 4, "nbformat_minor": 5, "cells": 3, "metadata": {}}', "is not iterable"),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, '
            '"cells": [{"metadata": {}, "cell_type": "raw"}]}',
            "cell 0 has no type or no source",
        ),
    ],
)
def test_a_file_that_is_no_notebook_is_one_sentence(text, says, tmp_path, capsys):
    path = tmp_path / "bad.ipynb"
    path.write_text(text)
    assert cli.main(["run", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tinylab: {path} is no notebook: ")
    assert says in line


def test_a_command_without_its_default_notebook_names_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "a" / "b" / "cli.py"))
    for command in ("run", "lab"):
        with pytest.raises(LabError) as caught:
            cli.find_notebook(None, command)
        assert caught.value.help == f"name a notebook: tinylab {command} FILE"


def test_the_first_notebook_of_the_course_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "a" / "b" / "cli.py"))
    with pytest.raises(LabError, match="there is no notebooks"):
        cli.find_notebook(None)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / cli.DEFAULT_NOTEBOOK).write_text("{}")
    assert cli.find_notebook(None) == cli.DEFAULT_NOTEBOOK


def test_lab_opens_the_notebook_and_hands_on_the_rest(tmp_path, monkeypatch, capsys):
    path = notebook(tmp_path, "1")
    started = []

    class Server:
        def __init__(self, command):
            started.append(command)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return None

        def wait(self):
            return 0

    monkeypatch.setattr(cli.subprocess, "Popen", Server)
    monkeypatch.setattr(cli.os, "geteuid", lambda: 1000)
    assert cli.main(["lab", str(path), "--no-browser", "--port", "8889"]) == 0
    assert started[0][1:] == ["-m", "jupyterlab", "--no-browser", "--port", "8889", str(path)]
    monkeypatch.setattr(cli, "find_notebook", lambda given: given or "default.ipynb")
    assert cli.main(["lab", "--port", "8889"]) == 0
    assert started[1][1:] == ["-m", "jupyterlab", "--port", "8889", "default.ipynb"]
    assert cli.main(["lab"]) == 0
    assert started[2][1:] == ["-m", "jupyterlab", "default.ipynb"]
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)  # JupyterLab refuses root, unless told
    assert cli.main(["lab"]) == 0
    assert started[3][1:] == ["-m", "jupyterlab", "--allow-root", "default.ipynb"]
    assert "you are root" in capsys.readouterr().out
    assert cli.main(["lab", "--allow-root"]) == 0
    assert started[4][1:] == ["-m", "jupyterlab", "--allow-root", "default.ipynb"]


def test_a_run_says_nothing_of_how_the_kernel_is_reached(tmp_path, capfd):
    path = notebook(tmp_path, "print('done')")
    assert cli.main(["run", str(path)]) == 0
    said = capfd.readouterr()
    assert "done" in said.out
    assert "TCP" not in said.err + said.out


@pytest.mark.parametrize("option", ["--html", "--save"])
def test_what_cannot_be_written_is_told_before_the_run(tmp_path, capsys, option):
    path = notebook(tmp_path, "print('ran')")
    for target in (tmp_path, tmp_path / "no" / "x.html"):
        assert cli.main(["run", str(path), option, str(target)]) == 2
        said = capsys.readouterr()
        assert said.err.startswith("tinylab: ")
        assert "ran" not in said.out


def test_keys_in_the_text_are_shown_as_keys(ran):
    kept = nbformat.v4.new_notebook()
    kept.cells = [nbformat.v4.new_markdown_cell("Press <kbd>?</kbd>, not <b>x</b>")]
    text = page(RanNotebook(ran[0].path, kept))
    assert "<kbd>?</kbd>" in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text

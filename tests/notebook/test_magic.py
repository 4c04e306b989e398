"""`%%tinygrad` in a shell, without a browser: options, values, errors, and what is displayed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import get_ipython
from IPython.utils.capture import capture_output
from tinylab_widgets import completion, magics, options

from tinylab import Tensor, load, profile
from tinylab.lab.desk import desk_of
from tinylab.profiler import compare
from tinylab.profiler.collected import Profile
from tinylab.trace.record import Record


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    shell = get_ipython() or InteractiveShell.instance()
    shell.run_cell("%load_ext tinylab")
    yield shell
    shell.run_cell("%unload_ext tinylab")


def run(shell: InteractiveShell, line: str, body: str) -> tuple[Any, Any]:
    """(result of the cell, what it showed)"""
    with capture_output() as shown:
        result = shell.run_cell(f"%%tinygrad {line}\n{body}")
    return result, shown


def test_a_cell_prints_shows_its_value_and_binds_its_names(shell: InteractiveShell) -> None:
    body = "from tinygrad import Tensor\nprint('printed')\nx = Tensor.ones(4).sum().item()\nx + 1"
    result, shown = run(shell, "--name rec", body)
    assert result.success
    assert "printed" in shown.stdout
    assert shell.user_ns["x"] == 4
    assert result.result == 5
    record = shell.user_ns["rec"]
    assert isinstance(record, Record)
    assert desk_of(record).overview()["totals"]["kernels"] >= 1
    assert any("kernel" in str(output.data.get("text/plain")) for output in shown.outputs)


def test_the_second_run_shows_as_much_as_the_first(shell: InteractiveShell) -> None:
    body = "from tinylab import Tensor\n(Tensor.ones(8, 8).contiguous() + 1).sum().realize()"
    totals = []
    for _ in range(2):
        run(shell, "--name rec", body)
        page = desk_of(shell.user_ns["rec"]).overview()
        totals.append((page["totals"]["kernels"], page["totals"]["matches"]))
    assert totals[0] == totals[1]
    assert totals[0][1] > 0


@pytest.mark.parametrize(
    "body",
    [
        "%%time\nimport tinygrad\nfound = tinygrad.Tensor([3]).item()",
        "%%capture\nfrom tinygrad import Tensor\nfound = Tensor([3]).item()",
        "%time from tinygrad import Tensor\nfound = Tensor([3]).item()",
    ],
)
def test_imports_under_magics_of_the_cell_are_turned_too(
    shell: InteractiveShell, body: str
) -> None:
    shell.user_ns.pop("found", None)
    before = list(shell.ast_transformers)
    result, _ = run(shell, "--no-widget", body)
    assert result.success
    assert shell.user_ns["found"] == 3
    assert shell.ast_transformers == before


def test_modules_are_not_aliased_outside_the_cell(shell: InteractiveShell) -> None:
    run(shell, "", "import tinygrad as tg\nimport tinylab\nsame = tg.Tensor is tinylab.Tensor")
    assert shell.user_ns["same"]
    result, _ = run(shell, "--no-alias", "import tinygrad_of_nobody")
    assert isinstance(result.error_in_exec, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--nopt", "has no option --nopt; did you mean --noopt?"),
        ("--device", "--device needs a value, as in --device NULL"),
        ("--name 3x", "--name 3x: a variable cannot be called that"),
        ("word", "has no option word; %%tinygrad --help lists the options"),
        ("--name class", "--name class: a variable cannot be called that"),
        ("--device NUL", "did you mean NULL?"),
        ("--device CPU:FOO", "CPU has no renderer FOO; CPU has "),
        ("--name 'open", "cannot read the options"),
        ("--alias --no-alias", "--alias and --no-alias exclude each other"),
        ("--name a --name b", "--name is given twice"),
        ("--noopt --noopt", "--noopt is given twice"),
    ],
)
def test_a_wrong_option_is_answered_in_a_sentence(
    shell: InteractiveShell, line: str, says: str
) -> None:
    result, shown = run(shell, line, "never = 1")
    assert not result.success
    assert says in shown.stderr + shown.stdout
    assert "Traceback" not in shown.stderr + shown.stdout
    assert "never" not in shell.user_ns


def test_help_lists_every_option(shell: InteractiveShell) -> None:
    result, shown = run(shell, "--help", "never = 1")
    assert result.success
    assert "never" not in shell.user_ns
    for name in (*options.FLAGS, *options.VALUED):
        assert name in shown.stdout


OURS = [
    "--device", "--name", "--profile", "--noopt", "--no-widget", "--alias", "--no-alias", "--help",
]  # fmt: skip


def completed(shell: InteractiveShell, code: str) -> list[str]:
    """What the kernel answers to a request at the end of some code, or where it has a "|"."""
    at = code.find("|")
    at = len(code) if at < 0 else at
    with provisionalcompleter():
        found = list(shell.Completer.completions(code.replace("|", "", 1), at))
    return [each.text for each in found]


def test_options_complete(shell: InteractiveShell) -> None:
    shell.user_ns["no_such_option"] = shell.user_ns["nothing"] = 1
    assert completed(shell, "%%tinygrad ") == OURS
    assert completed(shell, "%%tinygrad --") == OURS
    assert completed(shell, "%%tinygrad --n") == ["--name", "--noopt", "--no-widget", "--no-alias"]
    assert completed(shell, "%%tinygrad --no|\nnext(x)") == ["--noopt", "--no-widget", "--no-alias"]
    assert completed(shell, "\n%%tinygrad --al") == ["--alias"]
    assert "--noopt" not in completed(shell, "%%tinygrad --noopt ")
    assert "--name" in completed(shell, "%%tinygrad --noopt ")


def test_values_of_options_complete(shell: InteractiveShell) -> None:
    shell.user_ns["record_of_mine"] = 1
    assert completed(shell, "%%tinygrad --device ") == list(options.DEVICES)
    assert completed(shell, "%%tinygrad --device n") == ["NULL"]
    assert completed(shell, "%%tinygrad --device=C") == ["CPU"]
    assert completed(shell, "%%tinygrad --name re") == ["rec"]
    # A word of the user's own stays: nothing that is wrong here is put in its place.
    assert completed(shell, "%%tinygrad --name record_of_m") == ["record_of_m"]
    assert completed(shell, "%%tinygrad --zi") == ["--zi"]


def test_python_completes_in_the_body_and_under_other_magics(shell: InteractiveShell) -> None:
    shell.user_ns["some_tensor"] = 1
    for code in ("%%tinygrad --noopt\nsome_t", "x = 1\nsome_t", "%%tinygrad\n\nsome_t"):
        assert completed(shell, code) == ["some_tensor"]
    assert "--noopt" not in completed(shell, "%%timeit --n")
    assert "--noopt" not in completed(shell, "x = 1\n%%tinygrad --n")
    assert "%%tinygrad" in completed(shell, "%%tinyg")


def test_completion_comes_once_and_goes_with_the_extension(shell: InteractiveShell) -> None:
    magics.load_ipython_extension(shell)
    magics.load_ipython_extension(shell)
    assert shell.Completer.custom_matchers.count(completion.match_options) == 1
    assert shell.events.callbacks["pre_run_cell"].count(magics._loaded[id(shell)][1]) == 1
    assert completed(shell, "%%tinygrad --noo") == ["--noopt"]
    shell.run_cell("%unload_ext tinylab")
    assert completion.match_options not in shell.Completer.custom_matchers
    assert "--noopt" not in completed(shell, "%%tinygrad --noo")
    shell.run_cell("%load_ext tinylab")
    assert completed(shell, "%%tinygrad --noo") == ["--noopt"]


def test_an_empty_cell_is_fine(shell: InteractiveShell) -> None:
    for body in ("", "\n\n", "# nothing"):
        result, shown = run(shell, "", body)
        assert result.success
        assert "Traceback" not in shown.stdout


def test_an_exception_shows_the_users_frames_and_what_was_recorded(
    shell: InteractiveShell,
) -> None:
    body = "from tinylab import Tensor\nTensor.ones(4).contiguous().realize()\n1 / 0"
    result, shown = run(shell, "--name rec", body)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "1 / 0" in shown.stdout
    assert "magics.py" not in shown.stdout
    assert "cells.py" not in shown.stdout
    page = desk_of(shell.user_ns["rec"]).overview()
    assert page["status"] == "error"
    assert page["totals"]["kernels"] == 1


def test_a_traceback_leaves_out_what_only_wraps(shell: InteractiveShell) -> None:
    body = "from tinylab import Tensor\na, b = Tensor.ones(2, 3), Tensor.ones(2, 3)\na @ b"
    result, shown = run(shell, "", body)
    assert "cannot dot (2, 3) and (2, 3)" in shown.stdout
    assert "linalg.py" in shown.stdout
    assert "noting.py" not in shown.stdout
    assert "locking.py" not in shown.stdout
    assert type(result.error_in_exec).__name__ == "ShapeError"


def test_a_syntax_error_is_shown_as_one(shell: InteractiveShell) -> None:
    result, shown = run(shell, "", "x = = 1")
    assert not result.success
    assert "SyntaxError" in shown.stdout
    assert "magics.py" not in shown.stdout


def test_an_interrupt_keeps_what_was_recorded(shell: InteractiveShell) -> None:
    body = (
        "from tinylab import Tensor\nTensor.ones(4).contiguous().realize()\nraise KeyboardInterrupt"
    )
    _, shown = run(shell, "--name rec", body)
    assert "KeyboardInterrupt" in shown.stdout
    page = desk_of(shell.user_ns["rec"]).overview()
    assert page["status"] == "interrupted"
    assert page["totals"]["kernels"] == 1


def test_a_device_and_noopt_hold_for_the_cell_only(shell: InteractiveShell) -> None:
    body = (
        "from tinylab import Device, Tensor\nwhere = Device.DEFAULT\n"
        "Tensor.ones(64, 64).contiguous().sum().realize()"
    )
    run(shell, "--device NULL --noopt --name rec", body)
    assert shell.user_ns["where"] == "NULL"
    assert all(not kernel["opts"] for kernel in desk_of(shell.user_ns["rec"]).overview()["kernels"])
    run(shell, "", body)
    assert shell.user_ns["where"] != "NULL"


def test_no_widget_shows_nothing_but_how_to_see_it(shell: InteractiveShell) -> None:
    body = "from tinylab import Tensor\nt = Tensor.ones(4).contiguous().realize()"
    _, shown = run(shell, "--no-widget", body)
    assert shown.outputs == []
    assert "--name rec keeps it: then rec shows its debugger" in shown.stdout
    _, shown = run(shell, "--no-widget --name kept", body)
    assert shown.stdout.startswith("kept: ")
    assert shown.stdout.endswith("; kept shows its debugger\n")
    _, shown = run(shell, "--no-widget", "pass")
    assert shown.stdout == ""


def test_magics_in_the_cell_work(shell: InteractiveShell) -> None:
    result, _ = run(shell, "", "here = %pwd\n")
    assert result.success
    assert shell.user_ns["here"]


def test_unloading_takes_the_magic_away(shell: InteractiveShell) -> None:
    shell.run_cell("%unload_ext tinylab")
    assert "tinygrad" not in shell.magics_manager.magics["cell"]
    assert id(shell) not in magics._loaded
    shell.run_cell("%load_ext tinylab")


def run_apart(shell: InteractiveShell, line: str, body: str) -> tuple[Any, Any]:
    """The same on a thread: a browser's tests may have left a loop running on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, shell, line, body).result()


def test_a_cell_awaits_as_any_other_cell_does(shell: InteractiveShell) -> None:
    body = (
        "import asyncio\nfrom tinylab import Tensor\nawait asyncio.sleep(0)\n"
        "y = (Tensor.ones(8).contiguous() + 1).realize()\n%time z = 1\nawait asyncio.sleep(0, 'v')"
    )
    result, shown = run_apart(shell, "--name rec", body)
    assert result.success, result.error_in_exec
    assert result.result == "v"
    assert shell.user_ns["z"] == 1
    assert len(shell.user_ns["rec"].kernels) >= 1
    assert any("kernel" in str(output.data.get("text/plain")) for output in shown.outputs)
    result, shown = run_apart(shell, "", "import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "line 3" in shown.stdout
    assert "magics.py" not in shown.stdout
    result, _ = run_apart(shell, "--nonsense", "await f()")
    assert not result.success


def test_an_unknown_device_in_the_cell_keeps_record_and_traceback(
    shell: InteractiveShell,
) -> None:
    body = "from tinylab import Tensor\nx = Tensor([1.0, 2.0])\nz = (x * 2).to('GPUU').numpy()"
    result, shown = run(shell, "--name rec", body)
    assert "no device is called GPUU" in str(result.error_in_exec)
    assert "No module" not in str(result.error_in_exec)
    assert isinstance(shell.user_ns["rec"], Record)
    assert any("ended by UnknownDeviceError" in str(o.data) for o in shown.outputs)


def test_a_record_that_cannot_be_drawn_hides_nothing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: Record) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(magics.report, "mimebundle", fail)
    result, shown = run(shell, "--name rec", "1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "the debugger cannot be shown: OSError: no such library" in shown.stderr
    assert isinstance(shell.user_ns["rec"], Record)


def test_captures_display_as_their_viewer(shell: InteractiveShell, tmp_path: Path) -> None:
    """In a terminal as text; the browser's tests see the widget."""
    from tinylab.profiler.demo import FOLDER

    def show(line: str) -> tuple[Any, Any]:
        with capture_output() as shown:
            result = shell.run_cell(line)
        return result, shown

    result, shown = show(f"%tinycapture '{FOLDER}'")
    assert result.success
    assert result.result.name == "demonstration"
    assert "2 thread traces" in shown.stdout + str([o.data for o in shown.outputs])
    result, _ = show(f"%tinycapture '{FOLDER}' '{FOLDER}'")
    assert len(result.result.captures) == 2
    result, _ = show("%tinycapture /nowhere")
    assert "nowhere" in str(result.error_in_exec)
    for name, text in (("run.json", '{"traceEvents": []}'), ("list.json", "[]"), ("run.tlab", "")):
        (tmp_path / name).write_text(text)
        result, _ = show(f"%tinycapture '{tmp_path / name}'")
        assert "load_profile and `tinylab view` open it" in str(result.error_in_exec)
    result, _ = show("%tinycapture")
    assert "takes the folder" in str(result.error_in_exec)


PROFILED = (
    "from tinylab import Tensor, profile_marker\n"
    "profile_marker('begin')\n"
    "x = (Tensor.ones(9, 8).contiguous() + 1).sum().item()\n"
    "x"
)


def test_a_profiled_cell_shows_its_timeline_too(shell: InteractiveShell) -> None:
    result, shown = run(shell, "--profile --name rec", PROFILED)
    assert result.success
    assert result.result == 144
    found = shell.user_ns["rec_profile"]
    assert isinstance(found, Profile)
    assert found.record is shell.user_ns["rec"]
    assert found.table.markers()[0][1] == "begin"
    assert any("3: x = " in name for name in found.events["name"].tolist())
    texts = [str(output.data.get("text/plain")) for output in shown.outputs]
    assert any(text.startswith('profile "rec"') for text in texts)
    kernel = next(iter(found.kernels))
    assert any(kernel in text and "median" in text for text in texts)


def test_an_unprofiled_cell_listens_to_no_profile(shell: InteractiveShell) -> None:
    shell.user_ns.pop("other_profile", None)
    run(shell, "--name other", PROFILED)
    assert "other_profile" not in shell.user_ns


def test_a_profile_shows_when_it_is_a_cells_last_value(shell: InteractiveShell) -> None:
    with profile("mine") as p:
        Tensor.ones(3).contiguous().realize()
    data, _ = shell.display_formatter.format(p)
    # A terminal has no use for widgets; a notebook shows one, and this under it.
    assert "application/vnd.jupyter.widget-view+json" not in data
    assert 'profile "mine"' in data["text/plain"]
    assert "image/svg+xml;base64" in data["text/html"]
    with profile("on") as q:
        data, _ = shell.display_formatter.format(q)
    assert "still running" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" not in data
    data, _ = shell.display_formatter.format(compare(p, q))
    assert "comparison of" in data["text/plain"]


@pytest.mark.parametrize(
    ("line", "profiled", "counted"),
    [
        ("", False, False),
        ("--profile", True, False),
        ("--profile counters", True, True),
        ("--profile=counters --noopt", True, True),
        ("--profile --noopt", True, False),
    ],
)
def test_options_of_a_profile(line: str, profiled: bool, counted: bool) -> None:
    chosen = options.parse(line)
    assert (chosen.profile, chosen.counters) == (profiled, counted)


def test_what_a_profile_cannot_be_is_said() -> None:
    with pytest.raises(options.OptionError, match="--profile counts: it is --profile alone"):
        options.parse("--profile counts")
    with pytest.raises(options.OptionError, match="did you mean --profile"):
        options.parse("--profil")


def test_profile_completes_and_is_in_the_help(shell: InteractiveShell) -> None:
    assert completed(shell, "%%tinygrad --prof") == ["--profile"]
    assert completed(shell, "%%tinygrad --profile ")[0] == "counters"
    assert completed(shell, "%%tinygrad --profile cou") == ["counters"]
    assert completed(shell, "%%tinygrad --profile=c") == ["counters"]
    assert "--noopt" in completed(shell, "%%tinygrad --profile ")
    assert "--profile counters" in options.HELP


def test_a_timeline_that_cannot_be_drawn_hides_nothing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(shown: Profile) -> None:
        raise OSError("no such library")

    monkeypatch.setattr("tinylab.profiler.still.mimebundle", fail)
    body = "from tinylab import Tensor\nTensor.ones(3).contiguous().realize()\n1 / 0"
    result, shown = run(shell, "--profile --name rec", body)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "the timeline cannot be shown: OSError: no such library" in shown.stderr
    assert isinstance(shell.user_ns["rec_profile"], Profile)


def test_a_file_with_a_profile_alone_displays_as_the_profile(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    file = str(tmp_path / "run.tlab")
    with profile("alone") as p:
        Tensor.ones(3, 7).contiguous().realize()
    p.save(file)
    bundle = shell.display_formatter.format(load(file))[0]
    assert bundle["text/plain"].startswith('profile "alone": ')
    assert "image/svg+xml;base64" in bundle["text/html"]


def test_the_profile_of_a_cell_that_computes_nothing_is_a_line(shell: InteractiveShell) -> None:
    _, shown = run(shell, "--profile", "print(1)")
    (line,) = [str(each.data["text/plain"]) for each in shown.outputs]
    assert "nothing was computed" in line
    assert "\n" not in line

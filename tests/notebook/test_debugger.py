"""The debugger in a real JupyterLab: run a cell, step, edit opts, run them, in both themes."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.notebook.browser import Notebook
from tests.notebook.conftest import Opener

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
MATMUL = (
    "%%tinygrad --name rec\na = Tensor.rand(64, 64)\nb = Tensor.rand(64, 64)\n"
    "(a @ b).relu().sum().realize()"
)


def row_texts(nb: Notebook) -> list[str]:
    """The runs of the bench, newest first."""
    return nb.view().locator(".tl-run").all_inner_texts()


def run_and_wait(nb: Notebook, rows: int) -> str:
    """Press Ctrl+Enter; the new row, when it is there, beside that of the unedited kernel."""
    nb.page.keyboard.press("Control+Enter")
    nb.page.wait_for_function(
        "rows => document.querySelectorAll('.tl-run').length > rows", arg=rows, timeout=60_000
    )
    return row_texts(nb)[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_is_run_stepped_edited_and_run_again(
    notebook: Opener, shots: Path, theme: str
) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.theme(theme)
    nb.run(0, 1)
    view = nb.ready()
    nb.page.screenshot(path=str(shots / f"page-{theme}.png"))

    # By keyboard: to a pass with many matches, and two of them on.
    while "assign_ranges" not in view.locator(".tl-pass-title").inner_text():
        nb.keys("]")
    nb.keys("ArrowRight", "ArrowRight")
    nb.ready()
    assert nb.at()[1] == 2
    assert re.search(r"match 2: \w+", nb.status())
    law = view.locator(".tl-rule .tl-rule-name").inner_text()
    assert law in nb.status()
    view.screenshot(path=str(shots / f"step-{theme}.png"))

    # In a narrow window nothing of what tells where one is is cut.
    wide = nb.page.viewport_size
    nb.page.set_viewport_size({"width": 960, "height": 950})
    nb.page.wait_for_timeout(100)
    told = view.locator(".tl-facts-line, .tl-left h3, .tl-pass-title b, .tl-pass-name")
    assert "kernel" in view.locator(".tl-facts-line:visible").inner_text()
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    assert told.evaluate_all(cut) == []
    view.screenshot(path=str(shots / f"narrow-{theme}.png"))
    assert wide is not None
    nb.page.set_viewport_size(wide)
    nb.keys("t")
    view.locator(".tl-text-line").first.wait_for()
    nb.keys("t")
    assert view.locator(".tl-text-line.tl-plus").count() > 0
    view.screenshot(path=str(shots / f"diff-{theme}.png"))
    nb.keys("t", "End")
    nb.ready()
    assert nb.at()[1] > 2

    # A node is chosen by keyboard and told about.
    nb.keys("Alt+ArrowUp", "Alt+ArrowUp")
    assert view.locator(".tl-node-detail .tl-rule-name").count() == 1

    # Search leads to a place.
    nb.keys("/")
    nb.page.keyboard.type("reduce")
    view.locator(".tl-hit-row").first.wait_for()
    view.screenshot(path=str(shots / f"search-{theme}.png"))
    nb.page.keyboard.press("Enter")
    nb.ready()

    # The matmul's kernel: its last opt goes, it runs, and there is a new row.
    nb.keys("k")
    view.locator(".tl-kernel", has_text="r_").first.click()
    view.locator(".tl-bench h3", has_text="Opts of r_").wait_for()
    view.locator(".tl-opts-form:not([inert]) .tl-opt").first.wait_for()
    opts = view.locator(".tl-opt").count()
    view.locator(".tl-opt [data-name=remove]").last.click()
    assert view.locator(".tl-opt").count() == opts - 1 or opts == 1
    first = run_and_wait(nb, 1)
    assert re.search(r"[µm]s", first), first
    assert re.search(r"\d\.\d+\u00d7", first), first

    # An opt that cannot be applied says why, in the form and in its row.
    view.get_by_text("+ Add opt").click()
    view.locator(".tl-opt [data-name=arg]").last.fill("7")
    view.locator(".tl-opt-error:visible").wait_for()
    assert "7" in view.locator(".tl-opt-error:visible").inner_text()
    refused = run_and_wait(nb, 2)
    assert "refused" in refused
    view.screenshot(path=str(shots / f"kernels-{theme}.png"))
    assert view.locator(".tl-code-line").count() > 10

    nb.keys("?")
    view.screenshot(path=str(shots / f"help-{theme}.png"))
    nb.keys("Escape")
    nb.check()


def test_lines_and_kernels_mark_each_other(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    view = nb.ready()
    view.locator(".tl-cell-line").nth(2).click()
    view.locator(".tl-cell-line.tl-chosen").wait_for()
    view.locator(".tl-pass.tl-lined").first.wait_for()
    nb.keys("k")
    view.locator(".tl-kernel.tl-lined").first.wait_for()
    view.screenshot(path=str(shots / "lines.png"))
    # In a pass of that kernel its nodes are marked; a node marks its lines and its kernel.
    view.locator(".tl-stage.tl-lined").last.click()
    if view.locator(".tl-stage.tl-lined").last.get_attribute("aria-expanded") == "false":
        view.locator(".tl-stage.tl-lined").last.click()
    view.locator(".tl-stage.tl-lined + .tl-pass").last.click()
    nb.ready()
    view.locator(".tl-pass.tl-here.tl-lined").wait_for()
    nb.page.wait_for_function(
        "() => Number(document.querySelector('canvas.tl-canvas').dataset.marked) > 0"
    )
    view.screenshot(path=str(shots / "lines-kernel.png"))
    nb.keys("Escape", "Alt+ArrowUp", "Alt+ArrowUp")
    view.locator(".tl-origin .tl-subhead", has_text="of the cell").wait_for()
    assert view.locator(".tl-cell-line.tl-related").count() > 0
    nb.keys("k")
    assert view.locator(".tl-cell-line.tl-chosen").count() == 0
    for kernel in range(view.locator(".tl-kernel").count()):
        view.locator(".tl-kernel").nth(kernel).click()
        assert view.locator(".tl-cell-line.tl-related").count() > 0
    nb.check()


def test_the_selection_is_read_and_set_from_python(notebook: Opener) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    nb.ready()
    nb.keys("]", "ArrowRight")
    nb.ready()
    nb.page.wait_for_timeout(900)
    code = "from tinylab_widgets.debugger import debugger_of as d; print(d(rec).selection['k'])"
    assert nb.python(code) == "1"
    nb.python("d(rec).show(d(rec).selection['pass'], 0)")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.at.endsWith(':0')")
    nb.check()


def test_a_failing_cell_shows_its_traceback_and_what_was_recorded(
    notebook: Opener, shots: Path
) -> None:
    cell = (
        "%%tinygrad\nx = Tensor.ones(4).contiguous().realize()\n"
        "Tensor.ones(3, 4) @ Tensor.ones(3, 4)"
    )
    nb = notebook(LOAD, cell, "print('not reached')")
    nb.run(0)
    assert nb.page.evaluate("() => tests.run(1)") is False
    nb.wait_idle()
    nb.ready()
    outputs = nb.page.evaluate("() => tests.outputs(1)")
    error = next(output for output in outputs if output["output_type"] == "error")
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
    assert "Cell In[2], line 2" in trace
    assert "magics.py" not in trace
    assert "run_cell_magic" not in trace
    assert "The cell ended with" in nb.status()
    nb.page.screenshot(path=str(shots / "error.png"))


RAISING = """%%tinygrad
from tinylab.uop.ops import UOp, UPat, Ops, PatternMatcher, Rule, graph_rewrite
def refuse(x):
    raise ValueError("no such luck")
pm = PatternMatcher([
    Rule("mul_one", "x * 1 -> x", UPat.var("x") * 1, lambda x: x),
    Rule("refuse", "sqrt(x) -> error", UPat(Ops.SQRT, name="x"), refuse),
])
n = UOp.variable("n", 0, 100)
graph_rewrite(((n + 3) * 1).sqrt().sink(), pm, name="breaks")
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_rewrite_that_failed_is_marked_with_its_rule_and_node(
    notebook: Opener, shots: Path, theme: str
) -> None:
    nb = notebook(LOAD, RAISING)
    nb.theme(theme)
    nb.run(0)
    assert nb.page.evaluate("() => tests.run(1)") is False
    nb.wait_idle()
    view = nb.ready()
    assert view.locator(".tl-pass.tl-here.tl-failed .tl-pass-name").inner_text() == "breaks"
    assert nb.at()[1] == 1
    failure = view.locator(".tl-failure")
    assert "refuse raised ValueError: no such luck" in failure.inner_text()
    assert "def refuse(x):" in failure.locator(".tl-source").inner_text()
    assert "SQRT" in failure.locator(".tl-change").inner_text()
    assert view.locator("canvas").get_attribute("data-failed") == "SQRT"
    assert "raised by the rule refuse" in nb.status()
    # The node is chosen, so that all about it is told; and it is marked in the text too.
    assert view.locator(".tl-node-detail .tl-rule-name").first.inner_text() == "SQRT"
    view.screenshot(path=str(shots / f"failed-{theme}.png"))
    nb.keys("t")
    view.locator(".tl-text-line.tl-raised").wait_for()
    assert "SQRT" in view.locator(".tl-text-line.tl-raised").inner_text()
    nb.keys("t", "t", "Home")
    nb.ready()
    assert view.locator(".tl-failure").count() == 0
    assert view.locator("canvas").get_attribute("data-failed") == ""


def test_a_cell_awaits_at_its_top_level(notebook: Opener) -> None:
    cell = (
        "%%tinygrad --name rec\nimport asyncio\nawait asyncio.sleep(0.01)\n"
        "(Tensor.ones(8).contiguous() + 1).realize()\nawait asyncio.sleep(0, 'said')"
    )
    nb = notebook(LOAD, cell)
    nb.run(0, 1)
    nb.ready()
    outputs = nb.page.evaluate("() => tests.outputs(1)")
    assert any("said" in str(o.get("data", {}).get("text/plain")) for o in outputs)
    assert int(nb.python("print(len(rec.kernels))")) >= 1
    nb.check()


@pytest.mark.parametrize("width", [1100, 800])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_and_numbers_of_kernels_are_readable_in_narrow_places(
    notebook: Opener, shots: Path, theme: str, width: int
) -> None:
    nb = notebook(LOAD, MATMUL.replace("64", "96"))
    nb.page.set_viewport_size({"width": width, "height": 950})
    nb.theme(theme)
    nb.run(0, 1)
    view = nb.ready()
    nb.keys("k")
    view.locator(".tl-opt, .tl-opt-list .tl-hint").first.wait_for()
    cells = view.locator(".tl-kernel td").evaluate_all(
        "all => all.map(e => ({ text: e.textContent, look: e.className,"
        " cut: e.scrollWidth > e.clientWidth + 1, rows: e.getClientRects().length,"
        " height: e.clientHeight }))"
    )
    names = [c for c in cells if "tl-kernel-name" in c["look"]]
    assert names
    assert not [c for c in names if c["cut"]]
    numbers = [c for c in cells if "tl-num" in c["look"]]
    assert not [c for c in numbers if c["cut"] or c["height"] > 30]
    table = view.locator(".tl-table-scroll")
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
    view.screenshot(path=str(shots / f"kernels-{width}-{theme}.png"))
    nb.check()


def test_an_earlier_run_shows_its_opts_and_code_again(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    view = nb.ready()
    nb.keys("k")
    kernel = view.locator(".tl-kernel", has_text="r_").first
    kernel.click()
    view.locator(".tl-bench h3", has_text="Opts of r_").wait_for()
    view.locator(".tl-opts-form:not([inert]) .tl-opt").first.wait_for()
    view.locator("button", has_text="None").click()
    run_and_wait(nb, 1)
    view.get_by_text("+ Add opt").click()
    view.locator("[data-name=arg]").press("Enter")  # as Ctrl+Enter does
    view.locator(".tl-run").nth(2).wait_for(timeout=60_000)
    assert "of " in view.locator(".tl-run .tl-spread").last.inner_text()
    # Another kernel and back: the kernel side is asked for the history, without its sources.
    view.locator(".tl-kernel").first.click()
    view.locator(".tl-bench h3", has_text="Opts of E_").wait_for()
    kernel.click()
    view.locator(".tl-run").nth(2).wait_for()
    for row, opts in ((1, 0), (0, 1)):
        before = view.locator(".tl-code").first.inner_text()
        view.locator(".tl-run").nth(row).click()
        view.locator(f".tl-run.tl-here[data-row='{2 - row}']").wait_for()
        expect(view.locator(".tl-opt")).to_have_count(opts)
        nb.page.wait_for_function(
            "before => { const now = document.querySelector('.tl-code').innerText;"
            " return now.length > 50 && now !== before; }",
            arg=before,
        )
    view.locator(".tl-run").nth(2).click()  # the unedited kernel
    view.locator(".tl-run.tl-here[data-row='0']").wait_for()
    name = kernel.locator(".tl-kernel-name").inner_text()
    view.locator(".tl-code-line", has_text=f"@{name}_body").wait_for()
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    assert view.locator(".tl-run .tl-num").evaluate_all(cut) == []
    view.screenshot(path=str(shots / "history.png"))
    nb.check()


def test_an_interrupted_cell_leaves_the_notebook_usable(notebook: Opener) -> None:
    cell = "%%tinygrad\nimport time\nTensor.ones(4).contiguous().realize()\nprint(1)\ntime.sleep(9)"
    nb = notebook(LOAD, cell)
    nb.run(0)
    nb.run(1, wait=False)
    nb.page.wait_for_function("() => tests.status() === 'busy/connected'")
    nb.page.wait_for_function("() => tests.outputs(1).some((o) => o.output_type === 'stream')")
    nb.page.evaluate("() => tests.kernel().interrupt()")
    nb.wait_idle()
    nb.ready()
    nb.keys("]")
    nb.ready()
    assert "The cell was interrupted, in no pass" in nb.status()


def test_a_run_can_be_stopped_and_one_that_never_ends_is_a_message(notebook: Opener) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    nb.ready()
    nb.keys("k")
    nb.view().locator(".tl-opt").first.wait_for()
    nb.page.keyboard.press("Control+Enter")
    nb.view().locator("[data-name=stop]").click()
    nb.page.wait_for_function("() => document.querySelectorAll('.tl-run').length === 2")
    assert nb.view().locator(".tl-run").first.get_attribute("data-status") != ""
    assert nb.python("print((Tensor.ones(2) + 1).tolist())") == "[2.0, 2.0]"
    nb.check()


def test_keys_that_the_widget_does_not_use_reach_jupyterlab(notebook: Opener) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    view = nb.ready()
    assert nb.page.evaluate("() => tests.panel().context.model.dirty")
    nb.keys("Control+s")
    nb.page.wait_for_function("() => !tests.panel().context.model.dirty")
    nb.keys("d", "d", "a", "x")
    assert nb.page.evaluate("() => tests.panel().content.widgets.length") == 2
    before = view.get_attribute("data-at")
    nb.keys("Control+Shift+C")
    palette = nb.page.locator("#modal-command-palette")
    palette.wait_for(state="visible")
    nb.page.keyboard.press("Escape")
    palette.wait_for(state="hidden")
    assert view.get_attribute("data-at") == before

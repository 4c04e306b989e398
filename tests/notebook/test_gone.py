"""Views whose kernel has gone: opened again without it, restarted or ended while they are shown.

They say so by themselves, and what the notebook's file holds is seen again.
"""

import time
from pathlib import Path

import pytest

from tests.notebook.browser import Notebook
from tests.notebook.conftest import Opener
from tests.notebook.test_cases import saved_models

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
CELL = (
    "%%tinygrad --name rec\n"
    "(Tensor.rand(64, 64) @ Tensor.rand(64, 64)).relu().sum().realize()\nNone"
)
PROFILED = CELL.replace("%%tinygrad", "%%tinygrad --profile")
CAPTURED = (
    "from tinylab.profiler.demo import FOLDER\nfrom tinylab.profiler.capture import read_capture\n"
    "read_capture(FOLDER)"
)
# A run that takes until the kernel ends.
HANGS = """
import threading
from tinylab_widgets.debugger import debugger_of
desk = debugger_of(rec)._answerer.desk
class Hanging:
    def answer(self, ask, args, push):
        return threading.Event().wait() if ask == "run" else desk.answer(ask, args, push)
debugger_of(rec)._answerer.desk = Hanging()
"""


def shut_down(nb: Notebook) -> None:
    """End the kernel."""
    nb.page.evaluate("() => tests.panel().sessionContext.shutdown()")


ENDS = {"restart": Notebook.restart_kernel, "shutdown": shut_down}


def to_match(nb: Notebook, k: int) -> tuple[int, int]:
    """Stand at match k of a long pass; the place."""
    title = nb.view().locator(".tl-pass-title")
    while "assign_ranges" not in title.inner_text():
        nb.keys("]")
    nb.ready()
    nb.keys(*["ArrowRight"] * k)
    nb.ready()
    assert nb.at()[1] == k
    return nb.at()


def wait_gone(nb: Notebook, view: str = ".tinylab") -> None:
    """Wait until a view says, without being touched, that its kernel has gone."""
    nb.page.wait_for_function(
        "view => document.querySelector(view).dataset.link === 'gone'", arg=view
    )
    nb.page.locator(".tl-status[data-state=gone]").first.wait_for()


def wait_kept(nb: Notebook, place: tuple[int, int], timeout_s: float = 20) -> None:
    """Save until the file holds this step: where the views rest is noted after a moment."""
    until = time.monotonic() + timeout_s
    kept: list[object] = []
    while time.monotonic() < until:
        states = [model["state"] for model in saved_models(nb.save()).values()]
        firsts = [state["first"] for state in states if state.get("first")]
        kept = [(first["pass"], first["k"]) for first in firsts]
        if kept == [place]:
            return
        nb.page.wait_for_timeout(100)
    raise AssertionError(f"the file holds {kept}, not {place}")


def test_opened_again_it_shows_the_step_that_was_saved(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL, lab="saving_lab")
    nb.run(0, 1)
    nb.ready()
    nb.save()
    size = nb.file.stat().st_size
    place = to_match(nb, 5)
    nb.keys("k")
    nb.view().locator(".tl-code-line").first.wait_for()
    wait_kept(nb, place)
    nb.reopen()
    assert nb.file.stat().st_size <= 1.3 * size
    view = nb.ready()
    assert view.get_attribute("data-link") == "gone"
    assert nb.at() == place
    assert "The kernel of this record has gone" in nb.status()
    static = nb.page.locator(".tinylab-static")
    static.wait_for()
    assert static.locator("img[src^='data:image/svg+xml']").is_visible()
    assert static.locator("details").count() >= 1
    nb.page.screenshot(path=str(shots / "reopened.png"))
    # What cannot be loaded is not promised: keys lead nowhere, and code is where the file has it.
    nb.keys("ArrowRight", "]")
    assert nb.at() == place
    nb.keys("k")
    view.locator(".tl-run-error", has_text="the source stands under this view").wait_for()
    nb.page.screenshot(path=str(shots / "reopened-kernels.png"))
    assert nb.sent() == 0
    nb.check()
    nb.run(0, 1)
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.link === 'ready'")
    static.wait_for(state="hidden")


@pytest.mark.parametrize("cell", [CAPTURED, "rec_profile"], ids=["capture", "profile"])
def test_what_needs_its_kernel_is_a_line_over_what_the_file_holds(
    notebook: Opener, shots: Path, cell: str, request: pytest.FixtureRequest
) -> None:
    nb = notebook(LOAD, PROFILED, cell, lab="saving_lab")
    nb.run(0, 1, 2)
    nb.page.locator(".jp-CodeCell").nth(2).locator(".tinylab").wait_for()
    nb.reopen()
    shown = nb.page.locator(".jp-CodeCell").nth(2)
    note = shown.locator(".tinylab-note")
    note.wait_for()
    assert "has gone" in note.inner_text()
    assert shown.locator(".tinylab").count() == 0
    assert shown.locator(".tinylab-static").is_visible()
    assert shown.locator(".tinylab-static table tr").count() >= 2
    shown.scroll_into_view_if_needed()
    nb.page.screenshot(path=str(shots / f"reopened-{request.node.callspec.id}.png"))
    nb.check()


def test_a_record_that_was_shown_by_its_name_is_kept_as_well(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL.replace("%%tinygrad", "%%tinygrad --no-widget"), "rec")
    nb.run(0, 1, 2)
    nb.ready()
    assert nb.page.locator(".tinylab-static").is_hidden()
    nb.reopen()
    static = nb.page.locator(".tinylab-static")
    static.wait_for()
    assert static.locator("table tr").count() >= 3


@pytest.mark.parametrize("end", ENDS)
def test_a_run_ends_with_its_kernel(notebook: Opener, shots: Path, end: str) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    view = nb.ready()
    nb.python(HANGS)
    nb.keys("k")
    view.locator(".tl-opts-form:not([inert])").wait_for()
    nb.page.keyboard.press("Control+Enter")
    view.locator("[data-name=stop]").wait_for()
    ENDS[end](nb)
    wait_gone(nb)
    failure = view.locator(".tl-run-error")
    failure.wait_for()
    assert "The notebook's kernel went while this ran" in failure.inner_text()
    assert view.locator("[data-name=stop]").is_hidden()
    assert view.locator(".tl-run-status").inner_text() == ""
    # What the file holds is there beside what was loaded.
    nb.page.locator(".tinylab-static").wait_for()
    view.screenshot(path=str(shots / f"ended-{end}.png"))
    nb.check()


@pytest.mark.parametrize("end", ENDS)
def test_every_view_says_by_itself_that_its_kernel_has_gone(notebook: Opener, end: str) -> None:
    nb = notebook(LOAD, PROFILED, CAPTURED)
    nb.run(0, 1, 2)
    nb.ready()
    nb.page.wait_for_function("() => tests.widgets() === 3")
    ENDS[end](nb)
    nb.page.wait_for_function(
        "() => [...document.querySelectorAll('.tinylab')].map(v => v.dataset.link).join()"
        " === 'gone,gone,gone'"
    )
    nb.check()


NOTHING = {
    "print": "%%tinygrad\nprint(1)",
    "import": "%%tinygrad\nimport math",
    "comment": "%%tinygrad\n# nothing",
    "profiled": "%%tinygrad --profile\n# nothing",
}


def test_cells_that_compute_nothing_say_so_in_one_line_each(notebook: Opener) -> None:
    nb = notebook(LOAD, *NOTHING.values())
    for number, name in enumerate(NOTHING, 1):
        nb.run(0, number)
        outputs = nb.page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea-output")
        outputs.get_by_text("nothing was computed").wait_for()
        heights = outputs.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
        assert max(heights) < 60, (name, heights)
        assert not nb.page.evaluate("cell => tests.hasWidget(cell)", number), name
    assert nb.page.locator(".tinylab").count() == 0
    nb.check()

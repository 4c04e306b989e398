"""What bites notebook widgets, after public bug reports: messages and tasks are counted, not time.

Saved state that grows, kernels that go, several views, scrolling, busy kernels, themes, huge
graphs.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.browser import BUSY, Notebook
from tests.notebook.conftest import Opener

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
CELL = "%%tinygrad\n(Tensor.rand(64, 64) @ Tensor.rand(64, 64)).relu().sum().realize()"
NAMED = CELL.replace("%%tinygrad", "%%tinygrad --name rec")
CONTRAST = Path(__file__).with_name("contrast.js").read_text()


def to_a_long_pass(nb: Notebook, view: int = 0) -> None:
    """Stand at the start of a pass with many matches."""
    title = nb.view(view).locator(".tl-pass-title")
    while "assign_ranges" not in title.inner_text():
        nb.keys("]", view=view)
    nb.ready(view)


def saved_models(saved: dict[str, Any]) -> dict[str, Any]:
    """The widgets that a notebook's file holds."""
    found: dict[str, Any] = (
        saved["metadata"]
        .get("widgets", {})
        .get("application/vnd.jupyter.widget-state+json", {})
        .get("state", {})
    )
    return found


def test_saved_state_does_not_grow_with_runs(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, lab="saving_lab")
    nb.run(0, 1)
    nb.ready()
    first = nb.save()
    size, models = nb.file.stat().st_size, len(saved_models(first))
    assert models > 0
    for _ in range(9):
        nb.run(1)
    nb.ready()
    again = nb.save()
    assert nb.file.stat().st_size <= 1.3 * size
    assert len(saved_models(again)) <= models

    nb.command("notebook:clear-all-cell-outputs")
    nb.page.wait_for_timeout(2500)
    cleared = saved_models(nb.save())
    states = [model["state"] for model in cleared.values()]
    assert not any(state.get("overview") or state.get("first") for state in states)
    assert "assign_ranges" not in json.dumps([s for s in states if "code" not in s])
    nb.run(1)
    nb.ready()
    nb.check()


def test_outputs_that_were_cleared_can_be_shown_again(notebook: Opener) -> None:
    nb = notebook(LOAD, NAMED, "rec")
    nb.run(0, 1)
    nb.ready()
    nb.command("notebook:clear-all-cell-outputs")
    nb.page.wait_for_timeout(2500)
    nb.run(2)
    nb.ready()
    nb.keys("]", "ArrowRight")
    nb.ready()
    nb.check()


def test_reopened_without_its_kernel_the_output_is_a_picture(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    nb.ready()
    to_a_long_pass(nb)
    nb.keys(*["ArrowRight"] * 5)
    assert nb.page.locator(".tinylab-static").is_hidden()
    nb.reopen()
    static = nb.page.locator(".tinylab-static")
    static.wait_for()
    assert static.locator("img[src^='data:image/svg+xml']").count() >= 1
    assert static.locator("table tr").count() >= 3
    assert "define" in static.locator("details").first.text_content()
    nb.page.screenshot(path=str(shots / "static.png"), full_page=True)
    assert not nb.foreign


def test_a_restarted_kernel_leaves_the_picture_and_says_so(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    nb.ready()
    to_a_long_pass(nb)
    nb.restart_kernel()
    sent = nb.sent()
    nb.keys("ArrowRight", "ArrowRight", "]")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.link === 'gone'")
    assert "gone" in nb.status()
    # It stands on a graph that was loaded: of this pass, or of the next one if it was made ahead.
    assert nb.view().get_attribute("data-shown") == nb.view().get_attribute("data-at") != ""
    nb.page.wait_for_timeout(1500)
    assert nb.sent() - sent <= 1
    nb.view().screenshot(path=str(shots / "gone.png"))
    nb.run(0, 1)
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.link === 'ready'")
    nb.keys("]")
    nb.ready()
    nb.check()


def test_a_reloaded_page_is_live_again(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    nb.ready()
    nb.save()
    nb.open()
    nb.ready()
    to_a_long_pass(nb)
    nb.keys("ArrowRight")
    nb.ready()
    assert nb.at()[1] == 1
    nb.check()


def test_one_record_in_several_views(notebook: Opener) -> None:
    nb = notebook(LOAD, NAMED, "rec", "rec")
    nb.run(0, 1, 2, 3)
    for view in range(3):
        nb.ready(view)
    nb.page.evaluate("() => tests.panel().content.activeCellIndex = 1")
    nb.command("notebook:create-output-view")
    nb.page.wait_for_function("() => tests.widgets() === 3")
    nb.page.wait_for_function("() => document.querySelectorAll('.tinylab').length === 4")
    to_a_long_pass(nb, 1)
    nb.keys(*["ArrowRight"] * 3, view=1)
    nb.ready(1)
    assert nb.at(1)[1] == 3
    steps = [nb.view(view).get_attribute("data-at") for view in range(4)]
    assert len(set(steps)) == 1  # the help says that views share the step
    nb.page.evaluate("() => { tests.panel().content.widgets[1].model.clearExecution(); }")
    nb.page.evaluate("() => tests.panel().content.widgets[1].model.outputs.clear()")
    nb.page.wait_for_function("() => tests.widgets() === 2")
    nb.keys("ArrowRight", view=0)
    nb.ready(0)
    assert nb.at(0)[1] == 4
    # All views of the model were set up once: a place is asked for once, or twice where it was
    # needed before the question made ahead was answered, and not by each of the four views.
    places = Counter(nb.page.evaluate("() => tests.places"))
    assert places.total() == nb.sent("step")
    assert max(places.values()) <= 2, places
    nb.check()


def test_scrolled_away_and_back_it_has_its_picture(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, *[f"print({i})\n\n\n\n" for i in range(60)])
    nb.run(0, 1)
    nb.ready()
    to_a_long_pass(nb)
    nb.keys("ArrowRight", "ArrowRight", "+", "+")
    nb.ready()
    before = nb.at(), nb.view().locator("canvas").get_attribute("data-scale")
    nb.page.evaluate("() => tests.panel().content.scrollToItem(61)")
    nb.page.wait_for_timeout(800)
    nb.page.set_viewport_size({"width": 1100, "height": 950})
    nb.page.wait_for_timeout(500)
    nb.page.evaluate("() => tests.panel().content.scrollToItem(1)")
    nb.ready()
    canvas = nb.view().locator("canvas")
    assert (nb.at(), canvas.get_attribute("data-scale")) == before
    drawn = canvas.evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const colours = new Set();"
        " for (let i = 0; i < d.length; i += 4) colours.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
        " return { width: c.width, box: c.getBoundingClientRect().width, colours: colours.size }; }"
    )
    assert drawn["colours"] > 10
    assert abs(drawn["width"] - drawn["box"]) < 2
    nb.check()


def test_keys_on_a_busy_kernel_are_merged(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL, BUSY, lab="one_shell_lab")
    nb.run(0, 1)
    nb.ready()
    to_a_long_pass(nb)
    nb.page.wait_for_timeout(500)
    start = nb.at()
    sent = nb.sent()
    nb.run(2, wait=False)
    nb.page.wait_for_function("() => tests.status() === 'busy/connected'")
    nb.keys(*["ArrowRight"] * 30, delay_ms=60)
    assert "busy" in nb.status()
    nb.view().screenshot(path=str(shots / "busy.png"))
    nb.keys(*["ArrowLeft"] * 10, delay_ms=30)
    assert nb.page.evaluate("() => tests.status()") == "busy/connected"
    assert nb.at() == (start[0], 20)
    assert nb.sent() - sent <= 4
    nb.go_on()
    nb.ready()
    assert nb.at() == (start[0], 20)
    nb.page.wait_for_timeout(500)
    assert nb.sent() - sent <= 8
    nb.check()


def test_with_subshells_a_busy_kernel_answers(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, BUSY)
    nb.run(0, 1)
    nb.ready()
    to_a_long_pass(nb)
    nb.run(2, wait=False)
    nb.page.wait_for_function("() => tests.status() === 'busy/connected'")
    nb.keys(*["ArrowRight"] * 7)
    nb.ready()
    # A subshell that has answered makes the whole kernel look idle: the cell knows better.
    assert nb.page.evaluate("() => tests.panel().content.widgets[2].prompt") == "*"
    nb.go_on()
    nb.check()


def styles_elsewhere(nb: Notebook) -> Any:
    """The look of the first cell's plain output and table, which are not the widget's."""
    return nb.page.evaluate(
        "() => [...tests.panel().content.widgets[0].node.querySelectorAll('pre, table, td')]"
        ".map(e => { const s = getComputedStyle(e); return [s.fontFamily, s.fontSize, s.color,"
        " s.backgroundColor, s.padding, s.margin, s.border].join('|'); })"
    )


def test_the_theme_changes_while_it_is_shown(notebook: Opener) -> None:
    table = "print('plain')\n" + (
        "from IPython.display import HTML; HTML('<table><tr><td>1</td></tr></table>')"
    )
    nb = notebook(table, LOAD, CELL)
    nb.run(0)
    before = styles_elsewhere(nb)
    nb.run(1, 2)
    view = nb.ready()
    assert styles_elsewhere(nb) == before
    assert len(before) >= 3
    to_a_long_pass(nb)
    nb.keys("ArrowRight")
    for theme in ("light", "dark", "light"):
        nb.theme(theme)
        assert view.get_attribute("data-theme") == theme
        for keys in ([], ["k"], ["k", "?"], ["Escape", "t"], ["t", "t"]):
            nb.keys(*keys)
            nb.page.wait_for_timeout(250)
            found = view.evaluate(CONTRAST)
            weak = [each for each in found if each["ratio"] < 4.5]
            assert len(found) > 40
            assert not weak, f"{theme}: {weak[:8]}"
        corner = view.locator("canvas").evaluate(
            "c => [...c.getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
        )
        assert (sum(corner) < 200) == (theme == "dark")
    nb.check()


DOUBLING = "%%tinygrad\na = Tensor.empty(32, 322)\nfor _ in range(100): a = a + a\na.realize()"
LARGE = """
from tinylab import Tensor
import tinylab
xs = [Tensor.empty(4) for _ in range(40)]
with tinylab.record() as rec:
    ys = list(xs)
    for i in range(5000):
        ys.append((ys[-1] + ys[(i * 7) % len(ys)]) * ys[-17])
    out = ys[-1].contiguous()
    from tinylab.uop.ops import UOp, Ops, PatternMatcher, UPat, graph_rewrite
    def halve(x):
        return None
    pm = PatternMatcher([(UPat(Ops.MUL, name="x"), halve)])
    graph_rewrite(out.uop, pm, name="ten thousand")
rec
"""


def long_tasks(nb: Notebook) -> list[float]:
    """How long the page's main thread was taken, each time that it was over 50 ms."""
    found: list[list[float]] = nb.page.evaluate("() => tests.longTasks.splice(0)")
    return [duration for _, duration in found]


def test_a_deep_graph_is_readable(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, DOUBLING)
    nb.run(0, 1)
    view = nb.ready()
    assert int(view.locator("canvas").get_attribute("data-nodes")) >= 100
    assert float(view.locator("canvas").get_attribute("data-scale")) > 0.6
    view.screenshot(path=str(shots / "deep.png"))
    nb.check()


def test_ten_thousand_nodes_do_not_hold_the_page(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, LARGE)
    nb.run(0, 1)
    view = nb.ready(timeout_s=60)
    total = view.locator(".tl-graph > .tl-graph-note").inner_text()
    assert "of" in total  # folded, and it says so
    nb.page.wait_for_timeout(500)
    long_tasks(nb)
    nb.keys("f")  # all of it
    nb.page.wait_for_timeout(30)
    nb.keys("]", "[")
    nb.ready(timeout_s=30)
    nb.page.wait_for_timeout(2500)
    tasks = long_tasks(nb)
    view.screenshot(path=str(shots / "large.png"))
    canvas = view.locator("canvas")
    assert int(canvas.get_attribute("data-nodes")) > 10_000
    # What is long is done in slices of 8 ms, with the page's own tasks between them.
    assert int(canvas.get_attribute("data-slices")) > 1
    # 100 ms is the aim on a quiet machine; in one piece this takes seconds, and busy cores stretch
    # every task.
    assert max(tasks, default=0) < 1000, tasks
    assert not nb.page.get_by_role("dialog").filter(has_text="continue").count()
    nb.check()

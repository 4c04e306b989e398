"""The debugger on a real training step in JupyterLab: what is looked for is in sight, and said."""

import re
from pathlib import Path
from typing import Literal

import pytest
from nbformat import v4
from playwright.sync_api import Browser

from tests.notebook.browser import Notebook
from tests.notebook.conftest import Opener
from tinylab.lab.cells import run_cell
from tinylab.lab.notebook import RanNotebook
from tinylab.lab.page import page as page_of

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor, nn"
STEP = """%%tinygrad --name rec
class Net:
    def __init__(self):
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.out = nn.Linear(8 * 4 * 4, 10)
    def __call__(self, x):
        return self.out(self.conv(x).relu().max_pool2d().flatten(1))
net = Net()
opt = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)
Tensor.training = True
x, y = Tensor.rand(32, 1, 8, 8), Tensor.randint(32, low=0, high=10)
loss = net(x).sparse_categorical_crossentropy(y)
loss.backward()
opt.step()
loss.item()"""


def sight(nb: Notebook) -> list[str]:
    """What of the step is in sight, once it is painted."""
    nb.ready()
    canvas = nb.view().locator("canvas.tl-canvas")
    nb.page.wait_for_function(
        "() => { const root = document.querySelector('.tinylab');"
        " return root.querySelector('canvas.tl-canvas').dataset.painted === root.dataset.at; }"
    )
    return (canvas.get_attribute("data-sight") or "").split()


# How many of the canvas's pixels have another colour than most, in percent.
COVERED = """canvas => { const { width, height } = canvas, { data } =
  canvas.getContext("2d").getImageData(0, 0, width, height);
  const counts = new Map();
  for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, 1 + (counts.get(pixel) ?? 0));
  return 100 * (1 - Math.max(...counts.values()) / (width * height)); }"""


def test_every_pass_of_a_training_step_begins_with_a_picture(notebook: Opener) -> None:
    nb = notebook(LOAD, STEP)
    nb.run(0, 1)
    canvas = nb.ready().locator("canvas.tl-canvas")
    nb.page.emulate_media(reduced_motion="reduce")  # a picture is whole at once
    blank = []
    for _ in range(24):
        nb.keys("]")
        sight(nb)
        covered = canvas.evaluate(COVERED)
        if covered < 3:
            blank.append((nb.at(), covered))
    assert blank == []


def test_a_narrow_debugger_keeps_the_graph_and_one_line_of_status(notebook: Opener) -> None:
    nb = notebook(LOAD, f"{STEP}\nTensor.rand(3, 4) @ Tensor.rand(3, 4)")
    nb.page.set_viewport_size({"width": 900, "height": 950})
    nb.run(0, 1)
    view = nb.ready()
    heights = view.evaluate(
        """root => Object.fromEntries([".tl-rewrites", ".tl-graph", ".tl-status"].map(
          name => [name, root.querySelector(name).getBoundingClientRect().height]))"""
    )
    assert heights[".tl-graph"] > 0.5 * heights[".tl-rewrites"]
    assert "cannot dot" in nb.status()
    inside = view.evaluate(
        """root => { const bar = root.querySelector(".tl-status");
          const [box, ...own] = [bar, ...bar.children].map(each => each.getBoundingClientRect());
          return own.every(each =>
            each.top >= box.top && each.bottom <= box.bottom && each.right <= box.right); }"""
    )
    assert inside


def test_every_step_of_a_training_step_shows_its_change(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, STEP)
    nb.run(0, 1)
    view = nb.ready()
    lost = []
    for _ in range(2):
        nb.keys("]")
        for _ in range(14):
            nb.keys("ArrowRight")
            seen = sight(nb)
            if nb.at()[1] > 0 and not {"after", "before"} & set(seen):
                lost.append((nb.at(), seen))
    assert lost == []
    view.screenshot(path=str(shots / "sight-step.png"))
    # A node that is chosen beside the graph comes into sight, and c goes back to the change.
    for link in ("tl-is-gone", "tl-is-added"):
        view.locator(f".tl-changes .{link}").click()
        assert "node" in sight(nb)
    view.locator(".tl-src").last.click()
    assert "node" in sight(nb)
    nb.keys("c")
    assert {"after", "before"} & set(sight(nb))
    # So does a hit of a search, in the step that is shown and in others.
    nb.keys("/")
    nb.page.keyboard.type("mul")
    view.locator(".tl-hit-row").nth(5).wait_for()
    labels = view.locator(".tl-hit-label").all_inner_texts()
    assert all("%" in label or "->" in label for label in labels), labels
    places = [re.sub(r"\s+", " ", t) for t in view.locator(".tl-hit-row").all_inner_texts()]
    assert len(set(places)) == len(places)
    view.screenshot(path=str(shots / "sight-search.png"))
    for hit in (0, 5):
        nb.keys("/")
        view.locator(".tl-hit-row").nth(hit).click()
        assert "node" in sight(nb)
    nb.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_many_kernels_are_sorted_and_scrolled_to(notebook: Opener, shots: Path, theme: str) -> None:
    nb = notebook(LOAD, STEP)
    nb.theme(theme)
    nb.run(0, 1)
    view = nb.ready()
    nb.keys("k")
    view.locator(".tl-opts-form:not([inert])").wait_for()
    table = view.locator(".tl-table-scroll")
    count = view.locator(".tl-kernel").count()
    assert count > 15
    inside = (
        "e => { const list = e.closest('.tl-table-scroll').getBoundingClientRect();"
        " const row = e.getBoundingClientRect();"
        " return row.top >= list.top && row.bottom <= list.bottom + 1; }"
    )
    seen = view.locator(".tl-kernel").evaluate_all(f"all => all.filter({inside}).length")
    assert seen >= 7
    # The line whose kernels are all below: the first of them comes into sight.
    view.locator(".tl-cell-line").nth(12).click()
    view.locator(".tl-kernel.tl-lined").first.wait_for()
    assert any(view.locator(".tl-kernel.tl-lined").evaluate_all(f"all => all.map({inside})"))
    view.screenshot(path=str(shots / f"sight-lines-{theme}.png"))
    view.locator("[data-sort='Time']").click()
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("Time")
    assert re.search(r"\d", view.locator(".tl-kernel .tl-num").nth(1).inner_text())
    # A wider left side, by keyboard, shows whole lines; the table can be made taller.
    wide = "() => document.querySelector('.tl-left').getBoundingClientRect().width"
    before = nb.page.evaluate(wide)
    view.locator("[data-name='split-left']").focus()
    for _ in range(5):
        nb.page.keyboard.press("ArrowRight")
    assert nb.page.evaluate(wide) == before + 80
    view.locator("[data-name='split-table']").focus()
    for _ in range(6):
        nb.page.keyboard.press("ArrowDown")
    more = view.locator(".tl-kernel").evaluate_all(f"all => all.filter({inside}).length")
    assert more > seen
    bar = view.locator("[data-name='split-bench']").bounding_box()
    assert bar is not None
    old = view.locator(".tl-bench").bounding_box()
    nb.page.mouse.move(bar["x"] + 3, bar["y"] + 40)
    nb.page.mouse.down()
    nb.page.mouse.move(bar["x"] - 37, bar["y"] + 60)
    nb.page.mouse.up()
    new = view.locator(".tl-bench").bounding_box()
    assert old is not None
    assert new is not None
    assert abs(new["width"] - old["width"] - 40) <= 1
    view.screenshot(path=str(shots / f"sight-kernels-{theme}.png"))
    nb.check()


def test_the_kernel_completes_options_alone(notebook: Opener) -> None:
    nb = notebook(LOAD)
    nb.run(0)
    ask = "print(get_ipython().kernel.do_complete({code!r}, {at})['matches'])"

    def complete(code: str) -> str:
        return nb.python(ask.format(code=code, at=len(code)))

    assert complete("%%tinygrad --n") == "['--name', '--noopt', '--no-widget', '--no-alias']"
    assert complete("%%tinygrad --device ") == "['CPU', 'PYTHON', 'NULL']"
    assert "print" in complete("%%tinygrad --noopt\npri")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_shows_kernels_and_says_quietly_that_none_can_be_run(
    browser: Browser, tmp_path: Path, shots: Path, theme: Literal["light", "dark"]
) -> None:
    source = "from tinylab import Tensor\na = Tensor.rand(32, 32)\n(a @ a).relu().sum().realize()"
    run = run_cell(source, {})
    cell = v4.new_code_cell(f"%%tinygrad\n{source}")
    ran = RanNotebook(tmp_path / "a.ipynb", v4.new_notebook(cells=[cell]), [run.record])
    (tmp_path / "a.html").write_text(page_of(ran), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme=theme)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{tmp_path / 'a.html'}")
    view = page.locator(".tinylab")
    view.locator("[data-name='tab-kernels']").click()
    for kernel in (2, 0):
        view.locator(".tl-kernel").nth(kernel).click()
        view.locator(".tl-blocked-text", has_text="open the notebook").wait_for()
        assert view.locator(".tl-status").get_attribute("data-state") == "ready"
        assert view.locator("[data-name='run']").is_disabled()
        assert "open the notebook" in (
            view.locator("[data-name='run']").get_attribute("title") or ""
        )
        assert view.locator(".tl-code-line").count() > 5
    view.screenshot(path=str(shots / f"report-{theme}.png"))
    view.locator("[data-name='tab-rewrites']").click()
    view.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "() => { const root = document.querySelector('.tinylab');"
            " return root.querySelector('canvas').dataset.painted === root.dataset.at; }"
        )
        seen = view.locator("canvas.tl-canvas").get_attribute("data-sight") or ""
        k = (view.get_attribute("data-at") or "").split(":")[1]
        assert k == "0" or {"after", "before"} & set(seen.split())
    assert errors == []
    page.close()

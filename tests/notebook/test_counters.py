"""Counters in a real JupyterLab: a slow kernel is counted, an advice is taken, it runs faster."""

import re
from pathlib import Path

import pytest

from tests.notebook.browser import Notebook
from tests.notebook.conftest import Opener

CONTRAST = Path(__file__).with_name("contrast.js").read_text()
pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
SLOW = (
    "%%tinygrad --noopt --name rec\na = Tensor.rand(256, 256).realize()\n(a @ a).relu().realize()"
)


def count(nb: Notebook) -> None:
    """Choose the last kernel and count it."""
    view = nb.view()
    nb.keys("k")
    view.locator(".tl-kernel", has_text="r_").last.click()
    view.locator(".tl-opts-form:not([inert])").wait_for()
    view.locator("[data-name=count]").click()
    view.locator(".tl-counters table[aria-label=figures]").wait_for(timeout=60_000)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_slow_kernel_is_counted_and_its_advice_taken(
    notebook: Opener, shots: Path, theme: str
) -> None:
    nb = notebook(LOAD, SLOW)
    nb.theme(theme)
    nb.run(0, 1)
    view = nb.ready()
    assert nb.sent("count") == 0  # nothing is counted before somebody asks
    count(nb)

    figures = view.locator(".tl-counters table[aria-label=figures]").inner_text()
    assert re.search(r"flops\s+33,554,432\s+operations\s+counted", figures)
    caches = view.locator("table[aria-label=caches]").inner_text()
    assert re.search(r"L1\s+", caches)
    assert view.locator(".tl-roofline-plot .tl-point").count() >= 2
    labels = set(view.locator(".tl-counters .tl-figure-kind").all_inner_texts())
    assert labels == {"counted", "measured"}
    view.screenshot(path=str(shots / f"counters-{theme}.png"))
    view.locator("table[aria-label=uops]").scroll_into_view_if_needed()
    view.screenshot(path=str(shots / f"counters-below-{theme}.png"))

    _readable(nb, ".tl-counters")
    _readable(nb, ".tl-bench")

    # A uop leads to its line, which is marked with heat.
    view.locator(".tl-uop-row").first.click()
    view.locator(".tl-code-line.tl-chosen").first.wait_for()
    heats = view.locator(".tl-code-line .tl-heat-mark")
    assert any(re.search(r"\d", text) for text in heats.all_inner_texts())
    view.screenshot(path=str(shots / f"heat-{theme}.png"))
    assert re.search(r"\d", view.locator(".tl-cell-line .tl-heat-mark").inner_text())
    before = heats.all_inner_texts()
    view.locator("[data-name=metric]").select_option("runs")
    assert heats.all_inner_texts() != before

    # The advice goes into the editor, is run, and is faster.
    advice = view.locator("[data-advice=new_lines]")
    assert "touches a new cache line at each step" in advice.inner_text()
    advice.click()
    assert view.locator(".tl-opt").count() == 1
    assert view.locator(".tl-opt select").input_value() == "UPCAST"
    nb.page.keyboard.press("Control+Enter")
    view.locator(".tl-run[data-status=ok]").first.wait_for(timeout=60_000)
    view.screenshot(path=str(shots / f"advised-{theme}.png"))

    # Counted again with the opts of the advice: fewer misses are told.
    misses = _misses(nb)
    view.locator("[data-name=count]").click()
    nb.page.wait_for_function(
        "() => /UPCAST/.test(document.querySelector('.tl-counter-part h4')?.textContent)",
        timeout=60_000,
    )
    assert _misses(nb) < misses / 4

    # For a GPU nothing is run: every figure says that it is estimated.
    view.locator("[data-name=target]").select_option("sm_80")
    view.locator("[data-name=count]").click()
    nb.page.wait_for_function(
        "() => /sm_80/.test(document.querySelector('.tl-counter-part h4')?.textContent)",
        timeout=60_000,
    )
    assert set(view.locator(".tl-counters .tl-figure-kind").all_inner_texts()) == {"estimated"}
    assert "coalescing" in view.locator("table[aria-label=figures]").inner_text()
    view.screenshot(path=str(shots / f"estimated-{theme}.png"))
    nb.check()


def _readable(nb: Notebook, part: str) -> None:
    """Every text has the contrast that WCAG asks of small ones."""
    found = nb.view().locator(part).evaluate(CONTRAST)
    assert found
    assert [row for row in found if row["ratio"] < 4.5] == []


def _misses(nb: Notebook) -> int:
    row = nb.view().locator("table[aria-label=caches] tbody tr").first
    return int(row.locator("td").nth(-2).inner_text().replace(",", ""))

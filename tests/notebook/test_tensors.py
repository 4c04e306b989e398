"""Tensors and progress bars as JupyterLab shows them, in both themes."""

from pathlib import Path

import pytest

from tests.notebook.conftest import Opener

pytestmark = pytest.mark.browser

CONTRAST = Path(__file__).with_name("contrast.js").read_text()
FEW = """
import numpy as np
from tinylab import Tensor
nan, inf = float("nan"), float("inf")
Tensor([[-1.0, -0.5, -0.1, 0.0], [0.1, 0.5, 1.0, nan], [inf, -inf, 100.0, -100.0]]).realize()
"""
MANY = """
values = np.random.default_rng(1).normal(size=(600, 800)).astype(np.float32)
values[123, 456], values[500, 50], values[300, 300:320] = 1e3, -1e3, nan
Tensor(values).realize()
"""
CURVE = "Tensor(np.sin(np.arange(3000) / 100)).realize()"
PLANES = """
planes = np.random.default_rng(2).normal(size=(64, 32, 3, 3)).astype(np.float32)
planes[50, 3, 1, 1], planes[60], planes[20, 5, 0, 0] = 1e6, nan, -inf
Tensor(planes).realize()
"""
SQUARE = "Tensor(np.random.default_rng(3).normal(size=(300, 300)).astype(np.float32)).realize()"
ROW = "Tensor(np.sin(np.arange(100_000) / 3000)[None]).realize()"
LEFT = """
from tinylab.helpers import trange
for i in trange(5, desc="left"):
    if i == 2: break
"""
BAR = "from tinylab.helpers import trange\nfor _ in trange(5, desc='steps'): pass"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tensors_are_readable_in_each_theme(notebook: Opener, shots: Path, theme: str) -> None:
    nb = notebook(FEW, MANY, CURVE, BAR)
    nb.theme(theme)
    nb.run(0, 1, 2, 3)
    shown = nb.page.locator(".tlab-tensor")
    shown.nth(2).wait_for()
    nb.page.screenshot(path=str(shots / f"tensors-{theme}.png"), full_page=True)
    # Each number of the grid can be read on its colour.
    found = shown.first.evaluate(CONTRAST)
    found = [f for f in found if f["look"] != "canvas"]  # of the debugger
    assert len([f for f in found if f["text"] in ("-1", "0.5", "NaN", "∞", "-∞", "100")]) >= 6
    assert min(f["ratio"] for f in found) >= 4.5, sorted(found, key=lambda f: f["ratio"])[:3]
    # JupyterLab gives rows of tables colours of its own: no cell's colour is hidden by them.
    colors = shown.first.locator("td").evaluate_all(
        "cells => cells.map(c => getComputedStyle(c).backgroundColor)"
    )
    assert len(set(colors)) >= 8
    for number in (1, 2):
        size = shown.nth(number).locator("img").bounding_box()
        assert size is not None
        assert size["width"] >= 300
        assert size["height"] >= 90
    bar = nb.page.get_by_text("5/5").locator("xpath=..").locator("div > div").first
    box = bar.bounding_box()
    assert box is not None
    assert box["width"] >= 195
    nb.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_keep_their_proportions(notebook: Opener, shots: Path, theme: str) -> None:
    nb = notebook(FEW, PLANES, SQUARE, ROW, LEFT)
    nb.theme(theme)
    nb.run(0, 1, 2, 3, 4)
    shown = nb.page.locator(".tlab-tensor")
    shown.nth(3).wait_for()
    nb.page.screenshot(path=str(shots / f"planes-{theme}.png"), full_page=True)
    boxes = [shown.nth(n).locator("img").bounding_box() for n in (1, 2, 3)]
    planes, square, row = [(b["width"], b["height"]) for b in boxes if b is not None]
    assert planes[0] >= 400
    assert square[0] == pytest.approx(square[1], rel=0.02)
    assert square[0] >= 300
    assert row[1] >= 100
    text = shown.nth(1).inner_text()
    for said in ("all 2048 planes (3, 3)", "288 NaN", "1 infinite", "1 beyond"):
        assert said in text
    bar = nb.page.get_by_text("2/5").locator("xpath=..").locator("div > div").first
    box = bar.bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(80, abs=2)
    nb.check()

"""The debugger in a real JupyterLab: run a cell, step, edit opts, run them, in both themes."""

from pathlib import Path

import pytest

from tests.notebook.conftest import Opener

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
MATMUL = "%%tinygrad\n(Tensor.rand(64, 64) @ Tensor.rand(64, 64)).relu().sum().realize()"


def test_shot(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, MATMUL)
    nb.run(0, 1)
    view = nb.ready()
    for theme in ("light", "dark"):
        nb.theme(theme)
        nb.page.screenshot(path=str(shots / f"page-{theme}.png"))
        nb.keys("]", "]", "ArrowRight", "ArrowRight", delay_ms=200)
        nb.ready()
        view.screenshot(path=str(shots / f"step-{theme}.png"))
        nb.keys("k")
        nb.page.wait_for_timeout(800)
        view.screenshot(path=str(shots / f"kernels-{theme}.png"))
        nb.keys("k", "?")
        nb.page.wait_for_timeout(300)
        view.screenshot(path=str(shots / f"help-{theme}.png"))
        nb.keys("?")
    nb.check()

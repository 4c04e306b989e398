"""The picture in the README: `python -m tests.notebook.picture docs/debugger.png`."""

import sys
import tempfile
from pathlib import Path

from tests.notebook.browser import Notebook, chromium
from tests.notebook.lab_server import LabServer

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor"
CELL = """%%tinygrad --name rec
a = Tensor.rand(256, 256)
b = Tensor.rand(256, 256)
(a @ b).relu().sum(axis=1).realize();"""


def main(target: Path) -> None:
    """Run a cell, step to a rewrite, show the kernels under it, and take the picture."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = LabServer(Path(folder) / "lab")
        server.start()
        try:
            nb = Notebook(server, browser, "matmul")
            nb.page.set_viewport_size({"width": 1240, "height": 1520})
            nb.write(LOAD, CELL, "rec")
            nb.open()
            nb.run(0, 1, 1, 1, 2)  # later runs find threads and caches warm
            nb.ready(1)
            nb.keys("k", view=1)
            nb.view(1).locator(".tl-kernel", has_text="r_").first.click()
            nb.view(1).locator(".tl-code-line").first.wait_for()
            while "assign_ranges" not in nb.view().locator(".tl-pass-title").inner_text():
                nb.keys("]")
            nb.keys("ArrowRight", "ArrowRight", "ArrowRight")
            nb.ready()
            nb.page.wait_for_timeout(800)
            target.parent.mkdir(parents=True, exist_ok=True)
            nb.page.locator(".jp-NotebookPanel").screenshot(path=str(target))
        finally:
            server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The debugger in JupyterLab and headless Chromium: first paint, and the next pass after that."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import harness

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor\nx = Tensor.ones(8).contiguous().realize()"
CELL = """%%tinygrad --name rec --no-widget
y = x
for n in range(250):
    y = (y * (n + 2)).sin() + n
y.realize()"""
_VIEWS = "n => document.querySelectorAll('canvas[data-painted]').length >= n"

_STEPPED = """([n, before]) => {
    const view = document.querySelectorAll(VIEW)[n];
    const painted = view.querySelector("canvas").dataset.painted;
    return painted !== before && painted === view.dataset.at;
}"""


def run(rounds: int = 7) -> None:
    """From asking for the record to the first picture of it; from a key to the next picture."""
    if importlib.util.find_spec("playwright") is None:
        print("\n(no first paint: playwright is not installed)")
        return
    from tests.notebook.browser import VIEW, Notebook, chromium
    from tests.notebook.lab_server import LabServer

    first, steps = [], []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = LabServer(Path(folder) / "lab")
        server.start()
        try:
            nb = Notebook(server, browser, "paint")
            nb.write(LOAD, CELL, *["rec"] * rounds)
            nb.open()
            nb.run(0, 1)
            for n in range(rounds):
                start = time.perf_counter()
                nb.run(2 + n, wait=False)
                nb.page.wait_for_function(_VIEWS, arg=n + 1)
                first.append(time.perf_counter() - start)
                nb.wait_idle()
                nb.ready(n)
                before = nb.view(n).get_attribute("data-at")
                start = time.perf_counter()
                nb.keys("]", view=n)
                nb.page.wait_for_function(_STEPPED.replace("VIEW", repr(VIEW)), arg=[n, before])
                steps.append(time.perf_counter() - start)
        finally:
            server.stop()
    rows = [
        [what, harness.shown_time(statistics.median(found)), harness.shown_time(max(found))]
        for what, found in (("first paint", first), ("next pass by a key", steps))
    ]
    title = "debugger of 250 rounds of y*c, sin and y+c, in JupyterLab"
    harness.table(title, ["what", "median", "slowest"], rows)

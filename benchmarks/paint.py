"""The debugger in JupyterLab and headless Chromium: first paint, and the steps after that."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import harness

if TYPE_CHECKING:
    from tests.notebook.browser import Notebook

LOAD = "%load_ext tinylab\nfrom tinylab import Tensor\nx = Tensor.ones(8).contiguous().realize()"
CELL = """%%tinygrad --name rec --no-widget
y = x
for n in range(250):
    y = (y * (n + 2)).sin() + n
y.realize()"""
_VIEWS = "n => document.querySelectorAll('canvas[data-painted]').length >= n"

# From the key's own time to the frame after the picture of where the key led, in ms.
_WATCH = """n => {
    const view = document.querySelectorAll(VIEW)[n], canvas = view.querySelector("canvas");
    window.stepped = null;
    window.addEventListener("keydown", ({ timeStamp }) => {
        const before = canvas.dataset.painted;
        const look = () => {
            const { painted } = canvas.dataset;
            if (painted === before || painted !== view.dataset.at) {
                requestAnimationFrame(look);
                return;
            }
            window.stepped = performance.now() - timeStamp;
        };
        requestAnimationFrame(look);
    }, { capture: true, once: true });
}"""


# The first passes of the record, all on its graph of a thousand nodes; the third has the matches.
PASSES, BACK, MATCHES = 5, 3, 5
BETWEEN_MS = 300


def run(rounds: int = 5) -> None:
    """From asking for the record to the first picture of it; from a key to the next picture."""
    if importlib.util.find_spec("playwright") is None:
        print("\n(no first paint: playwright is not installed)")
        return
    from tests.notebook.browser import Notebook, chromium
    from tests.notebook.lab_server import LabServer

    first, passes, matches = [], [], []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = LabServer(Path(folder) / "lab")
        server.start()
        try:
            nb = Notebook(server, browser, "paint")
            nb.write(LOAD, CELL, *["rec"] * rounds)
            nb.open()
            nb.run(0)
            for n in range(rounds):
                nb.run(1)  # a new record: nothing of it is known to the page
                start = time.perf_counter()
                nb.run(2 + n, wait=False)
                nb.page.wait_for_function(_VIEWS, arg=n + 1)
                first.append(time.perf_counter() - start)
                nb.wait_idle()
                nb.ready(n).hover()  # as whoever steps by keys comes to it
                nb.page.wait_for_timeout(BETWEEN_MS)
                passes += [_stepped(nb, n, "]") for _ in range(PASSES)]
                nb.keys(*["["] * BACK, view=n, delay_ms=BETWEEN_MS)
                matches += [_stepped(nb, n, "ArrowRight") for _ in range(MATCHES)]
        finally:
            server.stop()
    measured = {
        "first paint": first,
        "next pass by a key": passes,
        "next match by a key": matches,
    }
    rows = [
        [what, harness.shown_time(statistics.median(found)), harness.shown_time(max(found))]
        for what, found in measured.items()
    ]
    title = "debugger of 250 rounds of y*c, sin and y+c, in JupyterLab"
    harness.table(title, ["what", "median", "slowest"], rows)


def _stepped(nb: Notebook, view: int, key: str) -> float:
    """Seconds from a key to the picture of the step it led to, then a moment's rest."""
    from tests.notebook.browser import VIEW

    nb.page.evaluate(_WATCH.replace("VIEW", repr(VIEW)), view)
    nb.keys(key, view=view)
    nb.page.wait_for_function("() => window.stepped !== null")
    nb.page.wait_for_timeout(BETWEEN_MS)
    return float(nb.page.evaluate("() => window.stepped")) / 1000

"""The timeline at five million events: windows on the Python side, frames while panning, memory."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.memory import peak_mb
from tinylab.profiler.collected import Profile
from tinylab.profiler.columns import pack
from tinylab.profiler.table import KIND, EventTable, Lane
from tinylab.profiler.timeline_desk import TimelineDesk

EVENTS = 5_000_000
COLUMNS = 1500
CELL = """from benchmarks.timeline import made
from tinylab.profiler.collected import Profile
profile = Profile("five million", table=made(8))
profile"""
# Drags by so many pixels in so many steps, and notes the time between painted frames in ms.
_PAN = """([pixels, steps]) => new Promise((done) => {
    const canvas = document.querySelector(".tl-timeline canvas");
    const box = canvas.getBoundingClientRect();
    const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, {
        clientX: x, clientY: box.top + 200, button: 0, pointerId: 1, bubbles: true }));
    canvas.setPointerCapture = () => undefined;
    const from = box.left + 600, frames = [];
    let step = 0, last = performance.now(), painted = canvas.dataset.painted;
    send("pointerdown", from);
    const next = () => {
        const now = performance.now();
        frames.push([now - last, canvas.dataset.painted !== painted]);
        [last, painted] = [now, canvas.dataset.painted];
        step += 1;
        if (step > steps) { send("pointerup", from - pixels); done(frames); return; }
        send("pointermove", from - (pixels * step) / steps);
        requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
})"""


def made(lanes: int, count: int = EVENTS, seed: int = 0) -> EventTable:
    """Kernels of some devices one after another, of a thousand names."""
    rng = np.random.default_rng(seed)
    lane = np.repeat(np.arange(lanes), -(-count // lanes))[:count]
    length = rng.integers(200, 4000, count)
    start = np.cumsum(length + rng.integers(0, 900, count)) - length
    start -= start[np.searchsorted(lane, lane)]
    columns = {
        "lane": lane,
        "kind": np.full(count, KIND["run"]),
        "name": rng.integers(0, 1000, count),
        "start": start,
        "end": start + length,
        "value": np.zeros(count),
        "kernel": np.full(count, -1),
    }
    names = [f"r_{a}_{b}" for a in range(40) for b in range(25)]
    return EventTable.build([Lane(f"GPU:{i}", "device") for i in range(lanes)], names, columns, 0)


def run(rounds: int = 15) -> None:
    """Windows of one lane and of forty at several zooms; then the page."""
    rows = [row for lanes in (1, 8, 40) for row in _windows(lanes, rounds)]
    peak = peak_mb()
    head = ["lanes", "of all", "median", "slowest", "bars", "kB"]
    harness.table(f"windows of {EVENTS:,} events, {COLUMNS} columns", head, rows)
    print(f"\nthe largest that the process was: {peak:.0f} MB")
    _page()


def _windows(lanes: int, rounds: int) -> list[list[str]]:
    desk = TimelineDesk(Profile("many", table=made(lanes)))
    desk.timeline.prepare()
    start, end = desk.table.span
    rng = np.random.default_rng(1)
    rows = []
    for part in (1, 10, 1000, 100_000):
        width = (end - start) // part
        times, answer = [], {}
        for _ in range(rounds):
            left = start + int(rng.integers(0, max(1, end - start - width)))
            args = {"start": left, "end": left + width, "columns": COLUMNS,
                    "keys": list(range(lanes))}  # fmt: skip
            begin = time.process_time()
            answer = desk.answer("window", args)
            _, blob = pack(answer["columns"])
            times.append(time.process_time() - begin)
        shown = [harness.shown_time(t) for t in (statistics.median(times), max(times))]
        bars = len(answer["columns"]["start"])
        rows.append([str(lanes), f"1/{part}", *shown, str(bars), f"{len(blob) / 1e3:.0f}"])
    return rows


def _page() -> None:
    if importlib.util.find_spec("playwright") is None:
        print("\n(no frames: playwright is not installed)")
        return
    from tests.notebook.browser import Notebook, chromium
    from tests.notebook.lab_server import LabServer

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = LabServer(Path(folder) / "lab")
        server.start()
        try:
            nb = Notebook(server, browser, "timeline")
            nb.write("%load_ext tinylab", CELL)
            nb.open()
            nb.run(0)
            begin = time.perf_counter()
            nb.run(1, wait=False)
            nb.page.wait_for_function(
                "() => document.querySelector('.tl-timeline canvas')?.dataset.loaded",
                timeout=120_000,
            )
            first = time.perf_counter() - begin
            nb.wait_idle()
            rows = [_frames(nb, zooms) for zooms in (0, 6, 14, 20)]
        finally:
            server.stop()
    head = ["zoom", "frames a second", "slowest frame", "painted", "windows asked for"]
    harness.table("dragging over five million events, in JupyterLab", head, rows)
    print(f"\nfrom the cell's start to the first picture: {harness.shown_time(first)}")


def _frames(nb: Any, zooms: int) -> list[str]:
    """Frames of a drag over half the picture, after so many zooms in."""
    view = nb.page.locator(".tl-timeline")
    view.evaluate("element => element.focus({ preventScroll: true })")
    nb.page.keyboard.press("z")
    for _ in range(zooms):
        nb.page.keyboard.press("+")
    nb.page.wait_for_timeout(1200)
    asked = nb.sent("window")
    frames = nb.page.evaluate(_PAN, [400, 120])
    nb.page.wait_for_timeout(600)
    times = [t for t, _ in frames[1:]]
    painted = sum(1 for _, was in frames[1:] if was)
    rate = 1000 * len(times) / sum(times)
    return [
        f"{1.5**zooms:.0f} x",
        f"{rate:.0f}",
        f"{max(times):.0f} ms",
        f"{painted} of {len(times)}",
        str(nb.sent("window") - asked),
    ]


if __name__ == "__main__":
    run()

"""`tinylab view`: a page with a live viewer, with nothing to write and no cell to run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser

from tests.notebook.lab_server import ROOT
from tinylab.profiler.demo import FOLDER


def test_a_capture_opens_in_a_page_of_its_own(
    browser: Browser, tmp_path: Path, shots: Path
) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "widgets")])}
    env |= {"TMPDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    command = [sys.executable, "-m", "tinylab.lab.cli", "view", "--no-browser", str(FOLDER)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            page = browser.new_page(viewport={"width": 1300, "height": 950})
            page.goto(address)
            lanes = page.locator(".tinylab .tl-lane-canvas")
            lanes.wait_for(timeout=60_000)
            page.wait_for_function(
                "() => Number(document.querySelector('.tl-lane-canvas').dataset.drawn) > 0"
            )
            # A question that only a kernel answers.
            page.locator(".tinylab").press("k")
            page.locator(".tl-counter").first.wait_for()
            page.screenshot(path=str(shots / "view_command.png"))
            page.close()
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 130
    assert not list(tmp_path.glob("tinylab-view-*"))

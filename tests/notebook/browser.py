"""A notebook in a real browser: what the tests do with it, and what they read from it."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4
from playwright.sync_api import Browser, Locator, Page, TimeoutError, sync_playwright

from tests.notebook.lab_server import LabServer

CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
]
VIEWPORT: Any = {"width": 1280, "height": 950}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
VIEW = ".tinylab"
_PAGE_JS = Path(__file__).with_name("page.js").read_text()
# Console lines that say nothing about the notebook under test.
_NOISE = re.compile(
    r"ResizeObserver loop|Found \d+ unused|translation|Disabling terminals|favicon|"
    r"Starting (application|WebSocket)|404 \(Not Found\)"
)


def chromium_path() -> str | None:
    """The browser of the system, if it has one; the variable CHROMIUM names another."""
    return shutil.which(os.environ.get("CHROMIUM", "chromium")) or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_ARGS)
        yield browser
        browser.close()


def new_page(browser: Browser) -> Page:
    """A page that knows nothing of the others, with what the tests ask of it."""
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(_PAGE_JS)
    return page


# A cell that holds the kernel until `Notebook.go_on`.
BUSY = """import pathlib, time
while not (found := pathlib.Path("go_on")).exists():
    time.sleep(0.05)
found.unlink()"""


class Notebook:
    """One notebook, open in one page: in a new one, or in one that another notebook left."""

    def __init__(
        self, server: LabServer, browser: Browser, name: str, page: Page | None = None
    ) -> None:
        self.server = server
        self.file = server.notebooks / f"{name}.ipynb"
        self._listeners: dict[Any, Callable[[Any], None]] = {
            "console": self._console, "pageerror": self._page_error, "request": self._request
        }  # fmt: skip
        self._loaded = page is not None
        self._before: Page | None = None  # where it was open first
        self._stand_in(new_page(browser) if page is None else page)

    def _stand_in(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.foreign: list[str] = []
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def _page_error(self, error: Any) -> None:
        self.errors.append(str(error))

    def _console(self, message: Any) -> None:
        if message.type == "error" and not _NOISE.search(message.text):
            self.errors.append(message.text)

    def _request(self, request: Any) -> None:
        if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|blob:|data:", request.url):
            self.foreign.append(request.url)

    # *** opening and running

    def write(self, *cells: str) -> None:
        """Write the notebook's file with these code cells."""
        notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.file)

    def open(self, kernel: bool = True) -> None:
        """Open it, or open it again; without a kernel only what was saved is seen."""
        if self._loaded:  # JupyterLab runs in this page already
            self.command("docmanager:open", path=self.file.name)
            self._loaded = False
        else:
            self.page.goto(self.server.url(f"doc/tree/{self.file.name}"))
        self.page.wait_for_function("() => window.tests.panel()?.content.widgets.length > 0")
        self.page.wait_for_function("() => window.tests.panel().context.isReady")
        if kernel:
            self.page.wait_for_function("() => tests.status() === 'idle/connected'", timeout=60_000)

    def run(self, *cells: int, wait: bool = True) -> None:
        """Run cells in order."""
        for cell in cells:
            call = f"() => tests.run({cell})"
            self.page.evaluate(call if wait else f"() => {{ tests.run({cell}); }}")
        if wait:
            self.wait_idle()

    def go_on(self) -> None:
        """End a cell that is BUSY, and wait for that."""
        self.file.with_name("go_on").touch()
        self.wait_idle()

    def wait_idle(self, timeout_s: float = 60) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            "() => tests.status() === 'idle/connected'", timeout=timeout_s * 1000
        )

    def python(self, code: str) -> str:
        """Run code in the kernel, apart from the cells; what it printed."""
        result = self.page.evaluate("code => tests.python(code)", code)
        assert result["error"] is None, result["error"]
        out: str = result["out"]
        return out

    def command(self, name: str, **args: Any) -> None:
        """One of JupyterLab's own commands."""
        self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args).then(() => null)",
            [name, args],
        )

    def save(self) -> dict[str, Any]:
        """Save, and read the file."""
        self.page.evaluate("() => tests.panel().context.save()")
        found: dict[str, Any] = nbformat.read(self.file, 4)
        return found

    def restart_kernel(self) -> None:
        """Restart the kernel, without asking."""
        self.page.evaluate("() => tests.panel().sessionContext.restartKernel()")
        self.wait_idle()

    def theme(self, name: str) -> None:
        """Switch JupyterLab's theme."""
        self.command("apputils:change-theme", theme=THEMES[name])
        light = str(name == "light").lower()
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        self.page.wait_for_timeout(900)  # the sheet arrives after its name

    def close(self) -> None:
        """Close the page; the kernel lives on."""
        self.page.close()
        if self._before is not None:
            self._before.close()

    def leave(self) -> Page:
        """End the kernel, close the notebook, and give the page, as it was at first, to another.

        Of a notebook that was opened again that is the first page: where JupyterLab has shown the
        widgets of a file it looks for them when the next kernel is restarted.
        """
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.evaluate("() => tests.leave()")
        if self._before is not None:
            self.page.close()
            return self._before
        self.page.set_viewport_size(VIEWPORT)
        self.page.emulate_media(reduced_motion="null")
        return self.page

    def reopen(self) -> None:
        """Save it, end its kernel, and open it in a new page."""
        browser = self.page.context.browser
        assert browser is not None
        self.save()
        self._before = self.leave()
        self._stand_in(new_page(browser))
        self.open()

    # *** the debugger

    def view(self, number: int = 0) -> Locator:
        """The number-th debugger of the page."""
        return self.page.locator(VIEW).nth(number)

    def ready(self, number: int = 0, timeout_s: float = 20) -> Locator:
        """The same, when it has painted what it shows."""
        view = self.view(number)
        try:
            view.wait_for(timeout=timeout_s * 1000)
        except TimeoutError:
            raise AssertionError(f"no debugger appeared; {self.problems()}") from None
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            painted = view.locator("canvas").get_attribute("data-painted")
            if painted and painted == view.get_attribute("data-at"):
                return view
            self.page.wait_for_timeout(30)
        painted = view.locator("canvas").get_attribute("data-painted")
        at = view.get_attribute("data-at")
        state = f"the debugger stands at {at!r} and has painted {painted}"
        raise AssertionError(f"{state}; it says {self.status(number)!r}; {self.problems()}")

    def at(self, number: int = 0) -> tuple[int, int]:
        """(pass, match) where a debugger stands."""
        text = self.view(number).get_attribute("data-at") or ":"
        pass_id, k = text.split(":")
        return int(pass_id), int(k)

    def status(self, number: int = 0) -> str:
        """The debugger's status line."""
        return self.view(number).locator(".tl-status-text").inner_text()

    def keys(self, *keys: str, view: int = 0, delay_ms: int = 0) -> None:
        """Press keys in a debugger."""
        self.view(view).evaluate("element => element.focus({ preventScroll: true })")
        for key in keys:
            self.page.keyboard.press(key)
            if delay_ms:
                self.page.wait_for_timeout(delay_ms)

    def sent(self, ask: str | None = None) -> int:
        """How many questions went to the kernel, all or of one kind."""
        asks: list[str] = self.page.evaluate("() => tests.sent")
        return len(asks) if ask is None else asks.count(ask)

    def problems(self) -> str:
        """What the page and the cells complain about."""
        cells = self.page.evaluate("() => tests.panel().content.widgets.length")
        outputs = [self.page.evaluate("cell => tests.outputs(cell)", i) for i in range(cells)]
        complaints = [
            output.get("evalue") or output.get("text") or list(output.get("data", {}))
            for cell in outputs
            for output in cell
        ]
        return f"outputs {complaints}, console {self.errors}"

    def check(self) -> None:
        """Nothing went wrong that nobody would see."""
        kernel_errors = self.page.evaluate("() => tests.kernelErrors")
        assert not self.errors, self.errors
        assert not kernel_errors, kernel_errors
        assert not self.foreign, f"requests that leave this machine: {self.foreign}"

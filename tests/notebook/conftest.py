"""One JupyterLab and one browser for all notebook tests; each test has a notebook of its own."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page

from tests.notebook.browser import Notebook, chromium, chromium_path
from tests.notebook.lab_server import LabServer

# Messages of widgets wait for the cell that runs, as with kernels that have no subshells.
ONE_SHELL = {"@jupyterlab/apputils-extension/kernels-settings": {"commsOverSubshells": "disabled"}}
SAVE_STATE = {"@jupyter-widgets/jupyterlab-manager/plugin": {"saveState": True}}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium_path() is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium, and CI does not go without one")
        pytest.skip("there is no Chromium here: install it, or name one in CHROMIUM")
    with chromium() as found:
        yield found


def _server(folder: Path, settings: dict[str, dict[str, object]]) -> Iterator[LabServer]:
    server = LabServer(folder / "lab", settings)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    yield from _server(tmp_path_factory.mktemp("lab"), {})


@pytest.fixture(scope="session")
def saving_lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab that keeps the state of widgets in the notebook's file."""
    yield from _server(tmp_path_factory.mktemp("saving"), SAVE_STATE)


@pytest.fixture(scope="session")
def one_shell_lab(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    """A JupyterLab that sends messages of widgets to the kernel's main thread."""
    yield from _server(tmp_path_factory.mktemp("one"), ONE_SHELL)


@pytest.fixture
def shots(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots go: the folder that TINYLAB_SHOTS names, else one that is thrown away."""
    folder = Path(os.environ.get("TINYLAB_SHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


Opener = Callable[..., Notebook]


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def spare_pages() -> dict[str, Page]:
    """The page that a test left in good order, by the fixture of its server.

    A page in which JupyterLab runs opens another notebook in half the time of a new one.
    """
    return {}


@pytest.fixture
def notebook(
    request: pytest.FixtureRequest, browser: Browser, spare_pages: dict[str, Page]
) -> Iterator[Opener]:
    """notebook(cell, cell, ...) writes, opens and gives a notebook; `lab` names the server."""
    opened: list[tuple[str, Notebook]] = []

    def make(*cells: str, lab: str = "lab") -> Notebook:
        server = request.getfixturevalue(lab)
        name = re.sub(r"\W+", "_", request.node.name) + str(len(opened))
        made = Notebook(server, browser, name, spare_pages.pop(lab, None))
        opened.append((lab, made))
        made.write(*cells)
        made.open()
        return made

    yield make
    for lab, each in opened:
        if each.page.is_closed():
            continue
        if request.node.stash[FAILED] or each.errors or lab in spare_pages:
            each.page.evaluate("() => tests.panel()?.sessionContext.shutdown()")
            each.close()
        else:
            spare_pages[lab] = each.leave()

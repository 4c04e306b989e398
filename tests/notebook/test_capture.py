"""The viewer of captures in a browser: real captures where they are, the one that ships always.

Set TINYLAB_SHOTS to a folder to keep the pictures.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.browser import Notebook
from tests.notebook.conftest import Opener
from tests.profiler.captures import FOLDERS, RECORDED, recorded
from tinylab.profiler.demo import FOLDER

pytestmark = pytest.mark.browser

LOAD = "%load_ext tinylab\nfrom tinylab.profiler import read_capture, read_captures"
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
LANES = ".tl-lane-canvas"
ALL = [FOLDER, *FOLDERS]
every_capture = pytest.mark.parametrize("folder", ALL, ids=["/".join(f.parts[-2:]) for f in ALL])


def shown(nb: Notebook, number: int = 0) -> Any:
    """The viewer, when its stream has been read and its lanes have been drawn."""
    view = nb.view(number)
    view.wait_for(timeout=20_000)
    nb.page.wait_for_function(
        "n => document.querySelectorAll('.tinylab')[n]?.dataset.done === 'true'", arg=number
    )
    nb.page.wait_for_function(
        "n => +document.querySelectorAll('.tinylab')[n].querySelector('.tl-lane-canvas')"
        "?.dataset.loaded >= 1",
        arg=number,
    )
    nb.page.wait_for_timeout(250)
    return view


def canvas(nb: Notebook, name: str, number: int = 0) -> str:
    """What the canvas tells of itself: what it shows, how much it drew."""
    return nb.view(number).locator(LANES).first.get_attribute(f"data-{name}") or ""


def span(nb: Notebook, number: int = 0) -> tuple[float, float]:
    """The stretch of time that is seen."""
    start, end = canvas(nb, "view", number).split(":")
    return float(start), float(end)


def selection(nb: Notebook, name: str = "cap") -> dict[str, Any]:
    """What Python is told of where the views stand."""
    nb.page.wait_for_timeout(600)
    found: dict[str, Any] = json.loads(
        nb.python(
            "import json; from tinylab_widgets.capture import viewer_of; "
            f"print(json.dumps(viewer_of({name}).selection))"
        )
    )
    return found


def open_capture(notebook: Opener, *folders: Path, lab: str = "lab") -> Notebook:
    paths = ", ".join(repr(str(f)) for f in folders)
    read = "read_capture" if len(folders) == 1 else "read_captures"
    nb = notebook(LOAD, f"cap = {read}({paths})\ncap", "cap", lab=lab)
    nb.run(0, 1)
    return nb


def check_that_nothing_is_hidden(nb: Notebook, *parts: str) -> None:
    """The viewer's parts lie whole in its box, which nothing overflows."""
    nb.page.wait_for_function(
        """parts => { const root = document.querySelector('.tinylab');
          const box = root.getBoundingClientRect();
          return root.scrollHeight <= root.clientHeight + 1 && parts.every(part => {
            const own = root.querySelector(part).getBoundingClientRect();
            return own.height > 20 && own.top >= box.top && own.bottom <= box.bottom; }); }""",
        arg=parts,
    )


@every_capture
def test_a_capture_in_both_themes_and_in_a_narrow_page(
    notebook: Opener, folder: Path, shots: Path
) -> None:
    nb = open_capture(notebook, folder)
    view = shown(nb)
    assert int(canvas(nb, "drawn")) > 0
    name = "_".join(folder.parts[-2:])
    for theme in ("light", "dark"):
        nb.theme(theme)
        view.screenshot(path=str(shots / f"trace_{name}_{theme}.png"))
        low = [t for t in view.evaluate(CONTRAST) if t["ratio"] < 4.5]
        assert not low, low
        nb.keys("k")
        nb.page.wait_for_function("() => document.querySelector('.tl-heat-canvas').dataset.painted")
        nb.page.wait_for_timeout(200)
        view.screenshot(path=str(shots / f"counters_{name}_{theme}.png"))
        low = [t for t in view.evaluate(CONTRAST) if t["ratio"] < 4.5]
        assert not low, low
        nb.keys("k")
    nb.theme("light")
    nb.page.set_viewport_size({"width": 900, "height": 1000})
    check_that_nothing_is_hidden(nb, LANES, ".tl-listing-panel", ".tl-status")
    nb.keys("k")
    check_that_nothing_is_hidden(nb, ".tl-status")
    nb.check()


def test_keys_work_on_when_the_focused_pane_is_hidden(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    view.locator(".tl-listing-line").first.click()
    tab = "tab => document.querySelector('.tinylab').dataset.tab === tab"
    for wanted in ("counters", "trace", "counters"):
        nb.page.keyboard.press("k")
        nb.page.wait_for_function(tab, arg=wanted)
        nb.page.wait_for_timeout(150)
        if wanted == "counters":
            view.locator(".tl-counter").first.focus()
    nb.page.keyboard.press("k")
    nb.page.keyboard.press("/")
    nb.page.wait_for_function(
        "() => document.activeElement.closest('.tinylab')?.dataset.tab === 'trace'"
    )
    nb.check()


@recorded
def test_cards_of_several_runs_stay_in_their_borders(notebook: Opener, shots: Path) -> None:
    names = ("gfx1100/gemm_run_0", "gfx1200/gemm_run_0", "gfx1200/handwritten_run_0")
    nb = open_capture(notebook, *(RECORDED / name for name in names))
    nb.page.set_viewport_size({"width": 1300, "height": 1000})
    view = shown(nb)
    nb.keys("k")
    boxes = view.locator(".tl-readout input")
    for number in range(boxes.count()):
        if not boxes.nth(number).is_checked():
            boxes.nth(number).click()
    nb.page.wait_for_function("() => document.querySelector('.tl-derived small')")
    nb.page.wait_for_timeout(300)
    view.screenshot(path=str(shots / "counters_compared.png"))
    over = view.evaluate(
        """root => [...root.querySelectorAll('.tl-derived')].filter(card => {
          const box = card.getBoundingClientRect();
          return [...card.querySelectorAll('b > *')].some(
            each => each.getBoundingClientRect().right > box.right); }).map(c => c.textContent)"""
    )
    assert over == []
    nb.check()


def test_from_the_whole_dispatch_to_single_cycles(notebook: Opener, shots: Path) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    home = span(nb)
    box = view.locator(LANES).bounding_box()
    nb.page.mouse.click(box["x"] + 700, box["y"] + 140)
    nb.page.mouse.move(box["x"] + 600, box["y"] + 140)
    before = nb.page.evaluate("() => document.querySelector('.tl-lane-canvas').dataset.view")
    for _ in range(60):
        nb.page.mouse.wheel(0, -120)
        nb.page.wait_for_timeout(15)
    nb.page.wait_for_timeout(500)
    assert canvas(nb, "view") != before
    start, end = span(nb)
    assert abs(end - start - 12) < 1e-6
    view.screenshot(path=str(shots / "cycles.png"))
    nb.page.mouse.move(box["x"] + 600, box["y"] + 140)
    nb.page.mouse.down()
    nb.page.mouse.move(box["x"] + 400, box["y"] + 140, steps=4)
    nb.page.mouse.up()
    nb.page.wait_for_timeout(200)
    assert span(nb)[0] > start
    nb.keys("z")
    nb.page.wait_for_timeout(200)
    assert span(nb) == home
    nb.check()


def test_lines_and_events_lead_to_each_other(notebook: Opener, shots: Path) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    line = view.locator(".tl-listing .tl-listing-line", has_text="barrier").first
    line.click()
    nb.page.wait_for_timeout(500)
    assert "6 hits" in view.locator(".tl-mark-text").inner_text()
    view.screenshot(path=str(shots / "marked.png"))
    nb.keys("n")
    nb.page.wait_for_timeout(300)
    assert "barrier" in view.locator('[data-name="event"]').inner_text()
    first = selection(nb)
    nb.keys("n", "n")
    nb.page.wait_for_timeout(300)
    # From the lanes back to the program: the next event of the lane is of another line.
    nb.keys("Shift+ArrowRight")
    nb.page.wait_for_timeout(500)
    chosen = view.locator(".tl-listing .tl-chosen")
    assert chosen.count() == 1
    assert "barrier" not in chosen.inner_text()
    assert selection(nb)["instruction"] != first["instruction"]
    nb.check()


def test_a_hot_line_far_down_is_scrolled_into_sight(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    selection(nb)  # what Python sets is not crossed by what the views tell at first
    nb.python(
        "from tinylab_widgets.capture import viewer_of\n"
        "viewer_of(cap).show(instruction=23, view=[2100, 2400])"
    )
    view.locator(".tl-listing .tl-chosen").wait_for()
    inside = view.locator(".tl-listing .tl-chosen").evaluate(
        "e => { const a = e.getBoundingClientRect();"
        " const b = e.closest('.tl-lines').getBoundingClientRect();"
        " return a.top >= b.top - 1 && a.bottom <= b.bottom + 1; }"
    )
    assert inside
    nb.page.wait_for_timeout(300)
    assert span(nb) == (2100, 2400)
    nb.check()


# Views tell where they stand once they rest: what Python sets before that may be overwritten.
AT_REST_MS = 1200


def test_python_reads_and_sets_what_is_chosen(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    assert selection(nb)["stream"] == 0
    nb.page.wait_for_timeout(AT_REST_MS)
    nb.python("from tinylab_widgets.capture import viewer_of; v = viewer_of(cap)")
    nb.python("v.show(stream=1)")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.stream === '1'")
    nb.page.wait_for_timeout(AT_REST_MS)
    nb.python("v.show(second=0, stretch=[2100, 2300])")
    nb.page.wait_for_function(
        "() => document.querySelector('.tinylab').dataset.compared === 'true'"
    )
    assert view.locator('[data-name="stretch"]').is_visible()
    assert view.locator(f"{LANES}:visible").count() == 2
    nb.page.wait_for_timeout(AT_REST_MS)
    nb.python("v.show(tab='counters', counter='SQ_INSTS_VALU')")
    view.locator('.tl-counter.tl-here[data-counter="SQ_INSTS_VALU"]').wait_for()
    nb.keys("k")
    found = selection(nb)
    assert (found["tab"], found["stream"], found["second"]) == ("trace", 1, 0)
    nb.check()


def test_search_and_streams_by_keys(notebook: Opener, shots: Path) -> None:
    nb = open_capture(notebook, FOLDER)
    view = shown(nb)
    nb.keys("/")
    nb.page.keyboard.type("waitcnt")
    view.locator(".tl-hit-row").first.wait_for()
    nb.page.wait_for_timeout(400)
    view.screenshot(path=str(shots / "search.png"))
    nb.page.keyboard.press("Enter")
    nb.page.wait_for_timeout(300)
    assert "s_waitcnt" in view.locator(".tl-mark-text").inner_text()
    nb.keys("Escape", "]")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.stream === '1'")
    nb.keys("?")
    view.locator(".tl-help").wait_for()
    view.screenshot(path=str(shots / "help.png"))
    nb.check()


def test_streams_that_end_early_or_are_empty(notebook: Opener, shots: Path, tmp_path: Path) -> None:
    """N21: everything before a cut is shown, and where and why it ends; an empty engine says so."""
    import shutil

    folder = Path(shutil.copytree(FOLDER, tmp_path / "cut"))
    data = (folder / "se0.sqtt").read_bytes()
    (folder / "se0.sqtt").write_bytes(data[: len(data) // 2 + 1])
    (folder / "se1.sqtt").write_bytes(b"")
    nb = open_capture(notebook, folder)
    view = shown(nb)
    assert int(canvas(nb, "drawn")) > 0
    text = view.locator('[data-name="stream-info"]').inner_text()
    assert "byte" in text
    assert "clock" in text
    assert "cut short" in text
    view.screenshot(path=str(shots / "cut.png"))
    nb.keys("]")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.stream === '1'")
    note = view.locator(".tl-lanes-note")
    note.wait_for()
    assert "se0" in note.inner_text()
    assert "nothing was captured" in view.locator('[data-name="stream-info"]').inner_text()
    view.screenshot(path=str(shots / "empty.png"))
    nb.check()


def test_garbage_is_refused_in_words(notebook: Opener, tmp_path: Path) -> None:
    (tmp_path / "noise.sqtt").write_bytes(bytes(range(7, 200)) * 40)
    nb = open_capture(notebook, tmp_path / "noise.sqtt")
    nb.view().wait_for()
    nb.page.wait_for_timeout(1200)
    assert "not a thread trace" in nb.status()
    nb.check()


def test_without_a_disassembler_encodings_and_the_package(notebook: Opener, shots: Path) -> None:
    nb = notebook(
        LOAD,
        "import tinylab.profiler.code.disassemble as d\nd.libraries = lambda: ()",
        f"cap = read_capture({str(FOLDER)!r})\ncap",
    )
    nb.run(0, 1, 2)
    view = shown(nb)
    text = view.locator(".tl-listing-panel").inner_text()
    assert "libllvm" in text
    assert view.locator(".tl-listing .tl-listing-line").count() > 10
    assert "s_waitcnt" not in text
    view.screenshot(path=str(shots / "no_disassembler.png"))
    nb.check()


def test_two_views_of_one_capture_and_a_theme_change(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER)
    shown(nb)
    nb.run(2)
    shown(nb, 1)
    nb.keys("+", "+", view=1)
    nb.page.wait_for_timeout(300)
    assert span(nb, 0) != span(nb, 1)  # zoom is each view's own
    nb.view(0).locator(".tl-listing .tl-listing-line").nth(3).click()
    nb.page.wait_for_timeout(400)
    assert nb.view(1).locator(".tl-listing .tl-chosen").count() == 1  # what is chosen is shared
    drawn = canvas(nb, "painted", 1)
    nb.theme("dark")
    assert canvas(nb, "painted", 1) != drawn
    nb.theme("light")
    nb.run(1)  # the first output is replaced: its viewer goes, the other lives
    nb.keys("z", view=1)
    nb.check()


def test_out_of_sight_and_back(notebook: Opener) -> None:
    """N07: the canvas has its content again, at the new width, with the same zoom and choice."""
    fillers = ["pass"] * 40
    nb = notebook(LOAD, f"cap = read_capture({str(FOLDER)!r})\ncap", *fillers)
    nb.run(0, 1)
    view = shown(nb)
    nb.keys("Shift+ArrowRight", "f")
    nb.page.wait_for_timeout(400)
    before, chosen = span(nb), selection(nb)["instruction"]
    nb.page.evaluate("() => tests.panel().content.scrollToItem?.(41, 'end')")
    nb.page.wait_for_timeout(600)
    nb.page.set_viewport_size({"width": 1000, "height": 900})
    nb.page.wait_for_timeout(400)
    nb.page.evaluate("() => tests.panel().content.scrollToItem?.(1, 'start')")
    nb.page.wait_for_timeout(900)
    assert view.locator(LANES).evaluate("c => c.width > 100 && c.height > 100")
    assert int(canvas(nb, "drawn")) > 0
    assert span(nb) == before
    assert selection(nb)["instruction"] == chosen
    nb.check()


def test_reopened_without_its_kernel(notebook: Opener, shots: Path) -> None:
    nb = open_capture(notebook, FOLDER)
    shown(nb)
    assert nb.page.locator(".tinylab-static").is_hidden()
    nb.reopen()
    static = nb.page.locator(".tinylab-static")
    static.wait_for()
    assert static.locator("img[src^='data:image/svg+xml']").count() == 1
    assert static.locator("table").count() >= 3
    assert "LDS bank conflicts" in static.inner_text()
    nb.page.screenshot(path=str(shots / "capture_static.png"), full_page=True)
    assert not nb.foreign


def test_a_restarted_kernel_leaves_what_was_drawn(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER)
    shown(nb)
    nb.restart_kernel()
    nb.keys("d", "+", "n")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.link === 'gone'")
    assert "gone" in nb.status()
    assert int(canvas(nb, "drawn")) > 0
    sent = nb.sent()
    nb.keys("a", "-", "]")
    nb.page.wait_for_timeout(800)
    assert nb.sent() == sent
    nb.run(0, 1)
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.link === 'ready'")
    shown(nb)
    nb.check()


def test_saved_state_is_small_and_goes_with_the_output(notebook: Opener) -> None:
    nb = open_capture(notebook, FOLDER, lab="saving_lab")
    shown(nb)
    nb.save()
    size = nb.file.stat().st_size
    for _ in range(3):
        nb.run(1)
    shown(nb)
    nb.save()
    assert nb.file.stat().st_size < 1.3 * size
    nb.command("notebook:clear-all-cell-outputs")
    nb.page.wait_for_timeout(2500)
    nb.save()
    assert "demo_squares" not in nb.file.read_text()
    nb.check()


@pytest.mark.skipif(not FOLDERS, reason=f"no recorded captures in {RECORDED}")
def test_runs_of_two_captures_compared(notebook: Opener, shots: Path) -> None:
    pair = [f for f in FOLDERS if f.parent.name == "gfx1100"][:2]
    nb = open_capture(notebook, *pair)
    view = nb.view()
    view.wait_for()
    nb.page.wait_for_timeout(800)
    nb.keys("k")
    view.locator(".tl-readout input").nth(1).click()
    view.locator(".tl-readout-table th", has_text="change").wait_for()
    nb.page.wait_for_timeout(300)
    view.screenshot(path=str(shots / "counters_compared.png"))
    assert view.locator(".tl-derived").count() == 4
    nb.check()

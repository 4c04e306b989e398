"""The timeline in JupyterLab: what is drawn, asked and sent; messages are counted, not seconds."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator

from tests.notebook.browser import BUSY, Notebook
from tests.notebook.conftest import Opener
from tests.profiler.profiles import OVERLAPPING

pytestmark = pytest.mark.browser
CONTRAST = Path(__file__).with_name("contrast.js").read_text()

LOAD = "%load_ext tinylab\nimport tinylab\nfrom tinylab import Tensor, TinyJit"
CELL = """%%tinygrad --profile --name rec
@TinyJit
def step(x):
    return (x @ x).relu().sum().realize()
for i in range(4):
    tinylab.profile_marker(f"step {i}")
    step(Tensor.rand(64, 64).realize()).item()"""
# Five million events: kernels of four devices, memory that goes up and down, markers.
HUGE = """import numpy as np
from tinylab.profiler.collected import Profile
from tinylab.profiler.table import EventTable, KIND, Lane
rng = np.random.default_rng(0)
n = 1_000_000
lanes = [Lane(f"GPU:{i} kernels", "device") for i in range(4)]
lanes += [Lane("GPU:0 memory", "memory", True, "B"), Lane("markers", "marks")]
names = [f"r_{a}_{b}" for a in range(40) for b in range(25)] + ["memory in use", "epoch"]
parts = []
for lane in range(4):
    length = rng.integers(200, 4000, n)
    start = np.cumsum(length + rng.integers(0, 900, n)) - length
    kinds = np.full(n, KIND["run"])
    parts.append((np.full(n, lane), kinds, rng.integers(0, 1000, n), start, start + length,
                  np.zeros(n)))
at = np.sort(rng.integers(0, 2_500_000_000, n - 10))
level = np.abs(np.cumsum(rng.integers(-1000, 1001, n - 10))) * 4096.0
parts.append((np.full(n - 10, 4), np.full(n - 10, KIND["memory"]), np.full(n - 10, 1000), at, at,
              level))
marks = np.arange(10) * 250_000_000
parts.append((np.full(10, 5), np.full(10, KIND["mark"]), np.full(10, 1001), marks, marks,
              np.zeros(10)))
columns = [np.concatenate(c) for c in zip(*parts)]
table = EventTable.build(lanes, names, dict(zip(
    ["lane", "kind", "name", "start", "end", "value"], columns), kernel=np.full(5 * n, -1)), 0)
huge = Profile("five million", table=table)
huge"""


def timeline(nb: Notebook, number: int = 0, timeout_s: float = 40) -> Locator:
    """The number-th timeline of the page, when it has loaded what it shows."""
    view = nb.page.locator(".tl-timeline").nth(number)
    view.wait_for(timeout=timeout_s * 1000)
    settled(nb, view)
    return view


def settled(nb: Notebook, view: Locator) -> None:
    """Wait until the view has loaded a window and asks for no other."""
    canvas = view.locator("canvas").element_handle()
    nb.page.wait_for_function(
        "c => c.dataset.loaded && c.closest('.tinylab').dataset.loading === 'false'", arg=canvas
    )
    nb.page.wait_for_timeout(80)


def span(view: Locator) -> tuple[float, float]:
    text = view.locator("canvas").get_attribute("data-view") or ":"
    start, end = text.split(":")
    return float(start), float(end)


def press(nb: Notebook, view: Locator, *keys: str) -> None:
    view.evaluate("element => element.focus({ preventScroll: true })")
    for key in keys:
        nb.page.keyboard.press(key)
    settled(nb, view)


def pixels(view: Locator) -> int:
    """How many different colours the canvas holds."""
    count: int = view.locator("canvas").evaluate(
        """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4)
        seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]); return seen.size; }"""
    )
    return count


def watch_messages(nb: Notebook) -> None:
    """Note how large each message to a widget is."""
    nb.page.evaluate(
        """() => { tests.sizes = [];
        tests.kernel().iopubMessage.connect((_, m) => {
          if (!m.header.msg_type.startsWith('comm_')) return;
          const own = m.buffers?.reduce((sum, b) => sum + b.byteLength, 0) ?? 0;
          tests.sizes.push(own + JSON.stringify(m.content).length); }); }"""
    )


def panel(view: Locator) -> str:
    return view.locator(".tl-time-side").inner_text()


def status(view: Locator) -> str:
    return view.locator(".tl-status-text").inner_text()


def test_a_profiled_cell_shows_its_timeline(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    nb.ready()
    nb.theme("light")
    view = timeline(nb)
    view.scroll_into_view_if_needed()
    view.screenshot(path=str(shots / "timeline_light.png"))
    assert pixels(view) > 12
    assert view.locator(".tl-time-table tbody tr").count() >= 3
    nb.theme("dark")
    settled(nb, view)
    view.screenshot(path=str(shots / "timeline_dark.png"))
    assert nb.page.locator(".tinylab-static:visible").count() == 0
    nb.check()


def test_from_a_kernel_to_its_opts_and_rewrites(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    debugger = nb.ready()
    view = timeline(nb)
    kernel = view.locator(".tl-time-table tbody tr").first.locator("td").first.inner_text()
    view.locator(".tl-time-table tbody tr").first.click()
    nb.page.wait_for_function("() => document.querySelector('.tl-timeline').dataset.event")
    settled(nb, view)
    assert kernel in panel(view)
    view.screenshot(path=str(shots / "timeline_event.png"))
    view.get_by_role("button", name="source and opts editor").click()
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.tab === 'kernels'")
    here = debugger.locator(".tl-kernel.tl-here")
    here.wait_for()
    assert kernel in here.inner_text()
    number = int(here.get_attribute("data-kernel") or -1)
    press(nb, view, "w")
    nb.page.wait_for_function("() => document.querySelector('.tinylab').dataset.tab === 'rewrites'")
    nb.ready()
    found = nb.python(f"print(rec.passes[{nb.at()[0]}].kernel)")
    assert int(found) == number
    nb.check()


def test_counters_stand_beside_the_kernel_that_was_chosen(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL.replace("--profile", "--profile counters"))
    nb.theme("light")
    nb.run(0, 1, wait=False)
    view = timeline(nb, timeout_s=60)
    nb.wait_idle()
    view.locator(".tl-time-table tbody tr").first.click()
    figures = view.locator(".tl-event-counters")
    figures.wait_for()
    text = figures.inner_text()
    assert "flops" in text
    assert "counted" in text
    settled(nb, view)
    view.screenshot(path=str(shots / "timeline_counters.png"))
    nb.check()


def test_keys_search_and_figures_of_a_stretch(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    nb.ready()
    view = timeline(nb)
    whole = span(view)
    press(nb, view, "+", "+")
    near = span(view)
    assert near[1] - near[0] < 0.6 * (whole[1] - whole[0])
    press(nb, view, "ArrowRight")
    assert span(view)[0] > near[0]
    press(nb, view, "z")
    assert span(view) == whole
    press(nb, view, "]")
    assert view.get_attribute("data-event")
    press(nb, view, "Escape")
    press(nb, view, "/")
    nb.page.keyboard.type("compile")
    hits = view.locator(".tl-hit-row")
    hits.first.wait_for()
    assert hits.count() >= 2
    view.screenshot(path=str(shots / "timeline_search.png"))
    nb.page.keyboard.press("Enter")
    nb.page.wait_for_function("() => document.querySelector('.tl-timeline').dataset.event")
    settled(nb, view)
    assert "compile" in panel(view)
    # A stretch is dragged in the ruler.
    press(nb, view, "z")
    box = view.locator("canvas").bounding_box()
    assert box is not None
    y = box["y"] + 10
    nb.page.mouse.move(box["x"] + 200, y)
    nb.page.mouse.down()
    nb.page.mouse.move(box["x"] + 400, y, steps=4)
    nb.page.mouse.up()
    view.locator("[data-name=figures-lanes]").click()
    view.locator("table[aria-label='figures by lane'] tbody tr").nth(2).wait_for()
    settled(nb, view)
    view.screenshot(path=str(shots / "timeline_stretch.png"))
    text = panel(view)
    assert "schedule" in text
    assert "the busiest lane" in status(view)
    nb.page.wait_for_timeout(1200)  # where a view stands is told once it rests
    start, end = (float(x) for x in nb.python(
        "from tinylab_widgets.timeline import timeline_of\n"
        "print(*timeline_of(rec_profile).selection['stretch'])").split())  # fmt: skip
    assert whole[0] <= start < end <= whole[1]
    press(nb, view, "Escape")
    assert "of all" in panel(view)
    press(nb, view, "?")
    view.screenshot(path=str(shots / "timeline_help.png"))
    nb.check()


def test_selection_is_read_and_set_from_python(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    view = timeline(nb)
    nb.page.wait_for_timeout(1200)  # where a view stands at first is told once it rests
    nb.python(
        "from tinylab_widgets.timeline import timeline_of\n"
        "view = timeline_of(rec_profile)\n"
        "event = rec_profile.search(rec_profile.top(1)[0]['name'])[-1]['event']\n"
        "view.selection = {'event': event}"
    )
    nb.page.wait_for_function("() => document.querySelector('.tl-timeline').dataset.event")
    event = int(view.get_attribute("data-event") or -1)
    assert nb.python("print(event)") == str(event)
    nb.check()


def test_five_million_events(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, HUGE)
    watch_messages(nb)
    nb.theme("light")
    nb.run(0, 1, wait=False)
    view = timeline(nb, timeout_s=90)
    nb.wait_idle()
    view.screenshot(path=str(shots / "timeline_5m_light.png"))
    asked = nb.sent("window")
    press(nb, view, *["+"] * 12)
    assert nb.sent("window") - asked <= 13, "a window a zoom at the most"
    view.screenshot(path=str(shots / "timeline_5m_near.png"))
    press(nb, view, "z")
    # What was loaded is drawn while one moves: few questions, no long task.
    press(nb, view, "+", "+", "+")
    asked = nb.sent("window")
    nb.page.evaluate("() => tests.longTasks.splice(0)")
    painted = int(view.locator("canvas").get_attribute("data-painted") or 0)
    box = view.locator("canvas").bounding_box()
    assert box is not None
    nb.page.mouse.move(box["x"] + 500, box["y"] + 200)
    nb.page.mouse.down()
    for step in range(60):
        nb.page.mouse.move(box["x"] + 500 - 4 * step, box["y"] + 200)
        nb.page.evaluate("() => new Promise(requestAnimationFrame)")
    nb.page.mouse.up()
    settled(nb, view)
    drawn = int(view.locator("canvas").get_attribute("data-painted") or 0) - painted
    assert drawn >= 55, "each frame of the drag was painted"
    assert nb.sent("window") - asked <= 6
    tasks = [duration for _, duration in nb.page.evaluate("() => tests.longTasks")]
    assert max(tasks, default=0) < 1000, tasks  # each frame is short: busy cores stretch them
    # Figures of a stretch of them, and a search among them.
    press(nb, view, "m")
    nb.page.wait_for_function(
        "() => /busiest/.test(document.querySelector('.tl-status-text').textContent)"
    )
    press(nb, view, "/")
    nb.page.keyboard.type("r_13_7")
    view.locator(".tl-hit-row").first.wait_for()
    assert "of 4," in view.locator(".tl-search .tl-quiet-text").inner_text()
    sizes = nb.page.evaluate("() => tests.sizes")
    # The bundle itself is one message; all else stays far under a megabyte.
    assert max(sizes) < 1_000_000
    nb.theme("dark")
    press(nb, view, "Escape", "Escape")
    view.screenshot(path=str(shots / "timeline_5m_dark.png"))
    nb.check()


def test_a_large_trace_shows_how_far_it_is_and_can_be_cancelled(
    notebook: Opener, shots: Path
) -> None:
    made = (
        "from tests.profiler.profiles import many\n"
        "from tinylab.profiler import Profile, load_profile\n"
        "Profile('large', table=many(400_000, 40)).to_chrome('large.json')"
    )
    nb = notebook(LOAD, made, "load_profile('large.json')")
    nb.run(0, 1)
    nb.run(2, wait=False)
    bar = nb.page.locator("text=reading large.json").first
    bar.wait_for()
    view = timeline(nb, timeout_s=60)
    nb.wait_idle()
    assert "400,000 events" in view.inner_text()
    press(nb, view, "+", "+", "+", "+")
    heap = nb.page.evaluate("() => performance.memory.usedJSHeapSize / 1e6")
    assert heap < 300
    view.screenshot(path=str(shots / "timeline_large.png"))
    nb.run(2, wait=False)
    nb.page.wait_for_function("() => tests.status() === 'busy/connected'")
    bar.wait_for()
    nb.page.evaluate("() => tests.kernel().interrupt()")
    nb.wait_idle()
    ends = [output.get("ename") for output in nb.page.evaluate("() => tests.outputs(2)")]
    assert "KeyboardInterrupt" in ends
    nb.check()


def test_two_runs_side_by_side(notebook: Opener, shots: Path) -> None:
    cell = """from tinylab.profiler import compare
def run(n):
    with tinylab.profile(f"{n} wide") as p:
        for _ in range(3): (Tensor.rand(n, n).realize() @ Tensor.rand(n, n).realize()).sum().item()
    return p
compare(run(32), run(64))"""
    nb = notebook(LOAD, cell)
    nb.run(0, 1)
    nb.theme("light")
    view = timeline(nb)
    view.locator("[data-name=figures-compare]").click()
    view.locator("table[aria-label='kernels of two runs'] tbody tr").first.wait_for()
    settled(nb, view)
    view.screenshot(path=str(shots / "timeline_compared.png"))
    assert "After/before" in panel(view)
    nb.check()


def test_texts_have_contrast_in_both_themes(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    view = timeline(nb)
    for theme in ("light", "dark"):
        nb.theme(theme)
        assert view.get_attribute("data-theme") == theme
        for keys in (["]"], ["m", "f"], ["?"], ["Escape", "/"]):
            press(nb, view, *keys)
            nb.page.wait_for_timeout(200)
            weak = [each for each in view.evaluate(CONTRAST) if each["ratio"] < 4.5]
            assert not weak, f"{theme}: {weak[:8]}"
        nb.page.keyboard.press("Escape")
        press(nb, view, "Escape", "Escape")
        corner = view.locator("canvas").evaluate(
            "c => [...c.getContext('2d').getImageData(1, c.height - 4, 1, 1).data]"
        )
        assert (sum(corner[:3]) < 200) == (theme == "dark")
    nb.check()


def test_events_that_overlap_keep_their_times(notebook: Opener, shots: Path) -> None:
    cell = f"""from tinylab.profiler.files import parse_profile
import json
events = {OVERLAPPING!r}
traced = parse_profile(json.dumps(events).encode(), "given.json")
traced"""
    nb = notebook(LOAD, cell)
    nb.run(0, 1)
    view = timeline(nb)
    said = status(view) + panel(view)
    assert "1 end without a begin: at 70 µs" in said
    assert "1 begin without an end: 'open' at 200 µs" in said
    press(nb, view, "]")
    assert "outer" in panel(view)
    assert "100" in panel(view)
    press(nb, view, "j")
    assert "late" in panel(view) or "begin" in panel(view)
    view.screenshot(path=str(shots / "timeline_overlap.png"))
    nb.check()


def test_without_its_kernel_the_output_is_a_picture(notebook: Opener, shots: Path) -> None:
    nb = notebook(LOAD, CELL + "\n", "rec_profile")
    nb.run(0, 1, 2)
    timeline(nb, 1)
    nb.reopen()
    static = nb.page.locator(".tinylab-static").last
    static.wait_for()
    assert static.locator("img[alt='lanes of the profile']").count() == 1
    assert static.locator("table tr").count() >= 3
    static.scroll_into_view_if_needed()
    static.screenshot(path=str(shots / "timeline_static.png"))
    assert not nb.foreign


def test_a_restarted_kernel_leaves_the_picture_and_says_so(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL)
    nb.run(0, 1)
    view = timeline(nb)
    colours = pixels(view)
    nb.restart_kernel()
    sent = nb.sent()
    view.evaluate("element => element.focus({ preventScroll: true })")
    for key in ("+", "+", "ArrowRight", "]"):
        nb.page.keyboard.press(key)
    nb.page.wait_for_function(
        "() => document.querySelector('.tl-timeline').dataset.link === 'gone'", timeout=20_000
    )
    assert "has gone" in status(view)
    # What lies where the keys went depends on how long the cell's events took: at the first view
    # again there is the same as before.
    nb.page.keyboard.press("z")
    nb.page.wait_for_timeout(600)
    assert pixels(view) >= colours - 2
    nb.page.wait_for_timeout(1500)
    assert nb.sent() - sent <= 2
    assert not nb.errors


def test_scrolled_away_and_back_it_has_its_picture(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, *[f"print({i})\n\n\n\n" for i in range(60)])
    nb.run(0, 1)
    view = timeline(nb)
    press(nb, view, "+", "+", "]", "m")
    before = span(view), view.get_attribute("data-event"), status(view)
    nb.page.evaluate("() => tests.panel().content.scrollToItem(61)")
    nb.page.wait_for_timeout(800)
    nb.page.set_viewport_size({"width": 1100, "height": 950})
    nb.page.wait_for_timeout(500)
    nb.page.evaluate("() => tests.panel().content.scrollToItem(1)")
    view = timeline(nb)
    assert (span(view), view.get_attribute("data-event"), status(view)) == before
    assert pixels(view) > 10
    widths = view.locator("canvas").evaluate("c => [c.width, c.getBoundingClientRect().width]")
    assert abs(widths[0] - widths[1]) < 2
    nb.check()


def test_one_profile_in_several_views(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, "rec_profile", "rec_profile")
    nb.run(0, 1, 2, 3)
    views = [timeline(nb, i) for i in range(3)]
    press(nb, views[1], "]")
    events = {view.get_attribute("data-event") for view in views}
    assert len(events) == 1
    press(nb, views[2], "+")
    assert span(views[2]) != span(views[0]), "zoom is each view's own"
    nb.page.evaluate("() => tests.panel().content.widgets[2].model.clearExecution()")
    nb.page.evaluate("() => tests.panel().content.widgets[2].model.outputs.clear()")
    press(nb, views[0], "]")
    nb.check()


def test_views_that_come_at_once_each_get_their_picture(notebook: Opener) -> None:
    """Each asks for its window before any is answered: none takes the place of another's."""
    many = "from IPython.display import display\nfor _ in range(6): display(rec_profile)"
    nb = notebook(LOAD, CELL, many, lab="one_shell_lab")
    nb.run(0, 1, 2)
    for number in range(7):
        assert pixels(timeline(nb, number)) > 12
    nb.check()


def test_keys_on_a_busy_kernel_are_merged(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, BUSY, lab="one_shell_lab")
    nb.run(0, 1)
    nb.ready()
    view = timeline(nb)
    nb.page.wait_for_timeout(500)
    sent = nb.sent()
    nb.run(2, wait=False)
    nb.page.wait_for_function("() => tests.status() === 'busy/connected'")
    view.evaluate("element => element.focus({ preventScroll: true })")
    for key in ["+"] * 14 + ["ArrowRight"] * 10 + ["-"] * 4:
        nb.page.keyboard.press(key)
        nb.page.wait_for_timeout(60)
    assert "busy" in status(view)
    assert nb.sent() - sent <= 3
    nb.go_on()
    settled(nb, view)
    assert nb.sent() - sent <= 8
    nb.check()


def test_saved_state_does_not_grow_with_runs(notebook: Opener) -> None:
    nb = notebook(LOAD, CELL, lab="saving_lab")
    nb.run(0, 1)
    timeline(nb)
    nb.save()
    size = nb.file.stat().st_size
    for _ in range(4):
        nb.run(1)
    timeline(nb)
    nb.save()
    assert nb.file.stat().st_size <= 1.3 * size
    nb.command("notebook:clear-all-cell-outputs")
    nb.page.wait_for_timeout(2500)
    saved = nb.save()["metadata"].get("widgets", {})
    states = [
        m["state"]
        for each in saved.values()
        for m in each.get("state", {}).values()
        if m["state"].get("view") == "timeline"
    ]
    assert not any(state.get("overview") for state in states)
    nb.check()

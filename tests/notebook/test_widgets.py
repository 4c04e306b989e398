"""The widgets' Python side without a browser: messages, what is sent, and what is closed."""

import math
import threading
from pathlib import Path
from typing import Any

import pytest
from tinylab_widgets import capture_messages, messages, protocol, timeline_messages
from tinylab_widgets.assets import Assets, static_text
from tinylab_widgets.debugger import Debugger, debugger_of
from tinylab_widgets.displays import Displays
from tinylab_widgets.protocol import Answerer, finite, packed, sentence
from tinylab_widgets.timeline import timeline_of

from tests.profiler.profiles import table
from tinylab import Tensor, profile, record
from tinylab.lab.desk import desk_of
from tinylab.lab.profiled import count_kernels
from tinylab.profiler import compare, still
from tinylab.profiler.collected import Profile
from tinylab.profiler.table import EventTable, Lane
from tinylab.profiler.timeline_desk import COLOURS
from tinylab.trace.record import Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rec() -> Record:
    with record() as made:
        (Tensor.ones(8, 8).contiguous() @ Tensor.ones(8, 8).contiguous()).sum().realize()
    return made


def answers(rec: Record, *asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What the front end hears for some messages."""
    heard: list[dict[str, Any]] = []
    done = threading.Event()

    def send(message: dict[str, Any]) -> None:
        if "heard" not in message:
            heard.append(message)
            done.set()

    answerer = Answerer(desk_of(rec), send)
    for number, message in enumerate(asked):
        done.clear()
        answerer.hear({"id": number, **message})
        done.wait(60)
    return heard


def test_the_front_ends_types_are_ours() -> None:
    types = (ROOT / "js/src/protocol/types.ts").read_text()
    renew = "python -m tinylab_widgets.messages > js/src/protocol/types.ts"
    assert types == messages.typescript(), renew
    types = (ROOT / "js/src/protocol/capture_types.ts").read_text()
    renew = "python -m tinylab_widgets.capture_messages > js/src/protocol/capture_types.ts"
    assert types == capture_messages.typescript(), renew


@pytest.mark.parametrize(
    ("message", "ask"),
    [
        (messages.Step, {"ask": "step", "args": {"pass": 0, "k": 0, "from": None}}),
        (messages.GraphText, {"ask": "text", "args": {"pass": 0, "k": 0}}),
        (messages.SearchResult, {"ask": "search", "args": {"query": "add", "pass": None}}),
        (messages.LineMarks, {"ask": "lines", "args": {"lines": [1]}}),
        (messages.KernelDetail, {"ask": "kernel", "args": {"kernel": 0}}),
        (messages.Actions, {"ask": "actions", "args": {"kernel": 0, "opts": []}}),
    ],
)
def test_answers_have_the_form_that_is_declared(
    rec: Record, message: Any, ask: dict[str, Any]
) -> None:
    (reply,) = answers(rec, ask)
    wanted = {name.rstrip("_") for name in message.__required_keys__}
    assert wanted <= set(reply["ok"])


def test_the_overview_has_the_form_that_is_declared(rec: Record) -> None:
    page = desk_of(rec).overview()
    assert set(page) >= messages.Overview.__required_keys__
    assert set(page["kernels"][0]) >= messages.KernelInfo.__required_keys__
    assert set(page["stages"][0]["passes"][0]) >= messages.PassInfo.__required_keys__
    first = desk_of(rec).first()
    assert first is not None
    assert set(first["nodes"][0]) >= messages.Node.__required_keys__


def test_what_is_wrong_is_answered_not_raised(rec: Record) -> None:
    replies = answers(
        rec, {"ask": "stepp", "args": {}}, {"ask": "step", "args": {"pass": 9999, "k": 0}}
    )
    assert "step" in replies[0]["error"]
    assert "9999" in replies[1]["error"]


def test_a_run_is_answered_from_its_own_thread(rec: Record) -> None:
    kernel = desk_of(rec).overview()["kernels"][-1]["id"]
    heard = answers(rec, {"ask": "run", "args": {"kernel": kernel, "opts": []}})
    for _ in range(600):
        if "ok" in heard[-1] or "error" in heard[-1]:
            break
        threading.Event().wait(0.1)
    row = heard[-1]["ok"]["row"]
    assert messages.HistoryRow.__required_keys__ <= set(row)
    assert row["status"] == "ok"


def test_numbers_that_json_lacks_become_none() -> None:
    assert finite({"a": [math.nan, 1.0, math.inf], 2: (3,)}) == {"a": [None, 1.0, None], "2": [3]}


def test_packed_overviews_are_small(rec: Record) -> None:
    page = desk_of(rec).overview()
    small = packed(page)
    rows = [row for stage in small["stages"] for row in stage["passes"]]
    passes = [info for stage in page["stages"] for info in stage["passes"]]
    assert [row[0] for row in rows] == [info["id"] for info in passes]
    names = [small["kinds"][row[1]][0] for row in rows]
    assert names == [info["name"] for info in passes]
    assert len(str(small["stages"])) < len(str(page["stages"])) / 3


def test_of_a_huge_record_only_what_did_something_is_sent() -> None:
    info = {
        "id": 0, "name": "a", "matches": 0, "elapsed_us": 1.0, "changed": False,
        "direction": "", "nodes": 1, "place": None, "failed": False,
    }  # fmt: skip
    passes = [{**info, "id": i, "matches": int(i % 100 == 0)} for i in range(20_000)]
    stage = {"id": 0, "name": "", "kernel": None, "elapsed_us": 0, "passes": passes}
    assert len(packed({"stages": [stage]})["stages"][0]["passes"]) == 200


def test_errors_are_sentences() -> None:
    assert sentence(ValueError("no")) == "ValueError: no"


def test_all_displays_of_a_record_are_one_model(rec: Record) -> None:
    assert debugger_of(rec) is debugger_of(rec)
    bundle, _ = debugger_of(rec)._repr_mimebundle_()
    assert "text/html" in bundle
    assert "image/svg+xml;base64" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_a_front_end_cannot_overwrite_the_record(rec: Record) -> None:
    shown = debugger_of(rec)
    before = shown.overview
    shown.set_state({"overview": None, "selection": {"pass": 1}})
    assert shown.overview is before
    assert shown.selection == {"pass": 1}
    shown._hear(shown, {"ask": "release"}, [])
    assert shown.overview is None
    shown._hear(shown, {"ask": "refill"}, [])
    assert shown.overview == before


def test_the_loader_is_small_and_the_bundle_is_shared(rec: Record) -> None:
    assert len(static_text("loader.js")) < 1500
    shared = Assets.shared("debugger.js")
    assert shared is Assets.shared("debugger.js")
    assert shared is not Assets.shared("profile.js")
    assert shared.code == static_text("debugger.js")
    assert len(str(debugger_of(rec)._esm)) < 1500


def test_a_debugger_whose_outputs_were_all_replaced_is_closed(rec: Record) -> None:
    displays, shown = Displays(), Debugger(rec)
    displays.begin("one")
    displays.note(shown)
    displays.begin("two")
    displays.note(shown)
    displays.begin("one")
    assert len(displays) == 1
    displays.begin("three")
    displays.begin("two")
    assert len(displays) == 0
    assert shown.comm is None


def test_columns_leave_in_pieces_under_the_limit() -> None:
    import numpy as np

    sent: list[tuple[dict[str, Any], list[memoryview]]] = []

    class Numbers:
        def answer(self, ask: str, args: dict[str, Any], push: Any) -> dict[str, Any]:
            columns = {"time": np.arange(args["size"]), "kind": np.arange(3, dtype=np.uint8)}
            return {"level": ask, "columns": columns}

    answerer = Answerer(Numbers(), lambda content, buffers=(): sent.append((content, buffers)))
    answerer.hear({"id": 5, "ask": "window", "args": {"size": 300_000}})
    assert [content.get("piece") for content, _ in sent] == [1, 1, None]
    assert all(len(part) <= 900_000 for _, buffers in sent for part in buffers)
    whole = b"".join(bytes(part) for _, buffers in sent for part in buffers)
    time, kind = sent[-1][0]["ok"]["columns"]
    assert (time["type"], kind["type"]) == ("float64", "uint8")
    assert np.frombuffer(whole, "<f8", 300_000).tolist() == list(range(300_000))
    assert whole[kind["offset"] : kind["offset"] + 3] == b"\0\1\2"
    assert {content["id"] for content, _ in sent} == {5}


@pytest.mark.parametrize("slow", [(), ("select",)], ids=["in place", "from a thread"])
def test_a_late_answer_is_announced(monkeypatch: pytest.MonkeyPatch, slow: tuple[str, ...]) -> None:
    """Or the front end would take a kernel that looks idle for one that knows nothing of it."""
    monkeypatch.setattr(protocol, "_LATE_S", 0.0)
    sent: list[dict[str, Any]] = []
    announced, answered = threading.Event(), threading.Event()

    class Slow:
        def answer(self, ask: str, args: dict[str, Any], push: Any) -> dict[str, Any]:
            assert announced.wait(60)
            return {"sum": 1}

    def send(message: dict[str, Any]) -> None:
        sent.append(message)
        (announced if "heard" in message else answered).set()

    Answerer(Slow(), send, slow).hear({"id": 3, "ask": "select"})
    assert answered.wait(60)
    assert sent == [{"id": 3, "heard": True}, {"id": 3, "ok": {"sum": 1}}]


# *** the timeline


def test_the_timelines_types_are_ours() -> None:
    types = (ROOT / "js/src/protocol/timeline_types.ts").read_text()
    renew = "python -m tinylab_widgets.timeline_messages > js/src/protocol/timeline_types.ts"
    assert types == timeline_messages.typescript(), renew


@pytest.fixture(scope="module")
def profiled() -> Profile:
    with profile("profiled", record=True) as made:
        (Tensor.ones(9, 8).contiguous() @ Tensor.ones(8, 8).contiguous()).sum().realize()
    return made


@pytest.mark.parametrize(
    ("message", "ask", "args"),
    [
        (timeline_messages.EventInfo, "event", {"event": 0}),
        (timeline_messages.StretchSums, "select", {"start": 0, "end": 10**9}),
        (timeline_messages.TimelineHits, "search", {"query": "realize"}),
        (timeline_messages.TopRows, "top", {}),
    ],
)
def test_timelines_answer_in_the_form_that_is_declared(
    profiled: Profile, message: Any, ask: str, args: dict[str, Any]
) -> None:
    answer = timeline_of(profiled).desk.answer(ask, args)
    assert set(answer) == set(message.__annotations__)


def test_a_timelines_overview_has_the_form_that_is_declared(profiled: Profile) -> None:
    page = timeline_of(profiled).overview
    assert set(page) == set(timeline_messages.TimelineOverview.__annotations__)
    assert set(page["lanes"][0]) == set(timeline_messages.LaneInfo.__annotations__)
    assert set(page["top"][0]) == timeline_messages.TopRow.__required_keys__
    both = timeline_of(compare(profiled, profiled)).desk.answer("compare")
    assert set(both["rows"][0]) == set(timeline_messages.ComparedRow.__annotations__)


def test_the_colours_of_bars_are_in_the_style_sheet() -> None:
    css = (ROOT / "js/src/views/timeline/timeline.css").read_text()
    light, dark = css.split('[data-theme="dark"]')
    for name in COLOURS:
        assert f"--tl-time-{name}:" in light
        assert f"--tl-time-{name}:" in dark.split("}")[0]


def test_a_timeline_takes_the_debugger_to_a_kernel(profiled: Profile) -> None:
    view = timeline_of(profiled)
    assert timeline_of(profiled) is view
    record = profiled.record
    assert record is not None
    kernel = next(k.number for k in profiled.kernels.values() if k.number is not None)
    answer = view.desk.answer("open", {"kernel": kernel, "tab": "rewrites"})
    selection = debugger_of(record).selection
    assert selection["kernel"] == kernel
    assert record.passes[selection["pass"]].kernel == kernel
    assert selection["reveal"] == {"tab": "rewrites", "number": answer["reveal"]}
    with pytest.raises(ValueError, match="there is no kernel 999"):
        view.desk.answer("open", {"kernel": 999, "tab": "kernels"})


def test_a_timelines_bundle_has_a_picture_and_the_top_kernels(profiled: Profile) -> None:
    bundle, _ = timeline_of(profiled)._repr_mimebundle_()
    assert "image/svg+xml;base64" in bundle["text/html"]
    assert next(iter(profiled.kernels)) in bundle["text/plain"]
    hostile = Profile("<b>x</b>", table=table([(0, "<script>alert(1)</script>", 0, 5)]))
    page = still.html(hostile)
    assert "<script>" not in page
    assert "<b>x" not in page
    assert "<script>" not in still.svg(hostile)


def test_a_profile_of_nothing_is_a_line(profiled: Profile) -> None:
    nothing = Profile("nothing", table=table([]))
    assert still.is_empty(nothing)
    assert "0 events" in still.html(nothing)
    assert "<img" not in still.html(nothing)
    lines = EventTable.build(
        [Lane("cell lines", "cell")],
        ["line 1: print(1)"],
        {c: [0] for c in ("lane", "kind", "name", "start", "value", "kernel")} | {"end": [5]},
        0,
    )
    printed = still.text(Profile("cell", table=lines))
    assert "nothing was computed" in printed.splitlines()[0]
    assert still.is_empty(Profile("cell", table=lines))
    assert not still.is_empty(profiled)
    assert not still.is_empty(compare(nothing, profiled))


def test_what_a_front_end_says_of_an_overview_is_not_taken_over(profiled: Profile) -> None:
    view = timeline_of(profiled)
    before = view.overview
    view.set_state({"overview": None})
    assert view.overview is before
    view._hear(view, {"ask": "release"}, [])
    assert view.overview is None
    view._hear(view, {"ask": "refill"}, [])
    assert view.overview == before


def test_counters_of_a_profiled_cell(profiled: Profile) -> None:
    record = profiled.record
    assert record is not None
    found = count_kernels(profiled, most=2)
    assert found
    for number, answer in found.items():
        row = next(k for k in profiled.kernels.values() if k.number == number)
        event = profiled.search(row.name)[-1]["event"]
        shown = timeline_of(profiled).desk.answer("event", {"event": event})["counters"]
        assert shown["figures"] or shown["message"]
        assert {f["kind"] for f in answer.get("figures", [])} <= {
            "counted", "measured", "estimated", "given",
        }  # fmt: skip

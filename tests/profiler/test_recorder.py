"""`tinylab.profile()`: what is heard, what it costs when nobody listens, what is asked of it."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import tinylab
from tinylab import Context, GlobalCounters, Tensor, TinyJit
from tinylab.device import Buffer
from tinylab.dtype import dtypes
from tinylab.errors import CaptureError, TinylabError
from tinylab.profiler import compare, load_profile, read_capture, recorder, table as table_module
from tinylab.profiler.collected import Profile
from tinylab.trace import events
from tinylab.uop import rewrite


def kinds(p: tinylab.profiler.Profile) -> dict[str, int]:
    names, counts = np.unique(p.events["kind"].astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_everything_that_happens_is_in_one_stream():
    with tinylab.profile() as p:
        tinylab.profile_marker("begin")
        a = Tensor(np.ones((16, 16), np.float32))
        (a @ a).sum().item()
    found = kinds(p)
    wanted = {"mark", "realize", "schedule", "pass", "kernel", "compile", "run", "copy", "memory"}
    assert wanted <= set(found)
    assert found["run"] == sum(k.runs for k in p.kernels.values())
    start, length = p.events["start_ns"], p.events["duration_ns"]
    assert (start >= 0).all()
    assert (length >= 0).all()
    assert int((start + length).max()) <= p._recorder.end_ns - p._recorder.start_ns


def test_runs_lie_inside_their_realize_on_one_clock():
    with tinylab.profile() as p:
        (Tensor.ones(8, 8).contiguous() + 1).realize()
    e = p.events
    runs, around = e["kind"] == "run", e["kind"] == "realize"
    first, last = e["start_ns"][around].min(), (e["start_ns"] + e["duration_ns"])[around].max()
    assert (e["start_ns"][runs] >= first).all()
    assert ((e["start_ns"] + e["duration_ns"])[runs] <= last).all()


def test_nobody_listening_no_event_is_made(monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []
    monkeypatch.setattr(events, "Event", lambda kind, *a: made.append(kind))
    monkeypatch.setattr(rewrite, "recorded", lambda name, *a: made.append(name))
    x = Tensor(np.ones((8, 8), np.float32))
    (x @ x).sum().item()
    step = TinyJit(lambda t: (t + 1).realize())
    for _ in range(4):
        step(Tensor.ones(8).contiguous().realize())
    del x
    assert made == []
    assert rewrite.listeners == []


def test_a_profile_hears_no_matches():
    """Who only wants to know when passes begin and end costs nothing per match."""
    logs: list[object] = []
    real = rewrite.RewriteContext

    class Spy(real):  # type: ignore[misc, valid-type]
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            logs.append(self.log)

    with pytest.MonkeyPatch.context() as patch, tinylab.profile() as p:
        patch.setattr(rewrite, "RewriteContext", Spy)
        (Tensor.ones(5, 7).contiguous() * 3).sum().realize()
    assert kinds(p)["pass"] > 0
    assert logs
    assert all(log is None for log in logs)


def test_a_record_beside_a_profile_still_has_its_matches():
    with tinylab.profile() as p, tinylab.record() as rec:
        (Tensor.ones(5, 9).contiguous() * 3).sum().realize()
    assert sum(q.count for q in rec.passes) > 0
    assert kinds(p)["pass"] >= len(rec.passes)


def test_kernels_of_a_captured_function_are_seen_one_by_one():
    @TinyJit
    def step(x):
        y = (x + 1).contiguous()
        return (y * y.sum()).realize()

    inputs = [Tensor.ones(8).contiguous().realize() for _ in range(4)]
    for x in inputs[:3]:
        step(x)
    with tinylab.profile() as p:
        step(inputs[3])
    count = len(step.captured.steps)
    assert count > 1
    assert kinds(p)["run"] == count
    (jit,) = [e for e in p.search("jit") if e["lane"] == "schedule"]
    assert jit["name"] == f"jit, {count} steps"
    for kernel in p.kernels.values():
        assert kernel.runs == 1


def test_memory_in_use_is_a_level_of_each_device():
    before = GlobalCounters.mem_used_per_device["CPU"]
    with tinylab.profile() as p:
        b = Buffer("CPU", 1000, dtypes.float32).allocate()
        b.deallocate()
    e = p.events
    own = e["lane"] == "CPU memory"
    assert e["value"][own].tolist()[-2:] == [before + 4000, before]
    assert e["duration_ns"][own].max() == 0


def test_copies_between_devices_are_counted_once():
    x = Tensor(np.ones(64, np.float32), device="PYTHON").realize()
    with tinylab.profile() as p:
        y = x.to("CPU").realize()
    assert kinds(p).get("copy") == 1
    assert p.events["value"][p.events["kind"] == "copy"].tolist() == [256.0]
    with tinylab.profile() as p:
        y.numpy()
    assert kinds(p)["copy"] == 1


def test_memory_that_is_freed_while_an_event_is_noted_breaks_no_column():
    """A buffer may go between any two steps of a program, also those of the recorder."""
    heard = recorder.Recorder()

    class Freeing(dict[str, int]):
        """Names whose look-up frees a buffer, as the garbage collector may."""

        busy = False

        def get(self, *args):
            if not self.busy:
                self.busy = True
                events.point("free", "CPU", bytes=8, used=0)
                self.busy = False
            return dict.get(self, *args)

    heard.names = Freeing()
    heard.start()
    for i in range(50):
        events.point("mark", f"m{i}")
    heard.stop()
    assert len({len(column) for column in heard.columns.values()}) == 1
    found = heard.snapshot()
    marks = np.flatnonzero(found["kind"] == table_module.KIND["mark"])
    assert [found.name(row) for row in marks] == [f"m{i}" for i in range(50)]
    assert int((found["kind"] == table_module.KIND["memory"]).sum()) >= 50


def test_threads_have_lanes_of_their_own():
    def work() -> None:
        (Tensor.ones(4, 5).contiguous() + 2).realize()

    with tinylab.profile() as p:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    lanes = set(p.events["lane"].tolist())
    assert {"schedule", "schedule, thread 2"} <= lanes


def test_the_users_line_stands_over_what_it_asked_for():
    with tinylab.profile() as p:
        (Tensor.ones(3, 5).contiguous() + 2).realize()  # this line
    lines = p.events["name"][p.events["lane"] == "user's lines"].tolist()
    assert len(lines) == 1
    assert lines[0].endswith("# this line")


def test_an_exception_passes_through_and_what_was_heard_stays():
    kept = []

    def fail() -> None:
        with tinylab.profile() as p:
            kept.append(p)
            Tensor.ones(4).contiguous().realize()
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    (p,) = kept
    assert kinds(p)["run"] == 1
    assert not events.listening()
    assert rewrite.listeners == []


def test_a_profile_can_be_asked_while_it_runs():
    with tinylab.profile() as p:
        assert p.running
        Tensor.ones(4).contiguous().realize()
        assert sum(k.runs for k in p.kernels.values()) == 1
        Tensor.ones(4).contiguous().realize()
        assert "still running" in repr(p)
    assert not p.running
    assert sum(k.runs for k in p.kernels.values()) == 2


def test_events_beyond_a_limit_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorder, "MOST_EVENTS", 10)
    with tinylab.profile() as p:
        for i in range(25):
            tinylab.profile_marker(str(i))
    assert len(p.table) == 10
    assert any("were not kept" in notice for notice in p.table.notices)


def test_kernels_by_name_with_their_work():
    with tinylab.profile() as p:
        for _ in range(3):
            (Tensor.ones(32, 32).contiguous() @ Tensor.ones(32, 32).contiguous()).realize()
    kernel = next(k for k in p.kernels.values() if k.facts.ops > 30_000)
    assert kernel.runs == 3
    assert kernel.total_ns == int(kernel.times_ns.sum())
    assert kernel.gops is not None
    assert kernel.gops == pytest.approx(kernel.facts.ops / kernel.median_ns)
    assert p.kernels[kernel.name] is kernel
    assert set(p.kernels.columns["name"].tolist()) == {k.name for k in p.kernels.values()}
    with pytest.raises(KeyError, match=f"did you mean '{kernel.name}'"):
        p.kernels[kernel.name + "x"]
    assert "no thread trace" in kernel.sqtt


def test_counters_of_a_kernel_are_counted_on_its_own_data():
    with tinylab.profile() as p:
        a, b = Tensor.rand(16, 16).realize(), Tensor.rand(16, 16).realize()
        c = (a @ b).realize()
    kernel = next(k for name, k in p.kernels.items() if name.startswith("r_"))
    counters = kernel.counters
    assert counters["flops"].value == 2 * 16**3
    assert counters["flops"].kind == "counted"
    assert counters["bytes stored"].value == c.nbytes()
    gone = tinylab.profiler.Profile("file", table=p.table, facts=[recorder.KernelFacts("k", "CPU")])
    with pytest.raises(CaptureError, match="counters need it"):
        _ = next(iter(gone.kernels.values())).counters


def test_a_recorded_profile_leads_to_the_kernels_of_its_record():
    with tinylab.profile(record=True) as p:
        (Tensor.ones(6, 7).contiguous() * 2).sum().realize()
    assert p.record is not None
    for kernel in p.kernels.values():
        assert kernel.number is not None
        assert p.record.kernels[kernel.number].name == kernel.name
    assert p.record.cell is not None
    assert p.record.cell.filename == __file__


def test_moments_are_times_or_markers():
    with tinylab.profile() as p:
        tinylab.profile_marker("warm")
        Tensor.ones(4).contiguous().realize()
        tinylab.profile_marker("cold")
        Tensor.ones(5).contiguous().realize()
        tinylab.profile_marker("end")
    first, second = p.stretch("warm", "cold"), p.stretch("cold", "end")
    assert first is not None
    assert second is not None
    assert first[1] == second[0]
    assert sum(row["runs"] for row in p.top(9, "warm", "cold")) == 1
    assert p.select("cold", "end").all.count < p.select().all.count
    with pytest.raises(CaptureError, match=r"(?s)no marker 'cool'.*did you mean 'cold'"):
        p.stretch("cool", "end")
    with pytest.raises(CaptureError, match="no marker 'warm' after 'end'"):
        p.stretch("end", "warm")
    with pytest.raises(CaptureError, match="is not after"):
        p.stretch(5, 5)


def test_null_devices_are_profiled_too():
    with Context(DEV="NULL"), tinylab.profile() as p:
        (Tensor.empty(8, 8) + 1).realize()
    assert "NULL kernels, not run" in p.events["lane"].tolist()
    assert all(k.gops is None and k.gbs is None for k in p.kernels.values())


def test_tables_print_their_first_rows():
    with tinylab.profile() as p:
        for _ in range(12):
            Tensor.ones(4).contiguous().realize()
    lines = repr(p.events).splitlines()
    assert lines[0].split() == list(p.events)
    assert len(lines) == 12
    assert lines[-1] == f"{p.events.rows} rows"
    assert next(iter(p.kernels)) in repr(p.kernels)


def test_threads_that_ask_at_the_same_time_see_one_table(monkeypatch: pytest.MonkeyPatch):
    with tinylab.profile() as p:
        for i in range(5):
            tinylab.profile_marker(f"m{i}")
    snapshot, both = recorder.Recorder.snapshot, threading.Barrier(2)

    def slow(self: recorder.Recorder) -> table_module.EventTable:
        made = snapshot(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # the other would be here too, if nothing held it up
        return made

    monkeypatch.setattr(recorder.Recorder, "snapshot", slow)
    found: list[table_module.EventTable] = []
    asking = [threading.Thread(target=lambda: found.append(p.table)) for _ in range(2)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert found[0] is found[1] is p.table
    assert len(p.table.markers()) == 5


@pytest.fixture
def three_runs() -> Profile:
    with tinylab.profile() as p:
        for _ in range(3):
            Tensor.ones(4).contiguous().sum().realize()
    return p


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch, three_runs: Profile):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for table in (three_runs.events, three_runs.kernels):
        with pytest.raises(CaptureError, match="pip install pandas"):
            table.to_pandas()


def test_tables_as_data_frames(three_runs: Profile):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    p = three_runs
    frame = p.events.to_pandas()
    assert list(frame.columns) == list(p.events)
    assert len(frame) == p.events.rows
    for name, column in p.events.items():
        assert frame[name].tolist() == column.tolist()
    runs = frame[frame["kind"] == "run"].groupby("name")["duration_ns"].agg(["count", "sum"])
    for kernel in p.kernels.values():
        assert tuple(runs.loc[kernel.name]) == (kernel.runs, kernel.total_ns)
    kernels = p.kernels.to_pandas().set_index("name")
    for name, kernel in p.kernels.items():
        row = {key: None if pandas.isna(v) else v for key, v in kernels.loc[name].items()}
        assert {"name": name, **row} == {**kernel.row(), "name": name}
    empty = Profile("nothing", None, table_module.EventTable.build([], [], _NO_ROWS, 0))
    dtypes_of = p.kernels.to_pandas().dtypes[["runs", "mean_ns"]]
    assert (empty.kernels.to_pandas().dtypes[["runs", "mean_ns"]] == dtypes_of).all()


def test_tables_as_numpy_columns(three_runs: Profile):
    p = three_runs
    for table in (p.events, p.kernels.columns):
        assert {len(column) for column in table.values()} == {table.rows}
    assert p.events["start_ns"].dtype == np.int64
    assert p.kernels.columns["total_ns"].tolist() == [k.total_ns for k in p.kernels.values()]
    empty = Profile("nothing", None, table_module.EventTable.build([], [], _NO_ROWS, 0))
    for some, none in ((p.events, empty.events), (p.kernels.columns, empty.kernels.columns)):
        assert none.rows == 0
        assert {n: c.dtype for n, c in none.items()} == {n: c.dtype for n, c in some.items()}


_NO_ROWS: dict[str, list[int]] = {name: [] for name in table_module.COLUMNS}


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda p: p.top("3"), "top: count is an int, not '3'"),
        (lambda p: p.top(-1), "the top -1 kernels are none"),
        (lambda p: p.top(cout=3), "top takes no keyword 'cout'"),
        (lambda p: p.search(5), "search: words is a string, not 5"),
        (lambda p: p.event("x"), "event: row is an int, not 'x'"),
        (lambda p: p.compare(3), "compare: other is a Profile, not 3"),
        (lambda p: compare(p, None), "compare: after is a Profile, not None"),
        (lambda p: load_profile(3), "load_profile: path is a string or a Path, not 3"),
        (lambda p: read_capture(3), "read_capture: path is a string or a Path, not 3"),
    ],
)
def test_wrong_arguments_are_answered_with_a_sentence(
    three_runs: Profile, ask: Callable[[Profile], object], sentence: str
):
    with pytest.raises(TinylabError, match=re.escape(sentence)):
        ask(three_runs)


def test_one_lane_may_be_named_alone(three_runs: Profile):
    assert list(three_runs.select(lanes="CPU kernels").lanes) == ["CPU kernels"]


def test_a_column_that_is_not_there_is_a_sentence(three_runs: Profile):
    p = three_runs
    with pytest.raises(KeyError, match="did you mean 'start_ns'"):
        p.events["start"]


def test_kinds_are_numbered_alike_with_and_without_numpy():
    assert recorder._KINDS == table_module.KINDS
    assert list(recorder._CODES) == list(table_module.COLUMNS)


def test_a_profile_is_of_one_block_and_a_decorated_function_has_one_for_each_call():
    asked = tinylab.profile("twice")
    assert "not entered" in repr(asked)
    with asked as p:
        tinylab.profile_marker("here")
    with pytest.raises(CaptureError, match='"twice" was entered before'), asked:
        pass
    assert [name for _, name in p.table.markers()] == ["here"]

    calls = []

    @tinylab.profile()
    def work() -> None:
        calls.append(rewrite.listeners[-1])

    work()
    work()
    assert len({id(each) for each in calls}) == 2
    assert calls[0] not in rewrite.listeners


def test_twins_are_listed_by_the_names_that_find_them():
    facts = [recorder.KernelFacts("r_4", "CPU"), recorder.KernelFacts("r_4", "CPU")]
    columns = {
        "lane": [0, 0], "kind": [table_module.KIND["run"]] * 2, "name": [0, 0], "start": [0, 50],
        "end": [40, 60], "value": [0, 0], "kernel": [0, 1],
    }  # fmt: skip
    lanes = [table_module.Lane("CPU kernels", "device")]
    p = Profile("twins", None, table_module.EventTable.build(lanes, ["r_4"], columns, 0), facts)
    assert p.kernels.columns["name"].tolist() == list(p.kernels) == ["r_4", "r_4 #2"]
    assert "r_4 #2" in repr(p.kernels)
    assert p.kernels["r_4 #2"].total_ns == 10

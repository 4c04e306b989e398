import gc
import os
import signal
import threading

import numpy as np
import pytest

from tinylab.dtype import dtypes
from tinylab.errors import LabError, WorkerError
from tinylab.lab import bench, compare
from tinylab.lab.cells import run_cell
from tinylab.lab.desk import Desk
from tinylab.lab.work import Work
from tinylab.lab.worker import Outcome, Worker
from tinylab.profiler import inputs
from tinylab.trace.record import record

CELL = """\
from tinygrad import Tensor
a = Tensor.rand(32, 64).realize()
b = Tensor.rand(64, 32).realize()
c = (a @ b).relu()
c.realize()
"""


@pytest.fixture
def desk():
    run = run_cell(CELL, {}, device="CPU")
    assert run.error is None, run.error
    desk = Desk(run.record)
    desk.kept = run.record  # the tensors may go, the record stays
    return desk


@pytest.fixture
def matmul(desk):
    return next(k["id"] for k in desk.overview()["kernels"] if "matmul" in k["method"])


def opts(*rows):
    return [{"op": op, "axis": axis, "arg": arg} for op, axis, arg in rows]


def test_edited_opts_are_run_checked_and_timed(desk, matmul):
    heard = []
    args = {"kernel": matmul, "opts": opts(("UPCAST", 1, 8), ("UNROLL", 0, 4))}
    answer = desk.answer("run", args, heard.append)
    row = answer["row"]
    assert row["status"] == "ok", row["message"]
    assert (answer["own"]["id"], answer["own"]["ratio"]) == (0, 1.0)
    assert answer["own"]["median_us"] > 0
    assert row["opts"] == args["opts"]
    assert 0 < row["p10_us"] <= row["median_us"] <= row["p90_us"]
    assert row["runs"] > 1
    assert 0 < row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    assert row["message"] == ""
    assert row["gflops"] > 0
    assert row["max_error"] < 1e-3
    assert row["source"]
    assert row["assembly"]
    assert {e["event"] for e in heard} == {"progress"}
    assert heard[0] == {"event": "progress", "kernel": matmul, "message": "compiling"}
    unedited, tried = desk.answer("kernel", {"kernel": matmul})["history"]
    assert (unedited["id"], unedited["ratio"], tried["id"]) == (0, 1.0, 1)
    assert unedited["opts"] == desk.answer("kernel", {"kernel": matmul})["opts"]


def test_a_refused_opt_says_why_and_leaves_the_kernel(desk, matmul):
    before = desk.answer("kernel", {"kernel": matmul})
    row = desk.answer("run", {"kernel": matmul, "opts": opts(("UPCAST", 0, 7))})["row"]
    assert row["status"] == "refused"
    assert "UPCAST(0, 7)" in row["message"]
    assert "32" in row["message"]
    after = desk.answer("kernel", {"kernel": matmul})
    assert (after["source"], after["opts"]) == (before["source"], before["opts"])
    assert [r["status"] for r in after["history"]] == ["ok", "refused"]


@pytest.mark.parametrize(
    "edit",
    [
        [],
        [("UPCAST", 0, 4), ("UPCAST", 1, 4)],
        [("UNROLL", 0, 16)],
        [("THREAD", 0, 2)],
        [("PADTO", 0, 5), ("UPCAST", 0, 5)],
        [("UPCAST", 0, 2), ("UPCAST", 0, 2), ("UNROLL", 0, 2)],
    ],
)
def test_legal_opts_give_the_same_result(desk, matmul, edit):
    row = desk.answer("run", {"kernel": matmul, "opts": opts(*edit)})["row"]
    assert row["status"] == "ok", row["message"]


def test_a_crash_or_an_endless_loop_is_a_message(desk, matmul, monkeypatch):
    for status in ("crashed", "timeout"):
        answers = iter([Outcome("ok", outputs={0: b""}), Outcome(status, "it stored past its end")])
        monkeypatch.setattr(Worker, "run", lambda *args, answers=answers: next(answers))
        row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
        assert row["status"] == status
        assert row["message"].startswith("it stored past its end")
        assert ("`run` takes a longer limit" in row["message"]) == (status == "timeout")


def test_a_wrong_result_is_told_with_its_place(desk, matmul, monkeypatch):
    right = np.ones(32 * 32, np.float32)
    wrong = right.copy()
    wrong[7] = 3
    answers = iter([Outcome("ok", outputs={0: d.tobytes()}) for d in (right, wrong, right)])
    monkeypatch.setattr(Worker, "run", lambda *args: next(answers))
    row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
    assert row["status"] == "wrong"
    assert "1 of 1024 elements of buffer 0 differ: element 7 is 3.0, not 1.0" in row["message"]
    assert row["max_error"] == 2.0


def test_a_run_can_be_stopped(desk, matmul, monkeypatch):
    begun = threading.Event()
    original = Worker.run

    def slow(self, job, limit_s=5.0, budget_s=0.1, accept=None):
        begun.set()
        return original(self, job, limit_s, 30.0 if budget_s else 0, accept)

    monkeypatch.setattr(Worker, "run", slow)
    monkeypatch.setattr(bench, "LIMIT_S", 60.0)
    rows = []
    thread = threading.Thread(
        target=lambda: rows.append(desk.answer("run", {"kernel": matmul, "opts": []})["row"])
    )
    thread.start()
    begun.wait(20)
    while thread.is_alive():
        assert desk.answer("stop", {"kernel": matmul})["stopped"] in (True, False)
        thread.join(0.2)
    assert rows[0]["status"] in ("stopped", "ok")
    assert desk.answer("stop", {"kernel": matmul}) == {"stopped": False}


def test_a_viewer_that_compiles_is_not_recorded(desk, matmul):
    with record() as rec:
        desk.answer("run", {"kernel": matmul, "opts": []})
    assert rec.passes == []
    assert rec.kernels == []


def test_kernels_of_other_devices_are_compiled_and_not_run():
    source = "from tinygrad import Tensor\nTensor.empty(64).exp2().realize()"
    desk = Desk(run_cell(source, {}, device="NULL").record)
    row = desk.answer("run", {"kernel": 0, "opts": opts(("UPCAST", 0, 4))})["row"]
    assert row["status"] == "compiled"  # not ok: nothing was compared
    assert "NULL programs cannot be run apart" in row["message"]
    assert row["median_us"] is None
    assert row["source"]


def test_kernels_that_are_interpreted_run_apart_too():
    names = {}
    source = """from tinygrad import Tensor
a, b = Tensor.rand(4, 8).realize(), Tensor.rand(8, 4).realize()
c = (a @ b).realize();"""
    desk = Desk(run_cell(source, names, device="PYTHON").record)
    last = len(desk.record.kernels) - 1
    for edit in ([], [("LOCAL", 0, 2), ("GROUP", 0, 4)], [("UPCAST", 0, 4), ("UNROLL", 0, 4)]):
        row = desk.answer("run", {"kernel": last, "opts": opts(*edit)})["row"]
        assert (row["status"], row["message"]) in (("ok", ""), ("ok", bench.SAME_CODE))
        assert row["max_error"] < 1e-5
        assert row["median_us"] > 0
        assert row["runs"] >= 3
        assert row["ratio"] > 0


def test_a_run_whose_worker_was_killed_has_a_new_one(desk, matmul):
    for victim in ("worker", "nursery"):
        assert desk.answer("run", {"kernel": matmul, "opts": []})["row"]["status"] == "ok"
        child = Worker.shared()._child
        pid = child.pid if victim == "worker" else child.nursery.process.pid
        os.kill(pid, signal.SIGKILL)
        row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
        assert row["status"] == "ok", row["message"]


def test_where_no_worker_can_be_had_the_row_says_so(desk, matmul, monkeypatch):
    def run(*args):
        raise WorkerError("no worker process can be started: no memory", help="close something")

    monkeypatch.setattr(Worker, "run", run)
    row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
    assert row["status"] == "crashed"
    assert row["message"].startswith("no worker process can be started: no memory")
    assert [r["status"] for r in desk.answer("kernel", {"kernel": matmul})["history"]] == [
        "ok",
        "crashed",
    ]


def test_a_kernel_from_a_file_cannot_be_tuned(tmp_path):
    from tinylab.lab.report import save
    from tinylab.trace import store

    record_ = run_cell("from tinygrad import Tensor\nTensor.empty(64).exp2().realize()", {},
                       device="NULL").record  # fmt: skip
    save(record_, tmp_path / "r.tlab")
    desk = Desk(store.load(tmp_path / "r.tlab"))
    assert desk.answer("kernel", {"kernel": 0})["source"]
    with pytest.raises(LabError, match="was not lowered here") as caught:
        desk.answer("actions", {"kernel": 0, "opts": []})
    assert caught.value.help == "run the cell again to change its opts"
    row = desk.answer("run", {"kernel": 0, "opts": []})["row"]
    assert row["status"] == "refused"


def test_inputs_are_what_the_cell_left():
    names = {}
    cell = CELL.replace("Tensor.rand(32, 64)", "Tensor([[3.0] * 64] * 32)")
    kernel = run_cell(cell, names, device="CPU").record.kernels[-1]
    assert np.all(np.frombuffer(inputs.inputs_for(kernel)[1], np.float32) == 3.0)
    names.clear()  # the tensors go, and their memory with them
    gc.collect()
    random = inputs.inputs_for(kernel)
    assert not np.all(np.frombuffer(random[1], np.float32) == 3.0)
    assert random == inputs.inputs_for(kernel)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int32", "uint8",
                                  "int64", "bool"])  # fmt: skip
def test_random_inputs_are_finite_and_seeded(name):
    dtype = getattr(dtypes, name)
    data = inputs.random_bytes(dtype, 64 * dtype.itemsize, 3)
    assert len(data) == 64 * dtype.itemsize
    assert data == inputs.random_bytes(dtype, 64 * dtype.itemsize, 3)
    assert data != inputs.random_bytes(dtype, 64 * dtype.itemsize, 4)
    assert np.all(np.isfinite(compare.as_numbers(data, dtype).astype(float)))


@pytest.mark.parametrize(
    ("name", "a", "b", "length", "within"),
    [
        ("float32", [1.0, 2.0], [1.0, 2.0], 1, True),
        ("float32", [1.0, 2.0], [1.0, 2.0 + 2**-22], 1, True),
        ("float32", [1.0, 2.0], [1.0, 2.01], 1, False),
        ("float32", [1.0, 100.0], [1.0001, 100.0], 1, False),
        ("float32", [1.0, 100.0], [1.0001, 100.0], 1024, True),
        ("float32", [np.nan, np.inf], [np.nan, np.inf], 1, True),
        ("float32", [np.nan, 1.0], [0.0, 1.0], 1, False),
        ("float32", [np.inf, 1.0], [-np.inf, 1.0], 1, False),
        ("float16", [1.0, 2.0], [1.001, 2.0], 1, True),
        ("int32", [1, 2], [1, 2], 1, True),
        ("int32", [1, 2], [1, 3], 10**6, False),
        ("bool", [1, 0], [1, 1], 1, False),
    ],
)
def test_results_agree_up_to_rounding(name, a, b, length, within):
    kinds = {"float32": "f4", "float16": "f2", "int32": "i4", "bool": "u1"}
    one, two = (np.array(x, kinds[name]).tobytes() for x in (a, b))
    found = compare._differ(0, getattr(dtypes, name), one, two, length)
    assert found.within is within


CANCELS = """\
import numpy as np
from tinygrad import Tensor
m = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)
x, sums = Tensor(m).realize(), Tensor(m.sum(1)).realize()
rest = (x.sum(1) - sums).realize();
"""


def test_terms_that_cancel_make_no_other_order_wrong():
    names = {}
    desk = Desk(run_cell(CANCELS, names, device="CPU").record)
    last = len(desk.record.kernels) - 1
    row = desk.answer("run", {"kernel": last, "opts": []})["row"]
    assert (row["status"], row["message"]) == ("ok", "")
    kernel = desk.record.kernels[last]
    given = inputs.inputs_for(kernel)
    shift = compare.shaken(kernel, given)
    for slot, param in inputs.params(kernel).items():
        a, b = (np.frombuffer(each[slot], np.float32) for each in (given, shift))
        assert np.all(np.abs(a - b) <= np.abs(a) * 2.0**-22)
        assert np.any(a != b) == (param.arg.slot != 0 or np.any(a != 0))


def test_a_result_that_rounding_does_not_explain_is_wrong_for_all_that_cancels():
    run = run_cell(CANCELS, {}, device="CPU")
    kernel = run.record.kernels[-1]
    right = np.zeros(64, np.float32)
    moved = {0: (right + 3e-6).tobytes()}
    near = {0: (right + np.float32(4e-6)).tobytes()}
    far = {0: (right + np.float32(0.01)).tobytes()}
    expected = {0: right.tobytes()}
    assert not compare.compare(kernel, expected, near).within
    assert compare.compare(kernel, expected, near, moved).within
    assert not compare.compare(kernel, expected, far, moved).within


def test_a_comparison_that_turns_over_hides_nothing():
    run = run_cell(CANCELS, {}, device="CPU")
    right = np.zeros(64, np.float32)
    turned = right.copy()
    turned[5] = 1.0
    far = {0: (right + np.float32(0.01)).tobytes()}
    kernel, expected = run.record.kernels[-1], {0: right.tobytes()}
    assert not compare.compare(kernel, expected, far, {0: turned.tobytes()}).within


def test_a_kernel_that_cannot_run_here_has_its_row_while_its_buffers_live():
    names = {}
    source = """from tinygrad import Tensor
a, b = Tensor.rand(8, 8).realize(), Tensor.rand(8, 8).realize()
c = (a @ b).relu().realize();"""
    desk = Desk(run_cell(source, names, device="NULL").record)
    assert names["c"].uop.is_realized
    row = desk.answer("run", {"kernel": len(desk.record.kernels) - 1, "opts": []})["row"]
    assert row["status"] == "compiled"
    assert row["message"].startswith("compiled, not run: NULL programs cannot be run apart")


def test_earlier_runs_show_their_source_again(desk, matmul):
    first = desk.answer("run", {"kernel": matmul, "opts": opts(("UPCAST", 1, 8))})["row"]
    desk.answer("run", {"kernel": matmul, "opts": []})
    again = desk.answer("row", {"kernel": matmul, "row": first["id"]})["row"]
    assert (again["source"], again["assembly"]) == (first["source"], first["assembly"])
    unedited = desk.answer("row", {"kernel": matmul, "row": 0})["row"]
    page = desk.answer("kernel", {"kernel": matmul})
    assert (unedited["source"], unedited["opts"]) == (page["source"], page["opts"])
    with pytest.raises(LabError, match="no run 9"):
        desk.answer("row", {"kernel": matmul, "row": 9})


def test_a_limit_suits_the_kernel_and_can_be_raised(desk, matmul):
    assert bench.limit_of(None, None) == bench.LIMIT_S
    assert bench.limit_of(Work(10, 0), 1e9) == 20
    assert bench.limit_of(Work(2 * 2048**3, 0), 0.1e9) > 100
    args = {"kernel": matmul, "opts": [], "limit": 1e-9}
    row = desk.answer("run", args)["row"]
    assert row["status"] == "timeout"
    assert row["message"].endswith("`run` takes a longer limit, such as limit=600")
    assert desk.answer("run", {**args, "limit": 60})["row"]["status"] == "ok"
    for wrong in (0, -1, "5", True, float("nan"), float("inf")):
        with pytest.raises(LabError, match="the limit is"):
            desk.answer("run", {**args, "limit": wrong})


def test_a_slow_kernel_is_timed_by_the_run_that_is_compared(desk, matmul, monkeypatch):
    monkeypatch.setattr(bench, "_SLOW_NS", 0)
    row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
    assert (row["status"], row["runs"]) == ("ok", 1)
    assert row["ratio"] > 0
    assert row["ratio_low"] is None
    assert row["median_us"] > 0


@pytest.mark.parametrize(
    ("ratios", "spent_s", "enough"),
    [
        ([90.1, 92.3, 91.8], 1.9, True),  # clear in each round
        ([0.01, 0.02, 0.01], 1.9, True),
        ([90.1, 92.3], 9.0, False),  # too few to be sure of anything
        ([90.1, 92.3, 91.8], 0.2, False),  # what is quick is timed whole
        ([90.1, 92.3, 1.9], 1.9, False),
        ([1.1, 1.2, 1.1], 1.9, False),
        ([1.1, 1.2, 1.1], 4.1, True),  # whoever waits has waited long enough
    ],
)
def test_rounds_of_slow_kernels_end_early(ratios, spent_s, enough):
    assert bench.is_enough(ratios, spent_s) is enough


def test_a_candidate_that_is_clearly_slower_is_timed_in_three_rounds(desk, matmul, monkeypatch):
    clock, asked = iter(range(1000)), []

    def run(self, job, limit_s=5.0, budget_s=0.1, accept=None):
        asked.append(budget_s)
        samples = [1e6] * 5 if len(asked) % 4 in (3, 2) else [300e6]
        return Outcome("ok", outputs={0: bytes(4096)}, samples_ns=samples, first_ns=samples[0])

    monkeypatch.setattr(Worker, "run", run)
    monkeypatch.setattr(bench.time, "monotonic", lambda: next(clock))
    row = desk.answer("run", {"kernel": matmul, "opts": []})["row"]
    assert (row["runs"], row["ratio_low"], row["ratio_high"]) == (3, 300.0, 300.0)
    assert len(asked) == 2 + 2 * 3  # one of each to compare, then three rounds of both


def test_opts_that_change_nothing_are_told(desk, matmul):
    own = desk.answer("kernel", {"kernel": matmul})["opts"]
    row = desk.answer("run", {"kernel": matmul, "opts": own})["row"]
    assert (row["status"], row["message"]) == ("ok", bench.SAME_CODE)


def test_the_range_of_a_ratio_leaves_out_one_round_at_each_end():
    ratios = [0.1, 0.8, 0.9, 0.9, 0.9, 0.95, 0.97, 0.99, 7.0]
    assert bench.Tried(1, [], ratios=ratios).ratio_range == (0.8, 0.99)
    assert bench.Tried(1, [], ratios=ratios[:-1]).ratio_range == (0.1, 0.99)
    assert bench.Tried(1, [], ratios=ratios[:1]).ratio_range == (None, None)
    assert bench.Tried(1, []).row()["ratio"] is None


def test_needless_work_is_no_gain(desk, matmul):
    useful = 2 * 32 * 64 * 32 + 32 * 32  # multiply, add, and the relu
    for edit in ([], [("PADTO", 0, 5), ("UPCAST", 0, 5)]):
        row = desk.answer("run", {"kernel": matmul, "opts": opts(*edit)})["row"]
        assert row["gflops"] == pytest.approx(useful / (row["median_us"] * 1000), rel=1e-6)
    own = desk.answer("row", {"kernel": matmul, "row": 0})["row"]
    assert own["gflops"] == pytest.approx(useful / (own["median_us"] * 1000), rel=1e-6)

"""Counting a kernel of a record: apart, with opts, with what is shown beside it."""

import json
from typing import Any

import numpy as np
import pytest

from tinylab.errors import LabError
from tinylab.lab import counters as lab_counters
from tinylab.lab.cells import run_cell
from tinylab.lab.desk import SLOW_ASKS, Desk

CELL = """\
from tinygrad import Tensor
a = Tensor.rand(64, 64).realize()
b = Tensor.rand(64, 64).realize()
c = (a @ b).relu()
c.realize()
"""


@pytest.fixture(scope="module")
def desk() -> Desk:
    run = run_cell(CELL, {}, device="CPU", noopt=True)
    assert run.error is None, run.error
    found = Desk(run.record)
    found.kept = run.record
    return found


@pytest.fixture(scope="module")
def matmul(desk: Desk) -> int:
    return int(next(k["id"] for k in desk.overview()["kernels"] if "matmul" in k["method"]))


def test_a_kernel_is_counted_apart(desk: Desk, matmul: int) -> None:
    heard: list[Any] = []
    found = desk.answer("count", {"kernel": matmul}, heard.append)
    assert (found["status"], found["message"]) == ("ok", "")
    figures = {f["name"]: f for f in found["figures"]}
    assert figures["flops"]["value"] == 2 * 64**3
    assert figures["flops"]["kind"] == "counted"
    assert {f["kind"] for f in found["figures"]} <= {"counted", "measured"}
    assert found["roofline"]["bound"] in ("arithmetic", "L1", "L2", "L3", "memory")
    assert [e["message"] for e in heard][:2] == [
        "building the kernel that counts itself",
        "counting",
    ]
    assert json.loads(json.dumps(found))
    assert len(json.dumps(found)) < 1 << 20


def test_uops_lead_to_lines_of_the_program_and_of_the_cell(desk: Desk, matmul: int) -> None:
    found = desk.answer("count", {"kernel": matmul})
    uops = {row["uop"] for row in found["source"] if row["uop"] is not None}
    fused = [u for u in found["uops"] if u["sort"] == "float multiply-add"]
    assert fused
    assert {u["uop"] for u in fused} <= uops
    assert any("fma" in row["text"] for row in found["source"] if row["uop"] == fused[0]["uop"])
    (cell,) = [row for row in found["cells"] if row["line"] == 4]
    assert cell["operations"] >= 64**3
    assert cell["bytes"] == 4 * (2 * 64**3 + 64**2)


def test_other_opts_are_counted_as_they_would_run(desk: Desk, matmul: int) -> None:
    opts = [{"op": "UPCAST", "axis": 1, "arg": 16}]
    plain = desk.answer("count", {"kernel": matmul})
    found = desk.answer("count", {"kernel": matmul, "opts": opts})
    assert found["opts"] == opts
    loads = [
        next(f["value"] for f in each["figures"] if f["name"] == "loads") for each in (plain, found)
    ]
    assert loads[1] == loads[0] / 16
    assert desk.answer("kernel", {"kernel": matmul})["history"] == []  # it is no run


def test_advice_is_in_the_form_that_the_bench_runs(desk: Desk, matmul: int) -> None:
    found = desk.answer("count", {"kernel": matmul})
    first = found["advice"][0]
    assert first["name"] == "new_lines"
    row = desk.answer("run", {"kernel": matmul, "opts": first["opts"]})["row"]
    assert row["status"] == "ok"
    again = desk.answer("count", {"kernel": matmul, "opts": first["opts"]})
    before, after = (
        next(f["value"] for f in each["figures"] if f["name"] == "L1 hits")
        for each in (found, again)
    )
    assert after < before  # the same lines are asked for less often


def test_a_gpu_is_estimated(desk: Desk, matmul: int) -> None:
    found = desk.answer("count", {"kernel": matmul, "target": "sm_80"})
    assert found["status"] == "ok"
    assert found["target"] == "sm_80"
    assert {f["kind"] for f in found["figures"]} == {"estimated"}
    assert "roofline" not in found
    opts = [{"op": "LOCAL", "axis": 1, "arg": 32}]
    found = desk.answer("count", {"kernel": matmul, "opts": opts, "target": "gfx1100"})
    assert found["opts"] == opts
    assert "sm_80" in desk.answer("kernel", {"kernel": matmul})["targets"]


def test_caches_may_be_given(desk: Desk, matmul: int) -> None:
    caches = [{"name": "L1", "size_bytes": 4096, "ways": 2}]
    found = desk.answer("count", {"kernel": matmul, "caches": caches})
    assert [(v["name"], v["source"]) for v in found["levels"]] == [("L1", "given")]
    with pytest.raises(LabError, match="such as"):
        desk.answer("count", {"kernel": matmul, "caches": [{"nmae": "L1"}]})


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"caches": [{"name": "L1", "size_bytes": 1000, "ways": 8}]}, "whole number of sets"),
        ({"opts": [{"op": "UPCAST", "axis": 1, "arg": 7}]}, "7 can't divide"),
        ({"target": "sm_1"}, "no limits are known of sm_1"),
        ({"target": "sm_80", "opts": [{"op": "THREAD", "axis": 0, "arg": 2}]}, "thread"),
    ],
)
def test_what_is_refused_says_why(desk: Desk, matmul: int, args: dict[str, Any], said: str) -> None:
    found = desk.answer("count", {"kernel": matmul, **args})
    assert found["status"] == "refused"
    assert said in found["message"]
    assert "figures" not in found


def test_arguments_that_are_none_are_refused(desk: Desk, matmul: int) -> None:
    with pytest.raises(LabError, match="the limit is -1"):
        desk.answer("count", {"kernel": matmul, "limit": -1})
    with pytest.raises(LabError, match="no opt is called UPCATS"):
        desk.answer("count", {"kernel": matmul, "opts": [{"op": "UPCATS"}]})
    with pytest.raises(LabError, match="target is 80"):
        desk.answer("count", {"kernel": matmul, "target": 80})
    with pytest.raises(LabError, match="there is no kernel 99"):
        desk.answer("count", {"kernel": 99})
    assert "count" in SLOW_ASKS


def test_a_kernel_that_takes_too_long_is_ended() -> None:
    """It is the counting kernel that the limit is of."""
    cell = CELL.replace("64, 64", "640, 640")
    run = run_cell(cell, {}, device="CPU", noopt=True)
    desk = Desk(run.record)
    number = next(k["id"] for k in desk.overview()["kernels"] if "matmul" in k["method"])
    found = desk.answer("count", {"kernel": number, "limit": 0.01})
    assert found["status"] == "timeout"
    assert "the kernel that counts itself: it did not finish within 0.01 s" in found["message"]


def test_counting_leaves_the_tensors_alone() -> None:
    names: dict[str, Any] = {}
    run = run_cell(CELL + "kept = c.numpy().copy()\n", names, device="CPU")
    assert run.error is None, run.error
    desk = Desk(run.record)
    for kernel in desk.overview()["kernels"]:
        desk.answer("count", {"kernel": kernel["id"]})
    np.testing.assert_array_equal(names["c"].numpy(), names["kept"])


def test_a_record_without_its_graphs_says_so(desk: Desk, matmul: int) -> None:
    import dataclasses

    kernel = dataclasses.replace(desk.kernels.get(matmul), ast=None, program=None)
    counting = lab_counters.Counting(desk.bench, desk.kernels)
    with pytest.raises(LabError, match="was not lowered here"):
        counting._estimated(kernel, None, "sm_80")


def test_a_kernel_of_workgroups_is_counted_and_not_timed() -> None:
    cell = "from tinygrad import Tensor\n(Tensor.empty(8, 16) + Tensor.empty(8, 16)).realize()"
    run = run_cell(cell, {}, device="PYTHON")
    desk = Desk(run.record)
    number = desk.overview()["kernels"][-1]["id"]
    found = desk.answer("count", {"kernel": number, "opts": [{"op": "LOCAL", "axis": 0, "arg": 4}]})
    assert (found["status"], found["message"]) == ("ok", "")
    assert {f["name"]: f["value"] for f in found["figures"]}["flops"] == 128
    assert found["roofline"] is None
    assert "counted as the CPU runs it; a kernel of PYTHON is not timed apart" in found["notes"]
    assert {row["buffer"] for row in found["uops"] if row["op"] == "STORE"} == {0}

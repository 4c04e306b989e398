import re

import pytest

from tinylab.errors import LabError, TinylabError
from tinylab.lab import report
from tinylab.lab.cells import run_cell
from tinylab.lab.desk import Desk
from tinylab.lab.kernels import opts_from_json, tie_assembly
from tinylab.lab.work import Work, useful_work

CELL = """\
from tinygrad import Tensor
a = Tensor.rand(32, 64).realize()
b = Tensor.rand(64, 16).realize()
c = (a @ b).relu()
c.realize()
"""


@pytest.fixture(scope="module")
def desk():
    run = run_cell(CELL, {}, device="CPU")
    assert run.error is None, run.error
    return Desk(run.record)


@pytest.fixture(scope="module")
def matmul(desk):
    rows = desk.overview()["kernels"]
    return next(row["id"] for row in rows if "matmul" in row["method"])


def test_a_row_says_what_the_kernel_is(desk, matmul):
    row = desk.overview()["kernels"][matmul]
    assert row["name"].startswith("r_")
    assert "\x1b" not in row["name"] + row["display"]
    assert row["reason"]
    assert row["device"] == "CPU"
    assert row["lines"] == [4]
    assert row["method"] == ["matmul", "relu"]
    assert row["runs"] == 1
    assert row["ops"] >= 2 * 32 * 64 * 16
    assert row["mem_bytes"] == 4 * (32 * 64 + 64 * 16 + 32 * 16)
    assert row["gflops"] == pytest.approx((2 * 32 * 64 * 16 + 32 * 16) / (row["elapsed_us"] * 1000))
    assert row["gbs"] == pytest.approx(row["mem_bytes"] / (row["elapsed_us"] * 1000))


def test_source_lines_know_their_node_and_cell_line(desk, matmul):
    page = desk.answer("kernel", {"kernel": matmul})
    assert page["language"] == "llvm"
    tied = [line for line in page["source"] if line["node"] is not None]
    assert len(tied) > len(page["source"]) / 4
    fma = [line for line in tied if "fma" in line["text"]]
    assert fma
    assert all(line["lines"] == [4] for line in fma)
    last = [p for p in desk.record.passes if p.kernel == matmul][-1]
    known = set(desk.record.nodes.walk(last.root_after))
    assert {line["node"] for line in tied} <= known


def test_assembly_lines_know_their_source_line(desk, matmul):
    page = desk.answer("kernel", {"kernel": matmul})
    fma = [line for line in page["assembly"] if "fma" in line["text"]]
    assert fma
    for line in fma:
        assert page["source"][line["source_line"]]["lines"] == [4]
    assert not any(line["text"].lstrip().startswith((".loc", ".cfi")) for line in page["assembly"])


def test_assembly_is_tied_by_debug_locations():
    source = [{"uop": None}, {"uop": 3}, {"uop": 3}, {"uop": 4}]
    text = (
        "f:\n\t.loc 1 4 1\n\tmov a, b\n\t.loc\t1 0 1\n\tnop\n.LBB0_1:\n"
        "\t.loc 1 5 0\n\tret\n.Ltmp0:\n\t.cfi_x\n"
    )
    found = [(line["text"].strip(), line["source_line"]) for line in tie_assembly(text, source)]
    assert found == [("f:", None), ("mov a, b", 1), ("nop", None), (".LBB0_1:", None), ("ret", 3)]


def test_the_page_holds_opts_axes_and_buffers(desk, matmul):
    page = desk.answer("kernel", {"kernel": matmul})
    assert [f"{o['op']}({o['axis']}, {o['arg']})" for o in page["opts"]] == (
        desk.overview()["kernels"][matmul]["opts"]
    )
    assert {"UPCAST", "UNROLL", "THREAD", "PADTO", "SWAP"} <= set(page["allowed"]["ops"])
    assert not {"LOCAL", "GROUP", "TC"} & set(page["allowed"]["ops"])
    assert all(set(axis) == {"name", "letter", "size", "kind"} for axis in page["axes"])
    assert [b["size"] for b in page["buffers"]] == [32 * 16, 32 * 64, 64 * 16]
    assert {b["dtype"] for b in page["buffers"]} == {"float32"}


def test_axes_follow_the_opts(desk, matmul):
    plain = desk.answer("actions", {"kernel": matmul, "opts": []})
    assert [(a["size"], a["kind"]) for a in plain["axes"]] == [
        ("32", "WEAK"), ("16", "WEAK"), ("64", "REDUCE")]  # fmt: skip
    opts = [{"op": "UPCAST", "axis": 0, "arg": 4}, {"op": "unroll", "axis": 0, "arg": "8"}]
    tuned = desk.answer("actions", {"kernel": matmul, "opts": opts})
    assert tuned["problems"] is None
    assert {(a["size"], a["kind"]) for a in tuned["axes"]} >= {("4", "UPCAST"), ("8", "UNROLL")}


def test_an_opt_that_does_not_fit_is_told_with_its_place(desk, matmul):
    opts = [{"op": "UPCAST", "axis": 1, "arg": 4}, {"op": "UPCAST", "axis": 0, "arg": 5}]
    found = desk.answer("actions", {"kernel": matmul, "opts": opts})
    assert found["problems"]["index"] == 1
    assert "UPCAST(0, 5)" in found["problems"]["message"]
    assert "32" in found["problems"]["message"]
    assert ("4", "UPCAST") in {(a["size"], a["kind"]) for a in found["axes"]}


@pytest.mark.parametrize(
    ("opt", "message"),
    [
        ({"op": "UPCASTT", "axis": 0, "arg": 4}, "no opt is called UPCASTT"),
        ({"op": "", "axis": 0, "arg": 4}, "no opt is called"),
        ({"op": "UPCAST", "axis": "x", "arg": 4}, "axis of UPCAST"),
        ({"op": "UPCAST", "axis": 0, "arg": "many"}, "amount of UPCAST"),
    ],
)
def test_opts_that_are_none_are_named(opt, message):
    with pytest.raises(LabError, match=message):
        opts_from_json([opt])


def test_an_unknown_kernel_is_named(desk):
    with pytest.raises(LabError, match="there is no kernel 99: the record has"):
        desk.answer("kernel", {"kernel": 99})


def test_edges_lead_from_writers_to_readers(desk):
    source = (
        "from tinygrad import Tensor\n"
        "x = Tensor.empty(8, 8)\n"
        "y = x.exp2().contiguous()\n"
        "z = (y.sum(0).contiguous() + y.sum(1).contiguous()).contiguous()\n"
        "z.realize()\n"
    )
    run = run_cell(source, {}, device="NULL")
    found = Desk(run.record).kernels.edges()
    assert found
    assert all(a < b for a, b in found)
    readers = {b for _, b in found}
    assert len(run.record.kernels) - 1 in readers


def test_a_line_and_a_node_lead_to_kernels_and_back(desk, matmul):
    marks = desk.answer("lines", {"lines": [4]})
    assert marks["kernels"] == [matmul]
    pass_id, nodes = next(iter(marks["nodes"].items()))
    about = desk.answer("node", {"pass": pass_id, "node": nodes[0]})
    assert about["lines"] == (4,)
    assert about["kernels"] == [matmul]
    assert about["methods"][0] in ("matmul", "relu")
    assert about["calls"][0][0][1] == 4


def test_repeated_kernels_are_shown_with_the_source_of_the_first():
    source = (
        "from tinygrad import Tensor\n"
        "a, b = Tensor.empty(8), Tensor.empty(8)\n"
        "Tensor.realize(a.exp2(), b.exp2())\n"
    )
    desk = Desk(run_cell(source, {}, device="NULL").record)
    pages = [desk.answer("kernel", {"kernel": k}) for k in (0, 1)]
    assert [row["cached"] for row in desk.overview()["kernels"]] == [False, True]
    assert [line["text"] for line in pages[0]["source"]] == [
        line["text"] for line in pages[1]["source"]
    ]
    assert any(line["lines"] for line in pages[1]["source"])


def test_lines_mark_nodes_of_kernels_too(desk, matmul):
    every = desk.answer("lines", {"lines": [4]})
    assert every["kernels"] == [matmul]
    own = [p for p in desk.record.passes if p.kernel == matmul and p.parent is None]
    assert {p.id for p in own} <= set(every["nodes"])
    others = {p.id for p in desk.record.passes if p.kernel not in (None, matmul)}
    assert not others & set(every["nodes"])
    # A front end that stands at a pass is told of that pass's kernel alone.
    here = desk.answer("lines", {"lines": [4], "pass": own[-1].id})
    assert here["nodes"] == every["nodes"]
    start = desk.answer("lines", {"lines": [4], "pass": 0})
    assert set(start["nodes"]) == {
        i for i in every["nodes"] if desk.record.passes[i].kernel is None
    }
    for pass_id in (own[0].id, own[-1].id):
        for node in every["nodes"][pass_id][:20]:
            told = desk.answer("node", {"pass": pass_id, "node": node})
            assert told["lines"] == (4,)
            assert told["kernels"] == [matmul]


@pytest.mark.parametrize(
    ("value", "flops", "other"),
    [
        ("Tensor.empty(8, 4) + 1", 32, 0),
        ("Tensor.empty(8, 4).sum()", 32, 0),
        ("(Tensor.empty(8, 4) > 0).where(Tensor.empty(8, 4), 2.0)", 32, 0),
        ("Tensor.empty(8, 4).tril().contiguous()", 0, 0),
        ("Tensor.empty(8, dtype='int32') * 3", 0, 8),
        ("Tensor.empty(8, 4).cast('int32')", 0, 0),
        ("Tensor.empty(8, 4).permute(1, 0).contiguous()", 0, 0),
        ("Tensor.empty(6, 4).pad(((0, 2), (0, 0))) * 2", 32, 0),
        ("Tensor.empty(16, 32) @ Tensor.empty(32, 8)", 2 * 16 * 32 * 8, 0),
    ],
)
def test_work_is_what_the_kernel_is_asked_for(value, flops, other):
    run = run_cell(f"from tinygrad import Tensor\n({value}).realize();", {}, device="NULL")
    assert run.error is None, run.error
    assert useful_work(run.record.kernels[-1]) == Work(flops, other)


def test_a_sum_that_picks_an_element_is_a_load():
    value = "Tensor.empty(1000, 8)[Tensor.empty(5, dtype='int64')] * 2.0"
    run = run_cell(f"from tinygrad import Tensor\n({value}).realize();", {}, device="NULL")
    work = useful_work(run.record.kernels[-1])
    assert work.flops == 5 * 8
    assert work.other < 50  # whether an index is negative, or too large


def test_integer_work_is_not_called_floating():
    run = run_cell("from tinygrad import Tensor\nTensor.arange(64).contiguous().realize();", {},
                   device="CPU")  # fmt: skip
    row = Desk(run.record).overview()["kernels"][-1]
    assert row["gflops"] is None
    assert "GFLOP" not in report.text(run.record).splitlines()[-1]


def test_a_kernel_of_a_device_that_does_not_open_is_shown():
    source = "from tinygrad import Tensor\n(Tensor.empty(16) + 1).realize();"
    record = run_cell(source, {}, device="CPU").record
    for kernel in record.kernels:
        kernel.device = "GPUU"
    desk = Desk(record)
    assert "source of" in report.html(record)
    page = desk.answer("kernel", {"kernel": 0})
    assert page["source"]
    assert (page["allowed"], page["axes"], page["assembly"]) == ({"ops": []}, [], [])
    row = desk.answer("run", {"kernel": 0, "opts": []})["row"]
    assert row["status"] == "refused"
    assert "no device is called GPUU" in row["message"]
    with pytest.raises(TinylabError, match="no device is called GPUU"):
        desk.answer("actions", {"kernel": 0, "opts": []})


@pytest.mark.parametrize("lost", ["program", "ast"])
def test_a_kernel_that_lacks_a_part_is_shown(lost):
    source = "from tinygrad import Tensor\n(Tensor.empty(16) + 1).realize();"
    record = run_cell(source, {}, device="CPU").record
    setattr(record.kernels[0], lost, None)
    assert "kernel" in report.html(record)
    Desk(record).answer("kernel", {"kernel": 0})
    assert repr(record.kernels[0])


@pytest.mark.parametrize(
    ("opts", "what"),
    [
        (["x"], "'x' is no opt"),
        ("UPCAST", "opts are a list"),
        ([{"op": "UPCAST", "axis": 0, "arg": 2.5}], "the amount of UPCAST is 2.5"),
        ([{"op": "UPCAST", "axis": True, "arg": 2}], "the axis of UPCAST is True"),
        ([{"op": "SWAP", "axis": 0, "arg": [1, None, 1.5]}], "the amount of SWAP is 1.5"),
    ],
)
def test_what_is_no_opt_is_refused_in_a_sentence(desk, matmul, opts, what):
    for ask in ("run", "actions"):
        with pytest.raises(LabError, match=what):
            desk.answer(ask, {"kernel": matmul, "opts": opts})


def test_a_kernel_is_one_line(desk, matmul):
    kernel = desk.record.kernels[matmul]
    assert re.fullmatch(
        r"<kernel \d+ r_\w+: (\w+\(.*?\) ?)*, CPU, [\d.]+ .s, asked for.*>", repr(kernel)
    )
    for shown in (desk.record, *desk.record.kernels, *desk.record.passes):
        assert len(repr(shown)) < 300
        assert "\n" not in repr(shown)
        assert "\x1b" not in repr(shown)


def test_axes_are_those_that_opts_count():
    """Three ranges that lie one behind another are one axis when opts are applied."""
    cell = (
        "from tinygrad import Tensor\na = Tensor.ones(8, 16, 32).contiguous().realize()\n"
        "(a + a).realize()\n"
    )
    run = run_cell(cell, {}, device="CPU", noopt=True)
    assert run.error is None, run.error
    desk = Desk(run.record)
    number = desk.overview()["kernels"][-1]["id"]
    assert [a["size"] for a in desk.answer("kernel", {"kernel": number})["axes"]] == ["4096"]
    opts = [{"op": "UPCAST", "axis": 1, "arg": 4}]
    problem = desk.answer("actions", {"kernel": number, "opts": opts})["problems"]
    row = desk.answer("run", {"kernel": number, "opts": opts})["row"]
    assert row["status"] == "refused"
    assert problem["message"] == row["message"]

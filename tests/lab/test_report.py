import base64
import json
import re
import shutil
import subprocess
import xml.dom.minidom
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tinylab
from tests.trace.programs import recorded_attention, variable
from tinylab.lab import player, report
from tinylab.lab.cells import run_cell
from tinylab.lab.desk import answer
from tinylab.lab.picture import MOST_KERNELS, kernel_graph, ranks
from tinylab.lab.player import Book
from tinylab.trace.record import Record, record as record_block
from tinylab.uop.ops import Ops, PatternMatcher, Rule, UPat, graph_rewrite

NASTY = '<script>alert("x")</script> & "quotes"'


@pytest.fixture(scope="module")
def record():
    source = "from tinygrad import Tensor\n(Tensor.empty(16, 8).sum(1) + 1).exp2().realize()"
    run = run_cell(source, {}, device="NULL", name="net")
    assert run.error is None
    return run.record


class Tags(HTMLParser):
    """What a sanitiser would look at."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.data = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("img", "br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def test_text_has_a_line_per_kernel(record):
    lines = report.text(record).splitlines()
    assert lines[0].startswith("net: 1 kernel, ")
    assert "on NULL" in lines[0]
    assert lines[1].split() == [
        "#",
        "kernel",
        "time",
        "GFLOP/s",
        "GB/s",
        "runs",
        "opts",
        "from",
        "reason",
    ]
    assert len(lines) == 3
    assert "line 2" in lines[2]


def test_html_passes_a_sanitiser(record):
    """Only what JupyterLab keeps: no script, style sheet, inline SVG, iframe or handler."""
    found = Tags(report.html(record))
    assert set(found.tags) <= {"div", "img", "table", "thead", "tbody", "tr", "th", "td", "details",
                               "summary", "pre"}  # fmt: skip
    assert {name for name, _ in found.attributes} <= {"style", "alt", "src"}
    assert found.open == []
    assert {"img", "table", "details"} <= set(found.tags)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "0"), (1470.2, "1,470"), (1234567.0, "1,234,567"), (99.94, "99.9"),
     (5.44, "5.44"), (1, "1.00"), (0.5104, "0.51"), (0.000644, "0.00064"), (3e-8, "0.000000030")],
)  # fmt: skip
def test_numbers_have_the_digits_that_count_and_no_exponent(value, text):
    assert report._number(value) == text


@pytest.mark.parametrize(
    ("gops", "text"),
    [(12.0, "12.0 Gop/s"), (0.0123, "12.3 Mop/s"), (0.000644, "644 kop/s"), (5e-9, "5.00 op/s"),
     (None, ""), (0, "")],
)  # fmt: skip
def test_integer_work_is_told_in_a_unit_that_suits_it(gops, text):
    assert report._work({"gflops": None, "gops": gops}) == text
    assert report._work({"gflops": 1470.0, "gops": gops}) == "1,470"


def test_times_are_told_in_a_unit_that_suits_them():
    assert [report._time(t) for t in (None, 12.34, 1470.0, 2.5e6)] == [
        "", "12.3 µs", "1.47 ms", "2.50 s"]  # fmt: skip


def test_headings_stand_as_their_numbers_do(record):
    heads = re.findall(r'<th style="([^"]*)">([^<]*)<', report.html(record))
    cells = re.findall(r'<td style="([^"]*)">([^<]*)<', report.html(record))
    assert [style for style, _ in heads] == [style for style, _ in cells[: len(heads)]]
    aligned = {name for style, name in heads if "text-align:right" in style}
    assert aligned == {"#", "time", "GFLOP/s", "GB/s", "runs"}
    table = [report._aligned(row, [3, 6, 6, 7, 6, 5, 4, 4, 6]) for row in (
        report._HEADINGS, ("0", "E_4", "1.5 µs", "1,470", "0.5", "12", "", "", "why"))]  # fmt: skip
    for head, number in (("GFLOP/s", "1,470"), ("GB/s", "0.5"), ("runs", "12")):
        assert table[0].index(head) + len(head) == table[1].index(number) + len(number)
    assert table[0].index("kernel") == table[1].index("E_4")


def test_equal_names_bear_their_number():
    code = "from tinylab import Tensor\n(Tensor.ones(4).contiguous() + 1).realize()\n"
    run = run_cell(code + "(Tensor.ones(4).contiguous() + 1).realize()", {}, device="NULL")
    page = report.html(run.record)
    names = [k["name"] for k in report.desk_of(run.record).overview()["kernels"]]
    twins = [name for name in names if names.count(name) > 1]
    assert twins
    assert f"source of {twins[0]} #{names.index(twins[0])}" in page


def test_the_picture_is_well_formed_svg(record):
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', report.html(record)).group(1)
    svg = base64.b64decode(data).decode()
    assert xml.dom.minidom.parseString(svg).documentElement.tagName == "svg"
    assert report.desk_of(record).overview()["kernels"][0]["name"] in svg


def test_text_of_the_record_is_escaped():
    run = run_cell(f"raise ValueError({NASTY!r})", {})
    page = report.html(run.record)
    assert "<script" not in page
    assert "alert(" in "".join(Tags(page).data)
    svg = kernel_graph([(NASTY, NASTY)], [])
    assert "<script" not in svg
    xml.dom.minidom.parseString(svg)


def test_a_record_of_nothing_says_so():
    bundle = report.mimebundle(Record("empty"))
    assert "0 kernels, 0 passes, 0 matches" in bundle["text/plain"]
    assert "lazy" in bundle["text/html"]


def test_ranks_follow_the_longest_way():
    assert ranks(4, [(0, 1), (1, 2), (0, 2)]) == [0, 1, 2, 0]


def test_boxes_of_one_rank_do_not_overlap():
    labels = [(f"kernel_{i}", "1.0 us") for i in range(12)]
    svg = xml.dom.minidom.parseString(kernel_graph(labels, [(0, i) for i in range(1, 12)]))
    boxes = [
        (float(r.getAttribute("x")), float(r.getAttribute("y")), float(r.getAttribute("width")))
        for r in svg.getElementsByTagName("rect")
    ]
    assert len(boxes) == 12
    for x, y, width in boxes:
        assert not [b for b in boxes if b[1] == y and x < b[0] < x + width]


def test_very_many_kernels_are_counted():
    svg = kernel_graph([("k", "")] * (MOST_KERNELS + 7), [(0, MOST_KERNELS + 1)])
    assert svg.count("<rect") == MOST_KERNELS
    assert "and 7 more kernels" in svg


PLAY = """
const book = new Book(data);
const answers = [];
for (const pass of Object.keys(data.passes).map(Number)) {
  for (let k = 0; k <= book.count(pass); k += 1) {
    answers.push([book.answer("step", { pass, k }), book.answer("text", { pass, k })]);
  }
}
const found = {
  answers,
  query: "reduce",
  search: book.answer("search", { query: "reduce" }),
  lines: book.answer("lines", { lines: [2] }),
  kernel: book.answer("kernel", { kernel: 0 }),
};
process.stdout.write(JSON.stringify(found));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node to run the page's script")
@pytest.mark.parametrize("program", ["sum", "attention"])
def test_the_page_replays_every_step(record, program, tmp_path):
    """The script of the page against the desk: every node of every step."""
    shown = record if program == "sum" else recorded_attention()
    book = Book(shown)
    script = Path(player.__file__).with_name("player.js").read_text()
    file = tmp_path / "play.js"
    file.write_text(f"{script}\nconst data = {json.dumps(book.data())};\n{PLAY}")
    done = subprocess.run(["node", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    played = iter(found["answers"])
    real = {row[0] for row in book.data()["nodes"]}
    for each in shown.passes:
        for k in range(each.count + 1):
            step, text = next(played)
            answer = json.loads(json.dumps(book.desk.answer("step", {"pass": each.id, "k": k})))
            for field in ("pass", "k", "total", "full", "count", "failed"):
                assert step[field] == answer[field], field
            assert (step["rule"] or {}).get("name") == (answer["rule"] or {}).get("name")
            assert [named(n) for n in step["nodes"]] == [named(n) for n in answer["nodes"]]
            for mine, theirs in zip(step["nodes"], answer["nodes"], strict=True):
                if mine["id"] in real and theirs["id"] in real:
                    # A page has one set of lines for a node, Python one for each pass.
                    assert {**mine, "lines": 0} == {**theirs, "lines": 0}
            assert len(step["added"]) == len(answer["added"])
            assert len(step["gone"]) == len(answer["gone"])
            expected = book.desk.answer("text", {"pass": each.id, "k": k})
            assert len(text["lines"]) == len(expected["lines"])
            assert bool(text["diff"]) == bool(expected["diff"])
    assert found["search"]["hits"]
    query = {"query": found["query"]}
    expected = {(h["node"], h["label"]): h for h in book.desk.answer("search", query)["hits"]}
    for hit in found["search"]["hits"]:
        if "passes" in hit:
            assert hit["detail"] == expected[hit["node"], hit["label"]]["detail"]
        else:
            assert hit["detail"]
    places = [(h["pass"], h["k"], h["node"], h["label"]) for h in found["search"]["hits"]]
    assert len(set(places)) == len(places)
    assert found["lines"]["kernels"] or program == "attention"
    assert found["kernel"]["source"]


def named(node):
    """A node apart from ids that stepping made, and from what only Python works out for them."""
    return {k: node[k] for k in ("op", "label", "arg", "dtype", "kind", "tag")} | {
        "sources": len(node["src"])
    }


def test_a_report_without_the_front_end_is_the_static_one(record, monkeypatch):
    monkeypatch.setattr(player, "find_bundle", lambda: None)
    assert player.player([record]) == ""


def test_an_interrupt_has_no_message_and_no_colon(record):
    stopped = run_cell("raise KeyboardInterrupt", {}, device="NULL").record
    assert report.text(stopped).endswith("; interrupted")


def test_an_interrupt_inside_a_pass_names_it():
    def stop(x):
        raise KeyboardInterrupt

    table = PatternMatcher([Rule("innocent", "", UPat(Ops.SQRT, name="x"), stop)])
    with pytest.raises(KeyboardInterrupt), record_block() as rec:
        graph_rewrite(variable().sqrt().sink(), table, name="busy")
    assert "; interrupted in the pass busy (" in report.text(rec)
    assert "innocent" not in report.text(rec)


def test_kernels_of_one_name_are_told_apart_in_the_table_as_in_the_picture():
    cell = """from tinygrad import Tensor
a = Tensor.empty(64).exp2().realize()
b = (Tensor.empty(64) + a).realize();"""
    made = run_cell(cell, {}, device="NULL").record
    name = made.kernels[0].name
    rows = report.text(made).splitlines()[2:]
    assert [f"{name} #{n}" in row for n, row in enumerate(rows)] == [True, True]
    shown = report.html(made)
    assert f'<td style="{report._CELL}">{name} #1</td>' in shown


def test_a_record_that_is_not_shown_says_how_to_see_it(record):
    assert report.without_view(record, "rec").endswith("; rec shows its debugger")
    assert "--name rec keeps it" in report.without_view(record, None)


def test_a_saved_record_keeps_what_was_known_of_its_kernels(tmp_path):
    source = "from tinygrad import Tensor\n(Tensor.empty(64, 64).sum(1) + 1).realize();"
    made = run_cell(source, {}, device="CPU").record
    path = tmp_path / "r.tlab"
    made.save(path)
    read = tinylab.load(path)
    read.save(tmp_path / "again.tlab")
    for each in (read, tinylab.load(tmp_path / "again.tlab")):
        assert repr(each) == repr(made)
        assert len(each.events) == len(made.events)
        for one, two in zip(made.kernels, each.kernels, strict=True):
            assert repr(one) == repr(two)
            assert "\x1b" not in two.name
            assert two.source.count("\n") > 10
        pages = [answer(r, "kernel", {"kernel": 0}) for r in (made, each)]
        assert pages[0] == pages[1]
        assert pages[0]["assembly"]


def test_a_pass_that_is_a_table_of_its_name_is_listed_once():
    source = "from tinygrad import Tensor\n(Tensor.empty(8).exp2() // 3).realize();"
    made = run_cell(source, {}, device="NULL").record
    page = answer(made, "overview")
    rows = {row["id"]: row for stage in page["stages"] for row in stage["passes"]}
    for row in rows.values():
        parent = rows.get(row["parent"])
        assert row["parent"] is None or parent is not None
        assert parent is None or parent["name"] != row["name"] or parent["matches"]
    (once,) = [row for row in rows.values() if row["name"] == "decompose_ops"]
    assert once["matches"]

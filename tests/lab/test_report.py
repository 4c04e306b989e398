import base64
import re
import xml.dom.minidom
from html.parser import HTMLParser

import pytest

from tinylab.lab import report
from tinylab.lab.cells import run_cell
from tinylab.lab.picture import MOST_KERNELS, kernel_graph, ranks
from tinylab.lab.player import Book
from tinylab.trace.record import Record

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


def test_a_book_holds_every_step(record):
    book = Book(record)
    data = book.data()
    nodes = {row[0]: row[4:] for row in data["nodes"]}
    for shown in record.passes:
        states = data["passes"][shown.id]
        assert len(states) == shown.count + 1
        for k, state in enumerate(states):
            answer = book.desk.answer("step", {"pass": shown.id, "k": k})
            seen, stack = set(), [state[0]]
            while stack:
                node = stack.pop()
                if node not in seen:
                    seen.add(node)
                    stack.extend(nodes[node])
            assert seen == {n["id"] for n in answer["nodes"]}
            if k:
                assert data["rules"][state[1]]["name"] == answer["rule"]["name"]


def test_a_book_leaves_out_what_takes_too_long(record, monkeypatch):
    from tinylab.lab import player

    monkeypatch.setattr(player, "_SECONDS", -1.0)
    data = Book(record).data()
    shown = max(record.passes, key=lambda p: p.count)
    states = data["passes"][shown.id]
    assert states[0] is not None
    assert states[-1] is not None
    assert set(map(type, states[1:-1])) == {type(None)}

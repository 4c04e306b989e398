import json
import os
import pickle
import sqlite3
import sys

import pytest

from tests.trace.programs import chain, pm_tidy, recorded_attention, variable
from tinylab.errors import TraceError
from tinylab.opcodes import Ops
from tinylab.trace import store
from tinylab.trace.facts import head_facts, rule_facts
from tinylab.trace.lineage import Lineage
from tinylab.trace.record import Cell, record
from tinylab.trace.replay import Replay
from tinylab.uop.ops import PatternMatcher, UPat, graph_rewrite


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rec = recorded_attention()
    rec.cell = Cell("q @ k", "<cell>")
    path = tmp_path_factory.mktemp("traces") / "attention.tlab"
    store.save(rec, path, {0: store.Page({"id": 0}, {"text": "x"})})
    return rec, path


def test_a_trace_says_what_the_record_said(saved):
    rec, path = saved
    read = store.load(path)
    assert (read.name, read.device, read.cell) == (rec.name, rec.device, rec.cell)
    assert len(read.nodes) == len(rec.nodes)
    for node in range(len(rec.nodes)):
        assert head_facts(read.nodes.head(node)) == head_facts(rec.nodes.head(node))
        assert read.nodes.src(node) == rec.nodes.src(node)
        assert read.nodes.shape(node) == rec.nodes.shape(node)
    assert [rule_facts(r) for r in read.rules] == [rule_facts(r) for r in rec.rules]
    for a, b in zip(read.passes, rec.passes, strict=True):
        assert a.columns() == b.columns()
        for field in ("id", "name", "place", "bottom_up", "walk", "enter_calls", "root_before",
                      "root_after", "stage", "kernel", "parent", "start_ns", "elapsed_ns",
                      "error"):  # fmt: skip
            assert getattr(a, field) == getattr(b, field), field


def test_kernels_and_their_pages_come_back(saved):
    rec, path = saved
    read = store.load(path)
    for a, b in zip(read.kernels, rec.kernels, strict=True):
        assert (a.name, a.reason, a.device, a.cached) == (b.name, b.reason, b.device, b.cached)
        assert (a.ast_id, a.call_id, a.runs_ns) == (b.ast_id, b.call_id, b.runs_ns)
    assert read.kernels[0].row == {"id": 0}
    assert read.kernels[0].page() == {"text": "x"}
    assert read.kernels[1].row is read.kernels[1].page is None


def test_every_step_is_the_same_in_a_trace(saved):
    rec, path = saved
    read = store.load(path)
    for a, b in zip(read.passes, rec.passes, strict=True):
        one, two = Replay(read.nodes, a), Replay(rec.nodes, b)
        for k in range(a.count + 1):
            lines = [
                [(head_facts(t.head(n)), t.shape(n)) for n in replay.step(k).order]
                for t, replay in ((read.nodes, one), (rec.nodes, two))
            ]
            assert lines[0] == lines[1]


def test_origins_are_the_same_in_a_trace(saved):
    rec, path = saved
    one, two = Lineage(store.load(path)), Lineage(rec)
    for kernel in rec.kernels:
        assert one.kernel_methods(kernel.id) == two.kernel_methods(kernel.id)
        assert one.frames(one.of_kernel(kernel.id)) == two.frames(two.of_kernel(kernel.id))


def test_events_keep_their_plain_data(saved):
    rec, path = saved
    read = store.load(path).read_all()
    runs = [e for e in read.events if e.kind == "run"]
    assert [(e.name, e.start_ns) for e in runs] == [
        (e.name, e.start_ns) for e in rec.events if e.kind == "run"
    ]
    assert all(set(e.data) >= {"device", "kernel", "ops", "mem"} for e in runs)


def test_matches_are_read_when_they_are_asked_for(saved):
    read = store.load(saved[1])
    assert all(p.block == b"" for p in read.passes)
    assert "heads" not in read.nodes.__dict__
    read.passes[0].columns()
    assert read.passes[0].block
    assert "heads" not in read.nodes.__dict__
    assert read.nodes.size(read.passes[0].root_before) > 0  # known without the nodes
    assert "heads" not in read.nodes.__dict__


def test_a_trace_read_whole_needs_its_file_no_more(saved, tmp_path):
    copy = tmp_path / "copy.tlab"
    copy.write_bytes(saved[1].read_bytes())
    read = store.load(copy).read_all()
    copy.unlink()
    shown = next(p for p in read.passes if p.count)
    assert Replay(read.nodes, shown).step(shown.count).root == shown.root_after


def test_what_ended_the_cell_comes_back(tmp_path):
    def fail(x):
        raise ValueError("no such luck")

    table = PatternMatcher([(UPat(Ops.SQRT, name="x"), fail)])
    with pytest.raises(ValueError, match="luck"), record("r") as rec:
        graph_rewrite(variable().sqrt().sink(), table, name="breaks")
    store.save(rec, tmp_path / "r.tlab")
    read = store.load(tmp_path / "r.tlab")
    assert read.error_facts() == rec.error_facts()
    assert read.failed_pass.name == "breaks"
    assert read.failed_pass.failed_node == rec.failed_pass.failed_node
    assert read.rules[read.failed_pass.failed_rule].name == "fail"


def test_a_trace_is_small(tmp_path):
    with record() as rec:
        for bottom_up in (False, True):
            graph_rewrite(chain(3000), pm_tidy, bottom_up=bottom_up, name="tidy")
    store.save(rec, tmp_path / "big.tlab")
    assert os.path.getsize(tmp_path / "big.tlab") <= 80 * sum(p.count for p in rec.passes)


def test_a_trace_is_written_whole_or_not_at_all(saved, tmp_path, monkeypatch):
    path = tmp_path / "r.tlab"
    path.write_bytes(b"old")
    monkeypatch.setattr(store._Writer, "events", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save(saved[0], path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def damaged(path, tmp_path, change):
    copy = tmp_path / "damaged.tlab"
    copy.write_bytes(path.read_bytes())
    with sqlite3.connect(copy) as db:
        change(db)
    db.close()
    return copy


def test_a_missing_or_foreign_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"there is no file .*gone\.tlab"):
        store.load(tmp_path / "gone.tlab")
    other = tmp_path / "other.tlab"
    other.write_bytes(pickle.dumps({"a": 1}) * 100)
    with pytest.raises(TraceError, match="is no trace"):
        store.load(other)


def test_a_newer_form_is_refused_with_advice(saved, tmp_path):
    change = "UPDATE meta SET value='99' WHERE key='form'"
    copy = damaged(saved[1], tmp_path, lambda db: db.execute(change))
    with pytest.raises(TraceError, match="is of form 99") as caught:
        store.load(copy)
    assert caught.value.help == "update tinylab"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END",
        "DELETE FROM meta",
        "DROP TABLE passes",
        "UPDATE meta SET value='[]' WHERE key='record'",
        "UPDATE passes SET data=x'00'",
        "UPDATE kernels SET data=x'789c'",
        "UPDATE rules SET data='['",
    ],
)
def test_a_damaged_trace_is_refused(saved, tmp_path, statement):
    copy = damaged(saved[1], tmp_path, lambda db: db.execute(statement))
    with pytest.raises(TraceError):
        store.load(copy)


def test_damage_in_what_is_read_later_is_told_then(saved, tmp_path):
    copy = damaged(saved[1], tmp_path, lambda db: db.execute("UPDATE passes SET blocks=x'0709'"))
    read = store.load(copy)
    with pytest.raises(TraceError):
        next(p for p in read.passes if p.count).columns()


def test_opening_a_trace_runs_nothing_of_it(saved, tmp_path, monkeypatch):
    """Text that would do harm if it were evaluated, in every place that holds text."""

    def poison(db):
        text = "__import__('os').system('touch /tmp/tinylab-poison')"
        db.execute("UPDATE texts SET text=?", (text,))
        db.execute("UPDATE rules SET data=?", (json.dumps([text, text, text, text, 1]),))

    copy = damaged(saved[1], tmp_path, poison)
    events = []
    sys.addaudithook(lambda name, args: events.append(name) if listening else None)
    listening = True
    read = store.load(copy).read_all()
    listening = False
    assert read.rules[0].name.startswith("__import__")
    assert not {"exec", "compile", "import", "os.system", "pickle.find_class"} & set(events)


def test_the_compiler_is_not_needed_to_read_a_trace(saved):
    code = (
        "import sys\n"
        "from tinylab.trace import store\n"
        f"read = store.load({str(saved[1])!r}).read_all()\n"
        "assert read.passes\n"
        "late = [m for m in sys.modules if m.startswith(('tinylab.codegen', 'tinylab.engine', "
        "'tinylab.schedule', 'tinylab.tensor', 'tinylab.device', 'llvmlite', 'numpy'))]\n"
        "assert not late, late\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("where", "what"),
    [("", "is a folder"), ("no/r.tlab", "there is no folder .*no to write r.tlab to")],
)
def test_what_cannot_be_written_is_told_in_a_sentence(saved, tmp_path, where, what):
    with pytest.raises(TraceError, match=what) as caught:
        store.save(saved[0], tmp_path / where)
    assert "\n" not in caught.value.message
    assert list(tmp_path.iterdir()) == []

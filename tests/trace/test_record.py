import gc
import threading
import weakref

import pytest

import tinylab
from tests.trace.programs import X, chain, pm_tidy, recorded_attention, variable
from tinylab.errors import CaptureError, RewriteError
from tinylab.trace import events
from tinylab.trace.record import Record, active, record, wants
from tinylab.uop import rewrite
from tinylab.uop.ops import Ops, Pass, PatternMatcher, Rule, UOp, UPat, graph_rewrite


def test_a_pass_is_recorded_with_its_matches():
    n = variable()
    with record("r") as rec:
        after = graph_rewrite(((n + 0) * 1).sink(), pm_tidy, name="tidy")
    (found,) = rec.passes
    assert (found.name, found.count, found.bottom_up) == ("tidy", 2, False)
    assert found.place[0] == __file__
    assert [rec.rules[m.rule].name for m in found.matches] == ["add_zero", "mul_one"]
    assert rec.nodes.head(found.root_after).op is Ops.SINK
    assert after is n.sink()
    assert found.changed
    assert found.elapsed_ns >= sum(m.elapsed_ns for m in found.matches) > 0


def test_each_block_has_a_record_of_its_own():
    asked = record("twice")
    with asked as first:
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="tidy")
    again = pytest.raises(CaptureError, match='the record "twice" was entered before')
    with again as caught, asked:
        pass
    assert "tinylab.record() for each block" in caught.value.help
    assert (len(first.passes), active()) == (1, [])

    @record("decorated")
    def work():
        return [rec.name for rec in active()]

    assert [work(), work()] == [["decorated"], ["decorated"]]


def test_nothing_listens_before_and_after():
    with record() as rec:
        assert rewrite.listeners == active() == [rec]
    assert rewrite.listeners == active() == []
    assert not events.listening()


def test_the_same_uop_has_the_same_id_in_every_pass_also_when_made_again():
    with record() as rec:
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="one")
        gc.collect()
        rec.nodes.forget_uops()
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="two")
    one, two = rec.passes
    assert (one.root_before, one.root_after) == (two.root_before, two.root_after)
    assert one.matches[0].before == two.matches[0].before


def test_equal_numbers_of_different_types_are_different_nodes():
    with record() as rec:
        ids = [rec.nodes.add(UOp.const(c)) for c in (1, 1.0, True, 0.0, -0.0)]
    assert len(set(ids)) == 5


def test_references_are_dropped_when_the_record_stops():
    with record() as rec:
        root = chain(60)
        graph_rewrite(root, pm_tidy, name="tidy")
        mark = weakref.ref(root)
        del root
    gc.collect()
    assert mark() is None
    assert rec.passes[0].count == 40


def test_a_pass_without_a_table_has_no_matches():
    shown = Pass("double", run=lambda root, ctx: root.replace(src=(root.src[0] + 1,)))
    with record() as rec:
        shown(variable().sink())
    assert (rec.passes[0].count, rec.passes[0].changed) == (0, True)


def test_passes_inside_rules_belong_to_the_pass_around_them():
    def inner(x: UOp) -> UOp:
        return graph_rewrite(x.sink(), pm_tidy, name="inner").src[0]

    outer = PatternMatcher([(UPat(Ops.SQRT, src=(X,)), lambda x: inner(x))])
    with record() as rec:
        graph_rewrite((variable() + 0).sqrt().sink(), outer, name="outer")
    assert [(p.name, p.parent) for p in rec.passes] == [("outer", None), ("inner", 0)]


def test_a_rule_that_raises_is_marked():
    def fail(x: UOp) -> UOp:
        raise ValueError("no such luck")

    table = pm_tidy + PatternMatcher(
        [Rule("fail", "sqrt -> error", UPat(Ops.SQRT, src=(X,)), fail)]
    )
    rec = Record().start()
    with pytest.raises(ValueError, match="luck") as caught:
        graph_rewrite((variable() + 0).sqrt().sink(), table, name="breaks")
    rec.stop(caught.value)
    assert rec.failed_pass is rec.passes[0]
    failed = rec.passes[0]
    assert (failed.root_after, failed.count) == (None, 1)
    assert rec.rules[failed.failed_rule].name == "fail"
    assert failed.failed_node == rec.nodes.add(variable().sqrt())
    assert rec.error_facts() == {
        "type": "ValueError",
        "message": "no such luck",
        "pass_id": 0,
        "match": 1,
    }


def test_of_passes_in_passes_each_knows_its_own_rule_that_raised():
    def fail(x: UOp) -> UOp:
        raise ValueError("deep")

    deep = PatternMatcher([Rule("deep", "", UPat(Ops.EXP2, src=(X,)), fail)])

    def nest(x: UOp) -> UOp:
        return graph_rewrite(x.exp2().sink(), deep, name="inner")

    outer = PatternMatcher([Rule("nest", "", UPat(Ops.SQRT, src=(X,)), nest)])
    rec = Record().start()
    with pytest.raises(ValueError, match="deep") as caught:
        graph_rewrite(variable().sqrt().sink(), outer, name="outer")
    rec.stop(caught.value)
    first, second = rec.passes
    assert [rec.rules[p.failed_rule].name for p in (first, second)] == ["nest", "deep"]
    assert rec.nodes.head(first.failed_node).op is Ops.SQRT
    assert rec.nodes.head(second.failed_node).op is Ops.EXP2
    assert rec.failed_pass is second


def test_an_error_that_was_caught_is_no_error_of_the_cell():
    table = PatternMatcher([(UPat(Ops.SQRT, src=(X,)), lambda x: x.nonsense)])
    with record() as rec, pytest.raises(AttributeError):
        graph_rewrite(variable().sqrt().sink(), table, name="breaks")
    assert rec.passes[0].error.startswith("AttributeError")
    assert rec.error_facts() is None
    assert rec.failed_pass is None


def test_an_error_wrapped_in_another_still_leads_to_its_pass():
    def endless(x: UOp) -> UOp:
        return x.sqrt().sqrt()

    table = PatternMatcher([(UPat(Ops.SQRT, src=(X,)), endless)])
    rec = Record().start()
    try:
        try:
            graph_rewrite(variable().sqrt().sink(), table, bottom_up=True, name="endless")
        except RewriteError as inner:
            raise RuntimeError("outer") from inner
    except RuntimeError as outer:
        rec.stop(outer)
    assert rec.failed_pass.name == "endless"


def test_an_interrupt_keeps_what_was_recorded():
    def stop(x: UOp) -> UOp:
        raise KeyboardInterrupt

    table = pm_tidy + PatternMatcher([(UPat(Ops.SQRT, src=(X,)), stop)])
    rec = Record()
    with pytest.raises(KeyboardInterrupt):
        run_recorded(rec, table)
    assert [(p.name, p.count) for p in rec.passes] == [("done", 1), ("stopped", 1)]
    assert active() == []


def run_recorded(rec: Record, table: PatternMatcher) -> None:
    rec.start()
    try:
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="done")
        graph_rewrite((variable() + 0).sqrt().sink(), table, name="stopped")
    finally:
        rec.stop()


def test_stopping_encodes_passes_that_are_still_open():
    rec = Record().start()
    matches = rec.begin_pass("open", ("f", 1), variable().sink(), False)
    matches.append((pm_tidy.rules[0], variable() + 0, variable(), 10))
    rec.stop(KeyboardInterrupt())
    assert rec.passes[0].count == 1
    assert rec.passes[0].matches[0].elapsed_ns == 10


def test_each_record_meets_a_key_once():
    assert not wants("key")
    with record() as outer:
        assert wants("key")
        with record() as inner:
            assert wants("key")  # the inner one has not met it
            assert not wants("key")
        assert not wants("key")
        assert outer._met == inner._met == {"key"}


def test_two_records_hear_the_same():
    with record() as a, record() as b:
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="both")
    assert [m[1:3] for m in a.passes[0].matches] == [m[1:3] for m in b.passes[0].matches]


def test_runs_go_to_the_kernel_of_each_record_that_listens():
    from tinylab import Context, Tensor

    def kernels(size: int) -> None:
        (Tensor.empty(size) + 1).realize()

    with Context(DEV="NULL"), record() as outer:
        kernels(16)
        with record() as inner:
            kernels(32)  # its row is 1 in one record and 0 in the other
            kernels(32)
        kernels(16)
    assert [len(k.runs_ns) for k in inner.kernels] == [2]
    assert [len(k.runs_ns) for k in outer.kernels] == [2, 2]
    names = {k.name for k in outer.kernels}
    for rec in (outer, inner):
        for event in rec.events:
            if event.kind == "run":
                found = rec.kernel_of(event)
                assert found is None or found.name == event.name
                assert found is not None or rec is inner
    assert len(names) == 2


def test_recording_what_is_inside_a_pass_is_no_part_of_its_time():
    def nested(x: UOp) -> UOp:
        graph_rewrite(chain(3000), pm_tidy, name="inner")
        return x.exp2()

    outer = PatternMatcher([(UPat(Ops.SQRT, src=(X,)), lambda x: nested(x))])
    with record() as rec:
        graph_rewrite(variable().sqrt().sink(), outer, name="outer")
    first, second = rec.passes
    own = rec._own.spent_ns
    assert own > 0
    assert second.elapsed_ns < first.elapsed_ns
    assert first.elapsed_ns <= rec.end_ns - rec.start_ns - own


def test_a_quiet_thread_is_not_recorded():
    def work():
        with events.quietly():
            graph_rewrite((variable() + 0).sink(), pm_tidy, name="viewer")

    with record() as rec:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert rec.passes == []


def test_threads_do_not_mix_their_passes():
    def work():
        for _ in range(20):
            graph_rewrite(chain(30), pm_tidy, name="tidy")

    with record() as rec:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(rec.passes) == 80
    assert all(p.parent is None and p.count == 20 for p in rec.passes)
    assert len({(p.root_before, p.root_after) for p in rec.passes}) == 1


def test_kernels_hold_their_stage_and_their_runs():
    rec = recorded_attention()
    assert {p.stage for p in rec.passes} == {"tensor graph", "schedule", "kernel"}
    assert all((p.kernel is not None) == (p.stage == "kernel") for p in rec.passes)
    for kernel in rec.kernels:
        assert kernel.program is not None
        assert kernel.ast_id is not None
        assert kernel.reason
        assert len(kernel.runs_ns) == 1
    lowered = {k.id for k in rec.kernels if not k.cached}
    assert {p.kernel for p in rec.passes if p.kernel is not None} == lowered


def test_a_second_record_shows_as_much_as_the_first():
    first, second = recorded_attention(), recorded_attention()
    assert [(p.name, p.count) for p in first.passes] == [(p.name, p.count) for p in second.passes]
    assert len(first.kernels) == len(second.kernels)


def test_a_record_knows_the_text_around_it():
    with record() as rec:
        pass
    assert rec.cell.filename == __file__
    assert "def test_a_record_knows_the_text_around_it" in rec.cell.text


def test_events_beyond_a_limit_are_counted(monkeypatch):
    monkeypatch.setattr("tinylab.trace.record.EVENT_LIMIT", 3)
    with record() as rec:
        for _ in range(5):
            events.point("mark", "m")
    assert (len(rec.events), rec.events_dropped) == (3, 2)


def test_a_loop_over_one_body_is_recorded_once():
    from tinylab import Context, Tensor

    with Context(DEV="NULL"), record() as rec:
        x = Tensor.empty(8)
        for _ in range(30):
            x = (x + 1).realize()
    assert [p.name for p in rec.passes].count("callify") <= 2
    assert sum(len(k.runs_ns) for k in rec.kernels) == 30
    assert len(rec.nodes) < 400


def test_a_kernel_that_was_interrupted_says_so(monkeypatch):
    def pressed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("tinylab.engine.compile.to_program", pressed)
    with pytest.raises(KeyboardInterrupt), record() as rec:
        (tinylab.Tensor.empty(4, 3, device="NULL") * 1.25).realize()
    assert [k.error for k in rec.kernels] == ["interrupted"]

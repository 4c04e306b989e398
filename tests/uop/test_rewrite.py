"""graph_rewrite in its four orders, to the fixed point and once; substitution; the listener."""

from __future__ import annotations

from typing import Any

import pytest

from tinylab.dtype import dtypes
from tinylab.errors import ContractError
from tinylab.helpers.context import Context
from tinylab.uop.ops import (
    BottomUpGate,
    Ops,
    Pass,
    PatternMatcher,
    Rule,
    UOp,
    UPat,
    graph_rewrite,
    listeners,
    rebuild,
    run_passes,
)

a, b, c = (UOp.variable(n, 0, 9) for n in "abc")
three = UOp.const(3)
EVERY = set(Ops)


def watcher() -> tuple[PatternMatcher, list[UOp]]:
    """A table that sees each node and declines."""
    seen: list[UOp] = []
    return PatternMatcher([(UPat(EVERY, name="u"), lambda u: seen.append(u))]), seen


def becomes(old: UOp, new: UOp) -> PatternMatcher:
    return PatternMatcher([(UPat(EVERY, name="u"), lambda u: new if u is old else None)])


ROOT = ((a + b) * three).sink()
ORDERS = {
    "sources first": ({}, [a, b, a + b, three, (a + b) * three, ROOT]),
    "root first": ({"bottom_up": True}, [ROOT, (a + b) * three, a + b, a, b, three]),
    "sources first, once": ({"walk": True}, [a, b, a + b, three, (a + b) * three, ROOT]),
    "root first, once": ({"walk": True, "bottom_up": True}, [ROOT, (a + b) * three, a + b, a, b, three]),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_order(name: str) -> None:
    options, expected = ORDERS[name]
    matcher, seen = watcher()
    assert graph_rewrite(ROOT, matcher, **options) is ROOT
    assert [u for u in seen if u in expected] == expected


@pytest.mark.parametrize("options", [o for o, _ in ORDERS.values()], ids=list(ORDERS))
def test_each_distinct_node_is_handled_once_and_its_result_shared(options: dict[str, Any]) -> None:
    calls: list[UOp] = []

    def count(u: UOp) -> UOp | None:
        calls.append(u)
        return c if u is a + b else None

    shared = a + b
    root = (shared * shared + shared).sink()
    found = graph_rewrite(root, PatternMatcher([(UPat(Ops.ADD, name="u"), count)]), **options)
    assert found is (c * c + c).sink()
    assert calls.count(shared) == 1


def test_a_result_is_rewritten_fully() -> None:
    """x + 0 inside the result of another rule goes in the same pass."""
    table = becomes(a, (b + 0) * 1) + PatternMatcher(
        [
            (UPat(Ops.ADD, src=(UPat.var("x"), UPat.const(0))), lambda x: x),
            (UPat(Ops.MUL, src=(UPat.var("x"), UPat.const(1))), lambda x: x),
        ]
    )
    assert graph_rewrite((a + c).sink(), table) is (b + c).sink()
    assert graph_rewrite((a + c).sink(), table, bottom_up=True) is (b + c).sink()


def test_walk_does_not_revisit_results() -> None:
    table = becomes(a, b) + becomes(b, c)
    assert graph_rewrite(a.sink(), table) is c.sink()
    assert graph_rewrite(a.sink(), table, walk=True) is b.sink()
    assert graph_rewrite(a.sink(), table, walk=True, bottom_up=True) is b.sink()


def test_walk_root_first_does_not_visit_a_replaced_nodes_sources() -> None:
    matcher, seen = watcher()
    table = becomes(a + b, c) + matcher
    assert graph_rewrite((a + b).sink(), table, walk=True, bottom_up=True) is c.sink()
    assert a not in seen
    assert b not in seen


def test_root_first_tries_a_rebuilt_node_again() -> None:
    table = becomes(a, c) + becomes(c + b, three)
    assert graph_rewrite((a + b).sink(), table, bottom_up=True) is three.sink()
    assert graph_rewrite((a + b).sink(), table) is three.sink()


def test_both_tables_in_one_pass() -> None:
    """bpm on the way down, pm on the way up."""
    order: list[tuple[str, UOp]] = []
    down = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda u: order.append(("down", u)))])
    up = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda u: order.append(("up", u)))])
    root = (a + b) + c
    assert graph_rewrite(root, up, bpm=down) is root
    assert order == [("down", root), ("down", a + b), ("up", a + b), ("up", root)]


def test_both_tables_replace() -> None:
    assert graph_rewrite((a + b).sink(), becomes(c + b, three), bpm=becomes(a, c)) is three.sink()


def test_gate_stops_the_way_down() -> None:
    def stop(u: UOp) -> None:
        raise BottomUpGate

    table = PatternMatcher([(UPat(Ops.MUL, name="u"), stop)]) + becomes(a, c)
    root = (a * b + a).sink()
    assert graph_rewrite(root, table, bottom_up=True) is (a * b + c).sink()


def test_bodies_of_calls_stay_unless_entered() -> None:
    x = UOp.param(0, dtypes.int32, (4,))
    buffer, other = (UOp.new_buffer("NULL", 4, dtypes.int32, num=n) for n in (901, 902))
    two, four = UOp.const(2, dtypes.int32), UOp.const(4, dtypes.int32)
    call = (x + two).sink().call(buffer)
    table = becomes(two, four) + becomes(buffer, other)
    outside = graph_rewrite(call, table)
    assert outside.src[0] is call.src[0]
    assert outside.src[1] is other
    inside = graph_rewrite(call, table, enter_calls=True)
    assert inside.src[0] is (x + four).sink()


def test_ctx_is_passed_on() -> None:
    table = PatternMatcher([(UPat(EVERY, name="u"), lambda ctx, u: ctx.get(u))])
    assert graph_rewrite((a + b).sink(), table, ctx={a: c}) is (c + b).sink()


def test_dtypes_follow_the_sources() -> None:
    wide = UOp.variable("w", 0, 9, dtypes.int64)
    x = UOp.variable("x", 0, 9, dtypes.int32)
    found = graph_rewrite((x + x).sink(), becomes(x, wide))
    assert found.src[0].dtype is dtypes.int64
    assert rebuild(x + x, (wide, wide)) is wide + wide


def test_a_node_put_where_its_source_is_rewritten_is_no_loop() -> None:
    """What one node was rebuilt to may be met again as another node of the graph."""
    one = UOp.const(1)
    x = UOp(Ops.ADD, src=(UOp(Ops.MUL, src=(one, one)), one))
    y = UOp(Ops.ADD, src=(one, one))
    assert graph_rewrite(UOp(Ops.CMPLT, src=(x, y)), _folding()).arg is False


def _folding() -> PatternMatcher:
    from tinylab.uop.symbolic import symbolic_simple

    return symbolic_simple


# *** endless rules


def test_a_growing_stack_ends_at_its_limit() -> None:
    """Each node is replaced by one over two new ones: wide, and no chain of one node."""

    def grow(u: UOp) -> UOp | None:
        n = u.arg.slot
        return None if n > 1 << 20 else _leaf(2 * n + 1) * three + _leaf(2 * n + 2)

    pm = PatternMatcher([(UPat(Ops.PARAM, name="u"), grow)])
    with Context(REWRITE_STACK_LIMIT=20), pytest.raises(RuntimeError, match=r"stack too big.*grow"):
        graph_rewrite(_leaf(0), pm)
    few = PatternMatcher(
        [(UPat(Ops.PARAM, name="u"), lambda u: _leaf(9) if u.arg.slot < 9 else None)]
    )
    with Context(REWRITE_STACK_LIMIT=20):
        assert graph_rewrite(_leaf(3) + three, few) is _leaf(9) + three


def _leaf(n: int) -> UOp:
    return UOp.param(n, dtypes.int32, ())


def test_two_rules_that_chase_each_other_are_named() -> None:
    table = PatternMatcher(
        [
            Rule("there", "a -> b", UPat(EVERY, name="u"), lambda u: b if u is a else None),
            Rule("back", "b -> a", UPat(EVERY, name="u"), lambda u: a if u is b else None),
        ]
    )
    for options in ({}, {"bottom_up": True}):
        with pytest.raises(RuntimeError, match="infinite loop") as error:
            graph_rewrite((a + c).sink(), table, **options)
        assert "there" in str(error.value)
        assert "back" in str(error.value)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_a_rule_that_grows_without_end(bottom_up: bool) -> None:
    table = PatternMatcher(
        [Rule("grow", "c -> c+1", UPat(Ops.CONST, name="u"), lambda u: UOp.const(u.arg + 1))]
    )
    with pytest.raises(RuntimeError, match=r"infinite loop.*grow"):
        graph_rewrite(UOp.const(0).sink(), table, bottom_up=bottom_up)


def test_a_result_that_holds_the_matched_node() -> None:
    table = PatternMatcher([Rule("wrap", "a -> a+1", UPat(EVERY, name="u"), lambda u: u + 1 if u is a else None)])  # fmt: skip
    with pytest.raises(RuntimeError, match="infinite loop"):
        graph_rewrite(a.sink(), table)
    assert graph_rewrite(a.sink(), table, walk=True) is (a + 1).sink()


def test_a_wide_graph_of_shared_nodes_is_linear() -> None:
    """2**60 paths, 60 nodes."""
    node, calls = a, [0]
    for _ in range(60):
        node = UOp(Ops.MAX, dtypes.weakint, (node + 1, node))

    def count(u: UOp) -> None:
        calls[0] += 1

    graph_rewrite(node, PatternMatcher([(UPat(EVERY, name="u"), count)]))
    assert calls[0] <= 130


# *** substitution


def test_substitute() -> None:
    assert (a + b).substitute({a: c}) is c + b
    assert (a + b).substitute({}) is a + b
    assert (a + b).substitute({a + b: c, a: three}) is c


def test_substitute_is_applied_to_what_was_put_in() -> None:
    assert (a + 1).substitute({a: b, b: c}) is c + 1
    with pytest.raises(RuntimeError, match="infinite loop"):
        (a + b).substitute({a: b, b: a})


def test_substitute_once_can_swap() -> None:
    assert (a + b).substitute({a: b, b: a}, walk=True) is b + a


def test_substitute_leaves_bodies_alone() -> None:
    param = UOp.param(0, dtypes.int32, (4,))
    other = UOp.param(1, dtypes.int32, (4,))
    call = (param + 1).sink().call(UOp.new_buffer("NULL", 4, dtypes.int32))
    assert call.substitute({param: other}) is call
    assert call.substitute({param: other}, enter_calls=True).src[0] is (other + 1).sink()


# *** passes and listeners


class Recorder:
    def __init__(self) -> None:
        self.passes: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []

    def begin_pass(
        self, name: str, place: Any, root: UOp, bottom_up: bool, *more: bool
    ) -> list[Any]:
        entry = {"name": name, "place": place, "root": root, "bottom_up": bottom_up, "matches": []}
        self.passes.append(entry)
        return entry["matches"]  # type: ignore[no-any-return]

    def end_pass(self, matches: list[Any], root_after: UOp | None, error: Any) -> None:
        entry = next(p for p in self.passes if p["matches"] is matches)
        entry["after"], entry["error"] = root_after, error


@pytest.fixture
def recorder() -> Any:
    heard = Recorder()
    listeners.append(heard)
    yield heard
    listeners.remove(heard)


def test_a_listener_hears_each_match(recorder: Recorder) -> None:
    rule = Rule(
        "drop_zero", "x + 0 -> x", UPat(Ops.ADD, src=(UPat.var("x"), UPat.const(0))), lambda x: x
    )
    root = (a + 0 + b).sink()
    after = graph_rewrite(root, PatternMatcher([rule]), name="tidy")
    (entry,) = recorder.passes
    assert (entry["name"], entry["root"], entry["after"], entry["error"]) == (
        "tidy",
        root,
        after,
        None,
    )
    assert entry["place"][0] == __file__
    ((fired, before, result, elapsed_ns),) = entry["matches"]
    assert (fired, before, result) == (rule, a + 0, a)
    assert elapsed_ns > 0


def test_a_listener_hears_of_an_error(recorder: Recorder) -> None:
    def fail(u: UOp) -> UOp:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        graph_rewrite((a + b).sink(), PatternMatcher([(UPat(Ops.ADD, name="u"), fail)]))
    assert recorder.passes[0]["after"] is None
    assert isinstance(recorder.passes[0]["error"], ZeroDivisionError)


def test_listening_changes_nothing(recorder: Recorder) -> None:
    table = becomes(a, b + 0) + _folding()
    heard = graph_rewrite((a * 2 + c).sink(), table)
    listeners.remove(recorder)
    try:
        assert graph_rewrite((a * 2 + c).sink(), table) is heard
    finally:
        listeners.append(recorder)


def test_passes_run_in_order() -> None:
    passes = (Pass("first", becomes(a, b)), Pass("second", becomes(b, c), why="first makes b of a"))
    assert run_passes((a + 1).sink(), passes) is (c + 1).sink()
    assert run_passes((a + 1).sink(), passes[::-1]) is (b + 1).sink()


def test_a_pass_that_is_a_function(recorder: Recorder) -> None:
    done = Pass("cut", run=lambda root, ctx: root.src[0])
    assert run_passes((a + 1).sink(), (done,)) is a + 1
    assert recorder.passes[0]["name"] == "cut"
    assert recorder.passes[0]["matches"] == []


def test_a_pass_is_a_table_or_a_function() -> None:
    table = PatternMatcher([])
    with pytest.raises(ContractError, match=r"pass 'both' has both of a rule table and a function"):
        Pass("both", table, run=lambda root, context: root)
    with pytest.raises(ContractError, match="pass 'none' has neither"):
        Pass("none")

"""The graph after match k, against the same replacements made in UOps."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings, strategies as st

from tests.trace.programs import chain, pm_tidy, recorded_attention, variable
from tinylab.trace.record import Record, record
from tinylab.trace.replay import Replay
from tinylab.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite
from tinylab.uop.rewrite import rebuild


class Kept(Record):
    """A record that keeps its matches, as the reference needs UOps."""

    def __init__(self):
        super().__init__()
        self.kept = {}
        self.roots = {}

    def begin_pass(self, name, place, root, *order):
        matches = super().begin_pass(name, place, root, *order)
        if matches.begun is not None:
            self.roots[matches.begun.id] = root
        return matches

    def end_pass(self, matches, root_after, error):
        if matches.begun is not None:
            self.kept[matches.begun.id] = list(matches)
        super().end_pass(matches, root_after, error)


def reference(root: UOp, replaced: dict[UOp, UOp], enter_calls: bool) -> UOp:
    """The root with replacements applied transitively, by plain recursion."""
    done: dict[UOp, UOp] = {}

    def visit(node: UOp, inside: frozenset[UOp]) -> UOp:
        if node in done or node in inside:
            return done.get(node, node)
        now = node
        while now in replaced and replaced[now] not in inside:
            now = replaced[now]
        while True:
            skip = 1 if now.op in (Ops.CALL, Ops.FUNCTION) and not enter_calls else 0
            below = [visit(s, inside | {node}) for s in now.src[skip:]]
            made = rebuild(now, (*now.src[:skip], *below))
            if made is now or made not in replaced:
                break
            now = made
            while now in replaced:
                now = replaced[now]
        done[node] = made
        return made

    return visit(root, frozenset())


def check_all_steps(rec: Kept) -> int:
    """Every step of every pass is what the reference says; how many there were."""
    steps = 0
    for shown in rec.passes:
        replay = Replay(rec.nodes, shown)
        if shown.root_after is not None and shown.count:
            assert replay.step(shown.count).root == shown.root_after, shown.name
        if shown.walk:
            continue
        matches = rec.kept[shown.id]
        for k in range(shown.count + 1):
            replaced = {before: after for _, before, after, _ in matches[:k]}
            expected = reference(rec.roots[shown.id], replaced, shown.enter_calls)
            assert replay.root(k) == rec.nodes.add(expected), (shown.name, k)
            steps += 1
    return steps


@pytest.mark.parametrize("bottom_up", [False, True])
def test_every_step_of_a_chain(bottom_up):
    rec = Kept().start()
    graph_rewrite(chain(21), pm_tidy, bottom_up=bottom_up, name="tidy")
    rec.stop()
    assert check_all_steps(rec) == 15


def test_every_step_of_a_real_program():
    rec = Kept().start()
    try:
        recorded_attention()
    finally:
        rec.stop()
    assert {p.bottom_up for p in rec.passes if p.count} == {False, True}
    assert check_all_steps(rec) > 200


@pytest.mark.parametrize("bottom_up", [False, True])
def test_a_walk_looks_at_results_once(bottom_up):
    a, b = variable("a"), variable("b")
    swap = {a: b, b: a}
    table = PatternMatcher([(UPat({Ops.BUFFER, Ops.PARAM}, name="x"), lambda x: swap.get(x))])
    with record() as rec:
        after = graph_rewrite(
            (a + b * 2).sink(), table, bottom_up=bottom_up, walk=True, name="swap"
        )
    shown = rec.passes[0]
    assert after is (b + a * 2).sink()
    assert Replay(rec.nodes, shown).step(2).root == shown.root_after


def test_a_result_that_holds_what_it_replaced():
    table = PatternMatcher([(UPat(Ops.SQRT, name="x"), lambda x: x + 1)])
    with record() as rec:
        graph_rewrite(variable().sqrt().sink(), table, bottom_up=True, walk=True, name="grow")
    shown = rec.passes[0]
    assert Replay(rec.nodes, shown).step(1).root == shown.root_after


def test_steps_out_of_range_are_refused():
    with record() as rec:
        graph_rewrite((variable() + 0).sink(), pm_tidy, name="tidy")
    replay = Replay(rec.nodes, rec.passes[0])
    for k in (-1, 2):
        with pytest.raises(IndexError, match=f"step {k} of a pass with 1 matches"):
            replay.step(k)


@st.composite
def expressions(draw):
    nodes = [variable("a"), variable("b"), UOp.const(0), UOp.const(1)]
    for _ in range(draw(st.integers(1, 25))):
        x, y = (nodes[draw(st.integers(0, len(nodes) - 1))] for _ in range(2))
        nodes.append(draw(st.sampled_from([operator.add, operator.mul]))(x, y))
    return UOp.sink(*nodes[-3:])


@settings(max_examples=60)
@given(expressions(), st.booleans())
def test_every_step_of_any_graph(root, bottom_up):
    rec = Kept().start()
    try:
        graph_rewrite(root, pm_tidy, bottom_up=bottom_up, name="tidy")
    finally:
        rec.stop()
    check_all_steps(rec)


@settings(max_examples=60)
@given(expressions(), st.booleans(), st.data())
def test_what_a_match_changed_is_the_difference_of_two_graphs(root, bottom_up, data):
    """In any order of steps, each against a replay that was asked nothing before."""
    with record() as rec:
        graph_rewrite(root, pm_tidy, bottom_up=bottom_up, name="tidy")
    shown = rec.passes[0]
    replay = Replay(rec.nodes, shown)
    for k in data.draw(st.permutations(range(1, shown.count + 1))):
        fresh = Replay(rec.nodes, shown)
        before, after = fresh.step(k - 1), fresh.step(k)
        gone, added, image = replay.change(k)
        assert (set(gone), set(added)) == (
            set(before.order) - set(after.order),
            set(after.order) - set(before.order),
        )
        assert image == before.image
        assert replay.step(k).order == after.order
        for changed in (gone, added):
            place = {node: i for i, node in enumerate(changed)}
            for node in changed:
                assert all(place.get(s, -1) < place[node] for s in rec.nodes.src(node))


def test_a_step_far_into_a_large_pass_looks_only_at_where_the_pass_is_at_work():
    """Counted, not timed: nodes looked at for one step in the middle of thousands of matches."""
    with record() as rec:
        graph_rewrite(chain(3000), pm_tidy, name="tidy")
    shown = rec.passes[0]
    replay = Replay(rec.nodes, shown)
    replay.root(0)  # works out when each node changes
    opened = []
    rebuild = replay._rebuild
    replay._rebuild = lambda node, *more: opened.append(node) or rebuild(node, *more)
    replay.root(shown.count // 2)
    assert rec.nodes.size(shown.root_before) > 4000
    assert len(opened) <= 3000, "a chain is rebuilt from the match to its root, and no more"
    del opened[:]
    replay.root(shown.count - 1)
    assert len(opened) <= 10

import json

import pytest

from tests.trace.programs import chain, pm_tidy, recorded_attention, variable
from tinylab.errors import LabError
from tinylab.lab import steps
from tinylab.lab.desk import Desk
from tinylab.trace.record import record
from tinylab.uop.ops import Ops, PatternMatcher, Rule, UPat, graph_rewrite

ONE_MB = 1_000_000


@pytest.fixture(scope="module")
def desk():
    return Desk(recorded_attention())


def graph(known, step):
    """The ids under a step's root, by what a front end knows."""
    seen, stack = set(), [step["root"]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(known[node]["src"])
    return seen


def test_differences_add_up_to_the_graphs(desk):
    """A front end that holds nodes by id, and asks for differences, sees every graph whole."""
    for shown in desk.record.passes:
        known, base = {}, None
        for k in range(shown.count + 1):
            step = desk.answer("step", {"pass": shown.id, "k": k, "from": base})
            assert step["full"] == (base is None)
            known.update({n["id"]: n for n in step["nodes"]})
            full = desk.answer("step", {"pass": shown.id, "k": k})
            assert graph(known, step) == {n["id"] for n in full["nodes"]}
            assert all(known[n["id"]] == n for n in full["nodes"])
            base = {"pass": shown.id, "k": k}


def test_a_step_says_what_its_match_did(desk):
    for shown in desk.record.passes:
        for k in range(1, shown.count + 1):
            step = desk.answer("step", {"pass": shown.id, "k": k})
            before = desk.answer("step", {"pass": shown.id, "k": k - 1})
            had, has = ({n["id"] for n in s["nodes"]} for s in (before, step))
            assert set(step["added"]) == has - had
            assert {n["id"] for n in step["gone"]} == had - has
            assert step["rule"]["name"]
            assert step["rule"]["line"] > 0
            for old, new in step["ancestors"]:
                assert old in had - has
                assert new in has


def test_the_nodes_of_a_match_are_in_the_graphs_beside_it(desk):
    for shown in desk.record.passes:
        for k in range(1, shown.count + 1):
            step = desk.answer("step", {"pass": shown.id, "k": k})
            earlier = desk.answer("step", {"pass": shown.id, "k": k - 1})
            assert step["before"] in {n["id"] for n in earlier["nodes"]}, (shown.name, k)
            assert step["after"] in {n["id"] for n in step["nodes"]}, (shown.name, k)


def test_jumping_about_gives_the_same_as_walking(desk):
    shown = max(desk.record.passes, key=lambda p: p.count)
    walked = [desk.answer("step", {"pass": shown.id, "k": k}) for k in range(shown.count + 1)]
    fresh = Desk(desk.record)
    for k in (shown.count, 0, shown.count // 2, 1, shown.count - 1):
        assert fresh.answer("step", {"pass": shown.id, "k": k}) == walked[k]


def test_a_step_beyond_the_pass_is_its_last(desk):
    shown = max(desk.record.passes, key=lambda p: p.count)
    assert desk.answer("step", {"pass": shown.id, "k": 10**6})["k"] == shown.count
    assert desk.answer("step", {"pass": shown.id, "k": -5})["k"] == 0


def test_unknown_passes_and_missing_arguments_are_named(desk):
    with pytest.raises(LabError, match="there is no pass 4711: the record has"):
        desk.answer("step", {"pass": 4711, "k": 0})
    with pytest.raises(LabError, match="step needs 'k'"):
        desk.answer("step", {"pass": 0})
    with pytest.raises(LabError, match="nobody answers 'stepp'") as caught:
        desk.answer("stepp", {})
    assert caught.value.help == "did you mean step?"


def test_text_names_nodes_alike_from_step_to_step(desk):
    shown = max(desk.record.passes, key=lambda p: p.count)
    for k in range(1, shown.count + 1):
        before = desk.answer("text", {"pass": shown.id, "k": k - 1})
        text = desk.answer("text", {"pass": shown.id, "k": k})
        old, new = ([line["text"] for line in t["lines"]] for t in (before, text))
        went = [d["text"] for d in text["diff"] if d["mark"] == "-"]
        came = [d["text"] for d in text["diff"] if d["mark"] == "+"]
        assert sorted(set(old) - set(new)) == sorted(set(went) - set(came))
        assert sorted(set(new) - set(old)) == sorted(set(came) - set(went))
        assert len(came) < len(new) or len(new) < 5


def test_the_first_step_has_no_difference(desk):
    assert desk.answer("text", {"pass": 0, "k": 0})["diff"] == []


def test_a_search_finds_ops_rules_and_labels(desk):
    hits = desk.answer("search", {"query": "reduce"})["hits"]
    assert any("REDUCE" in h["label"] for h in hits)
    rule = desk.steps.rule(desk.record.passes[0].matches[0].rule).name
    (hit, *_) = desk.answer("search", {"query": rule, "pass": 0})["hits"]
    assert (hit["pass"], hit["k"], hit["label"]) == (0, 1, rule)
    assert desk.answer("search", {"query": "  "}) == {"hits": [], "more": False}
    assert desk.answer("search", {"query": "no such thing"})["hits"] == []


def test_a_node_that_stands_in_many_passes_is_found_once_a_stage(desk):
    hits = desk.answer("search", {"query": "reduce"})["hits"]
    nodes = [h for h in hits if "passes" in h]
    info = {p.id: p for p in desk.record.passes}
    keys = [(info[h["pass"]].stage, info[h["pass"]].kernel, h["node"]) for h in nodes]
    assert len(set(keys)) == len(keys)
    assert max(h["passes"] for h in nodes) > 1
    for hit in nodes:
        graph = desk.steps.replay(hit["pass"]).step(hit["k"])
        assert hit["node"] in graph.order
    for number in {h["pass"] for h in nodes}:
        one = desk.answer("search", {"query": "reduce", "pass": number})["hits"]
        found = [h["node"] for h in one if "passes" in h]
        assert len(set(found)) == len(found)


def test_hits_of_equal_ops_are_told_apart(desk):
    hits = [h for h in desk.answer("search", {"query": "mul"})["hits"] if "passes" in h]
    of_stage: dict[tuple, list[str]] = {}
    for hit in hits:
        info = desk.record.passes[hit["pass"]]
        of_stage.setdefault((info.stage, info.kernel, hit["label"]), []).append(hit["detail"])
    assert max(len(found) for found in of_stage.values()) > 2
    for found in of_stage.values():
        assert len(set(found)) == len(found)
    hit = next(h for h in hits if h["label"] == "MUL")
    facts, shape = desk.nodes.facts(hit["node"]), desk.nodes.shape(hit["node"])
    assert hit["detail"].startswith(f"%{hit['node']} · {facts.dtype}")
    assert all(size in hit["detail"] for size in shape or [])
    for source in desk.nodes.table.src(hit["node"]):
        assert desk.nodes.label(source) in hit["detail"]


def test_every_hit_leads_to_a_pass_that_is_shown(desk):
    shown = {p["id"] for stage in desk.overview()["stages"] for p in stage["passes"]}
    assert len(shown) < len(desk.record.passes)  # else the test would say nothing
    for query in ("a", "e", "_"):
        hits = desk.answer("search", {"query": query})["hits"]
        assert hits
        assert {hit["pass"] for hit in hits} <= shown


def test_a_hit_of_a_rule_tells_its_law_or_the_node_that_it_made(desk):
    name = desk.steps.rule(desk.record.passes[0].matches[0].rule)
    (hit, *_) = desk.answer("search", {"query": name.name})["hits"]
    assert hit["detail"] == name.law
    (hit, *_) = desk.answer("search", {"query": name.name, "pass": 0})["hits"]
    assert hit["detail"].startswith("%")


def test_matches_of_a_rule_are_one_hit_of_a_pass_unless_that_pass_is_searched():
    with record() as rec:
        graph_rewrite(chain(30), pm_tidy, name="tidy")
        graph_rewrite(chain(30), pm_tidy, name="again")
    desk = Desk(rec)
    hits = desk.answer("search", {"query": "add_zero"})["hits"]
    assert [(h["pass"], h["matches"]) for h in hits] == [(0, 10), (1, 10)]
    one = desk.answer("search", {"query": "add_zero", "pass": 1})["hits"]
    assert len(one) == 10
    assert len({h["k"] for h in one}) == 10


def test_a_search_with_more_hits_than_a_page_says_so():
    with record() as rec:
        graph_rewrite(chain(700), pm_tidy, name="tidy")
    found = Desk(rec).answer("search", {"query": "a", "pass": 0})
    assert (len(found["hits"]), found["more"]) == (200, True)


def test_a_large_graph_comes_in_pages(monkeypatch):
    with record() as rec:
        graph_rewrite(chain(9000), pm_tidy, name="tidy")
    desk = Desk(rec)
    k = rec.passes[0].count // 2
    step = desk.answer("step", {"pass": 0, "k": k})
    sizes, nodes = [len(json.dumps(step))], list(step["nodes"])
    more = step["more"]
    assert more
    while more:
        args = {"kind": "nodes", "pass": 0, "k": k, "after": len(nodes)}
        page = desk.answer("more", args)
        nodes += page["nodes"]
        sizes.append(len(json.dumps(page)))
        more = page["more"]
    assert len({n["id"] for n in nodes}) == len(nodes) == step["count"]
    assert max(sizes) < ONE_MB
    text = desk.answer("text", {"pass": 0, "k": k})
    assert text["more"]
    assert len(json.dumps(text)) < ONE_MB
    rest = desk.answer("more", {"kind": "text", "pass": 0, "k": k, "after": steps.LINES_A_PAGE})
    assert rest["lines"][0]["text"] != text["lines"][0]["text"]


def test_everything_is_plain_data(desk):
    for ask, args in (
        ("overview", {}),
        ("first", {}),
        ("step", {"pass": 0, "k": 0}),
        ("text", {"pass": 0, "k": 0}),
        ("search", {"query": "a"}),
        ("lines", {"lines": [1]}),
        ("node", {"pass": 0, "node": desk.first()["root"]}),
        ("kernel", {"kernel": 0}),
    ):
        answer = desk.answer(ask, args)
        assert json.loads(json.dumps(answer)) == json.loads(json.dumps(answer, default=str))


def test_the_rewrite_that_failed_is_marked():
    def fail(x):
        raise ValueError("no such luck")

    table = pm_tidy + PatternMatcher(
        [Rule("fail", "sqrt -> error", UPat(Ops.SQRT, name="x"), fail)]
    )
    with pytest.raises(ValueError, match="luck"), record() as rec:
        graph_rewrite((variable() + 0).sqrt().sink(), table, name="breaks")
    desk = Desk(rec)
    page = desk.overview()
    assert (page["error"]["pass_id"], page["error"]["match"]) == (0, 1)
    assert page["stages"][0]["passes"][0]["failed"]
    assert (page["error"]["rule"], page["error"]["node"]) == (
        "fail",
        desk.first()["failed"]["node"],
    )
    step = desk.first()
    assert (step["pass"], step["k"]) == (0, 1)
    assert step["failed"]["message"] == "ValueError: no such luck"
    assert step["failed"]["rule"]["name"] == "fail"
    assert next(n["op"] for n in step["nodes"] if n["id"] == step["failed"]["node"]) == "SQRT"
    assert desk.answer("step", {"pass": 0, "k": 0})["failed"] is None


def test_an_interrupt_blames_no_rule():
    def stop(x):
        raise KeyboardInterrupt

    table = pm_tidy + PatternMatcher([Rule("innocent", "", UPat(Ops.SQRT, name="x"), stop)])
    with pytest.raises(KeyboardInterrupt), record() as rec:
        graph_rewrite((variable() + 0).sqrt().sink(), table, name="busy")
    desk = Desk(rec)
    error = desk.overview()["error"]
    assert (error["type"], error["pass_id"], error["match"]) == ("KeyboardInterrupt", 0, 1)
    assert (error["rule"], error["node"]) == (None, None)
    assert desk.first()["failed"] == {"message": "interrupted", "rule": None, "node": None}


def test_lines_that_only_moved_are_no_difference():
    old = ["%1 = A()", "%2 = B()", "%3 = ADD(%1, %2)", "%4 = SINK(%3)"]
    new = ["%2 = B()", "%1 = A()", "%5 = ADD(%2, %1)", "%4 = SINK(%5)"]
    found = [(line["mark"], line["text"]) for line in steps._difference(old, new)]
    assert sorted(found) == sorted([
        ("-", "%3 = ADD(%1, %2)"), ("-", "%4 = SINK(%3)"),
        ("+", "%5 = ADD(%2, %1)"), ("+", "%4 = SINK(%5)"),
        *[line for line in found if line[0] == ""],
    ])  # fmt: skip
    assert not {text for mark, text in found if mark} & {"%1 = A()", "%2 = B()"}
    assert steps._difference(old, [*old[1:2], *old[:1], *old[2:]]) == []


def test_a_step_shows_no_line_as_both_gone_and_new(desk):
    for shown in desk.record.passes:
        for k in range(1, min(shown.count, 20) + 1):
            diff = desk.answer("text", {"pass": shown.id, "k": k})["diff"]
            gone, new = ({d["text"] for d in diff if d["mark"] == m} for m in "-+")
            assert not gone & new, (shown.name, k)


@pytest.mark.parametrize(
    ("ask", "args", "what"),
    [
        ("step", {"pass": "x", "k": 0}, "pass is 'x', not a whole number"),
        ("step", {"pass": True, "k": 0}, "pass is True, not a whole number"),
        ("step", {"pass": 0, "k": 1.5}, "k is 1.5, not a whole number"),
        ("step", {"pass": 0, "k": 0, "from": 3}, "from is 3, not a place"),
        ("text", {"pass": 0, "k": 0, "after": "x"}, "after is 'x', not a whole number"),
        ("search", {"query": 5}, "query is 5, not a text"),
        ("lines", {"lines": 3}, "lines are 3, not a list of line numbers"),
        ("lines", {"lines": "12"}, "lines are '12', not a list of line numbers"),
        ("lines", {"lines": [1], "pass": 99999}, "there is no pass 99999"),
        ("node", {"pass": 0, "node": 10**9}, "there is no node 1000000000"),
        ("node", {"pass": 0, "node": None}, "node is None, not a whole number"),
        ("kernel", {"kernel": [1]}, r"kernel is \[1\], not a whole number"),
        ("kernel", [1], r"the arguments of kernel are \[1\], not a dict"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(desk, ask, args, what):
    with pytest.raises(LabError, match=what):
        desk.answer(ask, args)

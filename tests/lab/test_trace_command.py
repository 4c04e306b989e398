import json

import pytest

import tinylab
from tests.trace.programs import X, pm_tidy, recorded_attention, variable
from tinylab.lab import cli
from tinylab.lab.report import save
from tinylab.lab.search import wrappers
from tinylab.trace.record import record
from tinylab.uop.ops import Ops, PatternMatcher, Rule, UPat, graph_rewrite


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "attention.tlab"
    made = recorded_attention()
    save(made, path)
    return made, str(path)


@pytest.fixture
def ask(saved, capsys):
    def run(*args, status=0):
        assert cli.main(["trace", saved[1], *args]) == status
        said = capsys.readouterr()
        return said.out if status == 0 else said.err

    return run


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def test_the_overview_lists_passes_and_kernels(saved, ask):
    made, _ = saved
    text = ask()
    assert text.startswith(f"attention: {len(made.kernels)} kernels, {len(made.passes)} passes")
    assert "assign_ranges" in text
    assert "passes changed nothing: -a lists them too" in text
    assert all(k.reason in text for k in made.kernels)
    listed = [row for row in rows(ask("-a", "--json")) if "pass" in row]
    passes = [p for p in made.passes if p.id not in wrappers(made)]
    assert [row["pass"] for row in listed] == [p.id for p in passes]
    assert [row["matches"] for row in listed] == [p.count for p in passes]
    assert "\x1b" not in text


def test_the_matches_of_a_pass_with_the_nodes_before_and_after(saved, ask):
    made, _ = saved
    busiest = max(made.passes, key=lambda p: p.count)
    found = rows(ask("-p", str(busiest.id), "--json"))
    assert [row["match"] for row in found] == list(range(1, busiest.count + 1))
    assert [row["rule"] for row in found] == [made.rules[m.rule].name for m in busiest.matches]
    first = busiest.matches[0]
    assert found[0]["before"].startswith(f"%{first.before} = ")
    assert found[0]["after"].startswith(f"%{first.after} = ")
    assert len(ask("-p", str(busiest.id), "-n", "2").splitlines()) < 8


def test_the_graph_after_a_match_and_what_it_changed(saved, ask):
    made, _ = saved
    busiest = max(made.passes, key=lambda p: p.count)
    args = ("-p", str(busiest.id), "-k")
    whole = [row for row in rows(ask(*args, "last", "--json")) if "graph" in row]
    assert len(whole) == made.nodes.size(busiest.root_after)
    start = [row["graph"] for row in rows(ask(*args, "0", "--json")) if "graph" in row]
    assert len(start) == made.nodes.size(busiest.root_before)
    step = rows(ask(*args, "1", "-d", "--json"))
    assert {row["mark"] for row in step if "graph" in row} >= {"+", "-"}
    assert "match 1, " in ask(*args, "first", "-d")


def test_a_pass_is_found_by_its_name_or_said_to_be_unknown(saved, ask):
    made, _ = saved
    assert f"pass {[p.name for p in made.passes].index('callify')}, callify" in ask("-p", "callify")
    assert "did you mean assign_ranges?" in ask("-p", "asign_ranges", status=2)
    assert "passes are called linearize; give a number" in ask("-p", "linearize", status=2).replace(
        "\n", "; "
    ).replace("help: ", "")
    assert "no match 999999" in ask("-p", "callify", "-k", "999999", status=2)
    assert "there is no pass 999999" in ask("-p", "999999", status=2)
    assert "a match is of a pass" in ask("-k", "1", status=2)


def test_search_and_kernels(saved, ask):
    made, _ = saved
    found = rows(ask("--search", "reduce", "--json"))
    assert any("REDUCE" in row.get("label", "") for row in found)
    text = ask("--kernel", "0")
    assert made.kernels[0].reason in text
    assert "define" in text or "def" in text
    assert "there is no kernel 99" in ask("--kernel", "99", status=2)


def test_what_is_no_record_is_said_so(tmp_path, capsys):
    path = tmp_path / "x.tlab"
    path.write_text("no such thing")
    assert cli.main(["trace", str(path)]) == 2
    assert "is no trace" in capsys.readouterr().err
    assert cli.main(["trace", str(tmp_path / "none.tlab")]) == 2


def test_a_profile_alone_is_said_to_be_one(tmp_path, capsys):
    with tinylab.profile("alone") as p:
        tinylab.profile_marker("here")
    path = tmp_path / "alone.tlab"
    p.save(path)
    assert cli.main(["trace", str(path)]) == 2
    said = capsys.readouterr().err
    assert "holds a profile, and no record of rewrites" in said
    assert f"tinylab profile {path} shows it" in said


def test_a_rule_that_raised_is_named_with_its_node(tmp_path, capsys):
    def fail(x):
        raise ValueError("no such luck")

    table = pm_tidy + PatternMatcher(
        [Rule("fail", "sqrt -> error", UPat(Ops.SQRT, src=(X,)), fail)]
    )
    with pytest.raises(ValueError, match="luck"), record() as rec:
        graph_rewrite((variable() + 0).sqrt().sink(), table, name="breaks")
    path = tmp_path / "failed.tlab"
    save(rec, path)
    assert cli.main(["trace", str(path)]) == 0
    text = capsys.readouterr().out
    assert "breaks (failed)" in text
    assert "ValueError was raised by the rule fail in pass 0 after match 1" in text
    assert cli.main(["trace", str(path), "-p", "breaks", "-k", "last"]) == 0
    text = capsys.readouterr().out
    assert "raised ValueError: no such luck" in text
    assert "SQRT" in text.split("tried on ")[1]

"""Cases of rules: what a row makes of a node, and nodes that miss it by one condition."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.uop.symbolic.proof import prove
from tinylab.dtype import dtypes
from tinylab.uop.ops import Ops, PatternMatcher, Rule, UOp


@dataclass(frozen=True)
class Case:
    """fires: (node, what the row makes of it); holds: nodes that the row leaves alone.

    unproved: why z3 can't prove all pairs (the property tests try them instead).
    rounds: why the pair may differ in the last place, which is allowed.
    shadowed: why other rows get to each of these nodes first.
    """

    fires: list[tuple[UOp, UOp]]
    holds: list[UOp] = field(default_factory=list)
    unproved: str = ""
    rounds: str = ""
    shadowed: str = ""


Cases = Mapping[str, Case]


def table_tests(*tables: tuple[PatternMatcher, Cases]) -> tuple[Callable[..., None], ...]:
    """Three tests: each row fires and holds as its case says, the cases are proved, none is stale.

    Rows are tried among all the tables together, in their order.
    """
    whole = functools.reduce(operator.add, (table for table, _ in tables))
    rows = [
        pytest.param(rule, cases.get(rule.name), id=rule.name)
        for table, cases in tables
        for rule in table.rules
    ]
    proofs = [pytest.param(c, id=name) for _, cases in tables for name, c in cases.items()]

    @pytest.mark.parametrize(("rule", "case"), rows)
    def test_row(rule: Rule, case: Case | None) -> None:
        check_row(whole, rule, case)

    @pytest.mark.parametrize("case", proofs)
    def test_proof(case: Case) -> None:
        check_proof(case)

    def test_no_stale_cases() -> None:
        for table, cases in tables:
            no_stale_cases(table, cases)

    return test_row, test_proof, test_no_stale_cases


def check_row(table: PatternMatcher, rule: Rule, case: Case | None) -> None:
    assert case is not None, (
        f"rule {rule.name!r} has no case: give it one that fires and a near miss"
    )
    assert case.fires, f"rule {rule.name!r} has no case that fires"
    assert case.holds, f"rule {rule.name!r} has no near miss"
    for before, after in case.fires:
        found = rule.match(before, None)
        assert found is after, f"{text(before)} became {text(found)}, not {text(after)}"
        assert found.dtype is before.dtype
        assert found._shape == before._shape
    for node in case.holds:
        found = rule.match(node, None)
        assert found is None, f"{text(node)} became {text(found)}"
    first = [table.find(before, None) for before, _ in case.fires]
    reached = any(f is not None and f[1] is rule for f in first)
    assert reached != bool(case.shadowed), f"reached in its table: {reached}"


def check_proof(case: Case) -> None:
    if case.rounds:
        return
    verdicts = {text(before): prove(before, after) for before, after in case.fires}
    if case.unproved:
        assert set(verdicts.values()) != {"proved"}, "z3 proves it now; drop the excuse"
    for before, verdict in verdicts.items():
        assert not verdict.startswith("wrong"), f"{before}: {verdict}"
        assert verdict == "proved" or case.unproved, f"{before}: {verdict}"


def no_stale_cases(table: PatternMatcher, cases: Cases) -> None:
    names = [rule.name for rule in table.rules]
    assert len(set(names)) == len(names), "two rows have one name"
    assert set(cases) <= set(names), f"cases of rows that are gone: {set(cases) - set(names)}"


def text(x: UOp | None) -> str:
    return "nothing" if x is None else x.render(simplify=False)


def k(value: Any, dtype: Any = None) -> UOp:
    """A constant."""
    return UOp.const(value, dtype)


def variable(name: str, lo: Any, hi: Any, dtype: Any = dtypes.weakint) -> UOp:
    return UOp.variable(name, lo, hi, dtype)


# Leaves for the cases: letters after their type.
x, y, z = (variable(n, -100, 100) for n in "xyz")
p, q = variable("p", 1, 50), variable("q", 1, 50)  # never zero
s, t = variable("s", 0, 3), variable("t", 0, 3)  # small, not negative
i, j, m = (variable(n, dtypes.int32.min, dtypes.int32.max, dtypes.int32) for n in "ijm")
u8, v8 = (variable(n, 0, 255, dtypes.uint8) for n in ("u8", "v8"))
INF = float("inf")
f, g, h = (variable(n, -INF, INF, dtypes.float32) for n in "fgh")
half = variable("half", -1.0, 1.0, dtypes.float32)  # finite
unit = variable("unit", 1.0, 2.0, dtypes.float32)  # finite, not zero
b, c, d = (variable(n, False, True, dtypes.bool) for n in "bcd")


def wide(*items: UOp) -> UOp:
    """A value of several lanes."""
    return UOp.stack(*items)


def op(name: str, *src: UOp) -> UOp:
    """A node by the name of its operation."""
    return src[0].alu(Ops[name], *src[1:])

"""Tables of rules that are pickled: their functions travel by name or as code."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tinylab.uop import symbolic
from tinylab.uop.ops import Ops, PatternMatcher, Rule, UOp, UPat
from tinylab.uop.travel import arrived, sent

x = UOp.variable("x", 0, 9)
STEP = 3


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def added_step(a: UOp) -> UOp:
    return a * STEP


@pytest.mark.parametrize("name", ["symbolic_simple", "symbolic", "sym", "pm_divmod"])
def test_the_tables_of_the_compiler(name: str) -> None:
    table = getattr(symbolic, name)
    found = through_pickle(table)
    facts = [(rule.name, rule.law, rule.place) for rule in found.rules]
    assert facts == [(rule.name, rule.law, rule.place) for rule in table.rules]
    for node in (x + 0, (x * 4) // 4, (x * 8 + 3) % 8, UOp.const(2) * UOp.const(3)):
        assert found.rewrite(node) is table.rewrite(node)


def test_named_functions_stay_themselves() -> None:
    rule = through_pickle(Rule("step", "a + b -> a * 3", UPat(Ops.ADD, name="a"), added_step))
    assert rule.result is added_step


def test_lambdas_and_what_they_close_over() -> None:
    factor, found = UOp.const(5), {}
    rows = [
        (UPat(Ops.ADD, name="a"), lambda a, by=2: a.src[0] * factor * by * STEP),
        (UPat(Ops.MUL, name="a"), lambda a: a.const_like(math.prod([found.get("n", 7), 2]))),
    ]
    table = through_pickle(PatternMatcher(rows))
    assert table.rewrite(x + 1) is x * factor * 2 * STEP
    assert table.rewrite(x * 4) is x.const_like(14)


def test_conditions_travel_too() -> None:
    most = 4
    rule = Rule("small", "", UPat(Ops.ADD, name="a"), lambda a: a.src[0], lambda a: a.vmax < most)
    table = through_pickle(PatternMatcher([rule]))
    assert table.rewrite(x + 1) is None
    small = UOp.variable("s", 0, 2)
    assert table.rewrite(small + 1) is small


def test_from_a_script_with_the_globals_they_use(tmp_path: Path) -> None:
    """Another process has no such script: modules come by name, values with the function."""
    file = tmp_path / "table.pkl"
    script = tmp_path / "script.py"
    script.write_text(
        "import math, pickle, sys\n"
        "from tinylab.uop.ops import *\n"
        "limit = 6\n"
        "half = lambda n: n // 2\n"
        "row = (UPat(Ops.ADD, name='a'), lambda a: a.const_like(math.floor(half(limit) + 0.5)))\n"
        "pickle.dump(PatternMatcher([row]), open(sys.argv[1], 'wb'))\n"
    )
    subprocess.run([sys.executable, script, file], check=True)
    table = pickle.loads(file.read_bytes())
    assert table.rewrite(x + 1) is x.const_like(3)


def test_a_lambda_that_uses_itself_is_refused() -> None:
    def again(n: int) -> int:
        return n and again(n - 1)

    with pytest.raises(pickle.PicklingError, match=r"uses itself .* define it with def"):
        sent(again)
    assert arrived(sent(added_step)) is added_step

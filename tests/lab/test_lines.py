"""The lines of a profiled cell: spans around statements, and nothing else changed."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from tinylab.lab.cells import run_cell, run_cell_async
from tinylab.trace import events


def lines_of(source: str, namespace: dict[str, Any] | None = None) -> list[str]:
    run = run_cell(source, {} if namespace is None else namespace, profile=True)
    assert run.error is None, run.error
    e = run.profile.events
    own = e["kind"] == "line"
    return e["name"][own].tolist()


def test_each_statement_is_a_span_with_its_text():
    assert lines_of("a = 1\nb = a + 1\na + b") == ["1: a = 1", "2: b = a + 1", "3: a + b"]


def test_statements_inside_loops_and_functions_nest():
    source = "def f(n):\n    m = n + 1\n    return m\nfor i in range(2):\n    x = f(i)\n"
    found = lines_of(source)
    assert found == [
        "4: for i in range(2):",
        "5: x = f(i)", "2: m = n + 1", "3: return m",
        "5: x = f(i)", "2: m = n + 1", "3: return m",
    ]  # fmt: skip


def test_what_a_cell_means_stays():
    source = '''"""doc"""
from __future__ import annotations
import math
total = 0
class A:
    """of A"""
    x: int = 3
    def get(self):
        """of get"""
        return self.x
def gen():
    for i in range(3):
        if i == 1:
            continue
        try:
            yield i
        finally:
            pass
def counted():
    global total
    total += 1
    def inner():
        nonlocal_ = total
        return nonlocal_
    return inner()
match [1, 2]:
    case [a, b]:
        c = a + b
    case _:
        c = 0
while True:
    break
else:
    c = -1
with open("/dev/null") as f, open("/dev/null") as g:
    pass
del f, g
(list(gen()), counted(), A().get(), A.__doc__, A.get.__doc__, c, __doc__)
'''
    plain, marked = {}, {}
    a, b = run_cell(source, plain), run_cell(source, marked, profile=True)
    assert (a.error, b.error) == (None, None)
    assert a.value == b.value
    assert set(plain) == set(marked)


def test_functions_of_a_profiled_cell_live_on():
    names: dict[str, Any] = {}
    run_cell("def f(n):\n    m = n * 2\n    return m", names, profile=True)
    assert names["f"](4) == 8
    assert not events.listening()


def test_tracebacks_show_the_cells_lines():
    source = "x = 1\nfor i in range(3):\n    y = 1 / (1 - i)\n"
    frames = {}
    for profile in (False, True):
        run = run_cell(source, {}, profile=profile, filename=f"<cell {profile}>")
        assert isinstance(run.error, ZeroDivisionError)
        own = [f for f in traceback.extract_tb(run.error.__traceback__) if "<cell" in f.filename]
        frames[profile] = [(f.lineno, f.line) for f in own]
    assert frames[True] == frames[False] == [(3, "y = 1 / (1 - i)")]


def test_cells_that_await_are_marked_too():
    source = "import asyncio\nawait asyncio.sleep(0)\nx = [i async for i in g()]\nx"
    names: dict[str, Any] = {}
    run_cell("async def g():\n    for i in range(2):\n        yield i", names)
    run = asyncio.run(run_cell_async(source, names, profile=True))
    assert (run.error, run.value) == (None, [0, 1])
    assert "2: await asyncio.sleep(0)" in run.profile.events["name"].tolist()


def test_blocks_as_deep_as_python_allows_run_without_spans():
    deep = "".join("  " * n + f"for a{n} in range(1):\n" for n in range(14)) + "  " * 14 + "x = 5\n"
    run = run_cell(deep + "x", {}, profile=True)
    assert (run.error, run.value) == (None, 5)
    mistaken = run_cell("x = (\n", {}, profile=True)
    assert isinstance(mistaken.error, SyntaxError)


def test_an_error_keeps_the_profile_and_its_name():
    names: dict[str, Any] = {}
    run = run_cell("a = 1\n1 / 0", names, name="rec", profile=True)
    assert isinstance(run.error, ZeroDivisionError)
    assert names["rec_profile"] is run.profile
    assert run.profile.record is run.record
    assert not run.profile.running

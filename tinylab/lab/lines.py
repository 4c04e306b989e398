"""The lines of a cell as events: each statement is wrapped in a span of its own.

    y = (a @ b).sum()    ->    with line(3, "y = (a @ b).sum()"): y = (a @ b).sum()

Only the cell that is profiled changes, before it is compiled: nothing traces Python, so that the
compiler runs at its own speed. Statements inside loops and functions are wrapped too.
"""

from __future__ import annotations

import ast
from typing import Any

from tinylab.trace import events

# Reached without a name of the cell's own, which the cell might use otherwise.
_LINE = "__import__('tinylab.trace.events').trace.events.line"
_MOST_LETTERS = 80
_BARE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Pass)


def mark_lines(tree: ast.Module, source: str) -> ast.Module:
    """The same cell, each statement in a span; places in the text stay."""
    marker = _Marker(source.splitlines())
    tree.body = marker.block(tree.body)
    return ast.fix_missing_locations(tree)


def marked_value(value: ast.expr, source: str) -> events.Event | Any:
    """The span of a cell's last expression, whose value is taken apart from its statements."""
    lines = source.splitlines()
    text = lines[value.lineno - 1].strip() if value.lineno <= len(lines) else ""
    return events.line(value.lineno, text[:_MOST_LETTERS])


class _Marker:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block, each with its blocks."""
        return [self.statement(each, first=i == 0) for i, each in enumerate(body)]

    def statement(self, node: ast.stmt, first: bool) -> ast.stmt:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if inner:
                setattr(node, name, self.block(inner))
        for inner in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            inner.body = self.block(inner.body)
        if isinstance(node, _BARE) or _must_stay_first(node, first):
            return node
        return self._wrapped(node)

    def _wrapped(self, node: ast.stmt) -> ast.stmt:
        text = self.lines[node.lineno - 1].strip() if node.lineno <= len(self.lines) else ""
        wrapped = ast.parse(f"with {_LINE}({node.lineno}, {text[:_MOST_LETTERS]!r}): pass").body[0]
        assert isinstance(wrapped, ast.With), "what was just written"
        for each in ast.walk(wrapped):
            if isinstance(each, ast.expr | ast.stmt):
                ast.copy_location(each, node)
        wrapped.body = [node]
        return wrapped


def _must_stay_first(node: ast.stmt, first: bool) -> bool:
    """Whether a statement means what it does only where it stands: a docstring, __future__."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return first and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

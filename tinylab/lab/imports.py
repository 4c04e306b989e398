"""`import tinygrad` in a cell means tinylab: the cell's import statements are rewritten.

Calls of `__import__` and `import_module` with the name written out are, too. Only the cell changes,
wherever they stand in it; `sys.modules` is left alone, so an installed tinygrad stays what it is
for everybody else. What a name means is `compat`'s to say.

    from tinygrad.nn import Linear   ->  Linear = compat.take('tinygrad.nn', 'Linear')
    import tinygrad as tg            ->  tg = compat.module('tinygrad')
"""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from typing import Any

from tinylab.compat import is_foreign
from tinylab.compat.table import FOREIGN

# Reached without a name of the cell's own, which the cell might use otherwise.
_COMPAT = "__import__('tinylab.compat').compat"


def rewrite_imports(tree: ast.Module) -> ast.Module:
    """The same cell with its imports of foreign modules turned to ours."""
    rewritten: ast.Module = ImportsTurned().visit(tree)
    return rewritten


class ImportsTurned(ast.NodeTransformer):
    """`rewrite_imports` as a shell has it among its `ast_transformers`."""

    def visit(self, node: ast.AST) -> Any:
        """The same code with its imports turned to ours; `%time` hands in one line of it."""
        return ast.fix_missing_locations(_Imports().visit(node))


class _Imports(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        if node.level or not node.module or not is_foreign(node.module):
            return node
        return [s for alias in node.names for s in _take(node, node.module, alias)]

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            if not is_foreign(alias.name):
                statements.append(ast.copy_location(ast.Import([alias]), node))
            else:
                statements.extend(_module(node, alias))
        return statements

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        named = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        name = _named_module(node) if named in ("import_module", "__import__") else None
        if name is None or not is_foreign(name):
            return node
        # __import__("a.b") looks b up and answers with a.
        top = named == "__import__" and name != FOREIGN and not _wants_names(node)
        below = f" and {_COMPAT}.module({FOREIGN!r})" if top else ""
        (found,) = _at(node, f"{_COMPAT}.module({name!r}){below}")
        return found.value if isinstance(found, ast.Expr) else node


def _wants_names(node: ast.Call) -> bool:
    """Whether a call of `__import__` has a fromlist."""
    given = [*node.args[3:4], *(k.value for k in node.keywords if k.arg == "fromlist")]
    return any(getattr(g, "elts", getattr(g, "value", True)) for g in given)


def _named_module(node: ast.Call) -> str | None:
    """The module that a call names in plain text, relative to the second argument's package."""
    values = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
    texts = [value for value in values if isinstance(value, str)]
    if texts and texts[0].startswith("."):
        if len(texts) < 2 or not texts[1]:
            return None
        try:
            return resolve_name(*texts)
        except ImportError:  # beyond the top: whoever runs the line hears of it
            return None
    return texts[0] if texts and texts[0] is values[0] else None


def _take(node: ast.stmt, module: str, alias: ast.alias) -> list[ast.stmt]:
    if alias.name == "*":
        return _at(node, f"globals().update({_COMPAT}.all_of({module!r}))")
    return _at(node, f"{alias.asname or alias.name} = {_COMPAT}.take({module!r}, {alias.name!r})")


def _module(node: ast.stmt, alias: ast.alias) -> list[ast.stmt]:
    if alias.asname or alias.name == FOREIGN:
        return _at(node, f"{alias.asname or FOREIGN} = {_COMPAT}.module({alias.name!r})")
    # `import tinygrad.nn` binds `tinygrad`; that `nn` exists below it is looked up at once.
    load = _at(node, f"{_COMPAT}.module({alias.name!r})")
    return load + _at(node, f"{FOREIGN} = {_COMPAT}.module({FOREIGN!r})")


def _at(node: ast.stmt | ast.expr, text: str) -> list[ast.stmt]:
    """Statements that stand where another one stood."""
    found = ast.parse(text).body
    for statement in found:
        for each in ast.walk(statement):
            if "lineno" in each._attributes:
                ast.copy_location(each, node)
    return found

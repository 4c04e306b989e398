"""`import tinygrad` in a cell means tinylab: the cell's import statements are rewritten.

Only statements of the cell change, wherever they stand in it; `sys.modules` is left alone, so an
installed tinygrad stays what it is for everybody else.

    from tinygrad.nn import Linear   ->  from tinylab.nn import Linear
    import tinygrad as tg            ->  import tinylab as tg
"""

from __future__ import annotations

import ast

# Where a module of the foreign package lives here, if not under the same path.
MODULES: dict[str, str] = {"tinygrad": "tinylab"}


def home_of(module: str) -> str | None:
    """The module of ours that stands for a foreign one; None for a module that is no such one.

    "tinygrad.nn.state" -> "tinylab.nn.state",  "numpy" -> None
    """
    parts = module.split(".")
    for cut in range(len(parts), 0, -1):
        home = MODULES.get(".".join(parts[:cut]))
        if home is not None:
            return ".".join([home, *parts[cut:]])
    return None


def rewrite_imports(tree: ast.Module) -> ast.Module:
    """The same cell with its imports of foreign modules turned to ours."""
    rewritten: ast.Module = ast.fix_missing_locations(_Imports().visit(tree))
    return rewritten


class _Imports(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        home = home_of(node.module) if node.module and node.level == 0 else None
        if home is None:
            return node
        return ast.copy_location(ast.ImportFrom(home, node.names, 0), node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            home = home_of(alias.name)
            if home is None:
                statements.append(ast.Import([alias]))
            elif alias.asname or "." not in alias.name:
                statements.append(ast.Import([ast.alias(home, alias.asname or alias.name)]))
            else:
                statements.extend(_import_below(alias.name, home))
        return [ast.copy_location(each, node) for each in statements]


def _import_below(name: str, home: str) -> list[ast.stmt]:
    """`import tinygrad.nn` binds `tinygrad` and loads `nn` below it."""
    top = name.split(".")[0]
    load = ast.Call(ast.Name("__import__", ast.Load()), [ast.Constant(home)], [])
    return [ast.Expr(load), ast.Import([ast.alias(home_of(top) or top, top)])]

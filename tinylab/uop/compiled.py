"""A pattern as a Python function: straight tests instead of a walk over the pattern.

compile_rule(pattern, call) gives a function of (node, ctx) that returns the rule's first result
that is neither None nor the node itself. Measured on index arithmetic: 6 to 9 times faster than
`UPat.match`, which the tests compare it with.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tinylab.uop.pattern import UPat

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Matcher = Callable[["UOp", Any], Any]


class _Writer:
    """Lines of one generated function, its constants and the names that are bound so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.counter = itertools.count()

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def fresh(self) -> str:
        return f"n{next(self.counter)}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)


# What is left to match: (pattern, variable that holds the node).
_Todo = tuple[tuple[UPat, str], ...]


def _tests(writer: _Writer, pattern: UPat, var: str) -> list[str]:
    """The conditions on the node's own fields."""
    tests = []
    if pattern.op is not None:
        if len(pattern.op) == 1:
            tests.append(f"{var}.op == {int(next(iter(pattern.op)))}")
        else:
            tests.append(f"{var}.op in {writer.constant(frozenset(map(int, pattern.op)))}")
    if pattern.dtype is not None:
        if len(pattern.dtype) == 1:
            tests.append(f"{var}.dtype is {writer.constant(pattern.dtype[0])}")
        else:
            tests.append(f"{var}.dtype in {writer.constant(frozenset(pattern.dtype))}")
    if pattern.arg is not None:
        tests.append(f"{writer.constant(pattern.arg)} == {var}.arg")
    if pattern.tag is not None:
        tests.append(f"{var}.tag in {writer.constant(pattern.tag)}")
    return tests


def _emit(writer: _Writer, todo: _Todo, bound: dict[str, str], depth: int, call: str) -> None:
    """Code that matches all of todo, then calls the rule; nested so that every way is tried."""
    if not todo:
        _emit_call(writer, bound, depth, call)
        return
    (pattern, var), rest = todo[0], todo[1:]
    tests = _tests(writer, pattern, var)
    if pattern.name is not None:
        if pattern.name in bound:
            tests.append(f"{bound[pattern.name]} is {var}")
        else:
            bound = {**bound, pattern.name: var}
    if pattern.orders is not None:
        count = len(pattern.orders[0])
        tests.append(f"len({var}.src) {'>=' if pattern.allow_any_len else '=='} {count}")
    if tests:
        writer.line(depth, f"if {' and '.join(tests)}:")
        depth += 1
    _emit_below(writer, pattern, var, rest, bound, depth, call)


def _emit_below(
    writer: _Writer,
    pattern: UPat,
    var: str,
    rest: _Todo,
    bound: dict[str, str],
    depth: int,
    call: str,
) -> None:
    """Code for what stands below one node: alternatives, each source, or sources in some order."""
    if pattern.alternatives:
        for alternative in pattern.alternatives:
            _emit(writer, ((alternative, var), *rest), bound, depth, call)
        return
    if pattern.repeated is not None:
        matches = writer.constant(lambda s, p=pattern.repeated: bool(p.match(s, {})))
        writer.line(depth, f"if all(map({matches}, {var}.src)):")
        _emit(writer, rest, bound, depth + 1, call)
        return
    if not pattern.orders or not pattern.orders[0]:
        _emit(writer, rest, bound, depth, call)
        return
    names = [writer.fresh() for _ in pattern.orders[0]]
    slots = f"{var}.src" if not pattern.allow_any_len else f"{var}.src[:{len(names)}]"
    target = ", ".join(names) + ("," if len(names) == 1 else "")
    if len(pattern.orders) == 1:
        writer.line(depth, f"{target} = {slots}")
    else:
        writer.line(depth, f"for {target} in permutations({slots}):")
        depth += 1
    # The first of the orders is the patterns as written; permuting the sources tries the others.
    below = tuple(zip(pattern.orders[0], names, strict=True))
    # Tests without sources come first: they reject cheaply.
    below = tuple(sorted(below, key=lambda p: p[0].orders is not None or bool(p[0].alternatives)))
    _emit(writer, below + rest, bound, depth, call)


def _emit_call(writer: _Writer, bound: dict[str, str], depth: int, call: str) -> None:
    arguments = ", ".join(f"{name}={var}" for name, var in bound.items())
    wanted = parameters(writer.constants.get("when"), bound)
    asked = ", ".join(f"{name}={bound[name]}" for name in wanted)
    writer.line(depth, f"r = {call.format(arguments=arguments, asked=asked)}")
    writer.line(depth, "if r is not None and r is not u: return r")


def parameters(condition: Callable[..., Any] | None, bound: Iterable[str]) -> list[str]:
    """Those of the bound names that a condition takes."""
    if condition is None:
        return []
    taken = inspect.signature(condition).parameters
    return [name for name in bound if name in taken]


def _is_compilable(pattern: UPat) -> bool:
    """Whether all names below `repeated` patterns are absent: those bind in the plain way."""
    if pattern.repeated is not None and _names(pattern.repeated):
        return False
    below = pattern.alternatives or (pattern.orders[0] if pattern.orders else ())
    return all(_is_compilable(p) for p in below)


def _names(pattern: UPat) -> bool:
    below = pattern.alternatives or (pattern.orders[0] if pattern.orders else ())
    if pattern.repeated is not None:
        below = (*below, pattern.repeated)
    return pattern.name is not None or any(_names(p) for p in below)


def compile_rule(
    pattern: UPat, function: Callable[..., Any], when: Callable[..., Any] | None, takes_ctx: bool
) -> Matcher:
    """The function of (node, ctx) that matches the pattern and applies the rule."""
    if not _is_compilable(pattern):
        return interpret_rule(pattern, function, when, takes_ctx)
    writer = _Writer()
    writer.constants.update(fn=function, permutations=_permutations)
    call = "fn({arguments}" + (", ctx=ctx)" if takes_ctx else ")")
    if when is not None:
        writer.constants["when"] = when
        call = "(" + call + ") if when({asked}) else None"
    writer.line(0, "def rule(u, ctx):")
    _emit(writer, ((pattern, "u"),), {}, 1, call)
    writer.line(1, "return None")
    code = compile("\n".join(writer.lines).replace("fn(, ctx", "fn(ctx"), "<rule>", "exec")
    exec(code, writer.constants)
    rule: Matcher = writer.constants["rule"]
    return rule


_ORDERS = {n: tuple(itertools.permutations(range(n))) for n in range(5)}


def _permutations(src: tuple[UOp, ...]) -> Any:
    if len(src) == 2:
        a, b = src
        return ((a, b), (b, a))
    return [tuple(src[i] for i in order) for order in _ORDERS[len(src)]]


def interpret_rule(
    pattern: UPat, function: Callable[..., Any], when: Callable[..., Any] | None, takes_ctx: bool
) -> Matcher:
    """The same function by walking over the pattern."""

    def rule(uop: UOp, ctx: Any) -> Any:
        for found in pattern.match(uop, {}):
            if when is not None and not when(**{n: found[n] for n in parameters(when, found)}):
                continue
            result = function(**found, ctx=ctx) if takes_ctx else function(**found)
            if result is not None and result is not uop:
                return result
        return None

    return rule

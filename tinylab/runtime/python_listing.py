"""Reads the listing of the PYTHON device: text to instructions, each name and number checked.

Nothing of the text is ever evaluated: it is parsed, and what it may hold is what is written here.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tinylab.dtype import DTYPES_DICT, DType, dtypes
from tinylab.errors import CompileError
from tinylab.opcodes import GroupOp, Ops

Number: TypeAlias = int | float | bool


class Name(NamedTuple):
    """What an earlier line has named."""

    text: str


class Literal(NamedTuple):
    """A number; its type where the text states it, as in float32(1.0)."""

    value: Number
    dtype: DType | None = None


class Places(NamedTuple):
    """Several constant places of an axis: (0, 2, 4)."""

    items: tuple[int, ...]


Operand: TypeAlias = Name | Literal | Places


class Instruction(NamedTuple):
    """One line: what it names, of which type and shape, by which operation, of what.

    A loop or branch has a body.
    """

    op: str
    arguments: tuple[Operand, ...]
    name: str = ""
    dtype: DType = dtypes.void
    shape: tuple[int, ...] = ()
    body: tuple[Instruction, ...] = ()
    line: int = 0


class Listing(NamedTuple):
    """A kernel: its name, its buffers and variables, its instructions."""

    name: str
    parameters: tuple[Instruction, ...]
    body: tuple[Instruction, ...]


_VALUES = frozenset(op.name for op in GroupOp.ALU | GroupOp.Movement) | {
    op.name for op in (Ops.CAST, Ops.BITCAST, Ops.STACK, Ops.INDEX, Ops.LOAD, Ops.SPECIAL)
}
_BUFFER = re.compile(r"data\d+")
_NUMBERS = {"inf": math.inf, "nan": math.nan}
_DEFINITIONS = frozenset({"REG", "LOCAL"})
_STATEMENTS = frozenset({"STORE", "BARRIER", "REPEAT"})


def parse(text: str) -> Listing:
    """The kernel that a listing describes.

    Raises: CompileError with the line that is not of the language.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as e:
        raise CompileError(f"the listing cannot be read: {e}") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise CompileError("the listing is not one function")
    function = tree.body[0]
    names: set[str] = set()
    parameters = []
    for argument in function.args.args:
        if argument.annotation is None:
            raise CompileError(f"{argument.arg} has no type")
        dtype, shape = _type(argument.annotation)
        if shape and not _BUFFER.fullmatch(argument.arg):
            raise CompileError(f"the buffer {argument.arg} is not called data and its slot")
        names.add(argument.arg)
        parameters.append(Instruction("PARAM", (), argument.arg, dtype, shape))
    return Listing(function.name, tuple(parameters), tuple(_block(function.body, names)))


def _block(statements: list[ast.stmt], names: set[str]) -> Iterator[Instruction]:
    for s in statements:
        match s:
            case ast.Pass():
                continue
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=ast.Call() as call):
                dtype, shape = _type(kind)
                op, arguments = _call(call, names, _VALUES | _DEFINITIONS)
                names.add(name)
                yield Instruction(op, arguments, name, dtype, shape, line=s.lineno)
            case ast.Expr(value=ast.Call() as call):
                op, arguments = _call(call, names, _STATEMENTS)
                yield Instruction(op, arguments, line=s.lineno)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, orelse=[]):
                op, arguments = _call(call, names, frozenset({"RANGE", "FOREVER"}))
                body = tuple(_block(s.body, names | {name}))
                yield Instruction(op, arguments, name, dtypes.int64, body=body, line=s.lineno)
            case ast.If(test=test, orelse=[]):
                body = tuple(_block(s.body, set(names)))
                yield Instruction("IF", (_operand(test, names),), body=body, line=s.lineno)
            case _:
                raise _refused(s)


def _refused(node: ast.AST) -> CompileError:
    line = getattr(node, "lineno", 0)
    return CompileError(
        f"line {line} is not of the listing's language: {ast.unparse(node)[:80]}",
        help="a line is name: dtype[shape] = OP(operands), STORE(…), for … in RANGE(n), or if …",
    )


def _call(
    call: ast.Call, names: set[str], allowed: frozenset[str]
) -> tuple[str, tuple[Operand, ...]]:
    if not isinstance(call.func, ast.Name) or call.func.id not in allowed or call.keywords:
        raise _refused(call)
    return call.func.id, tuple(_operand(a, names) for a in call.args)


def _operand(node: ast.expr, names: set[str]) -> Operand:
    match node:
        case ast.Name(id=name):
            return _name(node, name, names)
        case ast.Constant(value=bool() | int() | float() as value):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = _operand(inner, names)
            if isinstance(found, Literal):
                return Literal(-found.value)
        case ast.Call(func=ast.Name(id=kind), args=[inner], keywords=[]) if kind in DTYPES_DICT:
            found = _operand(inner, names)
            if isinstance(found, Literal):
                return Literal(found.value, DTYPES_DICT[kind])
        case ast.Tuple(elts=items):
            return Places(tuple(_integer(i) for i in items))
    raise _refused(node)


def _name(node: ast.expr, name: str, names: set[str]) -> Operand:
    if name in _NUMBERS:
        return Literal(_NUMBERS[name])
    if name not in names:
        raise CompileError(f"line {node.lineno}: {name} is not defined before")
    return Name(name)


def _integer(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise _refused(node)


def _type(node: ast.expr) -> tuple[DType, tuple[int, ...]]:
    """float32[8, 32] -> float32, (8, 32)."""
    match node:
        case ast.Name(id=name) if name in DTYPES_DICT:
            return DTYPES_DICT[name], ()
        case ast.Subscript(value=ast.Name(id=name), slice=sizes) if name in DTYPES_DICT:
            items = sizes.elts if isinstance(sizes, ast.Tuple) else [sizes]
            return DTYPES_DICT[name], tuple(_integer(i) for i in items)
    raise _refused(node)

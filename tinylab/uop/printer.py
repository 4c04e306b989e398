"""A graph as text: an expression on one line, a nested form, or Python that rebuilds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, Invalid
from tinylab.opcodes import Ops, axis_letters

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

_INFIX = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.FDIV: "/",
    Ops.FLOORDIV: "//",
    Ops.FLOORMOD: "%",
    Ops.SHL: "<<",
    Ops.SHR: ">>",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
    Ops.CMPLT: "<",
    Ops.CMPNE: "!=",
    Ops.CMPEQ: "==",
    Ops.POW: "**",
}
_CALLS = {
    Ops.MAX: "max",
    Ops.CDIV: "cdiv",
    Ops.CMOD: "cmod",
    Ops.EXP2: "exp2",
    Ops.LOG2: "log2",
    Ops.SIN: "sin",
    Ops.COS: "cos",
    Ops.SQRT: "sqrt",
    Ops.TRUNC: "trunc",
    Ops.THREEFRY: "threefry",
    Ops.MULACC: "mulacc",
}


def range_name(u: UOp) -> str:
    """r0, r0_1, m1 for id -1: the name of a RANGE in expressions."""
    return "r" + "_".join(str(i) if i >= 0 else f"m{-i}" for i in u.arg[:-1])


def loop_name(u: UOp) -> str:
    """Lidx1, Ridx0: the name of a RANGE in rendered source."""
    ids = "_".join(str(i) if i >= 0 else f"m{-i}" for i in u.arg[:-1])
    return f"{axis_letters[u.arg[-1]]}idx{ids}"


Texts = Callable[["UOp"], str]


def _const_text(u: UOp, text: Texts) -> str:
    return "Invalid" if u.arg is Invalid else str(u.arg)


def _storage_text(u: UOp, text: Texts) -> str:
    return u.arg.name or f"{'data' if u.op is Ops.PARAM else 'buf'}{u.arg.slot}"


def _where_text(u: UOp, text: Texts) -> str:
    cond, x, y = map(text, u.src)
    return f"({x} if ({cond}) else {y})"


def _cast_text(u: UOp, text: Texts) -> str:
    return f"({u.dtype.name.rstrip('0123456789')})({text(u.src[0])})"


def _index_text(u: UOp, text: Texts) -> str:
    return f"{text(u.src[0])}[{', '.join(map(text, u.src[1:]))}]"


_TEXT: dict[Ops, Callable[[UOp, Texts], str]] = {
    Ops.CONST: _const_text,
    Ops.RANGE: lambda u, text: range_name(u),
    Ops.SPECIAL: lambda u, text: str(u.arg),
    Ops.PARAM: _storage_text,
    Ops.BUFFER: _storage_text,
    Ops.WHERE: _where_text,
    Ops.CAST: _cast_text,
    Ops.RECIPROCAL: lambda u, text: f"(1/{text(u.src[0])})",
    Ops.NEG: lambda u, text: f"(-{text(u.src[0])})",
    Ops.INDEX: _index_text,
    Ops.AFTER: lambda u, text: text(u.src[0]),
}


def _bare(u: UOp, text: Texts, *binding: Ops) -> str:
    """The operand of a sum, without its parentheses where they say nothing: i*4+2."""
    return text(u)[1:-1] if u.op in binding else text(u)


def _render_one(u: UOp, text: Texts) -> str:
    if u.op in _TEXT:
        return _TEXT[u.op](u, text)
    if u.op is Ops.ADD:
        return f"({_bare(u.src[0], text, Ops.ADD, Ops.MUL)}+{_bare(u.src[1], text, Ops.MUL)})"
    if u.op in _INFIX and len(u.src) == 2:
        return f"({text(u.src[0])}{_INFIX[u.op]}{text(u.src[1])})"
    sources = ", ".join(map(text, u.src))
    if u.op in _CALLS:
        return f"{_CALLS[u.op]}({sources})"
    argument = "" if u.arg is None else f" {u.arg}"
    return f"{u.op.name.lower()}{argument}({sources})"


# Of an operand that is longer than this, in characters, the expression has an ellipsis: what is
# used twice stands there twice, so that forty nodes can be a text of any length.
_LONGEST = 100_000


def render_expression(root: UOp) -> str:
    """The expression on one line: (i+3), (i*4+2), max(i, 3), (x if (c) else y).

    An operand that takes more than 100,000 characters is an ellipsis: (…+3).
    """
    order = root.toposort()
    uses = Counter(s for u in order for s in u.src)
    texts: dict[UOp, str] = {}
    for u in order:
        text = _render_one(u, texts.__getitem__)
        texts[u] = text if u is root or len(text) <= _LONGEST else "(…)"
        for s in u.src:
            uses[s] -= 1
            if not uses[s]:
                del texts[s]
    return texts[root]


def render_short(root: UOp, longest: int = 200) -> str:
    """The expression as an error says it: its beginning where it is long."""
    text = render_expression(root)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def argument_text(u: UOp) -> str:
    """The argument for people: as short as it stays clear."""
    return "" if u.arg is None else repr(u.arg)


# Indentation stops here: a chain of ten thousand nodes is text of its own length, not its square.
_DEEPEST = 40


def node_repr(root: UOp) -> str:
    """UOp(Ops.X, dtypes.y, arg=…, src=(…)) over indented lines, shared nodes named once."""
    counts: dict[UOp, int] = {}
    for u in root.toposort():
        for s in u.src:
            counts[s] = counts.get(s, 0) + 1
    names: dict[UOp, str] = {}
    lines: list[str] = []
    # Entries: a node at a depth, or text that closes one. No recursion: graphs are deep.
    stack: list[tuple[UOp | str, int]] = [(root, 0)]
    while stack:
        item, depth = stack.pop()
        pad = "  " * min(depth, _DEEPEST)
        if isinstance(item, str):
            lines.append(pad + item)
            continue
        if item in names:
            lines.append(f"{pad}{names[item]},")
            continue
        label = ""
        if counts.get(item, 0) > 1 and item.src:
            names[item] = f"x{len(names)}"
            label = f"{names[item]}:="
        tag = "" if item.tag is None else f", tag={item.tag!r}"
        head = f"{pad}{label}UOp({item.op}, {item.dtype!r}, arg={item.arg!r}{tag}, src=("
        if not item.src:
            lines.append(head + ")),")
            continue
        lines.append(head)
        stack.append((")),", depth))
        stack.extend((s, depth + 1) for s in reversed(item.src))
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join(lines)


def _python_value(value: Any) -> str:
    if isinstance(value, DType):
        return repr(value)
    if isinstance(value, float):
        return (
            f"float({str(value)!r})"
            if value != value or value in (float("inf"), -float("inf"))
            else repr(value)
        )
    return repr(value)


def render_python(root: UOp) -> str:
    """Python text that assigns `ast` and rebuilds the node; names come from `tinylab.uop.ops`."""
    names: dict[UOp, str] = {}
    lines = []
    for i, u in enumerate(root.toposort()):
        names[u] = "ast" if u is root else f"c{i}"
        fields = [str(u.op), repr(u.dtype)]
        sources = ", ".join(names[s] for s in u.src)
        fields.append(f"({sources}{',' if len(u.src) == 1 else ''})")
        if u.arg is not None or u.tag is not None:
            fields.append(_python_value(u.arg))
        if u.tag is not None:
            fields.append(repr(u.tag))
        lines.append(f"{names[u]} = UOp({', '.join(fields)})")
    return "\n".join(lines)


def listing(uops: tuple[UOp, ...]) -> list[str]:
    """One line per node of a LINEAR: number, op, dtype, the numbers of its sources, argument."""
    numbers = {u: i for i, u in enumerate(uops)}
    lines = []
    depth = 0
    for i, u in enumerate(uops):
        if u.op in (Ops.END, Ops.ENDIF):
            depth -= max(1, sum(s.op is Ops.RANGE for s in u.src))
        sources = ", ".join(
            str(s.arg) if s.op is Ops.CONST else str(numbers.get(s, "--")) for s in u.src
        )
        lines.append(
            f"{i:4d} {'  ' * max(depth, 0)}{u.op.name:<10} {u.dtype.name:<8} [{sources}] "
            f"{argument_text(u)}".rstrip()
        )
        if u.op in (Ops.RANGE, Ops.IF):
            depth += 1
    return lines

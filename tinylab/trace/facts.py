"""Heads and rules as plain text: what a viewer shows and a file keeps."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from tinylab.helpers.text import ansistrip
from tinylab.opcodes import GroupOp, Ops
from tinylab.trace.nodes import Head
from tinylab.trace.shapes import StoredArg

_LONGEST_ARG = 400
_COLOR = re.compile(r"\x1b\[[0-9;]*m|\\x1b\[[0-9;]*m")  # as it is, and as repr writes it


class HeadFacts(NamedTuple):
    """A node apart from its sources, in words. `kind` groups ops for colours and filters."""

    op: str
    dtype: str
    arg: str
    tag: str
    label: str
    kind: str


class RuleFacts(NamedTuple):
    """A row of a rule table: its name, its law, the text of its result, and where it stands."""

    name: str
    law: str
    source: str
    file: str
    line: int


_MEMORY = {Ops.BUFFER, Ops.PARAM, Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.COPY, Ops.CONTIGUOUS,
           Ops.CONTIGUOUS_BACKWARD, Ops.STAGE, Ops.GETADDR, Ops.MSELECT, Ops.MSTACK,
           Ops.UNSHARD}  # fmt: skip
_CONTROL = {Ops.SINK, Ops.AFTER, Ops.GROUP, Ops.CALL, Ops.FUNCTION, Ops.PROGRAM, Ops.LINEAR, Ops.IF,
            Ops.ENDIF, Ops.BARRIER, Ops.TUPLE, Ops.GETTUPLE, Ops.CUSTOM_FUNCTION,
            Ops.SOURCE, Ops.BINARY}  # fmt: skip
_KINDS: tuple[tuple[str, set[Ops] | frozenset[Ops]], ...] = (
    ("movement", set(GroupOp.Movement)),
    ("alu", set(GroupOp.ALU) | {Ops.CAST, Ops.BITCAST, Ops.CUSTOM, Ops.CUSTOMI}),
    ("reduce", {Ops.REDUCE, Ops.ALLREDUCE, Ops.WMMA}),
    ("memory", _MEMORY),
    ("const", {Ops.CONST, Ops.STACK, Ops.PYLITERAL}),
    ("range", {Ops.RANGE, Ops.END, Ops.SPECIAL}),
    ("control", _CONTROL),
)
KIND_OF = {op: kind for kind, ops in _KINDS for op in ops}


def head_facts(head: Head) -> HeadFacts:
    """A head in words; one that was read from a file is in words already."""
    op, kind = head.op, KIND_OF.get(head.op, "other")
    if isinstance(head.arg, StoredArg):
        text, label, _ = head.arg
        return HeadFacts(op.name, head.dtype, text, head.tag or "", label, kind)
    arg = ansistrip(_arg_text(op, head.arg))
    return HeadFacts(
        op=op.name,
        dtype=_dtype_text(head.dtype),
        arg=arg,
        tag="" if head.tag is None else _short(_plain(repr(head.tag))),
        label=_label(op, head.arg, arg),
        kind=kind,
    )


def _dtype_text(dtype: Any) -> str:
    return str(getattr(dtype, "name", dtype))


def _short(text: str, longest: int = _LONGEST_ARG) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _arg_text(op: Ops, arg: Any) -> str:
    if arg is None:
        return ""
    if isinstance(arg, bytes):
        return f"{len(arg)} bytes"
    if op in (Ops.CAST, Ops.BITCAST):
        return _dtype_text(arg)
    if op is Ops.RANGE and isinstance(arg, tuple):
        return ", ".join(map(_word, arg))
    if isinstance(arg, tuple) and hasattr(arg, "_field_defaults"):
        return _short(_fields(arg))
    return _short(_word(arg) if isinstance(arg, str) else _plain(repr(arg)))


def _plain(text: str) -> str:
    """The repr of what holds texts, without the colours of those, which it has spelled out."""
    return _COLOR.sub("", text)


def _word(value: Any) -> str:
    """A value of an argument: enums by their name, texts as they are."""
    if isinstance(value, str):
        return ansistrip(value)
    if isinstance(value, tuple) and hasattr(value, "_field_defaults"):
        first, _, rest = _fields(value).partition(", ")
        return f"{first}({rest})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_word, value))})"
    name = getattr(value, "name", None)
    return ansistrip(str(value if name is None else name))


def _fields(arg: Any) -> str:
    """A record without what goes without saying: "ADD, count=1", "2, device=CPU".

    The dtype stands beside the argument anyway.
    """
    defaults = arg._field_defaults
    return ", ".join(
        f"{name}={_word(value)}" if name in defaults else _word(value)
        for name, value in zip(arg._fields, arg, strict=True)
        if name != "dtype" and (name not in defaults or value != defaults[name])
    )


def _label(op: Ops, arg: Any, text: str) -> str:
    """A few words for a box: the op, and the part of the argument that tells boxes apart."""
    words = _LABELS.get(op)
    if words is None or arg is None:
        return op.name
    try:
        return _short(ansistrip(f"{op.name} {words(arg)}").rstrip(), 60)
    except (AttributeError, IndexError, TypeError):
        return _short(f"{op.name} {text}", 60)


def _param_words(arg: Any) -> str:
    return str(arg.name) if arg.name is not None else f"{arg.slot}"


_LABELS: dict[Ops, Callable[[Any], str]] = {
    Ops.CONST: lambda arg: str(arg),
    Ops.RANGE: lambda arg: f"{'_'.join(map(str, arg[:-1]))} {arg[-1].name}",
    Ops.SPECIAL: lambda arg: str(arg),
    Ops.PARAM: _param_words,
    Ops.BUFFER: lambda arg: f"{_param_words(arg)} {arg.device or arg.addrspace.name}",
    Ops.REDUCE: lambda arg: str(arg[0].name),
    Ops.CAST: _dtype_text,
    Ops.BITCAST: _dtype_text,
    Ops.PERMUTE: lambda arg: ",".join(map(str, arg)),
    Ops.FLIP: lambda arg: ",".join(str(i) for i, flipped in enumerate(arg) if flipped),
    Ops.SINK: lambda arg: arg.function_name,
    Ops.PROGRAM: lambda arg: arg.function_name,
    Ops.CALL: lambda arg: arg.name or arg.aux or "",
    Ops.FUNCTION: lambda arg: arg.name or "",
    Ops.COPY: lambda arg: f"to {arg}",
    Ops.GETTUPLE: lambda arg: str(arg),
    Ops.CUSTOM: lambda arg: str(arg),
    Ops.CUSTOMI: lambda arg: str(arg),
    Ops.CUSTOM_FUNCTION: lambda arg: str(arg),
}


def rule_facts(rule: Any) -> RuleFacts:
    """A rule in words; the text of its result is read from the file that it stands in."""
    if isinstance(rule, RuleFacts):
        return rule
    function = inspect.unwrap(rule.result) if callable(rule.result) else rule.result
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError, IndentationError, SyntaxError):
        source = ""
    return RuleFacts(
        name=ansistrip(str(rule.name or getattr(function, "__name__", ""))),
        law=ansistrip(str(rule.law or "")),
        source=textwrap.dedent(source).rstrip(),
        file=rule.place[0],
        line=rule.place[1],
    )

"""What sort of work a line of a program is, in the words of the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tinylab.dtype import AddrSpace, dtypes
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp

_WORDS = {
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.NEG), "add"),
    Ops.MUL: "multiply",
    Ops.MULACC: "multiply-add",
    **dict.fromkeys((Ops.FDIV, Ops.RECIPROCAL, Ops.CDIV, Ops.CMOD), "divide"),
    **dict.fromkeys((Ops.FLOORDIV, Ops.FLOORMOD), "divide"),
    **dict.fromkeys((Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT, Ops.POW), "transcendental"),
    **dict.fromkeys((*GroupOp.Comparison, Ops.MAX), "compare"),
    **dict.fromkeys((Ops.SHL, Ops.SHR, Ops.XOR, Ops.OR, Ops.AND, Ops.THREEFRY), "logic"),
    Ops.TRUNC: "round",
    Ops.WHERE: "select",
}
# Floating-point operations that one execution of a lane is.
FLOPS = {
    "float add": 1,
    "float multiply": 1,
    "float multiply-add": 2,
    "float divide": 1,
    "float transcendental": 1,
}
_SPACES = {AddrSpace.GLOBAL: "", AddrSpace.LOCAL: "local ", AddrSpace.REG: "register "}


def sort_of(u: UOp) -> str | None:
    """The sort of a line: "float add", "int multiply", "load"; None for what is no work.

    A comparison is of what it compares, a cast is a cast.
    """
    if u.op in (Ops.LOAD, Ops.STORE):
        space = _SPACES.get(buffer_of(u).arg.addrspace, "")
        return f"{space}{u.op.name.lower()}"
    if u.op is Ops.CAST:
        return "cast"
    if u.op not in _WORDS:
        return None
    if u.op is Ops.WHERE:
        return "select"
    dtype = u.src[-1].dtype if u.op in GroupOp.Comparison else u.dtype
    kind = "float" if dtypes.is_float(dtype) else "bool" if dtype is dtypes.bool else "int"
    return f"{kind} {_WORDS[u.op]}"


def buffer_of(u: UOp) -> UOp:
    """The PARAM or BUFFER that a load, a store or an address is of."""
    while u.op not in GroupOp.Defines:
        u = u.src[0]
    return u


def lanes_of(u: UOp) -> int:
    """How many lanes one execution of a line has."""
    shaped = u.src[0] if u.op is Ops.STORE else u
    return math.prod(int(n) for n in shaped.shape)


def width_of(u: UOp) -> int:
    """Lanes of one row: what the line asks of a vector register."""
    shaped = u.src[0] if u.op is Ops.STORE else u
    return int(shaped.shape[-1]) if shaped.shape else 1


def addressing(lines: Sequence[UOp]) -> set[UOp]:
    """The lines that are computed for addresses, gates and loop bounds alone."""
    data: set[UOp] = set()
    places: set[UOp] = set()
    for u in lines:
        if u.op in (Ops.LOAD, Ops.STORE):
            _collect((u.src[0], *u.src[2:]), places)
            _collect(u.src[1:2], data)
        elif u.op in (Ops.RANGE, Ops.IF, Ops.SPECIAL):
            _collect(u.src, places)
        elif u.op is Ops.CUSTOM:
            _collect(u.src, data)
    return places - data


def _collect(roots: Iterable[UOp], found: set[UOp]) -> None:
    """Everything that the roots are computed from, up to what is loaded."""
    stack = list(roots)
    while stack:
        u = stack.pop()
        if u not in found:
            found.add(u)
            # An AFTER only orders; what is loaded was counted where it was computed.
            stack.extend({Ops.LOAD: (), Ops.AFTER: u.src[:1]}.get(u.op, u.src))

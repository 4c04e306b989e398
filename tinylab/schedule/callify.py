"""A graph as the body of a call: inputs become numbered parameters.

Two graphs that differ only in which buffers they read have the same body, so that what was worked
out for one serves the other.
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.dtype import AddrSpace
from tinylab.opcodes import Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, graph_rewrite


class Callified(NamedTuple):
    """A body with PARAMs, and the BUFFER that each slot stands for."""

    body: UOp
    inputs: tuple[UOp, ...]


def number_input(x: UOp, ctx: dict[UOp, UOp]) -> UOp | None:
    """A buffer as the next numbered parameter; a variable stays what it is."""
    if x.arg.addrspace is AddrSpace.ALU:
        return None
    if x not in ctx:
        arg = ParamArg(len(ctx), x.dtype, device=x.arg.device)
        ctx[x] = x.replace(op=Ops.PARAM, arg=arg)
    return ctx[x]


pm_callify = PatternMatcher(
    [
        Rule(
            "number_input",
            "buffer -> param(slot)",
            UPat(Ops.BUFFER, name="x"),
            number_input,
        )
    ]
)


def callify(sink: UOp) -> Callified:
    """Replace every BUFFER by a PARAM, numbered in the order in which they are met."""
    numbered: dict[UOp, UOp] = {}
    body = graph_rewrite(sink, pm_callify, ctx=numbered, name="callify")
    return Callified(body, tuple(numbered))

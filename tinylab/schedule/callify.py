"""A graph as the body of a call: inputs become numbered parameters.

Two graphs that differ only in which buffers they read have the same body, so that what was worked
out for one serves the other.
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.dtype import AddrSpace
from tinylab.errors import BindMismatchError
from tinylab.opcodes import Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.intern import carry_metadata, make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, graph_rewrite


class Callified(NamedTuple):
    """A body with PARAMs, the BUFFER that each slot stands for, and the values of its variables."""

    body: UOp
    inputs: tuple[UOp, ...]
    var_vals: dict[str, int]


class Numbering(NamedTuple):
    """What has been met so far."""

    inputs: dict[UOp, UOp]
    var_vals: dict[str, int]


def number_input(x: UOp, ctx: Numbering) -> UOp:
    """A buffer as the next numbered parameter; a variable as the kernel's side of it.

    Storage on several devices is a parameter for each of them.
    """
    if x.arg.addrspace is AddrSpace.ALU:
        return x.replace(op=Ops.PARAM)
    if isinstance(x.arg.device, tuple):
        parts = tuple(_numbered(p, x, ctx) for p in x.parts_on_devices)
        return make(Ops.MSTACK, x.dtype, parts)
    return _numbered(x, x, ctx)


def _numbered(part: UOp, x: UOp, ctx: Numbering) -> UOp:
    inputs = ctx.inputs
    if part not in inputs:
        arg = ParamArg(len(inputs), x.dtype, device=part.device)
        inputs[part] = make(Ops.PARAM, x.dtype, x.src, arg)
    return inputs[part]


def note_value(x: UOp, ctx: Numbering) -> UOp:
    """A variable with a value is the bare variable; the value is no part of the body."""
    var, value = x.unbind()
    known = ctx.var_vals.setdefault(var.arg.name, value)
    if known != value:
        raise BindMismatchError(
            f"bind mismatch on {var.arg.name}, {known} != {value}",
            help="one computation has one value of a variable: .realize() what has the other first",
        )
    return var


def is_bound(x: UOp) -> bool:
    """Whether the AFTER gives a variable its value."""
    return x.is_bound_var


pm_callify = PatternMatcher(
    [
        Rule("number_input", "buffer -> param(slot)", UPat(Ops.BUFFER, name="x"), number_input),
        Rule(
            "note_value",
            "variable bound to 3 -> variable",
            UPat(Ops.AFTER, name="x"),
            note_value,
            when=is_bound,
        ),
    ]
)


def callify(sink: UOp, by_rules: bool = False) -> Callified:
    """Replace every BUFFER by a PARAM, numbered in the order in which they are met.

    by_rules: as a pass that can be listened to; the result is the same.

    Raises: BindMismatchError where one variable has two values.
    """
    found = Numbering({}, {})
    if by_rules:
        body = graph_rewrite(sink, pm_callify, ctx=found, name="callify")
    else:
        body = _walk(sink, found)
    return Callified(body, tuple(found.inputs), found.var_vals)


def _walk(sink: UOp, found: Numbering) -> UOp:
    """The two rules in a walk of their own: every realize starts here, also of a known body.

    4 times faster than the rule table on benchmarks/overhead.py; a test compares the two.
    """
    changed: dict[UOp, UOp] = {}
    for x in sink.toposort(enter_calls=False):
        if x.op is Ops.BUFFER:
            changed[x] = number_input(x, found)
            continue
        now = x
        for s in x.src:
            if s in changed:
                src = tuple([changed.get(s, s) for s in x.src])
                if x.op is Ops.CALL or x.op is Ops.FUNCTION:
                    src = (x.src[0], *src[1:])
                now = changed[x] = carry_metadata(x, make(x.op, x.dtype, src, x.arg, x.tag))
                break
        if x.op is Ops.AFTER and now.is_bound_var:
            changed[x] = note_value(now, found)
    return changed.get(sink, sink)

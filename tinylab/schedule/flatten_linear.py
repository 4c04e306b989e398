"""Lists in a list become one list: a CALL of a LINEAR is the calls in it, with its arguments."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tinylab.opcodes import Ops
from tinylab.schedule.add_buffers import FIRST_INTERNAL
from tinylab.schedule.effects import called_with
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

# Slots of the buffers inside flattened lists: every use of a list gets buffers of its own.
_FIRST_FLATTENED = -2_000_000


def _flattened(linear: UOp) -> UOp | None:
    if not any(_is_list(call) for call in linear.src):
        return None
    slots = itertools.count(_FIRST_FLATTENED, -1)
    return linear.replace(src=tuple(c for call in linear.src for c in _calls(call, slots)))


def _is_list(call: UOp) -> bool:
    return call.op is Ops.LINEAR or (call.op is Ops.CALL and call.src[0].op is Ops.LINEAR)


def _calls(call: UOp, slots: Iterator[int]) -> Iterator[UOp]:
    if call.op is Ops.LINEAR:
        for one in call.src:
            yield from _calls(one, slots)
        return
    if not _is_list(call):
        yield call
        return
    inner: dict[UOp, UOp] = {}
    for one in call.src[0].src:
        src = tuple(_argument(a, call.src[1:], inner, slots) for a in one.src[1:])
        yield from _calls(called_with(one, src), slots)


def _argument(a: UOp, args: tuple[UOp, ...], inner: dict[UOp, UOp], slots: Iterator[int]) -> UOp:
    """What an argument inside the list stands for outside."""
    if a.op is Ops.PARAM:
        outside: UOp = args[a.arg.slot]
        return outside
    if a.op is Ops.BUFFER and a.arg.slot <= FIRST_INTERNAL:
        if a not in inner:
            inner[a] = a.replace(arg=a.arg._replace(slot=next(slots)))
        return inner[a]
    return a


pm_flatten_linear = PatternMatcher(
    [
        Rule(
            "flatten_linear",
            "linear(call(linear(c, …), x), …) -> linear(c of x, …)",
            UPat(Ops.LINEAR, name="linear"),
            _flattened,
        )
    ]
)


def flatten_linear(linear: UOp, ctx: Any = None) -> UOp:
    """The LINEAR without LINEARs in it."""
    found: UOp | None = pm_flatten_linear.rewrite(linear)
    return linear if found is None else found

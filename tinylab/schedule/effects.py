"""What a CALL does to its arguments: which of them it writes to, which it only reads."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from tinylab.helpers.text import size_to_str
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.intern import carry_metadata
from tinylab.uop.ops import UOp

OTHER_VIEW = "the update reads its own buffer through another view"
_THROUGH = GroupOp.Movement | {Ops.AFTER, Ops.BITCAST, Ops.INDEX, Ops.CAST, Ops.UNSHARD}


def buffer_below(x: UOp) -> UOp:
    """The BUFFER or PARAM below views and states."""
    while x.op in _THROUGH:
        x = x.without_after if x.op is Ops.AFTER else x.src[0]
    return x


def called_with(call: UOp, arguments: Iterable[UOp], body: UOp | None = None) -> UOp:
    """A CALL with other arguments, or another form of its body; made by the same methods."""
    src = (call.src[0] if body is None else body, *arguments)
    return carry_metadata(call, call.replace(src=src))


def copied_first(why: str, x: UOp) -> str:
    """The reason of a copy that a write in place needs, with the bytes that it takes."""
    return f"{why}: copied first, {size_to_str(x.max_numel() * x.dtype.itemsize)}"


@functools.lru_cache(maxsize=1024)
def written_slots(body: UOp) -> frozenset[int]:
    """The slots of a body that it stores to; of a copy the first one, of machine code what it says.

    Where a body does not say what it writes, the first slot: outputs come first by convention.
    """
    if body.op is Ops.PROGRAM and body.arg is not None and body.arg.outs:
        return frozenset(body.arg.outs)
    if body.op is Ops.LINEAR:
        return _written_in_list(body)
    sink = body.src[0] if body.op is Ops.PROGRAM else body
    found = {
        target.arg.slot
        for u in sink.toposort()
        if u.op is Ops.STORE and (target := buffer_below(u.src[0])).op is Ops.PARAM
    }
    return frozenset(found or {0})


@functools.lru_cache(maxsize=1024)
def read_slots(body: UOp) -> frozenset[int]:
    """The slots of a kernel's body that what it stores is worked out from."""
    stores = (u for u in body.toposort() if u.op is Ops.STORE)
    below = UOp.sink(*(s for u in stores for s in u.src[1:])).toposort()
    return frozenset(u.arg.slot for u in below if u.op is Ops.PARAM and not u.is_variable)


def _written_in_list(linear: UOp) -> frozenset[int]:
    """The slots that some call in a list writes to."""
    return frozenset(
        buffer.arg.slot
        for call in linear.src
        for n in written_slots(call.src[0])
        if (buffer := buffer_below(call.src[1 + n])).op is Ops.PARAM
    )


def overwrites(call: UOp, state: UOp) -> bool:
    """Whether a CALL writes to the buffer that a view looks at."""
    buffer = buffer_below(state)
    places = [n for n, a in enumerate(call.src[1:]) if buffer_below(a) is buffer]
    return any(n in written_slots(call.src[0]) for n in places)


def is_write(x: UOp) -> bool:
    """Whether a node is the state of a buffer after something was written to it."""
    if x.op is not Ops.AFTER or x.is_bound_var:
        return False
    return any(
        e.op is Ops.STORE or (e.op is Ops.CALL and overwrites(e, x.src[0])) for e in x.src[1:]
    )

"""Cheap folds of the tensor graph: what vanishes, what is a constant, what merges.

REDUCE(EXPAND(x)) over the expanded axis becomes arithmetic; a value of size 0 becomes a constant;
DETACH and its like, which only gradients look at, go away.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.effects import OTHER_VIEW, buffer_below, copied_first, is_write
from tinylab.schedule.make_there import only_keeps
from tinylab.schedule.views import contiguous_view_offset, piece_offset, stored_below, window_of
from tinylab.uop.args import ReduceArg
from tinylab.uop.intern import make
from tinylab.uop.ops import (
    PatternMatcher,
    Rule,
    UOp,
    UPat,
    identity_element,
    node_to_shape,
    rebuild,
)
from tinylab.uop.symbolic import pm_marks


def _is_empty(x: UOp) -> bool:
    return x._shape is not None and any(isinstance(s, int) and s == 0 for s in x._shape)


def empty_is_const(x: UOp) -> UOp | None:
    """No element, so any constant will do."""
    if not _is_empty(x) or (x.op is Ops.EXPAND and x.src[0].op is Ops.CONST):
        return None
    return UOp.const(0, x.dtype)._expand_front(x.shape)


def reduce_of_nothing(x: UOp) -> UOp | None:
    """Over nothing a reduction is its identity."""
    if not _is_empty(x.src[0]) or _is_empty(x):
        return None
    return UOp.const(identity_element(x.arg.op, x.dtype), x.dtype)._expand_front(x.shape)


def reduce_of_expand(x: UOp, r: UOp) -> UOp | None:
    """Axes that only repeat the value: a sum is a product, a product a power, a maximum itself."""
    added = node_to_shape(x.src[1])
    count = min(len(added), r.arg.count)
    repeats: Any = 1
    for size in added[:count]:
        repeats = repeats * size
    if not isinstance(repeats, int):
        return None
    inner = x.src[0]._expand_front(added[count:])
    rest = r.arg.count - count
    if rest:
        inner = inner.replace(op=Ops.REDUCE, src=(inner,), arg=ReduceArg(r.arg.op, rest))
    if r.arg.op is Ops.MAX:
        return inner
    if r.arg.op is Ops.ADD and r.dtype.kind != "bool":
        return inner * repeats
    if r.arg.op is Ops.MUL and r.dtype.kind != "bool":
        return _power(inner, repeats)
    return None


def _power(x: UOp, n: int) -> UOp:
    """x multiplied by itself, n >= 1 times in all, by squares."""
    power = x
    for bit in f"{n:b}"[1:]:
        power = power * power
        if bit == "1":
            power = power * x
    return power


def movement_of_const(x: UOp) -> UOp | None:
    """A constant looks the same from everywhere; a PAD of it does not."""
    base = x.src[0]
    if base.op is Ops.EXPAND and base.src[0].op is Ops.CONST:
        base = base.src[0]
    if base.op is not Ops.CONST or x.op is Ops.PAD:
        return None
    if x.op is Ops.EXPAND and x.src[0] is base:
        return None
    return base._expand_front(x.shape)


def pad_of_zero(x: UOp, c: UOp) -> UOp | None:
    """Zeros around zeros; a negative zero is something else."""
    if c.arg != 0 or str(c.arg).startswith("-"):
        return None
    return c._expand_front(x.shape)


def copy_to_same_device(x: UOp) -> UOp | None:
    """A copy that goes nowhere is only stored."""
    return x.src[0].contiguous() if x.arg == x.src[0].device else None


def made_there(x: UOp) -> bool:
    """Whether a copy is of a value that is nowhere, such as a constant: its device computes it."""
    is_copy = x.op is Ops.COPY and isinstance(x.arg, str) and not only_keeps(x.arg)
    return is_copy and x.src[0].device is None


def value_made_there(x: UOp) -> UOp | None:
    """Who reads a constant makes it; what is worked out of nothing else is nowhere too."""
    copies = [s for s in x.src if made_there(s)]
    if not copies:
        return None
    value = rebuild(x, tuple(s.src[0] if made_there(s) else s for s in x.src))
    return value if value.device is not None else value.copy_to_device(copies[0].arg)


def contiguous_twice(c: UOp, x: UOp) -> UOp:
    """Stored once; if either says why a copy is wanted, it is made."""
    return x if c.arg is None or x.arg is not None else c.replace(src=x.src)


def contiguous_of_whole(c: UOp, x: UOp) -> UOp | None:
    """A whole buffer is stored already; an argument says that a copy is wanted all the same."""
    return x if c.arg is None and x.has_buffer_identity(after_ok=True) else None


def copy_of_gaps(x: UOp) -> UOp | None:
    """A view with gaps is stored before it is copied; as a value, for the view may be written."""
    view = x.src[0]
    if view.op not in GroupOp.Movement or stored_below(view) is None:
        return None
    if not isinstance(view.device, str) or piece_offset(view) is not None:
        return None
    stored = make(Ops.CONTIGUOUS, view.dtype, (view,), f"is copied to {x.arg}")
    return stored.copy_to_device(x.arg)


def contiguous_of_copy(c: UOp, x: UOp) -> UOp | None:
    """What arrives from another device, or is made there, is stored in one piece."""
    apart = c.arg is not None and not made_there(x)
    return None if apart or isinstance(x.src[0].device, tuple) else x


def contiguous_of_window(c: UOp, x: UOp, ctx: Container[UOp]) -> UOp | None:
    """One piece of a buffer is in one piece already, unless the buffer is about to be written."""
    if c.arg is not None or x.op not in GroupOp.Movement:
        return None
    if contiguous_view_offset(x) is None or buffer_below(x) in ctx:
        return None
    window = window_of(x)
    return x if window is None else window.view()._reshape(x.shape)


def store_into_own_view(x: UOp) -> UOp | None:
    """What is written to a view of itself is copied first, apart from what is written to."""
    target, value = x.src[:2]
    view = target
    while view is not value and view.op in GroupOp.Movement:
        view = view.src[0]
    if view is not value or view is target:
        return None
    apart = make(Ops.CONTIGUOUS, value.dtype, (value,), copied_first(OTHER_VIEW, value))
    return x.replace(src=(target, apart, *x.src[2:]))


def written_buffers(root: UOp, ctx: Any = None) -> frozenset[UOp]:
    """The buffers that a graph writes to."""
    return frozenset(
        buffer_below(u)
        for u in root.toposort(enter_calls=False)
        if u.op is Ops.AFTER and is_write(u)
    )


_OPERATIONS = GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.STORE, Ops.COPY}
_EXPANDED_CONST = UPat(Ops.EXPAND, src=(UPat.cvar("c"), UPat()))

# fmt: off
pm_early_cleanup = pm_marks + PatternMatcher([
    Rule("contiguous_twice", "contiguous(contiguous(x)) -> contiguous(x)",
         UPat(Ops.CONTIGUOUS, src=(UPat(Ops.CONTIGUOUS, name="x"),), name="c"), contiguous_twice),
    Rule("contiguous_of_whole", "contiguous(buffer) -> buffer",
         UPat(Ops.CONTIGUOUS, src=(UPat(name="x"),), name="c"), contiguous_of_whole),
    Rule("copy_of_gaps", "copy(view with gaps) -> copy(contiguous(view))",
         UPat(Ops.COPY, name="x"), copy_of_gaps),
    Rule("contiguous_of_copy", "contiguous(copy(x)) -> copy(x)",
         UPat(Ops.CONTIGUOUS, src=(UPat(Ops.COPY, name="x"),), name="c"), contiguous_of_copy),
    Rule("contiguous_of_window", "contiguous(one piece of a buffer) -> that piece",
         UPat(Ops.CONTIGUOUS, src=(UPat(name="x"),), name="c"), contiguous_of_window),
    Rule("store_into_own_view", "move(x) <- x  becomes  move(x) <- contiguous(x)",
         UPat(Ops.STORE, name="x"), store_into_own_view),
    Rule("empty_is_const", "a value of size 0 -> a constant",
         UPat(GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.CONTIGUOUS}, name="x"),
         empty_is_const),
    Rule("reduce_of_nothing", "reduce over size 0 -> identity", UPat(Ops.REDUCE, name="x"),
         reduce_of_nothing),
    Rule("reduce_of_expand", "sum, prod, max of expand(x, n) -> x*n, x**n, x",
         UPat(Ops.REDUCE, src=(UPat(Ops.EXPAND, name="x"),), name="r"), reduce_of_expand),
    Rule("pad_of_zero", "pad(0) -> 0",
         UPat(Ops.PAD, name="x", src=(_EXPANDED_CONST, UPat(), UPat())), pad_of_zero),
    Rule("movement_of_const", "move(c) -> c", UPat(GroupOp.Movement, name="x"), movement_of_const),
    Rule("value_made_there", "op(copy(c), x) -> op(c, x); op(copy(c)) -> copy(op(c))",
         UPat(_OPERATIONS, name="x"), value_made_there),
    Rule("copy_to_same_device", "copy(x, its device) -> contiguous(x)", UPat(Ops.COPY, name="x"),
         copy_to_same_device),
])
# fmt: on

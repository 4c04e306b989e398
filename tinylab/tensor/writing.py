"""Writing in place: assign, x[…] = v, and the storage below views.

A write is a node: AFTER(target, STORE(view of target, value)). The tensor that is written to, and
the tensors it is a view of, become that node; what was built before keeps the old value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, dtypes, strong_dtype
from tinylab.engine.capture import open_captures
from tinylab.engine.locking import alone
from tinylab.errors import AssignError
from tinylab.gradient import placed
from tinylab.mixin.base import same_size, shape_text
from tinylab.mixin.buckets import buckets, too_many
from tinylab.mixin.indexing import (
    AxisIndex,
    flat_places,
    parse_index,
    slice_view,
    take,
    tensor_axes,
)
from tinylab.opcodes import Ops
from tinylab.tensor.bits import as_bits
from tinylab.tensor.core import TensorCore
from tinylab.tensor.data import check_whole, empty_uop
from tinylab.tensor.held import ANYTHING, live
from tinylab.tensor.sharing import (
    Family,
    Link,
    Steps,
    buffer_under,
    chain_below,
    families_of,
    is_expanded,
    may_write,
    moved,
    owners_of,
    part,
    places_written,
    seen_through,
    stand_at,
    steps_to,
)
from tinylab.uop.ops import UOp
from tinylab.uop.sharding import reads_across

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor

# Movements through which a value can be stored: each element of the view has a place of its own.
_STORABLE = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.DETACH, Ops.UNSHARD})


def stored_copy(uop: UOp, device: Any, axis: int | None = None) -> UOp:
    """A buffer of its own that the value is written to, in the value's shape.

    axis: which one is cut, on several devices; by default that which is cut already.
    """
    cut = uop.axis if axis is None and uop.device == device else axis
    target = empty_uop(uop.shape, uop.dtype, device, cut)
    flat = target.unsharded_base
    if flat.op is not Ops.BUFFER:
        return target
    return seen_through(chain_below(target)[0], flat.after(target.store(uop)))


def operand(target: Tensor, x: Any, what: str, place: Tensor | None = None) -> Any:
    """The value of a write as a tensor of the target's type and shape.

    what: "assign", or "setitem", which casts a value of another type as numpy and PyTorch do.
    place: the tensor whose device it has to be on, where that is not the target.

    Raises: AssignError for None, when its device is another, and of an assign when its type is;
    ShapeError when it does not fit; CreationError for a number that an integer type cannot hold.
    """
    cls = type(target)
    device = (target if place is None else place).device
    if x is None:
        raise AssignError(f"{what}: None is no value", help="give a number, a list or a Tensor")
    dtype = strong_dtype(target.dtype)
    if what == "setitem":
        check_whole(x, dtype)
    value = x if isinstance(x, cls) else cls(x, device=device, dtype=dtype)
    if what == "setitem" or dtypes.is_weak(value.dtype):
        value = value.cast(dtype)
    if value.dtype is not dtype:
        raise AssignError(
            f"{what} dtype mismatch {dtype} != {value.dtype}",
            help=f"cast the value first: .cast({dtype})",
        )
    if value.uop.device is not None and value.device != device:
        raise AssignError(
            f"{what} device mismatch {device} != {value.device}",
            help=f"move the value first: .to({device!r})",
        )
    axes = target.uop.axis, value.uop.axis
    # Cut along another axis it is gathered; copies and parts are not mixed up in silence.
    one_is_whole = None in axes and axes != (None, None)
    if what == "assign" and isinstance(value.uop.device, tuple) and one_is_whole:
        raise AssignError(
            f"multi axis mismatch {axes[0]} != {axes[1]}",
            help=f"shard the value like the tensor: .to({device[0]!r}).shard({device}, {axes[0]})",
        )
    while value.ndim > target.ndim and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    return value._broadcast_to(target.shape)


def _holds(t: TensorCore, uop: UOp) -> None:
    """Give a tensor another value; what may be below it is no longer what it was made of."""
    old, t.uop, t._marks = t.uop, uop, ANYTHING
    live.changed(t)
    live.wrote(t, old)


def ensure_stored(t: Tensor) -> None:
    """Let a tensor, and those that a write into it reaches, look at storage of their own.

    What is weak gets the default type of its kind, as memory has one.

    Raises: AssignError where several elements are one of the storage.
    """
    if is_expanded(t):
        raise AssignError(
            f"cannot write into an expanded view of shape {shape_text(t.shape)}",
            help="make it contiguous first",
        )
    for root, members in families_of(t):
        if root.numel() and not may_write(root):
            strong = root.uop.cast(strong_dtype(root.dtype))
            _holds(root, stored_copy(strong, root.device))
        for x, steps in members:
            uop = seen_through(steps, root.uop)
            if x.uop is not uop:
                _holds(x, uop)


@alone
def assign(t: Tensor, value: Tensor) -> None:
    """Write a value of the right shape and type into a tensor, and into what it is a view of."""
    if t.numel() == 0:
        return
    if value.uop is t.uop:
        _part(t, ())
    elif not owners_of(t) and not may_write(t) and not is_expanded(t):
        # A value that was never stored is replaced, in storage of its own.
        _holds(t, stored_copy(value.uop, t.device, t.uop.axis))
        _part(t, ())
    else:
        ensure_stored(t)
        write(t, t.uop, value.uop)


def _part(t: TensorCore, steps: Steps) -> list[tuple[TensorCore, Link]]:
    """Part the views of what is written through steps of looking; the others are given."""
    live.wrote_parts([(t, steps), *((k.owner(), steps + k.steps) for k in t._view_of)])
    return part(places_written(t, steps))


def accumulated(old: Tensor, more: Tensor) -> Tensor:
    """A gradient with what comes to it.

    In a function that is captured it is written where the old one lies, so that replays add to it.
    """
    total = old + more
    if not open_captures() or buffer_under(old.uop) is None:
        return total
    if (total.dtype, total.device, total.uop.axis) != (old.dtype, old.device, old.uop.axis):
        return total
    found = type(old)(old.uop)
    found._stands = old._stands
    return found.assign(total)


def write(t: Tensor, view: UOp, value: UOp, changes: UOp | None = None) -> None:
    """Write a value to a view of a tensor's storage; the tensor and what it is a view of see it.

    changes: the part of the view that is another afterwards; None for all of it.
    """
    steps = steps_to(view, t.uop) or ()
    beside = _part(t, steps if changes is None else steps_to(changes, t.uop) or ())
    for family in families_of(t):
        _write_family(family, steps, value, beside)


def _write_family(
    family: Family, steps: Steps, value: UOp, beside: list[tuple[TensorCore, Link]]
) -> None:
    """Write to one storage through steps of looking at the family's first member.

    beside: views that look at other places: where they looked at this storage, they still do.
    """
    root, members = family
    root_chain, state = chain_below(root.uop)
    chain, _ = chain_below(seen_through((*steps, *members[0][1]), root.uop))
    new = _written(chain, state, value)
    now = {id(x): seen_through(below, seen_through(root_chain, new)) for x, below in members}
    there = [x for x, _ in members]
    for view, link in beside:
        owner = link.owner()
        if id(owner) in now and chain_below(view.uop)[1] is state:
            moved(view, seen_through(link.steps, now[id(owner)]))
            there.append(view)
    for x, _ in members:
        _holds(x, now[id(x)])
    if (buffer := buffer_under(state)) is not None:
        stand_at(buffer, there)


def _written(chain: Sequence[UOp | DType], state: UOp, value: UOp) -> UOp:
    """The state of a buffer after a value is written to a view of it."""
    moves, value = _below_bits(chain, state, value)
    if all(step.op in _STORABLE and not _across_parts(step) for step in moves):
        return state.after(seen_through(moves, state).store(value))
    # Through padding, and in other shards, there is no plain view: the whole is written,
    # changed where it looks.
    ops = [step.op for step in moves]
    depth = ops.index(Ops.UNSHARD) if Ops.UNSHARD in ops else len(moves)
    whole = seen_through(moves[depth:], state)
    return state.after(whole.store(changed(whole, moves[:depth], value)))


def changed(whole: UOp, moves: list[UOp], value: UOp) -> UOp:
    """A value with another one where movements look at it."""
    moves = [m for m in moves if m.op is not Ops.DETACH]
    if not moves:
        return value
    mask = placed(moves, UOp.const(True, dtypes.bool)._expand_front(value.shape))
    return mask.alu(Ops.WHERE, placed(moves, value), whole)


def _below_bits(chain: Sequence[UOp | DType], state: UOp, value: UOp) -> tuple[list[UOp], UOp]:
    """(the movements below the last view of bits, what is written there).

    Bits have a place in memory only in elements of its own type: those are written whole.
    """
    moves: list[UOp] = []
    for n, step in enumerate(chain):
        if isinstance(step, UOp):
            moves.append(step)
            continue
        below = seen_through(chain[n + 1 :], state)
        value = as_bits(changed(as_bits(below, step), moves, value), below.dtype)
        moves = []
    return moves, value


def _across_parts(step: UOp) -> bool:
    """Whether a movement hands elements from device to device: that is no view of memory."""
    turned = step.op is Ops.FLIP and step.axis is not None and step.arg[step.axis]
    return turned or reads_across(step)


@alone
def setitem(t: Tensor, indices: Any, v: Any) -> None:
    """t[indices] = v, cast to t's type.

    int32 [1, 2], [0] = 2.7  ->  [2, 2]
    """
    plan = parse_index(t, indices)
    ensure_stored(t)
    if any(p.kind == "slice" and same_size(*p.box) for p in plan):
        return
    whole = plan
    plan, inner = _across_shards(t, plan)
    view = slice_view(t, plan)
    if math.prod(view.shape) == 0:
        return
    if any(p.tensor is not None for p in plan):
        if any(0 in p.tensor.shape for p in plan if p.tensor is not None):
            _part(t, steps_to(view.uop, t.uop) or ())  # as where it is true
            return
        new = _with_elements(view, plan, v)
    elif inner is not None:
        new = _with_elements(view, inner, v)
    else:
        new = operand(view, v, "setitem")
    write(t, view.uop, new.uop, view.uop if inner is None else slice_view(t, whole).uop)


def _across_shards(
    t: Tensor, plan: list[AxisIndex]
) -> tuple[list[AxisIndex], list[AxisIndex] | None]:
    """(an index, and an index into what it gives) for one through parts that devices hold.

    Part of a cut axis is no view of each device's memory: the axis stays whole, and its elements
    are written as those that a tensor picks. The second is None where nothing is left to pick.
    """
    cut = t.uop.axis
    if cut is None:
        return plan, None
    at = [k for k, p in enumerate(plan) if p.kind != "new"][cut]
    entry, size = plan[at], t.shape[cut]
    known = all(isinstance(n, int) for n in (size, *entry.box))
    if entry.kind == "tensor" or not known or _is_whole_part(entry, size, len(t.device)):
        return plan, None
    if entry.kind == "place":
        picked = t.const(entry.box[0], dtypes.int32)
    else:
        places = range(*entry.box)[:: entry.step]
        picked = t._iota(len(places), dtypes.int32) * places.step + places.start
    index = AxisIndex("tensor", (0, size), tensor=picked)
    others = any(p.tensor is not None for p in plan)
    if others and entry.kind == "slice":
        return plan, None
    if others:
        return [*plan[:at], index, *plan[at + 1 :]], None
    plan = [*plan[:at], AxisIndex("slice", (0, size)), *plan[at + 1 :]]
    return plan, [index if p is plan[at] else _EVERY for p in plan if p.kind != "place"]


_EVERY = AxisIndex("slice")


def _is_whole_part(entry: AxisIndex, size: int, devices: int) -> bool:
    """Whether a slice or number is all of an axis, or all that one device holds of it."""
    begin, end = entry.box
    part = size // devices
    one = end - begin == part and begin % part == 0
    return entry.step == 1 and (one or end - begin == size)


def _with_elements(view: Any, plan: Any, v: Any) -> Any:
    """The region of a write by tensors with the new elements in it; of several the last stays."""
    first, axes = tensor_axes(plan)
    view = view._whole() if len(axes) > 1 else view
    tensors = [p.tensor for p in plan if p.tensor is not None]
    rest = [i for i in range(view.ndim) if i not in axes]
    others = tuple(view.shape[i] for i in rest)
    places = flat_places(tensors, [view.shape[a] for a in axes])
    shape, total = places.shape, places.total
    target = view.const(0, view.dtype)._broadcast_to((*others[:first], *shape, *others[first:]))
    value = operand(target, v, "setitem", view)
    lead = range(first, first + len(shape))
    order = [*lead, *(i for i in range(target.ndim) if i not in lead)]
    picked = math.prod(shape)
    rows = value.permute(tuple(order)).reshape((picked, *others))
    flat = places.flat._broadcast_to(shape).reshape(picked)
    last = _last_writer(flat, total)
    chosen = take(rows, (last - 1).maximum(0), (total,), 0, rows.ndim - 1)
    touched = last.ne(0).reshape((total, *(1 for _ in rest)))
    before = view.permute((*axes, *rest))
    found = touched.where(chosen, before.reshape((total, *before.shape[len(axes) :])))
    back = [[*axes, *rest].index(i) for i in range(view.ndim)]
    return found.reshape(before.shape).permute(tuple(back))


def _last_writer(flat: Any, total: Any) -> Any:
    """Of each place, 1 + the last element that goes there, or 0."""
    if too_many(flat.shape[0], total):
        found = buckets(flat, total)
        return found.filled.where(found.last() + 1, 0)
    hit = flat.unsqueeze(0).eq(flat._iota(total, flat.dtype).unsqueeze(1))
    return hit.where(flat._iota(flat.shape[0], dtypes.int32) + 1, 0).max(1)

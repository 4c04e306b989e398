"""Writing in place: assign, x[…] = v, and the storage below views.

A write is a node: AFTER(target, STORE(view of target, value)). The tensor that is written to, and
the tensors it is a view of, become that node; what was built before keeps the old value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tinylab.dtype import DType, dtypes
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
from tinylab.opcodes import GroupOp, Ops
from tinylab.tensor.bits import as_bits, bits_below
from tinylab.tensor.data import empty_uop
from tinylab.tensor.held import ANYTHING, live
from tinylab.uop.ops import UOp
from tinylab.uop.sharding import reads_across

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor

# A movement, or the type that bits are read as.
Step: TypeAlias = "UOp | DType"

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
    return _rebuilt(chain_below(target)[0], flat.after(target.store(uop)))


def operand(target: Tensor, x: Any, what: str, place: Tensor | None = None) -> Any:
    """The value of a write as a tensor of the target's type and shape.

    place: the tensor whose device it has to be on, where that is not the target.

    Raises: AssignError when its type or device is another; ShapeError when it does not fit.
    """
    cls = type(target)
    device = (target if place is None else place).device
    value = x if isinstance(x, cls) else cls(x, device=device, dtype=target.dtype)
    if dtypes.is_weak(value.dtype):
        value = value.cast(target.dtype)
    if value.dtype is not target.dtype:
        raise AssignError(
            f"{what} dtype mismatch {target.dtype} != {value.dtype}",
            help=f"cast the value first: .cast({target.dtype})",
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


def _step(view: UOp) -> tuple[Step, UOp] | None:
    """(one step of looking, what it looks at); None where a node is no view."""
    below = bits_below(view)
    if below is not None:
        return view.dtype, below
    if view.op in GroupOp.Movement or view.op in (Ops.DETACH, Ops.UNSHARD):
        return view, view.src[0]
    return None


def chain_below(view: UOp) -> tuple[list[Step], UOp]:
    """(the steps of looking, outermost first, and what lies below them)."""
    chain: list[Step] = []
    while (found := _step(view)) is not None:
        step, view = found
        chain.append(step)
    return chain, view


def _rebuilt(chain: Sequence[Step], base: UOp) -> UOp:
    for step in reversed(chain):
        if isinstance(step, DType):
            base = as_bits(base, step)
        else:
            base = step.replace(src=(base, *step.src[1:]))
    return base


def _buffer_below(uop: UOp) -> UOp | None:
    """The BUFFER that a view looks at, through the writes to it; None for an expression."""
    found = chain_below(uop)[1]
    while found.op is Ops.AFTER:
        found = found.src[0]
    return found if found.op is Ops.BUFFER else None


def owner_of(t: Tensor) -> Tensor:
    """The tensor that this one is a view of, if someone still holds it; else itself."""
    owner: Tensor | None = None if t._view_of is None else t._view_of()
    if owner is None:
        return t
    buffer = _buffer_below(t.uop)
    if buffer is not None and buffer is _buffer_below(owner.uop):
        return owner
    return owner if _steps_to(t.uop, owner.uop) is not None else t


def _holds(t: Tensor, uop: UOp) -> None:
    """Give a tensor another value; what may be below it is no longer what it was made of."""
    old, t.uop, t._marks = t.uop, uop, ANYTHING
    live.changed(t)
    live.wrote(t, old)


def _steps_to(view: UOp, base: UOp) -> list[Step] | None:
    """The steps between a value and a view of it; None if it is no view of it."""
    chain: list[Step] = []
    while view is not base:
        found = _step(view)
        if found is None or view.op in (Ops.DETACH, Ops.UNSHARD):
            return None
        step, view = found
        chain.append(step)
    return chain


def ensure_stored(t: Tensor) -> None:
    """Give a tensor that is only an expression storage of its own, and its owner first.

    Raises: AssignError for a weak type.
    """
    if dtypes.is_weak(t.dtype):
        raise AssignError(
            f"cannot setitem into a weak tensor of {t.dtype}", help="give it a dtype first"
        )
    owner = owner_of(t)
    if _buffer_below(owner.uop) is None and owner.numel():
        steps = _steps_to(t.uop, owner.uop) or []
        _holds(owner, stored_copy(owner.uop, owner.device))
        if t is not owner:
            _holds(t, _rebuilt(steps, owner.uop))
    elif _buffer_below(t.uop) is None and t.numel():
        _holds(t, stored_copy(t.uop, t.device))


@alone
def assign(t: Tensor, value: Tensor) -> None:
    """Write a value of the right shape and type into a tensor, and into what it is a view of."""
    if value.uop is t.uop or t.numel() == 0:
        return
    if _buffer_below(t.uop) is None and owner_of(t) is t:
        # A value that was never stored is replaced, in storage of its own.
        _holds(t, stored_copy(value.uop, t.device, t.uop.axis))
        return
    ensure_stored(t)
    write(t, t.uop, value.uop)


def accumulated(old: Tensor, more: Tensor) -> Tensor:
    """A gradient with what comes to it.

    In a function that is captured it is written where the old one lies, so that replays add to it.
    """
    total = old + more
    if not open_captures() or not old._is_stored():
        return total
    if (total.dtype, total.device, total.uop.axis) != (old.dtype, old.device, old.uop.axis):
        return total
    return type(old)(old.uop).assign(total)


def write(t: Tensor, view: UOp, value: UOp) -> None:
    """Write a value to a view of a tensor's storage; the tensor and its owner see it.

    Raises: AssignError where several elements of the view are one element of the storage.
    """
    owner = owner_of(t)
    chain, _ = chain_below(view)
    own_chains = [
        (alias, chain_below(alias.uop)[0]) for alias in {id(x): x for x in (t, owner)}.values()
    ]
    state = chain_below(owner.uop)[1]
    if any(isinstance(step, UOp) and step.op is Ops.EXPAND for step in chain):
        raise AssignError(
            f"cannot write into an expanded view of shape {shape_text(view.shape)}",
            help="make it contiguous first",
        )
    moves, value = _below_bits(chain, state, value)
    if all(step.op in _STORABLE and not _across_parts(step) for step in moves):
        new = state.after(_rebuilt(moves, state).store(value))
    else:
        # Through padding, and in other shards, there is no plain view: the whole is written,
        # changed where it looks.
        ops = [step.op for step in moves]
        depth = ops.index(Ops.UNSHARD) if Ops.UNSHARD in ops else len(moves)
        whole = _rebuilt(moves[depth:], state)
        new = state.after(whole.store(changed(whole, moves[:depth], value)))
    for alias, steps in own_chains:
        _holds(alias, _rebuilt(steps, new))


def changed(whole: UOp, moves: list[UOp], value: UOp) -> UOp:
    """A value with another one where movements look at it."""
    moves = [m for m in moves if m.op is not Ops.DETACH]
    if not moves:
        return value
    mask = placed(moves, UOp.const(True, dtypes.bool)._expand_front(value.shape))
    return mask.alu(Ops.WHERE, placed(moves, value), whole)


def _below_bits(chain: list[Step], state: UOp, value: UOp) -> tuple[list[UOp], UOp]:
    """(the movements below the last view of bits, what is written there).

    Bits have a place in memory only in elements of its own type: those are written whole.
    """
    moves: list[UOp] = []
    for n, step in enumerate(chain):
        if isinstance(step, UOp):
            moves.append(step)
            continue
        below = _rebuilt(chain[n + 1 :], state)
        value = as_bits(changed(as_bits(below, step), moves, value), below.dtype)
        moves = []
    return moves, value


def _across_parts(step: UOp) -> bool:
    """Whether a movement hands elements from device to device: that is no view of memory."""
    turned = step.op is Ops.FLIP and step.axis is not None and step.arg[step.axis]
    return turned or reads_across(step)


@alone
def setitem(t: Tensor, indices: Any, v: Any) -> None:
    """t[indices] = v."""
    plan = parse_index(t, indices)
    ensure_stored(t)
    if any(p.kind == "slice" and same_size(*p.box) for p in plan):
        return
    plan, inner = _across_shards(t, plan)
    view = slice_view(t, plan)
    if math.prod(view.shape) == 0:
        return
    if any(p.tensor is not None for p in plan):
        if any(0 in p.tensor.shape for p in plan if p.tensor is not None):
            return  # a mask that is nowhere true
        new = _with_elements(view, plan, v)
    elif inner is not None:
        new = _with_elements(view, inner, v)
    else:
        new = operand(view, v, "setitem")
    write(t, view.uop, new.uop)


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

"""Values on several devices: which axis of a value is cut into shards, and the nodes that say so.

UNSHARD(shard, range of devices, axis) is the whole seen from its shards; a value on a tuple of
devices without one is there in as many equal copies.

    x.shard(("CPU", "CPU:1"), 0)  ->  UNSHARD(SHRINK(COPY(x), at device * size), device, axis 0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.errors import ShardError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.args import RangeArg
from tinylab.uop.infer import node_to_shape
from tinylab.uop.intern import make
from tinylab.uop.moves import sint_to_uop

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Axis = int | None
DEVICE_AXIS = -1


def device_range(count: int) -> UOp:
    """The loop over the devices of a sharded value."""
    arg = RangeArg((DEVICE_AXIS, AxisType.DEVICE))
    return make(Ops.RANGE, dtypes.weakint, (sint_to_uop(count),), arg)


# *** which axis


def _first(u: UOp) -> Axis:
    return u.src[0].axis


def _none(u: UOp) -> Axis:
    return None


def _broadcast(u: UOp) -> Axis:
    """The axis of the last operand that has one, counted from the right as shapes are."""
    found = None
    for s in u.src:
        if s._shape is not None and s.axis is not None:
            found = s.axis - len(s.shape) + len(u.shape)
    return found


def _stack(u: UOp) -> Axis:
    inner = _broadcast(u)
    return None if inner is None else inner + 1 if u.src[0].axis is None else u.src[0].axis + 1


def _reduce(u: UOp) -> Axis:
    axis = u.src[0].axis
    return None if axis is None or axis < u.arg[1] else axis - u.arg[1]


def _reshape(u: UOp) -> Axis:
    """The new axis before which as many elements lie as before the old one."""
    x, new = u.src[0], u.shape
    axis = x.axis
    if axis is None:
        return None
    before, count = math.prod(x.shape[:axis]), len(u.device or ())
    fitting = [
        i
        for i, size in enumerate(new)
        if isinstance(size, int) and size % count == 0 and math.prod(new[:i]) == before
    ]
    if not fitting:
        shard = x.shard_shape
        raise ShardError(
            f"reshape {shard} -> {new} moved items between shards: axis {axis} of "
            f"{shape_text(x.shape)} is cut into {count}",
            help="gather the tensor on one device with .to(...), or shard another axis",
        )
    return fitting[-1]


def _permute(u: UOp) -> Axis:
    axis = u.src[0].axis
    return None if axis is None else int(u.arg.index(axis))


def _expand(u: UOp) -> Axis:
    axis = u.src[0].axis
    return None if axis is None else axis + len(node_to_shape(u.src[1]))


def reads_across(u: UOp) -> bool:
    """Whether a SHRINK or PAD changes how long the sharded axis is.

    Then each device gets the result, which may come from any shard.
    """
    axis = u.src[0].axis if isinstance(u.device, tuple) else None
    if axis is None or u.op not in _RESIZING:
        return False
    return bool(u.shape[axis] != u.src[0].shape[axis])


_RESIZING = frozenset({Ops.SHRINK, Ops.PAD})


def _resize(u: UOp) -> Axis:
    return None if reads_across(u) else u.src[0].axis


def _gettuple(u: UOp) -> Axis:
    body = u.src[0].src[0] if u.src[0].op is Ops.FUNCTION else u.src[0]
    found: Axis = body.src[u.arg].axis
    return found


AXIS_TABLE: dict[Ops, Callable[[UOp], Axis]] = {
    **dict.fromkeys(GroupOp.Binary | GroupOp.Ternary, _broadcast),
    **dict.fromkeys(GroupOp.Unary | {Ops.CAST, Ops.BITCAST, Ops.AFTER, Ops.STORE}, _first),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH), _first),
    Ops.UNSHARD: lambda u: u.arg[0],
    Ops.PARAM: lambda u: u.arg.axis,
    Ops.STACK: _stack,
    Ops.REDUCE: _reduce,
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.PAD: _resize,
    Ops.SHRINK: _resize,
    Ops.FLIP: _first,
    Ops.GETTUPLE: _gettuple,
}


def axis_of(u: UOp) -> Axis:
    """The axis of a value that is cut into shards; None where there is none.

    Raises: ShardError for an operation that would move elements from shard to shard.
    """
    if not isinstance(u.device, tuple):
        return None
    return AXIS_TABLE.get(u.op, _none)(u)


class ShardMethods:
    """Methods of UOp for values on several devices."""

    __slots__ = ()

    @property
    def parts_on_devices(self: UOp) -> tuple[UOp, ...]:
        """The parts of a value on several devices: MSELECT(x, 0), and so on."""
        count = len(self.device) if isinstance(self.device, tuple) else 0
        return tuple(make(Ops.MSELECT, self.dtype, (self,), n) for n in range(count))

    @property
    def sharding(self: UOp) -> tuple[tuple[int, UOp], ...]:
        """(axis, range of devices) for each sharded axis."""
        axis = self.axis
        return () if axis is None else ((axis, device_range(len(self.device or ()))),)

    @property
    def shard_shape(self: UOp) -> tuple[Any, ...]:
        """The shape of what one device holds."""
        axis, shape = self.axis, self.shape
        if axis is None:
            return shape
        size = shape[axis] // len(self.device or ())
        return (*shape[:axis], size, *shape[axis + 1 :])

    @property
    def max_shard_shape(self: UOp) -> tuple[int, ...]:
        """The largest that `shard_shape` can be."""
        return tuple(s if isinstance(s, int) else int(s.vmax) for s in self.shard_shape)

    @property
    def unsharded_base(self: UOp) -> UOp:
        """The node below movement, DETACH and UNSHARD."""
        node = self.base
        while node.op is Ops.UNSHARD:
            node = node.src[0].base
        return node

    def shard(self: UOp, devices: tuple[str, ...], axis: int | None = None) -> UOp:
        """The value on several devices: in equal copies, or cut along an axis.

        Raises: ShardError for a value that is on several already, or an axis that does not divide.
        """
        if isinstance(self.device, tuple):
            raise ShardError(
                f"can't shard a multi-device tensor: it is on {', '.join(self.device)}",
                help="gather it on one device with .to(...) first",
            )
        if len(set(devices)) != len(devices):
            raise ShardError(f"each device can hold one shard: {', '.join(devices)}")
        copied = make(Ops.COPY, self.dtype, (self,), devices)
        if axis is None:
            return copied
        size = even_part(self.shape, axis, len(devices))
        loop = device_range(len(devices))
        offsets = [loop * size if i == axis else 0 for i in range(len(self.shape))]
        sizes = [size if i == axis else s for i, s in enumerate(self.shape)]
        return copied._shrink(offsets, sizes).unshard(axis)

    def unshard(self: UOp, axis: int | tuple[int, ...] | None, rng: UOp | None = None) -> UOp:
        """The whole whose shards this value is, one on each device."""
        if axis is None or axis == ():
            return self
        axes = (axis,) if isinstance(axis, int) else axis
        loop = rng if rng is not None else device_range(len(self.device or ()))
        return make(Ops.UNSHARD, self.dtype, (self, loop), axes)

    def allreduce(self: UOp, op: Ops, device: str | tuple[str, ...]) -> UOp:
        """The values of all devices reduced to one, which every device gets."""
        return make(Ops.ALLREDUCE, self.dtype, (self,), (op, device))


def even_part(shape: tuple[Any, ...], axis: int, count: int) -> int:
    """The size of an axis on each of several devices.

    Raises: ShardError where it does not divide.
    """
    size = shape[axis]
    if not isinstance(size, int) or size % count:
        raise ShardError(
            f"multi axis uneven: axis {axis} of {shape_text(shape)} cannot be cut into {count} "
            "equal parts",
            help="pad it to a multiple, or shard another axis",
        )
    return size // count

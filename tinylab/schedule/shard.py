"""A graph over several devices as a graph for each of them, joined by MSTACK.

Every value on a tuple of devices becomes MSTACK(value on device 0, value on device 1, …), under an
UNSHARD where an axis is cut. So all that follows sees one device at a time, and kernels that are
equal on all devices are compiled once.

    UNSHARD(MSTACK(a0, a1)) + UNSHARD(MSTACK(b0, b1))  ->  UNSHARD(MSTACK(a0 + b0, a1 + b1))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import ShardError
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.infer import node_to_shape
from tinylab.uop.intern import make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, rebuild, shape_to_shape_arg
from tinylab.uop.sharding import reads_across

DEVICE_NUMBER = "_device_num"
_APART = "each device holds its own part"


class Shards(NamedTuple):
    """A value on several devices: its part on each, and the axis that is cut (None: copies)."""

    parts: tuple[UOp, ...]
    axis: int | None


def shards_of(x: UOp) -> Shards | None:
    """A value that is in parts already; None for any other."""
    if x.op is Ops.MSTACK:
        return Shards(x.src, None)
    if x.op is Ops.UNSHARD and x.src[0].op is Ops.MSTACK:
        return Shards(x.src[0].src, x.arg[0])
    return None


def joined(parts: Sequence[UOp], axis: int | None) -> UOp:
    """The value whose parts these are."""
    return make(Ops.MSTACK, parts[0].dtype, tuple(parts)).unshard(axis)


def device_number(number: int, devices: Sequence[str]) -> UOp:
    """The place of a device among several, as a variable: one kernel serves all of them."""
    arg = ParamArg(
        -1,
        dtypes.weakint,
        (0, len(devices) - 1),
        name=DEVICE_NUMBER,
        addrspace=AddrSpace.ALU,
        axis=number,
        device=devices[number],
    )
    return make(Ops.PARAM, dtypes.weakint, (shape_to_shape_arg(()),), arg)


def is_device_number(x: UOp) -> bool:
    """Whether a node is the number of one device."""
    return x.op is Ops.PARAM and x.arg.name == DEVICE_NUMBER and x.arg.device is not None


class Place(NamedTuple):
    """One of several devices."""

    number: int
    devices: tuple[str, ...]


def local(x: UOp, axis: int | None, place: Place) -> UOp:
    """The part of a value that one device needs of it, where others are cut along an axis.

    Raises: ShardError for a value that is on one device only.
    """
    found = shards_of(x)
    if found is None:
        if isinstance(x.device, str) and x.device != place.devices[place.number]:
            raise ShardError(
                f"all buffers must be on the same device: [{place.devices}, {x.device!r}]",
                help=f"move the tensor with .shard({place.devices})",
            )
        return _cut(_settled(x, place), axis, place)
    if found.axis is not None and found.axis == axis:
        return found.parts[place.number]
    if found.axis is None:
        return _cut(found.parts[place.number], axis, place)
    return _cut(x.copy_to_device(place.devices[place.number]), axis, place)


def _cut(x: UOp, axis: int | None, place: Place) -> UOp:
    """One device's part of a value that it has the whole of; an axis of size 1 is in all parts."""
    if axis is None or axis < 0 or (isinstance(x.shape[axis], int) and x.shape[axis] == 1):
        return x
    size = x.shape[axis] // len(place.devices)
    start = device_number(place.number, place.devices) * size
    offsets = [start if i == axis else 0 for i in range(len(x.shape))]
    return x._shrink(offsets, [size if i == axis else s for i, s in enumerate(x.shape)])


def _settled(x: UOp, place: Place) -> UOp:
    """A value that is nowhere as one of this device: each works positions out for itself."""
    if x.device is not None:
        return x
    device = place.devices[place.number]
    iotas = {
        u: u.replace(arg=u.arg._replace(device=device)) for u in x.toposort() if u.op is Ops.STAGE
    }
    return x.substitute(iotas, walk=True) if iotas else x


def _places(devices: tuple[str, ...]) -> list[Place]:
    return [Place(n, devices) for n in range(len(devices))]


def _numbered(x: UOp, place: Place) -> UOp:
    """A shape or offset for one device: the loop over devices stands at its number."""
    loops = [r for r in x.ranges if r.arg[-1] is AxisType.DEVICE]
    return x.substitute({r: r.const_like(place.number) for r in loops}).simplify() if loops else x


# *** the rules


def _several(*xs: UOp) -> tuple[str, ...] | None:
    """The devices of the first value in parts."""
    for x in xs:
        if shards_of(x) is not None:
            found: tuple[str, ...] = x.device  # type: ignore[assignment]
            return found
    return None


def _agree(devices: tuple[str, ...], *xs: UOp) -> None:
    for x in xs:
        if shards_of(x) is not None and x.device != devices:
            raise ShardError(
                f"all buffers must be on the same device: [{devices}, {x.device}]",
                help="shard both tensors over the same devices",
            )


def copy_is_sent(x: UOp) -> UOp | None:
    """To several devices: a copy for each of them."""
    if not isinstance(x.arg, tuple):
        return None
    value = x.src[0]
    return joined(
        [_kept(value) if d == value.device else value.copy_to_device(d) for d in x.arg], None
    )


def _kept(x: UOp) -> UOp:
    """A copy on the device where the value is already."""
    return make(Ops.CONTIGUOUS, x.dtype, (x,), _APART)


def copy_of_part(m: UOp, x: UOp) -> UOp | None:
    """What is cut out of a copy is cut out before: less is copied.

    Not along the axis of shards, which are gathered whole.
    """
    axis = x.src[0].axis
    if axis is not None and m.shape[axis] != x.shape[axis]:
        return None
    return rebuild(x, (rebuild(m, (x.src[0], *m.src[1:])),))


def copy_of_copies(x: UOp) -> UOp | None:
    """From equal copies to one device: the one that is there, or the first."""
    found = shards_of(x.src[0])
    if not isinstance(x.arg, str) or found is None or found.axis is not None:
        return None
    here = next((p for p in found.parts if p.device == x.arg), None)
    if here is None:
        return found.parts[0].copy_to_device(x.arg)
    return make(Ops.CONTIGUOUS, here.dtype, (here,), f"the copy on {x.arg}")


def operation_on_parts(x: UOp) -> UOp | None:
    """An operation on parts: on each device the same one on its own."""
    devices = _several(*x.src)
    if devices is None:
        return None
    _agree(devices, *x.src)
    axis, rank = x.axis, len(x.shape)
    parts = []
    for place in _places(devices):
        src = [local(s, None if axis is None else axis - rank + len(s.shape), place) for s in x.src]
        parts.append(_apart(rebuild(x, tuple(src))))
    return joined(parts, axis)


def _apart(x: UOp) -> UOp:
    """What is stored on each device has memory of its own there."""
    return x.replace(arg=_APART) if x.op is Ops.CONTIGUOUS and x.arg is None else x


def movement_of_parts(x: UOp) -> UOp | None:
    """A movement of parts: on each device of its own part."""
    found = shards_of(x.src[0])
    if found is None:
        return None
    if reads_across(x):
        return _across(x, found)
    devices: tuple[str, ...] = x.device  # type: ignore[assignment]
    axis = x.axis
    parts = []
    for place, part in zip(_places(devices), _in_place(x, found), strict=True):
        args = [_numbered(s, place) for s in x.src[1:]]
        parts.append(rebuild(x, (part, *_shard_sized(x, args, found.axis, axis, place))))
    return joined(parts, axis)


def _shard_sized(
    x: UOp, args: list[UOp], old: int | None, axis: int | None, place: Place
) -> tuple[UOp, ...]:
    """The sizes of a movement as one shard has them."""
    if old is None or axis is None or not args or x.op is Ops.EXPAND:
        return tuple(args)
    sizes = list(node_to_shape(args[-1]))
    sizes[axis] = sizes[axis] // len(place.devices)
    return (*args[:-1], shape_to_shape_arg(sizes))


def _in_place(x: UOp, found: Shards) -> Sequence[UOp]:
    """The parts that the devices move: of an axis that is turned round, in turned order."""
    if x.op is not Ops.FLIP or found.axis is None or not x.arg[found.axis]:
        return found.parts
    devices: tuple[str, ...] = x.device  # type: ignore[assignment]
    turned = zip(found.parts[::-1], devices, strict=True)
    return [_at(part, device) for part, device in turned]


def _at(x: UOp, device: str) -> UOp:
    return x if x.device == device else x.copy_to_device(device)


def _across(x: UOp, found: Shards) -> UOp:
    """A SHRINK or PAD along the cut axis: each device gets the result, out of the shards it needs.

    Of one shard the part is copied; of several they are gathered first.
    """
    devices: tuple[str, ...] = x.device  # type: ignore[assignment]
    axis = found.axis or 0
    offsets, sizes = list(node_to_shape(x.src[1])), node_to_shape(x.src[2])
    first, last = 0, len(devices) - 1
    if x.op is Ops.SHRINK and isinstance(offsets[axis], int) and isinstance(sizes[axis], int):
        part = found.parts[0].shape[axis]
        first, last = offsets[axis] // part, (offsets[axis] + sizes[axis] - 1) // part
        offsets[axis] -= first * part
    if first == last:
        piece = found.parts[first]._shrink(offsets, sizes)
        return joined([_at(piece, d) for d in devices], None)
    whole = joined(found.parts[first : last + 1], axis)
    args = (shape_to_shape_arg(offsets), *x.src[2:])
    return joined([rebuild(x, (whole.copy_to_device(d), *args)) for d in devices], None)


def reduce_of_parts(x: UOp) -> UOp | None:
    """A reduction: on each device of its part; over the cut axis, of the results once more."""
    found = shards_of(x.src[0])
    if found is None:
        return None
    single = all(isinstance(s, int) and s == 1 for s in found.parts[0].shape[: x.arg.count])
    parts = [
        p._reshape(p.shape[x.arg.count :]) if single else rebuild(x, (p,)) for p in found.parts
    ]
    if found.axis is None or found.axis >= x.arg.count:
        return joined(parts, x.axis)
    devices: tuple[str, ...] = x.src[0].device  # type: ignore[assignment]
    return joined(parts, None).allreduce(x.arg.op, devices)


def allreduce_of_parts(x: UOp) -> UOp | None:
    """Every device gets the result: MSELECT says which."""
    found = shards_of(x.src[0])
    if found is None or x.tag is not None:
        return None
    whole = x.replace(src=(make(Ops.MSTACK, x.dtype, found.parts),), tag="reduced")
    if isinstance(x.arg[1], str):
        return make(Ops.MSELECT, x.dtype, (whole,), 0).copy_to_device(x.arg[1])
    parts = [make(Ops.MSELECT, x.dtype, (whole,), n) for n in range(len(x.arg[1]))]
    return joined(parts, None)


def part_of_parts(m: UOp, x: UOp) -> UOp | None:
    """The part on one device."""
    found = shards_of(x)
    return None if found is None else found.parts[m.arg]


def write_to_parts(x: UOp) -> UOp | None:
    """Effects on storage of several devices: on each device on its own part."""
    found = shards_of(x.src[0])
    if found is None:
        return None
    devices: tuple[str, ...] = x.src[0].device  # type: ignore[assignment]
    parts = [
        part.after(*(_local_effect(e, place) for e in x.src[1:]))
        for part, place in zip(found.parts, _places(devices), strict=True)
    ]
    return joined(parts, found.axis)


def _local_effect(e: UOp, place: Place) -> UOp:
    if e.op is Ops.STORE:
        return _local_store(e, place)
    if e.op is Ops.CALL:
        return e.replace(src=(e.src[0], *(_argument(a, place) for a in e.src[1:])))
    found = shards_of(e)
    return e if found is None else found.parts[place.number]


def _local_store(e: UOp, place: Place) -> UOp:
    target, value = e.src[:2]
    into = shards_of(target)
    if into is None:
        raise ShardError(f"a write to {target.device} cannot follow one to {place.devices}")
    rank = len(value.shape) - len(target.shape)
    axis = None if into.axis is None else into.axis + rank
    return e.replace(src=(into.parts[place.number], local(value, axis, place), *e.src[2:]))


def _argument(a: UOp, place: Place) -> UOp:
    """One device's part of an argument of a kernel written by hand."""
    found = shards_of(a)
    if found is None:
        raise ShardError(
            f"all buffers must be on the same device: [{place.devices}, {a.device!r}]",
            help=f"shard every argument of the kernel over {', '.join(place.devices)}",
        )
    return found.parts[place.number]


_OPERATIONS = GroupOp.Elementwise | {
    Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.STACK,
}  # fmt: skip

# fmt: off
pm_shard = PatternMatcher([
    Rule("copy_is_sent", "copy(x, devices) -> mstack(copy(x, d0), copy(x, d1), …)",
         UPat(Ops.COPY, name="x"), copy_is_sent),
    Rule("copy_of_part", "shrink(copy(x, d)) -> copy(shrink(x), d)",
         UPat(Ops.SHRINK, src=(UPat(Ops.COPY, name="x"), UPat(), UPat()), name="m"), copy_of_part),
    Rule("copy_of_copies", "copy(mstack(a, b), d) -> the one on d", UPat(Ops.COPY, name="x"),
         copy_of_copies),
    Rule("operation_on_parts", "op(mstack(a0, a1), …) -> mstack(op(a0, …), op(a1, …))",
         UPat(_OPERATIONS, name="x"), operation_on_parts),
    Rule("movement_of_parts", "move(mstack(a0, a1)) -> mstack(move(a0), move(a1))",
         UPat(GroupOp.Movement, name="x"), movement_of_parts),
    Rule("reduce_of_parts", "sum over the cut axis -> allreduce(mstack(sum(a0), sum(a1)))",
         UPat(Ops.REDUCE, name="x"), reduce_of_parts),
    Rule("allreduce_of_parts", "allreduce(x) -> mstack(its part on d0, its part on d1)",
         UPat(Ops.ALLREDUCE, name="x"), allreduce_of_parts),
    Rule("part_of_parts", "mselect(mstack(a, b), 1) -> b",
         UPat(Ops.MSELECT, src=(UPat({Ops.MSTACK, Ops.UNSHARD}, name="x"),), name="m"),
         part_of_parts),
    Rule("write_to_parts", "mstack(b0, b1) after store(t, v) -> mstack(b0 after store(t0, v0), …)",
         UPat(Ops.AFTER, name="x"), write_to_parts),
])
# fmt: on


def has_several_devices(root: UOp, ctx: Any = None) -> bool:
    """Whether any value of a graph is on several devices."""
    several = (Ops.MSTACK, Ops.UNSHARD, Ops.ALLREDUCE)
    return any(
        u.op in several or (u.op is Ops.COPY and isinstance(u.arg, tuple))
        for u in root.toposort(enter_calls=False)
    )

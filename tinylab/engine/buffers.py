"""From the arguments of a schedule to memory: inputs, results, and views of arenas."""

from __future__ import annotations

from collections.abc import Callable

from tinylab.device import Buffer, Device, MultiBuffer
from tinylab.errors import ContractError, ScheduleError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule import is_internal
from tinylab.schedule.views import window_of
from tinylab.uop.ops import UOp, node_to_shape

# Called with a BUFFER node that gets memory which it did not have.
memory_given: list[Callable[[UOp], None]] = []


def memory_of(x: UOp) -> Buffer:
    """The storage of a BUFFER node, made when it has none yet; of an MSELECT one device's.

    Raises: ScheduleError for a node that is no buffer on one device.
    """
    if x.op is Ops.MSELECT:
        part: Buffer = memory_on_devices(x.src[0]).bufs[x.arg]
        return part
    if x.op is not Ops.BUFFER or isinstance(x.arg.device, tuple):
        raise ScheduleError(
            f"an input of a schedule must be a buffer on one device, not {_words(x)}",
            help="store it first with .contiguous(); of several devices give each one's part",
        )
    if x._buffer is None:
        x._buffer = Buffer(x.arg.device, x.shape[0], x.dtype)
        _tell(x)
    whole: Buffer = x._buffer
    return whole


def _words(x: UOp) -> str:
    shape = "" if x._shape is None else f" of shape {shape_text(x.shape)}"
    value = f" {x.arg}" if x.op is Ops.CONST else ""
    return f"{x.op}{value}{shape} on {x.device}"


def memory_on_devices(x: UOp) -> MultiBuffer:
    """The storage of a BUFFER node on several devices, made when it has none yet."""
    found: MultiBuffer | None = x._buffer
    if found is None:
        found = x._buffer = MultiBuffer(x.arg.device, x.shape[0], x.dtype)
        _tell(x)
    return found


def _tell(x: UOp) -> None:
    for hear in memory_given:
        hear(x)


def filled(memory: Buffer) -> Buffer:
    """Memory that is about to be read.

    Raises: ScheduleError where the schedule that fills it was taken, and was not run.
    """
    if memory.base.awaited and not memory.is_allocated():
        raise ScheduleError(
            "the schedule of a value that is needed here was taken, and was not run",
            help="run_linear(linear, var_vals) computes it: first, if there are several",
        )
    return memory.ensure_allocated()


def memories_of(x: UOp) -> list[Buffer]:
    """The storage of a BUFFER node, on each of its devices."""
    return memory_on_devices(x).bufs if isinstance(x.arg.device, tuple) else [memory_of(x)]


def memory_at(x: UOp) -> Buffer | None:
    """The memory of a value that is one piece of a buffer; None for any other."""
    whole = x
    while whole.op is Ops.RESHAPE:
        whole = whole.src[0]
    if x.has_buffer_identity() or whole.op is Ops.MSELECT:
        return memory_of(x.base)
    piece = _piece_of(x) if x.base.op is Ops.BUFFER else None
    return None if piece is None else filled(piece)


def _piece_of(x: UOp) -> Buffer | None:
    """A view of a buffer's memory, if it is one piece of it."""
    node = x.base
    # Of a parameter in its place: what is worked out for a view is kept, and would keep its memory.
    window = window_of(x.substitute({node: UOp.param(0, node.dtype, node.shape)}, walk=True))
    if window is None:
        return None
    return memory_of(node).view(window.size, x.dtype, window.offset * x.dtype.itemsize)


# What a buffer is seen through without another place or order of its elements.
_SAME = frozenset({Ops.CONTIGUOUS, Ops.RESHAPE, Ops.UNSHARD, Ops.DETACH, Ops.AFTER})


def buffer_of(x: UOp) -> Buffer | MultiBuffer:
    """The storage of a value: a buffer, one on each device, or a piece of one.

    Raises: ContractError where there is none; ScheduleError for a view with gaps.
    """
    node = x
    while node.op in _SAME:
        node = node.src[0]
    if node.op is Ops.MSTACK:
        parts = [memory_of(part) for part in node.src]
        return MultiBuffer(tuple(b.device for b in parts), parts[0].size, parts[0].dtype, parts)
    if node.op is Ops.MSELECT or (node.op is Ops.BUFFER and not node.is_variable):
        several = isinstance(node.device, tuple)
        return memory_on_devices(node) if several else memory_of(node)
    if node.op not in GroupOp.Movement or node.base.op is not Ops.BUFFER:
        raise ContractError(f"must be BUFFER, but {node.op} holds no storage")
    piece = _piece_of(node)
    if piece is None:
        raise ScheduleError(
            f"non-contiguous view is not supported: {node.op.name} to {shape_text(node.shape)}",
            help="store it first with .contiguous()",
        )
    return piece


def device_of(call: UOp) -> str:
    """Where a CALL runs: where its first argument that is anywhere is."""
    places = (str(a.device) for a in call.src[1:] if a.device is not None)
    return Device.canonicalize(next(places, None))


def input_of(place: UOp, inputs: tuple[UOp, ...]) -> UOp:
    """What is given for a PARAM.

    Raises: ScheduleError where nothing is.
    """
    if not 0 <= place.arg.slot < len(inputs):
        raise ScheduleError(
            f"the schedule reads input {place.arg.slot}, and {len(inputs)} were given",
            help="pass a buffer for each PARAM(slot)",
        )
    found: UOp = inputs[place.arg.slot]
    return found


class Arguments:
    """The distinct arguments of a schedule, numbered; and the memory of one run of it."""

    def __init__(self, linear: UOp) -> None:
        found: dict[UOp, int] = {}
        for call in linear.src:
            for argument in call.src[1:]:
                found.setdefault(argument, len(found))
        self.nodes = list(found)
        self.numbers = found

    def allocate(self, inputs: tuple[UOp, ...], own: dict[UOp, Buffer]) -> list[Buffer]:
        """Memory for each argument, in order.

        own is filled with what the schedule's own buffers got, by node.
        """
        return [self._find(x, inputs, own) for x in self.nodes]

    def _find(self, x: UOp, inputs: tuple[UOp, ...], own: dict[UOp, Buffer]) -> Buffer:
        if x.op is Ops.PARAM:
            return filled(memory_of(input_of(x, inputs)))
        if is_internal(x):
            found = own.get(x)
            if found is None:
                found = own[x] = Buffer(x.arg.device, x.shape[0], x.dtype).allocate()
            return found
        if x.op is Ops.BUFFER:
            return memory_of(x).ensure_allocated()
        if x.op not in (Ops.BITCAST, Ops.SHRINK):
            return memory_of(x)  # says what it is instead
        # A piece of a buffer, or bytes of an arena that are read as another type.
        window = x.src[0] if x.op is Ops.BITCAST else x
        (offset,) = node_to_shape(window.src[1])
        whole = self._find(window.src[0], inputs, own)
        unit = window.dtype.itemsize
        size = window.shape[0] * unit // x.dtype.itemsize
        return whole.view(size, x.dtype, offset * unit).ensure_allocated()

"""From the arguments of a schedule to memory: inputs, results, and views of arenas."""

from __future__ import annotations

from tinylab.device import Buffer, MultiBuffer
from tinylab.errors import ScheduleError
from tinylab.opcodes import Ops
from tinylab.schedule import is_internal
from tinylab.schedule.views import window_of
from tinylab.uop.ops import UOp, node_to_shape


def memory_of(x: UOp) -> Buffer:
    """The storage of a BUFFER node, made when it has none yet; of an MSELECT one device's.

    Raises: ScheduleError for a node that is no buffer on one device.
    """
    if x.op is Ops.MSELECT:
        part: Buffer = memory_on_devices(x.src[0]).bufs[x.arg]
        return part
    if x.op is not Ops.BUFFER or isinstance(x.arg.device, tuple):
        raise ScheduleError(f"an input of a schedule must be a buffer, not {x.op}")
    if x._buffer is None:
        x._buffer = Buffer(x.arg.device, x.shape[0], x.dtype)
    whole: Buffer = x._buffer
    return whole


def memory_on_devices(x: UOp) -> MultiBuffer:
    """The storage of a BUFFER node on several devices, made when it has none yet."""
    found: MultiBuffer | None = x._buffer
    if found is None:
        found = x._buffer = MultiBuffer(x.arg.device, x.shape[0], x.dtype)
    return found


def memories_of(x: UOp) -> list[Buffer]:
    """The storage of a BUFFER node, on each of its devices."""
    return memory_on_devices(x).bufs if isinstance(x.arg.device, tuple) else [memory_of(x)]


def memory_at(x: UOp) -> Buffer | None:
    """The memory of a value that is one piece of a buffer; None for any other."""
    if x.has_buffer_identity():
        return memory_of(x.base)
    node = x.base
    if node.op is not Ops.BUFFER:
        return None
    # Of a parameter in its place: what is worked out for a view is kept, and would keep its memory.
    window = window_of(x.substitute({node: UOp.param(0, node.dtype, node.shape)}, walk=True))
    if window is None:
        return None
    whole = memory_of(node)
    offset = window.offset * x.dtype.itemsize
    return whole.view(window.size, x.dtype, offset).ensure_allocated()


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
            return memory_of(inputs[x.arg.slot]).ensure_allocated()
        if is_internal(x):
            found = own.get(x)
            if found is None:
                found = own[x] = Buffer(x.arg.device, x.shape[0], x.dtype).allocate()
            return found
        if x.op is Ops.BUFFER:
            return memory_of(x).ensure_allocated()
        # A piece of a buffer, or bytes of an arena that are read as another type.
        window = x.src[0] if x.op is Ops.BITCAST else x
        (offset,) = node_to_shape(window.src[1])
        whole = self._find(window.src[0], inputs, own)
        unit = window.dtype.itemsize
        size = window.shape[0] * unit // x.dtype.itemsize
        return whole.view(size, x.dtype, offset * unit).ensure_allocated()

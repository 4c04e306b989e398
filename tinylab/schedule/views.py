"""Views that are one piece of memory: a chain of movements that reads a buffer without a gap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container
from typing import Any, NamedTuple

from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.schedule.indexing import flatten_index, guard_of, loops, simplified, source_index
from tinylab.uop.ops import UOp


class Window(NamedTuple):
    """`size` elements of a storage node from an element on."""

    storage: UOp
    offset: int
    size: int

    def view(self) -> UOp:
        """The elements as one axis."""
        if self.size == self.storage.shape[0]:
            return self.storage
        return self.storage._shrink((self.offset,), (self.size,))


def stored_below(x: UOp, stored: Container[UOp] = ()) -> UOp | None:
    """The flat buffer, or its state after writes, below a chain of movements; None for a value.

    stored: values that will be in memory too.
    """
    while x.op in GroupOp.Movement and x.op is not Ops.PAD and x not in stored:
        x = x.src[0]
    if x in stored:
        return x
    base = x.without_after
    return x if base.op in (Ops.BUFFER, Ops.PARAM) and not base.is_variable else None


def contiguous_view_offset(x: UOp, stored: Container[UOp] = ()) -> int | None:
    """Where in its buffer a view begins whose elements lie one after the other; None for others.

    buffer[6:12].reshape(2, 3) -> 6; buffer.reshape(3, 4).permute(1, 0) -> None;
    buffer.reshape(3, 4)[:n] -> 0
    """
    storage = stored_below(x, stored)
    if storage is None or any(isinstance(s, int) and s == 0 for s in x.shape):
        return None
    idx = loops(x.shape, itertools.count(), AxisType.WEAK)
    place, node = idx, x
    while node is not storage:
        place, node = source_index(node, place), node.src[0]
    flat = flatten_index(place, storage.shape)
    if guard_of(flat) is not None:
        return None
    offset = simplified(flat + flatten_index(idx, x.shape) * -1)
    return int(offset.arg) if offset.op is Ops.CONST else None


def in_layout(flat: UOp, shape: tuple[Any, ...]) -> UOp:
    """Memory laid out for the largest sizes that a shape may have, seen in that shape."""
    largest = tuple(s if isinstance(s, int) else int(s.vmax) for s in shape)
    return flat._reshape(largest)._shrink((0,) * len(shape), shape)


def is_whole(x: UOp) -> bool:
    """Whether a value is a buffer of its own, laid out for the largest sizes that it may have."""
    if x.has_buffer_identity(after_ok=True):
        return True
    storage = x
    while storage.op in (Ops.RESHAPE, Ops.SHRINK):
        storage = storage.src[0]
    if storage.without_after.op not in (Ops.BUFFER, Ops.PARAM):
        return False
    return storage.shape == (x.max_numel(),) and x is in_layout(storage, x.shape)


def piece_offset(x: UOp, stored: Container[UOp] = ()) -> int | None:
    """`contiguous_view_offset` of a view whose size is a number: memory can be cut there."""
    if not all(isinstance(s, int) for s in x.shape):
        return None
    return contiguous_view_offset(x, stored)


def window_of(x: UOp) -> Window | None:
    """The piece of memory that a value is; None where it is no such piece."""
    offset = piece_offset(x)
    storage = stored_below(x)
    if offset is None or storage is None:
        return None
    return Window(storage, offset, math.prod(x.shape))

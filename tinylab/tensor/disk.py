"""Tensors whose values lie in a file: windows of it are copied, and nothing is computed there.

Tensor(pathlib.Path("weights.bin")) has device "DISK:…" and is read when it moves: x.to(None).
"""

from __future__ import annotations

import collections
import math
import os
import pathlib
import weakref
from typing import Any, NamedTuple

from tinylab.device import Buffer
from tinylab.dtype import DType
from tinylab.engine.realize import memory_of
from tinylab.errors import AssignError, CreationError
from tinylab.opcodes import Ops
from tinylab.runtime.ops_disk import FileWindow, KeptBytes
from tinylab.uop.ops import UOp, node_to_shape


class Window(NamedTuple):
    """Bytes of a buffer that hold a value in one piece."""

    buffer: Buffer
    offset: int

    def view(self, count: int, dtype: DType) -> Buffer:
        """The bytes as a buffer of their own."""
        return self.buffer.view(count, dtype, self.offset).ensure_allocated()

    @property
    def start(self) -> int:
        """The first byte in the file."""
        return self.buffer.offset + self.offset

    def holds_file(self) -> bool:
        """Whether the bytes are a file's, and none that were kept."""
        return not isinstance(self.buffer.base.ensure_allocated()._buf.whole, KeptBytes)


def on_disk(device: Any) -> bool:
    """Whether a device is a file."""
    return isinstance(device, str) and device.startswith("DISK:")


def file_uop(path: pathlib.Path, dtype: DType) -> UOp:
    """A file's elements, not read yet.

    Raises: FileNotFoundError; CreationError for a part of an element at its end.
    """
    size = os.stat(path).st_size
    if size % dtype.itemsize:
        raise CreationError(f"{path} has {size} bytes, no whole number of {dtype}")
    if size == 0:
        return UOp.const(0, dtype)._expand_front((0,))
    device = f"DISK:{os.path.abspath(path)}"
    return UOp.from_buffer(Buffer(device, size // dtype.itemsize, dtype, preallocate=True))


def window_of(x: UOp) -> Window | None:
    """Where a value lies in a buffer, if in one piece: through reshapes, slices, bitcasts.

    file[8:16].bitcast(float32) -> 8 bytes from byte 8
    """
    if x.op is Ops.BUFFER:
        memory = memory_of(x)
        _opened[memory.device].add(memory.base)
        return Window(memory, 0)
    if x.op not in (Ops.RESHAPE, Ops.BITCAST, Ops.SHRINK, Ops.DETACH, Ops.CONTIGUOUS):
        return None
    below = window_of(x.src[0])
    if below is None or x.op is not Ops.SHRINK:
        return below
    first = _first_element(x.src[0].shape, node_to_shape(x.src[1]), x.shape)
    if first is None:
        return None
    return Window(below.buffer, below.offset + first * x.dtype.itemsize)


def _first_element(whole: Any, starts: Any, sizes: Any) -> int | None:
    """The flat place of a box's first element; None for a box with gaps."""
    if not all(isinstance(n, int) for n in (*whole, *starts, *sizes)):
        return None
    wide = [i for i, n in enumerate(sizes) if n != 1]
    if wide and any(sizes[i] != whole[i] for i in range(wide[0] + 1, len(whole))):
        return None
    place = 0
    for size, start in zip(whole, starts, strict=True):
        place = place * size + start
    return int(place)


def moved(x: UOp, device: str) -> UOp:
    """A value over files as one over copies on a device; only the windows in use are copied."""
    done: dict[UOp, UOp] = {}

    def visit(node: UOp) -> UOp:
        if node not in done:
            found = _copied(node, device)
            if found is None:
                found = node.replace(src=tuple(map(visit, node.src)))
            done[node] = found
        return done[node]

    return visit(x)


def _copied(x: UOp, device: str) -> UOp | None:
    """What stands for a node there: a copy of its window; None where its sources must be moved."""
    if not on_disk(x.device):
        return x
    window = window_of(x)
    if window is None:
        return _box(x, device) if x.op is Ops.SHRINK else None
    count = math.prod(x.shape)
    if count == 0:
        return UOp.const(0, x.dtype)._expand_front(tuple(x.shape))
    piece = UOp.from_buffer(window.view(count, x.dtype))
    return piece.copy_to_device(device)._reshape(tuple(x.shape))


def _box(x: UOp, device: str) -> UOp | None:
    """What stands for a box with gaps: copies of its rows, or of what lies around many rows.

    file.reshape(64, n)[4:6, :2] -> two copies of two elements; None for what is no window below.
    """
    whole, starts, sizes = x.src[0].shape, node_to_shape(x.src[1]), x.shape
    known = all(isinstance(n, int) for n in (*whole, *starts, *sizes))
    if not known or 0 in sizes or window_of(x.src[0]) is None:
        return None
    last = max(i for i, n in enumerate(sizes) if n != whole[i])  # the rows are whole behind it
    cut = next(i for i, n in enumerate(sizes) if n != 1)
    if math.prod(sizes[:last]) > _MOST_ROWS:
        size = (*sizes[: cut + 1], *whole[cut + 1 :])
        if size == whole:
            return None
        around = x.src[0]._shrink((*starts[: cut + 1], *(0 for _ in whole[cut + 1 :])), size)
        return moved(
            around._shrink((*(0 for _ in starts[: cut + 1]), *starts[cut + 1 :]), sizes), device
        )
    rows = [
        moved(
            x.src[0]._shrink(
                (*starts[:cut], starts[cut] + i, *starts[cut + 1 :]),
                (*sizes[:cut], 1, *sizes[cut + 1 :]),
            ),
            device,
        )
        for i in range(sizes[cut])
    ]
    return rows[0].cat(*rows[1:], dim=cut)


_MOST_ROWS = 256


def viewed(x: UOp) -> Buffer | None:
    """The window of a file that holds a value; None for what is no window."""
    window = window_of(x)
    return None if window is None else window.view(math.prod(x.shape), x.dtype)


def rebits(x: UOp, dtype: DType) -> UOp | None:
    """A window of a file read as another type; None for what is no window, or no whole number."""
    window = window_of(x)
    size = x.shape[-1] * x.dtype.itemsize if x.shape else 0
    if window is None or not size or size % dtype.itemsize:
        return None
    shape = (*x.shape[:-1], size // dtype.itemsize)
    return UOp.from_buffer(window.view(math.prod(shape), dtype))._reshape(shape)


class Overwritten(NamedTuple):
    """Bytes of a file, or of a kept part of one, that are about to be written."""

    window: Window
    size: int

    @property
    def memory(self) -> list[Buffer]:
        """All memory (bases) in which they are looked at."""
        base = self.window.buffer.base
        return list(_opened[base.device]) if self.window.holds_file() else [base]

    def meets(self, window: Window, size: int) -> bool:
        """Whether another window has some of them."""
        mine = self.window
        one_file = mine.holds_file() and window.holds_file()
        if mine.buffer.base is not window.buffer.base and not (
            one_file and mine.buffer.device == window.buffer.device
        ):
            return False
        return mine.start < window.start + size and window.start < mine.start + self.size

    def kept(self, x: UOp) -> UOp:
        """A value that reads old bytes where it looked at these."""
        done: dict[UOp, UOp] = {}

        def visit(node: UOp) -> UOp:
            if node not in done:
                found = self._kept(node)
                if found is None:
                    found = node.replace(src=tuple(map(visit, node.src)))
                done[node] = found
            return done[node]

        return visit(x)

    def _kept(self, x: UOp) -> UOp | None:
        window = window_of(x) if x._shape is not None and on_disk(x.device) else None
        if window is None:
            return None if x.src else x
        size = math.prod(x.shape) * x.dtype.itemsize
        if not size or not self.meets(window, size):
            return x
        old = window.view(math.prod(x.shape), x.dtype)
        data = KeptBytes(bytearray(old.as_memoryview()))
        memory = Buffer(old.device, old.size, old.dtype, FileWindow(data, 0, size))
        return UOp.from_buffer(memory)._reshape(tuple(x.shape))


# By device: the memory (bases) that looks at its file.
_opened: collections.defaultdict[str, weakref.WeakSet[Buffer]] = collections.defaultdict(
    weakref.WeakSet
)


def overwritten(x: UOp) -> Overwritten:
    """What a write to a view of a file overwrites.

    Raises: AssignError for a place that is not in one piece.
    """
    window = window_of(x)
    if window is None:
        raise AssignError(
            f"a file cannot be written through {x.op.name}", help="write to slices in one piece"
        )
    return Overwritten(window, math.prod(x.shape) * x.dtype.itemsize)

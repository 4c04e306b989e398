"""Memory on several devices at once: a buffer of the same size on each."""

from __future__ import annotations

from collections.abc import Sequence

from tinylab.device.buffer import Buffer
from tinylab.dtype import DType


class MultiBuffer:
    """One buffer for each of several devices; none has memory until it is asked for.

    MultiBuffer(("CPU", "CPU:1"), 4, float32).bufs -> two buffers of 4 elements
    """

    def __init__(
        self,
        device: tuple[str, ...],
        size: int,
        dtype: DType,
        bufs: Sequence[Buffer] | None = None,
    ) -> None:
        self.bufs = [Buffer(d, size, dtype) for d in device] if bufs is None else list(bufs)

    def __repr__(self) -> str:
        return f"<multibuf real:{self.is_allocated()} device:{self.device} size:{self.size}>"

    @property
    def device(self) -> tuple[str, ...]:
        """The devices, in the order of the parts."""
        return tuple(b.device for b in self.bufs)

    @property
    def size(self) -> int:
        """Elements on each device."""
        return self.bufs[0].size

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.bufs[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes on all devices together."""
        return sum(b.nbytes for b in self.bufs)

    def is_allocated(self) -> bool:
        """Whether every part has memory."""
        return all(b.is_allocated() for b in self.bufs)

    def ref(self, cnt: int) -> MultiBuffer:
        """Counts a node that begins (1) or ceases (-1) to use the memory."""
        for b in self.bufs:
            b.ref(cnt)
        return self

"""Inputs for one kernel: what the cell left in its buffers, or seeded random numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinylab.dtype import AddrSpace, dtypes
from tinylab.opcodes import Ops
from tinylab.trace.record import KernelRecord

if TYPE_CHECKING:
    import numpy as np

    from tinylab.dtype import DType
    from tinylab.uop.ops import UOp

_SMALL_INTS = 8  # random integers may serve as indices


def params(kernel: KernelRecord) -> dict[int, UOp]:
    """The buffers that a kernel is called with, by slot."""
    root = kernel.ast
    if root is None:
        return {}
    found = {
        u.arg.slot: u
        for u in root.toposort()
        if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.GLOBAL and u.arg.slot >= 0
    }
    return dict(sorted(found.items()))


def inputs_for(kernel: KernelRecord) -> dict[int, bytes]:
    """The bytes of each buffer before the run: what the cell left there, else seeded random."""
    captured = dict(enumerate(kernel.captured))
    found = {}
    for slot, param in params(kernel).items():
        size = math.prod(size_of_axis(s) for s in param.shape) * param.dtype.itemsize
        buffer = captured.get(slot)
        bytes_now = _bytes_of(buffer and buffer(), size)
        found[slot] = random_bytes(param.dtype, size, slot) if bytes_now is None else bytes_now
    return found


def size_of_axis(size: Any) -> int:
    """A size as a number: a symbolic one at its largest."""
    return size if isinstance(size, int) else int(size.vmax)


def _bytes_of(buffer: Any, size: int) -> bytes | None:
    """A buffer's content if it still has it."""
    if buffer is None or not buffer.is_allocated():
        return None
    data = bytes(buffer.as_memoryview())
    return data if len(data) == size else None


def random_bytes(dtype: DType, size: int, seed: int) -> bytes:
    """Seeded random elements: floats around 0, small integers, either truth value."""
    import numpy as np

    count = size // dtype.itemsize
    rng = np.random.default_rng(seed + 1)
    if dtypes.is_float(dtype):
        return _float_bytes(dtype, rng.standard_normal(count))
    if dtype is dtypes.bool:
        return rng.integers(0, 2, count, dtype=np.uint8).tobytes()
    sort = "u" if dtypes.is_unsigned(dtype) else "i"
    return rng.integers(0, _SMALL_INTS, count).astype(f"{sort}{dtype.itemsize}").tobytes()


def _float_bytes(dtype: DType, values: np.ndarray[Any, Any]) -> bytes:
    import numpy as np

    if dtype is dtypes.bfloat16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if dtype.itemsize == 1:  # eight-bit floats: small positive numbers in every such format
        return np.full(len(values), 0x30, np.uint8).tobytes()
    return values.astype(f"f{dtype.itemsize}").tobytes()

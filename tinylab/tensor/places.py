"""Which bytes of a tensor a view looks at: a box of strides, and whether two of them meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinylab.dtype import DType
from tinylab.mixin.base import Shape
from tinylab.opcodes import Ops
from tinylab.tensor.core import Move
from tinylab.uop.ops import node_to_shape

# Addresses that are only compared begin here.
_BASE = 1 << 46
# What an exact comparison of two boxes may take; beyond, they count as meeting.
_EFFORT: Any = 10_000


class Places(NamedTuple):
    """Bytes from an offset on, by sizes and strides; the bytes of an element are the last axis."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(r for r in reach if r < 0)
        return low, self.offset + sum(r for r in reach if r > 0) + 1

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """As an array of numpy, of which nothing but the addresses may be looked at."""
        return {
            "version": 3,
            "typestr": "|u1",
            "data": (_BASE + self.offset, False),
            "shape": self.shape,
            "strides": self.strides,
        }

    def meets(self, other: Places) -> bool:
        """Whether some byte is in both."""
        if 0 in self.shape or 0 in other.shape:
            return False
        (low, high), (other_low, other_high) = self.bounds, other.bounds
        if high <= other_low or other_high <= low:
            return False
        import numpy as np

        try:
            return bool(np.shares_memory(np.asarray(self), np.asarray(other), _EFFORT))
        except np.exceptions.TooHardError:
            return True

    @property
    def is_one_piece(self) -> bool:
        """Whether the bytes lie one after the other, in order."""
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n > 1 and stride != step:
                return False
            step *= n
        return True


def whole(shape: Shape, itemsize: int) -> Places:
    """All of a tensor; a size that varies counts with its largest value."""
    sizes = (*(s if isinstance(s, int) else int(s.vmax) for s in shape), itemsize)
    strides = tuple(math.prod(sizes[n + 1 :]) for n in range(len(sizes)))
    return Places(0, sizes, strides)


class Looked(NamedTuple):
    """What steps of looking see: exactly, or something that contains it."""

    places: Places
    exact: bool


def looked_at(start: Looked, steps: Sequence[Move | DType]) -> Looked:
    """What is seen through steps, outermost first.

    From a step on that no strides describe (a transposed array in one axis, sizes that vary) what
    is seen counts as all of what that step sees.
    """
    found = start
    for step in reversed(steps):
        if not found.exact:
            break
        places = _stepped(found.places, step)
        found = Looked(found.places, False) if places is None else Looked(places, True)
    return found


def _stepped(x: Places, step: Move | DType) -> Places | None:
    *sizes, size = x.shape
    if isinstance(step, DType):
        if step.itemsize == size:
            return x
        return _reshaped(x, (*sizes[:-1], sizes[-1] * size // step.itemsize, step.itemsize))
    if step.op is Ops.DETACH:
        return x
    if step.op is Ops.PERMUTE:
        order = (*step.arg, len(sizes))
        return Places(x.offset, _at(x.shape, order), _at(x.strides, order))
    if step.op is Ops.FLIP:
        return _flipped(x, (*step.arg, False))
    numbers = [node_to_shape(u) for u in step.rest]
    if not all(isinstance(n, int) for row in numbers for n in row):
        return None
    if step.op is Ops.RESHAPE:
        return _reshaped(x, (*numbers[0], size))
    if step.op is Ops.EXPAND:
        front = numbers[0]
        return Places(x.offset, (*front, *x.shape), (*(0 for _ in front), *x.strides))
    if step.op in (Ops.SHRINK, Ops.PAD):  # padding is read nowhere but inside
        sign = 1 if step.op is Ops.SHRINK else -1
        starts, lengths = numbers
        moved = sum(sign * n * s for n, s in zip(starts, x.strides, strict=False))
        return Places(x.offset + moved, (*lengths, size), x.strides)
    return None


def _at(values: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[n] for n in order)


def _flipped(x: Places, flags: Sequence[bool]) -> Places:
    last = [(n - 1) * s if f else 0 for n, s, f in zip(x.shape, x.strides, flags, strict=True)]
    strides = tuple(-s if f else s for s, f in zip(x.strides, flags, strict=True))
    return Places(x.offset + sum(last), x.shape, strides)


def _reshaped(x: Places, shape: tuple[int, ...]) -> Places | None:
    """The same bytes under other sizes; None where no strides are right.

    Axes that lie one after the other are one stretch; each new axis must be in one of them.
    """
    if 0 in shape:
        return Places(x.offset, shape, (0,) * len(shape))
    stretches: list[tuple[int, int]] = []  # (elements, stride of the last axis), the last first
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if n == 1:
            continue
        if stretches and stride == stretches[-1][0] * stretches[-1][1]:
            stretches[-1] = (stretches[-1][0] * n, stretches[-1][1])
        else:
            stretches.append((n, stride))
    strides, taken = [], 1
    rest = iter(stretches)
    count, unit = next(rest, (1, 0))
    for n in reversed(shape):
        if taken == count and n > 1:
            count, unit = next(rest)
            taken = 1
        strides.append(taken * unit)
        taken *= n
        if count % taken:
            return None
    return Places(x.offset, shape, tuple(reversed(strides)))

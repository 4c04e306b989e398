"""Movement of lanes: which lane of the source each lane of the result is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from tinylab.errors import RenderError
from tinylab.opcodes import Ops
from tinylab.renderer.base import constants_of, int_shape
from tinylab.renderer.llvm_memory import strides
from tinylab.renderer.llvm_writer import Value, Writer
from tinylab.uop.ops import UOp


def move(w: Writer, u: UOp, value: Value) -> Value:
    """The value of a movement (INDEX, SHRINK, RESHAPE, EXPAND, PERMUTE, FLIP) of a value.

    Raises: RenderError where the places are not constant.
    """
    shape = int_shape(u)
    return w.gather(value, shape, lane_sources(u, value.shape))


def lane_sources(u: UOp, shape: tuple[int, ...]) -> Sequence[int]:
    """For each lane of the result, in order, the lane of a source of this shape.

    PERMUTE (1, 0) of (2, 3) -> [0, 3, 1, 4, 2, 5]
    """
    return _SOURCES[u.op](u, shape)


def _all(axes: Sequence[Sequence[int]], steps: Sequence[int]) -> list[int]:
    return [sum(i * s for i, s in zip(at, steps, strict=True)) for at in itertools.product(*axes)]


def _index(u: UOp, shape: tuple[int, ...]) -> list[int]:
    axes: list[Sequence[int]] = []
    for index in u.src[1:]:
        places = constants_of(index)
        if places is None or len(index.shape) > 1:
            raise RenderError("lanes of a value are taken at places that are not constant")
        axes.append(places)
    axes += [range(n) for n in shape[len(axes) :]]
    return _all(axes, strides(shape))


def _shrink(u: UOp, shape: tuple[int, ...]) -> list[int]:
    offsets, sizes = constants_of(u.src[1]), constants_of(u.src[2])
    if offsets is None or sizes is None:
        raise RenderError("lanes of a value are taken at places that are not constant")
    return _all([range(o, o + n) for o, n in zip(offsets, sizes, strict=True)], strides(shape))


def _reshape(u: UOp, shape: tuple[int, ...]) -> Sequence[int]:
    return range(math.prod(shape))


def _expand(u: UOp, shape: tuple[int, ...]) -> list[int]:
    count = math.prod(shape)
    return list(range(count)) * (math.prod(int_shape(u)) // max(1, count))


def _permute(u: UOp, shape: tuple[int, ...]) -> list[int]:
    steps = strides(shape)
    return _all([range(shape[a]) for a in u.arg], [steps[a] for a in u.arg])


def _flip(u: UOp, shape: tuple[int, ...]) -> list[int]:
    axes = [range(n)[::-1] if f else range(n) for n, f in zip(shape, u.arg, strict=True)]
    return _all(axes, strides(shape))


def _pad(u: UOp, shape: tuple[int, ...]) -> list[int]:
    raise RenderError("a pad of lanes", help="it is a selection, lowered before")


_SOURCES: dict[Ops, Callable[[UOp, tuple[int, ...]], Sequence[int]]] = {
    Ops.INDEX: _index,
    Ops.SHRINK: _shrink,
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.FLIP: _flip,
    Ops.PAD: _pad,
}

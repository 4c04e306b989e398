"""Storage for what is stored: a STAGE becomes a buffer, written by a kernel and read after it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from tinylab.dtype import dtypes, strong_dtype
from tinylab.opcodes import Ops
from tinylab.schedule.indexing import flatten_index, source_index
from tinylab.schedule.views import window_of
from tinylab.uop.args import CallInfo, ParamArg
from tinylab.uop.intern import carry_metadata, make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

# Slots of buffers that one schedule makes for itself count down from here; a new set of them is
# allocated each time the schedule runs.
FIRST_INTERNAL = -2


def internal_buffer(size: int, x: UOp, ctx: Iterator[int]) -> UOp:
    """A BUFFER that belongs to this schedule alone."""
    arg = ParamArg(next(ctx), x.dtype, device=x.arg.device)
    return make(Ops.BUFFER, x.dtype, (UOp.const(size),), arg)


def _sizes(x: UOp) -> tuple[Any, ...]:
    return tuple(1 if r.op is Ops.CONST else r.src[0].ssimplify() for r in x.src[1:])


def _largest(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes as large as they may get: storage is laid out for them."""
    return tuple(size if isinstance(size, int) else int(size.vmax) for size in sizes)


def stage_is_buffer(x: UOp, ctx: Iterator[int]) -> UOp | None:
    """A stored value as a buffer, and the loops that fill it."""
    value = x.src[0]
    if x.arg.removable:
        return None
    if dtypes.is_weak(x.dtype):
        strong = value.cast(strong_dtype(x.dtype))
        return x.replace(src=(strong, *x.src[1:]), dtype=strong.dtype).cast(x.dtype)
    if value.op is Ops.COPY:
        return _copy_call(x, value, ctx)
    sizes = _sizes(x)
    layout = _largest(sizes)
    buffer = internal_buffer(math.prod(layout), x, ctx)
    place = make(Ops.INDEX, x.dtype, (buffer, flatten_index(x.src[1:], layout)))
    written = place.store(value, arg=x.arg.reason).end(*(r for r in x.src[1:] if r.op is Ops.RANGE))
    carry_metadata(x, written)
    return buffer.after(written)._reshape(layout)._shrink((0,) * len(sizes), sizes)


def _copy_call(x: UOp, copy: UOp, ctx: Iterator[int]) -> UOp:
    """A COPY is no kernel: the call of a transfer from one buffer to another."""
    sizes, layout = copy.shape, _largest(copy.shape)
    source = copy.src[0]
    window = window_of(source)
    if window is None:
        # Stored as a whole, in a layout for the largest sizes.
        while source.op in (Ops.RESHAPE, Ops.SHRINK):
            source = source.src[0]
    source = source if window is None else window.view()
    count = math.prod(layout)
    buffer = internal_buffer(count, x, ctx)
    body = make(
        Ops.COPY, x.dtype, (UOp.param(1, x.dtype, (count,), source.device),), buffer.arg.device
    )
    call = make(Ops.CALL, dtypes.void, (body, buffer, source), CallInfo("copy", aux=x.arg.reason))
    carry_metadata(x, call)
    return buffer.after(call)._reshape(layout)._shrink((0,) * len(sizes), sizes)


def index_is_flat(b: UOp, x: UOp) -> UOp | None:
    """x[i, j] of a stored array -> its flat place."""
    idx = x.src[1:]
    while b.op in (Ops.RESHAPE, Ops.SHRINK):
        idx, b = source_index(b, idx), b.src[0]
    if (b is x.src[0] and len(idx) == 1) or b.op not in (Ops.PARAM, Ops.BUFFER, Ops.AFTER):
        return None
    return make(Ops.INDEX, x.dtype, (b, flatten_index(idx, b.shape)))


_INDEXED = {Ops.RESHAPE, Ops.SHRINK, Ops.PARAM, Ops.BUFFER, Ops.AFTER}

# fmt: off
pm_add_buffers = PatternMatcher([
    Rule("stage_is_buffer", "stage(x, r) -> buffer after (for r: buffer[r] <- x)",
         UPat(Ops.STAGE, name="x"), stage_is_buffer),
    Rule("index_is_flat", "x[i, j] -> x[i*n + j]",
         UPat(Ops.INDEX, src=(UPat(_INDEXED, name="b"),),
              allow_any_len=True, name="x"), index_is_flat),
])
# fmt: on


def internal_slots(root: UOp, ctx: Any) -> Iterator[int]:
    """Slots for the buffers of one schedule."""
    return itertools.count(FIRST_INTERNAL, -1)

"""Movement as arithmetic on indices: where an element of the result stands in the source.

An index is a tuple of expressions, one per axis. An axis that a PAD may lead outside its source is
guarded on its own: WHERE(inside, i, Invalid).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tinylab.errors import ScheduleError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp, node_to_shape, resolve, sint_to_uop, ssimplify
from tinylab.uop.symbolic import symbolic

Index = tuple[UOp, ...]
Sizes = tuple[Any, ...]
_ZERO = UOp.const(0)


@functools.lru_cache(maxsize=16384)
def simplified(x: UOp) -> UOp:
    """An index expression in its simplest form."""
    if x.op in (Ops.RANGE, Ops.CONST):
        return x
    from tinylab.uop.rewrite import RewriteContext

    return RewriteContext(symbolic, None).unified_rewrite(x)


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Two guards as one; None always holds."""
    if a is None or b is None or a is b:
        return b if a is None else a
    return a & b


def guard_of(i: UOp) -> UOp | None:
    """The condition under which an index may be used; None for a plain one."""
    found = i.get_valid()
    return None if found.op is Ops.CONST and found.arg is True else found


def guarded(i: UOp, guard: UOp | None) -> UOp:
    """An index that may be used only where the guard holds."""
    return i if guard is None else i.valid(guard)


def row_major_strides(shape: Sizes) -> Sizes:
    """How far apart neighbours along each axis are.

    (2, 3, 4) -> (12, 4, 1)
    """
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def flatten_index(idx: Index, shape: Sizes) -> UOp:
    """The place in row-major order, guarded by all the guards of its axes."""
    total: UOp | None = None
    guard: UOp | None = None
    for i, size, stride in zip(idx, shape, row_major_strides(shape), strict=True):
        guard = both(guard, guard_of(i))
        if isinstance(size, int) and size == 1:
            continue
        plain = i.get_idx()
        if plain.op is Ops.CONST and plain.arg == 0:
            continue
        term = plain if isinstance(stride, int) and stride == 1 else plain * stride
        total = term if total is None else total + term
    flat = _ZERO if total is None else simplified(total)
    return guarded(flat, guard)


def _split(flat: UOp, shape: Sizes) -> list[UOp]:
    """The index of each axis of a place in row-major order."""
    guard = guard_of(flat)
    plain = flat.get_idx()
    found = []
    for axis, (size, stride) in enumerate(zip(shape, row_major_strides(shape), strict=True)):
        if isinstance(size, int) and size == 1:
            found.append(guarded(_ZERO, guard))
            continue
        i = plain if isinstance(stride, int) and stride == 1 else plain // stride
        if axis:
            i = i % size
        found.append(guarded(simplified(i), guard))
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a is b or resolve(sint_to_uop(a).eq(b), False)


def _groups(old: Sizes, new: Sizes) -> list[tuple[slice, slice]]:
    """Runs of axes of both shapes that hold equally many elements, as short as they come."""
    found = []
    i = j = 0
    while i < len(old) or j < len(new):
        i0, j0 = i, j
        a: Any = 1
        b: Any = 1
        while (i == i0 and j == j0) or not _same(a, b):
            grow_old = i < len(old) and (j >= len(new) or (i == i0 and j > j0) or _not_more(a, b))
            if grow_old:
                a = a * old[i]
                i += 1
            elif j < len(new):
                b = b * new[j]
                j += 1
            else:
                raise ScheduleError(
                    f"cannot take a reshape of {shape_text(old)} to {shape_text(new)} apart"
                )
        found.append((slice(i0, i), slice(j0, j)))
    return found


def _not_more(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return resolve(sint_to_uop(a) <= b, False)


def _through_reshape(x: UOp, idx: Index) -> Index:
    old, new = x.src[0].shape, x.shape
    found: list[UOp] = []
    for olds, news in _groups(old, new):
        group, sizes = idx[news], old[olds]
        if len(group) == 1 and len(sizes) == 1:
            found.append(group[0])
        else:
            found.extend(_split(flatten_index(group, new[news]), sizes))
    return tuple(found)


def _through_permute(x: UOp, idx: Index) -> Index:
    return tuple(idx[x.arg.index(axis)] for axis in range(len(idx)))


def _through_expand(x: UOp, idx: Index) -> Index:
    return idx[len(idx) - len(x.src[0].shape) :]


def _through_shrink(x: UOp, idx: Index) -> Index:
    return tuple(
        i if isinstance(offset, int) and offset == 0 else _moved(i, offset)
        for i, offset in zip(idx, node_to_shape(x.src[1]), strict=True)
    )


def _moved(i: UOp, by: Any) -> UOp:
    return guarded(simplified(i.get_idx() + by), guard_of(i))


def _through_flip(x: UOp, idx: Index) -> Index:
    return tuple(
        guarded(simplified(i.get_idx() * -1 + (size - 1)), guard_of(i)) if flipped else i
        for i, size, flipped in zip(idx, x.shape, x.arg, strict=True)
    )


def _through_pad(x: UOp, idx: Index) -> Index:
    found = []
    old, offsets = x.src[0].shape, node_to_shape(x.src[1])
    for i, before, size, total in zip(idx, offsets, old, x.shape, strict=True):
        if _same(size, total):
            found.append(i)
            continue
        moved = simplified(i.get_idx() + before * -1)
        inside: UOp | None = None
        if not (moved.vmin >= 0 or (moved.variables() and resolve(moved >= 0, False))):
            inside = moved >= 0
        if not _always_less(moved, size):
            inside = both(inside, moved < size)
        if inside is not None:
            inside = simplified(inside)
        found.append(guarded(moved, both(guard_of(i), inside)))
    return tuple(found)


def _always_less(i: UOp, size: Any) -> bool:
    """Whether an index stays below a size; where both are known numbers their bounds say it."""
    if isinstance(size, int):
        return bool(i.vmax < size) or (bool(i.variables()) and resolve(i < size, False))
    return resolve(i < size, False)


_THROUGH = {
    Ops.RESHAPE: _through_reshape,
    Ops.PERMUTE: _through_permute,
    Ops.EXPAND: _through_expand,
    Ops.SHRINK: _through_shrink,
    Ops.FLIP: _through_flip,
    Ops.PAD: _through_pad,
}


@functools.lru_cache(maxsize=16384)
def source_index(x: UOp, idx: Index) -> Index:
    """Where the element of a movement at idx stands in its source; PAD adds guards."""
    return _THROUGH[x.op](x, idx)


def pad_guard(x: UOp, idx: Index) -> UOp | None:
    """The condition under which an element of a PAD comes from its source."""
    guard: UOp | None = None
    for before, after in zip(idx, source_index(x, idx), strict=True):
        if guard_of(after) is not guard_of(before):
            guard = both(guard, guard_of(after))
    return guard


def broadcast_index(idx: Index, shape: Sizes) -> Index:
    """The index of an operand that is broadcast: missing axes dropped, axes of size 1 at 0."""
    kept = idx[len(idx) - len(shape) :]
    return tuple(
        _ZERO if isinstance(s, int) and s == 1 else i for i, s in zip(kept, shape, strict=True)
    )


def loops(shape: Sequence[Any], numbers: Any, kind: Any) -> tuple[UOp, ...]:
    """A RANGE for each axis with more than one place, the constant 0 for the others.

    Symbolic sizes are in their simplest form: indices are simplified, and a loop variable with
    another size would be another variable.
    """
    sizes = [ssimplify(s) for s in shape]
    return tuple(
        UOp.const(0) if isinstance(s, int) and s == 1 else UOp.range(s, next(numbers), kind)
        for s in sizes
    )

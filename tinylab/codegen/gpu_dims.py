"""GLOBAL, LOCAL and THREAD ranges become the place in the grid, the workgroup or the thread pool.

RANGE(64, GLOBAL) -> SPECIAL gidx0;  RANGE(2, THREAD) -> the variable core_id

A target has three grid axes of limited size: ranges share an axis, or are spread over two, so that
all of them fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinylab.codegen.range_tools import CLOSERS, range_key, remade, size_of
from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import CodegenError
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import ParamArg
from tinylab.uop.ops import UOp, rebuild

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

GRID_KINDS = (AxisType.GLOBAL, AxisType.DEVICE)
WORKGROUP_KINDS = (AxisType.WARP, AxisType.LOCAL, AxisType.GROUP_REDUCE)
MAX_AXES = 3
_NO_LIMIT = 1 << 62


def has_grid(sink: UOp, ctx: object = None) -> bool:
    """Whether any range is a place in the grid or a thread."""
    kinds = (AxisType.GLOBAL, AxisType.THREAD, *WORKGROUP_KINDS)
    return any(u.op is Ops.RANGE and u.arg[-1] in kinds for u in sink.toposort())


def add_gpudims(sink: UOp, ren: Renderer) -> UOp:
    """The kernel with grid, workgroup and thread ranges replaced by what the launch sets."""
    ranges = sorted((u for u in sink.toposort() if u.op is Ops.RANGE), key=range_key)
    grid = [r for r in ranges if r.arg[-1] is AxisType.GLOBAL]
    group = [r for r in ranges if r.arg[-1] in WORKGROUP_KINDS]
    threads = [r for r in ranges if r.arg[-1] is AxisType.THREAD]
    new: dict[UOp, UOp] = {}
    if getattr(sink.arg, "dont_use_locals", False):
        new.update(_places(grid, "idx", ren.global_max))
    else:
        new.update(_places(grid, "gidx", ren.global_max))
        new.update(_places(group, "lidx", ren.local_max))
    if threads:
        new.update(_core_id(threads))
    return _replaced(sink, new)


def _core_id(threads: list[UOp]) -> dict[UOp, UOp]:
    if len(threads) > 1:
        raise CodegenError(f"a kernel has one THREAD axis, not {len(threads)}")
    last = int(threads[0].src[0].arg) - 1
    arg = ParamArg(-1, dtypes.int64, (0, last), None, "core_id", AddrSpace.ALU)
    core = UOp(Ops.PARAM, dtypes.int64, (UOp(Ops.STACK, dtypes.void),), arg)
    return {threads[0]: core.cast(dtypes.weakint)}


def _replaced(sink: UOp, new: dict[UOp, UOp]) -> UOp:
    def remake(u: UOp, src: tuple[UOp, ...]) -> UOp:
        if u.op in CLOSERS:
            kept = tuple(s for s in src[1:] if s.op is Ops.RANGE)
        elif u.op is Ops.AFTER:
            # What the launch sets needs no order.
            waits = zip(src[1:], u.src[1:], strict=True)
            kept = tuple(s for s, old in waits if old not in new)
        else:
            return rebuild(u, src)
        if not kept and u.op in (Ops.END, Ops.AFTER):
            return src[0]
        return u.replace(src=(src[0], *kept)) if len(kept) + 1 != len(src) else rebuild(u, src)

    return remade(sink, new, remake)


def _places(ranges: list[UOp], prefix: str, limits: tuple[int, ...] | None) -> dict[UOp, UOp]:
    """What stands for each range: specials, or parts of one. The last range is axis 0."""
    if not ranges:
        return {}
    ranges = ranges[::-1]
    if not all(r.src[0].op is Ops.CONST for r in ranges):
        return _symbolic_places(ranges, prefix)
    found = grouped_dims(prefix, [int(r.src[0].arg) for r in ranges], limits)
    return dict(zip(ranges, found, strict=True))


def _symbolic_places(ranges: list[UOp], prefix: str) -> dict[UOp, UOp]:
    """Places where a size is known at the launch only; too many axes share the last of the grid."""
    if len(ranges) > MAX_AXES:
        ranges = sorted(ranges, key=lambda r: r.src[0].op is Ops.CONST)
    axes = [[r] for r in ranges]
    while len(axes) > MAX_AXES:
        axes[-2:] = [axes[-2] + axes[-1]]
    new: dict[UOp, UOp] = {}
    for i, members in enumerate(axes):
        sizes = [size_of(r) for r in members]
        special = UOp.special(math.prod(sizes), f"{prefix}{i}").cast(dtypes.weakint)
        new.update(zip(members, _parts(special, sizes), strict=True))
    return new


def grouped_dims(prefix: str, sizes: list[int], limits: tuple[int, ...] | None) -> list[UOp]:
    """An index expression for each size, over at most three grid axes within the limits.

    Raises: CodegenError where the grid is too large for the target.
    """
    most = list(limits) if limits else [_NO_LIMIT] * MAX_AXES
    axes = _merged(sizes, most)
    if axes is None:
        flat = UOp.const(0, dtypes.weakint)
        split = _split(math.prod(sizes), most, sizes)
        step = 1
        for i, size in enumerate(split):
            flat = flat + UOp.special(size, f"{prefix}{i}").cast(dtypes.weakint) * step
            step *= size
        return _parts(flat, sizes)
    found = []
    for i, members in enumerate(axes):
        special = UOp.special(math.prod(members), f"{prefix}{i}").cast(dtypes.weakint)
        found.extend(_parts(special, members))
    return found


def _merged(sizes: list[int], limits: list[int]) -> list[list[int]] | None:
    """Neighbouring sizes put together until at most three axes are left; None if none fit."""
    axes = [[s] for s in sizes]
    while len(axes) > min(MAX_AXES, len(limits)):
        products = [math.prod(a) * math.prod(b) for a, b in itertools.pairwise(axes)]
        i = products.index(min(products))
        axes[i : i + 2] = [axes[i] + axes[i + 1]]
    fits = all(math.prod(a) <= limit for a, limit in zip(axes, limits, strict=False))
    return axes if fits else None


def _split(total: int, limits: list[int], sizes: list[int]) -> list[int]:
    """Factors of a total that fit the limits."""
    found = []
    for limit in limits[:MAX_AXES]:
        factor = max(f for f in _divisors(total) if f <= limit)
        found.append(factor)
        total //= factor
        if total == 1:
            return found
    raise CodegenError(
        f"a grid of {sizes} does not fit the target's limits {tuple(limits)}",
        help="give part of an axis to lanes or loops",
    )


def _divisors(n: int) -> set[int]:
    """All numbers that divide one."""
    found, factor = {1}, 2
    while factor * factor <= n:
        while n % factor == 0:
            n //= factor
            found |= {d * factor for d in found}
        factor += 1
    return found | {d * n for d in found}


def _parts(flat: UOp, sizes: Sequence[int | UOp]) -> list[UOp]:
    """A flat place taken apart, the first size fastest."""
    found: list[UOp] = []
    step: int | UOp = 1
    for i, size in enumerate(sizes):
        part = flat if isinstance(step, int) and step == 1 else flat // step
        found.append(part if i == len(sizes) - 1 else part % size)
        step *= size
    return found

"""Opts chosen by looking at strides, in well under a millisecond and without running anything.

On a CPU four things decide: vectors along the axis with stride 1; enough accumulators in registers,
each loaded value used several times (a tile); a reduce whose own axis has stride 1 keeps lanes
through the loop; threads over the outermost axis when the work outweighs waking them.
Measured on 8x32 tiles: at parity with OpenBLAS, 3.4 times slower with 2x32 (Zen 4, float32).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinylab.codegen.opt import KernelOptError, Opt, OptOps
from tinylab.codegen.opt.actions import max_threads
from tinylab.codegen.opt.strides import Access, accesses
from tinylab.codegen.range_tools import FREE_KINDS, size_of
from tinylab.dtype import dtypes
from tinylab.helpers.context import (
    MV,
    MV_BLOCKSIZE,
    MV_ROWS_PER_THREAD,
    MV_THREADS_PER_ROW,
    NOLOCALS,
)
from tinylab.opcodes import AxisType, Ops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tinylab.codegen.opt.kernel import Scheduler
    from tinylab.uop.args import RangeArg
    from tinylab.uop.ops import UOp

# Waking a second thread costs about 40 µs and both must find work: below this one is faster.
THREAD_NS = 200_000
BYTES_PER_NS = 10  # one core from memory
FLOPS_PER_NS = 80  # one core on tiles
TILE_VECTORS = 16  # accumulators that stay in registers
STEP_KINDS = (*FREE_KINDS, AxisType.LOOP)  # run through once for each result


def hand_coded_optimizations(k: Scheduler) -> Scheduler:
    """The kernel with the opts that its strides suggest."""
    k = k.copy()
    (_for_grid if k.ren.has_local else _for_cpu)(k)
    return k


def _try(k: Scheduler, op: OptOps, rng: UOp | int, amount: int) -> bool:
    """Apply an opt to a range if it is legal."""
    axis = rng if isinstance(rng, int) else k.rngs.index(rng)
    if not isinstance(rng, int):
        if op is OptOps.UNROLL:
            axis = k.unrollable_dims.index(axis)
        elif op in (OptOps.GROUP, OptOps.GROUPTOP):
            axis = k.axes_of(AxisType.REDUCE).index(axis)
    try:
        k.apply_opt(Opt(op, axis, amount))
    except KernelOptError:
        return False
    return True


def _int_size(rng: UOp) -> int:
    size = size_of(rng)
    return size if isinstance(size, int) else 1


def _ranges(k: Scheduler, *kinds: AxisType) -> list[UOp]:
    return [r for r in k.rngs if r.arg[-1] in kinds and _int_size(r) > 1]


def _find(k: Scheduler, old: UOp) -> UOp | None:
    """The range that kept an axis' id after splits."""
    return next((r for r in k.rngs if r.arg == old.arg), None)


# *** CPU


def _for_cpu(k: Scheduler) -> None:
    found = accesses(k.ast)
    work = _Work(k, found)
    vector = _choose_vector(k, found)
    most = max_threads(k) if k.ren.has_threads else 1
    threads = min(most, int(2 * work.nanoseconds / THREAD_NS))
    if vector is None:
        _apply_threads(k, _thread_axis(k, threads, None, 1), threads)
        return
    width = _width(k, found, vector)
    inner = [a for a in found if a.in_reduce and not a.is_store]
    shared = _thread_axis(k, threads, vector, width)
    in_rows = vector.arg[-1] is AxisType.REDUCE
    tile = _tile_axes(k, vector, inner) if inner else []
    # Axes are rounded up first, then shared out: an axis that is cut into odd tiles has no half.
    wanted = (4, 2, 3) if in_rows else TILE
    amounts = {
        rng.arg: _round_tile(k, rng, threads if rng is shared else 1, wanted) for rng in tile
    }
    _pad_for_vectors(k, vector, width, threads if vector is shared else 1)
    if shared is not None:
        _apply_threads(k, _find(k, shared), threads)
    if not inner and (across := _across(k, vector, found)) is not None:
        _turned_tile(k, vector, across, width)
    elif in_rows:
        _row_reduction(k, vector, width, amounts)
    else:
        _output_vectors(k, vector, width, inner, amounts)


def _thread_axis(k: Scheduler, threads: int, vector: UOp | None, width: int) -> UOp | None:
    """The outermost axis that has enough for every thread."""
    for rng in _ranges(k, *FREE_KINDS) if threads > 1 else ():
        if _int_size(rng) >= threads * (width if rng is vector else 1):
            return rng
    return None


def _apply_threads(k: Scheduler, rng: UOp | None, threads: int) -> None:
    """Threads over an axis: as many as divide it, or over the next axis that can be divided."""
    if rng is None:
        return
    others = [r for r in _ranges(k, *FREE_KINDS) if r is not rng]
    for axis in (rng, *others):
        for count in range(threads, 1, -1):
            if _int_size(axis) % count == 0 and _try(k, OptOps.THREAD, axis, count):
                return


class _Work:
    """How long a kernel takes, roughly, before anything is changed."""

    def __init__(self, k: Scheduler, found: list[Access]) -> None:
        sizes = {r.arg: _int_size(r) for r in k.rngs}
        self.flops = 2 * math.prod(sizes.values())
        self.bytes = sum(
            a.itemsize * math.prod(sizes.get(r, 1) for r, s in a.strides.items() if s != 0)
            for a in found
        )
        heavy = sum(
            u.op in (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.POW) for u in k.ast.toposort()
        )
        self.flops += heavy * 20 * math.prod(n for arg, n in sizes.items() if arg[-1] in STEP_KINDS)

    @property
    def nanoseconds(self) -> float:
        return max(self.flops / FLOPS_PER_NS, self.bytes / BYTES_PER_NS)


def _choose_vector(k: Scheduler, found: list[Access]) -> UOp | None:
    """The axis along which most accesses go step by step; None if there is none."""
    best: UOp | None = None
    best_score = 0.0
    for rng in _ranges(k, *FREE_KINDS, AxisType.REDUCE):
        filled = min(_int_size(rng), 16) / 16
        if rng.arg[-1] is AxisType.REDUCE:
            if _int_size(rng) < 4 or not _only_in_reduces(k, rng):
                continue
            filled *= 0.75  # its lanes are added up at the end
        score = sum(_vector_score(a, rng) for a in found) * filled
        if score > best_score:
            best, best_score = rng, score
    return best


def _vector_score(access: Access, rng: UOp) -> int:
    """What lanes along a range do to one access: 4 for a vector, 0 if not touched, -3 for a gather.

    What a reduce loop repeats counts four times.
    """
    stride = access.stride(rng)
    points = 4 if stride == 1 else 0 if stride == 0 else -3
    return points * (4 if access.in_reduce else 1)


def _only_in_reduces(k: Scheduler, rng: UOp) -> bool:
    """Whether a range is closed by REDUCE nodes only, not by a loop written by hand."""
    return not any(u.op is Ops.END and rng in u.src[1:] for u in k.ast.toposort())


def _width(k: Scheduler, found: list[Access], rng: UOp) -> int:
    """Lanes of a native vector for the widest type that moves along a range."""
    widest = max((a.itemsize for a in found if a.stride(rng) != 0), default=4)
    by_size = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.float32, 8: dtypes.float64}
    return max(2, min(16, k.ren.vector_width(by_size.get(widest, dtypes.float32))))


def _vector_amount(size: int, width: int) -> int:
    """The best number of lanes that divides a size; 1 if none is worth it."""
    for amount in (width, width // 2, width // 4):
        if amount >= 2 and size % amount == 0:
            return amount
    if size <= 16:
        return size
    return next((a for a in range(15, 3, -1) if size % a == 0), 1)


def _pad_for_vectors(k: Scheduler, rng: UOp, width: int, threads: int) -> None:
    """Round an axis up if its divisors are poor and few lanes are wasted."""
    size = _int_size(rng)
    if size < width or size % (width * threads) == 0 or k.ren.vector_width(dtypes.float32) < 8:
        return  # without wide vectors a masked access is a branch for each lane
    amount = _vector_amount(size, width)
    fair = amount >= width // 2 and amount & (amount - 1) == 0
    for multiple, waste in (
        (2 * width * threads, 1.06),
        (width * threads, 1.06),
        (width, 1.06 if fair else 1.25),
    ):
        if -(-size // multiple) * multiple <= size * waste:
            _try(k, OptOps.PADTO, rng, multiple)
            return


# Rows of a tile, best first.
TILE = (8, 7, 6, 5)


def _round_tile(k: Scheduler, rng: UOp, threads: int, amounts: tuple[int, ...]) -> int:
    """How many steps of an axis a tile takes; the axis is rounded up where divisors are poor."""
    size, most = _int_size(rng), amounts[0]
    exact = next((a for a in amounts if size % (a * threads) == 0), None)
    if exact is not None:
        return exact
    for multiple, waste in ((most * threads, 1.1), (4 * threads, 1.25)):
        if -(-size // multiple) * multiple <= size * waste and _try(k, OptOps.PADTO, rng, multiple):
            return most if multiple == most * threads else 4
    return next((a for a in (*amounts, 4, 3, 2) if size % a == 0), 1)


def _output_vectors(
    k: Scheduler, vector: UOp, width: int, inner: list[Access], tile: dict[RangeArg, int]
) -> None:
    """Lanes along an output axis; in a reduce, a tile of accumulators around them."""
    rest = _find(k, vector)
    amount = 1 if rest is None else _vector_amount(_int_size(rest), width)
    if rest is None or amount == 1 or not _try(k, OptOps.UPCAST, rest, amount):
        return
    vectors = 1
    for extra in _more_vectors(k, vector, inner, tile):
        rest = _find(k, vector)
        if rest is not None and _int_size(rest) % extra == 0 and vectors * extra <= TILE_VECTORS:
            vectors *= extra if _try(k, OptOps.UPCAST, rest, extra) else 1
    _apply_tile(k, tile, TILE_VECTORS // vectors)


def _across(k: Scheduler, vector: UOp, found: list[Access]) -> UOp | None:
    """Another axis along which an access goes step by step that strides along the vector axis."""
    crossing = [a for a in found if a.stride(vector) not in (0, 1)]
    for rng in _ranges(k, *FREE_KINDS):
        if rng.arg != vector.arg and any(a.stride(rng) == 1 for a in crossing):
            return rng
    return None


def _turned_tile(k: Scheduler, vector: UOp, across: UOp, width: int) -> None:
    """A square of lanes, turned in registers: both sides are accessed in whole vectors."""
    rest = _find(k, vector)
    for rng in (across, rest):
        if rng is None:
            continue
        for amount in (width, width // 2, width // 4):
            if amount >= 4 and _int_size(rng) % amount == 0 and _try(k, OptOps.UPCAST, rng, amount):
                break


def _more_vectors(
    k: Scheduler, vector: UOp, inner: list[Access], tile: dict[RangeArg, int]
) -> tuple[int, ...]:
    """How many vectors along the vector axis, beside the first."""
    if not inner:
        # Independent work to hide latency; a sine alone keeps most registers in use.
        return (2,) if any(u.op in (Ops.SIN, Ops.COS) for u in k.ast.toposort()) else (4,)
    if not tile:
        return (4, 4)  # a column reduction: whole cache lines, one after another
    return (2,) if any(a.stride(vector) == 0 for a in inner) else ()


def _apply_tile(k: Scheduler, tile: dict[RangeArg, int], most: int) -> int:
    """Upcast the axes of a tile while its accumulators fit; how many vectors there are."""
    vectors = 1
    for arg, amount in tile.items():
        rng = next((r for r in k.rngs if r.arg == arg), None)
        if rng is None:
            continue
        for steps in (amount, 4, 3, 2):
            fits = vectors * steps <= most and _int_size(rng) % steps == 0
            if fits and steps > 1 and _try(k, OptOps.UPCAST, rng, steps):
                vectors *= steps
                break
    return vectors


def _tile_axes(k: Scheduler, vector: UOp, inner: list[Access]) -> list[UOp]:
    """Other output axes, those first along which most of what is loaded can be used again."""
    reuse = {
        rng: sum(a.stride(rng) == 0 for a in inner)
        for rng in _ranges(k, *FREE_KINDS)
        if rng is not vector and any(a.stride(rng) != 0 for a in inner)
    }
    return sorted((r for r, n in reuse.items() if n), key=lambda r: (-reuse[r], -_int_size(r)))[:2]


def _row_reduction(k: Scheduler, vector: UOp, width: int, tile: dict[RangeArg, int]) -> None:
    """Lanes along a reduce axis, kept through the loop; several vectors to hide the latency."""
    rest = _find(k, vector)
    amount = 1 if rest is None else _vector_amount(_int_size(rest), width)
    if rest is None or amount == 1 or not _try(k, OptOps.UNROLL, rest, amount):
        return
    vectors = _apply_tile(k, tile, TILE_VECTORS)
    if vectors == 1 and any(opt.op is OptOps.PADTO for opt in k.applied_opts):
        # Rows side by side share the masks of the last steps; twice as fast as one after another.
        rows = _ranges(k, *FREE_KINDS)
        vectors = _apply_tile(k, {r.arg: 4 for r in rows[-1:]}, 4)
    rest = _find(k, vector)
    if vectors == 1 and rest is not None:
        for extra in (4, 2):
            if _int_size(rest) % extra == 0 and _try(k, OptOps.UNROLL, rest, extra):
                break


# *** grids


def _for_grid(k: Scheduler) -> None:
    """Workgroups for a target that has them: vectors, a grouped reduce, then local axes."""
    if NOLOCALS:
        k.apply_opt(Opt(OptOps.NOLOCALS))
    found = accesses(k.ast)
    if MV and _matrix_vector(k, found):
        return
    outputs = math.prod(_int_size(r) for r in _ranges(k, *FREE_KINDS))
    reduces = _ranges(k, AxisType.REDUCE)
    if reduces and outputs <= 2048 and k.ren.has_shared:
        _first_that_works(k, OptOps.GROUPTOP, reduces[:1], (16, 8, 4))
    grid = _ranges(k, AxisType.GLOBAL)
    stepping = [r for r in grid if any(a.stride(r) == 1 for a in found)]
    if outputs >= 2048:
        _first_that_works(k, OptOps.UPCAST, stepping[::-1], (4,))
    elif not reduces:
        _first_that_works(k, OptOps.UPCAST, stepping[::-1], (4, 2))
    _small_unroll(k)
    _local_axes(k)


def _matrix_vector(k: Scheduler, found: list[Access]) -> bool:
    """Rows of a matrix times a vector: threads share each row, and keep several rows going.

    A row lies along the reduce, and what it is multiplied with is the same for all rows.
    """
    reduces, grid = _ranges(k, AxisType.REDUCE), _ranges(k, AxisType.GLOBAL)
    if len(reduces) != 1 or k.dont_use_locals or not k.ren.has_shared:
        return False
    inner = [a for a in found if a.in_reduce and not a.is_store]
    if not any(all(a.stride(r) == 0 for r in grid) and a.stride(reduces[0]) for a in inner):
        return False
    threads, block, rows = (s.value for s in (MV_THREADS_PER_ROW, MV_BLOCKSIZE, MV_ROWS_PER_THREAD))
    for row in grid:
        lies_along = any(a.stride(reduces[0]) == 1 and a.stride(row) for a in inner)
        fits = _int_size(row) % (block * rows) == 0 and _int_size(reduces[0]) % threads == 0
        if lies_along and fits:
            steps = (
                (OptOps.GROUP, reduces[0], threads),
                (OptOps.LOCAL, row, block),
                (OptOps.UPCAST, row, rows),
            )
            for op, rng, amount in steps:
                now = _find(k, rng)
                if amount > 1 and now is not None:
                    _try(k, op, now, amount)
            return True
    return False


def _first_that_works(
    k: Scheduler, op: OptOps, rngs: Iterable[UOp], amounts: tuple[int, ...]
) -> bool:
    return any(
        _int_size(rng) % amount == 0 and _try(k, op, rng, amount)
        for rng in rngs
        for amount in amounts
    )


def _small_unroll(k: Scheduler) -> None:
    """The last reduce axis, whole if it is short."""
    reduces = _ranges(k, AxisType.REDUCE)
    if reduces and _int_size(reduces[-1]) <= 8:
        _try(k, OptOps.UNROLL, reduces[-1], 0)


def _local_axes(k: Scheduler) -> None:
    """Up to three workgroup axes, at most 128 places together."""
    if k.dont_use_locals:
        return
    places = math.prod(_int_size(r) for r in _ranges(k, AxisType.LOCAL, AxisType.GROUP_REDUCE))
    limit = 128
    for old in _ranges(k, AxisType.GLOBAL)[::-1][:3]:
        rng = _find(k, old)
        if rng is None:
            continue
        for amount in (32, 16, 8, 4, 3, 2):
            fits = places * amount <= limit and _int_size(rng) % amount == 0
            if fits and _try(k, OptOps.LOCAL, rng, amount):
                places *= amount
                break

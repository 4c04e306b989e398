"""The last tile of a padded axis moves back inside it, instead of being masked.

n = 1000, tiles of 32: a[(t*32 + lane) if t*32 + lane < 1000]  ->  a[min(t*32, 968) + lane]

Some elements are computed twice, the same way; no access needs a gate. Not where a kernel reads
what it writes, nor for a reduce, which would count twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tinylab.codegen.opt.strides import sum_terms, term_stride
from tinylab.codegen.range_tools import rebuild_with, size_of
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp

OUTER_KINDS = (AxisType.WEAK, AxisType.LOOP, AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL)


class Tile(NamedTuple):
    """A condition base + lanes < n that cuts the last tile: its ranges, and how far each steps."""

    condition: UOp
    outer: dict[UOp, int]
    lanes: dict[UOp, int]
    size: int
    limit: int

    @property
    def start(self) -> UOp:
        """Where a tile starts: its place, or as far back as the last one must."""
        base: UOp | None = None
        for rng, step in self.outer.items():
            base = rng * step if base is None else base + rng * step
        assert base is not None, "a tile has a loop around it"
        last = self.limit - self.size
        return (base < last).where(base, base.const_like(last))


def has_tiles(sink: UOp, ctx: object = None) -> bool:
    """Whether an axis was padded and then tiled."""
    ranges = [u for u in sink.toposort() if u.op is Ops.RANGE and u.arg[-1] is AxisType.UPCAST]
    return bool(ranges) and next(_tiles(sink), None) is not None


def overlap_tiles(sink: UOp, ctx: object = None) -> UOp:
    """The kernel with no masks for tiles that reach over the end of their axis."""
    if _reads_what_it_writes(sink):
        return sink
    refused: set[UOp] = set()
    while (tile := next((t for t in _tiles(sink) if t.condition not in refused), None)) is not None:
        moved = _moved(sink, tile)
        if moved is None:
            refused.add(tile.condition)
        else:
            sink = moved
    return sink


def _reads_what_it_writes(sink: UOp) -> bool:
    written: set[UOp] = set()
    read: set[UOp] = set()
    for u in sink.toposort():
        # One INDEX may be both: a[i] = a[i] * 2.
        for i, s in enumerate(u.src):
            if s.op is Ops.INDEX:
                is_target = u.op is Ops.STORE and i == 0
                (written if is_target else read).add(s.src[0].without_after)
    return not written.isdisjoint(read)


def _tiles(sink: UOp) -> Iterator[Tile]:
    """Conditions of stores that hold for all but the end of the last tile."""
    for u in sink.toposort():
        if u.op is Ops.STORE and u.src[0].op is Ops.INDEX:
            for clause in u.src[0].src[1].get_valid().split_uop(Ops.AND):
                tile = _tile_of(clause)
                if tile is not None:
                    yield tile


def _tile_of(clause: UOp) -> Tile | None:
    if clause.op is not Ops.CMPLT or clause.src[1].op is not Ops.CONST:
        return None
    outer: dict[UOp, int] = {}
    lanes: dict[UOp, int] = {}
    for term in sum_terms(clause.src[0]):
        one = term_stride(term)
        if one is None or not isinstance(size_of(one[0]), int):
            return None
        kind = one[0].arg[-1]
        if kind is not AxisType.UPCAST and kind not in OUTER_KINDS:
            return None
        (lanes if kind is AxisType.UPCAST else outer)[one[0]] = one[1]
    size = _dense_size(lanes)
    limit = int(clause.src[1].arg)
    if not outer or size is None or limit < size or any(step % size for step in outer.values()):
        return None
    return Tile(clause, outer, lanes, size, limit)


def _dense_size(lanes: dict[UOp, int]) -> int | None:
    """How many elements side by side the lanes are; None if they leave gaps."""
    size = 1
    for rng, step in sorted(lanes.items(), key=lambda item: item[1]):
        if step != size:
            return None
        size *= int(rng.src[0].arg)
    return size if lanes else None


def _moved(sink: UOp, tile: Tile) -> UOp | None:
    """The kernel with one tile moved back; None if its ranges are used in another way."""
    start = tile.start
    ranges = {*tile.outer, *tile.lanes}
    if _used_as_values(sink, ranges) or not _all_stop_at(sink, tile, ranges):
        return None
    new: dict[UOp, UOp] = {}
    for u in sink.toposort():
        if u.op is not Ops.INDEX or not any(r in i.ranges for i in u.src[1:] for r in ranges):
            continue
        shifted = [_shifted_index(i, tile, start) for i in u.src[1:]]
        if any(s is None for s in shifted):
            return None
        places = tuple(s for s in shifted if s is not None)
        new[u] = u.replace(src=(rebuild_with(u.src[0], new), *places))
    return rebuild_with(sink, new)


def _all_stop_at(sink: UOp, tile: Tile, ranges: set[UOp]) -> bool:
    """Whether every store that uses the tile ends where it does; another one writes further."""
    stores = [u for u in sink.toposort() if u.op is Ops.STORE and not ranges.isdisjoint(u.ranges)]
    return all(tile.condition in _clauses(u.src[0]) for u in stores)


def _clauses(target: UOp) -> list[UOp]:
    """The conditions under which something is stored."""
    if target.op is not Ops.INDEX:
        return []
    return [c for place in target.src[1:] for c in place.get_valid().split_uop(Ops.AND)]


def _used_as_values(sink: UOp, ranges: set[UOp]) -> bool:
    """Whether any of the ranges is used other than to index and to be closed."""
    seen: set[UOp] = set()
    stack = [sink]
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen.add(u)
        if u in ranges:
            return True
        values = u.src[:1] if u.op in (Ops.INDEX, Ops.END) else u.src
        stack.extend(values)
    return False


def _shifted_index(idx: UOp, tile: Tile, start: UOp) -> UOp | None:
    """An index, masks included, with the tile moved back."""
    place = _shifted(idx.get_idx(), tile, start)
    if place is None:
        return None
    conditions: list[UOp] = []
    if idx.get_idx() is not idx:
        for clause in idx.get_valid().split_uop(Ops.AND):
            if clause is tile.condition:
                continue
            moved = _shifted_condition(clause, tile, start)
            if moved is None:
                return None
            conditions.append(moved)
    for i, clause in enumerate(conditions):
        conditions[0] = clause if i == 0 else conditions[0] & clause
    return place.valid(conditions[0]) if conditions else place


def _shifted_condition(clause: UOp, tile: Tile, start: UOp) -> UOp | None:
    if not any(r in clause.ranges for r in (*tile.outer, *tile.lanes)):
        return clause
    if clause.op is not Ops.CMPLT:
        return None
    sides = [_shifted(s, tile, start) for s in clause.src]
    if any(s is None for s in sides):
        return None
    return clause.replace(src=tuple(s for s in sides if s is not None))


def _shifted(x: UOp, tile: Tile, start: UOp) -> UOp | None:
    """A sum in which base*f + lanes*f becomes start*f + lanes*f; None if it has another form."""
    found: dict[UOp, int] = {}
    rest: UOp | None = None
    for term in sum_terms(x):
        one = term_stride(term)
        if one is not None and (one[0] in tile.outer or one[0] in tile.lanes):
            found[one[0]] = found.get(one[0], 0) + one[1]
        elif any(r in term.ranges for r in (*tile.outer, *tile.lanes)):
            return None
        else:
            rest = term if rest is None else rest + term
    if not found:
        return x
    wanted = {**tile.outer, **tile.lanes}
    rng, step = next(iter(tile.lanes.items()))
    factor = found.get(rng, 0) // step
    if factor == 0 or any(found.get(r, 0) != s * factor for r, s in wanted.items()):
        return None
    moved = start * factor
    for rng, step in tile.lanes.items():
        moved = moved + rng * (step * factor)
    return moved if rest is None else rest + moved

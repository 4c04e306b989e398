"""Shaped indices become windows: one wide access for each row of lanes that lie side by side.

LOAD(a[i + [0 1 2 3]])                   ->  LOAD(a[i : i+4])
LOAD(a[i + [[0] [64]] + [[0 1 2 3]]])    ->  STACK(LOAD(a[i : i+4]), LOAD(a[i+64 : i+68]))
STORE(a[i + 2*[0 1 2 3]], x)             ->  stays a scatter

Leading lane axes are taken apart row by row; the last one is a window where its stride is 1.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from tinylab.codegen.lanes import broadcast_lanes, is_lane_vector, lane_axis, permute, pick, reshape
from tinylab.codegen.opt.strides import sum_terms
from tinylab.codegen.range_tools import rebuild_with
from tinylab.dtype import AddrSpace
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat


class LaneSum(NamedTuple):
    """An index as base + stride * lane for each lane axis (counted from the end)."""

    base: UOp | None
    strides: dict[int, int]


def lane_sum(idx: UOp) -> LaneSum | None:
    """The index taken apart; None if it is not linear in its lanes."""
    base: UOp | None = None
    strides: dict[int, int] = {}
    for term in sum_terms(idx):
        if not term.shape or math.prod(term.shape) == 1:
            base = term if base is None else base + term
            continue
        factor = 1
        if term.op is Ops.MUL and term.src[1].op is Ops.CONST:
            term, factor = term.src[0], int(term.src[1].arg)
        if not is_lane_vector(term):
            return None
        axis = lane_axis(term)
        strides[axis] = strides.get(axis, 0) + factor
    return LaneSum(base, strides)


class Rows:
    """A value taken apart into rows along the last axis of a lane shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.places = list(itertools.product(*(range(n) for n in shape[:-1])))
        self.width = shape[-1]

    def split(self, x: UOp) -> list[UOp]:
        """Each row of a value: shape () where it is the same in all lanes, else (width,)."""
        if not x.shape:
            return [x] * len(self.places)
        vectors = _vectors(x)
        if vectors is not None:
            return [self._at(x, vectors, place) for place in self.places]
        last = x.shape[-1]
        flat = reshape(broadcast_lanes(x, (*self.shape[:-1], last)), (len(self.places), last))
        return [_scalar(pick(flat, i)) for i in range(len(self.places))]

    def _at(self, x: UOp, vectors: dict[UOp, UOp], place: tuple[int, ...]) -> UOp:
        """The row of an expression of vectors, with the items of the leading lanes put in."""
        new = {}
        for u, items in vectors.items():
            axis = lane_axis(u)
            new[u] = items if axis == -1 else items.src[place[len(self.shape) + axis]]
        return _scalar(rebuild_with(x, new)).simplify()

    def join(self, rows: list[UOp]) -> UOp:
        """Rows put together into a value of the lane shape."""
        if len(rows) == 1:
            return reshape(rows[0], self.shape)
        return reshape(UOp.stack(*rows), self.shape)


def _vectors(x: UOp) -> dict[UOp, UOp] | None:
    """The vectors along one lane axis that an expression is made of, each with its STACK.

    None if it is made of anything else that has lanes, such as a wide load.
    """
    found: dict[UOp, UOp] = {}

    def is_inner(u: UOp) -> bool:
        if not u._shape:
            return False
        stack = u.src[0] if u.op is Ops.RESHAPE else u
        along_one = sum(n != 1 for n in u.shape) <= 1  # loads of rows are spread over several axes
        if stack.op is Ops.STACK and len(stack.shape) == 1 and along_one:
            found[u] = stack
            return False
        return True

    inner = x.toposort(is_inner)
    return found if all(u.op in GroupOp.Elementwise for u in inner) else None


def _scalar(x: UOp) -> UOp:
    return reshape(x, ()) if x.shape and math.prod(x.shape) == 1 else x


def _addresses(buf: UOp, idx: UOp, rows: Rows) -> list[UOp]:
    """The address of each row: an element, a window, or places lane by lane."""
    found = lane_sum(idx)
    if found is None:
        return [_address(buf, row, rows.width) for row in rows.split(idx)]
    return _row_addresses(buf, found, rows)


def _row_addresses(buf: UOp, found: LaneSum, rows: Rows) -> list[UOp]:
    base, strides = found
    rank = len(rows.shape)
    addresses = []
    for place in rows.places:
        offset = sum(strides.get(i - rank, 0) * at for i, at in enumerate(place))
        start = _plus(base, offset)
        addresses.append(_window(buf, start, strides.get(-1, 0), rows.width))
    return addresses


class Turned(NamedTuple):
    """An access whose rows lie along another lane axis than the last: those two exchanged."""

    order: tuple[int, ...]
    rows: Rows
    addresses: list[UOp]


def _turned(buf: UOp, place: UOp, shape: tuple[int, ...]) -> Turned | None:
    """Rows along the axis with stride 1, where the last is no window; lanes change places after.

    In powers of two, so that the exchange is a few shuffles for each row.
    """
    found = lane_sum(place)
    if found is None or shape[-1] == 1 or found.strides.get(-1, 0) in (0, 1):
        return None
    axes = [
        a
        for a in range(-len(shape), -1)
        if found.strides.get(a) == 1 and shape[a] in TURNED_SIZES and shape[-1] in TURNED_SIZES
    ]
    if not axes:
        return None
    order = list(range(len(shape)))
    order[axes[0]], order[-1] = order[-1], order[axes[0]]
    strides = dict(found.strides)
    strides[axes[0]], strides[-1] = strides[-1], strides[axes[0]]
    rows = Rows(tuple(shape[a] for a in order))
    addresses = _row_addresses(buf, LaneSum(found.base, strides), rows)
    return Turned(tuple(order), rows, addresses)


TURNED_SIZES = (4, 8, 16)


def _plus(base: UOp | None, offset: int) -> UOp:
    if base is None:
        return UOp.const(offset)
    return base + offset if offset else base


def _address(buf: UOp, idx: UOp, width: int) -> UOp:
    """The address of a row whose index is no longer known to be linear."""
    found = lane_sum(idx)
    if found is not None and (found.base is None or not found.base.shape):
        return _window(buf, _plus(found.base, 0), found.strides.get(-1, 0), width)
    return buf.index(idx)


def _window(buf: UOp, start: UOp, stride: int, width: int) -> UOp:
    if width == 1 or stride == 0:
        return buf.index(start)
    if stride == 1:
        return UOp(Ops.SHRINK, buf.dtype, (buf, start, UOp.const(width)))
    lanes = UOp.stack(*(UOp.const(i * stride) for i in range(width)))
    return buf.index(start + lanes)


def _is_split(idx: UOp) -> bool:
    """Whether the access is lane by lane and not yet in rows."""
    return bool(idx.src[1].shape) and idx.addrspace is not AddrSpace.REG and not _is_row(idx.src[1])


def _is_row(place: UOp) -> bool:
    """Whether an index is one row that no window covers."""
    if len(place.shape) != 1 or place.get_idx() is not place:
        return False
    found = lane_sum(place)
    return found is None or found.strides.get(-1, 0) not in (0, 1)


def _parts(ld: UOp, idx: UOp, at: int) -> tuple[UOp, UOp | None]:
    """(index, gate) of an access whose index may be masked."""
    place = idx.src[1]
    gate = ld.src[at] if len(ld.src) > at else None
    if place.get_idx() is not place:
        valid = place.get_valid()
        gate = valid if gate is None else gate & valid
    return place.get_idx(), gate


def coalesce_load(ld: UOp, idx: UOp) -> UOp | None:
    """A shaped load as rows."""
    if len(idx.src) != 2 or not _is_split(idx):
        return None
    place, gate = _parts(ld, idx, 2)
    if gate is None and (turned := _turned(idx.src[0], place, idx.src[1].shape)) is not None:
        return permute(turned.rows.join([a.load() for a in turned.addresses]), turned.order)
    rows = Rows(idx.src[1].shape)
    addresses = _addresses(idx.src[0], place, rows)
    if gate is None:
        return rows.join([_full(a.load(), rows.width) for a in addresses])
    other = ld.src[1] if len(ld.src) > 1 else UOp.const(0, ld.dtype)
    gates = rows.split(gate)
    loads = [_gated_load(a, other, g) for a, g in zip(addresses, gates, strict=True)]
    return rows.join([_full(x, rows.width) for x in loads])


def _gated_load(address: UOp, other: UOp, gate: UOp) -> UOp:
    if gate.op is Ops.CONST:
        return address.load() if gate.arg else broadcast_lanes(other, address.shape)
    return _in_lanes_of(gate, address).load(other, gate)


def _full(x: UOp, width: int) -> UOp:
    """A row in all of its lanes: rows of one value are of one shape."""
    return broadcast_lanes(x, (width,)) if width > 1 else x


def coalesce_store(st: UOp, idx: UOp) -> UOp | None:
    """A shaped store as one store for each row."""
    if len(idx.src) != 2 or not _is_split(idx):
        return None
    place, gate = _parts(st, idx, 2)
    shape = idx.src[1].shape
    if gate is None and (turned := _turned(idx.src[0], place, shape)) is not None:
        lanes = permute(broadcast_lanes(st.src[1], shape), turned.order)
        turned_rows = _value_rows(lanes, turned.rows)
        return UOp.group(*(a.store(v) for a, v in zip(turned.addresses, turned_rows, strict=True)))
    rows = Rows(shape)
    addresses = _addresses(idx.src[0], place, rows)
    values = _value_rows(st.src[1], rows)
    gates = rows.split(gate) if gate is not None else [None] * len(addresses)
    stores = [
        _gated_store(a, v, g)
        for a, v, g in zip(addresses, values, gates, strict=True)
        if g is None or g.op is not Ops.CONST or g.arg
    ]
    return UOp.group(*stores) if stores else UOp(Ops.NOOP)


def _gated_store(address: UOp, x: UOp, gate: UOp | None) -> UOp:
    if gate is None or gate.op is Ops.CONST:
        return address.store(x)
    return _in_lanes_of(gate, address).store(x, gate)


def _in_lanes_of(gate: UOp, address: UOp) -> UOp:
    """One address lane by lane, where it is not reached in all lanes."""
    if not gate.shape or address.shape:
        return address
    return address.src[0].index(broadcast_lanes(address.src[1], gate.shape))


def _value_rows(x: UOp, rows: Rows) -> list[UOp]:
    """The rows of a stored value."""
    if not x.shape:
        return [x] * len(rows.places)
    full = broadcast_lanes(x, rows.shape)
    if len(rows.places) == 1:
        only = reshape(full, () if rows.width == 1 else (rows.width,))
        return [only]
    flat = reshape(full, (len(rows.places), rows.width) if rows.width > 1 else (len(rows.places),))
    return [pick(flat, i) for i in range(len(rows.places))]


_LOAD = UPat(Ops.LOAD, src=(UPat(Ops.INDEX, name="idx"),), allow_any_len=True, name="ld")
_STORE = UPat(Ops.STORE, src=(UPat(Ops.INDEX, name="idx"),), allow_any_len=True, name="st")

# fmt: off
pm_coalesce = PatternMatcher([
    Rule("coalesce_load", "LOAD(a[base + lanes]) -> STACK of LOAD(a[start : start+n])",
         _LOAD, coalesce_load),
    Rule("coalesce_store", "STORE(a[base + lanes], x) -> GROUP of STORE(a[start : start+n], row)",
         _STORE, coalesce_store),
])
# fmt: on

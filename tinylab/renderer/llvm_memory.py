"""Buffers, addresses, loads and stores.

A register buffer whose every access is at a known place is a set of *cells* (allocas, one per row,
which LLVM turns into values and phis); any other buffer is flat memory, reached by pointers. Gates:
one for a whole access is a branch, one per lane is a mask.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tinylab.dtype import DType, dtypes
from tinylab.errors import RenderError
from tinylab.opcodes import GroupOp, Ops
from tinylab.renderer.base import constants_of, int_shape
from tinylab.renderer.llvm_types import constant, memory_type, scalar_type, suffix, vector
from tinylab.renderer.llvm_writer import Row, Value, Writer, named, row_count, scalar
from tinylab.uop.ops import UOp

_MOST_CELLS = 512


@dataclass
class Memory:
    """One buffer: its pointer, or its cells."""

    dtype: DType
    shape: tuple[int, ...]
    pointer: str
    cells: tuple[str, ...] = ()
    cell_width: int = 1
    volatile: str = ""


@dataclass
class Place:
    """Part of a buffer: where it starts (elements), which shape and steps it has.

    `lanes` holds an offset for each element where they do not follow a shape and steps.
    """

    memory: Memory
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    start: list[tuple[Value | None, int]] = field(default_factory=list)  # (index, step); None is 1
    lanes: Value | None = None
    pointer: str | None = None  # of the start, once it has been written


class Access(NamedTuple):
    """A load or store, taken apart."""

    place: Place
    shape: tuple[int, ...]
    gate: Value | None
    loose: bool  # the address may lie outside the buffer where the gate is false


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """(2, 3, 4) -> (12, 4, 1)."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


# *** register cells


def known_lanes(u: UOp) -> list[int] | None:
    """Which elements of its buffer an access touches, in order; None if that is not constant."""
    if u.op is Ops.AFTER or u.op is Ops.RESHAPE:
        return known_lanes(u.src[0])
    if u.op in GroupOp.Defines:
        return list(range(math.prod(int_shape(u))))
    inner = known_lanes(u.src[0])
    if inner is None:
        return None
    shape = int_shape(u.src[0])
    steps = strides(shape)
    if u.op is Ops.INDEX:
        places = [constants_of(i) for i in u.src[1:]]
        if any(p is None or i.shape for p, i in zip(places, u.src[1:], strict=True)):
            return None
        start = sum(p[0] * s for p, s in zip(places, steps, strict=False) if p is not None)
        return [inner[start + i] for i in range(math.prod(shape[len(places) :]))]
    offsets, sizes = constants_of(u.src[1]), constants_of(u.src[2])
    if offsets is None or sizes is None:
        return None
    axes = [range(o, o + n) for o, n in zip(offsets, sizes, strict=True)]
    return [
        inner[sum(i * s for i, s in zip(at, steps, strict=True))] for at in itertools.product(*axes)
    ]


def cell_width(buffer: UOp, accesses: Iterable[UOp]) -> int | None:
    """The widest cell of which every access takes whole ones; None: this needs flat memory."""
    shape = int_shape(buffer)
    width = shape[-1] if shape else 1
    for access in accesses:
        lanes = known_lanes(access)
        if lanes is None or any(i >= math.prod(shape) for i in lanes):
            return None
        step = int_shape(access)[-1] if access.shape else 1
        for i in range(0, len(lanes), step):
            width = math.gcd(width, step, lanes[i])
    return width if math.prod(shape) // width <= _MOST_CELLS else None


# *** addresses


def place_of(memory: Memory, u: UOp, value: Callable[[UOp], Value]) -> Place:
    """The part of a buffer that a node stands for."""
    if u.op in GroupOp.Defines:
        return Place(memory, memory.shape, strides(memory.shape))
    inner = place_of(memory, u.src[0], value)
    if u.op is Ops.AFTER:
        return inner
    if u.op is Ops.RESHAPE:
        shape = int_shape(u)
        if inner.lanes is not None or inner.steps != strides(inner.shape):
            raise RenderError(f"a reshape of {inner.shape} to {shape} inside an address")
        return Place(memory, shape, strides(shape), inner.start)
    if u.op is Ops.SHRINK:
        start = list(inner.start)
        offsets = u.src[1].src if u.src[1].op is Ops.STACK else (u.src[1],)
        for offset, step in zip(offsets, inner.steps, strict=True):
            start.append(_term(offset, step, value))
        return Place(memory, int_shape(u), inner.steps, start, inner.lanes)
    return _indexed(inner, u, value)


def _indexed(inner: Place, u: UOp, value: Callable[[UOp], Value]) -> Place:
    """INDEX of a place: scalar indices drop axes, a shaped one makes lanes of them."""
    start, lanes = list(inner.start), inner.lanes
    for i, (index, step) in enumerate(zip(u.src[1:], inner.steps, strict=False)):
        if not index.shape:
            start.append(_term(index, step, value))
        elif step != 1 or lanes is not None or i + 1 != len(inner.shape):
            raise RenderError(f"an index of shape {index.shape} on axis {i} of {inner.shape}")
        else:
            lanes = value(index)
    if lanes is not None:
        return Place(inner.memory, int_shape(u), (), start, lanes)
    left = len(u.src) - 1
    return Place(inner.memory, inner.shape[left:], inner.steps[left:], start)


def _term(index: UOp, step: int, value: Callable[[UOp], Value]) -> tuple[Value | None, int]:
    if index.op is Ops.CONST:
        return None, int(index.arg) * step
    return value(index), step


def address(w: Writer, place: Place, loose: bool) -> str:
    """A pointer to the start of a place, written once."""
    if place.pointer is None:
        known = sum(step for index, step in place.start if index is None)
        terms = [(index, step) for index, step in place.start if index is not None]
        place.pointer = _pointer(w, place.memory, place.memory.pointer, terms, known, loose)
    return place.pointer


def _pointer(
    w: Writer,
    memory: Memory,
    base: str,
    terms: list[tuple[Value, int]],
    known: int,
    loose: bool,
) -> str:
    if not terms:
        return _element(w, memory, base, "i64", str(known), loose) if known else base
    (first, step), *rest = terms
    if step == 1 and not rest and not known:
        kind, text = index_operand(w, first, 0)
        return _element(w, memory, base, kind, text, loose)
    total = None
    for index, times in terms:
        text = _as_i64(w, index)
        if times != 1:
            text = w.let(f"mul nsw i64 {text}, {times}")
        total = text if total is None else w.let(f"add nsw i64 {total}, {text}")
    if known:
        total = w.let(f"add nsw i64 {total}, {known}")
    return _element(w, memory, base, "i64", str(total), loose)


def _element(w: Writer, memory: Memory, base: str, kind: str, index: str, loose: bool) -> str:
    inside = "" if loose else " inbounds"
    element = memory_type(memory.dtype)
    name = w.number("ptr")
    return w.let(f"getelementptr{inside} {element}, ptr {base}, {kind} {index}", name)


def index_operand(w: Writer, index: Value, row: int) -> tuple[str, str]:
    """(type, name) of a row of indices for getelementptr, which takes them as signed."""
    kind, text = scalar_type(index.dtype), w.whole(index.rows[row], index.dtype, index.width)
    if index.dtype.kind == "uint":
        source = vector(kind, index.width)
        text = w.let(f"zext {source} {text} to {vector('i64', index.width)}")
        kind = "i64"
    return vector(kind, index.width), text


def _as_i64(w: Writer, index: Value) -> str:
    kind, text = index_operand(w, index, 0)
    return text if kind == "i64" else w.let(f"sext {kind} {text} to i64")


def row_pointers(w: Writer, access: Access) -> list[str]:
    """A pointer per row: to its first element, or a vector of pointers to each."""
    place, shape, memory = access.place, access.shape, access.place.memory
    start = address(w, place, access.loose)
    if place.lanes is not None:
        return _lane_pointers(w, place.lanes, start, memory, access.loose)
    if place.steps and place.steps[-1] != 1:
        raise RenderError(f"lanes {place.steps[-1]} elements apart are no window")
    found = []
    for at in itertools.product(*map(range, shape[:-1])):
        ahead = sum(i * s for i, s in zip(at, place.steps, strict=False))
        found.append(
            _element(w, memory, start, "i64", str(ahead), access.loose) if ahead else start
        )
    return found


def _lane_pointers(w: Writer, lanes: Value, start: str, memory: Memory, loose: bool) -> list[str]:
    found = []
    for i in range(len(lanes.rows)):
        kind, text = index_operand(w, lanes, i)
        found.append(_element(w, memory, start, kind, text, loose))
    return found


# *** load


def load(w: Writer, u: UOp, access: Access, otherwise: Value | None) -> Value:
    """LOAD: a scalar, windows, or a gather; where the gate is false the alternative (0)."""
    shape, gate = access.shape, access.gate
    width = shape[-1] if shape else 1
    if gate is None:
        names, pointers = w.row_names("val", shape), row_pointers(w, access)
        rows = [_load_row(w, access, p, width, n) for p, n in zip(pointers, names, strict=True)]
        return named(rows, u.dtype, shape)
    if otherwise is None:
        otherwise = scalar(u.dtype, constant(0, u.dtype))
    others = [w.whole(r, u.dtype, width) for r in w.broadcast(otherwise, shape)]
    if not gate.shape:
        return _branch_load(w, u, access, others)
    gates = [w.whole(r, dtypes.bool, width) for r in w.broadcast(gate, shape)]
    names = w.row_names("val", shape)
    read = _branch_row if width == 1 else _masked_load
    found = [
        read(w, access, pointer, test, other, width, name)
        for name, pointer, test, other in zip(
            names, row_pointers(w, access), gates, others, strict=True
        )
    ]
    return named(found, u.dtype, shape)


def _branch_row(
    w: Writer, access: Access, pointer: str, gate: str, other: str, width: int, name: str
) -> str:
    """One lane with a gate of its own."""

    def then() -> list[str]:
        return [_load_row(w, access, pointer, width)]

    (found,) = _branch(w, gate, then, [other], access.place.memory.dtype, width, [name])
    return found


def _branch_load(w: Writer, u: UOp, access: Access, others: list[str]) -> Value:
    """One gate for the whole access: a branch around it."""
    shape = access.shape
    width = shape[-1] if shape else 1

    def then() -> list[str]:
        return [_load_row(w, access, p, width) for p in row_pointers(w, access)]

    names = w.row_names("val", shape)
    gate = access.gate
    assert gate is not None, "a branch has a gate"
    test = w.whole(gate.rows[0], dtypes.bool, 1)
    return named(_branch(w, test, then, others, u.dtype, width, names), u.dtype, shape)


def _branch(
    w: Writer,
    gate: str,
    then: Callable[[], list[str]],
    others: list[str],
    dtype: DType,
    width: int,
    names: list[str],
) -> list[str]:
    """Values of `then` where the gate is true, the others where not."""
    before, inside, behind = w.block, w.number("then"), w.number("join")
    w.line(f"br i1 {gate}, label %{inside}, label %{behind}")
    w.label(inside)
    w.push()
    loaded = then()
    w.pop()
    last = w.block
    w.line(f"br label %{behind}")
    w.label(behind)
    typed = vector(scalar_type(dtype), width)
    return [
        w.let(f"phi {typed} [ {x}, %{last} ], [ {y}, %{before} ]", name)
        for x, y, name in zip(loaded, others, names, strict=True)
    ]


def _load_row(w: Writer, access: Access, pointer: str, width: int, name: str | None = None) -> str:
    """One row without a gate."""
    memory = access.place.memory
    dtype, element = memory.dtype, memory_type(memory.dtype)
    typed = vector(element, width)
    final = None if dtype is dtypes.bool else name
    if access.place.lanes is not None and width > 1:
        mask = "splat (i1 true)"
        x = _gather_call(w, memory, pointer, mask, "poison", width, final)
    else:
        align = f", align {dtype.itemsize}"
        x = w.let(f"load{memory.volatile} {typed}, ptr {pointer}{align}", final)
    return _from_memory(w, x, dtype, width, name)


def _gather_call(
    w: Writer, memory: Memory, pointer: str, mask: str, other: str, width: int, name: str | None
) -> str:
    element = memory_type(memory.dtype)
    typed = vector(element, width)
    function = f"@llvm.masked.gather.{suffix(element, width)}.v{width}p0"
    pointers = f"<{width} x ptr> align {memory.dtype.itemsize} {pointer}"
    return w.let(
        f"call {typed} {function}({pointers}, <{width} x i1> {mask}, {typed} {other})", name
    )


def _masked_load(
    w: Writer, access: Access, pointer: str, gate: str, other: str, width: int, name: str
) -> str:
    memory = access.place.memory
    dtype, element = memory.dtype, memory_type(memory.dtype)
    typed = vector(element, width)
    final = None if dtype is dtypes.bool else name
    other = _to_memory(w, other, dtype, width)
    if access.place.lanes is not None:
        x = _gather_call(w, memory, pointer, gate, other, width, final)
    else:
        function = f"@llvm.masked.load.{suffix(element, width)}.p0"
        place = f"ptr align {dtype.itemsize} {pointer}"
        x = w.let(
            f"call {typed} {function}({place}, <{width} x i1> {gate}, {typed} {other})", final
        )
    return _from_memory(w, x, dtype, width, name)


def _from_memory(w: Writer, x: str, dtype: DType, width: int, name: str | None) -> str:
    """A bool's byte as a bit."""
    if dtype is not dtypes.bool:
        return x
    zero = "zeroinitializer" if width > 1 else "0"
    return w.let(f"icmp ne {vector('i8', width)} {x}, {zero}", name)


def _to_memory(w: Writer, x: str, dtype: DType, width: int) -> str:
    if dtype is not dtypes.bool:
        return x
    return w.let(f"zext {vector('i1', width)} {x} to {vector('i8', width)}")


# *** store


def store(w: Writer, access: Access, value: Value) -> None:
    """STORE: a scalar, windows, or a scatter; skipped where the gate is false."""
    shape, gate = access.shape, access.gate
    width = shape[-1] if shape else 1
    if gate is not None and not gate.shape:
        _guard(w, w.whole(gate.rows[0], dtypes.bool, 1), lambda: _store_rows(w, access, value))
        return
    if gate is None:
        _store_rows(w, access, value)
        return
    gates = [w.whole(r, dtypes.bool, width) for r in w.broadcast(gate, shape)]
    rows = [w.whole(r, value.dtype, width) for r in w.broadcast(value, shape)]
    for pointer, mask, x in zip(row_pointers(w, access), gates, rows, strict=True):
        if width == 1:
            _guard(w, mask, functools.partial(_store_row, w, access, pointer, x, 1))
        else:
            _masked_store(w, access, pointer, mask, x, width)


def _guard(w: Writer, gate: str, body: Callable[[], None]) -> None:
    inside, behind = w.number("then"), w.number("join")
    w.line(f"br i1 {gate}, label %{inside}, label %{behind}")
    w.label(inside)
    w.push()
    body()
    w.pop()
    w.line(f"br label %{behind}")
    w.label(behind)


def _store_rows(w: Writer, access: Access, value: Value) -> None:
    width = access.shape[-1] if access.shape else 1
    rows = [w.whole(r, value.dtype, width) for r in w.broadcast(value, access.shape)]
    for pointer, x in zip(row_pointers(w, access), rows, strict=True):
        _store_row(w, access, pointer, x, width)


def _store_row(w: Writer, access: Access, pointer: str, x: str, width: int) -> None:
    memory = access.place.memory
    if access.place.lanes is not None and width > 1:
        _masked_store(w, access, pointer, "splat (i1 true)", x, width)
        return
    x = _to_memory(w, x, memory.dtype, width)
    typed = vector(memory_type(memory.dtype), width)
    w.line(f"store{memory.volatile} {typed} {x}, ptr {pointer}, align {memory.dtype.itemsize}")


def _masked_store(w: Writer, access: Access, pointer: str, mask: str, x: str, width: int) -> None:
    memory = access.place.memory
    element = memory_type(memory.dtype)
    x = f"{vector(element, width)} {_to_memory(w, x, memory.dtype, width)}"
    bits = f"<{width} x i1> {mask}"
    align = f"align {memory.dtype.itemsize} {pointer}"
    if access.place.lanes is not None:
        function = f"@llvm.masked.scatter.{suffix(element, width)}.v{width}p0"
        w.line(f"call void {function}({x}, <{width} x ptr> {align}, {bits})")
    else:
        function = f"@llvm.masked.store.{suffix(element, width)}.p0"
        w.line(f"call void {function}({x}, ptr {align}, {bits})")


# *** cells


def load_cells(w: Writer, memory: Memory, u: UOp, shape: tuple[int, ...]) -> Value:
    """The lanes of an access to register cells."""
    lanes = known_lanes(u.src[0])
    assert lanes is not None, "cells are accessed at known places"
    width = memory.cell_width
    typed = vector(scalar_type(memory.dtype), width)
    cells = [memory.cells[lanes[i] // width] for i in range(0, len(lanes), width)]
    one = row_count(shape) == len(cells)
    names = w.row_names("val", shape) if one else [w.number("t") for _ in cells]
    loaded = [
        w.let(f"load {typed}, ptr {cell}", name) for cell, name in zip(cells, names, strict=True)
    ]
    value = named(loaded, memory.dtype, (len(cells), width))
    return (
        w.gather(value, shape, range(len(lanes)))
        if not one
        else Value(memory.dtype, shape, value.rows)
    )


def store_cells(
    w: Writer, memory: Memory, target: UOp, value: Value, shape: tuple[int, ...]
) -> None:
    """Set the cells of an access."""
    lanes = known_lanes(target)
    assert lanes is not None, "cells are accessed at known places"
    width = memory.cell_width
    full = Value(value.dtype, shape, tuple(w.broadcast(value, shape)))
    split = w.gather(full, (len(lanes) // width, width), range(len(lanes)))
    typed = vector(scalar_type(memory.dtype), width)
    for i, row in zip(range(0, len(lanes), width), split.rows, strict=True):
        x = w.whole(Row(row.text, row.lanes), memory.dtype, width)
        w.line(f"store {typed} {x}, ptr {memory.cells[lanes[i] // width]}")

"""The text under construction: lines with their uop, fresh names, blocks, rows of lanes.

A shaped value is held as *rows*: the last axis is a native vector, the others count rows, so that
(8, 32) is eight `<32 x float>`. A row of one lane is a scalar. Broadcasting reuses rows, or fills a
row with one scalar (insertelement and shufflevector, which LLVM folds into memory operands).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinylab.dtype import DType
from tinylab.renderer.llvm_exchange import bit_order, exchange
from tinylab.renderer.llvm_types import scalar_type, splat, vector

Line = tuple[str, int | None]


class Row(NamedTuple):
    """One row: the name of a vector (a scalar if it has one lane), or its lanes one by one.

    Lanes are kept where they are known, so that taking one out again costs nothing.
    """

    text: str | None
    lanes: tuple[str, ...] | None = None


class Value(NamedTuple):
    """A value of a shape: rows in order, last axis inside the row."""

    dtype: DType
    shape: tuple[int, ...]
    rows: tuple[Row, ...]

    @property
    def width(self) -> int:
        """Lanes of a row."""
        return self.shape[-1] if self.shape else 1


def scalar(dtype: DType, text: str) -> Value:
    """A value of shape () by its name or literal."""
    return Value(dtype, (), (Row(text, (text,)),))


def row_count(shape: tuple[int, ...]) -> int:
    """(8, 32) -> 8;  (32,) -> 1;  () -> 1."""
    return math.prod(shape[:-1])


@dataclass
class Writer:
    """Collects the body of one function."""

    fused: bool = False  # whether the target has fused multiply-add
    half_convert: bool = False
    round: bool = False
    lines: list[Line] = field(default_factory=list)
    entry: list[Line] = field(default_factory=list)  # allocas: they must come first
    helpers: dict[str, list[str]] = field(default_factory=dict)
    block: str = "entry"
    index: int | None = None  # of the uop that is being written
    _names: set[str] = field(default_factory=set)
    _scopes: list[dict[Any, str]] = field(default_factory=lambda: [{}])
    _counters: dict[str, itertools.count[int]] = field(default_factory=dict)

    # *** names and lines

    def reserve(self, name: str) -> str:
        """The name if it is free, else with a number behind it."""
        found = name
        for i in itertools.count(1):
            if found not in self._names:
                break
            found = f"{name}_{i}"
        self._names.add(found)
        return found

    def number(self, kind: str) -> str:
        """A fresh name of a kind: alu0, alu1 and so on."""
        return self.reserve(f"{kind}{next(self._counters.setdefault(kind, itertools.count()))}")

    def line(self, text: str) -> None:
        """A statement of the function's body."""
        self.lines.append((f"  {text}{self._place()}", self.index))

    def entry_line(self, text: str) -> None:
        """A statement at the start of the function, whatever block is open."""
        self.entry.append((f"  {text}{self._place()}", self.index))

    def _place(self) -> str:
        # The metadata of a location has the number of its line, which makes the text readable.
        return "" if self.index is None else f", !dbg !{self.index + 1}"

    def let(self, text: str, name: str | None = None) -> str:
        """A statement with a result; its name with the sigil."""
        found = f"%{name or self.number('t')}"
        self.line(f"{found} = {text}")
        return found

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append((f"{name}:", self.index))
        self.block = name

    # *** scopes: what was made inside a loop or a branch is not known behind it

    def push(self) -> None:
        """Enter a loop or branch."""
        self._scopes.append({})

    def pop(self) -> None:
        """Leave it, and forget what was made there."""
        self._scopes.pop()

    def once(self, key: Any, make: Callable[[], str]) -> str:
        """What `make` writes, or what an earlier call with this key wrote where it can be seen."""
        for scope in reversed(self._scopes):
            known: str | None = scope.get(key)
            if known is not None:
                return known
        found = make()
        self._scopes[-1][key] = found
        return found

    # *** rows

    def whole(self, row: Row, dtype: DType, width: int, kind: str | None = None) -> str:
        """The row as one operand; `kind` is the element type where it is not the dtype's."""
        if row.text is not None:
            return row.text
        assert row.lanes is not None, "a row has a name or lanes"
        lanes, element = row.lanes, kind or scalar_type(dtype)
        if width == 1:
            return lanes[0]
        if all(not lane.startswith("%") for lane in lanes):
            if len(set(lanes)) == 1:
                return splat(element, lanes[0], width)
            return "<" + ", ".join(f"{element} {lane}" for lane in lanes) + ">"
        return self.once((element, lanes), lambda: self._join(lanes, element))

    def _join(self, lanes: tuple[str, ...], element: str) -> str:
        """One vector from scalars."""
        typed = vector(element, len(lanes))
        if len(set(lanes)) == 1:
            first = self.let(f"insertelement {typed} poison, {element} {lanes[0]}, i64 0")
            zeros = f"<{len(lanes)} x i32> zeroinitializer"
            return self.let(f"shufflevector {typed} {first}, {typed} poison, {zeros}")
        found = "poison"
        for i, lane in enumerate(lanes):
            found = self.let(f"insertelement {typed} {found}, {element} {lane}, i64 {i}")
        return found

    def lane(self, row: Row, dtype: DType, width: int, i: int) -> str:
        """One lane of a row as a scalar operand."""
        if row.lanes is not None:
            return row.lanes[i]
        assert row.text is not None, "a row has a name or lanes"
        if width == 1:
            return row.text
        typed, text = vector(scalar_type(dtype), width), row.text
        return self.once((text, i), lambda: self.let(f"extractelement {typed} {text}, i64 {i}"))

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> list[Row]:
        """The rows of the value stretched to a shape that it fits (numpy's rule)."""
        width = shape[-1] if shape else 1
        if value.shape == shape:
            return list(value.rows)
        padded = (1,) * (len(shape) - len(value.shape)) + value.shape
        sizes, own = shape[:-1], padded[:-1]
        rows = []
        for place in itertools.product(*map(range, sizes)):
            flat = 0
            for at, size in zip(place, own, strict=True):
                flat = flat * size + (at if size > 1 else 0)
            row = value.rows[flat]
            if value.width != width:
                row = Row(None, (self.lane(row, value.dtype, 1, 0),) * width)
            rows.append(row)
        return rows

    def row_names(self, kind: str, shape: tuple[int, ...]) -> list[str]:
        """A name per row: alu3 for one row, else alu3.0, alu3.1 and so on."""
        base, count = self.number(kind), row_count(shape)
        return [base] if count == 1 else [f"{base}.{i}" for i in range(count)]

    def rowwise(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        values: Sequence[Value],
        kind: str,
        make: Callable[..., str],
    ) -> Value:
        """make(name, width, *operands) for each row of the shape, operands broadcast to it."""
        width = shape[-1] if shape else 1
        columns = [self.broadcast(v, shape) for v in values]
        found = []
        for name, *row in zip(self.row_names(kind, shape), *columns, strict=True):
            operands = [self.whole(r, v.dtype, width) for r, v in zip(row, values, strict=True)]
            found.append(make(name, width, *operands))
        return named(found, dtype, shape)

    def gather(self, value: Value, shape: tuple[int, ...], source: Sequence[int]) -> Value:
        """A value whose lane i is lane source[i] of another: every movement of lanes.

        Whole rows are reused, lanes of one or two rows are shuffled, others are taken one by one.
        """
        width = shape[-1] if shape else 1
        exchanged = self._exchange(value, width, source)
        if exchanged is not None:
            return named(exchanged, value.dtype, shape)
        rows = [
            self._gather_row(value, source[i : i + width]) for i in range(0, len(source), width)
        ]
        return Value(value.dtype, shape, tuple(rows))

    def _exchange(self, value: Value, width: int, source: Sequence[int]) -> list[str] | None:
        """The rows of a transposition; None where whole rows or single lanes are moved."""
        if width < 4 or width != value.width or len({s // width for s in source[:width]}) <= 2:
            return None
        order = bit_order(source)
        if order is None or any(row.lanes is not None for row in value.rows):
            return None
        typed = vector(scalar_type(value.dtype), width)

        def shuffle(a: str, b: str, places: Sequence[int]) -> str:
            mask = ", ".join(f"i32 {p}" for p in places)
            operands = f"{typed} {a}, {typed} {b}"
            return self.let(f"shufflevector {operands}, <{width} x i32> <{mask}>")

        names = [self.whole(row, value.dtype, width) for row in value.rows]
        return exchange(names, width.bit_length() - 1, order, shuffle)

    def _gather_row(self, value: Value, source: Sequence[int]) -> Row:
        width, old = len(source), value.width
        first = source[0] // old
        if width == old and list(source) == list(range(first * old, first * old + width)):
            return value.rows[first]
        used = list(dict.fromkeys(s // old for s in source))
        known = all(value.rows[r].lanes is not None for r in used)
        if width > 1 and old > 1 and len(used) <= 2 and len(set(source)) > 1 and not known:
            return Row(self._shuffle(value, used, source))
        lanes = [self.lane(value.rows[s // old], value.dtype, old, s % old) for s in source]
        return Row(None, tuple(lanes))

    def _shuffle(self, value: Value, used: list[int], source: Sequence[int]) -> str:
        old = value.width
        typed = vector(scalar_type(value.dtype), old)
        operands = [self.whole(value.rows[r], value.dtype, old) for r in used]
        second = operands[1] if len(used) == 2 else "poison"
        mask = ", ".join(f"i32 {used.index(s // old) * old + s % old}" for s in source)
        return self.let(
            f"shufflevector {typed} {operands[0]}, {typed} {second}, <{len(source)} x i32> <{mask}>"
        )


def named(names: Iterable[str], dtype: DType, shape: tuple[int, ...]) -> Value:
    """A value from the names of its rows."""
    width = shape[-1] if shape else 1
    return Value(dtype, shape, tuple(Row(n, (n,) if width == 1 else None) for n in names))

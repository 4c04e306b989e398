"""What counting gives: figures with a name, a value, a unit, and where each comes from.

counters = counted.count(program, buffers)
counters["flops"].value, counters["flops"].kind    # 524288, "counted"
counters.uops, counters.buffers, counters.loops, counters.levels
print(counters.table())
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["measured", "counted", "estimated", "given"]
Json = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One number: `kind` says whether it was measured, counted, estimated, or given by the user."""

    name: str
    value: float
    unit: str
    kind: Kind
    note: str = ""


@dataclass(frozen=True)
class UopCounts:
    """What one line of a program did; `uop` is its place in the LINEAR.

    runs: how often it was executed; lanes: of one execution; amount: operations (arithmetic) or
    elements (memory) in all, without lanes that a gate closed. A line that touches memory has a
    buffer (its slot), bytes, touches of cache lines, and misses: a number per cache level, level 1
    first. `cold` of them are the first touch of that line by anybody.
    """

    uop: int
    op: str
    sort: str  # "float add", "int multiply", "load", "store", ...
    runs: int
    lanes: int
    amount: int
    addressing: bool = False  # computed for addresses, gates and loop bounds alone
    buffer: int | None = None
    bytes: int = 0
    touches: float = 0
    misses: tuple[float, ...] = ()
    cold: float = 0


@dataclass(frozen=True)
class BufferCounts:
    """Traffic of one buffer, by its slot."""

    slot: int
    size_bytes: int
    dtype: str
    loads: int = 0  # elements
    stores: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    touches: float = 0
    misses: tuple[float, ...] = ()
    unique_bytes: float = 0  # of the cache lines that were touched


@dataclass(frozen=True)
class LoopCounts:
    """One loop: how often it was entered, and how many turns it took in all."""

    uop: int
    name: str
    entered: int
    trips: int


@dataclass(frozen=True)
class LevelCounts:
    """One cache: its size, and what reached it."""

    name: str  # "L1"
    size_bytes: int
    ways: int
    line_bytes: int
    source: str  # "machine" or "given"
    touches: float
    misses: float

    @property
    def hits(self) -> float:
        """Touches that found their line."""
        return self.touches - self.misses


@dataclass(frozen=True, repr=False)
class Counters:
    """All figures of one run of a kernel. `notes` say what was sampled, assumed or left out."""

    kernel: str
    figures: tuple[Figure, ...] = ()
    uops: tuple[UopCounts, ...] = ()
    buffers: tuple[BufferCounts, ...] = ()
    loops: tuple[LoopCounts, ...] = ()
    levels: tuple[LevelCounts, ...] = ()
    kind: Kind = "counted"  # of the tables; each figure says its own
    notes: tuple[str, ...] = ()
    opts: tuple[Any, ...] = ()  # that the kernel was lowered with
    outputs: dict[int, bytes] = field(default_factory=dict, compare=False)

    def __getitem__(self, name: str) -> Figure:
        """A figure by its name.

        Raises: KeyError with the names that there are.
        """
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"no figure {name!r}; there are {', '.join(f.name for f in self.figures)}")

    def get(self, name: str, otherwise: float = 0) -> float:
        """The value of a figure, or something else where there is none."""
        return next((f.value for f in self.figures if f.name == name), otherwise)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.figures)

    def __add__(self, other: Counters) -> Counters:
        """These figures and those of another source: measured beside counted."""
        return dataclasses.replace(
            self, figures=self.figures + other.figures, notes=self.notes + other.notes
        )

    def by_line(self, line_of: Sequence[int | None]) -> dict[int, Json]:
        """Sums by line of a text, given the line that each uop of the LINEAR is rendered on.

        {line: {"runs", "amount", "bytes", "touches", "misses": [...], "cold"}}
        """
        found: dict[int, Json] = {}
        for row in self.uops:
            line = line_of[row.uop] if row.uop < len(line_of) else None
            if line is not None:
                _add(found.setdefault(line, _nothing(len(self.levels))), row)
        return found

    def to_json(self) -> Json:
        """Plain data for a front end."""
        plain = dataclasses.asdict(dataclasses.replace(self, outputs={}, opts=()))
        del plain["outputs"], plain["opts"]
        return plain

    def __repr__(self) -> str:
        """What it is of and its figures, a line each."""
        sizes = [(len(self.uops), "uop"), (len(self.buffers), "buffer"), (len(self.loops), "loop")]
        tables = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in sizes if n)
        detail = f" (also of {tables})" if tables else ""
        return "\n".join([f"counters of {self.kernel}, {self.kind}{detail}", self.table()])

    def table(self) -> str:
        """Figures as text, a line each, and the notes below them."""
        rows = [(f.name, number(f.value), f.unit, f.kind, f.note) for f in self.figures]
        return "\n".join([*columns(rows), *self.notes])


def _nothing(levels: int) -> Json:
    sums = dict.fromkeys(("runs", "amount", "bytes", "touches", "cold"), 0)
    return {**sums, "misses": [0.0] * levels}


def _add(sums: Json, row: UopCounts) -> None:
    sums["runs"] = max(sums["runs"], row.runs)
    for name in ("amount", "bytes", "touches", "cold"):
        sums[name] += getattr(row, name)
    for level, misses in enumerate(row.misses):
        sums["misses"][level] += misses


def number(value: float) -> str:
    """A number for a table: whole ones with their thousands apart, others with three digits."""
    if value == int(value):
        return f"{int(value):,}".replace(",", " ")
    return f"{value:,.3f}".replace(",", " ") if abs(value) < 1000 else f"{value:,.0f}"


def columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as aligned lines; the second column, numbers, to the right."""
    table = list(rows)
    widths = (
        [max((len(row[i]) for row in table), default=0) for i in range(len(table[0]))]
        if table
        else []
    )
    return [
        "  ".join(
            cell.rjust(w) if i == 1 else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]

"""What a record is made of: the cell, its passes with their matches, its kernels."""

from __future__ import annotations

import statistics
import weakref
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.opcodes import Ops
from tinylab.trace.packing import unpack

if TYPE_CHECKING:
    from tinylab.uop.ops import UOp

# Where a node was made: frames of the user's code, innermost first, and the tensor method.
Site = tuple[tuple[Any, ...], str]


@dataclass(frozen=True)
class Cell:
    """The user's code: its text, and the file name that its frames carry."""

    text: str
    filename: str = ""


class Match(NamedTuple):
    """One replacement: which rule, which node, what it became, how long it took."""

    rule: int
    before: int
    after: int
    elapsed_ns: int


@dataclass(slots=True, repr=False)
class PassRecord:
    """One run of a rule table (or of a function) over a graph.

    `stage` is "tensor graph", "schedule" or "kernel"; `batch` the number of the realize it is part
    of, 0 for none; `error` what ended the pass early, and `failed_rule` the rule that raised it
    when it was tried on `failed_node`.
    """

    id: int
    name: str
    place: tuple[str, int]
    bottom_up: bool
    root_before: int
    stage: str
    batch: int = 0
    kernel: int | None = None
    parent: int | None = None
    root_after: int | None = None
    start_ns: int = 0
    elapsed_ns: int = 0
    count: int = 0
    walk: bool = False
    enter_calls: bool = False
    error: str | None = None
    failed_rule: int | None = None
    failed_node: int | None = None
    block: bytes = b""

    def __repr__(self) -> str:
        """In a line: <pass 7 split: 3 matches, kernel 0>."""
        where = self.stage if self.kernel is None else f"kernel {self.kernel}"
        ended = f", {_clipped(self.error)}" if self.error else ""
        return f"<pass {self.id} {self.name}: {plural(self.count, 'match')}, {where}{ended}>"

    @property
    def changed(self) -> bool:
        """Whether the pass gave back another graph than it got."""
        return self.root_after is not None and self.root_after != self.root_before

    @property
    def matches(self) -> list[Match]:
        """The replacements in the order in which they happened."""
        return [Match(*row) for row in zip(*self.columns(), strict=True)]

    def columns(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Rules, nodes before, nodes after, times in ns: one list each."""
        n, flat = self.count, unpack(self.block).tolist() if self.count else []
        return flat[:n], flat[n : 2 * n], flat[2 * n : 3 * n], flat[3 * n : 4 * n]


@dataclass(slots=True, repr=False)
class KernelRecord:
    """One kernel of the schedule: how it came about and what its runs took.

    `ast` and `program` are the live nodes where the kernel was lowered in this process.
    """

    id: int
    name: str
    data: dict[str, Any]
    batch: int = 0
    start_ns: int = 0
    elapsed_ns: int = 0
    ast: UOp | None = None
    ast_id: int | None = None
    call_id: int | None = None
    program: UOp | None = None
    device: str = ""
    cached: bool = False
    error: str | None = None
    runs_ns: array[int] = field(default_factory=lambda: array("Q"))
    captured: list[weakref.ref[Any]] = field(default_factory=list)  # buffers of the last run
    reads: set[int] = field(default_factory=set)  # kernels whose results its runs read
    row: dict[str, Any] | None = None  # what a file kept of it: its row of the table,
    page: Callable[[], dict[str, Any]] | None = None  # and all else, read when asked for

    def __repr__(self) -> str:
        """In a line: <kernel 2 r_16_8: UPCAST(0, 4), CPU, 3.1 µs, it was asked for>."""
        opts, why = " ".join(self.opts) or "no opts", self.error or self.reason
        facts = (opts, self.device, self._time, why)
        return f"<kernel {self.id} {self.name}: {', '.join(_clipped(f) for f in facts if f)}>"

    @property
    def outs(self) -> tuple[int, ...]:
        """The buffers that the kernel stores to; by custom the first, where nothing says so."""
        outs = getattr(self.program.arg, "outs", None) if self.program is not None else None
        return tuple(outs or self.data.get("outs") or (0,))

    @property
    def ins(self) -> tuple[int, ...]:
        """The buffers that the kernel loads from; one that it updates in place is among both."""
        return tuple(getattr(self.program.arg, "ins", ())) if self.program is not None else ()

    @property
    def reason(self) -> str:
        """Why the scheduler gave this value a kernel of its own."""
        return str(self.data.get("reason") or "")

    @property
    def opts(self) -> list[str]:
        """The opts that it was lowered with, in order, as texts: "UPCAST(1, 4)"."""
        if self.row is not None:
            return list(self.row.get("opts", ()))
        return [opt_text(opt) for opt in getattr(self._part(Ops.SINK), "applied_opts", ())]

    @property
    def source(self) -> str:
        """What was compiled; empty for a kernel that was not rendered."""
        if self.page is not None:
            return "\n".join(str(line["text"]) for line in self.page().get("source", ()))
        return str(self._part(Ops.SOURCE) or "")

    @property
    def median_ns(self) -> float | None:
        """The middle of the times of its runs; None where nothing was really run."""
        if not self.runs_ns or self.device.split(":")[0] == "NULL":
            return None
        return statistics.median(self.runs_ns)

    @property
    def _time(self) -> str:
        median = self.median_ns
        if median is None:
            return "not run"
        return f"{median / 1e6:.2f} ms" if median >= 1e6 else f"{median / 1e3:.1f} µs"

    def _part(self, op: Ops) -> Any:
        """The argument of a part of its program."""
        parts = self.program.src if self.program is not None else ()
        return next((part.arg for part in parts if part.op is op), None)


def opt_text(opt: Any) -> str:
    """An opt for a table: "UPCAST(1, 4)"."""
    shown = [str(x) for x in (opt.axis, opt.arg) if x is not None]
    return f"{opt.op.name}({', '.join(shown)})"


def plural(count: int, noun: str) -> str:
    """A number of things: 3, "match" -> "3 matches"."""
    many = f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{count} {noun if count == 1 else many}"


def _clipped(text: str, most: int = 120) -> str:
    """The first line of a text, if it is not longer than a line should be."""
    first = text.partition("\n")[0]
    return first if len(first) <= most else first[: most - 1] + "…"

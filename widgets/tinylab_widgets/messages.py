"""The data that passes between the notebook's front end and `tinylab.lab`, as types.

One declaration serves both sides: `python -m tinylab_widgets.messages` prints the TypeScript of
these classes, which is kept in `js/src/protocol/types.ts` and compared by a test.

Nothing here runs; everything is plain JSON data. Node ids are stable in one record: the same uop
has the same id in every pass. Text is raw, and the front end escapes it.
"""

import sys
from typing import Literal, NotRequired, TypedDict

from tinylab_widgets.typescript import module

Kind = Literal["movement", "alu", "reduce", "memory", "const", "range", "control", "other"]
Mark = Literal["", "+", "-"]


class Place(TypedDict):
    """A place in source code."""

    file: str
    line: int


class PassInfo(TypedDict):
    """One pass of a stage: what it is called, and how much it did."""

    id: int
    name: str
    matches: int
    elapsed_us: float
    changed: bool
    direction: str
    nodes: int
    place: Place | None
    failed: bool
    parent: NotRequired[int | None]
    realize: NotRequired[int]  # the number of the realize that it ran in; 0 outside of any


class StageInfo(TypedDict):
    """A stage of the way from tensor graph to program, with its passes in their order."""

    id: int
    name: str
    kernel: int | None
    elapsed_us: float
    passes: list[PassInfo]


class KernelInfo(TypedDict):
    """A row of the table of kernels."""

    id: int
    name: str
    display: str
    reason: str
    opts: list[str]
    device: str
    elapsed_us: float | None
    runs: int
    gflops: float | None
    gops: NotRequired[float | None]
    gbs: float | None
    lines: list[int]
    ops: float | None
    mem_bytes: float | None
    cached: bool
    method: list[str]
    error: NotRequired[str | None]


class ErrorInfo(TypedDict):
    """What ended the cell; if it was a rewrite: after which match, by which rule, on which node."""

    type: str
    message: str
    pass_id: int | None
    match: int | None
    rule: NotRequired[str | None]
    node: NotRequired[int | None]


class CellInfo(TypedDict):
    """The text of the cell that was recorded."""

    text: str
    lines: int


class Totals(TypedDict):
    """Sums over the record."""

    passes: int
    matches: int
    kernels: int
    elapsed_us: float


class Overview(TypedDict):
    """All that a front end shows before it asks for anything."""

    version: int
    name: str
    status: str
    error: ErrorInfo | None
    cell: CellInfo
    device: str
    stages: list[StageInfo]
    kernels: list[KernelInfo]
    totals: Totals
    hint: NotRequired[str]


class Node(TypedDict):
    """A uop as it is drawn."""

    id: int
    op: str
    label: str
    arg: str
    dtype: str
    shape: list[str] | None
    src: list[int]
    kind: Kind
    lines: list[int]
    tag: str | None


class RuleInfo(TypedDict):
    """The rule that made a match, or that raised: it has no time then."""

    name: str
    law: str
    source: str
    file: str
    line: int
    elapsed_us: NotRequired[float]


class Failure(TypedDict):
    """What ended a pass after its last match: the rule that raised, the node it was tried on."""

    message: str
    rule: RuleInfo | None
    node: int | None


class Step(TypedDict):
    """The graph of a pass after match k, as nodes that the asker does not have yet."""

    pass_: int  # `pass` on the wire
    k: int
    total: int
    rule: RuleInfo | None
    before: int | None
    after: int | None
    full: bool
    nodes: list[Node]
    root: int
    added: list[int]
    gone: list[Node]
    removed: NotRequired[list[int]]
    more: NotRequired[bool]
    count: NotRequired[int]
    failed: NotRequired[Failure | None]


class NodePage(TypedDict):
    """More nodes of a step that has very many."""

    nodes: list[Node]
    more: bool


class TextLine(TypedDict):
    """A line of the textual form of a graph."""

    text: str
    node: NotRequired[int | None]
    mark: Mark


class GraphText(TypedDict):
    """The textual form of a step, and its difference from the step before."""

    lines: list[TextLine]
    diff: list[TextLine]
    more: NotRequired[bool]


class SearchHit(TypedDict):
    """One place where a search found something, and how often more it stands in the same stage."""

    pass_: int
    k: int
    node: int | None
    label: str
    detail: NotRequired[str]
    passes: NotRequired[int]
    matches: NotRequired[int]


class SearchResult(TypedDict):
    """What a search found."""

    hits: list[SearchHit]
    more: bool


class LineMarks(TypedDict):
    """What descends from some lines of the cell; the keys of `nodes` are pass ids as text."""

    kernels: list[int]
    nodes: dict[str, list[int]]


class NodeDetail(TypedDict):
    """What is known of one node."""

    node: Node
    lines: list[int]
    kernels: list[int]
    text: str
    methods: NotRequired[list[str]]


class OptEdit(TypedDict):
    """An optimisation as it is edited."""

    op: str
    axis: int | None
    arg: int | str | list[int] | None


class Axis(TypedDict):
    """An axis of a kernel, as opts count them."""

    name: str
    letter: str
    size: str
    kind: str


class AllowedOpts(TypedDict):
    """Which opts a kernel's device knows."""

    ops: list[str]


class SourceLine(TypedDict):
    """A line of rendered source, with the uop that it stands for."""

    text: str
    node: int | None
    lines: list[int]
    uop: NotRequired[int | None]


class AssemblyLine(TypedDict):
    """A line of assembly, with the line of source that it came from."""

    text: str
    source_line: int | None


class HistoryRow(TypedDict):
    """What became of one set of opts."""

    id: int
    opts: list[OptEdit]
    status: str
    message: str
    median_us: float | None
    p10_us: float | None
    p90_us: float | None
    runs: int
    ratio: float | None
    ratio_low: NotRequired[float | None]  # the true ratio lies between these; None where unknown
    ratio_high: NotRequired[float | None]
    gflops: float | None
    gops: NotRequired[float | None]
    max_error: float | None
    source: NotRequired[list[SourceLine]]
    assembly: NotRequired[list[AssemblyLine]]


class BufferInfo(TypedDict):
    """An argument of a kernel."""

    slot: int
    size: int
    dtype: str
    name: NotRequired[str]


class KernelDetail(TypedDict):
    """One kernel: its opts, what they may be, its source and its runs."""

    id: int
    name: str
    reason: str
    opts: list[OptEdit]
    allowed: AllowedOpts
    targets: NotRequired[list[str]]
    axes: list[Axis]
    source: list[SourceLine]
    assembly: list[AssemblyLine]
    language: str
    history: list[HistoryRow]
    buffers: list[BufferInfo]
    metadata: list[str]


class Problem(TypedDict):
    """Why an opt cannot be applied."""

    index: int
    message: str


class Actions(TypedDict):
    """The axes after some opts, or the first opt that cannot be applied."""

    axes: list[Axis]
    problems: Problem | None


class RunResult(TypedDict):
    """The answer to `run`, and to `row`, which asks for an earlier run.

    `own` is the unedited kernel, which is timed with every run.
    """

    row: HistoryRow
    own: NotRequired[HistoryRow]


Source = Literal["measured", "counted", "estimated", "given"]


class Figure(TypedDict):
    """One number about a kernel, and where it comes from."""

    name: str
    value: float
    unit: str
    kind: Source
    note: str


class UopCounts(TypedDict):
    """What one line of a program did; `uop` is its place in the LINEAR."""

    uop: int
    op: str
    sort: str
    runs: int
    lanes: int
    amount: int
    addressing: bool
    buffer: int | None
    bytes: int
    touches: float
    misses: list[float]
    cold: float


class BufferCounts(TypedDict):
    """Traffic of one buffer."""

    slot: int
    size_bytes: int
    dtype: str
    loads: int
    stores: int
    bytes_loaded: int
    bytes_stored: int
    touches: float
    misses: list[float]
    unique_bytes: float


class LoopCounts(TypedDict):
    """One loop: how often it was entered, and all its turns."""

    uop: int
    name: str
    entered: int
    trips: int


class LevelCounts(TypedDict):
    """One cache, and what reached it."""

    name: str
    size_bytes: int
    ways: int
    line_bytes: int
    source: str
    touches: float
    misses: float


class CellCounts(TypedDict):
    """What a line of the cell caused."""

    line: int
    operations: float
    bytes: float
    misses: float


class Roof(TypedDict):
    """A rate of the machine."""

    name: str
    rate: float
    unit: str
    kind: Source
    note: str


class Machine(TypedDict):
    """What the machine can do with so many threads."""

    arithmetic: Roof
    levels: list[Roof]
    threads: int


class RoofPoint(TypedDict):
    """Where a kernel stands under the roof of one level of memory."""

    level: str
    bytes: float
    intensity: float | None
    gflops: float
    gbs: float
    kind: Source


class Roofline(TypedDict):
    """Roofs, points, and the roof that is nearest."""

    machine: Machine
    points: list[RoofPoint]
    gflops: float
    elapsed_ns: float
    bound: str
    reached: float


class AdviceInfo(TypedDict):
    """One thing to try on a kernel, with the figures that say so."""

    name: str
    title: str
    figures: list[Figure]
    opts: list[OptEdit]
    uops: list[int]


class Counts(TypedDict):
    """Counters of a kernel with some opts; only `status` and `message` where it did not run."""

    kernel: int
    opts: list[OptEdit]
    status: str
    message: str
    target: NotRequired[str]
    kind: NotRequired[Source]
    figures: NotRequired[list[Figure]]
    uops: NotRequired[list[UopCounts]]
    buffers: NotRequired[list[BufferCounts]]
    loops: NotRequired[list[LoopCounts]]
    levels: NotRequired[list[LevelCounts]]
    notes: NotRequired[list[str]]
    source: NotRequired[list[SourceLine]]
    assembly: NotRequired[list[AssemblyLine]]
    cells: NotRequired[list[CellCounts]]
    roofline: NotRequired[Roofline | None]
    advice: NotRequired[list[AdviceInfo]]


MESSAGES: tuple[type, ...] = (
    Place, PassInfo, StageInfo, KernelInfo, ErrorInfo, CellInfo, Totals, Overview, Node, RuleInfo,
    Failure, Step, NodePage, TextLine, GraphText, SearchHit, SearchResult, LineMarks, NodeDetail,
    OptEdit, Axis, AllowedOpts, SourceLine, AssemblyLine, HistoryRow, BufferInfo, KernelDetail,
    Problem, Actions, RunResult, Figure, UopCounts, BufferCounts, LoopCounts, LevelCounts,
    CellCounts, Roof, Machine, RoofPoint, Roofline, AdviceInfo, Counts,
)  # fmt: skip

ALIASES: dict[str, object] = {"Kind": Kind, "Mark": Mark, "Source": Source}

ASKS: dict[str, type] = {
    "step": Step,
    "text": GraphText,
    "search": SearchResult,
    "lines": LineMarks,
    "node": NodeDetail,
    "kernel": KernelDetail,
    "actions": Actions,
    "run": RunResult,
    "row": RunResult,
    "count": Counts,
    "more": NodePage,
}


def typescript() -> str:
    """All messages as one TypeScript module."""
    return module("tinylab_widgets.messages", MESSAGES, ALIASES, ASKS, "Answers")


if __name__ == "__main__":
    sys.stdout.write(typescript())

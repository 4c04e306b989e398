"""The data that passes between the viewer of captures and `tinylab.profiler.desk`, as types.

`python -m tinylab_widgets.capture_messages` prints them for the front end, which keeps them in
`js/src/protocol/capture_types.ts`. Times are cycles of a stream, addresses bytes of its program.
"""

import sys
from typing import NotRequired, TypedDict

from tinylab_widgets.typescript import Columns, module


class KernelRun(TypedDict):
    """A run of a kernel in a capture."""

    name: str
    exec: int
    run: int
    elapsed_ns: float


class CaptureInfo(TypedDict):
    """A capture and what ran in it."""

    name: str
    target: str
    kernels: list[KernelRun]


class StreamInfo(TypedDict):
    """A trace stream: one shader engine in one dispatch."""

    capture: int
    name: str
    engine: int
    xcc: int
    exec: int
    run: int
    kernel: str
    instructions: bool
    waves: bool
    bytes: int


class ReadoutInfo(TypedDict):
    """Counters read after one dispatch."""

    capture: int
    name: str
    exec: int
    run: int
    kernel: str
    elapsed_ns: float | None
    counters: int


class CaptureOverview(TypedDict):
    """All that a viewer shows before it asks for anything."""

    name: str
    captures: list[CaptureInfo]
    streams: list[StreamInfo]
    readouts: list[ReadoutInfo]
    categories: list[str]
    first: int | None


class Fault(TypedDict):
    """Where and why something could not be decoded."""

    byte: int
    clock: int
    why: str
    fatal: bool


class Lanes(TypedDict):
    """Which lanes a stream has; places of waves are in the column `waves`."""

    slots: list[int]
    units: list[str]
    other: bool
    place: list[str]


class TraceInfo(TypedDict):
    """What there is to see of the part of a stream that has been read."""

    family: str
    done: bool
    progress: float
    bytes: int
    packets: int
    end: int
    span: list[int]
    waves: int
    instructions: int
    mapped: int
    most_waves: int
    problems: dict[str, int]
    faults: list[Fault]
    notes: list[str]
    lanes: Lanes
    classes: dict[str, str]
    used: list[int]  # categories that occur


class Advanced(TypedDict):
    """How far reading is, and now and then what there is to see."""

    done: bool
    progress: float
    end: int
    info: NotRequired[TraceInfo]
    columns: NotRequired[Columns]


class TraceWindow(TypedDict):
    """Bars of lanes in a window of time, and curves over it."""

    start: int
    end: int
    level: str
    exact: bool
    columns: Columns


class ProgramPage(TypedDict):
    """Instructions as [pc, text, target], their figures in columns; target -1: no branch."""

    total: int
    first: int
    rows: list[list[int | str]]
    tool: NotRequired[str]
    note: str
    columns: Columns


class ClassRow(TypedDict):
    """Sums over a class of instructions."""

    class_: str  # `class` on the wire
    category: str
    hits: int
    total: NotRequired[int]
    mean: NotRequired[float]
    longest: NotRequired[int]
    stall: NotRequired[int]
    time: NotRequired[int]


class ClassRows(TypedDict):
    """Sums by class."""

    rows: list[ClassRow]


class StretchInfo(TypedDict):
    """Statistics of a stretch of time."""

    cycles: int
    waves: int
    waves_started: int
    mean_occupancy: float
    classes: list[ClassRow]
    note: NotRequired[str]


class TraceHit(TypedDict):
    """An event that a search found: when it was issued, and its bar."""

    time: int
    lane: int
    start: int
    end: int
    op: str
    pc: int | None


class TraceHits(TypedDict):
    """A page of hits, and the chunk to go on with."""

    hits: list[TraceHit]
    next: int | None
    of: int


class EventPlace(TypedDict):
    """An event of an instruction: when it was issued, and its bar."""

    time: int
    lane: int
    start: int
    end: int


class Beside(TypedDict):
    """The next event of an instruction; or the time to go on from; or neither."""

    found: EventPlace | None
    next: int | None


class ClassPair(TypedDict):
    """A class of instructions in two traces."""

    class_: str
    category: str
    first: ClassRow | None
    second: ClassRow | None
    change: float | None


class Comparison(TypedDict):
    """Two traces side by side; columns hold figures of instructions if they ran one program."""

    classes: list[ClassPair]
    same_program: bool
    columns: Columns


class CounterRow(TypedDict):
    """A counter of a read-out: totals, and how many values lie along its axes."""

    name: str
    block: str
    sum: int
    max: int
    count: int
    nonzero: int
    max_at: dict[str, int] | None
    axes: dict[str, int]


class MetricRow(TypedDict):
    """A ratio in percent with its formula, in names and in numbers."""

    key: str
    label: str
    value: float | None
    formula: str
    note: str
    counted: str


class CounterRows(TypedDict):
    """All counters and ratios of a read-out; note: what its file lacks."""

    rows: list[CounterRow]
    metrics: list[MetricRow]
    note: str


class CounterGrid(TypedDict):
    """Values of a counter by place: the column `values` row by row, labels down and across."""

    counter: str
    rows: list[str]
    labels: list[str]
    columns: Columns


class TogetherRow(TypedDict):
    """A counter or ratio over several read-outs; change is last over first."""

    name: str
    values: list[float | None]
    change: float | None
    percent: bool


class TogetherRows(TypedDict):
    """Read-outs side by side."""

    rows: list[TogetherRow]


ASKS: dict[str, type] = {
    "advance": Advanced,
    "window": TraceWindow,
    "program": ProgramPage,
    "classes": ClassRows,
    "selection": StretchInfo,
    "search": TraceHits,
    "beside": Beside,
    "compare": Comparison,
    "counters": CounterRows,
    "grid": CounterGrid,
    "together": TogetherRows,
}
MESSAGES: tuple[type, ...] = (
    KernelRun, CaptureInfo, StreamInfo, ReadoutInfo, CaptureOverview, Fault, Lanes, TraceInfo,
    Advanced, TraceWindow, ProgramPage, ClassRow, ClassRows, StretchInfo, TraceHit, TraceHits,
    EventPlace, Beside, ClassPair, Comparison, CounterRow, MetricRow, CounterRows, CounterGrid,
    TogetherRow, TogetherRows,
)  # fmt: skip


def typescript() -> str:
    """All messages as one TypeScript module."""
    return module("tinylab_widgets.capture_messages", MESSAGES, {}, ASKS, "CaptureAnswers")


if __name__ == "__main__":
    sys.stdout.write(typescript())

"""The data that passes between a timeline and `tinylab.profiler.timeline_desk`, as types.

`python -m tinylab_widgets.timeline_messages` prints the TypeScript of these classes, which is kept
in `js/src/protocol/timeline_types.ts` and compared by a test. Times are nanoseconds from the
beginning of the profile.
"""

import sys
from typing import NotRequired, TypedDict

from tinylab_widgets.typescript import Columns, module


class LaneInfo(TypedDict):
    """A lane: its rows bear the keys from `key` on; a lane of levels has one."""

    key: int
    rows: int
    name: str
    group: str
    levels: bool
    unit: str
    events: int
    peak: float | None
    overlapping: int


class CounterFigure(TypedDict):
    """One figure of a kernel, and whether it was measured, counted or estimated."""

    name: str
    value: float
    unit: str
    kind: str
    note: str


class TopRow(TypedDict):
    """Kernels of one name; figures: some of what was counted of it."""

    name: str
    runs: int
    programs: int
    total_ns: float
    mean_ns: float
    median_ns: float
    longest_ns: float
    share: float
    figures: NotRequired[list[CounterFigure]]


class TimelineOverview(TypedDict):
    """All that a timeline shows before it asks for anything."""

    name: str
    span: list[float]
    events: int
    lanes: list[LaneInfo]
    markers: list[list[float | str]]
    names: list[str]
    notices: list[str]
    colours: list[str]
    top: list[TopRow]
    counted: bool
    recorded: bool
    other: str | None
    running: bool


class EventWork(TypedDict):
    """What a kernel is estimated to do, and how fast it did it."""

    ops: float
    bytes: float
    gops: float
    gbs: float


class EventCounters(TypedDict):
    """Counters of a kernel, or the reason why there are none."""

    figures: list[CounterFigure]
    message: str
    notes: list[str]


class EventInfo(TypedDict):
    """One event; `kernel` is its number in the record, where there is one."""

    event: int
    name: str
    lane: str
    kind: str
    key: int
    start_ns: float
    end_ns: float
    duration_ns: float
    value: float
    kernel: int | None
    work: EventWork | None
    counters: EventCounters | None


class SumsRow(TypedDict):
    """Figures of some events; busy: the share of the time that they fill."""

    lane: NotRequired[str]
    count: int
    total_ns: float
    mean_ns: float
    median_ns: float
    longest_ns: float
    busy: float


class StretchSums(TypedDict):
    """Figures of a stretch of time: of all, of each lane, of kernels by name."""

    start: float
    end: float
    all: SumsRow
    lanes: list[SumsRow]
    top: list[TopRow]


class TimelineHits(TypedDict):
    """What a search found: the first events by time, and how many there are."""

    hits: list[EventInfo]
    count: int


class TopRows(TypedDict):
    """Kernels by total time."""

    rows: list[TopRow]


class ComparedRow(TypedDict):
    """A kernel in two runs: the first, then the second; other opts give it another name."""

    name: str
    names: list[str]
    runs: list[int]
    programs: list[int]
    total_ns: list[float]
    mean_ns: list[float | None]
    change_ns: float
    ratio: float | None


class Compared(TypedDict):
    """Two runs side by side."""

    names: list[str]
    rows: list[ComparedRow]


class Opened(TypedDict):
    """A kernel that the debugger of its record now stands at: the number of the request."""

    reveal: int


class WindowAnswer(TypedDict):
    """Bars of some rows in columns, and the curves of some lanes, see `timeline_desk.window`."""

    start: float
    end: float
    cut: int
    exact: bool
    curves: list[int]
    names: dict[str, str]
    columns: Columns


MESSAGES: tuple[type, ...] = (
    LaneInfo, CounterFigure, TopRow, TimelineOverview, EventWork, EventCounters, EventInfo,
    SumsRow, StretchSums, TimelineHits, TopRows, ComparedRow, Compared, Opened, WindowAnswer,
)  # fmt: skip
ASKS: dict[str, type] = {
    "window": WindowAnswer,
    "event": EventInfo,
    "select": StretchSums,
    "search": TimelineHits,
    "top": TopRows,
    "compare": Compared,
    "open": Opened,
}


def typescript() -> str:
    """All messages as one TypeScript module."""
    return module("tinylab_widgets.timeline_messages", MESSAGES, {}, ASKS, "TimelineAnswers")


if __name__ == "__main__":
    sys.stdout.write(typescript())

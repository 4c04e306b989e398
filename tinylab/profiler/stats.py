"""What is asked of a table of events: sums over a selection, the longest kernels, differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.near import closest
from tinylab.helpers.text import pluralize
from tinylab.profiler.table import KIND, Array, EventTable, lane_labels

Json = dict[str, Any]
_TIMED = np.array([KIND["run"], KIND["span"]])


@dataclass(frozen=True)
class Sums:
    """Figures of the events that touch a stretch of time, in nanoseconds.

    total_ns is the time that they take inside the stretch, busy the share of it that at least one
    of them fills; mean, median and longest are of whole events, also of those that it cuts.
    """

    count: int
    total_ns: int
    mean_ns: float
    median_ns: float
    longest_ns: int
    busy: float

    @classmethod
    def of(cls, start: Array, end: Array, stretch: tuple[int, int]) -> Sums:
        """The sums of events, sorted by start, in a stretch of time."""
        if not len(start):
            return cls(0, 0, 0.0, 0.0, 0, 0.0)
        length = end - start
        return cls(
            len(start),
            int(inside(start, end, stretch).sum()),
            float(length.mean()),
            float(np.median(length)),
            int(length.max()),
            covered(start, end, stretch) / max(1, stretch[1] - stretch[0]),
        )

    def row(self) -> Json:
        """The figures by name."""
        return dict(vars(self))


def inside(start: Array, end: Array, stretch: tuple[int, int]) -> Array:
    """How much of each event that touches a stretch of time is in it."""
    found: Array = np.minimum(end, stretch[1]) - np.maximum(start, stretch[0])
    return found


def covered(start: Array, end: Array, stretch: tuple[int, int]) -> int:
    """The time in a stretch in which at least one of the events, sorted by start, goes on."""
    low, high = np.maximum(start, stretch[0]), np.minimum(end, stretch[1])
    if not len(low):
        return 0
    before = np.concatenate([[stretch[0]], np.maximum.accumulate(high)[:-1]])
    return int(np.maximum(0, high - np.maximum(low, before)).sum())


def spans_of(table: EventTable, lane: int, stretch: tuple[int, int] | None) -> Array:
    """The rows of a lane that touch a stretch of time; a moment touches where it is inside.

    None is all of it, with moments at its very end.
    """
    own = table.rows_of(lane)
    if stretch is None:
        return np.arange(own.start, own.stop)
    start, end = table["start"][own], table["end"][own]
    last = int(np.searchsorted(start, stretch[1], "left"))
    touches = (end[:last] > stretch[0]) | (start[:last] >= stretch[0])
    rows: Array = np.flatnonzero(touches) + own.start
    return rows


@dataclass(frozen=True, repr=False)
class Selection:
    """A stretch of time: sums of all events that touch it, and of each lane."""

    start_ns: int
    end_ns: int
    all: Sums
    lanes: dict[str, Sums]

    def rows(self) -> list[Json]:
        """A row a lane."""
        return [{"lane": name, **sums.row()} for name, sums in self.lanes.items()]

    def __repr__(self) -> str:
        """A line a lane."""
        lines = [f"<{self.start_ns} to {self.end_ns} ns: {pluralize('event', self.all.count)}>"]
        for name, sums in self.lanes.items():
            events = pluralize("event", sums.count)
            lines.append(f"{name}: {events}, {sums.total_ns} ns, {100 * sums.busy:.1f} % busy")
        return "\n".join(lines)


def select(
    table: EventTable,
    stretch: tuple[int, int] | None = None,
    lanes: str | Sequence[str] | None = None,
    words: str = "",
) -> Selection:
    """Sums of the events that touch a stretch of time, see `Sums`.

    lanes: only those of these names, or of this one, see `lane_labels`. words: only events whose
    names hold them.

    Raises: CaptureError for a lane that is not there.
    """
    known = lane_labels(table.lanes)
    lanes = (lanes,) if isinstance(lanes, str) else lanes
    for name in lanes or ():
        if name not in known:
            raise CaptureError(f"there is no lane {name!r}", help=_near(name, known))
    span = table.span if stretch is None else stretch
    chosen = table.named(words) if words else None
    found: dict[str, Sums] = {}
    parts = []
    for number, lane in enumerate(table.lanes):
        if lane.levels or lane.group == "marks" or (lanes and known[number] not in lanes):
            continue
        rows = spans_of(table, number, stretch)
        if chosen is not None:
            rows = rows[np.isin(table["name"][rows], chosen)]
        if len(rows):
            parts.append(rows)
            found[known[number]] = Sums.of(table["start"][rows], table["end"][rows], span)
    rows = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    rows = rows[np.argsort(table["start"][rows], kind="stable")]
    return Selection(*span, Sums.of(table["start"][rows], table["end"][rows], span), found)


def _near(name: str, known: Sequence[str]) -> str:
    near = closest(name, known)
    return f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"


def kernel_events(table: EventTable) -> Array:
    """The rows that count as kernels: runs; of a trace that has none, all its spans."""
    runs = np.flatnonzero(table["kind"] == KIND["run"])
    return runs if len(runs) else np.flatnonzero(np.isin(table["kind"], _TIMED))


def by_name(
    table: EventTable, stretch: tuple[int, int] | None = None, most: int | None = None
) -> list[Json]:
    """Kernels by their total time, longest first: runs, total, mean, median, longest, share.

    Programs of one name are one row, and `programs` says how many they are.

    Of a stretch: the runs that touch it; total and share are of their time inside, the others of
    whole runs.
    """
    rows = kernel_events(table)
    if stretch is not None:
        touches = (table["end"][rows] > stretch[0]) & (table["start"][rows] < stretch[1])
        rows = rows[touches]
    if not len(rows):
        return []
    start, end = table["start"][rows], table["end"][rows]
    names, length = table["name"][rows], end - start
    order = np.lexsort((length, names))
    part = length if stretch is None else inside(start, end, stretch)
    pairs = np.unique(np.stack([names, table["kernel"][rows]]).astype(np.int64), axis=1)
    programs = dict(zip(*np.unique(pairs[0], return_counts=True), strict=True))
    names, length, part = names[order], length[order], part[order]
    firsts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
    counts = np.diff(np.append(firsts, len(names)))
    totals, sums = np.add.reduceat(part, firsts), np.add.reduceat(length, firsts)
    middle, other = firsts + (counts - 1) // 2, firsts + counts // 2
    medians = (length[middle] + length[other]) / 2
    longest = length[firsts + counts - 1]
    whole = max(int(totals.sum()), 1)
    ranked = np.argsort(-totals, kind="stable")[:most]
    return [
        {
            "name": table.names[int(names[firsts[i]])],
            "runs": int(counts[i]),
            "programs": int(programs[names[firsts[i]]]),
            "total_ns": int(totals[i]),
            "mean_ns": float(sums[i] / counts[i]),
            "median_ns": float(medians[i]),
            "longest_ns": int(longest[i]),
            "share": float(totals[i] / whole),
        }
        for i in ranked.tolist()
    ]


def search(table: EventTable, words: str, most: int = 200) -> tuple[list[int], int]:
    """(rows of the first events by time whose names hold the words, how many there are)."""
    names = table.named(words)
    if not words.strip() or not len(names):
        return [], 0
    wanted = np.zeros(len(table.names), bool)
    wanted[names] = True
    rows = np.flatnonzero(wanted[table["name"]] & (table["kind"] != KIND["memory"]))
    order = np.argsort(table["start"][rows], kind="stable")[:most]
    return rows[order].tolist(), len(rows)


def compare(
    first: Sequence[Json],
    second: Sequence[Json],
    most: int | None = None,
    now_called: Mapping[str, str] | None = None,
) -> list[Json]:
    """Kernels of two tables, see `by_name`: runs and total time of both, the change, the ratio.

    The largest change comes first; the ratio is second over first, None where one has none.
    now_called: kernels of the first that bear another name in the second, since other opts were
    applied to them; they are one row, "r_4 -> r_2_2", `names` holds both.
    """
    before = {row["name"]: row for row in first}
    after = {row["name"]: row for row in second}
    pairs = {name: name for name in dict.fromkeys([*before, *after])}
    for old, new in (now_called or {}).items():
        if old in before and new in after and old not in after and new not in before:
            pairs[old] = new
            pairs.pop(new, None)
    rows = [_compared(old, new, before.get(old), after.get(new)) for old, new in pairs.items()]
    rows.sort(key=lambda row: -abs(row["change_ns"]))
    return rows[:most]


def _compared(old: str, new: str, before: Json | None, after: Json | None) -> Json:
    was, now = (before["total_ns"] if before else 0), (after["total_ns"] if after else 0)
    return {
        "name": old if old == new else f"{old} -> {new}",
        "names": [old, new],
        "runs": [before["runs"] if before else 0, after["runs"] if after else 0],
        "programs": [before["programs"] if before else 0, after["programs"] if after else 0],
        "total_ns": [was, now],
        "mean_ns": [before["mean_ns"] if before else None, after["mean_ns"] if after else None],
        "change_ns": now - was,
        "ratio": now / was if before and after and was else None,
    }


def interval(table: EventTable, first: str, second: str) -> tuple[int, int]:
    """The time from one marker to the next of the second name after it.

    Raises: CaptureError where there is no such marker.
    """
    markers = table.markers()
    start = next((at for at, name in markers if name == first), None)
    if start is None:
        raise CaptureError(f"there is no marker {first!r}", help=_markers(first, markers))
    end = next((at for at, name in markers if name == second and at > start), None)
    if end is None:
        _refuse_end(first, second, start, markers)
    return start, end


def _refuse_end(first: str, second: str, start: int, markers: list[tuple[int, str]]) -> NoReturn:
    """Raises: CaptureError that says whether the end is not there or comes too early."""
    early = [at for at, name in markers if name == second]
    if not early:
        raise CaptureError(f"there is no marker {second!r}", help=_markers(second, markers))
    if first == second:
        raise CaptureError(f"the marker {first!r} was set once: it begins and ends nothing")
    raise CaptureError(
        f"there is no marker {second!r} after {first!r}: "
        f"{second!r} was set at {early[-1]} ns, {first!r} at {start} ns",
        help=f"{second!r} to {first!r} is an interval",
    )


def _markers(name: str, markers: list[tuple[int, str]]) -> str:
    if not markers:
        return "none were set: call tinylab.profile_marker(name) in the program"
    return _near(name, list(dict.fromkeys(name for _, name in markers)))

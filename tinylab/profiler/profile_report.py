"""Profiles as rows, for a terminal and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.near import closest
from tinylab.helpers.text import pluralize
from tinylab.profiler import stats
from tinylab.profiler.collected import Profile
from tinylab.profiler.report import Row, Section, ratio, share
from tinylab.profiler.still import time_text
from tinylab.profiler.table import KINDS, EventTable, drawn_order, lane_labels

_CHUNK = 50_000
_MOST_MARKERS = 200
_CUT = "total and busy: inside the interval; mean, median, longest: of whole events that touch it"
_OF_SPANS = ("busy", "total ns", "mean ns", "median ns", "longest ns")
_NESTED = "total: of all events, so that time of nested ones counts again; busy counts it once"
LISTING = ("start ns", "dur ns", "kind", "name", "value")


def sections(profile: Profile, interval: Sequence[str] | None = None) -> Iterator[Section]:
    """What a profile holds: its lanes, its markers, what a reader must know."""
    table = profile.table
    stretch = profile.stretch(*(interval or (None, None)))
    chosen = stats.select(table, stretch)
    labels = lane_labels(table.lanes)
    order = [labels[number] for number in drawn_order(table.lanes)]
    rows = [*map(_lane_row, chosen.rows()), *_levels(table, stretch)]
    rows.sort(key=lambda row: order.index(row["lane"]))
    count = sum(len(stats.spans_of(table, lane, stretch)) for lane in range(len(table.lanes)))
    length = time_text(chosen.end_ns - chosen.start_ns)
    where = f" from {interval[0]} to {interval[1]}" if interval else ""
    notes = [_CUT] if interval else []
    span = max(1, chosen.end_ns - chosen.start_ns)
    if any(sums.total_ns > sums.busy * span + 1 for sums in chosen.lanes.values()):
        notes.append(_NESTED)
    yield Section(
        f"{profile.name}{where}: {pluralize('event', count)}, {length}",
        rows,
        notes=[*table.notices, *profile.timeline.notices(), *notes],
        shown={"busy": share},
    )
    if profile.has_counters:
        yield Section("counters of one run", list(_counter_rows(profile)))
    markers = [(at, name) for at, name in table.markers() if _is_inside(at, stretch)]
    if markers:
        marked = [{"marker": name, "at ns": at} for at, name in markers[:_MOST_MARKERS]]
        left = len(markers) - len(marked)
        yield Section("markers", marked, notes=[f"... {left} more"] if left else [])


def _counter_rows(profile: Profile) -> Iterator[Row]:
    """The figures of each kernel that was counted, each with where it comes from; or why not."""
    for name, kernel in profile.kernels.items():
        found = profile.counters_of(profile.facts.index(kernel.facts))
        if found is None:
            continue
        nothing = dict.fromkeys(("figure", "value", "unit", "kind"))
        if not found.get("figures"):
            yield {"kernel": name, **nothing, "note": found.get("message", "")}
        for figure in found.get("figures", ()):
            row = {key: figure[key] for key in ("value", "unit", "kind", "note")}
            yield {"kernel": name, "figure": figure["name"], **row}


def _is_inside(at: int, stretch: tuple[int, int] | None) -> bool:
    return stretch is None or stretch[0] <= at <= stretch[1]


def _lane_row(row: dict[str, Any]) -> Row:
    return {
        "lane": row["lane"],
        "events": row["count"],
        "busy": row["busy"],
        "total ns": row["total_ns"],
        "mean ns": round(row["mean_ns"]),
        "median ns": round(row["median_ns"]),
        "longest ns": row["longest_ns"],
        "peak": None,
    }


def _levels(table: EventTable, stretch: tuple[int, int] | None) -> Iterator[Row]:
    """Quantities with their peak: of a stretch also the level that it begins with."""
    labels = lane_labels(table.lanes)
    for number, lane in enumerate(table.lanes):
        rows = stats.spans_of(table, number, stretch)
        own = table.rows_of(number)
        if not lane.levels or own.stop == own.start:
            continue
        first = own.start if stretch is None else _level_at(table, own, stretch[0])
        last = rows[-1] + 1 if len(rows) else first + 1
        peak = float(table["value"][first:last].max())
        nothing = dict.fromkeys(_OF_SPANS)
        yield {"lane": labels[number], "events": len(rows), **nothing, "peak": peak}


def _level_at(table: EventTable, own: slice, at: int) -> int:
    """The row of a lane of levels that says how much there was at a time: the last before it."""
    before = int(np.searchsorted(table["start"][own], at, "right")) - 1
    return int(own.start) + max(0, before)


def top_kernels(profile: Profile, count: int, interval: Sequence[str] | None = None) -> Section:
    """Kernels by total time, longest first; between two markers where they are given."""
    rows = profile.top(count, *(interval or ()))
    where = f" from {interval[0]} to {interval[1]}, totals of what is inside" if interval else ""
    title = f"top {pluralize('kernel', count)}{where}"
    return Section(title, [_kernel_row(row) for row in rows], shown={"share": share})


def _kernel_row(row: dict[str, Any]) -> Row:
    return {
        "kernel": row["name"],
        "programs": row["programs"],
        "runs": row["runs"],
        "total ns": row["total_ns"],
        "mean ns": round(row["mean_ns"]),
        "median ns": round(row["median_ns"]),
        "longest ns": row["longest_ns"],
        "share": row["share"],
    }


def lane_listing(
    profile: Profile, name: str, interval: Sequence[str] | None = None
) -> Iterator[Section]:
    """The events of a lane by time.

    Raises: CaptureError for a lane that is not there.
    """
    table = profile.table
    known = lane_labels(table.lanes)
    if name not in known:
        near = closest(name, known)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
        raise CaptureError(f"the profile has no lane {name!r}", help=hint)
    stretch = profile.stretch(*(interval or (None, None)))
    rows = stats.spans_of(table, known.index(name), stretch)
    yield Section(name, _events(profile, rows), LISTING)


def _events(profile: Profile, rows: np.ndarray[Any, Any]) -> Iterator[Row]:
    table = profile.table
    for first in range(0, len(rows), _CHUNK):
        part = rows[first : first + _CHUNK]
        columns = [table[c][part].tolist() for c in ("start", "end", "kind", "name", "value")]
        for start, end, kind, name, value in zip(*columns, strict=True):
            yield {
                "start ns": start,
                "dur ns": end - start,
                "kind": KINDS[kind],
                "name": table.names[name],
                "value": value or None,
            }


def comparison(before: Profile, after: Profile, interval: Sequence[str] | None = None) -> Section:
    """Kernels of two profiles side by side, the largest change first; between two markers."""
    rows = [
        {
            "kernel": row["name"],
            "before ns": row["total_ns"][0],
            "after ns": row["total_ns"][1],
            "after/before": row["ratio"],
            "before runs": row["runs"][0],
            "after runs": row["runs"][1],
            "before programs": row["programs"][0],
            "after programs": row["programs"][1],
        }
        for row in before.compare(after, None, *(interval or ()))
    ]
    where = f" from {interval[0]} to {interval[1]}" if interval else ""
    title = f"{before.name} and {after.name}{where}"
    return Section(title, rows, shown={"after/before": ratio})


def summary(profile: Profile, top: int = 50) -> dict[str, Any]:
    """A profile as one object."""
    chosen = profile.select()
    return {
        "name": profile.name,
        "events": len(profile.table),
        "span_ns": list(profile.table.span),
        "lanes": chosen.rows(),
        "top": profile.top(top),
        "markers": [[at, name] for at, name in profile.table.markers()],
        "notices": profile.table.notices,
    }

"""Profiles as rows, for a terminal and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.near import closest
from tinylab.profiler import stats
from tinylab.profiler.collected import Profile
from tinylab.profiler.report import Row, Section
from tinylab.profiler.still import time_text
from tinylab.profiler.table import KINDS

_CHUNK = 50_000
_MOST_MARKERS = 200
LISTING = ("start ns", "dur ns", "kind", "name", "value")


def sections(profile: Profile, interval: Sequence[str] | None = None) -> Iterator[Section]:
    """What a profile holds: its lanes, its markers, what a reader must know."""
    chosen = profile.select(*(interval or ()))
    rows = [_lane_row(row) for row in chosen.rows()]
    length = time_text(chosen.end_ns - chosen.start_ns)
    title = f"{profile.name}: {chosen.all.count} events, {length}"
    yield Section(title, [*rows, *_levels(profile)], notes=list(profile.table.notices))
    markers = profile.table.markers()
    if markers:
        marked = [{"marker": name, "at ns": at} for at, name in markers[:_MOST_MARKERS]]
        yield Section("markers", marked)


def _lane_row(row: dict[str, Any]) -> Row:
    return {
        "lane": row["lane"],
        "events": row["count"],
        "busy": f"{100 * row['busy']:.1f}%",
        "total ns": row["total_ns"],
        "mean ns": round(row["mean_ns"]),
        "median ns": round(row["median_ns"]),
        "longest ns": row["longest_ns"],
        "peak": None,
    }


def _levels(profile: Profile) -> Iterator[Row]:
    table = profile.table
    for number, lane in enumerate(table.lanes):
        values = table["value"][table.rows_of(number)]
        if lane.levels and len(values):
            yield {"lane": lane.name, "events": len(values), "peak": float(values.max())}


def top_kernels(profile: Profile, count: int, interval: Sequence[str] | None = None) -> Section:
    """Kernels by total time, longest first; between two markers where they are given."""
    rows = profile.top(count, *(interval or ()))
    where = f" from {interval[0]} to {interval[1]}" if interval else ""
    return Section(f"top {count} kernels{where}", [_kernel_row(row) for row in rows])


def _kernel_row(row: dict[str, Any]) -> Row:
    return {
        "kernel": row["name"],
        "runs": row["runs"],
        "total ns": row["total_ns"],
        "mean ns": round(row["mean_ns"]),
        "median ns": round(row["median_ns"]),
        "longest ns": row["longest_ns"],
        "share": f"{100 * row['share']:.1f}%",
    }


def lane_listing(
    profile: Profile, name: str, interval: Sequence[str] | None = None
) -> Iterator[Section]:
    """The events of a lane by time.

    Raises: CaptureError for a lane that is not there.
    """
    table = profile.table
    numbers = [i for i, lane in enumerate(table.lanes) if lane.name == name]
    if not numbers:
        known = [lane.name for lane in table.lanes]
        near = closest(name, known)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
        raise CaptureError(f"the profile has no lane {name!r}", help=hint)
    stretch = profile.stretch(*(interval or (None, None))) or table.span
    # A moment at the very end is in it.
    rows = stats.spans_of(table, numbers[0], (stretch[0], stretch[1] + (interval is None)))
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


def comparison(before: Profile, after: Profile, count: int | None = None) -> Section:
    """Kernels of two profiles side by side, the largest change first."""
    rows = [
        {
            "kernel": row["name"],
            "before ns": row["total_ns"][0],
            "after ns": row["total_ns"][1],
            "after/before": "" if row["ratio"] is None else f"{row['ratio']:.2f}x",
            "runs": "/".join(map(str, row["runs"])),
        }
        for row in before.compare(after, count)
    ]
    return Section(f"{before.name} and {after.name}", rows)


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

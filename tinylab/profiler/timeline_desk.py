"""What a timeline's front end may ask: one method a question, answers in plain data and columns.

A lane's rows bear numbers of their own ("keys"), in the order in which they are drawn; windows are
asked for by key and answered in columns, see `tinylab.profiler.columns`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.near import closest
from tinylab.profiler import stats
from tinylab.profiler.collected import Profile
from tinylab.profiler.merged import Comparison
from tinylab.profiler.table import KIND, KINDS, Array, drawn_order, lane_labels
from tinylab.profiler.timeline import MOST_BYTES, Bars
from tinylab.trace import events

Json = dict[str, Any]
_MOST_ROWS = 4000
_MOST_NAMES = 4000
_MOST_MARKERS = 1000
_TOP = 100
_CURVE_BYTES = 300_000
_HITS = 300
# Colours by number: kernels by name, the rest by kind. The style sheet names them in this order.
HUES = 8
_KIND_COLOURS = ("copy", "line", "realize", "schedule", "jit", "pass", "kernel", "compile", "mark")
COLOURS = (*(f"hue-{n}" for n in range(HUES)), *(f"kind-{kind}" for kind in _KIND_COLOURS))


# Figures of a kernel that stand in tables, beside its times.
HEADLINES = ("flops", "bytes loaded", "bytes stored", "L1 misses", "cycles", "instructions")


class Place(NamedTuple):
    """What a key stands for: a lane and one of its rows; -1 for a lane of levels."""

    lane: int
    row: int


class TimelineDesk:
    """All that can be asked about one profile, or about two that are compared.

    Questions may be asked from several threads: sums of millions of events hold up no window.

    opener: takes whoever looks to a kernel of the record, (its number, "kernels" or "rewrites"),
    and gives the request a number.
    """

    def __init__(
        self, shown: Profile | Comparison, opener: Callable[[int, str], int] | None = None
    ) -> None:
        self.comparison = shown if isinstance(shown, Comparison) else None
        self.profile = profile = shown.merged if isinstance(shown, Comparison) else shown
        self.opener = opener
        self.table, self.timeline = profile.table, profile.timeline
        lanes = self.table.lanes
        self.order = [n for n in drawn_order(lanes) if lanes[n].group != "marks"]
        self.places = self._places()
        self._colours = self._colour_table()
        self._asks: dict[str, Callable[[Json], Any]] = {
            "overview": lambda args: self.overview(),
            "window": lambda args: self.window(
                args["start"], args["end"], args["columns"], args["keys"]
            ),
            "event": lambda args: self.event(args["event"]),
            "select": lambda args: self.select(args["start"], args["end"]),
            "search": lambda args: self.search(args["query"]),
            "top": lambda args: self.top(args.get("start"), args.get("end")),
            "compare": lambda args: self.compare(),
            "open": lambda args: self.open(args["kernel"], args["tab"]),
        }

    def answer(self, ask: str, args: Json | None = None, push: Any = None) -> Any:
        """The answer to one question.

        Raises: CaptureError for a question that there is not, or arguments that do not fit it.
        """
        found = self._asks.get(ask)
        if found is None:
            near = closest(ask, list(self._asks))
            raise CaptureError(
                f"nobody answers {ask!r}", help=f"did you mean {near}?" if near else None
            )
        try:
            with events.quietly():
                return found(args or {})
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CaptureError):
                raise
            raise CaptureError(f"{ask} cannot be answered for {args!r}: {error}") from None

    # *** what there is

    def _places(self) -> list[Place]:
        found: list[Place] = []
        for lane in self.order:
            if self.table.lanes[lane].levels:
                found.append(Place(lane, -1))
            else:
                found += [Place(lane, row) for row in range(self.timeline.row_count(lane))]
        return found[:_MOST_ROWS]

    def _colour_table(self) -> Array:
        """The colour of each name, for kinds whose colour is the name's."""
        hues = [zlib.crc32(name.encode()) % HUES for name in self.table.names]
        return np.array(hues or [0], np.uint8)

    def colours(self, rows: Array) -> Array:
        """The colour numbers of events."""
        kinds = self.table["kind"][rows]
        fixed = np.full(len(KINDS), 255, np.uint8)
        for number, kind in enumerate(_KIND_COLOURS):
            fixed[KIND[kind]] = HUES + number
        own = fixed[kinds]
        return np.where(own == 255, self._colours[self.table["name"][rows]], own).astype(np.uint8)

    def overview(self) -> Json:
        """All that is shown before anything is asked: lanes, markers, notices, the top kernels."""
        table = self.table
        start, end = table.span
        markers = table.markers()
        names = table.names if len(table.names) <= _MOST_NAMES else []
        return {
            "name": self.profile.name,
            "span": [start, end],
            "events": len(table),
            "lanes": self._lanes(),
            "markers": [[at, name] for at, name in markers[:_MOST_MARKERS]],
            "names": names,
            "notices": self.notices(),
            "colours": list(COLOURS),
            "top": self.top(None, None)["rows"],
            "counted": self.profile.has_counters,
            "recorded": self.profile.record is not None,
            "other": self.comparison.before.name if self.comparison is not None else None,
            "running": self.profile.running,
        }

    def _lanes(self) -> list[Json]:
        found: list[Json] = []
        for key, place in enumerate(self.places):
            if place.row > 0:
                found[-1]["rows"] += 1
                continue
            lane = self.table.lanes[place.lane]
            own = self.table.rows_of(place.lane)
            values = self.table["value"][own]
            found.append(
                {
                    "key": key,
                    "rows": 1,
                    "name": lane.name,
                    "group": lane.group,
                    "levels": lane.levels,
                    "unit": lane.unit,
                    "events": own.stop - own.start,
                    "peak": float(values.max()) if lane.levels and len(values) else None,
                    "overlapping": self.timeline.lane(place.lane).overlapping,
                }
            )
        return found

    def notices(self) -> list[str]:
        """What a reader must know: what was dropped, could not be read, is not shown."""
        found = [*self.table.notices, *self.timeline.notices()]
        rows = sum(max(1, self.timeline.row_count(lane)) for lane in self.order)
        if rows > len(self.places):
            found.append(f"{rows - len(self.places)} of {rows} rows are not drawn")
        return found

    # *** questions

    def window(self, start: float, end: float, columns: int, keys: list[int]) -> Json:
        """Bars of some rows and curves of some lanes, between two times.

        columns: lane (the key), start, end, colour, count, event, name, busy of each bar; "levels"
        the highest and "low" the lowest level of each curve and column, curve after curve.
        """
        low, high = int(start), int(np.ceil(end))
        chosen = [key for key in sorted(set(keys)) if 0 <= key < len(self.places)]
        curves = [key for key in chosen if self.places[key].row < 0]
        cut = max(1, min(columns, _CURVE_BYTES // (8 * max(1, len(curves)))))
        highest, lowest = self._curves(low, high, cut, curves)
        data = self._bars(low, high, columns, chosen, MOST_BYTES - 2 * highest.nbytes)
        data["levels"], data["low"] = highest, lowest
        return {
            "start": low,
            "end": high,
            "cut": cut,
            "exact": not bool((data["count"] > 1).any()) and not curves,
            "curves": curves,
            "names": self._names_of(data, (high - low) / columns),
            "columns": data,
        }

    def _bars(
        self, start: int, end: int, columns: int, keys: list[int], most_bytes: int
    ) -> dict[str, Array]:
        spans = {self.places[key]: key for key in keys if self.places[key].row >= 0}
        lanes = sorted({place.lane for place in spans})
        _, found = self.timeline.window(start, end, columns, lanes, set(spans), most_bytes)
        bars = [(spans[place], found[place]) for place in spans if place in found]
        bars.sort(key=lambda item: item[0])
        return self._bar_columns(bars)

    def _bar_columns(self, bars: list[tuple[int, Bars]]) -> dict[str, Array]:
        parts = [bar for _, bar in bars]
        event = np.concatenate([b.event for b in parts] or [np.zeros(0, np.int64)])
        keys = np.array([key for key, _ in bars], np.uint16)
        return {
            "lane": np.repeat(keys, [len(b) for b in parts]) if bars else keys,
            "start": np.concatenate([b.start for b in parts] or [event]).astype(np.float64),
            "end": np.concatenate([b.end for b in parts] or [event]).astype(np.float64),
            "colour": self.colours(event),
            "count": np.concatenate([b.count for b in parts] or [event]).astype(np.uint32),
            "event": event.astype(np.uint32),
            "name": self.table["name"][event],
            "busy": np.concatenate([b.busy for b in parts] or [event]).astype(np.uint8),
        }

    def _curves(self, start: int, end: int, columns: int, keys: list[int]) -> tuple[Array, Array]:
        pairs = [self.timeline.levels(start, end, columns, self.places[k].lane) for k in keys]
        none = np.zeros((0, columns), np.float32)
        highs = np.array([high for _, high in pairs], np.float32) if pairs else none
        lows = np.array([low for low, _ in pairs], np.float32) if pairs else none
        return np.nan_to_num(highs), np.nan_to_num(lows)

    def _names_of(self, data: Mapping[str, Array], step: float) -> dict[str, str]:
        """Names of the bars that have room for them, where the overview has not told them all."""
        if len(self.table.names) <= _MOST_NAMES:
            return {}
        wide = (data["end"] - data["start"]) > 8 * step
        found = np.unique(data["name"][wide])[:_MOST_NAMES].tolist()
        return {str(n): self.table.names[n][:120] for n in found}

    def event(self, event: int) -> Json:
        """One event, and the kernel of the record that it is a run of."""
        found = self.profile.event(event)
        lane = int(self.table["lane"][event])
        number = int(self.table["kernel"][event])
        known = 0 <= number < len(self.profile.facts)
        recorded = self.profile.recorded_number(self.profile.facts[number]) if known else None
        return {
            **found,
            "kind": KINDS[int(self.table["kind"][event])],
            "key": self._key_of(lane, event),
            "end_ns": found["start_ns"] + found["duration_ns"],
            "kernel": recorded,
            "counters": self._counters(number) if known else None,
            "work": self._work(number, found["duration_ns"]) if known else None,
        }

    def _counters(self, number: int) -> Json | None:
        """What was counted of a kernel: its figures and what to know of them, or why it was not."""
        if not self.profile.has_counters:
            return None
        found = self.profile.counters_of(number)
        counted = self.profile.counted
        if found is None and not counted:
            return _not_counted("nobody asked for its counters")
        if found is None and self.profile.recorded_number(self.profile.facts[number]) is None:
            return _not_counted("it was lowered before the record began")
        if found is None:
            return _not_counted(f"only the {len(counted)} kernels that took longest are")
        return {
            "figures": found.get("figures", []),
            "message": found.get("message", ""),
            "notes": found.get("notes", []),
        }

    @cached_property
    def _headlines(self) -> dict[str, list[Json]]:
        """The figures that a table of kernels has room for, by name; of twins the longest's."""
        found: dict[str, list[Json]] = {}
        if not self.profile.has_counters:
            return found
        for kernel in self.profile.kernels.values():
            counted = self.profile.counters_of(self.profile.facts.index(kernel.facts)) or {}
            by_name = {figure["name"]: figure for figure in counted.get("figures", [])}
            if by_name:
                rows = [by_name[name] for name in HEADLINES if name in by_name]
                found.setdefault(kernel.name, rows)
        return found

    def _ranked(self, stretch: tuple[int, int] | None) -> list[Json]:
        """Kernels by total time, with figures of those that were counted."""
        rows = stats.by_name(self.table, stretch, _TOP)
        for row in rows:
            if row["name"] in self._headlines:
                row["figures"] = self._headlines[row["name"]]
        return rows

    def _work(self, number: int, duration_ns: int) -> Json:
        facts, ns = self.profile.facts[number], max(1, duration_ns)
        return {
            "ops": facts.ops, "bytes": facts.mem, "gops": facts.ops / ns, "gbs": facts.mem / ns,
        }  # fmt: skip

    def _key_of(self, lane: int, event: int) -> int:
        """The row that an event is drawn in; -1 for one of a lane that is not drawn."""
        rows = self.timeline.lane(lane).rows
        for key, place in enumerate(self.places):
            if place.lane != lane:
                continue
            if place.row < 0:
                return key
            own = rows[place.row].events if rows else np.zeros(0, np.int64)
            at = int(np.searchsorted(own, event))
            if at < len(own) and own[at] == event:
                return key
        return -1

    def select(self, start: float, end: float) -> Json:
        """Sums of a stretch of time: of each lane, and of its kernels by name."""
        stretch = int(start), max(int(np.ceil(end)), int(start) + 1)
        found = stats.select(self.table, stretch)
        lanes = sorted(found.rows(), key=self._lane_rank)
        top = self._ranked(stretch)
        return {
            "start": stretch[0],
            "end": stretch[1],
            "all": found.all.row(),
            "lanes": lanes[:_TOP],
            "top": top,
        }

    def _lane_rank(self, row: Json) -> int:
        labels = lane_labels(self.table.lanes)
        return [labels[lane] for lane in self.order].index(row["lane"])

    def search(self, query: str) -> Json:
        """Events whose names hold all words of a query, by time."""
        rows, count = stats.search(self.table, str(query), _HITS)
        return {"hits": [self.event(row) for row in rows], "count": count}

    def top(self, start: float | None, end: float | None) -> Json:
        """The kernels that took longest, of all or of a stretch of time."""
        stretch = None if start is None or end is None else (int(start), int(np.ceil(end)))
        return {"rows": self._ranked(stretch)}

    def compare(self) -> Json:
        """Kernels of the other profile beside those of this one, the largest change first."""
        both = self.comparison
        if both is None:
            raise CaptureError(
                "there is nothing to compare with", help="show tinylab.profiler.compare(a, b)"
            )
        return {"names": [both.before.name, both.after.name], "rows": both.rows[:_TOP]}

    def open(self, kernel: int, tab: str) -> Json:
        """Show a kernel's opts editor or its rewrites, where there is somebody to show it to."""
        record = self.profile.record
        if record is None or self.opener is None:
            raise CaptureError(
                "there is no record beside this profile",
                help="profile with record=True, or by %%tinygrad --profile",
            )
        if not 0 <= kernel < len(record.kernels):
            raise CaptureError(f"there is no kernel {kernel}: {len(record.kernels)} are recorded")
        return {"reveal": self.opener(kernel, "rewrites" if tab == "rewrites" else "kernels")}


def _not_counted(why: str) -> Json:
    return {"figures": [], "message": f"This kernel was not counted: {why}.", "notes": []}

"""Events as columns: five million of them are 230 MB of numbers and a few names.

A lane is a line of events that belong together (a device's kernels, the lines of a cell); it holds
spans, or the levels of a quantity such as memory in use. Rows are sorted by lane, then by time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinylab.helpers.text import pluralize

Array = np.ndarray[Any, Any]

# What sort of thing an event is. Files hold these numbers: add at the end only.
KINDS = (
    "line", "realize", "schedule", "pass", "kernel", "compile", "jit",
    "run", "copy", "memory", "mark", "span", "level",
)  # fmt: skip
_GROUPS = ("cell", "compiler", "device", "memory")
KIND = {name: number for number, name in enumerate(KINDS)}
COLUMNS: dict[str, np.dtype[Any]] = {
    "lane": np.dtype("<u2"),
    "kind": np.dtype("<u1"),
    "name": np.dtype("<u4"),
    "start": np.dtype("<i8"),
    "end": np.dtype("<i8"),
    "value": np.dtype("<f8"),
    "kernel": np.dtype("<i4"),
}


@dataclass(frozen=True)
class Lane:
    """A line of events: its name, what it is part of ("device", "compiler", "cell", ...), its form.

    ``levels``: the events are levels of a quantity in ``unit``, each until the next one.
    """

    name: str
    group: str
    levels: bool = False
    unit: str = ""


def drawn_order(lanes: Sequence[Lane]) -> list[int]:
    """Lanes as they are drawn: the cell, the compiler, devices, memory, then what else there is.

    Devices stand by their names, kernels above copies, whichever was heard of first; other groups
    as they come: the first of two runs first.
    """
    groups = list(dict.fromkeys(lane.group for lane in lanes))

    def rank(number: int) -> tuple[int, int, str, int, int]:
        group, name = lanes[number].group, lanes[number].name
        known = _GROUPS.index(group) if group in _GROUPS else len(_GROUPS)
        device, _, what = name.partition(" ") if group in ("device", "memory") else ("", "", "")
        return known, groups.index(group), device, int(what == "copies"), number

    return sorted(range(len(lanes)), key=rank)


def lane_labels(lanes: Sequence[Lane]) -> list[str]:
    """A name for each lane that no other has: with its group, and a number, where that is needed.

    CPU kernels of two runs  ->  "before: CPU kernels", "after: CPU kernels"
    """
    plain = Counter(lane.name for lane in lanes)
    labels = [n.name if plain[n.name] == 1 else f"{n.group}: {n.name}" for n in lanes]
    seen: Counter[str] = Counter()
    for number, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            labels[number] = f"{label} #{seen[label]}"
    return labels


@dataclass(repr=False)
class EventTable:
    """Events by lane and time; times are nanoseconds from ``origin_ns`` on.

    `value` is bytes of a copy, the level of a quantity, 0 where there is none; `kernel` indexes the
    kernels of the profile, -1 for events of none.
    """

    lanes: list[Lane]
    names: list[str]
    columns: dict[str, Array]
    origin_ns: int = 0
    notices: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<table of {pluralize('event', len(self))} in {pluralize('lane', len(self.lanes))}>"

    @classmethod
    def build(
        cls,
        lanes: Sequence[Lane],
        names: Sequence[str],
        columns: Mapping[str, Any],
        origin_ns: int | None = None,
        notices: Sequence[str] = (),
    ) -> EventTable:
        """Columns in any order as a table: sorted, and moved to begin at zero."""
        given = {name: np.asarray(columns[name], dtype) for name, dtype in COLUMNS.items()}
        start, end = given["start"], given["end"]
        # In a lane by time; of those that begin together the longest first: it is around the rest.
        order = np.lexsort((-end, start, given["lane"]))
        table = {name: column[order] for name, column in given.items()}
        if origin_ns is None:
            origin_ns = int(start.min()) if len(start) else 0
        table["start"] -= origin_ns
        table["end"] -= origin_ns
        return cls(list(lanes), list(names), table, origin_ns, list(notices))

    def __len__(self) -> int:
        return len(self.columns["start"])

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    @property
    def span(self) -> tuple[int, int]:
        """The first start and the last end; (0, 0) where there is nothing."""
        if not len(self):
            return 0, 0
        return int(self["start"].min()), int(self["end"].max())

    def rows_of(self, lane: int) -> slice:
        """The rows of a lane."""
        first, last = np.searchsorted(self["lane"], [lane, lane + 1])
        return slice(int(first), int(last))

    def name(self, row: int) -> str:
        """What an event is called."""
        return self.names[int(self["name"][row])]

    def lane(self, row: int) -> Lane:
        """The lane of an event."""
        return self.lanes[int(self["lane"][row])]

    def named(self, words: str) -> Array:
        """The numbers of the names that hold all words, in any case."""
        wanted = words.lower().split()
        found = [i for i, n in enumerate(self.names) if all(w in n.lower() for w in wanted)]
        return np.array(found, np.uint32)

    def markers(self) -> list[tuple[int, str]]:
        """(time, name) of the moments that were marked, in order."""
        rows = np.flatnonzero(self["kind"] == KIND["mark"])
        rows = rows[np.argsort(self["start"][rows], kind="stable")]
        return [(int(self["start"][r]), self.name(r)) for r in rows.tolist()]

    def arrays(self) -> dict[str, Array]:
        """A row an event in numpy columns, times in nanoseconds from the beginning."""
        names = np.array(self.names or [""], object)
        lanes = np.array([lane.name for lane in self.lanes] or [""], object)
        return {
            "kind": np.array(KINDS, object)[self["kind"]],
            "name": names[self["name"]] if len(self) else names[:0],
            "lane": lanes[self["lane"]] if len(self) else lanes[:0],
            "start_ns": self["start"],
            "duration_ns": self["end"] - self["start"],
            "value": self["value"],
        }

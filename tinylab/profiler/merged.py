"""Two profiles side by side: both runs from their beginnings on, lanes of each under its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinylab.helpers.arguments import explained
from tinylab.helpers.text import pluralize
from tinylab.profiler.collected import Profile
from tinylab.profiler.recorder import KernelFacts
from tinylab.profiler.table import EventTable, Lane, drawn_order


class Comparison:
    """Two runs in one picture; `rows` are their kernels, the largest change first."""

    def __init__(self, before: Profile, after: Profile) -> None:
        self.before, self.after = before, after
        self.merged = merge(before, after)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Kernels of both by name: runs, total and mean time, change, ratio."""
        return self.before.compare(self.after)

    def __repr__(self) -> str:
        rows = self.rows
        change = sum(row["change_ns"] for row in rows) / 1e6
        return f"<comparison of {pluralize('kernel', len(rows))}: {change:+.2f} ms>"


@explained
def compare(before: Profile, after: Profile) -> Comparison:
    """Two profiles in one timeline, and their kernels as a table; shows in a notebook."""
    return Comparison(before, after)


def merge(before: Profile, after: Profile) -> Profile:
    """One profile of both, each from its first event on; groups of lanes bear the run's name."""
    lanes: list[Lane] = []
    names: dict[str, int] = {}
    facts: list[KernelFacts] = []
    known: dict[tuple[str, str, str], int] = {}
    parts = []

    def number_of(kernel: KernelFacts) -> int:
        """Its number among those of both runs: a program that both ran is one."""
        key = (kernel.name, kernel.device, kernel.origin)
        if kernel.origin and key in known:
            return known[key]
        known[key] = len(facts)
        facts.append(kernel)
        return known[key]

    titles = [before.name, after.name]
    if titles[0] == titles[1]:
        titles = [f"{titles[0]}, before", f"{titles[1]}, after"]
    for profile, title in zip((before, after), titles, strict=True):
        table = profile.table
        numbers = np.array([names.setdefault(n, len(names)) for n in table.names] or [0], np.uint32)
        start = table.span[0]
        part = dict(table.columns)
        order = drawn_order(table.lanes)
        part["lane"] = np.argsort(order)[part["lane"]] + len(lanes) if order else part["lane"]
        part["name"] = numbers[part["name"]]
        own = np.array([*map(number_of, profile.facts), -1], np.int32)
        part["kernel"] = own[part["kernel"]]
        part["start"], part["end"] = part["start"] - start, part["end"] - start
        parts.append(part)
        lanes += [
            Lane(n.name, n.group if n.group == "marks" else title, n.levels, n.unit)
            for n in (table.lanes[i] for i in order)
        ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    notices = [*before.table.notices, *after.table.notices]
    table = EventTable.build(lanes, list(names), columns, 0, notices)
    return Profile(" and ".join(titles), None, table, facts)

"""Searching a record: ops and labels of nodes, names of rules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tinylab.lab.graph import Json, shown_sizes
from tinylab.trace.record import PassRecord, Record

if TYPE_CHECKING:
    from tinylab.lab.steps import Steps

HITS_A_PAGE = 200
_SOURCES_SHOWN = 3


class Search:
    """What one query found so far.

    The same node stands in pass after pass: it is one hit, at the first place of its stage.
    """

    def __init__(self, steps: Steps, wanted: str, each_match: bool) -> None:
        self.hits: list[Json] = []
        self.full = False
        self._steps = steps
        self._nodes = steps.nodes
        self._wanted = wanted
        self._each_match = each_match
        self._of_node: dict[tuple[str, int | None, int], Json] = {}
        self._fits: dict[int, bool] = {}  # a rule, by number
        self._below: dict[int, list[int]] = {}  # a root -> the nodes under it that fit

    def look_into(self, shown: PassRecord) -> bool:
        """Add what a pass holds; False when the page is full."""
        self._look_for_rules(shown)
        self._look_for_nodes(shown)
        return not self.full

    def _add(self, hit: Json) -> None:
        self.full = len(self.hits) >= HITS_A_PAGE
        if not self.full:
            self.hits.append(hit)

    def _look_for_rules(self, shown: PassRecord) -> None:
        rules, _, after, _ = shown.columns()
        for number in set(rules):
            if number not in self._fits:
                self._fits[number] = self._wanted in self._steps.rule(number).name.lower()
        times = Counter(number for number in rules if self._fits[number])
        for k, number in enumerate(rules, 1):
            if self.full or number not in times:
                continue
            rule = self._steps.rule(number)
            matches = 1 if self._each_match else times.pop(number)
            hit = {"pass": shown.id, "k": k, "node": after[k - 1], "label": rule.name}
            words = self._words(after[k - 1]) if self._each_match else rule.law
            self._add({**hit, "matches": matches, "detail": words})

    def _look_for_nodes(self, shown: PassRecord) -> None:
        # What a pass without matches made is seen where the next pass begins.
        ends = [(0, shown.root_before)]
        if shown.count and shown.root_after is not None:
            ends.append((shown.count, shown.root_after))
        counted: set[int] = set()
        for k, root in ends:
            for node in self._fitting(root):
                if node not in counted and not self.full:
                    counted.add(node)
                    self._count(shown, k, node)

    def _count(self, shown: PassRecord, k: int, node: int) -> None:
        key = (shown.stage, shown.kernel, node)
        known = self._of_node.get(key)
        if known is not None:
            known["passes"] += 1
            return
        hit = {"pass": shown.id, "k": k, "node": node, "label": self._nodes.label(node)}
        self._of_node[key] = {**hit, "passes": 1, "detail": self._words(node)}
        self._add(self._of_node[key])

    def _words(self, node: int) -> str:
        """What tells a node from others of its op: "%8 · float32 (64, 64) · of RESHAPE"."""
        nodes = self._nodes
        dtype, shape = nodes.facts(node).dtype, nodes.shape(node)
        sizes = f"({', '.join(shown_sizes(shape))})" if shape else ""
        src = [nodes.label(n) for n in nodes.table.src(node)[: _SOURCES_SHOWN + 1]]
        if len(src) > _SOURCES_SHOWN:
            src[_SOURCES_SHOWN:] = ["…"]
        type_ = " ".join(part for part in ("" if dtype == "void" else dtype, sizes) if part)
        parts = (f"%{node}", type_, f"of {', '.join(src)}" if src else "")
        return " · ".join(part for part in parts if part)

    def _fitting(self, root: int) -> list[int]:
        found = self._below.get(root)
        if found is None:
            walk = self._nodes.table.walk(root)
            found = [n for n in walk if self._wanted in self._nodes.label(n).lower()]
            self._below[root] = found
        return found


def wrappers(record: Record) -> dict[int, int | None]:
    """Passes that are no more than another one of their name, which stands for them: their parents.

    A pass that is a function may do its work by one table, which is a pass too.
    """
    found: dict[int, int | None] = {}
    for each in record.passes:
        outer = record.passes[each.parent] if each.parent is not None else None
        if outer is None or outer.name != each.name or outer.count or outer.id in found:
            continue
        if (outer.root_before, outer.root_after) == (each.root_before, each.root_after):
            found[outer.id] = outer.parent
    return found

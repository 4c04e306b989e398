"""Stepping through a pass: the graph at any match, as a difference to what a front end shows."""

from __future__ import annotations

import difflib
import time
from typing import Any

from tinylab.errors import LabError
from tinylab.lab.graph import Json, Nodes
from tinylab.lab.search import Search, wrappers
from tinylab.trace.facts import RuleFacts, rule_facts
from tinylab.trace.lineage import Lineage
from tinylab.trace.record import PassRecord, Record
from tinylab.trace.replay import Graph, Replay

# Rows in one answer: a message well under 1 MB, made in half the time that a step may take.
NODES_A_PAGE = 1200
LINES_A_PAGE = 4000
_SEARCH_SECONDS = 0.25
_REPLAYS_KEPT = 4
_DIFF_LINES = 3000


class Steps:
    """The steps of all passes of a record."""

    def __init__(self, record: Record, nodes: Nodes, lineage: Lineage) -> None:
        self.record = record
        self.nodes = nodes
        self.lineage = lineage
        self._replays: dict[int, Replay] = {}
        self._rules: dict[int, RuleFacts] = {}

    # *** what is asked for

    def step(self, pass_id: int, k: int, base: Json | None = None) -> Json:
        """The graph after match k; with `base` ({pass, k}) only what differs from that graph."""
        replay = self.replay(pass_id)
        k = self._in_range(replay, k)
        graph = replay.step(k)
        before = self._base(base)
        fresh = [n for n in graph.order if n not in before] if before else graph.order
        shown = set(graph.order)
        answer: Json = {
            "pass": pass_id,
            "k": k,
            "total": replay.count,
            "rule": None,
            "before": None,
            "after": None,
            "full": not before,
            "nodes": self._rows(fresh[:NODES_A_PAGE], pass_id),
            "more": len(fresh) > NODES_A_PAGE,
            "count": len(graph.order),
            "removed": [n for n in before if n not in shown],
            "root": graph.root,
            "added": [],
            "gone": [],
            "ancestors": [],
            "failed": self.failure(pass_id) if k == replay.count else None,
        }
        if k:
            answer.update(self._match(replay, k, graph, shown, pass_id))
        return answer

    def more_nodes(self, pass_id: int, k: int, after: int, base: Json | None = None) -> Json:
        """The next page of a step's nodes."""
        replay = self.replay(pass_id)
        order = replay.step(self._in_range(replay, k)).order
        before = self._base(base)
        fresh = [n for n in order if n not in before] if before else order
        page = fresh[after : after + NODES_A_PAGE]
        return {"nodes": self._rows(page, pass_id), "more": len(fresh) > after + NODES_A_PAGE}

    def text(self, pass_id: int, k: int, after: int = 0) -> Json:
        """The graph after match k as text, and the lines that differ from the step before."""
        replay = self.replay(pass_id)
        k = self._in_range(replay, k)
        now = self._text(replay, k)
        before = self._text(replay, k - 1) if k else now
        old = {text for text, _ in before}
        lines = [
            {"text": text, "node": node, "mark": "" if text in old else "+"}
            for text, node in now[after : after + LINES_A_PAGE]
        ]
        diff = _difference([t for t, _ in before], [t for t, _ in now])
        return {"lines": lines, "diff": diff, "more": len(now) > after + LINES_A_PAGE}

    def search(self, query: str, pass_id: int | None = None) -> Json:
        """Where an op, a rule or a label contains the query, in one pass or in all.

        A node is found once in a stage, where it first stands; `passes` counts the passes that it
        is in. Of a rule each match is found in one pass; in all passes the first of each pass.
        """
        wanted = query.strip().lower()
        if not wanted:
            return {"hits": [], "more": False}
        found = Search(self, wanted, each_match=pass_id is not None)
        outer = wrappers(self.record) if pass_id is None else {}
        passes = [p for p in self.record.passes if p.id not in outer]
        if pass_id is not None:
            passes = [self.info(pass_id)]
        until = time.monotonic() + _SEARCH_SECONDS
        for each in passes:
            if not found.look_into(each) or time.monotonic() > until:
                return {"hits": found.hits, "more": each is not passes[-1] or found.full}
        return {"hits": found.hits, "more": False}

    def rule(self, number: int) -> RuleFacts:
        """A rule in words; read from its source once."""
        found = self._rules.get(number)
        if found is None:
            found = self._rules[number] = rule_facts(self.record.rules[number])
        return found

    def replay(self, pass_id: int) -> Replay:
        """The steps of one pass; the last few passes are kept ready."""
        found = self._replays.pop(pass_id, None) or self._opened(pass_id)
        self._replays[pass_id] = found
        while len(self._replays) > _REPLAYS_KEPT:
            del self._replays[next(iter(self._replays))]
        return found

    def _opened(self, pass_id: int) -> Replay:
        """A pass with the shapes of its first and last graph, which any step may ask for."""
        shown = self.info(pass_id)
        for root in (shown.root_before, shown.root_after):
            if root is not None:
                self.record.nodes.shape(root)
        return Replay(self.record.nodes, shown)

    # *** parts of the answers

    def info(self, pass_id: Any) -> PassRecord:
        """A pass by id.

        Raises: LabError if there is none.
        """
        if not isinstance(pass_id, int) or not 0 <= pass_id < len(self.record.passes):
            count = len(self.record.passes)
            raise LabError(f"there is no pass {pass_id}: the record has {count}")
        return self.record.passes[pass_id]

    @staticmethod
    def _in_range(replay: Replay, k: int) -> int:
        return min(max(0, int(k)), replay.count)

    def _base(self, base: Json | None) -> dict[int, None]:
        if not base:
            return {}
        replay = self.replay(base["pass"])
        return dict.fromkeys(replay.step(self._in_range(replay, base["k"])).order)

    def _rows(self, order: list[int], pass_id: int) -> list[Json]:
        return [self.nodes.row(n, self.lineage, pass_id) for n in order]

    def _match(self, replay: Replay, k: int, graph: Graph, shown: set[int], pass_id: int) -> Json:
        """What match k did: its rule, the node before and after, what came and what went."""
        change = replay.change(k)
        gone, added = set(change.gone), set(change.added)
        had = (shown - added) | gone
        facts = self.rule(replay.rules[k - 1])
        ancestors = [
            [was, graph.image[node]]
            for node, was in change.image.items()
            if was in gone and _is_rebuilt(self.nodes, was, graph.image.get(node))
        ]
        return {
            "rule": {**facts._asdict(), "elapsed_us": replay.elapsed_ns[k - 1] / 1000},
            "before": _shown(change.image, had, replay.before[k - 1]),
            "after": _shown(graph.image, shown, replay.after[k - 1], replay.before[k - 1]),
            "added": change.added,
            "gone": self._rows(change.gone[:NODES_A_PAGE], pass_id),
            "ancestors": ancestors,
        }

    def failure(self, pass_id: int) -> Json | None:
        """The rule that raised after the last match, and the node that it was tried on."""
        shown = self.info(pass_id)
        if shown.error is None:
            return None
        rule, node = shown.failed_rule, shown.failed_node
        graph = self.replay(pass_id).step(shown.count)
        return {
            "message": shown.error,
            "rule": None if rule is None else self.rule(rule)._asdict(),
            "node": None if node is None else _shown(graph.image, set(graph.order), node),
        }

    def _text(self, replay: Replay, k: int) -> list[tuple[str, int]]:
        """A step as lines; a node that was only rebuilt keeps the name it had at the start."""
        graph = replay.step(k)
        heads = self.record.nodes.head_of
        name: dict[int, int] = {}
        for node, now in graph.image.items():
            if now != node and heads[now] == heads[node]:
                name.setdefault(now, node)
        return self.nodes.text(graph.order, name)


def _shown(image: dict[int, int], drawn: set[int], node: int, was: int | None = None) -> int:
    """The node of a match as it stands in the graph.

    Root first, a rule may see a node whose sources were replaced already on the way through
    another parent: in the graph stands what it was rebuilt to.
    """
    if node in drawn:
        return node
    found = image.get(node)
    if found is None and was is not None:
        found = image.get(was)
    return node if found is None else found


def _is_rebuilt(nodes: Nodes, was: int, now: int | None) -> bool:
    """Whether a node is the one it was, with other sources."""
    if now is None or was == now:
        return False
    old, new = nodes.facts(was), nodes.facts(now)
    return (old.op, old.arg) == (new.op, new.arg)


def _difference(old: list[str], new: list[str]) -> list[Json]:
    """The lines that went and came, with one line around each change.

    A line that only stands in another place, since what uses it was reordered, is no change.
    """
    if old == new:
        return []
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if start is None:
        start = min(len(old), len(new))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if len(a) + len(b) > _DIFF_LINES:  # quadratic in the worst case
        a, b = [t for t in a if t not in set(b)], [t for t in b if t not in set(a)]
        return [{"text": t, "mark": "-"} for t in a] + [{"text": t, "mark": "+"} for t in b]
    lines = _unified(a, b)
    moved = {t for t, mark in lines if mark == "-"} & {t for t, mark in lines if mark == "+"}
    if moved:
        lines = _unified([t for t in a if t not in moved], [t for t in b if t not in moved])
    return [{"text": text, "mark": mark} for text, mark in lines]


def _unified(a: list[str], b: list[str]) -> list[tuple[str, str]]:
    """(line, "-" or "+" or "") of a difference."""
    lines = list(difflib.unified_diff(a, b, n=1, lineterm=""))[2:]
    return [(line[1:], line[0].strip()) for line in lines if not line.startswith("@@")]

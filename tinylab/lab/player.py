"""A record as data that a page can step through by itself, and the script that does it.

All steps of a pass share one table of nodes, so a step is a root and a match. Passes that would
take too long or too much room keep their first and last graph only.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinylab.lab.desk import Desk, desk_of
from tinylab.lab.graph import Json
from tinylab.trace.record import PassRecord, Record

BUNDLE = "debugger.js"
_SCRIPT = Path(__file__).with_name("player.js")
_MOST_NODES = 150_000
_SECONDS = 20.0


def player(records: Sequence[Record]) -> str:
    """The scripts that make a page's records live; nothing where no bundle is installed."""
    bundle = find_bundle()
    if bundle is None or not records:
        return ""
    data = json.dumps([Book(record).data() for record in records], separators=(",", ":"))
    return (
        f'<script type="text/plain" id="tinylab-code">{_packed(bundle.read_text("utf-8"))}</script>'
        f'<script type="text/plain" id="tinylab-data">{_packed(data)}</script>'
        f"<script>{_SCRIPT.read_text('utf-8')}</script>"
    )


def find_bundle() -> Path | None:
    """The front end's bundle, if it is installed; its package is not imported."""
    spec = importlib.util.find_spec("tinylab_widgets")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "static" / BUNDLE
        if path.is_file():
            return path
    return None


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


class Book:
    """All answers about one record, as far as they fit."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.desk: Desk = desk_of(record)
        self.roots: set[int] = set()
        self.met: set[int] = set()  # passes whose origins are in `lines_of`
        self.lines_of: dict[int, list[int]] = {}

    def data(self) -> Json:
        """The book as plain data, see player.js for its form."""
        passes = {p.id: self._states(p) for p in self._by_size()}
        nodes, heads, shapes, lines = self._nodes()
        first = self.desk.first()
        return {
            "overview": self.desk.overview(),
            "first": None if first is None or first["more"] else first,
            "passes": {p.id: passes[p.id] for p in self.record.passes},
            "rules": [self.desk.steps.rule(i)._asdict() for i in range(len(self.record.rules))],
            "kernels": {
                k.id: self.desk.kernels.detail(k.id, self.desk.bench.history(k.id))
                for k in self.record.kernels
            },
            "nodes": nodes,
            "heads": heads,
            "shapes": shapes,
            "lines": lines,
        }

    def _by_size(self) -> list[PassRecord]:
        """Passes in the order in which they get room: what costs little first."""
        self._until = time.monotonic() + _SECONDS
        size = self.record.nodes.size
        return sorted(self.record.passes, key=lambda p: (p.count + 1) * size(p.root_before))

    def _states(self, shown: PassRecord) -> list[list[Any] | None]:
        """A row per step: root, rule, node before, node after, time in us; None where left out."""
        replay = self.desk.steps.replay(shown.id)
        rooms = len(self.record.nodes) < _MOST_NODES and time.monotonic() < self._until
        states: list[list[Any] | None] = []
        for k in range(shown.count + 1):
            if not rooms and 0 < k < shown.count:
                states.append(None)
                continue
            root = replay.root(k)
            self._meet(root, shown)
            match = [replay.rules[k - 1], replay.before[k - 1], replay.after[k - 1],
                     replay.elapsed_ns[k - 1] / 1000] if k else []  # fmt: skip
            states.append([root, *match])
        return states

    def _meet(self, root: int, shown: PassRecord) -> None:
        self.roots.add(root)
        known = self.desk.lineage.of_pass(shown.id)
        if known and shown.id not in self.met:
            self.met.add(shown.id)
            for node, bits in known.items():
                if bits and node not in self.lines_of:
                    self.lines_of[node] = self.desk.lineage.lines(bits)

    def _nodes(self) -> tuple[list[list[int]], list[Any], list[Any], list[Any]]:
        """Rows [id, head, shape, lines, *sources] for all nodes met, and the three tables."""
        words, table = self.desk.nodes, self.record.nodes
        wanted = self._below(self.roots)
        heads: dict[Any, int] = {}
        shapes: dict[Any, int] = {}
        lines: dict[Any, int] = {(): 0}
        rows = []
        for node in sorted(wanted):
            facts = words.facts(node)
            head = (
                facts.op,
                words.label(node),
                facts.arg,
                facts.dtype,
                facts.kind,
                facts.tag or None,
            )
            shape = table.shape(node)
            origin = tuple(self.lines_of.get(node, ()))
            rows.append(
                [
                    node,
                    heads.setdefault(head, len(heads)),
                    shapes.setdefault(shape, len(shapes)),
                    lines.setdefault(origin, len(lines)),
                    *table.src(node),
                ]
            )
        texts = [None if s is None else [str(size) for size in s] for s in shapes]
        return rows, list(heads), texts, list(lines)

    def _below(self, roots: set[int]) -> set[int]:
        src = self.record.nodes.src
        seen, stack = set(roots), list(roots)
        while stack:
            below = [s for s in src(stack.pop()) if s not in seen]
            seen.update(below)
            stack.extend(below)
        return seen

"""A record as data that a page can step through by itself, and the script that does it.

The page replays matches as `trace.replay` does, so that it holds no graph but rows of nodes.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinylab.lab.desk import Desk, desk_of
from tinylab.lab.graph import Json
from tinylab.trace.record import PassRecord, Record

BUNDLE = "debugger.js"
_SCRIPT = Path(__file__).with_name("player.js")


def player(records: Sequence[Record]) -> str:
    """The scripts that make a page's records live; nothing where no bundle is installed."""
    bundle = find_bundle()
    if bundle is None or not records:
        return ""
    # Records of cells that computed nothing have a place too, so that numbers stay what they are.
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
    """A record as rows of nodes and matches of passes, from which a page replays every step."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.desk: Desk = desk_of(record)
        self.roots: set[int] = set()
        self.lines_of: dict[int, list[int]] = {}

    def data(self) -> Json:
        """The book as plain data, see player.js for its form."""
        desk, record = self.desk, self.record
        passes = {p.id: self._pass(p) for p in record.passes}
        nodes, heads, shapes, lines = self._nodes()
        first = desk.first()
        return {
            "overview": desk.overview(),
            "first": None if first is None or first["more"] else first,
            "passes": passes,
            "rules": [desk.steps.rule(i)._asdict() for i in range(len(record.rules))],
            "kernels": {
                k.id: desk.kernels.detail(k.id, desk.bench.history(k.id)) for k in record.kernels
            },
            "nodes": nodes,
            "heads": heads,
            "shapes": shapes,
            "lines": lines,
        }

    def _pass(self, shown: PassRecord) -> Json:
        rules, before, after, elapsed_ns = shown.columns()
        self.roots |= {shown.root_before, *before, *after}
        for node, bits in self.desk.lineage.of_pass(shown.id).items():
            if bits and node not in self.lines_of:
                self.lines_of[node] = self.desk.lineage.lines(bits)
        return {
            "root": shown.root_before,
            "bottomUp": shown.bottom_up,
            "walk": shown.walk,
            "enterCalls": shown.enter_calls,
            "rule": rules,
            "before": before,
            "after": after,
            "us": [round(ns / 1000, 2) for ns in elapsed_ns],
            "failed": self.desk.steps.failure(shown.id) if shown.error is not None else None,
        }

    def _nodes(self) -> tuple[list[list[int]], list[Any], list[Any], list[Any]]:
        """Rows [id, head, shape, lines, *sources] for all nodes, and the three tables."""
        words, table = self.desk.nodes, self.record.nodes
        heads: dict[Any, int] = {}
        shapes: dict[Any, int] = {}
        lines: dict[Any, int] = {(): 0}
        rows = []
        for node in sorted(self._below(self.roots)):
            facts = words.facts(node)
            head = (facts.op, facts.label, facts.arg, facts.dtype, facts.kind, facts.tag or None)
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

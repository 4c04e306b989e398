"""Nodes as a front end gets them: plain data, raw text, small integers for ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinylab.trace.facts import HeadFacts, head_facts
from tinylab.trace.lineage import Lineage
from tinylab.trace.nodes import NodeTable

Json = dict[str, Any]

_ROWS_KEPT = 50_000

# Kept rows are tuples of numbers and texts, and rows that are sent are dicts of those: the garbage
# collector does not look at either. Lists in them made it stop, now and then, for longer than the
# answer takes.
_Row = tuple[str, str, str, str, tuple[str, ...] | None, tuple[int, ...], str, str | None]


class Nodes:
    """Rows of a node table in words; the words of each head are found once."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._facts: dict[int, HeadFacts] = {}
        self._rows: dict[int, _Row] = {}  # of the latest nodes, without their lines

    def facts(self, node: int) -> HeadFacts:
        """What a node is apart from its sources."""
        head = self.table.head_of[node]
        found = self._facts.get(head)
        if found is None:
            found = self._facts[head] = head_facts(self.table.heads[head])
        return found

    def label(self, node: int) -> str:
        """A few words for the node's box: "RANGE 0 REDUCE x64", "CONST 1.5", "ADD"."""
        facts = self.facts(node)
        if facts.op in ("RANGE", "SPECIAL") and len(self.table.src(node)):
            size = self.facts(self.table.src(node)[0])
            if size.op == "CONST":
                return f"{facts.label} x{size.arg}"
        return facts.label

    def shape(self, node: int) -> list[str] | None:
        """The sizes as text; None for a node that is no value."""
        shape = self.table.shape(node)
        return None if shape is None else [str(s) for s in shape]

    def row(self, node: int, lineage: Lineage | None = None, pass_id: int = 0) -> Json:
        """One node for a front end."""
        found = self._rows.get(node)
        if found is None:
            found = self._kept_row(node)
        op, label, arg, dtype, shape, src, kind, tag = found
        return {
            "id": node,
            "op": op,
            "label": label,
            "arg": arg,
            "dtype": dtype,
            "shape": shape,
            "src": src,
            "kind": kind,
            "tag": tag,
            "lines": lineage.node_lines(pass_id, node) if lineage else (),
        }

    def _kept_row(self, node: int) -> _Row:
        if len(self._rows) >= _ROWS_KEPT:
            self._rows.clear()
        op, dtype, arg, tag, label, kind = self.facts(node)
        shape = self.table.shape(node)
        words = None if shape is None else tuple([str(size) for size in shape])
        if op in ("RANGE", "SPECIAL"):
            label = self.label(node)
        src = tuple(self.table.src(node))
        row = self._rows[node] = (op, label, arg, dtype, words, src, kind, tag or None)
        return row

    def text(self, order: Iterable[int], name: dict[int, int]) -> list[tuple[str, int]]:
        """A graph as lines, sources first: ("%7 = ADD(%3, %5) float32 (8,)", node)."""
        return [(self.line(node, name), node) for node in order]

    def line(self, node: int, name: dict[int, int]) -> str:
        """One line; `name` gives nodes the name under which they were met before."""
        facts = self.facts(node)
        src = ", ".join(f"%{name.get(s, s)}" for s in self.table.src(node))
        arg = f" [{facts.arg}]" if facts.arg else ""
        dtype = "" if facts.dtype == "void" else f" {facts.dtype}"
        shape = self.shape(node)
        shown = f" ({', '.join(shown_sizes(shape))})" if shape else ""
        return f"%{name.get(node, node)} = {facts.op}({src}){arg}{dtype}{shown}"


def shown_sizes(shape: list[str]) -> list[str]:
    """The sizes of a shape, shortened where it has very many axes."""
    return shape if len(shape) <= 12 else [*shape[:11], "…"]

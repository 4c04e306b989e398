"""The nodes that a record met, as rows of integers: (head, sources), each distinct node once.

A head is what a node is apart from its sources: (op, dtype, arg, tag). A node's id is its row, so
the same UOp has the same id in every pass, also after it died and was made again. Viewers read rows
and never build UOps.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

# References to UOps that are kept between passes so that a node is looked up once, not once per
# pass; above this many they are dropped, and rows are found again by their content.
MEMO_LIMIT = 100_000


class Head(NamedTuple):
    """What a node is apart from its sources; `arg` and `tag` are text once it came from a file."""

    op: Ops
    dtype: Any
    arg: Any
    tag: Any


class NodeTable:
    """Rows of nodes; grows while recording and, by rebuilt ancestors, while stepping."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.shapes: list[tuple[Any, ...] | None] = [None]
        self.head_of = array("I")
        self.shape_of = array("I")
        self.ends = array("I")  # where a node's sources end in `sources`
        self.sources = array("I")
        self.lock = threading.RLock()
        self._rows: dict[tuple[int, ...], int] | None = {}
        self._head_index: dict[tuple[Any, ...], int] = {}
        self._shape_index: dict[tuple[Any, ...] | None, int] = {None: 0}
        self._memo: dict[UOp, int] = {}

    def __len__(self) -> int:
        return len(self.head_of)

    # *** writing

    def add(self, root: UOp) -> int:
        """The id of a node; rows for it and for all that it is made of are added as needed."""
        memo = self._memo
        found = memo.get(root)
        if found is not None:
            return found
        with self.lock:
            stack = [root]
            while stack:
                node = stack[-1]
                if node in memo:
                    stack.pop()
                    continue
                missing = [s for s in node.src if s not in memo]
                if missing:
                    stack.extend(missing)
                    continue
                stack.pop()
                memo[node] = self._row_of(node)
            return memo[root]

    def _row_of(self, node: UOp) -> int:
        memo = self._memo
        head = self.head_id(Head(node.op, node.dtype, node.arg, node.tag))
        key = (head, *[memo[s] for s in node.src])
        rows = self.rows
        row = rows.get(key)
        return self._append(key, self.shape_id(_shape(node))) if row is None else row

    def row(self, head: int, sources: Iterable[int], shape: int) -> int:
        """The id of the node with this head and these sources."""
        key = (head, *sources)
        row = self.rows.get(key)
        if row is not None:
            return row
        with self.lock:
            return self._append(key, shape)

    def _append(self, key: tuple[int, ...], shape: int) -> int:
        row = len(self.head_of)
        self.rows[key] = row
        self.head_of.append(key[0])
        self.shape_of.append(shape)
        self.sources.extend(key[1:])
        self.ends.append(len(self.sources))
        return row

    def head_id(self, head: Head) -> int:
        """The number of a head; new ones are added."""
        # The type is part of the key: True, 1 and 1.0 are equal to Python and are not to us.
        key = (head.op, head.dtype, type(head.arg), head.arg, head.tag)
        found = self._head_index.get(key)
        if found is None:
            found = self._head_index[key] = len(self.heads)
            self.heads.append(head)
        return found

    def shape_id(self, shape: tuple[Any, ...] | None) -> int:
        """The number of a shape; 0 is "has none"."""
        found = self._shape_index.get(shape)
        if found is None:
            found = self._shape_index[shape] = len(self.shapes)
            self.shapes.append(shape)
        return found

    def forget_uops(self, limit: int = 0) -> None:
        """Drop the references to UOps if there are more than `limit`."""
        if len(self._memo) > limit:
            with self.lock:
                self._memo.clear()

    def close(self) -> None:
        """Drop what only recording needs; rows are indexed anew if a viewer asks."""
        self.forget_uops()
        with self.lock:
            self._rows = None

    # *** reading

    @property
    def rows(self) -> dict[tuple[int, ...], int]:
        """(head, *sources) -> id."""
        rows = self._rows
        if rows is None:
            with self.lock:
                rows = self._rows = self._index_rows()
        return rows

    def _index_rows(self) -> dict[tuple[int, ...], int]:
        sources, start, rows = self.sources.tolist(), 0, {}
        for row, (head, end) in enumerate(zip(self.head_of, self.ends, strict=True)):
            rows[(head, *sources[start:end])] = row
            start = end
        return rows

    def src(self, node: int) -> array[int]:
        """Ids of a node's sources, in order."""
        return self.sources[self.ends[node - 1] if node else 0 : self.ends[node]]

    def head(self, node: int) -> Head:
        """What the node is apart from its sources."""
        return self.heads[self.head_of[node]]

    def shape(self, node: int) -> tuple[Any, ...] | None:
        """The node's shape; sizes are ints or, where symbolic, text."""
        return self.shapes[self.shape_of[node]]

    def walk(self, root: int, enter_calls: bool = True) -> list[int]:
        """All nodes under a root, sources first, the root last."""
        ends, sources, head_of, heads = self.ends, self.sources, self.head_of, self.heads
        order: list[int] = []
        seen: set[int] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if node < 0:
                order.append(~node)
                continue
            if node in seen:
                continue
            seen.add(node)
            stack.append(~node)
            below = sources[ends[node - 1] if node else 0 : ends[node]]
            if not enter_calls and heads[head_of[node]].op in CALLS:
                below = below[1:]
            stack.extend(reversed(below))
        return order

    def find(self, ops: frozenset[Ops]) -> Iterator[int]:
        """Ids of all nodes with one of these ops."""
        wanted = {i for i, head in enumerate(self.heads) if head.op in ops}
        return (node for node, head in enumerate(self.head_of) if head in wanted)


CALLS = frozenset({Ops.CALL, Ops.FUNCTION})


def _shape(node: UOp) -> tuple[Any, ...] | None:
    """The shape with symbolic sizes as text, so that no node is kept alive by it."""
    try:
        shape = node._shape
    except Exception:  # a malformed graph has no shape; the record shows it all the same
        return None
    if shape is None:
        return None
    return tuple(s if isinstance(s, int) else s.render(simplify=False) for s in shape)

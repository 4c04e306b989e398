"""The nodes that a record met, as rows of integers: (head, sources), each distinct node once.

A head is what a node is apart from its sources: (op, dtype, arg, tag). A node's id is its row, so
the same UOp has the same id in every pass, also after it died and was made again. Viewers read rows
and never build UOps.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tinylab.opcodes import Ops
from tinylab.trace.shapes import Shapes
from tinylab.uop.ops import UOp

# References to UOps that are kept between passes so that a node is looked up once, not once per
# pass; above this many they are dropped, and rows are found again by their content.
MEMO_LIMIT = 100_000
CALLS = frozenset({Ops.CALL, Ops.FUNCTION})


# A node in one integer, or in bytes where it has many sources. Neither is looked at by the garbage
# collector, as tuples would be: recording is a tenth faster for it.
_Key = int | bytes


class Head(NamedTuple):
    """What a node is apart from its sources; all but `op` is text once it came from a file."""

    op: Ops
    dtype: Any
    arg: Any
    tag: Any


class NodeTable:
    """Rows of nodes; grows while recording and, by rebuilt ancestors, while stepping."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.head_of = array("I")
        self.ends = array("I")  # where a node's sources end in `sources`
        self.sources = array("I")
        self.lock = threading.RLock()
        self._rows: dict[_Key, int] | None = {}
        self._head_index: dict[tuple[Any, ...], int] = {}
        self._plain_heads: dict[tuple[Ops, Any], int] = {}
        self._memo: dict[UOp, int] = {}
        self._shapes = Shapes(self)
        self._sizes: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.head_of)

    # *** writing

    # Inlined heads, keys and rows: half of what recording costs is here. Twice as fast.
    def add(self, root: UOp) -> int:
        """The id of a node; rows for it and for all that it is made of are added as needed."""
        memo = self._memo
        found = memo.get(root)
        if found is not None:
            return found
        with self.lock:
            rows, heads, plain = self.rows, self._head_index, self._plain_heads
            head_of, sources, ends = self.head_of, self.sources, self.ends
            id_of = memo.__getitem__
            for node in _unmet(root, memo):
                op, dtype, arg, tag = node.op, node.dtype, node.arg, node.tag
                if arg is None and tag is None:
                    # Most nodes: found by identity, which spares hashing a record.
                    head = plain.get((op, dtype))
                else:
                    head = heads.get((op, dtype, type(arg), arg, tag))
                if head is None:
                    head = self.head_id(Head(op, dtype, arg, tag))
                src: Sequence[int] = [*map(id_of, node.src)]
                if len(src) == 2:
                    key: _Key = head | src[0] + 1 << 32 | src[1] + 1 << 64
                else:
                    key = _key(head, src)
                row = rows.get(key)
                if row is None:
                    row = rows[key] = len(ends)
                    head_of.append(head)
                    sources.extend(src)
                    ends.append(len(sources))
                memo[node] = row
            return memo[root]

    def known(self, uop: UOp) -> int | None:
        """The id of a node that was met lately; None for one that was not, or is forgotten."""
        return self._memo.get(uop)

    def rebuilt(self, node: int, head: int, sources: Sequence[int]) -> int:
        """The id of a node with other sources, and perhaps another dtype."""
        key = _key(head, sources)
        row = self.rows.get(key)
        if row is not None:
            return row
        with self.lock:
            row = self._append(key, head, sources)
            self._shapes.rebuilt(row, node)
            return row

    def has(self, head: int, sources: Sequence[int]) -> bool:
        """Whether a node with this head and these sources was met."""
        return _key(head, sources) in self.rows

    def _append(self, key: _Key, head: int, sources: Sequence[int]) -> int:
        row = len(self.head_of)
        self.rows[key] = row
        self.head_of.append(head)
        self.sources.extend(sources)
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
            if head.arg is None and head.tag is None:
                self._plain_heads[head.op, head.dtype] = found
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
    def rows(self) -> dict[_Key, int]:
        """Key of head and sources -> id."""
        rows = self._rows
        if rows is None:
            with self.lock:
                rows = self._rows = self._index_rows()
        return rows

    def _index_rows(self) -> dict[_Key, int]:
        sources, start = self.sources.tolist(), 0
        rows: dict[_Key, int] = {}
        for row, (head, end) in enumerate(zip(self.head_of, self.ends, strict=True)):
            rows[_key(head, sources[start:end])] = row
            start = end
        return rows

    def src(self, node: int) -> array[int]:
        """Ids of a node's sources, in order."""
        return self.sources[self.ends[node - 1] if node else 0 : self.ends[node]]

    def head(self, node: int) -> Head:
        """What the node is apart from its sources."""
        return self.heads[self.head_of[node]]

    def shape(self, node: int) -> tuple[int | str, ...] | None:
        """The node's sizes, symbolic ones as text; None for a node that is no value."""
        return self._shapes.of(node)

    def size(self, root: int) -> int:
        """How many nodes there are under a root."""
        found = self._sizes.get(root)
        if found is None:
            found = self._sizes[root] = len(self.walk(root))
        return found

    def walk(self, root: int) -> list[int]:
        """All nodes under a root, sources first, the root last."""
        return post_order(root, {}, self.src)


def post_order(
    root: int,
    known: Mapping[int, Sequence[int]],
    src_of: Callable[[int], Sequence[int]],
    above: Iterable[int] = (),
) -> list[int]:
    """All nodes under a root, sources first, the root last; the walk stops at nodes in `above`.

    Sources come from `known`, which `src_of` may fill, and from `src_of` where they are not there.
    """
    order: list[int] = []
    seen = set(above)
    stack = [root]
    while stack:
        node = stack.pop()
        if node < 0:
            order.append(~node)
        elif node not in seen:
            seen.add(node)
            src = known.get(node)
            if src is None:
                src = src_of(node)
            if src:
                stack.append(~node)
                stack += src[::-1]
            else:
                order.append(node)
    return order


def _unmet(root: UOp, met: Mapping[UOp, int]) -> Iterable[UOp]:
    """The nodes under a root that are not met yet, sources first, the root last."""
    order: dict[UOp, None] = {}
    stack: list[UOp | None] = [root]
    entered: list[UOp] = []  # for each None on the stack, the node whose sources lie above it
    while stack:
        node = stack.pop()
        if node is None:
            order[entered.pop()] = None
        elif node not in met and node not in order:
            entered.append(node)
            stack.append(None)
            stack += node.src
    return order


def _key(head: int, sources: Sequence[int]) -> _Key:
    count = len(sources)
    if count == 0:
        return head
    if count == 1:
        return head | sources[0] + 1 << 32
    if count == 2:
        return head | sources[0] + 1 << 32 | sources[1] + 1 << 64
    if count == 3:
        return head | sources[0] + 1 << 32 | sources[1] + 1 << 64 | sources[2] + 1 << 96
    return array("I", (head, *sources)).tobytes()

"""Shapes of recorded nodes, worked out when a viewer asks: recording does not pay for them.

The compiler's own table of shapes is asked, with a light view of each row in place of a UOp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.uop.infer import SHAPE_TABLE

if TYPE_CHECKING:
    from tinylab.trace.nodes import NodeTable

Shape = tuple[Any, ...]
_SYMBOLS = {"ADD": "+", "MUL": "*", "FLOORDIV": "//", "FLOORMOD": "%", "SUB": "-", "CDIV": "/"}
_DEEPEST = 8


class StoredArg(NamedTuple):
    """An argument that was read from a file: words, and numbers if it is made of them."""

    text: str
    label: str
    numbers: int | tuple[int, ...] | None = None


class RowView:
    """A row with the attributes of a UOp that the table of shapes looks at."""

    __slots__ = ("_shape", "arg", "dtype", "op", "src")
    _shape: Shape | None

    def __init__(self, head: Any, src: tuple[RowView, ...]) -> None:
        self.op, self.dtype, self.arg, _ = head
        self.src = src
        if isinstance(self.arg, StoredArg):
            self.arg = self.arg.numbers

    @property
    def shape(self) -> Shape:
        """The sizes; empty where the node is no value, so that the rest is still shown."""
        return self._shape or ()

    def text(self, depth: int = 0) -> str:
        """A symbolic size as an expression: "(n+1)"."""
        if self.op.name == "CONST":
            return str(self.arg)
        name = getattr(self.arg, "name", None)
        if name is not None or depth > _DEEPEST:
            return str(name or "…")
        parts = [s.text(depth + 1) for s in self.src]
        symbol = _SYMBOLS.get(self.op.name)
        if symbol is not None:
            return f"({symbol.join(parts)})"
        return parts[0] if self.op.name in ("AFTER", "CAST") else f"{self.op.name}(…)"


class Shapes:
    """Shapes of a table's rows, each worked out once.

    `stored` holds those that a file knew; rows that stepping adds are worked out from them.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._views: dict[int, RowView] = {}
        self.stored: list[tuple[int | str, ...] | None] = []
        self._rebuilt_from: dict[int, int] = {}

    def of(self, node: int) -> tuple[int | str, ...] | None:
        """The sizes of a node, symbolic ones as text; None for a node that is no value."""
        if node < len(self.stored):
            return self.stored[node]
        shape = self.view(node)._shape
        return None if shape is None else tuple(_size(s) for s in shape)

    def rebuilt(self, row: int, node: int) -> None:
        """A row was added for a node with other sources."""
        if self.stored:
            self._rebuilt_from[row] = node

    def view(self, root: int) -> RowView:
        """The view of a row; views of what it is made of are made first, without recursion."""
        views = self._views
        found = views.get(root)
        if found is not None:
            return found
        stack = [root]
        while stack:
            node = stack[-1]
            src = self._nodes.src(node)
            missing = [s for s in src if s not in views]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if node not in views:
                views[node] = self._made(node, tuple([views[s] for s in src]))
        return views[root]

    def _made(self, node: int, src: tuple[RowView, ...]) -> RowView:
        view = RowView(self._nodes.head(node), src)
        if node < len(self.stored):
            view._shape = self.stored[node]
            return view
        try:
            view._shape = SHAPE_TABLE[view.op](view)  # type: ignore[arg-type]  # looks like a UOp
        except Exception:
            # A malformed graph is shown all the same, without its shapes; and where only the words
            # of an argument are left, the shape is that of the node before.
            old = self._rebuilt_from.get(node)
            view._shape = None if old is None else self.of(old)
        return view


def _size(size: Any) -> int | str:
    if isinstance(size, int):
        return size
    return size.text() if isinstance(size, RowView) else str(size)

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
    """A row with the attributes of a UOp that the table of shapes looks at.

    It lives as long as it is looked at, but for those that are a symbolic size; two views of a row
    are equal.
    """

    __slots__ = ("_known", "_src", "arg", "dtype", "op", "row")

    def __init__(self, known: Shapes, row: int) -> None:
        self.op, self.dtype, self.arg, _ = known.nodes.head(row)
        if isinstance(self.arg, StoredArg):
            self.arg = self.arg.numbers
        self.row = row
        self._known = known
        self._src: tuple[RowView, ...] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowView) and other.row == self.row

    def __hash__(self) -> int:
        return hash(self.row)

    @property
    def src(self) -> tuple[RowView, ...]:
        """Views of the sources."""
        if self._src is None:
            self._src = tuple([RowView(self._known, s) for s in self._known.nodes.src(self.row)])
        return self._src

    @property
    def _shape(self) -> Shape | None:
        return self._known.shape(self.row)

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
        self.nodes = nodes
        self.stored: list[tuple[int | str, ...] | None] = []
        self._found: dict[int, Shape | None] = {}
        self._rebuilt_from: dict[int, int] = {}

    def of(self, node: int) -> tuple[int | str, ...] | None:
        """The sizes of a node, symbolic ones as text; None for a node that is no value."""
        shape = self.shape(node)
        return None if shape is None else tuple([_size(s) for s in shape])

    def rebuilt(self, row: int, node: int) -> None:
        """A row was added for a node with other sources."""
        if self.stored:
            self._rebuilt_from[row] = node

    def shape(self, root: int) -> Shape | None:
        """The sizes of a row; those of what it is made of are found first, without recursion."""
        if root < len(self.stored):
            return self.stored[root]
        found, stored, src_of = self._found, len(self.stored), self.nodes.src
        if root in found:
            return found[root]
        stack = [root]
        while stack:
            missing = [s for s in src_of(stack[-1]) if s >= stored and s not in found]
            if missing:
                stack += missing
            else:
                node = stack.pop()
                if node not in found:
                    found[node] = self._worked_out(node)
        return found[root]

    def _worked_out(self, node: int) -> Shape | None:
        view = RowView(self, node)
        try:
            return SHAPE_TABLE[view.op](view)  # type: ignore[arg-type]  # looks like a UOp
        except Exception:
            # A malformed graph is shown all the same, without its shapes; and where only the words
            # of an argument are left, the shape is that of the node before.
            old = self._rebuilt_from.get(node)
            return None if old is None else self.shape(old)


def _size(size: Any) -> int | str:
    if isinstance(size, int):
        return size
    return size.text() if isinstance(size, RowView) else str(size)

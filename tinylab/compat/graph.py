"""Functions over nodes that scripts import from `uop.ops` and that nothing here needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tinylab.helpers.arguments import explained_names
from tinylab.helpers.text import colored
from tinylab.opcodes import Ops, axis_colors
from tinylab.uop.ops import PatternMatcher, UOp, sint

# Matches are seen by whoever listens; no table needs another class for it.
TrackedPatternMatcher = PatternMatcher


def broadcast_axes(src_shape: Sequence[sint], out_shape: Sequence[sint]) -> tuple[int, ...]:
    """The axes of a shape along which a smaller one is repeated: (1, 3), (2, 4, 3) -> (0, 1)."""
    front = len(out_shape) - len(src_shape)
    repeated = [
        front + i
        for i, (a, b) in enumerate(zip(src_shape, out_shape[front:], strict=True))
        if a != b
    ]
    return (*range(front), *repeated)


def consumer_map_from_toposort(lst: Iterable[UOp]) -> dict[UOp, dict[UOp, None]]:
    """Each node with the nodes that read it."""
    found: dict[UOp, dict[UOp, None]] = {}
    for x in lst:
        found.setdefault(x, {})
        for s in x.src:
            found.setdefault(s, {})[x] = None
    return found


def to_max_shape(shape: Sequence[sint]) -> tuple[int, ...]:
    """Sizes as large as they may get."""
    return tuple(s if isinstance(s, int) else int(s.vmax) for s in shape)


def srender(x: Any) -> str:
    """A size as text: n+1 -> "(n+1)"."""
    return x.render() if isinstance(x, UOp) else str(x)


def range_str(u: UOp, color: bool = False) -> str:
    """The name of a loop: its numbers, joined."""
    name = "_".join(f"m{-n}" if n < 0 else str(n) for n in u.arg[:-1])
    return colored(name, axis_colors[u.arg[-1]]) if color else name


def multirange_str(rngs: Iterable[UOp], color: bool = False, pad: int | None = None) -> str:
    """The names of loops, in order: "1,2"."""
    ordered = sorted(rngs, key=lambda r: r.arg[:-1])
    plain = ",".join(range_str(r) for r in ordered)
    shown = ",".join(range_str(r, color=color) for r in ordered)
    return shown if pad is None else shown + " " * max(pad - len(plain), 0)


def gate_kernel_sink(x: UOp) -> bool:
    """Whether a walk may go below a node: not below a kernel."""
    return not (x.op is Ops.SINK and x.arg is not None)


explained_names(globals())

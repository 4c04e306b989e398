"""Functions over nodes that scripts import from `uop.ops` and that nothing here needs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from tinylab.compat.events import TracingKey
from tinylab.errors import OperandError
from tinylab.helpers.arguments import explained_names, shown
from tinylab.helpers.text import colored
from tinylab.opcodes import GroupOp, Ops, axis_colors
from tinylab.trace import events
from tinylab.uop.ops import PatternMatcher, UOp, UPat, sint

P = ParamSpec("P")
R = TypeVar("R")

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
    """Sizes as large as they may get.

    Raises: OperandError for a size that is neither a number nor an expression.
    """
    for s in shape:
        if not isinstance(s, (int, UOp)):
            raise OperandError(f"to_max_shape: a size is an int or a UOp, not {shown(s)}")
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


# From which source on a node has loops, or what it calls is called with.
range_start = {
    Ops.STAGE: 1, Ops.REDUCE: 1, Ops.WMMA: 3, Ops.END: 1, Ops.CALL: 1, Ops.FUNCTION: 1,
    Ops.LINEAR: 0,
}  # fmt: skip


def rewrite_group(
    name: Callable[..., str | TracingKey] | str | bool = True,
    replay: bool = False,
    new_ctx: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function whose calls are seen as one event, named after it or as `name` says."""

    def around(f: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(f)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            told = name(*args, **kwargs) if callable(name) else name
            shown = told.display_name if isinstance(told, TracingKey) else told
            with events.span("mark", shown if isinstance(shown, str) else f.__name__):
                return f(*args, **kwargs)

        return called

    return around


def get_location() -> tuple[str, int]:
    """File and line of the call."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("tinylab.") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def do_unbind(ctx: dict[UOp, int], x: UOp) -> UOp:
    """The variable of a bound one, whose value goes into ctx."""
    variable, ctx[variable] = x.unbind()
    return variable


# What is bound becomes its variable; graph_rewrite(…, ctx={}) keeps the values.
pm_unbind = PatternMatcher(
    [
        (UPat(Ops.AFTER, name="x"), lambda ctx, x: do_unbind(ctx, x) if x.is_bound_var else None),
    ]
)

remove_all_tags = PatternMatcher(
    [
        (UPat(GroupOp.All, name="x"), lambda x: None if x.tag is None else x.rtag(None)),
    ]
)


explained_names(globals())

"""Index arithmetic of a whole kernel in its simplest form, by the shared symbolic tables."""

from __future__ import annotations

from tinylab.uop.ops import UOp, graph_rewrite
from tinylab.uop.symbolic import sym


def simplify_kernel(sink: UOp) -> UOp:
    """The kernel after the symbolic rules, masked indices included."""
    return graph_rewrite(sink, sym, name="simplify")

"""Pass: one named step of a pipeline. A pipeline is a tuple of passes; the tuple is its manual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.errors import ContractError
from tinylab.uop.matcher import PatternMatcher
from tinylab.uop.pattern import Place, place_of_caller
from tinylab.uop.rewrite import graph_rewrite, listeners, recorded

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


class Pass:
    """A name, a rule table and a direction; or, where no table can say it, a function.

    why: what the pass leans on or prepares, for the reader of the list. ctx: makes the context of
    one run from the pipeline's context. when: whether the pass applies to this graph at all.
    """

    __slots__ = ("bottom_up", "ctx", "matcher", "name", "place", "run", "walk", "when", "why")

    def __init__(
        self,
        name: str,
        matcher: PatternMatcher | None = None,
        bottom_up: bool = False,
        why: str = "",
        ctx: Callable[[UOp, Any], Any] | None = None,
        run: Callable[[UOp, Any], UOp] | None = None,
        walk: bool = False,
        when: Callable[[UOp, Any], bool] | None = None,
    ) -> None:
        if (matcher is None) == (run is None):
            both = "both" if matcher is not None else "neither"
            raise ContractError(f"pass {name!r} has {both} of a rule table and a function, not one")
        self.name, self.matcher, self.bottom_up, self.why = name, matcher, bottom_up, why
        self.ctx, self.run, self.walk, self.when = ctx, run, walk, when
        self.place: Place = place_of_caller()

    def __call__(self, root: UOp, context: Any = None) -> UOp:
        """The graph after this pass."""
        if self.when is not None and not self.when(root, context):
            return root
        own = self.ctx(root, context) if self.ctx is not None else context
        if self.matcher is not None:
            return graph_rewrite(root, self.matcher, own, self.bottom_up, self.name, walk=self.walk)
        run = self.run
        assert run is not None, "a pass is a table or a function"
        if not listeners:
            return run(root, own)
        order = (False, False, False)
        return recorded(self.name, self.place, root, order, lambda log: run(root, own))

    def __repr__(self) -> str:
        return f"Pass({self.name!r})"


def run_passes(root: UOp, passes: Sequence[Pass], context: Any = None) -> UOp:
    """The graph after each pass of a pipeline, in order."""
    for one in passes:
        root = one(root, context)
    return root

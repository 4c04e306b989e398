"""How ranges were assigned, as text: what DEBUG_RANGEIFY=1 prints.

*** 2 REDUCE     (8,)      [r2]        a reduction that would be computed 8 times
    1 EXP2       (8, 8)    [r2][r3]

A line is a way in which a value is read; *** marks what is stored. First the number of nodes that
read it, then operation and shape, then the index; what is stored says why.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tinylab.helpers.text import colored
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.schedule.realize_points import Access

_STORED = "***"


def range_listing(
    order: Sequence[UOp], accesses: Mapping[UOp, Iterable[Access]], reasons: Mapping[UOp, str]
) -> str:
    """The values of a graph from its outputs to its inputs, as they are read.

    order: sources first; accesses: the ways to read each; reasons: what is stored, and why.
    """
    users = collections.Counter(s for x in order for s in x.src)
    lines = ["*" * 26]
    for x in reversed(order):
        if x._shape is None or x.op is Ops.CONST or not (x in reasons or x in accesses):
            continue
        ways = [_place(a.place) for a in accesses.get(x, ())] or [""]
        mark = _STORED if x in reasons else " " * len(_STORED)
        head = f"{mark} {users[x]:2d} {x.op.name:<16} {shape_text(x.shape):<20}"
        for n, way in enumerate(ways):
            why = colored(f"  {reasons[x]}", "yellow") if n == 0 and x in reasons else ""
            lines.append(f"{head if n == 0 else ' ' * len(head)} {way}{why}".rstrip())
    return "\n".join(lines)


def _place(place: Iterable[UOp]) -> str:
    return "".join(f"[{i.render()}]" for i in place)

"""Values that are compared with others: each kernel must give them the same bits.

The gradient of a maximum is where the values equal it, and they are worked out again for that, in
another kernel. One rounding for a*b + c in one kernel and two in the other, and nothing equals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

_COMPARE = frozenset({Ops.CMPNE, Ops.CMPEQ, Ops.MAX})


def compared_values(order: Iterable[UOp]) -> set[UOp]:
    """The floats below comparisons and maxima, down to what memory holds.

    order: the nodes of a kernel, sources first.
    """
    found: set[UOp] = set()
    for u in reversed(list(order)):
        if u.op in _COMPARE or (u in found and u.op is not Ops.LOAD):
            found.update(s for s in u.src if s.dtype.kind == "float")
    return found

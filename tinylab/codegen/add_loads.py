"""Memory that is used as a value is read: an explicit LOAD for each.

a[i] + 1  ->  LOAD(a[i]) + 1

Addresses stay addresses where they are stored to, ordered or taken apart further.
"""

from __future__ import annotations

from tinylab.dtype import AddrSpace
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

_MEMORY = (AddrSpace.GLOBAL, AddrSpace.LOCAL, AddrSpace.REG)
_ADDRESSES = frozenset({Ops.INDEX, Ops.SHRINK, Ops.PARAM, Ops.BUFFER, Ops.AFTER, Ops.RESHAPE})
# Ops whose first source is an address, and those whose sources are all values.
_AFTER_FIRST = frozenset({Ops.STORE, Ops.INDEX, Ops.SHRINK, Ops.LOAD})
_ALL_VALUES = (
    GroupOp.Elementwise
    | frozenset({Ops.REDUCE, Ops.STACK, Ops.PERMUTE, Ops.EXPAND, Ops.WMMA, Ops.CUSTOM})
    | frozenset({Ops.CUSTOMI, Ops.RANGE})
)


def is_address(x: UOp) -> bool:
    """Whether the node is a place in memory, not a value."""
    return x.op in _ADDRESSES and x.addrspace in _MEMORY


def load_sources(u: UOp) -> UOp | None:
    """The node with each address among its values read."""
    first = 1 if u.op in _AFTER_FIRST else 0
    if not any(is_address(s) for s in u.src[first:]):
        return None
    values = (s.load() if is_address(s) else s for s in u.src[first:])
    return u.replace(src=(*u.src[:first], *values))


# fmt: off
pm_add_loads = PatternMatcher([
    Rule("load_sources", "op(a[i]) -> op(LOAD(a[i]))",
         UPat(tuple(_ALL_VALUES | _AFTER_FIRST), name="u"), load_sources),
])
# fmt: on

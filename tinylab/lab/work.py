"""The work that a kernel is asked for, counted from its graph: opts change its time, not this."""

from __future__ import annotations

import weakref
from typing import NamedTuple

from tinylab.dtype import dtypes
from tinylab.opcodes import GroupOp, Ops
from tinylab.trace import events
from tinylab.trace.record import KernelRecord
from tinylab.uop.ops import UOp, run_passes

# What is read or written, and not computed.
_MEMORY = (Ops.INDEX, Ops.LOAD, Ops.PARAM, Ops.BUFFER, Ops.AFTER)


# A kernel's row is asked for again and again.
_known: weakref.WeakKeyDictionary[UOp, Work | None] = weakref.WeakKeyDictionary()


class Work(NamedTuple):
    """Operations of one run of a kernel: of floats, and of integers and booleans.

    Addresses, casts and selections are neither.
    """

    flops: int
    other: int


def useful_work(kernel: KernelRecord) -> Work | None:
    """What the kernel computes, however it is lowered; None where that is not known.

    a (32, 64) @ (64, 16) matmul -> Work(flops=2 * 32 * 64 * 16, other=0), padded or not
    """
    if kernel.ast is None:
        return None
    if kernel.ast not in _known:
        _known[kernel.ast] = _work_of(kernel.ast)
    return _known[kernel.ast]


def simplified(ast: UOp) -> UOp:
    """A kernel's graph as opts find it: sums that pick an element are loads, ranges are merged."""
    from tinylab.codegen import SIMPLIFY

    with events.quietly():
        return run_passes(ast, SIMPLIFY, None)


def _work_of(ast: UOp) -> Work | None:
    from tinylab.codegen.collapse_loads import may_collapse

    flops = other = 0
    try:
        for node in _computed(simplified(ast) if may_collapse(ast) else ast):
            amount = _operations(node)
            if _is_of_floats(node):
                flops += amount
            else:
                other += amount
    except (TypeError, ValueError):  # a size that is an expression of variables
        return None
    return Work(flops, other)


def _computed(ast: UOp) -> list[UOp]:
    """The nodes of the values that a kernel stores, without those of addresses."""
    found: dict[UOp, None] = {}
    stack = [u.src[1] for u in ast.toposort() if u.op is Ops.STORE]
    while stack:
        node = stack.pop()
        if node in found or node.op in _MEMORY:
            continue
        found[node] = None
        stack.extend(_operands(node))
    return list(found)


def _operands(node: UOp) -> tuple[UOp, ...]:
    """The sources of a node that are values; a mask of places is an address in another form."""
    if node.op is Ops.REDUCE:
        return node.src[:1]
    if node.op is Ops.WHERE and not any(u.op is Ops.INDEX for u in node.src[0].toposort()):
        return node.src[1:]
    return node.src


def _operations(node: UOp) -> int:
    """How many operations a node is, over the loops that it stands in."""
    if node.op is Ops.REDUCE:
        return _times(node.src[0])
    if node.op not in GroupOp.ALU or node.op is Ops.WHERE:
        return 0
    return _times(node) * (2 if node.op is Ops.MULACC else 1)


def _times(node: UOp) -> int:
    times = 1
    for loop in node.ranges:
        size = loop.src[0]
        if size.op is not Ops.CONST:
            raise ValueError(f"a loop of {size.op} steps")
        times *= int(size.arg)
    for size in node.shape:
        times *= int(size)
    return times


def _is_of_floats(node: UOp) -> bool:
    """Whether an operation is one of floats; a comparison of floats is."""
    return any(dtypes.is_float(u.dtype) for u in (node, *node.src))

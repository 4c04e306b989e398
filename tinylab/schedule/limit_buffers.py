"""No kernel reads more buffers than its device takes: what would be too many is stored in parts.

a0 + a1 + … + a99  ->  sums of some of them, stored, and the sum of those
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from tinylab.helpers.context import MAX_KERNEL_BUFFERS
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp

# What a kernel of a device may read and write at most; devices that are not named take any number.
DEVICE_LIMITS = {"METAL": 31, "CPU": 31, "WEBGPU": 8}
_MEMORY = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER})


def buffer_limit(device: str | None) -> int | None:
    """The most buffers of a kernel on a device; None where there is no limit."""
    if MAX_KERNEL_BUFFERS.value:
        return MAX_KERNEL_BUFFERS.value
    return DEVICE_LIMITS.get((device or "").split(":")[0])


def limit_buffers(
    order: Iterable[UOp], stored: Container[UOp], device: str | None
) -> dict[UOp, str]:
    """More values to store, with the reason.

    order: the nodes of a graph, sources first. stored: what is stored anyway.
    """
    found: dict[UOp, str] = {}
    reads: dict[UOp, frozenset[UOp]] = {}
    for x in order:
        place = x.device if isinstance(x.device, str) else device
        limit = buffer_limit(place)
        if x.op in _MEMORY or x.op is Ops.STAGE:
            reads[x] = frozenset() if x.op is Ops.STAGE or x.is_variable else frozenset((_base(x),))
            continue
        below = {s: frozenset((s,)) if s in stored else reads.get(s, frozenset()) for s in x.src}
        together = frozenset().union(*below.values())
        # One is the buffer that the kernel writes to.
        if limit is not None and x.op in GroupOp.Elementwise and len(together) >= limit:
            reason = f"its kernel would read {len(together)} buffers, and {place} takes {limit - 1}"
            together = _cut(below, limit, found, reason)
        reads[x] = together
    return found


def _cut(
    below: dict[UOp, frozenset[UOp]], limit: int, found: dict[UOp, str], reason: str
) -> frozenset[UOp]:
    """What is read when the sources that read most are stored, until it is few enough."""
    together = frozenset().union(*below.values())
    for source in sorted(below, key=lambda s: -len(below[s])):
        value = _value(source)
        if len(together) < limit or len(below[source]) < 2 or value.op in _MEMORY:
            break
        found[value] = reason
        below[source] = frozenset((value,))
        together = frozenset().union(*below.values())
    return together


def _base(x: UOp) -> UOp:
    while x.op is Ops.AFTER or x.op in GroupOp.Movement:
        x = x.without_after if x.op is Ops.AFTER else x.src[0]
    return x


def _value(x: UOp) -> UOp:
    """The value below movement: it is what is stored."""
    while x.op in GroupOp.Movement:
        x = x.src[0]
    return x

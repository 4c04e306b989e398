"""A constant is made on the device that wants it, not copied there, also where it fills storage.

`Tensor.full` has storage of its own, which is filled when it is computed. Until then it is the
constant: a copy to another device needs neither the storage nor its device, however it is viewed.

    copy(move(b after store(b, c)), d)  ->  copy(move(c), d), which is made on d
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp, rebuild

# What is worked out again on another device. A reduction is not: its result is less than the work.
_CHEAP = GroupOp.Elementwise | GroupOp.Movement | {Ops.CONTIGUOUS, Ops.DETACH, Ops.COPY}


def only_keeps(device: Any) -> bool:
    """Whether a device holds bytes and computes nothing, as a file does."""
    return isinstance(device, str) and device.partition(":")[0] in ("DISK", "TINYFS")


def _filled_with(x: UOp) -> UOp | None:
    """The value that was stored to the whole of new storage."""
    if x.op is not Ops.AFTER or len(x.src) != 2 or x.src[0].op not in (Ops.BUFFER, Ops.PARAM):
        return None
    store = x.src[1]
    if store.op is not Ops.STORE or len(store.src) != 2:
        return None
    target = store.src[0]
    while target.op is Ops.RESHAPE:
        target = target.src[0]
    return store.src[1] if target is x.src[0] else None


def _anew(x: UOp, known: dict[UOp, UOp]) -> UOp | None:
    """A value without the storage that it lies in, where it is worked out of constants alone."""
    value = _filled_with(x)
    if value is not None:
        value = known.get(value, value if value.device is None else None)
        return None if value is None else value._reshape(x.shape)
    if x.op not in _CHEAP or x.device is None or only_keeps(x.device):
        return None
    if any(s not in known and s.device is not None for s in x.src):
        return None
    src = tuple(known.get(s, s) for s in x.src)
    return src[0] if x.op is Ops.COPY else rebuild(x, src)


def made_anew(order: Iterable[UOp]) -> dict[UOp, UOp]:
    """The copies in a graph, given sources first, of what is constant: each with its constant."""
    nodes = list(order)
    if not any(x.op is Ops.COPY for x in nodes):
        return {}
    known: dict[UOp, UOp] = {}
    found: dict[UOp, UOp] = {}
    for x in nodes:
        value = _anew(x, known)
        if value is None:
            continue
        known[x] = value
        if x.op is Ops.COPY and x.src[0].device is not None and not only_keeps(x.arg):
            found[x] = rebuild(x, (value,))
    return found


def make_there(root: UOp, ctx: Any = None) -> UOp:
    """The graph with copies of constants instead of copies of what they fill."""
    found = made_anew(root.toposort(enter_calls=False))
    return root.substitute(found, walk=True) if found else root

"""Before a function is captured or replayed: values that somebody holds and has not computed yet.

A replay overwrites memory without Python in between. Program order decides there too: what was
built before sees the old value, and a write that waits happens first. Nor is it part of what is
captured, or each replay would do it again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Set
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.dtype import strong_dtype
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import before_replay
from tinylab.engine.realize import kept_copy, to_store
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below
from tinylab.tensor.core import live
from tinylab.tensor.tensor import Tensor, realize_all
from tinylab.uop.ops import UOp


class _Storage(NamedTuple):
    """The BUFFER nodes that an expression looks at, and those that it writes to."""

    all: frozenset[UOp]
    targets: frozenset[UOp]


_storage: weakref.WeakKeyDictionary[UOp, _Storage] = weakref.WeakKeyDictionary()


def _storage_of(uop: UOp) -> _Storage:
    found = _storage.get(uop)
    if found is None:
        order = [x for x in uop.toposort(enter_calls=False) if not x.is_bound_var]
        buffers = frozenset(x for x in order if x.op is Ops.BUFFER and not x.is_variable)
        below = {buffer_below(x) for x in order if x.op is Ops.AFTER}
        found = _storage[uop] = _Storage(buffers, buffers & below)
    return found


def _meets(nodes: Iterable[UOp], memory: Set[Buffer] | None) -> bool:
    if memory is None:
        return any(x._buffer is not None and not _in_a_file(x) for x in nodes)
    return any(m.base in memory for x in nodes if x._buffer is not None for m in memories_of(x))


def _in_a_file(x: UOp) -> bool:
    return isinstance(x.device, str) and x.device.startswith("DISK")


def compute_waiting(written: Set[Buffer] | None, used: Set[Buffer] | None) -> None:
    """Compute what reads memory that is written next, and do the writes to memory that is used.

    written, used: wholes, no views; None where it is not known yet, which may be any but files.
    """
    for t in live.to_compute(lambda uop: to_store(uop) is None):
        uop = t.uop
        # It may have been computed along with one before it.
        if (below := to_store(uop)) is None:
            continue
        storage = _storage_of(uop)
        if not _meets(storage.all, written) and not _meets(storage.targets, used):
            continue
        if below.op is Ops.AFTER:
            realize_all([t])
            continue
        kept = Tensor._from_uop(kept_copy(uop.cast(strong_dtype(uop.dtype))))
        realize_all([kept])
        t.uop = kept.uop.cast(uop.dtype)


before_replay.append(compute_waiting)

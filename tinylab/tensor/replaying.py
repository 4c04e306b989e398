"""Before a function is captured or replayed: values that somebody holds and has not computed yet.

A replay overwrites memory without Python in between. Program order decides there too: what was
built before sees the old value, and a write that waits happens first. Nor is it part of what is
captured, or each replay would do it again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.dtype import strong_dtype
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import before_capture, before_replay
from tinylab.engine.realize import kept_copy, to_store
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below
from tinylab.tensor.core import live
from tinylab.tensor.random import drawn_streams
from tinylab.tensor.tensor import Tensor, realize_all
from tinylab.uop.ops import UOp


class _Storage(NamedTuple):
    """The BUFFER nodes that an expression looks at, and those that it writes to."""

    all: frozenset[UOp]
    targets: frozenset[UOp]


_storage: weakref.WeakKeyDictionary[UOp, _Storage] = weakref.WeakKeyDictionary()


def _look(uop: UOp) -> _Storage:
    order = [x for x in uop.toposort(enter_calls=False) if not x.is_bound_var]
    buffers = frozenset(x for x in order if x.op is Ops.BUFFER and not x.is_variable)
    return _Storage(buffers, buffers & {buffer_below(x) for x in order if x.op is Ops.AFTER})


def _storage_of(uop: UOp) -> _Storage:
    """What an expression looks at, kept while it is there; no BUFFER, which would keep itself."""
    found = _storage.get(uop)
    if found is None:
        found = _storage[uop] = _look(uop)
    return found


def _meets(nodes: Iterable[UOp], memory: Set[Buffer]) -> bool:
    return any(m.base in memory for x in nodes if x._buffer is not None for m in memories_of(x))


def _waiting() -> list[Tensor]:
    return live.all_to_compute(lambda uop: to_store(uop) is None)


def _keep(t: Tensor) -> None:
    """Give a tensor its value in memory of its own."""
    uop = t.uop
    kept = Tensor._from_uop(kept_copy(uop.cast(strong_dtype(uop.dtype))))
    realize_all([kept])
    t.uop = kept.uop.cast(uop.dtype)


def compute_waiting(written: Set[Buffer], used: Set[Buffer]) -> None:
    """Compute what reads memory that is written next, and do the writes to memory that is used.

    written, used: wholes, no views.
    """
    for t in _waiting():
        # It may have been computed along with one before it.
        if (below := to_store(t.uop)) is None:
            continue
        storage = _storage_of(t.uop)
        if not _meets(storage.all, written) and not _meets(storage.targets, used):
            continue
        if below.op is Ops.AFTER:
            realize_all([t])
        else:
            _keep(t)


def write_waiting() -> Callable[[Set[Buffer]], None]:
    """Do the writes that wait, those of random counters too.

    The result is to be told the memory that the capture then makes: what is captured may
    compute other values that wait, in memory that replays write to, and they get their own.
    """
    for t in _waiting():
        below = to_store(t.uop)
        if below is None or below.op is not Ops.AFTER:
            continue
        if any(x._buffer is not None for x in _look(below).targets):
            realize_all([t])
    for stream in drawn_streams():
        counter = Tensor._from_uop(stream.moved_on())
        realize_all([counter])
        stream.counter = counter.uop
    before = [weakref.ref(t) for t in _waiting()]

    def keep(made: Set[Buffer]) -> None:
        for ref in before:
            t = ref()
            if t is not None and _meets(_look(t.uop).all, made):
                _keep(t)

    return keep


before_replay.append(compute_waiting)
before_capture.append(write_waiting)

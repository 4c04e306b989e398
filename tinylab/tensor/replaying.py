"""Before a function is captured or replayed: values that somebody holds.

A replay overwrites memory without Python in between. Program order decides there too: what was
built before sees the old value, and a write that waits happens first. Nor is it part of what is
captured, or each replay would do it again. As with a write that Python does, the tensors that are
written to see the new value: they follow; any other view of that memory gets a copy.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

from tinylab.device import Buffer
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import (
    Aftermath,
    LookingAfter,
    Replay,
    around_capture,
    before_replay,
)
from tinylab.engine.captured import storage_below
from tinylab.engine.locking import alone
from tinylab.engine.realize import to_store
from tinylab.errors import JitError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below, is_write
from tinylab.tensor.held import Heard, live
from tinylab.tensor.history import forget
from tinylab.tensor.random import drawn_streams
from tinylab.tensor.realizing import keep, realize_all, set_aside
from tinylab.tensor.tensor import Tensor
from tinylab.tensor.waiting import Storage
from tinylab.tensor.writing import owner_of
from tinylab.uop.ops import UOp

_storage: weakref.WeakKeyDictionary[UOp, Storage] = weakref.WeakKeyDictionary()


def _look(uop: UOp) -> Storage:
    order = [x for x in uop.toposort(enter_calls=False) if not x.is_bound_var]
    buffers = frozenset(x for x in order if x.op is Ops.BUFFER and not x.is_variable)
    return Storage(buffers, buffers & {buffer_below(x) for x in order if x.op is Ops.AFTER})


def _storage_of(uop: UOp) -> Storage:
    """What an expression looks at, kept while it is there; no BUFFER, which would keep itself."""
    found = _storage.get(uop)
    if found is None:
        found = _storage[uop] = _look(uop)
    return found


def _meets(nodes: Iterable[UOp], memory: Set[Buffer]) -> bool:
    return any(m.base in memory for x in nodes if x._buffer is not None for m in memories_of(x))


def _is_stored(uop: UOp) -> bool:
    return to_store(uop) is None


def _memory_of(uop: UOp) -> list[Buffer]:
    """The memory (bases) that a stored value lies in."""
    below = storage_below(uop)
    if below.op is not Ops.BUFFER or below.is_variable:
        return []
    return [m.base for m in memories_of(below)]


def _compute(t: Tensor, how: Callable[[Tensor], None], memory: Set[Buffer]) -> None:
    """Compute a tensor; where that is not possible, it gets a copy of what it reads out of some."""
    try:
        how(t)
    except Exception as error:
        read = [x for x in _look(t.uop).all if _meets([x], memory)]
        set_aside(t.uop, read, error)


def keep_order(replay: Replay) -> None:
    """Compute what reads memory that is written next, and do the writes to memory that is used.

    Views of what is written that do not follow get a copy.
    """
    forget(replay.written)
    for t in live.to_compute_at(_is_stored, _storage_of, replay.written, replay.used):
        # It may have been computed along with one before it.
        if (below := to_store(t.uop)) is None:
            continue
        storage = _storage_of(t.uop)
        if not _meets(storage.all, replay.written) and not _meets(storage.targets, replay.used):
            continue
        if below.op is not Ops.AFTER:
            _compute(t, keep, replay.written)
        elif _meets(storage.targets, replay.used):
            realize_all([t])  # what the replay reads or overwrites is to be written before
        else:
            _compute(t, lambda t: realize_all([t]), replay.written)
    for t in live.lying_in(replay.written, _memory_of):
        if t in replay.followers or _is_given(t, replay.given):
            continue
        if not replay.written.isdisjoint(_memory_of(t.uop)):
            keep(t)


def _is_given(t: Tensor, given: Sequence[Any]) -> bool:
    """Whether a replay got a tensor, a view of it, or its node."""
    return any(t.uop is x or t is x or (isinstance(x, Tensor) and t is owner_of(x)) for x in given)


_Refs = dict[int, "weakref.ref[Any]"]


@contextlib.contextmanager
def around_capturing() -> Iterator[LookingAfter]:
    """Do the writes that wait, those of random counters too; and behind the capture keep values.

    What is captured may compute other values that somebody holds, in memory that replays write
    to: they get their own. What the function wrote to or made itself follows.
    """
    before, there = _in_order()
    with live.listening() as heard:
        yield LookingAfter(
            lambda: _finish_writes(heard, there),
            lambda done: _look_after(done, heard, there, before),
        )


@alone
def _in_order() -> tuple[list[weakref.ref[Tensor]], _Refs]:
    """(the tensors that still wait, all tensors) once no write to memory waits."""
    for t in live.all_to_compute(_is_stored):
        # A function that reads what cannot be computed says so itself.
        with contextlib.suppress(Exception):
            _do_writes(t)
    for stream in drawn_streams():
        counter = Tensor._from_uop(stream.moved_on())
        realize_all([counter])
        stream.counter = counter.uop
    return [weakref.ref(t) for t in live.all_to_compute(_is_stored)], live.known()


def _do_writes(t: Tensor) -> None:
    """Do the writes to memory that a tensor waits for, also below what it is worked out from."""
    if not any(x._buffer is not None for x in _storage_of(t.uop).targets):
        return
    writes = [x for x in t.uop.toposort(enter_calls=False) if is_write(x)]
    below = set(UOp.sink(*(s for x in writes for s in x.src)).toposort(enter_calls=False))
    realize_all([Tensor._from_uop(x) for x in writes if x not in below])


@alone
def _finish_writes(heard: Heard, there: _Refs) -> bool:
    """Do the writes of a captured function that it neither returned nor realized.

    Whether all that it wrote to, and did not make, was in memory before.
    """
    wrote = [(t, old) for ref, old in heard.wrote.values() if (t := ref()) is not None]
    pending = [t for t, _ in wrote if (x := to_store(t.uop)) is not None and x.op is Ops.AFTER]
    realize_all(pending)
    found = [(t, old) for t, old in wrote if id(t) not in heard.replaced and _is_of(t, there)]
    return all(_is_stored(old) for _, old in found)


def _is_of(t: Tensor, refs: _Refs) -> bool:
    ref = refs.get(id(t))
    return ref is not None and ref() is t


def _refuse_replaced(done: Aftermath, heard: Heard, there: _Refs) -> None:
    """A replay reads and writes memory: what a tensor became besides, it does not do again.

    Raises: JitError for a tensor that was there before and is something else now, but for memory
    that each replay fills without a look at what the tensor was.
    """
    for key, (ref, old) in heard.replaced.items():
        t = ref()
        if t is None or there.get(key) is None or t.uop is old:
            continue
        now = set(_memory_of(t.uop)) if _is_stored(t.uop) else set()
        before = set(_memory_of(old)) if _is_stored(old) else set()
        if now == before and now:
            continue
        if not now or not now <= done.made or not before.isdisjoint(done.read):
            raise JitError(
                f"a tensor of shape {shape_text(t.shape)} is .replace()d inside a captured "
                "function, and a replay would not do that again",
                help="write to it instead: .assign(value)",
            )


@alone
def _look_after(done: Aftermath, heard: Heard, there: _Refs, waiting: Iterable[Any]) -> None:
    """Behind a capture: who follows, and values of their own for all others.

    heard: what the function did to tensors. there: the tensors that it found. waiting: those of
    them that were to be computed.
    """
    _refuse_replaced(done, heard, there)
    returned = {id(t) for t in done.returned}
    own = (r for k, r in live.known().items() if there.get(k) is not r and k not in returned)
    for t in _held((*(ref for ref, _ in heard.wrote.values()), *own)):
        done.followers.add(t)
    live.all_to_compute(_is_stored)
    for t in {id(t): t for t in (*_held(waiting), *live.lying_in(done.made, _memory_of))}.values():
        if t not in done.followers and id(t) not in returned:
            _keep_apart(t, done)


def _held(refs: Iterable[Any]) -> Iterator[Tensor]:
    return (t for ref in refs if (t := ref()) is not None)


def _keep_apart(t: Tensor, done: Aftermath) -> None:
    """Give a tensor memory of its own where it looks at what the capture made."""
    nodes = _look(t.uop).all
    if not _meets(nodes, done.made):
        return
    _compute(t, keep, done.made)
    done.moved.update(m.base for x in nodes if x._buffer is not None for m in memories_of(x))


before_replay.append(keep_order)
around_capture.append(around_capturing)

"""Before a function is captured or replayed: values that somebody holds.

A replay overwrites memory without Python in between. Program order decides there too: what was
built before sees the old value, and a write that waits happens first. Nor is it part of what is
captured, or each replay would do it again. As with a write that Python does, the tensors that are
written to see the new value: they follow; any other view of that memory gets a copy.
"""

from __future__ import annotations

import contextlib
import functools
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
    before_capture,
    before_inputs,
    before_replay,
)
from tinylab.engine.captured import storage_below
from tinylab.engine.locking import alone
from tinylab.engine.realize import to_store
from tinylab.errors import FAILURES, JitError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.schedule.effects import is_write
from tinylab.tensor.held import Heard, live
from tinylab.tensor.history import forget
from tinylab.tensor.random import drawn_streams, note_captured, random_state, restart_due
from tinylab.tensor.realizing import keep, realize_all, set_aside
from tinylab.tensor.sharing import (
    Steps,
    buffer_under,
    chain_below,
    families_of,
    is_computed,
    is_expanded,
    look_again,
    may_write,
    own_if_new,
    owners_of,
    part,
    places_in,
    places_written,
)
from tinylab.tensor.tensor import Tensor
from tinylab.tensor.waiting import is_stored, memory_under, storage_looked_at
from tinylab.tensor.writing import ensure_stored
from tinylab.uop.ops import UOp


def _meets(nodes: Iterable[UOp], memory: Set[Buffer]) -> bool:
    return any(m.base in memory for x in nodes if x._buffer is not None for m in memories_of(x))


def _compute(t: Tensor, how: Callable[[Tensor, Set[Buffer]], None], memory: Set[Buffer]) -> None:
    """Compute a tensor; where that is not possible, it gets a copy of what it reads out of some."""
    try:
        how(t, memory)
    except FAILURES as error:
        read = [x for x in storage_looked_at(t.uop).all if _meets([x], memory)]
        set_aside(t.uop, read, error)


def keep_order(replay: Replay) -> None:
    """Compute what reads memory that is written next, and do the writes to memory that is used.

    Views of what is written that do not follow get a copy.
    """
    restart_due(replay.used, Tensor._computed)
    forget(replay.written)
    for t in replay.followers.views():
        look_again(t)
    given = _given(replay.given)
    for t in live.to_compute_at(is_stored, storage_looked_at, replay.written, replay.used):
        # It may have been computed along with one before it.
        if (below := to_store(t.uop)) is None or not _is_concerned(t, replay):
            continue
        if below.op is Ops.AFTER:
            _write_before(t, replay)
        elif not _follows(t, replay, given) or not _is_look(t):
            _compute(t, keep, replay.written)
    for t in live.lying_in(is_stored, replay.written, memory_under):
        if t in replay.followers or _follows(t, replay, given):
            continue
        if not replay.written.isdisjoint(memory_under(t.uop)):
            keep(t, replay.written)
    for writes in replay.followers.writes:
        writes(replay.given)


def _write_before(t: Tensor, replay: Replay) -> None:
    """Do a write that waits."""
    if _meets(storage_looked_at(t.uop).targets, replay.used):
        realize_all([t])  # what the replay reads or overwrites: it cannot go on without
    else:
        _compute(t, lambda t, _: realize_all([t]), replay.written)


def _follows(t: Tensor, replay: Replay, given: Set[int]) -> bool:
    return t in replay.followers or id(t) in given or id(t.uop) in given


def _is_concerned(t: Tensor, replay: Replay) -> bool:
    """Whether what is to be computed reads memory that is written next, or writes what is used."""
    storage = storage_looked_at(t.uop)
    return _meets(storage.all, replay.written) or _meets(storage.targets, replay.used)


def _is_look(t: Tensor) -> bool:
    """Whether a tensor is memory, or bits of it, or a view of it with gaps."""
    return chain_below(t.uop)[1].op is Ops.BUFFER


def _given(given: Sequence[Any]) -> set[int]:
    """The ids of the tensors that a replay got, of what those are views of, and of nodes."""
    found = set(map(id, given))
    for x in given:
        if isinstance(x, Tensor):
            found |= set(map(id, owners_of(x)))
    return found


_Refs = dict[int, "weakref.ref[Any]"]


@contextlib.contextmanager
def around_capturing() -> Iterator[LookingAfter]:
    """Do the writes that wait, those of random counters too; and behind the capture keep values.

    What is captured may compute other values that somebody holds, in memory that replays write
    to: they get their own. What the function wrote to or made itself follows.
    """
    before, there, memory = _in_order()
    with live.listening() as heard:
        yield LookingAfter(
            lambda given: _finish_writes(given, heard, there),
            lambda done: _look_after(done, heard, there, before, memory),
        )


@alone
def _in_order() -> tuple[list[weakref.ref[Tensor]], _Refs, weakref.WeakSet[Buffer]]:
    """(the tensors that still wait, all tensors, their memory) once no write to memory waits."""
    for t in live:  # what is written and what is read of a view must be one memory
        look_again(t)
    for t in live.all_to_compute(is_stored):
        # A function that reads what cannot be computed says so itself.
        with contextlib.suppress(*FAILURES):
            _do_writes(t)
    for stream in drawn_streams():
        counter = Tensor._from_uop(stream.moved_on())
        realize_all([counter])
        stream.counter = counter.uop
    waiting = [weakref.ref(t) for t in live.all_to_compute(is_stored)]
    memory = weakref.WeakSet(m for t in live if is_stored(t.uop) for m in memory_under(t.uop))
    return waiting, live.known(), memory


def _do_writes(t: Tensor) -> None:
    """Do the writes to memory that a tensor waits for, also below what it is worked out from."""
    if not any(x._buffer is not None for x in storage_looked_at(t.uop).targets):
        return
    writes = [x for x in t.uop.toposort(enter_calls=False) if is_write(x)]
    below = set(UOp.sink(*(s for x in writes for s in x.src)).toposort(enter_calls=False))
    realize_all([Tensor._from_uop(x) for x in writes if x not in below])


@alone
def _finish_writes(given: Sequence[Any], heard: Heard, there: _Refs) -> bool:
    """Do the writes of a captured function that it neither returned nor realized.

    Whether all that it wrote to, and did not make, was in memory before.
    """
    _refuse_computed(given, heard)
    wrote = [(t, old) for ref, old in heard.wrote.values() if (t := ref()) is not None]
    pending = [t for t, _ in wrote if (x := to_store(t.uop)) is not None and x.op is Ops.AFTER]
    realize_all(pending)
    found = [(t, old) for t, old in wrote if id(t) not in heard.replaced and _is_of(t, there)]
    return all(is_stored(old) for _, old in found)


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
        now = set(memory_under(t.uop)) if is_stored(t.uop) else set()
        before = set(memory_under(old)) if is_stored(old) else set()
        if now == before and now:
            continue
        if not now or not now <= done.made or not before.isdisjoint(done.read):
            raise JitError(
                f"a tensor of shape {shape_text(t.shape)} is .replace()d inside a captured "
                "function, and a replay would not do that again",
                help="write to it instead: .assign(value)",
            )


def _refuse_unheard(written: Set[Buffer], heard: Heard) -> None:
    """A kernel by hand overwrites what a tensor keeps, which a plain call copies before.

    written: memory that tensors lay in. Raises: JitError for some that no tensor was written by.
    """
    olds = [old for _, old in (*heard.wrote.values(), *heard.replaced.values())]
    nodes = {*(x for old in olds for x in storage_looked_at(old).all), *random_state()}
    told = {m.base for x in nodes if x._buffer is not None for m in memories_of(x)}
    if written - told:
        raise JitError(
            "a kernel written by hand writes to the memory of a tensor that keeps its value, and a "
            "replay would not copy that first",
            help="give the kernel a .clone(), or .replace() the tensor with the kernel's result",
        )


def _refuse_computed(given: Sequence[Any], heard: Heard) -> None:
    """A replay writes to the memory of what it gets; what that is a view of must lie there too.

    Raises: JitError for an argument that is written to and that had to be computed.
    """
    for t in given:
        if id(t) in heard.wrote and is_computed(t):
            raise JitError(
                f"a captured function writes to an argument of shape {shape_text(t.shape)} that is "
                "a view of another tensor, by other bits or with gaps: a replay would not reach "
                "that one",
                help="pass the tensor itself, and take the view inside the function",
            )


@alone
def settle(given: Sequence[Tensor]) -> None:
    """What a function is given lies in the memory of what it is a view of.

    Writes to that memory that wait are done: an older view that is given is elsewhere then.
    """
    memory = {m for t in given if is_stored(t.uop) for m in memory_under(t.uop)}
    for t in live.to_compute_at(is_stored, storage_looked_at, (), memory):
        below = to_store(t.uop)
        if below is not None and below.op is Ops.AFTER:
            realize_all([t])
    for t in given:
        for owner in owners_of(t)[-1:]:
            if is_stored(t.uop) and storage_below(t.uop) is storage_below(owner.uop):
                continue
            if not is_stored(owner.uop):
                owner.realize()
            look_again(t)


def own_memory(tensors: Sequence[Tensor]) -> None:
    """Let tensors have the storage that they lie in: no other value is written there.

    One that lies in another's, as a result does that is an input with nothing done to it, gets its
    own.
    """
    for t in tensors:
        if not is_stored(t.uop) or buffer_under(t.uop) is None or is_expanded(t):
            continue
        own_if_new(t)
        if not all(may_write(root) for root, _ in families_of(t)):
            ensure_stored(t)
            t.realize()
            own_if_new(t)


def _note_writes(done: Aftermath, heard: Heard) -> None:
    """Replays write what the function wrote: older views of that are apart each time."""
    given = {id(t): n for n, t in enumerate(done.given)}
    arguments: dict[tuple[int, Steps], None] = {}
    others: dict[Any, list[tuple[weakref.ref[Any], Steps]]] = {}
    for parts in heard.parts:
        held = [(t, steps) for ref, steps in parts if (t := ref()) is not None]
        argument = next(((given[id(t)], steps) for t, steps in held if id(t) in given), None)
        if argument is not None:
            arguments[argument] = None
        elif held:
            key = tuple((id(t), steps) for t, steps in held)
            others[key] = [(weakref.ref(t), steps) for t, steps in held]
    if arguments:
        done.followers.writes.append(functools.partial(_arguments_written, list(arguments)))
    if others:
        refs = {ref: None for places in others.values() for ref, _ in places}
        written = functools.partial(_written, list(refs), list(others.values()))
        done.followers.writes.append(written)


def _arguments_written(writes: list[tuple[int, Steps]], given: Sequence[Any]) -> None:
    for n, steps in writes:
        if isinstance(given[n], Tensor):
            part(places_written(given[n], steps))


def _written(
    refs: list[weakref.ref[Any]],
    writes: list[list[tuple[weakref.ref[Any], Steps]]],
    given: Sequence[Any],
) -> None:
    """Tensors (refs) were written: in each write members of one family, by steps of looking."""
    if not any(t._views for ref in refs if (t := ref()) is not None):
        return
    for places in writes:
        held = [(t, steps) for ref, steps in places if (t := ref()) is not None]
        if any(t._views for t, _ in held):
            part([(t, places_in(t, steps)) for t, steps in held])


@alone
def _look_after(
    done: Aftermath,
    heard: Heard,
    there: _Refs,
    waiting: Iterable[Any],
    memory: weakref.WeakSet[Buffer],
) -> None:
    """Behind a capture: who follows, and values of their own for all others.

    heard: what the function did to tensors. there: the tensors that it found. waiting: those of
    them that were to be computed. memory: that the others lay in.
    """
    _refuse_replaced(done, heard, there)
    _refuse_unheard({m for m in memory if m in done.written}, heard)
    _note_writes(done, heard)
    note_captured(done.read, done.followers)
    returned = {id(t) for t in done.returned}
    own = (r for k, r in live.known().items() if there.get(k) is not r and k not in returned)
    for t in _held((*(ref for ref, _ in heard.wrote.values()), *own)):
        done.followers.add(t, is_view=id(t) in heard.wrote and bool(owners_of(t)))
    live.all_to_compute(is_stored)
    for t in {
        id(t): t for t in (*_held(waiting), *live.lying_in(is_stored, done.made, memory_under))
    }.values():
        if t not in done.followers and id(t) not in returned:
            _keep_apart(t, done)


def _held(refs: Iterable[Any]) -> Iterator[Tensor]:
    return (t for ref in refs if (t := ref()) is not None)


def _keep_apart(t: Tensor, done: Aftermath) -> None:
    """Give a tensor memory of its own where it looks at what the capture made."""
    nodes = storage_looked_at(t.uop).all
    if not _meets(nodes, done.made):
        return
    _compute(t, keep, done.made)
    done.moved.update(m.base for x in nodes if x._buffer is not None for m in memories_of(x))


before_inputs.append(settle)
before_capture.append(own_memory)
before_replay.append(keep_order)
around_capture.append(around_capturing)

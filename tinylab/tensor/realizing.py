"""From tensors to values in memory; what else is held and contains them looks there from now on.

A value that somebody holds and that reads what is about to be overwritten is computed first. Where
that is not possible (its kernel does not compile, it is too large), it gets a copy of what it
reads: the write goes on, and only who asks for that value hears what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinylab.dtype import dtypes, strong_dtype
from tinylab.engine.locking import alone
from tinylab.engine.realize import ReadersFirst, kept_copy, realize_uops, to_store
from tinylab.errors import AllocationError, TinylabError
from tinylab.opcodes import Ops
from tinylab.schedule.effects import copied_first
from tinylab.schedule.keep_old_values import read_instead
from tinylab.tensor.core import TensorCore
from tinylab.tensor.held import live, mark_of
from tinylab.tensor.history import note_written
from tinylab.tensor.noting import note_realized
from tinylab.tensor.random import counters_of
from tinylab.trace import events
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

_ASIDE = "what reads it cannot be computed before it is overwritten"


@alone
def realize_all(tensors: Sequence[TensorCore], look: bool = False) -> None:
    """Compute tensors; all that is held and contains them looks at memory from now on.

    look: gradients still go through what is written on the way.
    """
    wanted = [t for t in tensors if _needs_memory(t)]
    if not wanted:
        return
    roots = [t.uop for t in wanted]
    note_realized(roots)
    streams = counters_of(roots)
    device = next((u.device for u in roots if isinstance(u.device, str)), None)
    counters = [counter for _, counter in streams]
    tried: set[UOp] = set()
    while True:
        try:
            becomes = realize_uops([*roots, *counters], lambda: [t.uop for t in live], device)
            break
        except ReadersFirst as found:
            if tried.issuperset(found.readers):
                raise found.error from None
            tried.update(found.readers)
            for t in wanted:  # so that they follow too
                live.add(t)
            _compute_first(found, look)
        roots = [t.uop for t in wanted]
    for stream, counter in streams:
        stream.counter = becomes.get(counter, counter)
    note_written(becomes, _parameters if look else None)
    _look_at_memory([*wanted, *_concerned(roots, becomes)], becomes)


def _parameters() -> set[UOp]:
    return {t.uop for t in live if t.is_param}


def _needs_memory(t: TensorCore) -> bool:
    """Whether a tensor has values that are not stored yet."""
    empty = any(isinstance(s, int) and s == 0 for s in t.shape)
    return not empty and not dtypes.is_weak(t.dtype) and to_store(t.uop) is not None


def _concerned(roots: Sequence[UOp], becomes: dict[UOp, UOp]) -> Iterable[TensorCore]:
    """The tensors that may contain a computed value; after a write in place, all."""
    if len(roots) > 16 or any(x.op is Ops.AFTER for x in becomes):
        return live
    marks = [mark_of(u) for u in roots]
    return live.to_compute(lambda uop: to_store(uop) is None, marks)


def _look_at_memory(tensors: Iterable[TensorCore], becomes: dict[UOp, UOp]) -> None:
    # What only looked at memory may have got a copy of it, before a write.
    pending = {id(t): t for t in tensors if t.uop in becomes or to_store(t.uop) is not None}
    if not pending or not becomes:
        return
    holders = []
    for t in pending.values():
        if (now := becomes.get(t.uop)) is not None:
            t.uop = now
            live.changed(t)
        else:
            holders.append(t)
    if not holders:
        return
    with events.quietly():  # keeping house is no part of what the user's program does
        new = UOp.sink(*(t.uop for t in holders)).substitute(becomes, walk=True)
    for t, uop in zip(holders, new.src, strict=True):
        t.uop = uop
        live.looks_elsewhere(t)


# *** before a write


def _compute_first(found: ReadersFirst, look: bool) -> None:
    """Each reader in a run of its own; one that cannot be computed gets a copy of what it reads."""
    readers = [TensorCore._from_uop(u) for u in found.readers]
    for t in readers:  # so that each follows when those before it have run
        live.add(t)
    for t, before in sorted(
        zip(readers, found.readers, strict=True), key=lambda pair: pair[1].op is not Ops.AFTER
    ):
        if t.uop is not before and to_store(t.uop) is None:
            continue
        reader = t.uop
        try:
            if reader.op is Ops.AFTER:
                realize_all([t], look)
            else:
                keep(t)
                _look_at_memory(live, {reader: t.uop})
        except Exception as error:
            if not found.states:
                raise
            set_aside(reader, found.states, error)


def keep(t: TensorCore) -> None:
    """Give a tensor its value in memory of its own."""
    uop = t.uop
    kept = TensorCore._from_uop(kept_copy(uop.cast(strong_dtype(uop.dtype))))
    realize_all([kept])
    t.uop = kept.uop.cast(uop.dtype)
    live.looks_elsewhere(t)


def set_aside(reader: UOp, states: Iterable[UOp], why: Exception) -> None:
    """Let a value that cannot be computed read copies of states that are about to be overwritten.

    Raises: AllocationError where there is no memory for a copy.
    """
    below = reader.toposort(enter_calls=False)
    copies = {}
    for state in states:
        if state not in below:
            continue
        uop = make(Ops.CONTIGUOUS, state.dtype, (state,), copied_first(_ASIDE, state))
        copy = TensorCore._from_uop(uop)
        try:
            realize_all([copy])
        except AllocationError as e:
            e.help = (
                f"{e.help}; it is for a copy of what a value that somebody holds reads, and that "
                f"value cannot be computed: {_first_line(why)}. Let go of it (del)"
            )
            raise
        copies[state] = copy.uop
    _look_at_memory(live, {reader: read_instead(reader, copies)})


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, TinylabError) else str(error)
    return text.partition("\n")[0] or type(error).__name__

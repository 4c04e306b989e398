"""From tensors to values in memory; what else is held and contains them looks there from now on.

A value that somebody holds and that reads what is about to be overwritten is computed first. Where
that is not possible (its kernel does not compile, it is too large), it gets a copy of what it
reads: the write goes on, and only who asks for that value hears what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from tinylab.device import Buffer
from tinylab.dtype import dtypes, strong_dtype
from tinylab.engine.locking import alone
from tinylab.engine.outcome import Run
from tinylab.engine.realize import ReadersFirst, kept_copy, realize_uops, to_store
from tinylab.errors import FAILURES, AllocationError, TinylabError
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below, copied_first
from tinylab.schedule.keep_old_values import read_instead
from tinylab.schedule.make_there import only_keeps
from tinylab.tensor.core import TensorCore
from tinylab.tensor.held import live, mark_of
from tinylab.tensor.history import note_kept, note_written
from tinylab.tensor.noting import note_realized
from tinylab.tensor.random import counters_of, drawn_streams, settle_counters
from tinylab.tensor.unfinished import look_at_memory, looks_at, take_over
from tinylab.tensor.waiting import memory_under
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

_ASIDE = "what reads it cannot be computed before it is overwritten"


@alone
def realize_all(tensors: Sequence[TensorCore], look: bool = False) -> None:
    """Compute tensors; all that is held and contains them looks at memory from now on.

    When that ends early, what has been computed by then is kept; see `unfinished`.

    look: gradients still go through what is written on the way.
    """
    wanted = [t for t in tensors if _needs_memory(t)]
    if not wanted:
        return
    note_realized([t.uop for t in wanted])
    take_back = [stream.state() for stream in drawn_streams()]
    runs = [Run()]
    try:
        _realize(wanted, runs, look)
    except BaseException as error:
        take_over(runs[-1], wanted, error)
        for stream_before in take_back:
            stream_before()
        raise


def _realize(wanted: Sequence[TensorCore], runs: list[Run], look: bool) -> None:
    streams = [stream for stream, _ in counters_of([t.uop for t in wanted])]
    tried: set[UOp] = set()
    while True:
        roots = [t.uop for t in wanted]
        places = (u.device for u in roots if isinstance(u.device, str))
        device = next((d for d in places if not only_keeps(d)), None)
        everything = [*roots, *(stream.counter for stream in streams)]
        try:
            becomes = realize_uops(everything, lambda: [t.uop for t in live], device, runs[-1])
            break
        except ReadersFirst as found:
            first = [u for u in found.readers if u not in tried and u not in _trying]
            if not first or _tries.are_over():
                raise found.error from None
            tried.update(first)
            for t in wanted:  # so that they follow too
                live.add(t)
            take_over(runs[-1], wanted, found.error)
            runs.append(Run())
            _compute_first(first, found.states, look)
    runs[-1].is_past = True
    settle_counters(becomes)
    note_written(becomes, look, everything)
    look_at_memory([*wanted, *_concerned(roots, becomes)], becomes)


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


# *** before a write


# Readers that are being computed first, and what others became that could not be.
_trying: list[UOp] = []
_aside: set[UOp] = set()


class _Tries:
    """How often readers were tried for one write: where many fail, each would try all others."""

    def __init__(self) -> None:
        self._left = 0

    def begin(self) -> None:
        """Count one more; the first for a write sets the limit."""
        self._left = _SOME + 4 * len(live) if not _trying else self._left - 1

    def are_over(self) -> bool:
        """Whether no more may be tried."""
        return bool(_trying) and self._left < 0


_SOME = 64
_tries = _Tries()


def _compute_first(uops: Sequence[UOp], states: Sequence[UOp], look: bool) -> None:
    """Each reader in a run of its own; one that cannot be computed gets a copy of what it reads."""
    readers = [(TensorCore._from_uop(u), u) for u in uops]
    for t, _ in readers:  # so that each follows when those before it have run
        live.add(t)
    for t, before in sorted(readers, key=lambda pair: pair[1].op is not Ops.AFTER):
        if t.uop in _aside or (t.uop is not before and to_store(t.uop) is None):
            continue
        _tries.begin()
        _trying.append(t.uop)
        try:
            _compute_apart(t, states, look)
        finally:
            _trying.pop()
            if not _trying:
                _aside.clear()


def _compute_apart(t: TensorCore, states: Sequence[UOp], look: bool) -> None:
    reader = t.uop
    try:
        if reader.op is Ops.AFTER:
            realize_all([t], look)
        else:
            keep(t, {m for x in states for m in memory_under(buffer_below(x))})
            look_at_memory(live, {reader: t.uop})
    except FAILURES as error:
        if not states:
            raise
        set_aside(reader, states, error)


def keep(t: TensorCore, written: Set[Buffer]) -> None:
    """Give a tensor its value in memory of its own, before other memory (bases) is written."""
    uop = t.uop
    kept = TensorCore._from_uop(kept_copy(uop.cast(strong_dtype(uop.dtype))))
    realize_all([kept])
    looks_at(t, kept.uop.cast(uop.dtype))
    note_kept(kept.uop.base, uop, written)


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
    now = read_instead(reader, copies)
    _aside.add(now)
    look_at_memory(live, {reader: now})


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, TinylabError) else str(error)
    return text.partition("\n")[0] or type(error).__name__

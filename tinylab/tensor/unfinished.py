"""What a run leaves to the tensors that somebody holds: all that it computed, or what it came to.

A run may end early: a kernel fails, somebody presses Ctrl-C. Then

    1. what is torn is finished: a write in place that has begun, and what reads what is overwritten
       already, unless it needs the kernel that failed; a second Ctrl-C ends that too
    2. what is there is taken over as after a run that ends well, so that no write is done twice
    3. what read something that is gone is marked: a look at it says so, and gives no wrong number
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinylab.device import LostBuffer, MultiBuffer
from tinylab.engine.outcome import Run, reads_among
from tinylab.engine.realize import to_store
from tinylab.errors import FAILURES
from tinylab.helpers.seq import prod
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below, is_write
from tinylab.schedule.keep_old_values import storage_of
from tinylab.tensor.core import TensorCore
from tinylab.tensor.held import live
from tinylab.tensor.history import note_written
from tinylab.tensor.random import settle_counters
from tinylab.tensor.waiting import storage_looked_at
from tinylab.trace import events
from tinylab.uop.ops import UOp, rebuild


def looks_at(t: TensorCore, uop: UOp) -> None:
    """Give a tensor another node for the value that it has."""
    t.uop = uop
    if to_store(uop) is None:  # a view of what was computed
        live.changed(t)
    else:
        live.looks_elsewhere(t)


def look_at_memory(tensors: Iterable[TensorCore], becomes: dict[UOp, UOp]) -> None:
    """Put views of memory, or other nodes, in the place of nodes in the graphs of tensors."""
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
        looks_at(t, uop)


def take_over(run: Run, wanted: Sequence[TensorCore], error: BaseException) -> None:
    """Let tensors look at what a run came to that ended early.

    wanted: tensors that it was to compute, held or not. error: what ended it.
    """
    run.progress.land(error)
    _finish(run)
    tensors = list({id(t): t for t in (*live, *wanted)}.values())
    try:
        _take_over(run, tensors, error)
    except BaseException:  # by a signal in the middle of keeping house: the same once more
        _take_over(run, tensors, error)


def _finish(run: Run) -> None:
    """Finish what is torn, as far as that is possible."""
    known = None
    while (left := run.torn()) and left != known:
        known = left
        try:
            run.progress.finish(left)
        except FAILURES as error:  # of a kernel that others may not need
            run.progress.land(error)
        except BaseException as again:
            run.progress.land(again)
            return


def _take_over(run: Run, tensors: Sequence[TensorCore], error: BaseException) -> None:
    begun = set(run.begun())
    # A copy of memory is for who looks at what is overwritten. Where nothing is, all stay: the
    # write that waits would go to the copy.
    overwritten = {buffer_below(w) for w in begun}
    becomes = {
        x: seen
        for x, seen in run.becomes().items()
        if to_store(x) is not None or not storage_looked_at(x).all.isdisjoint(overwritten)
    }
    if begun and not run.is_past:
        known = {x for x in becomes if not is_write(x)}
        _mark_lost(run, tensors, begun, known, error)
    run.is_past = True
    note_written(becomes, look=False)
    settle_counters(becomes)
    look_at_memory(tensors, becomes)


def _mark_lost(
    run: Run,
    tensors: Sequence[TensorCore],
    begun: set[UOp],
    known: set[UOp],
    error: BaseException,
) -> None:
    """Put what says that it is gone in the place of overwritten states that tensors still read.

    begun: the writes that overwrote them. known: values that are in memory.
    """
    whole = {x for n, x in enumerate(run.targets) if run.is_written(n)}
    reads = reads_among([*(t.uop for t in tensors), *begun], begun, known)
    gone = {state for state, bits in reads.replaced.items() if bits}
    gone |= {w for w in begun - whole if reads.old[w] or _reads_itself(w)}
    gone -= known  # a copy of it is there
    lost: dict[UOp, UOp] = {}
    past = {*gone, *begun, *known}
    order = UOp.sink(*(t.uop for t in tensors)).toposort(lambda x: x not in past, enter_calls=False)
    for x in order:
        for s in x.src:
            if s in gone and s not in lost:
                lost[s] = _lost(s, run.line, error)
        src = tuple(lost.get(s, s) for s in x.src)
        if src != x.src and x.op is not Ops.SINK:
            lost[x] = rebuild(x, src)
    if not lost:
        return
    for t in tensors:
        if t.uop in lost:
            t.uop = lost[t.uop]
            live.changed(t)


def _reads_itself(write: UOp) -> bool:
    """Whether what is written depends on what was there."""
    state = storage_of(write.src[0])
    for effect in write.src[1:]:
        if effect.op is not Ops.STORE:
            return True
        below = effect.src[1].toposort(lambda x: x is state or not is_write(x), enter_calls=False)
        if state in below:
            return True
    return False


def _lost(state: UOp, line: str, error: BaseException) -> UOp:
    """A buffer in the place of one that is overwritten."""
    message = (
        f"the value that this was built from is gone: it was overwritten when the run at {line} "
        f"ended early ({type(error).__name__}), before this was computed"
    )
    words = message, "build it again from what is there now"
    size = prod(state.shape)
    if isinstance(state.device, tuple):
        parts = [LostBuffer(d, size, state.dtype, *words) for d in state.device]
        node = UOp.from_buffer(MultiBuffer(state.device, size, state.dtype, parts))
    else:
        place = str(state.device)
        node = UOp.from_buffer(LostBuffer(place, size, state.dtype, *words))
    return node if node.shape == state.shape else node.reshape(state.shape)

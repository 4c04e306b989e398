"""Program order decides: what was built before a write in place sees the old value.

Where a value needs both the old content of a buffer and something that comes after the write, no
order of kernels is right, so the old content is copied first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.effects import is_write, written_slots
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, rebuild

_REASON = "its old content is still needed after it is overwritten"


def storage_of(view: UOp) -> UOp:
    """The buffer, or the state of it after earlier writes, that a view looks at."""
    while view.op in GroupOp.Movement or view.op is Ops.BITCAST:
        view = view.src[0]
    return view


def _writes(order: list[UOp]) -> list[UOp]:
    return [x for x in order if is_write(x)]


class StateReads(NamedTuple):
    """What a graph reads of buffers that are written to; bit n of a mask stands for write n.

    late: the node comes after the write. old: it reads what the write replaces, and not by way of
    the write itself. replaced: the writes that replace a state of a buffer.
    """

    late: dict[UOp, int]
    old: dict[UOp, int]
    replaced: dict[UOp, int]


def reads_of_states(order: Iterable[UOp], writes: Sequence[UOp]) -> StateReads:
    """The masks of every node of a graph, whose nodes are given sources first."""
    bit_of = {w: 1 << n for n, w in enumerate(writes)}
    replaced: dict[UOp, int] = {}
    for w in writes:
        v = storage_of(w.src[0])
        replaced[v] = replaced.get(v, 0) | bit_of[w]
    late: dict[UOp, int] = {}
    old: dict[UOp, int] = {}
    for x in order:
        here_late = here_old = 0
        for s in x.src:
            here_late |= late.get(s, 0)
            here_old |= old.get(s, 0)
        own = bit_of.get(x, 0)
        late[x] = here_late | own
        old[x] = here_old & ~own | replaced.get(x, 0)
    return StateReads(late, old, replaced)


def _conflicts(order: list[UOp], writes: list[UOp]) -> set[UOp]:
    """States of buffers that are read together with what replaced them."""
    late, old, replaced = reads_of_states(order, writes)
    clash = 0
    for x in order:
        if x.op in (Ops.SINK, Ops.TUPLE, Ops.MSTACK, Ops.UNSHARD):
            continue
        here_late = here_old = 0
        for s in x.src:
            here_late |= late.get(s, 0)
            here_old |= old.get(s, 0)
        clash |= here_late & here_old
    for n in _undecided([(old[w], late[w]) for w in writes], clash):
        clash |= 1 << n
    return {v for v, bits in replaced.items() if bits & clash}


def _undecided(masks: list[tuple[int, int]], clash: int) -> list[int]:
    """Writes whose old content must be copied because no order of the writes is right.

    A write comes before those that replace what it reads (`old`), and after those it builds on
    (`late`). What is copied anyway (`clash`) binds nobody.
    """
    own = [1 << n for n in range(len(masks))]
    old = [o & ~clash & ~own[n] for n, (o, _) in enumerate(masks)]
    before = [late & ~own[n] for n, (_, late) in enumerate(masks)]
    for n, bits in enumerate(old):
        for m in range(len(masks)):
            if bits >> m & 1:
                before[m] |= own[n]
    waiting = set(range(len(masks)))
    copied = []
    while waiting:
        ready = {n for n in waiting if not before[n]}
        if not ready:
            # Free the first write that only waits for readers of what it replaces.
            n = min(waiting, key=lambda n: (masks[n][1] & before[n] != 0, n))
            copied.append(n)
            before[n] = 0
            ready = {n}
        waiting -= ready
        gone = sum(own[n] for n in ready)
        for n in waiting:
            before[n] &= ~gone
    return copied


_STORAGE = GroupOp.Movement | {Ops.BITCAST, Ops.AFTER}


def _arguments(call: UOp, written: dict[UOp, UOp], read: dict[UOp, UOp]) -> tuple[UOp, ...]:
    """A call's sources with copies for what it only reads; a body stays what it is."""
    slots = written_slots(call.src[0])
    arguments = enumerate(call.src[1:])
    return (call.src[0], *(written[a] if n in slots else read[a] for n, a in arguments))


def keep_old_values(sink: UOp, ctx: Any = None) -> UOp:
    """The graph with the old content of a buffer copied where it is needed after a write."""
    order = list(sink.toposort(enter_calls=False))
    writes = _writes(order)
    clashing = _conflicts(order, writes) if writes else set()
    if not clashing:
        return sink
    states = set(writes)
    read: dict[UOp, UOp] = {}  # node -> what reads it now, perhaps the copy
    written: dict[UOp, UOp] = {}  # node -> the storage itself, as the target of a write
    for x in order:
        if x.op is Ops.CALL:
            read[x] = written[x] = rebuild(x, _arguments(x, written, read))
            continue
        more = tuple(read[s] for s in x.src[1:])
        as_target = x.op in _STORAGE or x.op is Ops.STORE
        stored = _with(x, (written[x.src[0]], *more)) if as_target else x
        if x.op is Ops.STORE or x in states:
            new = stored
        else:
            new = _with(x, (*(read[s] for s in x.src[:1]), *more))
        written[x] = stored if as_target else new
        read[x] = make(Ops.CONTIGUOUS, x.dtype, (new,), _REASON) if x in clashing else new
    return read[sink]


def _with(x: UOp, src: tuple[UOp, ...]) -> UOp:
    return x if src == x.src else rebuild(x, src)

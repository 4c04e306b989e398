"""Program order decides: what was built before a write in place sees the old value.

Where a value needs both the old content of a buffer and something that comes after the write, no
order of kernels is right, so the old content is copied first.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tinylab.errors import ScheduleError
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.effects import buffer_below, copied_first, is_write, written_slots
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, rebuild

_REASON = "its old content is still needed after it is overwritten"
_RIVAL = "another write starts from the same content"
_OWN_TARGET = "a kernel written by hand reads what it writes"


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
    a write; of a write what it reads itself. replaced: the writes that replace a state of a buffer.
    """

    late: dict[UOp, int]
    old: dict[UOp, int]
    replaced: dict[UOp, int]
    writes: dict[UOp, int]

    def below(self, x: UOp) -> tuple[int, int]:
        """(late, old) of what a node reads.

        What an earlier write has read is past once it ran: its result needs the write, not that.
        """
        late = old = 0
        for s in x.src:
            late |= self.late.get(s, 0)
            old |= self.old.get(s, 0) if s not in self.writes else self.replaced.get(s, 0)
        return late, old


def reads_of_states(
    order: Iterable[UOp], writes: Sequence[UOp], waiting: Iterable[UOp] = ()
) -> StateReads:
    """The masks of every node of a graph, whose nodes are given sources first.

    waiting: writes that have no bit: what reads by way of one needs that one, as with the others.
    """
    bit_of = dict.fromkeys(waiting, 0) | {w: 1 << n for n, w in enumerate(writes)}
    replaced: dict[UOp, int] = {}
    for w in writes:
        v = storage_of(w.src[0])
        replaced[v] = replaced.get(v, 0) | bit_of[w]
    reads = StateReads({}, {}, replaced, bit_of)
    for x in order:
        late, old = reads.below(x)
        own = bit_of.get(x, 0)
        reads.late[x] = late | own
        reads.old[x] = old & ~own | replaced.get(x, 0)
    return reads


def _conflicts(order: list[UOp], writes: list[UOp]) -> set[UOp]:
    """States of buffers that are read together with what replaced them."""
    reads = reads_of_states(order, writes)
    clash = 0
    between: set[tuple[int, int]] = set()  # (writes before, writes after) of some value
    for x in order:
        if x.op in (Ops.SINK, Ops.TUPLE):
            continue
        late, old = reads.below(x)
        clash |= late & old
        if late and old:
            between.add((late, old))
    together = _by_call(writes)
    bound = [
        (reads.old[w] & ~same, reads.late[w] & ~same)
        for w, same in zip(writes, together, strict=True)
    ]
    clash |= _undecided(bound, between, clash)
    return {v for v, bits in reads.replaced.items() if bits & clash}


def _by_call(writes: list[UOp]) -> list[int]:
    """For each write those that the same calls make: they happen at once."""
    of_call: dict[UOp, int] = {}
    for n, w in enumerate(writes):
        for effect in w.src[1:]:
            of_call[effect] = of_call.get(effect, 0) | 1 << n
    return [functools.reduce(operator.or_, (of_call[e] for e in w.src[1:])) for w in writes]


def _undecided(bound: list[tuple[int, int]], between: set[tuple[int, int]], clash: int) -> int:
    """Writes whose old content must be copied because no order of the writes is right.

    A write comes before those that replace what it reads, and after those it builds on (`bound`); a
    value that reads what some writes left and what others replace stands between them. What is
    copied (`clash`) binds nobody.
    """
    copied = 0
    while True:
        before = _must_precede(bound, between, clash | copied)
        waiting = _in_no_order(before)
        if not waiting:
            return copied
        # Free a write that waits for readers only; what it replaces is copied for them.
        free = [n for n in _bits(waiting) if before[n] & waiting & ~bound[n][1]]
        copied |= 1 << min(free, key=lambda n: (bool(bound[n][1] & waiting), n))


def _in_no_order(before: list[int]) -> int:
    """The writes that cannot be put in an order, each behind those that come first.

    A write that waits looks at one of those it waits for, the last; when that one is done, at
    another: so the work grows with the writes, not with their square.
    """
    waiting = (1 << len(before)) - 1
    watched: dict[int, list[int]] = {}
    ready = list(range(len(before)))
    while ready:
        looking, ready = ready, []
        for n in looking:
            blocked = before[n] & waiting & ~(1 << n)
            if blocked:
                watched.setdefault(blocked.bit_length() - 1, []).append(n)
            else:
                waiting &= ~(1 << n)
                ready += watched.pop(n, ())
    return waiting


def _must_precede(
    bound: list[tuple[int, int]], between: set[tuple[int, int]], copied: int
) -> list[int]:
    """For each write the writes that come first."""
    before = [after for _, after in bound]
    for n, (reads, _) in enumerate(bound):
        for m in _bits(reads & ~copied & ~(1 << n)):
            before[m] |= 1 << n
    for earlier, later in between:
        for m in _bits(later & ~copied):
            before[m] |= earlier & ~(1 << m)
    return before


def _bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


_STORAGE = GroupOp.Movement | {Ops.BITCAST, Ops.AFTER}


def _arguments(call: UOp, written: dict[UOp, UOp], read: dict[UOp, UOp]) -> Iterator[UOp]:
    """A call's sources with copies for what it only reads; a body stays what it is."""
    yield call.src[0]
    slots = written_slots(call.src[0])
    targets = {buffer_below(a) for n, a in enumerate(call.src[1:]) if n in slots}
    for n, a in enumerate(call.src[1:]):
        if n in slots:
            yield written[a]
        elif buffer_below(a) in targets:
            yield make(Ops.CONTIGUOUS, a.dtype, (read[a],), copied_first(_OWN_TARGET, a))
        else:
            yield read[a]


def _targets_meet(order: Iterable[UOp]) -> bool:
    """Whether some kernel is given one buffer both to write and, as another argument, to read.

    Raises: ScheduleError where it is to write one buffer as two arguments.
    """
    found = False
    for call in order:
        if call.op is not Ops.CALL:
            continue
        buffers = [buffer_below(a) for a in call.src[1:]]
        slots = sorted(written_slots(call.src[0]))
        targets = [buffers[n] for n in slots if n < len(buffers)]
        if len(set(targets)) < len(targets):
            raise ScheduleError(
                f"kernel {_name(call)!r} writes its arguments {slots}, and two of them are one "
                "buffer",
                help="give it a tensor of its own for each output, such as a .clone()",
            )
        found = found or any(b in targets for n, b in enumerate(buffers) if n not in slots)
    return found


def _name(call: UOp) -> str:
    arg = call.src[0].arg
    return str(call.arg.name or getattr(arg, "name", "") or call.src[0].op.name.lower())


def _rival(order: list[UOp], writes: list[UOp]) -> UOp | None:
    """One of two writes to the same content; preferably of a kernel, whose result may lie anywhere.

    None where the second writes all of it and reads what the first made, and not the content.
    """
    by_state: dict[UOp, list[int]] = {}
    for n, w in enumerate(writes):
        by_state.setdefault(storage_of(w.src[0]), []).append(n)
    rivals = [found for found in by_state.values() if len(found) > 1]
    if not rivals:
        return None
    reads = reads_of_states(order, writes)
    for n, m in itertools.chain(*(itertools.combinations(found, 2) for found in rivals)):
        first, second = writes[n], writes[m]
        if any(e in second.src[1:] for e in first.src[1:]):
            continue
        if reads.late[second] >> n & 1 and _writes_all(second):
            values = [e.src[1] for e in second.src[1:]]
            if not any(reads.old.get(x, 0) >> n & 1 for x in values):
                continue
        return first if all(e.op is Ops.CALL for e in first.src[1:]) else second
    return None


def _writes_all(write: UOp) -> bool:
    """Whether nothing of the old content is left."""
    return all(e.op is Ops.STORE and len(e.src) == 2 and _has_all(e.src[0]) for e in write.src[1:])


def _has_all(view: UOp) -> bool:
    while view.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.BITCAST):
        view = view.src[0]
    return view.op not in GroupOp.Movement


def _written_apart(sink: UOp, write: UOp) -> UOp:
    """The graph with a write to a copy of what it replaces."""
    state = storage_of(write.src[0])
    copy = make(Ops.CONTIGUOUS, state.dtype, (state,), copied_first(_RIVAL, state))

    def on_copy(view: UOp) -> UOp:
        return view.substitute({state: copy}, walk=True) if storage_of(view) is state else view

    new: dict[UOp, UOp] = {}
    for e in write.src[1:]:
        if e.op is Ops.CALL:
            slots = written_slots(e.src[0])
            places = (on_copy(a) if n in slots else a for n, a in enumerate(e.src[1:]))
            new[e] = rebuild(e, (e.src[0], *places))
        elif e.op is Ops.STORE:
            new[e] = rebuild(e, (on_copy(e.src[0]), *e.src[1:]))
    effects = tuple(new.get(e, e) for e in write.src[1:])
    return sink.substitute(
        new | {write: rebuild(write, (on_copy(write.src[0]), *effects))}, walk=True
    )


def keep_old_values(sink: UOp, ctx: Any = None) -> UOp:
    """The graph with the old content of a buffer copied where it is needed after a write.

    Raises: ScheduleError for a kernel that is to write one buffer as two arguments.
    """
    order = list(sink.toposort(enter_calls=False))
    writes = _writes(order)
    while (rival := _rival(order, writes)) is not None:
        sink = _written_apart(sink, rival)
        order = list(sink.toposort(enter_calls=False))
        writes = _writes(order)
    clashing = _conflicts(order, writes) if writes else set()
    meet = _targets_meet(order)
    if not clashing and not meet:
        return sink
    states = set(writes)
    read: dict[UOp, UOp] = {}  # node -> what reads it now, perhaps the copy
    written: dict[UOp, UOp] = {}  # node -> the storage itself, as the target of a write
    for x in order:
        if x.op is Ops.CALL:
            read[x] = written[x] = rebuild(x, tuple(_arguments(x, written, read)))
            continue
        more = tuple(read[s] for s in x.src[1:])
        as_target = x.op in _STORAGE or x.op is Ops.STORE
        stored = _with(x, (written[x.src[0]], *more)) if as_target else x
        if x.op is Ops.STORE or x in states:
            new = stored
        else:
            new = _with(x, (*(read[s] for s in x.src[:1]), *more))
        written[x] = stored if as_target else new
        read[x] = new
        if x in clashing:
            read[x] = make(Ops.CONTIGUOUS, x.dtype, (new,), copied_first(_REASON, x))
    return read[sink]


def read_instead(x: UOp, instead: dict[UOp, UOp]) -> UOp:
    """A value that reads other nodes in place of some states of buffers.

    a + 1, {a: copy}  ->  copy + 1

    What it reads by way of a write stays: that write is to happen in the buffer.
    """
    new = dict(instead)
    order = x.toposort(lambda n: n is x or not (n in instead or is_write(n)), enter_calls=False)
    for node in order:
        if node not in new:
            new[node] = _with(node, tuple(new.get(s, s) for s in node.src))
    return new[x]


def _with(x: UOp, src: tuple[UOp, ...]) -> UOp:
    return x if src == x.src else rebuild(x, src)

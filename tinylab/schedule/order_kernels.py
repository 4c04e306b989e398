"""The order in which kernels run: a LINEAR of CALLs.

A kernel comes after those whose results it reads, and before those that overwrite what it reads.
Among the kernels that may run, the one found first runs first (breadth first). Copies between
devices wait until no kernel may run, and then go together: a device is not left waiting for one
copy after the other. What overwrites a buffer waits, if it can, until the results that were to see
the old content are whole: should a kernel before that fail, nothing is overwritten yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tinylab.dtype import dtypes
from tinylab.errors import ScheduleError
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.effects import (
    buffer_below,
    called_with,
    overwrites,
    read_slots,
    written_slots,
)
from tinylab.schedule.plan_memory import is_internal
from tinylab.schedule.split_kernels import plain
from tinylab.schedule.views import window_of
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

_VIEWS = GroupOp.Movement | {Ops.BITCAST, Ops.UNSHARD}
_THROUGH = GroupOp.Movement | {Ops.AFTER, Ops.BITCAST}


class _Contents:
    """Which content of a buffer a view shows: numbers, the same whatever view it is seen through.

    A buffer has a number, and so has what some calls make of a content. last: the calls that must
    have run before a content is there; those before them are waited for by them.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of: dict[UOp, int] = {}
        self.last: list[tuple[UOp, ...]] = []

    def _number(self, key: Any, last: tuple[UOp, ...]) -> int:
        found = self._numbers.setdefault(key, len(self.last))
        if found == len(self.last):
            self.last.append(last)
        return found

    def of(self, x: UOp) -> int:
        """The number of what a view shows."""
        chain = []
        while x not in self._of and x.op in _THROUGH:
            chain.append(x)
            x = x.src[0]
        if x not in self._of:
            self._of[x] = self._number(x, ())
        found = self._of[x]
        for node in reversed(chain):
            calls = tuple(s for s in node.src[1:] if node.op is Ops.AFTER and s.op is Ops.CALL)
            if calls:
                below = () if all(self._builds_on(c, found) for c in calls) else self.last[found]
                found = self._number((found, calls), (*below, *calls))
            self._of[node] = found
        return found

    def _builds_on(self, call: UOp, content: int) -> bool:
        """Whether a call waits for a content, because it is called with it."""
        return any(self.of(a) == content for a in call.src[1:] if not a.is_variable)


class _Edges(NamedTuple):
    """For each call the calls that must come first; and the contents that calls overwrite."""

    first: dict[UOp, dict[UOp, None]]
    contents: _Contents
    overwritten: dict[int, list[UOp]]


def _edges(order: list[UOp]) -> _Edges:
    calls = [x for x in order if x.op is Ops.CALL]
    contents = _Contents()
    first: dict[UOp, dict[UOp, None]] = {c: {} for c in calls}
    readers: dict[int, list[UOp]] = {}
    overwritten: dict[int, list[UOp]] = {}
    for call in calls:
        for n, argument in enumerate(call.src[1:]):
            content = contents.of(argument)
            first[call].update(dict.fromkeys(contents.last[content]))
            if n == 0 and call.src[0].op is Ops.COPY:
                continue  # where a copy goes to is not read
            readers.setdefault(content, []).append(call)
    for state in order:
        for write in _overwriting(state):
            replaced = contents.of(state.src[0])
            others = [r for r in readers.get(replaced, ()) if r is not write]
            if others:
                overwritten.setdefault(replaced, []).append(write)
            first[write].update(dict.fromkeys((*contents.last[replaced], *others)))
    return _Edges(first, contents, overwritten)


def _overwriting(state: UOp) -> list[UOp]:
    """The calls that a state of a buffer is behind and that write to it."""
    if state.op is not Ops.AFTER:
        return []
    return [w for w in state.src[1:] if w.op is Ops.CALL and overwrites(w, state.src[0])]


def _results_first(sink: UOp, order: list[UOp], edges: _Edges) -> dict[UOp, set[UOp]]:
    """For each call that overwrites something the last calls of the results that see the old.

    What is itself changed in place is no such result: it would have to wait in turn.
    """
    writes = list(dict.fromkeys(w for some in edges.overwritten.values() for w in some))
    if not writes:
        return {}
    bit_of = {w: 1 << n for n, w in enumerate(writes)}
    replaced = {n: sum(bit_of[w] for w in some) for n, some in edges.overwritten.items()}
    sees: dict[UOp, int] = {}  # what it reads that a write replaces
    late: dict[UOp, int] = {}  # the writes that it comes after
    for x in order:
        old, behind = 0, bit_of.get(x, 0)
        for s in x.src:
            old |= sees.get(s, 0)
            behind |= late.get(s, 0)
        if x.op is Ops.CALL:
            for a in x.src[1:]:
                old |= replaced.get(edges.contents.of(a), 0)
        sees[x], late[x] = old, behind
    found: dict[UOp, set[UOp]] = {}
    for x in sink.src:
        bits = sees[x] & ~late[x]
        calls = [c for c in _last_calls(x) if not _changes(c)] if bits else []
        for w in writes if calls else ():
            if bits & bit_of[w]:
                found.setdefault(w, set()).update(calls)
    return found


def _changes(call: UOp) -> bool:
    """Whether a call reads what it writes."""
    body = call.src[0]
    return body.op is Ops.SINK and not written_slots(body).isdisjoint(read_slots(body))


def _bare(call: UOp) -> UOp:
    """The call with bare buffers as arguments: order is the list's now. A copy may have pieces."""
    bare = _bare_piece if call.src[0].op is Ops.COPY else plain
    return called_with(call, (bare(a) for a in call.src[1:]))


def _bare_piece(x: UOp) -> UOp:
    window = window_of(x)
    if window is None:
        return plain(x)
    return window._replace(storage=plain(window.storage)).view()


class _Ready:
    """The calls that may run: kernels one by one, then the copies together; last what should wait.

    results: for a call the calls that it should wait for.
    """

    def __init__(self, results: dict[UOp, set[UOp]]) -> None:
        self.kernels: deque[UOp] = deque()
        self.copies: list[UOp] = []
        self.patient: dict[UOp, None] = {}
        self.missing = {call: len(some) for call, some in results.items()}
        self.waiting: dict[UOp, list[UOp]] = {}
        for call, some in results.items():
            for result in some:
                self.waiting.setdefault(result, []).append(call)

    def add(self, call: UOp) -> None:
        if self.missing.get(call):
            self.patient[call] = None
        else:
            (self.copies if call.src[0].op is Ops.COPY else self.kernels).append(call)

    def have_run(self, calls: list[UOp]) -> None:
        """Let go of those that waited for these."""
        for patient in (w for call in calls for w in self.waiting.get(call, ())):
            self.missing[patient] -= 1
            if not self.missing[patient] and patient in self.patient:
                del self.patient[patient]
                self.add(patient)

    def take(self) -> list[UOp]:
        if self.kernels:
            return [self.kernels.popleft()]
        found, self.copies = self.copies, []
        if found or not self.patient:
            return found
        first = next(iter(self.patient))
        del self.patient[first]
        return [first]


def order_kernels(sink: UOp, ctx: list[UOp] | None = None) -> UOp:
    """The LINEAR of a kernel graph.

    ctx: is filled with the calls as they stand in the graph, in their order.

    Raises: ScheduleError for a cycle, naming the buffers.
    """
    order = list(sink.toposort(enter_calls=False))
    edges = _edges(order)
    first = edges.first
    waiting = {call: len(before) for call, before in first.items()}
    later: dict[UOp, list[UOp]] = {call: [] for call in first}
    for call, before in first.items():
        for b in before:
            later[b].append(call)
    ready = _Ready(_results_first(sink, order, edges))
    for call, count in waiting.items():
        if count == 0:
            ready.add(call)
    done: list[UOp] = []
    while now := ready.take():
        done += now
        ready.have_run(now)
        for next_call in (c for call in now for c in later[call]):
            waiting[next_call] -= 1
            if waiting[next_call] == 0:
                ready.add(next_call)
    if len(done) != len(first):
        stuck = [call for call in first if call not in done]
        names = sorted({f"buffer {plain(c.src[1]).arg.slot}" for c in stuck})
        raise ScheduleError(
            f"cycle detected in assign graph: {', '.join(names)} each need the other's old value",
            help="copy one of them first with .contiguous()",
        )
    if ctx is not None:
        ctx += done
    return make(Ops.LINEAR, dtypes.void, tuple(_bare(call) for call in done))


class Steps(NamedTuple):
    """The calls of a LINEAR that a result comes from, by their numbers.

    own: those that write its storage last. writes: the same, of a content that is copied before it
    is overwritten those that made what is copied. end: behind all that it needs.
    """

    own: tuple[int, ...]
    writes: tuple[int, ...]
    end: int


def steps_of(sink: UOp, order: Sequence[UOp]) -> tuple[Steps, ...]:
    """For each source of a kernel graph the calls, in this order, that make it.

    Lists in a list are counted as what is in them.
    """
    numbers: dict[UOp, range] = {}
    at = 0
    for call in order:
        numbers[call] = range(at, at + _length(call))
        at += _length(call)
    end: dict[UOp, int] = {}
    for x in sink.toposort(enter_calls=False):
        last = numbers[x].stop if x in numbers else 0
        end[x] = max([last, *(end.get(s, 0) for s in x.src)])
    found = []
    for x in sink.src:
        calls = _last_calls(x), _last_calls(x, through_copies=True)
        own, writes = (tuple(n for call in some for n in numbers[call]) for some in calls)
        found.append(Steps(own, writes, end[x]))
    return tuple(found)


def _length(call: UOp) -> int:
    """How many kernels and copies a call, or a list, is."""
    if call.op is Ops.LINEAR:
        return sum(map(_length, call.src))
    return _length(call.src[0]) if call.src[0].op is Ops.LINEAR else 1


def _last_calls(x: UOp, through_copies: bool = False) -> Iterator[UOp]:
    """The calls that a content is behind, without those that earlier contents are behind."""
    while x.op in _VIEWS:
        x = x.src[0]
    if x.op is Ops.MSTACK:
        for part in x.src:
            yield from _last_calls(part, through_copies)
    elif x.op is Ops.AFTER:
        for call in (s for s in x.src[1:] if s.op is Ops.CALL):
            copied = call.src[2] if len(call.src) == 3 else call
            if through_copies and is_internal(plain(x)) and buffer_below(copied).op is Ops.PARAM:
                yield from _last_calls(copied)
            else:
                yield call

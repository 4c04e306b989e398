"""The order in which kernels run: a LINEAR of CALLs.

A kernel comes after those whose results it reads, and before those that overwrite what it reads.
Among the kernels that may run, the one found first runs first (breadth first). Copies between
devices wait until no kernel may run, and then go together: a device is not left waiting for one
copy after the other.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tinylab.dtype import dtypes
from tinylab.errors import ScheduleError
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.effects import called_with, overwrites
from tinylab.schedule.split_kernels import plain
from tinylab.schedule.views import window_of
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

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


def _edges(order: list[UOp]) -> dict[UOp, dict[UOp, None]]:
    """For each call the calls that must come first."""
    calls = [x for x in order if x.op is Ops.CALL]
    contents = _Contents()
    first: dict[UOp, dict[UOp, None]] = {c: {} for c in calls}
    readers: dict[int, list[UOp]] = {}
    for call in calls:
        for n, argument in enumerate(call.src[1:]):
            content = contents.of(argument)
            first[call].update(dict.fromkeys(contents.last[content]))
            if n == 0 and call.src[0].op is Ops.COPY:
                continue  # where a copy goes to is not read
            readers.setdefault(content, []).append(call)
    for state in order:
        if state.op is not Ops.AFTER:
            continue
        replaced = contents.of(state.src[0])
        for write in state.src[1:]:
            if write.op is not Ops.CALL or not overwrites(write, state.src[0]):
                continue
            first[write].update(dict.fromkeys(contents.last[replaced]))
            for reader in readers.get(replaced, ()):
                if reader is not write:
                    first[write][reader] = None
    return first


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
    """The calls that may run: kernels one by one, then the copies together."""

    def __init__(self) -> None:
        self.kernels: deque[UOp] = deque()
        self.copies: list[UOp] = []

    def add(self, call: UOp) -> None:
        (self.copies if call.src[0].op is Ops.COPY else self.kernels).append(call)

    def take(self) -> list[UOp]:
        if self.kernels:
            return [self.kernels.popleft()]
        found, self.copies = self.copies, []
        return found


def order_kernels(sink: UOp, ctx: Any = None) -> UOp:
    """The LINEAR of a kernel graph.

    Raises: ScheduleError for a cycle, naming the buffers.
    """
    order = list(sink.toposort(enter_calls=False))
    first = _edges(order)
    waiting = {call: len(before) for call, before in first.items()}
    later: dict[UOp, list[UOp]] = {call: [] for call in first}
    for call, before in first.items():
        for b in before:
            later[b].append(call)
    ready = _Ready()
    for call, count in waiting.items():
        if count == 0:
            ready.add(call)
    done: list[UOp] = []
    while now := ready.take():
        done += now
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
    return make(Ops.LINEAR, dtypes.void, tuple(_bare(call) for call in done))

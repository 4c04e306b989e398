"""When a node of a pass begins to change, and when it is what it will be at the end.

One replay of the whole pass tells it, and spares every later step most of the graph: in a pass over
10,000 nodes a step looks at a few dozen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tinylab.trace.replay import Replay

NEVER = 1 << 62


class Life(NamedTuple):
    """A node is itself before match `first`, and `final` from match `last` on."""

    first: int
    last: int
    final: int


class Ages:
    """What nodes become under the first k replacements, for those in whose life k does not fall.

    Going from one k to the next touches only the nodes whose life begins or ends there.
    """

    def __init__(self, lives: dict[int, Life]) -> None:
        self._k = 0
        self._begins: dict[int, list[int]] = {}
        self._ends: dict[int, list[tuple[int, int]]] = {}
        self._known: dict[int, int] = {}
        for node, (first, last, final) in lives.items():
            settled = max(first, last)
            if first > 0:
                self._known[node] = node
                self._begins.setdefault(first, []).append(node)
            elif settled <= 0:
                self._known[node] = final
            if settled > 0:
                self._ends.setdefault(settled, []).append((node, final))

    def at(self, k: int) -> dict[int, int]:
        """The nodes that have not begun to change after match k, and what became of the others."""
        known = self._known
        while self._k < k:
            self._k += 1
            for node in self._begins.get(self._k, ()):
                del known[node]
            known.update(self._ends.get(self._k, ()))
        while self._k > k:
            for node, _ in self._ends.get(self._k, ()):
                del known[node]
            for node in self._begins.get(self._k, ()):
                known[node] = node
            self._k -= 1
        return dict(known)


def lives_of(replay: Replay) -> dict[int, Life]:
    """The lives of the nodes of a pass that goes on until no rule fires; those that are known."""
    when = {node: k for k, node in enumerate(replay.before, 1)}
    if len(when) < len(replay.before):
        return {}  # a node that was replaced twice has no one place in time
    first = _beginnings(replay, when)
    ends = _Ends(replay, when)
    ends.run(replay.shown.root_before)
    found = {
        node: Life(first.get(node, 0), ends.last[node] if ends.is_settled(node) else NEVER, final)
        for node, final in ends.done.items()
    }
    return {node: Life(k, NEVER, node) for node, k in first.items()} | found


def _beginnings(replay: Replay, when: dict[int, int]) -> dict[int, int]:
    """For each node of the first graph, the first match of it or of what is below it."""
    first: dict[int, int] = {}
    for node in replay.walk(replay.shown.root_before):
        k = when.get(node, NEVER)
        for s in replay.below(node):
            k = min(k, first[s])
        first[node] = k
    return first


class _Ends:
    """A replay of the whole pass that notes the last match that each result rests on.

    A node that stands under its own replacement, x -> f(x), is seen as it was by what is between.
    What such a node becomes depends on the way to it, so it is not settled; `low` is the number of
    the outermost node that was seen so, NEVER for none (as in Tarjan, "Depth-first search and
    linear graph algorithms", 1972).
    """

    def __init__(self, replay: Replay, when: dict[int, int]) -> None:
        self.replay, self.when = replay, when
        self.becomes = dict(zip(replay.before, replay.after, strict=True))
        self.done: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        self.number: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.low: dict[int, int] = {}

    def is_settled(self, node: int) -> bool:
        """Whether what the node becomes is the same on every way to it."""
        return self.low[node] == NEVER

    def run(self, root: int) -> None:
        """Fill the tables for all that the pass has met."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.done:
                stack.pop()
                continue
            if node not in self.opened:
                self.number[node] = self.low[node] = len(self.number)
                self.last[node] = 0
                self._chase(node, node)
            now = self.opened[node]
            below = self.replay.below(now)
            waiting = [s for s in below if s not in self.done and s not in self.opened]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            self._rest_on(node, below)
            rebuilt = self.replay.rebuild(now, self.done)
            if rebuilt != now and rebuilt in self.becomes:
                self._chase(node, rebuilt)
            else:
                self._close(node, now, rebuilt)

    def _chase(self, node: int, now: int) -> None:
        seen = {now}
        while now in self.becomes:
            self.last[node] = max(self.last[node], self.when[now])
            now = self.becomes[now]
            if now in seen:
                break
            seen.add(now)
        self.opened[node] = now

    def _rest_on(self, node: int, below: Iterable[int]) -> None:
        for s in below:
            if s in self.done:
                self.last[node] = max(self.last[node], self.last[s])
                self.low[node] = min(self.low[node], self.low[s])
            else:
                self.low[node] = min(self.low[node], self.number[s])

    def _close(self, node: int, now: int, rebuilt: int) -> None:
        if self.low[node] == self.number[node]:
            self.low[node] = NEVER
        self.done[node] = rebuilt
        if now != node and now not in self.done:
            self.done[now] = rebuilt
            self.last[now], self.low[now] = self.last[node], self.low[node]

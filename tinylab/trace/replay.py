"""The graph of a pass after match k, by random access and without building a UOp.

The graph after match k is the root with replacements 1 to k applied transitively; after the last it
equals the recorded root. A replay goes over the graph with the replacements in a dict, so its cost
does not depend on how far k is from the step shown before; the last few graphs are kept. What no
match has reached yet, and what none will change any more (`lives`), is not visited: that leaves the
paths from the root to where the pass is at work.

    sources first   a -> rebuild with new sources -> replaced by match 3 -> its sources too ...
    root first      a -> replaced by match 1 -> rebuild with new sources -> replaced by match 7 ...

Both are one rule: replace while a match says so, rebuild with the new sources, and if that made
another node, look again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from tinylab.trace.lives import Ages, lives_of
from tinylab.trace.nodes import CALLS, Head, NodeTable, post_order
from tinylab.trace.record import PassRecord

_KEPT_STEPS = 8


@dataclass(frozen=True)
class Graph:
    """One step: the root, and all nodes under it, sources first.

    `image` says what became of each node of the pass's first graph, and of what rules returned.
    """

    root: int
    order: list[int]
    image: dict[int, int]


class Change(NamedTuple):
    """What one match changed: the nodes that went and came, sources first.

    `image` is that of the graph before it.
    """

    gone: list[int]
    added: list[int]
    image: dict[int, int]


class Descent(NamedTuple):
    """One node that became another: a rule's result, or the node rebuilt with new sources."""

    old: int
    new: int
    replaced: bool


class Replay:
    """All steps of one pass. `step(0)` is the graph before any match, `step(count)` the last."""

    def __init__(self, nodes: NodeTable, shown: PassRecord) -> None:
        self.nodes = nodes
        self.shown = shown
        self.rules, self.before, self.after, self.elapsed_ns = shown.columns()
        self._src: dict[int, tuple[int, ...]] = {}
        self._calls: set[int] = set()  # nodes whose first source the pass does not look into
        self._steps: OrderedDict[int, Graph] = OrderedDict()
        self._heads_like: dict[tuple[object, ...], list[int]] | None = None
        self._descents: list[Descent] | None = None
        self._ages: Ages | None = None

    @property
    def count(self) -> int:
        """Number of matches."""
        return self.shown.count

    def step(self, k: int) -> Graph:
        """The graph after match k.

        Raises: IndexError if k is not in [0, count].
        """
        if not 0 <= k <= self.count:
            raise IndexError(f"step {k} of a pass with {self.count} matches")
        found = self._steps.get(k)
        if found is None:
            image = self._replace(k)
            root = image[self.shown.root_before]
            found = self._steps[k] = Graph(root, self.walk(root), image)
            while len(self._steps) > _KEPT_STEPS:
                self._steps.popitem(last=False)
        self._steps.move_to_end(k)
        return found

    def root(self, k: int) -> int:
        """The root of the graph after match k."""
        found = self._steps.get(k)
        return found.root if found else self._replace(k)[self.shown.root_before]

    def change(self, k: int) -> Change:
        """What match k changed, without a walk over the graph before it.

        That graph differs from the one after the match by what hangs from its root alone; and of
        the later graph it holds what the nodes that went refer to, and all below that.
        """
        later = self.step(k).order
        earlier = self._steps.get(k - 1)
        image = earlier.image if earlier else self._replace(k - 1)
        root = image[self.shown.root_before]
        gone = post_order(root, self._src, self.src, later)
        src = self._src
        held = {root}
        for node in gone:
            held.update(src[node])
        added = []
        for node in reversed(later):
            if node in held:
                held.update(src[node])
            else:
                added.append(node)
        added.reverse()
        return Change(gone, added, image)

    def descents(self) -> list[Descent]:
        """What became what in the whole pass; a node comes after those that it is made of."""
        found: list[Descent] = []
        self._descents = found
        self._replace(self.count)
        self._descents = None
        return found

    def src(self, node: int) -> tuple[int, ...]:
        """Ids of a node's sources."""
        found = self._src.get(node)
        if found is None:
            found = self._src[node] = tuple(self.nodes.src(node))
            if not self.shown.enter_calls and self.nodes.head(node).op in CALLS:
                self._calls.add(node)
        return found

    def below(self, node: int) -> tuple[int, ...]:
        """The sources that the pass looks into."""
        src = self.src(node)
        return src[1:] if node in self._calls else src

    def walk(self, root: int) -> list[int]:
        """All nodes under a root, sources first, the root last."""
        return post_order(root, self._src, self.src)

    def rebuild(self, node: int, done: dict[int, int]) -> int:
        """The node with its sources replaced; the same id if none was."""
        return self._rebuild(node, self.src(node), done)

    def _replace(self, k: int) -> dict[int, int]:
        """What each node under the pass's root becomes under the first k replacements."""
        becomes = dict(zip(self.before[:k], self.after[:k], strict=True))
        if self.shown.walk:
            return self._once(becomes)
        return self._to_the_end(becomes, {} if self._descents is not None else self._known(k))

    def _known(self, k: int) -> dict[int, int]:
        """What nodes become under the first k replacements, where that takes no replay."""
        if self._ages is None:
            self._ages = Ages(lives_of(self))
        return self._ages.at(k)

    def _to_the_end(self, becomes: dict[int, int], done: dict[int, int]) -> dict[int, int]:
        """Replay until no replacement fits; `done` holds what is known, and gets the rest."""
        opened: dict[int, int] = {}  # node -> what it has become so far
        stack = [self.shown.root_before]
        # Look-ups are inlined here: this loop runs over the whole graph for every step shown.
        sources, calls, src_of = self._src, self._calls, self.src
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            now = opened.get(node)
            if now is None:
                now = opened[node] = self._chase(node, becomes) if node in becomes else node
            src = sources.get(now)
            if src is None:
                src = src_of(now)
            below = src[1:] if now in calls else src
            # A node that is open already stands above: x -> f(x) keeps this inner x.
            waiting = [s for s in below if s not in done and s not in opened]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            rebuilt = now
            for s in below:
                if done.get(s, s) != s:
                    rebuilt = self._rebuild(now, src, done)
                    break
            if rebuilt != now and rebuilt in becomes:
                opened[node] = self._chase(rebuilt, becomes)
                continue
            done[node] = rebuilt
            if now != node:
                done.setdefault(now, rebuilt)
            stack.pop()
        return done

    def _once(self, becomes: dict[int, int]) -> dict[int, int]:
        """For a pass that walks once: what a rule returned is not looked at again."""
        done: dict[int, int] = {}
        stack = [self.shown.root_before]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if self.shown.bottom_up and node in becomes:
                done[node] = self._replaced(node, becomes)
                continue
            src = self.src(node)
            waiting = [s for s in src[node in self._calls :] if s not in done]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            rebuilt = self._rebuild(node, src, done)
            if not self.shown.bottom_up and rebuilt in becomes:
                rebuilt = self._replaced(rebuilt, becomes)
            done[node] = rebuilt
        return done

    def _chase(self, node: int, becomes: dict[int, int]) -> int:
        """Follow replacements as far as they go; a circle is followed once."""
        seen = {node}
        while node in becomes:
            node = self._replaced(node, becomes)
            if node in seen:
                break
            seen.add(node)
        return node

    def _replaced(self, node: int, becomes: dict[int, int]) -> int:
        if self._descents is not None:
            self._descents.append(Descent(node, becomes[node], True))
        return becomes[node]

    def _rebuild(self, node: int, src: tuple[int, ...], done: dict[int, int]) -> int:
        """The node with its sources replaced; the same id if none was."""
        now = tuple([done.get(s, s) for s in src])
        if node in self._calls:
            now = (src[0], *now[1:])
        if now == src:
            return node
        nodes = self.nodes
        heads, head_of = nodes.heads, nodes.head_of
        head = head_of[node]
        for old, new in zip(src, now, strict=True):
            if old != new and heads[head_of[old]].dtype is not heads[head_of[new]].dtype:
                head = self._head_for(node, src, now)
                break
        rebuilt = nodes.rebuilt(node, head, now)
        if self._descents is not None:
            self._descents.append(Descent(node, rebuilt, False))
        return rebuilt

    def _head_for(self, node: int, src: tuple[int, ...], now: tuple[int, ...]) -> int:
        """The head of a rebuilt node whose sources changed their dtype.

        What the compiler built is in the table; a node that only this view needs takes the new
        dtype of a source whose old dtype it had, a concrete one before a weak one.
        """
        nodes = self.nodes
        head = nodes.head(node)
        for like in self._like(head):
            if nodes.has(like, now):
                return like
        had = [
            nodes.head(new).dtype
            for old, new in zip(src, now, strict=True)
            if nodes.head(old).dtype == head.dtype
        ]
        concrete = [d for d in had if "weak" not in str(d)]
        return nodes.head_id(head._replace(dtype=(concrete or had or [head.dtype])[0]))

    def _like(self, head: Head) -> list[int]:
        """Heads that differ from this one at most in dtype."""
        if self._heads_like is None:
            self._heads_like = {}
            for number, each in enumerate(self.nodes.heads):
                self._heads_like.setdefault(_apart_from_dtype(each), []).append(number)
        return self._heads_like.get(_apart_from_dtype(head), [])


def _apart_from_dtype(head: Head) -> tuple[object, ...]:
    return (head.op, type(head.arg), head.arg, head.tag)

"""Memory and nodes for what a captured function returns, used again once nobody has them.

Each call gives its results memory of their own, so that what was returned keeps its value. To make
a BUFFER, its views and its memory takes some 8 us; to see that the program has dropped those of an
earlier call, 1 us: a program that runs many small kernels would spend its time on the former.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.dtype import DType
from tinylab.engine.buffers import memories_of
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.build import fresh_number
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

# What is larger goes back to the device with the last who has it: its kernel takes longer anyway.
KEPT_BYTES = 1 << 16
# A program drops the results of one call when it has those of the next.
_MOST = 2

_THROUGH = GroupOp.Movement | {Ops.DETACH, Ops.BITCAST, Ops.AFTER, Ops.UNSHARD}


def seen_anew(view: UOp, buffer: UOp, sizes: dict[UOp, UOp]) -> UOp:
    """The same view of another buffer, its variables bound anew."""
    chain = []
    while view.op in _THROUGH:
        chain.append(view)
        view = view.src[0]
    for step in reversed(chain):
        if step.op is not Ops.AFTER:
            buffer = step.replace(src=(buffer, *step.src[1:]))
    return buffer.substitute(sizes, walk=True) if sizes else buffer


class Piece(NamedTuple):
    """Memory that is part of an input or a result, and moves with it: its number, and the whole's.

    size elements of dtype from a byte on.
    """

    number: int
    whole: int
    size: int
    dtype: DType
    offset: int


def pieces_of(memory: Sequence[Buffer], moving: set[int]) -> list[Piece]:
    """The views among the memory of what each call replaces."""
    wholes: dict[Buffer, list[int]] = {}
    for n in moving:
        wholes.setdefault(memory[n].base, []).append(n)
    found = []
    for n, b in enumerate(memory):
        for whole in wholes.get(b.base, ()):
            start = b.offset - memory[whole].offset
            if n not in moving and 0 <= start <= memory[whole].nbytes - b.nbytes:
                found.append(Piece(n, whole, b.size, b.dtype, start))
    return found


def _between(node: UOp, views: Sequence[UOp]) -> list[UOp]:
    found = []
    for view in views:
        while view is not node:
            found.append(view)
            view = view.src[0]
    return found


class _Usual(NamedTuple):
    """How often nodes and memory are referred to: by themselves, and when a call holds the memory.

    That is when nobody else has them.
    """

    alone: list[int]
    placed: list[int]


class Outcome:
    """One buffer that a call returns, and the views of it, in the order in which they are asked."""

    __slots__ = ("_all", "memory", "node", "usual", "views")

    def __init__(self, old: UOp, views: Sequence[UOp], usual: _Usual | None) -> None:
        """usual: of another outcome of the same buffer."""
        device = old.arg.device
        self.node = make(Ops.BUFFER, old.dtype, old.src, old.arg._replace(slot=fresh_number()))
        if isinstance(device, str):
            # Without a look for those who wait for the node's memory: nobody knows it yet.
            self.node._buffer = Buffer(device, old.shape[0], old.dtype)
        self.memory = [m.allocate() for m in memories_of(self.node)]
        self.views = [seen_anew(v, self.node, {}) for v in views]
        nodes = dict.fromkeys((self.node, *_between(self.node, self.views)))
        self._all: list[object] = [*nodes, *self.memory]
        count = len(nodes)
        del nodes  # else it counts
        if usual is None:
            alone = list(map(getrefcount, self._all))
            usual = _Usual(alone, [*alone[:count], *(n + 1 for n in alone[count:])])
        self.usual = usual

    def is_free(self, here: Buffer | None) -> bool:
        """Whether nobody else has it; here: what may also hold its (first) memory."""
        usual = self.usual.placed if here is self.memory[0] else self.usual.alone
        return list(map(getrefcount, self._all)) == usual


class Outcomes:
    """The outcomes of one buffer in the calls of a function."""

    __slots__ = ("_kept", "_old", "_usual", "_views")

    def __init__(self, old: UOp, views: Sequence[UOp]) -> None:
        self._old, self._views = old, views
        self._kept: list[Outcome] = []
        self._usual: _Usual | None = None

    def next(self, here: Buffer | None) -> Outcome:
        """An outcome that nobody else has: the memory is as somebody left it, or new."""
        kept = self._kept
        for n in range(len(kept)):
            if kept[n].is_free(here):
                return kept[n]
        found = Outcome(self._old, self._views, self._usual)
        self._usual = found.usual
        if found.memory[0].nbytes <= KEPT_BYTES:
            kept.append(found)
            del kept[:-_MOST]
        return found

    def forget(self) -> None:
        """Keep none."""
        self._kept.clear()

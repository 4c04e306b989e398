"""What written memory holds, as a function of other values: so that a look cuts off no gradient.

A look at a loss runs the writes below it, and their tensors look at memory from then on. What was
written is kept beside that memory, for gradients only, until it or what it is made of is written
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.engine.buffers import memories_of
from tinylab.errors import GradientError
from tinylab.gradient import placed, views_between
from tinylab.opcodes import Ops
from tinylab.tensor.writing import changed
from tinylab.trace.provenance import user_line
from tinylab.uop.ops import UOp

Marked = Callable[[], "set[UOp]"]


class _Made(NamedTuple):
    """What a BUFFER holds, and how many looks lie between the values it is made of and it."""

    value: UOp
    looks: int


_made: weakref.WeakKeyDictionary[UOp, _Made] = weakref.WeakKeyDictionary()
# By memory: the BUFFERs that lie there, or are made of what lies there.
_concerned: weakref.WeakKeyDictionary[Buffer, weakref.WeakSet[UOp]] = weakref.WeakKeyDictionary()
_MOST_LOOKS = 1
# BUFFERs that were written while they held a value that the new one depends on, as well as on
# parameters: the line of the look that ran the write.
_cut: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()


def note_written(becomes: dict[UOp, UOp], marked: Marked | None, asked: Iterable[UOp] = ()) -> None:
    """Note the writes that a run did, and what it computed before them for those who hold it.

    marked: after a look, gives the values of the tensors that are parameters. What was written is
    kept then; on top of what an earlier look wrote only where a parameter is below, as each holds
    the memory of those before it. asked: the values that were looked at.
    """
    states = [x for x in becomes if x.op is Ops.AFTER and becomes[x].base.op is Ops.BUFFER]
    places = {x: becomes[x].base for x in states}
    forget({m.base for b in places.values() for m in memories_of(b)})
    if marked is None:
        return
    passed = {x.src[0] for x in states}
    last: dict[UOp, list[UOp]] = {}
    for x in states:
        if x not in passed and x.dtype.kind == "float":
            last.setdefault(places[x], []).append(x)
    known = {*states, *asked} if states else becomes
    for x in becomes:  # readers of what was there before a write, held by somebody
        if x not in known and becomes[x].base.op is Ops.BUFFER and x.dtype.kind == "float":
            last.setdefault(becomes[x].base, [x])
    for buffer, found in last.items():
        if len(found) == 1 and found[0].max_numel() == buffer.max_numel():
            _keep(buffer, found[0], marked)


def forget(memory: Iterable[Buffer]) -> None:
    """Some memory (bases) is written: what was known of it, and of what is made of it, is over."""
    if not _made and not _cut:
        return
    for m in memory:
        for buffer in _concerned.pop(m, ()):
            _made.pop(buffer, None)
            _cut.pop(buffer, None)


def _keep(buffer: UOp, state: UOp, marked: Marked) -> None:
    value = _as_value(state)
    if value is None:
        return
    if value.shape != buffer.shape:
        value = value._reshape(buffer.shape)
    leaves = [
        x for x in value.toposort(enter_calls=False) if x.op is Ops.BUFFER and not x.is_variable
    ]
    looks = 1 + max((_made[x].looks for x in leaves if x in _made), default=0)
    if buffer in leaves or looks > _MOST_LOOKS:
        of_parameters = not marked().isdisjoint(Unfolded(value).root.toposort())
        if buffer in leaves:
            if of_parameters:
                _cut[buffer] = user_line()
                _concern(buffer, [buffer])
            return
        if not of_parameters:
            return
    _made[buffer] = _Made(value, looks)
    _concern(buffer, [buffer, *leaves])


def _concern(buffer: UOp, nodes: Iterable[UOp]) -> None:
    for m in {m.base for x in nodes for m in memories_of(x)}:
        _concerned.setdefault(m, weakref.WeakSet()).add(buffer)


def _as_value(state: UOp) -> UOp | None:
    """What a buffer holds after writes, without them; None where kernels by hand wrote."""
    new: dict[UOp, UOp] = {}
    for x in state.toposort(enter_calls=False):
        src = tuple(new.get(s, s) for s in x.src)
        if x.op is not Ops.AFTER or x.is_bound_var:
            new[x] = x if src == x.src else x.replace(src=src)
            continue
        value = src[0]
        for effect in x.src[1:]:
            if effect.op is Ops.AFTER:
                continue
            if effect.op is not Ops.STORE:
                return None
            try:
                moves = views_between(effect.src[0], x.src[0])
            except GradientError:
                return None
            stored = new[effect.src[1]]
            whole = effect.src[0].numel() == x.numel()
            value = placed(moves, stored) if whole else changed(value, moves, stored)
        new[x] = value
    return new[state]


class Unfolded:
    """A graph with what the memory below it was made of in that memory's place."""

    def __init__(self, root: UOp) -> None:
        places: dict[UOp, UOp] = {}
        self.cut: set[str] = set()  # lines of looks behind which gradients end
        stack = [root] if _made or _cut else []
        while stack:
            for x in stack.pop().toposort(enter_calls=False):
                if x in _cut:
                    self.cut.add(_cut[x])
                found = _made.get(x) if x.op is Ops.BUFFER and x not in places else None
                if found is not None:
                    # A node of its own, so that the way back meets nothing else.
                    places[x] = found.value.f(Ops.CONTIGUOUS, arg=f"written to {x.arg.slot}")
                    stack.append(found.value)
        self._places = places
        self.root = root.substitute(places) if places else root

    def inside(self, uop: UOp) -> UOp:
        """Another value as it stands in the graph."""
        return uop.substitute(self._places) if self._places else uop

    def folded(self, values: dict[UOp, UOp]) -> dict[UOp, UOp]:
        """Values that were worked out of the graph, reading the memory again."""
        if not self._places or not values:
            return values
        stood_for = UOp.sink(*self._places.values()).substitute(self._places).src
        back = dict(zip(stood_for, self._places, strict=True))
        found = UOp.sink(*values.values()).substitute(back, walk=True).src
        return dict(zip(values, found, strict=True))

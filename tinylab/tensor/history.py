"""What written memory holds, as a function of other values: so that a look cuts off no gradient.

A look at a loss runs the writes below it, and their tensors look at memory from then on. What was
written is kept beside that memory, for gradients only, until it or what it is made of is written
again. Where that loses gradients for parameters, it is noted, and `backward` says so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Set
from typing import NamedTuple

from tinylab.device import Buffer
from tinylab.engine.buffers import memories_of
from tinylab.errors import GradientError
from tinylab.gradient import gradients_pass, placed, views_between
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below
from tinylab.tensor.held import live
from tinylab.tensor.waiting import memory_under
from tinylab.tensor.writing import changed
from tinylab.trace.provenance import user_line
from tinylab.uop.ops import UOp


class _Made(NamedTuple):
    """What a BUFFER holds, and how many looks lie between the values it is made of and it."""

    value: UOp
    looks: int


_made: weakref.WeakKeyDictionary[UOp, _Made] = weakref.WeakKeyDictionary()
# By memory: the BUFFERs that lie there, or are made of what lies there.
_concerned: weakref.WeakKeyDictionary[Buffer, weakref.WeakSet[UOp]] = weakref.WeakKeyDictionary()
_MOST_LOOKS = 1
# BUFFERs that hold a value whose gradients for parameters are lost, as what it was made of (they
# themselves, in x += y) is overwritten: the line that ran the write.
_cut: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()


def note_written(becomes: dict[UOp, UOp], look: bool, asked: Iterable[UOp] = ()) -> None:
    """Note the writes that a run did, and what it computed before them for those who hold it.

    look: keep what was written; on top of what an earlier look wrote only where a parameter is
    below, as each holds the memory of those before it. asked: the values that were wanted.
    """
    states = [x for x in becomes if x.op is Ops.AFTER and becomes[x].base.op is Ops.BUFFER]
    places = {x: becomes[x].base for x in states}
    held = {b for b in places.values() if _is_known(b) and _has_gradients(b)}
    written = {m.base for b in places.values() for m in memories_of(b)}
    forget(written)
    last: dict[UOp, list[UOp]] = {}
    passed = {x.src[0] for x in states}
    for x in states:
        if look and x not in passed and x.dtype.kind == "float":
            last.setdefault(places[x], []).append(x)
    known = {*states, *asked} if states else becomes
    for x in becomes:  # readers of what was there before a write, held by somebody
        if x not in known and becomes[x].base.op is Ops.BUFFER and x.dtype.kind == "float":
            last.setdefault(becomes[x].base, [x])
    values = _as_values([found[0] for found in last.values()]) if last else {}
    made = {
        buffer: value._reshape(buffer.shape)
        for buffer, found in last.items()
        if len(found) == 1
        and (value := values[found[0]]) is not None
        and value.max_numel() == buffer.max_numel()
    }
    gone = _above(made.values(), lambda x: any(m in written for m in memory_under(x)))
    going = _with_gradients([x for x in made.values() if x in gone], held, written)
    # Where a parameter will look, gradients are meant to end.
    ends = {becomes[t.uop].base for t in live if t.is_param and t.uop in becomes}
    for buffer, value in made.items():
        if value in going and buffer not in ends:
            _cut_off(buffer)
        elif look and value not in gone:
            _keep(buffer, value)


def forget(memory: Iterable[Buffer]) -> None:
    """Some memory (bases) is written: what was known of it, and of what is made of it, is over."""
    if not _made and not _cut:
        return
    written = set(memory)
    ends = {buffer for m in written for buffer in _concerned.pop(m, ())}
    itself = {x for x in ends if any(m.base in written for m in memories_of(x))}
    # Found before any is forgotten: one may be made of another.
    cut = [x for x in ends - itself if _is_known(x) and _has_gradients(x, written)]
    for buffer in ends:
        _made.pop(buffer, None)
        if buffer in itself:
            _cut.pop(buffer, None)
    for buffer in cut:
        _cut_off(buffer)


def note_kept(buffer: UOp, value: UOp, written: Set[Buffer]) -> None:
    """A value was computed into a BUFFER, as some memory (bases) that it reads is to be written."""
    if value.dtype.kind == "float" and _has_gradients(value, written):
        _cut_off(buffer)


def _is_known(buffer: UOp) -> bool:
    return buffer in _made or buffer in _cut


def _has_gradients(value: UOp, written: Set[Buffer] = frozenset()) -> bool:
    """Whether gradients of a value go on to parameters, or end at memory on the way to them."""
    graph = Unfolded(value)
    return bool(graph.cut) or _is_above_parameters(graph.root, written)


def _is_above_parameters(root: UOp, written: Set[Buffer] = frozenset()) -> bool:
    return not _parameters(written).isdisjoint(root.toposort(gradients_pass))


def _parameters(written: Set[Buffer]) -> set[UOp]:
    """Not one that is written: what is made of its old value has no gradient for the new."""
    return {t.uop for t in live if t.is_param and written.isdisjoint(memory_under(t.uop))}


def _above(values: Collection[UOp], is_one: Callable[[UOp], bool]) -> set[UOp]:
    """The nodes below some values (and those) that have one of certain BUFFERs below."""
    found: set[UOp] = set()
    for x in UOp.sink(*values).toposort(enter_calls=False) if values else ():
        is_buffer = x.op is Ops.BUFFER and not x.is_variable
        if is_one(x) if is_buffer else not found.isdisjoint(x.src):
            found.add(x)
    return found


def _with_gradients(values: Collection[UOp], held: Set[UOp], written: Set[Buffer]) -> set[UOp]:
    """The nodes below some values (and those) whose gradients go on, or would have.

    held: BUFFERs whose old values had gradients that went on. written: memory (bases).
    """
    if not values:
        return set()
    below = UOp.sink(*values).toposort(gradients_pass, enter_calls=False)
    parameters = _parameters(written)
    found: set[UOp] = set()
    for x in below:
        goes_on = x in parameters or x in held or (_is_known(x) and _has_gradients(x, written))
        if goes_on or not found.isdisjoint(x.src):
            found.add(x)
    return found


def _keep(buffer: UOp, value: UOp) -> None:
    leaves = [
        x for x in value.toposort(enter_calls=False) if x.op is Ops.BUFFER and not x.is_variable
    ]
    looks = 1 + max((_made[x].looks for x in leaves if x in _made), default=0)
    if looks <= _MOST_LOOKS or _is_above_parameters(Unfolded(value).root):
        _made[buffer] = _Made(value, looks)
        _concern(buffer, [buffer, *leaves])
    elif Unfolded(value).cut:
        _cut_off(buffer)


def _cut_off(buffer: UOp) -> None:
    if any(t.is_param and buffer_below(t.uop) is buffer for t in live):
        return  # gradients are meant to end there
    _cut.setdefault(buffer, user_line())
    _concern(buffer, [buffer])


def _concern(buffer: UOp, nodes: Iterable[UOp]) -> None:
    for m in {m.base for x in nodes for m in memories_of(x)}:
        _concerned.setdefault(m, weakref.WeakSet()).add(buffer)


def _as_values(states: Collection[UOp]) -> dict[UOp, UOp | None]:
    """What each node below some states holds, without writes; None where kernels by hand wrote."""
    found: dict[UOp, UOp | None] = {}
    for x in UOp.sink(*states).toposort(enter_calls=False):
        src = [found.get(s, s) for s in x.src]
        known = [s for s in src if s is not None]
        if x.op is Ops.AFTER and not x.is_bound_var:
            found[x] = None if src[0] is None else _written_value(x, src[0], found)
        elif len(known) < len(src):
            found[x] = None
        else:
            found[x] = x if tuple(known) == x.src else x.replace(src=tuple(known))
    return found


def _written_value(state: UOp, value: UOp, found: dict[UOp, UOp | None]) -> UOp | None:
    """What a state holds, from what was there before and what other nodes hold."""
    for effect in state.src[1:]:
        if effect.op is Ops.AFTER:
            continue
        stored = found[effect.src[1]] if effect.op is Ops.STORE else None
        if stored is None:
            return None
        try:
            moves = views_between(effect.src[0], state.src[0])
        except GradientError:
            return None
        whole = effect.src[0].numel() == state.numel()
        value = placed(moves, stored) if whole else changed(value, moves, stored)
    return value


class Unfolded:
    """A graph with what the memory below it was made of in that memory's place."""

    def __init__(self, root: UOp) -> None:
        places: dict[UOp, UOp] = {}
        self.cut: set[str] = set()  # lines that ran writes by which gradients end
        stack = [root] if _made or _cut else []
        while stack:
            for x in stack.pop().toposort(gradients_pass, enter_calls=False):
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

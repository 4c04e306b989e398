"""Which tensors share memory: the rule of views and writes.

Program order decides: an expression built before a write sees the old value, one built after it the
new. A view shares memory with the tensor it was taken of, as in numpy: a write through it reaches
that tensor, and those it is itself a view of. Views are what indexing by numbers and slices,
reshape, permute, flip, expand and their like give, bitcast, detach(), contiguous() of what is
contiguous already. Any other method gives a value of its own, even where nothing had to be done;
to() the device where it is, a cast to the type that it has and a dropout that drops nothing are the
tensor itself.

It does so as long as nobody else wrote to the elements that it looks at since it was taken. A view
that is older than such a write holds the old value, as any expression does, and is a value of its
own from then on: a later write into it changes only itself. What a tensor, a list or a mask picks
is known only when it runs: such a write counts for all elements that it might reach.

    a = Tensor([0, 1, 2, 3]); b, c, d = a[1:3], a[2:], a[:1]
    b += 10      a is [0, 11, 12, 3]; c, which is older than this write, is [2, 3] and stays so
    c += 10      c is [12, 13], a is [0, 11, 12, 3]
    d += 10      a is [10, 11, 12, 3]: nobody had written to what d looks at

What is realised, shown, captured or replayed meanwhile does not matter, nor who still holds what:
each tensor knows what it was taken of, and how. Whether the values lie in one memory is another
question; where they do, a write by one of two that are apart goes to a copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tinylab.dtype import DType
from tinylab.opcodes import GroupOp, Ops
from tinylab.tensor.bits import as_bits, bits_below
from tinylab.tensor.core import Move, Path, TensorCore
from tinylab.tensor.disk import on_disk
from tinylab.tensor.held import ANYTHING, live
from tinylab.tensor.places import Looked, looked_at, whole
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

# A movement, perhaps without what it moves, or the type that bits are read as.
Step: TypeAlias = "UOp | Move | DType"
# What is written of tensors, as one; None of one that has no views.
Written: TypeAlias = "list[tuple[TensorCore, Looked | None]]"
Steps: TypeAlias = "tuple[Move | DType, ...]"


class Link:
    """What a view was taken of, and how: the steps of looking, outermost first."""

    __slots__ = ("_seen", "owner", "steps")

    def __init__(self, owner: weakref.ref[Any], steps: Steps) -> None:
        self.owner, self.steps = owner, steps
        self._seen: Looked | None = None

    def seen(self, owner: TensorCore) -> Looked:
        """The places of the owner that the view looks at."""
        if self._seen is None:
            self._seen = places_in(owner, self.steps)
        return self._seen


_STAY_IN_PLACE = (Ops.RESHAPE, Ops.DETACH)


def step_of(view: UOp) -> tuple[UOp | DType, UOp] | None:
    """(one step of looking, what it looks at); None where a node is no view."""
    below = bits_below(view)
    if below is not None:
        return view.dtype, below
    if view.op in GroupOp.Movement or view.op in (Ops.DETACH, Ops.UNSHARD):
        return view, view.src[0]
    return None


def chain_below(view: UOp) -> tuple[list[UOp | DType], UOp]:
    """(the steps of looking, outermost first, and what lies below them)."""
    chain: list[UOp | DType] = []
    while (found := step_of(view)) is not None:
        step, view = found
        chain.append(step)
    return chain, view


def seen_through(chain: Sequence[Step], base: UOp) -> UOp:
    """A value through steps of looking, outermost first."""
    for step in reversed(chain):
        if isinstance(step, DType):
            base = as_bits(base, step)
        elif isinstance(step, Move):
            base = make(step.op, base.dtype, (base, *step.rest), step.arg)
        else:
            base = step.replace(src=(base, *step.src[1:]))
    return base


def buffer_under(uop: UOp) -> UOp | None:
    """The BUFFER that a view looks at, through the writes to it; None for an expression."""
    found = chain_below(uop)[1]
    while found.op is Ops.AFTER:
        found = found.src[0]
    return found if found.op is Ops.BUFFER else None


def steps_to(view: UOp, base: UOp) -> Steps | None:
    """The steps between a value and a view of it; None if it is no view of it."""
    chain: list[Move | DType] = []
    while view is not base:
        found = step_of(view)
        if found is None or view.op is Ops.UNSHARD:
            return None
        step, view = found
        # Without what it moves: that would be kept alive.
        bare = step if isinstance(step, DType) else Move(step.op, step.arg, step.src[1:])
        chain.append(bare)
    return tuple(chain)


def take_view(found: TensorCore, owner: TensorCore) -> TensorCore:
    """What was taken of a tensor: writes reach that, if it is a view of it.

    A view that changes nothing is a tensor of its own too: it keeps the value as any other does.
    """
    if found is owner:
        found = as_it_is(owner)
    steps = steps_to(found.uop, owner.uop)
    if steps is None and found.uop.base.op is Ops.BUFFER and on_disk(owner.device):
        steps = (found.dtype,)  # a window of a file is not found by its node
    if steps is not None:
        _look(found, owner, steps)
    return found


def take_contiguous(found: TensorCore, owner: TensorCore) -> TensorCore:
    """What `contiguous` gave: a view of what is contiguous already, else a value of its own."""
    if found is owner:
        found = as_it_is(owner)
    if _is_contiguous(owner):
        _look(found, owner, ())
    return found


def as_it_is(t: TensorCore) -> TensorCore:
    """The value of a tensor, as another tensor."""
    found = t._from_uop(t.uop)
    found._marks = t._marks
    return found


def _look(found: TensorCore, owner: TensorCore, steps: Steps) -> None:
    found._path = Path(steps, owner.uop.shape, owner.dtype.itemsize, owner._path)
    found._stands = owner._stands
    links = [Link(weakref.ref(owner), steps)]
    links += [Link(k.owner, steps + k.steps) for k in owner._view_of if k.owner() is not None]
    found._view_of = tuple(links)
    for link in links:
        if (t := link.owner()) is not None:
            _file(t, found)


_FEW = 32


def _file(owner: TensorCore, view: TensorCore) -> None:
    """Let a tensor know a view of it; those that are gone are left out now and then."""
    views = owner._views
    if views is None:
        views = owner._views = {}
    views[id(view)] = weakref.ref(view)
    if len(views) >= _FEW and len(views).bit_count() == 1:
        owner._views = {key: ref for key, ref in views.items() if ref() is not None}


def _links_to(owner: TensorCore) -> list[tuple[TensorCore, Link]]:
    """The views of a tensor that share its memory."""
    if not owner._views:
        return []
    views = [v for ref in owner._views.values() if (v := ref()) is not None]
    return [(v, k) for v in views for k in v._view_of if k.owner() is owner]


def _unlink(view: TensorCore, link: Link) -> None:
    view._view_of = tuple(k for k in view._view_of if k is not link)


def become(t: TensorCore, x: TensorCore) -> None:
    """Let a tensor hold what another one holds: it is a view no more, nor anything one of it."""
    if x is t:
        return
    for view, link in _links_to(t):
        _unlink(view, link)
    t._view_of, t._views, t._path = (), None, None
    t.uop, t._stands = x.uop, x._stands
    live.changed(t)


def owners_of(t: TensorCore) -> list[Any]:
    """The tensors that a write into this one reaches, the nearest first."""
    return [owner for link in t._view_of if (owner := link.owner()) is not None]


class Family(NamedTuple):
    """A tensor with storage, and views of it that a write changes along with it.

    members: with their steps from the root, which is the last and has none.
    """

    root: TensorCore
    members: list[tuple[TensorCore, Steps]]


def families_of(t: TensorCore) -> list[Family]:
    """What a write into a tensor reaches, by who has the storage: it is in each of them.

    Mostly there is one. There are more where a view between was parted from its owner by a write to
    elements that this one does not look at.
    """
    owners = owners_of(t)
    roots = [o for o in owners if not any(x is y for x in owners_of(o) for y in owners)]
    return [Family(r, _members([t, *owners], r)) for r in roots or [t]]


def _members(those: list[TensorCore], root: TensorCore) -> list[tuple[TensorCore, Steps]]:
    found = [(x, k.steps) for x in those for k in x._view_of if k.owner() is root]
    return [*found, (root, ())]


def look_again(t: TensorCore) -> None:
    """Let a view look at the storage of what it is a view of, where it lies in memory of its own.

    That is the same value: a write to what it looks at would have parted them.
    """
    if not t._view_of:
        return
    root, members = families_of(t)[-1]
    if root is t or buffer_under(root.uop) is None:
        return
    uop = seen_through(members[0][1], root.uop)
    if t.uop is not uop:
        moved(t, uop)


def moved(t: TensorCore, uop: UOp) -> None:
    """A tensor has the same value, found somewhere else."""
    t.uop, t._marks = uop, ANYTHING
    live.changed(t)


def is_computed(t: TensorCore) -> bool:
    """Whether a view is no look at one other tensor's memory: of other bits, or with gaps."""
    families = families_of(t)
    steps = families[0].members[0][1]
    gaps = any(isinstance(s, DType) or s.op is Ops.PAD for s in steps)
    return gaps or len(families) > 1


def places_written(t: TensorCore, steps: Steps) -> Written:
    """What a write through steps of looking at a tensor writes, of it and of those it reaches."""
    found: Written = [(t, places_in(t, steps) if t._views else None)]
    for link in t._view_of:
        if (owner := link.owner()) is not None:
            found.append((owner, looked_at(link.seen(owner), steps)))
    return found


def places_in(t: TensorCore, steps: Steps) -> Looked:
    """What is seen through steps of looking at a tensor."""
    return looked_at(_all_of(t), steps)


def _all_of(t: TensorCore) -> Looked:
    return Looked(whole(t.uop.shape, t.dtype.itemsize), True)


def part(written: Written) -> list[tuple[TensorCore, Link]]:
    """Part the views of what was written that look there; the others are given."""
    members = {id(t) for t, _ in written}
    apart = []
    for t, seen in written:
        for view, link in _links_to(t):
            if id(view) in members or seen is None:
                continue
            if link.seen(t).places.meets(seen.places):
                _unlink(view, link)
            else:
                apart.append((view, link))
    return apart


# *** what lies where

# By BUFFER: the mark of the tensors that stand at its newest content. One that has another mark
# looks at what was there before, as long as it is not computed elsewhere.
_newest: weakref.WeakKeyDictionary[UOp, object] = weakref.WeakKeyDictionary()


def _has_no_place(step: UOp | DType) -> bool:
    """Whether elements behind a step of looking share one of the storage, or have none."""
    return _is_expansion(step) or (isinstance(step, UOp) and step.op is Ops.PAD)


def may_write(t: TensorCore) -> bool:
    """Whether a tensor has storage for each element, and nobody else wrote there since."""
    buffer = buffer_under(t.uop)
    if buffer is None or any(_has_no_place(s) for s in chain_below(t.uop)[0]):
        return False
    newest = _newest.get(buffer)
    return newest is None or newest is t._stands


def stand_at(buffer: UOp, tensors: Iterable[TensorCore]) -> None:
    """A buffer is written to, and these tensors see it."""
    mark = _newest[buffer] = object()
    for t in tensors:
        t._stands = mark


def own_if_new(t: TensorCore) -> None:
    """Where nobody has written yet, a tensor and what shares its storage come first.

    Any other value that lies there as well, apart from it, is written elsewhere then.
    """
    for root, members in families_of(t):
        buffer = buffer_under(root.uop)
        if buffer is not None and buffer not in _newest:
            stand_at(buffer, [x for x, _ in members])


def _is_expansion(step: Step) -> bool:
    return not isinstance(step, DType) and step.op is Ops.EXPAND


def is_expanded(t: TensorCore) -> bool:
    """Whether a tensor was taken by repeating elements: a write would be to several at once."""
    return any(_is_expansion(s) for s in _path_of(t)[1])


def _path_of(t: TensorCore) -> tuple[Looked | None, list[Move | DType]]:
    """(all of what a tensor was first taken of, if any; the steps from there)."""
    steps: list[Move | DType] = []
    path, first = t._path, None
    while path is not None:
        steps += path.steps
        first, path = path, path.further
    return None if first is None else Looked(whole(first.shape, first.itemsize), True), steps


def _is_contiguous(t: TensorCore) -> bool:
    """Whether a tensor's elements lie one after the other in what it was first taken of.

    It is the way it was taken that decides, not where the value lies by now.
    """
    first, steps = _path_of(t)
    if first is None or all(isinstance(s, DType) or s.op in _STAY_IN_PLACE for s in steps):
        return True
    seen = looked_at(first, steps)
    return seen.exact and seen.places.is_one_piece

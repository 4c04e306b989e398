"""Where values are stored, and why.

The analysis walks from the outputs to the inputs. For every value it collects the ways in which it
is read (the index, and the loops that run around it); from these it decides whether to compute the
value again at each place or to store it once. What is stored becomes a STAGE that carries its
reason; loops are given to it by the next pass.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tinylab.helpers.context import (
    DEBUG_RANGEIFY,
    DONT_REALIZE_EXPAND,
    FUSE_ARANGE,
    FUSE_CONV_BW,
    PCONTIG,
)
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.schedule.costs import KERNEL_LIMIT, Costs, is_storage
from tinylab.schedule.early_cleanup import made_there
from tinylab.schedule.effects import OTHER_VIEW, copied_first
from tinylab.schedule.indexing import Index, broadcast_index, loops, source_index
from tinylab.schedule.limit_buffers import limit_buffers
from tinylab.schedule.make_there import only_keeps
from tinylab.schedule.range_listing import range_listing
from tinylab.schedule.views import is_whole, piece_offset
from tinylab.uop.args import StageArg
from tinylab.uop.intern import carry_metadata
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

_COMPUTED = GroupOp.Elementwise | {Ops.REDUCE}
# Computing a value again at a second place pays off below this many operations an element.
RECOMPUTE_LIMIT = 24
# Reading a value this often inside one loop nest is worth storing it first …
REPEAT_LIMIT = 16
# … if that saves at least so many operations.
SAVED_LIMIT = 1 << 16
# With PCONTIG=3 a reduction may be worked out so often.
PARTIAL_TIMES = 32
# Ways to read one value that are followed before it is stored, whatever it costs.
ACCESS_LIMIT = 8


class Access(NamedTuple):
    """One way to read a value: at an index, inside loops (outermost first).

    under: the operation of the reduction that reads it with nothing but movement between.
    """

    place: Index
    nest: tuple[UOp, ...]
    under: Ops | None = None


def _reads_positions(x: UOp) -> bool:
    """Whether an operation reads an iota, with nothing but movement between."""
    sources = list(x.src) if x.op in GroupOp.Elementwise else []
    for n, s in enumerate(sources):
        while s.op in GroupOp.Movement:
            s = s.src[0]
        sources[n] = s
    return any(s.op is Ops.STAGE for s in sources)


def read_on(order: Sequence[UOp]) -> dict[UOp, dict[str, None]]:
    """The devices of what reads each value that is on none, the last reader's first."""
    found: dict[UOp, dict[str, None]] = {}
    for x in reversed(order):
        places = found.get(x, {}) if x.device is None else {str(x.device): None}
        for s in x.src if places and not only_keeps(x.device) else ():
            if s.device is None:
                found.setdefault(s, {}).update(places)
    return found


class RealizePoints:
    """The analysis of one graph.

    earlier: an analysis before. What it found worth storing tells what a value really costs from
    the nearest stored values on, which a walk from the outputs cannot know in advance.
    """

    def __init__(self, sink: UOp, earlier: RealizePoints | None = None) -> None:
        self.order = list(sink.toposort(enter_calls=False))
        memory = (x for x in self.order if x.op in (Ops.BUFFER, Ops.PARAM))
        self.several_devices = len({x.device for x in memory} - {None}) > 1
        self.read_on = read_on(self.order)
        self.numbers = itertools.count()
        self.reasons: dict[UOp, str] = {}
        self.accesses: dict[UOp, dict[Access, None]] = {}  # each way once, in order
        self._force()
        self.cuts: dict[UOp, str] = {} if earlier is None else earlier.cuts
        self.reasons = {**self.cuts, **self.reasons}
        self.costs = Costs(self.order, self.reasons, () if earlier is None else earlier.reasons)
        for x in self.order:
            if self.costs.add(x).cost > KERNEL_LIMIT and x.op in GroupOp.Elementwise:
                self._cut(x)
        for x in reversed(self.order):
            self._visit(x)

    def _cut(self, x: UOp) -> None:
        """Store parts of an expression that is too long for one kernel."""
        while x not in self.reasons and (part := self.costs.where_to_cut(x)) is not None:
            self.cuts[part] = f"its expression has more than {KERNEL_LIMIT} operations"
            self.reasons.setdefault(part, self.cuts[part])

    def _force(self) -> None:
        """What is stored whatever it costs: outputs, copies and what they read."""
        users = collections.Counter(s for x in self.order for s in x.src)
        for x in self.order:
            if x.op is Ops.CONTIGUOUS:
                value = x.src[0]
                is_shared = users[value] > 1 and value.op in _COMPUTED and value not in self.reasons
                # Whoever else reads the value reads what is stored, and does not compute it again.
                stored = value if is_shared else x
                self.reasons[stored] = x.arg or "asked for by contiguous() or realize()"
            elif made_there(x):
                self.reasons[x] = f"is made on {x.arg}"
            elif x.op is Ops.COPY:
                self.reasons[x] = f"arrives on {x.arg}"
                self._force_piece(x.src[0], f"is copied to {x.arg}")
            elif x.op is Ops.CALL and x.src[0].op is Ops.COPY:
                self._force_piece(x.src[2], x.arg.aux)
            elif x.op is Ops.CALL:
                for a in x.src[1:]:
                    if not is_whole(a):
                        self.reasons.setdefault(a, "an argument of a kernel written by hand")

    def _force_piece(self, x: UOp, reason: str) -> None:
        """A copy reads one piece of memory: what is one already, or will be part of one, stays."""
        if piece_offset(x, self.reasons) is None:
            self.reasons.setdefault(x, reason)

    # *** the walk

    def _visit(self, x: UOp) -> None:
        """Decide about one value; all its readers have been visited."""
        if x.op is Ops.STORE:
            self._visit_store(x)
            return
        if x in self.reasons:
            self._start(x)
            return
        found = self.accesses.get(x)
        if not found or is_storage(x):
            return
        if x.op not in GroupOp.Movement and (reason := self._why_store(x, found)) is not None:
            self.reasons[x] = reason
            self._start(x)
            return
        for access in found:
            self._follow(x, access)

    def _start(self, x: UOp) -> None:
        """The loops of a stored value, and how it reads its sources."""
        below = x.src[0] if x.op in (Ops.CONTIGUOUS, Ops.COPY) else x
        if x.op is Ops.COPY and not made_there(x):
            return
        idx = loops(x.shape, self.numbers, AxisType.WEAK)
        access = Access(idx, _ranges(idx))
        if below is x:
            self._follow(x, access)
        else:
            self._read(below, access)

    def _visit_store(self, x: UOp) -> None:
        """A write in place runs over the target; the value is read at the same places."""
        target, value = x.src[:2]
        idx = loops(target.shape, self.numbers, AxisType.WEAK)
        access = Access(idx, _ranges(idx))
        self._read(value, access)

    def _read(self, x: UOp, access: Access) -> None:
        if x._shape is not None and x.op is not Ops.CONST:
            self.accesses.setdefault(x, {})[access] = None

    def _follow(self, x: UOp, access: Access) -> None:
        """How x, computed at this access, reads its own sources."""
        place, nest, under = access
        if x.op in GroupOp.Movement:
            merges = FUSE_CONV_BW or x.op is not Ops.PAD
            self._read(x.src[0], Access(source_index(x, place), nest, under if merges else None))
        elif x.op is Ops.REDUCE:
            reduced = loops(x.src[0].shape[: x.arg.count], self.numbers, AxisType.REDUCE)
            inner = (*nest, *_ranges(reduced))
            self._read(x.src[0], Access((*reduced, *place), inner, x.arg.op))
        else:
            for s in x.src:
                if s._shape is not None:
                    self._read(s, Access(broadcast_index(place, s.shape), nest))

    # *** the decision

    def _why_store(self, x: UOp, found: Collection[Access]) -> str | None:
        """The reason to store a value that is read in these ways; None to compute it there."""
        cost, has_reduce, has_iota, _ = self.costs[x]
        if x.device is None and (self.several_devices or len(self.read_on.get(x, ())) > 1):
            return None  # positions and numbers are nowhere, and their readers in several places
        if cost == 0 and not has_reduce:
            return None  # a cast or a movement of something stored
        if x.op is Ops.CAST and x.dtype.itemsize > x.src[0].dtype.itemsize:
            return None  # a value is stored before a widening cast, not after
        ways = len({a.place for a in found})
        if ways > 1 and has_reduce and (PCONTIG < 3 or ways > ACCESS_LIMIT):
            return f"its {ways} consumers index it differently, and it holds a reduction"
        if not FUSE_ARANGE and _reads_positions(x):
            return "a value of positions alone: FUSE_ARANGE=0"
        if has_iota and not has_reduce:
            return None  # a comparison of positions: what picks by it becomes a load
        if ways > 1 and (cost > recompute_limit() or ways > ACCESS_LIMIT):
            return f"its {ways} consumers index it differently: {cost} operations an element"
        for access in found:
            reason = self._why_store_for(x, access, cost, has_reduce)
            if reason is not None:
                return reason
        return None

    def _why_store_for(self, x: UOp, access: Access, cost: int, has_reduce: bool) -> str | None:
        used = {r for i in access.place for r in i.ranges}
        idle = [r for r in access.nest if r not in used]
        if has_reduce:
            merges = x.op is Ops.REDUCE and x.arg.op is access.under
            if idle:
                times = _trips(idle)
                if times > (PARTIAL_TIMES if PCONTIG >= 3 else 1):
                    return f"a reduction that would be computed {times} times"
            if not merges and any(r.arg[-1] is AxisType.REDUCE for r in access.nest):
                return "a reduction inside another reduction"
            return None
        if DONT_REALIZE_EXPAND or PCONTIG >= 2:
            return None
        last = max((n for n, r in enumerate(access.nest) if r in used), default=-1)
        outer = access.nest[: last + 1]
        times = _trips([r for r in outer if r not in used])
        saved = cost * (_trips(outer) - _trips([r for r in outer if r in used]))
        share = cost * _trips(outer) * 2 >= _trips(access.nest)
        if times >= REPEAT_LIMIT and saved >= SAVED_LIMIT and share:
            return f"would be computed {times} times: {cost} operations an element"
        return None


def recompute_limit() -> float:
    """How many operations an element may cost to be worked out at each place that reads it."""
    return {0: RECOMPUTE_LIMIT, 1: 8 * RECOMPUTE_LIMIT}.get(PCONTIG.value, math.inf)


def _trips(ranges: Any) -> int:
    """How often a nest of loops runs at most."""
    total = 1
    for r in ranges:
        total *= int(r.vmax) + 1
    return total


def _ranges(idx: Index) -> tuple[UOp, ...]:
    return tuple(i for i in idx if i.op is Ops.RANGE)


def _target_buffer(x: UOp) -> UOp:
    node = x
    while node.op in GroupOp.Movement or node.op in (Ops.AFTER, Ops.BITCAST):
        node = node.without_after if node.op is Ops.AFTER else node.src[0]
    return node


def overlapping_writes(points: RealizePoints) -> dict[UOp, str]:
    """Values of writes in place that read the written buffer at other places than they write."""
    found: dict[UOp, str] = {}
    for store in points.order:
        if store.op is not Ops.STORE:
            continue
        target, value = store.src[:2]
        buffer = _target_buffer(target)
        if value in points.reasons or value._shape is None:
            continue
        if _reads_elsewhere(points, value, target, buffer):
            found[value] = copied_first(OTHER_VIEW, value)
    return found


def _reads_elsewhere(points: RealizePoints, value: UOp, target: UOp, buffer: UOp) -> bool:
    """Whether value, without what is stored apart, reads buffer other than at target's places."""
    idx = loops(target.shape, itertools.count(), AxisType.WEAK)
    written = _place_in(target, idx)
    stack: list[tuple[UOp, Index]] = [(value, idx)]
    seen = set()
    while stack:
        x, at = stack.pop()
        if (x, at) in seen or x._shape is None:
            continue
        seen.add((x, at))
        if x in points.reasons and x is not value:
            continue
        if is_storage(x):
            if _target_buffer(x) is buffer and _place_in(x, at) != written:
                return True
        elif x.op is Ops.REDUCE:
            if any(_target_buffer(s) is buffer for s in x.toposort() if is_storage(s)):
                return True
        elif x.op in GroupOp.Movement:
            stack.append((x.src[0], source_index(x, at)))
        else:
            stack.extend((s, broadcast_index(at, s.shape)) for s in x.src if s._shape is not None)
    return False


def _place_in(view: UOp, idx: Index) -> Index:
    """Where a view's element stands in its buffer."""
    while view.op in GroupOp.Movement or view.op is Ops.AFTER:
        if view.op is Ops.AFTER:
            view = view.without_after
            continue
        idx, view = source_index(view, idx), view.src[0]
    return idx


class StoreContext(NamedTuple):
    """Reasons to store, and the device of what has none of its own."""

    reasons: dict[UOp, str]
    device: str | None
    read_on: dict[UOp, dict[str, None]]
    permuted: dict[UOp, UOp]  # a stored value -> CONTIGUOUS(permutation of it), which is as good

    def place(self, x: UOp) -> Any:
        """Where a value is stored: one that is on no device, where it is read."""
        return x.device or next(iter(self.read_on.get(x, ())), self.device)


def mark_stored(x: UOp, ctx: StoreContext) -> UOp | None:
    """The value under a STAGE without loops yet; the tag keeps it from matching again."""
    reason = ctx.reasons.get(x)
    if x in ctx.permuted:
        return _seen_back(_stage_of(ctx.permuted[x], ctx), ctx.permuted[x].src[0])
    if x.op is Ops.CONTIGUOUS and ctx.permuted.get(_under_permutations(x.src[0])) is x:
        return _stage_of(x, ctx)
    if reason is None:
        return x.src[0] if x.op is Ops.CONTIGUOUS and x.src[0] in ctx.reasons else None
    is_mark = x.op is Ops.CONTIGUOUS or made_there(x)
    value = x.src[0] if is_mark else carry_metadata(x, x.rtag("stored"))
    return carry_metadata(
        x, value.stage(arg=StageArg(ctx.place(x), removable=False, reason=reason))
    )


def _stage_of(c: UOp, ctx: StoreContext) -> UOp:
    """CONTIGUOUS(permutation of a value) as a STAGE."""
    base = _under_permutations(c.src[0])
    value = c.src[0].substitute({base: carry_metadata(base, base.rtag("stored"))}, walk=True)
    arg = StageArg(ctx.place(c), removable=False, reason=ctx.reasons[c])
    return carry_metadata(base, value.stage(arg=arg))


def _under_permutations(x: UOp) -> UOp:
    while x.op in (Ops.PERMUTE, Ops.RESHAPE):
        x = x.src[0]
    return x


def _seen_back(stored: UOp, view: UOp) -> UOp:
    """The value that was permuted, seen in what stores the permutation."""
    while view.op in (Ops.PERMUTE, Ops.RESHAPE):
        if view.op is Ops.PERMUTE:
            stored = stored._permute([view.arg.index(axis) for axis in range(len(view.arg))])
        else:
            stored = stored._reshape(view.src[0].shape)
        view = view.src[0]
    return stored


def _read_in_order(x: UOp) -> tuple[UOp, ...]:
    if x.op is Ops.COPY and not made_there(x):
        return x.src
    return x.src[1:] if x.op is Ops.CALL else ()


def _below_views(x: UOp) -> UOp:
    while x.op in GroupOp.Movement:
        x = x.src[0]
    return x


def permuted_views(points: RealizePoints, reasons: dict[UOp, str]) -> dict[UOp, UOp]:
    """Values that are stored, of which a permutation is stored too: one of the two is enough.

    Not of one that is copied, or that a kernel by hand reads: those take memory in its own order.
    """
    found: dict[UOp, UOp] = {}
    in_order = {_below_views(s) for x in points.order for s in _read_in_order(x)}
    for c in points.order:
        if c.op is Ops.CONTIGUOUS and c.arg is None and c in reasons:
            base = _under_permutations(c.src[0])
            computed = base.op in GroupOp.Elementwise or base.op is Ops.REDUCE
            is_free = base in reasons and base not in in_order
            if computed and base is not c.src[0] and is_free:
                found.setdefault(base, c)
    return found


pm_realize_points = PatternMatcher(
    [
        Rule(
            "mark_stored",
            "x -> stage(x) with its reason",
            UPat(set(Ops) - {Ops.SINK}, name="x"),
            mark_stored,
        )
    ]
)


def reasons_to_store(sink: UOp, device: str | None) -> StoreContext:
    """The values to store, each with the reason."""
    points = RealizePoints(sink)
    if any(x.op in GroupOp.Elementwise for x in points.reasons):
        points = RealizePoints(sink, earlier=points)
    reasons = {**points.reasons, **overlapping_writes(points)}
    reasons = {**limit_buffers(points.order, reasons, device), **reasons}
    if DEBUG_RANGEIFY:
        print(range_listing(points.order, points.accesses, reasons))
    return StoreContext(reasons, device, points.read_on, permuted_views(points, reasons))

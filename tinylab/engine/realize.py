"""From lazy graphs to values in memory: schedule, compile, run, each kept for the next time."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

from tinylab import codegen, schedule
from tinylab.device import Device, Owner
from tinylab.dtype import strong_dtype
from tinylab.engine.buffers import Arguments, memory_of
from tinylab.engine.launch import Plan
from tinylab.engine.linear import deferred, execute_plan, runs_now
from tinylab.engine.locking import alone
from tinylab.engine.outcome import Run, method_of, storage_below
from tinylab.errors import FAILURES, AllocationError, BindMismatchError, BufferError, CompileError
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import (
    ALLOW_DEVICE_USAGE,
    DEBUG,
    DEV,
    NO_MEMORY_PLANNER,
    PROFILE,
    SCACHE,
    SPEC,
    TRACK_MATCH_STATS,
    VIZ,
)
from tinylab.helpers.measure import disable_gc
from tinylab.helpers.recent import Recent
from tinylab.opcodes import Ops
from tinylab.schedule import Callified, callify, create_schedule
from tinylab.schedule.effects import copied_first, is_write
from tinylab.schedule.keep_old_values import reads_of_states, storage_of
from tinylab.schedule.make_there import made_anew
from tinylab.trace import events
from tinylab.trace.provenance import note, user_line
from tinylab.trace.record import ran, wants
from tinylab.uop import intern
from tinylab.uop.intern import make
from tinylab.uop.ops import KernelInfo, UOp, spec_tensor, type_verify

LiveUops = Callable[[], Iterable[UOp]]
_Key = tuple[UOp, str, int, str, tuple[Any, ...]]
_SETTINGS = (*schedule.SETTINGS, *codegen.SETTINGS)
# What plans may weigh: each step is a kernel that stays loaded, or a copy, and the rest of a plan
# is as much as some more.
_MOST_STEPS, _PLAN_ITSELF = 4096, 3
_WATCHING = (VIZ, PROFILE, TRACK_MATCH_STATS)
# By callified body: what was scheduled and compiled for it.
schedule_cache: Recent[_Key, Plan] = Recent(
    _MOST_STEPS, lambda plan: len(plan.schedule.linear.src) + _PLAN_ITSELF
)

_PENDING = "what it reads is about to be overwritten, and somebody still holds it"
# Movement through which a stored value is looked at without being computed again.
_VIEWS = (Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.FLIP, Ops.SHRINK, Ops.UNSHARD)


def to_store(x: UOp) -> UOp | None:
    """What must be computed so that x is a view of memory; None where it is one already."""
    below = x
    while below.op in _VIEWS or below.op is Ops.DETACH:
        below = below.src[0]
    held = below.src[0] if below.op is Ops.MSELECT else below
    if held.op is Ops.BUFFER:
        return None
    if below.op is Ops.AFTER:
        return below
    target = x
    while target.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.DETACH):
        target = target.src[0]
    return target


def _writes_below(root: UOp) -> list[UOp]:
    """The states of buffers after effects, which a run of the graph passes through."""
    order = root.toposort(enter_calls=False)
    if constant := made_anew(order):  # what is copied elsewhere only as a constant is not filled
        order = root.toposort(lambda x: x not in constant, enter_calls=False)
    return [
        x
        for x in order
        if x.op is Ops.AFTER
        and any(s.op is not Ops.AFTER for s in x.src[1:])
        and not x.is_bound_var
    ]


def _pending(x: UOp, overwritten: Container[UOp]) -> UOp:
    """What must be computed of a value before what it reads is overwritten.

    Of a view of a write that stays, the write; of anything else a copy.
    """
    below = to_store(x)
    if below is None or below.op is not Ops.AFTER or below in overwritten:
        return x
    return below


def _memory_below(x: UOp) -> UOp:
    """What a value would be a view of if nothing of it were copied."""
    while x.op in _VIEWS or x.op is Ops.DETACH or (x.op is Ops.CONTIGUOUS and x.arg is None):
        x = x.src[0]
    return x


def _root(x: UOp, overwritten: Container[UOp], asked: bool) -> UOp:
    """What is stored for a value: itself where it is memory that stays, else a copy."""
    if x.op in (Ops.AFTER, Ops.COPY) and x not in overwritten:
        return x
    stays = x.op is not Ops.AFTER and _memory_below(x) not in overwritten
    if stays and (asked or x.op is Ops.CONTIGUOUS):
        return x.contiguous()
    return make(Ops.CONTIGUOUS, x.dtype, (x,), _PENDING) if stays else kept_copy(x)


def kept_copy(x: UOp) -> UOp:
    """A copy of a value that reads what is about to be overwritten."""
    return make(Ops.CONTIGUOUS, x.dtype, (x,), copied_first(_PENDING, x))


def _note_constants(roots: Iterable[UOp]) -> None:
    """A constant comes from no line of its own: its kernel is due to whoever wants its memory."""
    for root in roots:
        if root.op is Ops.CONTIGUOUS and _memory_below(root.src[0]).op is Ops.CONST:
            note(root, "realize")


class _Held(NamedTuple):
    """What the run concerns among the values that somebody holds."""

    # Values that read what a write is about to replace.
    readers: list[UOp]
    # What must be computed of each reader that is held.
    pending: list[UOp]
    # Writes among the readers, and below what is held.
    writes: list[UOp]
    # Other results of kernels that will run.
    results: list[UOp]
    # What the readers read and a write replaces: buffers, or states of them.
    states: list[UOp]


class ReadersFirst(Exception):
    """Nothing has run: other values of variables are needed before, in a run of their own.

    readers: values that read what is about to be overwritten, or a write that comes before others.
    states: what is about to be overwritten, where a reader may also read a copy of it. error: what
    went wrong with everything in one run.
    """

    def __init__(self, readers: list[UOp], states: Sequence[UOp], error: Exception) -> None:
        super().__init__("other values must be computed before, in runs of their own")
        self.readers, self.states, self.error = readers, states, error


def _bound_elsewhere(asked: UOp, readers: Iterable[UOp]) -> list[UOp]:
    """The readers in which a variable has another value than in what is asked for, or before.

    One that has several of its own cannot be computed at all.
    """
    wanted, found = _bindings(asked), []
    for u in readers:
        own = _bindings(u)
        if any(len(values) > 1 for values in own.values()):
            continue
        if any(wanted.get(v, n) != n for v, n in own.items()):
            found.append(u)
        else:
            wanted |= own
    return found


def _to_compute_first(error: Exception, asked: Sequence[UOp], held: _Held) -> ReadersFirst | None:
    """What may go wrong with less, where a run of everything did; None where that is nothing."""
    if isinstance(error, BindMismatchError):
        found = _bound_elsewhere(UOp.sink(*asked), held.readers) or _write_apart(asked)
        return ReadersFirst(found, (), error) if found else None
    below = UOp.sink(*asked).toposort(enter_calls=False)
    found = [u for u in held.readers if u not in below]
    return ReadersFirst(found, held.states, error) if found else None


def _write_apart(asked: Sequence[UOp]) -> list[UOp]:
    """A write whose variables have one value each, and before which nothing asked for must run.

    Of several the last: it takes those below it along. What is left has other values.
    """
    for write in reversed(_writes_below(UOp.sink(*asked))):
        if any(len(values) > 1 for values in _bindings(write).values()):
            continue
        states = _writes_below(UOp.sink(write))
        if not _held(states, asked, {write}).readers and {*map(to_store, asked)} != {write}:
            return [write]
    return []


def _bindings(root: UOp) -> dict[str, set[int]]:
    """The values of each variable."""
    found: dict[str, set[int]] = {}
    for u in root.toposort(enter_calls=False):
        if u.is_bound_var:
            found.setdefault(u.expr, set()).add(u.unbind()[1])
    return found


def _is_empty(u: UOp) -> bool:
    """Whether a value has no element, so that nothing is to be kept of it."""
    return u._shape is not None and any(isinstance(s, int) and s == 0 for s in u._shape)


def _held(states: Sequence[UOp], live: Iterable[UOp], done: set[UOp]) -> _Held:
    held = [u for u in dict.fromkeys(live) if u not in done and not _is_empty(u)]
    order = UOp.sink(*held).toposort(enter_calls=False)
    writes = [x for x in order if is_write(x)]
    reads = reads_of_states(order, [w for w in states if is_write(w)], waiting=writes)
    calls = {e for w in states for e in w.src[1:] if e.op is Ops.CALL}
    results = [x for x in order if x.op is Ops.AFTER and not calls.isdisjoint(x.src[1:])]
    readers = [u for u in held if reads.old[u]]
    pending = list(dict.fromkeys(_pending(u, reads.replaced) for u in readers))
    writes = [w for w in writes if reads.old[w]]
    known = set(states)
    readers = list(dict.fromkeys([*readers, *writes]))
    results = [x for x in results if x not in known]
    return _Held(readers, pending, writes, results, list(reads.replaced))


def _held_through(writes: list[UOp], live: Iterable[UOp], targets: list[UOp]) -> _Held:
    """What a run concerns among the values that are held; `writes` grows by those that it needs.

    A reader may itself write, and what it overwrites may have readers.
    """
    values, done = list(live), set(targets)
    while True:
        held = _held(writes, values, done)
        grown = _writes_below(UOp.sink(*writes, *targets, *held.pending, *held.writes))
        if len(grown) == len(writes):
            return held
        writes[:] = grown


@alone
def realize_uops(
    uops: Sequence[UOp],
    live: LiveUops | None = None,
    device: str | None = None,
    run: Run | None = None,
) -> dict[UOp, UOp]:
    """Compute values; the result maps nodes of the graphs to views of memory that hold them now.

    live: gives the graphs of everything that is still held somewhere. Those that read a buffer
    which is written in place are computed first: what was built before a write sees the old value.
    device: where values go that name no device. run: is told how far this comes, for who goes on
    when it ends early.

    Raises: ScheduleError, CompileError, DeviceError as the stages do; ReadersFirst where those that
    read are to be computed in a run of their own.
    """
    targets = list(dict.fromkeys(t for u in uops if (t := to_store(u)) is not None))
    if not targets:
        return {}
    if any(setting.everywhere for setting in _WATCHING):
        # By name: what looks on stands above, and is not needed to compute.
        importlib.import_module("tinylab.lab.whole_process").watch()
    writes = _writes_below(UOp.sink(*targets))
    asked = set(targets)
    shown: dict[UOp, UOp] = {}
    strong: dict[UOp, UOp] = {}  # readers as they are stored: weak types have no storage
    held = _Held([], [], [], [], [])
    if writes and live is not None:
        held = _held_through(writes, live(), targets)
        strong = {t: t.cast(strong_dtype(t.dtype)) for t in held.pending}
        # A reader that is asked for as CONTIGUOUS(reader) is stored by that already.
        stored = {t.src[0]: t for t in targets if t.op is Ops.CONTIGUOUS and t.arg is None}
        shown = {t: stored[t] for t in strong.values() if t in stored}
        targets += [t for t in strong.values() if t not in asked and t not in shown]
        writes += held.results
    over = {storage_of(w.src[0]) for w in writes if is_write(w)}
    roots = [_root(t, over, t in asked) for t in targets]
    # States of buffers that the run passes through are over afterwards, asked for or not.
    asked = set(targets)
    more = [w for w in writes if w not in asked]
    targets, roots = targets + more, roots + more
    _note_constants(roots)
    place = Device.canonicalize(device)
    run = Run() if run is None else run
    run.computes(targets, roots, shown, strong)
    with events.span("realize", "realize", count=len(roots)):
        try:
            _run(UOp.sink(*run.roots), place, run)
        except FAILURES as e:
            # A schedule in the hand is one for all.
            if not runs_now() or run.has_overwritten(e):
                raise
            first = _to_compute_first(e, uops, held)
            if first is None:
                raise
            raise first from None
    return run.becomes()


def _is_no_kernel(x: UOp) -> bool:
    """Whether a node is of the language: the body of a kernel written by hand is not."""
    return x.op is not Ops.PROGRAM and not isinstance(x.arg, KernelInfo)


def _run(sink: UOp, device: str, run: Run) -> None:
    """Compute the sources of the sink, and let the run know where they are."""
    start_ns = time.perf_counter_ns()
    if not ALLOW_DEVICE_USAGE:
        Device[device]  # says that this is forbidden, before the schedule of a body is tried
    if SPEC:
        type_verify(sink.toposort(_is_no_kernel), spec_tensor)
    called = run.called = callify(sink)
    line = run.line = user_line()
    try:
        plan, hit = _plan(called, device, sink)
    except CompileError as e:
        e.help = f"{e.help}, asked for at {line}"
        raise
    if DEBUG >= 1:
        _report(plan, called.body, start_ns, hit)
    try:
        execute_plan(plan, called.inputs, called.var_vals, run.progress)
    except (AllocationError, BufferError) as e:
        asked = ", ".join(sorted({method_of(x) for x in sink.src}))
        e.help = f"{e.help}; it is needed for {Owner(asked, line)}"
        raise


def _plan(called: Callified, device: str, sink: UOp) -> tuple[Plan, bool]:
    """The schedule of a body, compiled if it is to run; and whether it was known.

    Whoever listens for the first time hears the whole of it: then it is made again.
    """
    # DEV's text, not the target that follows from it: that takes 8 us to work out.
    settings = tuple([s.value for s in _SETTINGS])
    key = (called.body, DEV.value, NO_MEMORY_PLANNER.value, device, settings)
    fresh = wants(("schedule", *key))
    plan = schedule_cache.find(key) if SCACHE and not fresh else None
    if plan is not None:
        if runs_now():
            plan.compile()
        ran(key, sink)
        return plan, True
    if fresh:
        callify(sink, by_rules=True)  # only to be heard
    with events.span("schedule", "schedule"), disable_gc():
        made = create_schedule(called.body, device, plan=not NO_MEMORY_PLANNER)
    plan = schedule_cache.keep(key, Plan(made, Arguments(made.linear), fresh=fresh))
    if runs_now():
        plan.compile()
    ran(key, sink)
    return plan, False


def _report(plan: Plan, body: UOp, start_ns: int, hit: bool) -> None:
    count = len(plan.schedule.linear.src)
    if count > 1 or DEBUG >= 3:
        elapsed = (time.perf_counter_ns() - start_ns) * 1e-6
        known = f"{' cache hit' if hit else 'CACHE MISS'} {body.key.hex()[:8]}"
        print(
            f"scheduled {count:5d} kernels in {elapsed:8.2f} ms | {known} | "
            f"{len(intern.cache):7d} uops in cache | {user_line()}"
        )
    linear, _, apart, planned, buffers = plan.schedule[:5]
    if planned < apart and not hit:
        arenas = {u for c in linear.src for a in c.src[1:] if (u := _arena(a)) is not None}
        print(
            f"memory reduced from {apart / 1e6:.2f} MB -> {planned / 1e6:.2f} MB, "
            f"{buffers} -> {len(arenas)} bufs"
        )


def _arena(argument: UOp) -> UOp | None:
    """The block of memory that an argument is a piece of; None for any other."""
    found = storage_below(argument)
    return found if found.op is Ops.BUFFER and found.arg.name == "arena" else None


def forget_plans() -> None:
    """Drop every compiled schedule of this process."""
    schedule_cache.clear()


@explained
def create_linear_with_vars(sink: UOp) -> tuple[UOp, dict[str, int]]:
    """(the LINEAR of kernels that would compute the sources of a SINK, values of variables)."""
    with deferred() as noted:
        realize_uops(sink.src)
    return noted.linear, noted.var_vals


__all__ = [
    "LiveUops",
    "create_linear_with_vars",
    "forget_plans",
    "memory_of",
    "realize_uops",
    "schedule_cache",
    "to_store",
]

"""Schedules in the hand: a LINEAR of CALLs over real buffers, to look at and to run later.

linear, var_vals = (a @ b).linear_with_vars()
run_linear(linear, var_vals)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinylab.device import Buffer, Device
from tinylab.engine.buffers import device_of, filled
from tinylab.engine.calls import with_beam
from tinylab.engine.capture import OfThread, schedule_listener
from tinylab.engine.compile import compiling, get_runtime, lower_kernel
from tinylab.engine.launch import Plan, plan_schedule
from tinylab.engine.progress import Progress
from tinylab.opcodes import Ops
from tinylab.schedule import Schedule, is_internal
from tinylab.schedule.effects import buffer_below, called_with, written_slots
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, dtypes


class Deferred:
    """What `realize` would have run while this was open."""

    def __init__(self) -> None:
        self.calls: list[UOp] = []
        self.var_vals: dict[str, int] = {}

    def add(
        self, plan: Plan, inputs: tuple[UOp, ...], var_vals: dict[str, int]
    ) -> dict[UOp, Buffer]:
        """Note a plan instead of running it; the memory that its results will be in."""
        own = {x: Buffer(x.arg.device, x.shape[0], x.dtype) for x in _buffers(plan.schedule.linear)}
        for memory in own.values():
            memory.awaited = True
        nodes = {x: UOp.from_buffer(b) for x, b in own.items()}
        nodes.update({p: inputs[p.arg.slot] for p in _params(plan.schedule.linear)})
        for call in plan.schedule.linear.src:
            src = (a.substitute(nodes, walk=True) for a in call.src[1:])
            self.calls.append(called_with(call, src))
        self.var_vals |= var_vals
        return own

    @property
    def linear(self) -> UOp:
        """Everything that was noted, in order."""
        return make(Ops.LINEAR, dtypes.void, tuple(self.calls))


def _arguments(linear: UOp) -> Iterator[UOp]:
    for call in linear.src:
        for argument in call.src[1:]:
            while argument.op in (Ops.BITCAST, Ops.SHRINK):
                argument = argument.src[0]
            yield argument


def _buffers(linear: UOp) -> list[UOp]:
    return list(dict.fromkeys(a for a in _arguments(linear) if is_internal(a)))


def _params(linear: UOp) -> list[UOp]:
    return list(dict.fromkeys(a for a in _arguments(linear) if a.op is Ops.PARAM))


deferring: OfThread[Deferred] = OfThread()


@contextmanager
def deferred() -> Iterator[Deferred]:
    """What is realized inside is scheduled, and not run."""
    noted = Deferred()
    deferring.append(noted)
    try:
        yield noted
    finally:
        deferring.remove(noted)


def runs_now() -> bool:
    """Whether what is realized runs, and is not wanted as a schedule only."""
    return not deferring and schedule_listener() is None


def execute_plan(
    plan: Plan, inputs: tuple[UOp, ...], var_vals: dict[str, int], progress: Progress
) -> None:
    """Run a plan, or note it where somebody wants the schedule only."""
    listener = schedule_listener()
    if deferring:
        progress.noted(plan, deferring[-1].add(plan, inputs, var_vals))
    elif listener is None:
        plan.run(inputs, var_vals, progress=progress)
    else:
        noted = Deferred()
        own = noted.add(plan, inputs, var_vals)
        listener.add_linear(noted.linear, noted.var_vals)
        progress.noted(plan, own)


def run_linear(
    linear: UOp,
    var_vals: dict[str, int] | None = None,
    input_uops: Sequence[UOp] = (),
    update_stats: bool = True,
    jit: bool = False,
    wait: bool = False,
) -> None:
    """Run a LINEAR of CALLs over real buffers, compiled where that has not been done.

    input_uops: the buffers that PARAM(slot) stand for. update_stats: whether the work counts in
    GlobalCounters. jit: whether it is a replay, which DEBUG=2 shows. wait: return when it is done.

    Raises: ScheduleError where a variable has no value, and where another schedule comes first.
    """
    _check_filled(linear)
    schedule = Schedule(with_beam(ungraphed(linear)), (), 0, 0, 0)
    plan = plan_schedule(schedule, False)
    plan.run(tuple(input_uops), var_vals or {}, update_stats, jit)
    if wait:
        for device in {step.device for step in plan.steps}:
            Device[device].synchronize()


def _check_filled(linear: UOp) -> None:
    """Memory that a LINEAR reads was filled before, or it fills it itself."""
    written: set[UOp] = set()
    for call in ungraphed(linear).src:
        outs = written_slots(call.src[0])
        for slot, argument in enumerate(call.src[1:]):
            node = buffer_below(argument)
            if slot in outs:
                written.add(node)
            elif node not in written and isinstance(node._buffer, Buffer):
                filled(node._buffer)


def ungraphed(linear: UOp) -> UOp:
    """The LINEAR with the calls that a graph holds in its place."""
    if not any(_is_graph(call) for call in linear.src):
        return linear
    calls = (c for call in linear.src for c in (_graph_calls(call) if _is_graph(call) else (call,)))
    return linear.replace(src=tuple(calls))


def _is_graph(call: UOp) -> bool:
    return call.src[0].op is Ops.CUSTOM_FUNCTION and call.src[0].arg == "graph"


def _graph_calls(call: UOp) -> tuple[UOp, ...]:
    calls: tuple[UOp, ...] = call.src[0].src[0].src
    return calls


def compile_linear(linear: UOp, beam: int | None = None) -> UOp:
    """The same LINEAR with every kernel as a PROGRAM; beam: how wide the search for its opts is."""
    calls = []
    for call in compiling(with_beam(linear, beam).src):
        body = call.src[0]
        if body.op is Ops.SINK:
            body = lower_kernel(body, device_of(call))
        calls.append(called_with(call, call.src[1:], body))
    return linear.replace(src=tuple(calls))


def lower_and_compile(linear: UOp) -> UOp:
    """As `compile_linear`, with the search that BEAM asks for."""
    return compile_linear(linear)


def link_linear(linear: UOp, cache: bool = True) -> UOp:
    """The LINEAR compiled, and every program of it loaded: to run it costs no more than that.

    cache: False loads them anew.
    """
    compiled = compile_linear(linear)
    for call in compiled.src:
        if call.src[0].op is Ops.PROGRAM:
            get_runtime(device_of(call), call.src[0], cache)
    return compiled

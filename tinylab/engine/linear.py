"""Schedules in the hand: a LINEAR of CALLs over real buffers, to look at and to run later.

linear, var_vals = (a @ b).linear_with_vars()
run_linear(linear, var_vals)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinylab.device import Buffer, Device
from tinylab.engine.compile import lower_kernel
from tinylab.engine.launch import Plan, plan_schedule
from tinylab.opcodes import Ops
from tinylab.schedule import Schedule, is_internal
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
        nodes = {x: UOp.from_buffer(b) for x, b in own.items()}
        nodes.update({p: inputs[p.arg.slot] for p in _params(plan.schedule.linear)})
        for call in plan.schedule.linear.src:
            src = (a.substitute(nodes, walk=True) for a in call.src[1:])
            self.calls.append(call.replace(src=(call.src[0], *src)))
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


deferring: list[Deferred] = []


@contextmanager
def deferred() -> Iterator[Deferred]:
    """What is realized inside is scheduled, and not run."""
    noted = Deferred()
    deferring.append(noted)
    try:
        yield noted
    finally:
        deferring.remove(noted)


def execute_plan(
    plan: Plan, inputs: tuple[UOp, ...], var_vals: dict[str, int]
) -> dict[UOp, Buffer]:
    """Run a plan, or note it where somebody wants the schedule only."""
    return deferring[-1].add(plan, inputs, var_vals) if deferring else plan.run(inputs, var_vals)


def run_linear(linear: UOp, var_vals: dict[str, int] | None = None) -> None:
    """Run a LINEAR of CALLs over real buffers, compiled where that has not been done.

    Raises: ScheduleError where a variable has no value.
    """
    plan_schedule(Schedule(linear, (), 0, 0, 0), False).run((), var_vals or {})


def compile_linear(linear: UOp) -> UOp:
    """The same LINEAR with every kernel as a PROGRAM."""
    calls = []
    for call in linear.src:
        body = call.src[0]
        if body.op is Ops.SINK:
            body = lower_kernel(body, Device.canonicalize(str(call.src[1].device)))
        calls.append(call.replace(src=(body, *call.src[1:])))
    return linear.replace(src=tuple(calls))

"""A schedule as a list of steps, ready to run: each a loaded program or a copy."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tinylab.device import Buffer, Program
from tinylab.engine.buffers import Arguments, device_of
from tinylab.engine.capture import open_captures
from tinylab.engine.compile import compiling, get_runtime, lower_kernel
from tinylab.engine.progress import Progress
from tinylab.helpers.context import DEBUG, VALIDATE_WITH_CPU
from tinylab.helpers.measure import GlobalCounters
from tinylab.helpers.text import ansipad, colored, size_to_str, time_to_str
from tinylab.opcodes import Ops
from tinylab.schedule import DEVICE_NUMBER, Schedule
from tinylab.trace import events
from tinylab.trace.record import wants
from tinylab.uop.args import CallInfo
from tinylab.uop.ops import ProgramInfo, UOp


@dataclass
class Step:
    """One CALL of a schedule: what runs, and the numbers of its arguments."""

    name: str
    device: str
    arguments: tuple[int, ...]
    program: Program[Any] | None = None  # None: a copy from the second argument to the first
    global_size: tuple[int, ...] = (1, 1, 1)
    local_size: tuple[int, ...] | None = None
    vals: tuple[int | None, ...] = ()
    ops: int = 0
    lds: int = 0
    mem: int = 0
    kernel: int | None = None  # its number in the record that heard it being lowered
    outs: tuple[int, ...] = (0,)  # places of the arguments that are written
    info: ProgramInfo | None = None  # where the launch depends on variables
    known: dict[str, int] = field(default_factory=dict)  # the same at each run
    first: bool = True
    reason: str = ""
    code: UOp | None = None  # the PROGRAM
    methods: tuple[Any, ...] = ()  # the tensor methods that it comes from
    ast: UOp | None = None  # the kernel before its opts

    @property
    def ins(self) -> tuple[int, ...]:
        """Places of the arguments that are read."""
        return (1,) if self.code is None else self.code.arg.ins

    def with_values(self, var_vals: dict[str, int]) -> Step:
        """The step for these values of its variables.

        Raises: ScheduleError where one has none.
        """
        if self.info is None:
            return self
        values = {**var_vals, **self.known}
        sizes, group = self.info.launch_dims(values)
        vals = self.info.vals(values)
        return replace(self, global_size=sizes, local_size=group, vals=vals)


@dataclass
class Plan:
    """A schedule, and its steps once it is compiled."""

    schedule: Schedule
    arguments: Arguments
    steps: list[Step] = field(default_factory=list)
    fresh: bool = False  # whether also known kernels are lowered, for who listens

    def compile(self) -> None:
        """Make the steps, unless that is done: every kernel is compiled and loaded."""
        calls = self.schedule.linear.src
        if len(self.steps) == len(calls):
            return
        steps = []
        for index, call in enumerate(compiling(calls)):
            numbers = tuple(self.arguments.numbers[a] for a in call.src[1:])
            if call.src[0].op is Ops.COPY:
                steps.append(copy_step(call, numbers))
            else:
                steps.append(_kernel_step(index, call, numbers, self.fresh))
        self.steps = steps

    def run(
        self,
        inputs: tuple[UOp, ...],
        var_vals: dict[str, int],
        counted: bool = True,
        in_jit: bool = False,
        progress: Progress | None = None,
    ) -> dict[UOp, Buffer]:
        """Run every step on these inputs; the memory of the schedule's own buffers is returned.

        counted: whether the work is added to the totals. in_jit: whether this is a replay.
        progress: is told how far the run came.

        Raises: ScheduleError where a variable has no value.
        """
        own: dict[UOp, Buffer] = {}
        buffers = self.arguments.allocate(inputs, own)
        for capture in open_captures():
            capture.add(self, buffers, own.values(), var_vals)
        calls, steps, validates = self.schedule.linear.src, self.steps, bool(VALIDATE_WITH_CPU)

        def launch(number: int) -> None:
            step = steps[number]
            used = [buffers[n] for n in step.arguments]
            now = step if step.info is None else step.with_values(var_vals)
            if not validates or calls[number].src[0].op is not Ops.SINK or _on_cpu(step):
                run_step(now, used, in_jit, counted)
                return
            # By name: comparing stands above launching, and is seldom wanted.
            checks = importlib.import_module("tinylab.engine.validate")
            run = functools.partial(run_step, now, used, in_jit, counted)
            checks.validated(now, calls[number].src[0], used, var_vals, run)

        progress = Progress() if progress is None else progress
        progress.plan, progress.own, progress.buffers = self, own, buffers
        progress.steps(launch)
        return own


def _on_cpu(step: Step) -> bool:
    return step.device.split(":")[0] == "CPU"


def _buffer_facts(call: UOp) -> list[tuple[int, int, str]]:
    return [(n, int(a.shape[0]), a.dtype.name) for n, a in enumerate(call.src[1:])]


def plan_schedule(schedule: Schedule, fresh: bool) -> Plan:
    """A schedule with every kernel compiled.

    fresh: also those that are known, for who listens.
    """
    plan = Plan(schedule, Arguments(schedule.linear), fresh=fresh)
    plan.compile()
    return plan


def copy_step(call: UOp, numbers: tuple[int, ...]) -> Step:
    """The step of a copy from the call's second argument to its first."""
    to, source = call.src[1], call.src[2]
    size = int(to.shape[0]) * to.dtype.itemsize
    name = f"copy {size_to_str(size):>10}, {to.device!s:>7} <- {source.device!s:7}"
    reason = str(call.arg.aux)
    return Step(name, str(to.device), numbers, mem=size, reason=reason, methods=call.metadata or ())


def _kernel_step(index: int, call: UOp, numbers: tuple[int, ...], fresh: bool) -> Step:
    ast, device = call.src[0], device_of(call)
    with events.span(
        "kernel",
        f"kernel {index}",
        call=call,
        ast=ast,
        index=index,
        reason=str(call.arg.aux or ""),
        device=device,
        buffers=_buffer_facts(call) if events.listening() else [],
    ) as span:
        again = fresh and wants(("kernel", ast, device))
        program = lower_kernel(ast, device, fresh=again)
        span.data.update(program=program, cached=not again)
    if DEBUG >= 3 and program.src[0].arg.applied_opts:
        print(f"{program.arg.function_name:<25} opts: {program.src[0].arg.applied_opts}")
    step = program_step(program, device, numbers, call.arg, span.data.get("kernel"))
    step.methods = call.metadata or ()
    step.ast = ast
    return step


def program_step(
    program: UOp, device: str, numbers: tuple[int, ...], call: CallInfo, kernel: int | None = None
) -> Step:
    """The step of a compiled kernel.

    numbers: of its arguments; call: what is known about the CALL; kernel: its number in a record.
    """
    info = program.arg
    known = {} if call.device_number is None else {DEVICE_NUMBER: call.device_number}
    symbolic = len(info.runtimevars) + len(known) < len(info.vars)
    global_size, local_size = ((1, 1, 1), None) if symbolic else info.launch_dims(known)
    estimates = info.estimates
    return Step(
        info.name,
        device,
        numbers,
        get_runtime(device, program),
        global_size,
        local_size,
        () if symbolic else info.vals(known),
        outs=info.outs,
        info=info if symbolic else None,
        known=known,
        ops=_known(estimates.ops),
        lds=_known(estimates.lds),
        mem=_known(estimates.mem),
        kernel=kernel,
        reason=str(call.aux or ""),
        code=program,
    )


def _known(count: Any) -> int:
    """A count of work as a number; 0 where it depends on a variable."""
    return count if isinstance(count, int) else 0


def run_step(step: Step, buffers: list[Buffer], in_jit: bool = False, counted: bool = True) -> None:
    """Run one step, counted and, where someone looks, timed."""
    watched = DEBUG >= 2 or events.listening()
    start = time.perf_counter_ns()
    elapsed = execute(step, buffers, watched)
    if counted:
        count([step])
    if watched:
        _tell(step, buffers, start, elapsed or 0.0)
        report(step, elapsed or 0.0, in_jit)


def execute(step: Step, buffers: list[Buffer], wait: bool) -> float | None:
    """Run one step; the seconds that it took, where somebody waits for them."""
    if step.program is None:
        start = time.perf_counter_ns()
        buffers[0].copy_from(buffers[1])
        return (time.perf_counter_ns() - start) * 1e-9
    return step.program(
        *[b._buf for b in buffers],
        global_size=step.global_size,
        local_size=step.local_size,
        vals=step.vals,
        wait=wait,
    )


def count(steps: Iterable[Step]) -> None:
    """Add the work of steps to the totals of the process."""
    for step in steps:
        GlobalCounters.kernel_count += 1
        GlobalCounters.global_ops += step.ops
        GlobalCounters.global_mem += step.mem


def _tell(step: Step, buffers: list[Buffer], start_ns: int, seconds: float) -> None:
    kind = "copy" if step.program is None else "run"
    events.point(
        kind,
        step.name,
        device=step.device,
        kernel=step.kernel,
        program=step.code,
        ast=step.ast,
        buffers=buffers,
        start_ns=start_ns,
        end_ns=start_ns + round(seconds * 1e9),
        ops=step.ops,
        lds=step.lds,
        mem=step.mem,
    )


def report(step: Step, seconds: float, in_jit: bool = False) -> None:
    """Add the time of a step to the total; with DEBUG=2 print a line about it."""
    GlobalCounters.time_sum_s += seconds
    if DEBUG >= 2:
        _print(step, seconds, "magenta" if in_jit else "green" if step.first else None)
    step.first = False


def _print(step: Step, seconds: float, color: str | None) -> None:
    rate = 1e-9 / max(seconds, 1e-9)
    head = f"*** {step.device:7s} {GlobalCounters.kernel_count:4d}"
    shown = time_to_str(seconds, w=9)
    print(
        f"{colored(head, color) if color else head} {ansipad(step.name, 46)} "
        f"arg {len(step.arguments):2d} mem {GlobalCounters.mem_used / 1e9:6.2f} GB "
        f"tm {colored(shown, 'yellow') if seconds > 0.01 else shown}/"
        f"{GlobalCounters.time_sum_s * 1e3:9.2f}ms "
        f"({step.ops * rate:7.0f} GFLOPS {step.mem * rate:4.0f}|{step.lds * rate:<6.0f} GB/s)"
        f"{' ' + str(list(map(str, step.methods))) if step.methods else ''}"
    )

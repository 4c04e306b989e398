"""One CALL of a schedule: its name, what it reads and writes, what it costs, how long it takes.

(call,) = compile_linear((a + b).schedule_linear()).src
estimate_uop(call), next(time_call(call))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tinylab.device import Buffer, Device
from tinylab.engine.buffers import Arguments, device_of
from tinylab.engine.compile import lower_kernel
from tinylab.engine.launch import copy_step, execute, program_step
from tinylab.helpers.context import BEAM
from tinylab.opcodes import Ops
from tinylab.renderer import Estimates
from tinylab.schedule.effects import called_with, written_slots
from tinylab.uop.ops import KernelInfo, PatternMatcher, Rule, UOp, UPat


def get_call_arg_uops(call: UOp) -> tuple[UOp, ...]:
    """The buffers that a CALL is made with; sizes are left out."""
    return tuple(a for a in call.src[1:] if not (a.is_variable or a.is_bound_var))


def get_call_outs_ins(call: UOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(the places of the arguments that are written, those of the arguments that are read)."""
    body = call.src[0]
    if body.op is Ops.PROGRAM and body.arg is not None:
        return body.arg.outs, body.arg.ins
    if body.op is Ops.COPY:
        return (0,), (1,)
    outs = tuple(sorted(written_slots(body)))
    places = range(len(get_call_arg_uops(call)))
    return outs, tuple(n for n in places if n not in outs)


def get_call_name(
    call: UOp, bufs: Sequence[Buffer | UOp] = (), var_vals: dict[str, int] | None = None
) -> str:
    """What DEBUG=2 calls it: the kernel's name in colours, or what is copied from where to where.

    bufs: the memory of a copy, where its arguments do not say it.
    """
    body = call.src[0]
    if body.op is Ops.COPY:
        args = list(bufs) or list(call.src[1:])
        return copy_step(call.replace(src=(body, *map(_node, args))), (0, 1)).name
    if body.op is Ops.SINK:
        body = lower_kernel(body, device_of(call))
    return str(getattr(body.arg, "name", None) or call.arg.name or body.op.name.lower())


def _node(x: Buffer | UOp) -> UOp:
    return x if isinstance(x, UOp) else UOp.from_buffer(x)


def estimate_uop(call: UOp) -> Estimates:
    """The work of a CALL: operations, bytes loaded and stored, bytes of memory touched."""
    body = call.src[0]
    if body.op is Ops.COPY:
        size = int(call.src[1].shape[0]) * call.src[1].dtype.itemsize
        return Estimates(lds=size, mem=size)
    if body.op is Ops.LINEAR or body.op is Ops.CUSTOM_FUNCTION:
        total = Estimates()
        for each in body.src if body.op is Ops.LINEAR else body.src[0].src:
            total = total + estimate_uop(each)
        return total
    if body.op is Ops.SINK:
        body = lower_kernel(body, device_of(call))
    found: Estimates = body.arg.estimates or Estimates()
    return found


def time_call(call: UOp, var_vals: dict[str, int] | None = None) -> Iterator[float]:
    """The seconds of each of any number of runs of a CALL, on memory of its own.

    var_vals: the values of its variables.
    """
    body = call.src[0]
    arguments = Arguments(UOp(Ops.LINEAR, None, (call,)))
    numbers = tuple(arguments.numbers[a] for a in call.src[1:])
    if body.op is Ops.COPY:
        step = copy_step(call, numbers)
    else:
        program = lower_kernel(body, device_of(call)) if body.op is Ops.SINK else body
        step = program_step(program, device_of(call), numbers, call.arg)
        step.ast = body if body.op is Ops.SINK else None
    step = step.with_values(var_vals or {})
    memory = [
        Buffer(Device.canonicalize(str(a.device)), int(a.shape[0]), a.dtype).allocate()
        for a in arguments.nodes
    ]
    while True:
        seconds = execute(step, [memory[n] for n in numbers], wait=True)
        yield seconds or 0.0


def _searched(x: UOp, ctx: int) -> UOp | None:
    """A kernel that nobody has tuned, marked for a search of a width."""
    if not isinstance(x.arg, KernelInfo) or x.arg.opts_to_apply is not None or x.arg.beam == ctx:
        return None
    return x.replace(arg=x.arg._replace(beam=ctx))


# A kernel that is searched has the width in its KernelInfo; another width is another kernel.
pm_beam = PatternMatcher(
    [Rule("searched", "sink -> sink(beam=n)", UPat(Ops.SINK, name="x"), _searched)]
)


def with_beam(linear: UOp, beam: Any = None) -> UOp:
    """The LINEAR with its kernels marked for a search; beam: its width, BEAM where it is None."""
    width = BEAM.value if beam is None else int(beam)
    if not width:
        return linear
    calls = []
    for call in linear.src:
        body = pm_beam.rewrite(call.src[0], width) if call.src[0].op is Ops.SINK else None
        calls.append(call if body is None else called_with(call, call.src[1:], body))
    return linear.replace(src=tuple(calls))

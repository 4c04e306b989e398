"""FUNCTIONs dissolve: a traced body takes the place of its call, or is scheduled once on its own.

GETTUPLE(FUNCTION(TUPLE(body…), args…), i)  ->  body i with PARAM(k) replaced by args[k]

A precompiled function stays a call: its body becomes a LINEAR with numbered arguments (outputs
first), worked out once however often it is called. Its results have memory for the largest sizes
that they may have, and are shrunk to those that they have.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tinylab.dtype import dtypes, strong_dtype
from tinylab.helpers.context import DEBUG
from tinylab.opcodes import Ops
from tinylab.schedule.effects import called_with
from tinylab.schedule.views import in_layout, is_whole
from tinylab.uop.args import CallInfo, ParamArg
from tinylab.uop.intern import make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

CreateSchedule = Callable[[UOp, "str | None", bool], Any]

# Slots of the buffers that hold results of precompiled functions; far from those of kernels.
FIRST_RESULT = -1_000_000


def parameters_of(body: UOp) -> dict[int, UOp]:
    """The numbered inputs of a body, sizes too, its inner calls' bodies not looked into."""
    found = (u for u in body.toposort(enter_calls=False) if u.op is Ops.PARAM)
    return {u.arg.slot: u for u in found if u.arg.slot >= 0}


def _arrays(args: Iterable[UOp]) -> list[int]:
    """The places of the arguments that are memory, not sizes."""
    return [n for n, a in enumerate(args) if not (a.is_variable or a.is_bound_var)]


def with_arguments(value: UOp, args: tuple[UOp, ...]) -> UOp:
    """A value of a body with the arguments in the place of its parameters."""
    return value.substitute({p: args[n] for n, p in parameters_of(value).items()}, walk=True)


def inline_function(f: UOp, g: UOp) -> UOp | None:
    """One result of a traced body."""
    if f.arg.precompile and not _on_several_devices(f):
        return None
    return with_arguments(f.src[0].src[g.arg], f.src[1:])


def tuple_item(t: UOp, g: UOp) -> UOp:
    """One of several values that are all there."""
    item: UOp = t.src[g.arg]
    return item


class Precompiled(NamedTuple):
    """A body as a LINEAR; and for each output the first one that it is equal to, itself mostly."""

    linear: UOp
    places: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def precompiled(
    body: UOp,
    device: str | None,
    arrays: tuple[int, ...],
    create_schedule: CreateSchedule,
    name: str | None = None,
) -> Precompiled:
    """The LINEAR of a TUPLE body: PARAMs 0 to n-1 are its n outputs, its inputs follow.

    arrays: the slots of the inputs that are memory; the others are variables, known by name.
    """
    start_ns = time.perf_counter_ns()
    count = len(body.src)
    inputs = parameters_of(body)
    sizes = {p: p.replace(arg=p.arg._replace(slot=-1)) for p in inputs.values() if p.is_variable}
    shifted = {
        inputs[slot]: _flat(inputs[slot].substitute(sizes, walk=True), count + n)
        for n, slot in enumerate(arrays)
        if slot in inputs
    }
    shifted.update(sizes)
    strong = [v.cast(strong_dtype(v.dtype)) for v in body.src]
    sink = UOp.sink(*(make(Ops.CONTIGUOUS, v.dtype, (v,), _RESULT) for v in strong))
    schedule: Any = create_schedule(sink.substitute(shifted, walk=True), device, False)
    outputs: dict[UOp, int] = {}  # equal results are one
    places = tuple(outputs.setdefault(view.base, n) for n, view in enumerate(schedule.outputs))
    numbered = {b: UOp.param(n, b.dtype, b.shape) for b, n in outputs.items() if b.op is Ops.BUFFER}
    linear: UOp = schedule.linear
    if DEBUG >= 2:
        elapsed_ms = (time.perf_counter_ns() - start_ns) * 1e-6
        print(f"function {body.key.hex()[:8]} in {elapsed_ms:.2f} ms: {name}")
    calls = (called_with(c, (numbered.get(a, a) for a in c.src[1:])) for c in linear.src)
    return Precompiled(linear.replace(src=tuple(calls)), places)


_RESULT = "a result of a function"


def _flat(p: UOp, slot: int) -> UOp:
    """A parameter as a view of flat memory, under another number."""
    return in_layout(UOp.param(slot, p.dtype, (p.max_numel(),), p.arg.device), p.shape)


def _as_argument(a: UOp) -> UOp:
    """An argument as memory of its own."""
    if is_whole(a):
        return a
    return make(Ops.CONTIGUOUS, a.dtype, (a,), "an argument of a precompiled function")


def _on_several_devices(f: UOp) -> bool:
    """Whether a function is called with values on several devices."""
    return any(isinstance(a.device, tuple) for a in f.src[1:])


def call_function(f: UOp, g: UOp, ctx: FunctionContext) -> UOp | None:
    """One result of a precompiled function: a buffer after the call of its LINEAR."""
    if not f.arg.precompile or _on_several_devices(f):
        return None
    if f not in ctx.called:
        arrays = tuple(_arrays(f.src[1:]))
        args = tuple(_as_argument(f.src[1 + n]) for n in arrays)
        device = next((a.device for a in args if isinstance(a.device, str)), ctx.device)
        linear, places = precompiled(f.src[0], device, arrays, ctx.create_schedule, f.arg.name)
        distinct = {n: _result(f, n, device, ctx.slots) for n in sorted(set(places))}
        outs = tuple(distinct[n] for n in places)
        call = make(
            Ops.CALL, dtypes.void, (linear, *outs, *args), CallInfo(f.arg.name, aux="a function")
        )
        ctx.called[f] = tuple(out.after(call) for out in outs)
    return in_layout(ctx.called[f][g.arg], g.shape).cast(g.dtype)


def _result(f: UOp, n: int, device: Any, slots: Iterator[int]) -> UOp:
    value = f.src[0].src[n]
    dtype = strong_dtype(value.dtype)  # memory has no weak one
    arg = ParamArg(next(slots), dtype, device=device)
    return make(Ops.BUFFER, dtype, (UOp.const(value.max_numel()),), arg)


class FunctionContext:
    """The precompiled functions that have been called, and slots for their results.

    create_schedule: how a body becomes a LINEAR; handed in, since it is the list this pass is in.
    """

    def __init__(self, device: str | None, create_schedule: CreateSchedule) -> None:
        self.device, self.create_schedule = device, create_schedule
        self.called: dict[UOp, tuple[UOp, ...]] = {}
        self.slots = itertools.count(FIRST_RESULT, -1)


_FUNCTION = UPat(Ops.FUNCTION, name="f")

# fmt: off
pm_inline_functions = PatternMatcher([
    Rule("inline_function", "f(args)[i] -> body i with its arguments",
         UPat(Ops.GETTUPLE, src=(_FUNCTION,), name="g"), inline_function),
    Rule("call_function", "precompiled f(args)[i] -> buffer after call(linear)",
         UPat(Ops.GETTUPLE, src=(_FUNCTION,), name="g"), call_function),
    Rule("tuple_item", "tuple(a, b)[1] -> b",
         UPat(Ops.GETTUPLE, src=(UPat(Ops.TUPLE, name="t"),), name="g"), tuple_item),
])
# fmt: on

"""What is legal at each stage: a rule table per stage whose results say yes or no.

SPEC=1 checks graphs at stage boundaries, SPEC=2 also each new node, 0 nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tinylab.dtype import Invalid, dtypes
from tinylab.errors import SpecError
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.args import KernelInfo, ParamArg, RangeArg, ReduceArg, StageArg
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.pattern import UPat
from tinylab.uop.printer import argument_text

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def _yes(x: UOp) -> bool:
    return True


def _param_is_whole(x: UOp) -> bool:
    return isinstance(x.arg, ParamArg) and x.arg.dtype is x.dtype and len(x.src) == 1


def _const_fits(x: UOp) -> bool:
    if x.arg is Invalid:
        return not x.src
    kinds = {"float": float, "bool": bool, "sint": int, "uint": int}
    return not x.src and type(x.arg).__mro__.count(kinds[x.dtype.kind]) == 1


def _range_is_whole(x: UOp) -> bool:
    if not isinstance(x.arg, RangeArg) or not isinstance(x.arg[-1], AxisType):
        return False
    return bool(x.src) and all(isinstance(i, int) for i in x.arg[:-1])


def _alu_agrees(x: UOp) -> bool:
    if x.op in GroupOp.Comparison:
        return x.dtype is dtypes.bool
    if x.op is Ops.WHERE:
        return x.src[0].dtype is dtypes.bool
    return x.dtype is not dtypes.void


def _store_agrees(x: UOp) -> bool:
    gates_are_bool = all(g.dtype is dtypes.bool for g in x.src[2:])
    return 2 <= len(x.src) <= 3 and x.dtype is dtypes.void and gates_are_bool


def _reduce_agrees(x: UOp) -> bool:
    return isinstance(x.arg, ReduceArg) and x.arg.op in GroupOp.Reduce


def _end_closes(x: UOp) -> bool:
    return all(r.op is Ops.RANGE or r.dtype is dtypes.bool for r in x.src[1:])


def _row(name: str, law: str, op: object, holds: object) -> Rule:
    return Rule(name, law, UPat(op, name="x"), holds)  # type: ignore[arg-type]


# fmt: off
spec_shared = PatternMatcher([
    _row("const", "a literal of its dtype, no sources", Ops.CONST, _const_fits),
    _row("param", "one shape node, a ParamArg", (Ops.PARAM, Ops.BUFFER), _param_is_whole),
    _row("range", "end first; ids and an AxisType", Ops.RANGE, _range_is_whole),
    _row("alu", "comparisons are bool, WHERE asks a bool", GroupOp.ALU, _alu_agrees),
    _row("cast", "arg is the dtype", (Ops.CAST, Ops.BITCAST), lambda x: x.arg is x.dtype),
    _row("store", "target, value, perhaps a gate", Ops.STORE, _store_agrees),
    _row("effects", "no value", (Ops.SINK, Ops.GROUP, Ops.NOOP), _yes),
    _row("after", "a value and what it waits for", Ops.AFTER, lambda x: len(x.src) > 1),
    _row("stack", "equal items", Ops.STACK, lambda x: len({s._shape for s in x.src}) <= 1),
    _row("end", "an effect, then loops", Ops.END, _end_closes),
])

spec_movement = PatternMatcher([
    _row("reshape", "x and a shape", (Ops.RESHAPE, Ops.EXPAND), lambda x: len(x.src) == 2),
    _row("window", "x, offsets, sizes", (Ops.PAD, Ops.SHRINK), lambda x: len(x.src) == 3),
    _row("permute", "an order of the axes", Ops.PERMUTE,
         lambda x: sorted(x.arg) == list(range(len(x.src[0].shape)))),
    _row("flip", "one bool an axis", Ops.FLIP, lambda x: len(x.arg) == len(x.src[0].shape)),
])

spec_tensor = spec_shared + spec_movement + PatternMatcher([
    _row("reduce", "leading axes, an op", Ops.REDUCE,
         lambda x: _reduce_agrees(x) and x.arg.count > 0 and len(x.src) == 1),
    _row("copy", "a device", Ops.COPY, lambda x: isinstance(x.arg, str | tuple)),
    _row("marks", "one source", (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH),
         lambda x: len(x.src) == 1),
    _row("calls", "a body, then arguments",
         (Ops.CALL, Ops.FUNCTION, Ops.TUPLE, Ops.GETTUPLE), _yes),
    _row("iota", "a value over its own loop, never stored", Ops.STAGE, lambda x: x.arg.removable),
    _row("several", "devices", (Ops.MSELECT, Ops.MSTACK, Ops.UNSHARD, Ops.ALLREDUCE), _yes),
    _row("custom", "a host action", Ops.CUSTOM_FUNCTION, _yes),
    _row("index", "an array and places", Ops.INDEX, _yes),
])

_LOADABLE = (Ops.INDEX, Ops.SHRINK, Ops.AFTER, Ops.BUFFER, Ops.PARAM, Ops.CAST)

spec_kernel = spec_shared + PatternMatcher([
    _row("reduce", "ranges and an op", Ops.REDUCE,
         lambda x: _reduce_agrees(x) and (x.arg.count == 0) == (len(x.src) > 1)),
    _row("index", "an array and integer places", Ops.INDEX, lambda x: len(x.src) > 1),
    _row("stage", "a value over ranges", Ops.STAGE, lambda x: isinstance(x.arg, StageArg)),
    _row("special", "a size and a name", Ops.SPECIAL, lambda x: isinstance(x.arg, str)),
    _row("load", "a place", Ops.LOAD, lambda x: x.src[0].op in _LOADABLE),
    _row("text", "for the renderer",
         (Ops.CUSTOM, Ops.CUSTOMI, Ops.INS, Ops.BARRIER, Ops.WMMA), _yes),
]) + spec_movement

_PROGRAM_FORBIDDEN = (AxisType.UPCAST, AxisType.UNROLL, AxisType.WEAK)

spec_program = PatternMatcher([
    _row("no_reduce", "REDUCE is lowered", Ops.REDUCE, lambda x: False),
    _row("no_lanes", "UPCAST and UNROLL are lanes now", Ops.RANGE,
         lambda x: None if x.arg[-1] not in _PROGRAM_FORBIDDEN[:2] else False),
    _row("concrete", "no weak types", GroupOp.ALU | {Ops.RANGE, Ops.CONST},
         lambda x: False if dtypes.is_weak(x.dtype) else None),
    _row("branches", "IF and ENDIF", (Ops.IF, Ops.ENDIF), _yes),
]) + spec_kernel
# fmt: on


def type_verify(uops: UOp | Iterable[UOp], spec: PatternMatcher) -> None:
    """Hold every node of a graph (or a list) against a stage's spec.

    Raises: SpecError naming the first node that is not legal.
    """
    from tinylab.uop.node import UOp as Node

    nodes = list(uops.toposort(_not_inside) if isinstance(uops, Node) else uops)
    for i, u in enumerate(nodes):
        if spec.rewrite(u) is not True:
            sources = ", ".join(f"{s.op.name}:{s.dtype.name}" for s in u.src)
            raise SpecError(
                f"UOp verification failed at {i} on {u.op} {u.dtype} [{sources}] "
                f"{argument_text(u)}",
                help="a pass before this stage made a node that the stage does not allow",
            )


def _not_inside(u: UOp) -> bool:
    return not (u.op is Ops.SINK and isinstance(u.arg, KernelInfo) and u.tag == "done")

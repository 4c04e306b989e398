"""One kernel for each store: its loops and expression as a body, its buffers as arguments.

A body names its buffers by slot (the output first) and numbers its loops from 0, so that equal
kernels are equal nodes and are compiled once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tinylab.dtype import DType
from tinylab.errors import ScheduleError
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule.shard import is_device_number
from tinylab.uop.args import CallInfo, KernelInfo, RangeArg
from tinylab.uop.intern import make
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, rebuild

_STORAGE = (Ops.AFTER, Ops.BUFFER, Ops.PARAM)


def plain(x: UOp) -> UOp:
    """The buffer below AFTERs and views."""
    while x.op is Ops.AFTER or x.op in GroupOp.Movement:
        x = x.without_after if x.op is Ops.AFTER else x.src[0]
    return x


def _is_storage(x: UOp) -> bool:
    return x.op in _STORAGE and not x.is_variable


def _body_nodes(effect: UOp) -> list[UOp]:
    """The nodes of one kernel, storage included but not what lies below it."""
    found: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(effect, False)]
    while stack:
        x, visited = stack.pop()
        if x in found:
            continue
        if visited or _is_storage(x):
            found[x] = None
        else:
            stack.append((x, True))
            stack.extend((s, False) for s in reversed(x.src))
    return list(found)


def _loop_numbers(effect: UOp, nodes: list[UOp], variables: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """The loops numbered from 0: those of the output in order, then those of reductions.

    variables: what stands for those that the sizes of the loops name.
    """
    outer = [r for r in effect.src[1:] if r.op is Ops.RANGE]
    inner = [x for x in nodes if x.op is Ops.RANGE and x not in outer]
    return {
        r: make(
            Ops.RANGE,
            r.dtype,
            tuple([s.substitute(variables) for s in r.src]) if variables else r.src,
            RangeArg((n, r.arg[-1])),
        )
        for n, r in enumerate([*outer, *inner])
    }


def _parameters(effect: UOp, nodes: list[UOp]) -> tuple[dict[UOp, UOp], list[UOp]]:
    """Each storage node as a numbered parameter; and the arguments in the order of their slots."""
    store = effect.src[0] if effect.op is Ops.END else effect
    target = plain(store.src[0].src[0])
    slots: dict[UOp, int] = {target: 0}
    arguments: list[UOp] = [target]
    for x in nodes:
        if not _is_storage(x):
            continue
        buffer = plain(x)
        slot = slots.setdefault(buffer, len(slots))
        if slot == len(arguments):
            arguments.append(x)
        elif x.op is Ops.AFTER:
            arguments[slot] = x  # the state after a write says more than the bare buffer
    return {
        x: UOp.param(slots[plain(x)], x.dtype, (plain(x).shape[0],))
        for x in nodes
        if _is_storage(x)
    }, arguments


def _device_numbers(nodes: list[UOp], device: Any) -> tuple[int | None, dict[UOp, UOp]]:
    """What `_device_num` is in a kernel of a device, and each number as the kernel has it.

    A part that is computed here for another device may hold both numbers, and a kernel is told
    one: its own, or if it has no use for that the first. The others are constants.
    """
    numbers = [x for x in nodes if is_device_number(x)]
    if not numbers:
        return None, {}
    told = next((x for x in numbers if x.arg.device == device), numbers[0])
    known = {x: x.const_like(x.arg.axis) for x in numbers}
    known[told] = told.replace(arg=told.arg._replace(axis=None, device=None))
    return told.arg.axis, known


def _shared_variables(nodes: list[UOp]) -> dict[UOp, UOp]:
    """Variables of one name as one, in what all their ranges have in common.

    A name has one value in a computation (`callify`), so that lies in all of them.
    """
    by_name: dict[tuple[str, DType], list[UOp]] = {}
    for x in nodes:
        if x.is_variable and not is_device_number(x) and x.arg.vmin_vmax is not None:
            by_name.setdefault((x.arg.name, x.dtype), []).append(x)
    found: dict[UOp, UOp] = {}
    for same in by_name.values():
        if len(same) > 1:
            low, high = zip(*(x.arg.vmin_vmax for x in same), strict=True)
            parts = [x.arg.multiple_of for x in same if x.arg.multiple_of is not None]
            arg = same[0].arg._replace(
                vmin_vmax=(max(low), min(high)), multiple_of=math.lcm(*parts) if parts else None
            )
            found |= dict.fromkeys(same, same[0].replace(arg=arg))
    return found


def _refuse_several_devices(arguments: list[UOp]) -> None:
    devices = list(dict.fromkeys(a.device for a in arguments if a.device is not None))
    if len(devices) > 1:
        raise ScheduleError(
            f"all buffers must be on the same device: {devices}",
            help=f"move the tensors to one, such as .to({devices[0]!r})",
        )


def _kernel(effect: UOp) -> UOp:
    """The CALL of the kernel that has this effect."""
    nodes = _body_nodes(effect)
    new, arguments = _parameters(effect, nodes)
    _refuse_several_devices(arguments)
    variables = _shared_variables(nodes)
    new.update(variables)
    new.update(_loop_numbers(effect, nodes, variables))
    number, known = _device_numbers(nodes, arguments[0].device)
    new.update(known)
    for x in nodes:
        if x not in new:
            src = tuple(new[s] for s in x.src)
            arg = None if x.op is Ops.STORE else x.arg
            new[x] = rebuild(x, src).replace(arg=arg, tag=None)
    store = effect.src[0] if effect.op is Ops.END else effect
    body = UOp.sink(new[effect], arg=KernelInfo())
    reason = store.arg or "a write in place"
    info = CallInfo(aux=reason, device_number=number)
    call = make(Ops.CALL, effect.dtype, (body, *arguments), info)
    call.metadata = _methods([*nodes, effect])
    return call


def _methods(nodes: Iterable[UOp]) -> tuple[Any, ...] | None:
    """The tensor methods that nodes of a kernel come from, each once."""
    return tuple(dict.fromkeys(m for x in nodes for m in x.metadata or ())) or None


def split_kernel(x: UOp) -> UOp | None:
    """Each effect on a buffer as the call of a kernel."""
    effects = x.src[1:]
    for e in effects:
        if e.op is Ops.CALL and e.src[0].op in (Ops.SINK, Ops.PROGRAM):
            _refuse_several_devices(list(e.src[1:]))  # a kernel written by hand
    if x.is_bound_var or not any(e.op in (Ops.STORE, Ops.END) for e in effects):
        return None
    calls = tuple(_kernel(e) if e.op in (Ops.STORE, Ops.END) else e for e in effects)
    return x.replace(src=(x.src[0], *calls))


pm_split_kernels = PatternMatcher(
    [
        Rule(
            "split_kernel",
            "b after (for r: b[r] <- x) -> b after call(kernel, b, …)",
            UPat(Ops.AFTER, name="x"),
            split_kernel,
        )
    ]
)

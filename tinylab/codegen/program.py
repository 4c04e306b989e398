"""What the launch of a program needs to know, read off its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import AddrSpace
from tinylab.opcodes import Ops
from tinylab.uop.ops import KernelInfo, ProgramInfo, UOp

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer


def program_info(sink: UOp, linear: UOp, ren: Renderer) -> ProgramInfo:
    """Name, grid, buffers and variables of a program."""
    lines = linear.src
    info: KernelInfo = sink.arg
    variables = [u for u in lines if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.ALU]
    global_size, local_size = _grid(lines, variables)
    buffers = sorted(
        u.arg.slot for u in lines if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.GLOBAL
    )
    return ProgramInfo(
        name=info.name,
        global_size=global_size,
        local_size=local_size,
        vars=tuple(sorted(variables, key=lambda u: str(u.arg.name))),
        globals=tuple(dict.fromkeys(buffers)),
        outs=_slots(lines, Ops.STORE),
        ins=_slots(lines, Ops.LOAD),
        target=ren.target,
        estimates=info.estimates,
    )


def _slots(lines: tuple[UOp, ...], op: Ops) -> tuple[int, ...]:
    """Slots of the buffers that are loaded from, or stored to."""
    found = set()
    for u in lines:
        if u.op is op:
            buffer = u.src[0]
            while buffer.src and buffer.op not in (Ops.PARAM, Ops.BUFFER):
                buffer = buffer.src[0]
            if buffer.op is Ops.PARAM:
                found.add(buffer.arg.slot)
    return tuple(sorted(found))


def _grid(
    lines: tuple[UOp, ...], variables: list[UOp]
) -> tuple[tuple[int | UOp, ...], tuple[int, ...] | None]:
    """(global size, local size); the threads of a CPU are the first axis of the grid."""
    sizes: list[int | UOp] = [1, 1, 1]
    group: list[int] = [1, 1, 1]
    grouped = True
    for u in lines:
        if u.op is not Ops.SPECIAL:
            continue
        axis, size = int(u.arg[-1]), u.src[0]
        count = int(size.arg) if size.op is Ops.CONST else size
        if u.arg[0] == "l":
            group[axis] = int(count)
        else:
            sizes[axis] = count
            grouped = grouped and u.arg[0] != "i"
    for v in variables:
        if v.arg.name == "core_id":
            sizes[0] = int(v.arg.vmin_vmax[1]) + 1
    has_specials = any(u.op is Ops.SPECIAL for u in lines)
    return tuple(sizes), tuple(group) if grouped and has_specials else None

"""A graph as numbered lines, sources before users: what golden files of passes hold."""

from __future__ import annotations

from tinylab.helpers.text import ansistrip
from tinylab.opcodes import Ops
from tinylab.uop.ops import KernelInfo, UOp

_SHORT = (Ops.CONST, Ops.RANGE)


def listing(root: UOp) -> str:
    """A line a node: its number, what it is, its type and shape, its sources by number."""
    names: dict[UOp, str] = {}
    lines = []
    for u in root.toposort():
        if u.op is Ops.CONST:
            names[u] = f"{u.arg}" if u.dtype.name.startswith("weak") else f"{u.arg}:{u.dtype.name}"
            continue
        names[u] = f"%{len(lines)}"
        shape = "" if not u._shape else str(list(u._shape)).replace(" ", "")
        dtype = "" if u.dtype.name == "void" else f" {u.dtype.name}{shape}"
        sources = ", ".join(names[s] for s in u.src)
        lines.append(f"{names[u]:>4} = {u.op.name}{dtype} ({sources}){_argument(u)}")
    return "\n".join(lines) + "\n"


def _argument(u: UOp) -> str:
    if u.arg is None:
        return ""
    if isinstance(u.arg, KernelInfo):
        opts = ", ".join(f"{o.op.name} {o.axis} {o.arg}" for o in u.arg.applied_opts)
        return f"  {ansistrip(u.arg.name)} [{opts}]"
    return f"  {u.arg}"

"""Kernels of workgroups as a CPU runs them: a loop over each axis of threads around all of it.

SPECIAL gidx0 < 8       RANGE gidx0 < 8
SPECIAL lidx0 < 16      RANGE lidx0 < 16
STORE(c[i], x)          STORE(c[i], x)
                        END lidx0
                        END gidx0

Lines keep their numbers, so that counts stand beside the lines of the program as it is.
"""

from __future__ import annotations

from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import CounterError
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import RangeArg, UOp

_FIRST_AXIS = 1 << 16  # beyond the axes of any kernel
_DECLARED = (Ops.PARAM, Ops.BUFFER, Ops.CONST, Ops.STACK, Ops.SPECIAL)


def as_loops(linear: UOp, name: str) -> UOp:
    """LINEAR of a workgroup's thread -> LINEAR of all threads, one after another.

    Raises: CounterError where threads wait for one another or share memory.
    """
    axes = [u for u in linear.src if u.op is Ops.SPECIAL]
    if not axes:
        return linear
    _refuse_shared(linear, name)
    loops = {u: _loop(u, number) for number, u in enumerate(axes)}
    *body, sink = linear.substitute(loops).src
    ends = [body[-1]]
    for loop in reversed(loops.values()):
        ends.append(UOp(Ops.END, dtypes.void, (ends[-1], loop)))
    return linear.replace(src=(*body, *ends[1:], sink.replace(src=(ends[-1],))))


def threads_of(linear: UOp) -> int:
    """How many threads a program of workgroups has; 1 for others."""
    count = 1
    for u in linear.src:
        count *= int(u.src[0].vmax) if u.op is Ops.SPECIAL else 1
    return count


def is_thread(loop: UOp) -> bool:
    """Whether a RANGE stands for an axis of threads."""
    return bool(loop.arg[0] >= _FIRST_AXIS)


def _loop(axis: UOp, number: int) -> UOp:
    kind = AxisType.LOCAL if axis.arg.startswith("l") else AxisType.GLOBAL
    return UOp(Ops.RANGE, axis.dtype, axis.src, RangeArg((_FIRST_AXIS + number, kind)))


def _refuse_shared(linear: UOp, name: str) -> None:
    """Threads that need one another cannot run one after another."""
    for u in linear.src:
        is_shared = u.op is Ops.BUFFER and u.arg.addrspace is AddrSpace.LOCAL
        if u.op is Ops.BARRIER or is_shared:
            raise CounterError(
                f"the threads of {name} share memory and wait for one another: the CPU, which runs "
                "one after another, cannot count them",
                help="count it without its GROUP and GROUPTOP, or estimate it for a GPU",
            )
    first = next(n for n, u in enumerate(linear.src) if u.op not in _DECLARED)
    if any(u.op is Ops.SPECIAL for u in linear.src[first:]):
        raise CounterError(
            f"{name} asks for the number of a thread in the middle of its work",
            help="estimate it for a GPU",
        )

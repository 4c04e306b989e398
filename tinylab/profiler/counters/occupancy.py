"""How many waves a GPU keeps at a time: what registers and shared memory leave room for.

occupancy(limits, threads=256, registers=40, shared_bytes=0)  ->  waves, and what limits them
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tinylab.dtype import AddrSpace
from tinylab.errors import CounterError
from tinylab.opcodes import Ops
from tinylab.target import GPULimits
from tinylab.uop.ops import UOp

_BASE_REGISTERS = 4  # addresses of buffers that are kept by lanes, a stack pointer
_SILENT = frozenset({Ops.CONST, Ops.PARAM, Ops.BUFFER, Ops.SINK, Ops.GROUP, Ops.NOOP, Ops.AFTER})


class Occupancy(NamedTuple):
    """Workgroups and waves that are resident on one multiprocessor, and what allows no more."""

    groups: int
    waves: int
    most_waves: int
    limit: str  # "registers", "shared memory", "waves", "workgroups"

    @property
    def share(self) -> float:
        """Of the waves that there could be."""
        return self.waves / self.most_waves


def occupancy(limits: GPULimits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """What fits on one multiprocessor at a time.

    Raises: CounterError for a workgroup that fits on none.
    """
    if not 0 < threads <= limits.most_threads:
        raise CounterError(
            f"a workgroup of {threads} threads: the target has 1 to {limits.most_threads}"
        )
    if shared_bytes > limits.group_shared_bytes:
        raise CounterError(
            f"a workgroup of {shared_bytes} bytes of shared memory: the target has "
            f"{limits.group_shared_bytes}"
        )
    waves = -(-threads // limits.wave)
    by = {
        "waves": limits.waves // waves,
        "workgroups": limits.groups,
        "registers": _by_registers(limits, waves, registers),
    }
    if shared_bytes:
        needed = _rounded(shared_bytes + limits.reserved_shared, limits.shared_unit)
        by["shared memory"] = limits.shared_bytes // needed
    limit = min(by, key=lambda name: by[name])
    return Occupancy(by[limit], by[limit] * waves, limits.waves, limit)


def _by_registers(limits: GPULimits, waves: int, registers: int) -> int:
    """Workgroups for which there are registers; a lane that needs more than there are spills."""
    needed = _rounded(max(1, min(registers, limits.most_registers)), limits.register_unit)
    return limits.registers // needed * limits.units // waves


def _rounded(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


# *** what a kernel needs


def shared_bytes(lines: Sequence[UOp]) -> int:
    """Bytes of a workgroup's memory."""
    return sum(
        math.prod(int(n) for n in u.shape) * u.dtype.itemsize
        for u in lines
        if u.op is Ops.BUFFER and u.arg.addrspace is AddrSpace.LOCAL
    )


def registers(lines: Sequence[UOp]) -> int:
    """About how many 32-bit registers a lane needs: the most that live at any line.

    A value lives from its line to its last use, through the whole of a loop that it comes from
    outside of; an accumulator as long as it is stored to and loaded. A compiler's own choices (it
    computes again, it keeps less) make it less or more.
    """
    ends = _lifetimes(lines)
    live = most = 0
    dying: dict[int, int] = {}
    for i, u in enumerate(lines):
        size = _size(u)
        live += size
        dying[ends[i]] = dying.get(ends[i], 0) + size
        most = max(most, live)
        live -= dying.pop(i, 0)
    return most + _BASE_REGISTERS


def _size(u: UOp) -> int:
    """Registers that a value takes: none for what is an address, a constant, or in memory."""
    is_register = u.op is Ops.BUFFER and u.arg.addrspace is AddrSpace.REG
    if not is_register and (u.op in _SILENT or u.op in (Ops.STORE, Ops.END, Ops.IF, Ops.ENDIF)):
        return 0
    if u.op in (Ops.INDEX, Ops.SHRINK, Ops.RESHAPE, Ops.STACK) or _is_accumulator(u):
        return 0
    lanes = math.prod(int(n) for n in u.shape) if u._shape else 1
    return -(-lanes * max(1, u.dtype.itemsize) // 4)


def _is_accumulator(u: UOp) -> bool:
    """A load of a register: the value is where it was."""
    if u.op is not Ops.LOAD:
        return False
    place = u.src[0]
    while place.op not in (Ops.PARAM, Ops.BUFFER):
        place = place.src[0]
    return place.arg.addrspace is AddrSpace.REG


def _lifetimes(lines: Sequence[UOp]) -> list[int]:
    """The line of each value's last use."""
    place = {u: i for i, u in enumerate(lines)}
    begins, ends = _loops(lines)
    last = list(range(len(lines)))
    for i, u in enumerate(lines):
        for s in _uses(u, place):
            at = place[s]
            # Through a loop that the value is not made in: it is needed again in the next turn.
            for begin, end in zip(begins, ends, strict=True):
                if begin <= i <= end and not begin <= at <= end:
                    last[at] = max(last[at], end)
            last[at] = max(last[at], i)
    return last


def _uses(u: UOp, place: dict[UOp, int]) -> list[UOp]:
    """The lines whose values a line reads, seen through what has none of its own."""
    found, stack = [], list(u.src)
    while stack:
        s = stack.pop()
        if s.op in (Ops.AFTER,):
            stack.append(s.src[0])
        elif s.op in (Ops.INDEX, Ops.SHRINK, Ops.RESHAPE, Ops.STACK) or s not in place:
            stack.extend(s.src)
        else:
            found.append(s)
            if _is_accumulator(s):
                stack.append(s.src[0])
    return [s for s in found if s in place]


def _loops(lines: Sequence[UOp]) -> tuple[list[int], list[int]]:
    """First and last line of each loop."""
    open_loops: list[int] = []
    begins, ends = [], []
    for i, u in enumerate(lines):
        if u.op is Ops.RANGE:
            open_loops.append(i)
        elif u.op is Ops.END:
            for _ in range(sum(s.op is Ops.RANGE for s in u.src[1:])):
                begins.append(open_loops.pop())
                ends.append(i)
    return begins, ends

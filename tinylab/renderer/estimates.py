"""How much work a program is: counted from its lines, loops and lanes multiplied in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tinylab.dtype import AddrSpace
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp, sint

Count: TypeAlias = sint


@dataclass(frozen=True)
class Estimates:
    """Work of a program; each number is an int, or an expression of the kernel's variables.

    ops: arithmetic operations (MULACC is two). lds: bytes loaded and stored outside registers.
    mem: bytes of distinct memory, which is per buffer and direction what is accessed, but at most
    the buffer's size.
    """

    ops: Count = 0
    lds: Count = 0
    mem: Count = 0

    def __add__(self, other: Estimates) -> Estimates:
        return Estimates(self.ops + other.ops, self.lds + other.lds, self.mem + other.mem)

    def simplify(self) -> Estimates:
        """The same with expressions simplified, as ints where they are constant."""
        return Estimates(_simple(self.ops), _simple(self.lds), _simple(self.mem))

    @staticmethod
    def from_uops(uops: Sequence[UOp], ignore_indexing: bool = False) -> Estimates:
        """The work of a linear list; `ignore_indexing` leaves out the arithmetic of addresses.

        a sum of four floats -> ops 4, lds 20, mem 20
        """
        skipped = _indexing(uops) if ignore_indexing else set()
        ops: Count = 0
        lds: Count = 0
        mem: dict[tuple[UOp, Ops], Count] = defaultdict(int)
        for u, times in _with_times(uops):
            if u.op in (Ops.LOAD, Ops.STORE):
                buffer = _buffer(u.src[0])
                moved = times * _lanes(u.src[0]) * buffer.dtype.itemsize
                if buffer.arg.addrspace is not AddrSpace.REG:
                    lds = lds + moved
                if buffer.arg.addrspace is AddrSpace.GLOBAL:
                    mem[buffer, u.op] = mem[buffer, u.op] + moved
            elif u not in skipped:
                ops = ops + times * _work(u)
        total: Count = 0
        for (buffer, _), moved in mem.items():
            total = total + _at_most(moved, buffer)
        return Estimates(ops, lds, total)


def _with_times(uops: Sequence[UOp]) -> Iterator[tuple[UOp, Count]]:
    """Each uop, and how often it runs: loops and the grid multiplied."""
    times: Count = 1
    outer: list[Count] = []
    for u in uops:
        if u.op is Ops.RANGE:
            outer.append(times)
            times = times * _size(u)
        elif u.op is Ops.END:
            for _ in range(sum(r.op is Ops.RANGE for r in u.src[1:])):
                times = outer.pop()
        elif u.op is Ops.SPECIAL or _is_core_id(u):
            times = times * _size(u)
        else:
            yield u, times


def _work(u: UOp) -> int:
    """Arithmetic operations of one run of a uop."""
    if u.op is Ops.WMMA:
        (n, m, k), threads = u.arg[0], u.arg[3]
        return int(2 * n * m * k // threads)
    if u.op not in GroupOp.ALU:
        return 0
    return _lanes(u) * (2 if u.op is Ops.MULACC else 1)


def _simple(count: Count) -> Count:
    return count.ssimplify() if isinstance(count, UOp) else count


def _size(u: UOp) -> Count:
    """How often a loop or a grid index runs: a number where it is one."""
    if u.op is Ops.PARAM:
        return int(u.arg.vmin_vmax[1]) + 1
    size = u.src[0]
    if size.op is Ops.NOOP:
        return 1
    return int(size.arg) if size.op is Ops.CONST else size


def _is_core_id(u: UOp) -> bool:
    return u.op is Ops.PARAM and u.arg.name == "core_id" and u.arg.vmin_vmax is not None


def _lanes(u: UOp) -> int:
    lanes = 1
    for size in u.shape:
        lanes *= int(size)
    return lanes


def _buffer(u: UOp) -> UOp:
    while u.op not in GroupOp.Defines:
        u = u.src[0]
    return u


def _at_most(moved: Count, buffer: UOp) -> Count:
    """Bytes moved, but no more than the buffer has."""
    size = buffer.dtype.itemsize
    for axis in buffer.shape:
        size = size * axis
    if isinstance(moved, int) and isinstance(size, int):
        return min(moved, size)
    return UOp.const(moved).minimum(size) if isinstance(moved, int) else moved.minimum(size)


def _indexing(uops: Iterable[UOp]) -> set[UOp]:
    """What is computed for addresses, gates and loop bounds alone."""
    kept: set[UOp] = set()
    indexing: set[UOp] = set()
    for u in uops:
        if u.op in (Ops.LOAD, Ops.STORE):
            _collect(u.src[0], indexing)
            for gate in u.src[2:]:
                _collect(gate, indexing)
            for value in u.src[1:2]:
                _collect(value, kept, stop=lambda x: x.op is Ops.LOAD)
        elif u.op in (Ops.IF, Ops.RANGE, Ops.SPECIAL):
            for source in u.src:
                _collect(source, indexing)
    return indexing - kept


def _collect(root: UOp, found: set[UOp], stop: Callable[[UOp], bool] = lambda u: False) -> None:
    stack = [root]
    while stack:
        u = stack.pop()
        if u in found or stop(u):
            continue
        found.add(u)
        stack.extend(u.src)

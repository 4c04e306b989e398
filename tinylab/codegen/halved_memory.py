"""Memory whose elements lie as two halves each, the low one first, for types that a target lacks.

INDEX(a, i) of int64   ->  INDEX(words, 2*i) and INDEX(words, 2*i + 1)
SHRINK(a, i, 8)        ->  SHRINK(words, 2*i, 16), whose lanes are parted after the load

`word_pairs` keeps 64 bits in words this way, `narrow_ints` 16 bits in bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tinylab.codegen.index_dtype import value_order
from tinylab.codegen.lanes import broadcast_lanes, permute, reshape
from tinylab.codegen.pair_math import I32, Pair
from tinylab.dtype import DType, dtypes
from tinylab.errors import CodegenError
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp, shape_to_shape_arg

ADDRESSES = frozenset({Ops.PARAM, Ops.BUFFER, Ops.INDEX, Ops.SHRINK, Ops.AFTER, Ops.RESHAPE})
MOST_INDEX = dtypes.int32.max


def buffer_of(x: UOp) -> UOp:
    """The buffer that an address lies in."""
    while x.op not in GroupOp.Defines:
        x = x.src[0]
    return x


class HalvedMemory(ABC):
    """Rewrites node by node, sources first; addresses of elements become those of their halves.

    foreign are the types that the target lacks, half is what halves are stored as; `new` holds
    what each node became.
    """

    def __init__(self, foreign: frozenset[DType], half: DType, device: str) -> None:
        self.foreign, self.half, self.device = foreign, half, device
        self.new: dict[UOp, UOp | Pair] = {}

    @abstractmethod
    def visit(self, u: UOp) -> UOp | Pair:
        """The node without foreign types."""

    @abstractmethod
    def index(self, u: UOp, array: UOp, scale: int) -> UOp:
        """An index into an array in a type that reaches `scale` times as far."""

    def became(self, u: UOp) -> UOp | Pair:
        """What stands for a node, worked out on first use."""
        if u not in self.new:
            for x in value_order(u):
                if x not in self.new:
                    self.new[x] = self.visit(x)
        return self.new[u]

    def value(self, u: UOp) -> UOp:
        """What stands for a node that is one value."""
        found = self.became(u)
        if isinstance(found, Pair):
            raise self.refused(f"a {u.dtype.name} as an operand that must be of another type")
        return found

    def refused(self, what: str) -> CodegenError:
        """The error that says what cannot be emulated."""
        names = " and ".join(sorted(d.name for d in self.foreign))
        return CodegenError(
            f"{self.device} has no {names}, and {what} is not emulated",
            help="cast to a type that the device has",
        )

    def place(self, u: UOp, array: UOp, scale: int = 1) -> UOp:
        """An index into an array, times scale.

        Raises: CodegenError for an array of which such an index cannot reach all.
        """
        if u.op is Ops.CONST and u.arg * scale <= MOST_INDEX:
            return UOp.const(u.arg * scale, I32) if u.dtype in self.foreign or scale > 1 else u
        if u.op is Ops.STACK:
            return UOp.stack(*(self.place(s, array, scale) for s in u.src))
        index = self.index(u, array, scale)
        return index * scale if scale > 1 else index

    def reaches(self, array: UOp, scale: int) -> bool:
        """Whether every element of an array has an index of 32 bits, also times scale."""
        return _size(array) * scale <= MOST_INDEX

    def check_reach(self, array: UOp, scale: int) -> None:
        """Raises CodegenError for an array that indices of 32 bits do not reach all of."""
        if not self.reaches(array, scale):
            raise self.refused(f"an index into {_size(array)} elements of {array.dtype.name}")

    def address(self, u: UOp) -> UOp | Pair:
        """A place in memory of twice as many halves; one element's is two places."""
        if u.op in GroupOp.Defines:
            size = shape_to_shape_arg(self.halves_shape(u))
            arg = u.arg._replace(dtype=self.half)
            return u.replace(src=(size, *u.src[1:]), dtype=self.half, arg=arg)
        if u.op is Ops.AFTER:
            effects = tuple(self.value(s) for s in u.src[1:])
            inner = self.became(u.src[0])
            if isinstance(inner, Pair):
                return Pair(inner.lo.after(*effects), inner.hi.after(*effects))
            return inner.after(*effects)
        array = self.value(u.src[0])
        if u.op is Ops.RESHAPE:
            return reshape(array, self.halves_shape(u))
        return self.window(u, array) if u.op is Ops.SHRINK else self.element(u, array)

    def halves_shape(self, u: UOp) -> tuple[int, ...]:
        """The shape of memory as halves."""
        shape = tuple(u.shape)
        return (*shape[:-1], 2 * shape[-1]) if shape else (2,)

    def window(self, u: UOp, array: UOp) -> UOp:
        """A window of elements is one of twice as many halves."""
        starts = u.src[1].src if u.src[1].op is Ops.STACK else (u.src[1],)
        last = len(starts) - 1
        places = [self.place(s, u.src[0], 2 if i == last else 1) for i, s in enumerate(starts)]
        start = places[0] if u.src[1].op is not Ops.STACK else UOp.stack(*places)
        sizes = shape_to_shape_arg((*u.shape[:-1], 2 * u.shape[-1]))
        return UOp(Ops.SHRINK, self.half, (array, start, sizes))

    def element(self, u: UOp, array: UOp) -> UOp | Pair:
        """One element, or one in each lane: where its two halves are. A row: all of its halves."""
        places = u.src[1:]
        if len(places) < len(u.src[0].shape):
            return array.index(*(self.place(s, u.src[0]) for s in places))
        rows = [self.place(s, u.src[0]) for s in places[:-1]]
        low = self.place(places[-1], u.src[0], 2)
        high = UOp.const(low.arg + 1, I32) if low.op is Ops.CONST else low + 1
        return Pair(array.index(*rows, low), array.index(*rows, high))


def _size(array: UOp) -> int:
    size = 1
    for n in array.shape:
        size *= int(n.vmax) if isinstance(n, UOp) else n
    return size


# *** loads and stores


def load_halves(
    target: UOp | Pair, shape: tuple[int, ...], other: Pair | None, gate: tuple[UOp, ...]
) -> Pair:
    """The halves of what lies at an address; `other` where the gate is closed."""
    if isinstance(target, Pair):
        if other is None:
            return Pair(target.lo.load(), target.hi.load())
        return Pair(target.lo.load(other.lo, *gate), target.hi.load(other.hi, *gate))
    if other is None:
        found = parted(target.load())
        return Pair(reshape(found.lo, shape), reshape(found.hi, shape))
    rest = interleaved(in_lanes(other, shape))
    return parted(target.load(rest, *(_gate_of_halves(g, shape) for g in gate)))


def store_halves(target: UOp | Pair, x: Pair, gate: UOp | None, shape: tuple[int, ...]) -> UOp:
    """The store of halves at an address of elements of this shape."""
    if isinstance(target, Pair):
        return UOp.group(target.lo.store(x.lo, gate), target.hi.store(x.hi, gate))
    if not shape:
        return target.store(UOp.stack(*x), gate)
    both = interleaved(in_lanes(x, shape))
    return target.store(both, None if gate is None else _gate_of_halves(gate, shape))


def in_lanes(x: Pair, shape: tuple[int, ...]) -> Pair:
    """Both halves in every lane of a shape."""
    return Pair(broadcast_lanes(x.lo, shape), broadcast_lanes(x.hi, shape))


def interleaved(x: Pair) -> UOp:
    """The halves of (..., n) elements as (..., 2*n), as they lie in memory."""
    shape = x.lo.shape
    both = UOp.stack(x.lo, x.hi)
    return reshape(permute(both, [*range(1, len(shape) + 1), 0]), (*shape[:-1], 2 * shape[-1]))


def parted(x: UOp) -> Pair:
    """The halves of (..., 2*n) of memory as two values of (..., n)."""
    shape = x.shape
    split = reshape(x, (*shape[:-1], shape[-1] // 2, 2))
    return leading_two(permute(split, [len(shape), *range(len(shape))]))


def leading_two(both: UOp) -> Pair:
    """The two items of a leading axis."""
    return Pair(*(UOp(Ops.INDEX, both.dtype, (both, UOp.const(i, I32))) for i in range(2)))


def _gate_of_halves(gate: UOp, shape: tuple[int, ...]) -> UOp:
    """The gate of a window, for each of its halves."""
    if not gate.shape:
        return gate
    gate = broadcast_lanes(gate, shape)
    return interleaved(Pair(gate, gate))

"""64-bit integers and floats that a target lacks, as pairs of 32-bit words.

LOAD(a[i]) + 1  ->  lo = LOAD(a[2*i]) + 1;  hi = LOAD(a[2*i + 1]) + (lo < 1)

Memory stays as it is, the low word of each element first; values are two values, one for each
word (of a float64, those of its bits). Registers that are read and written as a whole hold all
low words, then all high ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tinylab.codegen import double_casts, double_math, pair_math
from tinylab.codegen.decompose_ops import floordiv, floormod, threefry
from tinylab.codegen.foreign_dtypes import IN_WORDS, LONGS, emulated_dtypes
from tinylab.codegen.halved_memory import (
    ADDRESSES,
    HalvedMemory,
    buffer_of,
    in_lanes,
    leading_two,
    load_halves,
    store_halves,
)
from tinylab.codegen.index_dtype import value_sources
from tinylab.codegen.lanes import broadcast_lanes
from tinylab.codegen.pair_floats import bits_of_double, double_of_bits, from_float, to_float
from tinylab.codegen.pair_math import I32, U32, Pair, constant
from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

_MOVES = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.INDEX, Ops.SHRINK})
F64 = dtypes.float64


def word_pairs(sink: UOp, ren: Renderer) -> UOp:
    """The kernel without the 64-bit types that the target lacks.

    Raises: CodegenError for an index that needs more than 32 bits, and for an operation on such
    numbers that has no form in words.
    """
    words = Words(emulated_dtypes(ren) & IN_WORDS, ren, registers_by_element(sink))
    return words.value(sink)


def registers_by_element(sink: UOp) -> frozenset[UOp]:
    """Register buffers of which parts are read or written."""
    return frozenset(
        buffer_of(u)
        for u in sink.toposort()
        if u.op in (Ops.INDEX, Ops.SHRINK) and u.addrspace is AddrSpace.REG
    )


Row = Callable[["Words", UOp], "UOp | Pair"]


class Words(HalvedMemory):
    """Rewrites node by node, sources first; `new` holds what each became, a node or two words."""

    def __init__(self, foreign: frozenset[DType], ren: Renderer, parts: Collection[UOp]) -> None:
        super().__init__(foreign, U32, ren.target.device)
        self.parts = parts

    # *** what stands for a node

    def pair(self, u: UOp) -> Pair:
        """The words of a foreign value; of any other integer, those of its 64 bits."""
        found = self.became(u)
        return found if isinstance(found, Pair) else self.extended(found)

    def visit(self, u: UOp) -> UOp | Pair:
        """The node without foreign types."""
        is_long = u.dtype in self.foreign
        row = self.row_of(u)
        if row is not None and (is_long or any(s.dtype in self.foreign for s in u.src)):
            found = row(self, u)
            return found if isinstance(found, Pair) else _in_all_lanes(found, u)
        if not is_long:
            return self.rebuilt(u)
        if u.op is Ops.AFTER or (u.op in ADDRESSES and u.addrspace is not None):
            return self.address(u)
        if u.op in _MOVES:
            return self.moved(u)
        raise self.refused(f"{u.op.name} of {u.dtype.name}")

    def row_of(self, u: UOp) -> Row | None:
        """What rewrites an operation on foreign values."""
        if F64 in self.foreign and (u.dtype is F64 or any(s.dtype is F64 for s in u.src)):
            return _DOUBLE_ROWS.get(u.op, _ROWS.get(u.op) if u.op in _BITS_ONLY else None)
        return _ROWS.get(u.op)

    def rebuilt(self, u: UOp) -> UOp:
        """A node of another type with its sources rewritten; places are 32 bits wide."""
        sources, kept = value_sources(u), u.src[len(value_sources(u)) :]
        if u.op in (Ops.INDEX, Ops.SHRINK):
            src = (self.value(sources[0]), *(self.place(s, u.src[0]) for s in sources[1:]))
        else:
            src = tuple(self.value(s) for s in sources)
        return u if src + kept == u.src else u.replace(src=src + kept, dtype=u.dtype)

    # *** addresses

    def index(self, u: UOp, array: UOp, scale: int) -> UOp:
        """An index into an array in 32 bits."""
        found = self.became(u)
        if scale == 1 and not isinstance(found, Pair):
            return found
        self.check_reach(array, scale)
        return found.lo.cast(I32) if isinstance(found, Pair) else found

    def halves_shape(self, u: UOp) -> tuple[int, ...]:
        """The shape of memory as words."""
        if not self.is_register(u):
            return super().halves_shape(u)
        if u.op is Ops.RESHAPE:
            raise self.refused("a register in another shape")
        return (2, *u.shape)

    def is_register(self, u: UOp) -> bool:
        """Whether an access is to the whole of a register."""
        buffer = buffer_of(u)
        return buffer.addrspace is AddrSpace.REG and buffer not in self.parts

    # *** values

    def full(self, u: UOp) -> Pair:
        """The words of a value, each of the value's shape."""
        return in_lanes(self.pair(u), u.shape)

    def moved(self, u: UOp) -> Pair:
        """Lanes moved about: those of each word in the same way."""
        x, kept = self.full(u.src[0]), u.src[1:]
        if u.op is Ops.INDEX:
            kept = tuple(self.place(s, u.src[0]) for s in kept)
        elif u.op is Ops.SHRINK:
            kept = (self.place(kept[0], u.src[0]), kept[1])
        return Pair(
            u.replace(src=(x.lo, *kept), dtype=U32), u.replace(src=(x.hi, *kept), dtype=U32)
        )

    def extended(self, x: UOp) -> Pair:
        """The 64 bits of any other integer or truth value."""
        if not dtypes.is_int(x.dtype) and x.dtype is not dtypes.bool:
            raise self.refused(f"{x.dtype.name} as an integer")
        if dtypes.is_weak(x.dtype) and (x.vmin < I32.min or x.vmax > I32.max):  # a variable
            raise self.refused(f"an integer from {x.vmin} to {x.vmax}")
        return pair_math.extended(x)


def _in_all_lanes(found: UOp, u: UOp) -> UOp:
    """A value in the lanes that its users expect; a word that is constant has none."""
    return broadcast_lanes(found, u.shape) if u.op in GroupOp.Elementwise else found


def _load(w: Words, u: UOp) -> UOp | Pair:
    if u.dtype not in w.foreign:
        return w.rebuilt(u)
    target, other = w.became(u.src[0]), None
    if not isinstance(target, Pair) and w.is_register(u.src[0]):
        return leading_two(target.load())
    if len(u.src) > 1:
        other = w.full(u.src[1]) if u.src[1].shape else w.pair(u.src[1])
    return load_halves(target, u.shape, other, tuple(w.value(s) for s in u.src[2:]))


def _store(w: Words, u: UOp) -> UOp:
    place, value = u.src[:2]
    target = w.became(place)
    if place.dtype not in w.foreign:
        return w.rebuilt(u)
    gate = w.value(u.src[2]) if len(u.src) > 2 else None
    x, shape = w.pair(value), tuple(place.shape)
    if not isinstance(target, Pair) and w.is_register(place):
        return target.store(UOp.stack(*in_lanes(x, shape)), gate)
    return store_halves(target, x, gate, shape)


def _const(w: Words, u: UOp) -> Pair:
    return constant(int(u.arg))


def _param(w: Words, u: UOp) -> UOp | Pair:
    if u.addrspace is not AddrSpace.ALU:
        return w.address(u)
    if u.vmin < I32.min or u.vmax > I32.max:
        raise w.refused(f"variable {u.arg.name} from {u.vmin} to {u.vmax}")
    return w.extended(u.replace(dtype=I32, arg=u.arg._replace(dtype=I32)))


def _loop(w: Words, u: UOp) -> UOp:
    raise w.refused(f"an index up to {u.vmax}")


def _stack(w: Words, u: UOp) -> Pair:
    items = [w.full(s) for s in u.src]
    return Pair(UOp.stack(*(x.lo for x in items)), UOp.stack(*(x.hi for x in items)))


def _signed(u: UOp) -> bool:
    return not dtypes.is_unsigned(u.dtype)


Two = Callable[[Pair, Pair], Pair]


def _two(f: Two) -> Callable[[Words, UOp], Pair]:
    return lambda w, u: f(w.pair(u.src[0]), w.pair(u.src[1]))


def _bits(w: Words, u: UOp) -> Pair:
    return pair_math.bitwise(u.op, w.pair(u.src[0]), w.pair(u.src[1]))


def _shift(w: Words, u: UOp) -> UOp | Pair:
    if u.dtype not in w.foreign:
        return u.replace(src=(w.value(u.src[0]), w.pair(u.src[1]).lo.cast(u.dtype)))
    x, by = w.pair(u.src[0]), w.pair(u.src[1])
    if u.op is Ops.SHL:
        return pair_math.shift_left(x, by)
    return pair_math.shift_right(x, by, _signed(u))


def _divide(w: Words, u: UOp) -> Pair:
    f = pair_math.divide if u.op is Ops.CDIV else pair_math.remainder
    return f(w.pair(u.src[0]), w.pair(u.src[1]), _signed(u))


def _expanded(f: Callable[[UOp, UOp], UOp | None]) -> Callable[[Words, UOp], UOp | Pair]:
    """An operation by its form in simpler ones."""

    def row(w: Words, u: UOp) -> UOp | Pair:
        simpler = f(*u.src)
        if simpler is None:
            raise w.refused(f"{u.op.name} of {u.dtype.name}")
        return w.became(simpler)

    return row


def _max(w: Words, u: UOp) -> Pair:
    x, y = w.pair(u.src[0]), w.pair(u.src[1])
    return pair_math.select(pair_math.less(x, y, _signed(u)), y, x)


def _neg(w: Words, u: UOp) -> Pair:
    return pair_math.negate(w.pair(u.src[0]))


def _trunc(w: Words, u: UOp) -> Pair:
    return w.pair(u.src[0])


def _mulacc(w: Words, u: UOp) -> Pair:
    x, y, z = (w.pair(s) for s in u.src)
    return pair_math.add(pair_math.multiply(x, y), z)


def _where(w: Words, u: UOp) -> Pair:
    return pair_math.select(w.value(u.src[0]), w.pair(u.src[1]), w.pair(u.src[2]))


def _less(w: Words, u: UOp) -> UOp:
    return pair_math.less(w.pair(u.src[0]), w.pair(u.src[1]), _signed(u.src[0]))


def _differ(w: Words, u: UOp) -> UOp:
    return pair_math.not_equal(w.pair(u.src[0]), w.pair(u.src[1]))


def _equal(w: Words, u: UOp) -> UOp:
    return pair_math.equal(w.pair(u.src[0]), w.pair(u.src[1]))


def _cast(w: Words, u: UOp) -> UOp | Pair:
    source, target = u.src[0].dtype, u.dtype
    if target in w.foreign:
        x = w.became(u.src[0])
        if not isinstance(x, Pair) and dtypes.is_float(source):
            return from_float(x, _signed(u))
        return w.pair(u.src[0])
    pair = w.pair(u.src[0])
    if target is dtypes.bool:
        return pair_math.is_nonzero(pair)
    if dtypes.is_float(target):
        return to_float(pair, target, _signed(u.src[0]))
    return _joined(pair, target) if target in LONGS else pair.lo.cast(target)


def _joined(x: Pair, dtype: DType) -> UOp:
    """The words as a 64-bit integer that the target has."""
    return (x.hi.cast(dtype) << 32) | x.lo.cast(dtype)


def _bitcast(w: Words, u: UOp) -> UOp | Pair:
    source, target = u.src[0].dtype, u.dtype
    if source.itemsize != target.itemsize:
        raise w.refused(f"{source.name} as the bits of {target.name}")
    native = next(iter(LONGS - set(w.foreign)), None)
    x = w.became(u.src[0])
    if isinstance(x, Pair):
        bits = x
    elif source in LONGS:
        bits = w.extended(x)
    else:
        bits = bits_of_double(x) if native is None else w.extended(x.bitcast(native))
    if target in w.foreign:
        return bits
    if target in LONGS:
        return _joined(bits, target)
    return double_of_bits(bits) if native is None else _joined(bits, native).bitcast(target)


# *** doubles


def _double_const(w: Words, u: UOp) -> Pair:
    return double_math.bits_of(float(u.arg))


def _double_two(f: Callable[[Pair, Pair], UOp | Pair]) -> Row:
    return lambda w, u: f(w.pair(u.src[0]), w.pair(u.src[1]))


def _double_one(f: Callable[[Pair], Pair]) -> Row:
    return lambda w, u: f(w.pair(u.src[0]))


def _double_reciprocal(x: Pair) -> Pair:
    return double_math.divide(double_math.bits_of(1.0), x)


def _double_equal(x: Pair, y: Pair) -> UOp:
    return double_math.not_equal(x, y).logical_not()


def _double_mulacc(w: Words, u: UOp) -> Pair:
    x, y, z = (w.pair(s) for s in u.src)
    return double_math.add(double_math.multiply(x, y), z)


def _double_cast(w: Words, u: UOp) -> UOp | Pair:
    source, target = u.src[0].dtype, u.dtype
    if target is F64:
        x = w.became(u.src[0])
        if not isinstance(x, Pair) and dtypes.is_float(source):
            return double_casts.from_float(x)
        return double_casts.from_long(w.pair(u.src[0]), _signed(u.src[0]))
    pair = w.pair(u.src[0])
    if target is dtypes.bool:
        return double_math.not_equal(pair, pair_math.ZERO)
    if dtypes.is_float(target):
        return double_casts.to_float(pair, target)
    if target not in LONGS:
        return double_casts.to_int(pair, target)
    long = double_casts.to_long(pair, _signed(u))
    return long if target in w.foreign else _joined(long, target)


_ROWS: dict[Ops, Row] = {
    Ops.CONST: _const,
    Ops.PARAM: _param,
    Ops.RANGE: _loop,
    Ops.SPECIAL: _loop,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    Ops.STACK: _stack,
    Ops.ADD: _two(pair_math.add),
    Ops.SUB: _two(pair_math.subtract),
    Ops.MUL: _two(pair_math.multiply),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR), _bits),
    **dict.fromkeys((Ops.SHL, Ops.SHR), _shift),
    **dict.fromkeys((Ops.CDIV, Ops.CMOD), _divide),
    Ops.FLOORDIV: _expanded(floordiv),
    Ops.FLOORMOD: _expanded(floormod),
    Ops.THREEFRY: _expanded(threefry),
    Ops.MAX: _max,
    Ops.NEG: _neg,
    Ops.TRUNC: _trunc,
    Ops.MULACC: _mulacc,
    Ops.WHERE: _where,
    Ops.CMPLT: _less,
    Ops.CMPNE: _differ,
    Ops.CMPEQ: _equal,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}

# What moves bits without asking what they mean.
_BITS_ONLY = frozenset({Ops.PARAM, Ops.LOAD, Ops.STORE, Ops.STACK, Ops.WHERE, Ops.BITCAST})

_DOUBLE_ROWS: dict[Ops, Row] = {
    Ops.CONST: _double_const,
    Ops.ADD: _double_two(double_math.add),
    Ops.SUB: _double_two(double_math.subtract),
    Ops.MUL: _double_two(double_math.multiply),
    Ops.FDIV: _double_two(double_math.divide),
    Ops.RECIPROCAL: _double_one(_double_reciprocal),
    Ops.SQRT: _double_one(double_math.square_root),
    Ops.NEG: _double_one(double_math.negate),
    Ops.TRUNC: _double_one(double_math.truncate),
    Ops.MULACC: _double_mulacc,
    Ops.MAX: _double_two(double_math.maximum),
    Ops.CMPLT: _double_two(double_math.less),
    Ops.CMPNE: _double_two(double_math.not_equal),
    Ops.CMPEQ: _double_two(_double_equal),
    Ops.FLOORDIV: _expanded(floordiv),
    Ops.FLOORMOD: _expanded(floormod),
    Ops.CAST: _double_cast,
}

"""Integers of 8 and 16 bits that a target lacks: computed in 32 bits, wrapped to their width.

LOAD(int8 a[i]) * 3  ->  wrap(wrap(LOAD(uint8 a[i])) * 3),  wrap(x) = x << 24 >> 24

A value is at every time the number that the narrow type holds, in int32 or uint32. In memory it
lies as the type of the same width and other sign where the target has that one; else 16 bits lie
as two bytes. An 8-bit type whose both signs are lacking has no place in memory: a store would have
to read and write what lies beside it in the same word, which another thread may be writing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tinylab.codegen.decompose_dtypes import LAYOUTS, code_of, decode
from tinylab.codegen.foreign_dtypes import LONGS, NARROW, emulated_dtypes
from tinylab.codegen.halved_memory import (
    ADDRESSES,
    HalvedMemory,
    buffer_of,
    load_halves,
    store_halves,
)
from tinylab.codegen.index_dtype import value_sources
from tinylab.codegen.pair_math import F32, I32, U32, Pair
from tinylab.dtype import AddrSpace, DType, can_lossless_cast, dtypes
from tinylab.errors import CodegenError
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

I8, U8, I16, U16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
_OTHER_SIGN = {I8: U8, U8: I8, I16: U16, U16: I16}


def narrow_ints(sink: UOp, ren: Renderer) -> UOp:
    """The kernel without the integers of 8 and 16 bits that the target lacks.

    Raises: CodegenError for memory of a type that has no place in the target's, and for an
    operation on such numbers that has no form in 32 bits.
    """
    return NarrowInts(ren).value(sink)


def wide(dtype: DType) -> DType:
    """The type in which a narrow integer is computed."""
    return U32 if dtypes.is_unsigned(dtype) else I32


def wrapped(x: UOp, dtype: DType) -> UOp:
    """The number that the low bits of 32 are in a narrow type."""
    if dtypes.is_unsigned(dtype):
        return x.cast(U32) & int(dtype.max)
    room = 32 - dtype.bits
    return (x.cast(I32) << room) >> room


class NarrowInts(HalvedMemory):
    """Rewrites node by node, sources first; `new` holds what each became.

    Only the address of an element that lies as two bytes is a pair.
    """

    def __init__(self, ren: Renderer) -> None:
        lacking = emulated_dtypes(ren)
        super().__init__(lacking & NARROW, U8 if U8 not in lacking else I8, ren.target.device)
        self.has_longs = dtypes.int64 not in lacking

    # *** what stands for a node

    def index(self, u: UOp, array: UOp, scale: int) -> UOp:
        """An index into an array, of 64 bits where 32 do not reach all of its bytes."""
        found = self.value(u)
        if scale == 1 or found.dtype in LONGS or self.reaches(array, scale):
            return found
        if not self.has_longs:
            self.check_reach(array, scale)
        return found.cast(dtypes.int64)

    def visit(self, u: UOp) -> UOp | Pair:
        """The node without foreign types."""
        narrow = [x.dtype for x in (u, *u.src) if x.dtype in self.foreign]
        if not narrow:
            return self.rebuilt(u)
        row, gives_narrow = _ROWS.get(u.op), narrow[0] is u.dtype
        if row is not None:
            return row(self, u)
        if gives_narrow and u.op in ADDRESSES and u.addrspace is not None:
            return self.memory(u)
        if gives_narrow and u.op in _LEAVE:
            return wrapped(self.rebuilt(u), u.dtype)
        if u.op in (_KEEP if gives_narrow else _TAKE):
            return self.rebuilt(u)
        raise self.refused(f"{u.op.name} of {narrow[0].name}")

    def rebuilt(self, u: UOp, dtype: DType | None = None) -> UOp:
        """The node with its sources rewritten, in another type; in 32 bits if it was narrow."""
        sources, kept = value_sources(u), u.src[len(value_sources(u)) :]
        src = tuple(self.value(s) for s in sources) + kept
        dtype = dtype or (wide(u.dtype) if u.dtype in self.foreign else u.dtype)
        if u.op in GroupOp.Defines:
            return u.replace(src=src, dtype=dtype, arg=u.arg._replace(dtype=dtype))
        return u if src == u.src and dtype is u.dtype else u.replace(src=src, dtype=dtype)

    # *** memory

    def stored_as(self, u: UOp) -> DType:
        """What an address holds: a type of the same width, 32 bits, or bytes.

        Raises: CodegenError for a type that has no place in the target's memory.
        """
        dtype, space = u.dtype, buffer_of(u).addrspace
        other = _OTHER_SIGN[dtype]
        if space is AddrSpace.REG:
            return wide(dtype)
        if other not in self.foreign:
            return other
        if space is AddrSpace.LOCAL:  # the program's own: nobody else knows its layout
            return wide(dtype)
        if dtype.itemsize == 2 and self.half not in self.foreign:
            return self.half
        raise CodegenError(
            f"{self.device} has neither {dtype.name} nor {other.name}"
            + (", nor bytes to make them of" if dtype.itemsize == 2 else "")
            + ": several would share a word, of which threads cannot each write a part",
            help="keep such values in memory as int32 or uint32",
        )

    def memory(self, u: UOp) -> UOp | Pair:
        """An address of what stands for foreign elements in memory."""
        stored = self.stored_as(u)
        if stored.itemsize < u.dtype.itemsize:
            return self.address(u)
        return self.rebuilt(u, stored)


# *** loads and stores


def _load(w: NarrowInts, u: UOp) -> UOp:
    stored = w.stored_as(u.src[0])
    other = w.value(u.src[1]) if len(u.src) > 1 else None
    gate = tuple(w.value(s) for s in u.src[2:])
    if stored.itemsize < u.dtype.itemsize:
        others = None if other is None else _bytes(w, other)
        found = load_halves(w.became(u.src[0]), u.shape, others, gate)
        low = found.lo.cast(U32) if w.half is U8 else found.lo.cast(U32) & 0xFF
        return wrapped(low | (found.hi.cast(U32) << 8), u.dtype)
    rest = () if other is None else (other.cast(stored), *gate)
    raw = w.value(u.src[0]).load(*rest)
    return raw if stored.itemsize == 4 else wrapped(raw, u.dtype)


def _bytes(w: NarrowInts, x: UOp) -> Pair:
    """The two bytes of a value of 16 bits."""
    return Pair(x.cast(w.half), (x >> 8).cast(w.half))


def _store(w: NarrowInts, u: UOp) -> UOp:
    place, x = u.src[0], w.value(u.src[1])
    gate = w.value(u.src[2]) if len(u.src) > 2 else None
    stored = w.stored_as(place)
    if stored.itemsize < place.dtype.itemsize:
        return store_halves(w.became(place), _bytes(w, x), gate, tuple(place.shape))
    return w.value(place).store(x.cast(stored), gate)


def _index(w: NarrowInts, u: UOp) -> UOp | Pair:
    """Places may be narrow integers, in an array of any type."""
    is_memory = u.dtype in w.foreign and u.addrspace is not None
    return w.memory(u) if is_memory else w.rebuilt(u)


# *** values


def _const(w: NarrowInts, u: UOp) -> UOp:
    return UOp.const(u.arg, wide(u.dtype))


def _param(w: NarrowInts, u: UOp) -> UOp | Pair:
    return w.rebuilt(u) if u.addrspace is AddrSpace.ALU else w.memory(u)


def _divide(w: NarrowInts, u: UOp) -> UOp:
    """Only the smallest number by -1 leaves the type."""
    found = w.rebuilt(u)
    return found if dtypes.is_unsigned(u.dtype) else wrapped(found, u.dtype)


def _shift_right(w: NarrowInts, u: UOp) -> UOp:
    """By the width or more it gives 0, where 32 bits still hold copies of the sign."""
    found = w.rebuilt(u)
    x, by = found.src
    if dtypes.is_unsigned(u.dtype) or (by.vmin >= 0 and by.vmax < u.dtype.bits):
        return found
    return (by.cast(U32) < u.dtype.bits).where(found, x.const_like(0))


def _cast(w: NarrowInts, u: UOp) -> UOp:
    x, source, target = w.value(u.src[0]), u.src[0].dtype, u.dtype
    if target not in w.foreign:
        return x.cast(target)
    if dtypes.is_float(source):
        return _held(x.cast(wide(target)), target)
    if can_lossless_cast(source, target):
        return x.cast(wide(target))
    return wrapped(x, target)


def _held(x: UOp, dtype: DType) -> UOp:
    """A number held between the ends of a narrow type."""
    least, most = x.const_like(int(dtype.min)), x.const_like(int(dtype.max))
    x = (x < most).where(x, most)
    return x if dtypes.is_unsigned(dtype) else x.alu(Ops.MAX, least)


def _bitcast(w: NarrowInts, u: UOp) -> UOp:
    x, source, target = w.value(u.src[0]), u.src[0].dtype, u.dtype
    if source.itemsize != target.itemsize:
        raise w.refused(f"{source.name} as the bits of {target.name}")
    if target in w.foreign:
        return wrapped(_bits(w, x, source), target)
    if target not in LAYOUTS:
        return x.cast(target)
    other = _OTHER_SIGN[source]
    if other not in w.foreign:
        return x.cast(other).bitcast(target)
    small = LAYOUTS[target]
    return decode(x.cast(U32) & int(small.bits.max), small).cast(target)


def _bits(w: NarrowInts, x: UOp, source: DType) -> UOp:
    """The bits of a value in an integer: of a small float, if need be, by arithmetic."""
    if source not in LAYOUTS:
        return x
    native = next((d for d in (U8, I8, U16, I16) if _fits(w, d, source)), None)
    return code_of(x.cast(F32), LAYOUTS[source]) if native is None else x.bitcast(native)


def _fits(w: NarrowInts, dtype: DType, source: DType) -> bool:
    return dtype not in w.foreign and dtype.itemsize == source.itemsize


# Results that the type holds if it holds the operands, and results that may leave it.
_MOVES = frozenset({Ops.STACK, Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.SHRINK, Ops.AFTER})
_BITS = frozenset({Ops.AND, Ops.OR, Ops.XOR})
_KEEP = _MOVES | _BITS | {Ops.WHERE, Ops.MAX, Ops.TRUNC, Ops.CMOD, Ops.FLOORMOD, Ops.RANGE}
_LEAVE = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.NEG, Ops.SHL, Ops.POW})
# Results of other types, and what gives none.
_TAKE = GroupOp.Comparison | {Ops.END, Ops.GROUP, Ops.SINK, Ops.AFTER, Ops.RANGE, Ops.SHRINK}

_ROWS: dict[Ops, Callable[[NarrowInts, UOp], UOp | Pair]] = {
    Ops.CONST: _const,
    Ops.PARAM: _param,
    Ops.INDEX: _index,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    **dict.fromkeys((Ops.CDIV, Ops.FLOORDIV), _divide),
    Ops.SHR: _shift_right,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}

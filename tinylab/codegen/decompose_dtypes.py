"""Small floats that a target lacks: stored as bits, computed in float32, rounded after each step.

LOAD(half) * 2.0 -> round_to_half(decode(LOAD(uint16)) * 2.0)

Rounding is to nearest, ties to even, once: a double goes to float32 by rounding to odd, which no
second rounding can tell from the exact value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from tinylab.codegen.foreign_dtypes import LONGS, NARROW, emulated_dtypes
from tinylab.codegen.index_dtype import value_order, value_sources
from tinylab.codegen.pair_floats import to_float32
from tinylab.codegen.pair_math import extended
from tinylab.dtype import DType, dtypes, float_layout
from tinylab.opcodes import GroupOp, Ops
from tinylab.small_floats import FloatLayout
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

F32, U32, F64 = dtypes.float32, dtypes.uint32, dtypes.float64


class SmallFloat(NamedTuple):
    """A small float, what its bits are stored as and how they are laid out."""

    dtype: DType
    bits: DType
    layout: FloatLayout

    @property
    def dropped(self) -> int:
        """How many bits of float32's mantissa it lacks."""
        return 23 - self.layout.mantissa

    @property
    def sign_shift(self) -> int:
        """Where the sign stands."""
        return self.layout.exponent + self.layout.mantissa


_BITS = dict.fromkeys(dtypes.fp8s, dtypes.uint8) | dict.fromkeys(
    (dtypes.float16, dtypes.bfloat16), dtypes.uint16
)
LAYOUTS = {d: SmallFloat(d, bits, float_layout(d)) for d, bits in _BITS.items()}


# *** bits <-> float32


def decode(raw: UOp, small: SmallFloat) -> UOp:
    """The float32 of the bits of a small float, exact."""
    layout = small.layout
    wide = raw.cast(U32)
    size = wide & (layout.sign - 1)
    # A change of bias is a multiplication by a power of two, also of denormals.
    number = (size << small.dropped).bitcast(F32) * 2.0 ** (127 - layout.bias)
    if layout.special == "fnuz":  # the bits of -0.0 are the only NaN
        magnitude = wide.ne(layout.nan).where(number.bitcast(U32), wide.const_like(0x7FC00000))
    else:
        special = (size << small.dropped) | 0x7F800000
        magnitude = (size < layout.top).where(number.bitcast(U32), special)
    sign = (wide >> small.sign_shift) << 31
    return (magnitude | sign).bitcast(F32)


def encode(x: UOp, small: SmallFloat) -> UOp:
    """A float32 as the bits of a small float that memory holds."""
    return code_of(x, small).cast(small.bits)


def code_of(x: UOp, small: SmallFloat) -> UOp:
    """The bits of a small float nearest to a float32, ties to even, as uint32."""
    layout = small.layout
    raw = x.bitcast(U32)
    size = raw & 0x7FFFFFFF
    code = _nearest_code(size, small)
    code = (code < layout.top).where(code, code.const_like(layout.overflow))
    is_nan = size > 0x7F800000
    code = is_nan.where(code.const_like(layout.nan), code)
    sign = (raw >> 31) << small.sign_shift
    if layout.special == "fnuz":  # there is no -0.0
        sign = code.ne(0).where(sign, sign.const_like(0))
    return code | sign


def _nearest_code(size: UOp, small: SmallFloat) -> UOp:
    dropped, layout = small.dropped, small.layout
    half = (1 << (dropped - 1)) - 1
    rounded = (size + half + ((size >> dropped) & 1)) >> dropped
    normal = rounded - ((127 - layout.bias) << layout.mantissa)
    if layout.bias == 127:
        return normal
    # Added to a number whose last place is the smallest denormal, a float rounds to multiples.
    anchor = UOp.const(2.0 ** (1 - layout.bias - layout.mantissa + 23), F32)
    tiny = (size.bitcast(F32) + anchor).bitcast(U32) - anchor.bitcast(U32).simplify()
    return (size < ((128 - layout.bias) << 23)).where(tiny, normal)


def to_float32_odd(x: UOp) -> UOp:
    """A double in float32: exact, or the neighbour with an odd last bit."""
    near = x.cast(F32)
    back, raw = near.cast(F64), near.bitcast(U32)
    beyond = _size(x) < _size(back)
    toward_zero = beyond.where(raw - 1, raw)
    exact = back.ne(x).logical_not() | x.ne(x)
    return exact.where(near, (toward_zero | 1).bitcast(F32))


def _size(x: UOp) -> UOp:
    return (x < 0.0).where(x * -1.0, x)


def round_to(x: UOp, small: SmallFloat) -> UOp:
    """A float32 rounded to the values of a small float."""
    return decode(encode(x, small), small)


# *** the pass


def decompose_dtypes(sink: UOp, ren: Renderer) -> UOp:
    """The kernel without the small floats that the target lacks.

    Raises: CodegenError for a type that cannot be emulated: one that others are computed in.
    """
    order = value_order(sink)
    e = Emulation(emulated_dtypes(ren) - NARROW)
    for u in order:
        e.new[u] = e.visit(u)
    return e.new[sink]


_ADDRESSES = frozenset({Ops.PARAM, Ops.BUFFER, Ops.INDEX, Ops.SHRINK, Ops.AFTER, Ops.RESHAPE})
_MOVES = frozenset({Ops.STACK, Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.INDEX, Ops.SHRINK})
_EXACT = frozenset({Ops.WHERE, Ops.MAX, Ops.NEG, Ops.TRUNC}) | _MOVES


class Emulation:
    """Rewrites node by node, sources first: small floats as float32 that are rounded already."""

    def __init__(self, foreign: Collection[DType]) -> None:
        self.foreign = foreign
        self.new: dict[UOp, UOp] = {}

    def visit(self, u: UOp) -> UOp:
        """What stands for a node."""
        kept = u.src[len(value_sources(u)) :]
        src = tuple(self.new[s] for s in value_sources(u)) + kept
        row = _ROWS.get(u.op)
        if row is not None and (u.dtype in self.foreign or self._touches(u)):
            return row(self, u, src)
        if u.dtype not in self.foreign:
            return u if src == u.src else u.replace(src=src, dtype=u.dtype)
        layout = LAYOUTS[u.dtype]
        if u.op in _ADDRESSES and u.addrspace is not None:
            return _address(u, src, layout)
        if u.op in _EXACT:
            return u.replace(src=src, dtype=F32)
        return round_to(u.replace(src=src, dtype=F32), layout)

    def _touches(self, u: UOp) -> bool:
        return any(s.dtype in self.foreign for s in u.src)


def _address(u: UOp, src: tuple[UOp, ...], layout: SmallFloat) -> UOp:
    if u.op in GroupOp.Defines:
        return u.replace(src=src, dtype=layout.bits, arg=u.arg._replace(dtype=layout.bits))
    return u.replace(src=src, dtype=layout.bits)


def _const(e: Emulation, u: UOp, src: tuple[UOp, ...]) -> UOp:
    return UOp.const(u.arg, F32) if u.dtype in e.foreign else u


def _load(e: Emulation, u: UOp, src: tuple[UOp, ...]) -> UOp:
    layout = LAYOUTS[u.dtype]
    rest = src[1:]
    if rest:
        rest = (encode(rest[0], layout), *rest[1:])
    return decode(src[0].load(*rest), layout)


def _store(e: Emulation, u: UOp, src: tuple[UOp, ...]) -> UOp:
    layout = LAYOUTS[u.src[0].dtype]
    return u.replace(src=(src[0], encode(src[1].cast(F32), layout), *src[2:]))


def _cast(e: Emulation, u: UOp, src: tuple[UOp, ...]) -> UOp:
    x = src[0]
    if u.dtype not in e.foreign:
        return x.cast(u.dtype)
    if u.src[0].dtype in e.foreign:
        return round_to(x, LAYOUTS[u.dtype])
    return round_to(_single(e, x, u.dtype), LAYOUTS[u.dtype])


def _single(e: Emulation, x: UOp, dtype: DType) -> UOp:
    """A value in float32, such that rounding it to a smaller type is the first rounding."""
    if dtypes.is_int(x.dtype) and x.dtype.itemsize >= 4:
        # A double rounds beyond 2**53, which only a bfloat16 of all small floats reaches.
        if F64 in e.foreign or (x.dtype in LONGS and dtype is dtypes.bfloat16):
            return to_float32(extended(x), not dtypes.is_unsigned(x.dtype), odd=True)
        x = x.cast(F64)
    return to_float32_odd(x) if x.dtype is F64 else x.cast(F32)


def _bitcast(e: Emulation, u: UOp, src: tuple[UOp, ...]) -> UOp:
    raw = src[0]
    if u.src[0].dtype in e.foreign:
        raw = encode(raw, LAYOUTS[u.src[0].dtype])
    raw = raw.bitcast(LAYOUTS[u.dtype].bits if u.dtype in e.foreign else u.dtype)
    return decode(raw, LAYOUTS[u.dtype]) if u.dtype in e.foreign else raw


_ROWS: dict[Ops, Callable[[Emulation, UOp, tuple[UOp, ...]], UOp]] = {
    Ops.CONST: _const,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}

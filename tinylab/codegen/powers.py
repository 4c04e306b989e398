"""Powers, where a target has none: products, or exp2(y * log2 |x|) with IEEE 754's special cases.

x ** 3 -> x * x * x;  int ** int by squaring, modulo the width;  float32 by way of double

The exponent y * log2 |x| is rounded once: in double the result of a float32 is right to its last
place; that of a double has an exponent in two parts (double_powers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tinylab.codegen.double_powers import exp2_of_product
from tinylab.codegen.foreign_dtypes import computes_doubles
from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer


def has_powers(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel has a power that the target lacks."""
    if Ops.POW in ren.code_for_op:
        return computes_doubles(Ops.POW, sink, ren)
    return any(u.op is Ops.POW for u in sink.toposort())


def wide_float(sink: UOp, ren: Renderer) -> DType:
    """The type in which powers of small floats are computed."""
    return dtypes.float64 if dtypes.float64 in ren.supported_dtypes() else dtypes.float32


def power(x: UOp, y: UOp, ctx: DType) -> UOp:
    """Powers; small constant powers by multiplication."""
    if y.op is Ops.CONST and 0 <= y.arg <= 8 and float(y.arg).is_integer():
        return _product(x, int(y.arg))
    if not dtypes.is_float(x.dtype):
        return _int_power(x, y)
    if x.dtype is dtypes.float64:
        return _float_power(x, y, exp2_of_product)
    if x.dtype.itemsize >= ctx.itemsize:
        return _float_power(x, y)
    return _float_power(x.cast(ctx), y.cast(ctx)).cast(x.dtype)


def _product(x: UOp, n: int) -> UOp:
    if n == 0:
        return x.const_like(1)
    half = _product(x, n // 2) if n > 1 else None
    if half is None:
        return x
    return half * half * x if n % 2 else half * half


def _rounded_once(y: UOp, size: UOp) -> UOp:
    return (y * size.log2()).exp2()


def _float_power(x: UOp, y: UOp, raised: Callable[[UOp, UOp], UOp] = _rounded_once) -> UOp:
    """By way of base-2 logarithms.

    x < 0 gives NaN unless y is whole; x**0 and 1**y are 1; (-1)**inf is 1.
    """
    size = (x < 0.0).where(-x, x)
    found = raised(y, size)
    whole = y.alu(Ops.TRUNC)
    half = whole * 0.5
    odd = whole.ne(y).logical_not() & half.alu(Ops.TRUNC).ne(half)
    negative = (x < 0.0) | (x.ne(0.0).logical_not() & (x.reciprocal() < 0.0))
    found = (negative & odd).where(-found, found)
    finite_base = x.ne(x * 0.5) | x.ne(0.0).logical_not()
    undefined = (x < 0.0) & whole.ne(y) & finite_base
    found = undefined.where(x.const_like(float("nan")), found)
    one = size.ne(1.0).logical_not() & ((x > 0.0) | y.ne(whole).logical_not() | _infinite(y))
    found = (one & (x > 0.0)).where(x.const_like(1.0), found)
    found = (one & _infinite(y)).where(x.const_like(1.0), found)
    return y.ne(0.0).where(found, x.const_like(1.0))


def _infinite(x: UOp) -> UOp:
    top = float("inf")
    return x.ne(top).logical_not() | x.ne(-top).logical_not()


def _int_power(x: UOp, y: UOp) -> UOp:
    """By squaring, modulo the width; a negative power is 0 unless x is 1 or -1."""
    bits = max(1, min(int(max(abs(int(y.vmin)), abs(int(y.vmax)))).bit_length(), y.dtype.bits))
    found, square = x.const_like(1), x
    for i in range(bits):
        found = ((y >> i) & 1).ne(0).where(found * square, found)
        square = square * square
    if y.vmin >= 0:
        return found
    odd = (y & 1).ne(0)
    unit = x.ne(1).where(x.ne(-1).where(x.const_like(0), odd.where(x, x * -1)), x)
    return (y < 0).where(unit, found)


# fmt: off
pm_powers = PatternMatcher([
    Rule("power", "x ** y -> products, or exp2(y * log2 |x|) and special cases",
         UPat(Ops.POW, src=(UPat.var("x"), UPat.var("y"))), power),
])
# fmt: on

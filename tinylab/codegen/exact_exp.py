"""e**x where a target has 2**x: without the rounding of x * log2 e, which the power multiplies.

exp2(x * log2 e) is off by |x| / 2 units in the last place. A float32 goes by way of float64. A
float64 has the last bits of x * log2 e in a factor: with y near it and short, so that y ln 2 is
exact in two parts, and r = x - y ln 2, e**x = 2**y e**r and e**r = 1 + r + r*r/2 to 70 bits.

Errors in units of the last place: float32 0.5, float64 1; as for the polynomials (transcendental).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.codegen.foreign_dtypes import foreign_dtypes
from tinylab.codegen.transcendental import F64, LOG2_E, exponent_scale, is_log2_e
from tinylab.dtype import dtypes
from tinylab.helpers.context import TRANSCENDENTAL
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

# The first has 20 bits, y 33: 11 before the point and 22 behind it.
LN2 = (0.6931467056274414, 4.7493250390316726e-07)
TO_22_BITS = 1.5 * 2.0**30  # added to a number below 2**29 and taken off again
TOP = 1024 - 2.0**-22  # 2**y is finite to here; beyond it e**r makes it infinite


def has_exponentials(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel has one, and the target 2**x of doubles."""
    native = Ops.EXP2 in ren.code_for_op and dtypes.float64 not in foreign_dtypes(ren)
    if not native or TRANSCENDENTAL >= 2:
        return False
    return any(u.op is Ops.EXP2 and u.src[0].op is Ops.MUL for u in sink.toposort())


def exp_by_double(x: UOp, c: UOp) -> UOp:
    """In float64, with the constant first: the row below looks for it behind."""
    factor = UOp.const(LOG2_E * exponent_scale(c), dtypes.float64)
    product = factor.alu(Ops.MUL, x.cast(dtypes.float64))
    return product.alu(Ops.EXP2).cast(x.dtype)


def exp_in_parts(x: UOp, c: UOp) -> UOp:
    """2**y * e**r; c holds a power of 2 too."""
    times = exponent_scale(c)
    x = x if times == 1 else x * times
    x = (x < F64.exp_range[0]).where(x.const_like(F64.exp_range[0]), x)
    near = (x * LOG2_E + TO_22_BITS) - TO_22_BITS
    near = (near > TOP).where(x.const_like(TOP), near)
    rest = (x + near * -LN2[0]) + near * -LN2[1]
    power = near.alu(Ops.EXP2)
    return power * (rest * rest * 0.5 + rest) + power


_EXPONENT = UPat(Ops.MUL, src=(UPat.var("x"), UPat.cvar("c")))

# fmt: off
pm_exact_exp = PatternMatcher([
    Rule("exp_by_double", "exp2(x * log2 e) of a float32 -> that of a float64, rounded",
         UPat(Ops.EXP2, dtypes.float32, src=(_EXPONENT,)), exp_by_double, when=is_log2_e),
    Rule("exp_in_parts", "exp2(x * log2 e) -> 2**y * e**r, y short and near x * log2 e",
         UPat(Ops.EXP2, dtypes.float64, src=(_EXPONENT,)), exp_in_parts, when=is_log2_e),
])
# fmt: on

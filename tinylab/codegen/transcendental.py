"""exp2, log2, sin and cos as polynomials, on whole vectors, for targets without the functions.

Error bounds, in units of the last place (measured over random arguments by the tests; half a unit
more where the target has no fused multiply-add):

    exp2, and exp as exp2(x * log2 e)   float32 1   float64 1
    log2                                float32 2   float64 3
    sin, cos                            float32 2   float64 2 to |x| = 2**19, 3 beyond

Infinities, NaN, denormal arguments and results are right. The polynomials are minimax fits made by
tests/codegen/fit_polynomials.py. Small floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from tinylab.codegen.foreign_dtypes import computes_doubles
from tinylab.codegen.large_angles import reduce_large
from tinylab.dtype import DType, dtypes
from tinylab.helpers.context import TRANSCENDENTAL
from tinylab.opcodes import Ops
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat, graph_rewrite

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS)
LOG2_E = 1.4426950408889634


class Layout(NamedTuple):
    """The bits of a float type, and constants that depend on them."""

    dtype: DType
    bits: DType  # the unsigned integer of its width
    mantissa: int
    bias: int
    exp2_range: tuple[float, float]  # beyond it the result is 0 or infinite
    exp_range: tuple[float, float]
    ln2: tuple[float, float]  # in two parts; a small integer times the first is exact

    @property
    def to_nearest(self) -> float:
        """Added to x and taken off again it leaves x rounded to a whole number."""
        return 1.5 * 2.0**self.mantissa


F32 = Layout(
    dtypes.float32, dtypes.uint32, 23, 127, (-151.0, 129.0), (-105.0, 89.5),
    (0.693145751953125, 1.4286068203094172e-06),
)  # fmt: skip
F64 = Layout(
    dtypes.float64, dtypes.uint64, 52, 1023, (-1077.0, 1025.0), (-747.0, 710.5),
    (0.6931471803691238, 1.9082149292705877e-10),
)  # fmt: skip
LAYOUTS = {dtypes.float32: F32, dtypes.float64: F64}

# Highest power first. 2**r = 1 + r*p(r); e**r = 1 + r + r*r*p(r); log2(1 + f) = f*p(f);
# log2((1+s)/(1-s)) = s*p(s*s); sin r = r + r*z*p(z), cos r = 1 - z/2 + z*z*p(z) with z = r*r.
EXP2_POLY = {
    dtypes.float32: (
        0.00015476304070289378, 0.001340026958523013, 0.009618003876660773, 0.05550327791446118,
        0.24022651346007604, 0.6931472062480882,
    ),
    dtypes.float64: (
        4.457391505240382e-10, 7.073859846571663e-09, 1.0178046433117537e-07,
        1.3215434818886829e-06, 1.5252733867607873e-05, 0.0001540353045807561,
        0.001333355814637897, 0.009618129107593335, 0.05550410866482174, 0.24022650695910133,
        0.6931471805599453,
    ),
}  # fmt: skip
EXP_POLY = {
    dtypes.float32: (
        0.0013950471050664646, 0.00836888216979551, 0.04166620610066112, 0.1666651889972768,
        0.5000000095103155,
    ),
    dtypes.float64: (
        2.5117883813060235e-08, 2.7631264502082375e-07, 2.7557216232259633e-06,
        2.4801489984029593e-05, 0.00019841269917455324, 0.0013888888946978375,
        0.008333333333307175, 0.04166666666651555, 0.166666666666667, 0.5000000000000012,
    ),
}  # fmt: skip
LOG2_POLY_F32 = (
    -0.10994880310275429, 0.18617442381914492, -0.19106278295336546, 0.20460070608416145,
    -0.23961741221627128, 0.28856740433218053, -0.3606966488639362, 0.4808982411126994,
    -0.7213473515070532, 1.4426950408297827,
)  # fmt: skip
LOG2_POLY_F64 = (
    0.19135117784154296, 0.19113697215831862, 0.2219899157004491, 0.2623075453912674,
    0.3205989045719752, 0.4121985830732138, 0.5770780163556944, 0.9617966939259754,
    2.8853900817779268,
)  # fmt: skip
SIN_POLY = {
    dtypes.float32: (-0.00019517298836529366, 0.00833217814469406, -0.16666654943662867),
    dtypes.float64: (
        -7.578761858062876e-13, 1.6058367894690843e-10, -2.5052104921340526e-08,
        2.7557319214227086e-06, -0.00019841269841255137, 0.008333333333333323,
        -0.16666666666666666,
    ),
}  # fmt: skip
COS_POLY = {
    dtypes.float32: (2.4438451904275975e-05, -0.0013887367518728231, 0.041666646866507326),
    dtypes.float64: (
        4.7381307015525705e-14, -1.1470293745604235e-11, 2.0876754370374683e-09,
        -2.755731921539451e-07, 2.480158730157154e-05, -0.0013888888888888874,
        0.041666666666666664,
    ),
}  # fmt: skip

# pi/2 in three parts of 33, 33 and 53 bits: n times each of the first two is exact to n = 2**20.
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
SMALL_ANGLE = 2.0**19


def polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """Horner's rule, highest power first."""
    found = x.const_like(coefficients[0])
    for c in coefficients[1:]:
        found = fma(found, x, c)
    return found


def fma(a: UOp, b: UOp | float, c: UOp | float) -> UOp:
    """a*b + c, rounded once where the target can."""
    b, c = (v if isinstance(v, UOp) else a.const_like(v) for v in (b, c))
    return UOp(Ops.MULACC, a.dtype, (a, b, c))


# *** exponentials


def exp2(x: UOp, u: UOp) -> UOp | None:
    """2 ** x: the whole part goes into the exponent, the rest through a polynomial."""
    layout = LAYOUTS.get(x.dtype)
    if layout is None:
        return _in_float32(u)
    x = clamp(x, *layout.exp2_range)
    shifted = x + layout.to_nearest
    rest = x - (shifted - layout.to_nearest)
    found = fma(rest, polynomial(rest, EXP2_POLY[x.dtype]), 1.0)
    return scale(found, shifted, layout)


def exp(x: UOp, c: UOp) -> UOp | None:
    """2 ** (x * log2 e) = e ** x, without the rounding of the product; c holds a power of 2 too."""
    layout = LAYOUTS.get(x.dtype)
    if layout is None:
        return None
    times = exponent_scale(c)
    x = clamp(x if times == 1 else x * times, *layout.exp_range)
    shifted = fma(x, LOG2_E, layout.to_nearest)
    n = shifted - layout.to_nearest
    high, low = layout.ln2
    rest = fma(n, -low, fma(n, -high, x))
    found = fma(rest * rest, polynomial(rest, EXP_POLY[x.dtype]), rest) + 1.0
    return scale(found, shifted, layout)


def exponent_scale(c: UOp) -> float:
    """The 1, -1, 2, -1/2 … by which log2 e is multiplied in a constant that `is_log2_e`."""
    return math.copysign(2.0 ** round(math.log2(abs(c.arg) / LOG2_E)), c.arg)


def is_log2_e(x: UOp, c: UOp) -> bool:
    """Whether a factor is log2 e, rounded to the type, times 1, -1, 2, -1/2 or another such."""
    if not isinstance(c.arg, float) or not c.arg or not math.isfinite(c.arg):
        return False
    mantissa, exponent = math.frexp(abs(c.arg) / LOG2_E)
    near_1 = min(mantissa * 2 - 1, 1 - mantissa)  # the mantissa stands in [1/2, 1)
    return near_1 <= 1e-7 and abs(exponent) < 8


def clamp(x: UOp, lo: float, hi: float) -> UOp:
    """Hold x between two values; NaN stays NaN."""
    x = (x < lo).where(x.const_like(lo), x)
    return (x > hi).where(x.const_like(hi), x)


def scale(x: UOp, shifted: UOp, layout: Layout) -> UOp:
    """Multiply by 2**n, shifted = n + to_nearest; in two steps, so that denormals round once."""
    signed = dtypes.int32 if layout.dtype is dtypes.float32 else dtypes.int64
    start = UOp.const(layout.to_nearest, layout.dtype).bitcast(signed).simplify()
    n = shifted.bitcast(signed) - start.arg
    half = n >> 1
    return x * _power_of_two(half, layout) * _power_of_two(n - half, layout)


def _power_of_two(n: UOp, layout: Layout) -> UOp:
    """2.0 ** n for n within the normal exponents."""
    return ((n + layout.bias) << layout.mantissa).bitcast(layout.dtype)


# *** logarithm


def log2(x: UOp, u: UOp) -> UOp | None:
    """log2 x = e + log2 m with m within a factor sqrt 2 of 1."""
    layout = LAYOUTS.get(x.dtype)
    if layout is None:
        return _in_float32(u)
    smallest = 2.0 ** (1 - layout.bias)
    denormal = x < smallest
    grown = float(1 << (layout.mantissa + 1))
    normal = denormal.where(x * grown, x)
    signed = dtypes.int32 if layout.dtype is dtypes.float32 else dtypes.int64
    # Subtracting the bits of sqrt(1/2) makes the exponent field step there, not at 1.
    root = UOp.const(math.sqrt(0.5), layout.dtype).bitcast(signed).simplify().arg
    raw = normal.bitcast(signed) - root
    exponent = raw >> layout.mantissa
    fraction = (normal.bitcast(signed) - (exponent << layout.mantissa)).bitcast(layout.dtype)
    whole = (exponent - denormal.where(exponent.const_like(layout.mantissa + 1), 0)).cast(x.dtype)
    found = _log2_near_one(fraction, whole, layout)
    inf = x.const_like(math.inf)
    found = x.ne(math.inf).where(found, inf)
    found = x.ne(0.0).where(found, x.const_like(-math.inf))
    found = (x < 0.0).where(x.const_like(math.nan), found)
    return x.ne(x).where(x, found)


def _log2_near_one(m: UOp, whole: UOp, layout: Layout) -> UOp:
    f = m - 1.0
    if layout is F32:
        return fma(f, polynomial(f, LOG2_POLY_F32), whole)
    s = f / (f + 2.0)
    return fma(s, polynomial(s * s, LOG2_POLY_F64), whole)


# *** sine and cosine


def sin(x: UOp, u: UOp) -> UOp | None:
    """Sine of x, by that of its size."""
    if x.dtype not in LAYOUTS:
        return _in_float32(u)
    size = _size(x)
    quarter, sine, cosine = _turned(size)
    negative = (quarter & 2).ne(0).ne(x < 0.0)
    found = _by_quarter(size, (quarter & 1).ne(0).where(cosine, sine), negative)
    return x.ne(0.0).where(found, x)  # -0.0 stays


def cos(x: UOp, u: UOp) -> UOp | None:
    """Cosine of x: the sine one quarter turn on."""
    if x.dtype not in LAYOUTS:
        return _in_float32(u)
    size = _size(x)
    quarter, sine, cosine = _turned(size)
    negative = ((quarter + 1) & 2).ne(0)
    return _by_quarter(size, (quarter & 1).ne(0).where(sine, cosine), negative)


def _size(x: UOp) -> UOp:
    return (x < 0.0).where(x * -1.0, x)


def _by_quarter(size: UOp, found: UOp, negative: UOp) -> UOp:
    """With its sign; NaN for what is no angle."""
    found = negative.where(found * -1.0, found)
    return (size < math.inf).where(found, size.const_like(math.nan))


def _turned(size: UOp) -> tuple[UOp, UOp, UOp]:
    """(whole quarter turns in an angle >= 0, sine of the rest, cosine of the rest)."""
    layout = LAYOUTS[size.dtype]
    quarter, rest = _small_angle(size)
    large_quarter, large_rest = reduce_large(size, layout.mantissa, layout.bias)
    small = size < SMALL_ANGLE
    quarter = small.where(quarter, large_quarter)
    rest = small.where(rest, large_rest).cast(size.dtype)
    z = rest * rest
    sine = fma(rest * z, polynomial(z, SIN_POLY[size.dtype]), rest)
    cosine = fma(z * z, polynomial(z, COS_POLY[size.dtype]), fma(z, -0.5, 1.0))
    return quarter, sine, cosine


def _small_angle(size: UOp) -> tuple[UOp, UOp]:
    """(quarter turns, the rest) of a moderate angle, in double."""
    x = size.cast(dtypes.float64)
    shifted = fma(x, 2.0 / math.pi, F64.to_nearest)
    n = shifted - F64.to_nearest
    first, second = x - n * HALF_PI[0], n * HALF_PI[1]  # both exact
    rest = first - second
    quarter = shifted.bitcast(dtypes.int64).cast(dtypes.int32)
    if size.dtype is dtypes.float32:
        return quarter, fma(n, -HALF_PI[2], rest)
    # A double needs what the difference rounded off, too (Knuth's sum of two numbers).
    back = first - rest
    lost = (first - (rest + back)) + (back - second)
    return quarter, rest + fma(n, -HALF_PI[2], lost)


# *** types


def _in_float32(u: UOp) -> UOp | None:
    """A function of a small float: in float32, rounded once."""
    if u.dtype.itemsize >= 4:
        return None
    return u.src[0].cast(dtypes.float32).alu(u.op).cast(u.dtype)


X, C = UPat.var("x"), UPat.cvar("c")

# fmt: off
_RULES = {
    Ops.EXP2: (
        Rule("exp", "exp2(x * log2 e) -> e**x: 2**n * polynomial(x - n*ln 2)",
             UPat(Ops.EXP2, src=(UPat(Ops.MUL, src=[X, C]),)), exp, when=is_log2_e),
        Rule("exp2", "exp2(x) -> 2**n * polynomial(x - n)",
             UPat(Ops.EXP2, src=(X,), name="u"), exp2),
    ),
    Ops.LOG2: (Rule("log2", "log2(x) -> exponent + polynomial(mantissa - 1)",
                    UPat(Ops.LOG2, src=(X,), name="u"), log2),),
    Ops.SIN: (Rule("sin", "sin(x) -> +-sine or cosine of x less whole quarter turns",
                   UPat(Ops.SIN, src=(X,), name="u"), sin),),
    Ops.COS: (Rule("cos", "cos(x) -> +-cosine or sine of x less whole quarter turns",
                   UPat(Ops.COS, src=(X,), name="u"), cos),),
}
# fmt: on
pm_transcendental = PatternMatcher([rule for rules in _RULES.values() for rule in rules])


@functools.cache
def _table(lacking: frozenset[Ops]) -> PatternMatcher:
    return PatternMatcher([rule for op in FUNCTIONS if op in lacking for rule in _RULES[op]])


def _lacking(sink: UOp, ren: Renderer) -> frozenset[Ops]:
    everything = frozenset(FUNCTIONS)
    if TRANSCENDENTAL >= 2:
        return everything
    native = everything & frozenset(ren.code_for_op)
    return everything - {op for op in native if not computes_doubles(op, sink, ren)}


def has_transcendental(sink: UOp, ren: Renderer) -> bool:
    """Whether the kernel has a function that the target lacks."""
    lacking = _lacking(sink, ren)
    return any(u.op in lacking for u in sink.toposort())


def lower_transcendental(sink: UOp, ren: Renderer) -> UOp:
    """The kernel without the functions that the target lacks."""
    return graph_rewrite(sink, _table(_lacking(sink, ren)), name="transcendental")

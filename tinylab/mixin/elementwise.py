"""Arithmetic, comparison, bits and selection, with numpy's broadcasting and promotion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tinylab.dtype import (
    ConstType,
    InvalidType,
    PyConst,
    dtype_for_ints,
    dtypes,
    least_upper_dtype,
    least_upper_float,
    strong_dtype,
)
from tinylab.errors import BroadcastError, DTypeError, OperandError
from tinylab.mixin.base import Primitives, Shape, same_size, shape_text, size_text
from tinylab.mixin.numbers import as_real, beyond, held, number_dtype, plain_number, unboxed
from tinylab.mixin.remainders import floor_quotient, remainder
from tinylab.mixin.signs import less_exactly, signs_apart
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="ElementwiseMixin")


class ElementwiseMixin(Primitives):
    """Operations on elements; shapes broadcast and element types promote."""

    __slots__ = ()

    # *** operands

    def ufix(self, x: Any) -> Self:
        """x as an operand: a number becomes a constant in the type that this value gives it.

        Raises: OperandError for anything that is neither a number nor a value of this class.
        """
        if isinstance(x, Primitives):
            return x  # type: ignore[return-value]
        if isinstance(x, InvalidType):
            return self.const(x, self.dtype)
        if not isinstance(x, (int, float)):
            x = plain_number(x)
        return self.const(x, number_dtype(x, self.dtype))

    def _operands(
        self, x: Any, reverse: bool, what: str, as_float: bool = False
    ) -> tuple[Self, Self]:
        """Both operands in one element type, their shapes checked.

        as_float: the float type for that one: no integer is made to fit a narrow type before.
        """
        y = self.ufix(as_real(x) if as_float else x)
        a, b = (y, self) if reverse else (self, y)
        _check_broadcast(a.shape, b.shape, what)
        if a.dtype is b.dtype and not as_float:
            return a, b
        dtype = least_upper_dtype(a.dtype, b.dtype)
        dtype = least_upper_float(dtype) if as_float else dtype
        if not (dtypes.is_weak(a.dtype) and dtypes.is_weak(b.dtype)):
            dtype = strong_dtype(dtype)
        return a.cast(dtype), b.cast(dtype)

    def _binop(self, op: Ops, x: Any, reverse: bool, what: str) -> Self:
        a, b = self._operands(x, reverse, what)
        return a.alu(op, b)

    # *** arithmetic

    def add(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self + x."""
        return self._binop(Ops.ADD, x, reverse, "add")

    def sub(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self - x; x - self with reverse."""
        a, b = self._operands(x, reverse, "sub")
        if a.dtype is dtypes.bool:
            raise DTypeError("sub: bools cannot be subtracted", help="use ^, or cast to an integer")
        return a.alu(Ops.ADD, b.neg())

    def mul(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self * x."""
        return self._binop(Ops.MUL, x, reverse, "mul")

    def neg(self) -> Self:
        """-self; the other truth value of a bool."""
        if self.dtype is dtypes.bool:
            return self.logical_not()
        return self.alu(Ops.MUL, self.const(-1, self.dtype))

    def div(
        self,
        x: Self | ConstType,
        reverse: bool = False,
        rounding_mode: Literal["trunc", "floor"] | None = None,
    ) -> Self:
        """self / x, as a float; rounded and in the promoted type with a rounding mode.

        int32 [7] / 2 -> float32 [3.5];  div(2, rounding_mode="floor") -> int32 [3]

        Raises: OperandError for an unknown rounding mode.
        """
        x = unboxed(x)
        a, b = self._operands(x, reverse, "div", rounding_mode is None)
        if rounding_mode is None:
            if isinstance(x, (int, float)) and not reverse:
                return _divided(a, float(x), b)
            return a.alu(Ops.MUL, b.alu(Ops.RECIPROCAL))
        if rounding_mode not in ("trunc", "floor"):
            raise OperandError(f"{rounding_mode=} is not supported", help='use "trunc" or "floor"')
        floor = rounding_mode == "floor"
        if a.dtype.kind == "float":
            return floor_quotient(a, b) if floor else a.div(b).trunc()
        a, b = a._not_bool(), b._not_bool()
        return a.alu(Ops.FLOORDIV if floor else Ops.CDIV, b)

    def mod(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """The remainder of the division that rounds down; it has the sign of x.

        [-7] % 3 -> [2]
        """
        a, b = self._operands(x, reverse, "mod")
        if a.dtype.kind != "float":
            return a._not_bool().alu(Ops.FLOORMOD, b._not_bool())
        rest = a.fmod(b)
        return ((rest < 0).ne(b < 0) & rest.ne(0)).where(rest + b, rest)

    def fmod(self, x: Self | ConstType) -> Self:
        """The remainder of the division that rounds toward zero; it has the sign of self.

        [-7].fmod(3) -> [-1]
        """
        a, b = self._operands(x, False, "fmod")
        if a.dtype.kind != "float":
            return a._not_bool().alu(Ops.CMOD, b._not_bool())
        return remainder(a, b)

    def pow(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self ** x. Integers to an integer power wrap; a negative exponent needs floats."""
        x = unboxed(x)
        if not reverse and isinstance(x, (int, float)):
            return self._pow_number(x)
        a, b = self._operands(x, reverse, "pow")
        if a.dtype.kind != "float":
            a, b = a._not_bool(), b._not_bool()
            # Bit by bit, and a weak integer has no number of bits.
            a_strong, b_strong = a.cast(strong_dtype(a.dtype)), b.cast(strong_dtype(b.dtype))
            return _int_power(a_strong, b_strong).cast(a.dtype)
        return a.alu(Ops.POW, b)

    def _pow_number(self, x: PyConst) -> Self:
        """A power with a number as the exponent: products and roots where they are exact."""
        if self.dtype.kind != "float":
            if isinstance(x, float):
                return self.cast(least_upper_float(self.dtype))._pow_number(x)
            if x < 0:
                raise OperandError(
                    f"pow: integers to the negative power {x} are no integers",
                    help="cast to a float first",
                )
            return _repeated_product(self._not_bool(), int(x))
        if x == 0.5:  # as numpy and PyTorch have it: NaN at -inf, where pow has inf
            return self.alu(Ops.SQRT)
        if x != 0 and float(x).is_integer() and abs(x) <= 8:
            power = _repeated_product(self, abs(int(x)))
            return power if x > 0 else power.reciprocal()
        return self.alu(Ops.POW, self.const(x, self.dtype))

    def square(self) -> Self:
        """self * self."""
        return self.mul(self)

    def reciprocal(self) -> Self:
        """1 / self, as a float."""
        return self._as_float().alu(Ops.RECIPROCAL)

    def usum(self, *uops: Self) -> Self:
        """The sum of this and others, added pairwise."""
        return _pairwise(Ops.ADD, [self, *uops])

    def uprod(self, *uops: Self) -> Self:
        """The product of this and others, multiplied pairwise."""
        return _pairwise(Ops.MUL, [self, *uops])

    # *** larger, smaller

    def maximum(self, x: Self | ConstType) -> Self:
        """The larger of the two; NaN if either is."""
        return self._binop(Ops.MAX, held(x, self.dtype), False, "maximum")

    def minimum(self, x: Self | ConstType) -> Self:
        """The smaller of the two; NaN if either is."""
        a, b = self._operands(held(x, self.dtype), False, "minimum")
        return a._mirrored().alu(Ops.MAX, b._mirrored())._mirrored()

    def _mirrored(self) -> Self:
        """The values in the opposite order: -x for floats, ~x (no overflow) for integers."""
        if self.dtype.kind == "float":
            return self.neg()
        return self.bitwise_not()

    def clip(self, min_: Any = None, max_: Any = None) -> Self:
        """The values held between two bounds; NaN stays.

        [-2, 0, 5].clip(-1, 3) -> [-1, 0, 3]

        Raises: OperandError when neither bound is given.
        """
        if min_ is None and max_ is None:
            raise OperandError("clip: at least one of min_ and max_ must be given")
        found = self
        if min_ is not None:
            low, value = found._operands(held(min_, self.dtype), True, "clip")
            found = value.alu(Ops.CMPLT, low).where(low, value)
        if max_ is not None:
            high, value = found._operands(held(max_, self.dtype), True, "clip")
            found = high.alu(Ops.CMPLT, value).where(high, value)
        return found

    def clamp(self, min_: Any = None, max_: Any = None) -> Self:
        """As `clip`."""
        return self.clip(min_, max_)

    # *** comparison

    def _everywhere(self, value: bool) -> Self:
        """One answer for all elements, where they are."""
        known = self.cast(dtypes.bool)
        never = known.alu(Ops.CMPNE, known)
        return never.logical_not() if value else never

    def lt(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self < x; False where either is NaN."""
        if side := beyond(x, self.dtype):
            return self._everywhere((side > 0) is not reverse)
        if signs_apart(self, x):
            return less_exactly(self, x, reverse)
        return self._binop(Ops.CMPLT, x, reverse, "lt")

    def le(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self <= x; False where either is NaN."""
        if beyond(x, self.dtype):
            return self.lt(x, reverse)
        if signs_apart(self, x):
            return self.lt(x, not reverse).logical_not()
        a, b = self._operands(x, reverse, "le")
        if a.dtype.kind == "float":
            return a.alu(Ops.CMPLT, b) | a.eq(b)
        return b.alu(Ops.CMPLT, a).logical_not()

    def gt(self, x: Self | ConstType) -> Self:
        """self > x; False where either is NaN."""
        return self.lt(x, reverse=True)

    def ge(self, x: Self | ConstType) -> Self:
        """self >= x; False where either is NaN."""
        return self.le(x, reverse=True)

    def ne(self, x: Self | ConstType) -> Self:
        """self != x; True where either is NaN."""
        if beyond(x, self.dtype):
            return self._everywhere(True)
        if signs_apart(self, x):
            return less_exactly(self, x) | less_exactly(self, x, reverse=True)
        return self._binop(Ops.CMPNE, x, False, "ne")

    def eq(self, x: Self | ConstType) -> Self:
        """self == x; False where either is NaN."""
        if beyond(x, self.dtype):
            return self._everywhere(False)
        if signs_apart(self, x):
            return self.ne(x).logical_not()
        return self._binop(Ops.CMPNE, x, False, "eq").logical_not()

    def isnan(self) -> Self:
        """Where the value is NaN."""
        return self.ne(self)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Where the value is an infinity of a wanted sign."""
        if not self.dtype.has_infinity or not (detect_positive or detect_negative):
            return self._everywhere(False)
        signs = (math.inf, detect_positive), (-math.inf, detect_negative)
        found = [self.eq(infinity) for infinity, wanted in signs if wanted]
        return found[0] if len(found) == 1 else found[0] | found[1]

    def isfinite(self) -> Self:
        """Where the value is neither NaN nor an infinity."""
        return self.abs().lt(math.inf) if self.dtype.has_infinity else self.eq(self)

    def isclose(
        self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """Where |self - other| <= atol + rtol * |other|; equal infinities are close."""
        a, b = self._operands(other, False, "isclose", True)
        near = (a - b).abs() <= b.abs() * rtol + atol
        equal = (near & b.isfinite()) | self.eq(other)
        return equal | (a.isnan() & b.isnan()) if equal_nan else equal

    # *** bits

    def _bits(self, op: Ops, x: Any, reverse: bool, what: str) -> Self:
        a, b = self._operands(x, reverse, what)
        if a.dtype.kind == "float":
            raise DTypeError(
                f"{what}: bits of {a.dtype} cannot be combined", help="cast or bitcast to integers"
            )
        return a.alu(op, b)

    def bitwise_and(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self & x."""
        return self._bits(Ops.AND, x, reverse, "bitwise_and")

    def bitwise_or(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self | x."""
        return self._bits(Ops.OR, x, reverse, "bitwise_or")

    def bitwise_xor(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self ^ x."""
        return self._bits(Ops.XOR, x, reverse, "bitwise_xor")

    def bitwise_not(self) -> Self:
        """~self; the other truth value of a bool."""
        if self.dtype is dtypes.bool:
            return self.logical_not()
        return self._bits(Ops.XOR, -1, False, "bitwise_not")

    def logical_not(self) -> Self:
        """Whether the value is zero."""
        truth = self.cast(dtypes.bool)
        return truth.alu(Ops.CMPNE, self.const(True, dtypes.bool))

    def _shift(self, op: Ops, x: Any, reverse: bool, what: str) -> Self:
        y = self.ufix(x)
        a, b = (y, self) if reverse else (self, y)
        if a.dtype.kind == "float" or b.dtype.kind == "float":
            raise DTypeError(f"{what}: shift operands must be int, not {a.dtype} and {b.dtype}")
        _check_broadcast(a.shape, b.shape, what)
        a = a._not_bool()
        return a.alu(op, b.cast(a.dtype))

    def lshift(self, x: Self | int, reverse: bool = False) -> Self:
        """self << x; 0 beyond the width."""
        return self._shift(Ops.SHL, x, reverse, "lshift")

    def rshift(self, x: Self | int, reverse: bool = False) -> Self:
        """self >> x, keeping the sign."""
        return self._shift(Ops.SHR, x, reverse, "rshift")

    def threefry(self, seed: Self) -> Self:
        """Random bits from a counter (self) and a key, both uint64."""
        return self.alu(Ops.THREEFRY, seed)

    # *** selection

    def where(self, x: Any, y: Any) -> Self:
        """x where self is true, y elsewhere.

        Raises: DTypeError when self is no bool.
        """
        if self.dtype is not dtypes.bool:
            raise DTypeError(
                f"where cond must be bool, not {self.dtype}", help="compare, or cast(dtypes.bool)"
            )
        if isinstance(x, Primitives):
            a, b = x._operands(y, False, "where")  # type: ignore[attr-defined]
        elif isinstance(y, Primitives):
            a, b = y._operands(x, True, "where")  # type: ignore[attr-defined]
        else:
            a, b = _two_numbers(self, x, y)
        _check_broadcast(self.shape, _broadcast(a.shape, b.shape), "where")
        return self.alu(Ops.WHERE, a, b)

    def masked_fill(self, mask: Self, value: Self | PyConst) -> Self:
        """value where the mask is true, self elsewhere."""
        return mask.where(value, self)

    def lerp(self, end: Self, weight: Self | ConstType) -> Self:
        """From self (weight 0) to end (weight 1) along a line."""
        return self + (end - self) * weight

    def copysign(self, other: Self | ConstType) -> Self:
        """The magnitude of self with the sign of other; -0.0 is negative."""
        a, b = self._operands(other, False, "copysign", True)
        negative = b.lt(0) | b.reciprocal().lt(0)
        magnitude = a.abs()
        return negative.where(magnitude.neg(), magnitude)

    # *** element types

    def _as_float(self) -> Self:
        return self.cast(least_upper_float(self.dtype))

    def _not_bool(self) -> Self:
        return self.cast(dtypes.default_int) if self.dtype is dtypes.bool else self

    def abs(self) -> Self:
        """The value without its sign; the smallest integer stays (it has no opposite)."""
        if self.dtype.kind in ("uint", "bool"):
            return self
        return self.alu(Ops.MAX, self.neg())

    def trunc(self) -> Self:
        """Rounded toward zero."""
        return self if self.dtype.kind != "float" else self.alu(Ops.TRUNC)

    def floor(self) -> Self:
        """Rounded down."""
        whole = self.trunc()
        return (self < whole).where(whole - 1, whole) if self.dtype.kind == "float" else self

    def ceil(self) -> Self:
        """Rounded up."""
        whole = self.trunc()
        return (whole < self).where(whole + 1, whole) if self.dtype.kind == "float" else self

    # *** operators

    def __neg__(self) -> Self:
        return self.neg()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __abs__(self) -> Self:
        return self.abs()

    def __add__(self, x: Any) -> Self:
        return self.add(x)

    def __radd__(self, x: Any) -> Self:
        return self.add(x, True)

    def __sub__(self, x: Any) -> Self:
        return self.sub(x)

    def __rsub__(self, x: Any) -> Self:
        return self.sub(x, True)

    def __mul__(self, x: Any) -> Self:
        return self.mul(x)

    def __rmul__(self, x: Any) -> Self:
        return self.mul(x, True)

    def __truediv__(self, x: Any) -> Self:
        return self.div(x)

    def __rtruediv__(self, x: Any) -> Self:
        return self.div(x, True)

    def __floordiv__(self, x: Any) -> Self:
        return self.div(x, rounding_mode="floor")

    def __rfloordiv__(self, x: Any) -> Self:
        return self.div(x, True, rounding_mode="floor")

    def __mod__(self, x: Any) -> Self:
        return self.mod(x)

    def __rmod__(self, x: Any) -> Self:
        return self.mod(x, True)

    def __divmod__(self, x: Any) -> tuple[Self, Self]:
        return self // x, self % x

    def __rdivmod__(self, x: Any) -> tuple[Self, Self]:
        return x // self, x % self

    def __pow__(self, x: Any) -> Self:
        return self.pow(x)

    def __rpow__(self, x: Any) -> Self:
        return self.pow(x, True)

    def __lshift__(self, x: Any) -> Self:
        return self.lshift(x)

    def __rlshift__(self, x: Any) -> Self:
        return self.lshift(x, True)

    def __rshift__(self, x: Any) -> Self:
        return self.rshift(x)

    def __rrshift__(self, x: Any) -> Self:
        return self.rshift(x, True)

    def __and__(self, x: Any) -> Self:
        return self.bitwise_and(x)

    def __rand__(self, x: Any) -> Self:
        return self.bitwise_and(x, True)

    def __or__(self, x: Any) -> Self:
        return self.bitwise_or(x)

    def __ror__(self, x: Any) -> Self:
        return self.bitwise_or(x, True)

    def __xor__(self, x: Any) -> Self:
        return self.bitwise_xor(x)

    def __rxor__(self, x: Any) -> Self:
        return self.bitwise_xor(x, True)

    def __lt__(self, x: Any) -> Self:
        return self.lt(x)

    def __le__(self, x: Any) -> Self:
        return self.le(x)

    def __gt__(self, x: Any) -> Self:
        return self.gt(x)

    def __ge__(self, x: Any) -> Self:
        return self.ge(x)


def _divided(a: S, x: float, b: S) -> S:
    """A value over a number (b is its constant): by a product only where that rounds the same."""
    exact = x != 0 and math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5 and abs(x) < 2.0**100
    if exact and abs(x) > 2.0**-100 and a.dtype.itemsize >= 4:
        return a.alu(Ops.MUL, a.const(1 / x, a.dtype))
    return a.alu(Ops.FDIV, b)


def _two_numbers(cond: Any, x: PyConst, y: PyConst) -> tuple[Any, Any]:
    """Two Python numbers as constants of one weak type; of int64 where that would be too small."""
    a, b = (cond.const(v) for v in (x, y))
    dtype = least_upper_dtype(a.dtype, b.dtype)
    if dtype is dtypes.weakint and dtype_for_ints(int(x), int(y)) is dtypes.int64:
        dtype = dtypes.int64
        if max(x, y) > dtype.max or min(x, y) < dtype.min:
            raise OperandError(f"where: {dtype} has no room for {x} and {y}", help="use floats")
    return a.cast(dtype), b.cast(dtype)


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The common shape of two that are known to fit."""
    if len(a) < len(b):
        a, b = b, a
    b = (1,) * (len(a) - len(b)) + tuple(b)
    return tuple(y if same_size(x, 1) else x for x, y in zip(a, b, strict=True))


def _check_broadcast(a: Shape, b: Shape, what: str) -> None:
    """Raises: BroadcastError with the operation and both shapes, where they do not fit."""
    if a == b or not a or not b:
        return
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if not (same_size(x, y) or same_size(x, 1) or same_size(y, 1)):
            raise BroadcastError(
                "shape mismatch: objects cannot be broadcast to a single shape: "
                f"{what} of {shape_text(a)} and {shape_text(b)}",
                help=f"sizes {size_text(x)} and {size_text(y)} must be equal, or one of them 1",
            )


def _pairwise(op: Ops, values: list[S]) -> S:
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        joined = [a._binop(op, b, False, op.name.lower()) for a, b in pairs]
        values = joined + ([values[-1]] if len(values) % 2 else [])
    return values[0]


def _repeated_product(x: S, exponent: int) -> S:
    """x ** exponent by squaring: exact for integers, which wrap."""
    if exponent == 0:
        return x.alu(Ops.POW, x.const(0, x.dtype))
    result = x
    for bit in bin(exponent)[3:]:
        result = result.alu(Ops.MUL, result)
        if bit == "1":
            result = result.alu(Ops.MUL, x)
    return result


def _int_power(base: S, exponent: S) -> S:
    """base ** exponent for integer tensors, bit by bit of the exponent.

    A negative exponent gives 0, but for the bases 1 and -1, which are their own inverses.
    """
    result, square = base.const(1, base.dtype), base
    bits = exponent.dtype.itemsize * 8 - (exponent.dtype.kind == "sint")
    for bit in range(bits):
        odd = (exponent >> bit).bitwise_and(1).ne(0)
        result = odd.where(result * square, result)
        square = square * square
    if exponent.dtype.kind == "uint":
        return result
    sign = exponent.bitwise_and(1).ne(0).where(base, base * base)
    unit = (base * base).eq(1)
    return exponent.lt(0).where(unit.where(sign, 0), result)

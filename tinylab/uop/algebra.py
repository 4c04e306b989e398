"""Arithmetic on nodes, and questions about expressions: methods of UOp.

Operators here build one node each and leave broadcasting implicit (a node's shape is the broadcast
of its sources'); they are what the compiler itself uses for indices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import DType, PyConst, dtypes
from tinylab.errors import OperandError, SymbolicError
from tinylab.mixin import OpMixin
from tinylab.mixin.base import Primitives
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.intern import make
from tinylab.uop.moves import const
from tinylab.uop.printer import render_short

N = TypeVar("N", bound=float)

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def _same(like: UOp, x: Any) -> UOp | None:
    """The other operand, if it needs no promotion: a number that the dtype holds, or its like."""
    kind = x.__class__
    if kind is int:
        return const(x, like.dtype) if like.dtype.kind in ("sint", "float", "uint") else None
    if kind is float:
        return const(x, like.dtype) if like.dtype.kind == "float" else None
    return x if kind is like.__class__ and x.dtype is like.dtype else None


def _answers_itself(x: Any) -> bool:
    """Whether an operand is a Tensor: its own operator knows what to do with a node."""
    return isinstance(x, Primitives) and not isinstance(x, AlgebraMethods)


class AlgebraMethods(OpMixin):
    """Operators, and what is known about an expression.

    Where both sides have one dtype an operator is one node; all else (promotion, checks) is the
    language's.
    """

    __slots__ = ()

    def ufix(self: UOp, x: Any) -> UOp:
        """x as an operand: a node, or a number as a constant in the type that this node gives it.

        Raises: OperandError for anything else.
        """
        if _answers_itself(x):
            raise OperandError(
                f"{type(x).__name__} is no operand of a node's method",
                help="use the operator, or the method of the tensor with the node as its operand",
            )
        return super().ufix(x)

    def _or(self: UOp, x: Any, method: Callable[..., UOp], **how: Any) -> UOp:
        """What the language answers; a Tensor is left to answer for itself."""
        return NotImplemented if _answers_itself(x) else method(x, **how)

    def __add__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return self._or(x, self.add) if y is None else make(Ops.ADD, self.dtype, (self, y))

    def __radd__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return (
            self._or(x, self.add, reverse=True)
            if y is None
            else make(Ops.ADD, self.dtype, (y, self))
        )

    def __sub__(self: UOp, x: Any) -> UOp:
        y = _same(self, -x if x.__class__ in (int, float) else x)
        if y is None:
            return self._or(x, self.sub)
        return make(Ops.ADD, self.dtype, (self, y if y.op is Ops.CONST and y is not x else y * -1))

    def __rsub__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return self._or(x, self.sub, reverse=True) if y is None else y + self * -1

    def __mul__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return self._or(x, self.mul) if y is None else make(Ops.MUL, self.dtype, (self, y))

    def __rmul__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return (
            self._or(x, self.mul, reverse=True)
            if y is None
            else make(Ops.MUL, self.dtype, (y, self))
        )

    def __neg__(self: UOp) -> UOp:
        return self.neg() if self.dtype.kind == "bool" else self * -1

    def __floordiv__(self: UOp, x: Any) -> UOp:
        y = _same(self, x) if self.dtype.kind != "float" else None
        return (
            self._or(x, self.div, rounding_mode="floor")
            if y is None
            else self._one(Ops.FLOORDIV, y)
        )

    def __mod__(self: UOp, x: Any) -> UOp:
        y = _same(self, x) if self.dtype.kind != "float" else None
        return self._or(x, self.mod) if y is None else self._one(Ops.FLOORMOD, y)

    def __and__(self: UOp, x: Any) -> UOp:
        y = self._same_bits(x)
        return self._or(x, self.bitwise_and) if y is None else self._one(Ops.AND, y)

    def __or__(self: UOp, x: Any) -> UOp:
        y = self._same_bits(x)
        return self._or(x, self.bitwise_or) if y is None else self._one(Ops.OR, y)

    def __xor__(self: UOp, x: Any) -> UOp:
        y = self._same_bits(x)
        return self._or(x, self.bitwise_xor) if y is None else self._one(Ops.XOR, y)

    def __lt__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return self._or(x, self.lt) if y is None else make(Ops.CMPLT, dtypes.bool, (self, y))

    def __gt__(self: UOp, x: Any) -> UOp:
        y = _same(self, x)
        return self._or(x, self.gt) if y is None else make(Ops.CMPLT, dtypes.bool, (y, self))

    def __ge__(self: UOp, x: Any) -> UOp:
        y = _same(self, x) if self.dtype.kind != "float" else None
        return self._or(x, self.ge) if y is None else (self < y).logical_not()

    def __le__(self: UOp, x: Any) -> UOp:
        y = _same(self, x) if self.dtype.kind != "float" else None
        return self._or(x, self.le) if y is None else (self > y).logical_not()

    def ne(self: UOp, x: Any) -> UOp:
        """Where the values differ; NaN differs from everything."""
        y = _same(self, x)
        return super().ne(x) if y is None else make(Ops.CMPNE, dtypes.bool, (self, y))

    def eq(self: UOp, x: Any) -> UOp:
        """Where the values are equal."""
        y = _same(self, x)
        return super().eq(x) if y is None else self.ne(y).logical_not()

    def logical_not(self: UOp) -> UOp:
        """Where the value is zero or false."""
        return make(Ops.CMPNE, dtypes.bool, (self.cast(dtypes.bool), const(True)))

    def _same_bits(self: UOp, x: Any) -> UOp | None:
        return _same(self, x) if self.dtype.kind != "float" else None

    def _one(self: UOp, op: Ops, y: UOp) -> UOp:
        return make(op, self.dtype, (self, y))

    # *** one value

    @property
    def val(self: UOp) -> Any:
        """The value of a constant.

        Raises: SymbolicError for anything else.
        """
        if self.op is not Ops.CONST:
            raise SymbolicError(f"{self.op} has no constant value")
        return self.arg

    def ssimplify(self: UOp) -> Any:
        """The simplified node, or its Python value when it is constant."""
        found = self.simplify()
        return found.arg if found.op is Ops.CONST else found

    def _only_value(self: UOp, kind: Callable[[Any], N]) -> N:
        found = self.simplify()
        lo, hi = found.bounds
        if lo != hi:
            raise SymbolicError(
                f"eval failed to be a single number, range is {lo} to {hi} in "
                f"{render_short(found)}",
                help="bind its variables first",
            )
        return kind(lo)

    def __int__(self: UOp) -> int:
        return self._only_value(int)

    def __index__(self: UOp) -> int:
        return self._only_value(int)

    def __float__(self: UOp) -> float:
        return self._only_value(float)

    def __bool__(self: UOp) -> bool:
        return self._only_value(bool)

    # *** parts of an expression

    def split_uop(self: UOp, sep: Ops) -> Iterator[UOp]:
        """The operands of a chain of one operation, in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            if node.op is sep:
                stack.extend(reversed(node.src))
            else:
                yield node

    def const_factor(self: UOp) -> int:
        """The largest integer known to divide the value; 0 for the constant 0."""
        if self.op is Ops.CONST:
            return abs(self.arg) if isinstance(self.arg, int) else 1
        if self.op is Ops.ADD:
            return math.gcd(self.src[0].const_factor(), self.src[1].const_factor())
        if self.op is Ops.MUL:
            for side in self.src:
                if side.op is Ops.CONST and isinstance(side.arg, int):
                    other = self.src[0] if side is self.src[1] else self.src[1]
                    return abs(side.arg) * other.const_factor()
        if self.op in GroupOp.Defines and self.arg.multiple_of:
            return int(self.arg.multiple_of)
        return 1

    def divides(self: UOp, v: int) -> UOp | None:
        """The exact quotient by an integer, or None where it is not known to divide."""
        if v == 1:
            return self
        if self.op is Ops.CONST:
            return self.const_like(self.arg // v) if self.arg % v == 0 else None
        if self.op is Ops.ADD:
            a, b = self.src[0].divides(v), self.src[1].divides(v)
            return None if a is None or b is None else a + b
        if self.op is Ops.MUL:
            a = self.src[0].divides(v)
            if a is not None:
                return a * self.src[1]
            b = self.src[1].divides(v)
            return None if b is None else self.src[0] * b
        return None

    def divide_exact(self: UOp, v: UOp) -> UOp | None:
        """The exact quotient by an expression, or None where it is not known to divide."""
        if self is v:
            return self.const_like(1)
        if v.op is Ops.CONST:
            return self.divides(v.arg)
        if self.op is Ops.ADD:
            a, b = self.src[0].divide_exact(v), self.src[1].divide_exact(v)
            return None if a is None or b is None else a + b
        factors = list(self.split_uop(Ops.MUL))
        for wanted in v.split_uop(Ops.MUL):
            if wanted not in factors:
                return None
            factors.remove(wanted)
        found = self.const_like(1)
        for factor in factors:
            found = factor if found.op is Ops.CONST and found.arg == 1 else found * factor
        return found

    def pop_const(self: UOp, op: Ops = Ops.ADD) -> tuple[UOp, PyConst]:
        """(the rest, the constant on the right) of a sum or product."""
        if self.op is op and self.src[1].op is Ops.CONST:
            return self.src[0], self.src[1].arg
        return self, 0 if op is Ops.ADD else 1

    @staticmethod
    def gcd(*uops: UOp) -> UOp:
        """A constant, perhaps times common factors, that divides every one of the expressions."""
        if not uops:
            raise OperandError("gcd needs an expression")
        number = math.gcd(*(u.const_factor() for u in uops))
        common: list[UOp] | None = None
        for u in uops:
            factors = [f for f in u.split_uop(Ops.MUL) if f.op is not Ops.CONST]
            common = factors if common is None else [f for f in common if f in factors]
        found = uops[0].const_like(number)
        for factor in common or ():
            found = found * factor
        return found

    def overflows(self: UOp, dtype: DType) -> bool:
        """Whether the value may lie outside a type's range."""
        return bool(self.vmin < dtype.min or dtype.max < self.vmax)

    def variables(self: UOp) -> list[UOp]:
        """The variables below, by name; `_device_num` stands for a DEVICE range."""
        found = {u.arg.name: u for u in self.toposort() if u.is_variable}
        for r in self.toposort():
            if r.op is Ops.RANGE and r.arg[-1] is AxisType.DEVICE:
                found["_device_num"] = self._variable_of_any_name("_device_num", 0, r.vmax)
        return [found[name] for name in sorted(found)]

    def sym_infer(self: UOp, var_vals: dict[str, int]) -> int:
        """The value with the given values of its variables.

        Raises: SymbolicError where a variable has no value.
        """
        values = {v: v.const_like(var_vals[v.expr]) for v in self.variables() if v.expr in var_vals}
        return int(self.substitute(values))

    def substitute(
        self: UOp,
        dvars: dict[UOp, UOp],
        name: str | None = None,
        extra_pm: Any = None,
        walk: bool = False,
        enter_calls: bool = False,
    ) -> UOp:
        """The graph with nodes replaced, matched from the root down.

        Applied again to what was put in, so a swap never ends; walk=True goes once and can swap.
        """
        from tinylab.uop.rewrite import substitute

        return substitute(self, dvars, name, extra_pm, walk, enter_calls)

    @property
    def ended_ranges(self: UOp) -> tuple[UOp, ...]:
        """The RANGEs that this node closes."""
        if self.op in (Ops.END, Ops.REDUCE, Ops.STAGE):
            return self.src[1:]
        return ()


def _left_to_tensors(name: str) -> Callable[[UOp, Any], Any]:
    """An operator of the language that a Tensor on the other side answers instead."""
    asked = getattr(OpMixin, name)

    @functools.wraps(asked)
    def operator(self: UOp, x: Any) -> Any:
        return NotImplemented if _answers_itself(x) else asked(self, x)

    return operator


# Those that have no quick way of their own above.
# fmt: off
for _name in (
    "truediv", "rtruediv", "rfloordiv", "rmod", "pow", "rpow", "lshift", "rlshift", "rshift",
    "rrshift", "rand", "ror", "rxor", "matmul", "rmatmul",
):
    setattr(AlgebraMethods, f"__{_name}__", _left_to_tensors(f"__{_name}__"))
# fmt: on

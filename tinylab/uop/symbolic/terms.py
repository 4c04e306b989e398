"""Integer expressions as sums: {term: coefficient} and a constant. What the rules reason with.

    x*4 + y - x + 3   ->   {x: 3, y: 1}, 3

In a concrete dtype a sum wraps, so a rule that divides or compares may only trust it when the exact
value stays inside the dtype: `Sum.exact` says so. Weak integers (index arithmetic) never wrap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.intern import make
from tinylab.uop.moves import const

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

_DEPTH = 2  # how far `_rank` looks into an expression before it falls back to the node's key


def in_place_of(u: UOp, x: UOp) -> UOp | None:
    """x where u stood: cast if u has another dtype; None if u has another shape."""
    if x is u:
        return None
    if x.dtype is not u.dtype:
        x = x.cast(u.dtype)
    return x if x._shape == u._shape else None


def same_shape(u: UOp, x: UOp | None) -> UOp | None:
    """x, if it can stand where u stood; terms that cancel may have taken their lanes with them."""
    return x if x is None or x._shape == u._shape else None


def is_const(x: UOp) -> bool:
    """Whether x is an integer constant."""
    return x.op is Ops.CONST and x.arg.__class__ is int


def term_and_coefficient(x: UOp) -> tuple[UOp, int]:
    """x*4 -> x, 4;  anything else -> itself, 1."""
    if x.op is Ops.MUL and is_const(x.src[1]) and x.src[0].dtype is x.dtype:
        return x.src[0], x.src[1].arg
    return x, 1


def addends(x: UOp) -> Iterator[UOp]:
    """What is added up in x, from left to right.

    Sources of another dtype than the sum's are not looked into: they may wrap elsewhere.
    """
    dtype, stack = x.dtype, [x]
    while stack:
        node = stack.pop()
        if node.op is Ops.ADD and node.dtype is dtype:
            stack.append(node.src[1])
            stack.append(node.src[0])
        else:
            yield node


class Sum(NamedTuple):
    """sum of term * coefficient, plus a constant; terms keep the order of `precedes`."""

    terms: dict[UOp, int]
    const: int
    dtype: DType

    @staticmethod
    def of(x: UOp) -> Sum:
        """The sum that x computes, like terms joined."""
        terms: dict[UOp, int] = {}
        total = 0
        for addend in addends(x):
            if is_const(addend):
                total += addend.arg
                continue
            term, factor = term_and_coefficient(addend)
            factor += terms.get(term, 0)
            if factor:
                terms[term] = factor
            else:
                del terms[term]
        return Sum(terms, total, x.dtype)

    @property
    def bounds(self) -> tuple[int, int]:
        """Bounds of the sum as if integers had no width."""
        return span(self.terms, self.const)

    @property
    def exact(self) -> bool:
        """Whether the sum never wraps in its dtype."""
        if self.dtype is dtypes.weakint:
            return True
        lo, hi = self.bounds
        return bool(self.dtype.min <= lo and hi <= self.dtype.max)

    @property
    def gcd(self) -> int:
        """Greatest common divisor of the coefficients; 0 without terms."""
        return math.gcd(*self.terms.values())

    def build(self) -> UOp:
        """The expression: terms in order, the constant last."""
        items = sorted(self.terms.items(), key=lambda item: Order(item[0]))
        total: UOp | None = None
        for term, factor in items:
            addend = term if factor == 1 else mul(term, factor, self.dtype)
            total = addend if total is None else make(Ops.ADD, self.dtype, (total, addend))
        if total is None:
            return const(self.const, self.dtype)
        if self.const == 0:
            return total
        return make(Ops.ADD, self.dtype, (total, const(self.const, self.dtype)))


def span(terms: dict[UOp, int], offset: int) -> tuple[int, int]:
    """Bounds of sum(term * coefficient) + offset as if integers had no width."""
    lo = hi = offset
    for term, factor in terms.items():
        a, b = term.bounds
        lo += factor * (a if factor > 0 else b)
        hi += factor * (b if factor > 0 else a)
    return lo, hi


def mul(x: UOp, factor: int, dtype: DType) -> UOp:
    """x * factor as a node; x itself for factor 1."""
    return x if factor == 1 else make(Ops.MUL, dtype, (x, const(factor, dtype)))


def _rank(x: UOp, depth: int = _DEPTH) -> tuple[Any, ...]:
    """Where a term stands in a sum: loop variables by axis, parameters by slot, then the rest."""
    op = x.op
    if op is Ops.RANGE:
        return (0, *x.arg[:-1])
    if op is Ops.PARAM or op is Ops.BUFFER:
        return (1, x.arg.slot, x.arg.name or "")
    if op is Ops.SPECIAL:
        return (2, x.arg)
    if op is Ops.CONST:
        return (9, str(x.arg))
    if depth == 0:
        return (8, op.value)
    return (4, op.value, len(x.src), *(_rank(s, depth - 1) for s in x.src[:2]))


def precedes(a: UOp, b: UOp) -> bool:
    """Whether a stands before b in a sum, a product or a conjunction; constants stand last."""
    if a is b:
        return False
    first, second = _rank(a), _rank(b)
    return first < second if first != second else a.key < b.key


class Order:
    """Sorts nodes by `precedes`."""

    __slots__ = ("node",)

    def __init__(self, node: UOp) -> None:
        self.node = node

    def __lt__(self, other: Order) -> bool:
        return precedes(self.node, other.node)

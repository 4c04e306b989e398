"""UPat: a pattern of nodes, and the plain way to match it.

The compiled form of a pattern (`compiled.py`) must agree with `UPat.match`, which is the judge in
the tests and the fallback for the rare shapes that are not compiled.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import ContractError, OperandError
from tinylab.helpers.arguments import explained
from tinylab.opcodes import GroupOp, Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Place = tuple[str, int]
_HERE = __file__.rpartition("/")[0]


def place_of_caller() -> Place:
    """(file, line) of the nearest frame outside the modules that only hand on rewrites."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        ours = name.startswith(_HERE) and name.endswith(_PLUMBING)
        if not ours and name != _EXPLAINING:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


_PLUMBING = tuple(
    f"/{name}.py"
    for name in ("pattern", "matcher", "rewrite", "passes", "node", "algebra", "sizes")
)


# Where calls are wrapped, so that mistakes in them are told in a sentence.
_EXPLAINING = explained.__code__.co_filename


class UPat:
    """What a node must look like.

    op: one, or any of several. dtype: one, or any of several. src: a tuple is these in order; a
    list these in any order; one pattern is what each source must match; None is not looked at.
    arg: equal in Python's sense. name: binds the node; the same name twice must meet the same node.
    allow_any_len: more sources may follow. tag: one, or any of several.

    Raises: ContractError for an op that is none, and for the name "ctx".
    """

    __slots__ = (
        "allow_any_len",
        "alternatives",
        "arg",
        "dtype",
        "early_reject",
        "location",
        "name",
        "op",
        "orders",
        "repeated",
        "tag",
    )

    def __init__(
        self,
        op: Ops | tuple[Ops, ...] | set[Ops] | frozenset[Ops] | None = None,
        dtype: DType | tuple[DType, ...] | set[DType] | None = None,
        src: tuple[UPat, ...] | list[UPat] | UPat | None = None,
        arg: Any = None,
        name: str | None = None,
        allow_any_len: bool = False,
        custom_early_reject: set[Ops] | None = None,
        location: Place | None = None,
        is_any: bool = False,
        tag: Any = None,
    ) -> None:
        if name == "ctx":
            raise ContractError("UPat can't be named ctx: rules get the context by that name")
        self.op = _op_set(op)
        self.dtype = None if dtype is None else _as_tuple(dtype)
        self.arg, self.name, self.allow_any_len = arg, name, allow_any_len
        self.tag = None if tag is None else _as_tuple(tag)
        self.location = location
        # Each order is one tuple of patterns to hold against the sources.
        self.orders: tuple[tuple[UPat, ...], ...] | None = None
        self.repeated: UPat | None = None
        self.alternatives: tuple[UPat, ...] = ()
        if is_any:
            if not isinstance(src, tuple):
                raise OperandError(f"UPat: any takes a tuple of alternatives, not {src!r}")
            self.alternatives = src
        elif isinstance(src, list):
            same = all(p is src[0] for p in src[1:])
            self.orders = (tuple(src),) if same else tuple(itertools.permutations(src))
        elif isinstance(src, tuple):
            self.orders = (src,)
        elif src is not None:
            self.repeated = src
        self.early_reject = (
            frozenset(custom_early_reject) if custom_early_reject is not None else self._reject()
        )

    def _reject(self) -> frozenset[Ops]:
        """Ops of which some source must have each: those of sub-patterns with exactly one."""
        below = self.orders[0] if self.orders else (self.repeated,) if self.repeated else ()
        return frozenset(next(iter(p.op)) for p in below if p.op is not None and len(p.op) == 1)

    # *** common patterns

    @staticmethod
    def var(name: str | None = None, dtype: Any = None) -> UPat:
        """Any node."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(name: str | None = None, dtype: Any = None, arg: Any = None) -> UPat:
        """Any constant."""
        return UPat(Ops.CONST, dtype, name=name, arg=arg)

    @staticmethod
    def const(value: Any, dtype: Any = None) -> UPat:
        """The constant of this value, of any dtype unless one is given."""
        return UPat(Ops.CONST, dtype, arg=value)

    @staticmethod
    def any(*alternatives: UPat) -> UPat:
        """The first alternative that matches, tried in order."""
        return UPat(src=alternatives, is_any=True)

    def named(self, name: str) -> UPat:
        """The same pattern, bound to a name."""
        new = object.__new__(UPat)
        for slot in UPat.__slots__:
            setattr(new, slot, getattr(self, slot))
        new.name = name
        return new

    def or_casted(self, name: str | None = None) -> UPat:
        """This, or a CAST of it; with a name the value as found is bound to it."""
        return UPat.any(
            self if name is None else self.named(name), UPat(Ops.CAST, src=(self,), name=name)
        )

    def or_after(self, name: str | None = None) -> UPat:
        """This, or an AFTER of it."""
        return UPat.any(
            self if name is None else self.named(name),
            UPat(Ops.AFTER, src=(self,), allow_any_len=True, name=name),
        )

    def f(self, op: Ops, **kwargs: Any) -> UPat:
        """A node with this as its only source."""
        return UPat(op, src=(self,), **kwargs)

    def cast(self, dtype: Any = None, **kwargs: Any) -> UPat:
        """A CAST of this."""
        return UPat(Ops.CAST, dtype, (self,), **kwargs)

    def bitcast(self, dtype: Any = None, **kwargs: Any) -> UPat:
        """A BITCAST of this."""
        return UPat(Ops.BITCAST, dtype, (self,), **kwargs)

    def index(self, *idx: UPat, **kwargs: Any) -> UPat:
        """An INDEX of this."""
        return UPat(Ops.INDEX, src=(self, *idx), **kwargs)

    def load(self, *src: UPat, **kwargs: Any) -> UPat:
        """A LOAD from this."""
        return UPat(Ops.LOAD, src=(self, *src), **kwargs)

    def store(self, *src: UPat, **kwargs: Any) -> UPat:
        """A STORE to this."""
        return UPat(Ops.STORE, src=(self, *src), **kwargs)

    def after(self, *src: UPat, **kwargs: Any) -> UPat:
        """An AFTER of this."""
        return UPat(Ops.AFTER, src=(self, *src), **kwargs)

    def end(self, *src: UPat, **kwargs: Any) -> UPat:
        """An END of this effect."""
        return UPat(Ops.END, src=(self, *src), **kwargs)

    def sink(self, *src: UPat, **kwargs: Any) -> UPat:
        """A SINK that starts with this."""
        return UPat(Ops.SINK, src=(self, *src), **kwargs)

    def reduce(self, *src: UPat, **kwargs: Any) -> UPat:
        """A REDUCE of this."""
        return UPat(Ops.REDUCE, src=(self, *src), **kwargs)

    def broadcast(self, **kwargs: Any) -> UPat:
        """A STACK of nothing but this."""
        return UPat(Ops.STACK, src=self, **kwargs)

    def where(self, x: Any, y: Any) -> UPat:
        """A WHERE on this condition."""
        return UPat(Ops.WHERE, src=(self, _lift(x), _lift(y)))

    # *** operators build patterns as they build nodes

    def alu(self, op: Ops, *src: Any) -> UPat:
        """An operation on this and others; commutative ones in either order."""
        below = (self, *(_lift(s) for s in src))
        if op in GroupOp.Comparison:
            dtype: Any = dtypes.bool
        else:
            dtype = below[-1].dtype
        return UPat(op, dtype, list(below) if op in GroupOp.Commutative else below)

    def __add__(self, x: Any) -> UPat:
        return self.alu(Ops.ADD, x)

    def __radd__(self, x: Any) -> UPat:
        return _lift(x).alu(Ops.ADD, self)

    def __sub__(self, x: Any) -> UPat:
        minus: UPat | int | float = -x
        return self + minus

    def __mul__(self, x: Any) -> UPat:
        return self.alu(Ops.MUL, x)

    def __rmul__(self, x: Any) -> UPat:
        return _lift(x).alu(Ops.MUL, self)

    def __neg__(self) -> UPat:
        return self.alu(Ops.MUL, -1)

    def __truediv__(self, x: Any) -> UPat:
        return self.alu(Ops.MUL, _lift(x).reciprocal())

    def __floordiv__(self, x: Any) -> UPat:
        return self.alu(Ops.FLOORDIV, x)

    def __mod__(self, x: Any) -> UPat:
        return self.alu(Ops.FLOORMOD, x)

    def __and__(self, x: Any) -> UPat:
        return self.alu(Ops.AND, x)

    def __or__(self, x: Any) -> UPat:
        return self.alu(Ops.OR, x)

    def __xor__(self, x: Any) -> UPat:
        return self.alu(Ops.XOR, x)

    def __invert__(self) -> UPat:
        return self.alu(Ops.XOR, -1)

    def __lshift__(self, x: Any) -> UPat:
        return self.alu(Ops.SHL, x)

    def __rshift__(self, x: Any) -> UPat:
        return self.alu(Ops.SHR, x)

    def __lt__(self, x: Any) -> UPat:
        return self.alu(Ops.CMPLT, x)

    def __gt__(self, x: Any) -> UPat:
        return _lift(x).alu(Ops.CMPLT, self)

    def __ge__(self, x: Any) -> UPat:
        return self.alu(Ops.CMPLT, x).logical_not()

    def __le__(self, x: Any) -> UPat:
        return _lift(x).alu(Ops.CMPLT, self).logical_not()

    def ne(self, x: Any) -> UPat:
        """A comparison for difference."""
        return self.alu(Ops.CMPNE, x)

    def eq(self, x: Any) -> UPat:
        """A comparison for equality."""
        return self.ne(x).logical_not()

    def logical_not(self) -> UPat:
        """The negation of this condition."""
        return self.alu(Ops.CMPNE, UPat.const(True))

    def maximum(self, x: Any) -> UPat:
        """A MAX, in either order."""
        return self.alu(Ops.MAX, x)

    def reciprocal(self) -> UPat:
        """A RECIPROCAL of this."""
        return UPat(Ops.RECIPROCAL, src=(self,))

    # *** matching, the plain way

    def match(self, uop: UOp, store: dict[str, UOp]) -> list[dict[str, UOp]]:
        """Every way to bind the names, in the order in which they are tried."""
        return list(self._matches(uop, store))

    def _matches(self, uop: UOp, store: dict[str, UOp]) -> Iterator[dict[str, UOp]]:
        if not self._fits(uop):
            return
        if self.name is not None:
            if store.setdefault(self.name, uop) is not uop:
                return
            store = dict(store)
        if self.alternatives:
            for alternative in self.alternatives:
                yield from alternative._matches(uop, dict(store))
        elif self.repeated is not None:
            yield from _match_each([self.repeated] * len(uop.src), uop.src, store)
        elif self.orders is None:
            yield store
        else:
            for order in self.orders:
                if len(order) == len(uop.src) or (self.allow_any_len and len(order) < len(uop.src)):
                    yield from _match_each(order, uop.src, dict(store))

    def _fits(self, uop: UOp) -> bool:
        """Whether the node's own fields match, its sources not looked at."""
        return (
            (self.op is None or uop.op in self.op)
            and (self.dtype is None or uop.dtype in self.dtype)
            and (self.arg is None or bool(self.arg == uop.arg))
            and (self.tag is None or uop.tag in self.tag)
        )

    def __repr__(self) -> str:
        ops = "" if self.op is None else "|".join(sorted(o.name for o in self.op))
        parts = [ops or "any"]
        if self.name:
            parts.append(repr(self.name))
        if self.arg is not None:
            parts.append(f"arg={self.arg!r}")
        if self.orders:
            parts.append(f"src={list(self.orders[0])}")
        return f"UPat({', '.join(parts)})"


def _match_each(
    patterns: Sequence[UPat], src: tuple[UOp, ...], store: dict[str, UOp]
) -> Iterator[dict[str, UOp]]:
    """Patterns against as many sources, every combination of their ways to match."""
    if not patterns:
        yield store
        return
    for found in patterns[0]._matches(src[0], dict(store)):
        yield from _match_each(patterns[1:], src[1:], found)


def _op_set(op: Any) -> frozenset[Ops] | None:
    if op is None:
        return None
    ops = frozenset((op,)) if isinstance(op, Ops) else op
    if not isinstance(ops, tuple | set | frozenset) or not all(isinstance(o, Ops) for o in ops):
        raise ContractError(f"op must be Ops or tuple of Ops, not {op!r}")
    return frozenset(ops)


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | set | frozenset | list) else (x,)


def _lift(x: Any) -> UPat:
    return x if isinstance(x, UPat) else UPat.const(x)

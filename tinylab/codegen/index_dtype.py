"""Weak types become concrete: indices int32 or int64, weak floats the type of what they meet.

RANGE(16, weakint)*4 + 1  ->  RANGE(16, int32)*4 + 1
float32 + 2.0 (weak)      ->  float32 + 2.0 (float32)

Indices are int32 where every value on the way fits, and int64 elsewhere. On a CPU all of them are
int64: registers are that wide, and constant offsets then fold into addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tinylab.codegen.foreign_dtypes import foreign_dtypes
from tinylab.dtype import DType, dtypes, strong_dtype
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.ops import UOp, promote

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

# How many leading sources are values; what follows are shapes.
VALUE_SOURCES = {Ops.PARAM: 0, Ops.BUFFER: 0, Ops.RESHAPE: 1, Ops.EXPAND: 1, Ops.SHRINK: 2}


def value_sources(u: UOp) -> tuple[UOp, ...]:
    """The sources that are computed when the program runs; sizes and shapes are not."""
    return u.src[: VALUE_SOURCES.get(u.op, len(u.src))]


def value_order(root: UOp) -> list[UOp]:
    """Every computed node below, sources first."""
    done: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack:
        u, visited = stack.pop()
        if u in done:
            continue
        if visited:
            done[u] = None
            continue
        stack.append((u, True))
        stack.extend((s, False) for s in reversed(value_sources(u)) if s not in done)
    return list(done)


class Concrete:
    """Rewrites node by node, sources first; `new` holds what each node became."""

    def __init__(self, wide: bool) -> None:
        self.wide = wide
        self.new: dict[UOp, UOp] = {}

    def index_type(self, *uops: UOp) -> DType:
        """int32 if the bounds of all these fit, else int64."""
        if self.wide:
            return dtypes.int64
        fits = all(
            dtypes.int32.min <= u.vmin and u.vmax <= dtypes.int32.max
            for u in uops
            if u.dtype is dtypes.weakint
        )
        return dtypes.int32 if fits else dtypes.int64

    def as_type(self, u: UOp, dtype: DType) -> UOp:
        """What a node became, in a type."""
        if u.op is Ops.CONST:
            return UOp.const(u.arg, dtype)
        return self.new[u].cast(dtype)

    def visit(self, u: UOp) -> UOp:
        """The node with concrete types."""
        row = _ROWS.get(u.op)
        if row is not None:
            return row(self, u)
        kept = u.src[len(value_sources(u)) :]
        src = tuple(self._concrete(s) for s in value_sources(u)) + kept
        if src == u.src:
            return u
        return u.replace(src=src, dtype=_following(u, src))

    def _concrete(self, s: UOp) -> UOp:
        new = self.new[s]
        if new.op is Ops.CONST and dtypes.is_weak(new.dtype):
            dtype = self.index_type(s) if s.dtype is dtypes.weakint else strong_dtype(s.dtype)
            return UOp.const(new.arg, dtype)
        return new

    def common_type(self, u: UOp, operands: tuple[UOp, ...]) -> DType:
        """The type in which an operation on these is done."""
        strong = [self.new[s] for s in operands if not dtypes.is_weak(s.dtype)]
        if any(s.dtype is dtypes.weakfloat for s in operands):
            known = promote(tuple(strong)) if strong else dtypes.bool
            return known if dtypes.is_float(known) else strong_dtype(dtypes.weakfloat)
        if not strong:
            sizes = [self.new[s].dtype for s in operands if s.op is not Ops.CONST]
            wanted = self.index_type(u, *operands)
            return max([wanted, *sizes])
        dtype = promote(tuple(strong))
        counted = dtype is dtypes.bool and any(s.dtype is dtypes.weakint for s in operands)
        return self.index_type(*operands) if counted else dtype


def _following(u: UOp, src: tuple[UOp, ...]) -> DType | None:
    """The dtype of a node whose type is its first source's, where that has changed."""
    if u.op in (Ops.STORE, Ops.END, Ops.GROUP, Ops.SINK, Ops.BARRIER):
        return u.dtype
    return None


def _alu(c: Concrete, u: UOp) -> UOp:
    if not any(dtypes.is_weak(s.dtype) for s in u.src):
        return _plain(c, u)
    dtype = c.common_type(u, u.src)
    src = tuple(c.as_type(s, dtype) for s in u.src)
    result = dtypes.bool if u.op in GroupOp.Comparison else dtype
    return u.replace(src=src, dtype=result)


def _plain(c: Concrete, u: UOp) -> UOp:
    src = tuple(c.new[s] for s in u.src)
    return u if src == u.src else u.replace(src=src)


def _mixed(c: Concrete, u: UOp) -> UOp:
    """Operands of unequal concrete types meet in the common one."""
    if any(dtypes.is_weak(s.dtype) for s in u.src):
        return _alu(c, u)
    if len({s.dtype for s in u.src}) == 1:
        return _plain(c, u)
    dtype = promote(u.src)
    src = tuple(c.as_type(s, dtype) for s in u.src)
    return u.replace(src=src, dtype=dtypes.bool if u.op in GroupOp.Comparison else dtype)


def _where(c: Concrete, u: UOp) -> UOp:
    if u.src[1].dtype is u.src[2].dtype and not dtypes.is_weak(u.dtype):
        return _plain(c, u)
    dtype = c.common_type(u, u.src[1:])
    return u.replace(src=(c.new[u.src[0]], *(c.as_type(s, dtype) for s in u.src[1:])), dtype=dtype)


def _shift(c: Concrete, u: UOp) -> UOp:
    dtype = c.common_type(u, u.src[:1])
    return u.replace(src=tuple(c.as_type(s, dtype) for s in u.src), dtype=dtype)


_FLOAT_FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT, Ops.RECIPROCAL)


def _unary(c: Concrete, u: UOp) -> UOp:
    dtype = c.common_type(u, u.src)
    if u.op in _FLOAT_FUNCTIONS and not dtypes.is_float(dtype):
        dtype = u.dtype if not dtypes.is_weak(u.dtype) else strong_dtype(dtypes.weakfloat)
    return u.replace(src=(c.as_type(u.src[0], dtype),), dtype=dtype)


def _const(c: Concrete, u: UOp) -> UOp:
    return u  # its user says which type it has


def _range(c: Concrete, u: UOp) -> UOp:
    if u.dtype is not dtypes.weakint:
        return _plain(c, u)
    dtype = c.index_type(u, u.src[0])
    src = (c.as_type(u.src[0], dtype), *(c.new[s] for s in u.src[1:]))
    return u.replace(src=src, dtype=dtype)


def _cast(c: Concrete, u: UOp) -> UOp:
    x = u.src[0]
    if u.dtype is dtypes.weakint:
        return c.as_type(x, max(c.index_type(u), _index_like(c.new[x].dtype)))
    target = strong_dtype(u.dtype)
    if x.op is Ops.CONST:
        return UOp.const(x.arg, target)
    return c.new[x].cast(target)


def _index_like(dtype: DType) -> DType:
    return dtype if dtype is dtypes.int64 else dtypes.int32


def _store(c: Concrete, u: UOp) -> UOp:
    target = c.new[u.src[0]]
    gates = (c.new[s] for s in u.src[2:])
    return u.replace(src=(target, c.as_type(u.src[1], target.dtype), *gates))


def _load(c: Concrete, u: UOp) -> UOp:
    target = c.new[u.src[0]]
    rest = u.src[1:]
    if not rest:
        return u.replace(src=(target,), dtype=target.dtype)
    return u.replace(src=(target, c.as_type(rest[0], target.dtype), *(c.new[s] for s in rest[1:])))


def _stack(c: Concrete, u: UOp) -> UOp:
    if not u.src:
        return u
    if all(s.dtype is u.dtype and not dtypes.is_weak(s.dtype) for s in u.src):
        return _plain(c, u)
    dtype = c.common_type(u, u.src)
    return u.replace(src=tuple(c.as_type(s, dtype) for s in u.src), dtype=dtype)


def _index_type_row(c: Concrete, u: UOp) -> UOp:
    """Places in an array: any integer type, constants as they are narrowest."""
    return u.replace(src=(c.new[u.src[0]], *(c._concrete(s) for s in u.src[1:])))


def _window(c: Concrete, u: UOp) -> UOp:
    return u.replace(src=(c.new[u.src[0]], c._concrete(u.src[1]), u.src[2]))


_ROWS: dict[Ops, Callable[[Concrete, UOp], UOp]] = {
    **dict.fromkeys(GroupOp.Binary - {Ops.SHL, Ops.SHR, Ops.THREEFRY}, _mixed),
    **dict.fromkeys(GroupOp.Unary, _unary),
    Ops.MULACC: _mixed,
    Ops.SHL: _shift,
    Ops.SHR: _shift,
    Ops.WHERE: _where,
    Ops.CONST: _const,
    Ops.RANGE: _range,
    Ops.SPECIAL: _range,
    Ops.CAST: _cast,
    Ops.STORE: _store,
    Ops.LOAD: _load,
    Ops.STACK: _stack,
    Ops.INDEX: _index_type_row,
    Ops.SHRINK: _window,
}


def _nodes(sink: UOp) -> Iterator[UOp]:
    yield from value_order(sink)


def has_wide_registers(ren: Renderer) -> bool:
    """Whether 64 bits cost a target no more than 32."""
    return ren.has_threads and not ren.has_local and dtypes.int64 not in foreign_dtypes(ren)


def index_dtype(sink: UOp, ren: Renderer | None = None) -> UOp:
    """The kernel without weak types."""
    c = Concrete(wide=ren is not None and has_wide_registers(ren))
    for u in _nodes(sink):
        c.new[u] = c.visit(u)
    return c.new[sink]

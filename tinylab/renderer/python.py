"""A listing that reads like Python: a typed line for each uop. The PYTHON device runs it as data.

def r_4(data0: float32[1], data1: float32[4]):
    acc0: float32 = REG()
    STORE(acc0, 0.0)
    for Ridx0 in RANGE(4):  # int32
        ptr0: float32 = INDEX(data1, Ridx0)
        ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinylab.dtype import AddrSpace, DType, Invalid, dtypes
from tinylab.errors import RenderError
from tinylab.opcodes import GroupOp, Ops
from tinylab.renderer.base import (
    Line,
    Renderer,
    buffers,
    constants_of,
    function_name,
    int_shape,
    is_memory,
    loop_name,
    variable_name,
    variables,
)
from tinylab.uop.ops import UOp

_SILENT = frozenset({Ops.NOOP, Ops.SINK, Ops.GROUP, Ops.CONST, Ops.AFTER, Ops.PARAM})
_KIND = {
    Ops.INDEX: "ptr",
    Ops.SHRINK: "ptr",
    Ops.LOAD: "val",
    Ops.CAST: "cast",
    Ops.BITCAST: "cast",
    Ops.STACK: "stack",
    **dict.fromkeys(GroupOp.ALU, "alu"),
    **dict.fromkeys(GroupOp.Comparison, "cmp"),
}


class PythonRenderer(Renderer):
    """The listing that the PYTHON device interprets."""

    device = "PYTHON"
    code_for_op = GroupOp.ALU - {Ops.MULACC}

    def render_lines(self, uops: Sequence[UOp]) -> list[Line]:
        """The listing, a line per uop."""
        return _Listing(uops).lines


class _Listing:
    def __init__(self, uops: Sequence[UOp]) -> None:
        self.names: dict[UOp, str] = {}
        self.taken: dict[str, int] = {}
        self.depth = 1
        self.index: int | None = None
        self.lines: list[Line] = [(self._head(uops), None)]
        values = {s for u in uops for s in u.src[: _FIRST_SIZE.get(u.op)]}
        self.silent = {u for u in uops if u.op is Ops.STACK} - values
        for i, u in enumerate(uops):
            self.index = i
            if u.op not in _SILENT and u not in self.silent:
                self._write(u)
        if len(self.lines) == 1:
            self.lines.append(("    pass", None))

    def _head(self, uops: Sequence[UOp]) -> str:
        arguments = []
        for u in buffers(uops):
            self.names[u] = f"data{u.arg.slot}"
            arguments.append(f"{self.names[u]}: {_type(u.dtype, int_shape(u))}")
        for u in variables(uops):
            self.names[u] = variable_name(u)
            self.taken[self.names[u]] = 1
            arguments.append(f"{self.names[u]}: {_type(_concrete(u.dtype), ())}")
        return f"def {function_name(uops)}({', '.join(arguments)}):"

    def _fresh(self, kind: str) -> str:
        number = self.taken.get(kind, 0)
        while f"{kind}{number}" in self.taken:  # a variable may be called so
            number += 1
        self.taken[kind] = number + 1
        return f"{kind}{number}"

    def _line(self, text: str) -> None:
        self.lines.append(("    " * self.depth + text, self.index))

    def _let(self, u: UOp, name: str, text: str) -> None:
        self.names[u] = name
        self._line(f"{name}: {_type(_concrete(u.dtype), int_shape(u))} = {text}")

    def _operand(self, u: UOp, typed: bool = False) -> str:
        while u.op is Ops.AFTER or (u.op is Ops.NOOP and u.src):
            u = u.src[0]
        if u.op is Ops.CONST:
            text = _literal(u)
            return f"{_concrete(u.dtype).name}({text})" if typed else text
        if u not in self.names:
            raise RenderError(f"{u.op} is used before its line, or has none")
        return self.names[u]

    def _write(self, u: UOp) -> None:
        if u.op in _STATEMENTS:
            _STATEMENTS[u.op](self, u)
        elif u.op in GroupOp.ALU or u.op in _KIND or u.op in GroupOp.Movement:
            kind = _KIND.get(u.op, "lanes")
            if kind == "ptr" and not is_memory(u):
                kind = "lanes"
            arguments = self._arguments(u)
            self._let(u, self._fresh(kind), f"{u.op.name}({', '.join(arguments)})")
        else:
            raise RenderError(f"PYTHON cannot run {u.op.name}", help="lower it first")

    def _arguments(self, u: UOp) -> list[str]:
        if u.op in (Ops.CAST, Ops.BITCAST):
            return [self._operand(u.src[0], typed=True)]
        first = self._operand(u.src[0])
        if u.op is Ops.SHRINK:
            return [first, *map(self._operand, _items(u.src[1]))]
        if u.op in (Ops.RESHAPE, Ops.EXPAND):
            return [first]
        if u.op in (Ops.PERMUTE, Ops.FLIP):
            return [first, *(str(int(a)) for a in u.arg)]
        if u.op is Ops.INDEX and not is_memory(u):
            places = [constants_of(i) for i in u.src[1:]]
            if any(p is None for p in places):
                raise RenderError("lanes of a value are taken at places that are not constant")
            return [
                first,
                *(
                    str(p) if i.shape else str(p[0])
                    for p, i in zip(places, u.src[1:], strict=True)
                    if p is not None
                ),
            ]
        return [self._operand(s) for s in u.src]

    # *** statements

    def store(self, u: UOp) -> None:
        """STORE(place, value[, gate])."""
        self._line(f"STORE({', '.join(map(self._operand, u.src))})")

    def buffer(self, u: UOp) -> None:
        """A register array, or one of the workgroup."""
        reg = u.arg.addrspace is AddrSpace.REG
        self._let(u, self._fresh("acc" if reg else "local"), "REG()" if reg else "LOCAL()")

    def special(self, u: UOp) -> None:
        """An index of the grid or the workgroup."""
        self._let(u, str(u.arg), f"SPECIAL({self._operand(u.src[0])})")

    def range(self, u: UOp) -> None:
        """A loop, to the END's line."""
        name = loop_name(u)
        if name in self.taken:
            name = f"{name}_{self._fresh(name)[len(name) :]}"
        self.taken[name] = 1
        self.names[u] = name
        if u.src[0].op is Ops.NOOP:
            self._line(f"for {name} in FOREVER():")
        else:
            end = self._operand(u.src[0])
            self._line(f"for {name} in RANGE({end}):  # {_concrete(u.dtype).name}")
        self.depth += 1

    def end(self, u: UOp) -> None:
        """The loop's last line: whether it goes on, where that is not counted."""
        for r in u.src[1:]:
            if r.op is not Ops.RANGE:
                continue
            if r.src[0].op is Ops.NOOP:
                test = next(s for s in u.src[1:] if s.op is not Ops.RANGE)
                self._line(f"REPEAT({self._operand(test)})")
            self._close(f"# end of {self.names[r]}")

    def _close(self, text: str) -> None:
        before = self.lines[-1][0].lstrip()
        # A block with nothing in it still needs a line.
        self._line("pass" if before.startswith(("for ", "if ")) else text)
        self.depth -= 1

    def if_(self, u: UOp) -> None:
        """A guarded region."""
        self._line(f"if {self._operand(u.src[0])}:")
        self.depth += 1

    def endif(self, u: UOp) -> None:
        """The end of a guarded region."""
        self._close("# end of if")

    def barrier(self, u: UOp) -> None:
        """The workgroup waits for all its members."""
        self._line("BARRIER()")


# Sources from here on are offsets and sizes, which are written where they are used.
_FIRST_SIZE = {Ops.SHRINK: 1, Ops.RESHAPE: 1, Ops.EXPAND: 1, Ops.PARAM: 0, Ops.BUFFER: 0}
_STATEMENTS = {
    Ops.STORE: _Listing.store,
    Ops.BUFFER: _Listing.buffer,
    Ops.SPECIAL: _Listing.special,
    Ops.RANGE: _Listing.range,
    Ops.END: _Listing.end,
    Ops.IF: _Listing.if_,
    Ops.ENDIF: _Listing.endif,
    Ops.BARRIER: _Listing.barrier,
}


def _items(u: UOp) -> tuple[UOp, ...]:
    return u.src if u.op is Ops.STACK else (u,)


def _concrete(dtype: DType) -> DType:
    """Weak types compute in the widest of their kind here."""
    return {dtypes.weakint: dtypes.int64, dtypes.weakfloat: dtypes.float64}.get(dtype, dtype)


def _type(dtype: DType, shape: tuple[int, ...]) -> str:
    """float32, (8, 32) -> float32[8, 32]."""
    return f"{dtype.name}[{', '.join(map(str, shape))}]" if shape else dtype.name


def _literal(u: UOp) -> str:
    value = u.arg
    if value is Invalid:
        raise RenderError("an Invalid index is used", help="loads and stores of it are gated first")
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return repr(float(value))
    return repr(value)

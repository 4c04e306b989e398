"""A graph as rows of plain data, and back: what a record keeps of a kernel.

    a + 1  ->  [["PARAM", "float", [], …], ["CONST", …], ["ADD", "float", [0, 1], null, null]]

Reading runs no code: rows name classes of a fixed list.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from enum import Enum
from typing import Any

from tinylab.codegen.opt import Opt, OptOps
from tinylab.dtype import AddrSpace, DType, Invalid, as_const, dtypes, to_dtype
from tinylab.errors import TraceError
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import KernelInfo, ParamArg, RangeArg, ReduceArg, StageArg
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

Rows = list[list[Any]]

_ENUMS: dict[str, type[Enum]] = {e.__name__: e for e in (AddrSpace, AxisType, Ops, OptOps)}
_RECORDS: dict[str, Callable[..., Any]] = {
    r.__name__: r for r in (KernelInfo, Opt, ParamArg, ReduceArg, StageArg)
}


def to_rows(root: UOp) -> Rows:
    """The nodes of a graph, sources before what they are sources of; the last one is the root.

    Raises: TraceError for an argument that is no plain data.
    """
    order = list(root.toposort())
    at = {u: n for n, u in enumerate(order)}
    return [
        [u.op.name, u.dtype.name, [at[s] for s in u.src], _plain(u.arg), _plain(u.tag)]
        for u in order
    ]


def from_rows(rows: Rows) -> UOp:
    """The graph that rows tell of.

    Raises: TraceError for an operation, type or record that does not exist here.
    """
    nodes: list[UOp] = []
    try:
        for op, dtype, src, arg, tag in rows:
            kind = dtypes.void if dtype == "void" else to_dtype(dtype)
            sources = tuple(nodes[n] for n in src)
            value = as_const(_value(arg), kind) if op == "CONST" else _value(arg)
            nodes.append(make(Ops[op], kind, sources, value, _value(tag)))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as e:
        raise TraceError(f"rows of a kernel cannot be read here: {e!r}") from e
    return nodes[-1]


def _plain(x: Any) -> Any:
    """A value as what JSON holds; what is no number, text or None is a pair with its kind."""
    if isinstance(x, Enum):
        return ["enum", type(x).__name__, x.name]
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        return ["float", x.hex()]
    if x is Invalid:
        return ["invalid"]
    if isinstance(x, DType):
        return ["dtype", x.name]
    if isinstance(x, bytes):
        return ["bytes", base64.b64encode(x).decode()]
    if isinstance(x, RangeArg):
        return ["range", *map(_plain, x)]
    if type(x).__name__ in _RECORDS:
        return ["record", type(x).__name__, *map(_plain, x)]
    if type(x) is tuple:
        return ["tuple", *map(_plain, x)]
    raise TraceError(f"{type(x).__name__} cannot be kept in a row")


_READ: dict[str, Callable[..., Any]] = {
    "float": float.fromhex,
    "invalid": lambda: Invalid,
    "dtype": lambda name: dtypes.void if name == "void" else to_dtype(name),
    "enum": lambda kind, name: _ENUMS[kind][name],
    "bytes": base64.b64decode,
    "range": lambda *items: RangeArg(tuple(map(_value, items))),
    "tuple": lambda *items: tuple(map(_value, items)),
    "record": lambda kind, *fields: _RECORDS[kind](*map(_value, fields)),
}


def _value(x: Any) -> Any:
    return _READ[x[0]](*x[1:]) if isinstance(x, list) else x


def opts_to_rows(opts: tuple[Opt, ...]) -> list[Any]:
    """Opts as plain data."""
    return [_plain(opt) for opt in opts]


def opts_from_rows(rows: list[Any]) -> tuple[Opt, ...]:
    """The opts that rows tell of."""
    return tuple(_value(row) for row in rows)

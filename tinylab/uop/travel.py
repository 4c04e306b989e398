"""What is pickled in a form of its own: graphs of any depth, and the functions of rules.

    pickle.dumps(deep)      pickle goes down a graph by recursion, a thousand nodes at most: larger
                            graphs travel as rows, (op, dtype, numbers of the sources, arg, tag)
    pickle.dumps(table)     a lambda has no name to be found by: it travels as code, with the
                            globals that it uses where its module cannot be imported

As with every pickle, reading one runs what is in it: read only what you wrote yourself.
"""

from __future__ import annotations

import builtins
import importlib
import marshal
import pickle
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from tinylab.dtype import DType
    from tinylab.uop.node import UOp

# *** graphs

# Up to this many nodes pickle's own way is taken, in which several graphs share their nodes.
SMALL = 100


def reduced(node: UOp) -> tuple[Any, ...]:
    """What pickle is to do with a node: (function, its arguments)."""
    kind = type(node)
    if _is_storage(node):
        return _stored_anew, (kind, *_stored(node))
    if _is_large(node):
        return _from_rows, (kind, _rows_of(node))
    return kind, (node.op, node.dtype, node.src, node.arg, node.tag)


def _is_storage(node: UOp) -> bool:
    """Whether it is memory: its number means other memory elsewhere."""
    return node.op is Ops.BUFFER and node.arg.device is not None and node.arg.slot >= 0


def _stored(node: UOp) -> tuple[Any, ...]:
    return node._buffer, node.arg.device, node.shape[0], node.dtype


def _stored_anew(kind: type[UOp], buffer: Any, device: Any, size: int, dtype: DType) -> UOp:
    """The node of memory that came with it, or of memory that is not there yet."""
    return kind.new_buffer(device, size, dtype) if buffer is None else kind.from_buffer(buffer)


def _is_large(root: UOp) -> bool:
    """Whether a graph has more nodes than pickle is let go down."""
    seen, stack = {root}, [root]
    while stack and len(seen) <= SMALL:
        below = [s for s in stack.pop().src if s not in seen]
        seen.update(below)
        stack += below
    return len(seen) > SMALL


def _rows_of(root: UOp) -> list[tuple[Any, ...]]:
    """A graph, sources first: (op, dtype, numbers of the sources, arg, tag), or memory."""
    number: dict[UOp, int] = {}
    rows: list[tuple[Any, ...]] = []
    for node in root.toposort():
        number[node] = len(rows)
        if _is_storage(node):
            rows.append(_stored(node))
        else:
            numbers = [number[s] for s in node.src]
            rows.append((node.op, node.dtype, numbers, node.arg, node.tag))
    return rows


def _from_rows(kind: type[UOp], rows: list[tuple[Any, ...]]) -> UOp:
    made: list[UOp] = []
    for row in rows:
        if len(row) == 5:
            op, dtype, numbers, arg, tag = row
            made.append(kind(op, dtype, tuple([made[n] for n in numbers]), arg, tag))
        else:
            made.append(_stored_anew(kind, *row))
    return made[-1]


# *** functions


class _Module(NamedTuple):
    """A module among the globals of a function."""

    name: str


class _Code(NamedTuple):
    """A function as code; `home` is the module whose globals it has, None if they come along."""

    code: bytes
    home: str | None
    name: str
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None
    cells: list[Any]
    used: dict[str, Any]


def sent(value: Any, inside: tuple[Any, ...] = ()) -> Any:
    """A value in a form that pickles: a function without a name to be found by as its code.

    Raises: PicklingError for such a function that is used by what it uses.
    """
    if isinstance(value, ModuleType):
        return _Module(value.__name__)
    if not isinstance(value, FunctionType) or _by_name(value) is value:
        return value
    if value in inside:
        raise pickle.PicklingError(
            f"{value.__qualname__} uses itself and has no name to be found by: define it with def "
            "at the top of a module"
        )
    inside = (*inside, value)
    home = value.__module__ if _is_importable(value.__module__) else None
    return _Code(
        marshal.dumps(value.__code__),
        home,
        value.__name__,
        value.__defaults__,
        value.__kwdefaults__,
        [sent(cell.cell_contents, inside) for cell in value.__closure__ or ()],
        {} if home else {name: sent(v, inside) for name, v in _globals_of(value)},
    )


def arrived(value: Any) -> Any:
    """What was sent."""
    if isinstance(value, _Module):
        return importlib.import_module(value.name)
    if not isinstance(value, _Code):
        return value
    if value.home is None:
        around = {"__builtins__": builtins}
        around.update((name, arrived(v)) for name, v in value.used.items())
    else:
        around = vars(importlib.import_module(value.home))
    cells = tuple(CellType(arrived(cell)) for cell in value.cells)
    code = marshal.loads(value.code)
    made = FunctionType(code, around, value.name, value.defaults, cells)
    made.__kwdefaults__ = value.kwdefaults
    return made


def _by_name(function: FunctionType) -> Any:
    """What stands where a function says that it stands."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _is_importable(module: str | None) -> bool:
    return module is not None and module != "__main__" and module in sys.modules


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function's code names, and that of the functions inside it."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        for name in code.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]

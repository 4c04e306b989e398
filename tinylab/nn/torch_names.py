"""The names that a checkpoint may use for plain values: containers, bytes, numbers of numpy.

Each is a function that checks what it is given and makes no more than the file has bytes for.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from tinylab.errors import FileFormatError
from tinylab.nn.strangers import Known, Notes, Stranger, stranger_kind

Grow = Callable[[int, str], None]
_BUILTINS = ("builtins", "__builtin__")
_COLLECTED = (list, tuple, set, frozenset, dict, deque, str, bytes, bytearray)
_NUMBERS = re.compile(r"(\?|[biufcSU]\d*|O\d*)")
_WORD_BYTES = 8


Names = dict[tuple[str, str], Known]


def plain_names(grow: Grow, notes: Notes) -> Names:
    """Containers, bytes and numbers of Python, by (module, name)."""

    def raw(*args: Any) -> bytes:
        return _bytes(grow, *args)

    def default(*args: Any) -> Any:
        return _defaulted(grow, notes, *args)

    calls: list[tuple[str, Any, Callable[..., Any]]] = [
        *(("builtins", kind, gathering(kind, grow)) for kind in (list, tuple, dict)),
        *(("builtins", kind, gathering(kind, grow)) for kind in (set, frozenset)),
        *(("collections", kind, gathering(kind, grow)) for kind in (OrderedDict, Counter)),
        ("collections", defaultdict, default),
        ("collections", deque, functools.partial(_queued, grow)),
        # Named as what a defaultdict begins with; none is called.
        *(("builtins", kind, _refused(kind.__name__)) for kind in (int, float, str, bool)),
        ("builtins", bytes, raw),
        ("builtins", bytearray, lambda *args: bytearray(raw(*args))),
        *(("builtins", kind, _of_numbers(kind)) for kind in (complex, slice, range)),
        ("builtins", getattr, lambda owner, name: stranger_kind(f"{_name_of(owner)}.{name}")),
    ]
    found: Names = {("_codecs", "encode"): Known("_codecs.encode", raw)}
    for module, kind, call in calls:
        for place in _BUILTINS if module == "builtins" else (module,):
            found[place, kind.__name__] = Known(
                f"{module}.{kind.__name__}", call, kind if isinstance(kind, type) else None
            )
    for old, name in (("xrange", "range"), ("long", "int"), ("unicode", "str")):
        found["__builtin__", old] = found["builtins", name]  # as pickles for Python 2 say it
    return found


def gathering(kind: Any, grow: Grow) -> Callable[..., Any]:
    """A function that makes a container of one, which is in memory already."""

    def gathered(*args: Any) -> Any:
        if len(args) > 1 or not all(isinstance(arg, _COLLECTED) for arg in args):
            raise _damaged(kind.__name__, args)
        grow(sum(len(arg) * _WORD_BYTES for arg in args), f"a {kind.__name__}")
        return kind(*args)

    return gathered


def _defaulted(grow: Grow, notes: Notes, factory: Any = None, *args: Any) -> Any:
    kind = factory.kind if isinstance(factory, Known) else None
    made = defaultdict(kind, gathering(dict, grow)(*args))
    if factory is not None and kind is None:
        notes.add(made, f"has no default, which {_name_of(factory)} made")
    return made


def _queued(grow: Grow, items: Any = (), most: Any = None) -> Any:
    if most is not None and (type(most) is not int or most < 0):
        raise _damaged("deque", (most,))
    return deque(gathering(list, grow)(items), most)


def _refused(what: str) -> Callable[..., Any]:
    def never(*args: Any) -> Any:
        raise _damaged(what, args)

    return never


def _name_of(maker: Any) -> str:
    return str(getattr(maker, "what", type(maker).__name__))


def _damaged(what: str, args: tuple[Any, ...]) -> FileFormatError:
    return FileFormatError(f"damaged file: it makes a {what} of {str(args)[:60]}")


def _bytes(grow: Grow, *args: Any) -> bytes:
    """Bytes as pickles write them: themselves, or letters that stand for them."""
    if not args:
        return b""
    grow(len(args[0]) if isinstance(args[0], _COLLECTED) else 0, "bytes")
    if len(args) == 1 and isinstance(args[0], (bytes, bytearray)):
        return bytes(args[0])
    if len(args) == 2 and isinstance(args[0], str) and args[1] in ("latin1", "latin-1"):
        return args[0].encode("latin1")
    raise _damaged("bytes", args)


def _of_numbers(kind: Any) -> Callable[..., Any]:
    def made(*args: Any) -> Any:
        if not all(arg is None or isinstance(arg, (int, float)) for arg in args):
            raise _damaged(kind.__name__, args)
        return kind(*args)

    return made


# *** numpy


def numpy_names(grow: Grow, notes: Notes) -> Names:
    """Numbers and arrays of numpy, by (module, name); numpy is loaded when one is made."""
    ndarray = Known("numpy.ndarray", _refused("numpy.ndarray"))

    def rebuilt(kind: Any, *_: Any) -> Any:
        import numpy as np

        made = np.empty(0, np.int8)
        if kind is not ndarray:
            notes.add(made, f"is an array and no {_name_of(kind)}")
        return made

    def windowed(raw: Any, dtype: Any, shape: Any, order: Any) -> Any:
        made = rebuilt(ndarray)
        set_array(made, (1, shape, dtype, order == "F", raw), grow, notes)
        return made

    found: Names = {("numpy", "dtype"): Known("numpy.dtype", _dtype)}
    found["numpy", "ndarray"] = ndarray
    for core in ("numpy.core", "numpy._core"):
        found[f"{core}.multiarray", "scalar"] = Known("a number of numpy", _scalar)
        found[f"{core}.multiarray", "_reconstruct"] = Known("an array of numpy", rebuilt)
        found[f"{core}.numeric", "_frombuffer"] = Known("an array of numpy", windowed)
    return found


def _dtype(code: Any, *_: Any) -> Any:
    import numpy as np

    if not isinstance(code, str):
        raise _damaged("numpy.dtype", (code,))
    if not _NUMBERS.fullmatch(code):
        return stranger_kind(f"numpy's type {code}")()
    return np.dtype(code, False, True)  # a copy: its byte order is still to come


def _scalar(dtype: Any, raw: Any) -> Any:
    import numpy as np

    if isinstance(dtype, Stranger):
        return stranger_kind(f"a number of {dtype.what}")(raw)
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(raw, bytes):
        raise _damaged("number of numpy", (dtype, raw))
    if len(raw) != dtype.itemsize or not raw:
        raise _damaged(f"number of numpy's {dtype}", (raw,))
    return np.frombuffer(raw, dtype)[0]


def set_dtype(dtype: Any, state: Any) -> None:
    """Give a type of numpy its byte order, which is all that a type of numbers has as state."""
    if not isinstance(state, tuple) or len(state) < 3 or state[1] not in ("<", ">", "|", "="):
        raise _damaged("numpy.dtype", (state,))
    other = ">" if sys.byteorder == "little" else "<"
    if state[1] == other and not dtype.hasobject:
        dtype.__setstate__(dtype.newbyteorder(other).__reduce__()[2])


def set_array(made: Any, state: Any, grow: Grow, notes: Notes) -> None:
    """Give an array of numpy its shape, its type and its values.

    Raises: FileFormatError where the values are not as many as the shape says.
    """
    import numpy as np

    if not isinstance(state, tuple) or len(state) != 5:
        raise _damaged("numpy.ndarray", (state,))
    _, shape, dtype, by_columns, values = state
    if isinstance(dtype, Stranger):
        notes.add(made, f"is left empty, for its elements are of {dtype.what}")
        return
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise _damaged("numpy.ndarray", (shape,))
    if not isinstance(dtype, np.dtype) or not dtype.itemsize:
        raise _damaged("numpy.ndarray", (dtype,))
    wanted = list if dtype.hasobject else (bytes, bytearray)
    size = 1 if dtype.hasobject else dtype.itemsize
    if not isinstance(values, wanted) or len(values) != math.prod(shape) * size:
        raise FileFormatError(f"damaged file: an array of {shape} {dtype} has other values")
    grow(len(values) * (_WORD_BYTES if dtype.hasobject else 1), f"an array of {shape}")
    held = values if dtype.hasobject else bytes(values)
    made.__setstate__((1, shape, dtype, bool(by_columns), held))

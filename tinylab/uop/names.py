"""Names that stand in the source of kernels: what functions are called, what variables may be."""

from __future__ import annotations

import functools
import keyword
from typing import Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import SymbolicError
from tinylab.helpers.text import to_function_name


@functools.cache
def program_name(name: str) -> str:
    """The name of a kernel as a function is called in every target.

    A word of Python, what begins with a digit and what is empty get a word of their own.
    """
    found = to_function_name(name)
    if not found or found[0].isdigit() or keyword.iskeyword(found):
        return f"kernel_{found}"
    return found


# Variables that launches set, and what they count.
_COUNTED = {"core_id": "their threads", "_device_num": "their devices"}


def check_variable(name: Any, low: Any, high: Any, dtype: DType) -> None:
    """Refuse a Variable of a name that no source can hold, or of bounds that hold no number.

    Raises: SymbolicError.
    """
    if not isinstance(name, str):
        raise SymbolicError(f"the name of a Variable is a string, not {name!r}")
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        raise SymbolicError(
            f"a Variable cannot be called {name!r}: its name stands in the source of kernels",
            help="letters, digits and _ make a name, as in Python: 'start_pos'",
        )
    if name in _COUNTED:
        raise SymbolicError(
            f"a Variable cannot be called {name!r}: kernels count {_COUNTED[name]} by that name",
            help="give it any other name",
        )
    word, kind = ("numbers", int | float) if dtypes.is_float(dtype) else ("ints", int)
    if not (isinstance(low, kind) and isinstance(high, kind)):
        raise SymbolicError(f"Variable {name}: its bounds are {word}, not {low!r} and {high!r}")
    if low > high:
        raise SymbolicError(
            f"Variable {name}: no number lies between {low} and {high}",
            help=f"the smaller bound comes first: Variable({name!r}, {high}, {low})",
        )

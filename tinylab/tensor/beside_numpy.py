"""Functions of numpy's that are given tensors: numpy's answer for their values.

numpy.sum(x)  ->  numpy.sum(numpy.asarray(x));  numpy.concatenate([x, array]) alike

Functions of elements, numpy.sin(x), ask `__array__` of their own accord. Without this module the
others would call the tensor's method of that name, in numpy's keywords. An operator beside an array
or number of numpy's is the tensor's (`__array_priority__`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinylab.errors import OperandError
from tinylab.tensor.core import TensorCore

# Functions that write to what they are given first: to a copy of a tensor's values, perhaps.
_WRITE = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})


def of_values(
    function: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What one of numpy's functions gives for arrays in the place of tensors.

    Raises: OperandError where it would write to a tensor.
    """
    import numpy as np

    if not all(issubclass(t, (np.ndarray, TensorCore)) for t in types):
        return NotImplemented  # another library's arrays: theirs is the next try
    written = [kwargs.get("out"), *(args[:1] if function.__name__ in _WRITE else ())]
    if any(isinstance(x, TensorCore) for x in written):
        raise OperandError(
            f"numpy.{function.__name__} cannot write to a Tensor",
            help="write its result to the tensor, x[...] = result",
        )
    return function(*map(_values, args), **{k: _values(v) for k, v in kwargs.items()})


def _values(x: Any) -> Any:
    """An argument with arrays for tensors, in lists and tuples too."""
    import numpy as np

    if isinstance(x, TensorCore):
        return np.asarray(x)
    return type(x)(map(_values, x)) if type(x) in (list, tuple) else x

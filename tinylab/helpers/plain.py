"""Numbers that are not Python's own, as Python's: numpy's, and whatever counts as an integer.

numpy.int64(2) -> 2; numpy.float32(0.5) -> 0.5, wherever a method is given one; where its annotation
asks for integers also an array of them, numpy.array([3, 2]) -> [3, 2], and what has `__index__`.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinylab.helpers.kinds import asks_for_numbers, is_node

# What stays as it is, told at a glance; a value of another type is looked at.
OWN = frozenset({int, float, bool, str, bytes, dict, type, type(None), type(Ellipsis)})


def may_be_number(x: Any) -> bool:
    """Whether a value that is of no own type, no list and no tuple may stand for a number."""
    if type(x) is slice:
        return any(type(p) not in OWN and may_be_number(p) for p in (x.start, x.stop, x.step))
    if hasattr(x, "__array_interface__"):
        return True
    return hasattr(x, "__index__") and not isinstance(x, (type, int)) and not is_node(x)


def plain_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call, with Python's numbers for what stands for one; None if none does."""
    plain, named = tuple(map(_number, args)), {k: _number(v) for k, v in kwargs.items()}
    changed = not all(map(operator.is_, (*plain, *named.values()), (*args, *kwargs.values())))
    found = (plain, named) if changed else None
    if not any(map(_is_other, (*plain, *named.values()))):
        return found
    signature, numbers = _signature(function)
    try:
        bound = signature.bind(*plain, **named)
    except TypeError:
        return found
    given = dict(bound.arguments)
    for name in numbers & given.keys():
        bound.arguments[name] = _counted(given[name])
    if all(bound.arguments[name] is given[name] for name in given):
        return found
    return bound.args, bound.kwargs


def _each(x: Any, change: Callable[[Any], Any]) -> Any:
    """A list, tuple or slice with its items changed; itself where none is."""
    items = (x.start, x.stop, x.step) if type(x) is slice else x
    found = [change(v) for v in items]
    if all(map(operator.is_, found, items)):
        return x
    if type(x) is slice:
        return slice(*found)
    return found if isinstance(x, list) else tuple(found)


def _number(x: Any) -> Any:
    """A number of numpy's as Python's, in lists, tuples and slices too; anything else as it is."""
    if type(x) in OWN:
        return x
    if isinstance(x, (list, tuple, slice)):
        return _each(x, _number)
    numpy = sys.modules.get("numpy")
    scalar: Any = getattr(numpy, "generic", ())
    if not isinstance(x, scalar):
        return x
    found = x.item()
    if isinstance(found, (int, float, str)):
        return found
    wide: Any = getattr(numpy, "longdouble", ())
    return float(x) if isinstance(x, wide) else x


def _is_other(x: Any) -> bool:
    if type(x) in OWN:
        return False
    if isinstance(x, (list, tuple)):
        return any(map(_is_other, x))
    return may_be_number(x)


def _counted(x: Any) -> Any:
    """What stands for a number, or is an array of them, where numbers are asked for."""
    if isinstance(x, dict):  # keywords of any name
        found = {k: _counted(v) for k, v in x.items()}
        return found if any(found[k] is not v for k, v in x.items()) else x
    if type(x) in OWN or is_node(x):
        return x
    if isinstance(x, (list, tuple, slice)):
        return _each(x, _counted)
    if hasattr(x, "__array_interface__"):
        return x.tolist() if hasattr(x, "tolist") else x  # text too: whoever asked refuses it
    try:
        return operator.index(x)
    except TypeError:
        return x


@functools.lru_cache(maxsize=4096)
def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, frozenset[str]]:
    """A function's signature, and the names of its parameters that ask for numbers."""
    signature = inspect.signature(function)
    scope = vars(sys.modules.get(function.__module__, sys))
    names = [p.name for p in signature.parameters.values() if asks_for_numbers(p, scope)]
    return signature, frozenset(names)

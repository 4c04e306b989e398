"""What is wrong with a call that failed, in a sentence: worked out from the signature, afterwards.

A call that works pays nothing. One that fails with Python's own words is held against its signature
and its annotations: an unknown keyword, a missing argument, or one of another kind is named.

    explain(topk, "topk", (tensor,), {"kk": 3}, "Tensor.")
    OperandError: topk takes no keyword 'kk'
    help: did you mean k?
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tinylab.errors import OperandError, TinylabError
from tinylab.helpers.text import closest

P = ParamSpec("P")
R = TypeVar("R")

# What Python itself raises on an argument of the wrong kind, somewhere inside.
PYTHON_ERRORS = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError)
_MOST_SHOWN = 60


class _Kind(NamedTuple):
    """What an annotation means: in words, and whether a value is one."""

    words: str
    holds: Callable[[Any], bool]


def _is_node(x: Any) -> bool:
    return hasattr(x, "uop") or (hasattr(x, "op") and hasattr(x, "src"))


def _is_int(x: Any) -> bool:
    return hasattr(x, "__index__") or (_is_node(x) and not hasattr(x, "uop"))


def _is_number(x: Any) -> bool:
    return not isinstance(x, str) and (hasattr(x, "__float__") or _is_int(x)) and not _is_tensor(x)


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "uop")


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Iterable) and not isinstance(x, (str, bytes, Mapping)) and not _is_node(x)


def _are(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda x: _is_sequence(x) and all(map(holds, x))


_INT = _Kind("an int", _is_int)
_INTS = _Kind("a sequence of ints", _are(_is_int))
_PART_SIZES = _Kind("a sequence of ints", _are(lambda x: x is None or _is_int(x)))
_PAIRS = _Kind(
    "a sequence of pairs of ints",
    _are(lambda x: x is None or (_are(_is_int)(x) and len(x) == 2)),
)
_NUMBER = _Kind("a number", _is_number)
_TENSOR = _Kind("a tensor", _is_node)
_NONE = _Kind("None", lambda x: x is None)
_REDUCTION = _Kind("'mean', 'sum' or 'none'", lambda x: x in ("mean", "sum", "none"))
_KINDS: dict[str, tuple[_Kind, ...]] = {
    "int": (_INT,),
    "float": (_NUMBER,),
    "bool": (_Kind("True or False", lambda x: isinstance(x, (bool, int)) or hasattr(x, "value")),),
    "str": (_Kind("a string", lambda x: isinstance(x, str)),),
    "None": (_NONE,),
    "Self": (_TENSOR,),
    "Tensor": (_TENSOR,),
    "PyConst": (_NUMBER,),
    "ConstType": (_Kind("a number", lambda x: _is_number(x) or type(x).__name__ == "InvalidType"),),
    "DTypeLike": (_Kind("a dtype", lambda x: isinstance(x, str) or type(x).__name__ == "DType"),),
    "Number": (_Kind("a number", lambda x: _is_number(x) or _is_int(x)),),
    "Size": (_INT,),
    "Sizes": (_INT, _INTS),
    "PartSizes": (_INT, _PART_SIZES, _NONE),
    "Sequence[Size]": (_INTS,),
    "DType": (_Kind("a dtype", lambda x: type(x).__name__ == "DType"),),
    "Ops": (_Kind("one of Ops", lambda x: type(x).__name__ == "Ops"),),
    "Sequence[str]": (_Kind("a sequence of strings", _are(lambda x: isinstance(x, str))),),
    "Sequence[Self]": (_Kind("a sequence of tensors", _are(_is_node)),),
    "Sequence[tuple[Size, Size] | None]": (_PAIRS,),
    "os.PathLike[str]": (_Kind("a path", lambda x: isinstance(x, (str, PathLike))),),
    "Axes": (_INT, _INTS, _NONE),
    "ReductionStr": (_REDUCTION,),
    "Sequence[int]": (_INTS,),
    "tuple[int, ...]": (_INTS,),
    "Sequence[Tensor]": (_Kind("a sequence of tensors", _are(_is_node)),),
    "list[Tensor]": (_Kind("a list of tensors", _are(_is_node)),),
    "dict[str, Tensor]": (_Kind("a dict of tensors", lambda x: isinstance(x, dict)),),
}


def _alternatives(annotation: str) -> list[str]:
    """The parts of a union: "int | Sequence[int | None]" -> "int", "Sequence[int | None]"."""
    found, depth = [""], 0
    for c in annotation:
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found]


def _kinds(annotation: Any) -> tuple[_Kind, ...] | None:
    """The kinds that a parameter takes; None where the annotation does not say."""
    found: list[_Kind] = []
    for name in _alternatives(str(annotation)):
        if name.startswith("Callable"):
            found.append(_Kind("a function", callable))
        elif name.startswith("list[Callable"):
            found.append(_Kind("a list of functions", _are(callable)))
        elif name in _KINDS:
            found += _KINDS[name]
        else:
            return None
    return tuple(dict.fromkeys(found))


def shown(x: Any) -> str:
    """An argument in a message: short, and a tensor by its shape."""
    if _is_tensor(x):
        return f"a tensor of shape {x.shape}"
    text = repr(x)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _wrong_kind(name: str, parameter: inspect.Parameter, value: Any) -> OperandError | None:
    kinds = _kinds(parameter.annotation)
    values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
    if kinds is None or parameter.kind is parameter.VAR_KEYWORD:
        return None
    for v in values:
        if v is not parameter.default and not any(kind.holds(v) for kind in kinds):
            words = " or ".join(dict.fromkeys(kind.words for kind in kinds))
            return OperandError(f"{name}: {parameter.name} is {words}, not {shown(v)}")
    return None


def _unfit(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> OperandError:
    """Why a call does not bind."""
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    takes = ", ".join(str(p).split(":")[0].split("=")[0].strip() for p in parameters)
    help = f"it takes {takes}" if parameters else "it takes no arguments"
    names = [p.name for p in parameters]
    for given in kwargs:
        if given not in names:
            near = closest(given, names)
            return OperandError(
                f"{name} takes no keyword {given!r}", help=f"did you mean {near}?" if near else help
            )
    filled = len(args) - (len(signature.parameters) - len(parameters))
    if filled < 0:
        return OperandError(f"{name} is called on a value, or gets it as its first argument")
    missing = [
        p.name
        for p in parameters[filled:]
        if p.default is p.empty and p.name not in kwargs
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]  # fmt: skip
    if missing:
        return OperandError(f"{name} needs {' and '.join(missing)}", help=help)
    twice = next((n for n in names[:filled] if n in kwargs), None)
    if twice is not None:
        return OperandError(f"{name} got {twice} twice", help=help)
    most = f"at most {len(names)} argument{'s' * (len(names) != 1)}" if names else "no argument"
    return OperandError(f"{name} takes {most}, not {filled}", help=help)


def explain(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> OperandError | None:
    """The first argument of a call that is not what the signature asks for; None if all are."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return _unfit(name, signature, args, kwargs)
    for parameter_name, value in bound.arguments.items():
        if parameter_name not in ("self", "cls"):
            found = _wrong_kind(name, signature.parameters[parameter_name], value)
            if found is not None:
                return found
    return None


_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


def _unknown_below(name: str, kwargs: Mapping[str, Any], error: Exception) -> OperandError | None:
    """A keyword that was handed on to another function, which does not take it."""
    found = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    if found is None or found[1] not in kwargs:
        return None
    return OperandError(
        f"{name} takes no keyword {found[1]!r}", help="it hands on dtype, device and the like"
    )


def explained_error(
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
) -> OperandError | None:
    """What a call that failed with Python's own words did wrong; None if no argument did it."""
    if isinstance(error, TinylabError):
        return None
    return explain(function, name, args, kwargs) or _unknown_below(name, kwargs, error)


def explained(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """A function whose failures by wrong arguments are told in a sentence."""
    called = function.__qualname__.removesuffix(".__init__") if name is None else name

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PYTHON_ERRORS as error:
            found = explained_error(function, called, args, kwargs, error)
            if found is None:
                raise
            raise found from error

    return checked


def explained_class(cls: type[R]) -> type[R]:
    """A class whose construction and calls are `explained`, by its own name."""
    for method in ("__init__", "__call__"):
        if method in vars(cls):
            setattr(cls, method, explained(vars(cls)[method], cls.__name__))
    return cls

"""What is wrong with a call that failed, in a sentence: worked out from the signature, afterwards.

A call that works pays nothing. One that fails with Python's own words is held against its signature
and its annotations: an unknown keyword, a missing argument, or one of another kind is named.

    explain(topk, "topk", (tensor,), {"kk": 3}, "Tensor.")
    OperandError: topk takes no keyword 'kk'
    help: did you mean k?
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from tinylab.errors import OperandError, TinylabError
from tinylab.helpers.kinds import is_tensor, kinds_of
from tinylab.helpers.near import closest
from tinylab.helpers.plain import plain_arguments

P = ParamSpec("P")
R = TypeVar("R")

# What Python itself raises on an argument of the wrong kind, somewhere inside.
PYTHON_ERRORS = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError)
_MOST_SHOWN = 60
_OURS = __name__.split(".")[0] + "."
_RECEIVERS = ("self", "cls", "_cls")


def shown(x: Any) -> str:
    """An argument in a message: short, and a tensor by its shape."""
    if is_tensor(x):
        return f"a tensor of shape {x.shape}"
    text = " ".join(repr(x).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _wrong_kind(
    name: str, parameter: inspect.Parameter, value: Any, scope: Mapping[str, Any]
) -> OperandError | None:
    kinds = kinds_of(parameter.annotation, scope)
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
    parameters = [p for p in signature.parameters.values() if p.name not in _RECEIVERS]
    takes = ", ".join(str(p).split(":")[0].split("=")[0].strip() for p in parameters)
    help = f"it takes {takes}" if parameters else "it takes no arguments"
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
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
    scope = vars(sys.modules.get(function.__module__, sys))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return _unfit(name, signature, args, kwargs)
    for parameter_name, value in bound.arguments.items():
        if parameter_name not in _RECEIVERS:
            found = _wrong_kind(name, signature.parameters[parameter_name], value, scope)
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


def _changeable(name: str, values: Sequence[Any], error: Exception) -> OperandError | None:
    """A list or dict where only what cannot change may be kept."""
    if not (isinstance(error, TypeError) and "unhashable" in str(error)):
        return None
    for value in values:
        if getattr(type(value), "__hash__", None) is None:
            return OperandError(
                f"{name} keeps what it is given, and {shown(value)} may change",
                help="give it a tuple",
            )
    return None


def _only_of_tensors(name: str, error: Exception) -> OperandError | None:
    """A method that expressions share with tensors, and that needs memory of its own."""
    trace, owner = error.__traceback__, getattr(error, "obj", None)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    here = trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS)
    if not (here and "UOp" in (type(owner).__name__, getattr(owner, "__name__", ""))):
        return None
    return OperandError(
        f"{name} of a UOp needs what only a tensor has", help=f"call Tensor(u).{name}"
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
    return (
        explain(function, name, args, kwargs)
        or _unknown_below(name, kwargs, error)
        or _changeable(name, (*args, *kwargs.values()), error)
        or _only_of_tensors(name, error)
    )


def explained(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """A function whose failures by wrong arguments are told in a sentence.

    One that fails on a number that is not Python's, such as numpy's, is called again with that.
    """
    called = name or re.sub(r"\.__(init|new)__$", "", function.__qualname__)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            # Only now, so that a call that works pays nothing.
            plain = plain_arguments(function, args, kwargs)
            if plain is None:
                if not isinstance(error, PYTHON_ERRORS):
                    raise
                found = explained_error(function, called, args, kwargs, error)
                if found is None:
                    raise
                raise found from error
        return checked(*plain[0], **plain[1])

    return checked


def explained_class(cls: type[R]) -> type[R]:
    """A class whose construction and calls are `explained`, by its own name."""
    for method in ("__new__", "__init__", "__call__"):
        found = getattr(vars(cls).get(method), "__func__", vars(cls).get(method))
        if inspect.isfunction(found) and not hasattr(found, "__wrapped__"):
            found.__module__ = cls.__module__  # a NamedTuple's is made elsewhere
            checked = explained(found, cls.__name__)
            setattr(cls, method, staticmethod(checked) if method == "__new__" else checked)
    return cls


def explained_methods(cls: type) -> None:
    """Every public method of a class, wherever it is inherited from, is `explained` there."""
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        if name.startswith("_"):
            continue
        if isinstance(raw, (classmethod, staticmethod)):
            setattr(cls, name, type(raw)(explained(raw.__func__, name)))
        elif inspect.isfunction(raw):
            setattr(cls, name, explained(raw, name))


def explained_names(names: dict[str, Any], *, classes: bool = True) -> None:
    """The public functions and classes of ours in a module's names are `explained`.

    In a module that only hands on, the functions stay as they are where they come from.
    """
    for name, found in list(names.items()):
        ours = getattr(found, "__module__", "").startswith(_OURS)
        if name.startswith("_") or not ours or getattr(found, "_is_protocol", False):
            continue
        if inspect.isclass(found):
            if classes and not issubclass(found, (BaseException, enum.Enum)):
                explained_class(found)
        elif inspect.isroutine(found) or hasattr(found, "cache_info"):
            names[name] = explained(found, name)

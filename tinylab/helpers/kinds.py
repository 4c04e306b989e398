"""What an annotation asks of an argument: in words, and whether a value is one.

"int | Sequence[int]"     ->  "an int", "a sequence of ints"
"dict[str, Tensor] | None" ->  "a dict of tensors", "None"

Names that this table does not know are looked up where the function was written: a class is
"a Renderer" and holds its instances, a type variable holds anything, an alias what it stands for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, NamedTuple, TypeVar


class Kind(NamedTuple):
    """What an annotation means: in words, of one and of several, and whether a value is one."""

    words: str
    several: str
    holds: Callable[[Any], bool]


def is_tensor(x: Any) -> bool:
    """Whether this is a Tensor, told by what it has: tensors stand in a row above."""
    return hasattr(x, "uop")


def is_node(x: Any) -> bool:
    """Whether this is a tensor or a node of the graph."""
    return is_tensor(x) or (hasattr(x, "op") and hasattr(x, "src"))


def _is_int(x: Any) -> bool:
    if isinstance(x, type):  # a class has the methods of its instances
        return False
    return hasattr(x, "__index__") or (is_node(x) and not is_tensor(x))


def _is_number(x: Any) -> bool:
    if isinstance(x, (str, type)) or is_tensor(x):
        return False
    return hasattr(x, "__float__") or _is_int(x)


def _is_sequence(x: Any) -> bool:
    if isinstance(x, (str, bytes, Mapping)) or is_node(x):
        return False
    return isinstance(x, Iterable) and getattr(x, "shape", None) != ()


def _are(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda x: _is_sequence(x) and all(map(holds, x))


def _named(name: str) -> Callable[[Any], bool]:
    """Told by the name of the class, for what stands in a row above."""
    return lambda x: any(c.__name__ == name for c in type(x).__mro__)


def _one(words: str, holds: Callable[[Any], bool], several: str = "") -> tuple[Kind, ...]:
    return (Kind(words, several or f"{words.split(' ', 1)[-1]}s", holds),)


_ANYTHING = _one("anything", lambda x: True, "things")
_INT = _one("an int", _is_int)
_INTS = _one("a sequence of ints", _are(_is_int), "sequences of ints")
_PART_SIZES = _one("a sequence of ints", _are(lambda x: x is None or _is_int(x)))
_PAIRS = _one(
    "a sequence of pairs of ints",
    _are(lambda x: x is None or (_are(_is_int)(x) and len(x) == 2)),
)
_NUMBER = _one("a number", _is_number)
_TENSOR = _one("a tensor", is_node)
_NONE = _one("None", lambda x: x is None, "None")
_PATH = _one("a path", lambda x: isinstance(x, (str, PathLike)))
_BYTES = _one("bytes", lambda x: isinstance(x, (bytes, bytearray, memoryview)), "bytes")
# fmt: off
_KINDS: dict[str, tuple[Kind, ...]] = {
    "Any": _ANYTHING,
    "object": _ANYTHING,
    "int": _INT,
    "float": _NUMBER,
    "bool": _one("True or False", lambda x: isinstance(x, (bool, int)) or hasattr(x, "value"),
                 "True or False"),
    "str": _one("a string", lambda x: isinstance(x, str)),
    "bytes": _BYTES,
    "bytearray": _BYTES,
    "memoryview": _BYTES,
    "None": _NONE,
    "Self": _TENSOR,
    "Tensor": _TENSOR,
    "PyConst": _NUMBER,
    "ConstType": _one("a number", lambda x: _is_number(x) or type(x).__name__ == "InvalidType"),
    "DTypeLike": _one("a dtype", lambda x: isinstance(x, str) or _named("DType")(x)),
    "Number": _one("a number", lambda x: _is_number(x) or _is_int(x)),
    "Size": _INT,
    "Sint": _INT,
    "Sizes": _INT + _INTS,
    "PartSizes": _INT + _PART_SIZES + _NONE,
    "Sequence[tuple[Size, Size] | None]": _PAIRS,
    "tuple[int, ...]": _INTS,
    "DType": _one("a dtype", _named("DType")),
    "Ops": _one("one of Ops", _named("Ops"), "members of Ops"),
    "UOp": _one("a UOp", _named("UOp")),
    "Buffer": _one("a buffer", _named("Buffer")),
    "MultiBuffer": _one("a buffer", _named("MultiBuffer")),
    "os.PathLike[str]": _PATH,
    "pathlib.Path": _PATH,
    "Axes": _INT + _INTS + _NONE,
    "ReductionStr": _one("'mean', 'sum' or 'none'", lambda x: isinstance(x, str)
                         and x in ("mean", "sum", "none")),
}
_SEQUENCES = {"Sequence": "a sequence", "Iterable": "a sequence", "list": "a list",
              "tuple": "a sequence", "set": "a set", "frozenset": "a set"}
# fmt: on


def _parts(text: str, separator: str) -> list[str]:
    """What stands between separators outside brackets: "int | list[int | None]" -> two parts."""
    found, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == separator and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found]


def _fit(values: Any, each: list[tuple[Kind, ...]]) -> bool:
    """Whether values are as many as kinds are asked for, and each is one of its own."""
    return (
        _is_sequence(values)
        and len(found := list(values)) == len(each)
        and all(any(k.holds(v) for k in kinds) for v, kinds in zip(found, each, strict=True))
    )


def _of_several(words: str, inside: str, scope: Mapping[str, Any]) -> tuple[Kind, ...] | None:
    """Sequences, by what is in them: "list[Tensor]" -> "a list of tensors"."""
    items = [part for part in _parts(inside, ",") if part != "..."]
    if len(set(items)) > 1:
        each = [kinds_of(item, scope) or _ANYTHING for item in items]
        return _one(f"{words} of {len(each)}", lambda x: _fit(x, each))
    kinds = kinds_of(items[0], scope)
    if kinds is None or kinds is _ANYTHING:
        return _one(words, _is_sequence)
    several = " or ".join(dict.fromkeys(kind.several for kind in kinds))
    return _one(f"{words} of {several}", _are(lambda x: any(k.holds(x) for k in kinds)))


def _with_brackets(name: str, scope: Mapping[str, Any]) -> tuple[Kind, ...] | None:
    outer, _, inside = name.removesuffix("]").partition("[")
    if outer in _SEQUENCES:
        return _of_several(_SEQUENCES[outer], inside, scope)
    if outer == "Callable":
        return _one("a function", callable)
    if outer == "type":
        return _one("a class", lambda x: isinstance(x, type))
    if outer in ("dict", "Mapping"):
        value = kinds_of(_parts(inside, ",")[-1], scope)
        of = "" if value in (None, _ANYTHING) else f" of {value[0].several}"
        return _one(f"a dict{of}", lambda x: isinstance(x, Mapping))
    return None


def _looked_up(name: str, scope: Mapping[str, Any]) -> tuple[Kind, ...] | None:
    """A name of the module in which the function was written."""
    found = scope.get(name)
    if found is Any or isinstance(found, TypeVar):
        return _ANYTHING
    if inspect.isclass(found):
        vowel = "n" * (name[0] in "AEIOU")
        return _one(f"a{vowel} {name}", lambda x: isinstance(x, found))
    return None if found is None else kinds_of(str(found), {})


def kinds_of(annotation: Any, scope: Mapping[str, Any]) -> tuple[Kind, ...] | None:
    """The kinds that a parameter takes; None where the annotation does not say.

    scope: what the names in the annotation mean where it was written.
    """
    text = annotation if isinstance(annotation, str) else _as_text(annotation)
    if text in _KINDS:
        return _KINDS[text]
    found: list[Kind] = []
    for name in _parts(text, "|"):
        kinds = _KINDS.get(name)
        if kinds is None:
            bare = name + "[]" if name in {*_SEQUENCES, "dict", "Callable", "type"} else name
            kinds = (_with_brackets if "[" in bare else _looked_up)(bare, scope)
        if kinds is None:
            return None
        found += kinds
    return tuple(dict.fromkeys(found))


def asks_for_numbers(parameter: inspect.Parameter, scope: Mapping[str, Any]) -> bool:
    """Whether a parameter takes numbers or sequences of them, and neither tensors nor anything."""
    kinds = kinds_of(parameter.annotation, scope)
    if kinds is None or any(kind in _ANYTHING + _TENSOR for kind in kinds):
        return False
    return any(kind.holds(x) for kind in kinds for x in (1, (1,), ((1, 1),)))


def _as_text(annotation: Any) -> str:
    """An annotation that was evaluated, or the ForwardRef of a NamedTuple's field, as written."""
    inner = getattr(annotation, "__forward_arg__", None)
    if inner is not None:
        return str(inner)
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation)

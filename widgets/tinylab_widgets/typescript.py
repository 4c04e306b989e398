"""Types of messages printed as TypeScript, so that one declaration serves both sides."""

import types
from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, Union, get_args, get_origin, get_type_hints


class Columns:
    """Columns of numbers by name: numpy arrays here, typed arrays there."""


_WORDS = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null"}


def typescript_of(hint: object) -> str:
    """A Python type as TypeScript.

    list[int] | None  ->  readonly number[] | null
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is NotRequired:
        return typescript_of(args[0])
    if origin is Literal:
        return " | ".join(f'"{word}"' for word in args)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(typescript_of(arg) for arg in args))
    if origin is list:
        return f"readonly {_grouped(typescript_of(args[0]))}[]"
    if origin is dict:
        return f"{{ readonly [key: {typescript_of(args[0])}]: {typescript_of(args[1])} }}"
    return getattr(hint, "__name__", str(hint))


def _grouped(text: str) -> str:
    return f"({text})" if "|" in text else text


def interface(message: type) -> str:
    """One TypedDict as a TypeScript interface."""
    hints = get_type_hints(message, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    rows = [
        f"  readonly {name.rstrip('_')}{'?' if name in optional else ''}: {typescript_of(hint)};"
        for name, hint in hints.items()
    ]
    doc = (message.__doc__ or "").strip().splitlines()[0]
    return "\n".join([f"/** {doc} */", f"export interface {message.__name__} {{", *rows, "}"])


def module(
    home: str,
    messages: Sequence[type],
    aliases: Mapping[str, object],
    asks: Mapping[str, type],
    answers: str,
) -> str:
    """All messages of a module as one TypeScript module; ``answers`` names the type of answers."""
    lines = "\n".join(f"  readonly {name}: {answer.__name__};" for name, answer in asks.items())
    interfaces = [interface(message) for message in messages]
    parts = [f"// Printed by `python -m {home}`; change that file, not this one."]
    if any("Columns" in text for text in interfaces):
        parts.append('import type { Columns } from "./columns.ts";')
    parts += [f"export type {name} = {typescript_of(alias)};" for name, alias in aliases.items()]
    parts += interfaces
    parts.append(
        f"/** What each question is answered with. */\nexport interface {answers} {{\n{lines}\n}}"
    )
    return "\n\n".join(parts) + "\n"

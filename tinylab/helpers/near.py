"""The name that was meant, where one is near."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable

from tinylab.errors import MemberError


def closest(name: str, names: Iterable[str]) -> str | None:
    """The nearest of some names, if one is near: "CLAG" of CLANG, LLVM -> CLANG."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return near[0] if near else None


def no_member(kind: type[enum.Enum], value: object) -> MemberError:
    """What an enumeration says of a value that it lacks: OptOps("UPCAS") -> OptOps.UPCAST."""
    names = [member.name for member in kind]
    near = closest(str(value).upper(), names)
    help = f"write {kind.__name__}.{near}" if near else f"there are {', '.join(names)}"
    return MemberError(f"no {kind.__name__} is {value!r}", help=help)

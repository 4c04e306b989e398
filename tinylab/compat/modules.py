"""Stand-ins for foreign modules: lookups by the table, made when first asked for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from tinylab.compat.table import ABSENT, FOREIGN, HOMES, NAMES, OURS
from tinylab.helpers.arguments import explained
from tinylab.helpers.near import closest

_made: dict[str, StandIn] = {}
_MISSING = object()


class StandIn(ModuleType):
    """A foreign module: its names are tinylab's, found when they are asked for.

    It is a package even where the foreign module is not, so that Python asks the finder for a name
    that is missing, and the finder can say why.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path}, as tinylab has it")
        self.__path__: list[str] = []
        # What Python shows beside a name that could not be imported.
        self.__file__ = getattr(_load(homes(path)[0]), "__file__", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            if name == "__all__":
                return public_names(self.__name__)
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = find(self.__name__, name)
        if found is _MISSING:
            raise AttributeError(sentence(self.__name__, name))
        return found

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *public_names(self.__name__)})


def is_foreign(path: str) -> bool:
    """Whether a module is the foreign package or lies in it."""
    return path == FOREIGN or path.startswith(FOREIGN + ".")


def homes(path: str) -> tuple[str, ...]:
    """The modules here that a foreign module's names come from."""
    return HOMES.get(path, (OURS + path[len(FOREIGN) :],))


def exists(path: str) -> bool:
    """Whether a foreign module has a counterpart here."""
    if not is_foreign(path):
        return False
    if any(each == path or each.startswith(path + ".") for each in HOMES):
        return True
    return any(m == path for m, _ in NAMES) or _spec_of(homes(path)[0])


def _spec_of(home: str) -> bool:
    try:
        return importlib.util.find_spec(home) is not None
    except (ModuleNotFoundError, ValueError):
        return False


@explained
def module(path: str) -> StandIn:
    """The module that stands for a foreign one.

    module("tinygrad.nn.state").safe_load is tinylab.nn.state.safe_load

    Raises: ImportError for a module that exists nowhere, in a sentence.
    """
    if path not in _made:
        if not exists(path):
            raise ModuleNotFoundError(_no_module(path), name=path)
        _made[path] = StandIn(path)
    return _made[path]


@explained
def take(path: str, name: str) -> Any:
    """A name of a foreign module, or a module below it.

    Raises: ImportError for a name that exists nowhere, in a sentence.
    """
    found = getattr(module(path), name, _MISSING)
    if found is _MISSING:
        raise ImportError(sentence(path, name), name=path)
    return found


def all_of(path: str) -> dict[str, Any]:
    """What `from path import *` binds."""
    return {name: take(path, name) for name in public_names(path)}


def find(path: str, name: str) -> Any:
    """A name by the table, then in the module's home, then as a module below; or _MISSING."""
    known = NAMES.get((path, name))
    if known is not None:
        home, own = known.split(":")
        return getattr(_load(home), own, _MISSING)
    for home in homes(path):
        found = getattr(_load(home), name, _MISSING)
        if isinstance(found, ModuleType) and found.__name__.split(".")[0] == OURS:
            break  # a module of ours: its stand-in is wanted
        if found is not _MISSING:
            return found
    below = f"{path}.{name}"
    return module(below) if exists(below) else _MISSING


def _load(home: str) -> Any:
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as e:
        # A part of the table without a home of its own, such as "tinygrad.llm".
        if e.name is not None and home.startswith(e.name):
            return None
        raise


def public_names(path: str) -> list[str]:
    """The names that `from path import *` takes."""
    names = {name for where, name in NAMES if where == path}
    for home in homes(path):
        found = _load(home)
        own = getattr(found, "__all__", None) or dir(found) if found is not None else []
        names.update(n for n in own if not n.startswith("_"))
    return sorted(n for n in names if find(path, n) is not _MISSING)


def sentence(path: str, name: str) -> str:
    """Why a name cannot be had."""
    for prefix in _prefixes(f"{path}.{name}"):
        if prefix in ABSENT:
            return f"tinylab has no {name!r} of {path}: {ABSENT[prefix]}"
    near = closest(name, public_names(path))
    hint = f", did you mean {near}?" if near else ""
    return f"cannot import name {name!r} from {path!r}: tinylab has no such name{hint}"


def _no_module(path: str) -> str:
    for prefix in _prefixes(path):
        if prefix in ABSENT:
            return f"tinylab has no {path!r}: {ABSENT[prefix]}"
    return f"tinylab has no module that stands for {path!r}"


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]


def real_is_loaded() -> bool:
    """Whether the foreign package itself was imported in this process."""
    found = sys.modules.get(FOREIGN)
    return found is not None and not isinstance(found, StandIn)

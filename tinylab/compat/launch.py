"""A script or a module run as Python runs it: it is `__main__` to the end, atexit handlers too."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType
from typing import Any


def run_script(path: str, arguments: list[str]) -> None:
    """Run a file; a folder or an archive runs its `__main__`. arguments: what follows the path."""
    sys.argv = [path, *arguments]
    if pkgutil.get_importer(path) is not None:
        sys.path[0] = path
        _run_spec(*_found("__main__", [path]))
        return
    # As Python does: the script goes by the name it was given, its neighbours by where it lies.
    place, sys.path[0] = os.path.abspath(path), os.path.dirname(os.path.realpath(path))
    loader: SourcelessFileLoader | SourceFileLoader
    if path.endswith(".pyc"):
        loader = SourcelessFileLoader("__main__", place)
        code = loader.get_code("__main__")
    else:
        loader = SourceFileLoader("__main__", place)
        code = loader.source_to_code(loader.get_data(place), place)
    _run(code, __file__=place, __loader__=loader, __cached__=None)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module, or a package's `__main__`, from the working directory or an installed one.

    Raises: SystemExit for a module that is not found, or that cannot be run.
    """
    sys.path[0] = os.getcwd()
    sys.argv = ["-m", *arguments]
    spec, code = _found(name)
    sys.argv[0] = getattr(spec, "origin", None) or name
    _run_spec(spec, code)


def _found(name: str, places: list[str] | None = None) -> tuple[ModuleSpec, CodeType]:
    """(the spec of what is to run, its code), in these places or wherever modules are.

    Raises: SystemExit where there is none.
    """
    try:
        spec = PathFinder.find_spec(name, places) if places else importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as e:
        if not name.startswith(e.name or " "):
            raise  # a package above it lacks something else
        spec = None
    get_code = getattr(spec and spec.loader, "get_code", None)
    code = get_code(spec.name) if spec is not None and get_code is not None else None
    if spec is None or code is None:
        raise SystemExit(f"{places[0] if places else 'the path'} has no {name} that can be run")
    return spec, code


def _run_spec(spec: ModuleSpec, code: CodeType) -> None:
    about = {"__file__": spec.origin, "__loader__": spec.loader, "__cached__": spec.cached}
    _run(code, **about, __spec__=spec, __package__=spec.parent)


def _run(code: CodeType | None, **about: Any) -> None:
    """Run code as `__main__`, which then stays for whatever comes later."""
    main = ModuleType("__main__")
    vars(main).update({"__annotations__": {}, "__builtins__": sys.modules["builtins"], **about})
    sys.modules["__main__"] = main
    if code is not None:
        exec(code, vars(main))

"""`import tinygrad` means tinylab, everywhere in this process, from `alias()` on."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

from tinylab.compat.modules import StandIn, exists, is_foreign, module, real_is_loaded, sentence
from tinylab.compat.table import FOREIGN
from tinylab.errors import CompatError
from tinylab.helpers.arguments import explained


class Finder(importlib.abc.MetaPathFinder):
    """Answers for the foreign package before any folder is looked at."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The stand-in's spec.

        Raises: ImportError, in a sentence, for a module or a name that exists nowhere.
        """
        if not is_foreign(name):
            return None
        if not exists(name):
            parent, _, last = name.rpartition(".")
            if exists(parent):
                # No ModuleNotFoundError: Python drops the sentence of one.
                raise ImportError(sentence(parent, last), name=name)
            module(name)  # raises, in a sentence
        return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)


class Loader(importlib.abc.Loader):
    """Hands out the stand-in, which is complete."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> StandIn:
        """The stand-in."""
        return module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


@explained
def alias() -> None:
    """From now on, `import tinygrad` and all below it mean tinylab in this process.

    Raises: CompatError when tinygrad itself is already imported here.
    """
    if real_is_loaded():
        where = getattr(sys.modules[FOREIGN], "__file__", None) or "this process"
        raise CompatError(
            f"tinygrad itself is already imported, from {where}: its name cannot mean two things",
            help="call tinylab.compat.alias() before anything imports tinygrad",
        )
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())

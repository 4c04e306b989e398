"""Processes that `multiprocessing` starts anew know the alias too.

A child of the spawn or forkserver method runs the parent's script once more, as `__mp_main__`,
before it has loaded anything of ours. What it needs for that reaches it pickled; an entry that we
add runs this file as it is read, by its path, for the parent's sys.path comes later.
"""

from __future__ import annotations

import runpy
import sys
from multiprocessing import spawn
from pathlib import Path
from typing import Any

_IN_CHILD = "__tinylab_child__"
_FORK_SERVER = "ignore"  # the name that multiprocessing asks with for the server itself


class _Alias:
    """Where it is unpickled, the alias is put in place."""

    def __reduce__(self) -> Any:
        return runpy.run_path, (__file__, None, _IN_CHILD)


def follow_into_children() -> None:
    """From now on the children of this process, and theirs, start with the alias in place."""
    prepared = spawn.get_preparation_data

    def with_alias(name: str) -> dict[str, Any]:
        data = prepared(name)
        if name == _FORK_SERVER:
            # It would import the script for all children at once, and without the alias.
            return {key: value for key, value in data.items() if "main" not in key}
        return {**data, "tinylab_alias": _Alias()}

    spawn.get_preparation_data = with_alias


def root() -> str:
    """The folder that tinylab lies in."""
    return str(Path(__file__).parents[2])


def _begin_child() -> None:
    sys.path.append(root())
    from tinylab.compat.alias import alias
    from tinylab.compat.children import follow_into_children

    alias()
    follow_into_children()


if __name__ == _IN_CHILD:
    _begin_child()

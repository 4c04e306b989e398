"""Where a tensor node was made: the frames of the user's code, and the tensor method.

While someone records, the tensor language notes each node it makes. What follows from that for
nodes that rules make, and for kernels, is worked out in `lineage` when asked for.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType
from typing import NamedTuple

from tinylab.trace.record import active
from tinylab.uop.ops import UOp


class Frame(NamedTuple):
    """One line of the user's code on the way to a tensor method."""

    filename: str
    line: int
    function: str


_OURS, _USERS, _HOST = range(3)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_HOSTS = ("IPython", "ipykernel", "tinylab_widgets", "_pytest", "nbclient", "marimo")
_HOST_PARTS = tuple(f"{os.sep}{name}{os.sep}" for name in _HOSTS)
_sort_of_file: dict[str, int] = {}


def note(uop: UOp, method: str) -> None:
    """Remember that a tensor method made this node, and from where it was called."""
    records = active()
    if not records:
        return
    frames = user_frames()
    for record in records:
        record.note(uop, frames, method)


def user_frames() -> tuple[Frame, ...]:
    """The frames of the user's code, innermost first; tinylab's own are left out.

    The walk ends where the program that runs the user's code begins (a notebook kernel, pytest).
    """
    found: list[Frame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        sort = _sort_of_file.get(code.co_filename)
        if sort is None:
            sort = _sort_of_file[code.co_filename] = _sort(code.co_filename)
        if sort == _USERS:
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        elif sort == _HOST and found:
            break
        frame = frame.f_back
    return tuple(found)


def user_line() -> str:
    """The innermost line of the user's code, as file:line; empty where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        sort = _sort_of_file.get(name)
        if sort is None:
            sort = _sort_of_file[name] = _sort(name)
        if sort == _USERS:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _sort(filename: str) -> int:
    if filename.startswith(_PACKAGE) or filename.startswith("<string>"):
        return _OURS
    hosted = filename.startswith((_STDLIB, "<frozen")) and "-packages" not in filename
    return _HOST if hosted or any(part in filename for part in _HOST_PARTS) else _USERS

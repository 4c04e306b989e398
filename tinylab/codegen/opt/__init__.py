"""Opts: changes of a kernel's loops as data, that can be chosen, searched, shown and edited.

Opt(OptOps.UPCAST, 1, 4): the axis at position 1 gives its inner 4 steps to vector lanes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tinylab.errors import KernelOptError
from tinylab.helpers.arguments import explained_names
from tinylab.helpers.near import no_member

__all__ = ["KernelOptError", "Opt", "OptOps", "check"]


class OptOps(enum.Enum):
    """What an opt does to its axis; `opt.actions` has a function for each."""

    TC = enum.auto()
    UPCAST = enum.auto()
    UNROLL = enum.auto()
    LOCAL = enum.auto()
    THREAD = enum.auto()
    GROUP = enum.auto()
    GROUPTOP = enum.auto()
    NOLOCALS = enum.auto()
    PADTO = enum.auto()
    SWAP = enum.auto()

    def __lt__(self, other: OptOps) -> bool:
        return bool(self.value < other.value)

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise no_member(cls, value)

    def __repr__(self) -> str:
        return f"OptOps.{self.name}"


class Opt(NamedTuple):
    """One change: the operation, the axis (a position, see `opt.kernel`), an amount.

    arg is 0 for the whole axis; SWAP's is the other axis, TC's a triple.
    """

    op: OptOps
    axis: int | None = None
    arg: int | tuple[int, ...] | None = None


def check(holds: bool, message: str, help: str | None = None) -> None:
    """Refuse an opt with a sentence that says why.

    Raises: KernelOptError unless the condition holds.
    """
    if not holds:
        raise KernelOptError(message, help=help)


explained_names(globals())

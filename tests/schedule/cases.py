"""A rule's case: where it fires, what must hold of the result, and near misses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp


@dataclass
class Case:
    """fires: (before, what must hold of the result); holds: nodes that must stay."""

    fires: list[tuple[UOp, Callable[[UOp], bool]]]
    holds: list[UOp]
    ctx: Callable[[], Any] = itertools.count


def is_(node: UOp) -> Callable[[UOp], bool]:
    return lambda found: found is node


def has(op: Ops) -> Callable[[UOp], bool]:
    return lambda found: found.op is op

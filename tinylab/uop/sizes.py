"""Questions about sizes, which are ints or expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinylab.errors import OperandError
from tinylab.helpers.arguments import explained
from tinylab.uop.moves import Sint, sint_to_uop
from tinylab.uop.node import UOp

# Variable("n", 1, 10).bind(3): a size that is known only when a computation runs.
Variable = explained(UOp.variable, "Variable")


def resolve(cond: UOp | bool, default: bool = True) -> bool:
    """A condition on sizes as a bool; the default where it is not decided."""
    if isinstance(cond, (bool, int)):
        return bool(cond)
    lo, hi = cond.bounds
    if lo == hi:
        return bool(lo)
    lo, hi = cond.simplify().bounds
    return bool(lo) if lo == hi else default


def smax(*sizes: Sint | Sequence[Sint]) -> Any:
    """The largest of some sizes; an expression where bounds do not decide."""
    return _pick(sizes, largest=True)


def smin(*sizes: Sint | Sequence[Sint]) -> Any:
    """The smallest of some sizes; an expression where bounds do not decide."""
    return _pick(sizes, largest=False)


def _pick(sizes: tuple[Any, ...], largest: bool) -> Any:
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    if not sizes:
        raise OperandError(f"{'smax' if largest else 'smin'} needs a size")
    if all(isinstance(s, int) for s in sizes):
        return max(sizes) if largest else min(sizes)
    found = sint_to_uop(sizes[0])
    for s in sizes[1:]:
        other = sint_to_uop(s)
        found = found.maximum(other) if largest else found.minimum(other)
    return found.ssimplify()


def ssimplify(x: Sint) -> Any:
    """A size simplified to an int where it is one."""
    return x if isinstance(x, int) else x.ssimplify()


def sym_infer(x: Sint, var_vals: dict[str, int]) -> int:
    """A size with the given values of its variables."""
    return x if isinstance(x, int) else x.sym_infer(var_vals)

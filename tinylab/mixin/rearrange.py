"""Axes rearranged by a formula in words."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from tinylab.errors import OperandError, ShapeError
from tinylab.mixin.base import shape_text
from tinylab.mixin.movement import MovementMixin

if TYPE_CHECKING:
    from typing import Self

_TOKEN = re.compile(r"\s*(\(|\)|\.\.\.|1\b|[A-Za-z_]\w*)")


# What a "..." outside of brackets stands for: any number of axes.
_HIDDEN = ["*"]


class Side(NamedTuple):
    """One side of a formula: a list of names for each axis, or `_HIDDEN` for several axes."""

    axes: list[list[str]]

    @property
    def names(self) -> list[str]:
        """All names in order."""
        return [name for axis in self.axes for name in axis]


class RearrangeMixin(MovementMixin):
    """Reshape, permute and reshape again, as a formula says."""

    __slots__ = ()

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """The axes named, split, moved and joined: names in brackets share an axis.

        (2, 12).rearrange("b (h w) -> w b h", h=3) -> (4, 2, 3)

        Raises: OperandError for a formula that is none, or sizes that it does not name;
        ShapeError when it does not fit the shape.
        Source: Rogozhnikov, "Einops: Clear and Reliable Tensor Manipulations", 2022.
        """
        left, right = _sides(formula)
        hidden = self.ndim - sum(axis != _HIDDEN for axis in left.axes)
        if hidden < 0 or (hidden and _HIDDEN not in left.axes):
            raise ShapeError(f"rearrange: {formula!r} does not fit shape {shape_text(self.shape)}")
        left, right = (_with_hidden(side, hidden) for side in (left, right))
        known = _named_sizes(formula, left, self.shape, sizes)
        if sorted(left.names) != sorted(right.names):
            raise OperandError(f"rearrange: both sides of {formula!r} must have the same names")
        x = self.reshape(tuple(known[name] for name in left.names))
        x = x.permute(tuple(left.names.index(name) for name in right.names))
        return x.reshape(tuple(math.prod(known[name] for name in axis) for axis in right.axes))


def _sides(formula: str) -> tuple[Side, Side]:
    parts = formula.split("->")
    if len(parts) != 2:
        raise OperandError(f"rearrange: {formula!r} needs one '->'", help='write "a b -> b a"')
    left, right = (_parse(part, formula) for part in parts)
    for side in (left, right):
        if len(set(side.names)) != len(side.names):
            raise OperandError(f"rearrange: a name occurs twice on one side of {formula!r}")
    return left, right


def _parse(text: str, formula: str) -> Side:
    axes: list[list[str]] = []
    group: list[str] | None = None
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise OperandError(f"rearrange: cannot read {text[at:].strip()!r} in {formula!r}")
        token, at = found.group(1), found.end()
        if token == "(" and group is None:
            group = []
            axes.append(group)
        elif token == ")" and group is not None:
            group = None
        elif token in "()":
            raise OperandError(f"rearrange: brackets do not match in {formula!r}")
        elif group is not None:
            group.extend([] if token == "1" else [token])
        else:
            axes.append({"1": [], "...": _HIDDEN}.get(token, [token]))
    if group is not None:
        raise OperandError(f"rearrange: brackets do not match in {formula!r}")
    return Side(axes)


def _with_hidden(side: Side, count: int) -> Side:
    """The axes that "..." stands for under names of their own."""
    names = [f"...{i}" for i in range(count)]
    axes: list[list[str]] = []
    for axis in side.axes:
        if axis == _HIDDEN:
            axes += [[name] for name in names]
        else:
            axes.append([n for name in axis for n in (names if name == "..." else [name])])
    return Side(axes)


def _named_sizes(
    formula: str, side: Side, shape: tuple[int, ...], sizes: dict[str, int]
) -> dict[str, int]:
    """The size of each name; one in each bracket may be worked out."""
    unknown = sizes.keys() - set(side.names)
    if unknown:
        raise OperandError(f"rearrange: {formula!r} has no {sorted(unknown)[0]!r}")
    known = dict(sizes)
    for names, size in zip(side.axes, shape, strict=True):
        open_names = [name for name in names if name not in known]
        rest = math.prod(known[name] for name in names if name in known)
        if len(open_names) > 1:
            raise OperandError(
                f"rearrange: sizes of {open_names} in {formula!r} are not known",
                help=f"give all but one, as in {open_names[0]}=2",
            )
        if (open_names and (rest == 0 or size % rest)) or (not open_names and rest != size):
            raise ShapeError(
                f"rearrange: axis of size {size} in {formula!r} is no {rest} times more"
            )
        if open_names:
            known[open_names[0]] = size // rest
    return known

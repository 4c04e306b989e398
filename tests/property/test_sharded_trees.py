"""Random expressions of tensors that are cut along different axes give what numpy gives.

The leaves are cut into rows, cut into columns, whole on every device, or positions that are nowhere
until they are used; so parts that depend on which device they are on go to another device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from tinylab import Context, Tensor

SIZE = 4
DEVICES = ("CPU", "CPU:1", "CPU:2", "CPU:3")
Tree = tuple[Any, ...]


class Operation(NamedTuple):
    """What a node does, in both languages, to squares of integers."""

    ours: Callable[..., Tensor]
    right: Callable[..., Any]


# fmt: off
UNARY = {
    "turned": Operation(lambda x: x.T, lambda x: x.T),
    "upside down": Operation(lambda x: x.flip(0), lambda x: np.flip(x, 0)),
    "reversed": Operation(lambda x: x.flip(1), lambda x: np.flip(x, 1)),
    "upper": Operation(lambda x: x.triu(), np.triu),
    "rolled": Operation(lambda x: x.roll(1, 0), lambda x: np.roll(x, 1, 0)),
    "less sums": Operation(lambda x: x - x.sum(0, keepdim=True),
                           lambda x: x - x.sum(0, keepdims=True)),
    "less maxima": Operation(lambda x: x - x.max(1, keepdim=True),
                             lambda x: x - x.max(1, keepdims=True)),
    "shifted": Operation(lambda x: x[1:].pad(((1, 0), (0, 0))),
                         lambda x: np.pad(x[1:], ((1, 0), (0, 0)))),
    "squeezed": Operation(lambda x: x[:, 1:3].pad(((0, 0), (0, 2))),
                          lambda x: np.pad(x[:, 1:3], ((0, 0), (0, 2)))),
    "marked": Operation(lambda x: (x > 0).where(1, 2),
                        lambda x: np.where(x > 0, 1, 2).astype(np.int32)),
    "first row": Operation(lambda x: x + x[0], lambda x: x + x[0]),
    "last column": Operation(lambda x: x * x[:, 3:], lambda x: x * x[:, 3:]),
}
BINARY = {
    "+": Operation(lambda x, y: x + y, lambda x, y: x + y),
    "*": Operation(lambda x, y: x * y, lambda x, y: x * y),
    "@": Operation(lambda x, y: x @ y, lambda x, y: x @ y),
    "under": Operation(lambda x, y: x.cat(y)[2:6], lambda x, y: np.concatenate([x, y])[2:6]),
    "beside": Operation(lambda x, y: x.cat(y, dim=1)[:, 3:7],
                        lambda x, y: np.concatenate([x, y], 1)[:, 3:7]),
}
# fmt: on
LEAVES: dict[str, int | None] = {"rows": 0, "columns": 1, "whole": None}
POSITIONS = "positions"


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.sampled_from([(name,) for name in (*LEAVES, POSITIONS)])
    return st.recursive(
        leaves,
        lambda inner: (
            st.tuples(st.sampled_from(sorted(UNARY)), inner)
            | st.tuples(st.sampled_from(sorted(BINARY)), inner, inner)
        ),
        max_leaves=6,
    )


def value(tree: Tree, leaves: dict[str, Any], ours: bool) -> Any:
    """A tree's value on tensors (ours) or arrays; int32 wraps round in both."""
    name, *inner = tree
    if not inner:
        return leaves[name]
    operation = (UNARY if len(inner) == 1 else BINARY)[name]
    of = [value(t, leaves, ours) for t in inner]
    return operation.ours(*of) if ours else operation.right(*of)


def check(tree: Tree, count: int) -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(-5, 6, (SIZE, SIZE)).astype(np.int32) for n in LEAVES}
    tensors = {n: Tensor(a).shard(DEVICES[:count], LEAVES[n]).realize() for n, a in arrays.items()}
    arrays[POSITIONS] = np.arange(SIZE * SIZE, dtype=np.int32).reshape(SIZE, SIZE)
    tensors[POSITIONS] = Tensor.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    np.testing.assert_array_equal(value(tree, tensors, True).numpy(), value(tree, arrays, False))


X, Y, R, P = (("rows",), ("columns",), ("whole",), (POSITIONS,))
SETTINGS = {"naive": {"RING": 0}, "ring": {"RING": 2}, "all to all": {"ALL2ALL": 2}}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("way", SETTINGS)
@given(tree=trees())
@example(tree=("+", ("*", X, R), Y))
@example(tree=("+", ("+", Y, R), X))
@example(tree=("+", ("+", X, ("@", X, X)), Y))
@example(tree=("+", ("+", Y, ("@", X, X)), X))
@example(tree=("+", ("turned", ("upper", X)), X))
@example(tree=("*", ("turned", ("+", X, P)), X))
@example(tree=("less sums", ("+", ("+", X, ("@", X, X)), ("turned", X))))
@settings(max_examples=max(settings().max_examples // 10, 1))
def test_a_tree_over_several_devices_is_numpys(way: str, count: int, tree: Tree) -> None:
    with Context(NOOPT=1, **SETTINGS[way]):
        check(tree, count)

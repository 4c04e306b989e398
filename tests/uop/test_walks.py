"""The order of `toposort` against the recursion that it stands for."""

from __future__ import annotations

import random
from collections.abc import Callable

from tinylab.dtype import dtypes
from tinylab.uop.ops import Ops, UOp


def toposort_reference(
    root: UOp, gate: Callable[[UOp], bool] | None = None, enter_calls: bool = True
) -> list[UOp]:
    done: dict[UOp, None] = {}

    def visit(node: UOp) -> None:
        if node in done or (gate is not None and not gate(node)):
            return
        is_call = node.op in (Ops.CALL, Ops.FUNCTION)
        for s in node.src[1:] if is_call and not enter_calls else node.src:
            visit(s)
        done[node] = None

    visit(root)
    return list(done)


def random_graph(seed: int) -> UOp:
    rng = random.Random(seed)
    nodes = [UOp.variable(f"v{i}", 0, 9) for i in range(3)]
    for _ in range(30):
        op = rng.choice((Ops.ADD, Ops.MUL, Ops.CALL))
        dtype = dtypes.void if op is Ops.CALL else dtypes.weakint
        nodes.append(UOp(op, dtype, tuple(rng.choices(nodes, k=2))))
    return UOp.sink(*rng.choices(nodes, k=3), nodes[-1])


def test_order() -> None:
    for seed in range(50):
        root = random_graph(seed)
        assert list(root.toposort()) == toposort_reference(root)


def test_order_with_a_gate_and_without_bodies() -> None:
    for seed in range(50):
        root = random_graph(seed)
        for enter in (False, True):
            expected = toposort_reference(root, lambda u: u.op is not Ops.MUL, enter)
            assert list(root.toposort(lambda u: u.op is not Ops.MUL, enter)) == expected

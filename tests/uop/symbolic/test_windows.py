"""Windows read backwards: the rule against counting, and where it must not fire."""

from __future__ import annotations

import itertools

import pytest

from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp, graph_rewrite
from tinylab.uop.symbolic import sym

P, K = UOp.range(6, 0), UOp.range(3, 1)


def places(x: UOp) -> list[object]:
    """The value at every place of both ranges; None where it must not be used."""
    found: list[object] = []
    for p, k in itertools.product(range(6), range(3)):
        at = x.substitute({P: UOp.const(p), K: UOp.const(k)}).simplify()
        usable = at.op is Ops.CONST and not at.is_invalid
        found.append(at.arg if usable else None)
    return found


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("width", [5, 6])
def test_a_window_read_backwards_is_a_difference(kernel: int, width: int):
    flat = P + K * width
    period, out = width + 1, width - kernel + 1
    index = ((flat // period) * 100 + flat % period).valid(flat % period < out)
    simple = graph_rewrite(index, sym)
    assert places(simple) == places(index)
    assert not any(u.op in (Ops.FLOORDIV, Ops.FLOORMOD) for u in simple.toposort())


def test_it_holds_back_where_a_wrapped_place_passes_the_condition():
    flat = P + K * 6
    condition = flat % 7 < 6  # p - k = -1 stands at column 6 - 1 + 1: inside
    simple = graph_rewrite(condition, sym)
    assert any(u.op is Ops.FLOORMOD for u in simple.toposort())
    assert places(simple) == places(condition)


def test_it_holds_back_without_periods():
    assert graph_rewrite(P % 4 < 2, sym).op_in_backward_slice_with_self(Ops.FLOORMOD)

"""Simplifying a random small graph keeps its value and is idempotent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.oracle import Evaluation, expression
from tests.property.expressions import FLOATS, concrete, conditions, floats, weak_integers
from tinylab.dtype import DType, dtypes
from tinylab.uop.ops import Ops, PatternMatcher, UOp, graph_rewrite
from tinylab.uop.symbolic import pm_ranges, sym, symbolic, symbolic_simple

TABLES = {"symbolic_simple": symbolic_simple, "symbolic": symbolic, "sym": sym}
SIZES = (4, 3, 5, 8)


def on_common_axes(x: UOp) -> np.ndarray:
    """The value for every combination of the four ranges, whether x uses them or not."""
    closed = [UOp.range(n, axis) for axis, n in enumerate(SIZES)]
    return np.broadcast_to(Evaluation({}, None, None, closed).value(x), SIZES)


def check(x: UOp, table: PatternMatcher) -> None:
    simpler = graph_rewrite(x, table)
    np.testing.assert_array_equal(on_common_axes(simpler), on_common_axes(x), x.render(False))
    assert simpler.dtype is x.dtype
    assert graph_rewrite(simpler, table) is simpler, f"not idempotent: {x.render(False)}"


@pytest.mark.parametrize("name", TABLES)
@given(x=weak_integers())
def test_index_arithmetic(name: str, x: UOp) -> None:
    check(x, TABLES[name])


@pytest.mark.parametrize("name", TABLES)
@given(x=conditions())
def test_conditions(name: str, x: UOp) -> None:
    check(x, TABLES[name])


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
@given(data=st.data())
def test_concrete_integers(dtype: DType, data: st.DataObject) -> None:
    check(data.draw(concrete(dtype)), symbolic)


@given(x=weak_integers(), condition=conditions(1, 0))
def test_masked_index(x: UOp, condition: UOp) -> None:
    """Where an index is valid it keeps its value, and it is valid in the same places."""
    masked = x.valid(condition)
    simpler = graph_rewrite(masked, sym)
    closed = [UOp.range(n, axis) for axis, n in enumerate(SIZES)]
    found = [Evaluation({}, None, None, closed) for _ in range(2)]
    before, after = (
        np.broadcast_to(e.value(u), SIZES) for e, u in zip(found, (masked, simpler), strict=True)
    )
    valid, same = (
        np.broadcast_to(e.valid[u], SIZES) for e, u in zip(found, (masked, simpler), strict=True)
    )
    np.testing.assert_array_equal(valid, same)
    np.testing.assert_array_equal(before[valid], after[valid])


@given(x=weak_integers())
def test_bounds_hold(x: UOp) -> None:
    values = expression(x)
    assert x.vmin <= values.min()
    assert values.max() <= x.vmax


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
@given(data=st.data())
def test_bounds_hold_where_integers_wrap(dtype: DType, data: st.DataObject) -> None:
    x = data.draw(concrete(dtype))
    values = expression(x)
    assert x.vmin <= values.min()
    assert values.max() <= x.vmax


X, Y = (UOp.param(slot, dtypes.float32, (len(FLOATS),)) for slot in range(2))
FIRST, SECOND = (g.ravel() for g in np.meshgrid(np.float32(FLOATS), np.float32(FLOATS)))
A, B = (UOp.variable(n, -np.inf, np.inf, dtype=dtypes.float32) for n in "ab")


def float_value(x: UOp) -> np.ndarray:
    pairs = zip(FIRST, SECOND, strict=True)
    return np.array([np.ravel(Evaluation({A: a, B: b}).value(x))[0] for a, b in pairs], np.float32)


@settings(max_examples=60)
@given(x=floats(A, B))
def test_floats(x: UOp) -> None:
    """No law of reals that floats lack: only the sign of a zero, and of its inverse, may go."""
    simpler = graph_rewrite(x, symbolic)
    inverted = [u.src[0] for u in x.toposort() if u.op is Ops.RECIPROCAL]
    kept = np.all([float_value(u) != 0 for u in inverted], axis=0)
    after, before = (np.where(kept, float_value(u), 0) for u in (simpler, x))
    np.testing.assert_array_equal(after, before, x.render(False))
    assert graph_rewrite(simpler, symbolic) is simpler


@given(x=weak_integers())
def test_same_object_if_no_rule_fires(x: UOp) -> None:
    nothing = PatternMatcher([])
    assert graph_rewrite(x, nothing) is x
    never = (
        graph_rewrite(x, pm_ranges)
        if not any(u.op in (Ops.AND, Ops.WHERE) for u in x.toposort())
        else x
    )
    assert never is x

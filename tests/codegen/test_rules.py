"""Each row of each table of code generation: a node that it fires on, and a near miss."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest

from tests.codegen.kernels import REDUCE, param
from tinylab.codegen.add_loads import pm_add_loads
from tinylab.codegen.barriers import pm_barriers
from tinylab.codegen.coalesce import pm_coalesce
from tinylab.codegen.collapse_loads import pm_collapse_loads
from tinylab.codegen.decompose_ops import decompositions, pm_decompose_ops
from tinylab.codegen.exact_exp import pm_exact_exp
from tinylab.codegen.expand_lanes import LanePlan, pm_expand_lanes
from tinylab.codegen.fast_division import pm_fast_division
from tinylab.codegen.flatten_arrays import pm_flatten_arrays
from tinylab.codegen.gate_memory import pm_gate_memory
from tinylab.codegen.lanes import lane_vector
from tinylab.codegen.local_buffers import LocalContext, pm_local_buffers
from tinylab.codegen.lower_reduce import pm_lower_reduce
from tinylab.codegen.powers import pm_powers
from tinylab.codegen.transcendental import pm_transcendental
from tinylab.dtype import AddrSpace, Invalid, dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.args import ReduceArg
from tinylab.uop.ops import PatternMatcher, UOp

F32, F64, I32 = dtypes.float32, dtypes.float64, dtypes.int32
A, B, M = param(0, 64), param(1, 64), param(2, 64, I32)
R, S = UOp.range(8, 0), UOp.range(8, 1, REDUCE)
U = UOp.range(4, 2, AxisType.UPCAST)
N = UOp.range(4, 3, AxisType.UNROLL)
G = UOp.range(4, 4, AxisType.GROUP_REDUCE)
LANES = lane_vector(4, 0, 1)
PLAN = LanePlan((4, 4), {N: 0, U: 1}, frozenset({0}))
X, Y = A.index(R), B.index(R)
XL = X.load()
K = M.index(R).load()
J = M.index(R + 1).load()
H = K.cast(dtypes.int16).cast(dtypes.int64)
C = R < 3
LOCAL = UOp.placeholder((8,), F32, 0, AddrSpace.LOCAL)
ARRAY = UOp.placeholder((4, 16), F32, 5)
TRUE = UOp.const(True)
ACC = UOp.placeholder((4,), F32, 0, AddrSpace.REG)
RUNNING = ACC.index(UOp.const(0)).load()


def local_context() -> LocalContext:
    return LocalContext(itertools.count(9), itertools.count(9))


def lanes_reduced(x: UOp, count: int) -> UOp:
    return UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(Ops.ADD, count))


class Case(NamedTuple):
    fires: list[UOp]
    holds: list[UOp]  # near misses: another rule may fire, this one does not
    ctx: Any = None


def gated(idx: UOp, cond: UOp) -> UOp:
    return A.index(idx.valid(cond))


TABLES: list[tuple[PatternMatcher, dict[str, Case]]] = [
    (
        pm_flatten_arrays,
        {
            "loop_over_store": Case(
                [A.store(B + 1.0), ARRAY.store(1.0)], [X.store(1.0), ACC.store(1.0)], "count"
            ),
            "flatten_index": Case([ARRAY.index(R, S)], [ARRAY.index(R), A.index(R)]),
            "reshape_outward": Case([ARRAY.after(A.store(0.0))], [A.after(A.index(0).store(0.0))]),
        },
    ),
    (
        pm_collapse_loads,
        {
            "collapse_reduce": Case(
                [
                    S.cast(I32).eq(K).where(A.index(S), 0.0).reduce(S),  # picks
                    (S < R + 1).where(UOp.const(1, I32), UOp.const(0, I32)).reduce(S),  # counts
                    X.reduce(S),  # repeats
                ],
                [
                    S.cast(I32).eq(K).where(A.index(S), 1.0).reduce(S),  # elsewhere 1, not 0
                    (S < R).where(A.index(S), 0.0).reduce(S),  # more than one
                    (S * 2).cast(I32).eq(K).where(A.index(S), 0.0).reduce(S),  # every other one
                    S.cast(I32).eq(K).where(A.index(S), 0.0).reduce(S, arg=Ops.MAX),
                    A.index(S).reduce(S),
                ],
            ),
        },
    ),
    (
        pm_local_buffers,
        {
            "group_to_local": Case(
                [A.index(G * 4 + S).reduce(S, G)], [A.index(S).reduce(S)], "local"
            ),
            "store_once": Case(
                [
                    UOp.sink(B.index(R).store(A.index(G)).end(R)),
                    UOp.sink(B.index(0).store(A.index(G))),
                    UOp.sink(UOp.group(B.index(R).store(A.index(G)), A.index(R).store(0.0)).end(R)),
                    # Beside a reduce over the workgroup.
                    UOp.sink(B.index(R).store(A.index(G)).end(R, G), A.index(R).store(0.0).end(R)),
                ],
                [
                    UOp.sink(B.index(R).store(A.index(S).reduce(S)).end(R)),
                    UOp.sink(B.index(R).store(A.index(G)).end(R, G)),
                ],
                "local",
            ),
        },
    ),
    (
        pm_expand_lanes,
        {
            "range_to_lanes": Case([U, N], [R, S, G], PLAN),
            "end_without_lanes": Case([A.store(0.0).end(R, LANES)], [A.store(0.0).end(R)], PLAN),
            "reduce_lanes": Case(
                [A.index(S * 4 + lane_vector(4, 0, 2)).load().reduce(S, lane_vector(4, 0, 2))],
                [A.index(S).load().reduce(S)],
                PLAN,
            ),
        },
    ),
    (
        pm_lower_reduce,
        {
            "reduce_to_accumulator": Case(
                [A.index(S).load().reduce(S)], [lanes_reduced(A.index(LANES).load(), 1)], "count"
            ),
            "reduce_of_lanes": Case(
                [lanes_reduced(A.index(LANES).load(), 1)], [A.index(S).load().reduce(S)], "count"
            ),
        },
    ),
    (
        pm_add_loads,
        {
            "load_sources": Case(
                [X + 1.0, B.index(R).store(X), A.index(M.index(R))],
                [XL + 1.0, B.index(R).store(1.0), A.index(R)],
            ),
        },
    ),
    (
        pm_gate_memory,
        {
            "hoist_valid": Case([R.valid(C) + 1, R.valid(C) * 4], [R + 1, R.valid(C).valid(R < 5)]),
            "merge_valid": Case([R.valid(C).valid(R < 5)], [R.valid(C), C.where(R, R + 1)]),
            "gate_load": Case([gated(R, C).load()], [XL, X.load(UOp.const(0.0, F32), C)]),
            "gate_store": Case([gated(R, C).store(1.0)], [X.store(1.0)]),
            "closed_load": Case(
                [X.load(UOp.const(0.0, F32), TRUE)], [X.load(UOp.const(0.0, F32), C), XL]
            ),
            "closed_store": Case(
                [X.store(1.0, TRUE), X.store(1.0, UOp.const(False))],
                [X.store(1.0, C), X.store(1.0)],
            ),
            "load_anyway": Case(
                [X.load(UOp.const(0.0, F32), C)], [A.index(LANES).load(UOp.const(0.0, F32), C), XL]
            ),
            "alternative_of_load": Case(
                [C.where(X.load(UOp.const(0.0, F32), C), UOp.const(7.0, F32))],
                [
                    (R < 5).where(X.load(UOp.const(0.0, F32), C), UOp.const(7.0, F32)),
                    C.where(X.load(UOp.const(0.0, F32), C), Y.load()),
                    C.where(XL, UOp.const(7.0, F32)),
                ],
            ),
        },
    ),
    (
        pm_coalesce,
        {
            "coalesce_load": Case(
                [
                    A.index(R * 4 + LANES).load(),
                    A.index(lane_vector(4, 0, 2) * 8 + lane_vector(4, 1, 2)).load(),
                ],
                [XL, A.index(R + LANES * 2).load()],  # one element; a gather that no window covers
            ),
            "coalesce_store": Case(
                [A.index(R * 4 + LANES).store(1.0)],
                [X.store(1.0), A.index(R + LANES * 2).store(1.0)],
            ),
        },
    ),
    (
        pm_barriers,
        {
            "barrier_after_store": Case(
                [LOCAL.after(LOCAL.index(R).store(1.0))],
                [A.after(A.index(R).store(1.0)), LOCAL.after(LOCAL.index(R).store(1.0).barrier())],
            ),
            "barrier_in_loop": Case(
                [
                    B.index(R)
                    .store(LOCAL.after(LOCAL.index(0).store(X).barrier()).index(1).load())
                    .end(R)
                ],
                [B.index(R).store(LOCAL.index(1).load()).end(R), LOCAL.index(R).store(1.0).end(R)],
            ),
        },
    ),
    (pm_powers, {"power": Case([XL.alu(Ops.POW, Y.load()), K.alu(Ops.POW, J)], [XL * XL], F32)}),
    (
        pm_exact_exp,
        {
            "exp_by_double": Case(
                [(XL * (1.4426950408889634 * k)).exp2() for k in (1, -2)],
                [(XL * 1.5).exp2(), XL.exp2(), (XL.cast(F64) * 1.4426950408889634).exp2()],
            ),
            "exp_in_parts": Case(
                [(XL.cast(F64) * (1.4426950408889634 * k)).exp2() for k in (1, -0.5)],
                [
                    (XL.cast(F64) * 1.5).exp2(),
                    (XL * 1.4426950408889634).exp2(),
                    # As the row before leaves it.
                    UOp.const(1.4426950408889634, F64).alu(Ops.MUL, XL.cast(F64)).exp2(),
                ],
            ),
        },
    ),
    (
        pm_transcendental,
        {
            "exp": Case(
                [(XL * (1.4426950408889634 * k)).exp2() for k in (1, -1, 2, -0.5)],
                [(XL * 1.5).exp2(), XL.exp2(), (XL * (1.4426950408889634 * 3)).exp2()],
            ),
            "exp2": Case([XL.exp2()], [K.alu(Ops.EXP2)]),
            "log2": Case([XL.log2()], [K.alu(Ops.LOG2)]),
            "sin": Case([XL.sin()], [K.alu(Ops.SIN)]),
            "cos": Case([XL.cos()], [K.alu(Ops.COS)]),
        },
    ),
    (
        pm_fast_division,
        {
            "cdiv_by_constant": Case([K.alu(Ops.CDIV, K.const_like(7))], [K.alu(Ops.CDIV, J)]),
            "cmod_by_constant": Case([K.alu(Ops.CMOD, K.const_like(7))], [K.alu(Ops.CMOD, J)]),
        },
    ),
    (
        pm_decompose_ops,
        {
            "floordiv": Case([K // 3, K // J, K // 8], [K.alu(Ops.CDIV, J)]),
            "floormod": Case([K % 3, K % J, K % 8], [K.alu(Ops.CMOD, J)]),
            "threefry": Case([K.cast(dtypes.uint64).threefry(J.cast(dtypes.uint64))], [K ^ J]),
            "shift_narrow_product": Case(
                [(H * 18725) >> 17], [(K.cast(dtypes.int64) * 18725) >> 17, (K * 3) >> 2]
            ),
            "subtract": Case([XL - Y.load(), K - J], [XL + Y.load() * -2.0, XL + Y.load()]),
            "divide": Case([XL / Y.load()], [XL * Y.load(), XL.reciprocal()]),
            "fuse": Case([XL * Y.load() + RUNNING], [XL * Y.load() + 1.0, K * J + 1, XL + RUNNING]),
            "unfuse": Case([UOp(Ops.MULACC, F32, (XL, Y.load(), XL))], [XL * XL + XL]),
        },
    ),
]
ALL = [(pm, name, case) for pm, cases in TABLES for name, case in cases.items()]


def context(ctx: Any) -> Any:
    return (
        {"local": local_context, "count": itertools.count}[ctx]() if isinstance(ctx, str) else ctx
    )


@pytest.mark.parametrize(("pm", "name", "case"), ALL, ids=[name for _, name, _ in ALL])
def test_rule(pm: PatternMatcher, name: str, case: Case) -> None:
    rule = next(r for r in pm.rules if r.name == name)
    alone = PatternMatcher([rule])
    for node in case.fires:
        assert alone.rewrite(node, context(case.ctx)) is not None, f"{name} does not fire on {node}"
    for node in case.holds:
        assert alone.rewrite(node, context(case.ctx)) is None, f"{name} fires on {node}"


def test_every_rule_has_a_case() -> None:
    for pm, cases in TABLES:
        assert {r.name for r in pm.rules} == set(cases)


def test_a_target_gets_only_the_rows_that_it_needs() -> None:
    every = decompositions(frozenset(Ops) - {Ops.SUB, Ops.FDIV, Ops.MULACC}).rules
    assert [r.name for r in every] == ["shift_narrow_product", "unfuse"]
    names = {
        r.name for r in decompositions({Ops.FLOORDIV, Ops.FLOORMOD, Ops.THREEFRY, Ops.SUB}).rules
    }
    assert names == {"shift_narrow_product", "subtract", "unfuse"}


def test_invalid_is_never_stored() -> None:
    assert pm_gate_memory.rewrite(A.index(UOp.const(Invalid)).store(1.0)).op is Ops.NOOP

"""Each rule of the scheduling passes: where it fires, and near misses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.schedule.cases import Case, has, is_
from tests.schedule.device_rules import COLLECTIVES, CUT, SHARD, SPLIT_REDUCES
from tests.schedule.graphs import tensor
from tinylab.dtype import dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.schedule import create_schedule
from tinylab.schedule.add_buffers import pm_add_buffers
from tinylab.schedule.assign_ranges import LOOPED, at, pm_assign_ranges, pm_merge_reduces
from tinylab.schedule.callify import Numbering, pm_callify
from tinylab.schedule.collectives import pm_collectives
from tinylab.schedule.early_cleanup import pm_early_cleanup
from tinylab.schedule.inline_functions import FunctionContext, pm_inline_functions
from tinylab.schedule.realize_points import StoreContext, pm_realize_points
from tinylab.schedule.shard import pm_shard
from tinylab.schedule.split_kernels import pm_split_kernels
from tinylab.schedule.split_reduces import pm_split_reduces
from tinylab.uop.args import StageArg
from tinylab.uop.ops import PatternMatcher, ReduceArg, Rule, UOp

F32 = dtypes.float32
R0, R1 = UOp.range(4, 0), UOp.range(3, 1)
RED, RED2 = UOp.range(5, 2, AxisType.REDUCE), UOp.range(6, 3, AxisType.REDUCE)
X = tensor(4, 3)
FLAT = UOp.new_buffer("CPU", 12, F32)
ZERO = UOp.const(0.0, F32)


def stage(value: UOp, *ranges: UOp, removable: bool = False, **fields: Any) -> UOp:
    return value.stage(*ranges, arg=StageArg("CPU", removable=removable)).replace(**fields)


def expanded(x: UOp, *sizes: int) -> UOp:
    return x._expand_front(sizes)


def reduced(x: UOp, op: Ops, count: int) -> UOp:
    return x.replace(op=Ops.REDUCE, src=(x,), arg=ReduceArg(op, count))


def loop_sum(x: UOp, *ranges: UOp, op: Ops = Ops.ADD) -> UOp:
    return x.reduce(*ranges, arg=op)


EMPTY = tensor(4, 3)._shrink((0, 0), (0, 3))
CONST = expanded(UOp.const(2.0, F32), 4, 3)
CONST_THERE = CONST.copy_to_device("CPU")
NEGATIVE_ZERO = expanded(UOp.const(-0.0, F32), 4, 3)
FULL_ZERO = expanded(ZERO, 4, 3)

SQUARE = tensor(3, 3)
CORNER = SQUARE._shrink((0, 0), (2, 2))
WRITTEN_ELSEWHERE = UOp.new_buffer("CPU", 12, F32)

EARLY_CLEANUP = {
    "mark_vanishes": Case([(X.detach(), is_(X)), (X.contiguous_backward(), is_(X))], [X + 1]),
    "contiguous_twice": Case(
        [((X + 1).contiguous().replace(src=((X + 1).contiguous(),)), is_((X + 1).contiguous()))],
        [(X + 1).contiguous()],
    ),
    "contiguous_of_whole": Case(
        [(X.contiguous(), is_(X))],
        [X._permute((1, 0)).contiguous(), X.contiguous().replace(arg="wanted all the same")],
    ),
    "copy_of_gaps": Case(
        [(X._permute((1, 0)).copy_to_device("NULL"), lambda u: u.src[0].op is Ops.CONTIGUOUS)],
        [
            X.copy_to_device("NULL"),
            X._shrink((1, 0), (2, 3)).copy_to_device("NULL"),
            (X + 1)._permute((1, 0)).copy_to_device("NULL"),
        ],
    ),
    "contiguous_of_copy": Case(
        [
            (X.copy_to_device("NULL").contiguous(), is_(X.copy_to_device("NULL"))),
            (CONST_THERE.contiguous().replace(arg="kept apart"), is_(CONST_THERE)),
        ],
        [
            X.copy_to_device("NULL").contiguous().replace(arg="wanted all the same"),
            CUT.copy_to_device("NULL").contiguous(),
            (X + 1).contiguous(),
        ],
    ),
    "contiguous_of_window": Case(
        [
            (X._shrink((1, 0), (2, 3)).contiguous(), lambda u: u.src[0].op is Ops.SHRINK),
            (X._shrink((2, 1), (1, 2))._reshape((2,)).contiguous(), lambda u: u.shape == (2,)),
        ],
        [
            X._shrink((0, 1), (4, 2)).contiguous(),  # gaps
            X._permute((1, 0)).contiguous(),
            X._shrink((1, 0), (2, 3)).contiguous().replace(arg="wanted all the same"),
            WRITTEN_ELSEWHERE._reshape((4, 3))._shrink((1, 0), (2, 3)).contiguous(),
            (X + 1).contiguous(),
        ],
        ctx=lambda: {WRITTEN_ELSEWHERE},
    ),
    "store_into_own_view": Case(
        [
            (SQUARE._permute((1, 0)).store(SQUARE), lambda u: u.src[1].op is Ops.CONTIGUOUS),
            (CORNER._permute((1, 0)).store(CORNER), lambda u: u.src[0] is CORNER._permute((1, 0))),
        ],
        [
            SQUARE.store(SQUARE),  # each element in its own place
            SQUARE._permute((1, 0)).store(SQUARE + 1),
            CORNER.store(SQUARE._shrink((1, 1), (2, 2))),  # stored apart, and the target not
        ],
    ),
    "empty_is_const": Case([(EMPTY + 1.0, has(Ops.EXPAND))], [X + 1.0]),
    "reduce_of_nothing": Case(
        [
            (reduced(EMPTY, Ops.ADD, 1), lambda u: u.src[0].arg == 0.0),
            (reduced(EMPTY, Ops.MAX, 1), lambda u: u.src[0].arg == float("-inf")),
        ],
        [reduced(X, Ops.ADD, 1), reduced(EMPTY._permute((1, 0)), Ops.ADD, 1)],
    ),
    "reduce_of_expand": Case(
        [
            (reduced(expanded(X, 7), Ops.ADD, 1), is_(X * 7)),
            (reduced(expanded(X, 7), Ops.MAX, 1), is_(X)),
            (reduced(expanded(X, 5), Ops.MUL, 1), is_(X * X * (X * X) * X)),
            (reduced(expanded(X, 7), Ops.ADD, 2), lambda u: u.src[0].arg == (Ops.ADD, 1)),
        ],
        [reduced(expanded(X, 7).eq(0), Ops.MUL, 1), reduced(X, Ops.ADD, 1)],
    ),
    "pad_of_zero": Case(
        [(FULL_ZERO._pad((1, 0), (6, 3)), lambda u: u.shape == (6, 3))],
        [CONST._pad((1, 0), (6, 3)), NEGATIVE_ZERO._pad((1, 0), (6, 3))],
    ),
    "movement_of_const": Case(
        [(CONST._permute((1, 0)), lambda u: u.op is Ops.EXPAND and u.shape == (3, 4))],
        [X._permute((1, 0)), CONST._pad((1, 0), (6, 3)), CONST],
    ),
    "value_made_there": Case(
        [
            (X + CONST_THERE, is_(X + CONST)),
            (CONST_THERE._permute((1, 0)), is_(CONST._permute((1, 0)).copy_to_device("CPU"))),
            (CONST_THERE * CONST, is_((CONST * CONST).copy_to_device("CPU"))),
            (CONST_THERE.copy_to_device("NULL"), is_(CONST.copy_to_device("NULL"))),
        ],
        [CONST_THERE, X + CONST, X.copy_to_device("NULL") + 1],
    ),
    "copy_to_same_device": Case(
        [(X.copy_to_device("CPU"), is_(X.contiguous()))], [X.copy_to_device("NULL")]
    ),
}

N = UOp.variable("n", 1, 4)
CALLIFY = {
    "number_input": Case(
        [
            (FLAT, lambda u: u.op is Ops.PARAM and u.arg.slot == 0),
            (N, lambda u: u.op is Ops.PARAM and u.is_variable),
        ],
        [UOp.param(0, F32, (4,))],
        ctx=lambda: Numbering({}, {}),
    ),
    "note_value": Case(
        [(N.bind(3), is_(N))], [N, FLAT.after(FLAT.store(1.0))], ctx=lambda: Numbering({}, {})
    ),
}

STORED = X + 1
REALIZE_POINTS = {
    "mark_stored": Case(
        [
            (STORED, lambda u: u.op is Ops.STAGE and u.arg.reason == "why" and not u.src[1:]),
            (STORED.contiguous(), lambda u: u.op is Ops.STAGE and u.src[0] is STORED),
        ],
        [X + 2, STORED.rtag("stored")],
        ctx=lambda: StoreContext({STORED: "why", STORED.contiguous(): "asked"}, "CPU", {}, {}),
    )
}

IOTA = UOp._iota(4, dtypes.int32)
WRITTEN = X._permute((1, 0))
ASSIGN_RANGES = {
    "stage_gets_loops": Case(
        [(stage(X + 1), lambda u: u.tag == LOOPED and len(u.src) == 3)],
        [stage(X + 1, R0), stage(X + 1, tag=LOOPED), stage(X.copy_to_device("NULL"))],
    ),
    "store_gets_loops": Case(
        [(X.store(X + 1), lambda u: u.op is Ops.END and len(u.src) == 3)],
        [X.store(X + 1).replace(tag=LOOPED)],
    ),
    "index_of_movement": Case(
        [
            (at(X._permute((1, 0)), (R1, R0)), is_(at(X, (R0, R1)))),
            (at(X._pad((1, 0), (6, 3)), (UOp.range(6, 7), R1)), has(Ops.WHERE)),
            (at(X._flip((True, False)), (R0, R1)), lambda u: u.src[1] is not R0),
        ],
        [at(FLAT, (R0,))],
    ),
    "index_of_elementwise": Case(
        [(at(X + X, (R0, R1)), is_(at(X, (R0, R1)) + at(X, (R0, R1))))],
        [at(FLAT, (R0,)), at(reduced(X, Ops.ADD, 1), (R1,))],
    ),
    "index_of_reduce": Case(
        [(at(reduced(X, Ops.ADD, 1), (R1,)), lambda u: u.op is Ops.REDUCE and u.arg.count == 0)],
        [at(X + X, (R0, R1))],
    ),
    "index_of_iota": Case(
        [(at(IOTA, (R0,)), is_(R0.cast(dtypes.int32)))], [at(stage(R0, R0), (R1,))]
    ),
    "index_of_written_view": Case(
        [(at(WRITTEN.after(WRITTEN.store(1.0)), (R1, R0)), lambda u: u.src[0].src[0] is X)],
        [at(FLAT.after(FLAT.store(1.0)), (R0,))],
    ),
}

LOADED = at(FLAT, (R0,))
MASK = R0 < 2
MERGE_REDUCES = {
    "reduce_of_reduce": Case(
        [(loop_sum(loop_sum(LOADED, RED), RED2), lambda u: u.src[1:] == (RED2, RED))],
        [loop_sum(loop_sum(LOADED, RED, op=Ops.MAX), RED2), loop_sum(LOADED + 1, RED)],
    ),
    "mask_of_mask": Case(
        [(MASK.where((R1 < 1).where(LOADED, ZERO), ZERO), lambda u: u.src[0].op is Ops.AND)],
        [MASK.where((R1 < 1).where(LOADED, ZERO), ZERO + 1.0), MASK.where(LOADED, ZERO)],
    ),
    "sum_of_masked_sum": Case(
        [(loop_sum(MASK.where(loop_sum(LOADED, RED), ZERO), RED2), lambda u: len(u.src) == 3)],
        [
            loop_sum(MASK.where(loop_sum(LOADED, RED, op=Ops.MAX), ZERO), RED2, op=Ops.MAX),
            loop_sum(MASK.where(loop_sum(LOADED, RED, op=Ops.MAX), ZERO), RED2),
            loop_sum(MASK.where(LOADED, ZERO), RED2),
        ],
    ),
}

ADD_BUFFERS = {
    "stage_is_buffer": Case(
        [
            (stage(LOADED, R0), lambda u: u.op is Ops.AFTER and u.shape == (4,)),
            (stage(X.copy_to_device("NULL")), lambda u: u.src[0].src[1].op is Ops.CALL),
        ],
        [IOTA],
        ctx=lambda: itertools.count(-2, -1),
    ),
    "index_is_flat": Case(
        [(at(X, (R0, R1)), lambda u: len(u.src) == 2 and u.src[0] is X.base)],
        [at(FLAT, (R0,)), at(X._permute((1, 0)), (R1, R0))],
    ),
}

EFFECT = at(FLAT, (R0,)).store(ZERO).end(R0)
SPLIT_KERNELS = {
    "split_kernel": Case(
        [(FLAT.after(EFFECT), lambda u: u.src[1].op is Ops.CALL and u.src[1].src[1] is FLAT)],
        [FLAT.after(UOp.sink().call(FLAT)), UOp.variable("n", 1, 4).bind(2)],
    )
}

BODY = UOp.maketuple(UOp.param(0, F32, (4, 3)) * 2.0, UOp.param(0, F32, (4, 3)) + 1.0)
CALLED, PRECOMPILED = BODY.call(X), BODY.call(X, precompile=True)
NO_SCHEDULE = lambda: FunctionContext("CPU", create_schedule)  # noqa: E731
INLINE_FUNCTIONS = {
    "inline_function": Case(
        [(CALLED.gettuple(0), is_(X * 2.0))], [PRECOMPILED.gettuple(0)], ctx=NO_SCHEDULE
    ),
    "call_function": Case(
        [(PRECOMPILED.gettuple(1), lambda u: u.src[0].src[1].src[0].op is Ops.LINEAR)],
        [CALLED.gettuple(1)],
        ctx=NO_SCHEDULE,
    ),
    "tuple_item": Case(
        [(BODY.replace(op=Ops.GETTUPLE, src=(BODY,), arg=1, dtype=F32), is_(BODY.src[1]))],
        [CALLED.gettuple(1)],
        ctx=NO_SCHEDULE,
    ),
}

TABLES: list[tuple[str, PatternMatcher, dict[str, Case]]] = [
    ("inline_functions", pm_inline_functions, INLINE_FUNCTIONS),
    ("shard", pm_shard, SHARD),
    ("collectives", pm_collectives, COLLECTIVES),
    ("split_reduces", pm_split_reduces, SPLIT_REDUCES),
    ("early_cleanup", pm_early_cleanup, EARLY_CLEANUP),
    ("callify", pm_callify, CALLIFY),
    ("realize_points", pm_realize_points, REALIZE_POINTS),
    ("assign_ranges", pm_assign_ranges, ASSIGN_RANGES),
    ("merge_reduces", pm_merge_reduces, MERGE_REDUCES),
    ("add_buffers", pm_add_buffers, ADD_BUFFERS),
    ("split_kernels", pm_split_kernels, SPLIT_KERNELS),
]
ROWS = [pytest.param(r, c.get(r.name), id=f"{n}-{r.name}") for n, pm, c in TABLES for r in pm.rules]


def result(rule: Rule, node: UOp, case: Case) -> UOp | None:
    return PatternMatcher([rule]).rewrite(node, case.ctx())


@pytest.mark.parametrize(("rule", "case"), ROWS)
def test_every_rule_fires_where_it_should_and_nowhere_near(rule: Rule, case: Case | None):
    assert case is not None, f"the rule {rule.name} has no case"
    assert case.fires
    assert case.holds
    for before, is_right in case.fires:
        found = result(rule, before, case)
        assert found is not None, f"{rule.name} does not fire on {before}"
        assert is_right(found), f"{rule.name} gives {found}"
    for node in case.holds:
        assert result(rule, node, case) is None, f"{rule.name} fires on {node}"


def test_no_case_without_its_rule():
    for _, pm, cases in TABLES:
        assert cases.keys() == {rule.name for rule in pm.rules}

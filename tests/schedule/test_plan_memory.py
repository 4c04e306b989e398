"""Arenas: what shares memory, what does not, and that nothing alive is overwritten."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.schedule.graphs import F32, check, schedule, tensor
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule import parts_of
from tinylab.schedule.plan_memory import BLOCK, lifetimes, plan_memory
from tinylab.schedule.split_kernels import plain
from tinylab.uop.args import ParamArg
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, node_to_shape


def internal(slot: int, size: int, device: str = "CPU", dtype: Any = F32) -> UOp:
    return make(Ops.BUFFER, dtype, (UOp.const(size),), ParamArg(slot, dtype, device=device))


def linear(*uses: tuple[UOp, ...], copy: bool = False) -> UOp:
    body = UOp.sink(arg="kernel")
    copied = make(Ops.COPY, F32, (UOp.param(1, F32, (1,)),), "CPU")
    calls = [make(Ops.CALL, dtypes.void, (copied if copy else body, *u)) for u in uses]
    return make(Ops.LINEAR, dtypes.void, tuple(calls))


def place(x: UOp) -> tuple[UOp, int, int]:
    """(arena, first byte, bytes) of a planned argument."""
    window = x.src[0] if x.op is Ops.BITCAST else x
    return window.src[0], node_to_shape(window.src[1])[0], window.shape[0]


@given(
    st.lists(
        st.tuples(st.integers(1, 900), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=9
    )
)
def test_what_lives_together_does_not_overlap(lives: list[tuple[int, int, int]]) -> None:
    buffers = [internal(-2 - n, size) for n, (size, _, _) in enumerate(lives)]
    moments = [
        tuple(b for b, (_, i, j) in zip(buffers, lives, strict=True) if min(i, j) <= t <= max(i, j))
        for t in range(9)
    ]
    before = linear(*moments)
    plan = plan_memory(before, set())
    for call, moment in zip(plan.linear.src, moments, strict=True):
        taken = [place(x) for x in call.src[1:]]
        for (arena, start, size), b in zip(taken, moment, strict=True):
            assert start % BLOCK == 0
            assert size == b.shape[0] * 4
            assert start + size <= arena.shape[0]
        ends = sorted((start, start + size) for _, start, size in taken)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
    most = max(sum(-(-b.shape[0] * 4 // BLOCK) * BLOCK for b in m) for m in moments)
    assert most <= plan.bytes_planned <= plan.bytes_apart
    spans = lifetimes(before, set())
    assert all(
        spans[b] == (min(i, j), max(i, j)) for b, (_, i, j) in zip(buffers, lives, strict=True)
    )


def test_results_inputs_and_files_have_memory_of_their_own() -> None:
    result, given_one = internal(-2, 8), UOp.param(0, F32, (8,), "CPU")
    on_disk, between = internal(-3, 8, "DISK:/tmp/x"), internal(-4, 8)
    plan = plan_memory(linear((result, given_one, on_disk, between)), {result})
    arguments = plan.linear.src[0].src[1:]
    assert arguments[:3] == (result, given_one, on_disk)
    assert place(arguments[3])[0].arg.name == "arena"
    assert plan.buffer_count == 1


def test_each_device_has_an_arena_and_copies_one_of_their_own() -> None:
    a, b, c = internal(-2, 8), internal(-3, 8, "CPU:1"), internal(-4, 8)
    calls = (*linear((a,), (c,)).src, *linear((b, a), copy=True).src)
    plan = plan_memory(make(Ops.LINEAR, dtypes.void, calls), set())
    arenas = [place(x)[0] for call in plan.linear.src for x in call.src[1:]]
    assert len({arenas[0], arenas[1], arenas[2]}) == 3
    assert arenas[3] is arenas[0]
    assert [x.arg.device for x in arenas[:3]] == ["CPU", "CPU", "CPU:1"]


def test_a_piece_of_a_planned_buffer_is_a_piece_of_the_arena() -> None:
    whole = internal(-2, 64)
    piece = whole._shrink((16,), (8,))
    plan = plan_memory(linear((whole,), (internal(-3, 8, "CPU:1"), piece), copy=True), set())
    arena, start, _ = place(plan.linear.src[0].src[1])
    assert place(plan.linear.src[1].src[2]) == (arena, start + 64, 32)


@pytest.mark.parametrize("plan", [False, True])
def test_a_chain_of_stored_values_gives_the_same_with_and_without_a_plan(plan: bool) -> None:
    x = tensor(16, 16)
    value = x
    for n in range(6):
        value = (value + n).contiguous() * value._permute((1, 0)).contiguous()
    found, _ = schedule(value, plan=plan)
    bare = {plain(a) for call in found.linear.src for a in call.src[1:]}
    outputs = {plain(p) for v in found.outputs for p in parts_of(v)}
    assert outputs <= bare
    if plan:
        assert found.bytes_planned < found.bytes_apart
        check(value * np.float32(1e-30))

"""Settings of the scheduler: limits of buffers, split reductions, positions, copies together."""

from __future__ import annotations

import pytest

from tests.schedule.graphs import F32, check, reasons, schedule, tensor
from tinylab.dtype import dtypes
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.schedule.limit_buffers import buffer_limit
from tinylab.schedule.views import contiguous_view_offset, window_of
from tinylab.uop.ops import UOp


def total(count: int) -> UOp:
    found = tensor(8)
    for _ in range(count - 1):
        found = found + tensor(8)
    return found


@pytest.mark.parametrize("limit", [3, 5, 31])
def test_no_kernel_reads_more_buffers_than_the_limit(limit: int) -> None:
    with Context(MAX_KERNEL_BUFFERS=limit):
        found = check(total(40))
    assert max(len(call.src) - 1 for call in found.linear.src) <= limit
    assert any(f"takes {limit - 1}" in why for why in reasons(found))


def test_a_device_has_its_own_limit_and_few_buffers_stay_one_kernel() -> None:
    assert (buffer_limit("CPU:3"), buffer_limit("WEBGPU"), buffer_limit("NULL")) == (31, 8, None)
    assert len(check(total(30)).linear.src) == 1
    assert len(check(total(31)).linear.src) == 2


def test_a_big_reduction_to_few_is_two_kernels() -> None:
    value = tensor(1 << 16)._rop(Ops.ADD, (0,))
    assert len(check(value).linear.src) == 2
    with Context(SPLIT_REDUCEOP=0):
        assert len(check(value).linear.src) == 1
    with Context(REDUCEOP_SPLIT_THRESHOLD=1 << 17):
        assert len(check(value).linear.src) == 1
    assert len(check(tensor(1 << 15, 64)._rop(Ops.MAX, (0,))).linear.src) == 2
    assert len(check(tensor(64, 1 << 15)._rop(Ops.MAX, (0,))).linear.src) == 1


def test_positions_are_stored_when_asked_to() -> None:
    rows = UOp._iota(8, dtypes.int32)
    value = (tensor(8, dtype=dtypes.int32) + (rows + 3) * 2)._expand_front((4,)).contiguous()
    assert len(check(value).linear.src) == 1
    with Context(FUSE_ARANGE=0):
        assert len(check(value).linear.src) == 2


def test_values_that_repeat_are_worked_out_again_when_asked_to() -> None:
    dear = tensor(64).alu(Ops.SIN).alu(Ops.EXP2).alu(Ops.SIN)
    value = dear._expand_front((2048,)) + tensor(2048, 64)
    assert len(check(value).linear.src) == 2
    with Context(DONT_REALIZE_EXPAND=1):
        assert len(check(value).linear.src) == 1


def test_sums_over_padding_are_stored_when_asked_to() -> None:
    """As in the gradient of a convolution, a sum over windows of sums."""

    nested = tensor(6, 5, 3)._rop(Ops.ADD, (0,))._pad((1, 0), (7, 3))._rop(Ops.ADD, (1,))
    assert len(check(nested).linear.src) == 1
    with Context(FUSE_CONV_BW=0):
        found = check(nested)
    assert "a reduction inside another reduction" in reasons(found)


@pytest.mark.parametrize(("level", "kernels"), [(0, 4), (1, 4), (2, 3), (3, 3)])
def test_partial_materialization_fuses_ever_more(level: int, kernels: int) -> None:
    with Context(PCONTIG=level):
        x, w = tensor(16, 24), tensor(24, 16)
        top = x._rop(Ops.MAX, (1,))._reshape((16, 1))
        powers = (x + top * -1).alu(Ops.EXP2)
        parts = powers * powers._rop(Ops.ADD, (1,))._reshape((16, 1)).alu(Ops.RECIPROCAL)
        columns = w._permute((1, 0))._reshape((1, 16, 24))
        found = check((parts._reshape((16, 1, 24)) * columns)._rop(Ops.ADD, (2,)))
    assert len(found.linear.src) == kernels


def test_small_reductions_are_worked_out_again_at_the_highest_level() -> None:
    value = tensor(8, 16) * 1 + tensor(8, 16)._rop(Ops.ADD, (1,))._reshape((8, 1))
    assert len(check(value).linear.src) == 2
    with Context(PCONTIG=3):
        assert len(check(value).linear.src) == 1


def test_copies_wait_and_go_together() -> None:
    values = [(tensor(8) + n).contiguous() for n in range(3)]
    copied = [v.copy_to_device("NULL") for v in values]
    found, _ = schedule(*copied)
    kinds = [call.src[0].op for call in found.linear.src]
    assert kinds == [Ops.SINK] * 3 + [Ops.COPY] * 3


X = tensor(4, 6)
STORED = X.base


@pytest.mark.parametrize(
    ("view", "offset"),
    [
        (X, 0),
        (X._shrink((1, 0), (2, 6)), 6),
        (X._shrink((1, 2), (1, 3)), 8),
        (X._reshape((2, 2, 6))._shrink((1, 1, 0), (1, 1, 6))._reshape((6,)), 18),
        (X._shrink((3, 0), (1, 6))._permute((1, 0)), 18),
        (X._shrink((0, 1), (4, 2)), None),
        (X._permute((1, 0)), None),
        (X._flip((True, False)), None),
        (X._pad((0, 0), (5, 6)), None),
        (X._shrink((0, 0), (1, 6))._reshape((6,))._expand_front((2,)), None),
        (X + 1, None),
        (X._shrink((0, 0), (0, 6)), None),
    ],
)
def test_views_of_one_piece(view: UOp, offset: int | None) -> None:
    assert contiguous_view_offset(view) == offset
    window = window_of(view)
    if offset is None:
        assert window is None
    else:
        assert window is not None
        assert window.storage is STORED
        assert window.view().shape == (window.size,)


def test_a_copy_reads_a_piece_of_a_buffer_in_place() -> None:
    found, _ = schedule(X._shrink((1, 0), (2, 6)).copy_to_device("NULL"))
    assert [call.src[0].op for call in found.linear.src] == [Ops.COPY]
    assert found.linear.src[0].src[2].op is Ops.SHRINK
    gaps, _ = schedule(X._shrink((0, 1), (4, 2)).copy_to_device("NULL"))
    assert [call.src[0].op for call in gaps.linear.src] == [Ops.SINK, Ops.COPY]


def test_a_value_of_a_float_stays_as_it_is_without_settings() -> None:
    assert schedule((tensor(4) + 1).contiguous())[0].linear.src[0].src[1].dtype is F32


def test_what_is_used_several_times_counts_once():
    """Two expressions of some 700 operations each, of one value: each is one kernel."""
    start = tensor(1).alu(Ops.SIN)
    found = []
    for n in (2.0, 3.0):
        y = start * n
        for _ in range(8):
            y = y * y.alu(Ops.SIN) + y
        found.append(y)
    assert len(check(*found).linear.src) == 2

"""MSELECT, MSTACK and reduce-scatter at work: lazy, stored, captured, written to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit
from tinylab.errors import ShardError
from tinylab.opcodes import Ops

FOUR = ("CPU", "CPU:1", "CPU:2", "CPU:3")
TWO = FOUR[:2]


@pytest.mark.parametrize("devices", [TWO, FOUR])
@pytest.mark.parametrize("stored", [False, True])
def test_the_copy_of_one_device_is_computed_there(devices: tuple[str, ...], stored: bool):
    x = Tensor([1.0, 2.0]).shard(devices) * 3
    if stored:
        x.realize()
    for n, device in enumerate(devices):
        found = Tensor(x.uop.mselect(n)) + n
        assert (found.device, found.tolist()) == (device, [3.0 + n, 6.0 + n])


def test_a_part_of_a_cut_value_is_selected_once_it_is_stored():
    x = Tensor([1.0, 2.0, 3.0, 4.0]).shard(TWO, 0) * 3
    with pytest.raises(ShardError, match="cut along axis 0") as e:
        x.uop.mselect(1)
    assert "realize" in str(e.value.help)
    x.realize()
    assert Tensor(x.uop.unsharded_base.mselect(1)).tolist() == [9.0, 12.0]


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_a_copy_is_selected_and_written_past_in_a_captured_function(jit: int):
    state = Tensor([0.0, 0.0]).shard(TWO).realize()

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        before = Tensor(state.uop.mselect(1)) * 10
        state.assign(state + x)
        return before, Tensor((state * 2).uop.mselect(0))

    with Context(JIT=jit):
        for n in range(5):
            before, after = step(Tensor([1.0, 2.0]).shard(TWO).realize())
            assert (before.device, before.tolist()) == ("CPU:1", [10.0 * n, 20.0 * n])
            assert (after.device, after.tolist()) == ("CPU", [2.0 * (n + 1), 4.0 * (n + 1)])


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("stored", [False, True])
def test_values_of_several_devices_are_one(axis: int | None, stored: bool):
    data = [np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * n for n in range(4)]
    if axis is None:
        data = data[:1] * 4
    parts = [Tensor(a, device=d) * 2 + 1 for a, d in zip(data, FOUR, strict=True)]
    if stored:
        parts[0].realize(*parts[1:])
    joined = parts[0].uop.mstack(*(p.uop for p in parts[1:]))
    whole = Tensor(joined if axis is None else joined.unshard(axis))
    want = data[0] * 2 + 1 if axis is None else np.concatenate(data, axis) * 2 + 1
    assert (whole.device, whole.uop.axis) == (FOUR, axis)
    np.testing.assert_array_equal(whole.numpy(), want)
    np.testing.assert_array_equal(whole.sum(0).numpy(), want.sum(0))
    np.testing.assert_array_equal((whole.T @ whole).numpy(), want.T @ want)


def test_joined_values_in_a_captured_function_and_writes_to_them():
    @TinyJit
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        whole = Tensor((x + 1).uop.mstack((y + 1).uop).unshard(0))
        total = whole.sum()
        whole += 10
        return total, whole

    for n in range(4):
        x, y = Tensor([1.0, n]).realize(), Tensor([3.0, n], device="CPU:1").realize()
        total, whole = step(x, y)
        assert (total.item(), whole.tolist()) == (8.0 + 2 * n, [12.0, n + 11.0, 14.0, n + 11.0])
        assert (x.tolist(), y.tolist()) == ([1.0, n], [3.0, n])


# *** reduce-scatter: of a reduction over the cut axis each device uses a part


REDUCTIONS: dict[str, Any] = {
    "sum": lambda x, axis: x.sum(axis),
    "max": lambda x, axis: x.max(axis),
    "prod": lambda x, axis: x.prod(axis),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("devices", [TWO, FOUR[1:], FOUR])
@pytest.mark.parametrize("settings", [{}, {"RING": 2}, {"ALL2ALL": 2}, {"RING": 0}])
@pytest.mark.parametrize("jit", [0, 1])
def test_a_reduction_that_is_used_in_parts(
    name: str, devices: tuple[str, ...], settings: dict[str, int], jit: int
):
    n, reduce = len(devices), REDUCTIONS[name]
    rng = np.random.default_rng(n)
    other = rng.integers(1, 5, (n * 2, 3)).astype(np.int32)
    y = Tensor(other).shard(devices, 0).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return reduce(x, 0) * 2 + y

    with Context(JIT=jit, **settings):
        for _ in range(4):
            data = rng.integers(-2, 3, (n * 3, n * 2, 3)).astype(np.int32)
            found = step(Tensor(data).shard(devices, 0).realize())
            assert found.uop.axis == 0
            np.testing.assert_array_equal(found.numpy(), reduce(data, 0) * 2 + other)


def test_only_the_parts_that_are_used_go_from_device_to_device():
    data = np.ones((4, 64), np.float32)
    x, y = Tensor(data).shard(FOUR, 0).realize(), Tensor(np.ones(64, np.float32)).shard(FOUR, 0)
    y.realize()

    def copied(value: Tensor) -> list[int]:
        copies = [c for c in value.schedule_linear().src if c.src[0].op is Ops.COPY]
        return [c.src[1].max_numel() for c in copies]

    with Context(RING=0, ALL2ALL=0):
        assert copied(x.sum(0) + y) == [16] * 12  # each gets three quarters that are not its own
        assert copied(x.sum(0) + 1) == [64] * 12


def test_a_reduction_that_is_used_whole_too_is_brought_to_all():
    data = np.random.default_rng(0).integers(-9, 9, (8, 8)).astype(np.int32)
    x, y = Tensor(data).shard(FOUR, 0).realize(), Tensor(data[0]).shard(FOUR, 0).realize()
    total = x.sum(0)
    part, whole = total + y, total * 3
    GlobalCounters.reset()
    part.realize(whole)
    np.testing.assert_array_equal(part.numpy(), data.sum(0) + data[0])
    np.testing.assert_array_equal(whole.numpy(), data.sum(0) * 3)
    for memory in whole.uop.base.realized.bufs:
        np.testing.assert_array_equal(memory.numpy(), data.sum(0) * 3)


# *** .contiguous() of what is stored


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("realized", [False, True])
def test_what_is_stored_in_one_piece_is_itself_on_several_devices_too(
    axis: int | None, realized: bool
):
    x = Tensor([1.0, 2.0, 3.0, 4.0]).shard(TWO, axis).realize()
    y = x.contiguous()
    if realized:
        y.realize()
    y += 1
    assert x.tolist() == y.tolist() == [2.0, 3.0, 4.0, 5.0]
    x += 1  # by another way: what was taken before is apart from now on
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0, 5.0, 6.0], [2.0, 3.0, 4.0, 5.0])

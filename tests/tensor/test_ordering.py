"""Sorting, searching, and gradients of large reads: by kernels that the language lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tinylab import Context, GlobalCounters, Tensor, TinyJit, function
from tinylab.mixin import buckets
from tinylab.tensor.ordering import GROUP, RUN, Runs

RNG = np.random.default_rng(0)
DEVICES = ("CPU:0", "CPU:1")

lengths = st.one_of(st.integers(1, 140), st.sampled_from([RUN, RUN + 1, 4 * RUN, 4 * RUN + GROUP]))


@given(lengths, st.integers(1, 3), st.integers(0, 140), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_first_in_order(n: int, rows: int, k: int, seed: int) -> None:
    """As numpy's stable sort, of few different values and of many."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 3 if seed % 2 else 2**31 - 1, (rows, n), dtype=np.int32)
    k = min(k, n)
    values, places = Tensor(x).topk(k, largest=False)
    wanted = np.argsort(x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places.numpy(), wanted)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("n", [5, 33, 100])
def test_the_interpreter_agrees(n: int) -> None:
    x = RNG.integers(-5, 5, (2, n))
    with Context(DEV="PYTHON"):
        values, places = Tensor(x).sort(descending=True)
        np.testing.assert_array_equal(values.numpy(), -np.sort(-x))
        np.testing.assert_array_equal(places.numpy(), np.argsort(-x, kind="stable"))


@pytest.mark.parametrize(("dim", "axis"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, None)])
def test_sort_on_several_devices(dim: int, axis: int | None) -> None:
    x = RNG.normal(size=(40, 50)).astype(np.float32)
    values, places = Tensor(x).shard(DEVICES, axis).sort(dim)
    np.testing.assert_array_equal(values.numpy(), np.sort(x, dim))
    np.testing.assert_array_equal(places.numpy(), np.argsort(x, dim))


def test_sort_in_a_jit_and_in_a_function() -> None:
    ordered = TinyJit(lambda t: t.sort()[0].realize())
    for _ in range(4):
        x = RNG.normal(size=77).astype(np.float32)
        np.testing.assert_array_equal(ordered(Tensor(x).realize()).numpy(), np.sort(x))
    traced = function(lambda t: t.sort())
    values, places = traced(Tensor(x))
    np.testing.assert_array_equal(values.numpy(), np.sort(x))
    np.testing.assert_array_equal(places.numpy(), np.argsort(x))


def test_a_merge_writes_without_copying_first() -> None:
    """No copy of what an earlier merge has read already."""
    n = 5000
    t = Tensor(RNG.integers(0, 100, n).astype(np.int32)).realize()
    GlobalCounters.reset()
    Tensor.realize(*t.sort())
    merges = (-(-n // RUN) - 1).bit_length()
    assert GlobalCounters.kernel_count == 3 + merges  # keys with padding, runs, the values


def test_two_orders_of_one_value_do_not_meet() -> None:
    x = RNG.normal(size=300).astype(np.float32)
    t = Tensor(x)
    up, down, few = t.sort()[0], t.sort(descending=True)[0], t.topk(3)[0]
    Tensor.realize(up, down, few)
    np.testing.assert_array_equal(up.numpy(), np.sort(x))
    np.testing.assert_array_equal(down.numpy(), np.sort(x)[::-1])
    np.testing.assert_array_equal(few.numpy(), np.sort(x)[::-1][:3])


def test_runs_know_their_width() -> None:
    assert Runs(32, 160).merged(160) == Runs(64, 160)
    assert Runs(32, 160).merged(16) == Runs(16, 48)
    assert Runs(64, 160).merged(48) == Runs(48, 48 + 32)


@pytest.mark.parametrize("shape", [(1,), (40,), (3, 17)])
def test_counts_by_halving(shape: tuple[int, ...]) -> None:
    ascending = np.sort(RNG.integers(0, 20, shape))
    wanted = RNG.integers(-2, 23, (*shape[:-1], 9))
    found = Tensor(ascending)._count_at_most(Tensor(wanted)).numpy()
    flat = zip(ascending.reshape(-1, shape[-1]), wanted.reshape(-1, 9), strict=True)
    right = [np.searchsorted(a, w, side="right") for a, w in flat]
    np.testing.assert_array_equal(found.reshape(-1, 9), right)


READS: dict[str, tuple[tuple[int, ...], Any]] = {
    "flat": ((7,), lambda x, i: x[i]),
    "rows": ((7, 3), lambda x, i: x[i]),
    "middle": ((2, 7, 3), lambda x, i: x[:, i]),
    "two": ((2, 7, 5), lambda x, i: x[:, i, i % 5]),
    "part": ((7, 3), lambda x, i: x[i, :2]),
    "gather": ((5, 7), lambda x, i: x.gather(1, i)),
    "gather first": ((7, 4), lambda x, i: x.gather(0, i)),
}


@pytest.mark.parametrize("name", READS)
def test_gradient_of_many_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sorting and by comparing, the same values and gradients."""
    shape, read = READS[name]
    x, i = Tensor(RNG.normal(size=shape).astype(np.float32)), Tensor(RNG.integers(-7, 7, (5, 4)))

    def both() -> tuple[Any, Any]:
        out = read(x, i)
        weights = Tensor(np.arange(out.numel(), dtype=np.float32)).reshape(out.shape)
        return out.numpy(), (out * weights).sum().gradient(x)[0].numpy()

    wanted = both()
    monkeypatch.setattr(buckets, "MANY", -1)
    found = both()
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)


@pytest.mark.parametrize("n", [4095, 4096, 4097, 4128, 5000, 8192 + 33])
def test_long_rows_sorted_whole(n: int) -> None:
    values = RNG.integers(0, n // 2, (2, n)).astype(np.float32)
    found, places = Tensor(values).sort()
    order = np.argsort(values, axis=-1, kind="stable")
    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(values, order, -1))


@pytest.mark.parametrize("name", list(READS))
def test_gradient_added_row_by_row(name: str) -> None:
    shape, read = READS[name]
    x, i = Tensor(RNG.normal(size=shape).astype(np.float32)), Tensor(RNG.integers(-7, 7, (5, 4)))

    def gradient() -> Tensor:
        out = read(x, i)
        weights = Tensor(np.arange(out.numel(), dtype=np.float32)).reshape(out.shape)
        return (out * weights).sum().gradient(x)[0]

    wanted = gradient().numpy()
    with Context(USE_ATOMICS=1):
        names = [call.src[0].arg.name for call in gradient().schedule_linear().src]
        assert any(n.startswith("add_rows") for n in names)
        np.testing.assert_allclose(gradient().numpy(), wanted, rtol=1e-6)
        x = Tensor([1.0, 2.0, 3.0])
        (first,) = (x[Tensor([0, 2, 2])] ** 3).sum().gradient(x)
        (second,) = first.sum().gradient(x)
        assert (first.tolist(), second.tolist()) == ([3, 0, 54], [6, 0, 36])


def test_second_gradient_of_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MANY", -1)
    x = Tensor([1.0, 2.0, 3.0])
    (first,) = (x[Tensor([0, 2, 2])] ** 3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert (first.tolist(), second.tolist()) == ([3, 0, 54], [6, 0, 36])


def test_a_training_step_that_reads_much_is_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MANY", -1)
    x, i = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([0, 2, 2]).realize()
    steps = [x[i].sum().gradient(x)[0].uop for _ in range(2)]
    keys = [{u.arg.grad_key for u in s.toposort() if u.op.name == "FUNCTION"} for s in steps]
    assert keys[0] == keys[1]


def test_places_drawn_by_weight() -> None:
    Tensor.manual_seed(0)
    found = Tensor([[0.0, 1.0, 0.0, 3.0], [1.0, 0.0, 0.0, 0.0]]).multinomial(4000, replacement=True)
    assert found.shape == (2, 4000)
    first, second = found.numpy()
    assert set(second.tolist()) == {0}
    assert set(first.tolist()) == {1, 3}
    assert abs((first == 3).mean() - 0.75) < 0.05

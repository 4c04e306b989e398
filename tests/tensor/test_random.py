"""Random numbers: reproducible, told apart, and distributed as they say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.tensor import drawn
from tinylab import Context, GlobalCounters, Tensor, TinyJit, dtypes
from tinylab.dtype import DType
from tinylab.errors import AllocationError, CreationError, OperandError, ShapeError
from tinylab.uop.evaluate import threefry2x32

N = 20_000


def test_seed_repeats_everything() -> None:
    def draws() -> list[object]:
        Tensor.manual_seed(7)
        first = Tensor.rand(5)
        second = Tensor.rand(5)
        return [
            second.tolist(),
            first.tolist(),
            Tensor.randn(3).tolist(),
            Tensor.randint(4).tolist(),
        ]

    once, again = draws(), draws()
    assert once == again
    assert once[0] != once[1]
    Tensor.manual_seed(8)
    assert Tensor.rand(5).tolist() != once[1]


def test_order_of_realizing_does_not_matter() -> None:
    Tensor.manual_seed(1)
    a, b = Tensor.rand(4), Tensor.rand(4)
    forward = [a.tolist(), b.tolist()]
    Tensor.manual_seed(1)
    a, b = Tensor.rand(4), Tensor.rand(4)
    backward = [b.tolist(), a.tolist()][::-1]
    assert forward == backward


def test_threefry_of_tensors_is_that_of_numbers() -> None:
    counter, key = (
        Tensor([0, 5, 2**63 + 9], dtype="uint64"),
        Tensor([7, 0, 2**64 - 1], dtype="uint64"),
    )
    pairs = zip(counter.tolist(), key.tolist(), strict=True)
    assert counter.threefry(key).tolist() == [threefry2x32(c, k) for c, k in pairs]


def test_words_are_threefry() -> None:
    """The counter and the key make a key; of it, counter (i, i + n) gives words i and i + n."""
    key, counter = 0x0123456789ABCDEF, 41
    got = Tensor.random_bits(
        Tensor([key], dtype=dtypes.uint64), Tensor([counter], dtype=dtypes.uint64), 5
    ).tolist()
    own = threefry2x32(counter, key)
    blocks = [threefry2x32(i + 3 << 32 | i, own) for i in range(3)]
    assert got == [b & 0xFFFFFFFF for b in blocks] + [b >> 32 for b in blocks[:2]]


# As real tinygrad gives them: key, counter, words.
PAIRS = [
    ([1, 2], [0, 0], [290397809, 3630990729, 1164159774, 3527179513, 2106506081]),
    ([1, 2], [0, 0], [2804340251, 2492954182, 2733399006, 1127316618]),
    ([9, 4], [4294967294, 3], [902854625, 3682598011, 1196619360]),
    ([9, 4], [0, 3], [193163931, 3252800569, 4161817737, 3325148509, 3481973407, 2055496148]),
    ([9, 4], [0, 3], []),
]


@pytest.mark.parametrize(("key", "counter", "words"), PAIRS)
def test_words_of_pairs(key: list[int], counter: list[int], words: list[int]) -> None:
    pair = [Tensor(x, dtype=dtypes.uint32) for x in (key, counter)]
    assert Tensor.random_bits(*pair, len(words)).tolist() == words


def test_words_of_neither_are_refused() -> None:
    pair = Tensor([1, 2], dtype=dtypes.uint32)
    with pytest.raises(ShapeError, match=r"the key is dtypes.ulong \(2,\)"):
        Tensor.random_bits(Tensor([0, 1], dtype=dtypes.uint64), pair, 5)
    with pytest.raises(ShapeError, match=r"the counter is dtypes.uint \(3,\)"):
        Tensor.random_bits(pair, Tensor([0, 0, 0], dtype=dtypes.uint32), 5)


GIVEN = json.loads(drawn.KEPT.read_text())


@pytest.mark.parametrize("expression", drawn.DRAWS)
@pytest.mark.parametrize("seed", drawn.SEEDS)
def test_numbers_are_those_that_tinygrad_gives(expression: str, seed: int) -> None:
    given = GIVEN["draws"][f"{seed}: {expression}"]
    with Context(TRAINING=1):
        found = drawn.draw(expression, seed, Tensor)
    assert found[2] == given[2], "so many numbers were drawn"
    if not any(name in expression for name in drawn.ROUNDED):
        assert found == given
        return
    dtype = expression.partition('dtype="')[2].partition('"')[0]
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 2e-6)
    assert found[0] == given[0]
    np.testing.assert_allclose(found[1], given[1], tolerance, tolerance)


def test_draws_over_time_are_those_that_tinygrad_gives() -> None:
    """Captured functions draw what tinygrad draws without them, after another seed too."""
    found = drawn.draw_over_time(Tensor, TinyJit)
    for what, numbers in GIVEN["over time"].items():
        assert found[what] == numbers, what


def test_a_seed_is_a_number() -> None:
    for seed in (1.5, "7", None):
        with pytest.raises(OperandError, match=f"a seed is an integer, not {seed!r}"):
            Tensor.manual_seed(seed)


def test_threads_draw_numbers_of_their_own() -> None:
    def draws() -> list[Any]:
        Tensor.manual_seed(7)
        with ThreadPoolExecutor(1) as pool:
            there = pool.submit(lambda: Tensor.rand(8).tolist()).result()
        return [there, Tensor.rand(8).tolist()]

    there, here = draws()
    assert there != here
    assert draws()[1] == here


def test_small_default_types_make_no_poor_integers() -> None:
    """float16 holds neither 100000 nor as many numbers as there are places to permute."""
    with Context(DEFAULT_FLOAT="float16"):
        Tensor.manual_seed(7)
        found = [Tensor.randint(5, high=100000).tolist(), Tensor.randperm(33).tolist()]
        assert Tensor.rand(3).dtype is dtypes.float16
    Tensor.manual_seed(7)
    assert found == [Tensor.randint(5, high=100000).tolist(), Tensor.randperm(33).tolist()]


def test_integers_of_the_widest_range() -> None:
    found = Tensor.randint(N, low=-(2**63), high=2**63, dtype=dtypes.int64).numpy()
    assert found.min() < -(2**62)
    assert found.max() > 2**62
    assert abs(found.astype(float).mean()) < 2**63 * 0.03
    assert Tensor.randint(N, high=2**64, dtype=dtypes.uint64).numpy().max() > 2**63


WORDS = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint32)


@given(st.integers(2**23 + 1, 2**64) | st.integers(24, 64).map(lambda n: 2**n), st.integers())
def test_integers_of_a_wide_range_come_of_all_bits(size: int, seed: int) -> None:
    """The range times the random bits, rounded down, without an error of rounding."""
    rng = np.random.default_rng(abs(seed))
    each, count = 2 if size <= 2**32 else 3, 24
    words = rng.integers(0, 2**32, (each, count), dtype=np.uint32)
    words = np.where(rng.random(words.shape) < 0.5, rng.choice(WORDS, words.shape), words)
    with mock.patch.object(Tensor, "_random_words", return_value=Tensor(words.reshape(-1))):
        found = Tensor._wide_fractions(count, size, None).tolist()
    whole = [sum(int(w) << 32 * (each - 1 - i) for i, w in enumerate(col)) for col in words.T]
    assert found == [w * size >> 32 * each for w in whole]


@pytest.mark.parametrize(("low", "high", "dtype"), [
    (0, 2**31 - 1, dtypes.int), (-3, 2**23 - 2, dtypes.int), (0, 2**32, dtypes.uint32),
    (-(2**40), 2**40 + 1, dtypes.int64), (-(2**63), 2**63, dtypes.int64),
    (0, 2**64, dtypes.uint64), (2**63, 2**64, dtypes.uint64),
])  # fmt: skip
def test_the_low_bits_of_a_wide_range_are_random(low: int, high: int, dtype: DType) -> None:
    Tensor.manual_seed(3)
    found = Tensor.randint(N, low=low, high=high, dtype=dtype).numpy()
    assert int(found.min()) >= low
    assert int(found.max()) < high
    assert int(found.max()) - int(found.min()) > (high - low) * 0.99
    counts = np.bincount((found % 8).astype(int), minlength=8)
    assert abs(counts / N - 1 / 8).max() < 0.02


def test_integers_apart_further_than_any_type_are_refused() -> None:
    with pytest.raises(OperandError, match=r"are further apart than 2\*\*64"):
        Tensor.randint(3, low=-1, high=2**64)


def test_more_numbers_than_memory_are_refused_at_once() -> None:
    x = Tensor.randn(10**14)
    assert x.shape == (10**14,)
    with pytest.raises(AllocationError):
        x.realize()
    with pytest.raises(CreationError, match="more than any memory holds"):
        Tensor.rand(2**70)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64])
def test_rand_is_below_one(dtype) -> None:  # type: ignore[no-untyped-def]
    x = Tensor.rand(N, dtype=dtype).numpy()
    assert x.min() >= 0
    assert x.max() < 1
    assert x.astype(np.float64).mean() == pytest.approx(0.5, abs=0.01)
    assert x.astype(np.float64).var() == pytest.approx(1 / 12, abs=0.005)


def test_distributions() -> None:
    normal = Tensor.normal(N, mean=2.0, std=3.0).numpy()
    assert normal.mean() == pytest.approx(2, abs=0.1)
    assert normal.std() == pytest.approx(3, abs=0.1)
    uniform = Tensor.uniform(N, low=-2.0, high=4.0).numpy()
    assert (uniform.min() >= -2, uniform.max() < 4) == (True, True)
    ints = Tensor.randint(N, low=-3, high=4).numpy()
    assert sorted(set(ints.tolist())) == [-3, -2, -1, 0, 1, 2, 3]
    assert np.bincount(ints + 3).min() > N / 7 * 0.9
    bound = np.sqrt(6 / (8 + 5))
    glorot = Tensor.glorot_uniform(8, 5).numpy()
    assert np.abs(glorot).max() <= bound
    assert Tensor.kaiming_uniform(8, 5).numpy().std() > 0
    assert Tensor.kaiming_normal(400, 50).numpy().std() == pytest.approx(np.sqrt(2 / 50), rel=0.05)
    assert np.abs(Tensor.scaled_uniform(4, 4).numpy()).max() <= 0.25


def test_permutation() -> None:
    assert sorted(Tensor.randperm(50).tolist()) == list(range(50))


def test_multinomial() -> None:
    w = Tensor([0.0, 1.0, 3.0])
    drawn = np.bincount(w.multinomial(4000, replacement=True).numpy(), minlength=3)
    assert drawn[0] == 0
    assert drawn[2] / drawn[1] == pytest.approx(3, rel=0.2)
    without = Tensor([[1.0, 1.0, 1.0, 0.0]]).multinomial(3).numpy()
    assert sorted(without[0].tolist()) == [0, 1, 2]


def test_dropout() -> None:
    x = Tensor.ones(N)
    assert x.dropout(0.3) is x
    with Context(TRAINING=1):
        y = x.dropout(0.3).numpy()
        assert set(np.unique(y).tolist()) == {0.0, float(np.float32(1 / 0.7))}
        assert (y == 0).mean() == pytest.approx(0.3, abs=0.02)
        assert x.dropout(1.0).numpy().max() == 0
        a = Tensor.ones(8)
        (a.dropout(0.5) * 3).sum().backward()
        assert set(a.grad.tolist()) <= {0.0, 6.0}


def test_repeated_steps_have_one_graph() -> None:
    from tinylab.engine import realize

    x = Tensor.ones(16).realize()

    def step() -> None:
        (x + Tensor.rand(16)).realize()

    step()
    step()
    known = len(realize.schedule_cache)
    for _ in range(3):
        step()
    assert len(realize.schedule_cache) == known


def test_like() -> None:
    x = Tensor.ones(2, 3, dtype=dtypes.float16)
    assert (x.rand_like().shape, x.randn_like().dtype) == ((2, 3), dtypes.float16)
    assert Tensor.rand(0).tolist() == []
    assert Tensor.rand().shape == ()


def test_a_draw_leaves_values_that_wait_alone() -> None:
    """They read a counter that the draw moves on: what is to come has memory of its own."""

    def waiting() -> Tensor:
        Tensor.manual_seed(7)
        x = Tensor.rand(4, 4)
        for _ in range(6):
            x = (x @ Tensor.rand(4, 4)).relu()
        return x.dropout(0.1)

    for _ in range(5):  # tensors are told apart by where their nodes lie: chance has a part in it
        with Context(TRAINING=1):
            x = waiting()
        before = GlobalCounters.kernel_count
        drawn = Tensor.rand(3).realize()
        assert GlobalCounters.kernel_count - before == 2, "the numbers and the counter"
        more = Tensor.rand(2).numpy()
        values = x.numpy()
        with Context(TRAINING=1):
            again = waiting().numpy()
        np.testing.assert_array_equal(values, again)
        np.testing.assert_array_equal(drawn.numpy(), Tensor.rand(3).numpy())
        np.testing.assert_array_equal(more, Tensor.rand(2).numpy())


def test_a_captured_counter_stays_where_replays_move_it() -> None:
    """Draws between replays, with values that wait, are not the numbers of the replays."""

    @TinyJit
    def drawn() -> Tensor:
        return Tensor.rand(4).realize()

    Tensor.manual_seed(7)
    seen = [tuple(drawn().numpy()) for _ in range(3)]
    waits = Tensor.rand(4) + 1
    seen.append(tuple(Tensor.rand(4).numpy()))
    seen += [tuple(drawn().numpy()) for _ in range(2)]
    seen.append(tuple(waits.numpy() - 1))
    assert len({tuple(np.round(s, 5)) for s in seen}) == len(seen)

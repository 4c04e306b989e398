"""Writing in place: program order decides what is seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tinylab import Tensor, TinyJit, dtypes
from tinylab.errors import AssignError, CreationError


def numbers(n: int = 6) -> Tensor:
    return Tensor(np.arange(n, dtype=np.float32)).realize()


def test_built_before_sees_the_old_value() -> None:
    x = numbers(3)
    before, view = x * 10, x[1:]
    x.assign(x + 100)
    after = x * 10
    assert after.tolist() == [1000.0, 1010.0, 1020.0]
    assert before.tolist() == [0.0, 10.0, 20.0]
    assert view.tolist() == [1.0, 2.0]
    assert x.tolist() == [100.0, 101.0, 102.0]


def test_several_writes_in_one_realize() -> None:
    x = numbers(3)
    seen = []
    for _ in range(3):
        x.assign(x * 2)
        seen.append(x + 0.5)
    assert x.tolist() == [0.0, 8.0, 16.0]
    assert [s.tolist() for s in seen] == [[0.5, 2.5, 4.5], [0.5, 4.5, 8.5], [0.5, 8.5, 16.5]]


def test_write_through_a_view_reaches_its_owner() -> None:
    x = numbers(6)
    x[2:4].assign(Tensor([50.0, 60.0]))
    assert x.tolist() == [0, 1, 50, 60, 4, 5]
    row = x.reshape(2, 3)[1]
    row[0] = -1
    assert x.tolist() == [0, 1, 50, -1, 4, 5]
    assert row.tolist() == [-1, 4, 5]
    x.reshape(2, 3).transpose()[2, 0].assign(7.0)
    assert x.tolist() == [0, 1, 7, -1, 4, 5]


def test_write_to_an_expression_gives_it_storage() -> None:
    x = Tensor.arange(5)
    x[1:3] = 9
    assert x.tolist() == [0, 9, 9, 3, 4]
    y = Tensor([1.0, 2.0]) + 1
    z = y * 2
    y[0] = 0
    assert (y.tolist(), z.tolist()) == ([0.0, 3.0], [4.0, 6.0])


def test_swap() -> None:
    a, b = numbers(3), (numbers(3) + 10).realize()
    old = a * 1
    a.assign(b)
    b.assign(old)
    assert (a.tolist(), b.tolist()) == ([10, 11, 12], [0, 1, 2])


def test_overlapping_views() -> None:
    x = numbers(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = numbers(4).reshape(2, 2).contiguous().realize()
    y.assign(y.T + y)
    assert y.tolist() == [[0, 3], [3, 6]]


def test_operators_in_place() -> None:
    x = numbers(3)
    y = x
    x += 1
    x *= 2
    x -= 1
    x /= 2
    assert x is y
    assert y.tolist() == [0.5, 1.5, 2.5]
    n = Tensor([7, 8])
    n //= 2
    n <<= 1
    n |= 1
    assert n.tolist() == [7, 9]
    h = Tensor([1.0, 2.0], dtype=dtypes.float16)
    h += 0.5
    assert h.dtype is dtypes.float16


def test_numbers_and_broadcasting() -> None:
    x = Tensor.zeros(2, 3).realize()
    x[0] = 5
    x[:, 1] = Tensor([1.0, 2.0])
    x[1, 2:] = [8.5]
    assert x.tolist() == [[5, 1, 5], [0, 2, 8.5]]
    x.assign(3)
    assert x.tolist() == [[3] * 3] * 2
    x[None, :, :] = Tensor.ones(1, 2, 3)
    assert x.tolist() == [[1] * 3] * 2


TYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]
INDICES = {
    "number": 1,
    "slice": slice(1, 3),
    "step": slice(None, None, -2),
    "list": [3, 0, 3],
    "mask": np.array([True, False, False, True]),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_written_to_an_index_is_cast(dtype: str, value: str, name: str) -> None:
    """numpy and PyTorch do so; tinygrad refuses another type."""
    index, data = INDICES[name], np.arange(4).astype(dtype)
    new = np.array([2.7, 0.0, 1.5]).astype(value)[: np.size(data[index])].reshape(data[index].shape)
    for v in (Tensor(new), new, new.tolist()):
        t = Tensor(data).realize()
        t[Tensor(index) if isinstance(index, np.ndarray) else index] = v
        expected = data.copy()
        expected[index] = new
        assert t.dtype is Tensor(data).dtype
        np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e20, 300.5, -129.0])
def test_a_number_that_an_integer_type_cannot_hold_is_not_written(value: float) -> None:
    """numpy and PyTorch refuse it too; an array of such is cast."""
    t = Tensor([1, 2], dtype="int8")
    with pytest.raises(CreationError, match=r"does not fit .*, which holds -128 to 127"):
        t[0] = value
    assert t.tolist() == [1, 2]
    t[0] = -128.9
    assert t.tolist() == [-128, 2]


def test_small_floats_and_weak_values_are_cast_where_they_are_written() -> None:
    x = Tensor([1.5, -2.7, 300.0])
    for dtype in (dtypes.bfloat16, dtypes.fp8e4m3):
        t = Tensor.zeros(3, dtype=dtype)
        t[:] = x
        assert t.tolist() == x.cast(dtype).tolist()
        n = Tensor([0, 0, 0])
        n[:] = t
        assert n.tolist() == x.cast(dtype).cast(dtypes.int32).tolist()
    n[0] = Tensor(2.7)  # weak
    n[1:] = Tensor(7.9).expand(2)
    assert n.tolist() == [2, 7, 7]


def test_a_cast_value_that_reads_what_is_written() -> None:
    t = Tensor([1, 2, 3, 4]).realize()
    t[1:] = t[:-1].float() * 1.5
    assert t.tolist() == [1, 1, 3, 4]
    with pytest.raises(AssignError, match="a float result does not fit"):
        t[1:] += 1.5


def test_the_gradient_of_what_is_cast_and_written() -> None:
    x = Tensor([1.5, 2.5])
    t = Tensor.zeros(3, dtype=dtypes.float16)
    t[1:] = x * 2
    (grad,) = (t.float() * Tensor([1.0, 2.0, 3.0])).sum().gradient(x)
    assert (grad.dtype, grad.tolist()) == (dtypes.float32, [4.0, 6.0])


def test_indices_twice_keep_the_last_value() -> None:
    x = numbers(5)
    x[[3, 1, 3, 1]] = Tensor([7.0, 8.0, 0.0, float("nan")])
    assert np.array_equal(x.numpy(), np.array([0, np.nan, 2, 0, 4], np.float32), equal_nan=True)


def test_mask() -> None:
    x = numbers(5)
    x[x > 2.5] = 0
    assert x.tolist() == [0, 1, 2, 0, 0]


def test_empty_write() -> None:
    x = numbers(3)
    x[1:1] = 5
    assert x.tolist() == [0, 1, 2]


def test_write_into_what_is_expanded() -> None:
    with pytest.raises(RuntimeError, match="expanded view"):
        numbers(3).reshape(1, 3).expand(2, 3)[0] = 1


SHAPE = (4, 3, 5)


def one_index(size: int) -> st.SearchStrategy[object]:
    bound = st.none() | st.integers(-size - 1, size + 1)
    step = st.sampled_from([None, 1, 2, 3, -1, -2])
    places = st.lists(st.integers(-size, size - 1), min_size=1, max_size=3)
    return st.integers(-size, size - 1) | st.builds(slice, bound, bound, step) | places


@st.composite
def index_expressions(draw: st.DrawFn) -> tuple[object, ...]:
    axes = draw(st.integers(1, 3))
    found = [draw(one_index(SHAPE[i])) for i in range(axes)]
    # Lists in one index must broadcast: make them equally long.
    length = min((len(f) for f in found if isinstance(f, list)), default=0)
    found = [f[:length] if isinstance(f, list) else f for f in found]
    if draw(st.booleans()):
        found.insert(draw(st.integers(0, axes)), None)
    if axes < 3 and draw(st.booleans()):
        found.append(Ellipsis)
    return tuple(found)


@given(index_expressions())
@settings(max_examples=60)
def test_reading_is_numpys(index: tuple[object, ...]) -> None:
    data = np.arange(60, dtype=np.int32).reshape(SHAPE)
    expected = data[index]
    got = Tensor(data)[index]
    assert got.shape == expected.shape
    assert np.array_equal(got.numpy(), expected)


@given(index_expressions())
@settings(max_examples=60)
def test_writing_is_numpys(index: tuple[object, ...]) -> None:
    data = np.arange(60, dtype=np.int32).reshape(SHAPE)
    t = Tensor(data.copy()).realize()
    new = np.arange(100, 100 + data[index].size, dtype=np.int32).reshape(data[index].shape)
    data[index] = new
    t[index] = Tensor(new)
    assert np.array_equal(t.numpy(), data)


def test_masks_of_what_was_just_written() -> None:
    right = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    t = Tensor(right)
    for index, value in ((0, 5.0), ([0, 2], 6.0), (slice(None, None, -2), 0.25)):
        t[index] = value
        right[index] = value
        t[t > 4] = -1
        right[right > 4] = -1
        t[t < -9] = 3
        np.testing.assert_array_equal(t.numpy(), right)
    t[0] = 7.0
    right[0] = 7.0
    np.testing.assert_array_equal(t[t > 4].numpy(), right[right > 4])
    np.testing.assert_array_equal(t.masked_select(t > 4).numpy(), right[right > 4])


# What a view of bits is taken of, and the same of a numpy array.
LOOKS = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:3],
    "one row": lambda x: x[2],
}
# fmt: off
BITS = [
    (dtypes.uint8, np.uint8), (dtypes.int16, np.int16), (dtypes.float32, np.float32),
    (dtypes.uint32, np.uint32), (dtypes.int64, np.int64), (dtypes.float64, np.float64),
]
# fmt: on


@pytest.mark.parametrize("device", ["CPU", "PYTHON", ("CPU", "CPU:1")])
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("bits", BITS, ids=lambda b: b[0].name)
def test_a_write_through_bits_reaches_what_they_are_of(device, look, bits) -> None:
    dtype, numpy_dtype = bits
    a = (np.arange(16, dtype=np.int32) + 2**30).reshape(4, 4)
    x = Tensor(a).shard(device, 0) if isinstance(device, tuple) else Tensor(a, device=device)
    x.realize()
    a, before = a.copy(), x + 0
    kept = a.copy()
    for writes in (whole_bits, some_bits, picked_bits, more_bits):
        writes(LOOKS[look](x).bitcast(dtype))
        writes(LOOKS[look](a).view(numpy_dtype))
        np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(before.numpy(), kept)


def whole_bits(v) -> None:
    new = v[..., ::-1]
    if isinstance(v, Tensor):
        v.assign(new)
    else:
        v[...] = new.copy()


def some_bits(v) -> None:
    v[..., 1:2] = 7


def picked_bits(v) -> None:
    v[..., [0, 1]] = 3


def more_bits(v) -> None:
    v += 1


def test_bits_of_what_was_never_stored_or_is_gone() -> None:
    x = Tensor([1, 2, 3, 4]) * 2
    low = x.bitcast(dtypes.uint8)[:1]
    low.assign(low + 1)
    assert x.tolist() == [3, 4, 6, 8]
    v = (Tensor([1, 2]) * 2).bitcast(dtypes.uint8)
    v[4:] = 1
    assert v.tolist() == [2, 0, 0, 0, 1, 1, 1, 1]
    twice = x.bitcast(dtypes.float32).bitcast(dtypes.int16)
    twice[1:2] = 1
    assert x.tolist() == [3 + 2**16, 4, 6, 8]


def test_a_write_through_bits_is_seen_by_what_is_built_after_it() -> None:
    x = Tensor([1, 2]).realize()
    v = x.bitcast(dtypes.uint8)
    v[:1] = 7
    middle = x + v[:1].cast(dtypes.int32)
    v[:1] = 9
    assert (x.tolist(), middle.tolist()) == ([9, 2], [14, 9])
    x.assign(x + 1)
    assert v.tolist()[:5] == [9, 0, 0, 0, 2]


def test_a_write_through_bits_is_replayed() -> None:
    x = Tensor([1, 2]).realize()

    @TinyJit
    def step(a: Tensor) -> None:
        a.bitcast(dtypes.uint8)[:1] += 1
        a.realize()

    for n in range(5):
        step(x)
        assert x.tolist() == [2 + n, 2]

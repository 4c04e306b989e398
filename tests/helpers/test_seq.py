import pickle

import pytest
from hypothesis import given, strategies as st

from tinylab.errors import OperandError
from tinylab.helpers import seq

ints = st.integers(-(2**63), 2**63 - 1)


@given(ints, ints.filter(bool))
def test_c_division_is_toward_zero(x, y):
    assert seq.cdiv(x, y) * y + seq.cmod(x, y) == x
    assert abs(seq.cmod(x, y)) < abs(y)
    assert seq.cmod(x, y) == 0 or (seq.cmod(x, y) < 0) == (x < 0)


@given(ints, ints)
def test_floor_division_is_pythons_and_total(x, y):
    assert seq.floordiv(x, y) == (x // y if y else 0)
    assert seq.floormod(x, y) == (x % y if y else 0)
    assert seq.cdiv(x, 0) == seq.cmod(x, 0) == 0


@given(st.integers(-1000, 1000), st.integers(1, 64))
def test_rounding(x, n):
    assert seq.round_up(x, n) % n == 0
    assert 0 <= seq.round_up(x, n) - x < n
    assert 0 <= x - seq.round_down(x, n) < n
    assert seq.ceildiv(x, n) == seq.round_up(x, n) // n


@pytest.mark.parametrize(("x", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (5, 8), (1024, 1024)])
def test_next_power2(x, power):
    assert seq.next_power2(x) == power


def test_sequences():
    assert seq.prod(()) == 1
    assert seq.prod((2, 3)) == 6
    assert seq.dedup([2, 1, 2]) == [2, 1]
    assert seq.flatten([[1], [2, 3]]) == [1, 2, 3]
    assert seq.fully_flatten([[1, [2]], 3, "ab"]) == [1, 2, 3, "ab"]
    assert seq.argfix(2, 3) == seq.argfix((2, 3)) == seq.argfix([2, 3]) == (2, 3)
    assert seq.argsort((3, 1, 2)) == (1, 2, 0)
    assert seq.partition([1, 2, 3], lambda x: x > 1) == ([2, 3], [1])
    assert seq.all_same([])
    assert not seq.all_same([1, 2])
    assert seq.merge_dicts([{"a": 1}, {"a": 1, "b": 2}]) == {"a": 1, "b": 2}
    assert seq.make_tuple(3, 2) == (3, 3)
    assert seq.to_tuple(1) == (1,)
    assert seq.get_child({"a": [type("X", (), {"b": 7})]}, "a.0.b") == 7
    assert seq.polyN(2.0, [1.0, 3.0, 5.0]) == 15.0


def test_what_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="bad arg"):
        seq.argfix((1, 2), 3)
    with pytest.raises(AssertionError):
        seq.merge_dicts([{"a": 1}, {"a": 2}])
    with pytest.raises(AssertionError):
        seq.get_single_element([1, 2])
    with pytest.raises(ValueError, match="inhomogeneous shape from"):
        seq.get_shape([[1, 2], [3]])
    with pytest.raises(ValueError, match="padding length is improper"):
        seq.resolve_pool_pads((1, 2, 3), 2)


def test_shapes():
    assert seq.get_shape([[1, 2, 3], [4, 5, 6]]) == (2, 3)
    assert seq.get_shape(5) == ()
    assert seq.get_shape([]) == (0,)
    assert seq.strides_for_shape((2, 3, 4)) == (12, 4, 1)
    assert seq.strides_for_shape((2, 1, 4)) == (4, 0, 1)
    assert seq.flat_to_grouped((1, 2, 3, 4)) == ((3, 4), (1, 2))
    assert seq.resolve_pool_pads(1, 2) == [1, 1, 1, 1]
    assert seq.resolve_pool_pads((1, 2), 2) == [2, 2, 1, 1]
    assert seq.resolve_pool_pads((1, 2, 3, 4), 2) == [1, 2, 3, 4]


def test_bits():
    assert seq.data64_le(0x1_0000_0002) == (2, 1)
    assert seq.data64(0x1_0000_0002) == (1, 2)
    assert seq.getbits(0b1101, 1, 2) == 0b10
    assert seq.i2u(8, -1) == 255


def test_count_goes_on_after_pickling():
    numbers = seq.count(5, 2)
    next(numbers)
    assert next(pickle.loads(pickle.dumps(numbers))) == next(numbers) == 7


@pytest.mark.parametrize("items", [[None], ["a", "b"], [[1], [2]], (2, None)])
def test_what_has_no_product_is_told(items):
    with pytest.raises(OperandError, match="prod: there is no product of"):
        seq.prod(items)


@pytest.mark.parametrize("shape", [("a", 2), (2.5, 3.5), (None, 2), ([2], 3)])
def test_strides_are_of_sizes(shape):
    with pytest.raises(OperandError, match="strides_for_shape: a shape is a tuple of sizes"):
        seq.strides_for_shape(shape)

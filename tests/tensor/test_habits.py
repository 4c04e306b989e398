"""What scripts do with tensors by habit: lists of them, formats, attributes of their own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tinylab import Tensor, dtypes
from tinylab.errors import OperandError, StackError, TinylabError

A, B = Tensor([1, 2]), Tensor([3, 4])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_tensors_is_joined(kind: Any) -> None:
    assert Tensor.stack(kind([A, B])).tolist() == [[1, 2], [3, 4]]
    assert Tensor.stack(kind([A, B]), dim=1).tolist() == [[1, 3], [2, 4]]
    assert Tensor.cat(kind([A, B])).tolist() == [1, 2, 3, 4]
    assert Tensor.stack(kind([A, B]), 1).tolist() == [[1, 3], [2, 4]]
    assert Tensor.cat(kind([A, B]), 0).tolist() == [1, 2, 3, 4]
    assert Tensor.cat(kind([A.reshape(1, 2), B.reshape(1, 2)]), dim=-1).shape == (1, 4)
    (Tensor.cat(kind([x := Tensor([1.0]), x])).sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize(
    ("parts", "error", "text"),
    [
        ([A, Tensor([1])], StackError, r"all shapes must match for stack, got \(2,\), \(1,\)"),
        ([], OperandError, "stack is called on a tensor, not on "),
        ([1, 2], OperandError, "stack is called on a tensor, not on "),
    ],
    ids=str,
)
def test_what_cannot_be_joined(parts: Any, error: type[TinylabError], text: str) -> None:
    with pytest.raises(error, match=text):
        Tensor.stack(parts)


def test_one_number_has_a_format() -> None:
    assert f"{Tensor(3.14159):.2f} {Tensor([7]):03d} {Tensor(1.5)}".startswith(
        "3.14 007 Tensor(1.5"
    )
    with pytest.raises(OperandError, match=r"the format '.2f' is for one number, not for shape"):
        f"{A:.2f}"


def test_rounded_by_python() -> None:
    assert round(Tensor([1.5, -2.5])).tolist() == [2, -2]
    assert round(Tensor([1.26], dtype="float64"), 1).tolist() == [1.3]


def test_an_attribute_of_ones_own() -> None:
    x: Any = Tensor([1, 2])
    x.label = "mine"
    for same in (x, pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert (same.label, same.tolist()) == ("mine", [1, 2])
    assert not hasattr(x + 1, "label")


def test_a_view_of_memory_has_its_type() -> None:
    raw = memoryview(bytes(range(8)))
    assert Tensor(raw).tolist() == list(range(8))
    assert Tensor(raw.cast("H")).dtype is dtypes.uint16
    assert Tensor(raw.cast("I", (2,))).tolist() == raw.cast("I").tolist()
    assert Tensor(raw, dtype=dtypes.uint32).tolist() == raw.cast("I").tolist()

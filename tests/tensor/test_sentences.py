"""Mistakes are answered with a sentence that holds the values; never with Python's own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, Variable, dtypes, nn
from tinylab.errors import CreationError, TinylabError

ONES = Tensor.ones
ANY: Any = ONES  # for arguments that no type allows

MISTAKES: dict[str, Callable[[], Any]] = {
    "an axis is a whole number, not 1.5": lambda: ONES(2, 3).sum(1.5),  # type: ignore[arg-type]
    "an axis is a whole number, not 'a'": lambda: ONES(2, 3).sum("a"),  # type: ignore[arg-type]
    "topk: k=1.5 is out of range for axis -1 of size 3": lambda: ONES(3).topk(1.5),  # type: ignore[arg-type]
    "triu needs two axes, not shape (3,)": lambda: ONES(3).triu(),
    "tril needs two axes, not shape ()": lambda: Tensor(1.0).tril(),
    "interpolate: cannot go from (3, 4) to (0, 3)": lambda: ONES(1, 1, 3, 4).interpolate((0, 3)),
    "interpolate: cannot go from (0,) to (3,)": lambda: ONES(1, 1, 0).interpolate((3,)),
    "kernel=(2, 2), stride=(0, 0) and dilation=(1, 1) must be 1 or more": (
        lambda: ONES(1, 1, 4, 4).avg_pool2d(2, stride=0)
    ),
    "kernel=(3, 3), stride=(0, 0) and dilation=(1, 1) must be 1 or more": (
        lambda: ONES(1, 1, 4, 4).conv2d(ONES(1, 1, 3, 3), stride=0)
    ),
    "a tensor cannot be filled with 'a'": lambda: Tensor.full((2,), "a"),
    "randint: nothing lies from low=5 up to, not including, high=2": (
        lambda: Tensor.randint(3, low=5, high=2)
    ),
    "no data if shape is symbolic, (n, 3)": lambda: ONES(4, 3)[: Variable("n", 1, 3)].numpy(),
    "groups=2 must divide in_channels=3 and out_channels=4": lambda: nn.Conv2d(3, 4, 3, groups=2),
    "a convolution needs channels and a kernel of 1 or more, not 3 and (0, 0)": (
        lambda: nn.Conv2d(3, 4, 0)
    ),
    "a convolution needs channels and a kernel of 1 or more, not 0 and (3, 3)": (
        lambda: nn.ConvTranspose2d(3, 0, 3)
    ),
    "num_groups=2 must divide num_channels=3": lambda: nn.GroupNorm(2, 3),
    "the parameters are a list of tensors, not 1": lambda: nn.optim.Adam([1]),  # type: ignore[list-item]
    "the parameters are a list of tensors, not <Tensor (3,) dtypes.float on CPU>": (
        lambda: nn.optim.Adam(ONES(3))  # type: ignore[arg-type]
    ),
    "arange: start=0, stop=nan and step=1 must be finite": lambda: Tensor.arange(float("nan")),
    "arange: start=0, stop=inf and step=1 must be finite": lambda: Tensor.arange(float("inf")),
    "celu: alpha must not be 0, which it divides by": lambda: ONES(2).celu(0),
    "softplus: beta must not be 0, which it divides by": lambda: ONES(2).softplus(beta=0),
    "roll: shifts are whole numbers, not {1}": lambda: ANY(3).roll({1}),
    "numpy has no arrays of shape (0, 18446744073709551616): Maximum allowed dimension exceeded": (
        lambda: Tensor.zeros(0, 2**64).numpy()
    ),
    "cross_entropy: no classes in logits (3, 0)": (
        lambda: Tensor.zeros(3, 0).cross_entropy(Tensor([0, 0, 0]))
    ),
    "(set(),) is no shape": lambda: ANY(3).shrink_to(set()),
    "roll needs an axis, not shape ()": lambda: Tensor(1.0).roll(0, -1),
    "stride=() is for 0 spatial axes, not 2": lambda: ONES(1, 1, 4, 4).max_pool2d(2, stride=()),
    "dilation=(1,) is for 1 spatial axes, not 2": (
        lambda: ONES(1, 1, 4, 4).conv2d(ONES(1, 1, 2, 2), dilation=(1,))
    ),
    "output_padding=(0, 0, 0) is for 3 spatial axes, not 2": (
        lambda: ONES(1, 1, 4, 4).conv_transpose2d(ONES(1, 1, 2, 2), output_padding=(0, 0, 0))
    ),
    "conv_transpose2d: of (1, 1, 2, 2) padding by [(1, 1), (1, 1)] leaves (0, 0)": (
        lambda: ONES(1, 1, 2, 2).conv_transpose2d(ONES(1, 1, 1, 1), padding=1)
    ),
    "a tensor is on one device or more, not on ()": lambda: ONES(2).to([]),
    "pooling with a kernel of 0 axes needs as many, not (2,)": lambda: ONES(2).avg_pool2d(()),
    "axis 0 is named twice in (0, 0) for shape (2, 3)": lambda: ONES(2, 3).sum((0, 0)),
    "axis 1 is named twice in (1, -1) for shape (2, 3)": lambda: ONES(2, 3).softmax((1, -1)),
    "axis 1 is named twice in (1, 1) for shape (2, 3)": lambda: ONES(2, 3).flip(1, 1),
    "flatten: start_dim=1 is axis 1, after end_dim=0, 0": lambda: ONES(2, 3).flatten(1, 0),
    "masked_select: a mask is bools, not dtypes.float": lambda: ONES(3).masked_select(ONES(3)),
    "masked_select: a mask is bools, not dtypes.int": (
        lambda: ONES(3).masked_select(Tensor([0, 1, 0]))
    ),
    "CPU has no video decoder for a frame of shape (2, 2)": (
        lambda: ONES(3).decode_hevc_frame(0, (2, 2), ONES(3))
    ),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(sentence: str) -> None:
    with pytest.raises(TinylabError) as raised:
        MISTAKES[sentence]()
    assert raised.value.message == sentence


# Integers that no element can be, by who makes a tensor of them.
MAKERS: dict[str, Callable[[int, str], Any]] = {
    "number": lambda n, d: Tensor(n, dtype=d),
    "list": lambda n, d: Tensor([[0, n]], dtype=d),
    "full": lambda n, d: Tensor.full((2,), n, dtype=d),
    "full_like": lambda n, d: Tensor.zeros(2, dtype=d).full_like(n),
    "setitem": lambda n, d: Tensor.zeros(2, dtype=d).contiguous().__setitem__(0, n),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("n", "dtype"), [
    (300, "uint8"), (-256, "uint8"), (200, "int8"), (-129, "int8"), (2**31, "int32"),
    (2**63, "int64"), (2**64, "uint64"), (2**70, "int32"),
])  # fmt: skip
def test_an_integer_that_does_not_fit_is_refused(maker: str, n: int, dtype: str) -> None:
    with pytest.raises(CreationError, match=f"{n} does not fit"):
        MAKERS[maker](n, dtype)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("n", "dtype"), [
    (255, "uint8"), (-128, "int8"), (2**31 - 1, "int32"), (-(2**63), "int64"),
    (2**64 - 1, "uint64"), (2**40, "float32"), (2**70, "float32"), (2, "bool"),
])  # fmt: skip
def test_an_integer_that_fits_is_taken(maker: str, n: int, dtype: str) -> None:
    MAKERS[maker](n, dtype)


def test_a_wide_integer_is_an_int64() -> None:
    for t in (Tensor(2**40), Tensor([2**40]), Tensor.full((1,), 2**40)):
        assert t.dtype is dtypes.int64
        assert t.sum().item() == 2**40
    for wide in (2**63, 2**70, -(2**63) - 1):
        for make in (Tensor, lambda n: Tensor([n]), lambda n: Tensor.full((2,), n)):
            with pytest.raises(CreationError, match=r"does not fit dtypes\.long"):
                make(wide)


@pytest.mark.parametrize(
    "numbers",
    [(2**31, 2**31 + 2), (0, 2**33, 2**31), (0, -(2**33), -(2**32)), (2**63 - 2, 2**63), (5, 0)],
)
def test_a_range_reaches_as_far_as_int64(numbers: tuple[int, ...]) -> None:
    found = Tensor.arange(*numbers)
    assert found.tolist() == list(range(*numbers))
    assert found.dtype is (dtypes.int32 if numbers == (5, 0) else dtypes.int64)


def test_a_range_fits_its_type() -> None:
    assert Tensor.arange(10, 0, -3, dtype="uint8").tolist() == [10, 7, 4, 1]
    assert Tensor.arange(2**63, 2**63 + 2, dtype="uint64").tolist() == [2**63, 2**63 + 1]
    for ends, values in (((0, 2), [False, True]), ((1, 2), [True]), ((1, 0), [])):
        found = Tensor.arange(*ends, dtype="bool")
        assert (found.dtype, found.tolist()) == (dtypes.bool, values)
    for ends, dtype in (((250, 260), "uint8"), ((-1, 3), "uint8"), ((0, 10), "bool")):
        with pytest.raises(CreationError, match="has no room for the numbers from"):
            Tensor.arange(*ends, dtype=dtype)
    with pytest.raises(CreationError, match=r"dtypes\.long has no room"):
        Tensor.arange(2**63, 2**63 + 2)


def test_a_range_is_a_shape() -> None:
    assert ANY(6).reshape(range(1, 4)).shape == (1, 2, 3)
    shift = Variable("shift", 1, 2).bind(2)
    assert ANY(3).cumsum().roll(shift).tolist() == [2, 3, 1]


def test_numbers_of_numpy_are_numbers() -> None:
    assert ONES(2, 3).sum(np.int64(1)).tolist() == [3, 3]  # type: ignore[arg-type]
    assert Tensor.full((2,), np.float32(1.5)).tolist() == [1.5, 1.5]


def test_a_symbolic_shape_is_shown_on_one_line() -> None:
    t = ONES(4, 3)[: Variable("n", 1, 3)]
    assert repr(t) == "<Tensor (n, 3) dtypes.float on CPU>"
    assert "(n, 3) float32 on CPU" in t._repr_html_()

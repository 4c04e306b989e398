"""Mistakes are answered with a sentence that holds the values; never with Python's own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, Variable, nn
from tinylab.errors import TinylabError

ONES = Tensor.ones

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
    "num_groups=2 must divide num_channels=3": lambda: nn.GroupNorm(2, 3),
    "the parameters are a list of tensors, not 1": lambda: nn.optim.Adam([1]),  # type: ignore[list-item]
    "the parameters are a list of tensors, not <Tensor (3,) dtypes.float on CPU>": (
        lambda: nn.optim.Adam(ONES(3))  # type: ignore[arg-type]
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


def test_numbers_of_numpy_are_numbers() -> None:
    assert ONES(2, 3).sum(np.int64(1)).tolist() == [3, 3]  # type: ignore[arg-type]
    assert Tensor.full((2,), np.float32(1.5)).tolist() == [1.5, 1.5]


def test_a_symbolic_shape_is_shown_on_one_line() -> None:
    t = ONES(4, 3)[: Variable("n", 1, 3)]
    assert repr(t) == "<Tensor (n, 3) dtypes.float on CPU>"
    assert "(n, 3) float32 on CPU" in t._repr_html_()

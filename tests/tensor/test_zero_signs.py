"""The sign of a zero is numpy's, with which PyTorch agrees: of arithmetic, and of each function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.uop.ops import Ops, UOp

VALUES = np.array([-0.0, 0.0, 1.5, -1.5, np.inf, -np.inf, 3.5, -4.5, -0.3], np.float32)
LEFT, RIGHT = (m.ravel().copy() for m in np.meshgrid(VALUES, VALUES))
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv"]
FUNCTIONS = {
    "ceil": np.ceil,
    "floor": np.floor,
    "neg": np.negative,
    "round": np.round,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


def zeros(x: Any) -> list[str]:
    """Which elements are zeros, and of which sign."""
    values = np.asarray(x)
    signs = np.where(np.signbit(values), "-0", "+0")
    return [str(s) for s in np.where(values == 0, signs, "")]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", OPERATORS)
def test_of_operators(name: str, device: str) -> None:
    f: Callable[[Any, Any], Any] = getattr(operator, name)
    a, b = Tensor(LEFT, device=device), Tensor(RIGHT, device=device)
    expected = zeros(f(LEFT, RIGHT))
    assert zeros(f(a, b).numpy()) == expected
    for number in (-0.0, 0.0, 3.5, -4.5):
        x = Tensor(VALUES, device=device)
        assert zeros(f(x, number).numpy()) == zeros(f(VALUES, np.float32(number))), number
        assert zeros(f(number, x).numpy()) == zeros(f(np.float32(number), VALUES)), number


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_functions(name: str, device: str) -> None:
    found = getattr(Tensor(VALUES, device=device), name)()
    assert zeros(found.numpy()) == zeros(FUNCTIONS[name](VALUES))


def test_a_product_with_zero_keeps_the_sign_of_a_bounded_value() -> None:
    x = Tensor([-2, 0, 3]).cast("float32")
    assert zeros((x * 0.0).numpy()) == ["-0", "+0", "+0"]
    assert zeros((x * -0.0).numpy()) == ["+0", "-0", "-0"]


def test_nothing_is_added_to_what_is_never_minus_zero() -> None:
    counted, stored = UOp.variable("n", 0, 9), UOp.variable("x", -1.0, 1.0, dtypes.float32)
    assert (counted.cast(dtypes.float32) + 0.0).simplify() is counted.cast(
        dtypes.float32
    ).simplify()
    assert (stored + 0.0).simplify().op is Ops.ADD

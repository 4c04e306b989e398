"""Random tensor programs: what each device computes is what the oracle says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests import oracle
from tinylab import Tensor, dtypes

Draw = Callable[[st.SearchStrategy[Any]], Any]
SIZES = st.integers(1, 5)
MOST = 400  # elements of one value
SCALE = settings().max_examples // 100  # HYPOTHESIS_PROFILE=long looks longer


@st.composite
def leaves(draw: Draw, device: str) -> Tensor:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["float32", "int32", "bool", "float16", "uint8"]))
    if kind == "bool":
        array = random.integers(0, 2, shape).astype(np.bool_)
    elif kind.startswith("float"):
        array = random.integers(-8, 9, shape).astype(kind) / np.float16(4)
    else:
        array = random.integers(0 if kind == "uint8" else -9, 10, shape).astype(kind)
    return Tensor(array.astype(kind), device=device).realize()


def moved(draw: Draw, x: Tensor) -> Tensor:
    """Another view of x."""
    kind = draw(st.sampled_from(["reshape", "permute", "expand", "pad", "shrink", "flip", "slice"]))
    axis = draw(st.integers(0, x.ndim - 1)) if x.ndim else None
    if axis is None or kind == "reshape":
        return x.reshape(-1) if draw(st.booleans()) else x.reshape(*x.shape, 1)
    size = x.shape[axis]
    if kind == "permute":
        return x.permute(*draw(st.permutations(range(x.ndim))))
    if kind == "expand":
        return x.unsqueeze(axis).expand(*x.shape[:axis], 3, *x.shape[axis:])
    if kind == "pad":
        widths = [(0, 0)] * x.ndim
        widths[axis] = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
        return x.pad(tuple(widths))
    if kind == "flip":
        return x.flip(axis)
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    if kind == "shrink":
        bounds = [(0, s) for s in x.shape]
        bounds[axis] = (start, stop)
        return x.shrink(tuple(bounds))
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = (
        slice(start, None, draw(st.sampled_from([1, 2, -1]))) if start else slice(None, None, 2)
    )
    return x[tuple(index)]


def computed(draw: Draw, x: Tensor, y: Tensor) -> Tensor:
    """One elementwise operation of x and, where it fits, y."""
    kinds = ["+", "*", "max", "<", "where", "numbers", "cast", "neg", "square", "relu"]
    kind = draw(st.sampled_from(kinds))
    if kind == "cast":
        return x.cast(
            draw(
                st.sampled_from(
                    [dtypes.float32, dtypes.int32, dtypes.int8, dtypes.bool, dtypes.float16]
                )
            )
        )
    if kind == "neg":
        return -x
    if kind == "square":
        return x.square() if dtypes.is_float(x.dtype) else x + 1
    if kind == "relu":
        return x.relu()
    if x.shape != y.shape:
        y = y.sum() if y.dtype is not dtypes.bool else y.any()
    if kind == "+":
        return x + y
    if kind == "*":
        return x * y
    if kind == "max":
        return x.maximum(y)
    if kind == "numbers":
        return (x < y).where(*draw(st.sampled_from([(1, 2), (0.5, 3), (-1, 0)])))
    return x < y if kind == "<" else (x < y).where(x, y)


def reduced(draw: Draw, x: Tensor) -> Tensor:
    axis = draw(st.integers(0, x.ndim - 1)) if x.ndim and draw(st.booleans()) else None
    keep = draw(st.booleans())
    return x.max(axis, keepdim=keep) if draw(st.booleans()) else x.sum(axis, keepdim=keep)


@st.composite
def programs(draw: Draw, device: str, steps: int = 6) -> Tensor:
    """A tensor made of a few leaves in a few steps, some of them used twice."""
    values = [draw(leaves(device)), draw(leaves(device))]
    for _ in range(draw(st.integers(1, steps))):
        x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        kind = draw(st.sampled_from(["move", "move", "compute", "compute", "reduce", "keep"]))
        if kind == "move":
            new = moved(draw, x)
        elif kind == "compute":
            new = computed(draw, x, y)
        elif kind == "reduce":
            new = reduced(draw, x)
        else:
            new = x.contiguous()
        if 0 < new.numel() <= MOST:
            values.append(new)
    return values[-1]


def check(x: Tensor) -> None:
    expected = oracle.value(x.uop)
    found = x.numpy()
    assert found.shape == expected.shape
    if found.dtype.kind == "f":
        exact = 2.0 ** -(10 if x.dtype is dtypes.float16 else 20)
        np.testing.assert_allclose(found, expected, rtol=4 * exact, atol=4 * exact)
    else:
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=60 * SCALE)
@given(x=programs("CPU"))
def test_on_the_cpu(x: Tensor) -> None:
    check(x)


@settings(max_examples=30 * SCALE)
@given(x=programs("PYTHON"))
def test_on_the_interpreter(x: Tensor) -> None:
    check(x)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@settings(max_examples=20 * SCALE)
@given(data=st.data())
def test_several_results_of_one_program(device: str, data: st.DataObject) -> None:
    """Realized together, values that share their inputs are what they are apart."""
    first = data.draw(programs(device))
    second = first.contiguous() + 1 if first.dtype is not dtypes.bool else ~first
    expected = [oracle.value(t.uop) for t in (first, second)]
    first.realize(second)
    for found, want in zip((first, second), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), want, rtol=4e-3, atol=4e-3)

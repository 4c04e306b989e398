"""Random index expressions, read and written, and the gradient of the read: as numpy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from tinylab import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
Array = np.ndarray[Any, Any]
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
SCALE = max(settings().max_examples // 100, 1)  # HYPOTHESIS_PROFILE=long looks longer


def bounds(size: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(-size - 2, size + 2))


@st.composite
def slices(draw: Draw, size: int) -> slice:
    step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
    return slice(draw(bounds(size)), draw(bounds(size)), step)


@st.composite
def indices(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Numbers, slices, None, True, an ellipsis, arrays that broadcast together, or one mask."""
    found: list[Any] = []
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    axis, dotted = 0, draw(st.booleans())
    while axis < len(shape):
        size = shape[axis]
        kinds = ["slice", "slice", "number", "array", "none", "true", "dots", "mask"]
        kind = draw(st.sampled_from(kinds))
        if kind in ("none", "true"):
            found.append(None if kind == "none" else True)
            continue
        if kind == "dots" and dotted:
            dotted = False
            found.append(...)
            axis += draw(st.integers(0, len(shape) - axis))
            continue
        if kind == "number":
            found.append(draw(st.integers(-size, size - 1)))
        elif kind == "array":
            part = common[draw(st.integers(0, len(common))) :]
            values = draw(st.lists(st.integers(-size, size - 1), min_size=12, max_size=12))
            count = int(np.prod(part))
            found.append(np.array(values[:count], np.int64).reshape(part))
        elif kind == "mask" and not any(isinstance(i, np.ndarray) for i in found):
            bits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            found.append(np.array(bits))
            common = (sum(bits),) if sum(bits) != 1 else ()
            common = common if sum(bits) else (0,)
            axis += 1
            break
        else:
            found.append(draw(slices(size)))
        axis += 1
        if draw(st.integers(0, 3)) == 0:
            break
    if any(i is ... for i in found):  # it stands for as many axes as were left out there
        found += [slice(None)] * (len(shape) - axis)
    return tuple(found)


def ours(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same index with tensors in the place of arrays."""
    return tuple(Tensor(i) if isinstance(i, np.ndarray) and i.ndim else i for i in index)


@st.composite
def cases(draw: Draw) -> tuple[Array, tuple[Any, ...]]:
    shape = draw(SHAPES)
    return np.arange(1.0, np.prod(shape) + 1, dtype=np.float32).reshape(shape), draw(indices(shape))


@given(cases())
@settings(max_examples=60 * SCALE, deadline=None)
def test_reads(case: tuple[Array, tuple[Any, ...]]) -> None:
    x, index = case
    found = Tensor(x)[ours(index)]
    np.testing.assert_array_equal(found.numpy(), x[index])


@given(cases())
@settings(max_examples=25 * SCALE, deadline=None)
def test_gradients_of_reads(case: tuple[Array, tuple[Any, ...]]) -> None:
    """Each element gets as much as it was read, weighted by where it went."""
    x, index = case
    t, read = Tensor(x), x[index]
    weights = np.arange(1.0, read.size + 1, dtype=np.float32).reshape(read.shape)
    right = np.zeros_like(x)
    np.add.at(right, index, weights)
    if not read.size:
        return
    (grad,) = (t[ours(index)] * Tensor(weights)).sum().gradient(t)
    np.testing.assert_allclose(grad.numpy(), right, rtol=1e-6)


@given(cases(), st.booleans())
@settings(max_examples=40 * SCALE, deadline=None)
def test_writes(case: tuple[Array, tuple[Any, ...]], scalar: bool) -> None:
    """The last of several values written to one place stays, as in numpy."""
    x, index = case
    shape = x[index].shape
    count = int(np.prod(shape))
    value: Any = -7.0 if scalar else -np.arange(1.0, count + 1, dtype=np.float32).reshape(shape)
    right = x.copy()
    right[index] = value
    t = Tensor(x).realize()
    t[ours(index)] = value if scalar else Tensor(value)
    np.testing.assert_array_equal(t.numpy(), right)

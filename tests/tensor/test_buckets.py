"""Writes of many elements to many places go by way of sorting, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.mixin import buckets

SEED = np.random.default_rng(0)
SHAPES = [(1,), (7,), (64,), (5, 9), (3, 4, 6)]


@pytest.fixture
def _by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MANY", -1)


def case(shape: tuple[int, ...], dim: int) -> tuple[Any, Any, Any]:
    reach = tuple(max(1, n - (i % 2)) if i != dim else n + 3 for i, n in enumerate(shape))
    index = SEED.integers(-shape[dim], shape[dim], reach)
    whole = SEED.integers(-9, 9, shape).astype(np.float32)
    return whole, index, SEED.integers(-3, 4, reach).astype(np.float32)


@pytest.mark.usefixtures("_by_sorting")
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin", None])
@pytest.mark.parametrize("shape", SHAPES)
def test_scatter_by_sorting(
    shape: tuple[int, ...], reduce: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dim in range(len(shape)):
        arrays = case(shape, dim)
        for include in (True, False):

            def run(arrays: Any = arrays, include: bool = include, dim: int = dim) -> Any:
                whole, index, src = (Tensor(a) for a in arrays)
                if reduce is None:
                    return whole.scatter(dim, index, src).numpy()
                return whole.scatter_reduce(
                    dim,
                    index,
                    src,
                    reduce=reduce,
                    include_self=include,  # type: ignore[arg-type]
                ).numpy()

            got = run()
            with monkeypatch.context() as m:
                m.setattr(buckets, "MANY", 1 << 60)
                np.testing.assert_allclose(got, run(), rtol=1e-6)


@pytest.mark.usefixtures("_by_sorting")
@pytest.mark.parametrize("shape", [(9,), (4, 5)])
def test_setitem_by_sorting(shape: tuple[int, ...]) -> None:
    whole = np.zeros(shape, np.float32)
    index = tuple(SEED.integers(-n, n, 30) for n in shape)
    values = SEED.normal(size=30).astype(np.float32)
    t = Tensor(whole)
    t[tuple(Tensor(i) for i in index)] = Tensor(values)
    for at, v in zip(zip(*index, strict=True), values, strict=True):
        whole[at] = v
    np.testing.assert_array_equal(t.numpy(), whole)


@pytest.mark.usefixtures("_by_sorting")
def test_gradient_of_scatter_by_sorting() -> None:
    whole, src = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0, 6.0])
    out = whole.scatter(0, Tensor([2, 0, 2]), src)
    (out * Tensor([1.0, 2.0, 3.0])).sum().backward()
    assert whole.grad is not None
    assert src.grad is not None
    assert (whole.grad.tolist(), src.grad.tolist()) == ([0, 2, 0], [0, 1, 3])


def test_a_million_elements_take_seconds() -> None:
    n = 1 << 20
    index = SEED.integers(0, n, n)
    wanted = np.zeros(n, np.float32)
    np.add.at(wanted, index, 1.0)
    t = Tensor.zeros(n).scatter_reduce(0, Tensor(index), Tensor.ones(n), reduce="sum")
    np.testing.assert_array_equal(t.numpy(), wanted)


EVERY = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1.5, np.nan, 0.0, -3.0, 3e38]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_floats_in_order(dtype: str, descending: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([EVERY, EVERY[::-1]], dtype=getattr(torch, dtype))
    values, places = x.sort(dim=-1, descending=descending, stable=True)
    t = Tensor(x.tolist(), dtype=dtype)
    v, p = t.sort(descending=descending)
    np.testing.assert_array_equal(v.numpy().astype(np.float64), values.double().numpy())
    np.testing.assert_array_equal(p.numpy(), places.numpy())
    np.testing.assert_array_equal(t.argsort(descending=descending).numpy(), places.numpy())
    v, p = t.topk(5, largest=descending, sorted_=False)
    np.testing.assert_array_equal(p.numpy(), places[:, :5].numpy())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_integers_in_order(dtype: str, descending: bool) -> None:
    info = np.iinfo(dtype) if dtype != "bool" else None
    low, high = (info.min, info.max) if info else (0, 1)
    x = np.array([high, low, 1, 0, 1, low, high, high // 2, 1], dtype)
    wanted = np.argsort(x, kind="stable")
    if descending:
        wanted = np.lexsort((np.arange(len(x)), -x.astype(object)))
    v, p = Tensor(x).sort(descending=descending)
    np.testing.assert_array_equal(p.numpy(), wanted)
    np.testing.assert_array_equal(v.numpy(), x[wanted])

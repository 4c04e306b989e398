# ruff: noqa: E501 (a row to a line)
"""Each method in each element type: the type of the result, and its values against numpy.

A row gives numpy's function and the rule for the result's type. Small floats are computed in
float32 and rounded by the tests' own rounding (`oracle.round_small`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests import oracle
from tinylab import Tensor, dtypes
from tinylab.dtype import DType

BOOL = (dtypes.bool,)
INTS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16,
        dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)  # fmt: skip
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
          dtypes.fp8e4m3, dtypes.fp8e5m2)  # fmt: skip
ALL = (*BOOL, *INTS, *FLOATS)
Rule = Callable[[DType], DType]


def same(d: DType) -> DType:
    return d


def floating(d: DType) -> DType:
    """Integers become the default float."""
    return d if d in FLOATS else dtypes.float32


def boolean(_: DType) -> DType:
    return dtypes.bool


def index(_: DType) -> DType:
    return dtypes.int32


def number(d: DType) -> DType:
    return dtypes.int32 if d is dtypes.bool else d


def summed(d: DType) -> DType:
    """Small integers are summed as 32-bit ones."""
    if d in (dtypes.bool, dtypes.int8, dtypes.int16):
        return dtypes.int32
    return dtypes.uint32 if d in (dtypes.uint8, dtypes.uint16) else d


class Row(NamedTuple):
    """A method: ours, numpy's, and the type that comes of each type."""

    ours: Callable[[Tensor], Any]
    numpy: Callable[[Any], Any]
    result: Rule
    types: tuple[DType, ...] = ALL


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


erf = np.vectorize(math.erf, otypes=[float])
NUMBERS = (*INTS, *FLOATS)

# fmt: off
ROWS: dict[str, Row] = {
    # what moves elements keeps the type
    "reshape": Row(lambda t: t.reshape(2, 2), lambda x: x.reshape(2, 2), same),
    "flip": Row(lambda t: t.flip(0), lambda x: x[::-1], same),
    "expand": Row(lambda t: t.unsqueeze(0).expand(2, 4), lambda x: np.stack([x, x]), same),
    "shrink": Row(lambda t: t[1:3], lambda x: x[1:3], same),
    "step": Row(lambda t: t[::-2], lambda x: x[::-2], same),
    "pad": Row(lambda t: t.pad((1, 2)), lambda x: np.pad(x, (1, 2)), same),
    "pad value": Row(lambda t: t.pad((1, 1), value=1), lambda x: np.pad(x, 1, constant_values=1), same),
    "roll": Row(lambda t: t.roll(1), lambda x: np.roll(x, 1), same),
    "repeat": Row(lambda t: t.repeat(2), lambda x: np.tile(x, 2), same),
    "cat": Row(lambda t: t.cat(t), lambda x: np.concatenate([x, x]), same),
    "stack": Row(lambda t: t.stack(t), lambda x: np.stack([x, x]), same),
    "tril": Row(lambda t: t.reshape(2, 2).tril(), lambda x: np.tril(x.reshape(2, 2)), same),
    "triu": Row(lambda t: t.reshape(2, 2).triu(), lambda x: np.triu(x.reshape(2, 2)), same),
    "index": Row(lambda t: t[Tensor([3, 0, -2])], lambda x: x[[3, 0, -2]], same),
    "gather": Row(lambda t: t.gather(0, Tensor([3, 0])), lambda x: x[[3, 0]], same),
    "scatter": Row(lambda t: t.scatter(0, Tensor([0, 3]), t[1:3]), lambda x: x[[1, 1, 2, 2]], same),
    "sort": Row(lambda t: t.sort()[0], np.sort, same),
    "topk": Row(lambda t: t.topk(2)[0], lambda x: np.sort(x)[::-1][:2], same),
    "argsort": Row(lambda t: t.argsort(), lambda x: np.argsort(x, kind="stable"), index),
    "where": Row(lambda t: (t > 1).where(t, t.zeros_like()), lambda x: np.where(x > 1, x, 0), same),
    "masked_select": Row(lambda t: t.masked_select(t > 1), lambda x: x[x > 1], same),
    "ones_like": Row(lambda t: t.ones_like(), np.ones_like, same),
    "full_like": Row(lambda t: t.full_like(1), lambda x: np.full_like(x, 1), same),
    # arithmetic
    "add": Row(lambda t: t + t, lambda x: x + x, same),
    "add number": Row(lambda t: t + 3, lambda x: x + 3, number),
    "add float": Row(lambda t: t + 1.5, lambda x: x + 1.5, floating),
    "add bool": Row(lambda t: t + True, lambda x: x + x.dtype.type(1), same),
    "sub": Row(lambda t: t - 2, lambda x: x - 2, same, NUMBERS),
    "sub reverse": Row(lambda t: 2 - t, lambda x: 2 - x, same, NUMBERS),
    "mul": Row(lambda t: t * t, lambda x: x * x, same),
    "neg": Row(lambda t: -t, lambda x: 0 - x, same, NUMBERS),
    "square": Row(lambda t: t.square(), lambda x: x * x, same),
    "div": Row(lambda t: t / 2, lambda x: x / 2, floating),
    "div floor": Row(lambda t: t // 2, lambda x: x // 2, same, NUMBERS),
    "mod": Row(lambda t: t % 2, lambda x: x % 2, same, NUMBERS),
    "fmod": Row(lambda t: t.fmod(2), lambda x: np.fmod(x, 2), same, NUMBERS),
    "pow": Row(lambda t: t ** 2, lambda x: x * x, same, NUMBERS),
    "maximum": Row(lambda t: t.maximum(t.flip(0)), lambda x: np.maximum(x, x[::-1]), same),
    "minimum": Row(lambda t: t.minimum(t.flip(0)), lambda x: np.minimum(x, x[::-1]), same),
    "clip": Row(lambda t: t.clip(1, 2), lambda x: np.clip(x, 1, 2), same, NUMBERS),
    "abs": Row(lambda t: t.abs(), lambda x: np.where(x < 0, 0 - x, x), same),
    "sign": Row(lambda t: t.sign(), lambda x: (x > 0) * 1 - (x < 0) * 1, same),
    "relu": Row(lambda t: t.relu(), lambda x: np.where(x > 0, x, 0), same, NUMBERS),
    "relu6": Row(lambda t: t.relu6(), lambda x: np.clip(x, 0, 6), same, NUMBERS),
    "floor": Row(lambda t: t.floor(), lambda x: np.floor(x), same),
    "ceil": Row(lambda t: t.ceil(), lambda x: np.ceil(x), same),
    "trunc": Row(lambda t: t.trunc(), lambda x: np.trunc(x), same),
    "round": Row(lambda t: t.round(), lambda x: np.round(x), same),
    "shifts": Row(lambda t: (t << 2) >> 1, lambda x: (x << 2) >> 1, same, INTS),
    "bits": Row(lambda t: (t & 3) ^ (t | 1), lambda x: (x & 3) ^ (x | 1), same, INTS),
    "bits of bools": Row(lambda t: (t & t.flip(0)) ^ (t | t), lambda x: (x & x[::-1]) ^ x, same, BOOL),
    "not": Row(lambda t: ~t, lambda x: ~x, same, (*BOOL, *INTS)),
    # comparison
    "eq": Row(lambda t: t == t.flip(0), lambda x: x == x[::-1], boolean),
    "ne": Row(lambda t: t != t.flip(0), lambda x: x != x[::-1], boolean),
    "lt": Row(lambda t: t < t.flip(0), lambda x: x < x[::-1], boolean),
    "ge number": Row(lambda t: t >= 2, lambda x: x >= 2, boolean),
    "isnan": Row(lambda t: t.isnan(), lambda x: x != x, boolean),
    "isfinite": Row(lambda t: t.isfinite(), lambda x: x == x, boolean),
    "logical_not": Row(lambda t: t.logical_not(), np.logical_not, boolean),
    "isclose": Row(lambda t: t.isclose(t), lambda x: x == x, boolean),
    # functions
    "sqrt": Row(lambda t: t.sqrt(), np.sqrt, floating),
    "reciprocal": Row(lambda t: (t + 1).reciprocal(), lambda x: 1 / (x + 1), floating, NUMBERS),
    "exp": Row(lambda t: t.exp(), np.exp, floating),
    "exp2": Row(lambda t: t.exp2(), np.exp2, floating),
    "log": Row(lambda t: (t + 1).log(), lambda x: np.log(x + 1), floating, NUMBERS),
    "sin": Row(lambda t: t.sin(), np.sin, floating),
    "atan": Row(lambda t: t.atan(), np.arctan, floating),
    "sinh": Row(lambda t: t.sinh(), np.sinh, floating),
    "tanh": Row(lambda t: t.tanh(), np.tanh, floating),
    "acosh": Row(lambda t: (t + 1).acosh(), lambda x: np.arccosh(x + 1), floating, NUMBERS),
    "erf": Row(lambda t: t.erf(), erf, floating),
    "sigmoid": Row(lambda t: t.sigmoid(), sigmoid, floating),
    "silu": Row(lambda t: t.silu(), lambda x: x * sigmoid(x), floating),
    "softplus": Row(lambda t: t.softplus(), lambda x: np.log1p(np.exp(x)), floating),
    "logaddexp": Row(lambda t: t.logaddexp(t), lambda x: np.logaddexp(x, x), floating),
    # reductions
    "sum": Row(lambda t: t.sum(), lambda x: x.sum(), summed),
    "prod": Row(lambda t: t.prod(), lambda x: x.prod(), summed),
    "max": Row(lambda t: t.max(), lambda x: x.max(), same),
    "min": Row(lambda t: t.min(), lambda x: x.min(), same),
    "mean": Row(lambda t: t.mean(), lambda x: x.mean(), floating),
    "var": Row(lambda t: t.var(), lambda x: x.var(ddof=1), floating),
    "std": Row(lambda t: t.std(correction=0), lambda x: x.std(), floating),
    "any": Row(lambda t: t.any(), lambda x: x.any(), boolean),
    "all": Row(lambda t: t.all(), lambda x: x.all(), boolean),
    "argmax": Row(lambda t: t.argmax(), lambda x: x.argmax(), index),
    "argmin": Row(lambda t: t.argmin(), lambda x: x.argmin(), index),
    "cumsum": Row(lambda t: t.cumsum(), lambda x: x.cumsum(), summed),
    "cumprod": Row(lambda t: t.cumprod(0), lambda x: x.cumprod(), summed),
    "cummax": Row(lambda t: t.cummax()[0], np.maximum.accumulate, same),
    "softmax": Row(lambda t: t.softmax(), softmax, floating),
    "logsumexp": Row(lambda t: t.logsumexp(), lambda x: np.log(np.exp(x).sum()), floating),
    "dot": Row(lambda t: t.dot(t), lambda x: (x * x).sum(), same, NUMBERS),
    "matmul": Row(lambda t: t.reshape(2, 2) @ t.reshape(2, 2), lambda x: x.reshape(2, 2) @ x.reshape(2, 2), same, NUMBERS),
    "max_pool2d": Row(lambda t: t.reshape(1, 1, 2, 2).max_pool2d(), lambda x: x.max().reshape(1, 1, 1, 1), same),
    "avg_pool2d": Row(lambda t: t.reshape(1, 1, 2, 2).avg_pool2d(), lambda x: x.mean().reshape(1, 1, 1, 1), floating),
    "cross_entropy": Row(lambda t: t.reshape(2, 2).cross_entropy(Tensor([0, 1])), lambda x: -np.log(np.diag(softmax(x.reshape(2, 2)))).mean(), floating),
}
# fmt: on


def values(dtype: DType) -> Any:
    """Four elements that every type of the kind holds exactly."""
    if dtype is dtypes.bool:
        return np.array([True, False, True, True])
    return np.array([1, 3, 2, 4]) if dtype in INTS else np.array([0.5, 3.0, 1.5, 2.0])


def expected(row: Row, dtype: DType) -> Any:
    """numpy's result: integers wrap as C's do, small floats are rounded at the end."""
    wanted = row.result(dtype)
    x = values(dtype)
    if dtype not in FLOATS:
        # Float functions of small integers are in half precision in numpy, of wide ones in double.
        x = x.astype(np.float64 if wanted in FLOATS else oracle.storage(dtype))
    with np.errstate(all="ignore"):
        found = np.asarray(row.numpy(x))
    if wanted in oracle.SMALL_FLOATS:
        return oracle.round_small(found.astype(np.float32), wanted)
    return found.astype(oracle.storage(wanted))


# Within so many units of the last place: several roundings on the way.
CLOSE = {dtypes.float64: 1e-6, dtypes.float32: 1e-5, dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2,
         dtypes.fp8e4m3: 0.26, dtypes.fp8e5m2: 0.51}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_every_type(name: str) -> None:
    row = ROWS[name]
    found = {d: row.ours(Tensor(values(d).tolist(), dtype=d)) for d in row.types}
    types = {d: t.dtype for d, t in found.items()}
    assert types == {d: row.result(d) for d in row.types}
    Tensor.realize(*found.values())
    for d, t in found.items():
        right, got = expected(row, d), t.numpy()
        assert got.shape == right.shape, d
        if t.dtype in FLOATS:
            np.testing.assert_allclose(
                got.astype(np.float64), right.astype(np.float64), rtol=CLOSE[t.dtype], atol=1e-3,
                err_msg=str(d),
            )  # fmt: skip
        else:
            np.testing.assert_array_equal(got, right, err_msg=str(d))


REMAINDERS = np.array(
    [6.0, -6.0, 0.3, 7.5, -7.5, 1e6, 59.0, 0.0, np.inf, -np.inf, np.nan, 5.0], np.float64
)
DIVISORS = np.array([0.1, -0.1, 2.0, -2.0, 3.0, 0.7, np.inf, -np.inf, 0.0], np.float64)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16])
@pytest.mark.parametrize(
    ("ours", "numpy"),
    [
        (lambda a, b: a // b, np.floor_divide),
        (lambda a, b: a % b, np.mod),
        (lambda a, b: a.fmod(b), np.fmod),
    ],
    ids=["floor", "mod", "fmod"],
)
def test_quotients_are_not_rounded_before_they_are_cut(ours: Any, numpy: Any, dtype: DType) -> None:
    """6 // 0.1 is 59, as numpy and PyTorch have it: 0.1 is a little more than a tenth."""
    with np.errstate(all="ignore"):
        a, b = (x.astype(oracle.storage(dtype)) for x in np.meshgrid(REMAINDERS, DIVISORS))
        right = numpy(a, b)
    np.testing.assert_array_equal(ours(Tensor(a), Tensor(b)).numpy(), right)


def test_gradient_of_a_remainder() -> None:
    a, b = Tensor([7.5, -7.5, 6.0]), Tensor([2.0, 2.0, -4.0])
    ga, gb = (a % b).sum().gradient(a, b)
    assert (ga.tolist(), gb.tolist()) == ([1, 1, 1], [-3, 4, 2])
    ga, gb = a.fmod(b).sum().gradient(a, b)
    assert (ga.tolist(), gb.tolist()) == ([1, 1, 1], [-3, 3, 1])

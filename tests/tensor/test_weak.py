"""Values of weak types (both branches of a `where` are Python numbers) in memory and on devices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.errors import AssignError, OperandError
from tinylab.uop.ops import UOp

DATA = np.arange(8, dtype=np.int32)
SEVERAL = tuple(f"CPU:{i}" for i in range(4))
Make = Callable[[Tensor], Tensor]

WEAK: dict[str, Make] = {
    "ints": lambda t: (t > 3).where(1, 2),
    "floats": lambda t: (t > 3).where(1.5, 2),
    "matrix": lambda t: (t > 3).where(3, 0).reshape(4, 2),
    "one_hot": lambda t: t.one_hot(8),
}
THEN: dict[str, Make] = {
    "itself": lambda t: t,
    "sum": lambda t: t.sum(0),
    "max": lambda t: t.max(0),
    "cumsum": lambda t: t.cumsum(0),
    "sort": lambda t: t.sort(0)[0],
    "argmax": lambda t: t.argmax(0),
    "contiguous": lambda t: t.contiguous(),
    "clone": lambda t: t.clone(),
    "realize": lambda t: t.realize() + 1,
    "moved": lambda t: t.to("CPU:1") + 1,
    "cat": lambda t: t.cat(t, dim=0),
    "stack": lambda t: Tensor.stack(t, t),
    "roll": lambda t: t.roll(1, 0),
    "pad": lambda t: t.pad(tuple((1, 0) for _ in t.shape)),
    "element": lambda t: t[1],
    "slice": lambda t: t[1:3] * 2,
    "matmul": lambda t: t.reshape(t.shape[0], -1).T @ t.reshape(t.shape[0], -1),
    "half": lambda t: t.half() * 2,
    "softmax": lambda t: t.softmax(0),
    "less its largest": lambda t: (t - t.max(0, keepdim=True)).max(0),
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("weak", WEAK)
def test_weak_values_are_the_same_on_several_devices(weak: str, then: str):
    def run(t: Tensor) -> np.ndarray:
        return THEN[then](WEAK[weak](t)).numpy()

    alone = run(Tensor(DATA))
    for found in (run(Tensor(DATA).shard(SEVERAL, 0)), run(Tensor(DATA).shard(SEVERAL))):
        np.testing.assert_allclose(found, alone, rtol=1e-6)
        assert found.dtype == alone.dtype


def test_a_mask_of_numbers_has_a_softmax():
    mask = (Tensor(DATA) > 3).where(0.0, float("-inf"))
    assert dtypes.is_weak(mask.dtype)
    np.testing.assert_allclose(mask.softmax(-1).numpy(), [0] * 4 + [0.25] * 4)


@pytest.mark.parametrize("name", ["max", "min", "prod", "sum", "mean", "std", "logsumexp"])
def test_reductions_are_strong(name: str):
    weak = (Tensor(DATA) > 3).where(1.5, 2)
    want = np.where(DATA > 3, np.float32(1.5), np.float32(2))
    found = getattr(weak, name)()
    assert found.dtype is dtypes.float32
    same = {"std": lambda x: x.std(ddof=1), "logsumexp": lambda x: np.log(np.exp(x).sum())}
    np.testing.assert_allclose(
        found.numpy(), same.get(name, lambda x: getattr(x, name)())(want), rtol=1e-6
    )


def test_a_weak_value_that_a_graph_stores():
    cond = (Tensor(DATA) > 3).uop
    weak = cond.where(UOp.const(1.5), UOp.const(2.5))
    stored = Tensor(weak.contiguous())
    np.testing.assert_array_equal((stored + stored[0]).numpy(), np.where(DATA > 3, 1.5, 2.5) + 2.5)


def test_powers_of_bare_integers():
    found = Tensor(3) ** Tensor(3)
    assert found.dtype is dtypes.weakint
    assert found.item() == 27
    assert [(Tensor(2) ** Tensor(n)).item() for n in (0, 1, 10)] == [1, 2, 1024]
    assert (Tensor([2, 3]) ** Tensor(2)).tolist() == [4, 9]


_NUMBERS = [300, -300, 257, 65535, 70000, 3_000_000_000, -(2**33), 2**32, 2**32 + 3, 2**40, 1, -1]
_INTEGERS = ["bool", "uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("n", _NUMBERS)
@pytest.mark.parametrize("dtype", _INTEGERS)
def test_a_number_beside_a_narrow_type_is_the_number(dtype: str, n: int) -> None:
    """What gives floats, and what compares, does not wrap it into the type: 300 was 44."""
    values = [0, 1] if dtype == "bool" else [0, 1, 100]
    x = Tensor(values, dtype=dtype).realize()
    wide = np.array(values, np.float64)
    np.testing.assert_allclose((x / n).numpy(), wide / n, rtol=1e-6)
    np.testing.assert_allclose((n / x[1:]).numpy(), n / wide[1:], rtol=1e-6)
    np.testing.assert_allclose(x.div(Tensor(n)).numpy(), wide / n, rtol=1e-6)
    np.testing.assert_array_equal(x.copysign(n).numpy(), np.copysign(wide, n))
    np.testing.assert_array_equal(x.isclose(n).numpy(), np.isclose(wide, n))
    np.testing.assert_allclose(x.logaddexp(n).numpy(), np.logaddexp(wide, n), rtol=1e-6, atol=1e-7)
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        assert compare(x, n).tolist() == [compare(v, n) for v in values]
        assert compare(n, x).tolist() == [compare(n, v) for v in values]


def _add(t: Tensor, x: Any) -> None:
    t += x


WRITES: dict[str, Callable[[Tensor], object]] = {
    "number": lambda t: _add(t, 1.5),
    "tensor": lambda t: _add(t, Tensor([1.5])[0]),
    "half": lambda t: _add(t, Tensor([1.5], dtype="half")[0]),
    "double": lambda t: _add(t, Tensor([1.5], dtype="float64")[0]),
    "assign": lambda t: t.assign(3.5),
    "assign tensor": lambda t: t.assign(Tensor([3.5])[0]),
    "setitem": lambda t: t.__setitem__(..., 3.5),
    "view": lambda t: t.reshape(1).__setitem__(0, 3.5),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_number_that_is_written_to_has_memory(how: str) -> None:
    total = Tensor(2.0)
    before = total * 2
    WRITES[how](total)
    assert (total.dtype, total.item()) == (dtypes.float32, 3.5)
    assert before.item() == 4
    _add(total, 1)
    assert total.item() == 4.5


def test_a_whole_number_stays_whole_in_place() -> None:
    count = Tensor(2)
    count += 3
    assert (count.dtype, count.item()) == (dtypes.int32, 5)
    with pytest.raises(AssignError, match="a float result does not fit an integer tensor"):
        _add(Tensor(2), Tensor([1.5])[0])


def test_wide_numbers_of_a_selection_are_int64() -> None:
    found = Tensor([True, False]).where(2**31, -1)
    assert (found.dtype, found.tolist()) == (dtypes.int64, [2**31, -1])
    with pytest.raises(OperandError, match="has no room for 9223372036854775808 and 1"):
        Tensor([True]).where(2**63, 1)
    assert Tensor([True]).where(2**31 - 1, 0).tolist() == [2**31 - 1]
    assert Tensor([True]).where(2**40, 0.5).tolist() == [2.0**40]

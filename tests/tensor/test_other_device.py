"""A tensor that is not on the default device: what is made on the way is made where it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tensor import rows_elementwise, rows_reduce, rows_shapes
from tests.tensor.table import Row, check_other_device
from tinylab import Tensor, dtypes
from tinylab.errors import AssignError, ScheduleError
from tinylab.uop.ops import KernelInfo, UOp

OTHER = "CPU:1"
ROWS = [*rows_elementwise.ROWS, *rows_reduce.ROWS, *rows_shapes.ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_method_stays_on_its_device(row: Row) -> None:
    check_other_device(row, OTHER, "CPU:2")


def line(device: str = OTHER) -> Tensor:
    return Tensor([1.0, 2.0, 3.0, 4.0], device=device).contiguous().realize()


def written(index: Any, value: Any) -> Tensor:
    x = line()
    x[index() if callable(index) else index] = value() if callable(value) else value
    return x


INDICES: list[tuple[Any, Any]] = [
    ([0, 2], [0, 2]),
    (lambda: Tensor([0, 2], device=OTHER), [0, 2]),
    (lambda: line() > 2, [False, False, True, True]),
    (lambda: line().argsort(descending=True)[:2], [3, 2]),
]


@pytest.mark.parametrize(("index", "at"), INDICES)
@pytest.mark.parametrize(("value", "expected"), [(5, 5.0), (lambda: line()[:2] * 10, [10.0, 20.0])])
def test_writes_by_index(index: Any, at: Any, value: Any, expected: Any) -> None:
    x, right = written(index, value), np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    right[at] = expected
    assert x.device == OTHER
    assert x.tolist() == right.tolist()


def test_a_value_from_elsewhere_is_refused() -> None:
    with pytest.raises(AssignError, match="setitem device mismatch CPU:1 != CPU"):
        written([0, 2], Tensor([1.0, 2.0], device="CPU").realize())


READS: list[tuple[Callable[[Tensor], Tensor], Any]] = [
    (lambda x: x[x > 2], [3.0, 4.0]),
    (lambda x: x.masked_select(x > 2), [3.0, 4.0]),
    (lambda x: (x - 2).nonzero(), [[0], [2], [3]]),
    (lambda x: x[[3, 0]], [4.0, 1.0]),
    (lambda x: x.cast(dtypes.int32)[:1].one_hot(3), [[0, 1, 0]]),
]


@pytest.mark.parametrize("device", [OTHER, "PYTHON"])
@pytest.mark.parametrize(("read", "expected"), READS)
def test_reads_by_mask_and_index(read: Any, expected: Any, device: str) -> None:
    found = read(line(device))
    assert found.device == device
    assert found.tolist() == expected


def test_digests() -> None:
    x = line().bitcast(dtypes.uint8)
    raw = bytes(line().bitcast(dtypes.uint8).tolist())
    digest = x.keccak()
    assert digest.device == x.hash().device == OTHER
    assert bytes(digest.tolist()) == hashlib.sha3_256(raw).digest()
    assert x.hash().tolist() == Tensor(list(raw), dtype=dtypes.uint8).hash().tolist()


def test_draws_from_weights() -> None:
    found = Tensor([0.0, 1.0, 0.0], device=OTHER).multinomial(4, replacement=True)
    assert found.device == OTHER
    assert found.tolist() == [1, 1, 1, 1]


def _copied(out: UOp, x: UOp) -> UOp:
    i = UOp.range(4, 0)
    return out[i].store(x[i]).end(i).sink(arg=KernelInfo(name="copied"))


def test_a_kernel_by_hand_refuses_memory_of_two_devices() -> None:
    out = Tensor.empty(4, device=OTHER)
    with pytest.raises(ScheduleError, match="all buffers must be on the same device"):
        Tensor.custom_kernel(out, line("PYTHON"), fxn=_copied)[0].realize()


@pytest.mark.parametrize("to", ["CPU:1", ("CPU:2", "CPU:3")])
def test_a_write_by_mask_that_waits_while_its_value_moves_on(to: Any) -> None:
    """Its kernels read a row of places that is on no device: it was made where the value goes."""
    x = Tensor([1, 2, 3, 4]).realize()
    x[x > 2] = 0
    moved = x.to(to) if isinstance(to, str) else x.shard(to, 0)
    assert (moved + 1).tolist() == [2, 3, 1, 1]
    picked = Tensor([5, 0, 6]).realize()
    assert picked.masked_select(picked > 0).to(OTHER).tolist() == [5, 6]


@pytest.mark.parametrize("device", ["CPU", OTHER])
def test_what_is_on_no_device_comes_to_those_that_a_kernel_by_hand_gets(device: str) -> None:
    def add(c: UOp, a: UOp, b: UOp) -> UOp:
        i = UOp.range(3, 0)
        return c[i].store(a[i] + b[i]).end(i).sink(arg=KernelInfo(name="add"))

    a = Tensor([1, 2, 3], device=device).realize()
    out = Tensor.empty(3, dtype=dtypes.int32, device=device)
    found = Tensor.custom_kernel(out, a, Tensor.arange(3), fxn=add)[0]
    assert (found * 2).to("CPU:2").tolist() == [2, 6, 10]


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "to": lambda x: x.to(OTHER),
    "to, and more": lambda x: x.to(OTHER) + 0,
    "a piece": lambda x: x[1:].to(OTHER),
    "on several": lambda x: x.shard((OTHER, "CPU:2")) + 0,
    "cut": lambda x: x.shard((OTHER, "CPU:2"), 0) + 0,
    "into memory": lambda x: Tensor.zeros(4, 3, device=OTHER).contiguous().assign(x.to(OTHER)),
    "beside": lambda x: x * 1,
}
ORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.T.contiguous(),
    "sorted": lambda x: x.sort(0)[0],
    "of three axes": lambda x: x.reshape(2, 2, 3).permute(2, 0, 1).contiguous(),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_is_stored_in_another_order_too_moves_in_its_own(
    kind: str, order: str
) -> None:
    """It was stored once, in the other order, and its bytes were copied as they lay."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = Tensor(values).realize() + 1
    moved, turned = KINDS[kind](x), ORDERS[order](x)
    Tensor.realize(moved, turned)
    np.testing.assert_array_equal(moved.numpy(), KINDS[kind](Tensor(values + 1)).numpy())
    np.testing.assert_array_equal(turned.numpy(), ORDERS[order](Tensor(values + 1)).numpy())
    assert (moved.to("CPU:3").sum() + turned.to("CPU:3").sum()).item() == pytest.approx(
        moved.numpy().sum() + turned.numpy().sum()
    )

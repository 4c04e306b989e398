"""Constants on other devices: made where they are read, or filled there once; never copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Tensor, TinyJit
from tinylab.opcodes import Ops

DEVICES = ("CPU", "CPU:1")

# fmt: off
MOVED: dict[str, Callable[[], Tensor]] = {
    "full": lambda: Tensor.full((4, 4), 3.0),
    "zeros, another shape": lambda: Tensor.zeros(4, 4).reshape(2, 8),
    "ones, expanded": lambda: Tensor.ones(4, 1).expand(4, 4),
    "ones, padded": lambda: Tensor.ones(4, 4).pad(((1, 1), (0, 0))),
    "permuted and cut": lambda: Tensor.full((2, 6), 5).permute((1, 0))[1:5],
    "as another type": lambda: Tensor.full((4, 4), 3).cast("float32"),
    "worked with": lambda: Tensor.full((4, 4), 3.0) * 2 + Tensor.ones(4, 4),
    "joined": lambda: Tensor.ones(4).cat(Tensor.zeros(4)),
    "a triangle": lambda: Tensor.ones(4, 4).tril(),
    "detached": lambda: Tensor.ones(4, 4).detach(),
    "bits": lambda: Tensor.ones(4, 4).bitcast("int32"),
    "stored": lambda: Tensor(2.0).expand(4, 4).contiguous(),
    "a number": lambda: Tensor(3.0),
    "no storage": lambda: Tensor.full((4,), 2.0, buffer=False),
    "positions": lambda: Tensor.arange(6),
    "by way of a third": lambda: Tensor.full((4, 4), 3.0).to("CPU:2"),
}
# fmt: on


def _ops(x: Tensor) -> list[Ops]:
    return [call.src[0].op for call in x.schedule_linear().src]


@pytest.mark.parametrize("name", MOVED)
def test_a_constant_that_moves_is_one_fill_where_it_goes(name: str):
    assert _ops(MOVED[name]().to("CPU:1")) == [Ops.SINK]
    found = MOVED[name]().to("CPU:1").realize()
    assert (found.device, found.uop.base.device) == ("CPU:1", "CPU:1")
    assert found.tolist() == MOVED[name]().tolist()


@pytest.mark.parametrize("name", sorted(MOVED.keys() - {"positions"}))  # those get storage there
def test_a_constant_that_moves_is_made_by_its_reader(name: str):
    x = MOVED[name]().to("CPU:1")
    other = Tensor(np.full(x.shape, 2, np.float32), device="CPU:1").realize()
    assert _ops(x + other) == [Ops.SINK]
    found = MOVED[name]().to("CPU:1") + other
    assert found.tolist() == (MOVED[name]() + 2.0).tolist()


@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize(
    "name", [n for n in MOVED if MOVED[n]().ndim and MOVED[n]().shape[0] % 2 == 0]
)
def test_shards_of_a_constant_are_a_fill_each(name: str, axis: int | None):
    assert _ops(MOVED[name]().shard(DEVICES, axis)) == [Ops.SINK, Ops.SINK]
    found = MOVED[name]().shard(DEVICES, axis).realize()
    assert found.device == DEVICES
    assert found.tolist() == MOVED[name]().tolist()


def test_a_fill_that_is_only_moved_is_not_run():
    here = Tensor.full((4,), 3.0)
    here.to("CPU:1").realize()
    assert not here.uop.is_realized
    assert here.tolist() == [3.0] * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor.ones(4, 4).realize(),  # in memory: a copy, as of any other memory
        lambda: Tensor.empty(4, 4),
        lambda: Tensor.ones(4, 4) + Tensor([[1.0] * 4] * 4),
        lambda: _written(Tensor.zeros(4, 4)),
    ],
)
def test_what_is_no_constant_is_copied(make: Callable[[], Tensor]):
    assert Ops.COPY in _ops(make().to("CPU:1"))


def _written(x: Tensor) -> Tensor:
    x[1] = 5
    return x


@pytest.mark.parametrize("first", ["here", "there", "both"])
def test_what_was_moved_keeps_the_constant_when_the_fill_is_written(first: str):
    here = Tensor.full((4,), 3.0)
    there = here.to("CPU:1")
    back = there.to("CPU")
    here += 1
    there += 2
    order = {"here": [here], "there": [there], "both": [back, here, there]}[first]
    Tensor.realize(*order)
    assert (here.tolist(), there.tolist(), back.tolist()) == ([4.0] * 4, [5.0] * 4, [3.0] * 4)


def test_a_constant_leaf_has_its_gradient_from_another_device():
    x = Tensor.full((3,), 2.0)
    y = x.to("CPU:1")
    (found,) = (y * y).sum().gradient(x)
    assert (found.device, found.tolist()) == ("CPU", [4.0] * 3)


def test_a_captured_function_makes_its_constants_where_it_reads_them():
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return x + Tensor.full((4,), 3.0).to("CPU:1")

    for n in range(4):
        assert step(Tensor([float(n)] * 4, device="CPU:1")).tolist() == [n + 3.0] * 4
    assert all(s.call.src[0].op is Ops.SINK for s in step.captured.steps)

"""Indexing tensors that several devices hold parts of, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, Variable
from tinylab.opcodes import Ops

DEVICES = ("CPU", "CPU:1")
BASE = np.arange(8, dtype=np.float32).reshape(4, 2)

# What indexes, and the same where it has to be a tensor on the devices.
INDICES: dict[str, tuple[Any, Callable[[Tensor], Any] | None]] = {
    "list": ([0, 2], None),
    "tensor": ([0, 2], lambda s: Tensor([0, 2]).shard(DEVICES)),
    "number": (3, None),
    "number from the end": (-1, None),
    "slice through parts": (slice(1, 3), None),
    "slice of one part": (slice(2, 4), None),
    "whole": (slice(None), None),
    "no rows": (slice(2, 2), None),
    "steps": (slice(1, 4, 2), None),
    "backward": (slice(None, None, -1), None),
    "backward in steps": (slice(3, None, -2), None),
    "element": ((1, 1), None),
    "column": ((slice(None), 1), None),
    "columns": ((slice(None), [1, 0]), None),
    "corner": ((slice(1, 3), slice(0, 1)), None),
    "new axis": ((None, 3), None),
    "both": (([0, 3], [1, 0]), None),
    "number and list": ((1, [1, 0]), None),
    "mask": (BASE > 3, lambda s: s > 3),
    "mask of rows": (
        [True, False, False, True],
        lambda s: Tensor([True, False, False, True]).shard(DEVICES),
    ),
}


def sharded(axis: int | None) -> Tensor:
    return Tensor(BASE).shard(DEVICES, axis).realize()


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("spread", [True, False])
def test_a_write_is_numpys(name: str, axis: int | None, spread: bool) -> None:
    index, ours = INDICES[name]
    right, s = BASE.copy(), sharded(axis)
    before = s * 1
    shape = right[index].shape
    value = 20 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    right[index] = 7 if spread else value
    s[index if ours is None else ours(s)] = 7 if spread else Tensor(value).shard(DEVICES)
    assert s.uop.axis == axis
    assert s.device == DEVICES
    assert s.tolist() == right.tolist()
    assert before.tolist() == BASE.tolist()


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", INDICES)
def test_a_read_is_numpys_and_has_a_gradient(name: str, axis: int | None) -> None:
    index, ours = INDICES[name]
    s = sharded(axis)
    found = s[index if ours is None else ours(s)]
    assert found.device == DEVICES
    assert found.tolist() == BASE[index].tolist()
    assert s.tolist() == BASE.tolist()
    if "mask" not in name:
        right = np.zeros_like(BASE)
        right[index] = 3
        assert (found * 3).sum().gradient(s)[0].tolist() == right.tolist()


FOUR = ("CPU", "CPU:1", "CPU:2", "CPU:3")
TALL = np.arange(24, dtype=np.float32).reshape(8, 3)
ROW = Variable("row", 0, 6)

# What moves elements from device to device.
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "several shards": lambda t: t[1:6],
    "the last of one and the first of the next": lambda t: t[3:5],
    "split": lambda t: t.split(3)[1],
    "turned round": lambda t: t.flip(0) + t,
    "turned both ways": lambda t: t.flip((0, 1)),
    "rolled": lambda t: t.roll(3, 0),
    "padded": lambda t: t.pad(((1, 2), (0, 1)), value=-1.0),
    "joined": lambda t: t.cat(t, dim=0),
    "added up": lambda t: t.cumsum(0),
    "diagonal": lambda t: t.diagonal(),
    "from a variable on": lambda t: t[ROW.bind(3) : ROW.bind(3) + 2],
    "a variable's row": lambda t: t[ROW.bind(5)],
    "row by row": lambda t: Tensor.stack(*t),
    "of an expression": lambda t: (t * 2 + 1)[2:7].sum(1),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("devices", [FOUR, FOUR[2:]])
def test_what_moves_between_devices(name: str, devices: tuple[str, ...]) -> None:
    move = MOVES[name]
    one, four = Tensor(TALL), Tensor(TALL).shard(devices, 0).realize()
    assert np.array_equal(move(four).numpy(), move(one).numpy())
    weights = Tensor.arange(move(one).numel()).reshape(move(one).shape).float()
    (right,) = (move(one) * weights).sum().gradient(one)
    (found,) = (move(four) * weights.shard(devices)).sum().gradient(four)
    assert np.array_equal(found.numpy(), right.numpy())


WRITES: dict[str, tuple[Callable[[Any], Any], slice]] = {
    "several shards": (lambda t: t[1:6], slice(1, 6)),
    "one row": (lambda t: t[3:4], slice(3, 4)),
    "turned round": (lambda t: t[::-1] if isinstance(t, np.ndarray) else t.flip(0), slice(0, 8)),
    "turned part": (
        lambda t: (t[::-1] if isinstance(t, np.ndarray) else t.flip(0))[0:3], slice(0, 3),
    ),
    "one shard": (lambda t: t[2:4], slice(2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_view_across_devices(name: str) -> None:
    view, rows = WRITES[name]
    right, s = TALL.copy(), Tensor(TALL).shard(FOUR, 0).realize()
    before = view(s)
    view(right)[:] = TALL[rows] * 10
    view(s).assign((Tensor(TALL).shard(FOUR, 0) * 10)[rows])
    assert s.uop.axis == 0
    assert s.tolist() == right.tolist()
    assert before.tolist() == view(TALL).tolist()


def test_rows_that_move_up_by_one() -> None:
    right, s = TALL.copy(), Tensor(TALL).shard(FOUR, 0).realize()
    s[1:].assign(s[:-1])
    right[1:] = TALL[:-1]
    assert s.tolist() == right.tolist()


def test_only_the_shards_that_are_needed_are_copied() -> None:
    s = Tensor(TALL).shard(FOUR, 0).realize()
    linear = (s[2:4] + 0).schedule_linear()
    copies = [c for c in linear.src if c.src[0].op is Ops.COPY]
    assert {c.src[2].device for c in copies} == {FOUR[1]}
    assert {c.src[1].device for c in copies} == {*FOUR} - {FOUR[1]}


@pytest.mark.parametrize("axis", [0, 1, None])
def test_several_writes_in_one_realize(axis: int | None) -> None:
    right, s = BASE.copy(), sharded(axis)
    for n in range(4):
        right[n], s[n] = right[n - 1] + n, Tensor(right[n - 1] + n).shard(DEVICES)
    assert s.tolist() == right.tolist()


@pytest.mark.parametrize("axis", [0, 1, None])
def test_masks_and_their_places(axis: int | None) -> None:
    s = sharded(axis)
    assert s[s > 3].tolist() == BASE[BASE > 3].tolist()
    assert s.masked_select(s > 3).tolist() == BASE[BASE > 3].tolist()
    assert s.nonzero().tolist() == np.argwhere(BASE).tolist()
    assert s[[0, 3], [1, 0]].tolist() == BASE[[0, 3], [1, 0]].tolist()
    assert s[[0, 2]].device == DEVICES

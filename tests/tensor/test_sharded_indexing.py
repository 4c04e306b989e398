"""Indexing tensors that several devices hold parts of, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor

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

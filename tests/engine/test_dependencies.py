"""Which steps wait for which, by bytes; and the order that joins steps of one device."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from tinylab.device import Buffer
from tinylab.dtype import dtypes
from tinylab.engine.capture import CapturedStep
from tinylab.engine.dependencies import dependencies, in_stretches

WHOLE = Buffer("CPU", 64, dtypes.uint8)
OTHER = Buffer("CPU:1", 64, dtypes.uint8)


def part(start: int, stop: int, whole: Buffer = WHOLE) -> Buffer:
    return whole.view(stop - start, dtypes.uint8, start)


def step(writes: list[Buffer], reads: list[Buffer]) -> CapturedStep:
    outs = tuple(range(len(writes)))
    return CapturedStep(SimpleNamespace(outs=outs), [*writes, *reads], None, {})


LEFT, RIGHT, MIDDLE = part(0, 32), part(32, 64), part(16, 48)


@pytest.mark.parametrize(
    ("steps", "waits"),
    [
        ([step([WHOLE], []), step([], [LEFT])], [set(), {0}]),
        ([step([LEFT], []), step([], [RIGHT])], [set(), set()]),
        ([step([], [WHOLE]), step([RIGHT], []), step([], [WHOLE])], [set(), {0}, {1}]),
        # The other half is still what step 0 wrote.
        ([step([WHOLE], []), step([RIGHT], []), step([], [LEFT])], [set(), {0}, {0}]),
        ([step([WHOLE], []), step([MIDDLE], []), step([], [WHOLE])], [set(), {0}, {0, 1}]),
        # The other half is still read by step 0.
        ([step([], [WHOLE]), step([RIGHT], []), step([LEFT], [])], [set(), {0}, {0}]),
        ([step([LEFT], [LEFT]), step([LEFT], [LEFT])], [set(), {0}]),
        # A copy between two devices is waited for on both.
        (
            [step([WHOLE], []), step([OTHER], [LEFT]), step([], [OTHER]), step([LEFT], [])],
            [set(), {0}, {1}, {0, 1}],
        ),
    ],
)
def test_steps_wait_for_the_bytes_that_they_touch(
    steps: list[CapturedStep], waits: list[set[int]]
) -> None:
    assert dependencies(steps) == waits


def closure(waits: list[set[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for before in waits:
        found.append(before.union(*(found[b] for b in before)))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_random_steps_wait_as_comparing_each_with_each_says(seed: int) -> None:
    draw = random.Random(seed)

    def piece() -> Buffer:
        start = draw.randrange(0, 60)
        return part(start, draw.randrange(start + 1, 65), draw.choice([WHOLE, OTHER]))

    steps = [step([piece()], [piece() for _ in range(draw.randrange(3))]) for _ in range(25)]

    def meet(a: Buffer, b: Buffer) -> bool:
        return (
            a.base is b.base and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
        )

    expected: list[set[int]] = []
    for n, s in enumerate(steps):
        before = set()
        for m, earlier in enumerate(steps[:n]):
            hazard = any(meet(s.buffers[0], b) for b in earlier.buffers)
            if hazard or any(meet(earlier.buffers[0], b) for b in s.buffers):
                before.add(m)
        expected.append(before)
    assert closure(dependencies(steps)) == closure(expected)
    kinds = [draw.choice(["CPU", "PYTHON"]) for _ in steps]
    order = in_stretches(steps, kinds)
    assert sorted(order) == list(range(len(steps)))
    place = {n: k for k, n in enumerate(order)}
    assert all(place[b] < place[n] for n, before in enumerate(expected) for b in before)


def test_steps_of_two_devices_that_touch_nothing_in_common_are_two_stretches() -> None:
    steps = [step([part(k, k + 1)], []) for k in range(6)]
    assert in_stretches(steps, ["CPU", "PYTHON"] * 3) == [0, 2, 4, 1, 3, 5]
    chained = [step([LEFT], [LEFT]) for _ in range(4)]
    assert in_stretches(chained, ["CPU", "PYTHON"] * 2) == [0, 1, 2, 3]

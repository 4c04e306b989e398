"""Program order decides what a read sees, whatever order the kernels run in."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.schedule.graphs import check, reasons, run, schedule, tensor
from tinylab.errors import ScheduleError
from tinylab.schedule.keep_old_values import _in_no_order
from tinylab.schedule.order_kernels import order_kernels
from tinylab.uop.ops import KernelInfo, UOp


def write(target: UOp, value: UOp) -> UOp:
    return target.after(target.store(value))


def test_an_update_at_the_same_places_is_in_place():
    g = tensor(4, 4)
    assert len(check(write(g, g * 2 + 1)).linear.src) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda g: g._permute((1, 0)),
        lambda g: g._flip((True, False)),
        lambda g: g.sum(axis=0, keepdim=True) * 1,
        lambda g: g._shrink((1, 0), (3, 4))._pad((0, 0), (4, 4)),
    ],
    ids=["transposed", "flipped", "reduced", "shifted"],
)
def test_an_update_through_another_view_is_copied_first(other):
    g = tensor(4, 4)
    found = check(write(g, g + other(g)))
    assert len(found.linear.src) == 2


def test_the_reason_says_that_it_was_copied():
    g = tensor(4, 4)
    found = check(write(g, g + g._permute((1, 0))))
    assert reasons(found) == [
        "the update reads its own buffer through another view: copied first, 64 B",
        "a write in place",
    ]


def test_a_read_built_before_the_write_runs_before_it():
    g = tensor(4, 4)
    check(write(g, g + 1), g * 2)
    check(g * 2, write(g, g + 1))


def test_a_value_that_needs_both_states_gets_a_copy_of_the_old_one():
    g = tensor(4, 4)
    new = write(g, g + 1)
    found = check(new + g * 3)
    why = "its old content is still needed after it is overwritten: copied first, 64 B"
    assert why in reasons(found)


def test_no_copy_where_the_old_state_is_not_needed():
    g = tensor(4, 4)
    assert len(check(write(g, g + 1) * 3).linear.src) == 2


def test_two_writes_in_a_row():
    g, h = tensor(4, 4), tensor(4, 4)
    first = write(g, g + h)
    check(write(first, first * 2), first + 1)


def test_two_buffers_updated_from_each_others_old_values():
    a, b = tensor(4), tensor(4)
    check(write(a, a + b), write(b, b + a))


def test_a_slice_is_written_and_the_rest_stays():
    g = tensor(4, 4)
    part = g._shrink((1, 1), (2, 2))
    found, inputs = schedule(g.after(part.store(tensor(2, 2) * 0 + 5)))
    data = {b: np.arange(b.shape[0], dtype=np.float32) for b in inputs}
    (got,) = run(found, inputs, data)
    want = np.arange(16, dtype=np.float32).reshape(4, 4)
    want[1:3, 1:3] = 5
    np.testing.assert_array_equal(got, want)


def test_a_cycle_is_an_error_that_names_the_buffers():
    a, b = tensor(4).base, tensor(4).base
    body = UOp.sink(UOp.param(0, a.dtype, (4,)).index(0).store(0.0), arg=KernelInfo())
    # Kernels written by hand: each overwrites what the other one still has to read.
    with pytest.raises(ScheduleError, match=r"cycle detected in assign graph: buffer \d+, buffer"):
        order_kernels(UOp.sink(a.after(body.call(a, b)), b.after(body.call(b, a))))


@pytest.mark.parametrize("seed", range(40))
def test_what_has_no_order_is_what_waits_for_itself(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(1, 24)
    before = [
        sum(1 << m for m in range(count) if draw.random() < draw.choice([0.03, 0.15]))
        for _ in range(count)
    ]
    waiting = set(range(count))
    while ready := {n for n in waiting if not any(before[n] >> m & 1 for m in waiting - {n})}:
        waiting -= ready
    assert _in_no_order(before) == sum(1 << n for n in waiting)


def test_a_chain_of_writes_is_looked_through_once() -> None:
    state = UOp.new_buffer("CPU", 4, tensor(4).dtype)
    buffer, states = state, []
    for n in range(5000):
        state = write(state, state + n)
        states.append(state)
    assert state.without_after is buffer
    # Each state knows what is below it: the next question is answered at once.
    assert all(s._under_after is buffer for s in states)

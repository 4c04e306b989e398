"""Looks at values in random programs that write in place: gradients stay, or a warning tells."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings, strategies as st

from tinylab import Tensor

COMBINE: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a * b * 0.5,
    lambda a, b: a + b,
    lambda a, _: a * 2,
    lambda a, b: (a * b).contiguous(),
    lambda a, _: a.flip(0),
    lambda a, b: a.detach() + b,
]


def _assign(state: Tensor, value: Tensor, _: int) -> None:
    state.assign(value)


def _add(state: Tensor, value: Tensor, _: int) -> None:
    state += value


def _set(state: Tensor, value: Tensor, place: int) -> None:
    state[place] = value[1]


WRITES: list[Callable[[Tensor, Tensor, int], None] | None] = [None, None, _assign, _add, _set]

LOOKS: list[Callable[[Tensor], object]] = [
    lambda t: t.sum().item(),
    lambda t: t.numpy(),
    lambda t: (t * 3).clone().tolist(),
]


class _Step(NamedTuple):
    """Hold a value made of two others, or write it into a state; then look at some."""

    write: Callable[[Tensor, Tensor, int], None] | None
    combine: Callable[[Tensor, Tensor], Tensor]
    operands: tuple[int, int]
    place: int
    looks: list[tuple[Callable[[Tensor], object], int]]


_places = st.integers(0, 11)
_steps = st.builds(
    _Step,
    st.sampled_from(WRITES),
    st.sampled_from(COMBINE),
    st.tuples(_places, _places),
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from(LOOKS), _places), max_size=2),
)


def _run(program: list[_Step], looks: bool) -> tuple[list[list[float]], list[list[float]], bool]:
    """(the gradients of two parameters, all values at the end, whether a warning told)."""
    parameters = [Tensor([1.0, 2.0, 3.0]).is_param_(), Tensor([0.5, -1.0, 2.0]).is_param_()]
    states = [Tensor([float(n)] * 3).realize() for n in range(3)]
    held: list[Tensor] = []
    for step in program:
        tensors = parameters + states + held
        a, b = (tensors[n % len(tensors)] for n in step.operands)
        value = step.combine(a, b)
        if step.write is None:
            held.append(value)
        else:
            step.write(states[step.place], value, step.place)
        for look, n in step.looks if looks else ():
            look((states + held)[n % len(states + held)])
    loss = sum(((t * (n + 1.0)).sum() for n, t in enumerate(states + held)), Tensor(0.0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        (loss + (parameters[0] * 0 + parameters[1] * 0).sum()).backward()
    grads = [p.grad.tolist() for p in parameters if p.grad is not None]
    lost = any("gradients end at memory" in str(w.message) for w in told)
    return grads, [t.tolist() for t in states + held], lost


@given(st.lists(_steps, min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_a_look_changes_no_value_and_loses_no_gradient_in_silence(program: list[_Step]):
    grads, values, lost = _run(program, looks=False)
    assert len(grads) == 2
    assert not lost
    looked_grads, looked_values, told = _run(program, looks=True)
    np.testing.assert_allclose(looked_values, values, rtol=1e-5)
    if not told:
        np.testing.assert_allclose(looked_grads, grads, rtol=1e-5, atol=1e-5)

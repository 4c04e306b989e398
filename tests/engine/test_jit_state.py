"""State that a captured function replaces, and what a saved one still checks."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinylab.errors import JitError, ShapeError


def _one() -> Tensor:
    return Tensor([1.0]).realize()


def _stored(state: Tensor, x: Tensor) -> None:
    state.replace((state + x).realize())


def _lazy(state: Tensor, x: Tensor) -> None:
    state.replace(state + x)


def _of_no_state(state: Tensor, x: Tensor) -> None:
    state.replace(x * 2)  # waits: a replay would compute what is returned only


def _twice(state: Tensor, x: Tensor) -> None:
    state.replace(state + x).replace((state * 2).contiguous())


@pytest.mark.parametrize("move_on", [_stored, _lazy, _twice, _of_no_state])
@pytest.mark.parametrize("pending", [False, True])
def test_state_that_is_replaced_is_refused_when_it_is_captured(
    move_on: Callable[[Tensor, Tensor], None], pending: bool
):
    state = Tensor([0.0]) + 1 if pending else Tensor([1.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        move_on(state, x)
        return (state * 10).realize()

    step(_one())
    with pytest.raises(JitError, match=r"\.replace\(\)d inside") as e:
        step(_one())
    assert "assign" in str(e.value.help)


def test_state_that_is_assigned_moves_on():
    state = Tensor([0.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        return state * 10

    assert [step(_one()).item() for _ in range(5)] == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert state.item() == 5.0


def test_what_is_replaced_by_something_of_the_inputs_follows():
    state = Tensor([0.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.replace((x * 2).realize())
        return (state + 1).realize()

    for n in range(5):
        assert step(Tensor([float(n)]).realize()).item() == 2 * n + 1
        assert state.item() == 2 * n


def test_a_tensor_made_inside_may_be_replaced():
    @TinyJit
    def step(x: Tensor) -> Tensor:
        found = x + 1
        found.replace(found * 2)
        return found.realize()

    for n in range(4):
        assert step(Tensor([float(n)]).realize()).item() == 2 * (n + 1)


@pytest.mark.parametrize("saved", [False, True])
def test_a_replay_holds_boxes_against_its_variables(saved: bool):
    x = Tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).realize()
    at = Variable("at", 0, 8)

    @TinyJit
    def two(x: Tensor, at: Variable) -> Tensor:
        return x[at : at + 2].contiguous()

    for n in (0, 3):
        two(x, at.bind(n))
    step = pickle.loads(pickle.dumps(two)) if saved else two
    assert step(x, at.bind(6)).tolist() == [6.0, 7.0]
    with pytest.raises(ShapeError, match=r"its variables make it 7 to 9 of 8"):
        step(x, at.bind(7))
    assert step(x, at.bind(5)).tolist() == [5.0, 6.0]


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("where", ["between", "inside"])
def test_a_seed_reaches_replays(jit: int, where: str):
    """They read the key and the counter in memory, and what waits there keeps its numbers."""

    @TinyJit
    def draw(x: Tensor) -> Tensor:
        if where == "inside":
            Tensor.manual_seed(3)
        return (x + Tensor.rand(3)).realize()

    def calls(n: int) -> list[list[float]]:
        return [draw(Tensor([0.0, 0.0, 0.0]).realize()).tolist() for _ in range(n)]

    with Context(JIT=jit):
        Tensor.manual_seed(3)
        Tensor.manual_seed(3)
        first = calls(4)
        other = Tensor.rand(3)
        Tensor.manual_seed(3)
        assert calls(4) == first
        Tensor.manual_seed(4)
        assert (calls(1) == first[:1]) == (where == "inside")
        Tensor.manual_seed(3)
        plain = [Tensor.rand(3).tolist() for _ in range(5)]
    assert first == (plain[:4] if where == "between" else [plain[0]] * 4)
    assert other.tolist() == plain[4 if where == "between" else 1]


def test_a_captured_function_that_is_gone_leaves_seeds_alone():
    """While it is there, a seed is written to its memory, and what reads that is computed first."""
    draw = TinyJit(lambda: Tensor.rand(3).realize())
    for _ in range(3):
        draw()
    for kept in (True, False):
        if not kept:
            del draw
            gc.collect()
        waits = Tensor.rand(4).sum()
        before = GlobalCounters.kernel_count
        Tensor.manual_seed(1)
        first = Tensor.rand(2)
        assert (GlobalCounters.kernel_count > before) == kept
        assert 0 < waits.item() < 4
        Tensor.manual_seed(1)
        assert Tensor.rand(2).tolist() == first.tolist()


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("make", [lambda s: s * 1, lambda s: s * 2, lambda s: s + 1])
@pytest.mark.parametrize("written", ["what it is made of", "itself"])
def test_a_value_that_is_not_in_memory_yet_is_state(
    jit: int, make: Callable[[Tensor], Tensor], written: str
):
    """Replays worked it out of what its source became."""
    s = Tensor([1.0, 2.0]).realize()
    v = make(s)
    was = make(Tensor([1.0, 2.0])).tolist()
    step = TinyJit(lambda x: v + x)
    with Context(JIT=jit):
        for n in range(6):
            if n == 3 and written == "itself":
                v += 10
            elif n == 3:
                s += 10
            now = [x + 10 for x in was] if n >= 3 and written == "itself" else was
            assert step(Tensor([float(n), 0.0]).realize()).tolist() == [now[0] + n, now[1]]


@pytest.mark.parametrize("use", [lambda v, x: v + x, lambda v, x: (x + 1, v)])
@pytest.mark.parametrize("view", [lambda s: s.flip(0), lambda s: s[1:], lambda s: s.detach()])
def test_a_view_that_was_parted_from_what_a_capture_read_is_told(
    use: Callable[[Tensor, Tensor], object], view: Callable[[Tensor], Tensor]
):
    """The write waits: the view goes elsewhere when the replay does it, and was not seen to."""
    s = Tensor([1.0, 2.0]).realize()
    v = view(s)
    step = TinyJit(lambda x: use(v, x))
    for _ in range(3):
        step(_one())
    old = v.tolist()
    s += 10
    with pytest.raises(JitError, match="v is another tensor than") as e:
        step(_one())
    assert "a view keeps its value" in str(e.value.help)
    assert (v.tolist(), s.tolist()) == (old, [11, 12])


WITHOUT_MEMORY: dict[str, Callable[[], Tensor]] = {
    "positions": lambda: Tensor.arange(4).float(),
    "whole positions": lambda: Tensor.arange(4),
    "identity": lambda: Tensor.eye(4)[1],
    "padded": lambda: Tensor.ones(2).pad(((1, 1),)),
    "joined": lambda: Tensor.cat(Tensor.ones(2), Tensor.zeros(2)),
    "spread": lambda: Tensor.full((4,), 2.0, buffer=False),
    "full": lambda: Tensor.full((4,), 2.0),
}
BETWEEN: dict[str, Callable[[Tensor, int], object]] = {
    "assign": lambda n, i: n.assign(n * 0 + i),
    "add": lambda n, i: n.__iadd__(i),
    "set": lambda n, i: n.__setitem__(1, i),
}


@pytest.mark.parametrize("devices", [None, "CPU:1", ("CPU", "CPU:1")], ids=str)
@pytest.mark.parametrize("how", BETWEEN)
@pytest.mark.parametrize("make", WITHOUT_MEMORY)
def test_writes_to_state_that_was_made_of_nothing_are_seen(
    make: str, how: str, devices: Any
) -> None:
    def run(jit: int) -> list[Any]:
        with Context(JIT=jit):
            state = WITHOUT_MEMORY[make]()
            state = state if devices is None else state.to(devices)
            scaled, found = TinyJit(lambda x: x * state), []
            for i in range(6):
                if i >= 3:
                    BETWEEN[how](state, i)
                x = Tensor([1.0, 2.0, 3.0, 4.0])
                x = x if devices is None else x.to(devices)
                found.append(scaled(x.clone().realize()).tolist())
            return found

    assert run(1) == run(0)


def test_a_number_that_is_written_between_replays_is_refused() -> None:
    number = Tensor(2.0)
    scaled = TinyJit(lambda x: x * number)
    for _ in range(3):
        assert scaled(Tensor([1.0, 2.0]).realize()).tolist() == [2, 4]
    number += 1
    with pytest.raises(JitError, match="number is another tensor than when"):
        scaled(Tensor([1.0, 2.0]).realize())


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "joined": lambda s: Tensor.cat(s),
    "padded": lambda s: s.pad(((0, 0),)),
    "summed": lambda s: s.reshape(4, 1).sum(1),
    "turned": lambda s: Tensor.cat(s).flip(0).flip(0),
    "stacked": lambda s: Tensor.stack(s)[0],
}


@pytest.mark.parametrize("shared", SHARED)
def test_a_value_that_shares_the_memory_of_state_is_written_elsewhere(shared: str) -> None:
    def run(jit: int) -> tuple[list[Any], Any, Any]:
        with Context(JIT=jit):
            s, a = Tensor([5, 1, 2, 3]).realize(), Tensor([0, 0, 0, 0]).realize()

            def step(x: Tensor) -> Tensor:
                p = SHARED[shared](s)
                p += 1
                a.assign(p)
                return s * 2 + x

            jitted = TinyJit(step)
            found = [jitted(Tensor([i]).clone().realize()).tolist() for i in range(5)]
            return found, s.tolist(), a.tolist()

    assert run(1) == run(0)


@pytest.mark.parametrize("make", WITHOUT_MEMORY)
def test_a_value_that_is_state_made_of_nothing_is_written_elsewhere(make: str) -> None:
    def run(jit: int) -> tuple[list[Any], Any]:
        with Context(JIT=jit):
            state = WITHOUT_MEMORY[make]()

            def step(x: Tensor) -> tuple[Tensor, Tensor]:
                p = Tensor.cat(state)
                p *= 2
                return p * x, state * 2

            jitted = TinyJit(step)
            calls = [jitted(Tensor([i]).clone().realize()) for i in range(5)]
            return [[t.tolist() for t in call] for call in calls], state.tolist()

    assert run(1) == run(0)


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(("numbers", "dtype"), [((1, 2), "int8"), ((1.0, 2.0), "half")])
def test_state_of_a_weak_type_takes_the_type_that_it_meets(
    numbers: tuple[Any, Any], dtype: str, in_memory: bool
) -> None:
    mask = Tensor.arange(4) > 1
    state = (mask.realize() if in_memory else mask).where(*numbers)
    scaled, weak = TinyJit(lambda x: x * state), state.dtype
    x = Tensor([100, 2, 100, 4], dtype=dtype)
    expected = (x * state).numpy()
    for _ in range(5):
        found = scaled(x.clone().realize()).numpy()
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
        assert state.dtype is weak


@pytest.mark.parametrize("write", [False, True])
def test_weak_state_that_is_computed_between_replays_is_refused(write: bool) -> None:
    mask = Tensor([False, True]).realize()
    state = mask.where(1, 2)
    scaled = TinyJit(lambda x: x * state)
    for _ in range(3):
        assert scaled(Tensor([10, 10]).clone().realize()).tolist() == [20, 10]
    if write:
        mask.assign(mask.logical_not()).realize()
    else:
        state.realize()
    x = Tensor([10, 10]).clone().realize()
    with pytest.raises(JitError, match="state is another tensor than when"):
        scaled(x)

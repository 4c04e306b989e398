"""Writes that a captured function leaves waiting are done by each replay; results are apart."""

from __future__ import annotations

import functools
import pathlib
import threading
from typing import Any

import pytest

from tinylab import Context, Tensor, TinyJit, dtypes
from tinylab.engine.capture import Capture, captured, capturing, open_captures
from tinylab.errors import JitError
from tinylab.tensor.held import live
from tinylab.uop.ops import KernelInfo, UOp


def numbers(*values: int) -> Tensor:
    return Tensor(list(values)).realize()


both = pytest.mark.parametrize("jit", [0, 1, 2])


@both
def test_writes_that_are_neither_returned_nor_realized_are_replayed(jit: int):
    state = numbers(0)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        state.assign(state + x)
        y += 1
        return x * 2

    with Context(JIT=jit):
        total = 0
        for n in range(5):
            total += n
            y = numbers(50)
            assert step(numbers(n), y).item() == 2 * n
            assert (state.item(), y.item()) == (total, 51)


@both
def test_a_function_of_writes_only_is_captured(jit: int):
    state = numbers(1, 2, 3)

    @TinyJit
    def step(x: Tensor) -> None:
        state[1:] = x

    with Context(JIT=jit):
        for n in range(5):
            step(numbers(n))
            assert state.tolist() == [1, n, n]


@both
def test_writes_by_way_of_views_are_replayed(jit: int):
    state = numbers(1, 2, 3, 4)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        half = state[:2]
        half += x
        state.reshape(2, 2)[1, 0] = x.squeeze()
        return state.flip(0)

    with Context(JIT=jit):
        want = [1, 2, 3, 4]
        for n in range(5):
            want = [want[0] + n, want[1] + n, n, 4]
            assert step(numbers(n)).tolist() == want[::-1]
            assert state.tolist() == want


@both
@pytest.mark.parametrize("stored", ["memory", "expression", "write", "constant"])
@pytest.mark.parametrize("realized", [False, True])
def test_state_that_was_not_in_memory_moves_on(jit: int, stored: str, realized: bool):
    """Replays must not begin with what the capture began with."""
    new = {
        "memory": lambda: numbers(1),
        "expression": lambda: numbers(1) * 1,
        "write": lambda: numbers(1).clone(),
        "constant": lambda: Tensor.full((1,), 1, dtype=dtypes.int32),
    }
    state = new[stored]()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        if realized:
            state.realize()
        return x + 1

    with Context(JIT=jit):
        total = 1
        for n in range(6):
            if n == 1:  # also where the call that captures is the first to see it
                state, total = new[stored](), 1
            total += n
            assert step(numbers(n)).item() == n + 1
            if n > 3:
                assert state.tolist() == [total]


def test_what_waits_elsewhere_still_waits_behind_a_capture():
    base = numbers(1, 2)
    waits, copy = base + 1, base.clone()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return x + 1

    for n in range(3):
        step(numbers(n))
    assert not waits.uop.is_realized
    assert not copy.uop.is_realized
    assert (waits.tolist(), copy.tolist()) == ([2, 3], [1, 2])


def test_a_write_that_waits_below_an_expression_is_done_once():
    for _ in range(3):
        state = numbers(1)
        state += 1
        seen = state * 10
        del state

        @TinyJit
        def step(x: Tensor, seen: Tensor = seen) -> Tensor:
            return x + seen

        step(numbers(0))
        assert [step(numbers(n)).item() for n in range(4)] == [20, 21, 22, 23]


def test_only_what_the_own_thread_writes_is_heard_of():
    other, state = numbers(1), numbers(2)

    def write() -> None:
        other.assign(other + 1)

    with live.listening() as heard:
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        state.assign(state + 1)
    assert [ref() for ref, _ in heard.wrote.values()] == [state]


@both
def test_what_was_computed_once_and_comes_back_as_an_input_keeps_its_value(jit: int):
    fixed = numbers(3, 4)

    @functools.partial(TinyJit, prune=True)
    def step(x: Tensor) -> Any:
        x.assign(x * 10)
        return (fixed + 0).realize()

    with Context(JIT=jit):
        x = numbers(5, 5)
        for n in range(6):
            found = step(x)
            assert found.tolist() == [3, 4]
            assert x.tolist() == ([50, 50] if n == 0 else [30, 40])
            x = found


@both
@pytest.mark.parametrize("prune", [False, True])
def test_writes_to_what_was_returned_reach_no_later_call(jit: int, prune: bool):
    """Not what was computed once, nor state that the function reads, through it or past it."""
    fixed, state = numbers(3, 4), numbers(1, 2)

    @functools.partial(TinyJit, prune=prune)
    def step(x: Tensor) -> Any:
        return x + state, (fixed * 2).contiguous(), state, state.reshape(2, 1), fixed

    with Context(JIT=jit):
        for n in range(5):
            found = step(numbers(n, n))
            want = [[1 + n, 2 + n], [6, 8], [1, 2], [[1], [2]], [3, 4]]
            assert [t.tolist() for t in found] == want
            for t in found:
                t += 100
                t.realize()
    assert (state.tolist(), fixed.tolist()) == ([1, 2], [3, 4])


@both
def test_a_view_of_state_that_is_returned_is_of_the_state_as_it_is(jit: int):
    state = numbers(1, 2)

    @TinyJit
    def step(x: Tensor) -> Any:
        return x + 1, state.reshape(2, 1), state

    with Context(JIT=jit):
        kept = []
        for n in range(5):
            state.assign(state + n)
            want = state.tolist()
            _, seen, whole = step(numbers(n))
            kept.append((seen, whole, want))
            assert whole.tolist() == want
        for seen, whole, want in kept:
            assert seen.reshape(2).tolist() == whole.tolist() == want


def test_a_file_is_returned_as_it_is(tmp_path: pathlib.Path):
    (tmp_path / "bytes").write_bytes(bytes(range(8)))
    file = Tensor(tmp_path / "bytes")

    @TinyJit
    def step(x: Tensor) -> Any:
        return x + 1, file[2:4]

    for n in range(4):
        found, part = step(numbers(n))
        assert (found.item(), part.tolist()) == (n + 1, [2, 3])
        assert str(part.device).startswith("DISK:")


# *** results and values that lie in memory that a captured function uses


def _one_more(x: Tensor) -> Tensor:
    x += 1
    return x


def _set_first(x: Tensor) -> Tensor:
    other = x * 2
    x[0] = 7
    return other


@both
@pytest.mark.parametrize("function", [_one_more, _set_first])
@pytest.mark.parametrize("hold", [True, False])
def test_a_function_that_writes_its_input_is_fed_its_own_results(
    jit: int, function: Any, hold: bool
):
    """The first result lies where its input does: captures, and replays, wrote to a copy."""
    with Context(JIT=0):
        plain = [numbers(1, 2)]
        for _ in range(5):
            plain.append(TinyJit(function)(plain[-1]))
    with Context(JIT=jit):
        step, x, held = TinyJit(function), numbers(1, 2), []
        for _ in range(5):
            held.append(x)
            x = step(x)
            if not hold:
                held.clear()
        assert x.tolist() == plain[-1].tolist()
        assert [t.tolist() for t in held] == [t.tolist() for t in plain[: len(held)]]


_SHARED: list[Any] = [
    lambda s: s.pad(((0, 0),)),
    lambda s: Tensor.cat(s),
    lambda s: s.repeat(1),
    lambda s: s.reshape(4, 1).sum(1),
]


def _assign_sevens(t: Tensor) -> None:
    t.assign(Tensor([7, 7, 7, 7]))


def _add_hundred(t: Tensor) -> None:
    t += 100


@both
@pytest.mark.parametrize("share", _SHARED)
@pytest.mark.parametrize("when", [0, 1, 2])
@pytest.mark.parametrize("write", [_assign_sevens, _add_hundred])
def test_a_value_that_lies_in_the_memory_of_state_is_written_elsewhere(
    jit: int, share: Any, when: int, write: Any
):
    """It was written there, and the state moved: replays read what had been written."""
    state = numbers(0, 1, 2, 3)

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, state.reshape(2, 2)

    @TinyJit
    def read(x: Tensor) -> Tensor:
        return state + x

    with Context(JIT=jit):
        for n in range(6):
            if n == when:
                other = share(state).realize()
            if n == 3:
                write(other)
            assert step(numbers(n))[1].tolist() == [[0, 1], [2, 3]]
            assert read(numbers(n)).tolist() == [n, n + 1, n + 2, n + 3]
        assert other.tolist() == ([7] * 4 if write is _assign_sevens else [100, 101, 102, 103])


@both
def test_a_write_into_a_first_result_reaches_no_state(jit: int):
    state = numbers(0, 1, 2, 3)
    step = TinyJit(lambda x: (x + 1, state.reshape(2, 2)))
    with Context(JIT=jit):
        results = [step(numbers(n))[1] for n in range(3)]
        for r in results:
            r += 10
            assert step(numbers(0))[1].tolist() == [[0, 1], [2, 3]]
        assert [r.tolist() for r in results] == [[[10, 11], [12, 13]]] * 3


@both
def test_gradients_add_up_where_they_were_written_before(jit: int):
    w = Tensor([1.0, 2.0]).is_param_()
    w.grad = Tensor([5.0, 5.0]).realize()
    w.grad.assign(Tensor([0.0, 0.0])).realize()
    step = TinyJit(lambda x: (w * x).sum().backward().realize())
    with Context(JIT=jit):
        for n in range(5):
            step(Tensor([float(n), 1.0]).realize())
            if n == 3:
                w.grad.assign(w.grad * 0)
    assert w.grad.tolist() == [4.0, 1.0]


def _increment(c: UOp) -> UOp:
    i = UOp.range(2, 0)
    return c[i].store(c[i] + 1).end(i).sink(arg=KernelInfo(name="increment"))


@both
@pytest.mark.parametrize("where", ["input", "state", "written"])
def test_a_kernel_by_hand_changes_no_tensor_that_it_was_given(jit: int, where: str):
    """Its result has the new values; a plain call moves what it overwrites, a replay would not."""
    state = numbers(5, 6)

    def step(x: Tensor, apart: bool) -> Tensor:
        if where == "written":
            state.assign(state + x)
        given = x if where == "input" else state
        return (given.clone() if apart else given).custom_kernel(fxn=_increment)[0] * 2

    with Context(JIT=jit):
        plain = TinyJit(lambda x: step(x, False))
        assert plain(numbers(0, 0)).tolist() == [
            2 if where == "input" else 12,
            2 if where == "input" else 14,
        ]
        if jit and where != "written":
            with pytest.raises(JitError, match="written by hand writes to the memory") as e:
                plain(numbers(0, 0))
            assert "clone()" in str(e.value.help)
        apart = TinyJit(lambda x: step(x, True))
        for n in range(5):
            x = numbers(n, 0)
            total = 5 + (n * (n + 1) // 2 if where == "written" else 0)
            assert apart(x).tolist()[0] == 2 * (n if where == "input" else total) + 2
            assert x.tolist() == [n, 0]
            assert state.tolist() == [total, 6]


@both
def test_a_parameter_that_is_returned_is_a_value(jit: int):
    """As a parameter it got gradients of its own, in the memory of the last call's."""
    w = Tensor([1.0, 2.0]).is_param_()

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        w.grad = None
        loss = (w * x).sum().backward()
        assert w.grad is not None
        w.assign(w - w.grad)
        return loss, w

    with Context(JIT=jit, TRAINING=1):
        held = [step(Tensor([1.0, 0.5]).realize()) for _ in range(4)]
        assert [t[1].tolist() for t in held] == [[-n, 2 - 0.5 * (n + 1)] for n in range(4)]
        assert all(t[1].grad is None and not t[1].is_param for t in held)


def test_a_mask_in_a_captured_function_is_named():
    def clear(x: Tensor) -> Tensor:
        x[x > 1] = 0
        return x * 1

    step = TinyJit(clear)
    step(numbers(1, 2))
    with pytest.raises(JitError, match="a mask picks as many elements as it has true ones") as e:
        step(numbers(1, 2))
    assert "where" in str(e.value.help)


@both
@pytest.mark.parametrize("zero", [lambda g: g.assign(0), lambda g: g.assign(g * 0)])
def test_gradients_that_are_zeroed_inside_add_up_where_they_lie(jit: int, zero: Any):
    w = Tensor([1.0, 2.0]).is_param_()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        if w.grad is not None:
            zero(w.grad)
        loss = (w * x).sum().backward()
        assert w.grad is not None
        w.assign(w - w.grad)
        return loss

    with Context(JIT=jit, TRAINING=1):
        (w * 1).sum().backward()
        total = 0.0
        for n in range(5):
            step(Tensor([float(n), 1.0]).realize())
            total += n
            assert w.tolist() == [1 - total, 1 - n]
            assert w.grad is not None
            assert w.grad.tolist() == [n, 1]


def test_a_capture_that_was_left_open_is_forgotten():
    """By a signal's handler that raised while it closed: every look at values was refused."""

    def leave() -> None:
        captured().__enter__()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        leave()
    left = Capture(frame=None)
    capturing.append(left)
    assert (numbers(1) + 1).tolist() == [2]
    assert not open_captures()
    step = TinyJit(lambda x: x + 1)
    capturing.append(left)
    assert [step(numbers(n)).item() for n in range(4)] == [1, 2, 3, 4]

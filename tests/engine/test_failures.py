"""What stays when something goes wrong: values that cannot be computed, runs that end early."""

from __future__ import annotations

import gc
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.engine.ending import Stopped, ending
from tinylab import Context, Tensor, TinyJit, UOp, dtypes, nn, record
from tinylab.device import Device, LostBuffer
from tinylab.errors import (
    AllocationError,
    BoundsError,
    CompileError,
    LostValueError,
    RenderError,
)
from tinylab.helpers.measure import GlobalCounters
from tinylab.opcodes import Ops
from tinylab.runtime.ops_cpu import CPUAllocator
from tinylab.uop.ops import KernelInfo

MB = 1 << 20
DEVICES = ("CPU", "CPU:1")


def stored(*values: float, device: str | None = None) -> Tensor:
    return Tensor(list(values), device=device).contiguous().realize()


def no_code(o: UOp, x: UOp) -> UOp:
    i = UOp.range(o.numel(), 0)
    broken = UOp(Ops.CUSTOM, dtypes.void, (o, x), "this is no code")
    return broken.end(i).sink(arg=KernelInfo(name="broken"))


def broken(a: Tensor) -> Tensor:
    """A value of a that no compiler takes."""
    return Tensor.empty(*a.shape, device=a.device).custom_kernel(a, fxn=no_code)[0]


class Limit:
    """How much more memory the CPU has than was in use when the test began."""

    def __init__(self) -> None:
        gc.collect()
        Device["CPU"].allocator.free_cache()  # else what an earlier test gave back is used again
        self.used = GlobalCounters.mem_used_per_device["CPU"]
        self.more = 9 * MB

    def allows(self, size: int) -> bool:
        return GlobalCounters.mem_used_per_device["CPU"] + size <= self.used + self.more


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    found, plain = Limit(), CPUAllocator._alloc

    def alloc(self: CPUAllocator, size: int, options: Any) -> object:
        if not found.allows(size):
            raise MemoryError
        return plain(self, size, options)

    monkeypatch.setattr(CPUAllocator, "_alloc", alloc)
    with Context(LRU=0):
        yield found


# *** a held value that cannot be computed locks nothing


def test_a_kernel_that_does_not_compile_does_not_lock_what_it_reads() -> None:
    a = stored(1, 2, 3, 4)
    good, c = a * 10, broken(a)
    above = c * 2
    a += 1
    with record() as seen:
        assert a.tolist() == [2, 3, 4, 5]
    reasons = [k.reason for k in seen.kernels]
    assert any(
        "cannot be computed before it is overwritten: copied first, 16 B" in r for r in reasons
    )
    a += 1
    assert (a.tolist(), good.tolist()) == ([3, 4, 5, 6], [10, 20, 30, 40])
    for value in (c, above):
        with pytest.raises(CompileError, match=f"broken.*asked for at {__file__}"):
            value.tolist()
    assert a.tolist() == [3, 4, 5, 6]


def _twice(a: Tensor) -> None:
    a += 1
    a[0] = 9


WRITES: dict[str, Callable[[Tensor], object]] = {
    "whole": lambda a: a.assign(a * 2),
    "part": lambda a: a.__setitem__(slice(1, 3), 7),
    "twice": _twice,
    "reversed": lambda a: a.assign(a + a.flip(0)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("device", ["CPU", "PYTHON", DEVICES])
def test_writes_of_every_kind_go_on(write: str, device: str | tuple[str, ...]) -> None:
    expected = np.arange(4, dtype=np.float32)
    a = Tensor(expected.copy())
    a = a.shard(device, 0) if isinstance(device, tuple) else a.to(device)
    a.realize()
    if isinstance(device, str):
        c = broken(a)
    else:
        c = a.reshape(4, 1).expand(4, 1 << 40).contiguous().sum(1)  # more than any memory
    old = a + 1
    numpy = {
        "whole": expected * 2,
        "part": [0, 7, 7, 3],
        "twice": [9, 2, 3, 4],
        "reversed": [3] * 4,
    }
    WRITES[write](a)
    np.testing.assert_array_equal(a.numpy(), numpy[write])
    np.testing.assert_array_equal(old.numpy(), expected + 1)
    with pytest.raises((CompileError, RenderError, MemoryError)):
        c.realize()


def test_what_waits_for_another_write_is_set_aside_too() -> None:
    a, b = stored(1, 2), stored(5, 6)
    a += 1
    c = broken(a + b)  # reads a after one write, and before the next
    b *= 2
    a *= 10
    assert (a.tolist(), b.tolist()) == ([20, 30], [10, 12])
    with pytest.raises(CompileError):
        c.realize()


def test_what_is_asked_for_and_cannot_be_computed_changes_nothing() -> None:
    a = stored(1, 2)
    old = a * 3
    a += 1
    c = broken(a)
    for _ in range(2):
        with pytest.raises(CompileError):
            Tensor.realize(c, a)
    a += 1
    assert (a.tolist(), old.tolist()) == ([3, 4], [3, 6])


def test_a_value_that_is_too_large_can_be_computed_later(limit: Limit) -> None:
    a = Tensor.ones(64).contiguous().realize()
    large = a.reshape(64, 1).expand(64, MB).contiguous()
    c = large.sum(1)
    a += 5
    assert a.tolist() == [6] * 64
    with pytest.raises(AllocationError):
        c.realize()
    assert a.tolist() == [6] * 64
    limit.more = 1 << 40
    assert c.tolist() == [MB] * 64  # of the old values


def test_no_memory_for_the_copy_is_a_sentence(limit: Limit) -> None:
    limit.more = 6 * MB
    a = Tensor.ones(MB).contiguous().realize()  # 4 MB
    c = a.reshape(1, MB).expand(64, MB).contiguous().sum(0)
    a += 5
    with pytest.raises(
        AllocationError, match="for a copy of what a value that somebody holds reads"
    ):
        a.realize()
    del c
    gc.collect()
    assert a[0].item() == 6


def test_a_replay_goes_on_too() -> None:
    w = stored(1, 2, 3, 4)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        w.assign(w + x)
        return w * 2

    one = stored(1, 1, 1, 1)
    for _ in range(3):
        step(one)
    c, good = broken(w), w * 1
    assert step(one).tolist() == [10, 12, 14, 16]
    assert good.tolist() == [4, 5, 6, 7]
    with pytest.raises(CompileError):
        c.realize()
    assert step(one).tolist() == [12, 14, 16, 18]


def test_a_capture_does_not_mind_a_write_that_cannot_be_done() -> None:
    b = stored(0, 0)
    c = b.custom_kernel(stored(1, 2), fxn=no_code)[0]

    @TinyJit
    def double(x: Tensor) -> Tensor:
        return x * 2

    assert [double(stored(n, n)).tolist() for n in range(4)] == [[0, 0], [2, 2], [4, 4], [6, 6]]
    with pytest.raises(CompileError):
        c.realize()


# *** a run that ends early

HOW = ["interrupted before", "interrupted behind", "stopped behind", "fails"]
STEPS = 12


def ended(how: str, *at: int) -> Callable[..., bool]:
    """Realizes, and says whether that ended early."""

    def realize(*tensors: Tensor) -> bool:
        try:
            with ending(*at, how=how):
                tensors[0].realize(*tensors[1:])
        except (KeyboardInterrupt, RuntimeError, Stopped):
            return True
        return False

    return realize


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("device", ["CPU", "PYTHON", DEVICES])
def test_a_write_happens_once_wherever_a_run_ends(how: str, device: str | tuple[str, ...]) -> None:
    ends = 0
    for at in range(STEPS):
        a = Tensor(np.arange(4, dtype=np.float32))
        a = a.shard(device, 0) if isinstance(device, tuple) else a.to(device)
        a.realize()
        old = (a * 10).contiguous() + 1
        a += 1
        between = a.flip(0) * 2
        a *= 3
        a[0] = a[1] + 1
        y = (a.reshape(4, 1) * a).sum(1)
        ends += ended(how, at)(y, a)
        wanted = {"y": y, "a": a, "old": old, "between": between}
        found = {}
        for name, t in wanted.items():
            try:
                found[name] = t.numpy().tolist()
            except LostValueError:
                assert how == "fails", (name, at)
        right = {
            "a": [7, 6, 9, 12],
            "y": [7 * 34, 6 * 34, 9 * 34, 12 * 34],
            "old": [1, 11, 21, 31],
            "between": [8, 6, 4, 2],
        }
        assert found == {name: right[name] for name in found}, at
    assert ends > 2 if how != "fails" else ends


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 2, 3)])
@pytest.mark.parametrize(
    "view", [lambda t: t[:], Tensor.contiguous, lambda t: t[1:], Tensor.detach]
)
def test_a_view_is_copied_and_the_write_that_waits_stays_where_it_is(
    how: str, shape: tuple[int, ...], view: Callable[[Tensor], Tensor]
) -> None:
    """The copy was in the place of the memory, for the write too: it changed the view."""
    for at in range(4):
        a = np.arange(12, dtype=np.int32).reshape(shape)
        x = Tensor(a.copy()).realize()
        older, double, row = view(x), x * 2, view(Tensor(a)).numpy()
        x += 1
        ended(how, at)(x)
        wanted = [(x, a + 1), (older, row), (double, a * 2)]
        for t, right in wanted:
            try:
                found = t.numpy()
            except LostValueError:
                assert how == "fails"
                continue
            assert found.tolist() == right.tolist(), at


def out_of_bounds(o: UOp, x: UOp) -> UOp:
    i = UOp.range(x.numel() + 2, 0)
    return o[i].store(x[i]).end(i).sink(arg=KernelInfo(name="out_of_bounds"))


def test_a_kernel_that_fails_at_run_time_again_and_again() -> None:
    a = stored(1, 2, 3, 4, device="PYTHON")
    d = a * 10
    a += 1
    c = Tensor.empty(4, device="PYTHON").custom_kernel(a * 1, fxn=out_of_bounds)[0]
    for _ in range(3):
        with pytest.raises(BoundsError):
            Tensor.realize(a, d, c)
        assert (a.tolist(), d.tolist()) == ([2, 3, 4, 5], [10, 20, 30, 40])
    a += 1  # and c is still held
    assert (a.tolist(), d.tolist()) == ([3, 4, 5, 6], [10, 20, 30, 40])


def test_what_an_interpreted_kernel_wrote_is_taken_back() -> None:
    a = stored(1, 2, 3, 4, device="PYTHON")
    a = a.custom_kernel(stored(5, 6, 7, 8, device="PYTHON"), fxn=out_of_bounds)[0]
    with pytest.raises(BoundsError):
        a.realize()
    below = a.uop.src[0].base
    assert Tensor(below).tolist() == [1, 2, 3, 4]


# A finalizer that a signal meets is no place for an error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_at_any_moment() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        w = Tensor.ones(8, 8).contiguous().realize()
        for n in range(150):
            a = Tensor([[1.0] * 8] * 8).contiguous().realize()
            old = a * 10
            a += 1
            y = (a @ w).contiguous()
            a *= 2
            z = (y @ w).sum()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + n * 4e-6)
                Tensor.realize(a, z)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            found = a[0, 0].item(), old[0, 0].item(), y[0, 0].item(), z.item()
            assert found == (4, 10, 16, 8 * 8 * 128)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_second_interrupt_loses_values_and_says_so() -> None:
    lost = []
    for at in range(STEPS):
        a, b = stored(1, 2), stored(3, 4)
        twice = a * 2
        a.assign(b + a.flip(0))
        b.assign(twice)
        del twice  # known to the write only
        ended("interrupted before", at, at + 1)(a, b)
        for t, right in ((a, [5, 5]), (b, [2, 4])):
            try:
                assert t.tolist() == right, at
            except LostValueError as error:
                lost.append(str(error))
    assert 0 < len(lost) < 4
    for text in lost:
        assert re.search(f"the run at {__file__}:.*KeyboardInterrupt.*\n.*build it again", text)


def test_a_lost_value_does_not_lock_what_it_is_built_on() -> None:
    a, b = stored(1, 2), stored(3, 4)
    both = (a * 1).contiguous() + b  # reads b when it is asked for
    gone = both + a
    gone.uop = gone.uop.substitute({a.uop.base: lost_node(a)})
    b += 1
    assert (b.tolist(), both.tolist()) == ([4, 5], [4, 6])
    with pytest.raises(LostValueError):
        gone.tolist()
    assert "Tensor" in repr(gone)


def lost_node(like: Tensor) -> UOp:
    place = str(like.device)
    return UOp.from_buffer(
        LostBuffer(place, like.numel(), like.dtype, "it is gone", "make it anew")
    )


@pytest.mark.parametrize("how", HOW)
def test_random_numbers_stand_where_their_draws_are(how: str) -> None:
    def draws(at: int) -> list[list[float]]:
        Tensor.manual_seed(7)
        x, y = Tensor.rand(3), Tensor.rand(3)
        first = x * 2
        ended(how, at)(first)
        z = Tensor.rand(3)
        ended(how, at)(z + y)
        return [t.tolist() for t in (first, x, y, z, Tensor.rand(3))]

    right = draws(100)
    for at in range(6):
        assert draws(at) == right, at


@pytest.mark.parametrize("how", HOW)
def test_copies_from_another_device(how: str) -> None:
    for at in range(6):
        a, b = stored(1, 2, 3), stored(4, 5, 6, device="PYTHON")
        old, new = a * 10, b + 1
        a.assign(b.to("CPU"))
        b += 2
        a[1:] = b[:2].to("CPU")
        ended(how, at)(a, b)
        assert (a.tolist(), b.tolist()) == ([4, 6, 7], [6, 7, 8])
        assert (old.tolist(), new.tolist()) == ([10, 20, 30], [5, 6, 7])


@pytest.mark.parametrize("jit", [1, 2])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("how", HOW[:3])
def test_a_replay_is_done_or_not_wherever_it_is_interrupted(
    jit: int, device: str, how: str
) -> None:
    with Context(JIT=jit):
        w, v = stored(1, 2, device=device), stored(0, 0, device=device)

        @TinyJit
        def step(x: Tensor) -> Tensor:
            v.assign((v + x).contiguous())
            w.assign(w + v.flip(0))
            return (w * 2).contiguous()

        one = stored(1, 1, device=device)
        for _ in range(2):
            step(one)
        expected, total = np.array([1.0, 2]), 0
        for _ in range(2):
            total += 1
            expected += total
        for at in range(6):
            try:
                with ending(at, how=how):
                    step(one)
            except (KeyboardInterrupt, Stopped):
                pass
            if v.tolist() != [total] * 2:
                total += 1
                expected += total
            assert (v.tolist(), w.tolist()) == ([total] * 2, expected.tolist()), at


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("batch", [1, 32])
def test_a_signal_at_any_moment_of_a_replay(batch: int) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    states = [stored(*([0.0] * 8)) for _ in range(5)]

    @TinyJit
    def step(x: Tensor) -> None:
        for t in states:
            t.assign(t + x)
        Tensor.realize(*states)

    one = stored(*([1.0] * 8))
    with Context(JIT_BATCH_SIZE=batch):
        step(one)
        step(one)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for n in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + n * 2e-6)
                step(one)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            found = {t[0].item() for t in states}
            assert len(found) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def trained(how: str, at: int) -> list[list[float]]:
    """The losses and weights of three steps, the second of which ends early and is done again."""
    Tensor.manual_seed(3)
    layers = nn.Linear(6, 5), nn.Linear(5, 3)
    weights = nn.state.get_parameters(list(layers))
    Tensor.realize(*weights)
    optimizer = nn.optim.Adam(weights)
    x = Tensor(np.arange(48, dtype=np.float32).reshape(8, 6) / 48).realize()
    losses = []
    with Context(TRAINING=1):
        for step in range(3):
            optimizer.zero_grad()
            loss = layers[1](layers[0](x).relu().dropout(0.5)).square().mean()
            loss.backward()
            todo = [loss, *optimizer.schedule_step()]
            if step == 1:
                ended(how, at)(*todo)
            Tensor.realize(*todo)
            losses.append(loss.item())
    return [losses, *(w.flatten().tolist() for w in weights)]


@pytest.mark.parametrize("how", HOW)
def test_a_training_step_that_ends_early_and_is_done_again(how: str) -> None:
    right = trained(how, 1000)
    for at in range(0, 30, 3):
        assert trained(how, at) == right, at


def test_an_interrupt_while_tensors_go_leaves_none_behind() -> None:
    """The place of one that had gone stayed taken: a tensor made there next was not held in mind.

    What it was built from was then overwritten before it was computed.
    """

    def interrupt(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code.co_name == "gone":
            raise KeyboardInterrupt

    a = Tensor([1.0, 2.0, 3.0]).realize()
    old = [a + n for n in range(64)]
    hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
    sys.settrace(interrupt)
    try:
        old.clear()
    finally:
        sys.settrace(None)
        sys.unraisablehook = hook
    held = [a * n for n in range(64)]  # some lie where the old ones lay
    a += 1
    a.realize()
    assert [t.tolist() for t in held] == [[n, 2.0 * n, 3.0 * n] for n in range(64)]

"""Several threads at once: each gets its own results, and what they share stays whole."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, UOp, function
from tinylab.engine.capture import capturing
from tinylab.engine.linear import deferred
from tinylab.engine.locking import engine_lock

THREADS = 6
WEIGHT = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None]) -> None:
    """Work done by each of several threads, started together; the first error of any is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def run(n: int) -> None:
        try:
            start.wait()
            work(n)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_each_thread_gets_its_own_results():
    weight = Tensor(WEIGHT).realize()

    def work(n: int) -> None:
        rng = np.random.default_rng(n)
        for _ in range(8):
            data = rng.integers(0, 9, (int(rng.integers(1, 6)), 8)).astype(np.float32)
            found = (Tensor(data) @ weight + n).numpy()
            np.testing.assert_array_equal(found, data @ WEIGHT + n)

    in_threads(work)


def test_one_pending_value_is_computed_once_for_all():
    shared = Tensor(WEIGHT) @ Tensor(WEIGHT) + 1

    def work(n: int) -> None:
        np.testing.assert_array_equal(shared.numpy(), WEIGHT @ WEIGHT + 1)
        np.testing.assert_array_equal((shared * n).numpy(), (WEIGHT @ WEIGHT + 1) * n)

    in_threads(work)


def test_a_pending_write_happens_once_whoever_realises_it():
    counter = Tensor(np.zeros(4, np.float32)).realize()
    counter += 1

    def work(n: int) -> None:
        counter.realize()
        np.testing.assert_array_equal(counter.numpy(), np.ones(4, np.float32))

    in_threads(work)


def test_writes_of_a_thread_are_in_its_own_order():
    def work(n: int) -> None:
        rng = np.random.default_rng(n)
        for _ in range(6):
            data = rng.integers(0, 9, (4, 4)).astype(np.float32)
            x = Tensor(data.copy()).realize()
            old = x + n
            x += 2
            x[0] = 7
            x += x.T
            want = data + 2
            want[0] = 7
            want = want + want.T
            np.testing.assert_array_equal(x.numpy(), want)
            np.testing.assert_array_equal(old.numpy(), data + n)

    in_threads(work)


def test_turns_taken_with_the_lock_lose_no_update():
    counter = Tensor(np.zeros(3, np.float32)).realize()

    def work(n: int) -> None:
        for _ in range(5):
            with engine_lock:
                counter.assign(counter + 1)
                counter.realize()

    in_threads(work)
    assert counter.tolist() == [5.0 * THREADS] * 3


ELEMENTS = 1 << 16  # so many that a kernel of the CPU's may be cut in parts


@pytest.mark.parametrize("update", ["assign", "iadd", "part", "pending"])
def test_updates_without_a_lock_may_be_lost_but_never_torn(update: str):
    """Each write is one event: a reader finds all of one, and each result was some thread's."""
    counter = Tensor.zeros(ELEMENTS).contiguous().realize()
    rounds = 6

    def work(n: int) -> None:
        for _ in range(rounds):
            if update == "assign":
                counter.assign(counter + 1).realize()
            elif update == "iadd":
                x = counter  # a name of the thread's own: the tensor is the same
                x += 1
                x.realize()
            elif update == "part":
                counter[:] = counter[:] + 1
            else:
                counter.assign(counter + 1)  # left for whoever computes it
            found = counter.numpy()
            assert found.min() == found.max(), "torn"
            assert 1 <= found[0] <= THREADS * rounds

    in_threads(work)
    found = counter.numpy()
    assert found.min() == found.max()
    assert 1 <= found[0] <= THREADS * rounds


def test_parts_of_one_tensor_that_threads_write_apart_are_all_there():
    x = Tensor.zeros(THREADS, 8).contiguous().realize()

    def work(n: int) -> None:
        for k in range(5):
            with engine_lock:  # a write of a part keeps the rest as it was built
                x[n] = x[n] + n + k
                x.realize()

    in_threads(work)
    want = [[5.0 * n + 10] * 8 for n in range(THREADS)]
    assert x.tolist() == want


def test_one_captured_function_serves_all_threads():
    weight = Tensor(WEIGHT).realize()
    step = TinyJit(lambda x: (x * 2 + weight.sum(0)).realize())

    def work(n: int) -> None:
        rng = np.random.default_rng(n)
        for _ in range(8):
            data = rng.integers(0, 9, (3, 8)).astype(np.float32)
            found = step(Tensor(data).realize())
            np.testing.assert_array_equal(found.numpy(), data * 2 + WEIGHT.sum(0))

    in_threads(work)


def test_a_capture_hears_its_own_thread_only():
    """What another thread computes meanwhile waits for the capture; its kernels are not taken."""
    others: list[threading.Thread] = []
    values: list[list[float]] = []

    def elsewhere(begins: threading.Event) -> None:
        begins.set()
        values.append((Tensor([1.0, 2.0]) + 5).numpy().tolist())

    @TinyJit
    def step(x: Tensor) -> Tensor:
        begins = threading.Event()
        others.append(threading.Thread(target=elsewhere, args=(begins,)))
        others[-1].start()
        assert begins.wait(60)
        others[-1].join(0.5)  # time enough to compute, if nothing held it
        return (x + 1).realize()

    for n in range(4):
        assert step(Tensor([float(n)]).realize()).item() == n + 1
    for thread in others:
        thread.join(60)
    assert values == [[6.0, 7.0]] * len(others)
    assert len(step.captured.steps) == 1


def test_random_numbers_are_drawn_once_each():
    Tensor.manual_seed(3)
    drawn: list[float] = []

    def work(n: int) -> None:
        for _ in range(4):
            drawn.extend(Tensor.rand(8).tolist())

    in_threads(work)
    assert len(set(drawn)) == len(drawn)


def test_settings_of_one_thread_are_not_those_of_another():
    def work(n: int) -> None:
        with Context(NOOPT=n % 2, SPLIT_REDUCEOP=n % 2):
            assert Tensor(np.ones(1 << 16, np.float32)).sum().item() == 1 << 16

    in_threads(work)


def test_a_reader_in_another_thread_sees_what_was_before_the_write():
    for _ in range(5):
        base = Tensor(np.arange(100, dtype=np.int32)).realize()
        held = [(base * i).sum() for i in range(THREADS)]

        def work(i: int, base: Tensor = base, held: list[Tensor] = held) -> None:
            if i == 0:
                base.assign(base + 1).realize()
            else:
                assert held[i].item() == 4950 * i

        in_threads(work)


def test_threads_that_write_and_replay_do_not_disturb_each_other():
    def work(thread: int) -> None:
        step = TinyJit(lambda x: (x * 2 + 1).realize())
        for i in range(30):
            if thread % 2:
                assert step(Tensor([i, i + 1]).realize()).tolist() == [2 * i + 1, 2 * i + 3]
            else:
                x = Tensor([i, 1, 2])
                old = x + 0
                x[0] = -1
                assert (old + x).tolist() == [i - 1, 2, 4]

    in_threads(work)


def test_functions_are_traced_in_several_threads():
    def work(_: int) -> None:
        for i in range(20):
            doubled = function(lambda x: x * 2 + 1)
            assert doubled(Tensor([i]).realize()).tolist() == [2 * i + 1]

    in_threads(work)


class _Listener:
    def __init__(self) -> None:
        self.kernels = 0

    def add_linear(self, linear: UOp, var_vals: dict[str, int]) -> None:
        self.kernels += len(linear.src)


def _listen(x: Tensor, k: int) -> None:
    listener = _Listener()
    capturing.append(listener)
    try:
        (x + k).realize()
    finally:
        capturing.remove(listener)
    assert listener.kernels == 1


def _schedule(x: Tensor, k: int) -> None:
    with deferred() as noted:
        (x + k).contiguous().realize()
    assert len(noted.linear.src) == 1


def _capture(x: Tensor, k: int) -> None:
    step = TinyJit(lambda t: (t * 2 + k).realize())
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), np.arange(4) * 2 + k)
    assert len(step.captured.linear.src) == 1


@pytest.mark.parametrize("take", [_listen, _schedule, _capture])
def test_who_takes_schedules_takes_those_of_its_own_thread(take: Callable[[Tensor, int], None]):
    """What other threads realize meanwhile ran nowhere: their values had no memory."""
    x = Tensor(np.arange(4, dtype=np.float32)).realize()

    def work(n: int) -> None:
        for k in range(12):
            if n < 2:
                take(x, 100 * (n + 1) + k)  # equal expressions are one
            else:
                np.testing.assert_array_equal((x * k + n).numpy(), np.arange(4) * k + n)

    in_threads(work)

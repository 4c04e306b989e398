"""What stays when something goes wrong: values that cannot be computed, runs that end early."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, UOp, dtypes, record
from tinylab.device import Device
from tinylab.errors import AllocationError, CompileError, RenderError
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

    def alloc(self: CPUAllocator, size: int, options: object) -> object:
        if not found.allows(size):
            raise MemoryError
        return plain(self, size, options)  # type: ignore[arg-type]

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

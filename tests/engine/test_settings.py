"""Each setting of scheduling, memory and capture changes something to be seen, and no value."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, dtypes
from tinylab.engine import realize
from tinylab.engine.linear import compile_linear
from tinylab.helpers.context import SETTINGS
from tinylab.opcodes import Ops

A = np.random.default_rng(0).random((64, 64), np.float32)
ROOT = Path(__file__).parents[2]
FOUR = ("CPU", "CPU:1", "CPU:2", "CPU:3")


def a() -> Tensor:
    return Tensor(A).realize()


def _costly(x: Tensor) -> Tensor:
    for n in range(20):
        x = x * x + (n + 1)
        x = x * 0.1
    return x


def _both_ways() -> Tensor:
    y = _costly(a())
    return y + y.T


def _conv_gradient() -> Tensor:
    x = Tensor(A.reshape(1, 4, 32, 32)).realize()
    w = Tensor(A.reshape(-1)[:144].reshape(4, 4, 3, 3)).realize()
    return x.conv2d(w, padding=1).relu().sum().gradient(x)[0]


def _sum_of_shards() -> Tensor:
    return Tensor(A).shard(FOUR, 0).realize().sum(0)


def _half_sum_of_shards() -> Tensor:
    x = Tensor(A[:4], dtype=dtypes.float16).shard(FOUR, 0).realize()
    return x.cast(dtypes.float32).sum(0)


def _large_sum() -> Tensor:
    return a().repeat(16, 16).contiguous().sum()


def _chain() -> Tensor:
    x = a()
    for _ in range(4):
        x = (x * 0.5 + 1).contiguous()
    return x


def reasons(make: Callable[[], Tensor]) -> Any:
    """What the schedule does: each step's kind, reason, and sizes."""
    return [
        (c.src[0].op, str(c.arg.aux), [s.shape for s in c.src[1:]], c.src[0].key)
        for c in make().schedule_linear().src
    ]


def kernels(make: Callable[[], Tensor]) -> int:
    return len(reasons(make))


def arenas(make: Callable[[], Tensor]) -> int:
    """How many buffers hold what lives inside a schedule."""
    calls = make().schedule_linear().src
    return len({s.base for c in calls for s in c.src[1:]})


def launches(make: Callable[[], Tensor]) -> Any:
    """What a captured function launches: kernels, and graphs of so many."""
    x = a()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        for _ in range(10):
            x = (x * 0.5 + 1).contiguous()
        return x

    for _ in range(3):
        step(x)
    if step.captured is None:
        return None
    bodies = [c.src[0] for c in step.captured.linear.src]
    return [len(b.src[0].src) if b.op is Ops.CUSTOM_FUNCTION else 1 for b in bodies]


def kept_schedules(make: Callable[[], Tensor]) -> bool:
    """Whether a schedule that was made is found again."""
    realize.schedule_cache.clear()
    plans = []
    for _ in range(2):
        make().realize()
        plans.append(list(realize.schedule_cache.values()))
    return plans[0][-1] is plans[1][-1]


Row = tuple[str, dict[str, Any], Callable[[], Tensor], Callable[[Callable[[], Tensor]], Any]]
# fmt: off
OBSERVED: list[Row] = [
    ("FUSE_ARANGE", {"FUSE_ARANGE": 0}, lambda: a().tril(), kernels),
    ("FUSE_CONV_BW", {"FUSE_CONV_BW": 0}, _conv_gradient, kernels),
    ("DONT_REALIZE_EXPAND", {"DONT_REALIZE_EXPAND": 1}, lambda: a().exp() @ a(), kernels),
    ("PCONTIG", {"PCONTIG": 1}, _both_ways, kernels),
    ("PCONTIG", {"PCONTIG": 2}, lambda: a().exp() @ a(), kernels),
    ("PCONTIG", {"PCONTIG": 3}, lambda: a().softmax(), reasons),
    ("MAX_KERNEL_BUFFERS", {"MAX_KERNEL_BUFFERS": 3}, lambda: a() + a() * 2 + a() * 3, kernels),
    ("SPLIT_REDUCEOP", {"SPLIT_REDUCEOP": 0}, _large_sum, kernels),
    ("REDUCEOP_SPLIT_THRESHOLD", {"REDUCEOP_SPLIT_THRESHOLD": 1 << 24},
     _large_sum, kernels),
    ("REDUCEOP_SPLIT_SIZE", {"REDUCEOP_SPLIT_SIZE": 4},
     _large_sum, reasons),
    ("RING", {"RING": 2}, _sum_of_shards, kernels),
    ("RING_ALLREDUCE_THRESHOLD", {"RING_ALLREDUCE_THRESHOLD": 1}, _sum_of_shards, kernels),
    ("ALL2ALL", {"ALL2ALL": 2}, _sum_of_shards, kernels),
    ("ALLREDUCE_CAST", {"ALLREDUCE_CAST": 0}, _half_sum_of_shards, reasons),
    ("NO_MEMORY_PLANNER", {"NO_MEMORY_PLANNER": 1}, _chain, arenas),
    ("JIT", {"JIT": 0}, _chain, launches),
    ("JIT", {"JIT": 2}, _chain, launches),
    ("JIT_BATCH_SIZE", {"JIT_BATCH_SIZE": 3}, _chain, launches),
    ("CAPTURING", {"CAPTURING": 0}, _chain, launches),
    ("SCACHE", {"SCACHE": 0}, _chain, kept_schedules),
]
# fmt: on


def _name(row: Row) -> str:
    return "-".join(f"{k}={v}" for k, v in row[1].items())


@pytest.mark.parametrize("row", OBSERVED, ids=_name)
def test_a_setting_changes_what_is_seen_and_no_value(row: Row):
    _, changes, make, look = row
    with Context(JIT=1, SCACHE=1):
        before, value = look(make), make().numpy()
        with Context(**changes):
            after, other = look(make), make().numpy()
        assert before != after
        np.testing.assert_allclose(other, value, rtol=2e-3)
        assert look(make) == before


def test_values_may_be_read_inside_a_capture_where_that_is_allowed():
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * x.sum().item()).realize()

    with Context(UNSAFE_ALLOW_JIT_BUFFER=1):
        for _ in range(3):
            found = step(Tensor([1.0, 2.0]).realize())
    assert found.tolist() == [3.0, 6.0]


# Settings of these groups whose effect other tests show.
ELSEWHERE = {
    "FUSE_OPTIM": "tests/nn/test_optim.py",
    "MAX_BUFFER_SIZE": "tests/runtime/test_buffer.py",
    "LRU": "tests/runtime/test_buffer.py",
    "WINO": "tests/tensor/test_winograd.py",
    "UNSAFE_ALLOW_JIT_BUFFER": "tests/engine/test_settings.py",
}
GROUPS = {
    "scheduling": (
        "FUSE_ARANGE FUSE_CONV_BW DONT_REALIZE_EXPAND SPLIT_REDUCEOP PCONTIG FUSE_OPTIM "
        "REDUCEOP_SPLIT_THRESHOLD REDUCEOP_SPLIT_SIZE MAX_KERNEL_BUFFERS SCACHE WINO"
    ),
    "memory": "MAX_BUFFER_SIZE NO_MEMORY_PLANNER LRU",
    "devices": "RING RING_ALLREDUCE_THRESHOLD ALL2ALL ALLREDUCE_CAST",
    "images": "IMAGE FLOAT16 OPENPILOT_HACKS",
    "capture": "JIT JIT_BATCH_SIZE CAPTURING GRAPH_ONE_KERNEL UNSAFE_ALLOW_JIT_BUFFER BEAM JITBEAM",
}
NAMES = [name for group in GROUPS.values() for name in group.split()]


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_seen_or_says_why_it_does_nothing(name: str):
    setting = SETTINGS[name]
    seen = name in ELSEWHERE or any(row[0] == name for row in OBSERVED)
    assert seen != bool(setting.idle or setting.lacks)
    if name in ELSEWHERE:
        assert f"{name}=" in (ROOT / ELSEWHERE[name]).read_text()


# *** all others: what computes, and what is shown


def test_the_type_that_sums_are_worked_out_in():
    """Half sums of float16 lose what is small beside the sum; in double nothing is lost."""
    x = Tensor(np.full(4096, 1 + 2**-9, np.float16)).realize()
    exact = 4096 * (1 + 2**-9)
    assert x.sum(dtype=dtypes.float32).item() == exact
    found = {}
    for name in ("float32", "float64", "float16"):
        with Context(SUM_DTYPE=name):
            wide = x.sum()
            found[name] = {u.dtype for u in wide.uop.toposort() if u.op is Ops.REDUCE}
    assert found["float32"] == {dtypes.float32}
    assert found["float64"] == {dtypes.float64}
    assert found["float16"] == {dtypes.float16}


def test_the_type_of_bare_integers():
    assert Tensor([1, 2]).dtype is dtypes.int32
    with Context(DEFAULT_INT="int64"):
        assert Tensor([1, 2]).dtype is dtypes.int64
        assert (Tensor.arange(3) + 1).tolist() == [1, 2, 3]


def test_division_by_constants_as_products():
    x = Tensor(np.arange(-5000, 5000, 7, dtype=np.int32)).realize()
    plain = (x // 7).numpy()
    shown = {}
    for slow in (1, 0):
        with Context(DISABLE_FAST_IDIV=slow, NOOPT=1):
            y = x // 7
            np.testing.assert_array_equal(y.numpy(), plain)
            linear = compile_linear((x // 7).contiguous().linear_with_vars()[0])
            ops = {u.op for u in linear.src[0].src[0].src[1].src}
            shown[slow] = Ops.CDIV in ops or Ops.CMOD in ops
    assert shown == {1: True, 0: False}


TESTS = {
    p.relative_to(ROOT).as_posix(): p.read_text()
    for p in sorted((ROOT / "tests").rglob("test_*.py"))
    if p.name != "test_context.py"
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_does_something_is_named_by_a_test(name: str):
    setting = SETTINGS[name]
    named = re.compile(rf"\b{name}=|[\"']{name}[\"']")
    assert setting.idle or setting.lacks or any(named.search(text) for text in TESTS.values())

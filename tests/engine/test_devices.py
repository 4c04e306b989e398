"""Tensors on several devices against numpy, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.schedule.graphs import F32
from tinylab import Context, Tensor, TinyJit, function, nn
from tinylab.engine.launch import Plan
from tinylab.errors import AssignError, CreationError, JitError, ScheduleError, ShardError
from tinylab.helpers.measure import GlobalCounters
from tinylab.opcodes import Ops
from tinylab.uop.ops import KernelInfo, UOp

FOUR = ("CPU:0", "CPU:1", "CPU:2", "CPU:3")
TWO = FOUR[:2]
DATA = np.arange(32, dtype=np.float32).reshape(8, 4)


def rows(devices: tuple[str, ...] = FOUR) -> Tensor:
    return Tensor(DATA).shard(devices, 0)


def copies(devices: tuple[str, ...] = FOUR) -> Tensor:
    return Tensor(DATA).shard(devices)


def test_a_sharded_tensor_is_cut_and_a_replicated_one_is_not():
    x, y = rows(), copies()
    assert x.device == ("CPU", "CPU:1", "CPU:2", "CPU:3") == y.device
    assert (x.uop.axis, x.uop.shard_shape, x.shape) == (0, (2, 4), (8, 4))
    assert (y.uop.axis, y.uop.shard_shape) == (None, (8, 4))
    x.realize(y)
    assert x.uop.op is Ops.UNSHARD
    assert x.uop.unsharded_base.realized.size == 8
    assert y.uop.base.realized.size == 32
    assert x.uop.is_realized
    np.testing.assert_array_equal(x.numpy(), DATA)
    np.testing.assert_array_equal(y.numpy(), DATA)


# fmt: off
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: x * 2 + x,
    "with a constant row": lambda x: x + DATA[0] if isinstance(x, np.ndarray)
        else x + Tensor(DATA[0]).shard(x.device),
    "sum over the cut axis": lambda x: x.sum(0),
    "sum over the other axis": lambda x: x.sum(1),
    "sum of everything": lambda x: x.sum(),
    "max over the cut axis": lambda x: x.max(0),
    "mean": lambda x: x.mean(0),
    "reshape apart": lambda x: x.reshape(4, 2, 4),
    "reshape together": lambda x: x.reshape(32),
    "transpose": lambda x: x.T,
    "transposed and reduced": lambda x: x.T.sum(1),
    "flip of the other axis": lambda x: np.flip(x, 1) if isinstance(x, np.ndarray) else x.flip(1),
    "slice of the other axis": lambda x: x[:, 1:3],
    "one whole shard": lambda x: x[2:4],
    "matmul, rows cut": lambda x: x @ x[:2].T,
    "matmul, inner axis cut": lambda x: x.T @ x,
    "positions": lambda x: x + np.arange(8, dtype=np.float32)[:, None]
        if isinstance(x, np.ndarray) else x + Tensor.arange(8).reshape(8, 1),
}
# fmt: on


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("cut", [True, False])
def test_operations_give_what_numpy_gives(name: str, cut: bool):
    operation = OPERATIONS[name]
    found = operation(rows() if cut else copies())
    np.testing.assert_allclose(found.numpy(), operation(DATA), rtol=1e-6)


@pytest.mark.parametrize("devices", [TWO, FOUR, FOUR[1:]])
@pytest.mark.parametrize("settings", [{"RING": 0}, {"RING": 2}, {"ALL2ALL": 2}])
@pytest.mark.parametrize("size", [3, 16, 64, 1000])
def test_every_way_to_reduce_gives_the_same_on_all_devices(
    devices: tuple[str, ...], settings: dict[str, int], size: int
):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((len(devices) * 2, size)).astype(np.float32)
    with Context(**settings):
        found = Tensor(data).shard(devices, 0).sum(0).realize()
    parts = [b.numpy() for b in found.uop.base.realized.bufs]
    for part in parts:
        np.testing.assert_allclose(part, data.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(part, parts[0])


def test_halves_are_reduced_before_they_are_widened(capsys: pytest.CaptureFixture[str]):
    data = np.ones((4, 8), np.float16)

    def total() -> Any:
        x = Tensor(data).shard(FOUR, 0)
        return x.cast(F32).sum(0).numpy()

    for setting, dtype in ((1, "half"), (0, "float")):
        with Context(DEBUG=2, ALLREDUCE_CAST=setting):
            np.testing.assert_array_equal(total(), np.full(8, 4, np.float32))
        assert f"NAIVE ALLREDUCE 4x8 | dtypes.{dtype}" in capsys.readouterr().out


def test_each_device_gets_only_its_part_of_a_sum_that_is_used_in_parts():
    data = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    x, y = Tensor(data).shard(FOUR, 0).realize(), Tensor(np.ones(8, np.float32)).shard(FOUR, 0)
    y.realize()
    before = GlobalCounters.global_mem
    found = (x.sum(0) + y).realize()
    assert found.uop.axis == 0
    assert GlobalCounters.global_mem - before < 12 * 2 * 4 * 4 + 4 * (5 + 2) * 4 * 4
    np.testing.assert_allclose(found.numpy(), data.sum(0) + 1, rtol=1e-5)


def test_equal_kernels_of_all_devices_are_one(monkeypatch: pytest.MonkeyPatch):
    plans = []
    run = Plan.run
    monkeypatch.setattr(
        Plan, "run", lambda self, *a, **k: (plans.append(self), run(self, *a, **k))[1]
    )
    x = rows().realize()
    plans.clear()
    (x * 3 + Tensor.arange(8).reshape(8, 1)).realize()
    calls = [c for plan in plans for c in plan.schedule.linear.src if c.src[0].op is Ops.SINK]
    assert len(calls) == 4
    assert len({c.src[0] for c in calls}) == 1
    assert [c.arg.device_number for c in calls] == [0, 1, 2, 3]


# fmt: off
REFUSED: dict[str, Callable[[], Any]] = {
    "multi axis uneven": lambda: Tensor(DATA[:7]).shard(FOUR, 0),
    "can't shard a multi-device tensor": lambda: rows().shard(TWO, 0),
    "moved items between shards": lambda: rows().T.reshape(32) * 2,
    "all buffers must be on the same device": lambda: rows() + Tensor(DATA),
    "all buffers must be on the same device: ": lambda: rows() + rows(TWO),
    "each device can hold one shard": lambda: Tensor(DATA).shard(("CPU", "CPU:0"), 0),
    "shard takes a tuple of devices, not 'CPU:1'": lambda: Tensor(DATA).shard("CPU:1", 0),
    "shard takes a tuple of devices, not None": lambda: Tensor(DATA).shard(None),
}
# fmt: on


@pytest.mark.parametrize("message", REFUSED)
def test_what_would_move_elements_is_refused(message: str):
    with pytest.raises(ShardError, match=message):
        REFUSED[message]().realize()


def test_one_kernel_has_its_buffers_on_one_device():
    with pytest.raises(ScheduleError, match="all buffers must be on the same device"):
        (Tensor(DATA) + Tensor(DATA, device="CPU:1")).realize()


def test_random_numbers_are_drawn_on_one_device_and_spread():
    with pytest.raises(CreationError, match="rand only supports single device"):
        Tensor.rand(4, device=FOUR)
    x = rows()
    assert x.rand_like().uop.axis == 0
    with Context(TRAINING=1):
        dropped = x.dropout(0.5).numpy()
    assert set(np.unique(dropped[1:] / DATA[1:]).tolist()) <= {0.0, 2.0}


# *** writes


def test_writes_in_place_stay_on_each_device():
    x, old = rows().realize(), None
    old = x + 1
    x += 10
    x[2:4] = 7
    expected = DATA + 10
    expected[2:4] = 7
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(old.numpy(), DATA + 1)
    assert x.uop.axis == 0
    with pytest.raises(AssignError, match="multi axis mismatch 0 != None"):
        x.assign(copies())
    with pytest.raises(AssignError, match="multi axis mismatch None != 0"):
        copies().assign(x)


# fmt: off
CUT_OTHERWISE: dict[str, Any] = {
    "transposed": lambda a, b: a.T,
    "with its transpose": lambda a, b: a + a.T,
    "of another tensor": lambda a, b: b,
    "of both": lambda a, b: b.T * 2 + a.T + b,
}
# fmt: on


@pytest.mark.parametrize("devices", [TWO, FOUR])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("jit", [0, 1])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("value", CUT_OTHERWISE)
def test_a_value_that_is_cut_along_another_axis_is_gathered_before_it_is_written(
    devices: tuple[str, ...], axis: int, jit: int, stored: bool, value: str
):
    want = np.arange(64, dtype=np.int32).reshape(8, 8)
    other = want * 3 % 17
    a, b = Tensor(want).shard(devices, axis), Tensor(other).shard(devices, 1 - axis).realize()
    a = a.realize() if stored else a
    old, before = a * 10, want * 10

    @TinyJit
    def step(b: Tensor) -> Tensor:
        a.assign(CUT_OTHERWISE[value](a, b))
        return a * 1

    with Context(JIT=jit):
        for _ in range(4):
            want = CUT_OTHERWISE[value](want, other)
            np.testing.assert_array_equal(step(b).numpy(), want)
            np.testing.assert_array_equal(a.numpy(), want)
            assert a.uop.axis == axis
    np.testing.assert_array_equal(old.numpy(), before)


def test_a_captured_input_that_is_cut_otherwise_is_told_apart():
    words = r"cut along axis 1, captured was .*, cut along axis 0"
    square = Tensor(np.ones((4, 4), np.float32))
    f = TinyJit(lambda x: x + 1)
    for _ in range(2):
        f(square.shard(FOUR, 0).realize())
    with pytest.raises(JitError, match=words):
        f(square.shard(FOUR, 1).realize())
    with pytest.raises(JitError, match="a copy on each"):
        f(square.shard(FOUR).realize())


def test_tensors_like_a_sharded_one_are_cut_as_it_is():
    x = rows()
    likes = (
        x.zeros_like(),
        x.ones_like(),
        x.empty_like(),
        x.clone(),
        Tensor(DATA).shard_like(x),
    )
    for like in likes:
        assert (like.device, like.uop.axis) == (x.device, 0)
    assert x.shard_like(x) is x
    assert x.shard_like(Tensor(DATA)).device == "CPU"


def test_from_one_device_to_another_and_back():
    x = rows()
    for device in ("CPU", "CPU:3", "CPU:7"):
        moved = x.to(device)
        assert moved.device == device
        np.testing.assert_array_equal(moved.numpy(), DATA)
        np.testing.assert_array_equal(copies().to(device).numpy(), DATA)
    np.testing.assert_array_equal(Tensor(DATA).shard(FOUR, 1).to("CPU:2").numpy(), DATA)
    kept = Tensor(DATA).shard(FOUR).realize()
    on_one = kept.to("CPU:1").realize()
    kept += 1
    kept.realize()
    np.testing.assert_array_equal(on_one.numpy(), DATA)


def test_a_view_that_is_copied_and_written_is_written_in_its_own_memory():
    data = np.arange(16, dtype=np.int32).reshape(4, 4)
    x, state = Tensor(data, device="CPU:1").clone().realize(), Tensor(data * 10).clone().realize()
    state.assign(x.T.to("CPU") * 0 + state)
    x.T.assign(state.to("CPU:1") + x.T)
    Tensor.realize(state, x)
    np.testing.assert_array_equal(x.numpy(), data + data.T * 10)


def test_gradients_come_back_to_where_the_value_was():
    x = Tensor(DATA)
    w = Tensor(DATA.T.copy())
    loss = (x.shard(FOUR, 0) @ w.shard(FOUR)).square().sum()
    for t, want in zip((x, w), loss.gradient(x, w), strict=True):
        assert want.device == t.device == "CPU"
    dx, dw = (g.numpy() for g in loss.gradient(x, w))
    product = DATA @ DATA.T
    np.testing.assert_allclose(dx, 2 * product @ DATA, rtol=1e-5)
    np.testing.assert_allclose(dw, 2 * DATA.T @ product, rtol=1e-5)


def test_a_kernel_by_hand_runs_on_each_shard():
    def double(out: UOp, x: UOp) -> UOp:
        i, j = UOp.range(x.shape[0], 0), UOp.range(x.shape[1], 1)
        return out[i, j].store(x[i, j] * 2).end(i, j).sink(arg=KernelInfo("double"))

    x = rows().realize()
    out = x.empty_like().custom_kernel(x, fxn=double)[0]
    np.testing.assert_array_equal(out.numpy(), DATA * 2)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_traced_function_takes_sharded_arguments(precompile: bool):
    @function(precompile=precompile)
    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu().sum(0)

    w = Tensor(DATA.T.copy())
    found = f(rows(), w.shard(FOUR)).numpy()
    np.testing.assert_allclose(found, (DATA @ DATA.T).sum(0), rtol=1e-5)


# *** captured


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_a_captured_step_on_several_devices(jit: int):
    with Context(JIT=jit):
        state = Tensor(np.zeros((8, 4), np.float32)).shard(FOUR, 0).realize()

        @TinyJit
        def step(x: Tensor) -> tuple[Tensor, Tensor]:
            state.assign(state + x)
            return state.sum(0).realize(), (x[2:4] * 2).realize()

        total = np.zeros((8, 4), np.float32)
        results = []
        for n in range(5):
            data = DATA * n
            total += data
            results.append(
                (step(Tensor(data).shard(FOUR, 0).realize()), total.sum(0), data[2:4] * 2)
            )
        for (got, part), want, want_part in results:
            np.testing.assert_allclose(got.numpy(), want)
            np.testing.assert_allclose(part.numpy(), want_part)
        np.testing.assert_allclose(state.numpy(), total)


def test_pieces_of_inputs_and_results_move_with_them():
    @TinyJit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x[4:8].to("CPU:1").realize(), x[8:16].contiguous().realize()

    for n in range(4):
        data = np.arange(16, dtype=np.float32) + n
        moved, view = f(Tensor(data).realize())
        np.testing.assert_array_equal(moved.numpy(), data[4:8])
        np.testing.assert_array_equal(view.numpy(), data[8:])


# *** training


class Digits:
    """The network of the digits data: 64 pixels, a hidden layer, 10 classes."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.w1 = Tensor(rng.standard_normal((64, 32)).astype(np.float32) * 0.1)
        self.b1 = Tensor(np.zeros(32, np.float32))
        self.w2 = Tensor(rng.standard_normal((32, 10)).astype(np.float32) * 0.1)
        self.b2 = Tensor(np.zeros(10, np.float32))

    def __call__(self, x: Tensor) -> Tensor:
        return (x @ self.w1 + self.b1).relu() @ self.w2 + self.b2


def digits() -> tuple[Any, Any]:
    """Real digits where scikit-learn has them, else noise of their shape."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = np.random.default_rng(0)
        return rng.standard_normal((256, 64)).astype(np.float32), rng.integers(0, 10, 256)
    found = load_digits()
    return (found.data[:256] / 16).astype(np.float32), found.target[:256]


def train(
    devices: tuple[str, ...] | None, jit: bool, optimizer: Any
) -> tuple[list[float], list[Any]]:
    images, labels = digits()
    net = Digits()
    weights = nn.state.get_parameters(net)
    if devices:
        for w in weights:
            w.shard_(devices)
    chosen = optimizer(weights, lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        chosen.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        chosen.step()
        return loss.realize()

    run: Any = TinyJit(step) if jit else step
    losses = []
    with Context(TRAINING=1):
        for at in range(0, 256, 64):
            x = Tensor(images[at : at + 64])
            y = Tensor(labels[at : at + 64].astype(np.int32))
            if devices:
                x, y = x.shard(devices, 0), y.shard(devices, 0)
            losses.append(run(x.realize(y), y))
    return [loss.item() for loss in losses], [w.numpy() for w in weights]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("optimizer", [nn.optim.SGD, nn.optim.Adam])
def test_training_in_parallel_gives_what_one_device_gives(jit: bool, optimizer: Any):
    losses, weights = train(None, False, optimizer)
    for settings in ({"RING": 1}, {"RING": 2}, {"ALL2ALL": 2}) if jit else ({"RING": 1},):
        with Context(**settings):
            found, other = train(FOUR, jit, optimizer)
        np.testing.assert_allclose(found, losses, rtol=1e-4, atol=1e-5)
        for a, b in zip(weights, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


# fmt: off
CONSTANTS: dict[str, tuple[Callable[[Tensor], Tensor], list[float], int]] = {
    "read there": (lambda y: Tensor(3.0).to("CPU:1") + y, [4, 5], 1),
    "expanded": (lambda y: Tensor(3.0).to("CPU:1").expand(2) * y, [3, 6], 1),
    "worked with": (lambda y: (Tensor(3.0).to("CPU:1").exp().log() + 1) * y, [4, 8], 1),
    "made there": (lambda y: Tensor(3.0).expand(2).to("CPU:1"), [3, 3], 1),
    "made there and stored": (lambda y: Tensor(3.0).expand(2).to("CPU:1").contiguous(), [3, 3], 1),
    "passed on": (lambda y: Tensor(3.0).expand(2).to("CPU:2").to("CPU:1") - y, [2, 1], 1),
    "a sum of nothing": (lambda y: Tensor.empty(0, 2).sum(0).to("CPU:1") + y, [1, 2], 1),
    "padded": (lambda y: Tensor(3.0).reshape(1).to("CPU:1").pad((1, 0)) + y, [1, 5], 1),
}
# fmt: on


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_made_where_it_is_read(name: str):
    compute, right, kernels = CONSTANTS[name]
    here = Tensor([1.0, 2.0]).realize()
    there = here.to("CPU:1").realize()
    found, other = compute(there), here + 1
    linear = found.schedule_linear()
    assert [c.src[0].op for c in linear.src] == [Ops.SINK] * kernels
    found = compute(there)
    Tensor.realize(other, found)  # what comes first does not say where it is made
    assert (found.device, found.uop.base.device) == ("CPU:1", "CPU:1")
    assert (found.tolist(), other.tolist()) == (right, [2.0, 3.0])


def test_a_constant_on_a_device_has_a_gradient_and_can_be_written():
    x = Tensor(3.0, dtype="float32")
    moved = x.to("CPU:1")
    (found,) = (moved * Tensor([1.0, 2.0], device="CPU:1")).sum().gradient(x)
    assert found.item() == 3.0
    moved.assign(Tensor(5.0, device="CPU:1"))
    assert (moved.item(), moved.device, x.item()) == (5.0, "CPU:1", 3.0)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted on Linux")
def test_any_number_is_a_cpu_and_all_share_their_threads():
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    x = Tensor.ones(256, 256).contiguous().realize()
    (x @ x).realize()  # now the threads are there
    before = threads()
    for n in (7, 999, 123456789, *range(40, 60)):
        there = x.to(f"CPU:{n}")
        found = (there @ there).sum()
        assert (found.item(), found.device) == (256.0**3, f"CPU:{n}")
    assert threads() == before


def test_shard_over_no_devices_is_refused():
    with pytest.raises(ShardError, match="over no devices"):
        Tensor([1, 2]).shard((), 0)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("way", [{}, {"RING": 0}, {"RING": 2}, {"ALL2ALL": 2}, {"FUSE_ARANGE": 0}])
def test_a_loss_and_its_gradients_on_several_devices(way: dict[str, int], count: int):
    """Positions that all devices compare with are stored on none of them."""
    devices = tuple(f"CPU:{i}" for i in range(count))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((24, 4)).astype(np.float32), rng.integers(0, 10, 24)
    weights = [rng.standard_normal(s).astype(np.float32) for s in ((4, 4), (4, 10))]

    def run(place: Callable[[Tensor, int | None], Tensor]) -> list[np.ndarray]:
        w1, w2 = (place(Tensor(w), None).realize() for w in weights)
        rows, labels = place(Tensor(x), 0).realize(), place(Tensor(y), 0).realize()
        loss = (rows @ w1 @ w2).cross_entropy(labels)
        found = [loss, *loss.gradient(w1, w2)]
        Tensor.realize(*found)
        return [t.numpy() for t in found]

    with Context(**way):
        found = run(lambda t, axis: t.shard(devices, axis))
    for a, b in zip(found, run(lambda t, axis: t), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("devices", [("CPU",), ("CPU", "CPU:1")])
def test_each_device_may_store_the_positions_that_it_reads(devices: tuple[str, ...]):
    x = Tensor(np.ones((6, 6), np.float32))
    x = (x.shard(devices, 0) if len(devices) > 1 else x).realize()
    line = Tensor.arange(6)
    with Context(FUSE_ARANGE=0):
        linear = (x * line.reshape(6, 1).eq(line).float()).schedule_linear()
    reasons = [call.arg.aux for call in linear.src]
    assert reasons.count("a value of positions alone: FUSE_ARANGE=0") == len(devices)

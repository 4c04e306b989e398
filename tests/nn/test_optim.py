# ruff: noqa: E501 (a row to a line)
"""Optimizers against their formulas, step by step, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, dtypes, nn
from tinylab.errors import OptimizerError
from tinylab.nn import optim
from tinylab.opcodes import Ops

Array = np.ndarray[Any, Any]
START = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
SCALE = np.array([[1.0, 2.0, 0.5], [3.0, 1.5, 1.0]], np.float32)


RATES = (1.0, 1.0, 0.25, 0.5, 0.5)  # of the first rate, step by step


def run(make: Callable[[list[Tensor]], Any], steps: int = 5) -> Array:
    """The parameter after steps down sum(scale * p ** 2), with a rate that changes."""
    p = Tensor(START)
    opt = make([p])
    rate = opt.lr.item()
    with Context(TRAINING=1):
        for factor in RATES[:steps]:
            opt.lr.assign(Tensor([rate * factor]))
            opt.zero_grad()
            (p * p * Tensor(SCALE)).sum().backward()
            opt.step()
    return p.numpy()


def slope(p: Array) -> Array:
    return 2 * SCALE * p


def lars(
    lr: float,
    momentum: float = 0.9,
    decay: float = 1e-4,
    nesterov: bool = False,
    classic: bool = True,
    pre_wd: bool = True,
    tcoef: float = 0.001,
    orthogonal: Callable[[Array], Array] | None = None,
) -> Array:
    """Of v' = m v + lr g and p' = p - v', classic momentum, lr is outside of v elsewhere."""
    p, b = START.astype(np.float64), np.zeros_like(START, np.float64)
    for factor in RATES:
        g, rate = slope(p), lr * factor
        length, steepness = np.linalg.norm(p), np.linalg.norm(g)
        pace = rate * (tcoef * length / (steepness + decay * length) if tcoef else 1)
        g = g + decay * p * pre_wd
        g = g * pace if classic else g
        b = momentum * b + g
        g = g + momentum * b if nesterov and momentum else b
        g = orthogonal(g) if orthogonal is not None else g
        p = p - (g if classic else g * pace) - rate * decay * p * (not pre_wd)
    return p


def sgd(
    lr: float,
    momentum: float = 0.0,
    decay: float = 0.0,
    nesterov: bool = False,
    classic: bool = False,
) -> Array:
    return lars(lr, momentum, decay, nesterov, classic, tcoef=0)


def adam(
    lr: float = 0.01,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
    trust: bool = False,
) -> Array:
    p = START.astype(np.float64)
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, factor in enumerate(RATES, 1):
        g = slope(p)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        up = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + decay * p
        rate = np.linalg.norm(p) / np.linalg.norm(up) if trust else 1.0
        p = p - lr * factor * rate * up
    return p


def orthogonalised(g: Array) -> Array:
    """Five steps of Newton and Schulz."""
    x = g / (np.linalg.norm(g) + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x


# fmt: off
CASES = {
    "SGD": (lambda p: optim.SGD(p, lr=0.01), lambda: sgd(0.01)),
    "SGD momentum": (lambda p: optim.SGD(p, lr=0.01, momentum=0.9), lambda: sgd(0.01, 0.9)),
    "SGD nesterov": (lambda p: optim.SGD(p, 0.01, 0.9, 0.1, nesterov=True), lambda: sgd(0.01, 0.9, 0.1, True)),
    "SGD classic": (lambda p: optim.SGD(p, 0.01, 0.9, 0.1, classic=True), lambda: sgd(0.01, 0.9, 0.1, classic=True)),
    "Adam": (lambda p: optim.Adam(p, lr=0.01), lambda: adam()),
    "Adam betas": (lambda p: optim.Adam(p, 0.1, 0.8, 0.95, 1e-3), lambda: adam(0.1, 0.8, 0.95, 1e-3)),
    "AdamW": (lambda p: optim.AdamW(p, lr=0.01), lambda: adam(decay=0.01)),
    "LAMB": (lambda p: optim.LAMB(p, lr=0.01), lambda: adam(eps=1e-6, trust=True)),
    "LAMB decay": (lambda p: optim.LAMB(p, 0.05, 0.5, 0.9, 1e-2, 0.1), lambda: adam(0.05, 0.5, 0.9, 1e-2, 0.1, trust=True)),
    "Muon": (lambda p: optim.Muon(p, lr=0.05), lambda: lars(0.05, 0.95, 0.1, True, False, False, 0, orthogonalised)),
    "Muon plain": (lambda p: optim.Muon(p, 0.05, 0.5, 0.0, nesterov=False), lambda: lars(0.05, 0.5, 0, False, False, False, 0, orthogonalised)),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    make, right = CASES[name]
    np.testing.assert_allclose(run(make), right(), rtol=2e-5, atol=1e-6)


SWITCHES = ("nesterov", "classic", "pre_wd")


@pytest.mark.parametrize("on", range(8))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("tcoef", [0.0, 0.001])
def test_lars_in_all_its_forms(tcoef: float, momentum: float, on: int) -> None:
    """tinygrad's results to 2e-5, for these and 330 more, were compared by running it."""
    switches = {name: bool(on >> i & 1) for i, name in enumerate(SWITCHES)}
    found = run(lambda q: optim.LARS(q, 0.1, momentum, 0.2, tcoef=tcoef, **switches))
    np.testing.assert_allclose(found, lars(0.1, momentum, 0.2, **switches, tcoef=tcoef), rtol=2e-5)


def test_muon_makes_the_update_orthogonal() -> None:
    moved = START - run(lambda p: optim.Muon(p, lr=0.1, weight_decay=0.0), steps=1)
    values = np.linalg.svd(moved / 0.1, compute_uv=False)
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_group_steps_all() -> None:
    a, b = Tensor(START), Tensor(START)
    group = optim.OptimizerGroup(optim.SGD([a], lr=0.1), optim.Adam([b], lr=0.1))
    with Context(TRAINING=1):
        (a.sum() + b.sum()).backward()
        group.step()
        group.zero_grad()
    assert a.grad is b.grad is None
    np.testing.assert_allclose(a.numpy(), START - 0.1, rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), START - 0.1, rtol=1e-4)
    assert group[0].params == [a] or group[0].params[0] is a


def test_small_floats_keep_wide_state() -> None:
    p = Tensor([1.0, 2.0], dtype=dtypes.float16)
    opt = optim.Adam([p], lr=0.001)
    with Context(TRAINING=1):
        (p * p).sum().backward()
        opt.step()
    assert p.dtype is dtypes.float16
    assert opt.m[0].dtype is dtypes.float32


def test_repeated_steps_have_one_graph() -> None:
    from tinylab.engine import realize

    layer = nn.Linear(4, 2)
    opt = optim.Adam(nn.state.get_parameters(layer))
    x = Tensor(np.ones((3, 4), np.float32))

    def step() -> None:
        opt.zero_grad()
        layer(x).square().sum().backward()
        opt.step()

    with Context(TRAINING=1):
        step()
        step()
        known = len(realize.schedule_cache)
        for _ in range(3):
            step()
    assert len(realize.schedule_cache) == known


def test_learning_rate_can_change() -> None:
    p = Tensor(START)
    opt = optim.SGD([p], lr=0.1)
    opt.lr.assign(Tensor([0.5]))
    with Context(TRAINING=1):
        p.sum().backward()
        opt.step()
    np.testing.assert_allclose(p.numpy(), START - 0.5, rtol=1e-6)


def test_errors() -> None:
    p = Tensor([1.0])
    opt = optim.SGD([p])
    p.sum().backward()
    with pytest.raises(
        RuntimeError, match=r"^TRAINING=0, TRAINING must be enabled to use the optimizer\."
    ):
        opt.step()
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optim.SGD([p], lr=-1.0)
    with pytest.raises(OptimizerError, match="at least one param"):
        optim.SGD([])
    with Context(TRAINING=1), pytest.raises(OptimizerError, match="has no gradient"):
        optim.SGD([Tensor([1.0])]).step()
    with pytest.raises(OptimizerError, match="FUSE_OPTIM is not allowed for Muon"):
        optim.Muon([p], fused=True)


def test_gradients_are_clipped_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    values = [np.array([[3.0, -4.0], [0.5, 12.0]], np.float32), np.array([-2.0, 7.0], np.float32)]
    for limit in (1.0, 5.0, 100.0):
        ours = [Tensor(np.ones_like(v)) for v in values]
        theirs = [torch.ones(v.shape, requires_grad=True) for v in values]
        for p, q, v in zip(ours, theirs, values, strict=True):
            p.grad, q.grad = Tensor(v), torch.tensor(v)
        total = optim.clip_grad_norm_(ours, limit)
        right = torch.nn.utils.clip_grad_norm_(theirs, limit)
        np.testing.assert_allclose(total.item(), right.item(), rtol=1e-6)
        optim.clip_grad_value_(ours, limit / 4)
        torch.nn.utils.clip_grad_value_(theirs, limit / 4)
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)
    with pytest.raises(OptimizerError, match="no parameter has a gradient"):
        optim.clip_grad_norm_([Tensor([1.0])], 1.0)


FUSED: dict[str, Any] = {
    "SGD": lambda ps, **kw: optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1, **kw),
    "LARS": lambda ps, **kw: optim.LARS(ps, lr=0.1, **kw),
    "Adam": lambda ps, **kw: optim.Adam(ps, lr=0.1, **kw),
    "AdamW": lambda ps, **kw: optim.AdamW(ps, lr=0.1, **kw),
    "LAMB": lambda ps, **kw: optim.LAMB(ps, lr=0.1, **kw),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_optimizer_keeps_one_flat_state_and_does_the_same(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [((4, 5), "float32"), ((7,), "float32"), ((3,), "float16"), ((2, 1, 2), "float32")]
    values = [rng.normal(size=shape).astype(dtype) for shape, dtype in shapes]
    found = []
    for fuse in (0, 1):
        params = [Tensor(v) for v in values]
        with Context(FUSE_OPTIM=fuse, TRAINING=1):
            opt = FUSED[name](params)
            for _ in range(3):
                opt.zero_grad()
                Tensor.usum(*(p.float().square().sum() for p in params)).backward()
                opt.step()
        found.append([p.numpy() for p in params])
        state = [b.shape for b in opt.buffers if b.shape != (1,)]
        assert (set(state) == {(31,), (3,)}) == bool(fuse)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_rate_can_be_a_constant_of_the_kernels() -> None:
    steps = []
    for constant in (0, 1):
        with Context(CONST_LR=constant, TRAINING=1):
            p = Tensor([1.0, 2.0]).realize()
            found = optim.SGD([p], lr=0.5)
            assert (found.lr.uop.base.op is Ops.CONST) == bool(constant)
            for _ in range(2):
                p.square().sum().backward()
                found.step()
                found.zero_grad()
            steps.append(p.tolist())
            found.lr.assign(Tensor([0.25]))
            assert found.lr.item() == 0.25
    assert steps[0] == steps[1]


def test_what_layers_keep_moves_with_each_replay_of_a_step() -> None:
    norm, linear = nn.BatchNorm(3), nn.Linear(3, 2)
    opt = optim.SGD(nn.state.get_parameters([norm, linear]), lr=0.01)
    assert len(opt.buffers) == 3

    @TinyJit
    def step(x: Tensor) -> Tensor:
        with Context(TRAINING=1):
            opt.zero_grad()
            loss = linear(norm(x)).square().mean().backward()
            return loss.realize(*opt.schedule_step())

    for _ in range(8):
        step((Tensor.ones(4, 3) * 10 + Tensor.arange(4).reshape(4, 1)).realize())
    assert norm.num_batches_tracked.item() == 8
    np.testing.assert_allclose(norm.running_mean.numpy(), 11.5 * (1 - 0.9**8), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [nn.optim.SGD, nn.optim.Adam, nn.optim.LAMB])
def test_state_is_cut_as_its_parameter(kind: Any, axis: int) -> None:
    def trained(devices: tuple[str, ...] | None) -> list[Any]:
        weight = Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
        x = Tensor(np.linspace(0, 1, 32, dtype=np.float32).reshape(8, 4))
        if devices is not None:
            weight, x = weight.shard(devices, axis), x.to(devices)
        weight.is_param_()
        optimizer = kind([weight], lr=0.05)
        with Context(TRAINING=1):
            for _ in range(3):
                optimizer.zero_grad()
                ((x @ weight).tanh() ** 2).mean().backward()
                optimizer.step()
        return weight.numpy()

    np.testing.assert_allclose(trained(("CPU", "CPU:1")), trained(None), rtol=1e-5, atol=1e-6)

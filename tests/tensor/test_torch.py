# ruff: noqa: E501 (a case to a line)
"""Against PyTorch, where it is installed: values, gradients also at kinks and ties, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tinylab import Context, Tensor
from tinylab.errors import CreationError, ShapeError
from tinylab.nn import optim

torch = pytest.importorskip("torch")
F = torch.nn.functional

# Whole numbers, so that kinks are hit and maxima are shared.
WHOLE = np.array([[-3, -1, 0, 0, 1, 2, 2, 7], [1, 0, -1, 6, 3, -2, 3, 0.5]], np.float32)
POSITIVE = np.array([[0.25, 1, 2, 4], [0.5, 3, 1, 0.1]], np.float32)
FRACTIONS = np.array([[-0.9, -0.5, 0, 0.3], [0.8, 0.1, 0, -0.2]], np.float32)
LOGITS = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32) * 3
PICKS = np.array([0, 4, 2, 2])
IMAGE = np.random.default_rng(1).integers(-3, 4, (2, 4, 7, 6)).astype(np.float32)
FILTER = np.random.default_rng(2).standard_normal((6, 2, 3, 2)).astype(np.float32)
Q = np.random.default_rng(3).standard_normal((3, 2, 4, 8)).astype(np.float32)
SEEN = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], bool)  # none, one, all
ADDED = np.where(SEEN, np.float32(0.5), np.float32(-np.inf))

# fmt: off
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Sequence[Any]]] = {
    "relu": (Tensor.relu, F.relu, [WHOLE]),
    "relu6": (Tensor.relu6, F.relu6, [WHOLE]),
    "abs": (Tensor.abs, torch.abs, [WHOLE]),
    "sign": (Tensor.sign, torch.sign, [WHOLE]),
    "floor": (Tensor.floor, torch.floor, [WHOLE * 0.5]),
    "ceil": (Tensor.ceil, torch.ceil, [WHOLE * 0.5]),
    "trunc": (Tensor.trunc, torch.trunc, [WHOLE * 0.5]),
    "div trunc": (lambda x: x.div(3, rounding_mode="trunc"), lambda x: x.div(3, rounding_mode="trunc"), [WHOLE]),
    "maximum of a number": (lambda x: x.maximum(2), lambda x: torch.maximum(x, torch.tensor(2.0)), [WHOLE]),
    "minimum of a number": (lambda x: x.minimum(-1), lambda x: torch.minimum(x, torch.tensor(-1.0)), [WHOLE]),
    "clip one value": (lambda x: x.clip(2, 2), lambda x: x.clip(2, 2), [WHOLE]),
    "clip crossed": (lambda x: x.clip(2, -1), lambda x: x.clip(2, -1), [WHOLE]),
    "clip": (lambda x: x.clip(-1, 2), lambda x: x.clip(-1, 2), [WHOLE]),
    "hardtanh": (Tensor.hardtanh, F.hardtanh, [WHOLE]),
    "hardswish": (Tensor.hardswish, F.hardswish, [WHOLE]),
    "hardsigmoid": (Tensor.hardsigmoid, F.hardsigmoid, [WHOLE]),
    "leaky_relu": (Tensor.leaky_relu, F.leaky_relu, [WHOLE]),
    "elu": (Tensor.elu, F.elu, [WHOLE]),
    "elu slope": (lambda x: x.elu(0.5), lambda x: F.elu(x, 0.5), [WHOLE]),
    "celu": (lambda x: x.celu(0.5), lambda x: F.celu(x, 0.5), [WHOLE]),
    "selu": (lambda x: x.selu(1.6732632423543772, 1.0507009873554805), F.selu, [WHOLE]),
    "gelu": (Tensor.gelu, lambda x: F.gelu(x, approximate="tanh"), [WHOLE]),
    "gelu none": (lambda x: x.gelu("none"), F.gelu, [WHOLE]),
    "silu": (Tensor.silu, F.silu, [WHOLE * 30]),
    "sigmoid": (Tensor.sigmoid, torch.sigmoid, [WHOLE * 30]),
    "logsigmoid": (Tensor.logsigmoid, F.logsigmoid, [WHOLE * 30]),
    "softplus": (Tensor.softplus, F.softplus, [WHOLE * 5]),
    "softsign": (Tensor.softsign, F.softsign, [WHOLE]),
    "mish": (Tensor.mish, F.mish, [WHOLE]),
    "tanh": (Tensor.tanh, torch.tanh, [WHOLE * 0.3]),
    "erf": (Tensor.erf, torch.erf, [WHOLE * 0.3]),
    "asin": (Tensor.asin, torch.asin, [FRACTIONS]),
    "acos": (Tensor.acos, torch.acos, [FRACTIONS]),
    "atan": (Tensor.atan, torch.atan, [WHOLE]),
    "asinh": (Tensor.asinh, torch.asinh, [WHOLE]),
    "atanh": (Tensor.atanh, torch.atanh, [FRACTIONS]),
    "sqrt": (Tensor.sqrt, torch.sqrt, [POSITIVE]),
    "log": (Tensor.log, torch.log, [POSITIVE]),
    "pow": (lambda x: x**3, lambda x: x**3, [WHOLE]),
    "pow tensor": (lambda x: x ** Tensor([0.0, 1, 2, 3, 2, 1, 0, 2]), lambda x: x ** torch.tensor([0.0, 1, 2, 3, 2, 1, 0, 2]), [WHOLE]),
    "maximum": (lambda a, b: a.maximum(b), torch.maximum, [WHOLE, WHOLE[:, ::-1].copy()]),
    "minimum": (lambda a, b: a.minimum(b), torch.minimum, [WHOLE, WHOLE[:, ::-1].copy()]),
    "logaddexp": (lambda a, b: a.logaddexp(b), torch.logaddexp, [WHOLE, WHOLE[:, ::-1].copy()]),
    "round": (Tensor.round, torch.round, [WHOLE * 0.5]),
    "amax": (lambda x: x.max(1), lambda x: x.amax(1), [WHOLE]),
    "amin": (lambda x: x.min(0), lambda x: x.amin(0), [WHOLE]),
    "prod": (lambda x: x.prod(1), lambda x: x.prod(1), [WHOLE[:, :4]]),
    "argmax": (lambda x: x.argmax(1), lambda x: x.argmax(1), [WHOLE]),
    "std": (lambda x: x.std(1), lambda x: x.std(1), [WHOLE]),
    "var 0": (lambda x: x.var(correction=0), lambda x: x.var(correction=0), [WHOLE]),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.cumsum(1), [WHOLE]),
    "cumprod": (lambda x: x.cumprod(1), lambda x: x.cumprod(1), [POSITIVE]),
    "cummax": (lambda x: x.cummax(1)[0], lambda x: x.cummax(1)[0], [WHOLE]),
    "cummin": (lambda x: x.cummin(1)[0], lambda x: x.cummin(1)[0], [WHOLE]),
    "cummax long": (lambda x: x.flatten().cummax(0)[0], lambda x: x.flatten().cummax(0)[0], [IMAGE]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda x: x.logcumsumexp(1), [LOGITS]),
    "logsumexp": (lambda x: x.logsumexp(1), lambda x: x.logsumexp(1), [LOGITS]),
    "softmax": (Tensor.softmax, lambda x: x.softmax(-1), [LOGITS]),
    "log_softmax": (Tensor.log_softmax, lambda x: x.log_softmax(-1), [LOGITS]),
    "layernorm": (Tensor.layernorm, lambda x: F.layer_norm(x, (5,)), [LOGITS]),
    "normalize": (Tensor.normalize, F.normalize, [LOGITS]),
    "cross_entropy": (lambda x: x.cross_entropy(Tensor(PICKS)), lambda x: F.cross_entropy(x, torch.tensor(PICKS)), [LOGITS]),
    "cross_entropy smoothing": (lambda x: x.cross_entropy(Tensor(PICKS), label_smoothing=0.2), lambda x: F.cross_entropy(x, torch.tensor(PICKS), label_smoothing=0.2), [LOGITS]),
    "nll_loss": (lambda x: x.log_softmax().nll_loss(Tensor(PICKS), ignore_index=2), lambda x: F.nll_loss(x.log_softmax(-1), torch.tensor(PICKS), ignore_index=2), [LOGITS]),
    "bce": (lambda x: x.sigmoid().binary_crossentropy(Tensor.ones(4, 5)), lambda x: F.binary_cross_entropy(x.sigmoid(), torch.ones(4, 5)), [LOGITS]),
    "bce logits": (lambda x: x.binary_crossentropy_logits(Tensor.ones(4, 5), pos_weight=Tensor([2.0])), lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(4, 5), pos_weight=torch.tensor([2.0])), [LOGITS]),
    "conv2d": (lambda x, w: x.conv2d(w, groups=2, stride=2, padding=(1, 2), dilation=(2, 1)), lambda x, w: F.conv2d(x, w, groups=2, stride=2, padding=(1, 2), dilation=(2, 1)), [IMAGE, FILTER]),
    "conv_transpose2d": (lambda x, w: x.conv_transpose2d(w, groups=2, stride=2, padding=1, dilation=2, output_padding=1), lambda x, w: F.conv_transpose2d(x, w, groups=2, stride=2, padding=1, dilation=2, output_padding=1), [IMAGE, FILTER[:4]]),
    "avg_pool2d": (lambda x: x.avg_pool2d(3, 2, padding=1, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True), [IMAGE]),
    "avg_pool2d uncounted": (lambda x: x.avg_pool2d(3, 2, padding=1, count_include_pad=False), lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False), [IMAGE]),
    "interpolate": (lambda x: x.interpolate((5, 9)), lambda x: F.interpolate(x, (5, 9), mode="bilinear"), [IMAGE]),
    "interpolate corners": (lambda x: x.interpolate((5, 9), align_corners=True), lambda x: F.interpolate(x, (5, 9), mode="bilinear", align_corners=True), [IMAGE]),
    "interpolate nearest": (lambda x: x.interpolate((5, 9), "nearest"), lambda x: F.interpolate(x, (5, 9), mode="nearest"), [IMAGE]),
    "interpolate exact": (lambda x: x.interpolate((5, 9), "nearest-exact"), lambda x: F.interpolate(x, (5, 9), mode="nearest-exact"), [IMAGE]),
    "pad reflect": (lambda x: x.pad((2, 1, 3, 0), "reflect"), lambda x: F.pad(x, (2, 1, 3, 0), "reflect"), [IMAGE]),
    "unfold": (lambda x: x.unfold(2, 3, 2), lambda x: x.unfold(2, 3, 2), [IMAGE]),
    "attention": (lambda q: q.scaled_dot_product_attention(q * 2, q + 1, is_causal=True), lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True), [Q]),
    "attention of some": (lambda q: q.scaled_dot_product_attention(q * 2, q + 1, attn_mask=Tensor(SEEN)), lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1, attn_mask=torch.tensor(SEEN)), [Q]),
    "attention of some, by sums": (lambda q, m: q.scaled_dot_product_attention(q * 2, q + 1, attn_mask=m), lambda q, m: F.scaled_dot_product_attention(q, q * 2, q + 1, attn_mask=m), [Q, ADDED]),
    "sort": (lambda x: x.sort(1)[0], lambda x: x.sort(1)[0], [LOGITS]),
    "topk": (lambda x: x.topk(3, 1)[0], lambda x: x.topk(3, 1)[0], [LOGITS]),
    "diagonal": (lambda x: x.diagonal(-1, 2, 3), lambda x: x.diagonal(-1, 2, 3), [IMAGE]),
    "einsum": (lambda q: Tensor.einsum("abij,abkj->abik", q, q), lambda q: torch.einsum("abij,abkj->abik", q, q), [Q]),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    right_in = [torch.tensor(a, requires_grad=True) for a in arrays]
    right = theirs(*right_in)
    got_in = [Tensor(a) for a in arrays]
    got = ours(*got_in)
    np.testing.assert_allclose(got.numpy(), right.detach().numpy(), rtol=2e-5, atol=2e-6)
    if not right.requires_grad:
        return
    weight = np.random.default_rng(9).uniform(0.5, 1.5, right.shape).astype(np.float32)
    (right * torch.tensor(weight)).sum().backward()
    (got * Tensor(weight)).sum().backward()
    for g, r in zip(got_in, right_in, strict=True):
        found = np.zeros_like(r.detach().numpy()) if g.grad is None else g.grad.numpy()
        np.testing.assert_allclose(found, r.grad.numpy(), rtol=1e-4, atol=2e-5)


EDGES = np.array([2.0, 0, 3, 0, -1, 0.5])
# Where functions divide by their value or mask a slope; only what torch itself has right.
# fmt: off
HIGHER: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "prod": (lambda x: x.prod(), lambda x: x.prod()),
    "prod_rows": (lambda x: x.reshape(2, 3).prod(1), lambda x: x.reshape(2, 3).prod(1)),
    "cumprod": (lambda x: x.cumprod(0), lambda x: x.cumprod(0)),
    "square": (lambda x: x**2, lambda x: x**2),
    "cube": (lambda x: x**3, lambda x: x**3),
    "power_0": (lambda x: x**0 * x**3, lambda x: x**0 * x**3),
    "normalize": (lambda x: x.normalize(dim=0), lambda x: F.normalize(x, dim=0)),
    "std": (Tensor.std, torch.std),
    "logsumexp": (Tensor.logsumexp, lambda x: x.logsumexp(0)),
    "softplus": (Tensor.softplus, F.softplus),
    "erf": (Tensor.erf, torch.erf),
    "atan": (Tensor.atan, torch.atan),
    "asinh": (Tensor.asinh, torch.asinh),
    "max": (lambda x: (x**3).max(), lambda x: (x**3).amax()),
    "cummax": (lambda x: (x**3).cummax(0)[0], lambda x: (x**3).cummax(0)[0]),
    "sort": (lambda x: (x**3).sort(0)[0], lambda x: (x**3).sort(dim=0, stable=True)[0]),
    "scatter_prod": (lambda x: x.scatter_reduce(0, Tensor([0, 0, 1, 1, 1, 2]), x, "prod"), lambda x: x.scatter_reduce(0, torch.tensor([0, 0, 1, 1, 1, 2]), x, "prod")),
}
# fmt: on


@pytest.mark.parametrize("name", HIGHER)
def test_second_and_third_derivatives(name: str) -> None:
    ours, theirs = HIGHER[name]
    along = np.linspace(1, 2, len(EDGES))
    x, right_x = Tensor(EDGES), torch.tensor(EDGES, requires_grad=True)
    got, right = ours(x), theirs(right_x)
    weight = np.linspace(0.5, 1.5, right.numel()).reshape(right.shape)
    got, right = (got * Tensor(weight)).sum(), (right * torch.tensor(weight)).sum()
    for _ in range(3):
        (slope,) = got.gradient(x)
        (right_slope,) = torch.autograd.grad(right, right_x, create_graph=True)
        np.testing.assert_allclose(slope.numpy(), right_slope.detach().numpy(), 1e-8, 1e-9)
        got, right = (slope * Tensor(along)).sum(), (right_slope * torch.tensor(along)).sum()


SCATTER = ["sum", "prod", "mean", "amax", "amin"]


@pytest.mark.parametrize("reduce", SCATTER)
@pytest.mark.parametrize("include", [True, False])
def test_scatter_reduce(reduce: str, include: bool) -> None:
    base, src = LOGITS, np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    index = np.array([[0, 1, 1, 3], [0, 0, 3, 3], [2, 1, 3, 0]])
    right = torch.tensor(base).scatter_reduce(
        0, torch.tensor(index), torch.tensor(src), reduce, include_self=include
    )
    got = Tensor(base).scatter_reduce(0, Tensor(index), Tensor(src), reduce, include)
    np.testing.assert_allclose(got.numpy(), right.numpy(), rtol=1e-5)


# fmt: off
OPTIMIZERS = {
    "SGD": (lambda p: optim.SGD(p, 0.1, 0.9, 0.01, nesterov=True), lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True)),
    "SGD momentum": (lambda p: optim.SGD(p, 0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "Adam": (lambda p: optim.Adam(p, 0.1), lambda p: torch.optim.Adam(p, 0.1)),
    "AdamW": (lambda p: optim.AdamW(p, 0.1, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1)),
}
# fmt: on


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    p, q = Tensor(LOGITS), torch.tensor(LOGITS, requires_grad=True)
    a, b = ours([p]), theirs([q])
    with Context(TRAINING=1):
        for _ in range(5):
            a.zero_grad()
            b.zero_grad()
            (p * p).sum().backward()
            (q * q).sum().backward()
            a.step()
            b.step()
            a.lr.assign(a.lr * 0.5)
            b.param_groups[0]["lr"] *= 0.5
    np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stride", "extra"), [(1, 1), (2, 2), (2, -1)])
def test_output_padding_below_the_stride_only(stride: int, extra: int):
    x, w = Tensor.ones(1, 2, 3, 3), Tensor.ones(2, 2, 3, 3)
    with pytest.raises(ShapeError, match=f"output_padding of {extra}"):
        x.conv_transpose2d(w, stride=stride, output_padding=extra)


@pytest.mark.parametrize("corners", [False, True])
def test_interpolation_of_doubles_has_double_places(corners: bool) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 7))
    ours = Tensor(x).interpolate((9, 13), align_corners=corners).numpy()
    right = F.interpolate(torch.tensor(x), (9, 13), mode="bilinear", align_corners=corners)
    np.testing.assert_allclose(ours, right.numpy(), rtol=1e-13, atol=1e-15)


def test_interpolation_of_integers_is_rounded_once() -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 1, 5, 7))
    for dtype in (np.uint8, np.int32):
        ours = Tensor(x.astype(dtype)).interpolate((9, 13)).numpy()
        right = F.interpolate(torch.tensor(x.astype(float)), (9, 13), mode="bilinear")
        np.testing.assert_array_equal(ours, right.round().numpy())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_interpolation_of_long_axes_finds_its_places(mode: str) -> None:
    """Products of both sizes are beyond int32."""
    old, new = 100_000, 300_001
    i = np.arange(new)
    right = i * old // new if mode == "nearest" else (2 * i + 1) * old // (2 * new)
    ours = Tensor.arange(old).reshape(1, 1, old).interpolate((new,), mode=mode).numpy()
    np.testing.assert_array_equal(ours[0, 0], right)


def test_a_tensor_that_records_a_gradient_is_told_to_be_detached() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(CreationError, match="requires grad") as raised:
        Tensor(x)
    assert raised.value.help == "give its values: of PyTorch, x.detach()"
    assert Tensor(x.detach()).tolist() == [1, 1]

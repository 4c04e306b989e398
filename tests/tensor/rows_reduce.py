# ruff: noqa: E501 (a row to a line)
"""Rows: reductions, softmax, normalisation, products of matrices, convolution, losses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.tensor.table import Row
from tinylab import Tensor

Array = np.ndarray[Any, Any]
CUBE = ((2, 3, 4),)
INTS = np.arange(-5, 7, dtype=np.int32).reshape(3, 4)
CLASSES = np.array([2, 0, 1], np.int64)


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    return np.log(softmax(x, axis))


def normed(x: Array, axes: Any, eps: float = 1e-5) -> Array:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


def pairs(p: Any, n: int) -> list[tuple[int, int]]:
    return [(q, q) for q in (p if isinstance(p, tuple) else (p,) * n)]


def conv(
    x: Array, w: Array, stride: int = 1, padding: Any = 0, dilation: int = 1, groups: int = 1
) -> Array:
    """By the definition: one product and sum for each place of the kernel."""
    n = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, n)])
    outs = [
        (s - dilation * (k - 1) - 1) // stride + 1
        for s, k in zip(x.shape[2:], w.shape[2:], strict=True)
    ]
    found = np.zeros((x.shape[0], w.shape[0], *outs), x.dtype)
    per_in, per_out = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        xs, ws = x[:, g * per_in : (g + 1) * per_in], w[g * per_out : (g + 1) * per_out]
        for at in itertools.product(*(range(k) for k in w.shape[2:])):
            cut = tuple(
                slice(a * dilation, a * dilation + (o - 1) * stride + 1, stride)
                for a, o in zip(at, outs, strict=True)
            )
            found[:, g * per_out : (g + 1) * per_out] += np.einsum(
                "nc...,oc->no...",
                xs[(slice(None), slice(None), *cut)],
                ws[(slice(None), slice(None), *at)],
            )
    return found


def conv_transpose(x: Array, w: Array, stride: int = 1, padding: int = 0, extra: int = 0) -> Array:
    n = w.ndim - 2
    full = [(s - 1) * stride + k for s, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    found = np.zeros((x.shape[0], w.shape[1], *(f + extra for f in full)), x.dtype)
    for at in itertools.product(*(range(k) for k in w.shape[2:])):
        cut = tuple(
            slice(a, a + (s - 1) * stride + 1, stride) for a, s in zip(at, x.shape[2:], strict=True)
        )
        found[(slice(None), slice(None), *cut)] += np.einsum(
            "nc...,co->no...", x, w[(slice(None), slice(None), *at)]
        )
    return (
        found[(slice(None), slice(None), *(slice(padding, f + extra - padding) for f in full))]
        if padding or extra
        else found[(slice(None),) * (2 + n)]
    )


def pool(
    x: Array,
    k: int,
    stride: int | None = None,
    padding: int = 0,
    how: Any = np.max,
    fill: float = -np.inf,
    dilation: int = 1,
) -> Array:
    stride = stride or k
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    span = dilation * (k - 1) + 1
    w = np.lib.stride_tricks.sliding_window_view(x, (span, span), axis=(2, 3))
    return how(w[:, :, ::stride, ::stride, ::dilation, ::dilation], axis=(-2, -1))


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(s if mask is None else np.where(mask, s, -1e30)) @ v


def cross_entropy(x: Array, y: Array, smoothing: float = 0.0) -> Array:
    t = np.moveaxis(np.eye(x.shape[1])[y], -1, 1) * (1 - smoothing) + smoothing / x.shape[1]
    return -(log_softmax(x, 1) * t).sum(1)


PLANE = (2, 4, 6, 7)
SMALL = ((1, 2, 5, 6), (4, 2, 3, 3))
DRAWN = {"low": 0.1, "high": 0.9}

# fmt: off
ROWS = [
    Row("sum", lambda a: a.sum(), lambda a: a.sum(), CUBE),
    Row("sum axis", lambda a: a.sum(1), lambda a: a.sum(1), CUBE),
    Row("sum axes", lambda a: a.sum((0, -1), keepdim=True), lambda a: a.sum((0, 2), keepdims=True), CUBE),
    Row("sum ints", lambda a: a.sum(0), lambda a: a.sum(0), (INTS,), grad=False),
    Row("sum bools", lambda a: (a > 0).sum(), lambda a: (a > 0).sum(), (INTS,), grad=False),
    Row("sum empty", lambda a: a.sum(0), lambda a: a.sum(0), ((0, 3),), grad=False),
    Row("sum 0-d", lambda a: a.sum(), lambda a: a, ((),)),
    Row("prod", lambda a: a.prod(1), lambda a: a.prod(1), CUBE),
    Row("prod empty", lambda a: a.prod(0), lambda a: a.prod(0), ((0, 3),), grad=False),
    Row("max", lambda a: a.max(1), lambda a: a.max(1), CUBE),
    Row("max all", lambda a: a.max(), lambda a: a.max(), CUBE),
    Row("min", lambda a: a.min(2, keepdim=True), lambda a: a.min(2, keepdims=True), CUBE),
    Row("min ints", lambda a: a.min(0), lambda a: a.min(0), (INTS,), grad=False),
    Row("any", lambda a: (a > 1).any(1), lambda a: (a > 1).any(1), CUBE, grad=False),
    Row("all", lambda a: (a > -1.5).all(0), lambda a: (a > -1.5).all(0), CUBE, grad=False),
    Row("mean", lambda a: a.mean(0), lambda a: a.mean(0), CUBE),
    Row("mean ints", lambda a: a.mean(), lambda a: a.mean(dtype=np.float32), (INTS,), grad=False),
    Row("var", lambda a: a.var(1), lambda a: a.var(1, ddof=1), CUBE),
    Row("var biased", lambda a: a.var((0, 2), correction=0), lambda a: a.var((0, 2)), CUBE),
    Row("std", lambda a: a.std(-1), lambda a: a.std(-1, ddof=1), CUBE),
    Row("var_mean", lambda a: a.var_mean(1), lambda a: (a.var(1, ddof=1), a.mean(1)), CUBE),
    Row("std_mean", lambda a: a.std_mean(), lambda a: (a.std(ddof=1), a.mean()), CUBE),
    Row("normalize", lambda a: a.normalize(), lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)),
    Row("normalize 1", lambda a: a.normalize(1, 0), lambda a: a / np.abs(a).sum(0, keepdims=True)),
    Row("softmax", lambda a: a.softmax(), softmax, CUBE, low=-9, high=9),
    Row("softmax axis", lambda a: a.softmax(0), lambda a: softmax(a, 0), CUBE),
    Row("softmin", lambda a: a.softmin(), lambda a: softmax(-a), CUBE),
    Row("log_softmax", lambda a: a.log_softmax(), log_softmax, CUBE),
    Row("logsumexp", lambda a: a.logsumexp(1), lambda a: np.log(np.exp(a).sum(1)), CUBE),
    Row("argmax", lambda a: a.argmax(1), lambda a: a.argmax(1), CUBE, grad=False),
    Row("argmax all", lambda a: a.argmax(), lambda a: a.argmax(), CUBE, grad=False),
    Row("argmax keepdim", lambda a: a.argmax(0, keepdim=True), lambda a: a.argmax(0, keepdims=True), CUBE, grad=False),
    Row("argmin", lambda a: a.argmin(-1), lambda a: a.argmin(-1), CUBE, grad=False),
    Row("layernorm", lambda a: a.layernorm(), lambda a: normed(a, -1), CUBE),
    Row("layernorm axes", lambda a: a.layernorm((1, 2)), lambda a: normed(a, (1, 2)), CUBE),
    Row("batchnorm", lambda a, w, b, m, i: a.batchnorm(w, b, m, i), lambda a, w, b, m, i: (a - m[:, None]) * i[:, None] * w[:, None] + b[:, None], ((2, 3, 4), (3,), (3,), (3,), (3,))),
    Row("dot", lambda a, b: a.dot(b), lambda a, b: a @ b, ((3, 4), (4, 5))),
    Row("dot vectors", lambda a, b: a.dot(b), lambda a, b: a @ b, ((4,), (4,))),
    Row("dot vector", lambda a, b: a @ b, lambda a, b: a @ b, ((4,), (4, 5))),
    Row("dot to vector", lambda a, b: a @ b, lambda a, b: a @ b, ((2, 3, 4), (4,))),
    Row("matmul", lambda a, b: a @ b, lambda a, b: a @ b, ((2, 1, 3, 4), (5, 4, 2))),
    Row("matmul reverse", lambda a, b: a.matmul(b, reverse=True), lambda a, b: b @ a, ((4, 2), (3, 4))),
    Row("matmul ints", lambda a: a @ a.T, lambda a: a @ a.T, (INTS,), grad=False),
    Row("linear", lambda a, w, b: a.linear(w, b), lambda a, w, b: a @ w + b, ((3, 4), (4, 5), (5,))),
    Row("linear vector", lambda a, w: a.linear(w), lambda a, w: a * w, ((3, 4), (4,))),
    Row("einsum", lambda a, b: Tensor.einsum("ij,jk->ki", a, b), lambda a, b: np.einsum("ij,jk->ki", a, b), ((3, 4), (4, 5))),
    Row("einsum implicit", lambda a, b: Tensor.einsum("ij,jk", a, b), lambda a, b: a @ b, ((3, 4), (4, 5))),
    Row("einsum dots", lambda a, b: Tensor.einsum("...ij,...jk->...ik", a, b), lambda a, b: a @ b, ((2, 3, 4), (2, 4, 5))),
    Row("einsum trace", lambda a: Tensor.einsum("ii->", a), lambda a: np.einsum("ii->", a), ((4, 4),)),
    Row("einsum diagonal", lambda a: Tensor.einsum("bii->bi", a), lambda a: np.einsum("bii->bi", a), ((2, 4, 4),)),
    Row("conv2d", lambda x, w: x.conv2d(w), conv, SMALL),
    Row("conv2d bias", lambda x, w, b: x.conv2d(w, b, padding=1), lambda x, w, b: conv(x, w, padding=1) + b[:, None, None], (*SMALL, (4,))),
    Row("conv2d stride", lambda x, w: x.conv2d(w, stride=2, padding=(1, 2)), lambda x, w: conv(x, w, 2, (1, 2)), SMALL),
    Row("conv2d dilation", lambda x, w: x.conv2d(w, dilation=2), lambda x, w: conv(x, w, dilation=2), ((1, 2, 6, 7), (2, 2, 3, 2))),
    Row("conv2d groups", lambda x, w: x.conv2d(w, groups=2), lambda x, w: conv(x, w, groups=2), ((2, 4, 4, 4), (6, 2, 2, 2))),
    Row("conv2d 1d", lambda x, w: x.conv2d(w, padding=1), lambda x, w: conv(x, w, padding=1), ((2, 2, 7), (3, 2, 3))),
    Row("conv2d 3d", lambda x, w: x.conv2d(w), conv, ((1, 2, 4, 4, 3), (2, 2, 2, 3, 2))),
    Row("conv2d 1x1", lambda x, w: x.conv2d(w), conv, ((2, 3, 3, 2), (4, 3, 1, 1))),
    Row("conv_transpose2d", lambda x, w: x.conv_transpose2d(w), conv_transpose, ((1, 2, 3, 4), (2, 3, 3, 2))),
    Row("conv_transpose2d stride", lambda x, w: x.conv_transpose2d(w, stride=2, padding=1, output_padding=1), lambda x, w: conv_transpose(x, w, 2, 1, 1), ((1, 2, 3, 4), (2, 3, 3, 3))),
    Row("max_pool2d", lambda x: x.max_pool2d(), lambda x: pool(x, 2), (PLANE,)),
    Row("max_pool2d stride", lambda x: x.max_pool2d(3, 1, padding=1), lambda x: pool(x, 3, 1, 1), (PLANE,)),
    Row("max_pool2d dilation", lambda x: x.max_pool2d(2, 1, dilation=2), lambda x: pool(x, 2, 1, dilation=2), (PLANE,)),
    Row("avg_pool2d", lambda x: x.avg_pool2d(), lambda x: pool(x, 2, how=np.mean), (PLANE,)),
    Row("avg_pool2d padding", lambda x: x.avg_pool2d(3, 2, padding=1), lambda x: pool(x, 3, 2, 1, np.mean, 0), (PLANE,)),
    Row("avg_pool2d uncounted", lambda x: x.avg_pool2d(3, 2, padding=1, count_include_pad=False), lambda x: pool(x, 3, 2, 1, np.sum, 0) / pool(np.ones_like(x), 3, 2, 1, np.sum, 0), (PLANE,)),
    Row("interpolate", lambda x: x.interpolate((4, 3), align_corners=True), lambda x: x[..., [0, 1, 2, 3], :][..., ::2], ((1, 1, 4, 5),)),
    Row("interpolate nearest", lambda x: x.interpolate((8, 10), mode="nearest"), lambda x: x.repeat(2, 2).repeat(2, 3), ((1, 2, 4, 5),)),
    Row("scaled_dot_product_attention", lambda q, k, v: q.scaled_dot_product_attention(k, v), attention, ((2, 3, 4), (2, 5, 4), (2, 5, 6))),
    Row("scaled_dot_product_attention causal", lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), lambda q, k, v: attention(q, k, v, np.tri(3, 5, dtype=bool)), ((2, 3, 4), (2, 5, 4), (2, 5, 6))),
    Row("binary_crossentropy", lambda a, y: a.binary_crossentropy(y), lambda a, y: -(y * np.log(a) + (1 - y) * np.log(1 - a)).mean(), ((3, 4), (3, 4)), **DRAWN),
    Row("binary_crossentropy_logits", lambda a, y: a.binary_crossentropy_logits(y), lambda a, y: (np.logaddexp(a, 0) - y * a).mean(), ((3, 4), (3, 4)), **DRAWN),
    Row("cross_entropy", lambda a, y: a.cross_entropy(y), lambda a, y: cross_entropy(a, y).mean(), ((3, 4), CLASSES)),
    Row("cross_entropy smoothed", lambda a, y: a.cross_entropy(y, "sum", 0.1), lambda a, y: cross_entropy(a, y, 0.1).sum(), ((3, 4), CLASSES)),
    Row("cross_entropy planes", lambda a, y: a.cross_entropy(y, "none"), lambda a, y: cross_entropy(a, y), ((2, 3, 3), np.array([[2, 0, 1], [1, 1, 0]]))),
    Row("cross_entropy probabilities", lambda a, y: a.cross_entropy(y), lambda a, y: -(log_softmax(a, 1) * y).sum(1).mean(), ((3, 4), (3, 4))),
    Row("sparse_categorical_crossentropy", lambda a, y: a.sparse_categorical_crossentropy(y), lambda a, y: cross_entropy(a, y).mean(), ((3, 4), CLASSES)),
    Row("sparse_categorical_crossentropy ignored", lambda a, y: a.sparse_categorical_crossentropy(y, ignore_index=0), lambda a, y: cross_entropy(a, y)[[0, 2]].mean(), ((3, 4), CLASSES)),
    Row("nll_loss", lambda a, y: a.nll_loss(y), lambda a, y: -a[np.arange(3), y].mean(), ((3, 4), CLASSES)),
    Row("nll_loss weighted", lambda a, w, y: a.nll_loss(y, w), lambda a, w, y: -(a[np.arange(3), y] * w[y]).sum() / w[y].sum(), ((3, 4), (4,), CLASSES), low=0.5),
    Row("sequential", lambda a: a.sequential([Tensor.relu, lambda x: x + 1]), lambda a: np.maximum(a, 0) + 1),
    Row("newton_schulz", lambda a: a.newton_schulz(8, (1.5, -0.5)), lambda a: np.linalg.svd(a, full_matrices=False)[0] @ np.linalg.svd(a, full_matrices=False)[2], ((3, 3),), grad=False, atol=5e-2),
]
# fmt: on

# ruff: noqa: E501 (a row to a line)
"""Rows: movement, creation, indexing, joining, scans, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tensor.table import Row
from tinylab import Tensor

Array = np.ndarray[Any, Any]
CUBE = ((2, 3, 4),)
MATRIX = ((4, 5),)
LINE = ((7,),)
IDX = np.array([[0, 2], [1, 0]], np.int32)
NEG = np.array([-1, 0, -3], np.int32)


def np_windows(x: Array, size: int, step: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=-1)[..., ::step, :]


def np_gather(x: Array, axis: int, idx: Array) -> Array:
    return np.take_along_axis(x, idx, axis)


def np_scatter(x: Array, axis: int, idx: Array, src: Array) -> Array:
    found = x.copy()
    np.put_along_axis(found, idx, src, axis)
    return found


def np_topk(x: Array, k: int) -> tuple[Array, Array]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


def np_scatter_add(x: Array, idx: Array, src: Array) -> Array:
    found = x.copy()
    np.add.at(found, (idx, np.arange(idx.shape[1])[None]), src)
    return found


GATHER = np.array([[0, 1, 2], [3, 3, 0]], np.int64)
SORTED = np.array([3.0, 1.0, 2.0, 1.0, 7.0, -1.0, 0.0, 3.0, 5.0], np.float32)
MASK = np.array([[True, False, True, False], [False, True, True, False], [False] * 4])

# fmt: off
ROWS = [
    Row("reshape", lambda a: a.reshape(4, -1), lambda a: a.reshape(4, -1), CUBE),
    Row("reshape None", lambda a: a.reshape(None, 12), lambda a: a.reshape(2, 12), CUBE),
    Row("view", lambda a: a.view((6, 4)), lambda a: a.reshape(6, 4), CUBE),
    Row("permute", lambda a: a.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1), CUBE),
    Row("transpose", lambda a: a.transpose(0, 2), lambda a: a.swapaxes(0, 2), CUBE),
    Row("transpose last", lambda a: a.transpose(), lambda a: a.swapaxes(0, 1), CUBE),
    Row("T", lambda a: a.T, lambda a: a.T, CUBE),
    Row("expand", lambda a: a.expand(3, 4, 5), lambda a: np.broadcast_to(a, (3, 4, 5)), ((3, 1, 5),)),
    Row("expand front", lambda a: a.expand(2, -1, 5), lambda a: np.broadcast_to(a, (2, 4, 5)), ((4, 1),)),
    Row("shrink", lambda a: a.shrink(((1, 3), None)), lambda a: a[1:3], MATRIX),
    Row("shrink_to", lambda a: a.shrink_to(2, None), lambda a: a[:2], MATRIX),
    Row("flip", lambda a: a.flip(0, -1), lambda a: a[::-1, ..., ::-1], CUBE),
    Row("squeeze", lambda a: a.squeeze(), lambda a: a.squeeze(), ((1, 3, 1),)),
    Row("squeeze one", lambda a: a.squeeze(-1), lambda a: a.squeeze(-1), ((1, 3, 1),)),
    Row("unsqueeze", lambda a: a.unsqueeze(1), lambda a: a[:, None], MATRIX),
    Row("flatten", lambda a: a.flatten(1), lambda a: a.reshape(2, 12), CUBE),
    Row("flatten 0-d", lambda a: a.flatten(), lambda a: a.reshape(1), ((),)),
    Row("unflatten", lambda a: a.unflatten(1, (-1, 2)), lambda a: a.reshape(2, 3, 2), ((2, 6),)),
    Row("cat", lambda a, b: a.cat(b, dim=1), lambda a, b: np.concatenate([a, b], 1), ((2, 3), (2, 5))),
    Row("cat three", lambda a, b, c: Tensor.cat(a, b, c), lambda *x: np.concatenate(x), ((2, 3), (1, 3), (0, 3)), grad=False),
    Row("cat nan", lambda a, b: a.cat(b), lambda a, b: np.concatenate([a, b]), (np.array([np.nan, 1.0], np.float32), np.array([np.inf], np.float32)), grad=False),
    Row("stack", lambda a, b: a.stack(b, dim=1), lambda a, b: np.stack([a, b], 1), ((2, 3), (2, 3))),
    Row("stack last", lambda a, b: Tensor.stack(a, b, b, dim=-1), lambda a, b: np.stack([a, b, b], -1), ((2, 3), (2, 3))),
    Row("split", lambda a: a.split(2), lambda a: np.split(a, [2, 4, 6]), LINE),
    Row("split sizes", lambda a: a.split([1, 4], dim=1), lambda a: np.split(a, [1], 1), MATRIX),
    Row("chunk", lambda a: a.chunk(3), lambda a: np.split(a, [3, 6]), LINE),
    Row("meshgrid", lambda a, b: a.meshgrid(b), lambda a, b: np.meshgrid(a, b, indexing="ij"), ((3,), (4,))),
    Row("meshgrid xy", lambda a, b: a.meshgrid(b, indexing="xy"), lambda a, b: np.meshgrid(a, b), ((3,), (4,))),
    Row("repeat", lambda a: a.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)), MATRIX),
    Row("repeat_interleave", lambda a: a.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1), MATRIX),
    Row("repeat_interleave flat", lambda a: a.repeat_interleave(2), lambda a: np.repeat(a, 2), MATRIX),
    Row("roll", lambda a: a.roll(2, 1), lambda a: np.roll(a, 2, 1), MATRIX),
    Row("roll several", lambda a: a.roll((-1, 7), (0, 1)), lambda a: np.roll(a, (-1, 7), (0, 1)), MATRIX),
    Row("roll flat", lambda a: a.roll(3), lambda a: np.roll(a, 3), MATRIX),
    Row("unfold", lambda a: a.unfold(1, 3, 1), lambda a: np_windows(a, 3, 1), MATRIX),
    Row("unfold step", lambda a: a.unfold(0, 2, 3), lambda a: np_windows(a, 2, 3), LINE),
    Row("unfold first", lambda a: a.unfold(0, 2, 1), lambda a: np.moveaxis(np_windows(a.T, 2, 1), 1, 0), MATRIX),
    Row("diagonal", lambda a: a.diagonal(), lambda a: np.diagonal(a), MATRIX),
    Row("diagonal offset", lambda a: a.diagonal(1, 2, 0), lambda a: np.diagonal(a, 1, 2, 0), CUBE),
    Row("diagonal below", lambda a: a.diagonal(-2), lambda a: np.diagonal(a, -2), MATRIX),
    Row("diag", lambda a: a.diag(), np.diag, ((4,),)),
    Row("triu", lambda a: a.triu(1), lambda a: np.triu(a, 1), CUBE),
    Row("tril", lambda a: a.tril(-1), lambda a: np.tril(a, -1), MATRIX),
    Row("pad", lambda a: a.pad((1, 2, 0, 3)), lambda a: np.pad(a, ((0, 3), (1, 2))), MATRIX),
    Row("pad pairs", lambda a: a.pad((None, (2, 1))), lambda a: np.pad(a, ((0, 0), (2, 1))), MATRIX),
    Row("pad value", lambda a: a.pad((1, 1), value=3.5), lambda a: np.pad(a, ((0, 0), (1, 1)), constant_values=3.5), MATRIX),
    Row("pad inf", lambda a: a.pad((1, 1), value=-float("inf")), lambda a: np.pad(a, ((0, 0), (1, 1)), constant_values=-np.inf), MATRIX, grad=False),
    Row("pad negative", lambda a: a.pad((-1, 2)), lambda a: np.pad(a[:, 1:], ((0, 0), (0, 2))), MATRIX),
    Row("pad reflect", lambda a: a.pad((2, 1), mode="reflect"), lambda a: np.pad(a, ((0, 0), (2, 1)), mode="reflect"), MATRIX),
    Row("pad replicate", lambda a: a.pad((2, 1), mode="replicate"), lambda a: np.pad(a, ((0, 0), (2, 1)), mode="edge"), MATRIX),
    Row("pad circular", lambda a: a.pad((2, 1), mode="circular"), lambda a: np.pad(a, ((0, 0), (2, 1)), mode="wrap"), MATRIX),
    Row("pad_to", lambda a: a.pad_to(None, 7), lambda a: np.pad(a, ((0, 0), (0, 2))), MATRIX),
    Row("contiguous", lambda a: (a.T + 1).contiguous(), lambda a: a.T + 1, MATRIX),
    Row("contiguous_backward", lambda a: (a * a).contiguous_backward(), lambda a: a * a, MATRIX),
    Row("__getitem__", lambda a: a[1], lambda a: a[1], CUBE),
    Row("__getitem__ slices", lambda a: a[:, 1:, ::2], lambda a: a[:, 1:, ::2], CUBE),
    Row("__getitem__ backward", lambda a: a[::-1, 3:0:-2], lambda a: a[::-1, 3:0:-2], MATRIX),
    Row("__getitem__ new axes", lambda a: a[None, ..., 0, None], lambda a: a[None, ..., 0, None], CUBE),
    Row("__getitem__ negative", lambda a: a[-1, :-1, -2], lambda a: a[-1, :-1, -2], CUBE),
    Row("__getitem__ empty", lambda a: a[3:1], lambda a: a[3:1], MATRIX, grad=False),
    Row("__getitem__ tensor", lambda a, i: a[i], lambda a, i: a[i], ((3, 4), IDX)),
    Row("__getitem__ tensor later", lambda a, i: a[:, i], lambda a, i: a[:, i], ((2, 3, 4), IDX)),
    Row("__getitem__ two tensors", lambda a, i: a[i, i], lambda a, i: a[i, i], ((3, 4), IDX)),
    Row("__getitem__ apart", lambda a, i: a[i, :, i], lambda a, i: a[i, :, i], ((3, 2, 4), IDX)),
    Row("__getitem__ list", lambda a: a[[2, 0]], lambda a: a[[2, 0]], ((3, 4),)),
    Row("__getitem__ list apart", lambda a: a[[0, 1], :, [1, 3]], lambda a: a[[0, 1], :, [1, 3]], CUBE),
    Row("__getitem__ negative tensor", lambda a, i: a[i], lambda a, i: a[i], ((3, 4), NEG)),
    Row("__getitem__ number and tensor", lambda a, i: a[1, :, i], lambda a, i: a[1, :, i], ((2, 3, 4), NEG)),
    Row("__getitem__ mask", lambda a, m: a[m], lambda a, m: a[m], ((3, 4), MASK)),
    Row("gather", lambda a, i: a.gather(1, i), lambda a, i: np_gather(a[:2], 1, i), ((3, 4), GATHER)),
    Row("gather first", lambda a, i: a.gather(0, i), lambda a, i: np_gather(a[:, :3], 0, i), ((4, 4), GATHER)),
    Row("scatter", lambda a, s, i: a.scatter(1, i, s), lambda a, s, i: np_scatter(a, 1, i, s), ((2, 4), (2, 3), np.array([[0, 1, 2], [3, 1, 0]]))),
    Row("scatter add", lambda a, s, i: a.scatter(0, i, s, reduce="add"), np_scatter_add2 := lambda a, s, i: np_scatter_add(a, i, s), ((4, 3), (2, 3), GATHER)),
    Row("scatter_reduce", lambda a, s, i: a.scatter_reduce(0, i, s, "sum"), np_scatter_add2, ((4, 3), (2, 3), GATHER)),
    Row("masked_select", lambda a, m: a.masked_select(m), lambda a, m: a[m], ((3, 4), MASK)),
    Row("nonzero", lambda m: m.nonzero(), lambda m: np.argwhere(m), (MASK,), grad=False),
    Row("one_hot", lambda i: i.one_hot(4), lambda i: np.eye(4, dtype=int)[i], (IDX,), grad=False),
    Row("arange", lambda a: a + Tensor.arange(4), lambda a: a + np.arange(4)),
    Row("arange step", lambda a: a + Tensor.arange(5, 13, 2), lambda a: a + np.arange(5, 13, 2)),
    Row("arange down", lambda a: a + Tensor.arange(4, 0, -1), lambda a: a + np.arange(4, 0, -1)),
    Row("arange float", lambda a: Tensor.arange(0, 1, 0.3) * a, lambda a: np.arange(0, 1, 0.3) * a),
    Row("linspace", lambda a: a * Tensor.linspace(-1, 2, 4), lambda a: a * np.linspace(-1, 2, 4)),
    Row("eye", lambda a: a + Tensor.eye(3, 4), lambda a: a + np.eye(3, 4)),
    Row("cumsum", lambda a: a.cumsum(1), lambda a: a.cumsum(1), CUBE),
    Row("cumsum long", lambda a: a.cumsum(), lambda a: a.cumsum(), ((1100,),), grad=False, atol=1e-4),
    Row("cumsum ints", lambda a: a.cumsum(0), lambda a: a.cumsum(0), (np.arange(100, dtype=np.int32).reshape(50, 2),), grad=False),
    Row("cumprod", lambda a: a.cumprod(0), lambda a: a.cumprod(0), MATRIX),
    Row("cummax", lambda a: a.cummax(1)[0], lambda a: np.maximum.accumulate(a, 1), MATRIX),
    Row("cummin", lambda a: a.cummin(0)[0], lambda a: np.minimum.accumulate(a, 0), MATRIX),
    Row("logcumsumexp", lambda a: a.logcumsumexp(1), lambda a: np.logaddexp.accumulate(a, 1), MATRIX),
    Row("logcumsumexp long", lambda a: a.logcumsumexp(0), lambda a: np.logaddexp.accumulate(a, 0), ((50,),)),
    Row("sort", lambda a: a.sort(), lambda a: (np.sort(a), np.argsort(a, kind="stable")), (SORTED,), grad=False),
    Row("sort gradient", lambda a: a.sort(0)[0], lambda a: np.sort(a, 0), MATRIX),
    Row("sort descending", lambda a: a.sort(descending=True)[1], lambda a: np.argsort(-a, kind="stable"), (SORTED,), grad=False),
    Row("argsort", lambda a: a.argsort(0), lambda a: np.argsort(a, 0, kind="stable"), MATRIX, grad=False),
    Row("topk", lambda a: a.topk(3), lambda a: np_topk(a, 3), MATRIX, grad=False),
    Row("topk smallest", lambda a: a.topk(2, largest=False)[0], lambda a: np.sort(a)[:, :2], MATRIX),
]
# fmt: on

# ruff: noqa: E501 (a row to a line)
"""Rows for each element type: a method, numpy's way to the same, the type that comes of each type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tinylab import Tensor, dtypes
from tinylab.dtype import DType
from tinylab.opcodes import Ops

BOOL = (dtypes.bool,)
INTS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16,
        dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)  # fmt: skip
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
          *dtypes.fp8s)  # fmt: skip
ALL = (*BOOL, *INTS, *FLOATS)
Rule = Callable[[DType], DType]


def same(d: DType) -> DType:
    return d


def floating(d: DType) -> DType:
    """Integers become the default float."""
    return d if d in FLOATS else dtypes.float32


def boolean(_: DType) -> DType:
    return dtypes.bool


def index(_: DType) -> DType:
    return dtypes.int32


def number(d: DType) -> DType:
    return dtypes.int32 if d is dtypes.bool else d


def summed(d: DType) -> DType:
    """Small integers are summed as 32-bit ones."""
    if d in (dtypes.bool, dtypes.int8, dtypes.int16):
        return dtypes.int32
    return dtypes.uint32 if d in (dtypes.uint8, dtypes.uint16) else d


class Row(NamedTuple):
    """A method: ours, numpy's, and the type that comes of each type."""

    ours: Callable[[Tensor], Any]
    numpy: Callable[[Any], Any]
    result: Rule
    types: tuple[DType, ...] = ALL


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def attention(x: Any) -> Any:
    return softmax(x @ x.T / np.sqrt(2)) @ x


def bce(p: Any, y: Any) -> Any:
    return -np.where(y, np.log(p), np.log(1 - p)).mean()


def put(t: Tensor) -> Tensor:
    t[1:] = t[3:]
    return t


erf = np.vectorize(math.erf, otypes=[float])
NUMBERS = (*INTS, *FLOATS)
SIGNED = (*(d for d in INTS if d.kind == "sint"), *FLOATS)
PRECISE = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)

# fmt: off
ROWS: dict[str, Row] = {
    # what moves elements keeps the type
    "reshape": Row(lambda t: t.reshape(2, 2), lambda x: x.reshape(2, 2), same),
    "flip": Row(lambda t: t.flip(0), lambda x: x[::-1], same),
    "expand": Row(lambda t: t.unsqueeze(0).expand(2, 4), lambda x: np.stack([x, x]), same),
    "shrink": Row(lambda t: t[1:3], lambda x: x[1:3], same),
    "step": Row(lambda t: t[::-2], lambda x: x[::-2], same),
    "pad": Row(lambda t: t.pad((1, 2)), lambda x: np.pad(x, (1, 2)), same),
    "pad value": Row(lambda t: t.pad((1, 1), value=1), lambda x: np.pad(x, 1, constant_values=1), same),
    "roll": Row(lambda t: t.roll(1), lambda x: np.roll(x, 1), same),
    "repeat": Row(lambda t: t.repeat(2), lambda x: np.tile(x, 2), same),
    "cat": Row(lambda t: t.cat(t), lambda x: np.concatenate([x, x]), same),
    "stack": Row(lambda t: t.stack(t), lambda x: np.stack([x, x]), same),
    "tril": Row(lambda t: t.reshape(2, 2).tril(), lambda x: np.tril(x.reshape(2, 2)), same),
    "triu": Row(lambda t: t.reshape(2, 2).triu(), lambda x: np.triu(x.reshape(2, 2)), same),
    "index": Row(lambda t: t[Tensor([3, 0, -2])], lambda x: x[[3, 0, -2]], same),
    "gather": Row(lambda t: t.gather(0, Tensor([3, 0])), lambda x: x[[3, 0]], same),
    "scatter": Row(lambda t: t.scatter(0, Tensor([0, 3]), t[1:3]), lambda x: x[[1, 1, 2, 2]], same),
    "sort": Row(lambda t: t.sort()[0], np.sort, same),
    "topk": Row(lambda t: t.topk(2)[0], lambda x: np.sort(x)[::-1][:2], same),
    "argsort": Row(lambda t: t.argsort(), lambda x: np.argsort(x, kind="stable"), index),
    "where": Row(lambda t: (t > 1).where(t, t.zeros_like()), lambda x: np.where(x > 1, x, 0), same),
    "masked_select": Row(lambda t: t.masked_select(t > 1), lambda x: x[x > 1], same),
    "ones_like": Row(lambda t: t.ones_like(), np.ones_like, same),
    "full_like": Row(lambda t: t.full_like(1), lambda x: np.full_like(x, 1), same),
    # arithmetic
    "add": Row(lambda t: t + t, lambda x: x + x, same),
    "add number": Row(lambda t: t + 3, lambda x: x + 3, number),
    "add float": Row(lambda t: t + 1.5, lambda x: x + 1.5, floating),
    "add bool": Row(lambda t: t + True, lambda x: x + x.dtype.type(1), same),
    "sub": Row(lambda t: t - 2, lambda x: x - 2, same, NUMBERS),
    "sub reverse": Row(lambda t: 2 - t, lambda x: 2 - x, same, NUMBERS),
    "mul": Row(lambda t: t * t, lambda x: x * x, same),
    "neg": Row(lambda t: -t, lambda x: 0 - x, same, NUMBERS),
    "square": Row(lambda t: t.square(), lambda x: x * x, same),
    "div": Row(lambda t: t / 2, lambda x: x / 2, floating),
    "div floor": Row(lambda t: t // 2, lambda x: x // 2, same, NUMBERS),
    "mod": Row(lambda t: t % 2, lambda x: x % 2, same, NUMBERS),
    "fmod": Row(lambda t: t.fmod(2), lambda x: np.fmod(x, 2), same, NUMBERS),
    "pow": Row(lambda t: t ** 2, lambda x: x * x, same, NUMBERS),
    "maximum": Row(lambda t: t.maximum(t.flip(0)), lambda x: np.maximum(x, x[::-1]), same),
    "minimum": Row(lambda t: t.minimum(t.flip(0)), lambda x: np.minimum(x, x[::-1]), same),
    "clip": Row(lambda t: t.clip(1, 2), lambda x: np.clip(x, 1, 2), same, NUMBERS),
    "abs": Row(lambda t: t.abs(), lambda x: np.where(x < 0, 0 - x, x), same),
    "sign": Row(lambda t: t.sign(), lambda x: (x > 0) * 1 - (x < 0) * 1, same),
    "relu": Row(lambda t: t.relu(), lambda x: np.where(x > 0, x, 0), same, NUMBERS),
    "relu6": Row(lambda t: t.relu6(), lambda x: np.clip(x, 0, 6), same, NUMBERS),
    "floor": Row(lambda t: t.floor(), lambda x: np.floor(x), same),
    "ceil": Row(lambda t: t.ceil(), lambda x: np.ceil(x), same),
    "trunc": Row(lambda t: t.trunc(), lambda x: np.trunc(x), same),
    "round": Row(lambda t: t.round(), lambda x: np.round(x), same),
    "shifts": Row(lambda t: (t << 2) >> 1, lambda x: (x << 2) >> 1, same, INTS),
    "bits": Row(lambda t: (t & 3) ^ (t | 1), lambda x: (x & 3) ^ (x | 1), same, INTS),
    "bits of bools": Row(lambda t: (t & t.flip(0)) ^ (t | t), lambda x: (x & x[::-1]) ^ x, same, BOOL),
    "not": Row(lambda t: ~t, lambda x: ~x, same, (*BOOL, *INTS)),
    # comparison
    "eq": Row(lambda t: t == t.flip(0), lambda x: x == x[::-1], boolean),
    "ne": Row(lambda t: t != t.flip(0), lambda x: x != x[::-1], boolean),
    "lt": Row(lambda t: t < t.flip(0), lambda x: x < x[::-1], boolean),
    "ge number": Row(lambda t: t >= 2, lambda x: x >= 2, boolean),
    "isnan": Row(lambda t: t.isnan(), lambda x: x != x, boolean),
    "isfinite": Row(lambda t: t.isfinite(), lambda x: x == x, boolean),
    "logical_not": Row(lambda t: t.logical_not(), np.logical_not, boolean),
    "isclose": Row(lambda t: t.isclose(t), lambda x: x == x, boolean),
    # functions
    "sqrt": Row(lambda t: t.sqrt(), np.sqrt, floating),
    "reciprocal": Row(lambda t: (t + 1).reciprocal(), lambda x: 1 / (x + 1), floating, NUMBERS),
    "exp": Row(lambda t: t.exp(), np.exp, floating),
    "exp2": Row(lambda t: t.exp2(), np.exp2, floating),
    "log": Row(lambda t: (t + 1).log(), lambda x: np.log(x + 1), floating, NUMBERS),
    "sin": Row(lambda t: t.sin(), np.sin, floating),
    "atan": Row(lambda t: t.atan(), np.arctan, floating),
    "sinh": Row(lambda t: t.sinh(), np.sinh, floating),
    "tanh": Row(lambda t: t.tanh(), np.tanh, floating),
    "acosh": Row(lambda t: (t + 1).acosh(), lambda x: np.arccosh(x + 1), floating, NUMBERS),
    "erf": Row(lambda t: t.erf(), erf, floating),
    "sigmoid": Row(lambda t: t.sigmoid(), sigmoid, floating),
    "silu": Row(lambda t: t.silu(), lambda x: x * sigmoid(x), floating),
    "softplus": Row(lambda t: t.softplus(), lambda x: np.log1p(np.exp(x)), floating),
    "logaddexp": Row(lambda t: t.logaddexp(t), lambda x: np.logaddexp(x, x), floating),
    # reductions
    "sum": Row(lambda t: t.sum(), lambda x: x.sum(), summed),
    "prod": Row(lambda t: t.prod(), lambda x: x.prod(), summed),
    "max": Row(lambda t: t.max(), lambda x: x.max(), same),
    "min": Row(lambda t: t.min(), lambda x: x.min(), same),
    "mean": Row(lambda t: t.mean(), lambda x: x.mean(), floating),
    "var": Row(lambda t: t.var(), lambda x: x.var(ddof=1), floating),
    "std": Row(lambda t: t.std(correction=0), lambda x: x.std(), floating),
    "any": Row(lambda t: t.any(), lambda x: x.any(), boolean),
    "all": Row(lambda t: t.all(), lambda x: x.all(), boolean),
    "argmax": Row(lambda t: t.argmax(), lambda x: x.argmax(), index),
    "argmin": Row(lambda t: t.argmin(), lambda x: x.argmin(), index),
    "cumsum": Row(lambda t: t.cumsum(), lambda x: x.cumsum(), summed),
    "cumprod": Row(lambda t: t.cumprod(0), lambda x: x.cumprod(), summed),
    "cummax": Row(lambda t: t.cummax()[0], np.maximum.accumulate, same),
    "softmax": Row(lambda t: t.softmax(), softmax, floating),
    "logsumexp": Row(lambda t: t.logsumexp(), lambda x: np.log(np.exp(x).sum()), floating),
    "dot": Row(lambda t: t.dot(t), lambda x: (x * x).sum(), same, NUMBERS),
    "matmul": Row(lambda t: t.reshape(2, 2) @ t.reshape(2, 2), lambda x: x.reshape(2, 2) @ x.reshape(2, 2), same, NUMBERS),
    "max_pool2d": Row(lambda t: t.reshape(1, 1, 2, 2).max_pool2d(), lambda x: x.max().reshape(1, 1, 1, 1), same),
    "avg_pool2d": Row(lambda t: t.reshape(1, 1, 2, 2).avg_pool2d(), lambda x: x.mean().reshape(1, 1, 1, 1), floating),
    "cross_entropy": Row(lambda t: t.reshape(2, 2).cross_entropy(Tensor([0, 1])), lambda x: -np.log(np.diag(softmax(x.reshape(2, 2)))).mean(), floating),
    # more of what moves elements
    "T": Row(lambda t: t.reshape(2, 2).T, lambda x: x.reshape(2, 2).T, same),
    "transpose": Row(lambda t: t.reshape(2, 2).transpose(), lambda x: x.reshape(2, 2).T, same),
    "permute": Row(lambda t: t.reshape(2, 2).permute(1, 0), lambda x: x.reshape(2, 2).T, same),
    "view": Row(lambda t: t.view(4, 1), lambda x: x.reshape(4, 1), same),
    "flatten": Row(lambda t: t.reshape(2, 2).flatten(), lambda x: x, same),
    "unflatten": Row(lambda t: t.unflatten(0, (2, 2)), lambda x: x.reshape(2, 2), same),
    "squeeze": Row(lambda t: t.reshape(4, 1).squeeze(1), lambda x: x, same),
    "unsqueeze": Row(lambda t: t.unsqueeze(0), lambda x: x[None], same),
    "chunk": Row(lambda t: t.chunk(2)[1], lambda x: x[2:], same),
    "split": Row(lambda t: t.split(3)[1], lambda x: x[3:], same),
    "diag": Row(lambda t: t.diag(), np.diag, same),
    "diagonal": Row(lambda t: t.reshape(2, 2).diagonal(), lambda x: x[[0, 3]], same),
    "rearrange": Row(lambda t: t.rearrange("(a b) -> b a", a=2), lambda x: x.reshape(2, 2).T, same),
    "repeat_interleave": Row(lambda t: t.repeat_interleave(2), lambda x: np.repeat(x, 2), same),
    "unfold": Row(lambda t: t.unfold(0, 2, 1), lambda x: np.stack([x[:-1], x[1:]], 1), same),
    "pad_to": Row(lambda t: t.pad_to(6), lambda x: np.pad(x, (0, 2)), same),
    "pad reflect": Row(lambda t: t.reshape(1, 4).pad((1, 1), mode="reflect"), lambda x: np.pad(x, 1, mode="reflect")[None], same),
    "shrink_to": Row(lambda t: t.shrink_to(2), lambda x: x[:2], same),
    "meshgrid": Row(lambda t: t.meshgrid(t)[1], lambda x: np.meshgrid(x, x, indexing="ij")[1], same),
    "contiguous": Row(lambda t: t.flip(0).contiguous(), lambda x: x[::-1], same),
    "contiguous_backward": Row(lambda t: t.contiguous_backward(), lambda x: x, same),
    "detach": Row(lambda t: t.detach(), lambda x: x, same),
    "clone": Row(lambda t: t.clone(), lambda x: x, same),
    "zeros_like": Row(lambda t: t.zeros_like(), np.zeros_like, same),
    "const_like": Row(lambda t: t.const_like(1), np.ones_like, same),
    "__getitem__": Row(lambda t: t[None, -1:, None], lambda x: x[None, -1:, None], same),
    "__setitem__": Row(lambda t: put(t.clone()), lambda x: np.concatenate([x[:1], x[3:], x[3:], x[3:]]), same),
    "assign": Row(lambda t: t.clone().assign(t.flip(0)), lambda x: x[::-1], same),
    "__iadd__": Row(lambda t: operator.iadd(t.clone(), t), lambda x: x + x, same),
    "replace": Row(lambda t: t.clone().replace(t.flip(0)), lambda x: x[::-1], same),
    "masked_fill": Row(lambda t: t.masked_fill(t > 1, True), lambda x: np.where(x > 1, x.dtype.type(1), x), same),
    "nonzero": Row(lambda t: t.nonzero(), lambda x: np.argwhere(x), index),
    "interpolate": Row(lambda t: t.reshape(1, 1, 4).interpolate((2,), mode="nearest"), lambda x: x[None, None, ::2], same),
    "interpolate linear": Row(lambda t: t.reshape(1, 1, 4).interpolate((2,)), lambda x: ((x[::2] + x[1::2]) / 2)[None, None], same, FLOATS),
    "one_hot": Row(lambda t: t.one_hot(5), lambda x: np.eye(5)[x], lambda d: dtypes.weakint, INTS),
    "scatter_reduce": Row(lambda t: t.scatter_reduce(0, Tensor([1, 1]), t[:2], "amax"), lambda x: np.concatenate([x[:1], x[:2].max(keepdims=True), x[2:]]), same),
    "ufix": Row(lambda t: t.ufix(1), lambda x: x.dtype.type(1), number),
    "sequential": Row(lambda t: t.sequential([lambda x: x + x]), lambda x: x + x, same),
    # casts
    "bool": Row(lambda t: t.bool(), lambda x: x != 0, boolean),
    "half": Row(lambda t: t.half(), lambda x: x, lambda d: dtypes.float16),
    "bfloat16": Row(lambda t: t.bfloat16(), lambda x: x, lambda d: dtypes.bfloat16),
    "float": Row(lambda t: t.float(), lambda x: x, lambda d: dtypes.float32),
    "double": Row(lambda t: t.double(), lambda x: x, lambda d: dtypes.float64),
    "short": Row(lambda t: t.short(), np.trunc, lambda d: dtypes.int16),
    "int": Row(lambda t: t.int(), np.trunc, lambda d: dtypes.int32),
    "long": Row(lambda t: t.long(), np.trunc, lambda d: dtypes.int64),
    "cast": Row(lambda t: t.cast("uint8"), np.trunc, lambda d: dtypes.uint8),
    "bitcast": Row(lambda t: t.bitcast(t.dtype), lambda x: x, same),
    # more arithmetic
    "alu": Row(lambda t: t.alu(Ops.ADD, t), lambda x: x + x, same),
    "lshift": Row(lambda t: t.lshift(2), lambda x: x << 2, same, INTS),
    "rshift": Row(lambda t: t.rshift(1), lambda x: x >> 1, same, INTS),
    "bitwise_and": Row(lambda t: t.bitwise_and(t.flip(0)), lambda x: x & x[::-1], same, (*BOOL, *INTS)),
    "bitwise_or": Row(lambda t: t.bitwise_or(t.flip(0)), lambda x: x | x[::-1], same, (*BOOL, *INTS)),
    "bitwise_xor": Row(lambda t: t.bitwise_xor(t.flip(0)), lambda x: x ^ x[::-1], same, (*BOOL, *INTS)),
    "bitwise_not": Row(lambda t: t.bitwise_not(), lambda x: ~x, same, (*BOOL, *INTS)),
    "clamp": Row(lambda t: t.clamp(1, 2), lambda x: np.clip(x, 1, 2), same, NUMBERS),
    "copysign": Row(lambda t: t.copysign(-1.0), lambda x: -abs(x), floating, NUMBERS),
    "lerp": Row(lambda t: t.lerp(t.flip(0), 0.5), lambda x: (x + x[::-1]) / 2, same, FLOATS),
    "usum": Row(lambda t: t.usum(t, t), lambda x: x + x + x, same),
    "uprod": Row(lambda t: t.uprod(t, t), lambda x: x * x * x, same),
    "isinf": Row(lambda t: t.isinf(), lambda x: x != x, boolean),
    # more functions
    "asin": Row(lambda t: (t * 0.25).asin(), lambda x: np.arcsin(x / 4), floating),
    "acos": Row(lambda t: (t * 0.25).acos(), lambda x: np.arccos(x / 4), floating),
    "atanh": Row(lambda t: (t * 0.125).atanh(), lambda x: np.arctanh(x / 8), floating),
    "asinh": Row(lambda t: t.asinh(), np.arcsinh, floating),
    "cos": Row(lambda t: (t * 0.25).cos(), lambda x: np.cos(x / 4), floating),
    "cosh": Row(lambda t: t.cosh(), np.cosh, floating),
    "tan": Row(lambda t: (t * 0.25).tan(), lambda x: np.tan(x / 4), floating),
    "log2": Row(lambda t: (t + 1).log2(), lambda x: np.log2(x + 1), floating, NUMBERS),
    "log10": Row(lambda t: (t + 1).log10(), lambda x: np.log10(x + 1), floating, NUMBERS),
    "rsqrt": Row(lambda t: (t + 1).rsqrt(), lambda x: (x + 1) ** -0.5, floating, NUMBERS),
    "celu": Row(lambda t: (t - 2).celu(), lambda x: elu(x - 2), floating, SIGNED),
    "elu positive": Row(lambda t: t.elu(), elu, floating),
    "elu": Row(lambda t: (t - 2).elu(), lambda x: elu(x - 2), floating, SIGNED),
    "selu": Row(lambda t: (t - 2).selu(), lambda x: 1.0507 * elu(x - 2, 1.67326), floating, SIGNED),
    "gelu": Row(lambda t: t.gelu(), lambda x: x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3))), floating),
    "quick_gelu": Row(lambda t: t.quick_gelu(), lambda x: x * sigmoid(1.702 * x), floating),
    "hardsigmoid": Row(lambda t: t.hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1), floating),
    "hardswish": Row(lambda t: t.hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6, floating),
    "hardtanh": Row(lambda t: t.hardtanh(), lambda x: np.clip(x, -1, 1), same, SIGNED),
    "leaky_relu": Row(lambda t: t.leaky_relu(), lambda x: np.where(x > 0, x, 0.01 * x), floating),
    "logsigmoid": Row(lambda t: t.logsigmoid(), lambda x: -np.log1p(np.exp(-x)), floating),
    "mish": Row(lambda t: t.mish(), lambda x: x * np.tanh(np.log1p(np.exp(x))), floating),
    "softsign": Row(lambda t: t.softsign(), lambda x: x / (1 + abs(x)), floating, NUMBERS),
    "swish": Row(lambda t: t.swish(), lambda x: x * sigmoid(x), floating),
    "dropout": Row(lambda t: t.dropout(0.5), lambda x: x, same),
    # more reductions
    "cummin": Row(lambda t: t.cummin()[0], np.minimum.accumulate, same),
    "logcumsumexp": Row(lambda t: t.logcumsumexp(), lambda x: np.log(np.exp(x).cumsum()), floating),
    "log_softmax": Row(lambda t: t.log_softmax(), lambda x: np.log(softmax(x)), floating),
    "softmin": Row(lambda t: t.softmin(), lambda x: softmax(-x), floating),
    "std_mean": Row(lambda t: t.std_mean()[1], lambda x: x.mean(), floating),
    "var_mean": Row(lambda t: t.var_mean()[0], lambda x: x.var(ddof=1), floating),
    "allclose": Row(lambda t: t.allclose(t), lambda x: np.bool_(True), boolean),
    "layernorm": Row(lambda t: t.layernorm(), lambda x: (x - x.mean()) / np.sqrt(x.var() + 1e-5), floating),
    "normalize": Row(lambda t: t.normalize(dim=0), lambda x: x / np.sqrt((x * x).sum()), floating, NUMBERS),
    "batchnorm": Row(lambda t: t.reshape(2, 2).batchnorm(None, None, Tensor([1.0, 2.0]).cast(t.dtype), Tensor([0.5, 2.0]).cast(t.dtype)), lambda x: (x.reshape(2, 2) - [1, 2]) * [0.5, 2], same, FLOATS),
    # more products
    "__matmul__": Row(lambda t: t.reshape(1, 4) @ t.reshape(4, 1), lambda x: (x * x).sum().reshape(1, 1), same, NUMBERS),
    "einsum": Row(lambda t: Tensor.einsum("i,i->", t, t), lambda x: (x * x).sum(), same, NUMBERS),
    "linear": Row(lambda t: t.reshape(2, 2).linear(t.reshape(2, 2), t[:2]), lambda x: x.reshape(2, 2) @ x.reshape(2, 2) + x[:2], same, NUMBERS),
    "conv2d": Row(lambda t: t.reshape(1, 1, 2, 2).conv2d(t.reshape(1, 1, 2, 2)), lambda x: (x * x).sum().reshape(1, 1, 1, 1), same, NUMBERS),
    "conv_transpose2d": Row(lambda t: t[:1].reshape(1, 1, 1, 1).conv_transpose2d(t.reshape(1, 1, 2, 2)), lambda x: (x[0] * x).reshape(1, 1, 2, 2), same, NUMBERS),
    "image_conv2d": Row(lambda t: t.reshape(1, 1, 2, 2).image_conv2d(t.reshape(1, 1, 2, 2)), lambda x: (x * x).sum().reshape(1, 1, 1, 1), same, FLOATS),
    "image_dot": Row(lambda t: t.reshape(1, 4).image_dot(t.reshape(4, 1)), lambda x: (x * x).sum().reshape(1, 1), same, FLOATS),
    "scaled_dot_product_attention": Row(lambda t: t.reshape(1, 2, 2).scaled_dot_product_attention(t.reshape(1, 2, 2), t.reshape(1, 2, 2)), lambda x: attention(x.reshape(2, 2))[None], same, FLOATS),
    "max_unpool2d": Row(lambda t: t[3:].reshape(1, 1, 1, 1).max_unpool2d(Tensor([[[[3]]]])), lambda x: (x * [0, 0, 0, 1]).reshape(1, 1, 2, 2).astype(x.dtype), same, NUMBERS),
    "qr": Row(lambda t: t.reshape(2, 2).qr()[1].abs(), lambda x: abs(np.linalg.qr(x.reshape(2, 2))[1]), same, PRECISE),
    "svd": Row(lambda t: t.reshape(2, 2).svd()[1], lambda x: np.linalg.svd(x.reshape(2, 2))[1], same, PRECISE),
    "newton_schulz": Row(lambda t: t.reshape(2, 2).newton_schulz(0, (1.0,)), lambda x: x.reshape(2, 2) / np.sqrt((x * x).sum()), same, FLOATS),
    # losses
    "binary_crossentropy": Row(lambda t: (t * 0.125).binary_crossentropy(t > 1), lambda x: bce(x / 8, x > 1), floating, NUMBERS),
    "binary_crossentropy_logits": Row(lambda t: t.binary_crossentropy_logits(t > 1), lambda x: bce(sigmoid(x), x > 1), floating, NUMBERS),
    "nll_loss": Row(lambda t: t.reshape(2, 2).nll_loss(Tensor([0, 1])), lambda x: -np.diag(x.reshape(2, 2)).mean(), same, FLOATS),
    "sparse_categorical_crossentropy": Row(lambda t: t.reshape(2, 2).sparse_categorical_crossentropy(Tensor([0, 1])), lambda x: -np.log(np.diag(softmax(x.reshape(2, 2)))).mean(), floating),
    # made of nothing, in a type
    "arange": Row(lambda t: Tensor.arange(4, dtype=t.dtype), lambda x: np.arange(4), same, NUMBERS),
    "eye": Row(lambda t: Tensor.eye(2, dtype=t.dtype), lambda x: np.eye(2), same),
    "full": Row(lambda t: Tensor.full((2,), 1, dtype=t.dtype), lambda x: np.ones(2), same),
    "ones": Row(lambda t: Tensor.ones(2, dtype=t.dtype), lambda x: np.ones(2), same),
    "zeros": Row(lambda t: Tensor.zeros(2, dtype=t.dtype), lambda x: np.zeros(2), same),
    "const": Row(lambda t: Tensor.const(1, t.dtype), lambda x: np.ones(()), same),
    "linspace": Row(lambda t: Tensor.linspace(0, 4, 5, dtype=t.dtype), lambda x: np.arange(5), same, NUMBERS),
    "empty": Row(lambda t: Tensor.empty(2, dtype=t.dtype).assign(t[:2]), lambda x: x[:2], same),
    "empty_like": Row(lambda t: t.empty_like().assign(t), lambda x: x, same),
    "invalids": Row(lambda t: Tensor.invalids(4, dtype=t.dtype).assign(t), lambda x: x, same),
}
# fmt: on

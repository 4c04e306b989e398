# ruff: noqa: E501 (a row to a line)
"""Rows: arithmetic, comparison, bits, selection, functions of one number, activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.tensor.table import Row

Array = np.ndarray[Any, Any]
TWO = ((3, 4), (3, 4))
WIDE = ((3, 1, 4), (5, 1))
INTS = (np.arange(-8, 8, dtype=np.int32).reshape(4, 4), np.array([3, -2, 5, 1], np.int32))
BITS = (np.array([0, 1, 5, -3, 127], np.int32), np.array([1, 3, 6, 2, -1], np.int32))
BOOLS = (np.array([True, False, True]), np.array([True, True, False]))
NUMBERS = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -3.2, 3.7], np.float32)

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


# fmt: off
ROWS = [
    Row("add", lambda a, b: a + b, lambda a, b: a + b, TWO),
    Row("add broadcast", lambda a, b: a + b, lambda a, b: a + b, WIDE),
    Row("add scalar", lambda a: a + 2, lambda a: a + 2),
    Row("add reverse", lambda a: 2.5 + a, lambda a: 2.5 + a),
    Row("add 0-d", lambda a, b: a + b, lambda a, b: a + b, ((), (3,))),
    Row("add empty", lambda a, b: a + b, lambda a, b: a + b, ((0, 3), (1, 3)), grad=False),
    Row("sub", lambda a, b: a - b, lambda a, b: a - b, WIDE),
    Row("sub reverse", lambda a: 1 - a, lambda a: 1 - a),
    Row("mul", lambda a, b: a * b, lambda a, b: a * b, WIDE),
    Row("mul itself", lambda a: a * a, lambda a: a * a),
    Row("div", lambda a, b: a / b, lambda a, b: a / b, TWO, low=0.5),
    Row("div scalar", lambda a: a / 3, lambda a: a / 3),
    Row("div reverse", lambda a: 3 / a, lambda a: 3 / a, low=0.5),
    Row("div floor", lambda a, b: a.div(b, rounding_mode="floor"), lambda a, b: np.floor(a / b), TWO, low=0.5, grad=False),
    Row("div trunc", lambda a, b: a.div(b, rounding_mode="trunc"), lambda a, b: np.trunc(a / b), TWO, grad=False),
    Row("div ints", lambda a, b: a // b, lambda a, b: a // b, INTS, grad=False),
    Row("div trunc ints", lambda a, b: a.div(b, rounding_mode="trunc"), lambda a, b: np.trunc(a / b).astype(int), INTS, grad=False),
    Row("div ints true", lambda a, b: a / b, lambda a, b: (a / b).astype(np.float32), INTS, grad=False),
    Row("mod ints", lambda a, b: a % b, lambda a, b: a % b, INTS, grad=False),
    Row("mod", lambda a, b: a % b, lambda a, b: a % b, TWO, low=0.3, grad=False),
    Row("mod signs", lambda a, b: a % b, lambda a, b: a % b, (NUMBERS, np.array([2, -2, 2, -2, 2, -2, 2, -2], np.float32)), grad=False),
    Row("fmod", lambda a, b: a.fmod(b), np.fmod, TWO, grad=False),
    Row("fmod ints", lambda a, b: a.fmod(b), np.fmod, INTS, grad=False),
    Row("neg", lambda a: -a, lambda a: -a),
    Row("neg ints", lambda a, b: -a, lambda a, b: -a, INTS, grad=False),
    Row("pow", lambda a, b: a ** b, lambda a, b: a ** b, TWO, low=0.3),
    Row("pow square", lambda a: a ** 2, lambda a: a ** 2),
    Row("pow cube", lambda a: a ** 3, lambda a: a ** 3),
    Row("pow half", lambda a: a ** 0.5, lambda a: a ** 0.5, low=0.3),
    Row("pow negative", lambda a: a ** -2, lambda a: a ** -2.0, low=0.5),
    Row("pow base", lambda a: 2 ** a, lambda a: 2.0 ** a),
    Row("pow ints", lambda a, b: a ** 3, lambda a, b: a ** 3, INTS, grad=False),
    Row("pow int tensors", lambda a, b: a ** b, lambda a, b: a ** b, (np.array([2, 3, -3, 7], np.int32), np.array([10, 0, 3, 40], np.int32)), grad=False),
    Row("square", lambda a: a.square(), np.square),
    Row("reciprocal", lambda a: a.reciprocal(), lambda a: 1 / a, low=0.5),
    Row("usum", lambda a, b: a.usum(b, a), lambda a, b: a + b + a, TWO),
    Row("uprod", lambda a, b: a.uprod(b, b), lambda a, b: a * b * b, TWO),
    Row("maximum", lambda a, b: a.maximum(b), np.maximum, TWO),
    Row("maximum scalar", lambda a: a.maximum(0.5), lambda a: np.maximum(a, 0.5)),
    Row("minimum", lambda a, b: a.minimum(b), np.minimum, WIDE),
    Row("minimum ints", lambda a, b: a.minimum(b), np.minimum, INTS, grad=False),
    Row("minimum scalar", lambda a: a.minimum(0.5), lambda a: np.minimum(a, 0.5)),
    Row("clip", lambda a: a.clip(-0.5, 1), lambda a: np.clip(a, -0.5, 1)),
    Row("clip below", lambda a: a.clip(min_=0), lambda a: np.maximum(a, 0)),
    Row("clamp", lambda a: a.clamp(max_=0.3), lambda a: np.minimum(a, 0.3)),
    Row("abs", lambda a: a.abs(), np.abs),
    Row("sign", lambda a: a.sign(), np.sign, grad=False),
    Row("copysign", lambda a, b: a.copysign(b), np.copysign, TWO, grad=False),
    Row("lerp", lambda a, b: a.lerp(b, 0.3), lambda a, b: a + (b - a) * 0.3, TWO),
    Row("eq", lambda a, b: a == b, lambda a, b: a == b, INTS, grad=False),
    Row("ne", lambda a, b: a != b, lambda a, b: a != b, INTS, grad=False),
    Row("lt", lambda a, b: a < b, lambda a, b: a < b, TWO, grad=False),
    Row("le", lambda a, b: a <= b, lambda a, b: a <= b, INTS, grad=False),
    Row("gt", lambda a, b: a > b, lambda a, b: a > b, TWO, grad=False),
    Row("ge", lambda a, b: a >= b, lambda a, b: a >= b, INTS, grad=False),
    Row("lt scalar", lambda a: a > 0.5, lambda a: a > 0.5, grad=False),
    Row("isclose", lambda a, b: a.isclose(b, atol=0.5), lambda a, b: np.isclose(a, b, atol=0.5), TWO, grad=False),
    Row("isclose ints", lambda a, b: a.isclose(b), lambda a, b: np.isclose(a, b), INTS, grad=False),
    Row("allclose", lambda a: a.allclose(a + 1e-9), lambda a: np.array(True), grad=False),
    Row("bitwise_and", lambda a, b: a & b, lambda a, b: a & b, BITS, grad=False),
    Row("bitwise_or", lambda a, b: a | b, lambda a, b: a | b, BITS, grad=False),
    Row("bitwise_xor", lambda a, b: a ^ b, lambda a, b: a ^ b, BITS, grad=False),
    Row("bitwise_not", lambda a, b: ~a, lambda a, b: ~a, BITS, grad=False),
    Row("bitwise_and bools", lambda a, b: a & b, lambda a, b: a & b, BOOLS, grad=False),
    Row("bitwise_not bools", lambda a, b: ~a, lambda a, b: ~a, BOOLS, grad=False),
    Row("logical_not", lambda a, b: a.logical_not(), lambda a, b: np.logical_not(a), BITS, grad=False),
    Row("lshift", lambda a, b: a << 3, lambda a, b: a << 3, BITS, grad=False),
    Row("rshift", lambda a, b: a >> 1, lambda a, b: a >> 1, BITS, grad=False),
    Row("where", lambda a, b: (a > 0).where(a, b), lambda a, b: np.where(a > 0, a, b), TWO),
    Row("where scalars", lambda a: (a > 0).where(1.5, -1), lambda a: np.where(a > 0, 1.5, -1.0), grad=False),
    Row("where broadcast", lambda a, b: (a > 0).where(b, 0), lambda a, b: np.where(a > 0, b, 0), (WIDE[0], (5, 4)), grad=False),
    Row("masked_fill", lambda a: a.masked_fill(a > 0, 7), lambda a: np.where(a > 0, 7, a)),
    Row("trunc", lambda a: a.trunc(), np.trunc, (NUMBERS,), grad=False),
    Row("floor", lambda a: a.floor(), np.floor, (NUMBERS,), grad=False),
    Row("ceil", lambda a: a.ceil(), np.ceil, (NUMBERS,), grad=False),
    Row("round", lambda a: a.round(), np.round, (NUMBERS,), grad=False),
    Row("exp", lambda a: a.exp(), np.exp),
    Row("exp2", lambda a: a.exp2(), np.exp2),
    Row("log", lambda a: a.log(), np.log, low=0.1),
    Row("log2", lambda a: a.log2(), np.log2, low=0.1),
    Row("log10", lambda a: a.log10(), np.log10, low=0.1),
    Row("logaddexp", lambda a, b: a.logaddexp(b), np.logaddexp, TWO),
    Row("sqrt", lambda a: a.sqrt(), np.sqrt, low=0.1),
    Row("rsqrt", lambda a: a.rsqrt(), lambda a: 1 / np.sqrt(a), low=0.1),
    Row("sin", lambda a: a.sin(), np.sin, low=-9, high=9),
    Row("cos", lambda a: a.cos(), np.cos, low=-9, high=9),
    Row("tan", lambda a: a.tan(), np.tan, low=-1, high=1),
    Row("asin", lambda a: a.asin(), np.arcsin, low=-0.95, high=0.95),
    Row("acos", lambda a: a.acos(), np.arccos, low=-0.95, high=0.95),
    Row("atan", lambda a: a.atan(), np.arctan, low=-9, high=9),
    Row("sinh", lambda a: a.sinh(), np.sinh),
    Row("cosh", lambda a: a.cosh(), np.cosh),
    Row("tanh", lambda a: a.tanh(), np.tanh),
    Row("asinh", lambda a: a.asinh(), np.arcsinh),
    Row("acosh", lambda a: a.acosh(), np.arccosh, low=1.2, high=5),
    Row("atanh", lambda a: a.atanh(), np.arctanh, low=-0.9, high=0.9),
    Row("erf", lambda a: a.erf(), erf),
    Row("relu", lambda a: a.relu(), lambda a: np.maximum(a, 0)),
    Row("relu6", lambda a: a.relu6(), lambda a: np.clip(a, 0, 6), low=-9, high=9),
    Row("hardtanh", lambda a: a.hardtanh(), lambda a: np.clip(a, -1, 1)),
    Row("hardsigmoid", lambda a: a.hardsigmoid(), lambda a: np.clip(a / 6 + 0.5, 0, 1), low=-5, high=5),
    Row("hardswish", lambda a: a.hardswish(), lambda a: a * np.clip(a + 3, 0, 6) / 6, low=-5, high=5),
    Row("sigmoid", lambda a: a.sigmoid(), sigmoid),
    Row("silu", lambda a: a.silu(), lambda a: a * sigmoid(a)),
    Row("swish", lambda a: a.swish(), lambda a: a * sigmoid(a)),
    Row("quick_gelu", lambda a: a.quick_gelu(), lambda a: a * sigmoid(1.702 * a)),
    Row("gelu", lambda a: a.gelu(), lambda a: a * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3)))),
    Row("gelu exact", lambda a: a.gelu("none"), lambda a: a * 0.5 * (1 + erf(a / np.sqrt(2)))),
    Row("elu", lambda a: a.elu(), elu),
    Row("elu alpha", lambda a: a.elu(0.3), lambda a: elu(a, 0.3)),
    Row("celu", lambda a: a.celu(0.7), lambda a: np.where(a > 0, a, 0.7 * (np.exp(np.minimum(a, 0) / 0.7) - 1))),
    Row("selu", lambda a: a.selu(), lambda a: 1.0507 * elu(a, 1.67326)),
    Row("leaky_relu", lambda a: a.leaky_relu(), lambda a: np.where(a > 0, a, 0.01 * a)),
    Row("softplus", lambda a: a.softplus(), softplus),
    Row("softplus beta", lambda a: a.softplus(3), lambda a: softplus(3 * a) / 3),
    Row("logsigmoid", lambda a: a.logsigmoid(), lambda a: -softplus(-a)),
    Row("softsign", lambda a: a.softsign(), lambda a: a / (1 + np.abs(a))),
    Row("mish", lambda a: a.mish(), lambda a: a * np.tanh(softplus(a))),
]
# fmt: on

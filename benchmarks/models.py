"""The benchmark models: lazy tensors of one script that runs on tinylab and on tinygrad alike.

Each function takes the library (a module with `Tensor` and `nn`) and gives the tensors to realize.
Leaves are `Tensor.empty`, so that nothing but the model itself is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SEQUENCE, WIDTH, HEADS, VOCABULARY = 64, 128, 4, 256


def softmax(lib: Any) -> list[Any]:
    """(256, 1024) -> softmax over rows."""
    return [lib.Tensor.empty(256, 1024).softmax()]


def matmul(lib: Any) -> list[Any]:
    """(512, 512) @ (512, 512)."""
    return [lib.Tensor.empty(512, 512) @ lib.Tensor.empty(512, 512)]


def _linear(lib: Any, x: Any, size: int) -> Any:
    return x.linear(lib.Tensor.empty(x.shape[-1], size), lib.Tensor.empty(size))


def _norm(lib: Any, x: Any) -> Any:
    return x.layernorm() * lib.Tensor.empty(x.shape[-1]) + lib.Tensor.empty(x.shape[-1])


def _attention(lib: Any, x: Any) -> Any:
    batch, length, width = x.shape
    parts = _linear(lib, x, 3 * width).reshape(batch, length, 3, HEADS, width // HEADS)
    q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
    y = q.scaled_dot_product_attention(k, v, is_causal=True)
    return _linear(lib, y.transpose(1, 2).reshape(batch, length, width), width)


def _gpt(lib: Any, blocks: int) -> list[Any]:
    tokens = lib.Tensor.empty(2, SEQUENCE, dtype=lib.dtypes.int32)
    x = lib.Tensor.empty(VOCABULARY, WIDTH)[tokens] + lib.Tensor.empty(SEQUENCE, WIDTH)
    for _ in range(blocks):
        x = x + _attention(lib, _norm(lib, x))
        x = x + _linear(lib, _linear(lib, _norm(lib, x), 4 * WIDTH).gelu(), WIDTH)
    return [_linear(lib, _norm(lib, x), VOCABULARY)]


def gpt_1(lib: Any) -> list[Any]:
    """Forward pass of a GPT of one block, from tokens to logits."""
    return _gpt(lib, 1)


def gpt_4(lib: Any) -> list[Any]:
    """The same with four blocks."""
    return _gpt(lib, 4)


def conv_adam(lib: Any) -> list[Any]:
    """Forward, backward and one step of Adam of a small convolutional classifier."""
    empty = lib.Tensor.empty
    weights = [
        empty(16, 1, 5, 5), empty(16), empty(32, 16, 3, 3), empty(32), empty(32 * 25, 10), empty(10)
    ]  # fmt: skip
    for weight in weights:
        weight.is_param_()
    w1, b1, w2, b2, w3, b3 = weights
    with lib.Context(TRAINING=1):
        optimizer = lib.nn.optim.Adam(weights, lr=1e-3)
        x = empty(32, 1, 28, 28).conv2d(w1, b1).relu().max_pool2d()
        x = x.conv2d(w2, b2).relu().max_pool2d().flatten(1)
        labels = empty(32, dtype=lib.dtypes.int32)
        loss = x.linear(w3, b3).sparse_categorical_crossentropy(labels)
        optimizer.zero_grad()
        loss.backward()
        return [loss, *optimizer.schedule_step()]


MODELS: dict[str, Callable[[Any], list[Any]]] = {
    "softmax": softmax,
    "matmul": matmul,
    "gpt_1": gpt_1,
    "gpt_4": gpt_4,
    "conv_adam": conv_adam,
}

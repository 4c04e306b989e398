"""The kernels that are compared: each library's best way to say the same, on the same sizes.

numpy writes into arrays that exist where it can; PyTorch runs eagerly without gradients; tinylab
and tinygrad realize a lazy expression each time, so their times hold all that Python does for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
BIG = (4096, 4096)
ROWS = (4096, 1024)


def _numpy(name: str) -> Run:  # noqa: C901 (a table in disguise)
    import numpy as np

    rng = np.random.default_rng(0)

    def rand(*shape: int) -> Any:
        return rng.random(shape, dtype=np.float32)

    if name.startswith("matmul"):
        n = int(name.split("_")[1])
        a, b, out = rand(n, n), rand(n, n), rand(n, n)
        return lambda: np.matmul(a, b, out=out)
    if name == "softmax":
        x, out = rand(*ROWS), rand(*ROWS)

        def softmax() -> None:
            np.subtract(x, x.max(1, keepdims=True), out=out)
            np.exp(out, out=out)
            np.divide(out, out.sum(1, keepdims=True), out=out)

        return softmax
    if name == "layernorm":
        x, out = rand(*ROWS), rand(*ROWS)

        def layernorm() -> None:
            np.subtract(x, x.mean(1, keepdims=True), out=out)
            deviation = np.sqrt(np.einsum("ij,ij->i", out, out) / x.shape[1] + 1e-5)
            np.divide(out, deviation[:, None], out=out)

        return layernorm
    if name in ("row_sum", "column_sum"):
        x, axis = rand(*BIG), 1 if name == "row_sum" else 0
        return lambda: x.sum(axis)
    if name == "transpose":
        x, out = rand(*BIG), rand(*BIG)
        return lambda: np.copyto(out, x.T)
    if name == "add":
        x, y, out = rand(*BIG), rand(*BIG), rand(*BIG)
        return lambda: np.add(x, y, out=out)
    if name == "chain":
        x, y, out = rand(*BIG), rand(*BIG), rand(*BIG)

        def chain() -> None:
            np.multiply(x, y, out=out)
            np.add(out, 1, out=out)
            np.maximum(out, 0, out=out)
            np.sqrt(out, out=out)
            np.multiply(out, 0.5, out=out)
            np.subtract(out, x, out=out)

        return chain
    raise NotImplementedError(f"numpy has no {name}")


def _torch(name: str) -> Run:
    import torch
    import torch.nn.functional as f

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    rand = torch.rand
    if name.startswith("matmul"):
        n = int(name.split("_")[1])
        a, b, out = rand(n, n), rand(n, n), rand(n, n)
        return lambda: torch.matmul(a, b, out=out)
    if name == "softmax":
        x = rand(*ROWS)
        return lambda: x.softmax(1)
    if name == "layernorm":
        x = rand(*ROWS)
        return lambda: f.layer_norm(x, (ROWS[1],))
    if name in ("row_sum", "column_sum"):
        x, axis = rand(*BIG), 1 if name == "row_sum" else 0
        return lambda: x.sum(axis)
    if name == "transpose":
        x, out = rand(*BIG), rand(*BIG)
        return lambda: out.copy_(x.T)
    if name == "add":
        x, y, out = rand(*BIG), rand(*BIG), rand(*BIG)
        return lambda: torch.add(x, y, out=out)
    if name == "chain":
        x, y = rand(*BIG), rand(*BIG)
        return lambda: (x * y + 1).relu().sqrt() * 0.5 - x
    if name == "conv":
        x, w = rand(8, 32, 56, 56), rand(64, 32, 3, 3)
        return lambda: f.conv2d(x, w, padding=1)
    if name == "attention":
        q, k, v = rand(1, 8, 512, 64), rand(1, 8, 512, 64), rand(1, 8, 512, 64)
        return lambda: f.scaled_dot_product_attention(q, k, v)
    raise NotImplementedError(f"torch has no {name}")


def _lazy(library: str, name: str) -> Run:
    import importlib

    tensor = importlib.import_module(library).Tensor

    def rand(*shape: int) -> Any:
        return tensor.rand(*shape).realize()

    if name.startswith("matmul"):
        n = int(name.split("_")[1])
        a, b = rand(n, n), rand(n, n)
        return lambda: (a @ b).realize()
    if name == "conv":
        x, w = rand(8, 32, 56, 56), rand(64, 32, 3, 3)
        return lambda: x.conv2d(w, padding=1).realize()
    if name == "attention":
        q, k, v = rand(1, 8, 512, 64), rand(1, 8, 512, 64), rand(1, 8, 512, 64)
        return lambda: q.scaled_dot_product_attention(k, v).realize()
    if name in ("add", "chain"):
        x, y = rand(*BIG), rand(*BIG)
        if name == "add":
            return lambda: (x + y).realize()
        return lambda: ((x * y + 1).relu().sqrt() * 0.5 - x).realize()
    x = rand(*(ROWS if name in ("softmax", "layernorm") else BIG))
    runs: dict[str, Run] = {
        "softmax": lambda: x.softmax().realize(),
        "layernorm": lambda: x.layernorm().realize(),
        "row_sum": lambda: x.sum(1).realize(),
        "column_sum": lambda: x.sum(0).realize(),
        "transpose": lambda: x.T.contiguous().realize(),
    }
    return runs[name]


CASES = (
    "matmul_512", "matmul_1024", "matmul_2048", "softmax", "layernorm", "row_sum", "column_sum",
    "transpose", "add", "chain", "conv", "attention",
)  # fmt: skip


def make(library: str, name: str) -> Run:
    """A call that runs one case once.

    Raises: NotImplementedError where a library has nothing that does it.
    """
    if library == "numpy":
        return _numpy(name)
    return _torch(name) if library == "torch" else _lazy(library, name)

"""No method builds a graph that grows faster than it needs to: nodes and kernels for n and 4 n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tinylab import Context, Tensor
from tinylab.opcodes import Ops

# Large enough that whatever goes by way of sorting does.
N = 1 << 17


class Size(NamedTuple):
    """What one computation takes."""

    nodes: int
    kernels: int


def floats(n: int) -> Tensor:
    return Tensor.empty(n)


def places(n: int) -> Tensor:
    return Tensor.empty(n, dtype="int32")


def written(n: int) -> Tensor:
    t = Tensor.empty(n)
    t[places(n)] = floats(n)
    return t


# Constant graphs, whatever the size.
FLAT: dict[str, Callable[[int], Any]] = {
    "rand": lambda n: Tensor.rand(n),
    "arange": lambda n: Tensor.arange(n) + 1,
    "sum": lambda n: floats(n).sum(),
    "var": lambda n: floats(n).var(),
    "softmax": lambda n: floats(n).softmax(),
    "logsumexp": lambda n: floats(n).logsumexp(),
    "argmax": lambda n: floats(n).argmax(),
    "index": lambda n: floats(n)[places(n)],
    "index rows": lambda n: floats(4 * n).reshape(n, 4)[places(n)],
    "gather": lambda n: floats(n).gather(0, places(n)),
    "strided": lambda n: floats(n)[::-3],
    "one_hot": lambda n: places(n).one_hot(10),
    "roll": lambda n: floats(n).roll(5),
    "cat": lambda n: floats(n).cat(floats(n)),
    "repeat_interleave": lambda n: floats(n).repeat_interleave(3),
    "tril": lambda n: floats(n).reshape(-1, 256).tril(),
    "interpolate": lambda n: floats(n).reshape(1, 1, 256, -1).interpolate((300, n // 300)),
    "interpolate cubic gradient": lambda n: (
        lambda x: x.reshape(1, 1, 256, -1).interpolate((300, n // 300)).sum().gradient(x)[0]
    )(floats(n)),
    "max_pool2d": lambda n: floats(n).reshape(1, 1, 256, -1).max_pool2d(),
    "conv2d": lambda n: floats(n).reshape(1, 1, 256, -1).conv2d(Tensor.empty(4, 1, 3, 3)),
    "qr": lambda n: floats(n).reshape(-1, 4, 4).qr(),
    "qr wide": lambda n: floats(n).reshape(4, -1).qr(),
    "svd": lambda n: floats(n).reshape(-1, 2).svd(full_matrices=False),
    "cross_entropy": lambda n: floats(n).reshape(-1, 8).cross_entropy(places(n // 8)),
}

# A few nodes more for each doubling: 4 n has two more levels than n.
LEVELS: dict[str, Callable[[int], Any]] = {
    "cumsum": lambda n: floats(n).cumsum(),
    "cumprod": lambda n: floats(n).cumprod(0),
    "cummax": lambda n: floats(n).cummax(),
    "logcumsumexp": lambda n: floats(n).logcumsumexp(),
    "sort": lambda n: floats(n).sort(),
    "sort int64": lambda n: Tensor.empty(n, dtype="int64").sort(descending=True),
    "argsort": lambda n: floats(n).argsort(),
    "topk": lambda n: floats(n).topk(10),
    "randperm": lambda n: Tensor.randperm(n),
    "multinomial": lambda n: floats(n).multinomial(n, replacement=True),
    "masked_select": lambda n: floats(n).masked_select(floats(n) > 0, size=n // 2),
    "nonzero": lambda n: floats(n).nonzero(size=n // 2),
    "scatter": lambda n: floats(n).scatter(0, places(n), floats(n)),
    "scatter_reduce": lambda n: floats(n).scatter_reduce(0, places(n), floats(n), "sum"),
    "setitem": written,
    "gradient of index": lambda n: (lambda x: x[places(n)].sum().gradient(x)[0])(floats(n)),
    "gradient of gather": lambda n: (lambda x: x.gather(0, places(n)).sum().gradient(x)[0])(
        floats(n)
    ),
    "gradient of sort": lambda n: (lambda x: (x.sort()[0] * x).sum().gradient(x)[0])(floats(n)),
    "gradient of cumsum": lambda n: (lambda x: x.cumsum().square().sum().gradient(x)[0])(floats(n)),
}

# One node or a few for each operand.
OPERANDS: dict[str, Callable[[int], Any]] = {
    "stack": lambda n: Tensor.stack(*(Tensor.empty(1) for _ in range(n))),
    "cat": lambda n: Tensor.cat(*(Tensor.empty(300) for _ in range(n))),
    "sum of tensors": lambda n: sum(Tensor.empty(1) for _ in range(n)),
    "split": lambda n: Tensor.empty(n).split([1] * n),
    "writes": lambda n: _written_one_by_one(n),
}


def _written_one_by_one(n: int) -> Tensor:
    t = Tensor.empty(n)
    for i in range(n):
        t[i] = i
    return t


def measured(make: Callable[[int], Any], n: int) -> Size:
    with Context(DEV="NULL"):
        found = make(n)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        nodes = len(found[0].uop.sink(*(t.uop for t in found)).toposort())
        linear, _ = found[0].linear_with_vars(*found[1:])
    return Size(nodes, len(linear.src))


@pytest.mark.parametrize("name", FLAT)
def test_the_graph_does_not_grow_with_the_size(name: str) -> None:
    small, large = measured(FLAT[name], N), measured(FLAT[name], 4 * N)
    assert large.nodes <= small.nodes + 8
    assert large.kernels <= small.kernels + 1


@pytest.mark.parametrize("name", LEVELS)
def test_the_graph_grows_with_the_logarithm(name: str) -> None:
    small, large = measured(LEVELS[name], N), measured(LEVELS[name], 4 * N)
    assert large.nodes - small.nodes <= small.nodes / 4
    assert large.kernels - small.kernels <= 10
    assert large.kernels <= 110


@pytest.mark.parametrize("name", OPERANDS)
def test_the_graph_grows_with_the_number_of_operands(name: str) -> None:
    small, large = measured(OPERANDS[name], 64), measured(OPERANDS[name], 256)
    assert large.nodes <= 4.2 * small.nodes
    assert large.kernels <= 4.2 * small.kernels


@pytest.mark.parametrize("name", ["qr", "svd"])
def test_decompositions_are_as_many_kernels_for_any_size(name: str) -> None:
    small, large = (measured(lambda n: getattr(Tensor.empty(n, n), name)(), n) for n in (33, 120))
    assert large.nodes <= 1.2 * small.nodes
    assert max(small.kernels, large.kernels) <= 22


def test_sorting_takes_no_more_memory_than_a_few_copies() -> None:
    t = Tensor(np.arange(N, dtype=np.int32)[::-1].copy()).realize()
    found, places = t.sort()
    nodes = found.uop.sink(places.uop).toposort()
    stored = sum(u.dtype.itemsize * int(u.src[0].arg) for u in nodes if u.op is Ops.BUFFER)
    assert stored < 24 * N
    assert found.tolist() == list(range(N))

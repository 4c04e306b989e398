"""Small recorded programs for the tests of traces."""

from __future__ import annotations

from tinylab import Context, Tensor
from tinylab.trace.record import Record, record
from tinylab.uop.ops import PatternMatcher, Rule, UOp, UPat

X = UPat.var("x")
pm_tidy = PatternMatcher(
    [
        Rule("add_zero", "x + 0 -> x", X + 0, lambda x: x),
        Rule("mul_one", "x * 1 -> x", X * 1, lambda x: x),
        Rule("add_self", "x + x -> x * 2", X + X, lambda x: x * 2),
    ]
)


def variable(name: str = "n") -> UOp:
    return UOp.variable(name, 0, 100)


def chain(length: int) -> UOp:
    """A deep graph in which two of three nodes match a rule of `pm_tidy`."""
    x = variable("n")
    for i in range(length):
        x = (x + 0, x * 1, x + variable(f"v{i}"))[i % 3]
    return x.sink()


def recorded_attention(device: str = "NULL") -> Record:
    """A softmax over a matmul: several kernels, all stages, both walk directions."""
    with Context(DEV=device), record("attention") as made:
        q, k, v = (Tensor.empty(4, 8, 16) for _ in range(3))
        ((q @ k.transpose(1, 2)).softmax(-1) @ v).relu().realize()
    return made

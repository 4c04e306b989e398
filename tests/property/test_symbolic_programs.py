"""Random programs over parts of symbolic size, with traced functions, give what numpy gives.

Two buffers of twelve rows, of which the first n and m are looked at and written to; plain and
captured, where each call has other values of n and m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tinylab import Context, Tensor, TinyJit, Variable, function

ROWS = 12
N, M = Variable("n", 1, ROWS), Variable("m", 1, ROWS)
Array = Any


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(0))
    return e / e.sum(0)


# name -> (of some rows, the same in numpy)
BODIES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "softmax": (lambda x: x.softmax(0), softmax),
    "mixed": (lambda x: (x * 2 + x.sum(0)).relu(), lambda x: np.maximum(x * 2 + x.sum(0), 0)),
    "running": (lambda x: x.cumsum(0), lambda x: x.cumsum(0)),
    "products": (lambda x: x @ x.T @ x, lambda x: x @ x.T @ x),
    "rows": (lambda x: x.max(1, keepdim=True) + x, lambda x: x.max(1, keepdims=True) + x),
}
TRACED = {
    (name, precompile): body if precompile is None else function(body, precompile=precompile)
    for name, (body, _) in BODIES.items()
    for precompile in (None, False, True)
}


class Words(NamedTuple):
    """What the two languages write differently."""

    flip: Callable[[Any], Any]
    joined: Callable[[Any, Any], Any]
    turned: Callable[[Any], Any]
    copied: Callable[[Any], Any]


NUMPY = Words(
    lambda x: x[::-1], lambda x, y: np.concatenate([x, y]), lambda x: np.roll(x, 1, 0), np.copy
)
TINYLAB = Words(
    lambda x: x.flip(0), lambda x, y: x.cat(y), lambda x: x.roll(1, 0), lambda x: x.to("CPU:1")
)


class Place(NamedTuple):
    """What a step works on: two buffers, two sizes, a function, and the language."""

    a: Any
    b: Any
    n: Any
    m: Any
    f: Callable[[Any], Any]
    words: Words


def store(x: Any, key: Any, value: Any) -> None:
    x[key] = value


# fmt: off
READS: dict[str, Callable[[Place], Any]] = {
    "weigh": lambda p: (p.a[: p.n] * 0.5 + p.b[: p.n]).sum(0),
    "call": lambda p: p.f(p.a[: p.n] * 0.25).sum(0),
    "joined": lambda p: p.words.joined(p.a[: p.n], p.b[: p.m]).max(0),
    "copied": lambda p: (p.words.copied(p.a[: p.n]) + 1).sum(0),
}
WRITES: dict[str, Callable[[Place], None]] = {
    "reverse": lambda p: store(p.a, slice(0, p.n), p.b[: p.n] * 0.5 + p.words.flip(p.a[: p.n])),
    "row": lambda p: store(p.a, p.m - 1, p.b[0] * 0.5),
    "turn": lambda p: store(p.b, slice(0, p.m), p.words.turned(p.b[: p.m])),
    "add row": lambda p: store(p.a, p.n - 1, p.a[p.n - 1] + p.b[p.m - 1]),
    "add": lambda p: store(p.b, slice(0, p.n), p.b[: p.n] + p.a[: p.n] * 0.5),
    "flip": lambda p: store(p.b, slice(None), p.words.flip(p.a) * 0.5 + p.b * 0.5),
    "subtract": lambda p: store(p.b, slice(0, p.n), p.b[: p.n] - p.f(p.a[: p.n] * 0.25) * 0.125),
}
# fmt: on


class Step(NamedTuple):
    """What is done; body and how it is traced where a function is called."""

    kind: str
    body: str
    precompile: bool | None


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([*READS, *WRITES, "realize"]),
        st.sampled_from(sorted(BODIES)),
        st.sampled_from([None, False, True]),
    ),
    min_size=2,
    max_size=7,
)


def run(program: list[Step], a: Any, b: Any, n: Any, m: Any, words: Words) -> list[Any]:
    """What the steps give, in one of the languages."""
    outs: list[Any] = []
    for kind, body, precompile in program:
        f = TRACED[body, precompile] if words is TINYLAB else BODIES[body][1]
        place = Place(a, b, n, m, f, words)
        if kind in READS:
            outs.append(READS[kind](place))
        elif kind in WRITES:
            WRITES[kind](place)
        elif outs and words is TINYLAB:
            outs[-1].realize()
    return outs


def close(found: Tensor, expected: Array) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("jit", [0, 1, 2])
@settings(max_examples=max(settings().max_examples // 8, 1))
@given(
    program=STEPS, sizes=st.lists(st.tuples(*[st.integers(1, ROWS)] * 2), min_size=3, max_size=4)
)
def test_programs_give_what_numpy_gives(
    jit: int, program: list[Step], sizes: list[tuple[int, int]]
) -> None:
    rng = np.random.default_rng(len(program))
    arrays = [rng.standard_normal((ROWS, 4)).astype(np.float32) for _ in range(2)]
    a, b = (Tensor(x).realize() for x in arrays)

    @TinyJit
    def step(a: Tensor, b: Tensor, n: Any, m: Any) -> list[Tensor]:
        outs = run(program, a, b, n, m, TINYLAB)
        return [*(o.contiguous().realize() for o in outs), a.realize() * 1, b.realize() * 1]

    kept: list[tuple[Tensor, Array]] = []
    for n, m in sizes:
        expected = run(program, *arrays, n, m, NUMPY)
        with Context(JIT=jit):
            now = (a, b, N.bind(n), M.bind(m))
            outs = (step(*now) if jit else run(program, *now, TINYLAB))[: len(expected)]
        kept += zip(outs, expected, strict=True)
        close(a, arrays[0])
        close(b, arrays[1])
    for out, value in kept:
        close(out, value)

"""Program order decides: random programs of expressions and in-place writes, against numpy.

An expression built before a write sees the old value and one built after it the new, whichever is
realised first, and what was handed out keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tinylab import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
SCALE = settings().max_examples // 100
ROWS, COLUMNS = 3, 4
REALIZES = ["realize", "together"]
KINDS = ["derive", "derive", "view", "alias", "combine", "assign", "rows", "add", *REALIZES]
# Writes that wait for one another, of which some are pulled in by what is realised.
CROSSING = ["swap", "combine", "assign", "assign", "derive", "realize"]


class Program:
    """Tensors and what numpy says they hold; `log` tells how they came about."""

    def __init__(self, draw: Draw, device: str, most: int = 2) -> None:
        self.draw, self.device = draw, device
        self.stored: list[tuple[Tensor, np.ndarray]] = []
        self.derived: list[tuple[Tensor, np.ndarray]] = []
        self.log: list[str] = []
        for n in range(draw(st.integers(1, most))):
            array = np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(ROWS, COLUMNS) * (n + 1)
            self.stored.append((Tensor(array.copy(), device=device).contiguous().realize(), array))

    def any(self) -> tuple[Tensor, np.ndarray]:
        return self.draw(st.sampled_from(self.stored + self.derived))

    def number(self, x: Tensor) -> str:
        for name, values in (("s", self.stored), ("d", self.derived)):
            for n, (t, _) in enumerate(values):
                if t is x:
                    return f"{name}{n}"
        return "?"

    def step(self, kinds: list[str]) -> None:
        getattr(self, self.draw(st.sampled_from(kinds)))()

    def derive(self) -> None:
        x, a = self.any()
        k = self.draw(st.integers(1, 3))
        self.log.append(f"d{len(self.derived)} = {self.number(x)} * 2 + {k}")
        self.derived.append((x * 2 + k, a * 2 + k))

    def view(self) -> None:
        x, a = self.any()
        if self.draw(st.booleans()):
            self.log.append(f"d{len(self.derived)} = {self.number(x)}.flip(0)")
            self.derived.append((x.flip(0), a[::-1].copy()))
        else:
            self.log.append(f"d{len(self.derived)} = {self.number(x)}.sum(0, keepdim) expanded")
            total = a.sum(0, keepdims=True).astype(np.int32)
            self.derived.append(
                (x.sum(0, keepdim=True).expand(ROWS, COLUMNS), total + np.zeros_like(a))
            )

    def alias(self) -> None:
        x, a = self.any()
        same = self.draw(st.sampled_from(["contiguous", "detach", "clone"]))
        self.log.append(f"d{len(self.derived)} = {self.number(x)}.{same}()")
        y = getattr(x, same)()
        if y is not x:  # what is contiguous already is its own contiguous()
            self.derived.append((y, a.copy()))

    def combine(self) -> None:
        (x, a), (y, b) = self.any(), self.any()
        self.log.append(f"d{len(self.derived)} = {self.number(x)} + {self.number(y)}")
        self.derived.append((x + y, a + b))

    def assign(self) -> None:
        (target, a), (x, b) = self.draw(st.sampled_from(self.stored)), self.any()
        self.log.append(f"{self.number(target)}.assign({self.number(x)} + 1)")
        target.assign(x + 1)
        a[...] = b + 1

    def swap(self) -> None:
        (x, a), (y, b) = (self.draw(st.sampled_from(self.stored)) for _ in range(2))
        self.log.append(f"swap {self.number(x)} and {self.number(y)}")
        was = x + 0
        x.assign(y + 0)
        y.assign(was)
        a[...], b[...] = b.copy(), a.copy()

    def rows(self) -> None:
        (target, a), (x, b) = self.draw(st.sampled_from(self.stored)), self.any()
        start = self.draw(st.integers(0, ROWS - 1))
        stop = self.draw(st.integers(start + 1, ROWS))
        self.log.append(
            f"{self.number(target)}[{start}:{stop}] = {self.number(x)}[:{stop - start}] * 3"
        )
        target[start:stop] = x[: stop - start] * 3
        a[start:stop] = (b[: stop - start] * 3).copy()

    def add(self) -> None:
        (target, a), (x, b) = self.draw(st.sampled_from(self.stored)), self.any()
        self.log.append(f"{self.number(target)} += {self.number(x)}.flip(1)")
        target.assign(target + x.flip(1))
        a[...] = a + b[:, ::-1]

    def realize(self) -> None:
        x, _ = self.any()
        self.log.append(f"{self.number(x)}.realize()")
        x.realize()

    def together(self) -> None:
        (x, _), (y, _) = self.any(), self.any()
        self.log.append(f"{self.number(x)}.realize({self.number(y)})")
        x.realize(y)

    def check(self) -> None:
        order = self.draw(st.permutations(self.stored + self.derived))
        for x, a in order:
            self.log.append(f"{self.number(x)}.numpy()")
            story = "\n".join(self.log)
            try:
                found = x.numpy()
            except RuntimeError as refused:
                raise AssertionError(f"{refused}\n{story}") from refused
            np.testing.assert_array_equal(found, a, story)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@settings(max_examples=60 * SCALE)
@given(data=st.data())
def test_program_order_decides(device: str, data: st.DataObject) -> None:
    program = Program(data.draw, device)
    for _ in range(data.draw(st.integers(1, 8))):
        program.step(KINDS)
    program.check()


@settings(max_examples=60 * SCALE)
@given(data=st.data())
def test_crossing_writes_keep_program_order(data: st.DataObject) -> None:
    program = Program(data.draw, "CPU", most=3)
    for _ in range(data.draw(st.integers(3, 9))):
        program.step(CROSSING)
    program.check()

"""A run that ends in the middle leaves right values: random programs, ended at a random kernel.

Whatever it was (Ctrl-C before a kernel or behind it, a kernel that fails), the same may be asked
for again, and every value is numpy's. After a Ctrl-C none is lost. After a kernel that fails one
may be, seldom (1 to 2 of 1000 values here): it says so.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.engine.ending import ending
from tests.property.test_in_place import CROSSING, KINDS, SCALE, Program
from tinylab import Context, Tensor
from tinylab.errors import BufferError, LostValueError

ENDS = ["interrupted before", "interrupted behind", "fails"]


class Ended(Program):
    """A program of which some runs end early."""

    def run(self, *tensors: Tensor) -> None:
        at, how = self.draw(st.integers(0, 6)), self.draw(st.sampled_from(ENDS))
        self.log.append(f"  {how} kernel {at}")
        try:
            with ending(at, how=how):
                tensors[0].realize(*tensors[1:])
        except (KeyboardInterrupt, RuntimeError):
            self.log.append("  which ended it")
            if self.draw(st.booleans()):
                self.realized(*tensors)

    def realized(self, *tensors: Tensor) -> None:
        try:
            tensors[0].realize(*tensors[1:])
        except LostValueError:
            self.log.append("  lost")

    def realize(self) -> None:
        x, _ = self.any()
        self.log.append(f"{self.number(x)}.realize()")
        self.run(x)

    def together(self) -> None:
        (x, _), (y, _) = self.any(), self.any()
        self.log.append(f"{self.number(x)}.realize({self.number(y)})")
        self.run(x, y)

    def check(self) -> None:
        for x, a in self.draw(st.permutations(self.stored + self.derived)):
            story = "\n".join([*self.log, f"{self.number(x)}.numpy()"])
            try:
                found = x.numpy()
            except LostValueError:
                assert any("  fails" in line for line in self.log), story
                continue
            except RuntimeError as refused:
                raise AssertionError(f"{refused}\n{story}") from refused
            np.testing.assert_array_equal(found, a, story)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("kinds", [KINDS, CROSSING], ids=["any", "crossing"])
@settings(max_examples=60 * SCALE)
@given(data=st.data())
def test_values_are_right_after_a_run_that_ended_early(
    device: str, kinds: list[str], data: st.DataObject
) -> None:
    program = Ended(data.draw, device, most=3)
    for _ in range(data.draw(st.integers(3, 9))):
        program.step(kinds)
    program.check()


class Limited(Program):
    """A program of which some runs find no memory; what waits is tried again and again."""

    def realize(self) -> None:
        x, _ = self.any()
        limit = self.draw(st.sampled_from([0, 2, 5, 9, 13]))
        self.log.append(f"{self.number(x)}.realize() with buffers of {limit}")
        try:
            with Context(MAX_BUFFER_SIZE=limit):
                x.realize()
        except BufferError:
            self.log.append("  which was too little")

    together = realize


@settings(max_examples=60 * SCALE)
@given(data=st.data())
def test_values_are_right_after_runs_without_memory(data: st.DataObject) -> None:
    program = Limited(data.draw, "CPU", most=3)
    for _ in range(data.draw(st.integers(3, 12))):
        program.step(KINDS)
    program.check()

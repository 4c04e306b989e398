"""Random kernels under random opts, and those that heuristics choose, against the oracle."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from tests.codegen.kernels import run, those_that_apply
from tests.codegen.random_kernels import RandomKernel, random_kernel, random_opts
from tests.codegen.test_opts import scheduler
from tests.oracle import run_kernel
from tinylab.codegen.opt import Opt
from tinylab.helpers.context import Context

SEEDS = st.integers(0, (1 << 32) - 1)


def assert_exact(made: RandomKernel, device: str, opts: tuple[Opt, ...] | None) -> None:
    """The kernel gives what the oracle gives, bit for bit but for the sign of zeros."""
    wanted = [a.copy() for a in made.arrays]
    with np.errstate(all="ignore"):
        run_kernel(made.plain, wanted, made.variables)
    kernel = made.kernel.replace(arg=made.kernel.arg._replace(opts_to_apply=opts))
    for got, array in zip(run(kernel, made.arrays, device, made.variables), wanted, strict=True):
        np.testing.assert_array_equal(got, array)


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(("CPU", "PYTHON")))
def test_random_kernels(seed: int, device: str) -> None:
    r = random.Random(seed)
    made = random_kernel(r)
    assert_exact(made, device, None)
    with Context(NUM_CPU_THREADS=4):
        opts = those_that_apply(scheduler(made.kernel, device), random_opts(r))
        assert_exact(made, device, opts)


def test_random_kernels_are_of_many_kinds() -> None:
    """A seed is a kernel for good, and few of the kernels of a run are like each other."""
    found = [random_kernel(random.Random(seed)) for seed in range(50)]
    assert random_kernel(random.Random(7)).kernel is found[7].kernel
    assert len({made.kernel for made in found}) == 50

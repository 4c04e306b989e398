"""What tests of types that a target lacks share: kernels with emulation against the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from tests.codegen.kernels import Array, param, run, sink
from tests.oracle import run_kernel
from tinylab.codegen import do_to_program
from tinylab.device import Device
from tinylab.dtype import DType, dtypes
from tinylab.helpers.context import Context
from tinylab.uop.ops import UOp


def emulated(kernel: UOp, arrays: Sequence[Array], device: str, setting: str) -> list[Array]:
    """The arrays after a kernel ran with types emulated, none of which is left in the program."""
    gone = {getattr(dtypes, name) for name in setting.split(",")}
    with Context(EMULATED_DTYPES=setting):
        program = do_to_program(kernel, Device[device].renderer)
        assert not [u for u in program.src[1].src if u.dtype in gone]
        return run(kernel, arrays, device)


def checked(
    kernel: UOp, arrays: Sequence[Array], device: str, setting: str, names: Sequence[str] = ()
) -> None:
    """A kernel with emulation against the oracle, bit by bit but for NaN; arrays have names."""
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    got = emulated(kernel, arrays, device, setting)
    for a, b, name in zip_longest(got, wanted, names, fillvalue=""):
        np.testing.assert_array_equal(a, b, err_msg=name)


def pairs_of(x: Array, most: int | None = None) -> tuple[Array, Array]:
    """Every value with every value; at most so many of them."""
    a, b = (t.ravel() for t in np.meshgrid(x, x))
    if most is None:
        return a, b
    some = np.random.default_rng(1).permutation(len(a))[:most]
    return a[some], b[some]


def cast_between(source: DType, target: DType, x: Array) -> tuple[UOp, list[Array]]:
    """A kernel that casts each element, and its arrays."""
    return casts_between([source], [target], [x])


def casts_between(
    sources: Sequence[DType], targets: Sequence[DType], arrays: Sequence[Array]
) -> tuple[UOp, list[Array]]:
    """A kernel that casts each array to a type, over one range; its arrays, results first."""
    n = max(len(x) for x in arrays)
    arrays, i, effects = [np.resize(x, n) for x in arrays], UOp.range(n, 0), []
    for k, (source, target) in enumerate(zip(sources, targets, strict=True)):
        found = param(k + len(arrays), n, source).index(i).cast(target)
        effects.append(param(k, n, target).index(i).store(found).end(i))
    return sink(*effects), [*(np.zeros(n, d.name) for d in targets), *arrays]

"""What tests of types that a target lacks share: kernels with emulation against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from tests.codegen.kernels import Array, param, run, sink
from tests.oracle import run_kernel
from tinylab.codegen import do_to_program
from tinylab.codegen.opt import Opt, OptOps
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


class Mixture(NamedTuple):
    """What random kernels on values of some types are made of.

    casts: the types on the way. operations: of two values of one type. numbers: constants. most: by
    how many bits is shifted. choose: makes a third value out of two integers of one type.
    """

    types: Sequence[DType]
    casts: Sequence[DType]
    operations: Sequence[Callable[[UOp, UOp], UOp]]
    numbers: Sequence[int]
    most: int
    choose: Callable[[UOp, UOp], UOp]


def drawn_kernel(
    draw: st.DrawFn, m: Mixture, values: Callable[[DType], Array]
) -> tuple[UOp, list[Array]]:
    """A kernel of random operations on values of each type, and its arrays."""
    n, i = 32, UOp.range(32, 0)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    arrays = [rng.permutation(values(d))[:n] for d in m.types]
    known = [param(k + 1, n, d).index(i) for k, d in enumerate(m.types)]
    for _ in range(draw(st.integers(1, 8))):
        x = known[draw(st.integers(0, len(known) - 1))]
        y = known[draw(st.integers(0, len(known) - 1))].cast(x.dtype)
        known.append(_drawn(draw, m, x, y))
    out = known[-1].cast(draw(st.sampled_from(m.types)))
    width = draw(st.sampled_from([0, 4, 8, 16]))
    opts = [Opt(OptOps.UPCAST, 0, width)] if width else []
    kernel = sink(param(0, n, out.dtype).index(i).store(out).end(i), opts=opts)
    return kernel, [np.zeros(n, out.dtype.name), *arrays]


def _drawn(draw: st.DrawFn, m: Mixture, x: UOp, y: UOp) -> UOp:
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return x.cast(draw(st.sampled_from(m.casts)))
    if x.dtype is dtypes.bool:
        return x ^ y
    if not dtypes.is_int(x.dtype):
        return x * 0.75 + y
    if kind == 1:
        operation = draw(st.sampled_from(m.operations))
        return operation(x, y) if x.dtype in m.types else x * y + 1
    if kind == 2:
        number = draw(st.sampled_from(m.numbers)) & (int(x.dtype.max) >> 1)
        return (x // max(number, 1)) ^ (y + number) * (x % max(number, 1))
    if kind == 3:
        return (x >> draw(st.integers(0, m.most))) | (y << draw(st.integers(0, m.most)))
    return m.choose(x, y)

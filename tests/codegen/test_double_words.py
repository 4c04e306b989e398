"""Doubles computed on their bits: every operation gives the bits that the hardware gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.emulation import pairs_of
from tests.codegen.kernels import KERNELS, matmul, param, random_arrays, row_reduce, run, sink
from tests.oracle import run_kernel
from tinylab import Context, Tensor
from tinylab.codegen import do_to_program
from tinylab.codegen.opt import Opt, OptOps
from tinylab.device import Device
from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

F64 = dtypes.float64
ON = [("CPU", "double"), ("CPU", "double,long,ulong"), ("PYTHON", "double")]
Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values(some: int = 40) -> Array:
    """Edges of every kind, random bits, near neighbours, and denormals of every length."""
    rng = np.random.default_rng(0)
    edges = [
        0.0, 1.0, 1.5, 3.0, 0.1, 1 / 3, 1e300, 1e154, 1e-162, 1e-300, 5e-324, 1e-320, 3e-310,
        2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, np.inf, np.nan,
        1 + 2**-52, 1 - 2**-53, 2.0**52, 2.0**53, 2.0**53 - 1, 4503599627370497.5, 0.999999,
        1 + 2**-24, 1 + 2**-24 + 2**-52, 65519.999, 65520.0, 2.0**-149, 2.0**-150, 2.0**-150 * 1.01,
        2.0**-126 * (1 - 2**-25), 3.4028235677973366e38, 3.4028235677973362e38, 2.0**31, 2.0**63,
        2.0**64, 2.0**63 - 1024, 2.0**64 - 2048, 4294967295.5,
    ]  # fmt: skip
    neighbours = 1 + rng.integers(0, 4, some) * 2.0**-52
    found = [
        np.array(edges),
        rng.integers(0, 2**63, some).view(np.float64),
        rng.normal(size=some),
        rng.normal(size=some) * 2.0 ** rng.integers(-1070, -1000, some),
        rng.normal(size=some) * 2.0 ** rng.integers(-160, 140, some),
        neighbours * 2.0 ** rng.integers(-55, 55, some),
    ]
    x = np.concatenate(found)
    return np.concatenate([x, -x])


def computed(
    f: Callable[..., UOp], arrays: tuple[Array, ...], device: str, emulated: str, out: DType = F64
) -> Array:
    """What a kernel gives with emulation; no double is left in it."""
    n, i = len(arrays[0]), UOp.range(len(arrays[0]), 0)
    sources = [getattr(dtypes, a.dtype.name) for a in arrays]
    x = [param(k + 1, n, d).index(i) for k, d in enumerate(sources)]
    kernel = sink(param(0, n, out).index(i).store(f(*x)).end(i))
    with Context(EMULATED_DTYPES=emulated):
        program = do_to_program(kernel, Device[device].renderer)
        assert not [u for u in program.src[1].src if u.dtype is F64]
        return run(kernel, [np.zeros(n, out.name), *arrays], device)[0]


def same_bits(got: Array, wanted: Array) -> None:
    """Equal, the sign of zero included; one NaN is like another."""
    np.testing.assert_array_equal(got, wanted)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got) & (got == 0), np.signbit(wanted) & (got == 0))


OPERATIONS: dict[str, tuple[Callable[..., UOp], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "subtract": (lambda x, y: x.alu(Ops.SUB, y), np.subtract),
    "multiply": (lambda x, y: x * y, np.multiply),
    "divide": (lambda x, y: x.alu(Ops.FDIV, y), np.divide),
    "square_root": (lambda x, y: x.sqrt(), lambda x, y: np.sqrt(x)),
    "reciprocal": (lambda x, y: x.reciprocal(), lambda x, y: 1 / x),
    "truncate": (lambda x, y: x.alu(Ops.TRUNC), lambda x, y: np.trunc(x)),
    "negate": (lambda x, y: x.alu(Ops.NEG), lambda x, y: -x),
    "less": (lambda x, y: (x < y).cast(F64), lambda x, y: (x < y).astype(np.float64)),
    "differ": (lambda x, y: x.ne(y).cast(F64), lambda x, y: (x != y).astype(np.float64)),
    "equal": (
        lambda x, y: x.alu(Ops.CMPEQ, y).cast(F64),
        lambda x, y: (x == y).astype(np.float64),
    ),
    "maximum": (lambda x, y: x.alu(Ops.MAX, y) + 0.0, lambda x, y: np.maximum(x, y) + 0.0),
    "where": (lambda x, y: (x < y).where(x, y), lambda x, y: np.where(x < y, x, y)),
}


@pytest.mark.parametrize(("device", "emulated"), ON)
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_operation(name: str, device: str, emulated: str) -> None:
    operation, wanted = OPERATIONS[name]
    a, b = pairs_of(values(), 40_000 if device == "CPU" else 300)
    got = computed(operation, (a, b), device, emulated)
    if name == "maximum":  # of zeros of both signs, either
        got = got + 0.0
    same_bits(got, wanted(a, b))


OTHERS = [
    dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float16,
]  # fmt: skip


@pytest.mark.parametrize(("device", "emulated"), ON)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_casts(other: DType, device: str, emulated: str) -> None:
    x = values()
    n, i = len(x), UOp.range(len(x), 0)
    to = sink(param(0, n, other).index(i).store(param(1, n, F64).index(i).cast(other)).end(i))
    wanted = [np.zeros(n, other.name), x]
    run_kernel(to, wanted)
    same_bits(computed(lambda x: x.cast(other), (x,), device, emulated, other), wanted[0])
    if dtypes.is_float(other):
        back = x.astype(other.name)
    elif other is dtypes.bool:
        back = np.array([True, False])
    else:
        rng = np.random.default_rng(2)
        low, high = int(other.min), int(other.max)
        some = rng.integers(low, high, 60, other.name, endpoint=True)
        shorter = some >> rng.integers(0, other.bits, 60).astype(other.name)
        back = np.concatenate([np.array([0, 1, low, high], other.name), some, shorter])
    same_bits(computed(lambda x: x.cast(F64), (back,), device, emulated), back.astype(np.float64))


def test_small_floats_round_once() -> None:
    """A double above the middle of two halves by less than float32 sees is above it."""
    x = np.array([1 + 2**-11, 1 + 2**-11 + 2**-45, 1 + 2**-11 - 2**-45, 1e300, 70000.0, 2.0**-25])
    with Context(EMULATED_DTYPES="double,half"):
        found = Tensor(x).cast("half").cast("float32").tolist()
        whole = Tensor([2049, 70000, -(2**31)], dtype=dtypes.int32).cast("half").tolist()
    assert found == [1.0, 1 + 2**-10, 1.0, np.inf, np.inf, 0.0]
    assert whole == [2048.0, np.inf, -np.inf]


def test_bits() -> None:
    x = values()[~np.isnan(values())]
    for emulated in ("double", "double,long"):
        with Context(EMULATED_DTYPES=emulated):
            bits = (Tensor(x).bitcast("int64") + 0).numpy()
            same_bits((Tensor(x.view(np.int64)) + 0).bitcast("float64").numpy(), x)
        np.testing.assert_array_equal(bits, x.view(np.int64))


UPCAST, UNROLL = OptOps.UPCAST, OptOps.UNROLL


@pytest.mark.parametrize("opts", [[], [Opt(UPCAST, 0, 2), Opt(UNROLL, 0, 4)]])
@pytest.mark.parametrize("name", ["matmul", "sum", "max", "product"])
def test_kernels_with_opts(name: str, opts: list[Opt]) -> None:
    kernels = {"sum": Ops.ADD, "max": Ops.MAX, "product": Ops.MUL}
    plain = matmul(4, 4, 8, F64) if name == "matmul" else row_reduce(kernels[name], 4, 8, F64)
    kernel = plain.replace(arg=plain.arg._replace(opts_to_apply=tuple(opts)))
    for device in ("CPU", "PYTHON"):
        arrays = random_arrays(kernel)
        wanted = [a.copy() for a in arrays]
        run_kernel(plain, wanted)
        with Context(EMULATED_DTYPES="double"):
            got = run(kernel, arrays, device)
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-14)


FUNCTIONS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "exp": ("CPU", lambda x: x.exp()),
    "log": ("PYTHON", lambda x: x.abs().log()),
    "power": ("PYTHON", lambda x: x.abs() ** 1.7),
    "remainder": ("PYTHON", lambda x: x % 3),
    "sin_of_float": ("PYTHON", lambda x: x.cast("float32").sin()),
    "power_of_float": ("PYTHON", lambda x: x.cast("float32").abs() ** 0.7),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name: str) -> None:
    """Polynomials in double, and functions of float32 that go by way of a double."""
    device, function = FUNCTIONS[name]
    x = np.array([-2.5, 0.0, 0.7, 40.0])
    wanted = function(Tensor(x, device=device)).numpy()
    with Context(EMULATED_DTYPES="double", NOOPT=1):
        found = function(Tensor(x, device=device)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-14 if found.dtype == np.float64 else 1e-7)


def test_kernels_of_other_types_stay_as_they_are() -> None:
    kernel, ren = KERNELS["softmax"](), Device["CPU"].renderer
    text = do_to_program(kernel, ren).src[2].arg
    with Context(EMULATED_DTYPES="double"):
        assert do_to_program(kernel, ren).src[2].arg == text

"""64-bit integers as pairs of words: every operation against the oracle, and on equals off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.codegen.emulation import Mixture, cast_between, checked, drawn_kernel, pairs_of
from tests.codegen.kernels import matmul, param, row_reduce, run, sink
from tinylab import Context, Tensor, Variable
from tinylab.codegen import do_to_program
from tinylab.codegen.opt import Opt, OptOps
from tinylab.device import Device
from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.errors import CodegenError
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

LONGS = (dtypes.int64, dtypes.uint64)
SETTINGS = ("long", "ulong", "long,ulong")
ON = [("CPU", e) for e in SETTINGS] + [("PYTHON", "long,ulong")]
BOTH = [one for one in ON if one[1] == "long,ulong"]
Two = Callable[[UOp, UOp], UOp]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values(dtype: DType, some: int = 24) -> np.ndarray:
    """Edges of both words and of floats' precision, and random numbers of every length."""
    powers = (1, 2, 7, 8, 15, 16, 24, 31, 32, 33, 40, 48, 53, 62, 63)
    near = [0, 3, 5, 10] + [2**k + d for k in powers for d in (-1, 0, 1)]
    near += [2**62 + 2**38 + d for d in (-1, 0, 1)] + [2**25 + 2, 2**25 + 6, 2**54 + 2, 2**54 + 6]
    near += [-x for x in near] + [2**64 - x for x in (1, 2, 1024, 1025, 2**39, 2**39 + 1)]
    low, high = int(dtype.min), int(dtype.max)
    rng = np.random.default_rng(0)
    found = rng.integers(low, high, some, dtype.name, endpoint=True)
    shorter = found >> rng.integers(0, 63, some).astype(dtype.name)
    edges = np.array(sorted({x for x in near if low <= x <= high} | {low, high}), dtype.name)
    return np.concatenate([edges, found, shorter])


OPERATIONS: dict[str, Two] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "negative": lambda x, y: x.alu(Ops.NEG) + y,
    "bits": lambda x, y: (x & y) ^ (x | 12345678912345) ^ (x ^ y),
    "maximum": lambda x, y: x.alu(Ops.MAX, y),
    "less": lambda x, y: (x < y).cast(x.dtype),
    "differ": lambda x, y: x.ne(y).cast(x.dtype),
    "equal": lambda x, y: x.alu(Ops.CMPEQ, y).cast(x.dtype),
    "where": lambda x, y: (y < 1000).where(x, y * 3),
    "cdiv": lambda x, y: x.alu(Ops.CDIV, y),
    "cmod": lambda x, y: x.alu(Ops.CMOD, y),
    "floordiv": lambda x, y: x // y,
    "floormod": lambda x, y: x % y,
    "by_constants": lambda x, y: x // 7 + x % 10 + y // (1 << 33) + y % ((1 << 40) + 1) + x // 8,
    "threefry": lambda x, y: UOp(
        Ops.THREEFRY, dtypes.uint64, (x.cast("uint64"), y.cast("uint64"))
    ).cast(x.dtype),
}


@pytest.mark.parametrize(("device", "emulated"), ON)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_operation(name: str, dtype: DType, device: str, emulated: str) -> None:
    a, b = pairs_of(values(dtype), None if device == "CPU" else 200)
    i = UOp.range(len(a), 0)
    x, y = (param(slot, len(a), dtype).index(i) for slot in (1, 2))
    kernel = sink(param(0, len(a), dtype).index(i).store(OPERATIONS[name](x, y)).end(i))
    checked(kernel, [np.zeros_like(a), a, b], device, emulated)


@pytest.mark.parametrize(("device", "emulated"), ON)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
def test_shifts(dtype: DType, device: str, emulated: str) -> None:
    """By every amount, also beyond the width, variable and constant."""
    x = np.repeat(values(dtype, 4)[::3], 70)
    by = np.resize(np.arange(70), len(x)).astype(dtype.name)
    n, i = len(x), UOp.range(len(x), 0)
    a, b = (param(slot, n, dtype).index(i) for slot in (2, 3))
    constants = sum(((a << k) ^ (a >> k) for k in (0, 1, 5, 31, 32, 33, 63, 64)), a)
    found = [a << b, (a >> b) ^ constants]
    kernel = sink(*(param(s, n, dtype).index(i).store(v).end(i) for s, v in enumerate(found)))
    checked(kernel, [np.zeros_like(x), np.zeros_like(x), x, by], device, emulated)


OTHERS = [
    d for d in (dtypes.bool, *dtypes.ints, *dtypes.floats)
    if d not in (*dtypes.fp8s, dtypes.bfloat16)
]  # fmt: skip


@pytest.mark.parametrize(("device", "emulated"), BOTH)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_casts_to(other: DType, dtype: DType, device: str, emulated: str) -> None:
    checked(*cast_between(dtype, other, values(dtype)), device, emulated)


def numbers(dtype: DType) -> np.ndarray:
    """Values of a type to cast from: around the ends of 64-bit integers and their words."""
    if dtype is dtypes.bool:
        return np.array([False, True])
    if dtypes.is_int(dtype):
        low, high = int(dtype.min), int(dtype.max)
        return np.array([x for x in (low, -1, 0, 1, 77, high) if low <= x <= high], dtype.name)
    near = [2.0**k * f for k in (0, 16, 31, 32, 33, 52, 62, 63, 64, 65, 100) for f in (1, 1.5)]
    near += [0.5, 0.999, 1e-40, 5e-324, 4294967295.5, 2.0**63 - 1024, 2.0**64 - 2048, np.inf]
    return np.array([0.0, *near, *(-x for x in near), np.nan]).astype(dtype.name)


@pytest.mark.parametrize(("device", "emulated"), BOTH)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_casts_from(other: DType, dtype: DType, device: str, emulated: str) -> None:
    checked(*cast_between(other, dtype, numbers(other)), device, emulated)


@pytest.mark.parametrize("emulated", ["long", "ulong"])
@pytest.mark.parametrize("other", [*LONGS, dtypes.float32, dtypes.int32], ids=str)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
def test_casts_where_one_of_two_is_there(dtype: DType, other: DType, emulated: str) -> None:
    checked(*cast_between(dtype, other, values(dtype)), "CPU", emulated)
    checked(*cast_between(other, dtype, numbers(other)), "CPU", emulated)


@pytest.mark.parametrize("small", [dtypes.float16, dtypes.bfloat16, *dtypes.fp8s], ids=str)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
def test_small_floats_round_once(dtype: DType, small: DType) -> None:
    """From all 64 bits: just above the middle between two neighbours is above it."""
    edges = values(dtype)
    wanted = Tensor(edges.astype(np.longdouble).astype(np.float64)).cast(small).cast("float64")
    x = [int(v) for v in edges]
    ties = [i for i, v in enumerate(x) if float(v) != v]  # rounded by float64 already
    with Context(EMULATED_DTYPES="long,ulong,half,bfloat16"):
        found = Tensor(edges).cast(small).cast("float64").numpy()
    kept = np.setdiff1d(np.arange(len(x)), ties)
    np.testing.assert_array_equal(found[kept], wanted.numpy()[kept])


@pytest.mark.parametrize("emulated", ["long,bfloat16", "bfloat16", "double,bfloat16"])
def test_a_bit_beyond_double_decides(emulated: str) -> None:
    """2**62 + 2**54 is the middle of two bfloat16; one more is above it."""
    middle = 2**62 + 2**54
    with Context(EMULATED_DTYPES=emulated):
        found = Tensor([middle - 1, middle, middle + 1]).cast("bfloat16").cast("float64").tolist()
    assert found == [2.0**62, 2.0**62, 2.0**62 + 2.0**55]


@pytest.mark.parametrize(("device", "emulated"), ON)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
def test_bits_of_doubles(dtype: DType, device: str, emulated: str) -> None:
    rng = np.random.default_rng(3)
    some = rng.integers(0, 2**63, 200, np.int64)
    edges = [0, 1, 2**52 - 1, 2**52, 2**62, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000]
    raw = np.concatenate([some, np.array(edges)]).astype(np.int64)
    raw = np.concatenate([raw, raw | np.int64(-(2**63))])
    raw = raw[~np.isnan(raw.view(np.float64))]
    n, i = len(raw), UOp.range(len(raw), 0)
    double, bits = param(2, n, dtypes.float64).index(i), param(3, n, dtype).index(i)
    kernel = sink(
        param(0, n, dtype).index(i).store(double.bitcast(dtype)).end(i),
        param(1, n, dtypes.float64).index(i).store(bits.bitcast(dtypes.float64)).end(i),
    )
    numbers, longs = raw.view(np.float64), raw.view(dtype.name)
    with Context(EMULATED_DTYPES=emulated):
        got = run(kernel, [np.zeros_like(longs), np.zeros_like(numbers), numbers, longs], device)
    np.testing.assert_array_equal(got[0], longs)
    np.testing.assert_array_equal(got[1].view(np.int64), raw)


# *** memory, registers, lanes, opts


UPCAST, UNROLL, GROUP, LOCAL = OptOps.UPCAST, OptOps.UNROLL, OptOps.GROUP, OptOps.LOCAL
OPTS = [
    ("CPU", []),
    ("CPU", [Opt(UPCAST, 0, 4)]),
    ("CPU", [Opt(UNROLL, 0, 8)]),
    ("CPU", [Opt(UPCAST, 0, 2), Opt(UNROLL, 0, 4)]),
    ("CPU", [Opt(OptOps.PADTO, 1, 32), Opt(UNROLL, 0, 16)]),
    ("PYTHON", [Opt(GROUP, 0, 4), Opt(LOCAL, 0, 2)]),
    ("PYTHON", [Opt(OptOps.GROUPTOP, 0, 8), Opt(UPCAST, 0, 2)]),
]


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("dtype", LONGS, ids=str)
@pytest.mark.parametrize(("device", "opts"), OPTS)
def test_reduces_with_opts(device: str, opts: list[Opt], dtype: DType, op: Ops) -> None:
    x = np.resize(values(dtype), 8 * 24)
    if op is Ops.MUL:
        x |= 1
    kernel = row_reduce(op, 8, 24, dtype)
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=tuple(opts)))
    checked(kernel, [np.zeros(8, dtype.name), x], device, "long,ulong")


@pytest.mark.parametrize("opts", [[], [Opt(UPCAST, 1, 4), Opt(UNROLL, 0, 4), Opt(UPCAST, 0, 2)]])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_matmul(device: str, opts: list[Opt]) -> None:
    kernel = matmul(4, 8, 8, dtypes.int64)
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=tuple(opts)))
    arrays = [np.zeros(32, np.int64), values(dtypes.int64)[:32], values(dtypes.int64)[-64:]]
    checked(kernel, arrays, device, "long")


@pytest.mark.parametrize("width", [0, 4, 16])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_what_a_gate_closes(device: str, width: int) -> None:
    """Padding, a flip, and a store that leaves elements alone."""
    i, n = UOp.range(16, 0), 10
    inside = (i >= 3) & (i < n + 3)
    x = param(2, n, dtypes.int64)
    padded = x.index((i - 3).valid(inside)) * 3 + 1
    flipped = param(3, 16, dtypes.int64).index(i * -1 + 15)
    kernel = sink(
        param(0, 16, dtypes.int64).index(i).store(padded).end(i),
        param(1, 16, dtypes.int64).index(i.valid(i < 13)).store(flipped).end(i),
        opts=[Opt(UPCAST, 0, width)] if width else [],
    )
    some = values(dtypes.int64)
    arrays = [np.zeros(16, np.int64), np.full(16, 2**50), some[:n], some[-16:]]
    checked(kernel, arrays, device, "long")


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_constant_word_in_lanes(device: str) -> None:
    """The low word of x << 63 is 0 in every lane, also as a value of another type."""
    i, n = UOp.range(64, 0), 64
    x = param(2, n, dtypes.uint64).index(i)
    kernel = sink(
        param(0, n, dtypes.int16).index(i).store((x << 63).cast(dtypes.int16)).end(i),
        param(1, n, dtypes.bool).index(i).store((x << 63).alu(Ops.CMPEQ, x << 40)).end(i),
        opts=[Opt(UPCAST, 0, 4), Opt(UPCAST, 0, 4)],
    )
    arrays = [np.ones(n, np.int16), np.ones(n, bool), values(dtypes.uint64)[:n]]
    checked(kernel, arrays, device, "ulong")


def test_registers_read_by_element() -> None:
    i, j = UOp.range(4, 0), UOp.range(4, 1)
    acc = UOp.placeholder((4,), dtypes.int64, 0, AddrSpace.REG)
    filled = acc.after(acc.index(i).store(param(1, 4, dtypes.int64).index(i) * 5).end(i))
    kernel = sink(param(0, 4, dtypes.int64).index(j).store(filled.index(j * -1 + 3)).end(j))
    x = np.array([2**40, -1, 7, -(2**35)])
    for device in ("CPU", "PYTHON"):
        with Context(EMULATED_DTYPES="long"):
            got = run(kernel, [np.zeros(4, np.int64), x], device)
        assert got[0].tolist() == (x * 5)[::-1].tolist()


def test_indices_are_narrow_and_what_they_cannot_reach_is_refused() -> None:
    size = 2**31 + 8
    i = UOp.range(8, 0)
    wide = sink(
        param(0, size, dtypes.int8).index(i + 2**31).store(UOp.const(1, dtypes.int8)).end(i)
    )
    long = sink(
        param(0, 2**30, dtypes.int64).index(i * 2**26).store(UOp.const(1, dtypes.int64)).end(i)
    )
    at = param(1, 8, dtypes.int64).index(i)
    found = sink(param(0, size, dtypes.int8).index(at).store(UOp.const(1, dtypes.int8)).end(i))
    ren = Device["CPU"].renderer
    for kernel in (wide, long, found):
        do_to_program(kernel, ren)
        with (
            Context(EMULATED_DTYPES="long"),
            pytest.raises(CodegenError, match=r"CPU has no int64, and an index .* is not emulated"),
        ):
            do_to_program(kernel, ren)


def test_a_long_picks_an_element() -> None:
    with Context(EMULATED_DTYPES="long"):
        picked = Tensor([10, 20, 30, 40])[Tensor([3, -1, 0], dtype=dtypes.int64)]
        assert picked.tolist() == [40, 40, 10]


# *** tensors


def trial(x: Tensor, y: Tensor) -> list[Any]:
    many = x.reshape(-1, 4)
    n = Variable("n", 1, 8).bind(3)
    found = [
        many.sum(0), many.prod(1), many.max(1), many.min(), x.argmax(), x.cumsum(), x.sort()[0],
        x.argsort(), x**3, x.pad((3, 2)), many @ y.reshape(4, -1), x.abs(), x.sign(), x / y,
        x.bitwise_not(), x.logical_not(), (x < y).where(x, -y), x.div(y, rounding_mode="trunc"),
        x.bitcast("int32"), (x + 1).bitcast("int32").bitcast("int64"), x.cast("double").sqrt(),
        many.shrink(((0, n), (0, 4))).sum(), Tensor.arange(9, dtype=x.dtype) * 2**40,
    ]  # fmt: skip
    return [t.tolist() for t in found]


@pytest.mark.parametrize("noopt", [0, 1])
@pytest.mark.parametrize("emulated", SETTINGS)
@pytest.mark.parametrize("dtype", LONGS, ids=str)
def test_tensors(dtype: DType, emulated: str, noopt: int) -> None:
    x = values(dtype)[:64]
    y = np.roll(x, 5)
    wanted = trial(Tensor(x), Tensor(y))
    with Context(EMULATED_DTYPES=emulated, NOOPT=noopt):
        found = trial(Tensor(x), Tensor(y))
    assert str(found) == str(wanted)  # NaN included


@pytest.mark.parametrize("emulated", [*SETTINGS, "long,ulong,half"])
def test_random_numbers_are_the_same(emulated: str) -> None:
    def draws() -> list[Any]:
        Tensor.manual_seed(3)
        some = [Tensor.rand(5), Tensor.randint(5, high=1000), Tensor.rand(3, dtype="double")]
        return [t.tolist() for t in some]

    wanted = draws()
    with Context(EMULATED_DTYPES=emulated):
        assert draws() == wanted


@pytest.mark.parametrize("emulated", SETTINGS)
def test_functions_that_take_doubles_apart(emulated: str) -> None:
    x = np.array([1e-300, 0.3, 2.5, 1e5, 1e300])
    with Context(TRANSCENDENTAL=2):
        wanted = [Tensor(x).sin().numpy(), Tensor(x).log().numpy(), (Tensor(x) ** 0.7).numpy()]
        with Context(EMULATED_DTYPES=emulated):
            found = [Tensor(x).sin().numpy(), Tensor(x).log().numpy(), (Tensor(x) ** 0.7).numpy()]
    np.testing.assert_array_equal(found, wanted)


# *** random programs: on equals off

MIXTURE = Mixture(
    LONGS,
    [*dtypes.ints, dtypes.float32],
    list(OPERATIONS.values())[:-2],
    [0, 1, 2, 3, 7, 31, 32, 100, 255, 65535, 2**31 - 1, 2**31, 2**40 + 3],
    63,
    lambda x, y: (x < y).where(x + 1, y),
)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[UOp, list[np.ndarray]]:
    """A kernel of random operations on values of every integer type."""
    return drawn_kernel(draw, MIXTURE, values)


@settings(max_examples=40, deadline=None)
@given(expressions(), st.sampled_from(SETTINGS))
def test_random_programs(case: tuple[UOp, list[np.ndarray]], emulated: str) -> None:
    kernel, arrays = case
    wanted = run(kernel, arrays)
    with Context(EMULATED_DTYPES=emulated):
        got = run(kernel, arrays)
    np.testing.assert_array_equal(got[0], wanted[0])


def test_nothing_changes_when_nothing_is_emulated() -> None:
    kernel, ren = matmul(4, 8, 8, dtypes.int64), Device["CPU"].renderer
    text = do_to_program(kernel, ren).src[2].arg
    with Context(EMULATED_DTYPES="half"):
        assert do_to_program(kernel, ren).src[2].arg == text
    with Context(EMULATED_DTYPES="long"):
        assert do_to_program(kernel, ren).src[2].arg != text

"""Integers of 8 and 16 bits in 32: every operation against the oracle, and on equals off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.codegen.emulation import (
    Mixture,
    casts_between,
    checked,
    drawn_kernel,
    emulated,
    pairs_of,
)
from tests.codegen.kernels import Array, matmul, param, row_reduce, run, sink
from tests.oracle import pack, unpack
from tinylab import Context, Tensor, Variable
from tinylab.codegen import do_to_program
from tinylab.codegen.narrow_ints import wrapped
from tinylab.codegen.opt import Opt, OptOps
from tinylab.device import Device
from tinylab.dtype import AddrSpace, DType, dtypes, truncate
from tinylab.errors import CodegenError
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp

I8, U8, I16, U16, I32 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32
NARROW = (I8, U8, I16, U16)
# On the CPU a type lies as the one of the other sign, on PYTHON 16 bits as two bytes.
ON = [(I8, "CPU", "char"), (U8, "CPU", "uchar"), (I16, "CPU", "short"), (U16, "CPU", "ushort")]
ON += [(I8, "PYTHON", "char,short,ushort"), (U8, "PYTHON", "uchar,short,long")]
ON += [(d, "PYTHON", "short,ushort") for d in (I16, U16)]
EACH = pytest.mark.parametrize(("dtype", "device", "setting"), ON)
# Each way to lie in memory: bytes are of either sign.
LYING = [
    (I8, "char"), (U8, "uchar"), (I16, "short"), (U16, "ushort"), (I16, "short,ushort"),
    (U16, "short,ushort"), (I16, "uchar,short,ushort"), (U16, "uchar,short,ushort"),
]  # fmt: skip
IN_MEMORY = pytest.mark.parametrize(("dtype", "setting"), LYING)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values(dtype: DType, some: int = 40) -> Array:
    """The ends of every type that fits, what is beside them, and random numbers."""
    near = [s * (1 << k) + d for k in (0, 1, 2, 7, 8, 15, 16) for d in (-1, 0, 1) for s in (1, -1)]
    near += [3, 10, 77, 200, -100]
    low, high = int(dtype.min), int(dtype.max)
    edges = sorted({x for x in near if low <= x <= high} | {low, high})
    found = np.random.default_rng(0).integers(low, high, some, dtype.name, endpoint=True)
    return np.concatenate([np.array(edges, dtype.name), found])


def every(dtype: DType) -> Array:
    """All values of a type."""
    return np.arange(int(dtype.min), int(dtype.max) + 1).astype(dtype.name)


# *** operations


OPERATIONS: dict[str, Callable[[UOp, UOp], UOp]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "subtract_at_once": lambda x, y: x.alu(Ops.SUB, y),
    "multiply": lambda x, y: x * y,
    "multiply_and_add": lambda x, y: UOp(Ops.MULACC, x.dtype, (x, y, x)),
    "negative": lambda x, y: x.alu(Ops.NEG),
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "invert": lambda x, y: x ^ -1,
    "maximum": lambda x, y: x.alu(Ops.MAX, y),
    "less": lambda x, y: (x < y).cast(x.dtype),
    "differ": lambda x, y: x.ne(y).cast(x.dtype),
    "equal": lambda x, y: x.alu(Ops.CMPEQ, y).cast(x.dtype),
    "where": lambda x, y: (y < 100).where(x, y * 3),
    "trunc": lambda x, y: x.alu(Ops.TRUNC) + y,
    "cdiv": lambda x, y: x.alu(Ops.CDIV, y),
    "cmod": lambda x, y: x.alu(Ops.CMOD, y),
    "floordiv": lambda x, y: x // y,
    "floormod": lambda x, y: x % y,
    "by_constants": lambda x, y: x // 7 + x % 10 + y // 100 + y % 33 + x // 8 + y % 16,
    "square": lambda x, y: x.alu(Ops.POW, x.const_like(2)) - y,
    "power": lambda x, y: x.alu(Ops.POW, y & 7),
    "by_parts": lambda x, y: (x + y) // 2 - ((x * y) >> 1) * ((x << 2) % 5),
}


@EACH
def test_operations(dtype: DType, device: str, setting: str) -> None:
    """All in one kernel; on the CPU of every pair of 8 bits. What is stored asks for all bits."""
    x = every(dtype) if dtype.itemsize == 1 and device == "CPU" else values(dtype)
    a, b = pairs_of(x, None if device == "CPU" else 200)
    n, i, count = len(a), UOp.range(len(a), 0), len(OPERATIONS)
    left, right = (param(count + k, n, dtype).index(i) for k in (0, 1))
    found = [f(left, right) for f in OPERATIONS.values()]
    found = [v ^ (v // 3) for v in found]
    kernel = sink(*(param(k, n, dtype).index(i).store(v).end(i) for k, v in enumerate(found)))
    checked(kernel, [*(np.zeros_like(a) for _ in found), a, b], device, setting, [*OPERATIONS])


@EACH
def test_shifts(dtype: DType, device: str, setting: str) -> None:
    """By every amount, also negative and beyond the width, variable and constant."""
    amounts = [k for k in range(-3, 40) if k >= dtype.min]
    x = np.repeat(values(dtype, 4)[::2], len(amounts))
    by = np.resize(amounts, len(x)).astype(dtype.name)
    n, i = len(x), UOp.range(len(x), 0)
    a, b = (param(slot, n, dtype).index(i) for slot in (2, 3))
    constants = sum(((a << k) ^ (a >> k) for k in (0, 1, 5, 7, 8, 15, 16, 31)), a)
    found = [a << b, (a >> b) ^ constants]
    kernel = sink(*(param(s, n, dtype).index(i).store(v).end(i) for s, v in enumerate(found)))
    checked(kernel, [np.zeros_like(x), np.zeros_like(x), x, by], device, setting)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_wrapped_value_is_the_one_that_the_type_holds(dtype: DType) -> None:
    numbers = [int(n) for n in values(I32)]
    signed = not dtypes.is_unsigned(dtype)
    for n in numbers:
        word = UOp.const(n, I32 if signed else dtypes.uint32)
        found = wrapped(word, dtype).simplify()
        assert found.arg == truncate[dtype](n)


# *** casts and bits


OTHERS = [
    d for d in (dtypes.bool, *dtypes.ints, *dtypes.floats)
    if d not in (*dtypes.fp8s, dtypes.bfloat16)
]  # fmt: skip


def numbers(dtype: DType) -> Array:
    """Values of a type to cast from: around the ends of the narrow types, and far beyond."""
    if dtype is dtypes.bool:
        return np.array([False, True])
    if dtypes.is_int(dtype):
        return values(dtype)
    near = [2.0**k + d for k in (0, 7, 8, 15, 16, 31, 32, 63) for d in (-1, -0.5, 0, 0.5, 1)]
    near += [0.25, 0.999, 1e-30, 300.7, 1e6, 3e38, 1e300, np.inf]
    return np.array([0.0, *near, *(-x for x in near), np.nan]).astype(dtype.name)


@EACH
def test_casts(dtype: DType, device: str, setting: str) -> None:
    """Wraps from integers, holds floats between the ends, NaN is 0."""
    x = every(dtype) if device == "CPU" else values(dtype)
    checked(*casts_between([dtype] * len(OTHERS), OTHERS, [x] * len(OTHERS)), device, setting)
    found = [numbers(d) for d in OTHERS]
    checked(*casts_between(OTHERS, [dtype] * len(OTHERS), found), device, setting)


SMALL = (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)
WITH_FLOATS = [
    "half,ushort", "half,short,ushort", "short,ushort", "char,half,short,long", "uchar,bfloat16",
    "bfloat16,short,ushort,uchar", "half,bfloat16,char,ushort,double,long,ulong",
]  # fmt: skip


def casts_and_bits(x: Tensor, small: DType) -> list[Any]:
    """A value through a small float and back; NaN payloads are not looked at."""
    same = [d for d in NARROW if d.itemsize == small.itemsize]
    cast = x.cast(small)
    found = [cast, cast.cast(x.dtype), cast.bitcast(same[0]).bitcast(small), (x > 1).where(cast, 1)]
    found += [(cast * 2 + 1).cast(d) for d in NARROW]
    if x.dtype.itemsize == small.itemsize:
        bits = x.bitcast(small)
        found += [bits, bits.cast("float32"), (bits != bits).where(0, bits).bitcast(x.dtype)]
    return [t.tolist() for t in found]


@pytest.mark.parametrize("small", SMALL, ids=str)
@pytest.mark.parametrize("setting", WITH_FLOATS)
@pytest.mark.parametrize("dtype", [I8, U16], ids=str)
def test_small_floats_beside_narrow_integers(dtype: DType, setting: str, small: DType) -> None:
    x = Tensor(values(dtype))
    wanted = casts_and_bits(x, small)
    with Context(EMULATED_DTYPES=setting):
        assert str(casts_and_bits(x, small)) == str(wanted)


@pytest.mark.parametrize("setting", WITH_FLOATS)
def test_native_small_floats_on_python(setting: str) -> None:
    """PYTHON has them all: their bits are those of the other sign, or worked out."""
    for small in SMALL:
        same = [d for d in NARROW if d.itemsize == small.itemsize]
        wanted = np.array([0.0, -0.0, 1.0, -2.5, 0.0625, 448, -1e9, 2**-20, np.inf])
        raw = pack(unpack(pack(wanted, small), small), small)
        n, i = len(raw), UOp.range(len(raw), 0)
        x = param(2, n, small).index(i)
        bits = x.bitcast(same[0])
        kernel = sink(
            param(0, n, same[1]).index(i).store(x.bitcast(same[1])).end(i),
            param(1, n, small).index(i).store((bits + 1 - 1).bitcast(small)).end(i),
        )
        arrays = [np.zeros_like(raw), np.zeros_like(raw), raw]
        got = emulated(kernel, arrays, "PYTHON", setting)
        np.testing.assert_array_equal(got[0], raw)
        np.testing.assert_array_equal(got[1], raw)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_bits_of_a_native_half_without_integers_of_its_width(device: str) -> None:
    """By arithmetic: each value, both zeros, denormals; a NaN keeps its sign only."""
    raw = every(U16) if device == "CPU" else every(U16)[::97]
    n, i = len(raw), UOp.range(len(raw), 0)
    half, bits = param(2, n, dtypes.float16).index(i), param(3, n, I16).index(i)
    kernel = sink(
        param(0, n, U16).index(i).store(half.bitcast(U16)).end(i),
        param(1, n, dtypes.float16).index(i).store(bits.bitcast(dtypes.float16)).end(i),
    )
    halves = raw.view(np.float16)
    arrays = [np.zeros_like(raw), np.zeros_like(halves), halves, raw.view(np.int16)]
    got = emulated(kernel, arrays, device, "short,ushort")
    known = ~np.isnan(halves)
    np.testing.assert_array_equal(got[0][known], raw[known])
    np.testing.assert_array_equal(got[1].view(np.uint16)[known], raw[known])
    assert (np.isnan(got[0].view(np.float16)) == ~known).all()
    assert (np.isnan(got[1]) == ~known).all()


@pytest.mark.parametrize("small", dtypes.fp8s, ids=str)
def test_bits_of_native_fp8_without_bytes(small: DType) -> None:
    """In registers only: from and to integers of 32 bits in memory."""
    n, i = 256, UOp.range(256, 0)
    raw = np.arange(-128, 128, dtype=np.int32)
    number = param(2, n, I32).index(i).cast(I8).bitcast(small)
    kernel = sink(
        param(0, n).index(i).store(number.cast(dtypes.float32)).end(i),
        param(1, n, I32).index(i).store(number.bitcast(U8).cast(I32)).end(i),
    )
    got = emulated(kernel, [np.zeros(n, np.float32), raw * 0, raw], "PYTHON", "char,uchar")
    wanted = unpack(raw.astype(np.uint8), small)
    np.testing.assert_array_equal(got[0], wanted.astype(np.float32))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(got[1][known], (raw & 255)[known])


@EACH
def test_bits_of_integers(dtype: DType, device: str, setting: str) -> None:
    x = values(dtype)
    other = next(d for d in NARROW if d.itemsize == dtype.itemsize and d is not dtype)
    n, i = len(x), UOp.range(len(x), 0)
    bits = param(1, n, dtype).index(i).bitcast(other)
    kernel = sink(param(0, n, I32).index(i).store(bits.cast(I32)).end(i))
    checked(kernel, [np.zeros(n, np.int32), x], device, setting)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_bits_of_truth_values(device: str) -> None:
    flags = np.array([True, False, True])
    i = UOp.range(3, 0)
    bits = param(2, 3, dtypes.bool).index(i).bitcast(U8)
    kernel = sink(
        param(0, 3, U8).index(i).store(bits + 254).end(i),
        param(1, 3, dtypes.bool).index(i).store(bits.bitcast(dtypes.bool)).end(i),
    )
    got = emulated(kernel, [np.zeros(3, np.uint8), ~flags, flags], device, "uchar")
    assert got[0].tolist() == [255, 254, 255]
    assert got[1].tolist() == flags.tolist()


# *** memory, registers, lanes, opts


UPCAST, UNROLL, GROUP, LOCAL = OptOps.UPCAST, OptOps.UNROLL, OptOps.GROUP, OptOps.LOCAL
OPTS = [
    ("CPU", []),
    ("CPU", [Opt(UPCAST, 0, 4)]),
    ("CPU", [Opt(UNROLL, 0, 8)]),
    ("CPU", [Opt(UPCAST, 0, 2), Opt(UNROLL, 0, 4)]),
    ("CPU", [Opt(OptOps.PADTO, 1, 32), Opt(UNROLL, 0, 16)]),
    ("CPU", [Opt(OptOps.THREAD, 0, 2)]),
    ("PYTHON", [Opt(GROUP, 0, 4), Opt(LOCAL, 0, 2)]),
    ("PYTHON", [Opt(OptOps.GROUPTOP, 0, 8), Opt(UPCAST, 0, 2)]),
]


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@IN_MEMORY
@pytest.mark.parametrize(("device", "opts"), OPTS)
def test_reduces_with_opts(
    device: str, opts: list[Opt], dtype: DType, setting: str, op: Ops
) -> None:
    x = np.resize(values(dtype), 8 * 24)
    if op is Ops.MUL:
        x |= 1
    kernel = row_reduce(op, 8, 24, dtype)
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=tuple(opts)))
    checked(kernel, [np.zeros(8, dtype.name), x], device, setting)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_memory_of_a_workgroup_needs_no_bytes(op: Ops) -> None:
    """It is the program's own, so that 8 bits fill a word there."""
    i, r = UOp.range(4, 0), UOp.range(24, 1, AxisType.REDUCE)
    x = param(1, 4 * 24, I32).index(i * 24 + r).cast(I8)
    found = x.reduce(r, arg=op).cast(I32)
    kernel = sink(param(0, 4, I32).index(i).store(found).end(i), opts=[Opt(GROUP, 0, 4)])
    arrays = [np.zeros(4, np.int32), np.resize(values(I16).astype(np.int32), 4 * 24) | 1]
    checked(kernel, arrays, "PYTHON", "char,uchar")


@pytest.mark.parametrize("opts", [[], [Opt(UPCAST, 1, 4), Opt(UNROLL, 0, 4), Opt(UPCAST, 0, 2)]])
@IN_MEMORY
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_matmul(device: str, dtype: DType, setting: str, opts: list[Opt]) -> None:
    kernel = matmul(4, 8, 8, dtype)
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=tuple(opts)))
    arrays = [np.zeros(32, dtype.name), values(dtype)[:32], values(dtype, 64)[-64:]]
    checked(kernel, arrays, device, setting)


@pytest.mark.parametrize("width", [0, 4, 16])
@IN_MEMORY
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_what_a_gate_closes(device: str, dtype: DType, setting: str, width: int) -> None:
    """Padding with 0 and with another number, a flip, and a store that leaves elements alone."""
    i, n = UOp.range(16, 0), 10
    inside = (i >= 3) & (i < n + 3)
    x = param(3, n, dtype).index((i - 3).valid(inside))
    flipped = param(4, 16, dtype).index(i * -1 + 15)
    kernel = sink(
        param(0, 16, dtype).index(i).store(x * 3 + 1).end(i),
        param(1, 16, dtype).index(i.valid(i < 13)).store(flipped).end(i),
        param(2, 16, dtype).index(i).store(inside.where(x, x.const_like(-77))).end(i),
        opts=[Opt(UPCAST, 0, width)] if width else [],
    )
    some, zeros = values(dtype), np.zeros(16, dtype.name)
    arrays = [zeros, np.full(16, 99, dtype.name), zeros.copy(), some[:n], some[-16:]]
    checked(kernel, arrays, device, setting)


@pytest.mark.parametrize("width", [0, 8])
@IN_MEMORY
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_narrow_integers_pick_elements(device: str, dtype: DType, setting: str, width: int) -> None:
    """An index that is itself narrow, into memory of its own type: a gather where it is lanes."""
    i, n = UOp.range(16, 0), 100
    at = param(2, 16, dtype).index(i)
    kernel = sink(
        param(0, 16, dtype).index(i).store(param(1, n, dtype).index(at)).end(i),
        opts=[Opt(UPCAST, 0, width)] if width else [],
    )
    places = (np.arange(16) * 37 % n).astype(dtype.name)
    arrays = [np.zeros(16, dtype.name), np.resize(values(dtype), n), places]
    checked(kernel, arrays, device, setting)


@pytest.mark.parametrize(("dtype", "setting"), [*LYING, (I8, "char,uchar")])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_registers_are_32_bits_wide(device: str, dtype: DType, setting: str) -> None:
    """Also of a type that has no place in the target's memory."""
    i, j = UOp.range(4, 0), UOp.range(4, 1)
    acc = UOp.placeholder((4,), dtype, 0, AddrSpace.REG)
    some = param(1, 4, I32).index(i).cast(dtype)
    filled = acc.after(acc.index(i).store(some * 5).end(i))
    kernel = sink(param(0, 4, I32).index(j).store(filled.index(j * -1 + 3).cast(I32)).end(j))
    arrays = [np.zeros(4, np.int32), np.array([40, -1, 7000, -30], np.int32)]
    wanted = run(kernel, arrays, device)
    np.testing.assert_array_equal(emulated(kernel, arrays, device, setting)[0], wanted[0])
    assert wanted[0].tolist() == [truncate[dtype](5 * n) for n in (-30, 7000, -1, 40)]


def test_variables_may_be_narrow() -> None:
    """They are handed over as any integer, and wide in the kernel."""
    n = Variable("n", -100, 100, I16)
    with Context(EMULATED_DTYPES="short,ushort"):
        assert (Tensor([1, 2, 400], dtype=I16) * Tensor(n.bind(-93))).tolist() == [-93, -186, 28336]
    k = UOp.variable("k", -100, 100, I16, param=True)
    i = UOp.range(4, 0)
    kernel = sink(param(0, 4, I16).index(i).store(param(1, 4, I16).index(i) * k).end(i))
    with Context(EMULATED_DTYPES="short"):
        program = do_to_program(kernel, Device["CPU"].renderer)
    assert [u.dtype for u in program.src[1].src if u.op is Ops.PARAM and u.arg.name == "k"] == [I32]


# *** what is refused


REFUSED = [
    ("char,uchar", I8, "CPU has neither int8 nor uint8"),
    ("char,uchar", U8, "CPU has neither uint8 nor int8"),
    ("char,uchar", dtypes.fp8e5m2, "CPU has neither uint8 nor int8"),
    (
        "char,uchar,short,ushort",
        I16,
        "CPU has neither int16 nor uint16, nor bytes to make them of",
    ),
    (
        "half,char,uchar,short,ushort",
        dtypes.float16,
        "CPU has neither uint16 nor int16, nor bytes to make them of",
    ),
]


@pytest.mark.parametrize(("setting", "dtype", "fact"), REFUSED)
@pytest.mark.parametrize("stored", [True, False])
def test_memory_that_threads_would_share(
    setting: str, dtype: DType, fact: str, stored: bool
) -> None:
    i = UOp.range(4, 0)
    source, target = (I32, dtype) if stored else (dtype, I32)
    x = param(1, 4, source).index(i).cast(target)
    kernel = sink(param(0, 4, target).index(i).store(x).end(i))
    with Context(EMULATED_DTYPES=setting), pytest.raises(CodegenError) as refusal:
        do_to_program(kernel, Device["CPU"].renderer)
    assert str(refusal.value) == (
        f"{fact}: several would share a word, of which threads cannot each write a part"
        "\nhelp: keep such values in memory as int32 or uint32"
    )


def test_an_index_that_32_bits_do_not_hold() -> None:
    """Bytes are twice as many as elements: the index grows, unless 64 bits are lacking too."""
    i = UOp.range(8, 0)
    at = param(1, 8, I32).index(i)
    kernel = sink(param(0, 2**30 + 8, I16).index(at).store(UOp.const(1, I16)).end(i))
    ren = Device["CPU"].renderer
    with Context(EMULATED_DTYPES="short,ushort"):
        lines = do_to_program(kernel, ren).src[1].src
    assert any(u.op is Ops.MUL and u.dtype is dtypes.int64 for u in lines)
    with (
        Context(EMULATED_DTYPES="short,ushort,long"),
        pytest.raises(CodegenError, match=r"and an index into 1073741832 elements of int16 is not"),
    ):
        do_to_program(kernel, ren)


def test_bits_in_pieces_are_refused() -> None:
    i = UOp.range(8, 0)
    x = param(1, 8, I32).index(i).cast(I16)
    pieces = UOp.stack(x, x).bitcast(I32).index(UOp.const(0))
    kernel = sink(param(0, 8, I32).index(i).store(pieces).end(i))
    with (
        Context(EMULATED_DTYPES="short"),
        pytest.raises(CodegenError, match="CPU has no int16, and int16 as the bits of int32 is"),
    ):
        do_to_program(kernel, Device["CPU"].renderer)


@pytest.mark.parametrize("setting", ["short", "short,ushort"])
def test_text_of_a_users_own_is_refused(setting: str) -> None:
    """Whether it gives a narrow integer, or takes one or the address of one."""
    i = UOp.range(8, 0)
    x, out = param(1, 8, I16).index(i), param(0, 8, I16).index(i)
    value = UOp(Ops.CUSTOMI, I16, (x,), "({0} + 1)")
    texts = [out.store(value), UOp(Ops.CUSTOM, dtypes.void, (out, x), "*{0} = {1};")]
    for effect, op in zip(texts, ("CUSTOMI", "CUSTOM"), strict=True):
        with (
            Context(EMULATED_DTYPES=setting),
            pytest.raises(CodegenError, match=f"and {op} of int16 is not emulated"),
        ):
            do_to_program(sink(effect.end(i)), Device["CPU"].renderer)


def test_a_narrow_loop() -> None:
    i = UOp.range(UOp.const(8, I16), 0, dtype=I16)
    kernel = sink(param(0, 8, I16).index(i).store(i * 7000).end(i))
    checked(kernel, [np.zeros(8, np.int16)], "CPU", "short")


def test_nothing_changes_when_nothing_is_emulated() -> None:
    kernel, ren = matmul(4, 8, 8, I8), Device["CPU"].renderer
    text = do_to_program(kernel, ren).src[2].arg
    with Context(EMULATED_DTYPES="short,ushort"):
        assert do_to_program(kernel, ren).src[2].arg == text
    with Context(EMULATED_DTYPES="char"):
        assert do_to_program(kernel, ren).src[2].arg != text


# *** tensors


def trial(x: Tensor, y: Tensor) -> list[Any]:
    """What tensor programs make of narrow integers."""
    many = x.reshape(-1, 4)
    width = U8 if x.dtype.itemsize == 1 else U16
    n = Variable("n", 1, 8).bind(3)
    places = x.cast("int32") % len(x)
    changed = (x + 0).contiguous().realize()
    changed[3:9] = y[:6]
    changed[20] = 5
    found = [
        many.sum(0), many.prod(1), many.max(1), many.min(), x.argmax(), x.argmin(), x.cumsum(),
        x.sort()[0], x.argsort(), x.topk(5)[0], x**3, x ** (y & 3), x.pad((3, 2), value=7),
        many @ y.reshape(4, -1), x.abs(), x.sign(), x / y, x.bitwise_not(), x.logical_not(), -x,
        (x < y).where(x, -y), x.div(y, rounding_mode="trunc"), x // y, x % y, x << (y & 7),
        x >> (y & 7), x[places], x.gather(0, places), changed, x[::-2], x.cat(y), x.roll(5),
        x.clip(3, 100), x.maximum(y), x.minimum(y), many.mean(1), many.any(1), many.all(0),
        x.bitcast(width), x.bitcast("int8"), x.bitcast("int32"), x.bitcast("int64"),
        many.T.contiguous(), x.masked_fill(x > y, 7), many.shrink(((0, n), (0, 4))).sum(),
        Tensor.arange(20, dtype=x.dtype) * 7, x.cast("float32").exp().cast(x.dtype),
        *(x.cast(d).cast(x.dtype) for d in (*dtypes.ints, *dtypes.floats, dtypes.bool)),
    ]  # fmt: skip
    return [(t.dtype, t.tolist()) for t in found]


COMBINED = [
    (I8, "char,half,short,long"), (U8, "uchar,ushort,double,bfloat16,ulong"),
    (U16, "half,short,ushort,long"),
]  # fmt: skip
TRIALS = [(d, s, 0) for d, s in (*LYING[:3], *LYING[5:7], *COMBINED)]
TRIALS += [(d, s, 1) for d, s in (LYING[0], LYING[4])]


@pytest.mark.parametrize(("dtype", "setting", "noopt"), TRIALS)
def test_tensors(dtype: DType, setting: str, noopt: int) -> None:
    x = values(dtype, 64)[-64:]
    y = np.roll(values(dtype, 64)[:64], 5)
    wanted = trial(Tensor(x), Tensor(y))
    with Context(EMULATED_DTYPES=setting, NOOPT=noopt):
        found = trial(Tensor(x), Tensor(y))
    assert str(found) == str(wanted)  # NaN included


# *** random programs: on equals off


def _chosen(x: UOp, y: UOp) -> UOp:
    other = next((d for d in NARROW if d.itemsize == x.dtype.itemsize), x.dtype)
    return (x.bitcast(other) < y.bitcast(other)).where(x + 1, y >> (x & 31))


MIXTURE = Mixture(
    NARROW,
    [*dtypes.ints, dtypes.float32, dtypes.float16, dtypes.bool],
    [f for name, f in OPERATIONS.items() if "power" not in name],
    [0, 1, 2, 3, 7, 8, 9, 31, 100, 127, 128, 255, 32767, 65535],
    20,
    _chosen,
)
GONE = [
    "char", "uchar", "short", "ushort", "short,ushort", "char,short", "uchar,ushort",
    "char,short,ushort", "uchar,half,short,ushort", "char,long,ulong,short,ushort",
]  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn) -> tuple[UOp, list[Array]]:
    """A kernel of random operations on values of every type, stored as a narrow one."""
    return drawn_kernel(draw, MIXTURE, values)


@settings(max_examples=60, deadline=None)
@given(expressions(), st.sampled_from(GONE))
def test_random_programs(case: tuple[UOp, list[Array]], setting: str) -> None:
    kernel, arrays = case
    wanted = run(kernel, arrays)
    np.testing.assert_array_equal(emulated(kernel, arrays, "CPU", setting)[0], wanted[0])

"""Small floats computed without the target's help: every rounding, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernels import param, run, sink
from tests.oracle import cast, pack, run_kernel, unpack
from tinylab.dtype import DType, dtypes
from tinylab.errors import CodegenError
from tinylab.helpers.context import Context
from tinylab.uop.ops import UOp

SMALL = [dtypes.float16, dtypes.bfloat16, *dtypes.fp8s]
EDGES = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.999, 65520, 448, 464, 464.1, 57344, 61440,
    2**-24, 2**-25, 2**-25 * 1.0001, 2**-9, 2**-10, 2**-10 * 1.001, 1 + 2**-11, 1 + 2**-11 + 2**-30,
    1 + 2**-11 + 2**-45, 1 + 2**-8, 1 + 2**-8 + 2**-40, 3.4e38, 3.39e38,
]  # fmt: skip


def values(dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(0)
    some = [
        rng.normal(size=300),
        np.exp(rng.uniform(-40, 40, 300)),
        -np.exp(rng.uniform(-9, 9, 100)),
        EDGES,
    ]
    with np.errstate(over="ignore"):
        return np.concatenate(some).astype(dtype.name)


def same(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_casts_round_once(small: DType, source: DType) -> None:
    x = values(source)
    n, i = len(x), UOp.range(len(x), 0)
    kernel = sink(
        param(0, n, small).index(i).store(param(1, n, source).index(i).cast(small)).end(i)
    )
    wanted = pack(cast(x, small), small)
    with Context(EMULATED_DTYPES="half,bfloat16"):
        raw = run(kernel, [np.zeros_like(wanted), x])[0]
    same(unpack(raw, small), unpack(wanted, small))


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_operation_rounds(small: DType) -> None:
    raw = pack(cast(values(dtypes.float32), small), small)
    n, i = len(raw), UOp.range(len(raw), 0)
    x = param(1, n, small).index(i)
    kernel = sink(param(0, n).index(i).store((x * 3.0 + 1.0).cast(dtypes.float32)).end(i))
    wanted = [np.zeros(n, np.float32), unpack(raw, small)]
    run_kernel(kernel, wanted)
    with Context(EMULATED_DTYPES="half,bfloat16"):
        got = run(kernel, [np.zeros(n, np.float32), raw])[0]
    same(got, wanted[0])


@pytest.mark.parametrize(
    ("emulated", "lacking", "used"),
    [
        ("float", "float32", dtypes.float32),
        ("int", "int32", dtypes.int32),
        ("half,float", "float32", dtypes.float16),
        ("uint,short", "uint32", dtypes.int16),
        ("long,int", "int32", dtypes.int64),
    ],
)
def test_what_others_are_computed_in_must_be_there(
    emulated: str, lacking: str, used: DType
) -> None:
    i = UOp.range(4, 0)
    kernel = sink(param(0, 4, used).index(i).store(param(1, 4, used).index(i) * 2).end(i))
    arrays = [np.zeros(4, used.name)] * 2
    with Context(EMULATED_DTYPES=emulated), pytest.raises(CodegenError) as refusal:
        run(kernel, arrays)
    assert str(refusal.value) == (
        f"CPU has no {lacking}, and it cannot be emulated: other types are computed in bool,"
        " int32, uint32 and float32, so a device needs these four"
        f"\nhelp: take {lacking} out of EMULATED_DTYPES"
    )


def test_only_kernels_that_use_a_type_need_it() -> None:
    i = UOp.range(4, 0)
    kernel = sink(param(0, 4, dtypes.int16).index(i).store(UOp.const(1, dtypes.int16)).end(i))
    with Context(EMULATED_DTYPES="float,uint"):
        assert run(kernel, [np.zeros(4, np.int16)])[0].tolist() == [1, 1, 1, 1]

"""What is legal: each row of the specs accepts a node, and refuses it with one thing wrong."""

from __future__ import annotations

import pytest

from tinylab.dtype import DType, dtypes
from tinylab.uop.ops import (
    AxisType,
    Invalid,
    KernelInfo,
    Ops,
    ReduceArg,
    UOp,
    spec_kernel,
    spec_program,
    spec_shared,
    spec_tensor,
    type_verify,
)

x = UOp.variable("x", 0, 9)
i = UOp.variable("i", 0, 9, dtypes.int32)
b = UOp.variable("b", False, True, dtypes.bool)
r, q = UOp.range(4, 0), UOp.range(3, 1, AxisType.REDUCE)
data = UOp.param(0, dtypes.float32, (12,))
tensor = UOp.param(1, dtypes.float32, (3, 4))
f32, i32 = dtypes.float32, dtypes.int32


def node(op: Ops, dtype: DType, src: tuple[UOp, ...] = (), arg: object = None) -> UOp:
    return UOp(op, dtype, src, arg)


store = data.index(r).store(UOp.const(1.0, f32))
CASES = {
    "const": (spec_shared, UOp.const(1, i32), node(Ops.CONST, i32, (x,), 1)),
    "const invalid": (spec_shared, UOp.const(Invalid), node(Ops.CONST, dtypes.bool, (x,), Invalid)),
    "param": (spec_shared, data, node(Ops.PARAM, dtypes.int32, data.src, data.arg)),
    "range": (spec_shared, r, node(Ops.RANGE, dtypes.weakint, (UOp.const(4),), 0)),
    "alu": (spec_shared, x < 3, node(Ops.CMPLT, i32, (x, x))),
    "where": (spec_shared, b.where(x, x), node(Ops.WHERE, i32, (i, i, i))),
    "cast": (spec_shared, i.cast(f32), node(Ops.CAST, f32, (i,), i32)),
    "store": (spec_shared, store, node(Ops.STORE, dtypes.void, (data.index(r),))),
    "gated store": (spec_shared, node(Ops.STORE, dtypes.void, (*store.src, b)), node(Ops.STORE, dtypes.void, (*store.src, i))),
    "after": (spec_shared, data.after(store), node(Ops.AFTER, f32, (data,))),
    "end": (spec_shared, store.end(r), node(Ops.END, dtypes.void, (store, i))),
    "stack": (spec_shared, UOp.stack(x, x), node(Ops.STACK, f32, (data, tensor))),
    "permute": (spec_tensor, node(Ops.PERMUTE, f32, (tensor,), (1, 0)), node(Ops.PERMUTE, f32, (tensor,), (1, 1))),
    "flip": (spec_tensor, node(Ops.FLIP, f32, (tensor,), (True, False)), node(Ops.FLIP, f32, (tensor,), (True,))),
    "tensor reduce": (spec_tensor, node(Ops.REDUCE, f32, (tensor,), ReduceArg(Ops.ADD, 1)), node(Ops.REDUCE, f32, (tensor,), ReduceArg(Ops.ADD, 0))),
    "reduce by a real reducer": (spec_tensor, node(Ops.REDUCE, f32, (tensor,), ReduceArg(Ops.MAX, 1)), node(Ops.REDUCE, f32, (tensor,), ReduceArg(Ops.XOR, 1))),
    "kernel reduce": (spec_kernel, data.index(q).reduce(q), node(Ops.REDUCE, f32, (data.index(q),), ReduceArg(Ops.ADD, 0))),
    "special": (spec_kernel, UOp.special(4, "gidx0"), node(Ops.SPECIAL, dtypes.weakint, (UOp.const(4),), 0)),
    "no reduce in a program": (spec_program, i + i, data.index(q).reduce(q)),
    "no lanes in a program": (spec_program, UOp.range(4, 0, AxisType.LOOP, dtype=i32), UOp.range(4, 0, AxisType.UPCAST, dtype=i32)),
    "no weak types in a program": (spec_program, i + i, x + x),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_row(name: str) -> None:
    spec, legal, illegal = CASES[name]
    assert spec.rewrite(legal) is True
    assert spec.rewrite(illegal) is not True
    type_verify([legal], spec)
    with pytest.raises(
        RuntimeError, match=f"UOp verification failed at 0 on Ops.{illegal.op.name}"
    ):
        type_verify([illegal], spec)


def test_a_whole_graph() -> None:
    kernel = data.index(r).store(data.index(r) + 1.0).end(r).sink(arg=KernelInfo("k"))
    type_verify(kernel, spec_kernel)
    broken = kernel.substitute({UOp.const(1.0, f32): node(Ops.CAST, f32, (i,), i32)})
    with pytest.raises(RuntimeError, match="UOp verification failed at"):
        type_verify(broken, spec_kernel)

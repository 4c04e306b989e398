"""Tensor graphs for the tests of scheduling, and a way to hold a schedule against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests import oracle
from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops
from tinylab.schedule import Schedule, callify, create_schedule
from tinylab.uop.ops import UOp, node_to_shape

Array = npt.NDArray[Any]
F32 = dtypes.float32


def tensor(*shape: int, dtype: DType = F32) -> UOp:
    """A realised tensor's node: a view of a buffer of its own."""
    size = int(np.prod(shape))
    return UOp.new_buffer("CPU", size, dtype)._reshape(shape)


def schedule(*values: UOp, plan: bool = True) -> tuple[Schedule, tuple[UOp, ...]]:
    """(the schedule, its inputs) that computes values or performs writes."""
    roots = [v if v.op is Ops.AFTER else v.contiguous() for v in values]
    called = callify(UOp.sink(*roots))
    return create_schedule(called.body, "CPU", plan), called.inputs


def reasons(found: Schedule) -> list[str]:
    return [call.arg.aux for call in found.linear.src]


def _array(x: UOp, memory: dict[UOp, Array]) -> Array:
    """The memory behind an argument of a call."""
    if x.op is Ops.BITCAST:
        raw = _array(x.src[0], memory)
        return raw.view(np.dtype(x.dtype.name))
    if x.op is Ops.SHRINK:
        (start,), (size,) = node_to_shape(x.src[1]), node_to_shape(x.src[2])
        return _array(x.src[0], memory)[start : start + size]
    if x not in memory:
        memory[x] = np.full(x.shape[0], 77, np.dtype(x.dtype.name))
    return memory[x]


def run(found: Schedule, inputs: tuple[UOp, ...], given: dict[UOp, Array]) -> list[Array]:
    """The outputs of a schedule whose kernels the oracle runs; arrays of `given` are written to."""
    memory: dict[UOp, Array] = {}
    for call in found.linear.src:
        for x in call.src[1:]:
            if x.op is Ops.PARAM:
                memory[x] = given[inputs[x.arg.slot]]
        arguments = [_array(x, memory) for x in call.src[1:]]
        if call.src[0].op is Ops.COPY:
            arguments[0][:] = arguments[1]
            continue
        oracle.run_kernel(call.src[0], arguments)
    params = {
        p: given[inputs[p.arg.slot]]
        for v in found.outputs
        for p in v.toposort()
        if p.op is Ops.PARAM
    }
    memory.update(params)
    return [np.asarray(oracle.value(view, memory)) for view in found.outputs]


def check(*values: UOp, seed: int = 0) -> Schedule:
    """The schedule of values, after its kernels gave what the graphs mean."""
    found, inputs = schedule(*values)
    rng = np.random.default_rng(seed)
    given = {b: _random(b, rng) for b in inputs}
    before = {b: a.copy() for b, a in given.items()}
    expected = [np.asarray(oracle.value(v, before)) for v in values]
    for got, want in zip(run(found, inputs, given), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return found


def _random(buffer: UOp, rng: np.random.Generator) -> Array:
    dtype = np.dtype(buffer.dtype.name)
    if buffer.dtype.kind == "float":
        return rng.standard_normal(buffer.shape[0]).astype(dtype)
    return rng.integers(0, 100, buffer.shape[0]).astype(dtype)

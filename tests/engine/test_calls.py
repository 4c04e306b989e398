"""One CALL of a schedule: names, arguments, work, time; and kernels marked for a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, Variable
from tinylab.engine.calls import (
    estimate_uop,
    get_call_arg_uops,
    get_call_name,
    get_call_outs_ins,
    pm_beam,
    time_call,
    with_beam,
)
from tinylab.engine.capture import capturing
from tinylab.engine.linear import compile_linear, link_linear, lower_and_compile, run_linear
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import Ops
from tinylab.schedule.flatten_linear import pm_flatten_linear
from tinylab.schedule.plan_memory import memory_plan_rewrite
from tinylab.uop.ops import KernelInfo, UOp

A = np.arange(4, dtype=np.float32)


def linear_of(t: Tensor) -> UOp:
    return t.schedule_linear()


def test_a_kernel() -> None:
    (call,) = linear_of(Tensor(A).realize() + 1).src
    compiled = compile_linear(UOp(Ops.LINEAR, None, (call,))).src[0]
    for c in (call, compiled):
        estimates = estimate_uop(c)
        assert (estimates.ops, estimates.lds, estimates.mem) == (4, 32, 32)
        assert ansistrip(get_call_name(c)) == "E_4"
        assert get_call_outs_ins(c) == ((0,), (1,))
        assert get_call_arg_uops(c) == c.src[1:]
    assert all(s > 0 for s in itertools.islice(time_call(call), 3))


def test_a_copy() -> None:
    (call,) = linear_of(Tensor(A).realize().to("PYTHON")).src
    name = get_call_name(call)
    assert name.split() == ["copy", "16", "B,", "PYTHON", "<-", "CPU"]
    assert (estimate_uop(call).mem, get_call_outs_ins(call)) == (16, ((0,), (1,)))
    assert next(time_call(call)) > 0


def test_a_kernel_of_symbolic_size_is_timed_for_a_value() -> None:
    x = Tensor(A).realize()[: Variable("n", 1, 4).bind(3)]
    linear, values = (x + 1).linear_with_vars()
    assert next(time_call(linear.src[0], values)) > 0
    with pytest.raises(RuntimeError, match="unbound Variable 'n'"):
        next(time_call(linear.src[0]))


def test_work_that_is_not_counted() -> None:
    x = Tensor(A).realize() + 1
    linear = link_linear(x.schedule_linear())
    assert lower_and_compile(linear) is linear
    GlobalCounters.reset()
    run_linear(linear, update_stats=False, wait=True)
    assert GlobalCounters.kernel_count == 0
    assert x.tolist() == [1, 2, 3, 4]


def test_lists_in_lists_run_as_one() -> None:
    x = Tensor(A).realize()
    (add,) = linear_of(x + 1).src
    out, given = add.src[1:]
    params = [UOp.param(n, b.dtype, b.shape, b.device) for n, b in enumerate((out, given))]
    own = UOp.new_buffer("CPU", 4, out.dtype, num=-7)
    inner = UOp(
        Ops.LINEAR,
        None,
        (
            add.replace(src=(add.src[0], own, params[1])),
            add.replace(src=(add.src[0], params[0], own)),
        ),
    )
    other = UOp.new_buffer("CPU", 4, out.dtype)
    nested = UOp(
        Ops.LINEAR,
        None,
        (inner.call(out, given), UOp(Ops.LINEAR, None, (inner.call(other, out),))),
    )
    flat = pm_flatten_linear.rewrite(nested)
    assert [call.src[0].op for call in flat.src] == [Ops.SINK] * 4
    assert len({call.src[1] for call in flat.src}) == 4  # each use has a buffer of its own
    assert pm_flatten_linear.rewrite(flat) is None
    run_linear(flat)
    assert list(other._buffer.numpy()) == [4, 5, 6, 7]


def test_buffers_without_memory_share_it() -> None:
    x = Tensor(A).realize()
    y = (((x + 1).contiguous() * 2).contiguous() + 3).contiguous()
    with Context(NO_MEMORY_PLANNER=1):
        linear = y.schedule_linear()
    planned = memory_plan_rewrite(linear, {linear.src[-1].src[1]})
    arenas = {u for c in planned.src for u in c.toposort() if u.op is Ops.BUFFER and u.arg.name}
    assert len(arenas) == 1
    run_linear(planned)
    assert y.tolist() == [5, 7, 9, 11]


def test_who_listens_to_schedules_gets_them_instead_of_a_run() -> None:
    class Listener:
        def __init__(self) -> None:
            self.heard: list[tuple[UOp, dict[str, int]]] = []

        def add_linear(self, linear: UOp, var_vals: dict[str, int]) -> None:
            self.heard.append((linear, var_vals))

    listener = Listener()
    capturing.append(listener)
    try:
        x = (Tensor(A).realize() + 1).realize()
    finally:
        capturing.remove(listener)
    ((linear, var_vals),) = listener.heard
    assert (len(linear.src), var_vals) == (1, {})
    run_linear(linear)
    assert x.tolist() == [1, 2, 3, 4]


# *** BEAM


def test_kernels_are_marked_with_the_width_of_a_search() -> None:
    linear = linear_of((Tensor(A).realize() + 1).contiguous().sum())
    assert with_beam(linear) is linear
    with Context(BEAM=3):
        marked = with_beam(linear)
        assert [c.src[0].arg.beam for c in marked.src] == [3] * len(marked.src)
        assert with_beam(marked) is not None
    body = linear.src[0].src[0]
    assert pm_beam.rewrite(body, 2).arg.beam == 2
    tuned = body.replace(arg=KernelInfo(opts_to_apply=()))
    assert pm_beam.rewrite(tuned, 2) is None
    assert pm_beam.rewrite(body.replace(arg=None), 2) is None
    (program, *_) = compile_linear(linear, beam=2).src[0].src
    assert program.src[0].arg.beam == 2


def test_values_are_the_same_with_a_search() -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)).realize()
    with Context(BEAM=2):
        found = (x @ x).relu().sum(1).numpy()
    np.testing.assert_allclose(found, np.maximum(x.numpy() @ x.numpy(), 0).sum(1), rtol=1e-4)


def test_a_body_may_be_memory_of_its_own():
    held = Tensor([1, 2]).realize()
    assert Tensor([1, 2, 3]).call(fxn=held).tolist() == [1, 2]
    assert (Tensor([1, 2, 3]).call(fxn=held) + 1).tolist() == [2, 3]

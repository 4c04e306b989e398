"""Lists in lists become one list; copies between devices wait, and go together; writes wait too."""

from __future__ import annotations

import numpy as np

from tinylab import Tensor, function
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule.add_buffers import FIRST_INTERNAL
from tinylab.schedule.effects import read_slots
from tinylab.schedule.flatten_linear import flatten_linear
from tinylab.schedule.order_kernels import Steps, steps_of
from tinylab.uop.intern import make
from tinylab.uop.ops import KernelInfo, UOp

SIZE = 4


def _param(slot: int) -> UOp:
    return UOp.param(slot, dtypes.float32, (SIZE,), "CPU")


def _buffer(slot: int) -> UOp:
    return UOp.new_buffer("CPU", SIZE, dtypes.float32, slot)


def _kernel(name: str, *arguments: UOp) -> UOp:
    return UOp.sink(arg=KernelInfo(name)).call(*arguments)


def _linear(*calls: UOp) -> UOp:
    return make(Ops.LINEAR, dtypes.void, calls)


def _names(linear: UOp) -> list[str]:
    return [call.src[0].arg.name for call in linear.src]


def test_lists_in_lists_are_one_list_of_calls_with_the_arguments_outside():
    x, y = _buffer(1), _buffer(2)
    inner = _linear(_kernel("a", _param(1), _param(0)), _kernel("b", _param(0)))
    middle = _linear(_kernel("c", _param(0)), inner.call(_param(0), _param(1)))
    flat = flatten_linear(_linear(middle.call(x, y), _kernel("d", y), _linear(_kernel("e", x))))
    assert _names(flat) == ["c", "a", "b", "d", "e"]
    assert [call.src[1:] for call in flat.src] == [(x,), (y, x), (x,), (y,), (x,)]


def test_each_use_of_a_list_has_inner_buffers_of_its_own():
    own = _buffer(FIRST_INTERNAL - 1)
    body = _linear(_kernel("a", own, _param(0)), _kernel("b", _param(0), own))
    x, y = _buffer(1), _buffer(2)
    flat = flatten_linear(_linear(body.call(x), body.call(y)))
    first, second = flat.src[0].src[1], flat.src[2].src[1]
    assert [call.src[1:] for call in flat.src] == [(first, x), (x, first), (second, y), (y, second)]
    assert len({first, second, own}) == 3


def test_a_list_without_lists_stays_what_it_is():
    linear = _linear(_kernel("a", _buffer(1)))
    assert flatten_linear(linear) is linear


def test_functions_compiled_before_in_functions_compiled_before_are_one_list():
    @function(precompile=True)
    def inner(x: Tensor) -> Tensor:
        return (x * 2).contiguous() + 1

    @function(precompile=True)
    def outer(x: Tensor) -> Tensor:
        return inner(inner(x).contiguous()) * 3

    data = np.arange(SIZE, dtype=np.float32)
    x = Tensor(data).realize()
    linear = (outer(x) + outer(x * 2)).schedule_linear()
    assert all(call.src[0].op is not Ops.LINEAR for call in linear.src)
    found = outer(x) + outer(x * 2)
    want = sum(((v * 2 + 1) * 2 + 1) * 3 for v in (data, data * 2))
    np.testing.assert_allclose(found.numpy(), want)


def _kinds(*tensors: Tensor) -> list[str]:
    linear, _ = tensors[0].linear_with_vars(*tensors[1:])
    return ["copy" if call.src[0].op is Ops.COPY else "kernel" for call in linear.src]


def test_copies_between_devices_wait_for_kernels_and_go_together():
    x = Tensor(np.arange(SIZE, dtype=np.float32)).realize()
    made = [(x * n).contiguous() for n in range(1, 5)]
    moved = [m.to("CPU:1") + 1 for m in made]
    assert _kinds(*moved) == ["kernel"] * 4 + ["copy"] * 4 + ["kernel"] * 4


def test_a_copy_that_kernels_wait_for_goes_when_no_other_may_run():
    x = Tensor(np.arange(SIZE, dtype=np.float32)).realize()
    there = (x * 2).contiguous().to("CPU:1")
    back = (there + 1).to("CPU")
    apart = [(x * n).contiguous() for n in range(3, 6)]
    assert _kinds(back + 1, *apart) == ["kernel"] * 4 + ["copy", "kernel", "copy", "kernel"]


def _last_of(linear: UOp, reason: str) -> list[int]:
    return [n for n, call in enumerate(linear.src) if reason in str(call.arg.aux)]


def test_a_write_waits_for_the_whole_of_results_that_see_the_old_content():
    a, b = (Tensor(np.ones((4, 4), np.float32)).realize() for _ in range(2))
    old = ((a @ b).contiguous() @ b).contiguous() @ b  # its first kernel alone reads a
    a += 1
    linear = (a * 2).contiguous().schedule_linear(a)
    (write,) = _last_of(linear, "a write in place")
    assert (len(linear.src), write) == (5, 3)
    assert old.shape == (4, 4)  # held until here


def test_what_each_result_needs_is_known_by_number():
    x = UOp.param(0, dtypes.float32, (SIZE,), "CPU")
    own = _buffer(FIRST_INTERNAL - 1)
    write, copy = _kernel("write", x), _kernel("copy", own, x.after(_kernel("write", x)))
    listed = _linear(_kernel("a", own), _kernel("b", own)).call(own)
    sink = UOp.sink(x.after(write), own.after(copy), own.after(listed), x)
    found = steps_of(sink, [write, copy, listed])
    assert found == (
        Steps((0,), (0,), 1),
        Steps((1,), (0,), 2),  # what is copied was written by the first
        Steps((2, 3), (2, 3), 4),  # a list is as many as it holds
        Steps((), (), 0),
    )


def test_slots_that_a_kernel_reads():
    i = UOp.range(SIZE, 0)
    out, x, y = (_param(n) for n in range(3))
    body = out[i].store(x[i] + 1).end(i).sink(y)
    assert read_slots(body) == {1}
    assert read_slots(out[i].store(out[i] + y[i]).end(i).sink()) == {0, 2}

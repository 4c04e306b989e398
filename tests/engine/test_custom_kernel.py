"""Kernels written in uops: several outputs, registers, gradients, order with other writes."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, UOp
from tinylab.dtype import AddrSpace
from tinylab.engine.linear import run_linear
from tinylab.errors import CompileError, ContractError, GradientError, ScheduleError
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import KernelInfo

A = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)


def both(product: UOp, total: UOp, a: UOp, b: UOp) -> UOp:
    i, j = UOp.range(6, 0), UOp.range(5, 1)
    stores = product[i, j].store(a[i, j] * b[i, j]), total[i, j].store(a[i, j] + b[i, j])
    return UOp.group(*stores).end(i, j).sink(arg=KernelInfo(name="both"))


def twice(out: UOp, x: UOp) -> UOp:
    i, j = UOp.range(6, 0), UOp.range(5, 1)
    return out[i, j].store(x[i, j] * 2.0).end(i, j).sink(arg=KernelInfo(name="twice"))


def test_two_outputs_of_lazy_inputs():
    outs = Tensor.empty(6, 5).custom_kernel(Tensor.empty(6, 5), Tensor(A), Tensor(B) + 1, fxn=both)
    np.testing.assert_allclose((outs[0] + 1).numpy(), A * (B + 1) + 1, rtol=1e-6)
    np.testing.assert_allclose(outs[1].numpy(), A + B + 1, rtol=1e-6)


def test_an_output_that_is_asked_for_later_was_computed_with_the_first():
    x = Tensor(A).realize()
    product, total, _, _ = Tensor.empty(6, 5).custom_kernel(
        Tensor.empty(6, 5), x, Tensor(B), fxn=both
    )
    product.realize()
    x.assign(x * 0).realize()
    np.testing.assert_allclose(total.numpy(), A + B, rtol=1e-6)


def test_an_accumulator_in_a_register():
    def total(out: UOp, x: UOp) -> UOp:
        r = UOp.range(30, 0, AxisType.REDUCE)
        acc = UOp.placeholder((1,), out.dtype, addrspace=AddrSpace.REG)
        acc = acc.after(acc[0].store(0.0))[0].set(acc.after(r)[0] + x.reshape(30)[r], end=r)
        return out[0].store(acc[0]).sink(arg=KernelInfo(name="total", opts_to_apply=()))

    (out, _) = Tensor.empty(1).custom_kernel(Tensor(A), fxn=total)
    np.testing.assert_allclose(out.numpy(), [A.sum()], rtol=1e-5)


def test_without_a_gradient_function_there_is_none():
    x, y = Tensor(A).realize(), Tensor(B).realize()
    out = Tensor.empty(6, 5).custom_kernel(x, fxn=twice)[0]
    assert (out + y).sum().gradient(y)[0].tolist() == np.ones((6, 5)).tolist()
    with pytest.raises(
        GradientError, match=r"expected TUPLE body for gradient, got Ops\.SINK"
    ) as e:
        (out + y).sum().gradient(x)
    assert "grad_fxn=" in str(e.value)
    held = Tensor.empty(6, 5).custom_kernel(x.detach(), fxn=twice)[0]
    assert (held + x).sum().gradient(x)[0].tolist() == np.ones((6, 5)).tolist()


@pytest.mark.parametrize("found", [None, 3, (None,)])
def test_a_kernel_that_is_no_node(found: object):
    with pytest.raises(ContractError, match="must return a SINK with a KernelInfo") as e:
        Tensor.empty(4).custom_kernel(Tensor.ones(4), fxn=lambda out, x: found)
    assert repr(found) in str(e.value)


def test_the_gradient_that_was_written_for_it():
    x = Tensor(A).realize()
    out = Tensor.empty(6, 5).custom_kernel(x, fxn=twice, grad_fxn=lambda g, call: (None, g * 2))[0]
    (grad,) = (out * Tensor(B)).sum().gradient(x)
    np.testing.assert_allclose(grad.numpy(), 2 * B, rtol=1e-6)


def test_gradients_of_two_outputs_arrive_together():
    x, y = Tensor(A).realize(), Tensor(B).realize()

    def back(g_product: UOp, g_total: UOp, call: UOp):
        a, b = call.src[3:]
        return None, None, g_product * b + g_total, g_product * a + g_total

    outs = Tensor.empty(6, 5).custom_kernel(Tensor.empty(6, 5), x, y, fxn=both, grad_fxn=back)
    gx, gy = (outs[0].sum() + outs[1].sum() * 3).gradient(x, y)
    np.testing.assert_allclose(gx.numpy(), B + 3, rtol=1e-6)
    np.testing.assert_allclose(gy.numpy(), A + 3, rtol=1e-6)


def test_derivatives_of_higher_order_go_through_what_was_written():
    def square(out: UOp, x: UOp) -> UOp:
        i, j = UOp.range(6, 0), UOp.range(5, 1)
        stored = out[i, j].store(x[i, j] * x[i, j]).end(i, j)
        return stored.sink(arg=KernelInfo(name="square"))

    def back(g: UOp, call: UOp):
        return None, g * 2 * call.src[2]

    x = Tensor(A).realize()
    out = Tensor.empty(6, 5).custom_kernel(x, fxn=square, grad_fxn=back)[0]
    (first,) = (out * Tensor(B)).sum().gradient(x)
    (second,) = (first * x).sum().gradient(x)
    np.testing.assert_allclose(first.numpy(), 2 * A * B, rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), 4 * A * B, rtol=1e-5)


def test_a_gradient_may_be_a_kernel_with_a_gradient():
    def back(g: UOp, call: UOp):
        out = Tensor.empty(6, 5).uop
        return None, UOp.custom_kernel(out, g, fxn=twice, grad_fxn=back)[0]

    @TinyJit
    def step(x):
        out = Tensor.empty(6, 5).custom_kernel(x, fxn=twice, grad_fxn=back)[0]
        (first,) = (out * out).sum().gradient(x)
        (second,) = first.sum().gradient(x)
        return first.realize(), second.realize()

    for n in range(4):
        first, second = step(Tensor(A + n).realize())
        np.testing.assert_allclose(first.numpy(), 8 * (A + n), rtol=1e-5)
        np.testing.assert_allclose(second.numpy(), np.full_like(A, 8), rtol=1e-5)


def test_a_read_built_before_the_kernel_sees_the_old_content():
    out = Tensor(B).realize()
    before = out * 10
    after = out.custom_kernel(Tensor(A), fxn=twice)[0]
    np.testing.assert_allclose(after.numpy(), A * 2, rtol=1e-6)
    np.testing.assert_allclose(before.numpy(), B * 10, rtol=1e-6)


def test_open_ranges_are_refused():
    def leaks(out: UOp, x: UOp) -> UOp:
        i = UOp.range(6, 0)
        return out[i, 0].store(x[i, 0]).sink(arg=KernelInfo(name="leaks"))

    with pytest.raises(AssertionError, match="leaking out of the call"):
        Tensor.empty(6, 5).custom_kernel(Tensor(A), fxn=leaks)


def test_a_sink_without_kernel_info_is_refused():
    with pytest.raises(AssertionError, match="KernelInfo"):
        Tensor.empty(6, 5).custom_kernel(Tensor(A), fxn=lambda out, x: out[0, 0].store(1.0).sink())


def test_source_that_is_refused_is_told_with_its_kernel_and_line():
    def refused(out: UOp, x: UOp) -> UOp:
        text = UOp(Ops.CUSTOMI, x[0].dtype, (x[0],), "nonsense({0})")
        return out[0].store(text).sink(arg=KernelInfo(name="refused"))

    x = Tensor([1.0, 2.0]).realize()
    line = r"kernel refused, asked for at .*test_custom_kernel.py"
    with Context(SPEC=0), pytest.raises(CompileError, match=line):
        Tensor.empty(1).custom_kernel(x, fxn=refused)[0].realize()
    assert (x + 1).tolist() == [2.0, 3.0]


# *** a kernel that reads what it writes

X = [0.0, 1.0, 2.0, 3.0]


def shifted(kind: AxisType, size: int, read, opts=None):
    """x[i] becomes x[read(i)]."""

    def kernel(x: UOp) -> UOp:
        i = UOp.range(size, 0, kind)
        return x[i].store(x[read(i)]).end(i).sink(arg=KernelInfo("shifted", opts_to_apply=opts))

    return kernel


@pytest.mark.parametrize(
    "kernel",
    [
        shifted(AxisType.WEAK, 4, lambda i: 3 - i),
        shifted(AxisType.WEAK, 3, lambda i: i + 1),
        shifted(AxisType.GLOBAL, 3, lambda i: i + 1, ()),
    ],
    ids=["reversed", "shifted", "side by side"],
)
def test_reading_at_other_places_in_no_order_is_refused(kernel):
    x = Tensor(X).realize()
    with pytest.raises(AssertionError, match="'shifted' reads its argument 0 at other places") as e:
        x.custom_kernel(fxn=kernel)
    assert ".contiguous()" in str(e.value)
    assert "test_custom_kernel.py" in str(e.value)


def test_reading_after_a_store_in_order_or_elsewhere_is_fine():
    # The loop as it is written, from the first element to the last.
    kernel = shifted(AxisType.LOOP, 3, lambda i: i + 1, ())
    assert Tensor(X).realize().custom_kernel(fxn=kernel)[0].tolist() == [1, 2, 3, 3]
    # What is read is never written.
    kernel = shifted(AxisType.WEAK, 2, lambda i: i + 2)
    assert Tensor(X).realize().custom_kernel(fxn=kernel)[0].tolist() == [2, 3, 2, 3]

    def in_two_steps(x: UOp) -> UOp:
        i, j = UOp.range(4, 0), UOp.range(2, 1)
        doubled = x.after(x[i].store(x[i] * 2).end(i))
        return x[j].store(doubled[j + 2]).end(j).sink(arg=KernelInfo("steps", opts_to_apply=()))

    assert Tensor(X).realize().custom_kernel(fxn=in_two_steps)[0].tolist() == [4, 6, 4, 6]


def added_up(kind: AxisType, size: int, opts=None):
    """total[0] becomes the sum of x."""

    def kernel(total: UOp, x: UOp) -> UOp:
        i = UOp.range(size, 0, kind)
        body = total[0].store(total.after(i)[0] + x[i]).end(i)
        return body.sink(arg=KernelInfo("added_up", opts_to_apply=opts))

    return kernel


@pytest.mark.parametrize("size", [4, 16, 64])
def test_a_loop_keeps_its_order_whatever_is_chosen(size):
    """Steps that build on each other: no lanes, no threads, no other order."""
    x = Tensor.full((size,), 2.0).contiguous().realize()
    total = Tensor.full((1,), 1.0).contiguous().realize()
    summed = total.custom_kernel(x, fxn=added_up(AxisType.LOOP, size))[0]
    assert summed.tolist() == [2.0 * size + 1]
    line = Tensor.arange(size).float().realize()
    kernel = shifted(AxisType.LOOP, size - 1, lambda i: i)
    assert line.custom_kernel(fxn=kernel)[0].tolist() == list(range(size))

    def doubling(x: UOp) -> UOp:
        i = UOp.range(size - 1, 0, AxisType.LOOP)
        return x[i + 1].store(x[i] + x[i + 1]).end(i).sink(arg=KernelInfo("doubling"))

    sums = [float(n * (n + 1) // 2) for n in range(size)]
    assert line.custom_kernel(fxn=doubling)[0].tolist() == sums


def test_adding_up_in_no_order_is_refused():
    x, total = Tensor(X).realize(), Tensor.zeros(1).contiguous().realize()
    with pytest.raises(AssertionError, match="'added_up' reads its argument 0"):
        total.custom_kernel(x, fxn=added_up(AxisType.WEAK, 4))

    def read_once(total: UOp, x: UOp) -> UOp:
        i = UOp.range(4, 0, AxisType.LOOP)
        return total[0].store(total[0] + x[i]).end(i).sink(arg=KernelInfo("read_once"))

    with pytest.raises(AssertionError, match="reads its argument 0 once, before the loop over"):
        total.custom_kernel(x, fxn=read_once)
    in_order = total.custom_kernel(x, fxn=added_up(AxisType.WEAK, 4, ()))[0]
    assert in_order.tolist() == [6.0]
    assert Tensor(X[2:3]).custom_kernel(x, fxn=added_up(AxisType.WEAK, 1))[0].tolist() == [2.0]


def filled_then_added(out: UOp, x: UOp) -> UOp:
    """One loop fills what another adds to: shared out differently, one would overtake the other."""
    rows, columns = x.shape
    k, i, j = UOp.range(columns, 0), UOp.range(rows, 1, AxisType.LOOP), UOp.range(columns, 2)
    filled = out.after(out[columns - 1 - k].store(1.0).end(k))
    sums = filled.after(i)[j].store(filled.after(i)[j] + x[i, j]).end(i, j)
    return sums.sink(arg=KernelInfo("filled_then_added"))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_what_one_loop_writes_first_is_there_for_all_threads_of_the_next(device: str):
    rows, columns = (700, 2048) if device == "CPU" else (3, 16)
    x = Tensor.ones(rows, columns, device=device).contiguous().realize()
    out = Tensor.empty(columns, device=device).custom_kernel(x, fxn=filled_then_added)[0]
    assert set(out.tolist()) == {rows + 1.0}


def reverse(out: UOp, x: UOp) -> UOp:
    i = UOp.range(4, 0)
    return out[i].store(x[3 - i]).end(i).sink(arg=KernelInfo("reverse"))


def test_a_tensor_that_is_written_and_read_as_two_arguments_is_copied_first():
    x = Tensor(X).realize()
    out, _ = x.custom_kernel(x.contiguous(), fxn=reverse)
    reasons = [call.arg.aux for call in out.schedule_linear().src]
    assert "a kernel written by hand reads what it writes: copied first, 16 B" in reasons
    x = Tensor(X).realize()
    assert x.custom_kernel(x, fxn=reverse)[0].tolist() == X[::-1]


def test_one_buffer_as_two_outputs_is_refused():
    def both_ones(p: UOp, q: UOp) -> UOp:
        i = UOp.range(4, 0)
        return UOp.group(p[i].store(1.0), q[i].store(2.0)).end(i).sink(arg=KernelInfo("ones"))

    x = Tensor(X).realize()
    with pytest.raises(ScheduleError, match=r"kernel 'ones' writes its arguments \[0, 1\]"):
        x.custom_kernel(x, fxn=both_ones)[0].realize()
    assert x.tolist() == X


def two_and_three_fold(p: UOp, q: UOp, x: UOp) -> UOp:
    i = UOp.range(2, 0)
    stores = UOp.group(p[i].store(x[i] * 2), q[i].store(x[i] * 3))
    return stores.end(i).sink(arg=KernelInfo("two_and_three_fold"))


@pytest.mark.parametrize("pieces", [(slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))])
@pytest.mark.parametrize("together", [False, True])
def test_two_outputs_may_be_pieces_of_one_buffer(pieces: tuple[slice, slice], together: bool):
    whole, x = Tensor(X).realize(), Tensor([1.0, 10.0]).realize()
    before = whole + 0
    p, q, _ = Tensor.custom_kernel(whole[pieces[0]], whole[pieces[1]], x, fxn=two_and_three_fold)
    if together:
        linear = p.schedule_linear(q)
        reasons = [call.arg.aux for call in linear.src]
        assert reasons.count("a kernel written by hand writes to it") == 2
        run_linear(linear)
    assert (p.tolist(), q.tolist()) == ([2.0, 20.0], [3.0, 30.0])
    assert (whole.tolist(), before.tolist()) == (X, X)


def test_two_outputs_that_have_an_element_in_common_are_each_a_copy():
    whole, x = Tensor(X).realize(), Tensor([1.0, 10.0]).realize()
    p, q, _ = Tensor.custom_kernel(whole[:2], whole[1:3], x, fxn=two_and_three_fold)
    assert (p.tolist(), q.tolist(), whole.tolist()) == ([2.0, 20.0], [3.0, 30.0], X)


def growing_rows(out: UOp, x: UOp) -> UOp:
    """Row i becomes itself plus the sum of what row i - 1 has become; two stores at a time."""
    rows, columns = x.shape
    a, b = UOp.range(rows, 0), UOp.range(columns, 1)
    out = out.after(out[a, b].store(x[a, b]).end(a, b))
    i = UOp.range(rows - 1, 2, AxisType.LOOP)
    r = UOp.range(columns, 3, AxisType.REDUCE)
    total = out.after(i)[i, r].reduce(r, arg=Ops.ADD)
    j = UOp.range(columns // 2, 4, AxisType.LOOP)
    first, last = (out.after(i, j)[i + 1, k] for k in (j, columns - 1 - j))
    stores = UOp.group(first.store(first + total), last.store(last + total))
    return stores.end(j).end(i).sink(arg=KernelInfo("growing_rows"))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_sum_inside_a_loop_is_not_taken_by_a_workgroup(device: str):
    x = np.ones((3, 32), np.float32)
    out = Tensor.empty(3, 32, device=device)
    found = out.custom_kernel(Tensor(x, device=device), fxn=growing_rows)[0].tolist()
    assert [row[0] for row in found] == [1.0, 33.0, 33.0 * 32 + 1]
    assert all(len(set(row)) == 1 for row in found)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_loop_of_one_step_with_nothing_in_it(device: str):
    def doubled(out: UOp, x: UOp) -> UOp:
        i, j, k = UOp.range(1, 0), *(UOp.range(4, n, AxisType.LOOP) for n in (1, 2))
        copied = out.after(out[i, j].store(x[i, j]).end(j))
        stored = copied[i, k].store(copied.after(k)[i, k] * 2.0).end(k)
        return stored.end(i).sink(arg=KernelInfo("doubled"))

    out = Tensor.empty(1, 4, device=device)
    x = Tensor([[1.0, 2, 3, 4]], device=device)
    assert out.custom_kernel(x, fxn=doubled)[0].tolist() == [[2.0, 4, 6, 8]]


def add_to(out: UOp, x: UOp) -> UOp:
    i = UOp.range(4, 0)
    return out[i].store(out[i] + x[i]).end(i).sink(arg=KernelInfo(name="add_to"))


@pytest.mark.parametrize("write", ["whole", "part", "view", "none"])
@pytest.mark.parametrize("first", [0, 1])
def test_what_a_kernel_writes_and_another_write_start_from_one_content(write, first):
    """Each was a cycle: the kernel's result is the old content changed, and so is the other."""
    c, x = Tensor([10, 20, 30, 40]).realize(), Tensor([1, 2, 3, 4]).realize()
    view = c[1:3]
    out = c.custom_kernel(x, fxn=add_to)[0]
    before = out + 0
    want = [10, 20, 30, 40]
    if write == "whole":
        c += 5
        want = [15, 25, 35, 45]
    elif write == "part":
        c[1:3] = 5
        want = [10, 5, 5, 40]
    elif write == "view":
        view += 5
        want = [10, 25, 35, 40]
    found = [(c, want), (out, [11, 22, 33, 44])]
    for t, values in found[::-1] if first else found:
        assert t.tolist() == values
    out += c
    assert out.tolist() == [11 + want[0], 22 + want[1], 33 + want[2], 44 + want[3]]
    assert (c.tolist(), before.tolist()) == (want, [11, 22, 33, 44])


def test_a_kernel_and_writes_that_read_both_contents():
    c, x = Tensor([10, 20, 30, 40]).realize(), Tensor([1, 2, 3, 4]).realize()
    out = c.custom_kernel(x, fxn=add_to)[0]
    c += out
    out += c
    assert (c.tolist(), out.tolist()) == ([21, 42, 63, 84], [32, 64, 96, 128])
    c = Tensor([10, 20, 30, 40]).realize()
    out = c.custom_kernel(x, fxn=add_to)[0]
    c[[3, 0]] = out[:2] + c[:2]
    again = c.custom_kernel(out, fxn=add_to)[0]
    assert (c.tolist(), out.tolist()) == ([42, 20, 30, 21], [11, 22, 33, 44])
    assert again.tolist() == [53, 42, 63, 65]


@pytest.mark.parametrize("stored", [True, False])
def test_a_kernel_writes_to_no_memory_that_others_look_at(stored):
    x = Tensor([1, 2, 3, 4]).realize()
    a = Tensor(list(range(8))) * 1
    if stored:
        a.realize()
    same = a.contiguous()
    parts = [a[2:6].custom_kernel(x, fxn=add_to)[0], a[:4].detach().custom_kernel(x, fxn=add_to)[0]]
    assert [p.tolist() for p in parts] == [[3, 5, 7, 9], [1, 3, 5, 7]]
    whole = (a[:4] * 1).contiguous()
    out = whole.custom_kernel(x, fxn=add_to)[0]
    assert (out.tolist(), whole.tolist()) == ([1, 3, 5, 7], [0, 1, 2, 3])
    assert a.tolist() == same.tolist() == list(range(8))


def test_the_reason_of_the_copy_is_said():
    from tinylab import record

    c, x = Tensor([10, 20, 30, 40]).realize(), Tensor([1, 2, 3, 4]).realize()
    out = c.custom_kernel(x, fxn=add_to)[0]
    c += 5
    with record() as seen:
        c.realize(out)
    assert any("another write starts from the same content" in k.reason for k in seen.kernels)


def test_what_only_gradients_look_at_is_no_line_of_a_kernel() -> None:
    def kernel(out: UOp, a: UOp) -> UOp:
        i = UOp.range(4, 0)
        value = a[i].relu() + a[i].sign().detach() + a[i] % 3.0 + a[i].hardtanh(-9, 9)
        return out[i].store(value).end(i).sink(arg=KernelInfo(name="marked"))

    x = Tensor([1.0, -2.0, 0.5, 4.0]).realize()
    (found,) = Tensor.empty(4).custom_kernel(x, fxn=kernel)[:1]
    assert found.tolist() == [4.0, -2.0, 2.5, 10.0]

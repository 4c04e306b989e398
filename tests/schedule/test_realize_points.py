"""What is stored, and the reason that is given for it."""

from __future__ import annotations

import re

from tests.schedule.graphs import check, reasons, schedule, tensor
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp


def total(x: UOp, *axes: int) -> UOp:
    return x._rop(Ops.ADD, axes)


def test_an_elementwise_chain_is_one_kernel():
    x = tensor(4, 5)
    assert len(check((x * 2 + 1) * x).linear.src) == 1


def test_a_matmul_is_one_kernel():
    a, b = tensor(4, 6), tensor(6, 5)
    assert len(check(a @ b).linear.src) == 1


def test_a_convolution_with_padding_is_one_kernel():
    x, w = tensor(2, 3, 6, 6), tensor(4, 3, 3, 3)
    assert len(check(x.conv2d(w, padding=1)).linear.src) == 1


def test_softmax_is_three_kernels_and_computes_exp_twice():
    found = check(tensor(6, 8).softmax(axis=1))
    assert len(found.linear.src) == 3
    exps = [sum(u.op is Ops.EXP2 for u in call.src[0].toposort()) for call in found.linear.src]
    assert exps == [0, 1, 1]


def test_how_ranges_were_assigned_is_printed(capsys):
    x = tensor(8, 9)
    with Context(DEBUG_RANGEIFY=1, NO_COLOR=1):
        schedule(total(x * 2, 1)._broadcast_to((9, 8)) + 1)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(
        re.fullmatch(r"\*\*\* 1 REDUCE \(8,\) \[r\d\] a reduction that.* 9 times", x) for x in lines
    ), lines
    assert any(re.fullmatch(r"1 MUL \(\d, \d\) \[r\d\]\[r\d\]", line) for line in lines)
    schedule(total(x * 3, 1))
    assert capsys.readouterr().out == ""


def test_softmax_of_a_matmul_stores_the_product_once():
    found = check((tensor(6, 4) @ tensor(4, 8)).softmax(axis=1))
    assert len(found.linear.src) == 4
    assert "consumers index it differently" in reasons(found)[0]


def test_a_reduction_that_is_repeated_is_stored():
    x = tensor(4, 8)
    found = check(x - x.mean(axis=1, keepdim=True))
    assert reasons(found)[0] == "a reduction that would be computed 8 times"


def test_a_reduction_that_is_not_repeated_is_fused():
    x = tensor(4, 8)
    assert len(check(total(x, 1) * 2 + 1).linear.src) == 1


def test_sums_of_sums_are_one_kernel():
    assert len(check(total(total(tensor(3, 4, 5), 2), 0)).linear.src) == 1


def test_a_sum_over_a_maximum_is_two_kernels():
    x = tensor(3, 4, 5)
    found = check(total(x._rop(Ops.MAX, (2,)), 0))
    assert reasons(found)[0] == "a reduction inside another reduction"


def test_cheap_values_read_in_two_ways_are_computed_twice():
    x = tensor(6, 6)
    y = x + 1
    assert len(check(y + y._permute((1, 0))).linear.src) == 1


def test_dear_values_read_in_two_ways_are_stored():
    x = tensor(6, 6)
    y = x.sin().sin()
    found = check(y + y._permute((1, 0)))
    assert len(found.linear.src) == 2
    assert "its 2 consumers index it differently" in reasons(found)[0]


def test_an_activation_is_stored_before_a_matmul_reads_it_for_every_column():
    found = check((tensor(32, 64) * 2).relu() @ tensor(64, 64))
    assert len(found.linear.src) == 2
    assert reasons(found)[0].startswith("would be computed 64 times")


def test_a_small_matmul_computes_the_activation_itself():
    assert len(check(tensor(4, 6).relu() @ tensor(6, 5)).linear.src) == 1


def test_contiguous_is_a_kernel_of_its_own():
    x = tensor(4, 4)
    assert len(check((x + 1).contiguous() * 2).linear.src) == 2


def test_a_value_with_two_outputs_is_shared_or_recomputed_but_right():
    x, w = tensor(5, 4), tensor(4, 3)
    y = x @ w
    found = check(y.relu(), y.sum(axis=0))
    assert len(found.linear.src) == 3


def test_a_long_expression_is_cut_into_equal_kernels():
    x = tensor(4)
    y = x
    for _ in range(2500):
        y = y + 1.0
    found = check(y)
    kernels = {call.src[0] for call in found.linear.src}
    assert len(found.linear.src) == 3
    assert len(kernels) == 2
    assert "more than 1000 operations" in reasons(found)[0]


def repeated(step, times: int) -> UOp:
    y = tensor(4)
    for _ in range(times):
        y = step(y)
    return y


def test_a_long_expression_is_cut_where_all_of_it_goes_through_one_value():
    """Each step reads the one before three times: what is stored are results of steps."""
    found = check(repeated(lambda y: (y * 0.5).exp2() * y + (y < 1.0).where(y, 2.0), 250))
    assert 4 <= len(found.linear.src) <= 8
    assert len({call.src[0] for call in found.linear.src}) <= 2
    assert all(len(call.src) == 3 for call in found.linear.src)


def test_dear_operations_count_as_much_as_they_take():
    found = check(repeated(lambda y: y.sin(), 100))
    assert 7 <= len(found.linear.src) <= 9
    assert len({call.src[0] for call in found.linear.src}) <= 2


def test_a_long_expression_that_goes_through_no_one_value_is_cut_all_the_same():
    x, y = tensor(4), tensor(4) * 0.5
    for _ in range(200):
        x, y = (x * 0.5 + y).exp2() * 0.25, y * 0.5 + x
    found = check(x + y)
    assert 4 <= len(found.linear.src) <= 20
    assert max(len(call.src[0].toposort()) for call in found.linear.src) < 1500


def test_what_is_stored_is_read_by_all_who_use_it():
    x = tensor(4, 6)
    value = (x * 2).exp2()
    found = check(value.contiguous(), value @ tensor(6, 5))
    exps = [sum(u.op is Ops.EXP2 for u in call.src[0].toposort()) for call in found.linear.src]
    assert exps == [1, 0]


def test_a_stored_sum_is_not_summed_again():
    rows = total(tensor(4, 6), 1)
    assert len(check(rows.contiguous(), rows * 2).linear.src) == 2


def test_an_operation_that_is_used_twice_counts_once():
    x = tensor(3)
    for _ in range(40):
        x = x * x + x
    assert len(check(x).linear.src) == 1


def test_shared_operations_are_cut_by_their_number():
    x = tensor(1)
    for _ in range(1500):
        x = x * x + x
    kernels = schedule(x)[0].linear.src
    assert 3 <= len(kernels) <= 8


def test_a_stored_permutation_serves_who_reads_the_value_itself():
    product = tensor(8, 6)._reshape((8, 1, 6)) * tensor(5, 6)._reshape((1, 5, 6))
    y = product._rop(Ops.ADD, (2,))
    turned = y._permute((1, 0)).contiguous()
    found = check(turned, y * 2, y._rop(Ops.ADD, (0,)))
    assert len(found.linear.src) == 3
    # Two permutations: the first one serves, also the second.
    x = tensor(3, 4, 5)._rop(Ops.ADD, (0,))._reshape((2, 2, 5))
    first, second = (x._permute(order).contiguous() for order in ((2, 0, 1), (1, 2, 0)))
    assert len(check(first, second, x._rop(Ops.MAX, (1,))).linear.src) == 3
    # A value that nobody stores is worked out where it is read.
    cheap = tensor(4, 6) + tensor(4, 6)
    assert len(check(cheap._permute((1, 0)).contiguous(), cheap * 2).linear.src) == 2

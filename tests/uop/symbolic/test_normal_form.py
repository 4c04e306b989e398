"""Each row of `pm_normal_form`: a case that fires, a near miss, and a proof."""

from __future__ import annotations

import itertools

from tests.uop.symbolic.cases import (
    Case,
    b,
    c,
    f,
    g,
    i,
    j,
    k,
    m,
    op,
    s,
    table_tests,
    x,
    y,
    z,
)
from tinylab.dtype import dtypes
from tinylab.uop.ops import Ops, UOp
from tinylab.uop.symbolic import pm_normal_form

a, e = UOp.range(4, 0), UOp.range(8, 1)


def swapped(name: str, left: UOp, right: UOp) -> UOp:
    return UOp(Ops[name], src=(left, right))


CASES = {
    "constant_right": Case([(swapped("ADD", k(3), x), x + 3), (swapped("MUL", k(2.0, dtypes.float32), f), f * 2.0), (swapped("CMPNE", k(3), x), x.ne(3))], [x + 3, swapped("ADD", k(3), k(4)), swapped("CMPLT", k(3), x)]),
    "join_terms": Case(
        [
            (a + e + a, a * 2 + e),
            (a * 4 + e + a * -3, a + e),
            (a + e + a * -1, e),
            (a + 3 + (e + 4), a + e + 7),
            (e + (a + e * 2), a + e * 3),
        ],
        [a + e, a * 3 + e * 2, a + e + 3],
    ),
    "order_sum": Case(
        [
            (e + a, a + e),
            (a + (e + 3), a + e + 3),
            (a + 3 + e, a + e + 3),
            (e * 2 + a * 3, a * 3 + e * 2),
        ],
        [a + e, a + e + 3, a * 3 + e, a + e // 2 + 3, f + g],
    ),
    "gather_add": Case([(x + 3 + 4, x + 7), (i + 3 + 4, i + 7)], [f + 3.0 + 4.0, x + 3 + y]),
    "gather_mul": Case([(x * 3 * 4, x * 12), (i * (1 << 20) * (1 << 20), i * 0)], [f * 3.0 * 4.0, x * 3 * y]),
    "gather_and": Case([(i & 12 & 6, i & 4)], [i & 12 & j]),
    "gather_or": Case([((i | 12) | 6, i | 14)], [(i | 12) & 6]),
    "gather_xor": Case([((i ^ 12) ^ 6, i ^ 10)], [(i ^ 12) | 6]),
    "gather_max": Case([(x.maximum(3).maximum(5), x.maximum(5)), (f.maximum(3.0).maximum(1.0), f.maximum(3.0))], [x.maximum(3).maximum(y)]),
    "distribute": Case([((x + 3) * 4, x * 4 + k(3) * 4), ((x + y) * 2, x * 2 + y * 2)], [(i + 3) * 4, (x + 3) * y]),
    "associate_mul": Case([(x * (y * z), x * y * z), (i * (j * m), i * j * m)], [f * (g * f), x * (y + z)]),
    "associate_add": Case([(i + (j + m), i + j + m)], [i + j + m, f + (g + f), i + j * m]),
    "constant_out_of_sum": Case([(i + 3 + j, i + j + 3)], [i + j + 3, f + 3.0 + g, i * 3 + j]),
    "constant_out_of_product": Case([(x * 3 * y, x * y * 3), (i * 3 * j, i * j * 3)], [x * y * 3, f * 3.0 * g]),
    "double": Case([(i + i, i * 2)], [f + f, i + j]),
    "add_once_more": Case([(i * 3 + i, i * 4), (i + i * 3, i * 4)], [i * 3 + j, f * 3.0 + f]),
    "add_factors": Case([(i * 3 + i * 5, i * 8)], [i * 3 + j * 5, f * 3.0 + f * 5.0]),
    "order_operands": Case([(e * a, a * e), (op("MAX", e // 2, a), op("MAX", a, e // 2)), (e.ne(a), a.ne(e)), (j & i, i & j)], [a * e, (e * (a * e)), (a < e) & (b & c), g * f, i & 3]),
}  # fmt: skip


test_row, test_proof, test_no_stale_cases = table_tests((pm_normal_form, CASES))


def test_every_order_of_a_sum_is_one_node() -> None:
    terms = [a * 32, e * 4, x, s // 2, k(7), a]
    found = {sum(order[1:], order[0]).simplify() for order in itertools.permutations(terms)}
    assert len(found) == 1


def test_a_sum_is_no_deeper_than_its_terms() -> None:
    """Hundreds of terms: each is put in its place once."""
    terms = [UOp.range(4, n) * n for n in range(1, 401)]
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = total + term
    forward = terms[0]
    for term in terms[1:]:
        forward = forward + term
    assert total.simplify() is forward.simplify()

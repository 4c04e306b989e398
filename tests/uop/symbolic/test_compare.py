"""Each row of `pm_compare`: a case that fires, a near miss, and a proof."""

from __future__ import annotations

import pytest

from tests.uop.symbolic.cases import (
    Case,
    b,
    c,
    d,
    f,
    i,
    k,
    s,
    t,
    table_tests,
    u8,
    variable,
    x,
    y,
    z,
)
from tinylab.dtype import dtypes
from tinylab.uop.ops import UOp
from tinylab.uop.symbolic import pm_compare

v = variable("v", 0, 1000, dtypes.int32)


def no(a: UOp) -> UOp:
    return a.ne(k(True))


CASES = {
    "lt_self": Case([(x < x, k(False)), (f < f, k(False))], [x < y, x.ne(x)]),
    "lt_bool": Case([(b.cast(dtypes.int32) < 1, no(b)), (b.cast(dtypes.int32) > 0, b)], [b.cast(dtypes.int32) < 2, u8.cast(dtypes.int32) < 1, b.cast(dtypes.float32) < 1.0]),
    "ne_bool": Case([(b.cast(dtypes.int32).ne(0), b), (b.cast(dtypes.int32).ne(1), no(b))], [b.cast(dtypes.int32).ne(2), u8.cast(dtypes.int32).ne(0)]),
    "lt_constant": Case(
        [
            (x + 3 < 10, x < 7),
            (x * 4 < 10, x < 3),
            (x * 4 + s < 32, x < 8),
            (x * 4 + s + 4 < 32, x < 7),
            (x * -1 < 5, k(-5) < x),
            (x * -3 + 1 < 5, k(-2) < x),
            (x // 4 < 3, x < 12),
            (x * 2 + y * 4 < 9, x + y * 2 < 5),
            (v + 3 < 10, v < 7),
        ],
        [x < 7, x + y < 7, x * 4 + s < 30, x * 4 + y < 32, i + 3 < 10, i * 4 < 10, f + 3.0 < 10.0],
    ),
    "gt_constant": Case(
        [
            (k(10) < x + 3, k(7) < x),
            (k(10) < x * 4, k(2) < x),
            (k(31) < x * 4 + s, k(7) < x),
            (k(5) < x * -1, x < -5),
            (k(2) < x // 4, k(11) < x),
        ],
        [k(7) < x, k(7) < x + y, k(30) < x * 4 + s, k(10) < i + 3],
    ),
    "ne_constant": Case([((x + 3).ne(10), x.ne(7)), ((x * 4).ne(8), x.ne(2)), ((x * 4 + y * 8 + 3).ne(11), (x + y * 2).ne(2)), ((x * 4).ne(7), k(True))], [x.ne(7), (x * 4 + y).ne(8), (i * 4).ne(8), x.ne(y)]),
    "lt_shared": Case([(x + z < y + z, x < y), (x + 3 < y + 5, x < y + 2), (x * 3 + y < x * 2 + z, x + y < z)], [x < y, x + 3 < y, x + z < y + z * -1, i + u8.cast(dtypes.int32) < v + u8.cast(dtypes.int32)]),
    "not_lt": Case([(no(x < 5), k(4) < x), (no(i < 5), k(4, dtypes.int32) < i)], [no(f < 5.0), no(x < y), no(i < dtypes.int32.min)]),
    "not_gt": Case([(no(k(5) < x), x < 6)], [no(k(5.0, dtypes.float32) < f), no(y < x), no(k(dtypes.int32.max, dtypes.int32) < i)]),
    "join_conditions": Case(
        [
            ((x < 5) & (x < 3), x < 3),
            ((k(5) < x) & (k(3) < x), k(5) < x),
            ((x < 5) & (k(4) < x), k(False)),
            ((x < 5) & (y < 3) & (x < 5), (x < 5) & (y < 3)),
            ((y < 3) & (x < 5), (x < 5) & (y < 3)),
            (b & (c & d), b & c & d),
        ],
        [(x < 5) & (y < 3), (x < 5) & (k(3) < x), b & c, (x < 5) | (x < 3), i & v],
    ),
}  # fmt: skip


test_row, test_proof, test_no_stale_cases = table_tests((pm_compare, CASES))


@pytest.mark.parametrize("limit", range(-9, 10))
def test_every_constant(limit: int) -> None:
    """A sum against each constant near its bounds, by all values."""
    for total in (s * 4 + t, s * -4 + t, s * 6 + t * 3 + 2, (s * 4 + t) // 3):
        for compared in (total < limit * 3, total > limit * 3, total.ne(limit), no(total < limit)):
            simpler = compared.simplify()
            for a in range(4):
                for e in range(4):
                    given = {s: k(a), t: k(e)}
                    want = compared.substitute(given).simplify()
                    assert simpler.substitute(given).simplify() is want

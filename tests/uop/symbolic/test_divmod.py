"""Each row of `pm_divmod`: a case that fires, a near miss, and a proof."""

from __future__ import annotations

import pytest

from tests.uop.symbolic.cases import (
    Case,
    i,
    k,
    op,
    p,
    q,
    s,
    table_tests,
    variable,
    x,
    y,
    z,
)
from tinylab.dtype import dtypes
from tinylab.uop.ops import UOp
from tinylab.uop.symbolic import pm_divmod

v = variable("v", 0, 1000, dtypes.int32)
one = variable("one", 0, 1)
r4, r8, r16 = UOp.range(4, 0), UOp.range(8, 1), UOp.range(16, 2)

CASES = {
    "div_negative": Case([(x // -3, x * -1 // 3)], [x // 3, i // -3]),
    "mod_negative": Case([(x % -3, x * -1 % 3 * -1)], [x % 3, i % -3]),
    "mod_in_period": Case([(s % 4, s), ((s + 4) % 4, s + 4 + -4), ((s + -4) % 4, s + -4 + 4)], [s % 3, (s + 1) % 4, x % 4]),
    "div_multiples": Case(
        [
            ((x * 8 + y) // 8, x + y // 8),
            ((x * 8 + 3) // 8, x),
            ((x * 4 + y + 9) // 4, (x + 2) + (y + 1) // 4),
            ((y + -1) // 4, k(-1) + (y + 3) // 4),
            ((one * 5) // 4, one),
            ((v * 8 + 3) // 8, v),
        ],
        [(x * 3 + y) // 8, (x + 3) // 4, (i * 8) // 8],
    ),
    "mod_multiples": Case(
        [
            ((x * 8 + y) % 8, y % 8),
            ((x * 9 + y) % 8, (x + y) % 8),
            ((x + 9) % 8, (x + 1) % 8),
            ((x * 8 + s) % 8, s),
            ((one * 7 + 8) % 8, one * 7),
        ],
        [(x * 3 + y) % 8, (x + 3) % 4, (i * 8) % 8],
    ),
    "div_factor": Case([((x * 4 + s) // 8, x // 2), ((x * 6 + y * 9 + 5) // 12, (x * 2 + y * 3 + 1) // 4), ((x * 4 + 3) // 8, x // 2)], [(x * 4 + y) // 8, (x * 4 + s + 1) // 8, (x * 3 + s) // 8]),
    "mod_factor": Case([((x * 4 + s) % 8, x % 2 * 4 + s), ((x * 6 + 5) % 12, x % 2 * 6 + 5)], [(x * 4 + y) % 8, (x * 4 + s + 1) % 8]),
    "div_div": Case([(x // 2 // 4, x // 8), ((x // 2 + 3) // 4, (x + 6) // 8)], [x // 2 // y, (x // 2 + y) // 4, x % 2 // 4]),
    "div_mod": Case([(x % 32 // 8, x // 8 % 4)], [x % 30 // 8, x % y // 8]),
    "mod_mod": Case([(x % 32 % 8, x % 8), ((x % 32 + y) % 8, (x + y) % 8), ((x % 4 * 2 + y) % 8, (x * 2 + y) % 8)], [x % 30 % 8, (x % 4 + y) % 8]),
    "div_add_mod": Case(
        [
            (x % 4 + x // 4 * 4, x),
            (y + x // 4 * 12 + x % 4 * 3, x * 3 + y),
            (x // 4 % 8 * 4 + x % 4, x % 32),
            (x // 8 * 4 + x // 2 % 4, x // 2),
        ],
        [x // 4 * 3 + x % 4, x // 4 * 4 + y % 4, x // 2 * 4 + x % 4, x // 4 * 4 + x % 5],
    ),
    "div_cancel": Case([(x * p // p, x)], [x * y // y, x * p // q]),
    "mod_cancel": Case([(x * p % p, k(0))], [x * y % y, x * p % q]),
    "cdiv_cdiv": Case([(op("CDIV", op("CDIV", z, k(3)), k(4)), op("CDIV", z, k(12)))], [op("CDIV", op("CDIV", z, k(3)), k(-4)), op("CDIV", op("CDIV", i, k(1 << 20, dtypes.int32)), k(1 << 20, dtypes.int32))]),
}  # fmt: skip


test_row, test_proof, test_no_stale_cases = table_tests((pm_divmod, CASES))


@pytest.mark.parametrize(
    ("index", "simple"),
    [
        ((r4 * 128 + r8 * 16 + r16) // 128, r4),
        ((r4 * 128 + r8 * 16 + r16) % 128, r8 * 16 + r16),
        ((r4 * 128 + r8 * 16 + r16) // 16 % 8, r8),
        ((r4 * 128 + r8 * 16 + r16) % 16, r16),
        ((r4 * 8 + r8) // 16 * 16 + (r4 * 8 + r8) % 16, r4 * 8 + r8),
        ((r4 * 3 + r8 * 12) // 12, r8),
        ((r4 * 2 + r8 * 16 + 1) // 8, r8 * 2),
        ((r16 + 16) // 16, k(1)),
        ((r16 - 16) // 16, k(-1)),
        (r16 // 4 * 4 + r16 % 4, r16),
    ],
    ids=lambda u: u.render(simplify=False),
)
def test_reshaped_indices(index: UOp, simple: UOp) -> None:
    """What a reshape leaves of an index: the loops of the other shape."""
    assert index.simplify() is simple

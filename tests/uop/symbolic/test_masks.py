"""Each row of `pm_masks` and `pm_ranges`: a case that fires, a near miss, and a proof."""

from __future__ import annotations

from tests.uop.symbolic.cases import (
    Case,
    b,
    c,
    k,
    op,
    table_tests,
    x,
    y,
)
from tinylab.dtype import Invalid, dtypes
from tinylab.uop.ops import Ops, PatternMatcher, UOp, graph_rewrite
from tinylab.uop.symbolic import limits, pm_masks, pm_ranges, simplify_under, sym

INVALID = k(Invalid)
r, n = UOp.range(8, 0), UOp.range(16, 1)


def masked(valid: UOp, value: UOp) -> UOp:
    return UOp(Ops.WHERE, src=(valid, value, INVALID))


def no(a: UOp) -> UOp:
    return a.ne(k(True))


MASKS = {
    "mask_order": Case([(UOp(Ops.WHERE, src=(b, INVALID, x)), masked(no(b), x))], [masked(b, x), UOp(Ops.WHERE, src=(b, INVALID, INVALID)), b.where(x, y)]),
    "mask_outward": Case(
        [
            (masked(b, x) + y, masked(b, x + y)),
            (y * masked(b, x), masked(b, y * x)),
            (masked(b, x) < y, masked(b, x < y)),
            (masked(b, x).cast(dtypes.int32), masked(b, x.cast(dtypes.int32))),
        ],
        [b.where(x, y) + y, x + y, masked(b, x)],
    ),
    "mask_out_of_choice": Case(
        [
            (c.where(masked(b, x), y), masked(no(c) | b, c.where(x, y))),
            (c.where(y, masked(b, x)), masked(c | b, c.where(y, x))),
            (UOp(Ops.WHERE, src=(masked(b, c), x, y)), masked(b, c.where(x, y))),
        ],
        [c.where(b.where(x, y), y), masked(c, masked(b, x))],
    ),
}  # fmt: skip
RANGES = {
    "mask_known": Case(
        [
            (masked(r < 4, r % 4), masked(r < 4, r)),
            (masked(r + n < 4, (r + n) // 4), masked(r + n < 4, k(0))),
            (masked((k(3) < r) & (n < 8), n // 8 + r // 4), masked((k(3) < r) & (n < 8), k(1))),
        ],
        [masked(r < 5, r % 4), masked(n < 4, r % 4), b.where(r % 4, r), masked(b, r % 4)],
    ),
    "clause_implied": Case(
        [((r < 2) & (r // 4 < 1), r < 2)],
        [(r < 4) & (n < 4), (r < 5) & (r // 4 < 1), b & c],
    ),
}  # fmt: skip


test_row, test_proof, test_no_stale_cases = table_tests((pm_masks, MASKS), (pm_ranges, RANGES))


def test_limits_of_a_condition() -> None:
    assert limits((r < 4) & (k(1) < n) & b) == {r: (0, 3), n: (2, 15)}


def test_a_place_that_memory_holds_keeps_its_own_mask() -> None:
    """It is looked up where the mask around it does not hold, too."""
    table = UOp.placeholder((16,), dtypes.int32, 0)
    inner = table.index(masked(r < 4, r)).cast(dtypes.weakint)
    assert graph_rewrite(masked(r < 4, inner + r % 4), sym) is masked(r < 4, r + inner)
    wrapped = table.index(n % 8).cast(dtypes.weakint)
    assert graph_rewrite(masked(n < 8, wrapped), sym) is masked(n < 8, wrapped)


def test_limits_of_a_value_that_memory_holds_are_known() -> None:
    x = UOp.placeholder((16,), dtypes.int32, 0).index(r).cast(dtypes.weakint)
    assert graph_rewrite(masked((x < 4) & (k(-1) < x), x % 4), sym).src[1] is x


def test_limits_of_one_value_meet() -> None:
    assert limits((r < 6) & (k(1) < r)) == {r: (2, 5)}


def test_under_a_condition_that_says_nothing_the_same_object() -> None:
    x = r * 16 + n
    assert simplify_under(x, n < 16) is x
    assert simplify_under(x, b) is x


def test_a_masked_index_is_not_folded_to_its_only_value() -> None:
    """Loads at an index that is not valid give 0, whatever the index would be."""
    x = masked(r < 4, k(0))
    assert graph_rewrite(x + 3, sym) is masked(r < 4, k(3))


def test_a_factor_of_zero_keeps_the_mask() -> None:
    assert graph_rewrite(masked(r < 4, n) * 0, sym) is masked(r < 4, k(0))


def test_padding_index() -> None:
    """The index of a convolution's padded input: the mask loses what the bounds know."""
    i = r + n - 4
    valid = (i < 10) & (i < 0).logical_not() & (r < 8)
    found = graph_rewrite(i.valid(valid), sym)
    assert found is graph_rewrite(i.valid((k(3) < r + n) & (r + n < 14)), sym)
    assert op("ADD", r, n) in found.toposort()


def test_never_valid() -> None:
    assert graph_rewrite(r.valid((r < 2) & (k(5) < r)), sym).arg is Invalid


def test_a_value_known_exactly_is_put_in_and_other_constants_stay() -> None:
    """Sizes of loops are constants too: putting the value back must not touch them."""
    found = graph_rewrite((r * 7 + n).valid(k(6) < r), sym)
    assert found is graph_rewrite((n + 49).valid(k(6) < r), sym)


def test_no_rule_of_masks_without_a_mask() -> None:
    x = (r < 4).where(r, n) + 1
    assert graph_rewrite(x, PatternMatcher([*pm_masks.rules])) is x

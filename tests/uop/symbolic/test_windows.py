"""`pm_windows`: sliding windows read backwards, and indices under their conditions."""

from __future__ import annotations

from tests.uop.symbolic.cases import (
    Case,
    k,
    table_tests,
)
from tinylab.uop.ops import UOp, graph_rewrite
from tinylab.uop.symbolic import sym
from tinylab.uop.symbolic.windows import expose_windows, pm_windows

place, shift = UOp.range(6, 0), UOp.range(3, 1)

CASES = {
    "mod_window": Case(
        [
            ((place + shift * 6) % 7 < 4, (k(-1) < place + shift * -1) & (place + shift * -1 < 4)),
            ((place + shift * 6) % 7 < 1, (k(-1) < place + shift * -1) & (place + shift * -1 < 1)),
        ],
        [(place + shift * 6) % 7 < 6, (place + shift) % 7 < 4, place % 7 < 4, (place + shift * 6) % 7 < shift],
    ),
}  # fmt: skip


test_row, test_proof, test_no_stale_cases = table_tests((pm_windows, CASES))


def test_quotient_and_remainder_in_a_known_window() -> None:
    x, rest = place + shift * 6, place + shift * -1
    assert expose_windows(x // 7, {rest: (0, 3)}) is shift
    assert expose_windows(x % 7, {rest: (0, 3)}) is rest


def test_nothing_known_the_same_object() -> None:
    x = (place + shift * 6) // 7
    assert expose_windows(x, {}) is x
    assert expose_windows(x, {place: (0, 3)}) is x


def test_the_index_of_a_window_needs_no_division() -> None:
    x = place + shift * 6
    masked = (x % 7 + x // 7 * 4).valid(x % 7 < 4)
    found = graph_rewrite(masked, sym).src[1]
    assert found is graph_rewrite(place + shift * 3, sym)

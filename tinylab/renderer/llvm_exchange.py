"""Lanes that change places with rows: a transposition in log2(lanes) shuffles for each row.

An element's place is a number whose low bits are its lane and whose high bits are its row. A
movement that only permutes those bits is done by exchanging a lane bit with a row bit, one after
another: each exchange is one shuffle of two rows for each row.

(4, 4) turned: lane bits 0, 1 <-> row bits 0, 1: two exchanges of four shuffles, not 16 inserts
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# shuffle(a, b, places) -> name of the row with those lanes of a, then of b
Shuffle = Callable[[str, str, Sequence[int]], str]


def bit_order(source: Sequence[int]) -> list[int] | None:
    """For each bit of a place, the bit of the source's place that it is; None if it is none.

    [0, 2, 1, 3] -> [1, 0]
    """
    count = len(source)
    bits = count.bit_length() - 1
    if count != 1 << bits or source[0] != 0:
        return None
    steps = [source[1 << p] for p in range(bits)]
    if any(s & (s - 1) or not s for s in steps) or sum(steps) != count - 1:
        return None
    for i in range(1, count):
        low = i & -i
        if source[i] != source[i ^ low] + source[low]:
            return None
    return [s.bit_length() - 1 for s in steps]


def exchange(
    rows: Sequence[str], lane_bits: int, order: Sequence[int], shuffle: Shuffle
) -> list[str]:
    """The rows after a permutation of the bits of their places."""
    found = list(rows)
    at = list(range(len(order)))  # which bit of the source's place stands at each bit now
    for lane in range(lane_bits):
        now = at.index(order[lane])
        if now == lane:
            continue
        if now < lane_bits:
            found = [_within(r, lane, now, lane_bits, shuffle) for r in found]
        else:
            found = _between(found, lane, now - lane_bits, lane_bits, shuffle)
        at[lane], at[now] = at[now], at[lane]
    row_bits = len(order) - lane_bits
    places = [at.index(order[lane_bits + p]) - lane_bits for p in range(row_bits)]
    return [
        found[sum((i >> p & 1) << places[p] for p in range(row_bits))] for i in range(len(found))
    ]


def _within(row: str, a: int, b: int, lane_bits: int, shuffle: Shuffle) -> str:
    """A row with two of its lane bits exchanged."""

    def swapped(i: int) -> int:
        differ = (i >> a & 1) ^ (i >> b & 1)
        return i ^ (differ << a) ^ (differ << b)

    return shuffle(row, row, [swapped(i) for i in range(1 << lane_bits)])


def _between(rows: list[str], lane: int, row: int, lane_bits: int, shuffle: Shuffle) -> list[str]:
    """All rows with a lane bit and a row bit exchanged: pair by pair."""
    width, bit = 1 << lane_bits, 1 << lane
    # Lane i of the first row of a pair comes from the first one where its bit is 0.
    low = [i if not i & bit else width + (i ^ bit) for i in range(width)]
    high = [i | bit if not i & bit else width + i for i in range(width)]
    found = list(rows)
    for i in range(len(rows)):
        if i >> row & 1:
            continue
        a, b = rows[i], rows[i | 1 << row]
        found[i], found[i | 1 << row] = shuffle(a, b, low), shuffle(a, b, high)
    return found

"""Transpositions by shuffles, run on lists instead of registers."""

from __future__ import annotations

import itertools

import pytest

from tinylab.renderer.llvm_exchange import bit_order, exchange


def turned(shape: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """For each place of the permuted array the place of the source."""
    steps = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        steps[i] = steps[i + 1] * shape[i + 1]
    places = itertools.product(*(range(shape[a]) for a in order))
    return [sum(i * steps[a] for i, a in zip(at, order, strict=True)) for at in places]


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((4, 4), (1, 0)),
        ((16, 16), (1, 0)),
        ((2, 8, 8), (0, 2, 1)),
        ((8, 2, 8), (2, 1, 0)),
        ((4, 2, 8), (1, 0, 2)),
    ],
)
def test_exchange_moves_every_lane(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    source, width = turned(shape, order), shape[-1]
    found = bit_order(source)
    assert found is not None
    made: dict[str, list[int]] = {}
    count = len(source) // width
    for i in range(count):
        made[f"r{i}"] = list(range(i * width, (i + 1) * width))

    def shuffle(a: str, b: str, places: list[int]) -> str:
        both, name = made[a] + made[b], f"t{len(made)}"
        made[name] = [both[p] for p in places]
        return name

    rows = exchange([f"r{i}" for i in range(count)], width.bit_length() - 1, found, shuffle)
    assert [lane for row in rows for lane in made[row]] == source
    assert len(made) - count <= count * (width.bit_length() - 1)


@pytest.mark.parametrize(
    "source", [[0, 1, 2], [1, 0], [0, 1, 3, 2], [0, 0, 1, 1], [0, 2, 1, 3, 4, 5, 6, 7]]
)
def test_what_is_no_permutation_of_bits(source: list[int]) -> None:
    assert bit_order(source) is None

"""Program order decides: stories of in-place writes, each of which went wrong once.

`tests/property/test_in_place.py` tells random ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Tensor, Variable, dtypes


def stored(factor: int = 1) -> Tensor:
    array = np.arange(4, dtype=np.int32) * factor
    return Tensor(array.copy()).contiguous().realize()


def held_over_two_writes() -> list[tuple[Tensor, list[int]]]:
    """What the second write reads, the first one replaces."""
    s = stored()
    d = s * 2
    s.assign(s + 1)
    s.assign(d + 1)
    return [(s, [1, 3, 5, 7]), (d, [0, 2, 4, 6])]


def a_reader_that_writes() -> list[tuple[Tensor, list[int]]]:
    """What must be computed before a write writes too, and has readers of its own."""
    s, t = stored(), stored()
    d = s * 2 + 1
    s.assign(s + 1)
    e = t * 2 + 1
    t.assign(d + 1)
    return [(s, [1, 2, 3, 4]), (d, [1, 3, 5, 7]), (e, [1, 3, 5, 7]), (t, [2, 4, 6, 8])]


def a_view_of_a_state_that_is_over() -> list[tuple[Tensor, list[int]]]:
    s = stored()
    s.assign(s + 1)
    d = s.flip(0)
    s.assign(s + 1)
    return [(s, [2, 3, 4, 5]), (d, [4, 3, 2, 1])]


def a_view_that_a_later_write_reaches() -> list[tuple[Tensor, list[int]]]:
    s, t = stored(), stored(2)
    s.assign(t + 1)
    d = s.flip(0)
    s.assign(s + 1)
    t.assign(t + 1)
    return [(t, [1, 3, 5, 7]), (s, [2, 4, 6, 8]), (d, [7, 5, 3, 1])]


def a_circle_by_way_of_readers() -> list[tuple[Tensor, list[int]]]:
    """No two writes need each other's old value; with a reader between them, three do."""
    s, t = stored(), stored(2)
    d = s * 2 + 1
    s.assign(s + 1)
    s.assign(t + 1)
    t.assign(t + 1)
    e = d + t
    return [(d, [1, 3, 5, 7]), (s, [1, 3, 5, 7]), (t, [1, 3, 5, 7]), (e, [2, 6, 10, 14])]


def a_value_realised_between() -> list[tuple[Tensor, list[int]]]:
    """Every tensor that holds a value learns that it is memory now, written ones too."""
    s, t = stored(), stored(2)
    d = s * 2 + 1
    s.assign(t + 1)
    e = s.detach()
    s.assign(d + 1)
    t[0:1] = s[:1] * 3
    d.realize()
    return [(s, [2, 4, 6, 8]), (e, [1, 3, 5, 7]), (t, [6, 2, 4, 6])]


def a_view_of_a_write_that_is_overwritten() -> list[tuple[Tensor, list[int]]]:
    """A result that is a view of a state is copied where that state is overwritten."""
    s = stored()
    d = s * 2 + 1
    s[0:1] = s[:1] * 3
    e = s.detach()
    first = [0, 1, 2, 3]
    s.assign(d + 1)
    return [(d, [1, 3, 5, 7]), (e, first), (s, [2, 4, 6, 8])]


def a_count_that_runs_a_write() -> list[tuple[Tensor, list[int]]]:
    """How many a mask selects must be known; what is selected knows that the write has run."""
    s = stored()
    s[0:2] = s[:2] * 3 + 4
    e = s.masked_select(s > 3)
    s.assign(s * 2)
    return [(e, [4, 7]), (s, [8, 14, 4, 6])]


def a_write_that_a_reader_pulls_in() -> list[tuple[Tensor, list[int]]]:
    """Realising e runs t's swap and no more; the write to u waits, and so does what reads u."""
    s, t, u = stored(), stored(10), stored(100)
    was = t + 0
    t.assign(s + 0)
    s.assign(was)
    d = s + u
    u.assign(t * 3)
    e = t * 2
    t.assign(s + 1)
    e.realize()
    return [
        (d, [0, 110, 220, 330]),
        (s, [0, 10, 20, 30]),
        (t, [1, 11, 21, 31]),
        (u, [0, 3, 6, 9]),
        (e, [0, 2, 4, 6]),
    ]


def a_write_that_nobody_holds() -> list[tuple[Tensor, list[int]]]:
    """s after its first write is held only below d and the second write."""
    s, t = stored(), stored(10)
    s.assign(t + 1)
    d = s * 2
    s.assign(s + 1)
    t.assign(t * 3)
    t.realize()
    return [(d, [2, 22, 42, 62]), (s, [2, 12, 22, 32]), (t, [0, 30, 60, 90])]


STORIES = [
    held_over_two_writes,
    a_reader_that_writes,
    a_view_of_a_state_that_is_over,
    a_view_that_a_later_write_reaches,
    a_circle_by_way_of_readers,
    a_value_realised_between,
    a_view_of_a_write_that_is_overwritten,
    a_count_that_runs_a_write,
    a_write_that_a_reader_pulls_in,
    a_write_that_nobody_holds,
]


@pytest.mark.parametrize("last_first", [False, True], ids=["in order", "last first"])
@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_story(story: Callable[[], list[tuple[Tensor, list[int]]]], last_first: bool) -> None:
    told = story()
    for found, expected in reversed(told) if last_first else told:
        assert found.tolist() == expected


@pytest.mark.parametrize("again", [False, True], ids=["written once", "written twice"])
def test_a_write_that_is_pulled_in_may_have_other_variables(again: bool) -> None:
    n = Variable("n", 1, 4)
    s, t, u = stored(), stored(10), stored(100)
    old = s + 0
    s.assign(s + t[: n.bind(2)].sum())
    d = s * 2
    if again:  # nobody holds s as it was after the first write
        s.assign(s + u[: n.bind(4)].sum())
    t.assign(t + u[: n.bind(3)].sum()).realize()
    assert d.tolist() == [20, 22, 24, 26]
    assert s.tolist() == [10 + again * 600 + k for k in range(4)]
    assert t.tolist() == [300, 310, 320, 330]
    assert old.tolist() == [0, 1, 2, 3]


def test_a_reader_of_a_weak_type_keeps_its_value() -> None:
    x = Tensor.zeros(4).contiguous().realize()
    picked = (x > 0).where(1, 2)
    x += 1
    x.realize()
    assert picked.tolist() == [2, 2, 2, 2]
    assert dtypes.is_weak(picked.dtype)


def test_a_weak_value_of_random_numbers_can_be_looked_at() -> None:
    hot = Tensor.randint(100, high=5).one_hot(5)
    assert hot.numpy().sum() == 100
    assert hot.sum().item() == 100

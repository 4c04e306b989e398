"""Which tensors a write reaches: views of what was not written to since, whatever is realised.

`tests/property/test_views.py` tells random stories.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from tinylab import Context, Tensor, TinyJit, dtypes

Look = Callable[[Tensor], Tensor]
# Of eight numbers: elements 2 and 3, on the last axis.
VIEWS: dict[str, Look] = {
    "slice": lambda a: a[2:4],
    "rows of a reshape": lambda a: a.reshape(4, 2)[1],
    "permuted": lambda a: a.reshape(4, 2).T[:, 1],
    "flipped twice": lambda a: a.flip(0)[4:6].flip(0),
    "with gaps": lambda a: a[2:6:3].reshape(1, 2)[0, :1].unsqueeze(0).shrink(((0, 1), (0, 1)))[0],
    "bits": lambda a: a.bitcast(dtypes.uint32)[2:4],
    "small bits": lambda a: a.bitcast(dtypes.int16)[4:8],
    "detached": lambda a: a.detach()[2:4].detach(),
    "contiguous": lambda a: a[2:4].contiguous(),
    "all of it, contiguous": lambda a: a.contiguous()[2:4],
    "on its device": lambda a: a.to("CPU")[2:4],
    "one of two": lambda a: a.reshape(4, 2).split(1)[1],
}
BETWEEN: dict[str, Callable[[Tensor, Tensor], object]] = {
    "nothing": lambda a, b: None,
    "the owner is realised": lambda a, b: a.realize(),
    "the view is realised": lambda a, b: b.realize(),
    "both are": lambda a, b: a.realize(b),
    "the owner is shown": lambda a, b: a.tolist(),
    "the view is shown": lambda a, b: b.tolist(),
    "something else is computed": lambda a, b: (a + 1).realize(),
}


def numbers(n: int = 8) -> Tensor:
    return Tensor(list(range(n))).contiguous().realize()


def pending(n: int = 8) -> Tensor:
    return Tensor(list(range(n))).contiguous().realize() * 1


@pytest.mark.parametrize("made", [numbers, pending])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("view", VIEWS)
def test_a_write_through_a_view_reaches_its_owner(view, between, made) -> None:
    a = made()
    b = VIEWS[view](a)
    BETWEEN[between](a, b)
    b.assign(b * 0 + 7)
    assert all(n == 7 for n in b.flatten().tolist())
    changed = [n for n, x in enumerate(a.tolist()) if x != n]
    assert changed == ([2] if view == "with gaps" else [2, 3])


@pytest.mark.parametrize("made", [numbers, pending])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_older_than_a_write_is_a_value_of_its_own(view, between, made) -> None:
    a = made()
    b = VIEWS[view](a)
    old = b.clone().tolist()
    a += 10
    BETWEEN[between](a, b)
    assert b.tolist() == old
    b.assign(b * 0 + 7)
    assert a.tolist() == [n + 10 for n in range(8)]
    assert all(n == 7 for n in b.flatten().tolist())


def test_two_views_of_one_owner() -> None:
    a = numbers(4)
    b, c = a[1:3], a[2:]
    b += 10
    c += 10
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0, 11, 12, 3], [11, 12], [12, 13])


@pytest.mark.parametrize("between", BETWEEN)
def test_parts_of_one_buffer_are_updated_each_by_itself(between) -> None:
    """As an optimizer does: no view looks at what the others write to."""
    flat = numbers(6)
    parts = [flat[:2], flat[2:4].reshape(2, 1), flat.reshape(3, 2)[2]]
    for step in range(2):
        for p in parts:
            p.assign(p * 10 + step)
            BETWEEN[between](flat, parts[-1])
    assert flat.tolist() == [1, 101, 201, 301, 401, 501]
    assert [p.flatten().tolist() for p in parts] == [[1, 101], [201, 301], [401, 501]]
    assert len({id(p.uop.base.buffer.base) for p in (flat.realize(), *parts)}) == 1


def test_rows_columns_and_every_second_element() -> None:
    a = numbers(16).reshape(4, 4)
    looks = [a[0], a[1:, 0], a[1:, 1::2], a[1::2, 2], a[2, 2]]
    for n, x in enumerate(looks):
        x.assign(x * 0 - n)
    assert a.tolist() == [[0] * 4, [-1, -2, -3, -2], [-1, -2, -4, -2], [-1, -2, -3, -2]]
    for row in a:
        row += 100
    assert looks[4].tolist() == -4
    assert a.tolist()[2] == [99, 98, 96, 98]
    for half in a.split(2, dim=1):
        half.assign(half * 0)
    assert a.tolist() == [[0] * 4] * 4


def test_a_view_between_that_was_parted() -> None:
    """c looks at what nobody wrote to: it is a view of both, which are apart."""
    a = numbers(4)
    b = a.reshape(2, 2)
    c = b[1]
    a[0] = 9
    c += 10
    assert (a.tolist(), b.tolist(), c.tolist()) == ([9, 1, 12, 13], [[0, 1], [12, 13]], [12, 13])


def test_a_write_reaches_the_views_between() -> None:
    a = numbers(8)
    b = a.reshape(2, 4)
    c = b[1]
    c[0] = -1
    assert (a.tolist()[4], b.tolist()[1], c.tolist()) == (-1, [-1, 5, 6, 7], [-1, 5, 6, 7])
    b += 1  # c is older
    c += 100
    assert (a.tolist()[4:], c.tolist()) == ([0, 6, 7, 8], [99, 105, 106, 107])


@pytest.mark.parametrize("keep", [True, False])
def test_who_still_holds_the_owner_does_not_matter(keep: bool) -> None:
    a = numbers(8)
    b = a.reshape(2, 4)
    c = b[1]
    kept = a if keep else None
    del a
    gc.collect()
    c += 10
    assert b.tolist() == [[0, 1, 2, 3], [14, 15, 16, 17]]
    assert kept is None or kept.tolist() == [0, 1, 2, 3, 14, 15, 16, 17]


def test_what_is_not_contiguous_is_copied_by_contiguous() -> None:
    for realises in (True, False):
        a = pending().reshape(2, 4)
        b = a.T
        if realises:
            b.realize()
        c = b.contiguous()
        c += 100
        assert a.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert b.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
        assert c.tolist() == [[100, 104], [101, 105], [102, 106], [103, 107]]


@pytest.mark.parametrize(
    "made",
    [
        lambda a: a.round(), lambda a: a.abs(), lambda a: a.pad(((0, 0),)), lambda a: a.trunc(),
        lambda a: a.reshape(1, 8).sum(0), lambda a: a.unsqueeze(0).max(0), lambda a: a.repeat(1),
        lambda a: a.roll(0, 0), lambda a: Tensor.cat(a), lambda a: a.sum(()), lambda a: a + 0,
    ],
)  # fmt: skip
@pytest.mark.parametrize("realises", [True, False])
def test_what_is_computed_is_a_value_of_its_own_though_it_is_the_same(made, realises) -> None:
    a = Tensor(list(range(8)), dtype=dtypes.uint32).realize()
    b = made(a)
    if realises:
        b.realize()
    b += 10
    assert (a.tolist(), b.tolist()) == (list(range(8)), list(range(10, 18)))
    a += 1
    assert (a.tolist(), b.tolist()) == (list(range(1, 9)), list(range(10, 18)))


def test_a_clone_is_a_snapshot() -> None:
    a = numbers(4)
    b = a.clone()
    b += 1
    assert a.tolist() == [0, 1, 2, 3]


def test_two_that_look_at_one_memory_and_are_no_views_of_each_other() -> None:
    a = numbers(4)
    b = Tensor.empty(4, dtype=dtypes.int).replace(a)
    b += 10
    a += 1
    assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4], [10, 11, 12, 13])
    b += 10
    assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4], [20, 21, 22, 23])


def test_windows_that_overlap_and_read_each_other() -> None:
    """Each of these was wrong, or a cycle after which nothing could be read."""
    a = numbers()
    b = a[2:4].contiguous()
    a += 10
    b.realize()
    b += a[2:4]
    assert (a.tolist(), b.tolist()) == (list(range(10, 18)), [14, 16])
    a = numbers()
    b, c = a[2:4].contiguous().realize(), a[3:5].contiguous().realize()
    b += c
    c += b
    assert (b.tolist(), c.tolist()) == ([5, 7], [8, 11])
    assert a.tolist() == [0, 1, 5, 7, 4, 5, 6, 7]


def test_a_transposition_in_place() -> None:
    a = numbers(9).reshape(3, 3)
    a.T.assign(a)
    assert a.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    corner = a[:2, :2]
    corner.T.assign(corner)
    assert a.tolist() == [[0, 1, 6], [3, 4, 7], [2, 5, 8]]


@pytest.mark.parametrize("view", VIEWS)
def test_a_captured_write_through_a_view(view) -> None:
    a = numbers()
    b = VIEWS[view](a)
    want = VIEWS[view](a).clone() * 0
    want = want.contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        b.assign(b * 0 + x)
        return b.realize()

    for n in range(5):
        b.realize()
        step(Tensor([n + 20]).cast(b.dtype).contiguous().realize())
        assert b.tolist() == (want + (n + 20)).tolist()
        changed = [k for k, x in enumerate(a.tolist()) if x != k]
        assert changed == ([2] if view == "with gaps" else [2, 3])


def test_a_captured_write_to_an_argument_reaches_what_it_is_a_view_of() -> None:
    step = TinyJit(lambda x: x.assign(x + 1).realize())
    for _ in range(4):
        a = pending()
        b = a[2:4]
        b.realize()
        step(b)
        assert (a.tolist(), b.tolist()) == ([0, 1, 3, 4, 4, 5, 6, 7], [3, 4])
    wide = TinyJit(lambda x: x.assign(x + 1).realize())
    a = numbers()
    wide(a.bitcast(dtypes.int16))
    with pytest.raises(
        RuntimeError, match=r"argument of shape \(16,\) that is a view of another tensor"
    ):
        wide(a.bitcast(dtypes.int16))


@pytest.mark.parametrize("realized", [False, True])
def test_what_pad_gave_has_storage_of_its_own(realized: bool) -> None:
    """A write to the padding itself was lost, as it has no place in what was padded."""
    a = Tensor([1, 2, 3]).clone()
    first, second, square = a.pad(((1, 1),)), a.pad(((1, 1),)), a.diag()
    if realized:
        first.realize(second, square)
    first[0] = 7
    second += 10
    square += 10
    assert first.tolist() == [7, 1, 2, 3, 0]
    assert second.tolist() == [10, 11, 12, 13, 10]
    assert square.tolist() == [[11, 10, 10], [10, 12, 10], [10, 10, 13]]
    assert a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("jit", [0, 1])
@pytest.mark.parametrize("waits", ["owner", "view", "nothing"])
@pytest.mark.parametrize("later", [False, True])
def test_a_view_that_waits_when_a_replay_comes_is_apart(jit: int, waits: str, later: bool) -> None:
    """It was computed just before the replay, and then overlooked: it saw what the replay wrote."""
    with Context(JIT=jit):
        a = Tensor([1, 2, 3]).realize()

        def double() -> None:
            a.assign(a * 2)

        step = TinyJit(double)
        step()
        step()
        if waits == "owner":
            a += 1
        v = a[1:]
        if waits == "view":
            v += 1
        step()
        if later:
            v += 8
        step()
        seen = [9, 13] if waits != "nothing" else [8, 12]
        want = {"owner": [20, 36, 52], "view": [16, 36, 52], "nothing": [16, 32, 48]}[waits]
        assert v.tolist() == [x + 8 * later for x in seen]
        assert a.tolist() == want


@pytest.mark.parametrize("look", [False, True])
def test_a_write_beside_a_view_across_a_cut_leaves_it_a_view(look: bool) -> None:
    """A write to part of a cut axis counted as one to all of it: a later one was lost."""
    start = [[1, 2], [3, 4], [5, 6], [7, 8]]
    a = Tensor(start).shard(("CPU:0", "CPU:1"), 0).clone().realize()
    v = a[1:3]
    a[0:1] = 1
    if look:
        v.realize()
    v.assign(v * 2 + 1)
    assert v.tolist() == [[7, 9], [11, 13]]
    assert a.tolist() == [[1, 1], [7, 9], [11, 13], [7, 8]]
    a[2:4] = 0
    v += 1
    assert v.tolist() == [[8, 10], [12, 14]]
    assert a.tolist() == [[1, 1], [7, 9], [0, 0], [0, 0]]


@pytest.mark.parametrize("least", [100, 1])
def test_a_write_by_mask_parts_views_whatever_it_picks(least: int) -> None:
    s = Tensor([1, 2, 3, 4]).realize()
    view = s[0:2]
    s[s > least] = 9
    view += 10
    assert view.tolist() == [11, 12]
    assert s.tolist() == ([1, 2, 3, 4] if least == 100 else [1, 9, 9, 9])


@pytest.mark.parametrize(
    "order", [lambda t: t.sort(0)[0], lambda t: t.topk(1, 0)[0], lambda t: t.sort(1)[0]]
)
def test_one_element_in_order_is_a_value_of_its_own(order: Callable[[Tensor], Tensor]) -> None:
    t = Tensor([[5]]).realize()
    found = order(t)
    found[0] = 77
    assert (t.tolist(), found.tolist()) == ([[5]], [[77]])

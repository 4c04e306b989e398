"""A dict that keeps what was used last."""

from __future__ import annotations

import threading

from tinylab.helpers.recent import Recent


def test_the_longest_unused_goes_first():
    kept: Recent[str, int] = Recent(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.find("a") == 1  # that is use
    assert kept.keep("c", 3) == 3
    assert dict(kept) == {"a": 1, "c": 3}
    assert kept.find("b") is None


def test_keeping_a_key_again_is_use():
    kept: Recent[str, int] = Recent(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        kept.keep(key, value)
    assert dict(kept) == {"a": 3, "c": 4}


def test_entries_may_weigh_more_than_one():
    kept: Recent[str, str] = Recent(5, len)
    kept.keep("a", "xx")
    kept.keep("b", "xxx")
    assert list(kept) == ["a", "b"]
    kept.keep("c", "x")
    assert list(kept) == ["b", "c"]
    assert kept.weight() == 4


def test_what_went_weighs_nothing():
    kept: Recent[str, str] = Recent(5, len)
    kept.keep("a", "xxx")
    kept.keep("a", "x")
    assert kept.weight() == 1
    kept.keep("b", "xxxx")
    kept.clear()
    assert kept.weight() == 0
    kept.keep("c", "xx")
    assert (list(kept), kept.weight()) == (["c"], 2)


def test_an_entry_is_weighed_once():
    weighed: list[str] = []

    def weigh(text: str) -> int:
        weighed.append(text)
        return len(text)

    kept: Recent[int, str] = Recent(20, weigh)
    for n in range(50):
        kept.keep(n, "xx")
    assert len(weighed) == 50
    assert len(kept) == 10


def test_the_last_stays_however_heavy_it_is():
    kept: Recent[str, str] = Recent(3, len)
    kept.keep("a", "x")
    kept.keep("b", "x" * 10)
    assert list(kept) == ["b"]


def test_threads_that_find_and_keep_meet_no_error():
    kept: Recent[int, int] = Recent(4)
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for n in range(5000):
                key = (n * seed) % 17
                if kept.find(key) not in (None, key):
                    wrong.append(key)
                kept.keep(key, key)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in (3, 5, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert len(kept) <= 4

"""Where a kernel stands, from counters and rates that are given; and that rates can be measured."""

from __future__ import annotations

import pytest

from tests.codegen.kernels import elementwise, matmul
from tests.profiler.test_counted import UPCAST, counts
from tinylab.codegen.opt import Opt
from tinylab.errors import CounterError
from tinylab.profiler.counters.cache import Cache
from tinylab.profiler.counters.data import Counters, Figure, LevelCounts
from tinylab.profiler.roofline import given, measure, roofline, traffic

MACHINE = given(100.0, {"L1": 400.0, "L2": 200.0, "memory": 20.0})


def fake(flops: float, asked: float, l1: float, l2: float) -> Counters:
    figures = (
        Figure("flops", flops, "operations", "counted"),
        Figure("bytes loaded", asked, "bytes", "counted"),
    )
    levels = (
        LevelCounts("L1", 1 << 15, 8, 64, "given", asked / 64, l1),
        LevelCounts("L2", 1 << 20, 16, 64, "given", l1, l2),
    )
    return Counters("r", figures, levels=levels)


def test_traffic_is_of_each_level_and_what_is_behind_it() -> None:
    assert traffic(fake(0, 6400, 50, 10)) == [("L1", 6400), ("L2", 3200), ("memory", 640)]


def test_a_kernel_is_bound_by_the_roof_that_it_is_nearest_to() -> None:
    counters = fake(flops=1e6, asked=4e6, l1=31250, l2=15625)
    found = roofline(counters, 100_000, MACHINE)
    assert found.gflops == 10
    assert [p.level for p in found.points] == ["L1", "L2", "memory"]
    assert [p.intensity for p in found.points] == [0.25, 0.5, 1.0]
    assert [p.gbs for p in found.points] == [40, 20, 10]
    assert (found.bound, found.reached) == ("memory", 0.5)
    busy = roofline(fake(9e6, 100, 1, 1), 100_000, MACHINE)
    assert (busy.bound, busy.reached) == ("arithmetic", 0.9)


def test_no_byte_of_a_level_is_no_intensity() -> None:
    found = roofline(fake(100, 640, 10, 0), 1000, MACHINE)
    assert found.points[-1].intensity is None
    assert found.points[-1].gbs == 0


def test_every_figure_says_where_it_is_from() -> None:
    counters = counts(matmul(16, 16, 16), Opt(UPCAST, 1, 16), caches=[Cache("L1", 1 << 15, 8)])
    found = roofline(counters, 1000, MACHINE).to_json()
    assert found["machine"]["arithmetic"]["kind"] == "given"
    assert {roof["kind"] for roof in found["machine"]["levels"]} == {"given"}
    assert {point["kind"] for point in found["points"]} == {"counted"}
    assert found["gflops"] == 2 * 16**3 / 1000


def test_a_copy_has_rates_without_operations() -> None:
    found = roofline(counts(elementwise(4, 16), caches=[Cache("L1", 1 << 15, 8)]), 500, MACHINE)
    assert found.bound in ("L1", "memory", "arithmetic")
    assert found.reached > 0


@pytest.mark.parametrize("elapsed", [0, -5])
def test_a_time_that_is_none_is_refused(elapsed: float) -> None:
    with pytest.raises(CounterError, match="run it first"):
        roofline(fake(1, 1, 1, 1), elapsed, MACHINE)


def test_counters_without_caches_are_refused() -> None:
    with pytest.raises(CounterError, match="cache model"):
        roofline(counts(matmul(), caches=()), 100, MACHINE)


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(CounterError, match="rate of L2 is 0"):
        given(10, {"L2": 0})


def test_the_machine_can_be_measured() -> None:
    found = measure(1)
    assert found is measure(1)  # once a process
    assert found.arithmetic.kind == "measured"
    assert found.arithmetic.rate > 0.1
    names = [roof.name for roof in found.levels]
    assert names[0] == "L1"
    assert names[-1] == "memory"
    assert all(roof.rate > 0.01 and roof.kind == "measured" for roof in found.levels)

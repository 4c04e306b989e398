"""Advice: given where figures call for it, accepted by the kernel, better by its own figures."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.codegen.kernels import KERNELS, column_sum, elementwise, matmul, param, row_reduce, sink
from tests.codegen.test_opts import TRIES, legal
from tests.profiler.test_counted import UPCAST, counts, lowered
from tinylab.codegen.opt import Opt, OptOps
from tinylab.device import Device
from tinylab.helpers.context import Context
from tinylab.lab.kernels import opts_from_json
from tinylab.opcodes import Ops
from tinylab.profiler.advice import Advice, advise, advise_gpu
from tinylab.profiler.counters import counted
from tinylab.profiler.counters.cache import Cache
from tinylab.profiler.counters.data import Counters
from tinylab.profiler.counters.estimated import estimate
from tinylab.uop.ops import UOp

CACHES = (Cache("L1", 8 << 10, 4), Cache("L2", 128 << 10, 8))


def advised(kernel: UOp, *opts: Opt) -> tuple[Counters, dict[str, Advice]]:
    found = counts(kernel, *opts, caches=CACHES)
    ren: Any = Device["CPU"].renderer
    return found, {a.name: a for a in advise(kernel, opts, found, ren)}


def wide() -> int:
    from tinylab.dtype import dtypes

    return int(Device["CPU"].renderer.vector_width(dtypes.float32))


def test_columns_are_taken_side_by_side() -> None:
    """What the advice says comes true: fewer lines, fewer misses, vectors."""
    before, advice = advised(column_sum(128, 256))
    found = advice["new_lines"]
    assert found.opts == (Opt(UPCAST, 0, 16),)
    assert "the load of data1 touches a new cache line at each step of axis 1" in found.title
    assert {f.kind for f in found.figures} == {"counted"}
    assert {f.name: f.value for f in found.figures} == {
        "stride of the innermost loop": 1024,
        "lines touched per element": 1,
        "L1 misses per element": 1,
    }
    (load,) = [u for u in before.uops if u.op == "LOAD" and u.buffer == 1]
    assert found.uops == (load.uop,)
    after, advice = advised(column_sum(128, 256), *found.opts)
    assert after.levels[0].misses * 8 <= before.levels[0].misses
    assert after["arithmetic width"].value == 16
    assert "new_lines" not in advice


def test_axes_are_swapped_where_all_accesses_lie_the_other_way() -> None:
    m, n = 64, 256
    i, j = UOp.range(n, 0), UOp.range(m, 1)
    kernel = sink(
        param(0, m * n).index(j * n + i).store(param(1, m * n).index(j * n + i) + 1.0).end(i, j)
    )
    before, advice = advised(kernel)
    found = advice["new_lines"]
    assert found.title.endswith("swap axes 0 and 1")
    assert found.opts == (Opt(OptOps.SWAP, 0, 1),)
    after, again = advised(kernel, *found.opts)
    assert after.levels[0].misses * 8 <= before.levels[0].misses
    assert "new_lines" not in again


def test_a_kernel_that_is_well_has_no_advice_of_lines_and_lanes() -> None:
    _, advice = advised(column_sum(128, 256), Opt(UPCAST, 0, 16), Opt(OptOps.UNROLL, 0, 8))
    assert not {"new_lines", "no_vectors", "short_sums"} & set(advice)
    assert not advised(elementwise(6, 8))[1]  # too small to be worth anything


def test_a_matmul_is_led_to_a_tile() -> None:
    kernel, opts, misses = matmul(96, 96, 96), (), []
    names = []
    for _ in range(4):
        found, advice = advised(kernel, *opts)
        misses.append(found.levels[0].misses)
        if not advice:
            break
        first = next(iter(advice.values()))
        names.append(first.name)
        opts = first.opts
    assert names[0] == "new_lines"
    assert "little_reuse" in names
    assert min(misses[1:]) * 8 < misses[0]
    best = counts(kernel, *opts, caches=CACHES)
    assert best["loads"].value * 8 < counts(kernel, caches=CACHES)["loads"].value


def test_a_sum_in_one_chain_is_unrolled() -> None:
    _, advice = advised(column_sum(512, 64), Opt(UPCAST, 0, 16))
    found = advice["short_sums"]
    assert found.opts[0] == Opt(UPCAST, 0, 16)
    assert found.opts[1].op is OptOps.UNROLL
    assert {f.name: f.kind for f in found.figures}["that keep the units busy"] == "estimated"


def test_a_loop_that_llvm_makes_vectors_of_is_left_alone() -> None:
    found, advice = advised(row_reduce(Ops.ADD, 64, 1024))
    if found.get("vectors of LLVM") < wide() / 2:
        pytest.skip("LLVM finds no vectors on this processor")
    assert "no_vectors" not in advice
    assert found["arithmetic width"].value == 1


def test_threads_are_advised_where_there_is_work_for_them() -> None:
    with Context(NUM_CPU_THREADS=2):
        _, large = advised(matmul(160, 160, 160))
        _, small = advised(matmul(16, 16, 16))
        _, has = advised(matmul(160, 160, 160), Opt(OptOps.THREAD, 0, 2))
    assert large["one_thread"].opts == (Opt(OptOps.THREAD, 0, 2),)
    assert "one_thread" not in small
    assert "one_thread" not in has


def test_an_axis_that_nothing_divides_is_padded() -> None:
    _, advice = advised(matmul(131, 131, 131))
    opts = advice["no_vectors"].opts
    assert opts == (Opt(OptOps.PADTO, 1, wide()), Opt(UPCAST, 1, wide()))
    lowered(matmul(131, 131, 131), *opts)
    _, divided = advised(matmul(128, 128, 128))
    assert not any(o.op is OptOps.PADTO for a in divided.values() for o in a.opts)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([n for n in KERNELS if n != "accumulated"]),
    TRIES,
    st.sampled_from((1.0, 1e4)),
)
def test_every_advice_is_accepted_by_its_kernel(name: str, tries: list[Opt], worth: float) -> None:
    """Also for kernels that are too small to be advised on: their figures are made larger."""
    kernel = KERNELS[name]()
    with Context(NUM_CPU_THREADS=2):
        opts = legal(kernel, tries, "CPU")
        found = counted.count(lowered(kernel, *opts), caches=CACHES)
        larger = Counters(
            found.kernel,
            tuple(
                f if f.unit == "lanes" else type(f)(f.name, f.value * worth, f.unit, f.kind)
                for f in found.figures
            ),
            found.uops,
            levels=found.levels,
        )
        ren: Any = Device["CPU"].renderer
        for advice in advise(kernel, opts, larger, ren):
            assert advice.opts[: len(opts)] == opts
            assert len(advice.opts) > len(opts)
            lowered(kernel, *advice.opts)
            plain = advice.to_json()
            assert tuple(opts_from_json(plain["opts"])) == advice.opts
            assert plain["figures"]


# *** GPUs


def test_a_wave_is_laid_along_memory() -> None:
    """The advice's own estimate is what its opts give."""
    kernel, bad = elementwise(256, 256), (Opt(OptOps.LOCAL, 0, 32),)
    before = estimate(kernel, "sm_80", bad)
    found = {a.name: a for a in advise_gpu(kernel, bad, "sm_80")}
    advice = found["coalescing"]
    assert "neighbours of a wave touch memory far apart" in advice.title
    assert [f.name for f in advice.figures] == ["coalescing", "coalescing with it"]
    assert {f.kind for f in advice.figures} == {"estimated"}
    assert advice.figures[0] == before["coalescing"]
    after = estimate(kernel, "sm_80", advice.opts)
    assert after["coalescing"].value == pytest.approx(advice.figures[1].value, rel=0.1)
    assert after["coalescing"].value > 2 * before["coalescing"].value


def test_lanes_that_do_nothing_are_put_to_work() -> None:
    kernel = elementwise(256, 256)
    advice, *_ = advise_gpu(kernel, (), "sm_80")
    assert advice.name == "lanes in use"
    assert [f.value for f in advice.figures] == [1 / 32, 1]
    after = estimate(kernel, "sm_80", advice.opts)
    assert (after["lanes in use"].value, after["coalescing"].value) == (1, 1)


def test_small_workgroups_are_enlarged() -> None:
    kernel = elementwise(256, 256)
    found = {a.name: a for a in advise_gpu(kernel, (Opt(OptOps.LOCAL, 1, 32),), "sm_80")}
    advice = found["occupancy"]
    assert "leave room for more waves" in advice.title
    assert estimate(kernel, "sm_80", advice.opts)["occupancy"].value == 1
    assert not advise_gpu(kernel, advice.opts, "sm_80")

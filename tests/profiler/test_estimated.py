"""Estimates for GPUs: closed formulas, what LLVM computes, and lanes enumerated one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.codegen.kernels import (
    KERNELS,
    buffers_of,
    column_sum,
    gather,
    matmul,
    pad,
    param,
    random_arrays,
    row_reduce,
    sink,
    those_that_apply,
    transpose,
)
from tests.profiler.lane_oracle import waves_of
from tests.profiler.test_counted import strided
from tinylab.codegen import SIMPLIFY, do_to_program, grid_axes
from tinylab.codegen.opt import Opt, OptOps
from tinylab.codegen.opt.kernel import Scheduler
from tinylab.dtype import dtypes
from tinylab.errors import CounterError, DeviceError
from tinylab.opcodes import Ops
from tinylab.profiler.counters.data import Counters
from tinylab.profiler.counters.estimated import (
    MOST_PLACES,
    GridRenderer,
    _Estimate,
    estimate,
    unique_bytes,
)
from tinylab.profiler.counters.lanes import Unknown, conflicts, evaluate, transactions
from tinylab.profiler.counters.occupancy import occupancy, registers
from tinylab.target import GPUS, gpu_limits
from tinylab.uop.ops import UOp, run_passes

LANES = np.arange(32, dtype=np.int64)
LOCAL, UPCAST, GROUP, UNROLL = OptOps.LOCAL, OptOps.UPCAST, OptOps.GROUP, OptOps.UNROLL


def values(counters: Counters, *names: str) -> tuple[float, ...]:
    return tuple(counters[name].value for name in names)


# *** lanes


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("piece", [32, 128])
def test_transactions_of_a_stride(stride: int, piece: int) -> None:
    span = (31 * stride + 1) * 4
    expected = -(-span // piece) if stride * 4 <= piece else 32
    found = transactions(LANES * stride * 4, 4, piece)
    assert found == (expected, -(-128 // piece), 128)


def test_transactions_of_one_place_of_none_and_off_the_line() -> None:
    assert transactions(LANES * 0 + 64, 4, 32) == (1, 1, 4)
    assert transactions(LANES * 0 - 1, 4, 32) == (0, 0, 0)
    assert transactions(LANES * 4 + 16, 4, 32) == (5, 4, 128)
    assert transactions(LANES * 16, 16, 32) == (16, 16, 512)
    closed = np.where(LANES < 8, LANES * 4, -1)
    assert transactions(closed, 4, 32) == (1, 1, 32)


@given(st.lists(st.integers(-1, 4000), min_size=1, max_size=64), st.sampled_from((1, 2, 4, 8, 16)))
def test_transactions_by_enumeration(places: list[int], size: int) -> None:
    addresses = np.array([p * size if p >= 0 else -1 for p in places], np.int64)
    touched = {p * size + b for p in places if p >= 0 for b in range(size)}
    found = transactions(addresses, size, 32)
    assert found.transactions == len({b // 32 for b in touched})
    assert found.bytes == len(touched)
    assert found.least == -(-len(touched) // 32)


@pytest.mark.parametrize("stride", range(1, 65))
def test_conflicts_of_a_stride_are_its_divisor_with_the_banks(stride: int) -> None:
    assert conflicts(LANES * stride * 4, 4, 32) == (np.gcd(stride, 32), 1)


def test_conflicts_of_one_word_and_of_wide_lanes() -> None:
    assert conflicts(LANES * 0, 4, 32) == (1, 1)
    assert conflicts(LANES // 2 * 4, 4, 32) == (1, 1)
    assert conflicts(LANES * 16, 16, 32) == (4, 4)
    assert conflicts(LANES * 8, 8, 32) == (2, 2)
    assert conflicts(LANES * 2, 2, 32) == (1, 1)  # two lanes share a word
    assert conflicts(LANES * 64, 16, 32) == (16, 4)
    assert conflicts(LANES * 0 - 1, 4, 32) == (0, 0)


@given(st.lists(st.integers(-1, 500), min_size=32, max_size=32))
def test_conflicts_by_enumeration(places: list[int]) -> None:
    words = {p for p in places if p >= 0}
    by_bank = [len([w for w in words if w % 32 == bank]) for bank in range(32)]
    found, _ = conflicts(np.array([p * 4 if p >= 0 else -1 for p in places]), 4, 32)
    assert found == max(by_bank)


def test_an_index_that_is_loaded_is_unknown() -> None:
    load = param(0, 8, dtypes.int32).index(UOp.const(0, dtypes.int32)).load()
    with pytest.raises(Unknown):
        evaluate(load + 1, {})


# *** occupancy


@pytest.mark.parametrize(
    ("target", "used", "waves"),
    [  # waves of a SIMD by registers, as LLVM's tests of occupancy levels state them
        *[("gfx1100", n, w) for n, w in ((24, 16), (96, 16), (100, 12), (128, 10), (168, 9))],
        *[("gfx1200", n, w) for n, w in ((64, 16), (112, 12), (144, 10), (200, 7), (256, 5))],
        *[("gfx950", n, w) for n, w in ((64, 8), (72, 7), (80, 6), (84, 5), (100, 4), (144, 3))],
        *[("gfx942", n, w) for n, w in ((24, 8), (128, 4), (168, 3), (200, 2), (256, 2))],
    ],
)
def test_registers_leave_room_for_so_many_waves(target: str, used: int, waves: int) -> None:
    limits = gpu_limits(target)
    found = occupancy(limits, limits.wave, used, 0)
    assert found.waves // limits.units == waves
    assert found.limit == ("registers" if found.waves < limits.waves else "waves")


@pytest.mark.parametrize(
    ("target", "threads", "used", "shared", "warps", "limit"),
    [
        ("sm_80", 256, 32, 0, 64, "waves"),
        ("sm_80", 256, 40, 0, 48, "registers"),  # 12 warps a partition
        ("sm_80", 256, 255, 0, 8, "registers"),
        ("sm_80", 64, 16, 0, 64, "waves"),
        ("sm_80", 32, 16, 0, 32, "workgroups"),
        ("sm_80", 128, 16, 40 << 10, 16, "shared memory"),  # four of 41 KB in 164
        ("sm_86", 1024, 32, 0, 32, "waves"),
        ("sm_75", 256, 64, 0, 32, "waves"),
        ("sm_90", 128, 16, 100 << 10, 8, "shared memory"),
    ],
)
def test_occupancy_of_warps(
    target: str, threads: int, used: int, shared: int, warps: int, limit: str
) -> None:
    found = occupancy(gpu_limits(target), threads, used, shared)
    assert (found.waves, found.limit) == (warps, limit)
    assert found.share == warps / gpu_limits(target).waves


def test_a_workgroup_that_does_not_fit_is_refused() -> None:
    with pytest.raises(CounterError, match="workgroup of 2048 threads"):
        occupancy(gpu_limits("sm_80"), 2048, 16, 0)
    with pytest.raises(CounterError, match="bytes of shared memory"):
        occupancy(gpu_limits("gfx1100"), 64, 16, 65 << 10)
    with pytest.raises(DeviceError, match="known are sm_70"):
        estimate(matmul(), "sm_20")


@pytest.mark.parametrize("target", GPUS)
def test_limits_are_whole(target: str) -> None:
    limits = GPUS[target]
    assert limits.waves % limits.units == 0
    assert limits.registers % limits.register_unit == 0
    assert limits.group_shared_bytes <= limits.shared_bytes
    assert limits.most_threads <= limits.waves * limits.wave


def lines_of(kernel: UOp, *opts: Opt) -> tuple[UOp, ...]:
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    return do_to_program(tuned, GridRenderer("sm_80")).src[1].src


def test_registers_grow_with_the_tile() -> None:
    plain = registers(lines_of(matmul(64, 64, 64)))
    tile = registers(lines_of(matmul(64, 64, 64), Opt(UPCAST, 0, 4), Opt(UPCAST, 1, 4)))
    assert tile >= plain + 15  # sixteen sums in place of one
    wide = registers(lines_of(matmul(64, 64, 64, dtypes.float64), Opt(UPCAST, 0, 4)))
    assert wide > registers(lines_of(matmul(64, 64, 64), Opt(UPCAST, 0, 4)))


# *** kernels


def test_arithmetic_and_bytes_of_a_matmul() -> None:
    m, n, k = 32, 64, 16
    found = estimate(matmul(m, n, k), "sm_80", [Opt(LOCAL, 1, 32), Opt(UPCAST, 0, 4)])
    assert found["flops"].value == 2 * m * n * k
    assert {f.kind for f in found} == {"estimated"}
    assert found["bytes stored"].value == 4 * m * n
    assert found["bytes loaded"].value == 4 * (m * n * k + m * n * k // 4)
    assert found["distinct bytes"].value == 4 * (m * k + k * n + m * n)
    assert found["threads of a workgroup"].value == 32
    assert found.kind == "estimated"


@pytest.mark.parametrize(("step", "pieces"), [(1, 4), (2, 8), (8, 32), (64, 32)])
def test_coalescing_of_a_strided_copy(step: int, pieces: int) -> None:
    found = estimate(strided(1024, step), "sm_80", [Opt(LOCAL, 0, 32)])
    assert found["transactions per wave"].value == (pieces + 4) / 2
    assert found["coalescing"].value == 8 / (pieces + 4)


def test_a_transposition_is_not_coalesced_on_one_side() -> None:
    found = estimate(transpose(64, 64), "sm_80", [Opt(LOCAL, 1, 32)])
    assert found["transactions per wave"].value == (32 + 4) / 2
    each = {f.name: f.value for f in found if f.name.startswith("coalescing of")}
    assert sorted(each.values()) == [4 / 32, 1]
    load = next(name for name, share in each.items() if share < 1)
    assert load.startswith("coalescing of load")
    assert load.endswith("of data1")
    rows = {row.op: row for row in found.uops if row.buffer is not None}
    assert rows["LOAD"].touches == 64 * 64 // 32 * 32  # all transactions of the kernel
    assert rows["STORE"].touches == 64 * 64 // 32 * 4
    amd = estimate(transpose(64, 64), "gfx1100", [Opt(LOCAL, 1, 32)])
    assert amd["transactions per wave"].value == (32 + 1) / 2  # pieces of 128 bytes


def test_shared_memory_of_a_grouped_reduce() -> None:
    found = estimate(row_reduce(Ops.ADD, 64, 256), "sm_80", [Opt(GROUP, 0, 32)])
    assert found["shared memory"].value == 32 * 4
    assert found["bank conflicts"].value == 1
    assert found["occupancy"].note == "limited by workgroups"


def test_conflicts_of_a_grouped_reduce_with_lanes() -> None:
    kernel = column_sum(256, 64)
    found = estimate(kernel, "sm_80", [Opt(GROUP, 0, 32), Opt(UPCAST, 0, 4)])
    assert found["bank conflicts"].value >= 1
    assert found["shared memory"].value == 32 * 4 * 4


def test_what_depends_on_memory_is_left_out_and_said() -> None:
    i = UOp.range(64, 0)
    picked = param(1, 64).index(param(2, 64, dtypes.int32).index(i).cast(dtypes.weakint))
    found = estimate(sink(param(0, 64).index(i).store(picked).end(i)), "sm_80", [Opt(LOCAL, 0, 32)])
    assert any("depends on what is loaded" in note for note in found.notes)
    assert found["transactions per wave"].value == 4


def test_many_places_are_sampled_and_said() -> None:
    whole = estimate(matmul(64, 64, 64), "sm_80", [Opt(LOCAL, 1, 32)], most_places=1 << 30)
    some = estimate(matmul(64, 64, 64), "sm_80", [Opt(LOCAL, 1, 32)], most_places=64)
    assert any("some places" in note for note in some.notes)
    assert not any("some places" in note for note in whole.notes)
    assert some["coalescing"].value == pytest.approx(whole["coalescing"].value, rel=0.1)
    assert some["flops"] == whole["flops"]


@pytest.mark.parametrize("most_places", [64, MOST_PLACES, 1 << 30])
@pytest.mark.parametrize(
    ("axis", "pieces"),
    [(0, (32, 1, 32)), (1, (1, 4, 4))],  # of a load of each factor, and of the store
)
def test_means_count_an_access_as_often_as_it_runs(
    axis: int, pieces: tuple[int, int, int], most_places: int
) -> None:
    """Loads run once a turn of the loop, the store once: however many turns are looked at."""
    n = 64 if most_places == 1 << 30 else 256
    found = estimate(matmul(n, n, n), "sm_80", [Opt(LOCAL, axis, 32)], most_places)
    first, second, stored = pieces
    moved = n * (first + second) + stored
    least = n * sum(min(p, 4) if p > 1 else 1 for p in (first, second)) + 4
    assert found["transactions per wave"].value == pytest.approx(moved / (2 * n + 1))
    assert found["coalescing"].value == pytest.approx(least / moved)
    rows = [row for row in found.uops if row.buffer is not None]
    assert sum(row.touches for row in rows) == moved * n * n // 32


# *** distinct memory


@pytest.mark.parametrize("name", list(KERNELS))
def test_distinct_bytes_by_enumeration(name: str) -> None:
    """Every element that each index takes, gates left out of account: at most what is told."""
    kernel = KERNELS[name]()
    told = unique_bytes(kernel)
    touched: dict[int, set[int]] = {}
    for u in kernel.toposort():
        if u.op is not Ops.INDEX or u.src[0].op is not Ops.PARAM or len(u.src) != 2:
            continue
        size = int(u.src[0].shape[0])
        ranges = [r for r in u.src[1].toposort() if r.op is Ops.RANGE]
        grids = np.meshgrid(*[np.arange(int(r.src[0].arg)) for r in ranges], indexing="ij")
        try:
            at = evaluate(u.src[1].get_idx(), dict(zip(ranges, grids, strict=True)))
        except Unknown:
            at = np.arange(size)
        seen = touched.setdefault(u.src[0].arg.slot, set())
        seen.update(int(p) for p in np.ravel(at) if 0 <= p < size)
    sizes = {p.arg.slot: p.dtype.itemsize for p in buffers_of(kernel)}
    exact = {slot: len(seen) * sizes[slot] for slot, seen in touched.items()}
    assert told.keys() == exact.keys()
    for slot, count in exact.items():
        assert told[slot] >= count
    if name not in ("reshaped", "gather"):
        assert told == exact


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(-7, 7)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_distinct_bytes_of_sums_of_ranges(axes: list[tuple[int, int]], start: int) -> None:
    ranges = [UOp.range(n, i) for i, (n, _) in enumerate(axes)]
    index = UOp.const(start)
    for r, (_, stride) in zip(ranges, axes, strict=True):
        index = index + r * stride
    size = 64
    kernel = sink(param(0, size).index(index).store(1.0).end(*ranges))
    places = {start}
    for n, stride in axes:
        places = {p + i * stride for p in places for i in range(n)}
    assert unique_bytes(kernel) == {0: 4 * len({p for p in places if 0 <= p < size})}


# *** lanes of whole kernels, enumerated

GRID = st.lists(
    st.builds(
        Opt,
        st.sampled_from([LOCAL, UPCAST, UNROLL, GROUP, OptOps.GROUPTOP]),
        st.integers(0, 3),
        st.sampled_from((2, 4, 8, 16, 32)),
    ),
    max_size=8,
)
SHAPED = st.one_of(
    st.builds(matmul, *[st.sampled_from((4, 8, 16))] * 3),
    st.builds(column_sum, st.sampled_from((8, 16)), st.sampled_from((8, 32))),
    st.builds(transpose, st.sampled_from((8, 16)), st.sampled_from((8, 32))),
    st.builds(strided, st.sampled_from((32, 64)), st.integers(1, 9)),
    st.builds(row_reduce, st.just(Ops.ADD), st.sampled_from((4, 8)), st.sampled_from((16, 64))),
    st.builds(pad, st.integers(8, 24), st.integers(0, 5), st.integers(0, 5)),
    st.builds(gather, st.integers(2, 6), st.integers(2, 8), st.integers(2, 6)),
)


def legal(kernel: UOp, tries: list[Opt], target: str) -> tuple[Opt, ...]:
    ren = GridRenderer(target)
    k = Scheduler(grid_axes(run_passes(kernel, SIMPLIFY, ren), ren), ren)
    return those_that_apply(k, tries)


@settings(max_examples=40, deadline=None)
@given(SHAPED, GRID, st.sampled_from(("sm_80", "gfx942")))
def test_lanes_of_random_kernels_by_enumeration(kernel: UOp, tries: list[Opt], target: str) -> None:
    limits = gpu_limits(target)
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=legal(kernel, tries, target)))
    program = do_to_program(tuned, GridRenderer(target))
    found = _Estimate(program, {}, target, limits, 1 << 30)
    found.counters()
    data = {
        p.arg.slot: a.tobytes()
        for p, a in zip(buffers_of(kernel), random_arrays(kernel), strict=True)
    }
    told = waves_of(program, data, limits.wave)
    for line, access in found.accesses.items():
        u = program.src[1].src[line]
        waves = told[line]
        # Places that an access does not depend on are looked at once, and enumerated each time.
        assert len(waves) % access.waves == 0, u
        times = len(waves) // access.waves
        is_shared = access.bytes == 0 and any(size for _, size in waves[0])
        pieces = 0
        for lanes in waves:
            size = max(size for _, size in lanes)
            addresses = np.full(limits.wave, -1, np.int64)
            addresses[: len(lanes)] = [at for at, _ in lanes]
            if is_shared and u.src[0].addrspace.name == "LOCAL":
                pieces += conflicts(addresses, size, limits.banks)[0]
            else:
                piece = limits.transaction_bytes
                pieces += len({b // piece for at, n in lanes if at >= 0 for b in range(at, at + n)})
        assert pieces == access.moved * times, u

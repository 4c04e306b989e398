"""Counted figures against closed formulas, and against an interpreter that counts as it runs."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.codegen.kernels import (
    KERNELS,
    buffers_of,
    column_sum,
    convolution,
    elementwise,
    gather,
    in_place,
    matmul,
    pad,
    param,
    random_arrays,
    row_reduce,
    sink,
    softmax,
    transpose,
)
from tests.codegen.test_opts import TRIES, legal
from tests.profiler.counting_oracle import counted_lines, interpret
from tests.renderer.programs import variable
from tinylab.codegen import do_to_program
from tinylab.codegen.opt import Opt, OptOps
from tinylab.device import Device
from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import CounterError
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.profiler.counters import counted
from tinylab.profiler.counters.cache import Cache, layout, machine_caches, sampled_residues
from tinylab.profiler.counters.data import Counters
from tinylab.uop.ops import KernelInfo, UOp

TINY = (
    Cache("L1", 4 * 2 * 64, 2),
    Cache("L2", 8 * 4 * 64, 4),
    Cache("L3", 16 * 4 * 64, 4, shared=True),
)
UPCAST, UNROLL, THREAD, PADTO = OptOps.UPCAST, OptOps.UNROLL, OptOps.THREAD, OptOps.PADTO


def lowered(kernel: UOp, *opts: Opt) -> UOp:
    dev: Any = Device["CPU"]
    kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    return do_to_program(kernel, dev.renderer)


def counts(kernel: UOp, *opts: Opt, **options: Any) -> Counters:
    return counted.count(lowered(kernel, *opts), **options)


def values(counters: Counters, *names: str) -> tuple[float, ...]:
    return tuple(counters[name].value for name in names)


def of_buffer(counters: Counters) -> list[tuple[int, int]]:
    return [(b.loads, b.stores) for b in counters.buffers]


# *** closed formulas


M, N, K = 32, 48, 16
MATMUL_OPTS = [
    (),
    (Opt(UPCAST, 1, 16),),
    (Opt(UPCAST, 1, 16), Opt(UPCAST, 0, 4)),
    (Opt(UPCAST, 0, 8), Opt(UPCAST, 1, 4), Opt(UNROLL, 0, 4)),
    (Opt(UNROLL, 0, 8),),
    (Opt(THREAD, 0, 2), Opt(UPCAST, 1, 16)),
    (Opt(OptOps.SWAP, 0, 1), Opt(UPCAST, 0, 16)),
]


@pytest.mark.parametrize("opts", MATMUL_OPTS, ids=str)
def test_matmul(opts: tuple[Opt, ...]) -> None:
    with Context(NUM_CPU_THREADS=2):
        found = counts(matmul(M, N, K), *opts)
    work = M * N * K
    # Lanes of the sum that are kept through the loop are added up behind it.
    folding = 7 * M * N if opts == (Opt(UNROLL, 0, 8),) else 0
    assert found["flops"].value == 2 * work + folding
    assert found["flops"].kind == "counted"
    fused, added = found.get("float multiply-add"), found.get("float add")
    assert fused + added == work + folding
    assert fused + found.get("float multiply") == work
    (_, stored), (a, _), (b, _) = of_buffer(found)
    assert stored == M * N
    # Each of A is read once for each lane of B that is not held beside it, and the other way.
    rows = math.prod(o.arg for o in opts if o.op is UPCAST and o.axis == 0)
    columns = math.prod(o.arg for o in opts if o.op is UPCAST and o.axis == 1)
    if any(o.op is OptOps.SWAP for o in opts):
        rows, columns = columns, rows
    assert (a, b) == (work // columns, work // rows)
    assert found["bytes loaded"].value == 4 * (a + b)
    assert found["bytes stored"].value == 4 * M * N


def test_loops_of_a_matmul() -> None:
    found = counts(matmul(M, N, K), Opt(UPCAST, 1, 16))
    assert [(loop.entered, loop.trips) for loop in found.loops] == [
        (1, M),
        (M, M * N // 16),
        (M * N // 16, M * N * K // 16),
    ]
    assert found["loop turns"].value == M + M * N // 16 + M * N * K // 16
    assert found["arithmetic width"].value == 16


def test_a_tile_that_is_moved_back_stores_some_lanes_twice() -> None:
    """What ran is told, not what was due."""
    found = counts(elementwise(6, 21), Opt(PADTO, 1, 8), Opt(UPCAST, 1, 8))
    assert found.buffers[0].stores == 6 * 24


@pytest.mark.parametrize("width", [1, 4, 16])
def test_row_sum(width: int) -> None:
    opts = (Opt(UNROLL, 0, width),) if width > 1 else ()
    found = counts(row_reduce(Ops.ADD, 12, 64), *opts)
    lanes = 12 * 64
    folding = 12 * (width - 1)  # the lanes of each row's sum are added up once
    assert found["float add"].value == lanes + folding
    assert values(found, "elements loaded", "elements stored") == (lanes, 12)
    assert found["loads"].value == lanes / width


def test_column_sum() -> None:
    found = counts(column_sum(40, 32), Opt(UPCAST, 0, 16))
    assert values(found, "float add", "elements loaded", "loads") == (1280, 1280, 80)


def test_elementwise() -> None:
    found = counts(elementwise(6, 32), Opt(UPCAST, 1, 8))
    n = 6 * 32
    assert found["float compare"].value == n
    assert found["select"].value == n
    assert found["flops"].value == 3 * n
    assert of_buffer(found) == [(0, n), (n, 0), (n, 0)]


def stencil(m: int, n: int) -> UOp:
    """Five points of a padded image: the edges load nothing."""
    y, x = UOp.range(m, 0), UOp.range(n, 1)
    image, total = param(1, m * n), None
    for dy, dx in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)):
        row, column = y + dy, x + dx
        inside = (row >= 0) & (row < m) & (column >= 0) & (column < n)
        found = image.index((row * n + column).valid(inside))
        total = found if total is None else total + found
    return sink(param(0, m * n).index(y * n + x).store(total).end(y, x))


def test_stencil_of_single_elements_loads_the_first_where_a_gate_is_closed() -> None:
    found = counts(stencil(10, 24))
    assert of_buffer(found) == [(0, 240), (5 * 240, 0)]
    assert found["float add"].value == 4 * 240


def test_gates_of_lanes_load_what_is_inside() -> None:
    found = counts(stencil(10, 16), Opt(UPCAST, 1, 16))
    inside = 10 * 16 + 2 * 9 * 16 + 2 * 10 * 15
    assert of_buffer(found) == [(0, 160), (inside, 0)]


def test_a_masked_copy_loads_the_middle() -> None:
    found = counts(pad(10, 3, 3), Opt(UPCAST, 0, 16))
    assert of_buffer(found) == [(0, 16), (10, 0)]


def strided(n: int, step: int) -> UOp:
    i = UOp.range(n, 0)
    return sink(param(0, n).index(i).store(param(1, n * step).index(i * step)).end(i))


@pytest.mark.parametrize("step", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("opts", [(), (Opt(UPCAST, 0, 16),)], ids=["scalar", "vector"])
def test_strided_copy(step: int, opts: tuple[Opt, ...]) -> None:
    n = 512
    found = counts(strided(n, step), *opts, caches=[Cache("L1", 1 << 15, 8)])
    (_, stores), (loads, _) = of_buffer(found)
    assert (stores, loads) == (n, n)
    lines = math.ceil(n * 4 * min(step, 16) / 64)
    load = next(row for row in found.uops if row.op == "LOAD")
    assert load.misses == (lines,)
    assert load.cold == lines
    assert load.touches == (lines if opts else n)
    assert found.buffers[1].unique_bytes == 64 * lines


def test_transcendental_and_division_as_the_target_has_them() -> None:
    found = counts(softmax(4, 8))
    # exp2 is a polynomial on this target: what is executed is told.
    assert found["float divide"].value in (4 * 8, 4)
    assert found.get("float transcendental") == 0
    i = UOp.range(32, 0)
    root = counts(sink(param(0, 32).index(i).store(param(1, 32).index(i).sqrt()).end(i)))
    assert root["float transcendental"].value == 32


def test_integers_and_floats_apart() -> None:
    i = UOp.range(64, 0)
    x = param(1, 64, dtypes.int32).index(i)
    kernel = sink(param(0, 64, dtypes.int32).index(i).store(x * 3 + x // 5).end(i))
    found = counts(kernel)
    assert found["flops"].value == 0
    assert found["int multiply"].value == 64
    assert found["int divide"].value >= 64
    assert found["addressing"].value == 0


def test_arithmetic_of_addresses_is_kept_apart() -> None:
    found = counts(transpose(16, 24))
    assert found["flops"].value == 0
    assert found["addressing"].value > 0
    assert {f.name for f in found if f.name.startswith("int ")} == set()


# *** caches


def test_a_second_sweep_hits_what_fits() -> None:
    """Twice over an array: all misses of the second time are of what did not fit."""
    n = 1024  # 4 KB
    r, s = UOp.range(2, 0, kind()), UOp.range(n, 1, kind())
    kernel = sink(
        param(0, 1).index(0).store((param(1, n).index(s) + r.cast(dtypes.float32)).reduce(r, s))
    )
    lines = n * 4 // 64
    big = counts(kernel, caches=[Cache("L1", 8192, 2)]).uops
    small = counts(kernel, caches=[Cache("L1", 2048, 2), Cache("L2", 8192, 2)]).uops
    (load,) = [u for u in big if u.op == "LOAD" and u.buffer == 1]
    assert load.misses == (lines,)
    (load,) = [u for u in small if u.op == "LOAD" and u.buffer == 1]
    assert load.misses == (2 * lines, lines)


def kind() -> Any:
    from tinylab.opcodes import AxisType

    return AxisType.REDUCE


def test_columns_of_a_power_of_two_meet_in_one_set() -> None:
    """64 rows of 4 KB: each column is one set of an L1 with 64 sets, whatever its size is."""
    m, n = 64, 1024
    j, r = UOp.range(n, 0), UOp.range(m, 1, kind())
    kernel = sink(param(0, n).index(j).store(param(1, m * n).index(r * n + j).reduce(r)).end(j))
    found = counts(kernel, caches=[Cache("L1", 48 << 10, 12)])
    (load,) = [u for u in found.uops if u.op == "LOAD" and u.buffer == 1]
    assert load.misses == (m * n,)  # 64 lines in 12 ways: each is gone when it is wanted again
    odd = counts(column_sum(64, 1040), caches=[Cache("L1", 48 << 10, 12)])
    (load,) = [u for u in odd.uops if u.op == "LOAD" and u.buffer == 1]
    assert load.misses[0] < m * n / 8


def test_threads_have_first_levels_of_their_own() -> None:
    caches = (Cache("L1", 1 << 14, 4), Cache("L2", 1 << 18, 8, shared=True))
    kernel = matmul(32, 32, 32)
    with Context(NUM_CPU_THREADS=2):
        one = counts(kernel, Opt(UPCAST, 1, 16), caches=caches)
        two = counts(kernel, Opt(THREAD, 0, 2), Opt(UPCAST, 1, 16), caches=caches)
    b_lines = 32 * 32 * 4 // 64
    assert one.levels[0].misses == 3 * b_lines
    assert two.levels[0].misses == 4 * b_lines  # B is fetched by both
    assert two.levels[1].misses == 3 * b_lines  # and once from memory
    assert any("one after another" in note for note in two.notes)


def test_sampling_is_said_and_near() -> None:
    kernel = matmul(64, 256, 64)
    opts = (Opt(UPCAST, 1, 16), Opt(UPCAST, 0, 4))
    whole = counts(kernel, *opts)
    some = counts(kernel, *opts, most_touches=1000)
    assert any("of each 64 sets" in note for note in some.notes)
    assert "4 of 64 sets" in some["L1 misses"].note
    assert not any("sets" in note for note in whole.notes)
    assert some.levels[0].touches == whole.levels[0].touches  # counted one by one all the same
    assert some["flops"] == whole["flops"]
    assert some.levels[0].misses == pytest.approx(whole.levels[0].misses, rel=0.35)


def test_sampled_residues() -> None:
    caches = [Cache("L1", 64 * 8 * 64, 8), Cache("L2", 1024 * 16 * 64, 16)]
    assert sampled_residues(caches, 1e6, 1e8) == ((1 << 64) - 1, 64)
    kept, of = sampled_residues(caches, 8e8, 1e8)
    assert (kept.bit_count(), of) == (8, 64)
    assert sampled_residues([Cache("L1", 3 * 64, 1)], 1e9, 1) == (1, 1)


def test_layout_is_that_of_the_device() -> None:
    small, page, huge = layout([100, 200 << 10, 5 << 20])
    assert small % 64 == 0
    assert page % 4096 == 0
    assert huge % (2 << 20) == 0
    assert small + 100 <= page
    assert page + (200 << 10) <= huge


@pytest.mark.parametrize(
    ("caches", "said"),
    [
        ([Cache("L1", 1000, 8)], "not a whole number of sets"),
        ([Cache("L1", 0, 8)], "not a whole number of sets"),
        ([Cache("L1", 4096, 8), Cache("L2", 8192, 8, 128)], "lines of one length"),
        ([Cache("L1", 48 * 8, 8, 48)], "a power of two"),
    ],
)
def test_caches_that_are_none(caches: list[Cache], said: str) -> None:
    with pytest.raises(CounterError, match=said):
        counts(matmul(), caches=caches)


def test_caches_of_this_machine_make_sets() -> None:
    for cache in machine_caches():
        assert cache.sets * cache.ways * cache.line_bytes == cache.size_bytes
        assert cache.source == "machine"


# *** kernels of workgroups


@pytest.mark.parametrize(
    "opts", [(), (Opt(OptOps.LOCAL, 0, 4),), (Opt(OptOps.LOCAL, 1, 8), Opt(UPCAST, 0, 2))]
)
def test_threads_of_workgroups_are_counted_one_after_another(opts: tuple[Opt, ...]) -> None:
    dev: Any = Device["PYTHON"]
    kernel = matmul(8, 16, 4)
    program = do_to_program(
        kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts)), dev.renderer
    )
    assert any(u.op is Ops.SPECIAL for u in program.src[1].src)
    a, b = random_arrays(kernel)[1:]
    found = counted.count(program, {1: a.tobytes(), 2: b.tobytes()}, caches=TINY)
    wide = 2 if len(opts) == 2 else 1
    assert found["flops"].value == 2 * 8 * 16 * 4
    assert of_buffer(found) == [(0, 128), (8 * 16 * 4, 0), (8 * 16 * 4 // wide, 0)]
    assert found["loop turns"].value == 8 * 16 * 4 // wide
    assert f"the {128 // wide} threads of its workgroups" in found.notes[0]
    made = np.frombuffer(found.outputs[0], np.float32).reshape(8, 16)
    assert np.allclose(made, a.reshape(8, 4) @ b.reshape(4, 16), atol=1e-5)
    lines = program.src[1].src
    assert [row.op for row in found.uops] == [lines[row.uop].op.name for row in found.uops]


# *** what cannot be counted


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(CounterError, match="has no lines to count"):
        counted.count(matmul())


def test_threads_that_wait_for_one_another_are_refused() -> None:
    dev: Any = Device["PYTHON"]
    group = Opt(OptOps.GROUPTOP, 0, 4)
    kernel = row_reduce()
    program = do_to_program(
        kernel.replace(arg=kernel.arg._replace(opts_to_apply=(group,))), dev.renderer
    )
    with pytest.raises(CounterError, match="share memory and wait for one another"):
        counted.count(program)


def test_what_the_cpu_lacks_is_refused() -> None:
    dev: Any = Device["PYTHON"]
    i = UOp.range(8, 0)
    kernel = sink(param(0, 8).index(i).store(param(1, 8).index(i).load().exp2()).end(i))
    with pytest.raises(CounterError, match="cannot be counted by the CPU: LLVM code has no EXP2"):
        counted.count(do_to_program(kernel, dev.renderer))


def test_a_buffer_of_another_size_is_refused() -> None:
    with pytest.raises(CounterError, match="buffer 1 has 96 bytes, 4 are given"):
        counted.count(lowered(matmul(6, 8, 4)), {1: b"1234"})


# *** variables, registers in memory, branches


def test_a_loop_whose_length_is_a_variable() -> None:
    n = variable("n", 1, 64)
    i = UOp.range(n, 0)
    kernel = sink(param(0, 64).index(i).store(param(1, 64).index(i) + 1.0).end(i))
    for size in (1, 17, 64):
        found = counts(kernel, values={"n": size})
        assert found["elements loaded"].value == size
        assert [loop.trips for loop in found.loops] == [size]


def test_a_register_that_is_memory_is_no_load() -> None:
    acc = UOp.placeholder((8,), dtypes.float32, 0, AddrSpace.REG)
    r = UOp.range(8, 0)
    filled = acc.after(acc.index(r).store(param(1, 8).index(r)).end(r))
    s = UOp.range(8, 1)
    kernel = sink(param(0, 8).index(s).store(filled.index(s)).end(s))
    found = counts(kernel)
    assert values(found, "elements loaded", "elements stored") == (8, 8)
    assert {u.sort for u in found.uops} >= {"register load", "register store"}


def test_more_tallies_than_registers_are_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinylab.renderer import llvm_memory

    kernel, opts = stencil(10, 16), (Opt(UPCAST, 1, 16),)
    wanted = counts(kernel, *opts)
    monkeypatch.setattr(llvm_memory, "_MOST_CELLS", 2)
    found = counts(kernel, *opts)
    assert found.uops == wanted.uops
    assert found.loops == wanted.loops


def test_counting_is_no_part_of_what_is_recorded() -> None:
    import tinylab

    program = lowered(matmul())
    with tinylab.record() as rec:
        counted.count(program)
    assert rec.passes == []
    assert rec.kernels == []


# *** the same product, and the same counts as an interpreter


def data_of(kernel: UOp, seed: int) -> dict[int, bytes]:
    return {
        p.arg.slot: a.tobytes()
        for p, a in zip(buffers_of(kernel), random_arrays(kernel, seed), strict=True)
    }


def assert_as_interpreted(kernel: UOp, opts: tuple[Opt, ...], seed: int) -> None:
    program = lowered(kernel, *opts)
    data = data_of(kernel, seed)
    found = counted.count(program, data, caches=TINY)
    heard = interpret(program, data, TINY)
    for i in counted_lines(program):
        row = next(u for u in found.uops if u.uop == i)
        assert row.amount == heard.alu[i], program.src[1].src[i]
    for row in found.uops:
        if row.buffer is None:
            continue
        wanted = (heard.elements[row.uop], heard.touches[row.uop], heard.cold[row.uop])
        assert (row.amount, row.touches, row.cold) == wanted
        assert row.misses == tuple(level[row.uop] for level in heard.misses)
    for loop in found.loops:
        assert loop.trips == heard.turns[loop.uop]


def assert_same_product(kernel: UOp, opts: tuple[Opt, ...], seed: int) -> None:
    data = data_of(kernel, seed)
    program = lowered(kernel, *opts)
    counting = counted.count(program, data, caches=TINY).outputs
    plain = plain_run(program, data)
    assert set(counting) == set(program.arg.outs)
    if " x " in program.src[2].arg:
        assert counting == {slot: plain[slot] for slot in counting}
        return
    # LLVM may add up a loop without vectors in another order, as it finds vectors or none.
    for p, like in zip(buffers_of(kernel), random_arrays(kernel), strict=True):
        if p.arg.slot in counting:
            a, b = (np.frombuffer(d[p.arg.slot], like.dtype) for d in (counting, plain))
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def plain_run(program: UOp, data: dict[int, bytes]) -> dict[int, bytes]:
    """The kernel itself, in this process, on copies of the same bytes."""
    from tinylab.device import TinyELF

    dev: Any = Device["CPU"]
    info = program.arg
    lib = dev.compiler.compile(program.src[2].arg)
    memories = []
    for raw in data.values():
        memory = dev.allocator.alloc(max(1, len(raw)))
        dev.allocator._copyin(memory, memoryview(bytearray(raw)))
        memories.append(memory)
    sizes, local = info.launch_dims({})
    elf = TinyELF(lib, info.function_name, dev.renderer.target, ())
    dev.runtime(elf)(*memories, global_size=sizes, local_size=local, vals=info.vals({}))
    return {
        slot: bytes(m.view()[: len(raw)])
        for (slot, raw), m in zip(data.items(), memories, strict=True)
    }


@pytest.mark.parametrize("name", list(KERNELS))
def test_each_kernel_as_an_interpreter_counts_it(name: str) -> None:
    kernel = KERNELS[name]()
    assert_as_interpreted(kernel, (), 0)
    assert_same_product(kernel, (), 0)


VARIED = st.one_of(
    st.builds(matmul, *[st.integers(2, 9)] * 3),
    st.builds(column_sum, st.integers(2, 12), st.integers(2, 12)),
    st.builds(elementwise, st.integers(2, 9), st.integers(2, 20)),
    st.builds(transpose, st.integers(2, 12), st.integers(2, 12)),
    st.builds(pad, st.integers(2, 20), st.integers(0, 5), st.integers(0, 5)),
    st.builds(stencil, st.integers(2, 8), st.integers(2, 12)),
    st.builds(strided, st.integers(2, 40), st.integers(1, 20)),
    st.builds(convolution, st.integers(2, 3), st.integers(3, 6), st.just(3)),
    st.builds(gather, st.integers(2, 6), st.integers(2, 8), st.integers(2, 6)),
    st.builds(in_place, st.integers(2, 40)),
)


@settings(max_examples=40, deadline=None)
@given(VARIED, TRIES, st.integers(0, 5))
def test_random_kernels_as_an_interpreter_counts_them(
    kernel: UOp, tries: list[Opt], seed: int
) -> None:
    with Context(NUM_CPU_THREADS=2):
        opts = legal(kernel, tries, "CPU")
        assert_as_interpreted(kernel, opts, seed)


@settings(max_examples=30, deadline=None)
@given(VARIED, TRIES, st.integers(0, 5))
def test_counting_changes_no_product(kernel: UOp, tries: list[Opt], seed: int) -> None:
    with Context(NUM_CPU_THREADS=2):
        assert_same_product(kernel, legal(kernel, tries, "CPU"), seed)


# *** forms


def test_figures_by_name_and_as_text() -> None:
    found = counts(matmul())
    assert found.kernel == KernelInfo(found.kernel).function_name
    with pytest.raises(KeyError, match="there are flops"):
        found["flopses"]
    text = found.table()
    assert text.splitlines()[0].split()[:3] == ["flops", "384", "operations"]
    assert "the cache model starts empty" in text
    plain = found.to_json()
    assert plain["figures"][0]["kind"] == "counted"
    assert "outputs" not in plain


def test_sums_by_line_of_a_text() -> None:
    found = counts(matmul(8, 16, 4), Opt(UPCAST, 1, 16))
    line_of = [i // 10 for i in range(500)]
    rows = found.by_line(line_of)
    assert sum(row["bytes"] for row in rows.values()) == sum(u.bytes for u in found.uops)
    first = sum(row["misses"][0] for row in rows.values())
    assert first == found.levels[0].misses


def test_counters_say_what_they_are_of_and_each_figure_whence_it_comes():
    found = counts(matmul(4, 4, 4))
    head, *lines = repr(found).splitlines()
    assert head.startswith(f"counters of {found.kernel}, counted (also of ")
    assert len(lines) == len(found.figures) + len(found.notes)
    for figure, line in zip(found.figures, lines, strict=False):
        assert line.startswith(figure.name)
        assert figure.kind in line

"""Opts: how axes are counted, when each is refused, and that none changes the result."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.codegen.kernels import (
    KERNELS,
    looked_up,
    matmul,
    param,
    random_arrays,
    row_reduce,
    run,
    sink,
    those_that_apply,
    transpose,
)
from tests.codegen.random_kernels import CUTS
from tests.codegen.test_kernels import assert_equal_arrays
from tests.oracle import run_kernel
from tinylab import Tensor
from tinylab.codegen import PASSES, SIMPLIFY, do_to_program, to_program
from tinylab.codegen.opt import KernelOptError, Opt, OptOps
from tinylab.codegen.opt.kernel import Scheduler
from tinylab.device import Device
from tinylab.dtype import AddrSpace, dtypes
from tinylab.engine.linear import run_linear
from tinylab.helpers.context import Context
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp, run_passes


def renderer(device: str = "CPU") -> Any:
    return Device[device].renderer


def scheduler(kernel: UOp, device: str = "CPU") -> Scheduler:
    from tinylab.codegen import grid_axes

    ren = renderer(device)
    return Scheduler(grid_axes(run_passes(kernel, SIMPLIFY, ren), ren), ren)


def applied(kernel: UOp, *opts: Opt, device: str = "CPU") -> Scheduler:
    k = scheduler(kernel, device)
    for opt in opts:
        k.apply_opt(opt)
    return k


# *** axes


def test_axes_are_ordered_by_kind_then_id() -> None:
    k = applied(
        matmul(16, 32, 8),
        Opt(OptOps.UPCAST, 1, 8),
        Opt(OptOps.UPCAST, 0, 2),
        Opt(OptOps.UNROLL, 0, 4),
    )
    assert k.full_shape == [8, 4, 8, 2, 2, 4]
    assert k.shape_str() == ["L0", "L1", "u0", "u1", "R0", "r0"]
    assert k.axis_types[-1] is AxisType.UNROLL


def testgrid_axes_come_first_on_a_target_with_workgroups() -> None:
    k = applied(
        matmul(16, 32, 8), Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.GROUPTOP, 0, 2), device="PYTHON"
    )
    assert k.shape_str() == ["g0", "g1", "l0", "G0", "R0"]
    assert k.full_shape == [4, 32, 4, 2, 4]


def test_unroll_counts_reduce_axes_and_group_counts_loops() -> None:
    k = applied(row_reduce(Ops.ADD, 6, 16), Opt(OptOps.UNROLL, 0, 4))
    assert k.full_shape == [6, 4, 4]
    k = applied(row_reduce(Ops.ADD, 6, 16), Opt(OptOps.GROUP, 0, 4), device="PYTHON")
    # A GROUP_REDUCE axis can be unrolled; GROUP sees the REDUCE axes only.
    assert k.unrollable_dims == [1, 2]
    assert k.axes_of(AxisType.REDUCE) == [2]


def test_amount_zero_is_the_whole_axis() -> None:
    k = applied(matmul(6, 8, 4), Opt(OptOps.UPCAST, 1, 0))
    assert k.full_shape == [6, 8, 4]
    assert k.axis_types[1] is AxisType.UPCAST


def test_dims_of_known_size() -> None:
    k = scheduler(matmul(6, 8, 4))
    assert (k.upcastable_dims, k.unrollable_dims, k.shape_len) == ([0, 1], [2], 3)


def test_kernel_name_and_result() -> None:
    kernel = matmul(16, 32, 8)
    opts = (Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.UNROLL, 0, 4))
    program = do_to_program(kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts)), renderer())
    info = program.src[0].arg
    assert ansistrip(info.name) == "r_16_4_8_2_4"
    assert info.function_name == "r_16_4_8_2_4"
    assert info.applied_opts == opts
    assert info.opts_to_apply is None
    assert program.arg.name == info.name


def test_opts_chosen_by_heuristics_are_listed_and_none_under_noopt() -> None:
    assert to_program(matmul(64, 64, 64), renderer()).src[0].arg.applied_opts
    with Context(NOOPT=1):
        assert to_program(matmul(64, 64, 64), renderer()).src[0].arg.applied_opts == ()
    empty = matmul(64, 64, 64)
    empty = empty.replace(arg=empty.arg._replace(opts_to_apply=()))
    assert to_program(empty, renderer()).src[0].arg.applied_opts == ()


def test_equal_kernels_are_lowered_once() -> None:
    assert to_program(matmul(24, 8, 8), renderer()) is to_program(matmul(24, 8, 8), renderer())


def test_a_refused_opt_leaves_the_kernel_as_it_was() -> None:
    k = scheduler(matmul(6, 8, 4))
    before = k.ast
    with pytest.raises(KernelOptError):
        k.apply_opt(Opt(OptOps.UPCAST, 0, 4))
    assert k.ast is before
    assert k.applied_opts == []


def test_threads_of_a_program() -> None:
    kernel = matmul(16, 8, 4)
    with Context(NUM_CPU_THREADS=4):
        kernel = kernel.replace(arg=kernel.arg._replace(opts_to_apply=(Opt(OptOps.THREAD, 0, 4),)))
        info = do_to_program(kernel, renderer()).arg
    assert info.global_size[0] == 4
    assert info.runtimevars == {"core_id": 0}
    assert info.vals({}) == (None,)


# *** refusals

BIG = row_reduce(Ops.ADD, 4, 1 << 15)
REFUSED = [
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.UPCAST, 0, 4)], "4 can't divide 6 in [6, 8, 4]"),
    ("CPU", matmul(6, 32, 4), [Opt(OptOps.UPCAST, 1, 32)], "don't upcast more than 16"),
    (
        "CPU",
        matmul(6, 8, 4),
        [Opt(OptOps.UPCAST, 2, 4)],
        "upcast is for GLOBAL/LOCAL/LOOP, not REDUCE",
    ),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.UPCAST, 3, 4)], "invalid axis on UPCAST"),
    ("CPU", matmul(6, 8, 64), [Opt(OptOps.UNROLL, 0, 64)], "don't unroll more than 32"),
    ("CPU", transpose(4, 8), [Opt(OptOps.UNROLL, 0, 4)], "kernel has no reduce axis for UNROLL"),
    ("PYTHON", transpose(4, 8), [Opt(OptOps.GROUP, 0, 2)], "kernel has no reduce axis for GROUP"),
    (
        "CPU",
        matmul(6, 8, 4),
        [Opt(OptOps.UNROLL, 0, 0), Opt(OptOps.UNROLL, 0, 2)],
        "no reduce axis for UNROLL left: earlier opts took it",
    ),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.LOCAL, 0, 2)], "locals needed for opt"),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.GROUP, 0, 2)], "locals needed for opt"),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.TC, 0, (-1, 0, 1))], "no tensor core available"),
    (
        "CPU",
        matmul(6, 8, 4),
        [Opt(OptOps.UPCAST, 0, 2), Opt(OptOps.TC, 0, (-1, 0, 1))],
        "tensor core opts must be first",
    ),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.TC, None, (-1, 0, 1))], "must have an axis"),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.TC, 0, 3)], "must have valid arg"),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.THREAD, 0, 3)], "too many threads"),
    (
        "CPU",
        matmul(8, 8, 4),
        [Opt(OptOps.THREAD, 0, 2), Opt(OptOps.THREAD, 0, 2)],
        "already threaded",
    ),
    ("CPU", matmul(8, 8, 4), [Opt(OptOps.THREAD, 2, 2)], "can't apply range to this dim"),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.PADTO, 0, 32)], "pad adds more than quadruple the work"),
    (
        "CPU",
        matmul(6, 8, 4),
        [Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.PADTO, 1, 16)],
        "cannot pad upcasted",
    ),
    (
        "CPU",
        matmul(6, 8, 4),
        [Opt(OptOps.THREAD, 0, 2), Opt(OptOps.PADTO, 2, 4)],
        "cannot pad thread",
    ),
    ("CPU", matmul(6, 8, 4), [Opt(OptOps.SWAP, 0, 2)], "swap only for globals"),
    ("PYTHON", matmul(6, 8, 4), [Opt(OptOps.THREAD, 0, 2)], "target does not support threads"),
    ("PYTHON", matmul(6, 8, 4), [Opt(OptOps.LOCAL, 2, 2)], "local is for globals"),
    (
        "PYTHON",
        matmul(6, 8, 4),
        [Opt(OptOps.NOLOCALS), Opt(OptOps.LOCAL, 0, 2)],
        "can't use locals",
    ),
    (
        "PYTHON",
        matmul(6, 8, 4),
        [Opt(OptOps.NOLOCALS), Opt(OptOps.GROUP, 0, 2)],
        "can't use locals",
    ),
    (
        "PYTHON",
        matmul(6, 8, 4),
        [Opt(OptOps.LOCAL, 0, 2), Opt(OptOps.NOLOCALS)],
        "no locals can't have locals",
    ),
    (
        "PYTHON",
        BIG,
        [Opt(OptOps.GROUP, 0, 1 << 15)],
        "exceeds maximum shared memory size: needs 131072",
    ),
]


@pytest.mark.parametrize(("device", "kernel", "opts", "sentence"), REFUSED)
def test_refused(device: str, kernel: UOp, opts: list[Opt], sentence: str) -> None:
    with Context(NUM_CPU_THREADS=2), pytest.raises(KernelOptError) as raised:
        applied(kernel, *opts, device=device)
    assert sentence in str(raised.value)


def test_a_loop_that_carries_a_value_is_left_alone() -> None:
    with pytest.raises(KernelOptError, match="can't apply range to this dim"):
        applied(KERNELS["accumulated"](), Opt(OptOps.UNROLL, 0, 2))


@pytest.mark.parametrize(("rows", "together"), [(64, 4), (63, 3), (66, 3), (62, 2), (61, 1)])
def test_rows_of_a_padded_reduction_share_its_masks(rows: int, together: int) -> None:
    """1000 is no multiple of a vector: what is masked is masked for several rows at once."""
    opts = do_to_program(row_reduce(Ops.ADD, rows, 1000), renderer()).src[0].arg.applied_opts
    if not any(opt.op is OptOps.PADTO for opt in opts):
        pytest.skip("no wide vectors: nothing is padded here")
    assert [opt.arg for opt in opts if opt.op is OptOps.UPCAST] == [together] * (together > 1)
    plain = do_to_program(row_reduce(Ops.ADD, rows, 1024), renderer()).src[0].arg.applied_opts
    assert {opt.op for opt in plain} == {OptOps.UNROLL}


def in_order(size: int = 64) -> UOp:
    """x[i, j] = 2 x[i, j], i a LOOP of 4: memory that one loop would walk through as well."""
    i, j = UOp.range(4, 0, AxisType.LOOP), UOp.range(size, 1)
    x = param(0, 4 * size).index(i * size + j)
    return sink(x.store(x * 2.0).end(i, j))


@pytest.mark.parametrize(
    "opt",
    [
        Opt(OptOps.UPCAST, 0, 2),
        Opt(OptOps.UNROLL, 0, 2),
        Opt(OptOps.THREAD, 0, 2),
        Opt(OptOps.SWAP, 0, 1),
        Opt(OptOps.SWAP, 1, 0),
        Opt(OptOps.PADTO, 0, 8),
    ],
)
def test_a_loop_takes_no_opt(opt: Opt) -> None:
    with Context(NUM_CPU_THREADS=2), pytest.raises(KernelOptError):
        applied(in_order(), opt)


def test_heuristics_leave_a_loop_as_it_is() -> None:
    with Context(NUM_CPU_THREADS=2):
        info = do_to_program(in_order(1 << 20), renderer()).src[0].arg
    assert AxisType.LOOP in info.axis_types
    assert info.applied_opts
    assert {opt.axis for opt in info.applied_opts} <= {1, 2, 3}


def test_symbolic_axes_are_not_padded() -> None:
    n = UOp.variable("n", 1, 64, param=True)
    i = UOp.range(n, 0)
    kernel = sink(param(0, 64).index(i).store(param(1, 64).index(i) + 1.0).end(i))
    with pytest.raises(KernelOptError, match="only pad const axes, not n"):
        applied(kernel, Opt(OptOps.PADTO, 0, 4))


# *** results

AMOUNTS = (0, 1, 2, 3, 4, 5, 8, 16)
TRIES = st.lists(
    st.one_of(
        st.builds(
            Opt,
            st.sampled_from(CUTS),
            st.integers(0, 4),
            st.sampled_from(AMOUNTS),
        ),
        st.builds(Opt, st.just(OptOps.PADTO), st.integers(0, 3), st.sampled_from((3, 4, 8, 16))),
        st.builds(Opt, st.just(OptOps.SWAP), st.integers(0, 2), st.integers(0, 2)),
        st.just(Opt(OptOps.NOLOCALS)),
    ),
    max_size=24,
)


def legal(kernel: UOp, tries: list[Opt], device: str) -> tuple[Opt, ...]:
    return those_that_apply(scheduler(kernel, device), tries)


@pytest.mark.parametrize("op", ["UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP", "THREAD"])
def test_an_amount_of_one_is_refused(op: str) -> None:
    """An axis of one step would be told from no axis in every pass behind."""
    device = "CPU" if op == "THREAD" else "PYTHON"
    with pytest.raises(KernelOptError, match=f"{op} by 1 changes nothing"):
        scheduler(row_reduce(Ops.ADD, 3, 17), device).apply_opt(Opt(OptOps[op], 0, 1))


@settings(max_examples=150)
@given(
    st.sampled_from([n for n in KERNELS if n != "accumulated"]),
    TRIES,
    st.sampled_from(("CPU", "PYTHON")),
    st.integers(0, 5),
)
def test_no_opt_changes_the_result(name: str, tries: list[Opt], device: str, seed: int) -> None:
    kernel = KERNELS[name]()
    arrays = random_arrays(kernel, seed)
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    opts = legal(kernel, tries, device)
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    assert_equal_arrays(run(tuned, arrays, device), wanted)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("m", [4, 8])
def test_places_in_memory_are_looked_up_for_lanes_of_two_axes(m: int, device: str) -> None:
    kernel = looked_up(m, k=4)
    arrays = random_arrays(kernel)
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    unroll, rows, columns = (
        Opt(OptOps.UNROLL, 0, 4), Opt(OptOps.UPCAST, 0, 2), Opt(OptOps.UPCAST, 1, 2)
    )  # fmt: skip
    for tried in ((unroll, rows, rows), (unroll, rows, columns), (rows, columns), (columns,)):
        tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=tried))
        assert_equal_arrays(run(tuned, arrays, device), wanted)


@pytest.mark.parametrize("opt", [None, OptOps.GROUP, OptOps.GROUPTOP])
def test_a_value_changed_in_place_beside_a_grouped_sum_is_changed_once(opt: OptOps | None) -> None:
    kernel = KERNELS["added_beside_sum"]()
    arrays = random_arrays(kernel)
    wanted = [a.copy() for a in arrays]
    run_kernel(kernel, wanted)
    opts = () if opt is None else (Opt(opt, 0, 4),)
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    assert_equal_arrays(run(tuned, arrays, "PYTHON"), wanted)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_tile_of_which_one_lane_stores(device: str) -> None:
    kernel = KERNELS["shifted"]()
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=(Opt(OptOps.UPCAST, 0, 4),)))
    arrays = [np.zeros(1, np.float32), np.arange(4, dtype=np.float32) + 5]
    np.testing.assert_array_equal(run(tuned, arrays, device)[0], [6])


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_lanes_behind_a_mask_that_is_never_open(device: str) -> None:
    i = UOp.range(4, 0)
    never = param(3, 4, dtypes.bool).index(i.valid(i < 0))
    mask = param(2, 4, dtypes.bool).index(i.valid(never))
    kernel = sink(param(0, 4).index(i).store(param(1, 4).index(i.valid(mask)) + 1.0).end(i))
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=(Opt(OptOps.UPCAST, 0, 4),)))
    x = np.arange(4, dtype=np.float32)
    got = run(tuned, [np.zeros_like(x), x, x < 9, x < 9], device)
    np.testing.assert_array_equal(got[0], [1, 1, 1, 1])


def grown_beside(size: int = 4) -> UOp:
    """a[i] += 1 beside a store that runs over another axis, too."""
    i, j = UOp.range(size, 0), UOp.range(size, 1)
    a, b = param(0, size), param(1, size * size)
    return sink(
        a.index(i).store(a.index(i) + 1.0).end(i),
        b.index(i * size + j).store(param(2, size).index(j)).end(i, j),
    )


def test_a_grid_is_the_axes_around_every_store() -> None:
    x = np.arange(4, dtype=np.float32)
    for opts in ((), None, (Opt(OptOps.LOCAL, 1, 2),)):
        kernel = grown_beside()
        tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
        got = run(tuned, [x, np.zeros(16, np.float32), x], "PYTHON")
        np.testing.assert_array_equal(got[0], x + 1)
    k = scheduler(grown_beside(), "PYTHON")
    assert k.axis_types == [AxisType.WEAK, AxisType.GLOBAL]
    with pytest.raises(KernelOptError, match="local is for globals: axis 0 is not in every store"):
        k.apply_opt(Opt(OptOps.LOCAL, 0, 2))
    with pytest.raises(KernelOptError, match="axis 0 is WEAK, 1 is GLOBAL"):
        k.apply_opt(Opt(OptOps.SWAP, 0, 1))


def test_a_loop_that_carries_a_value_is_left_alone_when_it_is_taken_apart() -> None:
    """r // 4 makes two loops of one: each carries the value."""
    r = UOp.range(12, 0, AxisType.REDUCE)
    acc = UOp.placeholder((1,), dtypes.float32, 0, AddrSpace.REG)
    acc = acc.after(acc.index(0).store(0.0))
    acc = acc.index(0).set(acc.after(r).index(0) + param(1, 15).index(r // 4 * 5 + r % 4), end=r)
    kernel = sink(param(0, 1).index(0).store(acc.index(0)))
    k = scheduler(kernel)
    assert k.full_shape == [3, 4]
    for axis in (0, 1):
        with pytest.raises(KernelOptError, match="carries a value"):
            k.apply_opt(Opt(OptOps.UNROLL, axis, 0))
    x = np.arange(15, dtype=np.float32)
    for device in ("CPU", "PYTHON"):
        got = run(kernel, [np.zeros(1, np.float32), x], device)
        np.testing.assert_array_equal(got[0], [x.reshape(3, 5)[:, :4].sum()])


@pytest.mark.parametrize(("a", "b"), [(16, 16), (8, 8), (4, 16), (16, 4), (8, 3)])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_transposition_in_registers(a: int, b: int, device: str) -> None:
    kernel = transpose(32, 48)
    opts = (Opt(OptOps.UPCAST, 0, a), Opt(OptOps.UPCAST, 1, b))
    x = np.arange(32 * 48, dtype=np.float32)
    tuned = kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))
    got = run(tuned, [np.zeros_like(x), x], device)
    np.testing.assert_array_equal(got[0].reshape(32, 48), x.reshape(48, 32).T)


@pytest.mark.parametrize(
    "shape", [(32, 32, 32), (33, 17, 5), (7, 130, 9), (5, 100, 3), (1, 64, 64), (64, 1, 64)]
)
def test_matmul_shapes(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    kernel = matmul(m, n, k)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    got = run(kernel, [np.zeros(m * n, np.float32), a.reshape(-1), b.reshape(-1)])
    np.testing.assert_allclose(got[0].reshape(m, n), a @ b, rtol=2e-4, atol=1e-5)


def test_a_graph_does_not_grow_with_its_tile() -> None:
    """Lanes are an axis, not copies: an 8x16 tile has as many nodes as a 2x2 one."""

    def nodes(*opts: Opt) -> int:
        graph = matmul(64, 64, 64)
        graph = graph.replace(arg=graph.arg._replace(opts_to_apply=opts))
        for one in PASSES:
            graph = one(graph, renderer())
            if one.name == "gpu_dims":
                break
        return sum(u.op not in (Ops.CONST, Ops.STACK) for u in graph.toposort())

    small = nodes(Opt(OptOps.UPCAST, 1, 2), Opt(OptOps.UPCAST, 0, 2))
    assert nodes(Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.UPCAST, 0, 8)) == small


def tall(rows: int, cols: int) -> tuple[Any, Any]:
    """(opts, program) of a matrix times a vector on a grid, after it gave what numpy gives."""
    a = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols) % 7
    x = np.arange(cols, dtype=np.float32) % 5
    product = (Tensor(a, device="PYTHON") * Tensor(x, device="PYTHON")).sum(1)
    linear = product.schedule_linear()
    program = to_program(linear.src[0].src[0], renderer("PYTHON"))
    run_linear(linear)
    assert np.array_equal(product.numpy(), a @ x)
    return program.src[0].arg.applied_opts, program


def test_a_matrix_times_a_vector_goes_its_own_way_on_a_grid() -> None:
    chosen, _ = tall(32, 16)
    assert chosen == (
        Opt(OptOps.GROUP, 0, 8), Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.UPCAST, 0, 4),
    )  # fmt: skip
    with Context(MV_THREADS_PER_ROW=4, MV_BLOCKSIZE=2, MV_ROWS_PER_THREAD=1):
        assert tall(32, 16)[0] == (Opt(OptOps.GROUP, 0, 4), Opt(OptOps.LOCAL, 0, 2))
    with Context(MV=0):
        assert tall(32, 16)[0] != chosen
    assert tall(30, 16)[0] != chosen  # rows that do not divide


def test_no_workgroups_where_they_are_switched_off() -> None:
    with Context(NOLOCALS=1):
        chosen, program = tall(32, 16)
    assert chosen[0].op is OptOps.NOLOCALS
    assert not {o.op for o in chosen} & {OptOps.LOCAL, OptOps.GROUP, OptOps.GROUPTOP}
    assert program.arg.local_size is None or set(program.arg.local_size) == {1}

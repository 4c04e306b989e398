"""Code generation: the AST of one kernel in, a PROGRAM out. PASSES is the way, with reasons.

SINK(END(STORE(a[i], REDUCE(b[i*n + k], k)), i))
-> opts applied -> lanes -> registers and loads -> concrete types, the target's operations
-> LINEAR: one line after another -> text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.codegen.add_loads import pm_add_loads
from tinylab.codegen.barriers import pm_barriers
from tinylab.codegen.coalesce import pm_coalesce
from tinylab.codegen.collapse_loads import may_collapse, pm_collapse_loads
from tinylab.codegen.decompose_dtypes import decompose_dtypes
from tinylab.codegen.decompose_ops import for_target
from tinylab.codegen.exact_exp import has_exponentials, pm_exact_exp
from tinylab.codegen.expand_lanes import has_lanes, lane_plan, pm_expand_lanes
from tinylab.codegen.flatten_arrays import free_axes, has_arrays, pm_flatten_arrays
from tinylab.codegen.foreign_dtypes import (
    has_foreign_floats,
    has_foreign_narrow,
    has_foreign_words,
)
from tinylab.codegen.gate_memory import pm_gate_memory
from tinylab.codegen.gpu_dims import add_gpudims, has_grid
from tinylab.codegen.index_dtype import index_dtype
from tinylab.codegen.linearize import linearize
from tinylab.codegen.local_buffers import has_groups, local_context, pm_local_buffers
from tinylab.codegen.lower_reduce import first_register, pm_lower_reduce, share_loops
from tinylab.codegen.merge_ranges import merge_ranges
from tinylab.codegen.narrow_ints import narrow_ints
from tinylab.codegen.opt.heuristic import hand_coded_optimizations
from tinylab.codegen.opt.kernel import Scheduler
from tinylab.codegen.overlap_tiles import has_tiles, overlap_tiles
from tinylab.codegen.powers import has_powers, pm_powers, wide_float
from tinylab.codegen.program import program_info
from tinylab.codegen.range_tools import shared_writes
from tinylab.codegen.split_ranges import split_ranges
from tinylab.codegen.transcendental import has_transcendental, lower_transcendental
from tinylab.codegen.word_pairs import word_pairs
from tinylab.errors import CodegenError, ContractError
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import (
    DISABLE_FAST_IDIV,
    EMULATED_DTYPES,
    MV,
    MV_BLOCKSIZE,
    MV_ROWS_PER_THREAD,
    MV_THREADS_PER_ROW,
    NOLOCALS,
    NOOPT,
    NUM_CPU_THREADS,
    SPEC,
    TRANSCENDENTAL,
    Context,
)
from tinylab.helpers.recent import Recent
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import (
    KernelInfo,
    Pass,
    ProgramInfo,
    UOp,
    run_passes,
    spec_program,
    type_verify,
)
from tinylab.uop.symbolic import pm_marks, sym, symbolic

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer

__all__ = [
    "LOWER",
    "PASSES",
    "SETTINGS",
    "SIMPLIFY",
    "apply_opts",
    "do_to_program",
    "full_rewrite_to_sink",
    "grid_axes",
    "line_rewrite",
    "to_program",
]


# What a program depends on besides its kernel and its target.
SETTINGS = (
    NOOPT,
    NOLOCALS,
    TRANSCENDENTAL,
    EMULATED_DTYPES,
    DISABLE_FAST_IDIV,
    NUM_CPU_THREADS,
    MV,
    MV_BLOCKSIZE,
    MV_THREADS_PER_ROW,
    MV_ROWS_PER_THREAD,
)


@explained
def apply_opts(sink: UOp, ren: Renderer) -> UOp:
    """The kernel with its opts applied: those it asks for, or what heuristics choose.

    Raises: KernelOptError for an opt that is asked for and not legal.
    """
    info: KernelInfo = sink.arg
    k = Scheduler(grid_axes(sink, ren), ren)
    if info.opts_to_apply is not None:
        for opt in info.opts_to_apply:
            k.apply_opt(opt)
    elif not NOOPT and not info.applied_opts:
        k = hand_coded_optimizations(k)
    return k.get_optimized_ast()


def grid_axes(sink: UOp, ren: Renderer) -> UOp:
    """Undecided output axes are the grid, where the target has one: those around every store.

    A store that an axis of the grid is not around would run again at each of its places.
    """
    if not ren.has_local:
        return sink
    closed = {r for u in sink.src if u.op is Ops.END for r in u.src[1:] if r.op is Ops.RANGE}
    outputs = closed.intersection(*shared_writes(sink))
    free = {r for r in outputs if r.arg[-1] is AxisType.WEAK}
    return sink.substitute({r: r.replace(arg=r.arg.with_kind(AxisType.GLOBAL)) for r in free})


def _may_optimize(sink: UOp, ren: Any) -> bool:
    return sink.tag is None


def _named(sink: UOp, ren: Renderer) -> UOp:
    """A kernel that must not be tuned still gets its name and axis types."""
    return sink if sink.tag is None else Scheduler(sink, ren).get_optimized_ast()


def _as_kernel(sink: UOp, ren: Any) -> UOp:
    return sink.replace(tag=None) if sink.tag is not None else sink


# fmt: off
SIMPLIFY = (
    Pass("flatten_arrays", pm_flatten_arrays, ctx=free_axes, when=has_arrays,
         why="kernels written by hand index arrays with several axes; from here on memory is flat"),
    Pass("simplify", pm_marks + sym,
         why="indices in one form: the passes below look for r//4, r == i and strides"),
    Pass("collapse_loads", pm_collapse_loads + sym, when=may_collapse,
         why="a sum that picks one element is a load; an arange is its index"),
    Pass("split_ranges", run=split_ranges,
         why="r//4 and r%4 become two ranges, each with a stride of its own"),
    Pass("merge_ranges", run=merge_ranges,
         why="fewer, longer loops leave more to choose"),
)

OPTIMIZE = (
    Pass("opts", run=apply_opts, when=_may_optimize,
         why="data decides which ranges are lanes, threads, workgroups; only ranges change"),
)

LOWER = (
    Pass("axis_names", run=_named,
         why="a kernel that is not tuned has a name too"),
    Pass("simplify_opts", symbolic,
         why="opts left r*4 + u in each index; divisions by 4 fold while u is a range with bounds"),
    Pass("overlap_tiles", run=overlap_tiles, when=has_tiles,
         why="a last tile moved back needs no masks; conditions and strides are still plain sums"),
    Pass("local_buffers", pm_local_buffers, ctx=local_context, when=has_groups,
         why="a reduce over the workgroup goes through shared memory; its loops are still ranges"),
    Pass("add_loads", pm_add_loads,
         why="reading memory is a line of its own, before its lanes are moved about"),
    Pass("expand_lanes", pm_expand_lanes, ctx=lane_plan, when=has_lanes,
         why="UPCAST and UNROLL become lane axes of values: the graph does not grow with them"),
    Pass("lower_reduce", pm_lower_reduce, bottom_up=True, ctx=first_register,
         why="root first, so that a loop's accumulator sees the lanes that each step adds"),
    Pass("gpu_dims", run=add_gpudims, when=has_grid,
         why="grid, workgroup and thread ranges are set by the launch; only loops remain RANGEs"),
    Pass("share_loops", run=share_loops,
         why="equal loops are one: a loop is closed once from here on"),
    Pass("coalesce", pm_coalesce,
         why="lanes side by side are one wide access, masked lanes a gate"),
    Pass("gate_memory", pm_gate_memory,
         why="masked indices that are left become gates"),
    Pass("barriers", pm_barriers, when=lambda sink, ren: ren.has_local,
         why="local memory is read after everyone has written"),
    Pass("simplify_addresses", symbolic,
         why="rows of a tile share their base; the last time that indices have no width"),
    Pass("index_dtype", run=index_dtype,
         why="bounds say which integers fit 32 bits; what follows needs concrete types"),
    Pass("powers", pm_powers, ctx=wide_float, when=has_powers,
         why="a power is an exponential of a logarithm, which the next pass lowers"),
    Pass("exact_exp", pm_exact_exp, when=has_exponentials,
         why="where the target has 2**x that of x * log2 e must not round x; powers made some"),
    Pass("transcendental", run=lower_transcendental, when=has_transcendental,
         why="polynomials with a known error, on whole vectors, where the target has no function"),
    Pass("decompose_ops", run=for_target,
         why="only operations that the target has"),
    Pass("word_pairs", run=word_pairs, when=has_foreign_words,
         why="64-bit types that the target lacks: two words each, sums carry over"),
    Pass("decompose_dtypes", run=decompose_dtypes, when=has_foreign_floats,
         why="small floats that the target lacks: stored as bits, computed in float"),
    Pass("narrow_ints", run=narrow_ints, when=has_foreign_narrow,
         why="8 and 16 bits that the target lacks, those of small floats too: computed in 32"),
)

PASSES = SIMPLIFY + OPTIMIZE + LOWER
# fmt: on


@explained
def full_rewrite_to_sink(sink: UOp, ren: Renderer, optimize: bool = True) -> UOp:
    """The kernel as a program AST: all of PASSES, or those without the choice of opts."""
    sink = run_passes(sink, SIMPLIFY, ren)
    if optimize:
        sink = run_passes(sink, OPTIMIZE, ren)
    return run_passes(sink, LOWER, ren)


_linearize = Pass("linearize", run=linearize, why="one line after another, loops around bodies")


@explained
def line_rewrite(sink: UOp, ren: Renderer) -> UOp:
    """LINEAR: the program AST as a list of lines in order."""
    return _linearize(sink, ren)


@explained
def do_to_program(sink: UOp, ren: Renderer, compiler: Any = None) -> UOp:
    """PROGRAM(SINK, LINEAR, SOURCE[, BINARY]) of a kernel, lowered now.

    A PROGRAM that has some of its parts gets the others.

    Raises: CodegenError for anything that is no kernel.
    """
    parts = _parts(sink)
    # DISALLOW_BROADCAST is about graphs that are handed in: lanes are broadcast values.
    with Context(DISALLOW_BROADCAST=0):
        return _completed(parts, ren, compiler)


def _completed(parts: list[UOp], ren: Renderer, compiler: Any) -> UOp:
    if len(parts) == 1:
        if not isinstance(parts[0].arg, KernelInfo):
            raise ContractError("requires KernelInfo on arg to to_program")
        body = full_rewrite_to_sink(parts[0], ren)
        parts = [body, line_rewrite(body, ren)]
    info = program_info(parts[0], parts[1], ren) if parts[1].op is Ops.LINEAR else None
    if SPEC and parts[1].op is Ops.LINEAR:
        type_verify(parts[1].src, spec_program)
    if len(parts) == 2:
        parts.append(UOp(Ops.SOURCE, arg=ren.render(parts[1].src)))
    if len(parts) == 3 and compiler is not None:
        parts.append(UOp(Ops.BINARY, arg=compiler.compile(parts[2].arg)))
    return UOp(Ops.PROGRAM, src=tuple(parts), arg=info or ProgramInfo())


def _parts(root: UOp) -> list[UOp]:
    if root.op is Ops.PROGRAM:
        return list(root.src)
    if root.op is Ops.SINK:
        return [root]
    raise CodegenError(f"can't call to_program on {root.op}", help="it takes a SINK or a PROGRAM")


# Equal kernels are lowered once; nodes are interned, so the AST itself is the key.
_programs: Recent[tuple[Any, ...], UOp] = Recent(1024)


@explained
def to_program(sink: UOp, ren: Renderer, compiler: Any = None, fresh: bool = False) -> UOp:
    """As do_to_program; an equal kernel for an equal target is lowered once.

    fresh: lower it now and keep that, for who wants to hear of every rewrite.
    """
    key = (
        sink,
        type(ren),
        ren.target,
        compiler is not None,
        *(setting.value for setting in SETTINGS),
    )
    found = None if fresh else _programs.find(key)
    return _programs.keep(key, do_to_program(sink, ren, compiler)) if found is None else found

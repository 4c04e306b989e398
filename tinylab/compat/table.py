"""The table: where the modules and names of the foreign package live here.

A module that is not in it has its home under the same path: "tinygrad.nn.state" is
"tinylab.nn.state". A name that is not in it is looked for in its module's home.
"""

from __future__ import annotations

FOREIGN = "tinygrad"
OURS = "tinylab"

# A foreign module -> the modules here whose names it has, the first first.
HOMES: dict[str, tuple[str, ...]] = {
    "tinygrad.codegen.decomp.op": ("tinylab.uop.evaluate",),
    "tinygrad.codegen.decomp.transcendental": ("tinylab.codegen.transcendental",),
    "tinygrad.codegen.gpudims": ("tinylab.codegen.gpu_dims",),
    "tinygrad.codegen.late.coalesce": ("tinylab.codegen.coalesce",),
    "tinygrad.codegen.opt.postrange": ("tinylab.codegen.opt.kernel",),
    "tinygrad.codegen.opt.search": ("tinylab.codegen.opt",),
    "tinygrad.device": ("tinylab.device", "tinylab.compat.events"),
    "tinygrad.engine.realize": (
        "tinylab.engine.realize",
        "tinylab.engine.compile",
        "tinylab.engine.capture",
        "tinylab.engine.linear",
        "tinylab.engine.calls",
    ),
    "tinygrad.engine.jit": ("tinylab.compat.graphs", "tinylab.engine.jit"),
    "tinygrad.schedule": ("tinylab.schedule", "tinylab.compat.schedules"),
    "tinygrad.function": ("tinylab.traced",),
    "tinygrad.helpers": (
        "tinylab.helpers",
        "tinylab.compat.helpers",
        "tinylab.compat.events",
        "tinylab.compat.binaries",
    ),
    "tinygrad.llm.gguf": ("tinylab.nn.gguf",),
    "tinygrad.ops": ("tinylab.uop.ops", "tinylab.compat.graph"),
    "tinygrad.schedule.memory": ("tinylab.schedule.plan_memory",),
    "tinygrad.schedule.rangeify": ("tinylab.uop.args", "tinylab.schedule"),
    "tinygrad.tensor": ("tinylab.tensor", "tinylab.dtype", "tinylab.compat.numbers"),
    "tinygrad.dtype": ("tinylab.dtype", "tinylab.compat.numbers"),
    "tinygrad.uop": ("tinylab.opcodes",),
    # That module hands on what it imports itself.
    "tinygrad.uop.ops": ("tinylab.uop.ops", "tinylab.compat.graph", "tinylab.dtype"),
    "tinygrad.viz.cli": ("tinylab.lab.cli",),
}

# (foreign module, name) -> "module:name" here, where the name differs or lives elsewhere.
NAMES: dict[tuple[str, str], str] = {
    ("tinygrad", "function"): "tinylab.traced:function",
    ("tinygrad.helpers", "Target"): "tinylab.target:Target",
    ("tinygrad.renderer.llvmir", "CPULLVMRenderer"): "tinylab.renderer.llvmir:LLVMRenderer",
    ("tinygrad.runtime.ops_python", "PythonRenderer"): "tinylab.renderer.python:PythonRenderer",
    ("tinygrad.runtime.support.compiler_cpu", "CPULLVMCompiler"): (
        "tinylab.runtime.compilers.llvm:LLVMCompiler"
    ),
    ("tinygrad.function", "_function"): "tinylab.traced:TracedFunction",
    ("tinygrad.engine.realize", "pm_flatten_linear"): (
        "tinylab.schedule.flatten_linear:pm_flatten_linear"
    ),
    ("tinygrad.engine.realize", "Estimates"): "tinylab.renderer:Estimates",
    ("tinygrad.engine.realize", "capturing"): "tinylab.engine.capture:capturing",
    ("tinygrad.uop.ops", "_substitute"): "tinylab.uop.ops:substitute",
    ("tinygrad.uop.ops", "promo_dtype"): "tinylab.uop.ops:promote",
    ("tinygrad.uop.ops", "_broadcast_shape"): "tinylab.uop.ops:broadcast_shape",
    ("tinygrad.uop.ops", "safe_exp2"): "tinylab.uop.evaluate:safe_exp2",
    ("tinygrad.uop.ops", "safe_pow"): "tinylab.uop.evaluate:safe_pow",
    ("tinygrad.uop.ops", "UOpMetaClass"): "tinylab.uop.node:_UOpType",
    ("tinygrad.uop.symbolic", "simplify_valid"): "tinylab.uop.symbolic.ranges:drop_implied",
    ("tinygrad.uop.symbolic", "pm_simplify_valid"): "tinylab.uop.symbolic.ranges:pm_ranges",
    ("tinygrad.codegen.simplify", "pm_reduce_collapse"): (
        "tinylab.codegen.collapse_loads:pm_collapse_loads"
    ),
    # What those modules have from Python themselves.
    ("tinygrad.uop", "FastEnum"): "enum:IntEnum",
    ("tinygrad.uop", "auto"): "enum:auto",
    ("tinygrad.tensor", "cast"): "typing:cast",
    ("tinygrad.device", "TYPE_CHECKING"): "typing:TYPE_CHECKING",
    ("tinygrad.uop.ops", "TYPE_CHECKING"): "typing:TYPE_CHECKING",
}

# Foreign modules, and all below them, that have no counterpart: the sentence that says so.
ABSENT: dict[str, str] = {
    "tinygrad.codegen.opt.tc": "tables of tensor cores are not written yet",
    "tinygrad.nn.onnx": "tinylab does not read ONNX files",
    "tinygrad.renderer.amd": "tinylab has no assembler for AMD yet",
    "tinygrad.renderer.cstyle": "tinylab has no renderers of C-like languages yet",
    "tinygrad.renderer.isa": "tinylab renders no machine code itself: LLVM does",
    "tinygrad.renderer.nir": "tinylab has no renderer of NIR",
    "tinygrad.renderer.ptx": "tinylab has no renderer of PTX yet",
    "tinygrad.renderer.wgsl": "tinylab has no renderer of WGSL yet",
    "tinygrad.runtime.ops_amd": "tinylab has no AMD device yet",
    "tinygrad.runtime.ops_cl": "tinylab has no OpenCL device yet",
    "tinygrad.runtime.ops_cuda": "tinylab has no CUDA device yet",
    "tinygrad.runtime.support": "the runtimes here are built from other parts",
    "tinygrad.uop.weak": "weak types are settled in tinylab.codegen.index_dtype",
    "tinygrad.uop.upat": "patterns become functions in tinylab.uop.compiled: compile_rule",
    "tinygrad.uop.validate": "bounds are worked out by rules, which the tests prove with z3",
    "tinygrad.viz": "the viewer here is another one: %load_ext tinylab, then %%steps in a cell",
}


def _absent(module: str, names: str, why: str) -> None:
    """Names of a module that is here which are not: the sentence, and where to look instead."""
    ABSENT.update({f"{module}.{name}": why for name in names.split()})


_absent("tinygrad.uop.ops", "buffers", "a node holds its own storage: uop.buffer")
_absent(
    "tinygrad.uop.ops",
    "RewriteTrace TrackedGraphRewrite tracked_ctxs tracked_keys uop_fields active_group "
    "active_rewrites add_trace_group _name_cnt match_stats ucount",
    "rewriting is seen by who listens, not kept in lists: with tinylab.record() as record",
)
_absent(
    "tinygrad.uop.ops",
    "deconstruct_function",
    "rules are pickled as they are, lambdas too: pickle.dumps(PatternMatcher(...))",
)
_absent(
    "tinygrad.uop.ops",
    "upat_deferred_compile upat_interpret",
    "patterns become functions in tinylab.uop.compiled: compile_rule and interpret_rule",
)
_absent(
    "tinygrad.uop.ops",
    "recursive_property",
    "what follows from a node is filled in without recursion: UOp.topovisit",
)
_absent(
    "tinygrad.uop.ops",
    "SENTINEL",
    "it marks a node that is being rewritten, which tinylab.uop.rewrite does otherwise",
)
_absent(
    "tinygrad.uop.ops",
    "pm_contiguous_view_offset",
    "it is a method, UOp.contiguous_view_offset(), and no table of rules",
)
_absent("tinygrad.tensor", "_METADATA", "who made a node is noted in tinylab.tensor.noting")
_absent("tinygrad.dtype", "DTypeMetaClass", "DType is a plain class: isinstance(x, DType)")
_absent(
    "tinygrad.device",
    "DepsTracker",
    "which steps wait for which is worked out by tinylab.engine.dependencies.dependencies",
)
_absent(
    "tinygrad.codegen",
    "do_devectorize",
    "lanes are written out by the passes expand_lanes and coalesce of tinylab.codegen",
)
_absent(
    "tinygrad.codegen.opt.search",
    "get_kernel_actions",
    "search is not written yet; opts are tried in the debugger, or given as opts_to_apply",
)
_absent("tinygrad.renderer.llvmir", "AMDLLVMRenderer", "there is no AMD device yet")
_absent(
    "tinygrad.uop.symbolic",
    "commutative",
    "operands are ordered by the rule swap_operands of tinylab.uop.symbolic.pm_normal_form",
)
_absent(
    "tinygrad.uop.symbolic",
    "pm_move_where_on_load pm_remove_invalid",
    "masks become gates of loads and stores in tinylab.codegen.gate_memory.pm_gate_memory",
)
_absent(
    "tinygrad.schedule.rangeify",
    "pm_mops",
    "movements become indices in tinylab.schedule.assign_ranges.pm_assign_ranges",
)
_absent(
    "tinygrad.schedule.rangeify",
    "pm_const_buffer_folding",
    "constants are folded in tinylab.schedule.early_cleanup.pm_early_cleanup",
)
_absent(
    "tinygrad.codegen.simplify",
    "pm_flatten_range",
    "loops are joined by a pass, tinylab.codegen.merge_ranges.merge_ranges",
)
_absent(
    "tinygrad.codegen.simplify",
    "pm_split_ranges",
    "loops are split by a pass, tinylab.codegen.split_ranges.split_ranges",
)
_absent(
    "tinygrad.codegen.gpudims",
    "get_grouped_dims",
    "sizes of a grid are grouped by tinylab.codegen.gpu_dims.grouped_dims",
)
_absent(
    "tinygrad.codegen.decomp.transcendental",
    "cody_waite_reduction frexp payne_hanek_reduction pow2if rintk",
    "sin, exp2 and log2 are decomposed in other steps, in tinylab.codegen.transcendental",
)
_absent(
    "tinygrad.codegen.late.coalesce",
    "indexing_simplify",
    "wide loads are found by tinylab.codegen.coalesce.pm_coalesce",
)

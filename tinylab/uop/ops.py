"""The public face of the graph: names that scripts, rules and kernels import."""

from tinylab.dtype import AddrSpace, Invalid, dtypes
from tinylab.helpers.arguments import explained_names as _explained_names
from tinylab.opcodes import AxisType, GroupOp, Ops, axis_colors, axis_letters, axis_to_pos
from tinylab.uop.args import (
    BufferizeOpts,
    CallInfo,
    KernelInfo,
    ParamArg,
    ProgramInfo,
    RangeArg,
    ReduceArg,
    StageArg,
)
from tinylab.uop.build import fresh_number
from tinylab.uop.evaluate import exec_alu, identity_element, python_alu
from tinylab.uop.infer import broadcast_shape, dtype_from_uop, node_to_shape, promote
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.moves import Sint as sint, shape_to_shape_arg, sint_to_uop
from tinylab.uop.node import UOp, Variable
from tinylab.uop.passes import Pass, run_passes
from tinylab.uop.pattern import UPat
from tinylab.uop.rewrite import (
    BottomUpGate,
    RewriteContext,
    graph_rewrite,
    listeners,
    rebuild,
    substitute,
)
from tinylab.uop.sizes import resolve, smax, smin, ssimplify, sym_infer
from tinylab.uop.spec import spec_kernel, spec_program, spec_shared, spec_tensor, type_verify

__all__ = [
    "AddrSpace",
    "AxisType",
    "BottomUpGate",
    "BufferizeOpts",
    "CallInfo",
    "GroupOp",
    "Invalid",
    "KernelInfo",
    "Ops",
    "ParamArg",
    "Pass",
    "PatternMatcher",
    "ProgramInfo",
    "RangeArg",
    "ReduceArg",
    "RewriteContext",
    "Rule",
    "StageArg",
    "UOp",
    "UPat",
    "Variable",
    "axis_colors",
    "axis_letters",
    "axis_to_pos",
    "broadcast_shape",
    "dtype_from_uop",
    "dtypes",
    "exec_alu",
    "fresh_number",
    "graph_rewrite",
    "identity_element",
    "listeners",
    "node_to_shape",
    "promote",
    "python_alu",
    "rebuild",
    "resolve",
    "run_passes",
    "shape_to_shape_arg",
    "sint",
    "sint_to_uop",
    "smax",
    "smin",
    "spec_kernel",
    "spec_program",
    "spec_shared",
    "spec_tensor",
    "ssimplify",
    "substitute",
    "sym_infer",
    "type_verify",
]

_explained_names(globals())

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
}

# Foreign modules, and all below them, that have no counterpart: the sentence that says so.
ABSENT: dict[str, str] = {
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
    "tinygrad.viz": "the viewer here is another one: %load_ext tinylab, then %%steps in a cell",
}

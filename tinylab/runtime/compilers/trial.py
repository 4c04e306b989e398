"""A process that tries a processor's code, since LLVM or the processor may end it.

    python trial.py TRIPLE CPU FEATURES (compile | run | list)

Ends with 0 if code for the processor could be made (and run); `list` prints LLVM's processors and
features. It stands alone: llvmlite is all that it needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any

import llvmlite.binding as _binding

llvm: Any = _binding  # its functions have no types

# What the widest instruction sets have each of their own instructions for.
_ARITHMETIC = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x i32> @llvm.ctpop.v16i32(<16 x i32>)
declare <8 x i64> @llvm.ctlz.v8i64(<8 x i64>, i1)
declare <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>, i32, <16 x i1>, <16 x float>)

define void @trial(ptr %p) {
  %x = load <16 x float>, ptr %p, align 64
  %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
  %i = fptosi <16 x float> %y to <16 x i32>
  %n = call <16 x i32> @llvm.ctpop.v16i32(<16 x i32> %i)
  %m = mul <16 x i32> %n, %i
  %at = getelementptr float, ptr %p, <16 x i32> zeroinitializer
  %some = icmp sgt <16 x i32> %m, zeroinitializer
  %g = call <16 x float> @llvm.masked.gather.v16f32.v16p0(
      <16 x ptr> %at, i32 4, <16 x i1> %some, <16 x float> %y)
  store <16 x float> %g, ptr %p, align 64
  %w = load <8 x i64>, ptr %p, align 64
  %z = call <8 x i64> @llvm.ctlz.v8i64(<8 x i64> %w, i1 false)
  %q = mul <8 x i64> %z, %w
  store <8 x i64> %q, ptr %p, align 64
  %b = load <64 x i8>, ptr %p, align 64
  %c = add <64 x i8> %b, %b
  %d = shufflevector <64 x i8> %c, <64 x i8> poison, <64 x i32> zeroinitializer
  store <64 x i8> %d, ptr %p, align 64
  %e = load <8 x double>, ptr %p, align 64
  %f = fmul <8 x double> %e, %e
  store <8 x double> %f, ptr %p, align 64
  ret void
}
"""
_HALVES = """
define void @trial(ptr %p) {
  %x = load <32 x half>, ptr %p, align 64
  %y = fadd <32 x half> %x, %x
  store <32 x half> %y, ptr %p, align 64
  ret void
}
"""


def try_code(machine: Any, text: str, run: bool) -> None:
    """Compile a function that changes 64 bytes, and call it."""
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    obj = machine.emit_object(module)
    if not run:
        return
    builder = llvm.JITLibraryBuilder().add_object_img(obj)
    builder.export_symbol("trial")
    found = builder.link(llvm.create_lljit_compiler(machine, use_jit_link=True), "trial")
    memory = (ctypes.c_uint8 * 128)()
    start = -(-ctypes.addressof(memory) // 64) * 64
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found["trial"])(start)


def main(triple: str, cpu: str, features: str, what: str) -> None:
    """Make a code generator and try it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(triple)
    name = "help" if what == "list" else cpu
    machine = target.create_target_machine(
        cpu=name, features=features, opt=2, reloc="pic", codemodel="small"
    )
    if what != "list":
        try_code(machine, _ARITHMETIC, what == "run")
        with contextlib.suppress(RuntimeError):  # without halves it needs functions not here
            try_code(machine, _HALVES, what == "run")


if __name__ == "__main__":
    main(*sys.argv[1:])

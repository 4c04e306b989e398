"""Each line of the text knows its uop, and so does each line of the assembly."""

import re

import pytest

from tests.renderer.programs import Program, index, param, register, window
from tinylab.dtype import dtypes
from tinylab.renderer.base import Renderer
from tinylab.renderer.llvmir import LLVMRenderer
from tinylab.renderer.python import PythonRenderer
from tinylab.runtime.compilers.llvm import LLVMCompiler
from tinylab.target import Target
from tinylab.uop.ops import AxisType, Ops, UOp

F = dtypes.float32


def dot(name="dot") -> list[UOp]:
    """Sum of products over 64 pairs, 16 lanes at a time."""
    p = Program(name)
    out, x, y = (p.add(param(i, n, F)) for i, n in enumerate((16, 64, 64)))
    acc = p.add(register((16,), F))
    start = p.store(acc, UOp.const(0.0, F))
    i = p.loop(4, kind=AxisType.REDUCE)
    at = p.op(Ops.MUL, i, index(16))
    product = p.op(Ops.MUL, p.load(window(x, at, 16)), p.load(window(y, at, 16)))
    total = p.op(Ops.ADD, p.load(acc.after(start, i)), product)
    done = p.end(p.store(acc, total), i)
    p.store(window(out, index(0), 16), p.load(acc.after(done)))
    return p.done()


@pytest.mark.parametrize("renderer", [LLVMRenderer(), PythonRenderer()], ids=["llvm", "python"])
def test_lines_are_the_text(renderer):
    lines = renderer.render_lines(dot())
    assert renderer.render(dot()) == "\n".join(text for text, _ in lines) + "\n"


def test_each_uop_that_does_something_has_a_line():
    uops = dot()
    named = {i for _, i in LLVMRenderer().render_lines(uops) if i is not None}
    silent = {Ops.PARAM, Ops.CONST, Ops.SINK, Ops.AFTER}
    # A register's address is its name: taking a place of it needs no text.
    missing = [u.op for i, u in enumerate(uops) if i not in named and u.op not in silent]
    assert missing in ([], [Ops.SHRINK])  # the last window starts where its buffer does


def test_a_location_has_the_number_of_its_uop():
    uops = dot()
    for text, i in LLVMRenderer().render_lines(uops):
        found = re.search(r"!dbg !(\d+)$", text)
        if found and not text.startswith("define"):
            assert int(found[1]) == i + 1
    lines = LLVMRenderer().render(uops)
    assert '!DIFile(filename: "dot", directory: "")' in lines


def test_assembly_leads_back_to_the_uops():
    uops = dot()
    assembly = LLVMCompiler().assembly(LLVMRenderer().render(uops))
    lines = {int(n) for n in re.findall(r"\.loc\s+\d+\s+(\d+)", assembly)}
    shown = {uops[n - 1].op for n in lines if n}
    assert {Ops.LOAD, Ops.STORE, Ops.END} <= shown


def test_names_say_what_a_value_is():
    text = LLVMRenderer().render(dot())
    for name in ("%acc0", "%Ridx0", "%alu0", "%val0", "%ptr0", "loop_Ridx0:"):
        assert name in text


def test_names_of_kernels_are_made_legal():
    text = LLVMRenderer().render(dot("my kernel!"))
    assert "define void @my20kernel21(ptr %bufs, ptr %vals, i64 %core_id)" in text


def test_a_sum_may_be_fused_and_reordered_other_adds_not():
    text = LLVMRenderer().render(dot())
    assert re.search(r"fadd reassoc contract <16 x float>", text)
    assert "fast" not in text
    assert "nnan" not in text
    p = Program()
    out = p.add(param(0, 2, F))
    a, b = p.load(out.index(index(0))), p.load(out.index(index(1)))
    p.store(out.index(index(0)), p.op(Ops.ADD, a, b))
    assert "= fadd float" in LLVMRenderer().render(p.done())


def test_indices_that_cannot_wrap_say_so():
    p = Program()
    out = p.add(param(0, 64, dtypes.int32))
    i = p.loop(8)
    at = p.op(Ops.MUL, i, index(8))
    value = p.load(out.index(at))
    p.end(p.store(out.index(at), p.op(Ops.MUL, value, value)), i)
    text = LLVMRenderer().render(p.done())
    assert "mul nuw nsw i32 %Lidx0, 8" in text
    assert "mul i32 %val0, %val0" in text


@pytest.mark.parametrize(
    ("arch", "lanes", "fused"),
    [
        ("x86_64,x86-64", 4, False),
        ("x86_64,znver2", 8, True),
        ("x86_64,znver4", 16, True),
        ("x86_64,znver4,-avx512f", 8, True),
        ("x86_64,x86-64,+avx2", 8, False),
        ("aarch64,generic", 4, True),
    ],
)
def test_the_target_decides_the_vectors(arch, lanes, fused):
    renderer = LLVMRenderer(Target("CPU", "LLVM", arch))
    assert renderer.vector_width(F) == lanes
    assert (Ops.MULACC in renderer.code_for_op) == fused
    assert dtypes.bfloat16 in renderer.supported_dtypes()
    assert dtypes.fp8e4m3 not in renderer.supported_dtypes()


def test_renderers_satisfy_what_code_generation_asks():
    from tinylab.codegen.contract import Renderer as Asked

    for renderer in (LLVMRenderer("CPU:LLVM"), PythonRenderer("PYTHON")):
        assert isinstance(renderer, Asked)
    assert LLVMRenderer().has_threads
    assert not LLVMRenderer().has_local
    assert PythonRenderer().has_local
    assert PythonRenderer().shared_max > 0
    assert Renderer("PYTHON:X").target == Target("PYTHON", "X")

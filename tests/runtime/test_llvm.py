import ctypes
import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.runtime.kernels import ADD_ONE, DEBUG_LINES, kernel
from tinylab.errors import CompileError
from tinylab.helpers import Context, cache
from tinylab.runtime.compilers.elf import undefined_symbols
from tinylab.runtime.compilers.llvm import Linked, LLVMCompiler
from tinylab.runtime.compilers.support import SUPPORT_NAMES
from tinylab.runtime.cpu_threads import KERNEL
from tinylab.target import host_machine

GENERIC = "x86_64,x86-64" if host_machine() == "x86_64" else f"{host_machine()},generic"


def call(linked, *arrays):
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    KERNEL(linked["k"])(ctypes.addressof(pointers), 0, 0)


@pytest.mark.parametrize("arch", ["", GENERIC])
def test_text_becomes_code_that_runs(arch):
    x = np.float32([41])
    call(Linked(LLVMCompiler(arch).compile(ADD_ONE), "k"), x)
    assert x[0] == 42


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (kernel("%v = bogus"), "line 3: .*: %v = bogus"),
        (kernel("%x = fadd float 1.0, %data0"), "line 3: .*"),
        ("define void @k() {\n", "line"),
        ("nonsense", "line 1"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, what):
    with pytest.raises(CompileError, match=what):
        LLVMCompiler().compile(text)


def test_what_cannot_be_linked_is_refused_before_it_is_linked():
    text = "declare void @system(ptr)\n" + kernel("call void @system(ptr %data0)")
    with pytest.raises(CompileError, match="calls system, which is not defined"):
        LLVMCompiler().compile(text)


def test_128_bit_division_is_refused():
    text = kernel("%v = load i128, ptr %data0", "%w = sdiv i128 %v, 7", "store i128 %w, ptr %data0",
                  "%x = sdiv i128 7, %v", "store i128 %x, ptr %data0")  # fmt: skip
    with pytest.raises(CompileError, match="__divti3"):
        LLVMCompiler().compile(text)


def test_inline_assembly_is_for_isolated_processes():
    text = kernel('call void asm sideeffect "nop", ""()')
    with pytest.raises(CompileError, match="inline assembly"):
        LLVMCompiler().compile(text)
    assert LLVMCompiler(inline_assembly=True).compile(text)


def test_a_missing_entry_is_said():
    with pytest.raises(CompileError, match="cannot be linked"):
        Linked(LLVMCompiler().compile(ADD_ONE.replace("@k", "@other")), "k")


def test_libm_may_be_called():
    text = "declare float @sinf(float)\n" + kernel(
        "%v = load float, ptr %data0",
        "%w = call float @sinf(float %v)",
        "store float %w, ptr %data0",
    )
    obj = LLVMCompiler().compile(text)
    assert undefined_symbols(obj) == ("sinf",)
    x = np.float32([1])
    call(Linked(obj, "k"), x)
    assert x[0] == pytest.approx(np.sin(1), rel=1e-6)


def test_assembly_carries_debug_lines():
    text = LLVMCompiler().assembly(DEBUG_LINES)
    lines = {int(line.split()[2]) for line in text.splitlines() if line.strip().startswith(".loc")}
    assert {11, 12, 13} <= lines


def test_the_arch_decides_the_registers():
    if host_machine() != "x86_64":
        pytest.skip("asks for x86 registers")
    assert "zmm" in LLVMCompiler("x86_64,znver4").assembly(DEBUG_LINES)
    assert "ymm" in LLVMCompiler("x86_64,znver2").assembly(DEBUG_LINES)
    generic = LLVMCompiler(GENERIC).assembly(DEBUG_LINES)
    assert "xmm" in generic
    assert "ymm" not in generic


def test_other_machines_can_be_compiled_for():
    other = "aarch64" if host_machine() == "x86_64" else "x86_64"
    assert "ret" in LLVMCompiler(f"{other},generic").assembly(ADD_ONE)
    with pytest.raises(CompileError, match="native code for"):
        LLVMCompiler(f"{other},native")


def test_many_compilations_in_one_process():
    # A pass manager that is used twice would end the process here.
    compiler = LLVMCompiler()
    objects = {compiler.compile(text) for text in (ADD_ONE, DEBUG_LINES) for _ in range(20)}
    assert len(objects) == 2


def test_code_is_kept_on_disk_by_text_and_target(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CACHEDB", str(tmp_path / "cache.db"))
    compiler = LLVMCompiler()
    calls = []
    monkeypatch.setattr(
        compiler, "compile", lambda src: calls.append(src) or b"code of " + src.encode()
    )
    assert compiler.compile_cached("a") == compiler.compile_cached("a") == b"code of a"
    compiler.compile_cached("b")
    assert calls == ["a", "b"]
    with Context(CCACHE=0):
        compiler.compile_cached("a")
    assert calls == ["a", "b", "a"]
    assert LLVMCompiler(GENERIC).cachekey != compiler.cachekey


# *** conversions that a JIT lacks

CONVERT = kernel(
    "%d = load double, ptr %data0",
    "%f = fptrunc double %d to float",
    "%h = fptrunc double %d to half",
    "%h.at = getelementptr i8, ptr %data0, i64 8",
    "store half %h, ptr %h.at",
    "%b = fptrunc double %d to bfloat",
    "%b.at = getelementptr i8, ptr %data0, i64 10",
    "store bfloat %b, ptr %b.at",
    "%fh = fptrunc float %f to half",
    "%fh.at = getelementptr i8, ptr %data0, i64 12",
    "store half %fh, ptr %fh.at",
    "%fb = fptrunc float %f to bfloat",
    "%fb.at = getelementptr i8, ptr %data0, i64 14",
    "store bfloat %fb, ptr %fb.at",
    "%e = fpext half %fh to float",
    "%e.at = getelementptr i8, ptr %data0, i64 16",
    "store float %e, ptr %e.at",
)
EDGES = [
    0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"), 65504.0, 65519.99, 65520.0, 65536.0,
    2.0**-24, 2.0**-25, 2.0**-25 * 1.0000001, 1.00048828125, 1.0004882812500002, 3.4e38, 1e-40,
    3.4028235677973366e38, 1e-45, 7e-46, 1e-300, 1e300, 1.00390625, 1.0039062500000002,
]  # fmt: skip


def nearest_bfloat(d: float) -> int:
    """The bits of the nearest bfloat16, ties to even, from its neighbours."""
    with np.errstate(all="ignore"):
        base = int(np.float32(d).view(np.uint32)) >> 16
    found = []
    for bits in (base - 1, base, base + 1):
        value = float(np.uint32((bits & 0xFFFF) << 16).view(np.float32))
        if value == value:
            size = 2.0**128 if abs(value) == float("inf") else abs(value)
            found.append((abs(size - abs(d)), bits & 1, bits))
    return min(found)[2]


@pytest.fixture(scope="module", params=["", GENERIC])
def convert(request):
    return Linked(LLVMCompiler(request.param).compile(CONVERT), "k")


def check_conversions(linked, d):
    data = np.zeros(3)
    data[0] = d
    call(linked, data)
    with np.errstate(all="ignore"):
        f = np.float32(d)
        wanted_h, wanted_fh = np.float16(d), np.float16(f)
    np.testing.assert_equal(data.view(np.float16)[4], wanted_h)
    np.testing.assert_equal(data.view(np.float16)[6], wanted_fh)
    np.testing.assert_equal(data.view(np.float32)[4], np.float32(wanted_fh))
    if np.isfinite(d):
        assert data.view(np.uint16)[5] == nearest_bfloat(d)
        if np.isfinite(f):
            assert data.view(np.uint16)[7] == nearest_bfloat(float(f))
    else:
        top = struct.unpack("<I", struct.pack("<f", d))[0] >> 16
        assert data.view(np.uint16)[5] == data.view(np.uint16)[7]
        assert np.isnan(d) or data.view(np.uint16)[5] == top


@pytest.mark.parametrize("d", EDGES)
def test_half_and_bfloat_edges(convert, d):
    check_conversions(convert, d)


@given(st.floats(width=64) | st.floats(-70000, 70000) | st.floats(-1e-3, 1e-3))
def test_half_and_bfloat_are_rounded_once(d):
    check_conversions(_generic(), d)


_made: list[Linked] = []


def _generic() -> Linked:
    if not _made:
        _made.append(Linked(LLVMCompiler(GENERIC).compile(CONVERT), "k"))
    return _made[0]


def test_the_helpers_are_what_llvm_calls():
    if host_machine() != "x86_64":
        pytest.skip("other machines convert in other ways")
    assert set(undefined_symbols(LLVMCompiler(GENERIC).compile(CONVERT))) == set(SUPPORT_NAMES)


def test_no_symbols_in_what_is_no_elf():
    assert undefined_symbols(b"MZ not an ELF") == ()

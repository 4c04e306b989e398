import pytest

from tinylab.errors import DeviceError
from tinylab.target import CPUArch, Target, parse_targets, target_for, vector_bytes

CASES = {
    "": Target(),
    "cpu:clang": Target("CPU", "CLANG"),
    "CPU:LLVM:x86_64,znver2,avx2,-avx512f": Target("CPU", "LLVM", "x86_64,znver2,avx2,-avx512f"),
    "AMD::gfx950": Target("AMD", "", "gfx950"),
    ":LLVM": Target("", "LLVM"),
    "PCI+AMD": Target("AMD", interface="PCI"),
    "PCI:0,1+AMD": Target("AMD", interface="PCI", indices="0,1"),
    "USB+AMD:LLVM:gfx942": Target("AMD", "LLVM", "gfx942", "USB"),
    "REMOTE:host:6667+AMD": Target("AMD", interface="REMOTE:host", indices="6667"),
}


@pytest.mark.parametrize("text", CASES)
def test_grammar(text):
    assert Target.parse(text) == CASES[text]
    assert Target.parse(str(CASES[text])) == CASES[text]


@pytest.mark.parametrize(
    ("text", "what"), [("A+B+C", r"too many '\+'"), ("A:B:C:D", "too many ':'")]
)
def test_mistakes(text, what):
    with pytest.raises(RuntimeError, match=f"{what} in target string"):
        Target.parse(text)


def test_the_first_is_the_default_and_the_others_choose_for_theirs():
    targets = parse_targets("CPU;AMD:LLVM")
    assert target_for(targets, "", {}) == Target("CPU")
    assert target_for(targets, "AMD", {}) == Target("AMD", "LLVM")
    assert target_for(targets, "CL", {"arch": "x"}) == Target("CL", arch="x")
    assert target_for(parse_targets(":LLVM"), "CPU", {}) == Target("CPU", "LLVM")
    assert target_for((), "", {}) == Target()


def test_cpu_architectures():
    assert CPUArch.parse("x86_64,znver2,-fma") == CPUArch("x86_64", "znver2", ("-fma",))
    assert CPUArch.parse("x86_64,znver2,avx2,-fma").llvm_features == "+avx2,-fma"
    assert CPUArch.parse("").cpu == "native"
    with pytest.raises(DeviceError, match="invalid arch string: x86_64"):
        CPUArch.parse("x86_64")


@pytest.mark.parametrize(
    ("arch", "width"),
    [
        ("x86_64,x86-64", 16),
        ("x86_64,x86-64,avx2", 32),
        ("x86_64,znver2", 32),
        ("x86_64,znver4", 64),
        ("x86_64,znver4,-avx512f", 32),
        ("aarch64,generic", 16),
    ],
)
def test_vector_widths(arch, width):
    assert vector_bytes(arch) == width

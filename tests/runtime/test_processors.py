"""Processors by name: what LLVM would end the process for is a sentence."""

from __future__ import annotations

import pytest

from tinylab import Context, Tensor
from tinylab.errors import DeviceError
from tinylab.runtime.compilers import processors
from tinylab.runtime.compilers.llvm import LLVMCompiler
from tinylab.target import CPUArch, host_machine

x86 = pytest.mark.skipif(host_machine() != "x86_64", reason="names of x86_64's processors")


@pytest.mark.parametrize(
    ("arch", "sentence"),
    [
        (
            "x86_64,znver9",
            "LLVM has no processor 'znver9' of x86_64 with 64 bits\nhelp: did you mean znver",
        ),
        ("x86_64,i386", "LLVM has no processor 'i386' of x86_64 with 64 bits"),
        ("x86_64,native,avx9", "LLVM has no feature 'avx9' of x86_64"),
        ("aarch64,cortex-a9999", "LLVM has no processor 'cortex-a9999' of aarch64"),
    ],
)
def test_names_that_llvm_does_not_know(arch: str, sentence: str) -> None:
    with pytest.raises(DeviceError) as caught:
        LLVMCompiler(arch)
    assert sentence in str(caught.value)


def test_code_of_another_machine_is_made_and_not_run() -> None:
    other = "aarch64" if host_machine() == "x86_64" else "x86_64"
    refused = pytest.raises(DeviceError, match=f"CPU runs code of {host_machine()}, not of {other}")
    with Context(DEV=f"CPU:LLVM:{other},generic"), refused:
        (Tensor([1.0, 2.0]) + 1).realize()
    assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]


@x86
def test_code_that_ends_its_process_is_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which processors this machine is not, nobody knows: the trial is said to have ended."""
    ended = processors._try(CPUArch.parse("x86_64,nosuchcpu"), "run")
    assert ended.returncode != 0
    monkeypatch.setattr(processors, "_try", lambda arch, what: ended)
    with pytest.raises(DeviceError, match="this processor does not run the code of x86_64,znver3"):
        processors.check_runs.__wrapped__(CPUArch.parse("x86_64,znver3"))


@x86
def test_a_processor_whose_code_runs() -> None:
    processors.check_runs(CPUArch.parse("x86_64,x86-64-v2"))
    with Context(DEV="CPU:LLVM:x86_64,x86-64-v2"):
        assert (Tensor([1.0, 2.0]) * 3).tolist() == [3.0, 6.0]

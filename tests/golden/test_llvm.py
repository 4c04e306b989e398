"""Whole LLVM modules, for a wide CPU and for the least x86-64."""

import pytest

from tests.golden.kernels import KERNELS
from tests.golden.snapshots import WholeFile
from tinylab.renderer.llvmir import LLVMRenderer


class ModuleFile(WholeFile):
    file_extension = "ll"


@pytest.mark.parametrize(("cpu", "arch"), [("wide", "x86_64,znver4"), ("least", "x86_64,x86-64")])
@pytest.mark.parametrize("kernel", KERNELS)
def test_module(kernel, cpu, arch, snapshot):
    text = LLVMRenderer(f"CPU:LLVM:{arch}").render(KERNELS[kernel]())
    assert text == snapshot(name=f"{kernel}_{cpu}", extension_class=ModuleFile)

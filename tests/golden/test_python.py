"""Whole listings of the PYTHON device."""

import pytest

from tests.golden.kernels import KERNELS
from tests.golden.snapshots import WholeFile
from tinylab.renderer.python import PythonRenderer


class ListingFile(WholeFile):
    file_extension = "txt"


@pytest.mark.parametrize("kernel", KERNELS)
def test_listing(kernel, snapshot):
    text = PythonRenderer().render(KERNELS[kernel]())
    assert text == snapshot(name=kernel, extension_class=ListingFile)

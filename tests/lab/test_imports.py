import ast
import subprocess
import sys

import pytest

from tinylab.lab.cells import run_cell
from tinylab.lab.imports import rewrite_imports


@pytest.mark.parametrize(
    ("cell", "bound"),
    [
        ("import tinygrad", {"tinygrad"}),
        ("import tinygrad as tg", {"tg"}),
        ("import tinygrad.nn as nn", {"nn"}),
        ("import os, tinygrad, sys", {"os", "tinygrad", "sys"}),
        ("import tinygrad.nn", {"tinygrad"}),
        ("from tinygrad import Tensor as T, nn", {"T", "nn"}),
        ("from tinygrad.nn.state import get_parameters", {"get_parameters"}),
        ("try:\n    import tinygrad\nexcept ImportError:\n    pass", {"tinygrad"}),
        ("if True:\n    from tinygrad import dtypes", {"dtypes"}),
    ],
)
def test_imports_bind_what_they_would_bind(cell, bound):
    names = {}
    assert run_cell(cell, names).error is None
    assert set(names) - {"__builtins__"} == bound


def test_what_is_bound_is_ours():
    names = {}
    cell = (
        "import tinygrad as tg, tinygrad.nn\n"
        "from tinygrad import Tensor\n"
        "def inner():\n"
        "    from tinygrad.nn import Linear\n"
        "    return Linear\n"
        "Linear = inner()\n"
    )
    assert run_cell(cell, names).error is None
    assert names["Tensor"].__module__.startswith("tinylab")
    assert names["Linear"].__module__.startswith("tinylab")
    assert names["tg"].Tensor is names["Tensor"]
    assert names["tinygrad"].nn.Linear is names["Linear"]


@pytest.mark.parametrize(
    "cell",
    ["import numpy as np", "from .tinygrad import x", "from tinygrads import x",
     "print('import tinygrad')", "import my.tinygrad"],
)  # fmt: skip
def test_other_statements_stay_what_they_are(cell):
    assert ast.unparse(rewrite_imports(ast.parse(cell))) == cell


def test_lines_stay_where_they_are():
    tree = rewrite_imports(ast.parse("x = 1\n\nimport tinygrad.nn\ny = 2"))
    lines = [node.lineno for node in tree.body]
    assert lines[0] == 1
    assert set(lines[1:-1]) == {3}
    assert lines[-1] == 4


def test_a_name_that_is_none_is_an_import_error_on_its_line():
    run = run_cell("x = 1\nfrom tinygrad import Tensorr", {})
    assert isinstance(run.error, ImportError)
    assert "Tensorr" in str(run.error)


def test_sys_modules_is_left_alone():
    code = (
        "import sys\n"
        "from tinylab.lab.cells import run_cell\n"
        "run = run_cell('import tinygrad.nn\\nimport tinygrad as tg', {})\n"
        "assert run.error is None, run.error\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'tinygrad']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

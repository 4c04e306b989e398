import ast
import subprocess
import sys

import pytest

from tinylab import compat
from tinylab.lab.imports import rewrite_imports

C = "__import__('tinylab.compat').compat"


@pytest.mark.parametrize(
    ("cell", "rewritten"),
    [
        ("import tinygrad", f"tinygrad = {C}.module('tinygrad')"),
        ("import tinygrad as tg", f"tg = {C}.module('tinygrad')"),
        ("import tinygrad.nn as nn", f"nn = {C}.module('tinygrad.nn')"),
        ("import os, tinygrad, sys",
         f"import os\ntinygrad = {C}.module('tinygrad')\nimport sys"),
        ("import tinygrad.nn",
         f"{C}.module('tinygrad.nn')\ntinygrad = {C}.module('tinygrad')"),
        ("from tinygrad import Tensor as T, nn",
         f"T = {C}.take('tinygrad', 'Tensor')\nnn = {C}.take('tinygrad', 'nn')"),
        ("from tinygrad.nn.state import *", f"globals().update({C}.all_of('tinygrad.nn.state'))"),
        ("def f():\n    from tinygrad import nn",
         f"def f():\n    nn = {C}.take('tinygrad', 'nn')"),
        ("try:\n    import tinygrad\nexcept ImportError:\n    pass",
         f"try:\n    tinygrad = {C}.module('tinygrad')\nexcept ImportError:\n    pass"),
        ("x = importlib.import_module('tinygrad.nn')", f"x = {C}.module('tinygrad.nn')"),
        ("x = import_module('.nn', 'tinygrad').optim", f"x = {C}.module('tinygrad.nn').optim"),
        ("import_module('...x', 'tinygrad')", "import_module('...x', 'tinygrad')"),
        ("import_module('.nn', package)", "import_module('.nn', package)"),
        ("import_module('numpy')", "import_module('numpy')"),
        ("import_module(name)", "import_module(name)"),
        ("f(__import__('tinygrad'))", f"f({C}.module('tinygrad'))"),
        ("__import__('tinygrad.nn')", f"{C}.module('tinygrad.nn') and {C}.module('tinygrad')"),
        ("__import__('tinygrad.nn', fromlist=['optim'])", f"{C}.module('tinygrad.nn')"),
        ("import numpy as np", "import numpy as np"),
        ("import tinygrads, my.tinygrad", "import tinygrads\nimport my.tinygrad"),
        ("from .tinygrad import x", "from .tinygrad import x"),
        ("print('import tinygrad')", "print('import tinygrad')"),
    ],
)  # fmt: skip
def test_imports_are_rewritten(cell, rewritten):
    assert ast.unparse(rewrite_imports(ast.parse(cell))) == rewritten


def test_lines_stay_where_they_are():
    tree = rewrite_imports(ast.parse("x = 1\n\nimport tinygrad.nn\ny = 2"))
    assert [node.lineno for node in tree.body] == [1, 3, 3, 4]


def run(text):
    names = {}
    exec(compile(rewrite_imports(ast.parse(text)), "<cell>", "exec"), names)
    return names


def test_a_cell_gets_the_names_of_the_table():
    names = run("from tinygrad.llm.gguf import gguf_load as load\nfrom tinygrad.helpers import *")
    assert names["load"] is compat.module("tinygrad.llm.gguf").gguf_load
    assert names["Timing"] is compat.module("tinygrad.helpers").Timing


@pytest.mark.parametrize("cell", ["import tinygrad.absent", "from tinygrad.nn import Absent"])
def test_what_exists_nowhere_is_an_import_error_at_its_line(cell):
    with pytest.raises(ImportError, match="tinylab has no") as caught:
        run("\n\n" + cell)
    assert next(e.lineno for e in caught.traceback if str(e.path) == "<cell>") == 2


def test_sys_modules_is_left_alone():
    code = (
        "import sys\n"
        "from tinylab.lab.cells import run_cell\n"
        "ns = {}\n"
        "run = run_cell('import tinygrad.nn\\nimport tinygrad as tg', ns)\n"
        "assert run.error is None, run.error\n"
        "import tinylab\n"
        "assert ns['tinygrad'] is ns['tg'] and ns['tg'].Tensor is tinylab.Tensor\n"
        "assert ns['tinygrad'].nn.Linear is tinylab.nn.Linear\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'tinygrad']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

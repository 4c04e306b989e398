import ast
import subprocess
import sys

import pytest

from tinylab.lab.imports import home_of, rewrite_imports


@pytest.mark.parametrize(
    ("foreign", "home"),
    [
        ("tinygrad", "tinylab"),
        ("tinygrad.nn.state", "tinylab.nn.state"),
        ("tinygrads", None),
        ("numpy", None),
        ("my.tinygrad", None),
    ],
)
def test_a_module_has_one_home(foreign, home):
    assert home_of(foreign) == home


@pytest.mark.parametrize(
    ("cell", "rewritten"),
    [
        ("import tinygrad", "import tinylab as tinygrad"),
        ("import tinygrad as tg", "import tinylab as tg"),
        ("import tinygrad.nn as nn", "import tinylab.nn as nn"),
        ("import os, tinygrad, sys", "import os\nimport tinylab as tinygrad\nimport sys"),
        ("import tinygrad.nn", "__import__('tinylab.nn')\nimport tinylab as tinygrad"),
        ("from tinygrad import Tensor as T, nn", "from tinylab import Tensor as T, nn"),
        ("from tinygrad.nn.state import *", "from tinylab.nn.state import *"),
        ("def f():\n    from tinygrad import nn", "def f():\n    from tinylab import nn"),
        ("try:\n    import tinygrad\nexcept ImportError:\n    pass",
         "try:\n    import tinylab as tinygrad\nexcept ImportError:\n    pass"),
        ("import numpy as np", "import numpy as np"),
        ("from .tinygrad import x", "from .tinygrad import x"),
        ("print('import tinygrad')", "print('import tinygrad')"),
    ],
)  # fmt: skip
def test_imports_are_rewritten(cell, rewritten):
    assert ast.unparse(rewrite_imports(ast.parse(cell))) == rewritten


def test_lines_stay_where_they_are():
    tree = rewrite_imports(ast.parse("x = 1\n\nimport tinygrad.nn\ny = 2"))
    assert [node.lineno for node in tree.body] == [1, 3, 3, 4]


def test_sys_modules_is_left_alone():
    code = (
        "import sys\n"
        "from tinylab.lab.cells import run_cell\n"
        "ns = {}\n"
        "run = run_cell('import tinygrad.nn\\nimport tinygrad as tg', ns)\n"
        "assert run.error is None, run.error\n"
        "assert ns['tinygrad'].__name__ == ns['tg'].__name__ == 'tinylab'\n"
        "assert ns['tinygrad'].nn.__name__ == 'tinylab.nn'\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'tinygrad']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

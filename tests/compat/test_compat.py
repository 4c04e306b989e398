"""`import tinygrad` means tinylab: what scripts import, in scripts, cells and processes."""

import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import tinylab
from tests.compat.names import IMPORTED
from tinylab import compat
from tinylab.compat.table import ABSENT, HOMES, NAMES
from tinylab.device import Buffer
from tinylab.errors import TinylabError
from tinylab.helpers.context import SETTINGS

ROWS = [(module, name) for module, names in IMPORTED.items() for name in names.split()]


def why_not(module, name):
    """What an import of a name says; None where it works, "" where nothing is said."""
    try:
        compat.take(module, name)
    except ImportError as e:
        return next((why for why in ABSENT.values() if str(e).endswith(why)), "")
    return None


@pytest.mark.parametrize(("module", "name"), ROWS)
def test_what_scripts_import_is_here_or_says_why_not(module, name):
    assert why_not(module, name) != "", "put it into a module, or a row into compat/table.py"


def test_a_sentence_is_for_a_name_that_is_not_here():
    rows = [(m, n) for m, n in (path.rpartition(".")[::2] for path in ABSENT) if m != "tinygrad"]
    assert not [row for row in rows if not why_not(*row)]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_each_row_of_the_table_leads_somewhere(module, name):
    assert why_not(module, name) is None


# [owner] names: what the language has, and what is only there in another of its classes.
LISTED = dict(
    re.findall(r"\[(.+)\]\n([^\[]+)", pathlib.Path(__file__).with_name("api_names.txt").read_text())
)
OWNERS = {
    "Tensor": tinylab.Tensor,
    "UOp": tinylab.UOp,
    "dtypes": tinylab.dtypes,
    "device.Buffer": Buffer,
}
# These raise a sentence when they are asked for.
REFUSED = {"UOp": {"trace_num"}, "device.Buffer": {"trace_num"}}


@pytest.mark.parametrize("owner", LISTED)
def test_every_name_of_the_language_is_here_or_says_why_not(owner):
    names = LISTED[owner].split()
    assert names
    if owner in OWNERS:
        assert not [n for n in names if inspect.getattr_static(OWNERS[owner], n, None) is None]
    elif owner == "settings":
        assert not [n for n in names if n not in SETTINGS]
    else:
        path = owner if owner == "tinygrad" else f"tinygrad.{owner}"
        assert not [n for n in names if why_not(path, n) == ""]


def test_what_has_no_meaning_here_says_so():
    for thing in (tinylab.UOp.const(3), Buffer("CPU", 4, tinylab.dtypes.int8)):
        with pytest.raises(TinylabError, match=r"no number in a trace.*\n*.*record\(\)"):
            _ = thing.trace_num


def test_names_are_tinylab_s_own():
    assert compat.module("tinygrad").Tensor is tinylab.Tensor
    assert compat.module("tinygrad.nn.state").safe_load is tinylab.nn.state.safe_load
    assert compat.module("tinygrad.nn").state is compat.module("tinygrad.nn.state")
    assert compat.module("tinygrad.helpers") is compat.module("tinygrad.helpers")


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        ("tinygrad.helpers", "Timimg", "did you mean Timing"),
        ("tinygrad.helpers", "qwertz", "tinylab has no such name"),
        ("tinygrad.runtime.ops_amd", "AMDDevice", "no AMD device"),
        ("tinygrad.qwertz", "x", "no module"),
        ("tinygrad.nn.onnx", "OnnxRunner", "ONNX"),
        ("numpy", "array", "no module"),
        ("tinygrad.uop.ops", "match_stats", r"tinylab.record\(\)"),
        ("tinygrad.uop.weak", "pm_cast_weak", "index_dtype"),
        ("tinygrad.codegen.opt.tc", "amd_cdna_1616128", "tensor cores are not written yet"),
    ],
)
def test_a_name_that_exists_nowhere_is_an_import_error_in_words(module, name, says):
    with pytest.raises(ImportError, match=says):
        compat.take(module, name)


def python(code, *arguments, path=None, cwd=None, timeout=None):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([*(path or []), *sys.path]))
    return subprocess.run(
        [sys.executable, *arguments, *(["-c", textwrap.dedent(code)] if code else [])],
        capture_output=True, text=True, check=False, env=env, cwd=cwd,
        timeout=timeout,
    )  # fmt: skip


def test_an_alias_serves_every_form_of_import():
    done = python(
        """
        import tinylab.compat
        tinylab.compat.alias()
        tinylab.compat.alias()
        import tinygrad, tinygrad.nn.state, tinygrad.nn as nn
        from tinygrad import Tensor, dtypes, nn as same
        from tinygrad.nn.state import safe_save, get_state_dict
        from tinygrad.helpers import *
        from tinygrad.uop.ops import UOp, Ops
        import importlib
        assert importlib.import_module("tinygrad.llm.gguf").gguf_load
        assert nn is same is tinygrad.nn and tinygrad.Tensor is tinylab.Tensor is Tensor
        assert prod([2, 3]) == 6 and tinygrad.nn.state.safe_save is safe_save
        assert not hasattr(tinygrad, "qwertz")
        for text in ("from tinygrad.helpers import Timimg", "import tinygrad.runtime.ops_amd",
                     "from tinygrad import qwertz", "import tinygrad.helpers.qwertz",
                     "from tinygrad.uop.ops import UOp, match_stats",
                     "from tinygrad.codegen.opt import tc"):
            try: exec(text)
            except ImportError as e: print(e)
            else: raise SystemExit("imported")
        assert "tinylab.tinygrad" not in __import__("sys").modules
        """
    )
    assert done.returncode == 0, done.stderr
    assert "did you mean Timing" in done.stdout
    assert done.stdout.count("tinylab has no") >= 5
    assert "tensor cores are not written yet" in done.stdout


@pytest.fixture
def real(tmp_path):
    """A package called tinygrad, as if it were installed beside."""
    (tmp_path / "tinygrad").mkdir()
    (tmp_path / "tinygrad" / "__init__.py").write_text("real = True\n")
    return tmp_path


def test_an_alias_refuses_when_the_name_is_taken(real):
    done = python(
        """
        import tinygrad, tinylab.compat
        try: tinylab.compat.alias()
        except RuntimeError as e: print(e)
        assert tinygrad.real
        """,
        path=[str(real)],
    )
    assert done.returncode == 0, done.stderr
    assert "already imported" in done.stdout
    assert "help: " in done.stdout


def test_what_is_installed_beside_is_left_alone(real):
    done = python(
        """
        from tinylab.lab.cells import run_cell
        names = {}
        assert run_cell("from tinygrad import Tensor", names).error is None
        import tinygrad, tinylab
        assert tinygrad.real and names["Tensor"] is tinylab.Tensor
        """,
        path=[str(real)],
    )
    assert done.returncode == 0, done.stderr


SCRIPT = """
import sys
from tinygrad import Tensor, Device
from tinygrad.helpers import getenv, Timing
import beside
if __name__ == "__main__":
    print(sys.argv[1:], beside.total(Tensor([1, 2, 3])), __file__)
"""


def test_a_script_runs_unchanged(tmp_path, real):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text(
        "from tinygrad.tensor import Tensor\ntotal = lambda t: t.sum().item()\n"
    )
    script = str(tmp_path / "script.py")
    done = python(None, "-m", "tinylab.compat", script, "--fast", "3", path=[str(real)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"['--fast', '3'] 6 {script}"


# The last line of each script, as tinygrad 0.14.0 prints it on the CPU.
PRINTED = {
    "decoder": "[0.069, -0.015, 0.288, -0.017, 0.355, -0.32, -0.182, 0.008]",
    "denoiser": "74 [-0.923, 0.035, 0.955, -0.189, 0.769, -0.412]",
    "accumulate": "True True 193 True True",
}


@pytest.mark.parametrize("name", PRINTED)
def test_scripts_of_the_usual_kind_print_what_they_print_elsewhere(name, tmp_path):
    script = pathlib.Path(__file__).with_name("scripts") / f"{name}.py"
    done = python(None, "-W", "ignore", "-m", "tinylab.compat", str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == PRINTED[name]


def test_the_command_says_how_it_is_used(tmp_path):
    assert "usage" in python(None, "-m", "tinylab.compat", "--help").stdout
    assert "usage" in python(None, "-m", "tinylab.compat").stdout
    done = python(None, "-m", "tinylab.compat", str(tmp_path / "none.py"))
    assert done.returncode != 0
    assert "no script" in done.stderr


def test_a_module_runs_unchanged(tmp_path):
    (tmp_path / "beside.py").write_text("from tinygrad import dtypes\nprint(dtypes.int8)\n")
    done = python(None, "-m", "tinylab.compat", "-m", "beside", cwd=tmp_path)
    assert done.stdout.strip() == str(tinylab.dtypes.int8), done.stderr


CHILDREN = """
import atexit, concurrent.futures, multiprocessing, os, sys
import tinygrad
from beside import double

def triple(x):
    return (tinygrad.Tensor([x]) * 3).item()

def again(x):
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        return pool.map(triple, [x])[0]

@atexit.register
def at_the_end():
    import __main__
    if __name__ == "__main__":
        print("end", __main__.triple(5), __main__.__file__ == os.path.abspath(__file__))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(triple, [1, 2]), pool.map(double, [4]))
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(again, 3).result())
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_children_of_every_method_know_the_alias(method, as_module, tmp_path, real):
    """They lacked it, and a Pool started its dead children again for ever."""
    (tmp_path / "script.py").write_text(CHILDREN)
    (tmp_path / "beside.py").write_text(
        "import tinygrad\ndef double(x): return (tinygrad.Tensor([x]) + x).tolist()[0]\n"
    )
    script = ["-m", "script"] if as_module else [str(tmp_path / "script.py")]
    done = python(
        None, "-m", "tinylab.compat", *script, method, path=[str(real)], cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[3, 6] [8]", "9", "end 15 True"]


def test_a_linked_script_finds_what_lies_beside_the_real_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "beside.py").write_text("name = 'real'\n")
    (tmp_path / "real" / "script.py").write_text(
        "import sys, beside\nprint(beside.name, __file__, sys.argv, __spec__, __name__)\n"
    )
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "script.py")
    (tmp_path / "beside.py").write_text("name = 'that of the link'\n")
    own = [python(None, *how, "link.py", cwd=tmp_path) for how in ([], ["-m", "tinylab.compat"])]
    assert own[0].stdout == own[1].stdout, own[1].stderr
    assert own[1].stdout.startswith("real ")


def test_a_folder_and_an_archive_run_their_main(tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "__main__.py").write_text(
        "import sys, beside, tinygrad\nprint(beside.name, sys.argv, sys.path[0], __name__)\n"
    )
    (folder / "beside.py").write_text("name = 'inside'\n")
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    for place in (str(folder), archive):
        done = python(None, "-m", "tinylab.compat", place, "a", cwd=tmp_path)
        assert done.stdout.strip() == f"inside {[place, 'a']} {place} __main__", done.stderr
    done = python(None, "-m", "tinylab.compat", str(tmp_path))
    assert "has no __main__ that can be run" in done.stderr
    done = python(None, "-m", "tinylab.compat", "-m", "nowhere.to.be.found")
    assert "has no nowhere.to.be.found that can be run" in done.stderr


def test_homes_exist():
    for path, homes in HOMES.items():
        if not any(path == a or path.startswith(a + ".") for a in ABSENT):
            assert compat.module(path), homes

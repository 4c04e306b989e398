"""The shape of the code: sizes of modules, names of passes, public paths, what an import loads."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tinylab
from tinylab import codegen, schedule
from tinylab.uop.ops import Pass, PatternMatcher

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    p for top in ("tinylab", "widgets", "benchmarks") for p in (ROOT / top).rglob("*.py")
)
MOST_LINES = 600
STAGES = ("schedule", "codegen", "uop/symbolic")
# Public names of one module that are words of their own: a table of facts, not of rules.
HEAVY = ("numpy", "llvmlite", "IPython", "ipywidgets", "anywidget", "sqlite3", "z3")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# *** modules


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_is_one_idea(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES, f"{lines} lines: two ideas are in it; part them"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text, "write a docstring at the top"
    assert len(text.split()) >= 3


def stages() -> Iterator[Path]:
    for stage in STAGES:
        yield from sorted((ROOT / "tinylab" / stage).glob("*.py"))


@pytest.mark.parametrize("path", list(stages()), ids=relative)
def test_a_table_is_named_after_its_file(path: Path) -> None:
    """One pass, one file, one name: split_ranges.py holds pm_split_ranges."""
    module = importlib.import_module(
        relative(path)[:-3].replace("/", ".").removesuffix(".__init__")
    )
    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, PatternMatcher)
        and re.search(rf"^{name}\b.* = ", path.read_text(), re.M)
    ]
    if path.name == "__init__.py" or not any(name.startswith("pm_") for name in own):
        return
    assert f"pm_{path.stem}" in own, f"the file holds {own}"


PIPELINES = {"schedule": schedule.KERNEL_GRAPH, "codegen": codegen.PASSES}
PASSES = [pytest.param(stage, p, id=p.name) for stage, line in PIPELINES.items() for p in line]


@pytest.mark.parametrize(("stage", "one"), PASSES)
def test_a_pass_says_why_it_stands_where_it_does(stage: str, one: Pass) -> None:
    assert one.why, "say what it leans on or prepares"
    assert not re.search(r"crash|break|fail", one.why, re.I), "that is a bug report, not a reason"


@pytest.mark.parametrize(("stage", "one"), PASSES)
def test_a_pass_has_a_file_or_a_table_of_its_name(stage: str, one: Pass) -> None:
    """What the debugger shows is what an editor finds: a file, a `pm_` table or a function."""
    sources = [p.read_text() for p in (ROOT / "tinylab" / stage).rglob("*.py")]
    if one.name.startswith("simplify"):
        return  # the tables of uop/symbolic
    named = (ROOT / "tinylab" / stage / f"{one.name}.py").exists()
    tabled = any(re.search(rf"^pm_{one.name} = ", text, re.M) for text in sources)
    written = one.run is not None and one.run.__module__.startswith(f"tinylab.{stage}")
    assert named or tabled or written


# *** rules


def tables() -> Iterator[tuple[str, PatternMatcher]]:
    for path in stages():
        name = relative(path)[:-3].replace("/", ".").removesuffix(".__init__")
        for key, value in vars(importlib.import_module(name)).items():
            if isinstance(value, PatternMatcher) and key.startswith("pm_"):
                yield f"{name}.{key}", value


@pytest.mark.parametrize("table", [t for _, t in tables()], ids=[n for n, _ in tables()])
def test_each_rule_has_a_name_and_a_law(table: PatternMatcher) -> None:
    for rule in table.rules:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", rule.name), rule
        assert rule.law, f"{rule.name}: say in one line what becomes of what"
        assert "\n" not in rule.law
        named = rule.when is None or rule.when.__name__ != "<lambda>"
        assert named, f"{rule.name}: name its condition, the debugger shows it"


# *** public paths


def public_paths() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "tests/layout/public_paths.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            module, names = line.split(":")
            for name in names.split():
                yield module, name


@pytest.mark.parametrize(("module", "name"), list(public_paths()), ids=lambda v: v)
def test_public_path(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_no_module_bears_a_public_functions_name() -> None:
    """`tinylab.profile()` would hide `tinylab/profile.py`."""
    modules = {m.name for m in pkgutil.iter_modules(tinylab.__path__)}
    packages = set(tinylab._MODULES)
    assert not modules & (set(tinylab.__all__) - packages)


# *** imports


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh process has after the code."""
    script = f"{code}\nimport sys; print(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    ["import tinylab", "import tinylab.uop.ops", "import tinylab.lab", "import tinylab.schedule"],
)
def test_import_is_light(code: str) -> None:
    """numpy, LLVM and Jupyter load on first use."""
    assert not loaded_by(code) & set(HEAVY)


def test_the_compiler_needs_no_notebook() -> None:
    code = (
        "import sys\n"
        "for name in ('IPython', 'ipywidgets', 'anywidget', 'jupyterlab', 'notebook'):\n"
        "    sys.modules[name] = None\n"
        "import tinylab\n"
        "assert (tinylab.Tensor([1, 2, 3]) * 2).tolist() == [2, 4, 6]"
    )
    loaded_by(code)


# *** the repository


def test_ci_runs_the_command_of_the_readme() -> None:
    """One command for every check, and CI calls that one."""
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    (command,) = re.findall(r"^python3 -m venv .*-m tests$", readme, re.M)
    assert command.replace("pip install -e", "pip install -q -e") in ci


def test_no_path_of_a_machine_in_the_repository() -> None:
    """Where a file was written says nothing to its reader."""
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    marks = re.compile(r"(?<![\w.])/(work|root|home)/\w")
    paths = [
        ROOT / p for p in listed.stdout.split("\n") if p.endswith((".py", ".md", ".ts", ".toml"))
    ]
    assert not [relative(p) for p in paths if p.exists() and marks.search(p.read_text())]

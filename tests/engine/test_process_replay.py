"""Kernels of one revision, made again by another: what a record holds, and what differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinylab
from benchmarks.models import MODELS
from tinylab import Context, Tensor, Variable
from tinylab.codegen.opt import Opt, OptOps
from tinylab.dtype import AddrSpace, Invalid, dtypes
from tinylab.engine import process_replay
from tinylab.engine.as_rows import from_rows, to_rows
from tinylab.errors import TraceError
from tinylab.lab import cli
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import KernelInfo, UOp


def record(path: Path) -> list[dict[str, Any]]:
    """Two kernels of a small program, as lines."""
    x = Tensor(np.ones((32, 48), np.float32)).realize()
    with process_replay.capturing_kernels(path):
        (x.exp().sum(1) * 3).contiguous().sum().realize()
        (x.exp().sum(1) * 3).contiguous().sum().realize()
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewritten(path: Path, lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [(d.what, str(d)) for d in process_replay.replay(path)]


def test_the_same_revision_makes_the_same_kernels(tmp_path: Path) -> None:
    lines = record(tmp_path / "kernels.jsonl")
    assert [line["name"].startswith("r_") for line in lines] == [True, True]
    assert list(process_replay.replay(tmp_path / "kernels.jsonl")) == []


def test_another_choice_of_opts_and_another_text_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "kernels.jsonl"
    first, second = record(path)
    second["source"] = second["source"].replace("fadd", "fsub")
    ((what, text),) = rewritten(path, [first, second])
    assert what == "source"
    assert any("fadd" in line and line.strip().startswith("+") for line in text.splitlines())

    # Opts that the heuristics of another revision chose: the text is made with those.
    with Context(NOOPT=1):
        (plain, _) = record(tmp_path / "plain.jsonl")
    first |= {"opts": plain["opts"], "source": plain["source"]}
    ((what, text),) = rewritten(path, [first])
    assert what == "opts"
    assert "was none" in text


def test_what_cannot_be_made_here_is_an_error_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "kernels.jsonl"
    first, second = record(path)
    first["ast"][0][0] = "KERNEL"
    second["target"] = "CPU:LLVM:arm64,generic"
    found = rewritten(path, [first, second])
    assert [what for what, _ in found] == ["error", "skipped"]
    assert "rows of a kernel cannot be read here" in found[0][1]
    path.write_text("nonsense\n")
    with pytest.raises(TraceError, match=r"line 1 of .* is no kernel"):
        list(process_replay.replay(path))
    for raw in (b'{"a": 1}\n', b"[]\n", b"\xff\xfe\x00"):
        path.write_bytes(raw)
        with pytest.raises(TraceError, match=r"line 1 of .* is no kernel"):
            list(process_replay.replay(path))
    with pytest.raises(TraceError, match="is no file"):
        list(process_replay.replay(tmp_path))
    with pytest.raises(TraceError, match="there is no record"):
        list(process_replay.replay(tmp_path / "none"))


def test_the_setting_records_a_process_and_the_command_lists_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernels.jsonl"
    env = {**os.environ, "CAPTURE_PROCESS_REPLAY": "1", "PROCESS_REPLAY_FILE": str(path)}
    code = "from tinylab import Tensor; (Tensor.empty(64, 64) @ Tensor.empty(64, 64)).realize()"
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert cli.main(["replay", str(path)]) == 0
    assert capsys.readouterr().out == "0 differences, 0 kernels skipped\n"
    line = json.loads(path.read_text())
    line["opts"] = []
    path.write_text(json.dumps(line) + "\n")
    assert cli.main(["replay", str(path)]) == 1
    assert "was none" in capsys.readouterr().out
    assert cli.main(["replay", str(tmp_path / "none")]) == 2


def in_revision(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """What the command of a revision says: its package stands in a folder of its own."""
    env = {**os.environ, "PYTHONPATH": str(root), **more}
    return subprocess.run(
        [sys.executable, *words], cwd=root, env=env, capture_output=True, text=True
    )


def revision(root: Path) -> Path:
    """A copy of this one."""
    package = Path(tinylab.__file__).parent
    shutil.copytree(package, root / "tinylab", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_kernels_of_one_revision_are_held_against_another(tmp_path: Path) -> None:
    old, new, path = revision(tmp_path / "old"), revision(tmp_path / "new"), tmp_path / "kernels"
    code = (
        "import tinylab; print(tinylab.__file__); a = tinylab.Tensor.empty(64, 64).realize();"
        "(a @ a).relu().realize(); (a.exp().sum(1) * 3).realize()"
    )
    how = {"CAPTURE_PROCESS_REPLAY": "1", "PROCESS_REPLAY_FILE": str(path)}
    ran = in_revision(old, "-c", code, **how)
    assert ran.stdout.startswith(str(old)), ran.stderr
    count = len(path.read_text().splitlines())
    assert count == 2

    same = in_revision(new, "-m", "tinylab", "replay", str(path))
    assert (same.returncode, same.stdout) == (0, "0 differences, 0 kernels skipped\n"), same.stderr

    heuristic = new / "tinylab/codegen/opt/heuristic.py"
    text = heuristic.read_text()
    none = "\n\ndef hand_coded_optimizations(k: Scheduler) -> Scheduler:\n    return k\n"
    heuristic.write_text(text + none)
    found = in_revision(new, "-m", "tinylab", "replay", str(path))
    assert found.returncode == 1, found.stderr
    assert found.stdout.count(": opts\n") == found.stdout.count("  is  none\n") == count
    assert found.stdout.endswith(f"{count} differences, 0 kernels skipped\n")

    heuristic.write_text(text)
    table = new / "tinylab/renderer/llvm_alu.py"
    table.write_text(table.read_text().replace("fadd", "fsub"))
    found = in_revision(new, "-m", "tinylab", "replay", str(path))
    assert found.returncode == 1, found.stderr
    # The product has fused additions only.
    assert found.stdout.startswith("r_64_16_4: source\n")
    assert "fsub" in found.stdout
    assert found.stdout.endswith("1 difference, 0 kernels skipped\n")


# *** rows


def kernels(name: str) -> list[UOp]:
    with Context(DEV="NULL", TRAINING=1):
        tensors = MODELS[name](tinylab)
        linear, _ = tensors[0].linear_with_vars(*tensors[1:])
    return [call.src[0] for call in linear.src if call.src[0].op is Ops.SINK]


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_a_kernel_are_the_kernel(name: str) -> None:
    for body in kernels(name):
        rows = json.loads(json.dumps(to_rows(body)))
        assert from_rows(rows) is body


def test_rows_of_every_kind_of_argument() -> None:
    r = UOp.range(4, 0, 1, AxisType.LOCAL)
    shared = UOp.placeholder((4,), dtypes.float32, addrspace=AddrSpace.LOCAL)
    value = UOp(Ops.CUSTOMI, dtypes.float32, (UOp.const(float("nan"), dtypes.float32),), "f({0})")
    guarded = r.valid(r < Variable("n", 1, 3))
    opts = (Opt(OptOps.TC, 0, (-1, 0, 1)), Opt(OptOps.NOLOCALS))
    body = shared.index(guarded).store(value.cast(dtypes.half).cast(dtypes.float32)).end(r)
    sink = body.sink(arg=KernelInfo("k", opts_to_apply=opts), tag="t")
    assert from_rows(json.loads(json.dumps(to_rows(sink)))) is sink
    assert any(u.arg is Invalid for u in sink.toposort())
    with pytest.raises(TraceError, match="object cannot be kept in a row"):
        to_rows(UOp(Ops.NOOP, dtypes.void, (), object()))

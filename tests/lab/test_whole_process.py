"""Settings that look on from the first computation to the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tinylab
from tinylab import Tensor
from tinylab.lab.whole_process import Statistics
from tinylab.uop import rewrite

SCRIPT = "from tinylab import Tensor; (Tensor([1.0, 2.0]) * 2 + 1).sum().realize()"


def test_statistics_count_matches_by_rule():
    found = Statistics()
    rewrite.listeners.append(found)
    try:
        (Tensor([[1.0, 2.0, 5.0, 7.0]]) * 3.5 - 1).sum(1).schedule_linear()
    finally:
        rewrite.listeners.remove(found)
    names = {rule.name: row for rule, row in found.rows.items()}
    assert names["index_of_reduce"][0] == 1
    head, *rows, last = found.table().splitlines()
    assert head.split() == ["matches", "ms", "rule"]
    assert sum(int(r.split()[0]) for r in rows) == int(last.split()[0])
    assert "index_of_reduce  assign_ranges.py:" in found.table()


@pytest.mark.parametrize(("value", "told"), [("1", True), ("-1", False)])
def test_viz_records_the_process(value: str, told: bool, tmp_path: Path):
    settings = {"VIZ": value, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.tlab")
    assert (f"tinylab trace {path}" in done.stdout) == told
    record = tinylab.load(path)
    assert len(record.kernels) == 1
    assert any(p.count for p in record.passes)


def test_a_process_tells_on_its_exit(tmp_path: Path):
    settings = {"TRACK_MATCH_STATS": "3", "PROFILE": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | settings, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = tmp_path.glob("*.tlab")
    assert "rules together" in done.stdout
    assert f"saved {path}" in done.stdout
    assert f"tinylab trace {path}" in done.stdout
    assert f"tinylab profile {path}" in done.stdout
    record = tinylab.load(path)
    assert len(record.kernels) == 1
    assert any(p.count for p in record.passes)

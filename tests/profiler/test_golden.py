"""Recorded captures give the recorded results: every packet, wave, instruction, lane, counter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.profiler.captures import every_capture, recorded
from tinylab.profiler.capture import read_capture
from tinylab.profiler.sqtt.decode import Cursor, open_stream, packets
from tinylab.profiler.sqtt.events import concatenate
from tinylab.profiler.sqtt.native import decode
from tinylab.profiler.sqtt.walk import no_waves, walk_reference
from tinylab.profiler.summary import summarize

pytestmark = recorded


@every_capture
def test_summary_equals_the_recorded_results(folder: Path) -> None:
    golden = json.loads((folder / "golden.json").read_text())
    found = json.loads(json.dumps(summarize(read_capture(folder))))
    for key in ("sqtt", "pmc", "kernel_durations_ns"):
        assert found[key] == golden[key]


@every_capture
def test_plain_and_compiled_decoder_agree_on_every_packet(folder: Path) -> None:
    for file in sorted(folder.glob("*.sqtt")):
        stream = open_stream(file.read_bytes())
        plain, fast = Cursor(), Cursor()
        counts = np.zeros(len(stream.table.kinds), np.int64)
        columns = decode(stream, fast, counts)
        rows = zip(columns.position, columns.kind, columns.time, columns.raw, strict=True)
        assert [tuple(map(int, r)) for r in rows] == [tuple(p) for p in packets(stream, plain)]
        assert fast == plain


@every_capture
def test_plain_and_compiled_walk_agree(folder: Path) -> None:
    capture = read_capture(folder)
    for info in capture.streams:
        trace = capture.trace(info).index()
        if not trace.mapped:
            continue
        assert trace.program is not None
        parts = [trace.part(i) for i in range(len(trace.states))]
        events = concatenate(trace.table, [p.events.take(slice(p.first, None)) for p in parts])
        pcs, end = walk_reference(events, trace.program, no_waves())
        assert end is None
        assert pcs == np.concatenate([p.pcs[p.first :] for p in parts]).tolist()


@every_capture
def test_nothing_is_lost_and_every_execution_finds_its_issue(folder: Path) -> None:
    capture = read_capture(folder)
    for info in capture.streams:
        problems = capture.trace(info).index().problems
        del problems["dropped_tail_nibbles"]
        del problems["registers_dropped"]  # CDNA streams begin with one
        assert not any(problems.values())


def test_gpu_counts_match_the_trace() -> None:
    folder = next((f for f in _folders() if f.name == "gemm_run_0"), None)
    if folder is None:
        pytest.skip("no matrix product among the captures")
    capture = read_capture(folder)
    counters = capture.readout(capture.counters[0])
    waves = sum(len(capture.trace(s).index().waves()) for s in capture.streams)
    valu = counters.get("SQ_INSTS_VALU")
    assert waves == 1024
    assert valu is not None
    assert valu.sum == 30 * waves


def _folders() -> list[Path]:
    from tests.profiler.captures import FOLDERS

    return FOLDERS

"""Looking at a pass: any step by random access, and the trace's file.

The pass is made here: 10,000 matches over a graph of 10,000 nodes, each node matched once. Steps
are asked for in random order, as differences to the step before, which may share little with it.
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import harness

NODES = 10_000
ASKED = 40


def _marked_pass() -> object:
    """A record of one pass that marks each node of a sum of many variables."""
    from tinylab import UOp, record
    from tinylab.uop.ops import GroupOp, PatternMatcher, Rule, UPat, graph_rewrite

    terms = [UOp.variable(f"v{i}", 0, 9) for i in range(NODES // 3)]
    nodes = [term * 2 for term in terms]
    while len(nodes) > 1:
        pairs = [a + b for a, b in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = pairs + ([nodes[-1]] if len(nodes) % 2 else [])
    ops = GroupOp.ALU | GroupOp.Defines
    pattern = UPat(ops, name="x")
    mark = Rule("mark", "x -> x, marked", pattern, lambda x: None if x.tag else x.rtag(1))
    with record() as found:
        graph_rewrite(UOp.sink(nodes[0]), PatternMatcher([mark]), name="mark")
    return found


def run(asked: int = ASKED) -> None:
    """Times of steps, bytes a match on disk, time to open."""
    from tinylab.lab.desk import answer, desk_of
    from tinylab.trace.record import Record
    from tinylab.trace.store import load, save

    found = _marked_pass()
    assert isinstance(found, Record), "a record"
    shown = found.passes[0]
    rng = random.Random(0)
    ks = [rng.randrange(shown.count + 1) for _ in range(asked + 1)]
    times: dict[str, list[float]] = {"graph": [], "difference": [], "as JSON": []}
    answer(found, "step", {"pass": shown.id, "k": ks[0]})
    gc.collect()  # what recording left behind is not a cost of looking at it
    replay = desk_of(found).steps.replay(shown.id)
    for before, k in itertools.pairwise(ks):
        start = time.process_time()
        replay.step(k)
        graph = time.process_time()
        args = {"pass": shown.id, "k": k, "from": {"pass": shown.id, "k": before}}
        told = answer(found, "step", args)
        difference = time.process_time()
        json.dumps(told)
        times["graph"].append(graph - start)
        times["difference"].append(difference - start)
        times["as JSON"].append(time.process_time() - start)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pass.tlab"
        save(found, path)
        opened = time.process_time()
        stored = load(path)
        answer(stored, "overview")
        opened = time.process_time() - opened
        size = path.stat().st_size
    count = shown.count
    rows = [
        [f"step, {what}", harness.shown_time(statistics.median(t)), harness.shown_time(max(t))]
        for what, t in times.items()
    ]
    rows.append(["open the file, overview", harness.shown_time(opened), ""])
    rows.append(["bytes a match on disk", f"{size / count:.1f}", f"{size / 1e6:.2f} MB in all"])
    size_of_graph = found.nodes.size(shown.root_before)
    title = f"a pass of {count} matches over {size_of_graph} nodes, {asked} steps at random"
    harness.table(title, ["what", "median", "slowest"], rows)

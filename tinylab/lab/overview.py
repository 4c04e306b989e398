"""What a front end shows first: stages, passes, the table of kernels, and what went wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tinylab.lab.graph import Json
from tinylab.lab.kernels import Kernels, function_name
from tinylab.lab.search import wrappers
from tinylab.lab.steps import Steps
from tinylab.trace.record import PassRecord, Record

VERSION = 1
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def overview(record: Record, kernels: Kernels, steps: Steps) -> Json:
    """The record in one page, see `messages.Overview`."""
    text = record.cell.text if record.cell else ""
    return {
        "version": VERSION,
        "name": record.name,
        "status": status(record),
        "error": _error(record, steps),
        "cell": {"text": text, "lines": len(text.splitlines())},
        "device": record.device,
        "stages": stages(record),
        "kernels": [kernels.row(k) for k in record.kernels],
        "totals": {
            "passes": len(record.passes),
            "matches": sum(p.count for p in record.passes),
            "kernels": len(record.kernels),
            "elapsed_us": (record.end_ns - record.start_ns) / 1000,
        },
        "hint": _hint(record),
    }


def status(record: Record) -> str:
    """How the cell ended: ok, error or interrupted."""
    if record.error is None:
        return "ok"
    facts = record.error_facts() or {}
    return "interrupted" if facts.get("type") == "KeyboardInterrupt" else "error"


def _error(record: Record, steps: Steps) -> Json | None:
    """What ended the cell; and if it arose in a pass, after which match, by which rule, where."""
    facts = record.error_facts()
    if facts is None:
        return None
    failed = record.failed_pass
    found = steps.failure(failed.id) if failed is not None else None
    rule = found and found["rule"]
    return {
        **facts,
        "message": _ANSI.sub("", facts["message"]),
        "rule": rule["name"] if rule else None,
        "node": found["node"] if found else None,
    }


def _hint(record: Record) -> str:
    if record.passes or record.error is not None:
        return ""
    return "nothing was computed: tensors are lazy, .realize(), .numpy() or .item() runs them"


def stages(record: Record) -> list[Json]:
    """Tensor graph, schedule, then a stage per kernel; passes in the order in which they began."""
    found: list[Json] = []
    outer = wrappers(record)
    for name in ("tensor graph", "schedule"):
        passes = [p for p in record.passes if p.stage == name]
        if passes:
            found.append(_stage(record, len(found), name, None, passes, outer))
    by_kernel: dict[int, list[PassRecord]] = {}
    for each in record.passes:
        if each.kernel is not None:
            by_kernel.setdefault(each.kernel, []).append(each)
    for kernel, passes in by_kernel.items():
        name = function_name(record.kernels[kernel])
        found.append(_stage(record, len(found), name, kernel, passes, outer))
    return found


def _stage(
    record: Record,
    number: int,
    name: str,
    kernel: int | None,
    passes: Sequence[PassRecord],
    outer: Mapping[int, int | None],
) -> Json:
    return {
        "id": number,
        "name": name,
        "kernel": kernel,
        "elapsed_us": sum(p.elapsed_ns for p in passes if p.parent is None) / 1000,
        "passes": [
            {
                **pass_row(record, p),
                "parent": None if p.parent is None else outer.get(p.parent, p.parent),
            }
            for p in passes
            if p.id not in outer
        ],
    }


def pass_row(record: Record, shown: PassRecord) -> Json:
    """A pass for the tree of stages."""
    return {
        "id": shown.id,
        "name": shown.name,
        "matches": shown.count,
        "elapsed_us": shown.elapsed_ns / 1000,
        "changed": shown.changed,
        "direction": "root first" if shown.bottom_up else "sources first",
        "nodes": record.nodes.size(shown.root_before),
        "place": {"file": shown.place[0], "line": shown.place[1]},
        "failed": shown.error is not None,
        "parent": shown.parent,
        "realize": shown.batch,
    }

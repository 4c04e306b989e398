"""Counters as a viewer shows them: totals, ratios with their formulas, values by place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.profiler.counters.pmc import AXES, Counter, Readout, compare

_MOST_CELLS = 1 << 17


def totals(readout: Readout) -> list[dict[str, Any]]:
    """A row a counter: sum, largest value and where, how many values, how many are not zero."""
    return [_total(c) for c in readout.counters]


def _total(c: Counter) -> dict[str, Any]:
    sizes = dict(zip(AXES, map(int, c.values.shape), strict=True))
    return {
        "name": c.name,
        "block": c.block,
        "sum": c.sum,
        "max": c.max,
        "count": c.count,
        "nonzero": c.nonzero,
        "max_at": c.max_at,
        "axes": {axis: size for axis, size in sizes.items() if size > 1},
    }


def metrics(readout: Readout) -> list[dict[str, Any]]:
    """Ratios: label, value in percent (None: undefined), formula in names and in numbers."""
    return [
        {"key": m.key, "label": m.label, "value": m.value, "formula": m.formula, "note": m.note}
        | {"counted": _counted(readout, m.formula)}
        for m in readout.metrics()
    ]


def _counted(readout: Readout, formula: str) -> str:
    """A formula with numbers for its counters; empty if one is missing.

    100 * sum(HIT) / (sum(HIT) + sum(MISS))  ->  100 * 30 / (30 + 10)
    """
    missing = False

    def number(found: re.Match[str]) -> str:
        nonlocal missing
        counter = readout.get(found[2])
        missing |= counter is None
        return f"{getattr(counter, found[1]):,}" if counter else ""

    text = re.sub(r"(sum|max|count)\((\w+)\)", number, formula)
    return "" if missing else text


def table(
    readout: Readout, counter: str, rows: Sequence[str], columns: Sequence[str]
) -> dict[str, Any]:
    """A counter's values with some axes down and some across, summed over those left out.

    values of se 2, sa 1, wgp 2 = [[[1, 2]], [[3, 4]]], rows se, columns wgp  ->  1 2 / 3 4

    Raises: CaptureError if there is no such counter, or an axis is named twice.
    """
    found = readout.get(counter)
    if found is None:
        names = ", ".join(c.name for c in readout.counters)
        raise CaptureError(f"there is no counter {counter!r}", help=f"there are {names}")
    axes = [*rows, *columns]
    if len(set(axes)) != len(axes) or not set(axes) <= set(AXES):
        raise CaptureError(
            f"axes are {', '.join(AXES)}, each once: not {', '.join(map(str, axes))}"
        )
    values = found.along(*axes)
    kept = [axis for axis in AXES if axis in axes]
    ordered = values.transpose([kept.index(axis) for axis in axes])
    sizes = dict(zip(axes, ordered.shape, strict=True))
    height = int(np.prod([sizes[a] for a in rows], dtype=np.int64)) if rows else 1
    if ordered.size > _MOST_CELLS:
        raise CaptureError(f"{ordered.size} values are too many for one picture: leave out an axis")
    return {
        "counter": found.name,
        "rows": _labels(rows, sizes),
        "labels": _labels(columns, sizes),
        "columns": {"values": ordered.reshape(height, -1).astype(np.float64)},
    }


def _labels(axes: Sequence[str], sizes: dict[str, int]) -> list[str]:
    """Names of places: ["se", "sa"] of 2 and 1  ->  "se0 sa0", "se1 sa0"."""
    places = np.ndindex(*(sizes[a] for a in axes))
    return [" ".join(f"{a}{n}" for a, n in zip(axes, place, strict=True)) for place in places]


def together(readouts: Sequence[Readout]) -> list[dict[str, Any]]:
    """A row a counter or metric: a value a read-out, or None, and last over first."""
    if not readouts:
        return []
    names = {c.name for r in readouts for c in r.counters}
    return [
        {
            "name": row.name,
            "values": list(row.values),
            "change": row.change,
            "percent": row.name not in names,
        }
        for row in compare(readouts)
    ]

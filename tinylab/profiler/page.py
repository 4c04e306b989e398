"""What is left of captures where no kernel and no front end runs: text, tables, a picture.

A notebook's sanitiser takes out inline SVG, style sheets and scripts; tables, ``style=`` and images
by data URL stay. All text of a capture is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.text import pluralize
from tinylab.profiler import scene, view
from tinylab.profiler.capture import Capture, Captures
from tinylab.profiler.desk import Desk, Stream, desk_of
from tinylab.profiler.sqtt.categories import CATEGORIES
from tinylab.profiler.sqtt.trace import Trace

_SMALL_BYTES = 1 << 20
_MOST_SOURCES, _MOST_HOT, _MOST_COUNTERS = 40, 12, 40
_WIDTH, _LEFT, _ROW, _MOST_LANES, _COLUMNS = 900, 92, 7, 72, 420
_CELL = "padding:2px 10px;text-align:left;vertical-align:top"
_NUMBER = "padding:2px 10px;text-align:right;vertical-align:top;white-space:nowrap"
# To be read on a light and on a dark page; in the order of CATEGORIES, then waves.
_COLORS = ("#4477aa", "#6fb2e6", "#d98a1c", "#b8629f", "#cc4b37", "#1f8f61", "#6cc299", "#c9b02a",
           "#6a5acd", "#8f98a3", "#96683a", "#57606a", "#aab2ba", "#7d8590", "#7fa3b5")  # fmt: skip


def mimebundle(captures: Capture | Captures) -> dict[str, str]:
    """The static form of captures, for ``_repr_mimebundle_``."""
    return {"text/plain": text(captures), "text/html": html(captures)}


def text(captures: Capture | Captures) -> str:
    """Captures in plain text: a line a source."""
    desk = desk_of(captures)
    lines = [c.title for c in desk.captures]
    lines += ["  ".join(row) for row in _stream_rows(desk)]
    lines += [
        f"{r['name']}  {r['kernel']}  {pluralize('counter', r['counters'])}"
        for r in _readouts(desk)
    ]
    return "\n".join(lines)


def html(captures: Capture | Captures) -> str:
    """Captures as HTML that passes a notebook's sanitiser."""
    desk = desk_of(captures)
    parts = [f"<div>{escape(c.title)}</div>" for c in desk.captures]
    first = desk.overview()["first"]
    if first is not None:
        parts += _trace_parts(desk.streams[first])
    if desk.streams:
        parts.append(
            _table(("stream", "kernel", "size", "what is in it"), list(_stream_rows(desk)))
        )
    parts += [part for number in range(len(desk.readouts)) for part in _counters(desk, number)]
    return f"<div>{''.join(parts)}</div>"


def _stream_rows(desk: Desk) -> Iterator[tuple[str, ...]]:
    for stream in desk.streams[:_MOST_SOURCES]:
        row = stream.row(0)
        yield row["name"], row["kernel"], f"{row['bytes']:,} bytes", _contents(stream)


def _contents(stream: Stream) -> str:
    """Numbers of waves and instructions; long streams are not read for it."""
    if stream.size_bytes > _SMALL_BYTES:
        return "not read"
    try:
        trace = stream.trace.index()
    except CaptureError as error:
        return error.message
    words = [
        pluralize("wave", len(trace.waves())),
        pluralize("instruction", view.instruction_count(trace)),
    ]
    return "; ".join([", ".join(words), *view.notes(trace)])


def _readouts(desk: Desk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.overview()["readouts"]
    return found


# *** a trace


def _trace_parts(stream: Stream) -> list[str]:
    if stream.size_bytes > _SMALL_BYTES:
        return []
    try:
        trace = stream.trace.index()
    except CaptureError:
        return []
    if not len(trace.waves()):
        return []
    data = base64.b64encode(picture(trace).encode()).decode()
    image = f'<img alt="waves and instructions" src="data:image/svg+xml;base64,{data}">'
    return [f'<div style="overflow:auto;max-height:480px">{image}</div>', _hot(stream, trace)]


def picture(trace: Trace) -> str:
    """SVG text: instructions and waves of a trace over time, a row a lane."""
    start, end = trace.span
    end = max(end, start + 1)
    columns = scene.lane_window(trace, start, end, _COLUMNS)["columns"]
    lanes = [int(n) for n in np.unique(columns["lane"])][:_MOST_LANES]
    height = 26 + _ROW * len(lanes)
    scale = (_WIDTH - _LEFT) / (end - start)
    parts = [_label(8, 12, f"{start:,} to {end:,} cycles")]
    names = dict(_lane_names(trace, lanes))
    for number, lane in enumerate(lanes):
        y = 20 + _ROW * number
        if lane in names:
            parts.append(_label(8, y + _ROW, names[lane]))
        for row in np.flatnonzero(columns["lane"] == lane):
            x = _LEFT + max(float(columns["start"][row]) - start, 0) * scale
            wide = max(float(columns["length"][row]) * scale, 0.7)
            color = _COLORS[int(columns["colour"][row])]
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_ROW - 1}" fill="{color}"/>'
            )
    used = sorted({int(c) for c in columns["colour"]})
    words = (*CATEGORIES, "waves")
    for place, number in enumerate(used):
        x, y = _LEFT + 112 * (place % 7), height + 6 + 14 * (place // 7)
        parts.append(f'<rect x="{x}" y="{y}" width="8" height="8" fill="{_COLORS[number]}"/>')
        parts.append(_label(x + 12, y + 8, words[number]))
    height += 12 + 14 * ((len(used) + 6) // 7)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'font-family="system-ui,sans-serif" font-size="10">{"".join(parts)}</svg>'
    )


def _lane_names(trace: Trace, lanes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """A name for the first lane of each group."""
    if any(lane < scene.UNIT_LANE for lane in lanes):
        yield min(lanes), "instructions"
    units = [lane for lane in lanes if scene.UNIT_LANE <= lane < scene.WAVE_LANE]
    if units:
        yield units[0], "execution"
    waves = [lane for lane in lanes if lane >= scene.WAVE_LANE]
    array, unit = trace.table.place[:2]
    seen = set()
    for lane in waves:
        place = (lane - scene.WAVE_LANE) >> 12
        if place not in seen:
            seen.add(place)
            yield lane, f"{array}{place >> 4} {unit}{place & 15}"


def _label(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#7d8590">{escape(words)}</text>'


def _hot(stream: Stream, trace: Trace) -> str:
    rows = view.instruction_table(trace, stream.loaded)
    hot = sorted((r for r in rows if r["hits"]), key=lambda r: -r["time"])[:_MOST_HOT]
    if not hot:
        return ""
    cells = [
        (f"0x{r['pc']:x}", r["text"], f"{r['hits']:,}", f"{r['total']:,}", f"{r['mean']:.1f}",
         f"{r['longest']:,}", f"{r['stall']:,}", f"{100 * r['share']:.1f}%")
        for r in hot
    ]  # fmt: skip
    return _table(("pc", "instruction", "hits", "cycles", "mean", "longest", "stall", "share"),
                  cells, numbers=6)  # fmt: skip


# *** counters


def _counters(desk: Desk, number: int) -> list[str]:
    try:
        found = desk.counters(number)
    except CaptureError as error:
        return [f"<div>{escape(error.message)}</div>"]
    totals = [(r["name"], r["block"], f"{r['sum']:,}", f"{r['max']:,}")
              for r in found["rows"][:_MOST_COUNTERS]]  # fmt: skip
    metrics = [(m["label"], m["formula"], f"{m['value']:.1f}%")
               for m in found["metrics"] if m["value"] is not None]  # fmt: skip
    parts = [f"<div>{escape(found['note'])}</div>"] if found["note"] else []
    parts.append(_table(("counter", "block", "sum", "largest"), totals, numbers=2))
    if metrics:
        parts.append(_table(("metric", "formula", "value"), metrics, numbers=1))
    return parts


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """A table whose last ``numbers`` columns stand at the right."""
    styles = [_CELL] * (len(names) - numbers) + [_NUMBER] * numbers
    head = "".join(f'<th style="{s}">{escape(n)}</th>' for s, n in zip(styles, names, strict=True))
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> str:
    pairs = zip(styles, row, strict=True)
    return "".join(f'<td style="{style}">{escape(cell)}</td>' for style, cell in pairs)

"""What is left of a record where no kernel and no front end runs: text, a table, a picture.

JupyterLab's sanitiser takes out inline SVG, style sheets and scripts; tables, details, `style=` and
images by data URL stay, so that is what this is made of. All text of the record is escaped.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tinylab.lab.desk import desk_of
from tinylab.lab.graph import Json
from tinylab.lab.picture import kernel_graph
from tinylab.trace import store
from tinylab.trace.record import Record

_TABLE_KERNELS = 200
_SOURCE_KERNELS = 40
_SOURCE_LINES = 200
_SOURCE_LETTERS = 150_000  # in all: the notebook's file holds them
_CELL = "padding:2px 10px;text-align:left;vertical-align:top"
_NUMBER = "padding:2px 10px;text-align:right;vertical-align:top;white-space:nowrap"
_PRE = "font-family:ui-monospace,monospace;font-size:12px;white-space:pre;overflow:auto;margin:4px"
_HEADINGS = ("#", "kernel", "time", "GFLOP/s", "GB/s", "runs", "opts", "from", "reason")
_NUMBERS = ("#", "time", "GFLOP/s", "GB/s", "runs")


def mimebundle(record: Record) -> dict[str, str]:
    """The static form of a record, for ``_repr_mimebundle_``."""
    return {"text/plain": text(record), "text/html": html(record)}


def text(record: Record) -> str:
    """A record in plain text: how it ended, and a line per kernel."""
    page = desk_of(record).overview()
    rows = _rows(page["kernels"])
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    lines = [summary(page)]
    if rows:
        lines += [_aligned(row, widths) for row in (_HEADINGS, *rows)]
    rest = len(page["kernels"]) - len(rows)
    return "\n".join([*lines, *([f"and {rest} more kernels"] if rest > 0 else [])])


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """A row of the table in plain text; numbers end where their headings do."""
    cells = zip(_HEADINGS, row, widths, strict=True)
    found = [w.rjust(n) if head in _NUMBERS else w.ljust(n) for head, w, n in cells]
    return "  ".join(found).rstrip()


def html(record: Record) -> str:
    """A record as HTML that passes a notebook's sanitiser."""
    desk = desk_of(record)
    page = desk.overview()
    if not page["kernels"]:
        return f"<div>{escape(summary(page))}</div>"
    return (
        f"<div><div>{escape(summary(page))}</div>{picture(record, page)}"
        f"{_table(page['kernels'])}{_sources(record, page['kernels'])}</div>"
    )


def summary(page: Json) -> str:
    """One line: "cell: 12 kernels, 340 passes, 5120 matches in 0.41 s on CPU"."""
    totals = page["totals"]
    words = (("kernels", "kernel"), ("passes", "pass"), ("matches", "match"))
    counts = ", ".join(f"{totals[n]} {one if totals[n] == 1 else n}" for n, one in words)
    line = f"{page['name']}: {counts} in {totals['elapsed_us'] / 1e6:.2f} s"
    if page["device"]:
        line += f" on {page['device']}"
    error = page["error"]
    if error and error["type"] == "KeyboardInterrupt":
        line += f"; interrupted{_place(page, error['pass_id'])}"
    elif error:
        first = next(iter(error["message"].splitlines()), "")
        line += f"; ended by {error['type']}" + (f": {first}" if first else "")
    return f"{line}; {page['hint']}" if page["hint"] else line


def without_view(record: Record, name: str | None) -> str:
    """One line on a record that is not shown, and how to see it.

    `name` is the variable that it is bound to.
    """
    way = (
        f"{name} shows its debugger" if name else "--name rec keeps it: then rec shows its debugger"
    )
    return f"{summary(desk_of(record).overview())}; {way}"


def _place(page: Json, pass_id: int | None) -> str:
    """Where it was, as in "in the pass callify (tensor graph)"; empty for no pass."""
    for stage in page["stages"]:
        for each in stage["passes"]:
            if each["id"] == pass_id:
                return f" in the pass {each['name']} ({stage['name']})"
    return ""


def picture(record: Record, page: Json | None = None) -> str:
    """The kernel graph as an image."""
    kernels = (page or desk_of(record).overview())["kernels"]
    names = _titles(kernels)
    facts = [_time(k["elapsed_us"]) or k["device"] for k in kernels]
    labels = list(zip(names, facts, strict=True))
    svg = kernel_graph(labels, desk_of(record).kernels.edges())
    data = base64.b64encode(svg.encode()).decode()
    return (
        '<div style="overflow:auto;max-height:420px"><img alt="kernel graph" '
        f'src="data:image/svg+xml;base64,{data}"></div>'
    )


def save(record: Record, path: str | Path) -> None:
    """Write a record to a .tlab file, with all that can be told of its kernels."""
    desk = desk_of(record)
    pages = {
        k.id: store.Page(desk.kernels.row(k), desk.kernels.detail(k.id, [])) for k in record.kernels
    }
    store.save(record, path, pages)


def _table(kernels: Sequence[Json]) -> str:
    styles = [_NUMBER if name in _NUMBERS else _CELL for name in _HEADINGS]
    heads = zip(styles, _HEADINGS, strict=True)
    head = "".join(f'<th style="{style}">{escape(name)}</th>' for style, name in heads)
    body = []
    for cells in _rows(kernels):
        marked = [f'<td style="{s}">{escape(c)}</td>' for s, c in zip(styles, cells, strict=True)]
        body.append(f"<tr>{''.join(marked)}</tr>")
    rest = len(kernels) - len(body)
    more = f"<div>and {rest} more kernels</div>" if rest > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div style="overflow:auto;max-height:420px">{table}</div>{more}'


def _rows(kernels: Sequence[Json]) -> list[tuple[str, ...]]:
    """The cells of the table, kernel by kernel; equal names are told apart as in the picture."""
    titled = zip(kernels[:_TABLE_KERNELS], _titles(kernels), strict=False)
    return [_words(kernel, title) for kernel, title in titled]


def _words(kernel: Json, title: str) -> tuple[str, ...]:
    lines = kernel["lines"]
    methods = ", ".join(kernel["method"][:4])
    origin = f"line {', '.join(map(str, lines))}" if lines else ""
    return (
        str(kernel["id"]),
        title,
        _time(kernel["elapsed_us"]),
        _work(kernel),
        _number(kernel["gbs"]),
        str(kernel["runs"]),
        " ".join(kernel["opts"]),
        f"{origin} {methods}".strip(),
        kernel["reason"],
    )


def _titles(kernels: Sequence[Json]) -> list[str]:
    """The names of kernels; equal ones with their numbers: ["E_4 #0", "r_8", "E_4 #2"]."""
    times = Counter(kernel["name"] for kernel in kernels)
    return [k["name"] + (f" #{k['id']}" if times[k["name"]] > 1 else "") for k in kernels]


def _time(elapsed_us: float | None) -> str:
    if elapsed_us is None:
        return ""
    if elapsed_us >= 1e6:
        return f"{_number(elapsed_us / 1e6)} s"
    return f"{_number(elapsed_us / 1000)} ms" if elapsed_us >= 1000 else f"{elapsed_us:.1f} µs"


def _work(kernel: Json) -> str:
    """Float operations a second; of a kernel without any, the integer ones by their name."""
    gops = kernel.get("gops")
    if kernel["gflops"] is not None or not gops:
        return _number(kernel["gflops"])
    for unit, factor in (("Gop/s", 1.0), ("Mop/s", 1e3), ("kop/s", 1e6)):
        if gops * factor >= 1:
            return f"{_number(gops * factor)} {unit}"
    return f"{_number(gops * 1e9)} op/s"


def _number(value: float | None) -> str:
    """Three digits that count, two below 1, never with an exponent: 1470 -> "1,470"."""
    if not value:
        return "" if value is None else "0"
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{places if size >= 1 else 1 - math.floor(math.log10(size))}f}"


def _sources(record: Record, kernels: Sequence[Json]) -> str:
    desk = desk_of(record)
    parts: list[str] = []
    for kernel, title in zip(kernels[:_SOURCE_KERNELS], _titles(kernels), strict=False):
        if sum(map(len, parts)) > _SOURCE_LETTERS:
            break
        lines = desk.kernels.source_text(kernel["id"])
        if not lines:
            continue
        shown = "\n".join(lines[:_SOURCE_LINES])
        rest = (
            f"\n... {len(lines) - _SOURCE_LINES} more lines" if len(lines) > _SOURCE_LINES else ""
        )
        parts.append(
            f"<details><summary>source of {escape(title)}</summary>"
            f'<pre style="{_PRE}">{escape(shown + rest)}</pre></details>'
        )
    return "".join(parts)

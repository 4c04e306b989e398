"""A profile where no kernel and no front end runs: a picture of its lanes, and the top kernels.

A notebook's sanitiser takes out inline SVG and scripts; tables, `style=` and images by data URL
stay, so that is what this is made of. All text of the profile is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from tinylab.profiler.collected import Profile, text_table
from tinylab.profiler.counters.data import number
from tinylab.profiler.merged import Comparison
from tinylab.profiler.table import Lane
from tinylab.profiler.timeline_desk import COLOURS, HEADLINES, TimelineDesk

_WIDE, _GUTTER, _COLUMNS = 900, 150, 375
_ROW, _NESTED, _CURVE, _GAP, _FOOT = 16, 11, 36, 4, 18
_MOST_ROWS = 60
_MOST_BYTES = 60_000  # of bars as the window counts them; the picture is some 200 kB then
_TOP = 20
_RANKED = ("kernel", "total", "share", "runs", "median", "longest")
_COMPARED = ("kernel", "before", "after", "after/before", "runs")
_CELL = "padding:2px 10px;text-align:left"
_NUMBER = "padding:2px 10px;text-align:right;white-space:nowrap"
# Colours that stand out from black and from white alike, in the order of COLOURS.
_FILLS = (
    "#3d85d8", "#1f9585", "#9a70e0", "#cf6a2c", "#bd4f92", "#579c39", "#a88a1c", "#6a7bc8",
    "#d08a48", "#7d8791", "#93a3b5", "#7f9fcf", "#5f9f80", "#a691d6", "#b39f62", "#c47f5c",
    "#b07d1c",
)  # fmt: skip
assert len(_FILLS) == len(COLOURS), "a fill for each colour"


def mimebundle(shown: Profile | Comparison) -> dict[str, str]:
    """The static form of a profile, for ``_repr_mimebundle_``."""
    return {"text/plain": text(shown), "text/html": html(shown)}


def text(shown: Profile | Comparison) -> str:
    """A profile in plain text: what it holds, and a line a kernel."""
    head, *rows = _rows(shown)
    return "\n".join([_first_line(shown), *text_table(head, rows)])


def html(shown: Profile | Comparison) -> str:
    """A profile as HTML that passes a notebook's sanitiser."""
    if is_empty(shown):
        return f"<div>{escape(_first_line(shown))}</div>"
    profile = _profile(shown)
    head, *rows = _rows(shown)
    notices = "".join(f"<div>{escape(n)}</div>" for n in TimelineDesk(profile).notices())
    return (
        f"<div><div>{escape(_first_line(shown))}</div>{picture(profile)}{notices}"
        f"{_table(head, rows)}</div>"
    )


def is_empty(shown: Profile | Comparison) -> bool:
    """Whether nothing was computed: there is a line to show, and no timeline.

    A cell has lines in any case, and memory of earlier ones may be let go while it runs.
    """
    table = _profile(shown).table
    rows = map(table.rows_of, range(len(table.lanes)))
    return all(
        lane.group == "cell" or lane.levels or own.start == own.stop
        for lane, own in zip(table.lanes, rows, strict=True)
    )


def _profile(shown: Profile | Comparison) -> Profile:
    return shown.merged if isinstance(shown, Comparison) else shown


def _first_line(shown: Profile | Comparison) -> str:
    line = repr(shown)[1:-1]
    return f"{line}; nothing was computed while it listened" if is_empty(shown) else line


def _named(row: dict[str, Any], programs: int) -> str:
    """A kernel's name, and how many programs bear it if they are several."""
    return f"{row['name']} ({programs} programs)" if programs > 1 else str(row["name"])


def _rows(shown: Profile | Comparison) -> list[tuple[str, ...]]:
    if isinstance(shown, Comparison):
        return [_COMPARED, *map(_compared, shown.rows[:_TOP])]
    rows = TimelineDesk(shown).top(None, None)["rows"][:_TOP]
    kinds = {f["name"]: f["kind"] for row in rows for f in row.get("figures", ())}
    figures = [name for name in HEADLINES if name in kinds]
    head = (*_RANKED, *(f"{name}, {kinds[name]}" for name in figures))
    return [head, *((*_top(row), *_figures(row, figures)) for row in rows)]


def _figures(row: dict[str, Any], names: Iterable[str]) -> Iterator[str]:
    """What was counted of a kernel, "" where it was not."""
    found = {figure["name"]: figure["value"] for figure in row.get("figures", ())}
    for name in names:
        yield number(found[name]) if name in found else ""


def _top(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        _named(row, row["programs"]),
        time_text(row["total_ns"]),
        f"{100 * row['share']:.1f} %",
        str(row["runs"]),
        time_text(row["median_ns"]),
        time_text(row["longest_ns"]),
    )


def _compared(row: dict[str, Any]) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f} x"
    runs = " · ".join(map(str, row["runs"]))
    return (_named(row, max(row["programs"])), *map(time_text, row["total_ns"]), ratio, runs)


def time_text(ns: float) -> str:
    """A time in the unit that suits it: 1250 -> "1.25 µs"."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    names = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_NUMBER if i else _CELL}">{escape(cell)}</td>'
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


# *** the picture


def picture(profile: Profile) -> str:
    """The lanes as an image."""
    drawn = svg(profile)
    data = base64.b64encode(drawn.encode()).decode()
    return (
        f'<div style="overflow:auto;max-height:420px"><img alt="lanes of the profile" '
        f'src="data:image/svg+xml;base64,{data}"></div>'
    )


def svg(profile: Profile) -> str:
    """The lanes of a profile over all its time; colours suit light and dark pages."""
    desk = TimelineDesk(profile)
    parts: list[str] = []
    top = 0
    for key, place in list(enumerate(desk.places))[:_MOST_ROWS]:
        lane = desk.table.lanes[place.lane]
        height = _height(lane, desk, place.lane)
        if place.row <= 0:
            top += _GAP
            middle = top + min(height, _ROW) / 2 + 4
            parts.append(f'<text x="4" y="{middle:.0f}">{escape(_clipped(lane.name))}</text>')
        parts.append(
            _curve(desk, place.lane, top) if lane.levels else _bars(desk, key, top, height)
        )
        top += height
    left = len(desk.places) - _MOST_ROWS
    if left > 0:
        top += _ROW
        parts.append(f'<text x="4" y="{top:.0f}">and {left} more rows</text>')
    start, end = desk.table.span
    parts.append(_ruler(end - start, top))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE}" height="{top + _FOOT}" '
        f'font-family="sans-serif" font-size="11" fill="#7d8791">{"".join(parts)}</svg>'
    )


def _height(lane: Lane, desk: TimelineDesk, number: int) -> int:
    if lane.levels:
        return _CURVE
    return _ROW if desk.timeline.row_count(number) == 1 else _NESTED


def _clipped(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:21]}…"


def _bars(desk: TimelineDesk, key: int, top: float, height: float) -> str:
    place = desk.places[key]
    start, end = desk.table.span
    scale = (_WIDE - _GUTTER) / max(1, end - start)
    _, found = desk.timeline.window(
        start, end, _COLUMNS, [place.lane], {(place.lane, place.row)}, _MOST_BYTES
    )
    bars = found.get((place.lane, place.row))
    if bars is None:
        return ""
    by_colour: dict[int, list[str]] = {}
    colours = desk.colours(bars.event).tolist()
    shares = bars.busy.tolist()
    for colour, left, right, busy in zip(
        colours, bars.start.tolist(), bars.end.tolist(), shares, strict=True
    ):
        x, wide = _GUTTER + (left - start) * scale, max(0.6, (right - left) * scale)
        high = (height - 1) * max(0.2, busy / 255)
        path = f"M{x:.1f} {top + height - 1 - high:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z"
        by_colour.setdefault(colour, []).append(path)
    return "".join(_paths(by_colour))


def _paths(by_colour: dict[int, list[str]]) -> Iterable[str]:
    for colour, paths in sorted(by_colour.items()):
        yield f'<path fill="{_FILLS[colour]}" d="{"".join(paths)}"/>'


def _curve(desk: TimelineDesk, lane: int, top: float) -> str:
    start, end = desk.table.span
    _, high = desk.timeline.levels(start, end, _COLUMNS, lane)
    most = float(desk.table["value"][desk.table.rows_of(lane)].max())
    if not most > 0:
        return ""
    bottom, room = top + _CURVE - 1, _CURVE - 4
    step = (_WIDE - _GUTTER) / _COLUMNS
    points = [
        f"{_GUTTER + i * step:.1f} {bottom - room * (level if level == level else 0) / most:.1f}"
        for i, level in enumerate(high.tolist())
    ]
    return f'<path fill="{_FILLS[0]}" d="M{_GUTTER} {bottom}L{"L".join(points)}V{bottom}z"/>'


def _ruler(length_ns: int, top: float) -> str:
    parts = []
    for i in range(5):
        x = _GUTTER + (_WIDE - _GUTTER) * i / 4
        anchor = "start" if i == 0 else "end" if i == 4 else "middle"
        shown = time_text(length_ns * i / 4)
        parts.append(f'<text x="{x:.0f}" y="{top + 13:.0f}" text-anchor="{anchor}">{shown}</text>')
    return "".join(parts)

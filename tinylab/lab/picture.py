"""A picture of the kernel graph by topological rank, as SVG text, for where no front end runs.

Colours are chosen to be read on a light and on a dark page; the background is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

MOST_KERNELS = 80
_ROW, _BOX, _GAP, _LETTER, _MARGIN = 58, 34, 18, 7.2, 8


def ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way from a kernel without a predecessor, for each kernel.

    Edges go from a lower number to a higher one, as kernels run in that order.

    3, [(0, 1), (1, 2), (0, 2)]  ->  [0, 1, 2]
    """
    rank = [0] * count
    for before, after in sorted(edges, key=lambda e: e[1]):
        rank[after] = max(rank[after], rank[before] + 1)
    return rank


def kernel_graph(labels: Sequence[tuple[str, str]], edges: Sequence[tuple[int, int]]) -> str:
    """SVG text: a box per kernel with two lines of text, an arrow per buffer that is handed on.

    Beyond `MOST_KERNELS` the rest is counted, not drawn.
    """
    shown = list(labels[:MOST_KERNELS])
    kept = [(a, b) for a, b in edges if a < len(shown) and b < len(shown)]
    rows: dict[int, list[int]] = {}
    for kernel, rank in enumerate(ranks(len(shown), kept)):
        rows.setdefault(rank, []).append(kernel)
    widths = [max(len(a), len(b)) * _LETTER + 2 * _MARGIN for a, b in shown]
    place: dict[int, tuple[float, float]] = {}
    full = max((_width(row, widths) for row in rows.values()), default=0.0)
    for rank, row in rows.items():
        x = _MARGIN + (full - _width(row, widths)) / 2
        for kernel in row:
            place[kernel] = (x, _MARGIN + rank * _ROW)
            x += widths[kernel] + _GAP
    height = _MARGIN * 2 + max(len(rows), 1) * _ROW
    rest = len(labels) - len(shown)
    parts = [_arrow(place[a], widths[a], place[b], widths[b]) for a, b in kept]
    parts += [_box(place[i], widths[i], *shown[i]) for i in range(len(shown))]
    if rest > 0:
        parts.append(_text(_MARGIN, height - 4, f"and {rest} more kernels", "#6b7b8c"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{full + 2 * _MARGIN:.0f}" '
        f'height="{height}" font-family="ui-monospace,monospace" font-size="12">'
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7d8fa1"/></marker></defs>'
        + "".join(parts)
        + "</svg>"
    )


def _width(row: Sequence[int], widths: Sequence[float]) -> float:
    return sum(widths[k] for k in row) + _GAP * (len(row) - 1)


def _box(at: tuple[float, float], width: float, name: str, words: str) -> str:
    x, y = at
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{_BOX}" rx="4" fill="#dce8f6" '
        f'stroke="#7d8fa1"/>{_text(x + _MARGIN, y + 14, name, "#14202c")}'
        f"{_text(x + _MARGIN, y + 28, words, '#3c5168')}"
    )


def _text(x: float, y: float, text: str, colour: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{escape(text)}</text>'


def _arrow(a: tuple[float, float], a_width: float, b: tuple[float, float], b_width: float) -> str:
    x1, y1, x2, y2 = a[0] + a_width / 2, a[1] + _BOX, b[0] + b_width / 2, b[1]
    bend = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f} {y2:.0f}" '
        'fill="none" stroke="#7d8fa1" marker-end="url(#a)"/>'
    )

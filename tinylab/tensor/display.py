"""How a notebook shows a tensor: few values as a grid with colours, many as a picture.

Colours lie over the page's own background, so both themes of JupyterLab show through: orange for
positive, blue for negative, the stronger the larger; of many values, a pixel shows the one that is
furthest from zero, so that a single outlier is never averaged away.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.errors import DeviceError
from tinylab.tensor.looked import Looked

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor

Array = Any  # numpy is loaded when something is shown, not before

MOST_CELLS, MOST_COLUMNS = 400, 24
MOST_WIDE, MOST_HIGH = 320, 200  # pixels of a picture before it is enlarged
MOST_TILES = 36
STRIP_HIGH = 120  # pixels of the bars of one axis: what comes under them stays in sight
_POSITIVE, _NEGATIVE = (235, 110, 40), (60, 140, 245)
_ZERO_LINE = (128, 128, 128, 200)
_HIGH, _LOW, _NAN = (250, 190, 0), (0, 185, 165), (205, 0, 205)


class Facts(NamedTuple):
    """What is said in words about the values."""

    low: float
    mean: float
    high: float
    nans: int
    infinities: int
    scale: float  # up to here colours grow
    limit: float  # what lies beyond is an outlier
    outliers: int


def html_of(x: Tensor) -> str:
    """The tensor as HTML; what is not computed yet is only described."""
    look = Looked(x)
    head = f"<b>Tensor</b> {html.escape(look.shape)} {x.dtype.name} on {html.escape(str(x.device))}"
    if look.bound:
        head += f" where {html.escape(look.where)}"
    count = look.numel
    if count is None:
        return _frame(head, "", "a size is a variable without a value: .bind() gives it one")
    if count == 0:
        return _frame(head, "", "no elements")
    if count > MOST_CELLS and look.constant is not None:
        return _frame(head, "", f"{_short(look.constant)} everywhere: a constant")
    try:
        values = look.values()
    except DeviceError as error:  # NULL keeps no values
        return _frame(head, "", html.escape(str(error)))
    if values is None:
        return _frame(head, "", "not computed yet: ask .realize(), .tolist() or .numpy()")
    facts = facts_of(values)
    body = _grids(values, facts) if _is_small(values) else _picture(values, facts)
    return _frame(head, body, _words(facts, values))


def _is_small(values: Array) -> bool:
    columns = values.shape[-1] if values.ndim else 1
    return values.size <= MOST_CELLS and columns <= MOST_COLUMNS


# *** facts


def facts_of(values: Array) -> Facts:
    """The numbers that are said in words, and the scale of the colours."""
    import numpy as np

    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    bad = values.size - finite.size
    if finite.size == 0:
        finite = np.zeros(1)
    nans = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
    scale, limit = scales_of(finite)
    beyond = _magnitude(finite) > limit
    low, high = finite.min(), finite.max()
    mean = float(finite.mean(dtype=np.float64))
    return Facts(low.item(), mean, high.item(), nans, bad - nans, scale, limit, int(beyond.sum()))


def _magnitude(values: Array) -> Array:
    import numpy as np

    return np.abs(values.astype(np.float64, copy=False))


def scales_of(finite: Array) -> tuple[float, float]:
    """(where colours are full, where outliers begin).

    Both are the largest magnitude, unless a few values stand far outside the others.
    """
    import numpy as np

    step = max(finite.size // 100_000, 1)
    size = _magnitude(finite)
    common = float(np.quantile(size.reshape(-1)[::step], 0.99))
    largest = float(size.max())
    return (common, common * 4) if 0 < common * 4 < largest else (largest, largest)


def _words(facts: Facts, values: Array) -> str:
    if values.dtype.kind == "b":
        return f"{int(values.sum())} of {values.size} true"
    parts = [f"min {_short(facts.low)}", f"mean {_short(facts.mean)}", f"max {_short(facts.high)}"]
    if facts.nans + facts.infinities == values.size:
        parts = ["no finite value"]
    parts.append(_swatch(_NAN, f"{facts.nans} NaN") if facts.nans else "0 NaN")
    if facts.infinities:
        parts.append(f"{facts.infinities} infinite")
    if facts.outliers:
        parts.append(_swatch(_HIGH, _swatch(_LOW, f"{facts.outliers} beyond ±{facts.limit:.3g}")))
    return " · ".join(parts)


def _swatch(color: tuple[int, int, int], text: str) -> str:
    style = f"display:inline-block;width:.7em;height:.7em;margin-right:.25em;background:rgb{color}"
    return f'<span style="{style}"></span>{text}'


def _short(x: Any) -> str:
    """A number in few characters: 0.33333334 -> 0.3333."""
    if isinstance(x, bool):
        return "1" if x else "0"
    if isinstance(x, int):
        return str(x)
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    return f"{x:.4g}"


# *** few values


def _grids(values: Array, facts: Facts) -> str:
    """A table, or one for each place on the leading axes."""
    import numpy as np

    if values.ndim <= 2:
        return _table(np.atleast_2d(values), facts, "")
    tables = [
        _table(values[place], facts, str([*place, "…"]).replace("'", ""))
        for place in np.ndindex(values.shape[:-2])
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px">{"".join(tables)}</div>'


def _table(values: Array, facts: Facts, title: str) -> str:
    rows = "".join(f"<tr>{''.join(_cell(v, facts) for v in row)}</tr>" for row in values.tolist())
    caption = f'<caption style="text-align:left;opacity:.75">{title}</caption>' if title else ""
    style = "border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums"
    return f'<table style="{style}">{caption}<tbody>{rows}</tbody></table>'


def _cell(value: Any, facts: Facts) -> str:
    red, green, blue, alpha = _color(float(value), facts)
    style = f"padding:1px 6px;text-align:right;background:rgba({red},{green},{blue},{alpha:.2f})"
    return f'<td style="{style}" title="{value!r}">{_short(value)}</td>'


def _color(value: float, facts: Facts) -> tuple[int, int, int, float]:
    """The colour of a value in a grid; light enough for text on it."""
    if math.isnan(value):
        return (*_NAN, 0.4)
    beyond, scale = abs(value) > facts.limit, facts.scale
    color = (_HIGH if beyond else _POSITIVE) if value > 0 else _LOW if beyond else _NEGATIVE
    strength = min(abs(value) / scale, 1.0) if scale else float(beyond)
    return (*color, 0.45 * math.sqrt(strength))


# *** many values


def _picture(values: Array, facts: Facts) -> str:
    if values.ndim == 1:
        return _strip(values, facts)
    pixels = shade(fold(values), facts)
    high, wide = pixels.shape[:2]
    zoom = max(1, min(12, 2 * MOST_WIDE // wide, 2 * MOST_HIGH // high))
    note = _legend(facts) if values.dtype.kind != "b" else ""
    return _image(pixels, (wide * zoom, high * zoom), values, facts) + note


def _image(pixels: Array, size: tuple[int, int], values: Array, facts: Facts) -> str:
    """Pixels as an image of (width, height) on the page."""
    source = base64.b64encode(png(pixels)).decode()
    style = "image-rendering:pixelated;border:1px solid rgba(128,128,128,.45)"
    alt = f"{values.shape} values from {facts.low} to {facts.high}"
    return (
        f'<img width="{size[0]}" height="{size[1]}" style="{style}" '
        f'alt="{html.escape(alt)}" src="data:image/png;base64,{source}">'
    )


def _legend(facts: Facts) -> str:
    """Which colours stand for which values: of those signs that there are."""
    if facts.scale == 0:
        return ""  # zeros: the words say so
    scale = _short(facts.scale)
    blue, orange = ([f"rgba{(*color, a)}" for a in (1, 0)] for color in (_NEGATIVE, _POSITIVE))
    low, stops = (f"-{scale}", blue) if facts.low < 0 else ("0", [])
    high, more = (f"+{scale}", orange[::-1]) if facts.high > 0 else ("0", [])
    gradient = f"linear-gradient(90deg,{','.join(stops + more)})"
    bar = f"display:inline-block;width:120px;height:.7em;background:{gradient}"
    return f'<div style="opacity:.85">{low} <span style="{bar}"></span> {high}</div>'


def fold(values: Array) -> tuple[Array, Array]:
    """Many values as a plane of few: (the one furthest from zero of each pixel, where a NaN is).

    Leading axes become tiles, row by row.
    """
    import numpy as np

    wide = values if values.dtype.kind == "f" else values.astype(np.float64)
    if wide.ndim == 2:
        return _shrunk(wide, MOST_HIGH, MOST_WIDE)
    tiles = wide.reshape(-1, *wide.shape[-2:])[:MOST_TILES]
    across = math.ceil(math.sqrt(len(tiles) * max(1.0, tiles.shape[1] / tiles.shape[2])))
    down = math.ceil(len(tiles) / across)
    small = [_shrunk(t, max(MOST_HIGH // down, 1), max(MOST_WIDE // across, 1)) for t in tiles]
    return _mounted([s[0] for s in small], across), _mounted([s[1] for s in small], across)


def _mounted(tiles: list[Array], across: int) -> Array:
    """Tiles in rows, a pixel apart."""
    import numpy as np

    high, wide = tiles[0].shape
    down = math.ceil(len(tiles) / across)
    whole = np.zeros((down * (high + 1) - 1, across * (wide + 1) - 1), dtype=tiles[0].dtype)
    for n, tile in enumerate(tiles):
        top, left = n // across * (high + 1), n % across * (wide + 1)
        whole[top : top + high, left : left + wide] = tile
    return whole


def _shrunk(plane: Array, most_high: int, most_wide: int) -> tuple[Array, Array]:
    import numpy as np

    rows, columns = _starts(plane.shape[0], most_high), _starts(plane.shape[1], most_wide)

    def blocks(how: Any, x: Array) -> Array:
        return how.reduceat(how.reduceat(x, rows, axis=0), columns, axis=1)

    high, low = blocks(np.fmax, plane), blocks(np.fmin, plane)
    furthest = np.where(np.abs(high) >= np.abs(low), high, low)
    return furthest, blocks(np.logical_or, np.isnan(plane))


def _starts(size: int, most: int) -> Array:
    """Where the blocks of an axis begin."""
    import numpy as np

    return np.arange(0, size, math.ceil(size / most), dtype=np.int64)


def shade(folded: tuple[Array, Array], facts: Facts) -> Array:
    """Pixels (rows, columns, RGBA) of a plane of values."""
    import numpy as np

    values, nans = folded
    values = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    strength = np.abs(values) / (facts.scale or 1.0)
    pixels = np.zeros((*values.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(values[..., None] >= 0, _POSITIVE, _NEGATIVE)
    pixels[..., 3] = 255 * np.sqrt(np.minimum(strength, 1.0))
    for mask, color in ((nans, _NAN), (values > facts.limit, _HIGH), (values < -facts.limit, _LOW)):
        pixels[_seen(mask)] = (*color, 255)
    return pixels


def _seen(mask: Array) -> Array:
    """A few pixels of a large picture, made large enough to be found."""
    few = mask.size > 10_000 and 0 < mask.sum() <= mask.size // 2000
    if not few:
        return mask
    spread = mask.copy()
    for row, column in zip(*mask.nonzero(), strict=True):
        spread[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3] = True
    return spread


def _strip(values: Array, facts: Facts) -> str:
    """One axis as a strip of bars, with what its upper and lower edge stand for."""
    top, bottom = _ends(facts)
    pixels = _bars(values, facts)
    high, wide = pixels.shape[:2]
    image = _image(pixels, (wide, high), values, facts)
    edges = "display:flex;flex-direction:column;justify-content:space-between;opacity:.85"
    lower = "" if top == bottom else f"<span>{_short(bottom)}</span>"
    labels = f'<div style="{edges}"><span>{_short(top)}</span>{lower}</div>'
    return f'<div style="display:flex;gap:6px">{image}{labels}</div>'


def _ends(facts: Facts) -> tuple[float, float]:
    """The values at the upper and the lower edge of a strip: zero is always within."""
    return min(max(facts.high, 0), facts.limit), max(min(facts.low, 0), -facts.limit)


def _bars(values: Array, facts: Facts) -> Array:
    """One axis as bars from zero: each column reaches to the least and the greatest of its values.

    A line marks zero.
    """
    import numpy as np

    wide = values if values.dtype.kind == "f" else values.astype(np.float64)
    starts = _starts(wide.size, 2 * MOST_WIDE)
    high, low = np.fmax.reduceat(wide, starts), np.fmin.reduceat(wide, starts)
    nans = np.logical_or.reduceat(np.isnan(wide), starts)
    top, bottom = _ends(facts)
    step = (top - bottom) / (STRIP_HIGH - 1) or 1.0
    level = top - np.arange(STRIP_HIGH)[:, None] * step
    hit = (level <= np.maximum(high, 0) + step / 2) & (level >= np.minimum(low, 0) - step / 2)
    hit &= np.abs(level) > step / 2
    pixels = np.zeros((*hit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(level[..., None] >= 0, _POSITIVE, _NEGATIVE)
    pixels[..., 3] = np.where(hit, 255, 0)
    pixels[np.abs(level[:, 0]).argmin()] = _ZERO_LINE
    pixels[:2, high > facts.limit] = (*_HIGH, 255)
    pixels[-2:, low < -facts.limit] = (*_LOW, 255)
    pixels[:, nans] = (*_NAN, 255)
    zoom = max(1, min(12, 2 * MOST_WIDE // len(starts)))
    pixels = pixels.repeat(zoom, axis=1)
    if zoom >= 4:  # room for a gap between two bars
        gaps = pixels[:, zoom - 1 :: zoom]
        gaps[(gaps != _ZERO_LINE).any(-1)] = 0
    return pixels


def png(pixels: Array) -> bytes:
    """RGBA pixels as a PNG file.

    Source: ISO/IEC 15948, Portable Network Graphics.
    """
    high, wide = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", wide, high, 8, 6, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(rows, 6)),
            chunk(b"IEND", b""),
        )
    )


def _frame(head: str, body: str, words: str) -> str:
    style = "font-family:var(--jp-code-font-family,monospace);font-size:12px;line-height:1.5"
    return (
        f'<div class="tlab-tensor" style="{style}"><div>{head}</div>{body}'
        f'<div style="opacity:.85">{words}</div></div>'
    )

"""Many values as a picture: planes side by side, a row as bars.

A pixel shows the value that is furthest from zero of those it stands for, and whether a NaN is
among them: no plane is left out, and a single outlier is never averaged away.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from typing import Any, NamedTuple

from tinylab.tensor.facts import HIGH, LOW, NAN, NEGATIVE, POSITIVE, Facts, short

Array = Any  # numpy is loaded when something is shown, not before

MOST_WIDE, MOST_HIGH = 320, 200  # pixels of a picture before it is enlarged
MOST_ZOOM = 12
LEAST_TILE = 16  # a plane is drawn no smaller on its own: more of them share tiles
MOST_LONG = 4  # how much longer than high a plane is drawn
_SLACK = 0.15  # by how much a picture may be larger than that, to stay as fine
STRIP_HIGH = 120  # pixels of the bars of one axis: what comes under them stays in sight
ZERO_LINE = (128, 128, 128, 200)
_GAP = (128, 128, 128, 56)


class Folded(NamedTuple):
    """A plane of few values that stands for many."""

    values: Array  # the one furthest from zero of each pixel
    nans: Array  # where a NaN is
    gaps: Array  # what lies between the tiles
    said: str  # what a tile and a pixel stand for


def picture(values: Array, facts: Facts) -> str:
    """The values as HTML: an image and what its colours stand for."""
    values = values.squeeze()
    if values.ndim <= 1:
        return _strip(values.reshape(-1), facts)
    folded = fold(values)
    pixels = shade(folded, facts)
    high, wide = pixels.shape[:2]
    zoom = max(1, min(MOST_ZOOM, 2 * MOST_WIDE // wide, 2 * MOST_HIGH // high))
    said = f'<div style="opacity:.85">{folded.said}</div>' if folded.said else ""
    note = _legend(facts) if values.dtype.kind != "b" else ""
    return _image(pixels, (wide * zoom, high * zoom), values, facts) + note + said


def _image(pixels: Array, size: tuple[int, int], values: Array, facts: Facts) -> str:
    """Pixels as an image of (width, height) on the page."""
    source = base64.b64encode(png(pixels)).decode()
    style = "image-rendering:pixelated;max-width:100%;height:auto;"
    style += "border:1px solid rgba(128,128,128,.45)"
    alt = f"{values.shape} values from {facts.low} to {facts.high}"
    return (
        f'<img width="{size[0]}" height="{size[1]}" style="{style}" '
        f'alt="{html.escape(alt)}" src="data:image/png;base64,{source}">'
    )


def _legend(facts: Facts) -> str:
    """Which colours stand for which values: of those signs that there are."""
    if facts.scale == 0:
        return ""  # zeros: the words say so
    scale = short(facts.scale)
    blue, orange = ([f"rgba{(*color, a)}" for a in (1, 0)] for color in (NEGATIVE, POSITIVE))
    low, stops = (f"-{scale}", blue) if facts.low < 0 else ("0", [])
    high, more = (f"+{scale}", orange[::-1]) if facts.high > 0 else ("0", [])
    gradient = f"linear-gradient(90deg,{','.join(stops + more)})"
    bar = f"display:inline-block;width:120px;height:.7em;background:{gradient}"
    return f'<div style="opacity:.85">{low} <span style="{bar}"></span> {high}</div>'


# *** planes


class _Plan(NamedTuple):
    """How planes become tiles of pixels."""

    together: int  # planes of a tile
    across: int  # tiles of a row
    step: tuple[int, int]  # rows and columns of a pixel
    repeat: tuple[int, int]  # pixels of a row and a column, of planes that are very long


def fold(values: Array) -> Folded:
    """Many values (…, rows, columns) as one plane: the places on the leading axes become tiles.

    Tiles stand row by row, as many planes in each as it takes for all to be seen.
    """
    import numpy as np

    wide = values if values.dtype.kind == "f" else values.astype(np.float64)
    planes = wide.reshape(-1, *wide.shape[-2:])
    plan = _planned(planes.shape, values.shape[-3] if values.ndim > 2 else 1)
    steps = (plan.together, *plan.step)

    def blocks(how: Any, x: Array) -> Array:
        for axis in (2, 1, 0):  # what lies side by side first: six times faster
            if steps[axis] > 1:
                x = how.reduceat(x, np.arange(0, x.shape[axis], steps[axis]), axis=axis)
        return x

    high, low = blocks(np.fmax, planes), blocks(np.fmin, planes)
    furthest = np.where(np.abs(high) >= np.abs(low), high, low)
    nans = blocks(np.logical_or, np.isnan(planes))
    furthest, nans = (_enlarged(x, plan.repeat) for x in (furthest, nans))
    gaps = _mounted(np.zeros_like(nans), plan.across, True)
    said = _said(planes.shape, steps)
    return Folded(_mounted(furthest, plan.across, 0), _mounted(nans, plan.across, 0), gaps, said)


def _planned(shape: tuple[int, ...], inner: int) -> _Plan:
    """Tiles that fill the picture best; if they can, rows of tiles that end where an axis does."""
    count, high, wide = shape
    # A very long plane is drawn as if it were less long.
    own = max(high, wide / MOST_LONG), max(wide, high / MOST_LONG)
    least = [min(size, LEAST_TILE) + 1 for size in own]
    together = math.ceil(count / max(MOST_WIDE * MOST_HIGH // math.ceil(math.prod(least)), 1))
    tiles = math.ceil(count / together)

    def scale(across: int) -> float:
        down = math.ceil(tiles / across)
        rooms = (MOST_HIGH + 1) / down - 1, (MOST_WIDE + 1) / across - 1
        return min(room / size for room, size in zip(rooms, own, strict=True))

    best = max(map(scale, range(1, tiles + 1)))
    good = [n for n in range(1, tiles + 1) if scale(n) >= 0.75 * best]
    even = [n for n in good if together == 1 and (n % inner == 0 or inner % n == 0)]
    across = max(even or good, key=scale)
    step, repeat = [], []
    for size, long in zip((high, wide), own, strict=True):
        room = max(long * min(scale(across), 1), 1)
        step.append(max(math.ceil(size / room - _SLACK), 1))
        repeat.append(max(int(room * step[-1] / size), 1))
    return _Plan(together, across, (step[0], step[1]), (repeat[0], repeat[1]))


def _enlarged(tiles: Array, repeat: tuple[int, int]) -> Array:
    return tiles.repeat(repeat[0], axis=1).repeat(repeat[1], axis=2)


def _mounted(tiles: Array, across: int, gap: Any) -> Array:
    """Tiles (n, rows, columns) in rows, a pixel apart."""
    import numpy as np

    count, high, wide = tiles.shape
    down = math.ceil(count / across)
    whole = np.full((down * (high + 1) - 1, across * (wide + 1) - 1), gap, dtype=tiles.dtype)
    for n, tile in enumerate(tiles):
        top, left = n // across * (high + 1), n % across * (wide + 1)
        whole[top : top + high, left : left + wide] = tile
    return whole


def _said(shape: tuple[int, ...], steps: tuple[int, ...]) -> str:
    """What the tiles and the pixels stand for: "all 64 planes (3, 3), row by row"."""
    count, parts = shape[0], []
    if count > 1:
        shared = f", {steps[0]} in each tile" if steps[0] > 1 else ""
        parts.append(f"all {count} planes {shape[1:]}{shared}, row by row")
    if max(steps) > 1:
        sizes = steps if steps[0] > 1 else steps[1:]
        parts.append(f"each pixel: of {sizes} values the one furthest from zero")
    return " · ".join(parts)


def shade(folded: Folded, facts: Facts) -> Array:
    """Pixels (rows, columns, RGBA) of a plane of values."""
    import numpy as np

    nans = folded.nans
    values = np.nan_to_num(folded.values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    strength = np.abs(values) / (facts.scale or 1.0)
    pixels = np.zeros((*values.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(values[..., None] >= 0, POSITIVE, NEGATIVE)
    pixels[..., 3] = 255 * np.sqrt(np.minimum(strength, 1.0))
    pixels[folded.gaps] = _GAP
    for mask, color in ((nans, NAN), (values > facts.limit, HIGH), (values < -facts.limit, LOW)):
        pixels[_seen(mask)] = (*color, 255)
    return pixels


def _seen(mask: Array) -> Array:
    """A few pixels of a large picture, made large enough to be found."""
    few = mask.size > 10_000 and 0 < mask.sum() <= mask.size // 2000
    if not few:
        return mask
    spread = mask.copy()
    for place in zip(*mask.nonzero(), strict=True):
        top, left = (
            max(min(n - 2, size - 5), 0) for n, size in zip(place, mask.shape, strict=True)
        )
        spread[top : top + 5, left : left + 5] = True
    return spread


def _strip(values: Array, facts: Facts) -> str:
    """One axis as a strip of bars, with what its upper and lower edge stand for."""
    top, bottom = _ends(facts)
    pixels = _bars(values, facts)
    high, wide = pixels.shape[:2]
    image = _image(pixels, (wide, high), values, facts)
    edges = "display:flex;flex-direction:column;justify-content:space-between;opacity:.85"
    lower = "" if top == bottom else f"<span>{short(bottom)}</span>"
    labels = f'<div style="{edges}"><span>{short(top)}</span>{lower}</div>'
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
    starts = np.arange(0, wide.size, math.ceil(wide.size / (2 * MOST_WIDE)))
    high, low = np.fmax.reduceat(wide, starts), np.fmin.reduceat(wide, starts)
    nans = np.logical_or.reduceat(np.isnan(wide), starts)
    top, bottom = _ends(facts)
    step = (top - bottom) / (STRIP_HIGH - 1) or 1.0
    level = top - np.arange(STRIP_HIGH)[:, None] * step
    hit = (level <= np.maximum(high, 0) + step / 2) & (level >= np.minimum(low, 0) - step / 2)
    hit &= np.abs(level) > step / 2
    pixels = np.zeros((*hit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(level[..., None] >= 0, POSITIVE, NEGATIVE)
    pixels[..., 3] = np.where(hit, 255, 0)
    pixels[np.abs(level[:, 0]).argmin()] = ZERO_LINE
    pixels[:2, high > facts.limit] = (*HIGH, 255)
    pixels[-2:, low < -facts.limit] = (*LOW, 255)
    pixels[:, nans] = (*NAN, 255)
    zoom = max(1, min(12, 2 * MOST_WIDE // len(starts)))
    pixels = pixels.repeat(zoom, axis=1)
    if zoom >= 4:  # room for a gap between two bars
        gaps = pixels[:, zoom - 1 :: zoom]
        gaps[(gaps != ZERO_LINE).any(-1)] = 0
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

"""What is said of a tensor's values, in words and in colours."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Array = Any  # numpy is loaded when something is shown, not before

POSITIVE, NEGATIVE = (235, 110, 40), (60, 140, 245)
HIGH, LOW, NAN = (250, 190, 0), (0, 185, 165), (205, 0, 205)


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


def facts_of(values: Array) -> Facts:
    """The numbers that are said in words, and the scale of the colours."""
    import numpy as np

    finite, nans, bad = values, 0, 0
    if values.dtype.kind == "f":
        good = np.isfinite(values)
        bad = values.size - int(np.count_nonzero(good))
        if bad:  # most tensors need no copy
            finite, nans = values[good], int(np.count_nonzero(np.isnan(values)))
    if finite.size == 0:
        finite = np.zeros(1)
    low, high = finite.min().item(), finite.max().item()
    scale, limit = scales_of(finite, float(max(abs(low), abs(high))))
    # Compared as float64, which numpy converts to piece by piece.
    edge = np.float64(limit)
    beyond = np.count_nonzero(finite > edge) + np.count_nonzero(finite < -edge)
    mean = float(finite.mean(dtype=np.float64))
    return Facts(low, mean, high, nans, bad - nans, scale, limit, int(beyond))


def scales_of(finite: Array, largest: float) -> tuple[float, float]:
    """(where colours are full, where outliers begin).

    Both are the largest magnitude, unless a few values stand far outside the others.
    """
    import numpy as np

    some = finite.reshape(-1)[:: max(finite.size // 100_000, 1)]
    common = float(np.quantile(np.abs(some.astype(np.float64)), 0.99))
    return (common, common * 4) if 0 < common * 4 < largest else (largest, largest)


def words(facts: Facts, values: Array) -> str:
    """Least, mean and greatest value, and how many are no common ones, as HTML."""
    if values.dtype.kind == "b":
        return f"{int(values.sum())} of {values.size} true"
    parts = [f"min {short(facts.low)}", f"mean {short(facts.mean)}", f"max {short(facts.high)}"]
    if facts.nans + facts.infinities == values.size:
        parts = ["no finite value"]
    parts.append(_swatch(NAN, f"{facts.nans} NaN") if facts.nans else "0 NaN")
    if facts.infinities:
        parts.append(_swatch(HIGH, _swatch(LOW, f"{facts.infinities} infinite")))
    if facts.outliers:
        parts.append(_swatch(HIGH, _swatch(LOW, f"{facts.outliers} beyond ±{facts.limit:.3g}")))
    return " · ".join(parts)


def _swatch(color: tuple[int, int, int], text: str) -> str:
    style = f"display:inline-block;width:.7em;height:.7em;margin-right:.25em;background:rgb{color}"
    return f'<span style="{style}"></span>{text}'


def short(x: Any) -> str:
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

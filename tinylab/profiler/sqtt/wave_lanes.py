"""Waves by lane, ready for windows: each lane's waves in order, and coarser and coarser copies.

A stream may have ten million waves, of which a wide window shows some thousand columns. A level
holds what is left when waves shorter than its step are merged with their neighbours; a window takes
the coarsest level that is still finer than its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.waves import Waves

_FIRST_COLUMNS = 1 << 13  # of the coarsest level
_FACTOR = 4
_FEW = 1 << 17  # waves that need no levels


@dataclass
class Bars:
    """Bars as columns, sorted by lane, then start; ``count`` waves are merged in each."""

    lane: Array
    start: Array
    end: Array
    threads: Array
    count: Array

    def __len__(self) -> int:
        return len(self.lane)

    def take(self, rows: Array) -> Bars:
        """Some of them."""
        columns = (self.lane, self.start, self.end, self.threads, self.count)
        return Bars(*(c[rows] for c in columns))

    def merged(self, start: int, step: float) -> Bars:
        """Neighbours of a lane that begin in one column and are shorter than it, as one bar."""
        first = groups(self.lane, self.start, self.end, start, step)
        if len(first) == len(self) or not len(self):
            return self
        return Bars(
            self.lane[first],
            self.start[first],
            np.maximum.reduceat(self.end, first),
            self.threads[first],
            np.add.reduceat(self.count, first),
        )


def groups(lane: Array, start: Array, end: Array, origin: int, step: float) -> Array:
    """Where groups of rows begin: rows of one lane in one column; longer ones stay single.

    lanes 1 1 1, from 0 2 9 to 1 3 10, columns of 4  ->  0 2
    """
    joined = np.zeros(len(lane), bool)
    if len(lane) > 1:
        column = ((start - origin) // step).astype(np.int64)
        short = (end - start) < step
        joined[1:] = (lane[1:] == lane[:-1]) & (column[1:] == column[:-1]) & short[1:] & short[:-1]
    return np.flatnonzero(~joined)


@dataclass
class _Level:
    step: float  # bars shorter than this are merged
    bars: Bars
    bounds: Array  # where each lane begins, and where the last ends
    latest: Array  # the latest end so far in its lane: it only grows


class WaveLanes:
    """The waves of a stream by lane, at several levels of detail."""

    def __init__(self, bars: Bars, span: tuple[int, int]) -> None:
        self.lanes, first = np.unique(bars.lane, return_index=True)
        self._origin = span[0]
        self.levels = [_level(0.0, bars, first)]

    @classmethod
    def of(cls, waves: Waves, end_time: int) -> WaveLanes:
        """All waves; those without an end last until ``end_time``."""
        order = waves.by_lane()
        count = np.broadcast_to(np.uint32(1), len(waves))
        columns = (waves.lane, waves.start, waves.end, waves.threads)
        lane, start, end, threads = (column[order] for column in columns)
        end[end < 0] = end_time
        span = (int(start.min(initial=1 << 53)), int(end.max(initial=0))) if len(waves) else (0, 0)
        made = cls(Bars(lane, start, end, threads, count), span)
        parts = _FIRST_COLUMNS * _FACTOR**4
        while len(made.levels[-1].bars) > _FEW and parts >= _FIRST_COLUMNS:
            made._add(max((span[1] - span[0]) / parts, 1.0))
            parts //= _FACTOR
        return made

    def _add(self, step: float) -> None:
        finer = self.levels[-1].bars
        bars = finer.merged(self._origin, step)
        if len(bars) < 0.7 * len(finer):
            _lanes, first = np.unique(bars.lane, return_index=True)
            self.levels.append(_level(step, bars, first))

    def window(self, start: int, end: int, step: float, lanes: Sequence[int] | None) -> Bars:
        """Bars that touch a window, no coarser than ``step``; of some lanes, or all."""
        level = [each for each in self.levels if each.step <= step][-1]
        wanted = np.arange(len(self.lanes))
        if lanes is not None:
            wanted = np.flatnonzero(np.isin(self.lanes, np.array(lanes, np.int64)))
        rows = [_rows(level, int(number), start, end) for number in wanted]
        return level.bars.take(np.concatenate([np.empty(0, np.int64), *rows]))


def _level(step: float, bars: Bars, first: Array) -> _Level:
    bounds = np.append(first, len(bars))
    latest = bars.end.copy()
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.maximum.accumulate(latest[a:b], out=latest[a:b])
    # Waves of one slot follow one another: one column serves as both then.
    return _Level(step, bars, bounds, bars.end if np.array_equal(latest, bars.end) else latest)


def _rows(level: _Level, number: int, start: int, end: int) -> Array:
    a, b = int(level.bounds[number]), int(level.bounds[number + 1])
    low = a + int(np.searchsorted(level.latest[a:b], start, "left"))
    high = a + int(np.searchsorted(level.bars.start[a:b], end, "left"))
    return np.arange(low, max(low, high))

"""Hardware counters of AMD chips, read after a dispatch: values by place, sums, ratios.

A blob is an array of 64-bit values; a schedule says which counter stands where and over how many
dies, instances, engines, arrays and WGPs. Counting runs from one read-out to the next, so that idle
time is in it: ratios to active cycles come out small for short kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.profiler.checked import Checked

AXES = ("xcc", "inst", "se", "sa", "wgp")  # outermost first
_MOST_VALUES = 1 << 24
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ScheduleEntry:
    """One counter: its name, hardware block, and how many values lie along each axis."""

    name: str
    block: str
    shape: tuple[int, int, int, int, int]
    offset: int

    @property
    def size(self) -> int:
        """Bytes in the blob."""
        return 8 * int(np.prod(self.shape, dtype=object))


def read_schedule(readout: Checked) -> tuple[ScheduleEntry, ...]:
    """The schedule of a read-out in capture.json.

    Raises: CaptureError for sizes and offsets that contradict each other.
    """
    entries, offset = [], 0
    for e in readout.each("schedule"):
        shape = tuple(e.whole(axis, 1, _MOST_VALUES, default=1) for axis in AXES)
        entry = ScheduleEntry(e.text("name"), e.text("block", ""), shape, offset)  # type: ignore[arg-type]
        if entry.size > 8 * _MOST_VALUES:
            raise CaptureError(f"{e.where}: {entry.name} has {entry.size // 8} values")
        for key, real in (("offset", entry.offset), ("size", entry.size)):
            if key in e and e.whole(key) != real:
                raise CaptureError(f"{e.where}: {key} is {e.whole(key)}, by its counts {real}")
        entries.append(entry)
        offset += entry.size
    return tuple(entries)


@dataclass(frozen=True, repr=False)
class Counter:
    """The values of one counter, an axis each for die, instance, engine, array and WGP.

    A zero may be a unit that did nothing or one that is switched off: they look the same.
    """

    name: str
    block: str
    values: Array  # uint64, AXES

    def __repr__(self) -> str:
        return f"<counter {self.name} of {self.block}: {self.sum} in {self.count} values>"

    @property
    def sum(self) -> int:
        """All values together."""
        return int(self.values.sum(dtype=object))

    @property
    def max(self) -> int:
        """The largest value."""
        return int(self.values.max())

    @property
    def count(self) -> int:
        """How many values, zeros included."""
        return int(self.values.size)

    @property
    def nonzero(self) -> int:
        """How many of them are not zero."""
        return int(np.count_nonzero(self.values))

    @property
    def max_at(self) -> dict[str, int] | None:
        """Where the largest value stands first; None if all are zero."""
        if not self.max:
            return None
        place = np.unravel_index(int(self.values.argmax()), self.values.shape)
        return dict(zip(AXES, map(int, place), strict=True))

    def along(self, *axes: str) -> Array:
        """Sums over all axes but these: with "se", one value an engine."""
        rest = tuple(i for i, axis in enumerate(AXES) if axis not in axes)
        return np.asarray(self.values.sum(axis=rest, dtype=np.uint64))

    def grid(self) -> list[tuple[dict[str, int], int]]:
        """Every value with its place, in the blob's order."""
        places = np.ndindex(self.values.shape)
        return [(dict(zip(AXES, place, strict=True)), int(self.values[place])) for place in places]


@dataclass(frozen=True)
class Metric:
    """A ratio with its formula; ``value`` is None where it is undefined or a counter is missing."""

    key: str
    label: str
    formula: str
    value: float | None
    note: str = ""

    @property
    def text(self) -> str | None:
        """As a percentage with one decimal."""
        return None if self.value is None else f"{self.value:.1f}%"


@dataclass(frozen=True, repr=False)
class Readout:
    """All counters of one dispatch, in schedule order; ``fault`` says what is not there."""

    counters: tuple[Counter, ...]
    fault: str = ""

    def __repr__(self) -> str:
        """A line a counter."""
        head = f"<read-out of {len(self.counters)} counters>"
        return "\n".join([head, *map(repr, self.counters)])

    @staticmethod
    def from_blob(
        blob: bytes | memoryview, schedule: Sequence[ScheduleEntry], used_bytes: int = 0
    ) -> Readout:
        """Values cut from a blob as the schedule says; counters that it ends before are left out.

        Raises: CaptureError if it ends before the first.
        """
        needed = schedule[-1].offset + schedule[-1].size if schedule else 0
        have = min(len(blob), used_bytes or len(blob))
        whole = [e for e in schedule if e.offset + e.size <= have]
        fault = f"the counters need {needed} bytes, there are {have}" if have < needed else ""
        if fault and not whole:
            raise CaptureError(fault)
        if fault:
            first, left = schedule[len(whole)], len(schedule) - len(whole)
            fault += f": {left} of {len(schedule)} are left out, from {first.name} on"
        found = []
        for e in whole:
            raw = np.frombuffer(blob, "<u8", count=e.size // 8, offset=e.offset)
            found.append(Counter(e.name, e.block, raw.reshape(e.shape)))
        return Readout(tuple(found), fault)

    def get(self, *names: str) -> Counter | None:
        """The first counter that has one of the names."""
        return next((c for name in names for c in self.counters if c.name == name), None)

    def metrics(self) -> list[Metric]:
        """The ratios that these counters allow."""
        return [m(self) for m in METRICS]


# *** ratios


def _utilization(unit: str) -> Callable[[Readout], Metric]:
    issued, active = f"SQ_INSTS_{unit}", "GRBM_GUI_ACTIVE"

    def metric(r: Readout) -> Metric:
        value = _percent_of(
            r,
            (issued,),
            (active,),
            lambda i, a: (i.sum / i.count, 4 * a.max) if i.count else (0, 0),
        )
        return Metric(
            f"{unit.lower()}_utilization",
            f"{unit} utilization",
            f"100 * (sum({issued}) / count({issued})) / (4 * max({active}))",
            value,
            "instructions a unit and cycle, with 4 SIMDs a unit; where a unit is a whole shader "
            "engine, no true utilization",
        )

    return metric


def _l2_hits(r: Readout) -> Metric:
    value = _percent_of(
        r, ("GL2C_HIT", "TCC_HIT"), ("GL2C_MISS", "TCC_MISS"), lambda h, m: (h.sum, h.sum + m.sum)
    )
    hit, miss = _present(r, "GL2C_HIT", "TCC_HIT"), _present(r, "GL2C_MISS", "TCC_MISS")
    formula = f"100 * sum({hit}) / (sum({hit}) + sum({miss}))"
    return Metric("l2_hit_percent", "L2 hit rate", formula, value)


def _conflicts(r: Readout) -> Metric:
    value = _percent_of(
        r,
        ("SQC_LDS_BANK_CONFLICT", "SQ_LDS_BANK_CONFLICT"),
        ("SQC_LDS_IDX_ACTIVE", "SQ_LDS_IDX_ACTIVE"),
        lambda c, a: (c.sum, a.sum),
    )
    conflict = _present(r, "SQC_LDS_BANK_CONFLICT", "SQ_LDS_BANK_CONFLICT")
    active = _present(r, "SQC_LDS_IDX_ACTIVE", "SQ_LDS_IDX_ACTIVE")
    formula = f"100 * sum({conflict}) / sum({active})"
    return Metric("lds_bank_conflict_percent", "LDS bank conflicts", formula, value)


def _present(r: Readout, *names: str) -> str:
    """The name that a read-out has a counter under; the first if it has none."""
    found = r.get(*names)
    return found.name if found else names[0]


def _percent_of(
    r: Readout,
    first: tuple[str, ...],
    second: tuple[str, ...],
    parts: Callable[[Counter, Counter], tuple[float, float]],
) -> float | None:
    a, b = r.get(*first), r.get(*second)
    if a is None or b is None:
        return None
    above, below = parts(a, b)
    return 100 * above / below if below else None


METRICS: tuple[Callable[[Readout], Metric], ...] = (
    _utilization("VALU"),
    _utilization("SALU"),
    _l2_hits,
    _conflicts,
)


@dataclass(frozen=True)
class Compared:
    """One counter or metric over several runs; ``change`` is last over first."""

    name: str
    values: tuple[float | None, ...]

    @property
    def change(self) -> float | None:
        """Last run over first: 2.0 is twice as much."""
        first, last = self.values[0], self.values[-1]
        return last / first if first and last is not None else None


def compare(readouts: Sequence[Readout]) -> list[Compared]:
    """Sums of all counters and all metrics, a value a run; None where a run lacks one."""
    names = list(dict.fromkeys(c.name for r in readouts for c in r.counters))
    rows = [Compared(n, tuple(c.sum if (c := r.get(n)) else None for r in readouts)) for n in names]
    columns = [r.metrics() for r in readouts]
    for metrics in zip(*columns, strict=True):
        rows.append(Compared(metrics[0].label, tuple(m.value for m in metrics)))
    return rows

"""A profile in the hand: its events and kernels as tables, and what is asked of them.

p.events["start_ns"], p.events.to_pandas()
p.kernels["r_64_64"].mean_ns, p.kernels["r_64_64"].counters
p.top(5), p.select("after warmup", "end").rows(), p.search("r_64"), p.compare(before)
p.to_chrome("run.json"), p.to_csv("run.csv"), p.save("run.tlab")
"""

from __future__ import annotations

import dataclasses
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained_methods
from tinylab.helpers.near import closest
from tinylab.helpers.text import pluralize
from tinylab.profiler import export, saved, stats
from tinylab.profiler.recorder import KernelFacts, Recorder, is_null
from tinylab.profiler.table import Array, EventTable
from tinylab.profiler.timeline import Timeline

if TYPE_CHECKING:
    from tinylab.profiler.counters.data import Counters
    from tinylab.trace.record import Record

_NO_TRACE = (
    "no thread trace: {device} has none; read a capture of one with "
    "tinylab.profiler.read_capture(folder)"
)


class Columns(Mapping[str, Array]):
    """A table as numpy columns by name."""

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            near = closest(name, list(self._columns))
            hint = f"; did you mean {near!r}?" if near else ""
            raise KeyError(f"there is no column {name!r}: there are {', '.join(self)}{hint}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self._columns.values()), ()))

    def __repr__(self) -> str:
        """The first rows, aligned."""
        shown = [[str(column[i]) for column in self.values()] for i in range(min(10, self.rows))]
        lines = text_table(list(self), shown)
        return "\n".join([*lines, pluralize("row", self.rows)])

    def to_pandas(self) -> Any:
        """A pandas DataFrame.

        Raises: CaptureError without pandas.
        """
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError:
            raise CaptureError("pandas is not installed", help="pip install pandas") from None
        return pandas.DataFrame(dict(self._columns))


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with aligned columns, its headings first."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (names, *rows)
    ]


class Kernel:
    """The runs of one kernel: times in nanoseconds, work by its program, counters on demand."""

    def __init__(self, owner: Profile, facts: KernelFacts, times_ns: Array) -> None:
        self.owner, self.facts, self.times_ns = owner, facts, times_ns

    @property
    def name(self) -> str:
        """What it is called, as in the schedule."""
        return self.facts.name

    @property
    def device(self) -> str:
        """Where it ran."""
        return self.facts.device

    @property
    def runs(self) -> int:
        """How often it ran."""
        return len(self.times_ns)

    @property
    def total_ns(self) -> int:
        """The time of all runs."""
        return int(self.times_ns.sum())

    @property
    def mean_ns(self) -> float:
        """The mean time of a run."""
        return float(self.times_ns.mean()) if self.runs else 0.0

    @property
    def median_ns(self) -> float:
        """The middle of the times of its runs."""
        return float(np.median(self.times_ns)) if self.runs else 0.0

    @property
    def longest_ns(self) -> int:
        """The longest run."""
        return int(self.times_ns.max()) if self.runs else 0

    @property
    def gops(self) -> float | None:
        """Estimated operations of any kind, 10^9 a second, by the median; None if unknown."""
        return self._rate(self.facts.ops)

    @property
    def gbs(self) -> float | None:
        """Estimated bytes of the program by the median time; None where none are known."""
        return self._rate(self.facts.mem)

    def _rate(self, amount: int) -> float | None:
        measured = self.median_ns and not is_null(self.device)
        return amount / self.median_ns if amount and measured else None

    @property
    def number(self) -> int | None:
        """Its number in the record beside the profile; None without one."""
        return self.owner.recorded_number(self.facts)

    @property
    def counters(self) -> Counters:
        """What it executes, loads and stores, counted by the kernel itself; it runs again, now.

        With it stands what the processor and the system count, such as cycles and page faults, or a
        sentence that says why they do not. Each figure says whether it was measured or counted. A
        profile keeps the figures, also in its file: from there they come without the tables.

        Raises: CaptureError for a kernel whose program is neither in this process nor was counted
        before, CounterError for one of a device that cannot count.
        """
        if self.facts.program is None:
            return self._kept_counters()
        from tinylab.profiler.counters.counted import count  # here: it loads LLVM
        from tinylab.profiler.counters.measured import measure_program

        contents = self._contents()
        found = count(self.facts.program, contents)
        found = found + measure_program(self.facts.program, contents)
        figures = [dataclasses.asdict(figure) for figure in found.figures]
        kept = {"figures": figures, "notes": list(found.notes), "message": ""}
        self.owner.asked[self.owner.facts.index(self.facts)] = kept
        return found

    def _kept_counters(self) -> Counters:
        """The figures that the profile keeps of it.

        Raises: CaptureError if there are none.
        """
        from tinylab.profiler.counters.data import Counters, Figure

        kept = self.owner.counters_of(self.owner.facts.index(self.facts)) or {}
        if not kept.get("figures"):
            raise CaptureError(
                f"the program of {self.name} is not here: counters need it",
                help="profile the kernel in this process",
            )
        names = ("name", "value", "unit", "kind", "note")
        figures = tuple(Figure(*(figure[name] for name in names)) for figure in kept["figures"])
        return Counters(self.name, figures, notes=tuple(kept.get("notes", ())))

    def _contents(self) -> dict[int, bytes]:
        """The bytes of the buffers of its last run that are still there, by slot."""
        found = {slot: ref() for slot, ref in enumerate(self.facts.buffers)}
        return {
            slot: bytes(buffer.as_memoryview())
            for slot, buffer in found.items()
            if buffer is not None and buffer.is_initialized()
        }

    @property
    def sqtt(self) -> str:
        """The thread trace: a sentence that says that there is none, and where one comes from."""
        return _NO_TRACE.format(device=self.device)

    def row(self) -> dict[str, Any]:
        """Its figures by name."""
        return {
            "name": self.name, "device": self.device, "runs": self.runs,
            "total_ns": self.total_ns, "mean_ns": self.mean_ns, "median_ns": self.median_ns,
            "longest_ns": self.longest_ns, "gops": self.gops, "gbs": self.gbs,
        }  # fmt: skip

    def __repr__(self) -> str:
        runs = pluralize("run", self.runs)
        return f"<kernel {self.name} on {self.device}: {runs}, {self.total_ns} ns>"


class Kernels(Mapping[str, Kernel]):
    """Kernels by name, those that took longest first; `columns` is all of them as a table.

    Two programs of one name are "r_64" and "r_64 #2" here. Tables by name, `Profile.top` and
    `Profile.compare`, have one row of both, and say that it holds 2 programs.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._by_name: dict[str, Kernel] = {}
        for kernel in sorted(kernels, key=lambda k: -k.total_ns):
            name, n = kernel.name, 1
            while name in self._by_name:
                n += 1
                name = f"{kernel.name} #{n}"
            self._by_name[name] = kernel

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._by_name:
            near = closest(name, list(self._by_name))
            hint = f"; did you mean {near!r}?" if near else ""
            raise KeyError(f"no kernel {name!r} ran while this was profiled{hint}")
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def columns(self) -> Columns:
        """A row a kernel, by the name that finds it here."""
        rows = [{**kernel.row(), "name": name} for name, kernel in self.items()]
        return Columns({n: _column(n, [row[n] for row in rows]) for n in _KERNEL_COLUMNS})

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.columns.to_pandas()

    def __repr__(self) -> str:
        return repr(self.columns)


# Columns of a table of kernels; numbers are whole, or floats that may be missing (NaN).
_KERNEL_COLUMNS = {
    "name": object, "device": object, "runs": np.int64, "total_ns": np.int64,
    "mean_ns": np.float64, "median_ns": np.float64, "longest_ns": np.int64,
    "gops": np.float64, "gbs": np.float64,
}  # fmt: skip


def _column(name: str, values: list[Any]) -> Array:
    return np.array([np.nan if v is None else v for v in values], _KERNEL_COLUMNS[name])


class Profile:
    """What was heard while profiling, or read from a file; shows as a timeline in a notebook."""

    def __init__(
        self,
        name: str = "profile",
        recorder: Recorder | None = None,
        table: EventTable | None = None,
        facts: Sequence[KernelFacts] = (),
    ) -> None:
        self.name = name
        self.record: Record | None = None
        self.numbers: dict[int, int] = {}  # of a file: kernels here -> kernels of its record
        # Counters by the number of a kernel in the record, where they were asked for.
        self.counted: dict[int, dict[str, Any]] = {}
        # The same by the number of a kernel here, where `Kernel.counters` was asked.
        self.asked: dict[int, dict[str, Any]] = {}
        self._recorder, self._table, self._facts = recorder, table, list(facts)
        self._timeline: Timeline | None = None
        self._making = threading.Lock()

    # *** tables

    @property
    def running(self) -> bool:
        """Whether it still listens: what is asked is answered with what was heard so far."""
        return self._recorder is not None and self._recorder.end_ns == 0

    @property
    def table(self) -> EventTable:
        """The events by lane and time."""
        # Viewers ask from several threads, and what a recorder gave away it has no more.
        with self._making:
            if self._table is not None:
                return self._table
            assert self._recorder is not None, "a profile listens or has a table"
            made = self._recorder.snapshot()
            if not self.running:
                self._table = made
                self._recorder.forget()
            return made

    @property
    def facts(self) -> list[KernelFacts]:
        """What is known of each kernel, by the numbers of the table's column."""
        return self._facts if self._recorder is None else self._recorder.facts

    @property
    def events(self) -> Columns:
        """A row an event: kind, name, lane, start_ns and duration_ns, value (bytes)."""
        return Columns(self.table.arrays())

    @property
    def kernels(self) -> Kernels:
        """Kernels by name, those that took longest first."""
        return self._kernels if not self.running else self._all_kernels()

    @cached_property
    def _kernels(self) -> Kernels:
        return self._all_kernels()

    def _all_kernels(self) -> Kernels:
        table = self.table
        rows = np.flatnonzero(table["kernel"] >= 0)
        number = table["kernel"][rows]
        order = np.argsort(number, kind="stable")
        rows, number = rows[order], number[order]
        times = table["end"][rows] - table["start"][rows]
        bounds = np.searchsorted(number, np.arange(len(self.facts) + 1))
        parts = [times[bounds[i] : bounds[i + 1]] for i in range(len(self.facts))]
        return Kernels([Kernel(self, f, t) for f, t in zip(self.facts, parts, strict=True)])

    @property
    def timeline(self) -> Timeline:
        """What a viewer draws from."""
        if self.running:
            return Timeline(self.table)
        if self._timeline is None:
            self._timeline = Timeline(self.table)
        return self._timeline

    def recorded_number(self, facts: KernelFacts) -> int | None:
        """The number of a kernel in the record beside the profile; None if it is in none."""
        if self.record is None:
            return None
        if self.numbers:
            return self.numbers.get(self.facts.index(facts))
        known = self.record.kernel_of_serial(facts.serial)
        return None if known is None else known.id

    @property
    def has_counters(self) -> bool:
        """Whether counters of any kernel are known."""
        return bool(self.counted or self.asked)

    def counters_of(self, number: int) -> dict[str, Any] | None:
        """Figures of a kernel (by its number in `facts`), or why it has none; None if unasked."""
        recorded = self.recorded_number(self.facts[number])
        found = None if recorded is None else self.counted.get(recorded)
        return self.asked.get(number, found)

    # *** questions

    def top(
        self, count: int = 10, start: str | int | None = None, end: str | int | None = None
    ) -> list[dict[str, Any]]:
        """The kernels that took longest, of all or between two moments (times or markers).

        Raises: CaptureError for a number of kernels that is none, and for moments as `stretch`.
        """
        if count < 0:
            raise CaptureError(f"the top {count} kernels are none", help="give 0 or more")
        return stats.by_name(self.table, self.stretch(start, end), count)

    def select(
        self,
        start: str | int | None = None,
        end: str | int | None = None,
        lanes: str | Sequence[str] | None = None,
        words: str = "",
    ) -> stats.Selection:
        """Count, sum, mean, median, longest and busy share between two moments, lane by lane.

        Moments are nanoseconds from the beginning, or names of markers.
        """
        return stats.select(self.table, self.stretch(start, end), lanes, words)

    def stretch(self, start: str | int | None, end: str | int | None) -> tuple[int, int] | None:
        """Two moments as nanoseconds; None for all of it.

        Raises: CaptureError for a marker that was not set, and where the end is not after the
        start.
        """
        if start is None and end is None:
            return None
        first, last = self.table.span
        if isinstance(start, str) and isinstance(end, str):
            return stats.interval(self.table, start, end)
        low = first if start is None else self._moment(start)
        high = last if end is None else self._moment(end)
        if high <= low:
            raise CaptureError(f"the end, {high} ns, is not after the start, {low} ns")
        return low, high

    def _moment(self, at: str | int) -> int:
        if not isinstance(at, str):
            return int(at)
        found = [time for time, name in self.table.markers() if name == at]
        return found[0] if found else stats.interval(self.table, at, at)[0]

    def search(self, words: str, most: int = 200) -> list[dict[str, Any]]:
        """The first events by time whose names hold all words."""
        rows, _ = stats.search(self.table, words, most)
        return [self.event(row) for row in rows]

    def event(self, row: int) -> dict[str, Any]:
        """One event in plain data.

        Raises: CaptureError for a row that is not there.
        """
        table = self.table
        if not 0 <= row < len(table):
            raise CaptureError(f"there is no event {row}: the profile has {len(table)}")
        start, end = int(table["start"][row]), int(table["end"][row])
        return {
            "event": row,
            "name": table.name(row),
            "lane": table.lane(row).name,
            "start_ns": start,
            "duration_ns": end - start,
            "value": float(table["value"][row]),
        }

    def compare(
        self,
        other: Profile,
        most: int | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
    ) -> list[dict[str, Any]]:
        """Kernels of this profile beside those of a later one, the largest change first.

        A kernel that other opts gave another name is still the same one, and has one row. start,
        end: only between these moments (times or markers), of each profile its own.
        """
        later = {facts.origin: facts.name for facts in other.facts if facts.origin}
        now_called = {f.name: later[f.origin] for f in self.facts if f.origin in later}
        before, after = self.stretch(start, end), other.stretch(start, end)
        return stats.compare(
            stats.by_name(self.table, before), stats.by_name(other.table, after), most, now_called
        )

    # *** files

    def save(self, path: str | Path) -> None:
        """Write the profile, and its record if it has one, to a .tlab file.

        Raises: TraceError if it cannot be written.
        """
        saved.save(self, path)

    def to_chrome(self, path: str | Path, progress: Callable[[float], None] | None = None) -> None:
        """Write a trace for Chrome and Perfetto; compressed if the name ends in .gz.

        Raises: CaptureError if it cannot be written.
        """
        export.to_chrome(self, path, progress)

    def to_csv(self, path: str | Path) -> None:
        """Write a line an event.

        Raises: CaptureError if it cannot be written.
        """
        export.to_csv(self, path)

    def __repr__(self) -> str:
        start, end = self.table.span
        state = "still running, " if self.running else ""
        return (
            f'<profile "{self.name}": {state}{pluralize("event", len(self.table))}, '
            f"{pluralize('kernel', len(self.facts))}, {(end - start) / 1e6:.2f} ms>"
        )


explained_methods(Profile)

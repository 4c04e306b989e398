"""Measured figures: what the processor and the system counted while a kernel ran.

    figures, notes = measure(lambda: kernel(...))

Hardware events (cycles, instructions, cache and branch events) where the machine offers them; one
sentence where it does not, and `counted` is what is left. Events of the system are always there on
Linux. Values are of one run, as the mean of some; events that had to share a counter are scaled,
and say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.errors import CounterError
from tinylab.helpers.perf_events import EVENTS, HARDWARE, Counters as Events
from tinylab.profiler.counters.data import Counters, Figure

if TYPE_CHECKING:
    from tinylab.uop.ops import UOp

LEAST_NS = 20e6  # so long that events which take turns each get some
_MOST_RUNS = 10_000


def measure(
    run: Callable[[], Any], events: Sequence[str] = tuple(EVENTS), least_ns: float = LEAST_NS
) -> Counters:
    """The events of one run of something on this thread; it is run again until there was enough.

    Raises: KeyError for a name that no event has.
    """
    counters = Events(events)
    try:
        runs, start = 0, time.perf_counter_ns()
        with counters:
            while runs == 0 or (time.perf_counter_ns() - start < least_ns and runs < _MOST_RUNS):
                run()
                runs += 1
        readings = {
            name: {"value": r.value, "share": r.share} for name, r in counters.readings().items()
        }
        return figures_of(readings, counters.missing, runs)
    finally:
        counters.close()


def measure_program(program: UOp, buffers: Mapping[int, bytes] | None = None) -> Counters:
    """The events of one run of a kernel, in this process, on copies of its buffers.

    Of a program that this process cannot call there is a note in place of figures.
    """
    from tinylab.profiler.counters.counted import alone, loaded  # here: they load LLVM

    try:
        job = alone(program, buffers)
    except CounterError as error:
        return Counters("", (), kind="measured", notes=(error.message,))
    with loaded(job) as (run, _):
        run()  # pages are there and caches are warm
        return measure(run)


def figures_of(
    readings: Mapping[str, Mapping[str, float]], missing: Mapping[str, str], runs: int
) -> Counters:
    """Readings of some runs as figures of one; what could not be had is said in a sentence.

    readings: by event, its scaled value over all runs and the share of the time it was counted.
    """
    figures = []
    for name, reading in readings.items():
        share, times = reading["share"], f"a mean of {runs} run{'s' if runs > 1 else ''}"
        scaled = f", counted {share:.0%} of the time and scaled" if share < 0.999 else ""
        value = reading["value"] / runs
        figures.append(Figure(name, value, EVENTS[name].unit, "measured", times + scaled))
    found = {f.name: f.value for f in figures}
    if found.get("cycles") and "instructions" in found:
        rate = found["instructions"] / found["cycles"]
        figures.append(Figure("instructions per cycle", rate, "instructions", "measured"))
    return Counters("", tuple(figures), kind="measured", notes=tuple(_notes(missing)))


def _notes(missing: Mapping[str, str]) -> list[str]:
    """A sentence for each reason why events are not there."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        by_reason.setdefault(reason, []).append(name)
    notes = []
    for reason, names in by_reason.items():
        all_hardware = set(names) == set(HARDWARE)
        what = "hardware counters" if all_hardware else ", ".join(names)
        notes.append(f"no {what}: {reason}; counted figures take their place")
    return notes

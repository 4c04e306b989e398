"""Events of the system, which are there on any Linux, and what is said where others are not."""

from __future__ import annotations

import mmap
import sys
import time

import pytest

import tinylab
from tinylab.helpers import perf_events
from tinylab.helpers.perf_events import EVENTS, HARDWARE, SOFTWARE, Counters
from tinylab.profiler.counters.measured import figures_of, measure

linux = pytest.mark.skipif(sys.platform != "linux", reason="perf_event_open is of Linux")


def offered(*names: str) -> bool:
    counters = Counters(names)
    counters.close()
    return not counters.missing


software = pytest.mark.skipif(
    sys.platform != "linux" or not offered(*SOFTWARE), reason="events are forbidden here"
)


@software
def test_events_of_the_system_are_counted() -> None:
    pages = 500

    def touch() -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=flags) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)  # one fault a page
            for i in range(pages):
                memory[i * mmap.PAGESIZE] = 1

    found = measure(touch, SOFTWARE, least_ns=5e6)
    assert {f.kind for f in found} == {"measured"}
    assert pages * 0.9 <= found["page faults"].value <= pages * 3
    assert found["task clock"].value > 0
    assert found["context switches"].value >= 0
    assert "a mean of" in found["task clock"].note


@software
def test_a_thread_that_waits_is_switched() -> None:
    found = measure(lambda: time.sleep(0.002), SOFTWARE, least_ns=1e7)
    assert found["context switches"].value >= 0.5


@software
def test_nothing_is_counted_outside_of_the_context() -> None:
    counters = Counters(["task clock"])
    sum(range(100_000))
    with counters:
        pass
    short = counters.readings()["task clock"].value
    sum(range(2_000_000))
    assert counters.readings()["task clock"].value == short
    counters.close()


@linux
def test_a_run_that_fails_gives_the_counters_back() -> None:
    def fail() -> None:
        raise ValueError("no")

    import os

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ValueError, match="no"):
            measure(fail)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "this machine does not offer it, as most virtual ones do not"
    monkeypatch.setattr(perf_events, "_open_event", lambda event, leader: (-1, reason))
    found = measure(lambda: None, HARDWARE, least_ns=0)
    assert found.figures == ()
    (note,) = found.notes
    assert note == f"no hardware counters: {reason}; counted figures take their place"


def test_a_system_without_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events.platform, "machine", lambda: "vax")
    (note,) = measure(lambda: None, ["cycles"], least_ns=0).notes
    assert "on vax has no perf_event_open" in note
    assert note.startswith("no cycles:")


def test_events_that_took_turns_are_scaled_and_say_so() -> None:
    readings = {
        "cycles": {"value": 4000.0, "share": 1.0},
        "instructions": {"value": 10000.0, "share": 0.5},
    }
    found = figures_of(readings, {}, 2)
    assert found["cycles"].value == 2000
    assert found["cycles"].note == "a mean of 2 runs"
    assert found["instructions"].note == "a mean of 2 runs, counted 50% of the time and scaled"
    assert found["instructions per cycle"].value == 2.5


def test_hardware_events_go_in_groups_that_fit() -> None:
    groups = list(perf_events._groups(list(EVENTS)))
    assert [name for group in groups for name in group] == list(EVENTS)
    assert max(len(g) for g in groups if EVENTS[g[0]].hardware) <= 3
    assert groups[-1] == list(SOFTWARE)


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(KeyError, match="cycels"):
        Counters(["cycels"])


def test_a_kernel_is_measured_beside_its_counts() -> None:
    with tinylab.profile() as p:
        (tinylab.Tensor.empty(7, 13) + 1).realize()
    (kernel,) = p.kernels.values()
    found = kernel.counters
    kinds = {figure.name: figure.kind for figure in found.figures}
    assert kinds["flops"] == "counted"
    hardware = "cycles" in kinds
    assert hardware or any(note.startswith("no hardware counters: ") for note in found.notes)
    if sys.platform == "linux":
        assert kinds["page faults"] == "measured"


def test_what_cannot_be_called_here_has_a_note() -> None:
    with tinylab.profile() as p:
        (tinylab.Tensor.empty(3, 5, device="PYTHON") + 1).realize()
    (kernel,) = p.kernels.values()
    found = kernel.counters
    assert {figure.kind for figure in found.figures} == {"counted"}
    assert any("is no LLVM code: its events are not measured" in note for note in found.notes)

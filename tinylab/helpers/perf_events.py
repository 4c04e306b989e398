"""The system's performance counters (Linux perf_event_open), by ctypes.

    with Counters(("cycles", "instructions", "page faults")) as counters:
        for _ in range(10):
            work()
    counters.readings()["cycles"].value

Events are opened in groups of a few, each on this thread alone and, where they can happen in user
code, without the system's own work.
Where there are more groups than the processor has counters, the system runs them in turns: a
reading says for which share of the time it was counted, and its value is scaled to the whole.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

_CALLS = {"x86_64": 298, "aarch64": 241, "amd64": 298, "arm64": 241, "riscv64": 241}
_GROUP_SIZE = 3  # a processor has four counters or more, some of which others hold
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_FORMAT_TIMES = 1 | 2  # time enabled, time running
_FLAGS_DISABLED, _FLAGS_NO_KERNEL, _FLAGS_NO_HYPERVISOR = 1, 1 << 5, 1 << 6
_WHOLE_GROUP = 1
_CLOSE_ON_EXEC = 8


class Event(NamedTuple):
    """What to count: the type and number of the system's table, the unit, where it happens."""

    kind: int
    config: int
    unit: str
    hardware: bool
    in_kernel: bool = False  # whether it happens in the system's own code alone


# Types: 0 hardware, 1 software. Numbers as in the system's header linux/perf_event.h.
EVENTS: dict[str, Event] = {
    "cycles": Event(0, 0, "cycles", True),
    "instructions": Event(0, 1, "instructions", True),
    "cache references": Event(0, 2, "references", True),
    "cache misses": Event(0, 3, "misses", True),
    "branches": Event(0, 4, "branches", True),
    "branch misses": Event(0, 5, "misses", True),
    "task clock": Event(1, 1, "ns", False),
    "page faults": Event(1, 2, "faults", False),
    "context switches": Event(1, 3, "switches", False, in_kernel=True),
}
HARDWARE = tuple(name for name, event in EVENTS.items() if event.hardware)
SOFTWARE = tuple(name for name, event in EVENTS.items() if not event.hardware)


@dataclass(frozen=True)
class Reading:
    """What was counted; `share` is the share of the time in which it was, value is scaled by it."""

    value: float
    share: float
    unit: str


class Counters:
    """Events of this thread, counted while the context is open."""

    def __init__(self, names: Sequence[str]) -> None:
        """Opens those that there are; `missing` says why there are no others.

        Raises: KeyError for a name that no event has.
        """
        self.missing: dict[str, str] = {}
        self._files: dict[str, int] = {}
        self._leaders: list[int] = []
        for group in _groups(names):
            self._open(group)

    def _open(self, names: Sequence[str]) -> None:
        leader = -1
        for name in names:
            file, reason = _open_event(EVENTS[name], leader)
            if file < 0:
                self.missing[name] = reason
                continue
            self._files[name] = file
            if leader < 0:
                leader = file
                self._leaders.append(file)

    def __enter__(self) -> Counters:
        for request in (_RESET, _ENABLE):
            for file in self._leaders:
                _libc().ioctl(file, request, _WHOLE_GROUP)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._leaders:
            _libc().ioctl(file, _DISABLE, _WHOLE_GROUP)

    def readings(self) -> dict[str, Reading]:
        """What each event came to; events that were never counted are left out."""
        found = {}
        for name, file in self._files.items():
            value, enabled, running = struct.unpack("<QQQ", os.read(file, 24))
            if running:
                scaled = value * enabled / running
                found[name] = Reading(scaled, running / enabled, EVENTS[name].unit)
        return found

    def close(self) -> None:
        """Gives the counters back."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """Hardware events a few at a time, software events together: they need no counter."""
    hardware = [name for name in names if EVENTS[name].hardware]
    for i in range(0, len(hardware), _GROUP_SIZE):
        yield hardware[i : i + _GROUP_SIZE]
    software = [name for name in names if not EVENTS[name].hardware]
    if software:
        yield software


def _open_event(event: Event, leader: int) -> tuple[int, str]:
    """(file, "") of an event, or (-1, why not)."""
    call = _CALLS.get(platform.machine().lower())
    if sys.platform != "linux" or call is None:
        return -1, f"{sys.platform} on {platform.machine()} has no perf_event_open"
    # The first of a group starts and stops the others.
    flags = _FLAGS_NO_HYPERVISOR | (_FLAGS_DISABLED if leader < 0 else 0)
    flags |= 0 if event.in_kernel else _FLAGS_NO_KERNEL
    # Type, size, config, period, sample type, read format, flags; the rest of 128 bytes is 0.
    head = struct.pack("<IIQQQQQ", event.kind, 128, event.config, 0, 0, _FORMAT_TIMES, flags)
    attributes = ctypes.create_string_buffer(head, 128)
    file = _libc().syscall(call, attributes, 0, -1, leader, _CLOSE_ON_EXEC)
    if file >= 0:
        return int(file), ""
    return -1, _reason(ctypes.get_errno())


def _reason(number: int) -> str:
    if number == errno.ENOENT:
        return "this machine does not offer it, as most virtual ones do not"
    if number in (errno.EACCES, errno.EPERM):
        return "it is forbidden here: see /proc/sys/kernel/perf_event_paranoid"
    return os.strerror(number)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

"""Ranges and points that scripts mark in their own profiles; tinylab's listeners hear them too."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tinylab.helpers.arguments import explained_names
from tinylab.helpers.context import PROFILE
from tinylab.trace import events


def perf_counter_us() -> Decimal:
    """The clock of all events, in microseconds."""
    return Decimal(time.perf_counter_ns()) / 1000


@dataclass(frozen=True)
class TracingKey:
    """What an event is shown as, and what it belongs to."""

    display_name: str
    keys: tuple[Any, ...] = ()
    ret: Any = None
    tb: tuple[tuple[Any, ...], ...] | None = None


class ProfileEvent:
    """Something that happened."""

    def __init__(self) -> None:
        """Each kind says what is known of it."""


@dataclass
class ProfileRangeEvent(ProfileEvent):
    """Something with a beginning and an end, in microseconds."""

    device: str
    name: str | TracingKey
    st: Decimal
    en: Decimal | None = None
    profile_key: bytes | None = None


@dataclass
class ProfilePointEvent(ProfileEvent):
    """Something that happened at one time."""

    device: str
    name: str
    key: Any
    arg: Any = field(default_factory=dict)
    ts: Decimal = field(default_factory=perf_counter_us)


@dataclass(frozen=True)
class ProfileDeviceEvent(ProfileEvent):
    """A device that was opened; tdiff: how far its clock is behind that of all events."""

    device: str
    tdiff: Decimal = Decimal(0)
    props: dict[str, Any] | None = None


@dataclass(frozen=True)
class ProfileProgramEvent(ProfileEvent):
    """A program that was loaded: its machine code, and where."""

    device: str
    name: str
    lib: bytes | None
    base: int | None
    tag: int | None = None
    profile_key: bytes | None = None


@dataclass(frozen=True)
class ProfileGraphEntry:
    """One kernel of a launch of many; its times are numbers of the launch's `sigs`."""

    device: str
    name: str | TracingKey
    st_id: int
    en_id: int
    profile_key: bytes | None = None


@dataclass(frozen=True)
class ProfileGraphEvent(ProfileEvent):
    """A launch of many kernels: which waited for which, and their times in microseconds."""

    ents: list[ProfileGraphEntry]
    deps: list[list[int]]
    sigs: list[Decimal]


def profile_of(record: Any) -> list[ProfileEvent]:
    """What a tinylab record heard, in the words of the foreign profile.

    A device event for each device, a program event for each kernel, a range for each run and copy.
    """
    # Copies from and to Python are no steps of a schedule, and have no times of their own.
    steps = [e for e in record.events if "start_ns" in e.data]
    runs = [e for e in steps if e.kind in ("run", "copy")]
    found: list[ProfileEvent] = [
        ProfileDeviceEvent(device) for device in dict.fromkeys(e.data["device"] for e in runs)
    ]
    for n, k in enumerate(record.kernels):
        if k.program is not None:
            info, code = k.program.arg, k.program.src[-1].arg
            key = k.ast.key if k.ast is not None else None
            found.append(ProfileProgramEvent(k.device, info.function_name, code, None, n, key))
    for e in runs:
        start, end = (Decimal(e.data[t]) / 1000 for t in ("start_ns", "end_ns"))
        found.append(ProfileRangeEvent(e.data["device"], e.name, start, end))
    return found


cpu_events: list[ProfileEvent] = []


@contextlib.contextmanager
def cpu_profile(
    name: str | TracingKey,
    device: str = "TINY",
    display: bool = True,
    profile_key: bytes | None = None,
) -> Iterator[ProfileRangeEvent]:
    """Marks a block as a range; kept in `cpu_events` while PROFILE is set."""
    found = ProfileRangeEvent(device, name, perf_counter_us(), None, profile_key)
    shown = name.display_name if isinstance(name, TracingKey) else name
    try:
        with events.span("mark", shown, device=device):
            yield found
    finally:
        found.en = perf_counter_us()
        if PROFILE and display:
            cpu_events.append(found)


def profile_marker(name: str, color: str = "gray") -> None:
    """Marks this moment."""
    events.profile_marker(name, color)
    cpu_events.append(ProfilePointEvent("TINY", "marker", None, {"name": name, "color": color}))


explained_names(globals())

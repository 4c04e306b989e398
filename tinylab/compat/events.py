"""Ranges and points that scripts mark in their own profiles; tinylab's listeners hear them too."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

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
    events.point("mark", name, color=color)
    cpu_events.append(ProfilePointEvent("TINY", "marker", None, {"name": name, "color": color}))

"""Where the time went: profiles, counters of kernels, advice; captures of counters and traces.

Names are loaded on first use: reading arguments of a command must not wait for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinylab.profiler.advice import advise as advise
    from tinylab.profiler.capture import (
        Capture as Capture,
        Captures as Captures,
        read_capture as read_capture,
        read_captures as read_captures,
    )
    from tinylab.profiler.collected import Profile as Profile
    from tinylab.profiler.counters.cache import Cache as Cache
    from tinylab.profiler.counters.counted import count as count
    from tinylab.profiler.counters.data import Counters as Counters
    from tinylab.profiler.counters.estimated import estimate as estimate
    from tinylab.profiler.desk import Desk as Desk, desk_of as desk_of
    from tinylab.profiler.files import load_profile as load_profile
    from tinylab.profiler.listen import profile as profile
    from tinylab.profiler.merged import compare as compare
    from tinylab.profiler.sqtt.encode import encode as encode
    from tinylab.profiler.sqtt.trace import Trace as Trace
    from tinylab.profiler.summary import summarize as summarize

_HOMES = {
    "Cache": "counters.cache",
    "Counters": "counters.data",
    "advise": "advice",
    "count": "counters.counted",
    "estimate": "counters.estimated",
    "Capture": "capture",
    "Captures": "capture",
    "read_capture": "capture",
    "read_captures": "capture",
    "Profile": "collected",
    "compare": "merged",
    "load_profile": "files",
    "profile": "listen",
    "Desk": "desk",
    "desk_of": "desk",
    "Trace": "sqtt.trace",
    "encode": "sqtt.encode",
    "summarize": "summary",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)

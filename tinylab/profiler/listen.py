"""`tinylab.profile()`: a profile of what a block does.

with tinylab.profile() as p:
step(x)
p.events, p.kernels["r_64_64"].counters, p.top(5)
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from typing import Any

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.profiler.collected import Profile
from tinylab.profiler.recorder import Recorder
from tinylab.trace import provenance
from tinylab.trace.record import Cell, Record, record as recording


@explained
def profile(name: str = "profile", record: bool = False) -> Profiling:
    """Note what is scheduled, compiled, run, copied and allocated inside a ``with`` block.

    Kernels are waited for one by one, those of a captured function too: times are their own, and
    the whole takes longer than it would. record: also record the rewrites, so that a kernel of the
    timeline leads to its opts and rewrites; kernels are lowered again then, which takes its time.
    An exception passes through; what was heard up to it stays.

    Raises: CaptureError where one is entered again: each block has a profile of its own.
    """
    return Profiling(name, record)


class Profiling(contextlib.ContextDecorator):
    """What `profile` gives: for one ``with`` block; as a decorator, for each call."""

    def __init__(self, name: str, record: bool) -> None:
        self._name, self._record = name, record
        self._block: contextlib.AbstractContextManager[Profile] | None = None

    def _recreate_cm(self) -> Profiling:
        return Profiling(self._name, self._record)

    def __enter__(self) -> Profile:
        if self._block is not None:
            raise CaptureError(
                f'the profile "{self._name}" was entered before, and holds what was heard then',
                help="call tinylab.profile() for each block",
            )
        self._block = _listening(self._name, self._record)
        return self._block.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        assert self._block is not None, "what was not entered is not left"
        return self._block.__exit__(*error)

    def __repr__(self) -> str:
        state = "not entered yet" if self._block is None else "entered"
        return f'<tinylab.profile("{self._name}"), {state}: with … as p>'


@contextlib.contextmanager
def _listening(name: str, record: bool) -> Iterator[Profile]:
    recorder = Recorder()
    found = Profile(name, recorder)
    # Before the record, which keeps no memory alive and drops what events say of it.
    recorder.start()
    try:
        with _recording(record, name) as found.record:
            yield found
    finally:
        recorder.stop()


@contextlib.contextmanager
def _recording(wanted: bool, name: str) -> Iterator[Record | None]:
    """A record beside the profile, of the file that the ``with`` stands in."""
    if not wanted:
        yield None
        return
    asked = provenance.user_frames()
    file = asked[0].filename if asked else ""
    with recording(name, Cell("".join(linecache.getlines(file)), file)) as made:
        yield made

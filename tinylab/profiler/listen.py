"""`tinylab.profile()`: a profile of what a block does.

with tinylab.profile() as p:
step(x)
p.events, p.kernels["r_64_64"].counters, p.top(5)
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator

from tinylab.profiler.collected import Profile
from tinylab.profiler.recorder import Recorder
from tinylab.trace import provenance
from tinylab.trace.record import Cell, Record, record as recording


@contextlib.contextmanager
def profile(name: str = "profile", record: bool = False) -> Iterator[Profile]:
    """Note what is scheduled, compiled, run, copied and allocated inside a ``with`` block.

    Kernels are waited for one by one, those of a captured function too: times are their own, and
    the whole takes longer than it would. record: also record the rewrites, so that a kernel of the
    timeline leads to its opts and rewrites; kernels are lowered again then, which takes its time.
    An exception passes through; what was heard up to it stays.
    """
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

"""Long files are read with a bar that shows how far reading is: on a terminal, or in a notebook."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from tinylab.helpers.progress import tqdm
from tinylab.profiler.sqtt.trace import Trace

LARGE = 4 << 20  # bytes; below that reading takes less than a second


@contextlib.contextmanager
def reading_bar(name: str) -> Iterator[Callable[[float], None]]:
    """A bar that is told the share that was read; nothing for scripts."""
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    title = f"reading {name}"
    with tqdm[None](desc=title, total=100, unit="%", disable=not watched, leave=False) as bar:
        yield lambda share: bar.update(int(100 * share) - bar.n)


def read_to_end(trace: Trace, name: str) -> Trace:
    """A stream with its index, long ones with a bar; the stop button and Ctrl+C leave off."""
    if trace.size_bytes < LARGE:
        return trace.index()
    with reading_bar(name) as shown:
        return trace.index(shown)

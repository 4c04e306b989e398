"""How fast thread traces are read: packets, the timeline, the first picture, any later window.

    python -m benchmarks.thread_trace [megabytes]

The stream is the demonstration's, over and over. Times are of this process alone (user and system).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tinylab.profiler import scene, view
from tinylab.profiler.capture import read_capture
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.sqtt.decode import Cursor, open_stream, packets
from tinylab.profiler.sqtt.native import decode
from tinylab.profiler.sqtt.trace import Trace


def main(megabytes: int) -> None:
    capture = read_capture(FOLDER)
    info, loaded = capture.streams[0], capture.program(0)
    one = bytes(capture.blob(info.file))
    data = one + one[8:] * (megabytes * 1_000_000 // len(one))
    few = open_stream(one * 20)
    print(f"plain      {rate(lambda: len(list(packets(few)))):8.1f} million packets/s")
    stream = open_stream(data[: 32 << 20])
    whole(stream)  # compiles
    print(f"compiled   {rate(lambda: whole(stream)):8.1f} million packets/s")
    trace = Trace(data, loaded.code, loaded.info.load_base)
    spent = seconds(lambda: first(trace))
    print(f"first view {spent:8.3f} s of {len(data) >> 20} MB")
    done = int(trace.counts.sum())
    spent = seconds(trace.index)
    read = (trace.counts.sum() - done) / 1e6
    print(f"index      {read / spent:8.1f} million packets/s, {spent:.1f} s")
    start, end = trace.span
    for share in (1, 10, 1000):
        width = (end - start) // share
        left = start + (end - start) * (share - 1) // share
        spent = seconds(lambda a=left, w=width: window(trace, a, a + w))
        print(f"1/{share:<8} {spent:8.3f} s a window")


def whole(stream: Any) -> int:
    counts, cursor = np.zeros(len(stream.table.kinds), np.int64), Cursor()
    while cursor.position < stream.end:
        decode(stream, cursor, counts)
    return int(counts.sum())


def first(trace: Trace) -> None:
    trace.advance(0.25)
    window(trace, *trace.span)


def window(trace: Trace, start: int, end: int) -> None:
    scene.lane_window(trace, start, end)
    scene.activity_window(trace, start, end)
    view.occupancy_window(trace, start, end)


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def rate(work: Callable[[], int]) -> float:
    begin = time.process_time()
    count = work()
    return count / (time.process_time() - begin) / 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64)

"""What a run leaves behind: counters, times, profiles of Python, the method that asked."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tinylab.helpers.text import colored


@dataclass(frozen=True)
class Metadata:
    """The Tensor method that made a node; ``backward`` if its gradient did."""

    name: str
    backward: bool = False

    def __str__(self) -> str:
        return self.name + (" bw" if self.backward else "")


class GlobalCounters:
    """Totals of the process: kernels, their operations, bytes and time, and memory in use."""

    global_ops: ClassVar[int] = 0
    global_mem: ClassVar[int] = 0
    time_sum_s: ClassVar[float] = 0.0
    kernel_count: ClassVar[int] = 0
    mem_used: ClassVar[int] = 0
    mem_used_per_device: ClassVar[defaultdict[str, int]] = defaultdict(int)

    def __init__(self) -> None:
        """Nothing to say: the counts are the class's."""

    @staticmethod
    def reset() -> None:
        """Back to zero, except for memory: buffers stay where they are."""
        GlobalCounters.global_ops = GlobalCounters.global_mem = GlobalCounters.kernel_count = 0
        GlobalCounters.time_sum_s = 0.0


class Timing(contextlib.ContextDecorator):
    """Prints how long a block took; ``on_exit`` makes text of its nanoseconds.

    with Timing("load: "): ...
    """

    def __init__(
        self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True
    ) -> None:
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self) -> Timing:
        self.start_ns = time.perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        self.et = time.perf_counter_ns() - self.start_ns
        if self.enabled:
            tail = self.on_exit(self.et) if self.on_exit else ""
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms{tail}")


class Profiling(contextlib.ContextDecorator):
    """Prints the Python functions in which a block spent its time; ``fn`` saves the profile."""

    def __init__(
        self,
        enabled: bool = True,
        sort: str = "cumtime",
        frac: float = 0.2,
        fn: str | None = None,
        ts: float = 1,
    ) -> None:
        self.enabled, self.sort, self.frac, self.fn, self.ts = enabled, sort, frac, fn, ts

    def __enter__(self) -> Profiling:
        import cProfile

        self.profiler = cProfile.Profile()
        if self.enabled:
            self.profiler.enable()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.enabled:
            return
        import pstats

        self.profiler.disable()
        if self.fn:
            self.profiler.dump_stats(self.fn)
        rows = pstats.Stats(self.profiler).strip_dirs().get_stats_profile().func_profiles
        key = "cumtime" if self.sort == "cumtime" else "tottime"
        ordered = sorted(rows.items(), key=lambda row: -getattr(row[1], key))
        for name, row in ordered[: int(len(ordered) * self.frac)]:
            own, total = (f"{t * 1e3 / self.ts:8.2f}ms" for t in (row.tottime, row.cumtime))
            where = f"{row.file_name}:{row.line_number}"
            print(f"n:{row.ncalls:>9} own:{own} total:{total} {colored(name, 'cyan')} {where}")


class disable_gc(contextlib.ContextDecorator):
    """No garbage collection inside: many nodes are made and none of them is garbage."""

    def __init__(self) -> None:
        """Off from when the block begins."""

    def __enter__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *exc: object) -> None:
        if self.was_on:
            gc.enable()

"""VIZ, PROFILE and TRACK_MATCH_STATS: what a whole process did, told on its exit.

    VIZ=1 python script.py               a record of every rewrite, in a file
    PROFILE=1 python script.py           a profile, in a file
    TRACK_MATCH_STATS=1 python script.py how often each rule fired, and how long that took

They look on from the first computation to the end of the process.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tinylab.errors import TinylabError
from tinylab.helpers.cache import temp
from tinylab.helpers.context import PROFILE, TRACK_MATCH_STATS, VIZ
from tinylab.profiler.listen import profile
from tinylab.trace.record import record
from tinylab.uop import rewrite
from tinylab.uop.ops import Rule

_MOST_ROWS = 40
_begun: set[int] = set()  # processes: one that was forked begins anew
_lock = threading.Lock()


def watch() -> None:
    """Look on from now to the end of the process, as the settings ask; once is enough."""
    with _lock:
        if os.getpid() in _begun:
            return
        _begun.add(os.getpid())
    statistics = Statistics() if TRACK_MATCH_STATS.everywhere in (1, 3) else None
    if statistics is not None:
        rewrite.listeners.append(statistics)
    block = ExitStack()
    recorded = bool(VIZ.everywhere or TRACK_MATCH_STATS.everywhere >= 2)
    seen: Any = None
    if PROFILE.everywhere:
        seen = block.enter_context(profile(_name(), record=recorded))
    elif recorded:
        seen = block.enter_context(record(_name()))
    atexit.register(_tell, statistics, block, seen, recorded)


def _name() -> str:
    return Path(sys.argv[0] or "python").stem


def _tell(statistics: Statistics | None, block: ExitStack, seen: Any, recorded: bool) -> None:
    block.close()
    if statistics is not None:
        rewrite.listeners.remove(statistics)
        print(statistics.table())
    if seen is None:
        return
    path = temp(f"{_name()}-{os.getpid()}.tlab")
    try:
        seen.save(path)
    except TinylabError as e:
        print(f"what was recorded is lost: {e}", file=sys.stderr)
        return
    print(f"saved {path}")
    if VIZ.everywhere < 0:
        return
    if recorded:
        print(f"its passes, matches and kernels: tinylab view {path}, or tinylab trace {path}")
    if PROFILE.everywhere:
        print(f"its times: tinylab profile {path}")


class Statistics:
    """A listener that counts: of each rule, how often it fired and how long its matches took."""

    def __init__(self) -> None:
        self.rows: dict[Rule, list[int]] = {}
        self._lock = threading.Lock()

    def begin_pass(self, *_: Any, **__: Any) -> list[rewrite.Match]:
        """A list for the matches of a pass."""
        return []

    def end_pass(self, matches: list[rewrite.Match], *_: Any) -> None:
        """Add up the matches of a pass."""
        with self._lock:
            for rule, _before, _after, elapsed_ns in matches:
                row = self.rows.setdefault(rule, [0, 0])
                row[0] += 1
                row[1] += elapsed_ns

    def table(self) -> str:
        """The rules by the time of their matches: count, milliseconds, name, law, place."""
        found = sorted(self.rows.items(), key=lambda item: -item[1][1])
        lines = [f"{'matches':>9} {'ms':>10}  rule"]
        for rule, (count, elapsed_ns) in found[:_MOST_ROWS]:
            place = f"{Path(rule.place[0]).name}:{rule.place[1]}"
            law = f"  {rule.law}" if rule.law else ""
            lines.append(f"{count:9d} {elapsed_ns / 1e6:10.2f}  {rule.name}  {place}{law}")
        rest = found[_MOST_ROWS:]
        if rest:
            count, elapsed_ns = (sum(row[n] for _, row in rest) for n in (0, 1))
            lines.append(f"{count:9d} {elapsed_ns / 1e6:10.2f}  {len(rest)} other rules")
        count, elapsed_ns = (sum(row[n] for _, row in found) for n in (0, 1))
        lines.append(f"{count:9d} {elapsed_ns / 1e6:10.2f}  {len(found)} rules together")
        return "\n".join(lines)

"""The addresses of the lanes of each wave, by running a kernel item by item on Python numbers."""

from __future__ import annotations

import collections
import math
from collections import defaultdict
from collections.abc import Generator
from typing import Any

from tests.profiler.counting_oracle import CountingCode, Heard, handlers
from tinylab.opcodes import Ops
from tinylab.renderer.python import PythonRenderer
from tinylab.runtime.ops_python import PythonProgram
from tinylab.runtime.python_listing import parse
from tinylab.uop.ops import UOp

Place = tuple[int, ...]


class HeardLanes(Heard):
    """(bytes at which, bytes) of each execution of an access, by line, workgroup and item."""

    def __init__(self) -> None:
        super().__init__((), {})
        self.at: tuple[Place, Place] = ((), ())
        self.lanes: dict[int, dict[Place, dict[Place, list[tuple[int, int]]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )

    def access(
        self, line: int, buffer: str, at: Any, gates: Any, size: int, width: int, lanewise: bool
    ) -> None:
        places = list(at) if isinstance(at, list | tuple) else [at]
        opened = gates if isinstance(gates, list) else [gates] * len(places)
        mine = self.lanes[line][self.at[0]][self.at[1]]
        is_window = places == list(range(places[0], places[0] + len(places)))
        if is_window and not lanewise:
            mine.append((places[0] * size if opened[0] else -1, size * len(places)))
        else:
            mine += [(p * size if g else -1, size) for p, g in zip(places, opened, strict=True)]


class LaneCode(CountingCode):
    """Hears shared memory too."""

    kinds = ("global", "local")


def waves_of(
    program: UOp, data: dict[int, bytes], wave: int
) -> dict[int, list[list[tuple[int, int]]]]:
    """By line: what the lanes of one wave do at once, wave after wave, turn after turn."""
    lines = program.src[1].src
    rendered = PythonRenderer().render_lines(lines)
    listing = parse("\n".join(text for text, _ in rendered) + "\n")
    heard = HeardLanes()
    with handlers():
        code = LaneCode(listing, heard, [index for _, index in rendered])
    prepared = PythonProgram.__new__(PythonProgram)
    prepared.code, prepared.core_id = code, None
    prepared.done = collections.deque(maxlen=1)
    prepared.buffers = [p for p in listing.parameters if p.shape]
    prepared.slots = [int(p.name.removeprefix("data")) for p in prepared.buffers]
    original = code.run

    def plain(memory: Any, values: Any, place: Place, item: Place, shared: Any) -> None:
        heard.at = (place, item)
        original(memory, values, place, item, shared)

    def lockstep(
        memory: Any, values: Any, place: Place, item: Place, shared: Any
    ) -> Generator[None, None, None]:
        inner: Any = original(memory, values, place, item, shared)
        while True:
            heard.at = (place, item)
            try:
                next(inner)
            except StopIteration:
                return
            yield

    code.run = lockstep if code.has_barrier else plain
    info = program.arg
    local = info.local_size or (1, 1, 1)
    prepared(
        *(memoryview(bytearray(b)) for b in data.values()),
        global_size=info.global_size,
        local_size=local,
        vals=[0 for _ in info.vars],
    )
    return {line: _together(groups, local, wave) for line, groups in heard.lanes.items()}


def _together(groups: Any, local: Place, wave: int) -> list[list[tuple[int, int]]]:
    """The executions of each item of a wave side by side; closed lanes are at -1."""
    found = []
    for items in groups.values():
        by_thread = {
            item[0] + local[0] * (item[1] + local[1] * item[2]): runs
            for item, runs in items.items()
        }
        for first in range(0, math.prod(local), wave):
            lanes = [by_thread[t] for t in range(first, first + wave) if t in by_thread]
            for turn in range(max(map(len, lanes), default=0)):
                found.append([runs[turn] for runs in lanes])
    return found


def is_access(u: UOp) -> bool:
    return u.op in (Ops.LOAD, Ops.STORE)

"""Counts by another road: the lines interpreted on Python numbers, each touch through plain lists.

It shares the program's lines with what it judges, and nothing else: the interpreter of the PYTHON
device runs them, and says what it did as it does it.
"""

from __future__ import annotations

import collections
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinylab.opcodes import GroupOp, Ops
from tinylab.profiler.counters.cache import Cache, layout
from tinylab.renderer.python import PythonRenderer
from tinylab.runtime.ops_python import PythonProgram
from tinylab.runtime.python_code import Code
from tinylab.runtime.python_listing import Instruction, parse
from tinylab.uop.ops import UOp


class Heard:
    """What was executed, by line of the LINEAR."""

    def __init__(self, caches: Sequence[Cache], bases: dict[str, int]) -> None:
        self.alu: Counter[int] = Counter()
        self.turns: Counter[int] = Counter()
        self.elements: Counter[int] = Counter()
        self.touches: Counter[int] = Counter()
        self.cold: Counter[int] = Counter()
        self.misses: list[Counter[int]] = [Counter() for _ in caches]
        self.caches, self.bases, self.core = caches, bases, 0
        self.seen: set[int] = set()
        self.sets: dict[tuple[int, int, int], OrderedDict[int, None]] = {}

    def access(
        self, line: int, buffer: str, at: Any, gates: Any, size: int, width: int, lanewise: bool
    ) -> None:
        """A load or store: of one element, or of rows of lanes, perhaps with gates of their own."""
        places = at if isinstance(at, list | tuple) else [at]
        opened = gates if isinstance(gates, list) else [gates] * len(places)
        last = None
        for n, (place, gate) in enumerate(zip(places, opened, strict=True)):
            if n % width == 0:
                last = None
            if not gate:
                continue
            self.elements[line] += 1
            cache_line = (self.bases[buffer] + place * size) // self.caches[0].line_bytes
            if cache_line != last:
                self.touch(line, cache_line)
            last = cache_line

    def touch(self, line: int, cache_line: int) -> None:
        self.touches[line] += 1
        if cache_line not in self.seen:
            self.seen.add(cache_line)
            self.cold[line] += 1
        for level, cache in enumerate(self.caches):
            core = 0 if cache.shared else self.core
            found = self.sets.setdefault((level, core, cache_line % cache.sets), OrderedDict())
            hit = cache_line in found
            found[cache_line] = None
            found.move_to_end(cache_line)
            if len(found) > cache.ways:
                found.popitem(last=False)
            if hit:
                return
            self.misses[level][line] += 1


class CountingCode(Code):
    """The function of a listing that also tells what it does."""

    kinds: tuple[str, ...] = ("global",)

    def __init__(self, listing: Any, heard: Heard, uop_of: Sequence[int | None]) -> None:
        self.heard, self.uop_of = heard, uop_of
        super().__init__(listing)

    def _uop(self, x: Instruction) -> int:
        found = self.uop_of[x.line - 1]
        assert found is not None
        return found

    def _alu(self, x: Instruction) -> None:
        lanes = 1
        for n in x.shape:
            lanes *= n
        self._emit(f"{self._keep(self.heard, 'heard')}.alu[{self._uop(x)}] += {lanes}")
        super()._alu(x)

    def _cast(self, x: Instruction) -> None:
        lanes = 1
        for n in x.shape:
            lanes *= n
        self._emit(f"{self._keep(self.heard, 'heard')}.alu[{self._uop(x)}] += {lanes}")
        super()._cast(x)

    def _nested(self, head: str, x: Instruction) -> None:
        self._emit(head)
        self.depth += 1
        self._emit(f"{self._keep(self.heard, 'heard')}.turns[{self._uop(x)}] += 1")
        self._block(x.body)
        self.depth -= 1

    def _load(self, x: Instruction) -> None:
        self._tell(x, 2)
        super()._load(x)

    def _store(self, x: Instruction) -> None:
        self._tell(x, 2)
        super()._store(x)

    def _tell(self, x: Instruction, at: int) -> None:
        place = self._symbol(x.arguments[0])
        memory = self.memories[place.buffer]
        if memory.kind not in self.kinds:
            return
        gate, lanewise = "True", False
        if len(x.arguments) > at:
            symbol = self._value(x.arguments[at])
            gate, lanewise = self._list(symbol, place.shape or (1,)), bool(symbol.shape)
        width = place.shape[-1] if place.shape else 1
        arguments = f"{self._uop(x)}, {memory.name[2:]!r}, {self._offsets(place)}, {gate}"
        self._emit(
            f"{self._keep(self.heard, 'heard')}.access("
            f"{arguments}, {memory.dtype.itemsize}, {width}, {lanewise})"
        )


# The handlers are looked up by operation: those of this class take their places.
_OWN = {
    **dict.fromkeys((op.name for op in GroupOp.ALU), CountingCode._alu),
    "LOAD": CountingCode._load,
    "STORE": CountingCode._store,
    "CAST": CountingCode._cast,
}


@contextmanager
def handlers() -> Iterator[None]:
    """Code that is made meanwhile tells what it does."""
    from tinylab.runtime import python_code

    before = dict(python_code._HANDLERS)
    python_code._HANDLERS.update(_OWN)  # type: ignore[arg-type]
    try:
        yield
    finally:
        python_code._HANDLERS.clear()
        python_code._HANDLERS.update(before)


def interpret(program: UOp, data: dict[int, bytes], caches: Sequence[Cache]) -> Heard:
    """Run a CPU program's lines in the interpreter; what it executed."""
    lines = program.src[1].src
    rendered = PythonRenderer().render_lines(lines)
    listing = parse("\n".join(text for text, _ in rendered) + "\n")
    bases = dict(zip((f"data{s}" for s in data), layout(map(len, data.values())), strict=True))
    heard = Heard(caches, bases)
    with handlers():
        code = CountingCode(listing, heard, [index for _, index in rendered])
    _run(code, program, data, heard)
    return heard


def _run(code: CountingCode, program: UOp, data: dict[int, bytes], heard: Heard) -> None:
    buffers = [p for p in code.listing.parameters if p.shape]
    variables = [p.name for p in code.listing.parameters if not p.shape]
    prepared = PythonProgram.__new__(PythonProgram)
    prepared.code, prepared.buffers = code, buffers
    prepared.done = collections.deque(maxlen=1)
    prepared.slots = [int(p.name.removeprefix("data")) for p in buffers]
    prepared.core_id = variables.index("core_id") if "core_id" in variables else None
    original = code.run

    def run(memory: Any, values: list[int], *rest: Any) -> Any:
        if prepared.core_id is not None:
            heard.core = values[prepared.core_id]
        return original(memory, values, *rest)

    code.run = run
    memories = [memoryview(bytearray(b)) for b in data.values()]
    info = program.arg
    vals = [None if v.arg.name == "core_id" else 0 for v in info.vars]
    prepared(*memories, global_size=info.global_size, vals=vals)
    heard.outputs = {s: bytes(memories[i]) for i, s in enumerate(data) if s in info.outs}  # type: ignore[attr-defined]


def counted_lines(program: UOp) -> set[int]:
    """Places of the lines that are arithmetic."""
    return {i for i, u in enumerate(program.src[1].src) if u.op in GroupOp.ALU or u.op is Ops.CAST}

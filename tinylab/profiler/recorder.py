"""Hears what happens while profiling, and keeps it in columns.

While nobody profiles, each place that would tell costs one look at an empty tuple.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from array import array
from typing import TYPE_CHECKING, Any

from tinylab.helpers.measure import GlobalCounters
from tinylab.helpers.text import ansistrip
from tinylab.trace import events, provenance
from tinylab.trace.events import Event
from tinylab.uop import rewrite

if TYPE_CHECKING:
    from tinylab.profiler.table import EventTable

MOST_EVENTS = 20_000_000  # of some 40 bytes; beyond that they are counted
_FLUSH = 4096
_COMPILER = {"realize": "schedule", "schedule": "schedule", "jit": "schedule"}
# Column -> type code of `array`; the order is that of a row.
_CODES = {
    "lane": "H", "kind": "B", "name": "I", "start": "q", "end": "q", "value": "d", "kernel": "i",
}  # fmt: skip
# Mirrors `table.KINDS`, which loads numpy: a program that only records need not.
_KINDS = (
    "line", "realize", "schedule", "pass", "kernel", "compile", "jit",
    "run", "copy", "memory", "mark", "span", "level",
)  # fmt: skip
_KIND = {name: number for number, name in enumerate(_KINDS)}

Row = tuple[int, int, int, int, int, float, int]


def is_null(device: str) -> bool:
    """Whether a device only compiles."""
    return device.split(":")[0] == "NULL"


class KernelFacts:
    """What a run of a kernel says of it: the program, its work, the memory of its last run.

    `ast` is the kernel before its opts; `origin` tells kernels of equal ones, also in files.
    """

    __slots__ = (
        "_origin", "ast", "buffers", "device", "lds", "mem", "name", "ops", "program", "serial",
    )  # fmt: skip

    def __init__(self, name: str, device: str, program: Any = None) -> None:
        self.name, self.device, self.program = name, device, program
        self.ops = self.mem = self.lds = 0
        self.serial: int | None = None
        self.buffers: list[weakref.ref[Any]] = []
        self.ast: Any = None
        self._origin = ""

    @property
    def origin(self) -> str:
        """The key of the kernel before its opts; "" where that is not known."""
        if not self._origin and self.ast is not None:
            self._origin = self.ast.key.hex()
        return self._origin

    @origin.setter
    def origin(self, key: str) -> None:
        self._origin = key


class Recorder:
    """Listens to events and passes between `start` and `stop`."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, str, bool, str], int] = {}
        self.names: dict[str, int] = {}
        self.kernels: dict[Any, int] = {}
        self.facts: list[KernelFacts] = []
        self.columns = {name: array(code) for name, code in _CODES.items()}
        self.dropped = 0
        self.start_ns = self.end_ns = 0
        self._rows: list[Row] = []
        self._lock = threading.RLock()
        self._open_passes: dict[int, list[tuple[str, str, int]]] = {}
        self._main = threading.get_ident()
        self._threads: dict[int, int] = {self._main: 1}
        self._has_lines = False

    # *** starting and stopping

    def start(self) -> Recorder:
        """Listen from now on."""
        self.start_ns = events.now_ns()
        for device, used in list(GlobalCounters.mem_used_per_device.items()):
            self._level(device, self.start_ns, used)
        rewrite.listeners.append(self)
        events.attach(self)
        return self

    def stop(self) -> None:
        """Listen no more."""
        with contextlib.suppress(ValueError):
            rewrite.listeners.remove(self)
        events.detach(self)
        self.end_ns = events.now_ns()
        self._flush()

    # *** the listener of events

    def opened(self, event: Event) -> None:
        """Nothing is known of a span before it ends."""

    def closed(self, event: Event) -> None:
        """A span ended, or a point was marked."""
        heard = _HEARD.get(event.kind)
        if heard is not None:
            heard(self, event)

    def _line(self, event: Event) -> None:
        self._has_lines = True
        name = f"{event.data['line']}: {event.name}"
        self._add("line", ("cell lines", "cell"), name, event.start_ns, event.end_ns)

    def _span(self, event: Event) -> None:
        """A stage of the way to kernels; the user's line that asked, if no cell's line is noted."""
        lane = self._stage(event)
        name = ansistrip(event.name)
        program = event.data.get("program")
        if event.kind == "kernel" and program is not None:
            name = f"lower {ansistrip(str(program.arg.name))}"
        elif event.kind == "compile":
            name = f"compile {name}"
        self._add(event.kind, (lane, "compiler"), name, event.start_ns, event.end_ns)
        if event.parent is None and not self._has_lines and event.kind in ("realize", "jit"):
            asked = provenance.user_frames()
            if asked:
                self._add("line", ("user's lines", "cell"), _shown(asked[0]),
                          event.start_ns, event.end_ns)  # fmt: skip

    def _stage(self, event: Event) -> str:
        found = _COMPILER.get(event.kind, "compile")
        parent = event.parent
        while found == "schedule" and parent is not None:
            found = "compile" if parent.kind == "kernel" else found
            parent = parent.parent
        return found

    def _run(self, event: Event) -> None:
        data = event.data
        device, name = str(data["device"]), ansistrip(event.name)
        kernel = self._kernel(name, device, data)
        start, end = data["start_ns"], data["end_ns"]
        # NULL compiles and runs nothing: its times are made up, and must not look measured.
        lane = f"{device} kernels, not run" if is_null(device) else f"{device} kernels"
        self._add("run", (lane, "device"), name, start, end, data["mem"], kernel)

    def _kernel(self, name: str, device: str, data: dict[str, Any]) -> int:
        program = data.get("program")
        key = (device, program if program is not None else name)
        number = self.kernels.get(key)
        if number is None:
            with self._lock:
                number = self.kernels.setdefault(key, len(self.facts))
                if number == len(self.facts):
                    self.facts.append(KernelFacts(name, device, program))
        facts = self.facts[number]
        facts.ops, facts.mem, facts.lds = data["ops"], data["mem"], data["lds"]
        facts.serial = data.get("kernel") or facts.serial
        facts.ast = data.get("ast")
        buffers = data.get("buffers")
        if buffers:
            facts.buffers = [weakref.ref(b) for b in buffers]
        return number

    def _copy(self, event: Event) -> None:
        data = event.data
        start = data.get("start_ns", event.start_ns)
        end = data.get("end_ns", event.end_ns)
        lane = (f"{data['device']} copies", "device")
        self._add("copy", lane, " ".join(ansistrip(event.name).split()), start, end, data["mem"])

    def _memory(self, event: Event) -> None:
        self._level(event.name, event.start_ns, event.data["used"])

    def _level(self, device: str, at_ns: int, used: int) -> None:
        lane = (f"{device} memory", "memory")
        self._add("memory", lane, "memory in use", at_ns, at_ns, used, levels=True)

    def _mark(self, event: Event) -> None:
        point = event.start_ns == event.end_ns
        kind, lane = ("mark", "markers") if point else ("span", "marked")
        self._add(kind, (lane, "marks"), event.name, event.start_ns, event.end_ns)

    # *** the listener of rewriting

    def begin_pass(
        self, name: str, place: Any, root: Any, bottom_up: bool, walk: bool = False,
        enter_calls: bool = False,
    ) -> None:  # fmt: skip
        """A pass begins; its matches are of no interest."""
        lane = "schedule"
        if any(span.kind == "kernel" for span in events.open_spans()):
            lane = "compile"
        thread = threading.get_ident()
        self._open_passes.setdefault(thread, []).append((name, lane, events.now_ns()))

    def end_pass(self, matches: Any, root_after: Any, error: BaseException | None) -> None:
        """A pass ended."""
        stack = self._open_passes.get(threading.get_ident())
        if not stack:
            return
        name, lane, start_ns = stack.pop()
        if not events.is_quiet():
            self._add("pass", (lane, "compiler"), name, start_ns, events.now_ns())

    # *** rows

    def _add(
        self,
        kind: str,
        lane: tuple[str, str],
        name: str,
        start_ns: int,
        end_ns: int,
        value: float = 0.0,
        kernel: int = -1,
        levels: bool = False,
    ) -> None:
        label, group = lane
        if group in ("cell", "compiler"):
            label = self._of_thread(label)
        key = (label, group, levels, "B" if levels else "")
        number = self.lanes.get(key)
        if number is None:
            with self._lock:
                number = self.lanes.setdefault(key, len(self.lanes))
        name_id = self.names.get(name)
        if name_id is None:
            with self._lock:
                name_id = self.names.setdefault(name, len(self.names))
        # One append is one step: memory may be freed, and noted here, between any two steps.
        rows = self._rows
        rows.append((number, _KIND[kind], name_id, start_ns, end_ns, float(value), kernel))
        if len(rows) >= _FLUSH:
            self._flush()

    def _of_thread(self, label: str) -> str:
        thread = threading.get_ident()
        number = self._threads.get(thread)
        if number is None:
            with self._lock:
                number = self._threads.setdefault(thread, len(self._threads) + 1)
        return label if number == 1 else f"{label}, thread {number}"

    def _flush(self) -> None:
        with self._lock:
            rows, self._rows = self._rows, []
            kept = rows[: max(0, MOST_EVENTS - len(self.columns["start"]))]
            self.dropped += len(rows) - len(kept)
            for column, values in zip(self.columns.values(), zip(*kept, strict=True), strict=False):
                column.extend(values)

    def forget(self) -> None:
        """Let the columns go: a table holds what was heard."""
        self.columns = {name: array(code) for name, code in _CODES.items()}

    def snapshot(self) -> EventTable:
        """What was heard so far, as a table."""
        from tinylab.profiler.table import EventTable, Lane

        self._flush()
        lanes = [Lane(*key) for key in self.lanes]
        notices = []
        if self.dropped:
            notices.append(f"{self.dropped} events beyond {MOST_EVENTS} were not kept")
        return EventTable.build(lanes, list(self.names), self.columns, self.start_ns, notices)


_HEARD = {
    "line": Recorder._line,
    "realize": Recorder._span,
    "schedule": Recorder._span,
    "jit": Recorder._span,
    "kernel": Recorder._span,
    "compile": Recorder._span,
    "run": Recorder._run,
    "copy": Recorder._copy,
    "allocate": Recorder._memory,
    "free": Recorder._memory,
    "mark": Recorder._mark,
}


def _shown(frame: provenance.Frame) -> str:
    import linecache

    text = linecache.getline(frame.filename, frame.line).strip()
    return f"{frame.line}: {text}" if text else f"{frame.filename}:{frame.line}"

"""A record: what a stretch of a program did, from tensor graph to timed kernel.

    with tinylab.record() as rec:
        (a @ b).realize()
    rec.passes, rec.kernels, rec.events

It hears rewriting (the listener slot of `uop.rewrite`) and events. While a pass runs it keeps a few
references per match; when the pass ends they are encoded into integers and dropped.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import linecache
import sys
import threading
import time
import weakref
from collections.abc import Hashable
from pathlib import Path
from types import FrameType
from typing import Any

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.helpers.text import ansistrip
from tinylab.trace import events
from tinylab.trace.events import Event
from tinylab.trace.flow import Flow
from tinylab.trace.nodes import MEMO_LIMIT, NodeTable
from tinylab.trace.packing import pack
from tinylab.trace.parts import (
    Cell as Cell,
    KernelRecord as KernelRecord,
    Match as Match,
    PassRecord as PassRecord,
    Site as Site,
    plural,
)
from tinylab.uop import rewrite
from tinylab.uop.ops import PatternMatcher, Rule, UOp

EVENT_LIMIT = 20_000  # of some 600 bytes; beyond that events are counted
_NOT_KEPT = frozenset({"line"})  # kinds that only a profile has a use for
_RUN_LIMIT = 100_000  # times of one kernel, 8 bytes each
# Where it is seen whether a graph comes from lines that are new: within a write in place, say.
_TOP_LAYERS, _TOP_NODES = 5, 256
# A kernel that is lowered bears a number of its own in the process: a record's row numbers would
# mean another kernel to a record that began earlier or later.
_serials = itertools.count(1)


class Matches(list[tuple[Rule, UOp, UOp, int]]):
    """The list that the engine fills during a pass, and the pass it belongs to."""

    __slots__ = ("begun", "own_ns")
    begun: PassRecord | None
    own_ns: int  # what recording had taken when the pass began


class _OwnTime(threading.local):
    """The time that recording itself has taken on this thread, which is no part of any pass."""

    spent_ns = 0


class Record:
    """Everything heard between `start` and `stop`, in compact form."""

    def __init__(self, name: str = "record", cell: Cell | None = None) -> None:
        self.name = name
        self.cell = cell
        self.nodes = NodeTable()
        self.rules: list[Any] = []  # Rules; `facts.RuleFacts` in a record from a file
        self.passes: list[PassRecord] = []
        self.kernels: list[KernelRecord] = []
        self.events: list[Event] = []
        self.events_dropped = 0
        self.notes: dict[int, list[Site]] = {}
        self.error: BaseException | dict[str, Any] | None = None
        self.device = ""
        self.created = time.time()
        self.start_ns = self.end_ns = 0
        self.desk: Any = None  # what answers questions about the record, once one was asked
        self._lock = threading.RLock()
        self._rule_index: dict[int, int] = {}
        self._met: set[Hashable] = set()
        # Of each schedule, by its cache key: the graph that was scheduled, and the sites of its
        # values so far.
        self._scheduled: dict[Hashable, tuple[int, set[Site]]] = {}
        self._open: dict[int, list[Matches]] = {}
        self._kernel_of: dict[int, KernelRecord] = {}
        self._by_serial: dict[int, KernelRecord] = {}
        self._flow = Flow()
        self._own = _OwnTime()
        self._failures: list[tuple[int, BaseException]] = []
        self._batches: tuple[Event | None, int] = (None, 0)
        # Nodes that were made and not yet seen in a pass. Most never are: a loop makes its graph
        # anew each time, and a node must not live (with its memory) because someone looks on.
        self._noted: weakref.WeakKeyDictionary[UOp, list[Site]] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        """In a line: <record "cell" on CPU: 3 kernels, 40 passes, 512 matches>."""
        where = f" on {self.device}" if self.device else ""
        counts = (
            plural(len(self.kernels), "kernel"),
            plural(len(self.passes), "pass"),
            plural(sum(p.count for p in self.passes), "match"),
        )
        facts = self.error_facts()
        ended = f", ended by {facts['type']}" if facts else ""
        return f'<record "{self.name}"{where}: {", ".join(counts)}{ended}>'

    def save(self, path: str | Path) -> None:
        """Write it, and all that can be told of its kernels, to a file for `tinylab.load`.

        Raises: TraceError if the file cannot be written.
        """
        # By name: what answers about kernels is built on records, and is not needed to make one.
        importlib.import_module("tinylab.lab.report").save(self, path)

    # *** starting and stopping

    def start(self) -> Record:
        """Listen from now on."""
        self.start_ns = events.now_ns()
        rewrite.listeners.append(self)
        events.attach(self)
        with _active_lock:
            _active.append(self)
        return self

    def stop(self, error: BaseException | None = None) -> None:
        """Listen no more; passes that an interrupt left open are encoded as far as they came."""
        with contextlib.suppress(ValueError):
            rewrite.listeners.remove(self)
        events.detach(self)
        with _active_lock, contextlib.suppress(ValueError):
            _active.remove(self)
        with self._lock:
            for stack in list(self._open.values()):
                while stack:
                    self.end_pass(stack[-1], None, error)
            self.error = error or self.error
            self.end_ns = events.now_ns()
            self.nodes.close()

    @property
    def failed_pass(self) -> PassRecord | None:
        """The pass in which the error of the cell arose, if it arose in one."""
        chain, error = [], self.error
        while isinstance(error, BaseException) and error not in chain:
            chain.append(error)
            error = error.__cause__ or error.__context__
        for pass_id, raised in self._failures:
            if any(raised is each for each in chain):
                return self.passes[pass_id]
        if isinstance(self.error, dict) and self.error.get("pass_id") is not None:
            return self.passes[self.error["pass_id"]]
        return None

    def error_facts(self) -> dict[str, Any] | None:
        """What ended the cell in plain data: type, message, and the pass and match it arose in."""
        if self.error is None or isinstance(self.error, dict):
            return self.error
        failed = self.failed_pass
        return {
            "type": type(self.error).__name__,
            "message": str(self.error),
            "pass_id": failed.id if failed else None,
            "match": failed.count if failed else None,
        }

    def wants(self, key: Hashable) -> bool:
        """True the first time that this record meets a cache key: then lower again."""
        with self._lock:
            if key in self._met:
                return False
            self._met.add(key)
            return True

    def ran(self, key: Hashable, sink: UOp) -> None:
        """A schedule is run for a graph; equal graphs share it, its kernels and their passes.

        What is noted of the nodes of a later graph is true of those of the first, place by place.
        """
        with self._lock:
            found = self._scheduled.get(key)
            if found is None:
                self._scheduled[key] = (self.nodes.add(sink), set())
                return
            first, known = found
            new = {site for x in _top_of(sink) for site in self._noted.get(x, ())} - known
            if new:  # a loop brings the same lines again and again
                known |= new
                self._note_alike(first, sink)

    def _note_alike(self, first: int, sink: UOp) -> None:
        nodes = self.nodes
        stack: list[tuple[int, UOp]] = [(first, sink)]
        seen: set[UOp] = set()
        while stack:
            row, uop = stack.pop()
            below = nodes.src(row)
            if uop in seen or nodes.head(row).op is not uop.op or len(below) != len(uop.src):
                continue
            seen.add(uop)
            known = self.notes.setdefault(row, []) if uop in self._noted else []
            known.extend(site for site in self._noted.get(uop, ()) if site not in known)
            stack.extend(zip(below, uop.src, strict=True))

    # *** the listener of rewriting

    def begin_pass(
        self,
        name: str,
        place: tuple[str, int],
        root: UOp,
        bottom_up: bool,
        walk: bool = False,
        enter_calls: bool = False,
    ) -> Matches:
        """A pass begins; the engine appends (rule, before, after, elapsed_ns) to what it gets."""
        matches = Matches()
        matches.begun = None
        if events.is_quiet():
            return matches
        entered_ns = events.now_ns()
        thread = threading.get_ident()
        stage, kernel, batch = self._place()
        with self._lock:
            stack = self._open.setdefault(thread, [])
            begun = PassRecord(
                id=len(self.passes),
                name=name,
                place=place,
                bottom_up=bottom_up,
                root_before=self.nodes.add(root),
                stage=stage,
                batch=batch,
                kernel=kernel,
                parent=_id_of(stack[-1]) if stack else None,
                walk=walk,
                enter_calls=enter_calls,
            )
            self.passes.append(begun)
            matches.begun = begun
            if not stack and kernel is None and self._noted:
                self._take_notes()
            begun.start_ns = events.now_ns()
            self._own.spent_ns += begun.start_ns - entered_ns
            matches.own_ns = self._own.spent_ns
            stack.append(matches)  # whole: another thread may stop the record, and close it
        return matches

    def end_pass(
        self,
        matches: list[tuple[Rule, UOp, UOp, int]],
        root_after: UOp | None,
        error: BaseException | None,
    ) -> None:
        """A pass ends: encode its matches, drop the references."""
        assert isinstance(matches, Matches), "the list that begin_pass returned"
        ended = matches.begun
        if ended is None:
            return
        now_ns = events.now_ns()
        nested_ns = self._own.spent_ns - matches.own_ns
        # A pass that is closed from another thread has that thread's time: leave it whole.
        ended.elapsed_ns = now_ns - ended.start_ns - max(0, nested_ns)
        self._encode_end(ended, matches, root_after, error)
        self._own.spent_ns += events.now_ns() - now_ns

    def _encode_end(
        self,
        ended: PassRecord,
        matches: Matches,
        root_after: UOp | None,
        error: BaseException | None,
    ) -> None:
        with self._lock:
            stack = self._leave(matches)
            self._encode(ended, matches)
            if root_after is not None:
                ended.root_after = self.nodes.add(root_after)
            if error is not None:
                self._note_failure(ended, error)
            if not stack:
                self.nodes.forget_uops(MEMO_LIMIT)

    def _note_failure(self, ended: PassRecord, error: BaseException) -> None:
        ended.error = _in_words(error)
        self._failures = [*self._failures[-7:], (ended.id, error)]
        # An interrupt falls where the time was spent: no rule raised it.
        tried = _tried_when_raised(error) if isinstance(error, Exception) else None
        if tried is not None:
            ended.failed_rule, ended.failed_node = self._rule_id(tried[0]), self.nodes.add(tried[1])

    def _leave(self, matches: Matches) -> list[Matches]:
        """Take a pass, and what was left open inside it, from the stack it is on."""
        own = self._open.get(threading.get_ident())
        if own and own[-1] is matches:
            own.pop()
            return own
        for stack in self._open.values():
            for depth, each in enumerate(stack):
                if each is matches:
                    del stack[depth:]
                    return stack
        return []

    def _encode(self, ended: PassRecord, matches: Matches) -> None:
        add = self.nodes.add
        ended.count = len(matches)
        if not matches:
            return
        columns = [self._rule_id(m[0]) for m in matches]
        columns += [add(m[1]) for m in matches]
        columns += [add(m[2]) for m in matches]
        columns += [min(m[3], 0xFFFFFFFF) for m in matches]
        ended.block = pack(columns)

    def _rule_id(self, rule: Rule) -> int:
        found = self._rule_index.get(id(rule))
        if found is None:
            found = self._rule_index[id(rule)] = len(self.rules)
            self.rules.append(rule)
        return found

    def _place(self) -> tuple[str, int | None, int]:
        """Where the passes that begin now belong: (stage, kernel, batch)."""
        stage, kernel, batch = "tensor graph", None, 0
        for event in events.open_spans():
            if event.kind == "kernel":
                stage = "kernel"
                kernel = (self._kernel_of.get(id(event)) or self._open_kernel(event)).id
            elif event.kind == "schedule":
                stage = "schedule"
            elif event.kind == "realize":
                batch = self._batch_of(event)
        return stage, kernel, batch

    def _batch_of(self, event: Event) -> int:
        """The number of a realize."""
        if event is not self._batches[0]:
            self._batches = (event, self._batches[1] + 1)
        return self._batches[1]

    # *** the listener of events

    def opened(self, event: Event) -> None:
        """A span begins; kernels get their row at once, so that an interrupt loses none."""
        if event.kind == "kernel":
            self._open_kernel(event)

    def closed(self, event: Event) -> None:
        """A span ended, or a point was marked."""
        if event.kind in _NOT_KEPT:
            return
        with self._lock:
            if event.kind == "kernel":
                self._close_kernel(event)
            elif event.kind == "run":
                self._add_run(event)
            elif event.kind == "copy" and event.data.get("buffers"):
                self._flow.copied(*event.data.pop("buffers"))
            if len(self.events) < EVENT_LIMIT:
                self.events.append(event)
            else:
                self.events_dropped += 1

    def _open_kernel(self, event: Event) -> KernelRecord:
        with self._lock:
            around = [e for e in events.open_spans() if e.kind == "realize"]
            batch = self._batch_of(around[0]) if around else 0
            kernel = KernelRecord(len(self.kernels), ansistrip(event.name), event.data, batch)
            self.kernels.append(kernel)
            self._kernel_of[id(event)] = kernel
            serial = event.data.setdefault("kernel", next(_serials))
            self._by_serial[serial] = kernel
            return kernel

    def kernel_of(self, event: Event) -> KernelRecord | None:
        """The kernel that an event is about; None for one that this record did not see lowered."""
        return self.kernel_of_serial(event.data.get("kernel"))

    def kernel_of_serial(self, serial: int | None) -> KernelRecord | None:
        """The kernel of a number that events carry."""
        return None if serial is None else self._by_serial.get(serial)

    def _close_kernel(self, event: Event) -> None:
        kernel = self._kernel_of.pop(id(event), None) or self._open_kernel(event)
        self._kernel_of.pop(id(event), None)
        data = kernel.data
        kernel.start_ns, kernel.elapsed_ns = event.start_ns, event.elapsed_ns
        kernel.ast, kernel.program = data.get("ast"), data.get("program")
        if kernel.program is not None:
            kernel.name = ansistrip(str(kernel.program.arg.name))
        kernel.cached = bool(data.get("cached"))
        kernel.device = str(data.get("device") or "")
        if kernel.ast is not None:
            kernel.ast_id = self.nodes.add(kernel.ast)
        if data.get("call") is not None:
            kernel.call_id = self.nodes.add(data["call"])
        # What only this kernel's passes made can go now, as it would without a record.
        self.nodes.forget_uops()
        if event.error is not None:
            kernel.error = _in_words(event.error)

    def _add_run(self, event: Event) -> None:
        buffers = event.data.pop("buffers", ())
        kernel = self.kernel_of(event)
        if kernel is None:
            return
        start, end = event.data.get("start_ns"), event.data.get("end_ns")
        if start is None or end is None:
            start, end = event.start_ns, event.end_ns
        if len(kernel.runs_ns) < _RUN_LIMIT:
            kernel.runs_ns.append(max(0, end - start))
        kernel.captured = [weakref.ref(b) for b in buffers]
        kernel.reads |= self._flow.ran(kernel.id, buffers, kernel.ins, kernel.outs)

    # *** provenance

    def note(self, uop: UOp, frames: tuple[Any, ...], method: str) -> None:
        """A tensor node was made by a method, from these lines of the user's code."""
        site = (frames, method)
        with self._lock:
            sites = self._noted.setdefault(uop, [])
            if site not in sites:
                sites.append(site)

    def _take_notes(self) -> None:
        """Keep what was noted of nodes that passes have met."""
        for uop, sites in list(self._noted.items()):
            node = self.nodes.known(uop)
            if node is not None:
                known = self.notes.setdefault(node, [])
                known.extend(site for site in sites if site not in known)
                del self._noted[uop]


def _in_words(error: BaseException) -> str:
    """Its type and what it says: "CompileError: no room"; "interrupted" for the stop button."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    name = type(error).__name__
    return ansistrip(f"{name}: {error}") if str(error) else name


def _top_of(sink: UOp) -> list[UOp]:
    """The upper nodes of a graph."""
    found = layer = [sink]
    for _ in range(_TOP_LAYERS):
        layer = [s for x in layer for s in x.src][:_TOP_NODES]
        found = found + layer
    return found


def _tried_when_raised(error: BaseException) -> tuple[Rule, UOp] | None:
    """The rule and the node that were being matched when an error was raised.

    Read from the traceback, so that matching need not keep track of it. It begins at the pass that
    ends: the first rule in it is that pass's, later ones belong to passes inside.
    """
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is PatternMatcher.find.__code__:
            names = trace.tb_frame.f_locals
            rule, node = names.get("rule"), names.get("uop")
            return (rule, node) if isinstance(rule, Rule) and isinstance(node, UOp) else None
        trace = trace.tb_next
    return None


def _id_of(matches: Matches) -> int | None:
    return matches.begun.id if matches.begun is not None else None


def _calling_cell() -> Cell | None:
    """The text around the ``with`` that is being entered."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
        frame = frame.f_back
    if frame is None:
        return None
    filename = frame.f_code.co_filename
    return Cell("".join(linecache.getlines(filename)), filename)


_active: list[Record] = []
_active_lock = threading.Lock()


def active() -> list[Record]:
    """The records that listen now, oldest first."""
    return list(_active)


def ran(key: Hashable, sink: UOp) -> None:
    """A schedule with this cache key is run for a graph."""
    for each in active():
        each.ran(key, sink)


def wants(key: Hashable) -> bool:
    """Whether a record listens that has not met this cache key: then lower again."""
    wanted = False
    for each in _active:  # every record is asked: each must remember that it met the key
        wanted = each.wants(key) or wanted
    return wanted and not events.is_quiet()


@explained
def record(name: str = "record", cell: Cell | None = None) -> Recording:
    """Record what is compiled and run inside a ``with`` block.

    `cell` is the user's code, the file or cell of the caller if not given. An exception passes
    through; what was recorded up to it stays in the record.

    Raises: CaptureError where one is entered again: each block has a record of its own.
    """
    return Recording(name, cell)


class Recording(contextlib.ContextDecorator):
    """What `record` gives: for one ``with`` block; as a decorator, for each call."""

    def __init__(self, name: str, cell: Cell | None) -> None:
        self._name, self._cell = name, cell
        self._record: Record | None = None

    def _recreate_cm(self) -> Recording:
        return Recording(self._name, self._cell)

    def __enter__(self) -> Record:
        if self._record is not None:
            raise CaptureError(
                f'the record "{self._name}" was entered before, and holds what was done then',
                help="call tinylab.record() for each block",
            )
        self._record = Record(self._name, self._cell or _calling_cell()).start()
        return self._record

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        assert self._record is not None, "left without being entered"
        if error is not None or self._record.end_ns == 0:
            self._record.stop(error)

"""Runs a kernel where it can do no harm: in a process of its own, under a time limit.

    job = Job("kernel", source, buffers=[Slot("data0", 64, output=True)])
    outcome = Worker.shared().run(job)
    outcome.status, outcome.message   # "crashed", "it stored to data0 at byte 64, ..."
    outcome.outputs[0], outcome.median_us

Whatever the kernel does (a stray pointer, an endless loop, a mistake in its assembly) this process
gets a sentence. Measured on two cores of Zen 5: an object runs and is answered in 1 ms, text in 5,
after a crash the next job has a new worker in 6 (25 when both cores are busy).
"""

from __future__ import annotations

import atexit
import contextlib
import mmap
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinylab.errors import WorkerError
from tinylab.runtime.isolated.channel import Channel, Closed
from tinylab.runtime.isolated.memory import (
    PAGE,
    Fault,
    explain,
    fill_padding,
    overwritten,
    plan,
)

_COMPILE_LIMIT_S = 60.0
_START_LIMIT_S = 30.0
# What a worker does is no part of the process that VIZ and the like look on at.
_QUIET = dict.fromkeys(("DEBUG", "VIZ", "PROFILE", "TRACK_MATCH_STATS"), "0")


@dataclass(frozen=True)
class Slot:
    """A buffer of a kernel: its name, its size in bytes, its bytes before the run, its use."""

    name: str
    size: int
    data: bytes | bytearray | memoryview | None = None  # None is zeros
    output: bool = False


@dataclass(frozen=True)
class Job:
    """A kernel and what to call it with.

    code is LLVM IR (str) or an object file (bytes) that defines ``name`` with the CPU's one
    signature; with ``listing`` the text that the PYTHON device interprets, whose buffers are named
    data and their slot.
    """

    name: str
    code: str | bytes
    buffers: Sequence[Slot] = ()
    vals: Sequence[int | None] = ()
    parts: int = 1  # of a THREAD axis: global_size[0]
    listing: bool = False
    grid: Sequence[int] = (1, 1, 1)  # of a listing, as its group
    group: Sequence[int] | None = None
    arch: str = ""
    assembly: bool = False  # whether the text of its machine code is wanted
    events: Sequence[str] = ()  # of `helpers.perf_events`, counted after the clock has run


@dataclass
class Outcome:
    """How a job ended. status: ok, or what went wrong.

    refused: it was not compiled; crashed; timeout; stopped: by ``Worker.stop``; wrong: it ran, but
    wrote where it must not.
    """

    status: str
    message: str = ""
    outputs: dict[int, bytes] = field(
        default_factory=dict
    )  # by position, as the first run left them
    samples_ns: list[float] = field(default_factory=list)  # time of one run, each
    first_ns: float = 0.0  # the first run, caches cold
    assembly: str = ""
    log: str = ""  # what the compiler printed
    events: dict[str, dict[str, float]] = field(default_factory=dict)  # value over all runs, share
    missing_events: dict[str, str] = field(default_factory=dict)  # and why they are missing
    event_runs: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ran to the end and stayed inside its buffers."""
        return self.status == "ok"

    @property
    def median_us(self) -> float:
        """The middle of the samples."""
        return statistics.median(self.samples_ns) / 1e3 if self.samples_ns else 0.0

    @property
    def p10_us(self) -> float:
        """A tenth of the samples is faster."""
        return _quantile(self.samples_ns, 0.1) / 1e3

    @property
    def p90_us(self) -> float:
        """A tenth of the samples is slower."""
        return _quantile(self.samples_ns, 0.9) / 1e3


def _quantile(samples: Sequence[float], q: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class Worker:
    """Runs one job at a time; makes its process anew when a job has cost it the old one."""

    _shared: Worker | None = None
    _shared_lock = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._stopped = False

    @classmethod
    def shared(cls) -> Worker:
        """The one that every bench of this process uses; after a fork a new one."""
        with cls._shared_lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    def run(
        self,
        job: Job,
        limit_s: float = 5.0,
        budget_s: float = 0.1,
        accept: Callable[[Outcome], bool] | None = None,
    ) -> Outcome:
        """Runs a job once and, for ``budget_s``, for the clock (0: not at all).

        ``accept`` sees the outputs before the clock runs, and may say that it need not. An
        interrupt (the stop button) ends the job's process and is passed on.

        Raises: WorkerError if no process can be started.
        """
        with self._lock:
            self._stopped = False
            outcome = self._once(job, limit_s, budget_s, accept)
            if outcome.status == "lost" and not self._stopped:
                # No kernel can end a process without a trace: the process was at fault.
                outcome = self._once(job, limit_s, budget_s, accept)
            if outcome.status == "lost":
                outcome.status = "crashed"
            if self._stopped and outcome.status != "ok":
                outcome = Outcome("stopped", "it was stopped")
            return outcome

    def _once(
        self,
        job: Job,
        limit_s: float,
        budget_s: float,
        accept: Callable[[Outcome], bool] | None,
    ) -> Outcome:
        if self._child is None:
            self._child = _new_child()
        if self._stopped:  # while its process was made
            return Outcome("stopped")
        session = _Session(self._child, job, limit_s, budget_s, accept)
        try:
            outcome = session.run()
        except BaseException:
            self._drop()
            raise
        finally:
            session.close()
        if not session.alive:
            self._child = None
        return outcome

    def stop(self) -> None:
        """Ends the job that another thread is running, at once."""
        self._stopped = True
        child = self._child
        if child is not None and self._lock.locked():
            child.end()

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


# *** the processes


class _Nursery:
    """The process that forks workers; started once, and again if it is gone."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(pathlib.Path(__file__).parents[2])
        code = (
            f"import sys; sys.path.insert(0, {root!r})\n"
            f"from tinylab.runtime.isolated.child import main; main({theirs.fileno()})"
        )
        try:
            # A session of its own: an interrupt of the notebook is no business of the workers.
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | _QUIET,
            )
        except OSError as e:
            raise WorkerError(f"no worker process can be started: {e}") from e
        finally:
            theirs.close()
        self.channel, self.lock, self.pid = Channel(ours), threading.Lock(), os.getpid()
        try:
            self.channel.receive(_START_LIMIT_S)
        except (Closed, TimeoutError):
            raise WorkerError(
                "the worker process does not start",
                help=f"try: {sys.executable} -c 'import tinylab.runtime.isolated.child'",
            ) from None

    def ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> dict[str, Any]:
        """One request, one answer."""
        with self.lock:
            self.channel.send(request, files=files)
            return self.channel.receive(_START_LIMIT_S)[0]

    def fork(self) -> _Child:
        """A new worker.

        Raises: Closed or TimeoutError if the process is gone, or does not answer.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        log, page = _shared_file(0), _shared_file(PAGE)
        try:
            pid = self.ask({"do": "fork"}, [theirs.fileno(), log, page])["pid"]
        finally:
            theirs.close()
        return _Child(self, pid, Channel(ours), log, page)

    def close(self) -> None:
        """Ends it and all its workers."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)


_current: _Nursery | None = None
_current_lock = threading.Lock()


def _nursery() -> _Nursery:
    global _current
    with _current_lock:
        if _current is None or _current.pid != os.getpid() or _current.process.poll() is not None:
            if not hasattr(os, "fork") or not hasattr(socket, "send_fds"):
                raise WorkerError(
                    f"kernels cannot be run apart on {sys.platform}",
                    help="Linux and macOS can; on Windows use WSL",
                )
            _current = _Nursery()
            atexit.register(_current.close)
        return _current


def _new_child() -> _Child:
    """A new worker, of a new nursery where the old one has ended and was not seen to.

    Raises: WorkerError if that one ends too.
    """
    global _current
    for _ in range(2):
        try:
            return _nursery().fork()
        except (Closed, TimeoutError):
            with _current_lock:
                _current = None
    raise WorkerError(
        "the processes that run kernels end as soon as they begin",
        help="run it again; if that does not help, restart the kernel",
    )


class _Child:
    """One worker as its parent sees it."""

    def __init__(self, nursery: _Nursery, pid: int, channel: Channel, log: int, page: int) -> None:
        self.nursery, self.pid, self.channel, self.log, self.page = nursery, pid, channel, log, page
        self.status: int | None = None

    def end(self) -> int:
        """Ends the process; how it ended, if it did so by itself before."""
        if self.status is None:
            try:
                self.status = int(self.nursery.ask({"do": "end", "pid": self.pid})["status"])
            except (Closed, TimeoutError):
                self.status = 0  # the nursery took it along
        return self.status

    def fault(self) -> Fault | None:
        """What its signal handler wrote."""
        found = Fault(*struct.unpack("<iiQQQQ", os.pread(self.page, 40, 0)))
        return found if found.signal else None

    def printed(self) -> str:
        """What was written to its standard output and error."""
        size = os.fstat(self.log).st_size
        return os.pread(self.log, size, 0).decode(errors="replace").strip()

    def __del__(self) -> None:
        for file in (self.log, self.page):
            with contextlib.suppress(OSError):
                os.close(file)
        self.channel.close()


def _shared_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("tinylab")
    else:
        with tempfile.TemporaryFile() as f:
            file = os.dup(f.fileno())
    os.truncate(file, size)
    return file


# *** one job


class _Session:
    """A job in a child, from the first message to the outcome."""

    def __init__(
        self,
        child: _Child,
        job: Job,
        limit_s: float,
        budget_s: float,
        accept: Callable[[Outcome], bool] | None,
    ) -> None:
        self.child, self.job, self.limit_s, self.budget_s = child, job, limit_s, budget_s
        self.accept, self.alive = accept, True
        self.regions, size = plan([(b.name, b.size) for b in job.buffers])
        self.file = _shared_file(size)
        self.memory = mmap.mmap(self.file, size)
        self.addresses: list[int] = []
        self.assembly = ""

    def close(self) -> None:
        """Gives the buffers back."""
        self.memory.close()
        os.close(self.file)

    def run(self) -> Outcome:
        """The outcome, whatever happens in the child."""
        self._fill()
        try:
            outcome = self._run()
        except TimeoutError:
            self.alive = False
            self.child.end()
            outcome = Outcome("timeout", f"it did not finish within {self.limit_s:g} s")
        except Closed:
            self.alive = False
            outcome = self._after_death()
        outcome.assembly = self.assembly
        return outcome

    def _fill(self) -> None:
        for region, slot in zip(self.regions, self.job.buffers, strict=True):
            fill_padding(self.memory, region)
            if slot.data is not None:
                data = memoryview(slot.data).cast("B")
                if len(data) != slot.size:
                    raise WorkerError(f"{slot.name} has {slot.size} bytes, {len(data)} are given")
                self.memory[region.data : region.end] = data

    def _run(self) -> Outcome:
        job, channel = self.job, self.child.channel
        text = isinstance(job.code, str)
        request = {
            "name": job.name,
            "kind": "listing" if job.listing else "text" if text else "object",
            "grid": list(job.grid),
            "group": None if job.group is None else list(job.group),
            "arch": job.arch,
            "assembly": job.assembly,
            "parts": job.parts,
            "events": list(job.events),
            "vals": [v or 0 for v in job.vals],
            "regions": self.regions,
        }
        blob = job.code.encode() if isinstance(job.code, str) else job.code
        try:
            channel.send(request, blob, [self.file])
        except Closed:  # before it could take the job
            self.alive = False
            self.child.end()
            return Outcome("lost", "its process was ended before")
        answer = self._receive(_COMPILE_LIMIT_S)
        if "assembly" in answer:
            self.assembly = answer["assembly"]
            answer = self._receive(_COMPILE_LIMIT_S)
        if "refused" in answer:
            return Outcome("refused", answer["refused"])
        self.addresses = answer["mapped"]
        ran = self._receive(self.limit_s)
        if "failed" in ran:
            return Outcome("crashed", ran["failed"])
        outcome = self._check()
        outcome.first_ns = ran["ran"]
        wanted = outcome.ok and self.budget_s > 0 and (self.accept is None or self.accept(outcome))
        channel.send({"do": "time" if wanted else "no", "budget_ns": int(self.budget_s * 1e9)})
        if wanted:
            timed = self._receive(self.limit_s + self.budget_s * (2 if job.events else 1))
            outcome.samples_ns, outcome.first_ns = timed["samples"], timed["first_ns"]
            if job.events:
                outcome.events, outcome.missing_events = timed["events"], timed["missing"]
                outcome.event_runs = timed["event_runs"]
        return outcome

    def _receive(self, limit_s: float) -> dict[str, Any]:
        return self.child.channel.receive(limit_s)[0]

    def _check(self) -> Outcome:
        """The outputs, or what the kernel wrote that is none."""
        outcome = Outcome("ok")
        for i, (region, slot) in enumerate(zip(self.regions, self.job.buffers, strict=True)):
            at = overwritten(self.memory, region)
            if at is not None:
                where = "before its start" if at < 0 else "past its end"
                return Outcome(
                    "wrong",
                    f"it stored to {slot.name} at byte {at}, {where} (it has {slot.size} bytes)",
                )
            if slot.output:
                outcome.outputs[i] = self.memory[region.data : region.end]
            elif not _same(self.memory[region.data : region.end], slot.data):
                return Outcome("wrong", f"it stored to {slot.name}, which is an input")
        return outcome

    def _after_death(self) -> Outcome:
        status = self.child.end()
        fault, printed = self.child.fault(), self.child.printed()
        if fault is not None and self.addresses:
            return Outcome("crashed", explain(fault, self.regions, self.addresses), log=printed)
        ours = "Traceback (most recent call last)" in printed  # Python's word, not the compiler's
        if printed and not self.addresses and not ours:
            return Outcome("refused", f"the compiler gave up: {_first_line(printed)}", log=printed)
        if os.WIFSIGNALED(status):
            return Outcome("crashed", f"it was ended by signal {os.WTERMSIG(status)}", log=printed)
        said = f": {printed.splitlines()[-1]}" if printed else " without a word"
        return Outcome("lost", f"its process ended{said}", log=printed)


def _same(found: bytes, given: bytes | bytearray | memoryview | None) -> bool:
    return found == (bytes(len(found)) if given is None else given)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0])

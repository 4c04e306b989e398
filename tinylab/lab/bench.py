"""One kernel with other opts: compiled, run apart, checked against the unedited one, timed, kept.

Candidates run in a worker process, so that whatever they do becomes a message. The unedited kernel
is timed in the same minutes, in turns with the edited one: A B, B A, A B ...
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinylab.errors import LabError, TinylabError, WorkerError
from tinylab.lab.compare import Difference, compare, shaken
from tinylab.lab.graph import Json
from tinylab.lab.kernels import (
    Kernels,
    assembly_lines,
    axes,
    elapsed,
    opt_json,
    opts_from_json,
    part,
    rate,
    sentence,
    source_lines,
)
from tinylab.lab.work import Work, useful_work
from tinylab.lab.worker import Job, Outcome, Slot, Worker
from tinylab.opcodes import Ops
from tinylab.profiler.inputs import inputs_for
from tinylab.trace import events
from tinylab.trace.record import KernelRecord, Record

if TYPE_CHECKING:
    from tinylab.codegen.opt import Opt
    from tinylab.uop.ops import UOp

ROUNDS = 9
_LEAST_ROUNDS = 3
_CLEAR_S, _CLEAR_RATIO = 1.0, 2.0  # timed for so long, and so far apart in each round: enough
_LONGEST_S = 4.0  # of timing, after the least rounds
LIMIT_S = 5.0  # the least time limit of a run
_SLOWER = 20  # a run may take so many times what the unedited kernel takes
_LEAST_FLOPS = 1e8  # a second: a loop that misses the cache at each load does as much
_SLOW_NS = 0.5e9  # a run of more is a sample by itself: no five more of it for each round
_BUDGET_S = 0.008  # of each kernel in each round
SAME_CODE = "these opts give the same code as the unedited kernel"
Progress = Callable[[str], None]


@dataclass
class Tried:
    """One set of opts that was tried; `id` 0 is the unedited kernel."""

    id: int
    opts: list[Json]
    status: str = "ok"
    message: str = ""
    samples_ns: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)  # of a round each: to the unedited kernel
    work: Work | None = None  # of the unedited kernel: work that opts add is no gain
    difference: Difference | None = None
    source: list[Json] = field(default_factory=list)
    assembly: list[Json] = field(default_factory=list)

    def row(self) -> Json:
        """The line of the history, see `messages.HistoryRow`."""
        times = sorted(self.samples_ns)
        median = statistics.median(times) if times else None
        low, high = self.ratio_range
        return {
            "id": self.id,
            "opts": self.opts,
            "status": self.status,
            "message": self.message,
            "median_us": None if median is None else median / 1000,
            "p10_us": times[len(times) // 10] / 1000 if times else None,
            "p90_us": times[min(len(times) - 1, len(times) * 9 // 10)] / 1000 if times else None,
            "runs": len(times),
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "ratio_low": low,
            "ratio_high": high,
            "gflops": rate(self.work.flops or None, median) if self.work else None,
            "gops": rate(self.work.other or None, median) if self.work else None,
            "max_error": self.difference.largest if self.difference else None,
            "source": self.source,
            "assembly": self.assembly,
        }

    @property
    def ratio_range(self) -> tuple[float | None, float | None]:
        """Between which ratios the true median lies in 96 % of cases; None with one round.

        The second lowest and the second highest of nine (order statistics: Conover, "Practical
        Nonparametric Statistics", 3.2); of fewer, which slow kernels have, the lowest and the
        highest: 97 % of cases for six, 75 % for three. Faster and slower mean that 1 is outside.
        """
        ordered = sorted(self.ratios)
        if len(ordered) < 2:
            return None, None
        return (ordered[1], ordered[-2]) if len(ordered) >= ROUNDS else (ordered[0], ordered[-1])


class Bench:
    """What was tried on the kernels of a record."""

    def __init__(self, record: Record, kernels: Kernels) -> None:
        self.record = record
        self.kernels = kernels
        self._tried: dict[int, list[Tried]] = {}
        self._running: int | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()  # one candidate at a time: two would spoil the clock

    @property
    def is_stopped(self) -> bool:
        """Whether the run that is going on was told to end."""
        return self._stop.is_set()

    def history(self, kernel: int) -> list[Json]:
        """What was tried on a kernel, oldest first."""
        return [tried.row() for tried in self._tried.get(kernel, ())]

    def row(self, number: int, row: int) -> Json:
        """One row of a kernel's history, with its source; of the unedited kernel too.

        Raises: LabError if there is none.
        """
        kernel, tried = self.kernels.get(number), self._tried.get(number, [])
        if not isinstance(row, int) or not 0 <= row < len(tried):
            raise LabError(f"kernel {number} has no run {row}: it has {len(tried)}")
        found = tried[row].row()
        if row == 0:
            page = self.kernels.detail(kernel.id, [])
            found.update(source=page["source"], assembly=page["assembly"])
        return found

    def stop(self, kernel: int) -> Json:
        """End the run that is going on for this kernel, at once."""
        running = self._running == kernel
        if running:
            self._stop.set()
            Worker.shared().stop()
        return {"stopped": running}

    def run(
        self,
        number: int,
        opts: Sequence[Json],
        progress: Progress = lambda text: None,
        limit_s: float | None = None,
    ) -> Json:
        """Try a kernel with these opts; the row says how it went, also when it was refused.

        One run may take `limit_s`; not given, what suits the kernel.

        Raises: LabError for a limit that is none.
        """
        kernel = self.kernels.get(number)
        check_limit(limit_s)
        with self.busy(kernel):
            return self._try(kernel, opts_from_json(opts), progress, limit_s).row()

    @contextlib.contextmanager
    def busy(self, kernel: KernelRecord) -> Iterator[None]:
        """Alone with the worker, for a kernel that `stop` may name."""
        with self._lock, events.quietly():
            self._running = kernel.id
            self._stop.clear()
            try:
                yield
            finally:
                self._running = None

    def _try(
        self, kernel: KernelRecord, opts: list[Opt], progress: Progress, limit_s: float | None
    ) -> Tried:
        history = self._tried.setdefault(kernel.id, [])
        if not history:
            history.append(
                Tried(0, [opt_json(o) for o in self._own_opts(kernel)], message="as run")
            )
        tried = Tried(len(history), [opt_json(opt) for opt in opts])
        history.append(tried)
        progress("compiling")
        try:
            edited = recompiled(kernel, opts)
        except TinylabError as error:
            tried.status, tried.message = "refused", self._why_refused(kernel, opts, error)
            return tried
        tried.work = useful_work(kernel)
        tried.source = source_lines(edited)
        tried.assembly = assembly_lines(edited, tried.source)
        history[0].work = tried.work
        try:
            self._measure(kernel, edited, history[0], tried, progress, limit_s)
        except WorkerError as error:
            tried.status, tried.message = "crashed", sentence(error)
        if tried.status == "ok" and not tried.message and _same_code(tried.source, kernel):
            tried.message = SAME_CODE
        return tried

    @staticmethod
    def _own_opts(kernel: KernelRecord) -> Sequence[Opt]:
        sink = part(kernel, Ops.SINK)
        return getattr(sink.arg, "applied_opts", ()) if sink is not None else ()

    @staticmethod
    def _why_refused(kernel: KernelRecord, opts: list[Opt], error: TinylabError) -> str:
        """The sentence, with the opt that it is about."""
        try:
            problem = axes(kernel, opts)[1]
        except TinylabError:  # there is no such kernel here, or no such device: as `error` says
            problem = None
        return str(problem["message"]) if problem else sentence(error)

    def _measure(
        self,
        kernel: KernelRecord,
        edited: KernelRecord,
        own: Tried,
        tried: Tried,
        progress: Progress,
        limit_s: float | None,
    ) -> None:
        """Run both on the same inputs, compare what they leave, then time them in turns."""
        try:
            refuse_if_it_cannot_run(kernel)
            inputs = inputs_for(kernel)
            jobs = [job_of(kernel, inputs), job_of(edited, inputs)]
        except LabError as error:
            tried.status = "compiled"
            tried.message = f"compiled, not run: {error.message}"
            return
        progress("running the unedited kernel")
        expected = self._once(jobs[0], limit_s or limit_of(tried.work, elapsed(kernel)))
        if not expected.ok:
            tried.status = expected.status
            tried.message = f"the unedited kernel: {expected.message}"
            return
        progress("running and comparing")
        limit_s = limit_s or limit_of(tried.work, expected.first_ns)
        found = self._once(jobs[1], limit_s)
        if not found.ok:
            tried.status, tried.message = found.status, found.message
            return
        tried.difference = compare(kernel, expected.outputs, found.outputs)
        if not tried.difference.within:  # unless it is what rounding does where terms cancel
            moved = self._once(job_of(kernel, shaken(kernel, inputs)), limit_s)
            if moved.status == "stopped":
                tried.status, tried.message = moved.status, moved.message
                return
            tried.difference = compare(kernel, expected.outputs, found.outputs, moved.outputs)
        if not tried.difference.within:
            tried.status, tried.message = "wrong", tried.difference.message
            return
        if max(expected.first_ns, found.first_ns) > _SLOW_NS:
            own.samples_ns.append(expected.first_ns)
            tried.samples_ns.append(found.first_ns)
            own.ratios, tried.ratios = [1.0], [found.first_ns / expected.first_ns]
        else:
            self._time(jobs, own, tried, progress)

    def _once(self, job: Job, limit_s: float) -> Outcome:
        if self._stop.is_set():
            return Outcome("stopped", "it was stopped")
        outcome = Worker.shared().run(job, limit_s, 0)
        if outcome.status == "timeout":
            outcome.message += "; `run` takes a longer limit, such as limit=600"
        return outcome

    def _time(self, jobs: list[Job], own: Tried, tried: Tried, progress: Progress) -> None:
        own.ratios = [1.0]
        begun = time.monotonic()
        for turn in range(ROUNDS):
            if is_enough(tried.ratios, time.monotonic() - begun):
                break
            if self._stop.is_set():
                tried.message = "stopped while timing"
                break
            progress(f"timing, round {turn + 1} of {ROUNDS}")
            pair: list[Outcome] = [Outcome("stopped"), Outcome("stopped")]
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                pair[which] = Worker.shared().run(jobs[which], LIMIT_S, _BUDGET_S)
            if not (pair[0].samples_ns and pair[1].samples_ns):
                bad = next(outcome for outcome in pair if not outcome.samples_ns)
                tried.message = f"timing ended: {bad.message or bad.status}"
                break
            own.samples_ns += pair[0].samples_ns
            tried.samples_ns += pair[1].samples_ns
            tried.ratios.append(pair[1].median_us / pair[0].median_us)


def is_enough(ratios: Sequence[float], spent_s: float) -> bool:
    """Whether more rounds of slow kernels would be waited for in vain.

    [90.1, 92.3, 91.8], 1.9 s -> True;  [1.1, 1.2, 1.1], 1.9 s -> False, 4.1 s -> True
    """
    if len(ratios) < _LEAST_ROUNDS or spent_s < _CLEAR_S:
        return False
    is_clear = min(ratios) > _CLEAR_RATIO or max(ratios) < 1 / _CLEAR_RATIO
    return is_clear or spent_s > _LONGEST_S


def _same_code(source: Sequence[Json], kernel: KernelRecord) -> bool:
    own = source_lines(kernel)
    return [line["text"] for line in source] == [line["text"] for line in own]


def limit_of(work: Work | None, own_ns: float | None) -> float:
    """Seconds that a run may take: by what the kernel has to do, and by what it took as it was.

    a tiny kernel -> 5;  a (2048, 2048) @ (2048, 2048) matmul -> 172
    """
    flops = work.flops if work else 0
    return max(LIMIT_S, _SLOWER * (own_ns or 0) / 1e9, flops / _LEAST_FLOPS)


def check_limit(limit_s: Any) -> None:
    """Whether it is a number of seconds, or None.

    Raises: LabError for anything else.
    """
    is_number = isinstance(limit_s, (int, float)) and not isinstance(limit_s, bool)
    if limit_s is not None and not (is_number and 0 < limit_s < math.inf):
        raise LabError(f"the limit is {limit_s!r}", help="give seconds, such as 60")


# *** compiling and running one


def recompiled(kernel: KernelRecord, opts: Sequence[Opt]) -> KernelRecord:
    """The kernel with other opts.

    Raises: TinylabError if one of them is refused, or the result does not compile; LabError for a
    kernel that was not lowered in this process.
    """
    from tinylab.engine.compile import lower_kernel

    if kernel.ast is None:
        raise LabError(f"kernel {kernel.name} was not lowered here", help="run the cell again")
    program = lower_kernel(kernel.ast, kernel.device, opts=tuple(opts))
    return dataclasses.replace(kernel, program=program)


def runs_apart(kernel: KernelRecord) -> bool:
    """Whether a kernel's device has programs that can run in another process."""
    return _device_name(kernel) in ("CPU", "PYTHON")


def is_machine_code(kernel: KernelRecord) -> bool:
    """Whether its program is for this processor, which counts what it does; PYTHON's are not."""
    return _device_name(kernel) == "CPU"


def refuse_if_it_cannot_run(kernel: KernelRecord) -> None:
    """Raises: LabError for a kernel of a device whose programs cannot run in another process."""
    if not runs_apart(kernel):
        name = _device_name(kernel)
        raise LabError(
            f"{name} programs cannot be run apart", help="use --device CPU or PYTHON to time opts"
        )


def _device_name(kernel: KernelRecord) -> str:
    from tinylab.device import Device

    return (kernel.device or Device.DEFAULT).split(":")[0]


def job_of(kernel: KernelRecord, inputs: dict[int, bytes]) -> Job:
    """A kernel as work for the worker; `inputs` are the bytes of its buffers, by slot.

    Raises: LabError for a device whose programs cannot run apart.
    """
    refuse_if_it_cannot_run(kernel)
    program, source = kernel.program, part(kernel, Ops.SOURCE)
    if program is None or source is None:
        raise LabError(f"kernel {kernel.name} has no program")
    binary = part(kernel, Ops.BINARY)
    info = program.arg
    values = _values(info.vars)
    named = {v.arg.name: n for v, n in zip(info.vars, values, strict=True) if n is not None}
    grid, group = info.launch_dims(named)
    return Job(
        name=info.function_name,
        listing=_device_name(kernel) == "PYTHON",
        grid=grid,
        group=group,
        code=bytes(binary.arg) if binary is not None else str(source.arg),
        buffers=[
            Slot(f"data{slot}", len(data), data, output=slot in info.outs)
            for slot, data in inputs.items()
        ],
        vals=values,
        parts=_threads(info),
        arch=str(getattr(info.target, "arch", "") or ""),
    )


def _values(variables: Sequence[UOp]) -> list[int | None]:
    """Each variable in the middle of its range; what the launch sets is left to it."""
    found: list[int | None] = []
    for v in variables:
        low, high = v.arg.vmin_vmax or (1, 1)
        found.append(None if v.arg.name == "core_id" else (int(low) + int(high)) // 2)
    return found


def _threads(info: Any) -> int:
    return int(info.global_size[0]) if "core_id" in info.runtimevars else 1

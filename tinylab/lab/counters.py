"""Counters of a kernel on request: built to count itself, run apart, with a roofline and advice."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tinylab.errors import LabError, TinylabError
from tinylab.lab.bench import (
    Bench,
    Progress,
    check_limit,
    is_machine_code,
    job_of,
    limit_of,
    recompiled,
)
from tinylab.lab.graph import Json
from tinylab.lab.kernels import (
    Kernels,
    applied_opts,
    assembly_lines,
    elapsed,
    opt_json,
    opts_from_json,
    sentence,
    source_lines,
)
from tinylab.lab.work import useful_work
from tinylab.lab.worker import Job, Slot, Worker
from tinylab.profiler.inputs import inputs_for
from tinylab.trace.record import KernelRecord

if TYPE_CHECKING:
    from tinylab.codegen.opt import Opt
    from tinylab.profiler.counters import counted
    from tinylab.profiler.counters.cache import Cache
    from tinylab.profiler.counters.data import Counters

_COUNTING = 40  # a counting kernel may take so many times what the plain one may
_BUDGET_S = 0.05
_A_CACHE = 'such as [{"name": "L1", "size_bytes": 32768, "ways": 8, "line_bytes": 64}]'


class _Failed(Exception):
    """A run in the worker that did not end well."""

    def __init__(self, status: str, message: str) -> None:
        self.status, self.message = status, message


class Counting:
    """What was counted of the kernels of a record."""

    def __init__(self, bench: Bench, kernels: Kernels) -> None:
        self.bench, self.kernels = bench, kernels

    def count(
        self,
        number: int,
        opts: Sequence[Json] | None = None,
        progress: Progress = lambda text: None,
        limit_s: float | None = None,
        target: str | None = None,
        caches: Sequence[Json] | None = None,
    ) -> Json:
        """The counters of a kernel with these opts, or with its own; see `messages.Counts`.

        target: a GPU for which figures are estimated, with these opts or what suits it. caches: the
        levels of the model, such as [{"name": "L1", "size_bytes": 32768, "ways": 8}]; this
        machine's if not given.

        Raises: LabError for a limit that is none, or opts or caches that are no data of such.
        """
        kernel = self.kernels.get(number)
        check_limit(limit_s)
        if target is not None:
            return self._estimated(kernel, opts, target)
        own = applied_opts(kernel)
        wanted = own if opts is None else opts_from_json(opts)
        levels = None if caches is None else _caches_from_json(caches)
        answer: Json = {"kernel": number, "opts": [opt_json(o) for o in wanted], "status": "ok"}
        with self.bench.busy(kernel):
            try:
                edited = kernel if list(wanted) == own else recompiled(kernel, wanted)
                found = self._counted(kernel, edited, wanted, levels, progress, limit_s)
            except _Failed as failed:
                return {**answer, "status": failed.status, "message": failed.message}
            except TinylabError as error:
                return {**answer, "status": "refused", "message": sentence(error)}
        return {**answer, "message": "", **found}

    def _go_on(self) -> None:
        if self.bench.is_stopped:
            raise _Failed("stopped", "it was stopped")

    @staticmethod
    def _estimated(kernel: KernelRecord, opts: Sequence[Json] | None, target: str) -> Json:
        """Figures of the kernel on a GPU that is not here, from its graph."""
        from tinylab.profiler.advice import advise_gpu
        from tinylab.profiler.counters.estimated import estimate

        if kernel.ast is None:
            raise LabError(f"kernel {kernel.name} was not lowered here", help="run the cell again")
        wanted = None if opts is None else opts_from_json(opts)
        answer: Json = {"kernel": kernel.id, "opts": list(opts or ()), "target": target}
        try:
            counters = estimate(kernel.ast, target, wanted)
        except TinylabError as error:
            return {**answer, "status": "refused", "message": sentence(error)}
        chosen = [opt_json(opt) for opt in counters.opts]
        advice = [each.to_json() for each in advise_gpu(kernel.ast, counters.opts, target)]
        answer.update(status="ok", message="", opts=chosen, advice=advice)
        return {**answer, **_plain(counters)}

    def _counted(
        self,
        kernel: KernelRecord,
        edited: KernelRecord,
        opts: Sequence[Opt],
        caches: Sequence[Cache] | None,
        progress: Progress,
        limit_s: float | None,
    ) -> Json:
        from tinylab.profiler.counters import counted

        if edited.program is None:
            raise LabError(f"kernel {kernel.name} was not lowered here", help="run the cell again")
        progress("building the kernel that counts itself")
        inputs = inputs_for(kernel)
        limit = limit_s or limit_of(useful_work(kernel), elapsed(kernel))
        job = counted.build(edited.program, inputs, caches=caches)
        self._go_on()
        progress("counting")
        counters = job.read(_run_apart(job, limit * (1 if limit_s else _COUNTING)))
        self._go_on()
        elapsed_ns = 0.0
        if is_machine_code(edited):
            progress("timing the kernel itself")
            elapsed_ns, measured = _measured(edited, inputs, limit)
            counters = counters + measured
        else:
            note = f"counted as the CPU runs it; a kernel of {edited.device} is not timed apart"
            counters = dataclasses.replace(counters, notes=(*counters.notes, note))
        source = source_lines(edited, self.kernels.lines_of(kernel))
        return {
            **_plain(counters),
            "source": source,
            "assembly": assembly_lines(edited, source),
            "cells": _by_cell_line(counters, source),
            "roofline": _roofline(counters, elapsed_ns, job.parts, progress),
            "advice": _advice(kernel, opts, counters),
        }


def _caches_from_json(rows: Sequence[Json]) -> list[Cache]:
    """Levels of the cache model from plain data.

    Raises: LabError for what is no cache.
    """
    from tinylab.profiler.counters.cache import Cache

    try:
        return [Cache(**row) for row in rows]
    except TypeError as error:
        raise LabError(f"caches are {rows!r}: {error}", help=_A_CACHE) from None


def _run_apart(job: counted.Job, limit_s: float) -> dict[int, bytes]:
    """The buffers of a counting kernel after it ran in the worker."""
    outs = set(job.program.arg.outs)
    slots = [
        Slot(f"data{i}", size, data, output=i in outs or i >= job.plan.first_slot)
        for i, (size, data) in enumerate(zip(job.sizes, job.data, strict=True))
    ]
    outcome = Worker.shared().run(
        Job(job.name, job.source, slots, job.vals or (0,), arch=job.arch), limit_s, 0
    )
    if not outcome.ok:
        raise _Failed(outcome.status, f"the kernel that counts itself: {outcome.message}")
    return outcome.outputs


def _measured(
    kernel: KernelRecord, inputs: dict[int, bytes], limit_s: float
) -> tuple[float, Counters]:
    """(nanoseconds of one run of the kernel itself: the middle of some; what was measured)."""
    from tinylab.helpers.perf_events import EVENTS
    from tinylab.profiler.counters.measured import figures_of

    job = dataclasses.replace(job_of(kernel, inputs), events=tuple(EVENTS))
    outcome = Worker.shared().run(job, limit_s, _BUDGET_S)
    if not outcome.ok:
        raise _Failed(outcome.status, outcome.message)
    measured = figures_of(outcome.events, outcome.missing_events, outcome.event_runs or 1)
    return outcome.median_us * 1000 or outcome.first_ns, measured


def _plain(counters: Counters) -> Json:
    """Counters as data, without what a front end does not show."""
    plain = counters.to_json()
    return {
        name: plain[name]
        for name in ("kind", "figures", "uops", "buffers", "loops", "levels", "notes")
    }


def _by_cell_line(counters: Counters, source: Sequence[Json]) -> list[Json]:
    """Work, bytes and misses by line of the cell; a line of the program may come from several."""
    lines_of: dict[int, list[int]] = {}
    for row in source:
        if row["uop"] is not None and row["lines"]:
            lines_of.setdefault(row["uop"], row["lines"])
    sums: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for counts in counters.uops:
        for line in lines_of.get(counts.uop, ()):
            is_work = not counts.addressing and counts.op not in ("LOAD", "STORE")
            sums[line]["operations"] += counts.amount if is_work else 0
            sums[line]["bytes"] += counts.bytes
            sums[line]["misses"] += counts.misses[0] if counts.misses else 0
    return [
        {"line": line, **{name: found[name] for name in ("operations", "bytes", "misses")}}
        for line, found in sorted(sums.items())
    ]


def _roofline(
    counters: Counters, elapsed_ns: float, threads: int, progress: Callable[[str], None]
) -> Json | None:
    from tinylab.profiler import roofline

    if not elapsed_ns or not counters.levels:
        return None
    progress("measuring what this machine can do")
    return roofline.roofline(counters, elapsed_ns, roofline.measure(threads)).to_json()


def _advice(kernel: KernelRecord, opts: Sequence[Opt], counters: Counters) -> list[Json]:
    from tinylab.device import Device
    from tinylab.profiler.advice import advise

    if kernel.ast is None:
        return []
    found = advise(kernel.ast, opts, counters, Device[kernel.device or None].renderer)
    return [each.to_json() for each in found]

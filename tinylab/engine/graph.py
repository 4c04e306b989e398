"""Captured steps as batched launches: on the CPU one native call for many of them.

A batch is what one kind of device can do by itself. Where the device has a native driver the batch
is a table of {function, buffers, values, parts} that the driver walks; elsewhere its steps are
called one after another.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tinylab.device import Buffer, Compiled, Device
from tinylab.engine.capture import CapturedStep
from tinylab.engine.launch import Step, count, execute, report, run_step
from tinylab.errors import GraphException
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import DEBUG, JIT_BATCH_SIZE

# What a table holds per step, in 64-bit words.
_ENTRY = 4


class GraphRunner:
    """Captured steps that are launched together, on memory given by number.

    numbers: for each step which memory it is called with. graphed: whether it is one launch. done:
    holds something once a run is over, until `forget`.
    """

    graphed = True
    done: deque[Any]

    def __init__(self, steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]]) -> None:
        self.steps = [s.step for s in steps]
        self.numbers = [tuple(n) for n in numbers]
        self.done = deque(maxlen=1)

    def forget(self) -> None:
        """Know of no run."""
        self.done.clear()

    def has_begun(self) -> bool:
        """Whether a run may have changed memory."""
        return bool(self.done)

    def finish(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run what is left of a run that ended early."""
        if not self.done:
            self.run(memory, var_vals)

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once; step k uses memory[n] for each n of numbers[k]."""
        raise NotImplementedError

    def run(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once, counted; with DEBUG=2 timed and told as one line."""
        start_ns = time.perf_counter_ns()
        self(memory, var_vals)
        count(self.steps)
        if DEBUG >= 2:
            report(self._as_step(), (time.perf_counter_ns() - start_ns) * 1e-9, in_jit=True)

    def _as_step(self) -> Step:
        used = tuple(sorted({n for own in self.numbers for n in own}))
        work = [sum(getattr(s, what) for s in self.steps) for what in ("ops", "lds", "mem")]
        device = self.steps[0].device
        return Step(f"batched {len(self)}", device, used, ops=work[0], lds=work[1], mem=work[2])

    def __len__(self) -> int:
        return len(self.steps)


class EachStep(GraphRunner):
    """Steps called one after another: for devices without a driver of their own."""

    graphed = False
    _over = _started = 0  # how many steps of the last run are over, and were started

    def forget(self) -> None:
        """Know of no run."""
        self._over = self._started = 0
        self.done.clear()

    def has_begun(self) -> bool:
        """Whether a run may have changed memory."""
        return bool(self.done) or self._next() > 0

    def _next(self) -> int:
        """The first step that is not over."""
        if self._started <= self._over:
            return self._over
        program = self.steps[self._over].program
        return self._over + (program is not None and bool(program.done))

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once."""
        for step, numbers in zip(self.steps, self.numbers, strict=True):
            execute(step.with_values(var_vals), [memory[n] for n in numbers], wait=False)

    def run(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once, each step counted and told on its own."""
        self._run_from(0, memory, var_vals)

    def finish(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run what is left of a run that ended early."""
        if not self.done:
            self._run_from(self._next(), memory, var_vals)

    def _run_from(self, first: int, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        self._over = self._started = first
        for number in range(first, len(self.steps)):
            step = self.steps[number]
            self._over = number
            if step.program is not None:
                step.program.done.clear()
            # In this order: what `done` holds belongs to the step that was started.
            self._started = number + 1
            used = [memory[n] for n in self.numbers[number]]
            run_step(step.with_values(var_vals), used, in_jit=True)
        self.done.append(None)


class MultiGraphRunner(GraphRunner):
    """Steps of one kind of device, whatever their numbers: CPU, CPU:1, … in one launch.

    Raises: GraphException for a step of another kind, or between two kinds.
    """

    def __init__(self, steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]]) -> None:
        super().__init__(steps, numbers)
        kinds = sorted({kind_of(s) or "two kinds of device at once" for s in steps})
        if len(kinds) != 1:
            raise GraphException(f"one launch cannot hold steps of {', '.join(kinds)}")


class NativeGraph(MultiGraphRunner):
    """Steps of the CPU as one table of {function, buffers, values, parts}.

    Raises: GraphException where the device has no native driver.
    """

    def __init__(self, steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]]) -> None:
        super().__init__(steps, numbers)
        self.driver: Any = Device[steps[0].step.device].graph
        if self.driver is None:
            raise GraphException(f"{steps[0].step.device} has no driver that launches many kernels")
        values = [_values(s) for s in steps]
        # Where each variable stands in the array of values.
        self.variables: list[tuple[int, str]] = []
        self.pointers = (ctypes.c_uint64 * max(sum(map(len, numbers)), 1))()
        self.values = (ctypes.c_int64 * max(sum(map(len, values)), 1))(*itertools.chain(*values))
        self.table = (ctypes.c_uint64 * (_ENTRY * len(steps)))()
        # What memory stands in the array of pointers.
        self.places = [n for own in numbers for n in own]
        pointer, value = ctypes.addressof(self.pointers), ctypes.addressof(self.values)
        for i, s in enumerate(steps):
            entry = self._function(s), pointer, value, _parts(s)
            for k, word in enumerate(entry):
                self.table[_ENTRY * i + k] = word
            first = (value - ctypes.addressof(self.values)) // 8
            self.variables += [(first + k, name) for k, name in _names(s)]
            pointer += 8 * len(numbers[i])
            value += 8 * len(values[i])
        self._known: list[int] = []

    def _function(self, s: CapturedStep) -> int:
        program: Any = s.step.program
        return int(self.driver.copy_address if program is None else program.address)

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once."""
        for place, name in self.variables:
            self.values[place] = var_vals[name]
        addresses = [memory[n]._buf.address for n in self.places]
        if addresses != self._known:
            for place, address in enumerate(addresses):
                self.pointers[place] = address
            self._known = addresses
        self.driver.graph(ctypes.addressof(self.table), len(self.steps), self.done)


def _parts(s: CapturedStep) -> int:
    """How many threads share the step."""
    return s.step.with_values(s.var_vals).global_size[0]


def _values(s: CapturedStep) -> list[int]:
    """The values that a step is called with; a copy gets its size in bytes."""
    if s.step.program is None:
        return [s.buffers[0].nbytes]
    return [v or 0 for v in s.step.with_values(s.var_vals).vals]


def _names(s: CapturedStep) -> list[tuple[int, str]]:
    """(place among the values, name) of the variables that a step depends on."""
    if s.step.info is None:
        return []
    own = {*s.step.info.runtimevars, *s.step.known}
    return [(k, v.arg.name) for k, v in enumerate(s.step.info.vars) if v.arg.name not in own]


def kind_of(s: CapturedStep) -> str:
    """The kind of device that can do a step by itself; "" for a copy between two kinds."""
    kinds = {b.device.split(":")[0] for b in s.buffers} | {s.step.device.split(":")[0]}
    return kinds.pop() if len(kinds) == 1 else ""


@explained
def graph_class(device: str | Compiled[Any]) -> type[GraphRunner] | None:
    """What launches many kernels of a device at once; None where there is no such thing."""
    found = device if isinstance(device, Compiled) else Device[device]
    return NativeGraph if found.graph is not None else None


def batched(
    steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]], native: bool = True
) -> list[GraphRunner]:
    """Launches for all steps in order: one per stretch of a kind of device, or several.

    The first one takes JIT_BATCH_SIZE steps, each one after it twice as many: a device begins with
    the first while the next is prepared. With 0 there is no limit. native: whether a device's own
    driver may be used.
    """
    found: list[GraphRunner] = []
    limit = JIT_BATCH_SIZE.value or len(steps)
    for kind, group in itertools.groupby(range(len(steps)), lambda i: kind_of(steps[i])):
        chosen = list(group)
        runner = graph_class(steps[chosen[0]].step.device) if native and kind else None
        if runner is None:
            found.append(EachStep([steps[i] for i in chosen], [numbers[i] for i in chosen]))
            continue
        for part in _growing(chosen, limit):
            limit *= 2
            if DEBUG >= 2:
                print(f"JIT GRAPHing batch with {len(part)} kernels")
            found.append(runner([steps[i] for i in part], [numbers[i] for i in part]))
    return found


def _growing(items: Sequence[int], limit: int) -> Iterator[Sequence[int]]:
    """Runs of at most limit items, then of twice as many, and so on."""
    at = 0
    while at < len(items):
        yield items[at : at + limit]
        at, limit = at + limit, limit * 2


__all__ = [
    "EachStep",
    "GraphException",
    "GraphRunner",
    "MultiGraphRunner",
    "NativeGraph",
    "batched",
    "graph_class",
    "kind_of",
]

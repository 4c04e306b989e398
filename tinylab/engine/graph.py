"""Captured steps as batched launches: on the CPU one native call for all of them.

A batch is what one device can do by itself. Where the device has a native driver the batch is a
table of {function, buffers, values, parts} that the driver walks; elsewhere its steps are called
one after another.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from tinylab.device import Buffer, Device
from tinylab.engine.capture import CapturedStep
from tinylab.engine.launch import execute

# What a table holds per step, in 64-bit words.
_ENTRY = 4


class Launcher(Protocol):
    """Runs captured steps on memory given by number."""

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once; step k uses memory[n] for the numbers n that it was given."""
        ...


class EachStep:
    """Steps called one after another: for devices without a driver of their own."""

    def __init__(self, steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]]) -> None:
        self.steps = [(s.step, tuple(n)) for s, n in zip(steps, numbers, strict=True)]

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once."""
        for step, numbers in self.steps:
            execute(step.with_values(var_vals), [memory[n] for n in numbers], wait=False)


class NativeGraph:
    """Steps of the CPU as one table of {function, buffers, values, parts}."""

    def __init__(
        self, steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]], driver: Any
    ) -> None:
        self.driver, self.count = driver, len(steps)
        self.programs = [s.step.program for s in steps]  # their code must stay
        values = [_values(s) for s in steps]
        # Where each variable stands in the array of values.
        self.variables: list[tuple[int, str]] = []
        self.pointers = (ctypes.c_uint64 * max(sum(map(len, numbers)), 1))()
        self.values = (ctypes.c_int64 * max(sum(map(len, values)), 1))(*itertools.chain(*values))
        self.table = (ctypes.c_uint64 * (_ENTRY * self.count))()
        # Where each piece of memory stands in the array of pointers.
        self.places: list[tuple[int, int]] = []
        pointer, value = ctypes.addressof(self.pointers), ctypes.addressof(self.values)
        for i, (s, own) in enumerate(zip(steps, numbers, strict=True)):
            buffers, parts = pointer + 8 * len(self.places), _parts(s)
            self.table[_ENTRY * i : _ENTRY * (i + 1)] = [self._function(s), buffers, value, parts]
            self.places += [(len(self.places) + k, n) for k, n in enumerate(own)]
            first = (value - ctypes.addressof(self.values)) // 8
            self.variables += [(first + k, name) for k, name in _names(s)]
            value += 8 * len(values[i])
        self._known: list[int] = []

    def _function(self, s: CapturedStep) -> int:
        program: Any = s.step.program
        return int(self.driver.copy_address if program is None else program.address)

    def __call__(self, memory: Sequence[Buffer], var_vals: dict[str, int]) -> None:
        """Run everything once."""
        for place, name in self.variables:
            self.values[place] = var_vals[name]
        addresses = [m._buf.address for m in memory]
        if addresses != self._known:
            pointers = self.pointers
            for place, number in self.places:
                pointers[place] = addresses[number]
            self._known = addresses
        self.driver.graph(ctypes.addressof(self.table), self.count)


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
    own = s.step.info.runtimevars
    return [(k, v.arg.name) for k, v in enumerate(s.step.info.vars) if v.arg.name not in own]


def _device_of(s: CapturedStep) -> str:
    """The device that can do a step by itself; "" for a copy between two kinds of device."""
    kinds = {b.device.split(":")[0] for b in s.buffers} | {s.step.device.split(":")[0]}
    return kinds.pop() if len(kinds) == 1 else ""


def batched(
    steps: Sequence[CapturedStep], numbers: Sequence[Sequence[int]], native: bool = True
) -> list[tuple[Launcher, int]]:
    """Launchers for all steps in order, each with how many it runs: one per stretch of a device.

    native: whether a device's own driver may be used.
    """
    found: list[tuple[Launcher, int]] = []
    for device, group in itertools.groupby(range(len(steps)), lambda i: _device_of(steps[i])):
        chosen = list(group)
        part, own = [steps[i] for i in chosen], [numbers[i] for i in chosen]
        driver = Device[device].graph if native and device else None
        launcher = EachStep(part, own) if driver is None else NativeGraph(part, own, driver)
        found.append((launcher, len(part)))
    return found

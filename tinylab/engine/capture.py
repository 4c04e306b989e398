"""What a function computed, noted while it ran, so that it can run again without Python.

A capture listens to `realize`: each schedule that runs leaves its steps and the memory they used.
Afterwards every piece of memory has a role: an input of the function, a result that is returned, or
something that stays (constants, state that is written in place, intermediate values).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinylab.errors import JitError
from tinylab.helpers.context import UNSAFE_ALLOW_JIT_BUFFER

if TYPE_CHECKING:
    from tinylab.device import Buffer
    from tinylab.engine.launch import Plan, Step
    from tinylab.uop.ops import UOp


@dataclass
class CapturedStep:
    """One kernel or copy, and the memory it is called with."""

    step: Step
    buffers: list[Buffer]
    call: UOp  # as it stood in its schedule
    var_vals: dict[str, int]


@dataclass
class Capture:
    """The steps that ran while this was open, in order."""

    steps: list[CapturedStep] = field(default_factory=list)
    runs: int = 0
    thread: int = field(default_factory=threading.get_ident)
    made: set[Buffer] = field(default_factory=set)  # memory (bases) that the runs allocated

    def add(
        self, plan: Plan, buffers: Sequence[Buffer], own: Iterable[Buffer], var_vals: dict[str, int]
    ) -> None:
        """Note one run of a plan; buffers are numbered as its arguments are, own are new ones."""
        self.runs += 1
        self.made.update(own)
        for call, step in zip(plan.schedule.linear.src, plan.steps, strict=True):
            used = [buffers[n] for n in step.arguments]
            self.steps.append(CapturedStep(step, used, call, var_vals))


# Captures that are open in any thread, innermost last. Anything else with a method
# add_linear(linear, var_vals) gets the schedules, which then are not run.
capturing: list[Any] = []

# Called with the memory (bases) that a replay writes to, and that which it uses at all, before
# it runs: whoever knows of values that wait computes those that must come first.
before_replay: list[Callable[[Set[Buffer], Set[Buffer]], None]] = []
# The same before a capture; what each returns is called behind it, with the memory that it made.
before_capture: list[Callable[[], Callable[[Set[Buffer]], None]]] = []


def open_captures() -> list[Capture]:
    """The captures of this thread."""
    if not capturing:
        return []
    own = (c for c in capturing if isinstance(c, Capture))
    return [c for c in own if c.thread == threading.get_ident()]


def schedule_listener() -> Any:
    """Who wants schedules instead of their being run; None where nobody does."""
    return next((c for c in capturing if not isinstance(c, Capture)), None) if capturing else None


@contextmanager
def captured() -> Iterator[Capture]:
    """Note what is realized inside the block."""
    capture = Capture()
    capturing.append(capture)
    try:
        yield capture
    finally:
        capturing.remove(capture)


def refuse_data_access() -> None:
    """Values may not leave a function while it is captured: a replay would not see them.

    Raises: JitError inside a capture.
    """
    if open_captures() and not UNSAFE_ALLOW_JIT_BUFFER:
        raise JitError(
            "cannot access tensor data during JIT capture",
            help="return the tensor and read it outside",
        )


def written(steps: Iterable[CapturedStep]) -> set[Buffer]:
    """Memory (its base) that some step writes to."""
    return {s.buffers[slot].base for s in steps for slot in s.step.outs}


def depending_on(
    steps: Sequence[CapturedStep], inputs: set[Buffer], made: set[Buffer]
) -> list[bool]:
    """For each step whether it must run at each call.

    It must if it reads an input, something computed from one, or state: memory that was there
    before the capture (not in made) and is written to; and if it writes where such a step does,
    which would otherwise find there what the last call left.
    """
    changing = inputs | (written(steps) - made)
    found = [False] * len(steps)
    grown = True
    while grown:
        grown = False
        for n, s in enumerate(steps):
            if not found[n] and any(b.base in changing for b in s.buffers):
                found[n] = grown = True
                changing |= {s.buffers[slot].base for slot in s.step.outs}
        # A step above may write what a step before it wrote first.
        rewritten = written(s for n, s in enumerate(steps) if found[n])
        for n, s in enumerate(steps):
            if not found[n] and any(s.buffers[slot].base in rewritten for slot in s.step.outs):
                found[n] = grown = True
    return found

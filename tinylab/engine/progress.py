"""How far a run of a plan came: which steps are over when it ends early.

An error or a Ctrl-C may come between any two instructions of Python. A step counts as done once
memory has its result, not when Python comes back to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tinylab.device import Buffer
from tinylab.errors import FAILURES
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.engine.launch import Plan, Step

# Runs one step of a plan, by its number.
Launch = Callable[[int], None]


class Progress:
    """A run of a plan: the steps before `done` are over, and those in `later`.

    own: the memory of the schedule's own buffers.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.own: dict[UOp, Buffer] = {}
        self.buffers: list[Buffer] = []
        self.launch: Launch | None = None
        self.done = self.started = 0
        self.later: set[int] = set()
        self.unclear: set[int] = set()  # steps that left nobody knows what
        self._failed: set[int] = set()  # steps that cannot be done
        self._missing: list[Buffer] = []  # memory that a step which failed should have filled
        self._in_place: set[Buffer] = set()  # the same, of memory that was there before

    def steps(self, launch: Launch) -> None:
        """Run all steps of the plan, in order."""
        self.launch = launch
        assert self.plan is not None, "a run of a plan"
        for number, step in enumerate(self.plan.steps):
            self.done = number
            if step.program is not None:
                step.program.done.clear()
            # In this order: what `done` holds belongs to the step that was started.
            self.started = number + 1
            launch(number)
        self.done = len(self.plan.steps)

    def noted(self, plan: Plan, own: dict[UOp, Buffer]) -> None:
        """The plan does not run now: it counts as done."""
        self.plan, self.own, self.done = plan, own, len(plan.schedule.linear.src)

    def is_over(self, number: int) -> bool:
        """Whether a step's result is in memory."""
        return number < self.done or number in self.later

    def has_begun(self, number: int) -> bool:
        """Whether a step may have changed memory."""
        return self.is_over(number) or number in self.unclear

    def land(self, error: BaseException) -> None:
        """Find out about the step that ran when an error came."""
        number = self.started - 1
        if self.plan is None or number < 0 or self.has_begun(number):
            return
        step = self.plan.steps[number]
        if step.program is not None and step.program.done:
            self._note(number)
            return
        if step.program is None or not step.program.all_or_nothing:
            self.unclear.add(number)
        # What was copied in part may be copied again.
        if isinstance(error, FAILURES) or (step.program is not None and number in self.unclear):
            self._fails(number)

    def left_for(self, numbers: Iterable[int]) -> list[int]:
        """The steps that must still run so that some are over, those included, in order."""
        assert self.plan is not None, "a run that has begun"
        wanted = {n for n in numbers if not self._is_settled(n)}
        read: list[Buffer] = []
        found = []
        for number in range(max(wanted, default=-1), -1, -1):
            if self._is_settled(number):
                continue
            step = self.plan.steps[number]
            outs = [self._buffer(step, slot) for slot in step.outs]
            if number in wanted or any(_meet(b, r) for b in outs for r in read):
                found.append(number)
                read += [self._buffer(step, slot) for slot in step.ins]
        return found[::-1]

    def finish(self, numbers: Iterable[int]) -> None:
        """Run steps that are left, in order, without those that need a failed one."""
        assert self.plan is not None, "a run that has begun"
        assert self.launch is not None, "a run that has begun"
        for number in numbers:
            if self._is_settled(number):
                continue
            if self._needs_missing(number):
                self._fails(number)
                continue
            step = self.plan.steps[number]
            if step.program is not None:
                step.program.done.clear()
            self.started = number + 1
            self.launch(number)
            self._note(number)
            outs = [self._buffer(step, slot) for slot in step.outs]
            self._missing = [m for m in self._missing if not any(_meet(m, b) for b in outs)]

    def _is_settled(self, number: int) -> bool:
        """Whether a step is over, or cannot be done."""
        return self.is_over(number) or number in self._failed

    def _note(self, number: int) -> None:
        self.unclear.discard(number)
        if number == self.done:
            self.done += 1
        else:
            self.later.add(number)

    def _buffer(self, step: Step, slot: int) -> Buffer:
        return self.buffers[step.arguments[slot]]

    def _fails(self, number: int) -> None:
        self._failed.add(number)
        assert self.plan is not None, "a run of a plan"
        step, own = self.plan.steps[number], {b.base for b in self.own.values()}
        for b in (self._buffer(step, slot) for slot in step.outs):
            if b.base in own:
                self._missing.append(b)
            else:
                self._in_place.add(b.base)

    def _needs_missing(self, number: int) -> bool:
        assert self.plan is not None, "a run of a plan"
        step = self.plan.steps[number]
        read = [self._buffer(step, slot) for slot in step.ins]
        used = {self.buffers[n].base for n in step.arguments}
        return not used.isdisjoint(self._in_place) or any(
            _meet(m, b) for m in self._missing for b in read
        )


def _meet(a: Buffer, b: Buffer) -> bool:
    """Whether two pieces of memory have a byte in common."""
    return a.base is b.base and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes

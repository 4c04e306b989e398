"""What a function computed, noted while it ran, so that it can run again without Python.

A capture listens to `realize`: each schedule that runs leaves its steps and the memory they used.
Afterwards every piece of memory has a role: an input of the function, a result that is returned, or
something that stays (constants, state that is written in place, intermediate values).
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tinylab.errors import JitError
from tinylab.helpers.context import UNSAFE_ALLOW_JIT_BUFFER
from tinylab.helpers.interrupts import held_back

if TYPE_CHECKING:
    from tinylab.device import Buffer
    from tinylab.engine.launch import Plan, Step
    from tinylab.uop.ops import UOp


T = TypeVar("T")


@dataclass
class CapturedStep:
    """One kernel or copy, and the memory it is called with."""

    step: Step
    buffers: list[Buffer]
    call: UOp  # as it stood in its schedule
    var_vals: dict[str, int]

    @property
    def ins(self) -> tuple[int, ...]:
        """Places of the arguments that are read."""
        return self.step.ins


@dataclass(eq=False)
class Capture:
    """The steps that ran while this was open, in order."""

    steps: list[CapturedStep] = field(default_factory=list)
    runs: int = 0
    made: set[Buffer] = field(default_factory=set)  # memory (bases) that the runs allocated
    frame: FrameType | None = None  # of the function that opened it, while it is open

    def add(
        self, plan: Plan, buffers: Sequence[Buffer], own: Iterable[Buffer], var_vals: dict[str, int]
    ) -> None:
        """Note one run of a plan; buffers are numbered as its arguments are, own are new ones."""
        self.runs += 1
        self.made.update(own)
        for call, step in zip(plan.schedule.linear.src, plan.steps, strict=True):
            used = [buffers[n] for n in step.arguments]
            self.steps.append(CapturedStep(step, used, call, var_vals))


class OfThread(threading.local, Generic[T]):
    """A list of which each thread has its own."""

    def __init__(self) -> None:
        self._items: list[T] = []

    def append(self, item: T) -> None:
        """Add an item at the end."""
        self._items.append(item)

    def remove(self, item: T) -> None:
        """Take an item out, told by identity: of several the last."""
        for n in reversed(range(len(self._items))):
            if self._items[n] is item:
                del self._items[n]
                return
        raise ValueError(f"{item!r} is not in the list of this thread")

    def pop(self) -> T:
        """Take the last item out."""
        return self._items.pop()

    def clear(self) -> None:
        """Take all items out."""
        self._items.clear()

    def __getitem__(self, n: int) -> T:
        return self._items[n]

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._items))

    def __len__(self) -> int:
        return len(self._items)


# Captures that are open in this thread, innermost last. Anything else with a method
# add_linear(linear, var_vals) gets the schedules, which then are not run.
capturing: OfThread[Any] = OfThread()


class Followers:
    """The tensors that see what a replay writes: those that the function wrote to, or made.

    Any other looks at what was there before, and keeps that value.
    """

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._views: list[weakref.ref[Any]] = []
        # Called with the arguments when the writes of the function are done again.
        self.writes: list[Callable[[Sequence[Any]], None]] = []

    def add(self, tensor: Any, is_view: bool = False) -> None:
        """Let a tensor follow; a view of another one that is written to follows as that does."""
        self._refs[id(tensor)] = weakref.ref(tensor)
        if is_view:
            self._views.append(self._refs[id(tensor)])

    def views(self) -> list[Any]:
        """Those that are views of another tensor."""
        return [t for ref in self._views if (t := ref()) is not None]

    def __contains__(self, tensor: object) -> bool:
        ref = self._refs.get(id(tensor))
        return ref is not None and ref() is tensor


class Replay(NamedTuple):
    """What a replay is about to do: memory is meant by its whole, of views the base.

    written, used: memory that it writes to, and that it uses at all. given: the tensors that it
    got, or the nodes where it was called with those.
    """

    written: Set[Buffer]
    used: Set[Buffer]
    followers: Followers
    given: Sequence[Any]


class Aftermath(NamedTuple):
    """What those who look after values do behind a capture.

    made: memory (bases) that it allocated. read, written: memory that its steps read and write to.
    given, returned: the tensors that the function got and gave. They fill in: followers, and moved:
    memory out of made that nobody looks at any more.
    """

    made: Set[Buffer]
    read: Set[Buffer]
    written: Set[Buffer]
    given: Sequence[Any]
    returned: Sequence[Any]
    followers: Followers
    moved: set[Buffer]


# Called before a replay: whoever knows of values that somebody holds computes, or copies, those
# that must come first.
before_replay: list[Callable[[Replay], None]] = []
# Called with the tensors that a function is given, before a look at the memory they lie in.
before_inputs: list[Callable[[Sequence[Any]], None]] = []


class LookingAfter(NamedTuple):
    """What those who look after values do at the end of a function that is captured, and behind it.

    finish: within the capture, with the tensors that the function was given, do the writes that it
    left waiting, so that replays do them; False where replays would begin with what a write of this
    call began with, because that was not in memory yet. behind: when the capture is closed.
    """

    finish: Callable[[Sequence[Any]], bool]
    behind: Callable[[Aftermath], None]


# Called with the tensors that a function is given and finds, before it is captured: each gets
# memory of its own, so that nobody but those who write to it changes what replays read.
before_capture: list[Callable[[Sequence[Any]], None]] = []
# Opened around a capture.
around_capture: list[Callable[[], AbstractContextManager[LookingAfter]]] = []


def open_captures() -> list[Capture]:
    """The captures of this thread."""
    return [c for c in capturing if isinstance(c, Capture)] if capturing else []


def schedule_listener() -> Any:
    """Who wants schedules instead of their being run; None where nobody does."""
    return next((c for c in capturing if not isinstance(c, Capture)), None) if capturing else None


@contextmanager
def captured() -> Iterator[Capture]:
    """Note what is realized inside the block."""
    capture = Capture(frame=sys._getframe(2))  # below is contextlib's
    try:
        capturing.append(capture)
        yield capture
    finally:
        with held_back():
            if capture in capturing:
                capturing.remove(capture)
        capture.frame = None


def forget_left_open() -> None:
    """A signal's handler that raises may end a capture at any moment, also while it is closed.

    One that stayed would refuse every look at values from then on.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    for capture in open_captures():
        if capture.frame not in frames:
            capturing.remove(capture)


def refuse_data_access() -> None:
    """Values may not leave a function while it is captured: a replay would not see them.

    Raises: JitError inside a capture.
    """
    if open_captures() and not UNSAFE_ALLOW_JIT_BUFFER:
        forget_left_open()
    if open_captures() and not UNSAFE_ALLOW_JIT_BUFFER:
        raise JitError(
            "cannot access tensor data during JIT capture",
            help="return the tensor and read it outside",
        )


def written(steps: Iterable[CapturedStep]) -> set[Buffer]:
    """Memory (its base) that some step writes to."""
    return {s.buffers[slot].base for s in steps for slot in s.step.outs}


def without_moved(
    steps: Sequence[CapturedStep], moved: Set[Buffer], inside: Set[Buffer]
) -> list[CapturedStep]:
    """The steps without those that only worked out what lies elsewhere now.

    moved: memory that nobody looks at any more. inside: memory of which only the steps know.
    """
    kept: list[CapturedStep] = []
    read: set[Buffer] = set()  # by the steps that stay
    read_in_vain = set(moved)
    for s in reversed(steps):
        outs = {s.buffers[slot].base for slot in s.step.outs}
        sources = {s.buffers[slot].base for slot in s.ins}
        if outs and outs <= read_in_vain and outs <= inside and outs.isdisjoint(read):
            read_in_vain |= sources
            continue
        read |= sources
        kept.append(s)
    return kept[::-1]


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

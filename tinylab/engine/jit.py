"""TinyJit: a function of tensors, run once to see what it computes and replayed from then on.

call 1   plain
call 2   plain, and captured: which kernels ran on which memory
call 3…  replayed: the captured kernels on the new inputs, without Python in between

What was returned keeps its value, whatever later calls write: from call 2 on results have memory of
their own, and call 1 hands out tensors of their own. Program order decides for all that somebody
holds: values that wait for memory which a replay writes to are computed before it, and views of it
get a copy. The state itself, the tensors that the function writes to, sees what a replay wrote.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from tinylab.device import Buffer
from tinylab.engine.arguments import inputs_of, refuse_other_inputs, refuse_other_values
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import (
    Aftermath,
    Capture,
    CapturedStep,
    Followers,
    around_capture,
    before_capture,
    captured,
    depending_on,
    forget_left_open,
    open_captures,
    without_moved,
    written,
)
from tinylab.engine.captured import (
    Box,
    CapturedJit,
    Inputs,
    capture_of,
    memory_below,
    rebuilt,
    tensors_of,
)
from tinylab.engine.graph import GraphException, GraphRunner, MultiGraphRunner, graph_class
from tinylab.engine.locking import alone
from tinylab.engine.realize import realize_uops, to_store
from tinylab.engine.watched import (
    Known,
    Shared,
    Watched,
    copied_apart,
    found_again,
    found_before,
    places_below,
    refuse_apart,
    refuse_other_objects,
    refuse_rebound,
    roots_of,
    shared_with_state,
)
from tinylab.errors import JitError, UncapturedError
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import CAPTURING, DEBUG, JIT, NO_MEMORY_PLANNER, Context
from tinylab.mixin.base import Size, box_watchers, check_present
from tinylab.opcodes import Ops
from tinylab.uop.intern import make

__all__ = [
    "CapturedJit",
    "GraphException",
    "GraphRunner",
    "JitError",
    "MultiGraphRunner",
    "TinyJit",
    "graph_class",
]

P = ParamSpec("P")
R = TypeVar("R")


class TinyJit(Generic[P, R]):
    """A function that is captured at its second call and replayed from the third.

    @TinyJit, TinyJit(f), @TinyJit(prune=True): prune runs what does not depend on the inputs once.

    cnt counts calls; captured is None or the CapturedJit.

    Raises: JitError where a call cannot be captured or does not fit what was captured.
    """

    @explained
    def __new__(  # noqa: D102 (without a function it is a decorator)
        cls, fxn: Callable[P, R] | None = None, captured: Any = None, prune: bool = False
    ) -> Any:
        if fxn is None and captured is None:
            return functools.partial(cls, prune=prune)
        return super().__new__(cls)

    @explained
    def __init__(
        self,
        fxn: Callable[P, R] | None = None,
        captured: CapturedJit | None = None,
        prune: bool = False,
    ) -> None:
        if fxn is not None and not callable(fxn):
            raise JitError(f"TinyJit captures a function, not {fxn!r}", help="TinyJit(step)")
        self.fxn, self.captured, self.prune = fxn, captured, prune
        self.cnt = 0 if captured is None else 2
        self._watched: Watched | None = None
        self._objects: list[tuple[Any, Known]] = []
        self._shared: list[Shared] = []  # inputs that are written state as well
        self._copies = False  # whether inputs that are state as well are copied for the capture

    def reset(self) -> None:
        """Forget what was captured.

        Raises: JitError where there is no function to capture again.
        """
        if self.fxn is None:
            raise UncapturedError(
                "can't reset without a function", help="it was loaded as what it had captured"
            )
        self.cnt, self.captured, self._watched = 0, None, None
        self._shared, self._copies = [], False

    def __reduce__(self) -> tuple[Any, ...]:
        """What it captured, without the function.

        Raises: UncapturedError before anything was captured.
        """
        if self.captured is None:
            raise UncapturedError("can't pickle an uncaptured JIT", help="call it twice first")
        return type(self), (None, self.captured, self.prune)

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        """As a method: bound to its object, whose tensors are state."""
        return self if obj is None else functools.partial(self._of_object, obj)

    def _of_object(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(args, kwargs, bound=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; computed plainly, captured or replayed."""
        return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any, bound: bool = False) -> Any:
        if JIT.value == 0 or self.cnt == 0:
            ret = _handed_out(self._plain(args, kwargs))
        elif self.captured is None:
            ret = self._capture(args, kwargs, bound)
        else:
            ret = self._replay(args, kwargs, bound)
        self.cnt += 1
        return ret

    def _plain(self, args: Any, kwargs: Any) -> Any:
        assert self.fxn is not None, "a function, or something captured"
        ret: Any = self.fxn(*args, **kwargs)
        _realized(ret)
        return ret

    @alone  # another thread may do a write that waits, and the capture would lack it
    def _capture(self, args: Any, kwargs: Any, bound: bool) -> Any:
        forget_left_open()
        if open_captures():
            raise JitError("having TinyJit inside another TinyJit is not supported")
        inputs = inputs_of(args, kwargs, bound)
        if not CAPTURING:
            return _handed_out(self._plain(args, kwargs))
        roots = roots_of(self.fxn, args, kwargs, bound)
        found_before(roots)  # in memory first: who owns that is asked next
        for own in before_capture:
            own([*inputs.given, *(p.tensor for p in places_below(roots))])
        inputs, before = inputs_of(args, kwargs, bound), found_before(roots)
        shared = shared_with_state(inputs, [p for p, _ in before], roots)
        if shared and self._copies:
            args, kwargs = copied_apart(inputs, shared, (args, kwargs))
            inputs, roots = inputs_of(args, kwargs, bound), roots_of(self.fxn, args, kwargs, bound)
            before = found_before(roots)
        with ExitStack() as stack:
            watching = [stack.enter_context(around()) for around in around_capture]
            # Writes that waited are done by now: a view that is older may lie somewhere else.
            inputs = inputs_of(args, kwargs, bound)
            # What is computed once stays where it is: each value has memory of its own first.
            planner = Context(NO_MEMORY_PLANNER=1 if self.prune else NO_MEMORY_PLANNER.value)
            with planner, captured() as capture, _watched_boxes() as boxes:
                ret = self._plain(args, kwargs)
                from_memory = [w.finish(inputs.given) for w in watching]
            if not all(from_memory):  # it is now: the next call is captured
                return _handed_out(ret)
            if not self._told_apart(inputs, shared, capture):
                return _handed_out(ret)
            tensors = tensors_of(ret)  # says what is none
            read = {c.buffers[slot].base for c in capture.steps for slot in c.ins}
            done = Aftermath(
                capture.made,
                read,
                written(capture.steps),
                inputs.given,
                tensors,
                Followers(),
                set(),
            )
            for w in watching:
                w.behind(done)
        after = found_again((p for p, _ in before), roots)
        refuse_rebound(before, after, read)
        inside = capture.made - memory_below(tensors)
        capture.steps = without_moved(capture.steps, done.moved, inside)
        if not capture.steps:
            raise JitError(
                "didn't JIT anything!", help="nothing was computed: is the result realized before?"
            )
        if DEBUG >= 1:
            print(f"JIT captured {capture.runs} linears with {len(inputs.tensors)} inputs")
        steps = self._needed(capture, inputs)
        once = capture.made & (written(capture.steps) - written(steps))
        self.captured = capture_of(
            ret, inputs, steps, capture.made, once, self.prune, done.followers, list(boxes)
        )
        given = {m.base for i in inputs.tensors for m in memories_of(i.buffer)}
        used = {b.base for s in steps for b in s.buffers} | memory_below(tensors)
        self._watched = Watched(after, len(roots), used - capture.made - given)
        self._objects = [(name, Known(x)) for name, x in inputs.objects]
        return _apart(ret, capture.made - once)

    def _told_apart(self, inputs: Inputs, shared: list[Shared], capture: Capture) -> bool:
        """Whether the steps say which of their reads meant an input, and which state.

        What is both and is written has to be both at each call. What is only read is captured at
        the next call, from a copy.
        """
        steps = capture.steps
        changed, used = written(steps), {b.base for s in steps for b in s.buffers}
        if self._copies:
            self._shared = []
            for s in shared:
                now = memories_of(inputs.tensors[s.number].buffer)
                if now == s.memory:  # in something that cannot be built anew
                    self._shared.append(s)
                elif any(m.base in changed for m in (*s.memory, *now)):
                    raise JitError(
                        f"argument {s.name!r} is also {s.words}, and this call writes to it",
                        help="pass its .clone()",
                    )
            return True
        self._shared = [s for s in shared if any(m.base in changed for m in s.memory)]
        self._copies = any(
            m.base in used for s in shared if s not in self._shared for m in s.memory
        )
        return not self._copies

    def _needed(self, capture: Capture, inputs: Inputs) -> list[CapturedStep]:
        """The steps that every call must run."""
        if not self.prune:
            return capture.steps
        given = {m.base for i in inputs.tensors for m in memories_of(i.buffer)}
        kept = depending_on(capture.steps, given, capture.made)
        if DEBUG >= 1:
            print(f"pruned from {len(kept)} -> {sum(kept)} kernels")
        return [s for s, depends in zip(capture.steps, kept, strict=True) if depends]

    def _replay(self, args: Any, kwargs: Any, bound: bool) -> Any:
        found = self.captured
        assert found is not None, "captured before"
        inputs = inputs_of(args, kwargs, bound)
        refuse_other_inputs(inputs, found)
        refuse_apart(inputs, self._shared)
        refuse_other_values(self.fxn, inputs.plain, found.plain)
        if self._watched is not None:  # what was loaded has no state but its own
            refuse_other_objects(inputs.objects, self._objects)
        for box in found.boxes:
            check_present(*box, {**inputs.var_vals})

        def check() -> None:
            if self._watched is not None:
                self._watched.check(x for _, x in roots_of(self.fxn, args, kwargs, bound))

        return found([i.buffer for i in inputs.tensors], inputs.var_vals, inputs.given, check)


@contextmanager
def _watched_boxes() -> Iterator[dict[Box, None]]:
    """The boxes that this thread cuts meanwhile and that variables may move off their axis."""
    thread = threading.get_ident()
    boxes: dict[Box, None] = {}

    def watch(*box: Size) -> None:
        if threading.get_ident() == thread:
            bare = [s if isinstance(s, int) else s.unbind_all()[0] for s in box]
            boxes[bare[0], bare[1], bare[2]] = None

    box_watchers.append(watch)
    try:
        yield boxes
    finally:
        box_watchers.remove(watch)


def _realized(ret: Any) -> None:
    """Compute the tensors in a returned value, whatever else there is."""
    found: list[Any] = []
    rebuilt(ret, found.append, lambda other: None)
    tensors = [t for t in found if to_store(t.uop) is not None]
    if tensors:
        tensors[0].realize(*tensors[1:])


def _handed_out(ret: Any) -> Any:
    """A plain call's result: tensors of their own, which no write to the function's own reaches.

    As a replay's they are values: no parameters, which another `backward` would find.
    """
    return rebuilt(ret, lambda t: type(t)(t.uop), lambda other: other)


def _apart(ret: Any, fresh: set[Buffer]) -> Any:
    """The captured call's own result: a copy, but of memory that each replay has anew."""

    def own(t: Any) -> Any:
        if memory_below([t]) <= fresh:
            return type(t)(t.uop)
        copy = make(Ops.CONTIGUOUS, t.uop.dtype, (t.uop,), "a result of a captured call is kept")
        return type(t)(realize_uops([copy])[copy])

    return rebuilt(ret, own)

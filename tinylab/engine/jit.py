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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from tinylab.device import Buffer
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import (
    Aftermath,
    Capture,
    CapturedStep,
    Followers,
    around_capture,
    captured,
    depending_on,
    open_captures,
    without_moved,
    written,
)
from tinylab.engine.captured import (
    Box,
    CapturedJit,
    Input,
    InputInfo,
    Inputs,
    capture_of,
    is_tensor,
    memory_below,
    rebuilt,
    storage_below,
    tensors_of,
)
from tinylab.engine.graph import GraphException, GraphRunner, MultiGraphRunner, graph_class
from tinylab.engine.realize import realize_uops, to_store
from tinylab.errors import JitError, UncapturedError
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import CAPTURING, DEBUG, JIT, NO_MEMORY_PLANNER, Context
from tinylab.mixin.base import Size, box_watchers, check_present, shape_text
from tinylab.opcodes import Ops
from tinylab.schedule.views import Window, window_of
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

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


def _tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """(name, tensor) for tensors among the arguments and, one level deep, inside containers."""
    found: list[tuple[Any, Any]] = []
    for name, x in [*enumerate(args), *sorted(kwargs.items())]:
        if is_tensor(x):
            found.append((name, x))
        elif isinstance(x, list | tuple):
            found += [((name, i), y) for i, y in enumerate(x) if is_tensor(y)]
        elif isinstance(x, dict):
            found += [((name, k), y) for k, y in x.items() if is_tensor(y)]
    return found


def _inputs_of(args: Sequence[Any], kwargs: dict[str, Any]) -> Inputs:
    """The inputs of a call, tensors in memory.

    Raises: JitError for a tensor without a buffer, and for one buffer under two names; BindError
    for a variable without a value.
    """
    named = _tensors_in(args, kwargs)
    pending = [t for _, t in named if to_store(t.uop) is not None]
    if pending:
        pending[0].realize(*pending[1:])
    inputs = Inputs([], [], {})
    slots: dict[UOp, int] = {}  # views of one buffer have one: which do is part of what they are
    for name, x in [*enumerate(args), *sorted(kwargs.items())]:
        if isinstance(x, UOp):
            inputs.variables.append((name, x.unbind()[0]))
            _bind(inputs, x)
    for name, t in named:
        buffer = storage_below(t.uop)
        if buffer.op is not Ops.BUFFER:
            raise JitError(
                f"JIT inputs must be real buffers; argument {name!r} is {t.uop.op}",
                help="use .clone()",
            )
        for u in _bound_sizes(t.uop):
            _bind(inputs, u)
        slot = slots.setdefault(buffer, len(inputs.tensors))
        param = UOp.param(slot, buffer.dtype, buffer.shape, buffer.device)
        inputs.tensors.append(Input(name, _info(t.uop, buffer, param), buffer))
    _refuse_duplicates(inputs.tensors)
    return inputs


def _bound_sizes(view: UOp) -> list[UOp]:
    """The variables with values in the sizes of a view."""
    if all(isinstance(s, int) for s in view.shape):
        return []
    return [u for u in view.toposort() if u.is_bound_var]


def _bind(inputs: Inputs, u: UOp) -> None:
    known = inputs.bound.setdefault(u.expr, u)
    if known is u:
        return
    (var, value), (other, wanted) = known.unbind(), u.unbind()
    if value != wanted:
        raise JitError(f"bind mismatch on {u.expr}, {value} != {wanted}")
    raise JitError(
        f"two variables are called {u.expr}, from {var.vmin} to {var.vmax} and from {other.vmin} "
        f"to {other.vmax}",
        help="pass one of them, or give each a name",
    )


def _refuse_duplicates(tensors: Sequence[Input]) -> None:
    seen: dict[UOp, list[Input]] = {}
    for i in tensors:
        for other in seen.setdefault(i.buffer, []):
            if not _apart_in_memory(other.info.view, i.info.view):
                raise JitError(
                    f"duplicate inputs to JIT: {other.name!r} is {_place_words(other.info)}, and "
                    f"{i.name!r} is {_place_words(i.info)}, of one buffer",
                    help="use .clone() on one of them",
                )
        seen[i.buffer].append(i)


def _window(view: UOp) -> Window | None:
    """The piece of its buffer that an input is; None with gaps, and for sizes that vary."""
    if not all(isinstance(s, int) for s in view.shape):
        return None
    found = window_of(view)
    return found if found is not None and isinstance(found.offset, int) else None


def _apart_in_memory(x: UOp, y: UOp) -> bool:
    a, b = _window(x), _window(y)
    if a is None or b is None:
        return False
    return a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def _info(view: UOp, buffer: UOp, param: UOp) -> InputInfo:
    bare: UOp = view
    variables: tuple[UOp, ...] = ()
    if _bound_sizes(view):
        bare, values = view.unbind_all()
        variables = tuple(values)
    return InputInfo(bare.substitute({buffer: param}), variables, view.dtype, view.device)


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

    def reset(self) -> None:
        """Forget what was captured.

        Raises: JitError where there is no function to capture again.
        """
        if self.fxn is None:
            raise UncapturedError(
                "can't reset without a function", help="it was loaded as what it had captured"
            )
        self.cnt, self.captured = 0, None

    def __reduce__(self) -> tuple[Any, ...]:
        """What it captured, without the function.

        Raises: UncapturedError before anything was captured.
        """
        if self.captured is None:
            raise UncapturedError("can't pickle an uncaptured JIT", help="call it twice first")
        return type(self), (None, self.captured, self.prune)

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        """As a method: bound to its object, whose tensors are state."""
        return self if obj is None else functools.partial(self.__call__, obj)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; computed plainly, captured or replayed."""
        if JIT.value == 0 or self.cnt == 0:
            ret = _handed_out(self._plain(args, kwargs))
        elif self.captured is None:
            ret = self._capture(args, kwargs)
        else:
            ret = self._replay(args, kwargs)
        self.cnt += 1
        return ret

    def _plain(self, args: Any, kwargs: Any) -> Any:
        assert self.fxn is not None, "a function, or something captured"
        ret: Any = self.fxn(*args, **kwargs)
        _realized(ret)
        return ret

    def _capture(self, args: Any, kwargs: Any) -> Any:
        if open_captures():
            raise JitError("having TinyJit inside another TinyJit is not supported")
        inputs = _inputs_of(args, kwargs)
        if not CAPTURING:
            return _handed_out(self._plain(args, kwargs))
        with ExitStack() as stack:
            watching = [stack.enter_context(around()) for around in around_capture]
            # What is computed once stays where it is: each value has memory of its own first.
            planner = Context(NO_MEMORY_PLANNER=1 if self.prune else NO_MEMORY_PLANNER.value)
            with planner, captured() as capture, _watched_boxes() as boxes:
                ret = self._plain(args, kwargs)
                from_memory = [w.finish() for w in watching]
            if not all(from_memory):  # it is now: the next call is captured
                return _handed_out(ret)
            tensors = tensors_of(ret)  # says what is none
            read = {c.buffers[slot].base for c in capture.steps for slot in c.ins}
            done = Aftermath(capture.made, read, tensors, Followers(), set())
            for w in watching:
                w.behind(done)
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
        return _apart(ret, capture.made - once)

    def _needed(self, capture: Capture, inputs: Inputs) -> list[CapturedStep]:
        """The steps that every call must run."""
        if not self.prune:
            return capture.steps
        given = {m.base for i in inputs.tensors for m in memories_of(i.buffer)}
        kept = depending_on(capture.steps, given, capture.made)
        if DEBUG >= 1:
            print(f"pruned from {len(kept)} -> {sum(kept)} kernels")
        return [s for s, depends in zip(capture.steps, kept, strict=True) if depends]

    def _replay(self, args: Any, kwargs: Any) -> Any:
        found = self.captured
        assert found is not None, "captured before"
        inputs = _inputs_of(args, kwargs)
        names, infos = [i.name for i in inputs.tensors], [i.info for i in inputs.tensors]
        if (
            inputs.variables != found.expected_variables
            or inputs.bound.keys() != found.bound.keys()
        ):
            raise JitError(
                f"args mismatch in JIT: variables {sorted(inputs.bound)} instead of "
                f"{sorted(found.bound)}"
            )
        if names != found.expected_names:
            raise JitError(f"args mismatch in JIT: {names} instead of {found.expected_names}")
        for name, got, want in zip(names, infos, found.expected_input_info, strict=True):
            if got != want:
                raise _mismatch(name, got, want)
        for box in found.boxes:
            check_present(*box, {**inputs.var_vals})
        tensors = [t for _, t in _tensors_in(args, kwargs)]
        return found([i.buffer for i in inputs.tensors], inputs.var_vals, tensors)


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


def _words(info: InputInfo) -> str:
    return f"{shape_text(info.view.shape)} {info.dtype} on {info.device}"


def _place_words(info: InputInfo) -> str:
    """Where in its buffer an input lies."""
    window, buffer = _window(info.view), storage_below(info.view)
    if window is not None:
        if window.size == buffer.shape[0]:
            return "the whole"
        return f"elements {window.offset} to {window.offset + window.size}"
    moves = []
    view = info.view
    while view is not buffer:
        moves.append(view.op.name)
        view = view.src[0]
    return f"a view by {', '.join(reversed(moves))}"


def _mismatch(name: Any, got: InputInfo, want: InputInfo) -> JitError:
    if _words(got) != _words(want):
        return JitError(
            f"args mismatch in JIT: argument {name!r} is {_words(got)}, captured was "
            f"{_words(want)}",
            help="call .reset() to capture anew, or use one TinyJit for each shape",
        )
    places = [
        f"{_place_words(i)} of a buffer of {storage_below(i.view).shape[0]}" for i in (got, want)
    ]
    words = f"is {places[0]}, captured was {places[1]}"
    if places[0] == places[1]:
        words = "shares its buffer with other arguments than the captured one did"
    return JitError(
        f"args mismatch in JIT: argument {name!r} {words}",
        help="after .reset(), give it the argument's .clone() at each call: that is the whole of a "
        "buffer of its own",
    )


def _realized(ret: Any) -> None:
    """Compute the tensors in a returned value, whatever else there is."""
    found: list[Any] = []
    rebuilt(ret, found.append, lambda other: None)
    tensors = [t for t in found if to_store(t.uop) is not None]
    if tensors:
        tensors[0].realize(*tensors[1:])


def _handed_out(ret: Any) -> Any:
    """A plain call's result: tensors of their own, which no write to the function's own reaches."""

    def own(t: Any) -> Any:
        found = type(t)(t.uop)
        found.grad, found.is_param = t.grad, t.is_param
        return found

    return rebuilt(ret, own, lambda other: other)


def _apart(ret: Any, fresh: set[Buffer]) -> Any:
    """The captured call's own result: a copy, but of memory that each replay has anew."""

    def own(t: Any) -> Any:
        if memory_below([t]) <= fresh:
            return type(t)(t.uop)
        copy = make(Ops.CONTIGUOUS, t.uop.dtype, (t.uop,), "a result of a captured call is kept")
        return type(t)(realize_uops([copy])[copy])

    return rebuilt(ret, own)

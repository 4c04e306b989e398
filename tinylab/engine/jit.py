"""TinyJit: a function of tensors, run once to see what it computes and replayed from then on.

call 1   plain
call 2   plain, and captured: which kernels ran on which memory
call 3…  replayed: the captured kernels on the new inputs, without Python in between

Results of a replay have memory of their own: what was returned keeps its value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from tinylab.device import Buffer
from tinylab.dtype import DType
from tinylab.engine import launch
from tinylab.engine.buffers import memories_of
from tinylab.engine.capture import (
    Capture,
    CapturedStep,
    captured,
    depending_on,
    open_captures,
    written,
)
from tinylab.engine.graph import batched
from tinylab.engine.locking import alone
from tinylab.engine.realize import realize_uops, to_store
from tinylab.errors import JitError
from tinylab.helpers.context import CAPTURING, DEBUG, JIT
from tinylab.mixin.base import shape_text
from tinylab.opcodes import GroupOp, Ops
from tinylab.trace import events
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp, dtypes

P = ParamSpec("P")
R = TypeVar("R")


class InputInfo(NamedTuple):
    """What must be the same at each call: the view of the buffer, its dtype and device."""

    view: UOp
    dtype: DType
    device: Any


class Input(NamedTuple):
    """One tensor that the function got: where it stood, what it looks like, its buffer's node."""

    name: Any
    info: InputInfo
    buffer: UOp


class Inputs(NamedTuple):
    """What a call is made with: tensors, names of bound variables, and their values."""

    tensors: list[Input]
    variables: list[Any]
    bound: dict[str, UOp]  # name -> the variable with its value

    @property
    def var_vals(self) -> dict[str, int]:
        """The values of all variables."""
        return {name: u.unbind()[1] for name, u in self.bound.items()}


def _is_tensor(x: object) -> bool:
    return hasattr(x, "uop") and hasattr(x, "realize")


def _tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """(name, tensor) for tensors among the arguments and, one level deep, inside containers."""
    found: list[tuple[Any, Any]] = []
    for name, x in [*enumerate(args), *sorted(kwargs.items())]:
        if _is_tensor(x):
            found.append((name, x))
        elif isinstance(x, list | tuple):
            found += [((name, i), y) for i, y in enumerate(x) if _is_tensor(y)]
        elif isinstance(x, dict):
            found += [((name, k), y) for k, y in x.items() if _is_tensor(y)]
    return found


def _storage(view: UOp) -> UOp:
    return view.unsharded_base.without_after.unsharded_base


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
    for name, x in [*enumerate(args), *sorted(kwargs.items())]:
        if isinstance(x, UOp):
            inputs.variables.append((name, x.unbind()[0]))
            _bind(inputs, x)
    for name, t in named:
        buffer = _storage(t.uop)
        if buffer.op is not Ops.BUFFER:
            raise JitError(
                f"JIT inputs must be real buffers; argument {name!r} is {t.uop.op}",
                help="use .clone()",
            )
        for u in _bound_sizes(t.uop):
            _bind(inputs, u)
        param = UOp.param(len(inputs.tensors), buffer.dtype, buffer.shape, buffer.device)
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
    if known is not u:
        raise JitError(f"bind mismatch on {u.expr}, {known.unbind()[1]} != {u.unbind()[1]}")


def _refuse_duplicates(tensors: Sequence[Input]) -> None:
    seen: dict[UOp, Any] = {}
    for i in tensors:
        if i.buffer in seen:
            raise JitError(
                f"duplicate inputs to JIT: {seen[i.buffer]!r} and {i.name!r} are one buffer",
                help="use .clone() on one of them",
            )
        seen[i.buffer] = i.name


def _info(view: UOp, buffer: UOp, param: UOp) -> InputInfo:
    bare = view.unbind_all()[0] if _bound_sizes(view) else view
    return InputInfo(bare.substitute({buffer: param}), view.dtype, view.device)


class Piece(NamedTuple):
    """Memory that is part of an input or a result, and moves with it: its number, and the whole's.

    size elements of dtype from a byte on.
    """

    number: int
    whole: int
    size: int
    dtype: DType
    offset: int


class Result(NamedTuple):
    """A tensor in the returned value: its buffer's node, and the numbers of the memory below it.

    One number for each device. kept: the memory is state, which later calls overwrite; what is
    returned is a copy.
    """

    tensor: Any
    buffer: UOp
    numbers: tuple[int, ...]
    kept: bool


class CapturedJit(Generic[R]):
    """What one call computed, ready to be computed again on other inputs."""

    def __init__(self, ret: Any, capture: Capture, given: Inputs, prune: bool = False) -> None:
        self.ret = ret
        inputs = given.tensors
        self.expected_variables, self.bound = given.variables, given.bound
        self.expected_names = [i.name for i in inputs]
        self.expected_input_info = [i.info for i in inputs]
        steps = capture.steps
        input_memory = {m for i in inputs for m in memories_of(i.buffer)}
        if prune:
            kept = depending_on(steps, input_memory, capture.made)
            if DEBUG >= 1:
                print(f"pruned from {len(steps)} -> {sum(kept)} kernels")
            steps = [s for s, depends in zip(steps, kept, strict=True) if depends]
        self.steps = steps
        self.memory: list[Buffer] = []
        self._number: dict[int, int] = {}
        self._inputs = [self._numbered(m) for i in inputs for m in memories_of(i.buffer)]
        numbers = [[self._numbered(b) for b in s.buffers] for s in steps]
        self._results = self._fresh_results(ret, steps, capture.made)
        # Results that are views of what was given.
        nodes = [i.buffer for i in inputs]
        self._given = [
            (t, nodes.index(b)) for t in _tensors_of(ret) if (b := _storage(t.uop)) in nodes
        ]
        moving = {*self._inputs, *(n for r in self._results if not r.kept for n in r.numbers)}
        self._pieces = self._pieces_of(moving)
        self.launchers = batched(steps, numbers, native=JIT.value < 2)
        self._numbers = numbers

    # *** what memory is used

    def _numbered(self, buffer: Buffer) -> int:
        number = self._number.get(id(buffer))
        if number is None:
            number = self._number[id(buffer)] = len(self.memory)
            self.memory.append(buffer)
        return number

    def _fresh_results(
        self, ret: Any, steps: Sequence[CapturedStep], made: set[Buffer]
    ) -> list[Result]:
        """Returned tensors whose memory the steps fill: each call gives them new memory."""
        filled = written(steps)
        found = []
        for t in _tensors_of(ret):
            buffer = _storage(t.uop)
            memory = memories_of(buffer)
            if memory[0].base in filled:
                numbers = tuple(map(self._numbered, memory))
                found.append(Result(t, buffer, numbers, memory[0].base not in made))
        return found

    def _pieces_of(self, moving: set[int]) -> list[Piece]:
        """The views among the memory of what each call replaces."""
        wholes: dict[Buffer, list[int]] = {}
        for n in moving:
            wholes.setdefault(self.memory[n].base, []).append(n)
        found = []
        for n, b in enumerate(self.memory):
            for whole in wholes.get(b.base, ()):
                start = b.offset - self.memory[whole].offset
                if n not in moving and 0 <= start <= self.memory[whole].nbytes - b.nbytes:
                    found.append(Piece(n, whole, b.size, b.dtype, start))
        return found

    @property
    def linear(self) -> UOp:
        """The captured schedule; a stretch that one native call runs is CUSTOM_FUNCTION "graph"."""
        items: list[UOp] = []
        at = 0
        for launcher, size in self.launchers:
            calls = [s.plan.schedule.linear.src[s.linear_index] for s in self.steps[at : at + size]]
            at += size
            if type(launcher).__name__ == "EachStep":
                items += calls
                continue
            body = UOp.custom_function("graph", make(Ops.LINEAR, dtypes.void, tuple(calls)))
            items.append(body.call(*dict.fromkeys(a for c in calls for a in c.src[1:])))
        return make(Ops.LINEAR, dtypes.void, tuple(items))

    # *** running

    @alone
    def __call__(self, given: Inputs) -> Any:
        """The function's result for these inputs."""
        nodes = self._place(given)
        self._run(given.var_vals)
        for result in self._results:
            if result.kept:
                own = memories_of(nodes[result.buffer])
                for m, number in zip(own, result.numbers, strict=True):
                    m.copy_from(self.memory[number])
        sizes = {old: given.bound[name] for name, old in self.bound.items()}
        views = {
            id(r.tensor): _seen_anew(r.tensor.uop, nodes[r.buffer], sizes) for r in self._results
        }
        for t, n in self._given:
            views[id(t)] = _seen_anew(t.uop, given.tensors[n].buffer, sizes)
        return _rebuilt(self.ret, lambda t: type(t)(views[id(t)]) if id(t) in views else t)

    def _place(self, given: Inputs) -> dict[UOp, UOp]:
        """Put inputs and fresh memory for results in their places; the nodes of the latter."""
        memory = self.memory
        given_memory = (m for i in given.tensors for m in memories_of(i.buffer))
        for number, m in zip(self._inputs, given_memory, strict=True):
            memory[number] = m.ensure_allocated()
        nodes: dict[UOp, UOp] = {}
        for result in self._results:
            old = result.buffer
            if old not in nodes:
                new = nodes[old] = UOp.new_buffer(old.arg.device, old.shape[0], old.dtype)
                fresh = [m.allocate() for m in memories_of(new)]
                if not result.kept:
                    for number, m in zip(result.numbers, fresh, strict=True):
                        memory[number] = m
        for p in self._pieces:
            memory[p.number] = memory[p.whole].view(p.size, p.dtype, p.offset).ensure_allocated()
        return nodes

    def _run(self, var_vals: dict[str, int]) -> None:
        if DEBUG >= 2 or events.listening():
            for s, numbers in zip(self.steps, self._numbers, strict=True):
                launch.run_step(s.step.with_values(var_vals), [self.memory[n] for n in numbers])
            return
        for launcher, _ in self.launchers:
            launcher(self.memory, var_vals)
        launch.count(s.step for s in self.steps)


def _seen_anew(view: UOp, buffer: UOp, sizes: dict[UOp, UOp]) -> UOp:
    """The same view of another buffer, its variables bound anew."""
    chain = []
    through = (Ops.DETACH, Ops.BITCAST, Ops.AFTER, Ops.UNSHARD)
    while view.op in GroupOp.Movement or view.op in through:
        chain.append(view)
        view = view.src[0]
    for step in reversed(chain):
        if step.op is not Ops.AFTER:
            buffer = step.replace(src=(buffer, *step.src[1:]))
    return buffer.substitute(sizes, walk=True) if sizes else buffer


def _tensors_of(ret: Any) -> list[Any]:
    """The tensors in a returned value.

    Raises: JitError for anything else than tensors, None and containers of them.
    """
    found: list[Any] = []
    _rebuilt(ret, lambda t: found.append(t))
    return found


def _rebuilt(ret: Any, new: Callable[[Any], Any]) -> Any:
    """The returned value with each tensor replaced."""
    if ret is None:
        return None
    if _is_tensor(ret):
        return new(ret)
    if isinstance(ret, dict):
        return {k: _rebuilt(v, new) for k, v in ret.items()}
    if isinstance(ret, tuple) and hasattr(ret, "_fields"):
        return type(ret)(*(_rebuilt(v, new) for v in ret))
    if isinstance(ret, list | tuple):
        return type(ret)(_rebuilt(v, new) for v in ret)
    raise JitError(f"JIT return contains non-Tensor value of type {type(ret)}")


class TinyJit(Generic[P, R]):
    """A function that is captured at its second call and replayed from the third.

    @TinyJit, TinyJit(f), @TinyJit(prune=True): prune runs what does not depend on the inputs once.

    cnt counts calls; captured is None or the CapturedJit.

    Raises: JitError where a call cannot be captured or does not fit what was captured.
    """

    def __new__(  # noqa: D102 (without a function it is a decorator)
        cls, fxn: Callable[P, R] | None = None, captured: Any = None, prune: bool = False
    ) -> Any:
        if fxn is None and captured is None:
            return functools.partial(cls, prune=prune)
        return super().__new__(cls)

    def __init__(
        self,
        fxn: Callable[P, R] | None = None,
        captured: CapturedJit[R] | None = None,
        prune: bool = False,
    ) -> None:
        self.fxn, self.captured, self.prune = fxn, captured, prune
        self.cnt = 0 if captured is None else 2

    def reset(self) -> None:
        """Forget what was captured.

        Raises: JitError where there is no function to capture again.
        """
        if self.fxn is None:
            raise JitError("can't reset without a function")
        self.cnt, self.captured = 0, None

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        """As a method: bound to its object, whose tensors are state."""
        return self if obj is None else functools.partial(self.__call__, obj)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; computed plainly, captured or replayed."""
        if JIT.value == 0 or self.cnt == 0:
            ret = self._plain(args, kwargs)
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
            return self._plain(args, kwargs)
        with captured() as capture:
            ret = self._plain(args, kwargs)
        if not capture.steps:
            raise JitError(
                "didn't JIT anything!", help="nothing was computed: is the result realized before?"
            )
        if DEBUG >= 1:
            print(f"JIT captured {capture.runs} linears with {len(inputs.tensors)} inputs")
        self.captured = CapturedJit(ret, capture, inputs, self.prune)
        return _apart(ret, capture)

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
                raise JitError(
                    f"args mismatch in JIT: argument {name!r} is {_words(got)}, captured was "
                    f"{_words(want)}",
                    help="call .reset() to capture anew, or use one TinyJit for each shape",
                )
        return found(inputs)


def _words(info: InputInfo) -> str:
    return f"{shape_text(info.view.shape)} {info.dtype} on {info.device}"


def _realized(ret: Any) -> None:
    tensors = [t for t in _tensors_of(ret) if to_store(t.uop) is not None]
    if tensors:
        tensors[0].realize(*tensors[1:])


def _apart(ret: Any, capture: Capture) -> Any:
    """The captured call's own result, in memory that no replay writes to."""
    made = written(capture.steps)

    def own(t: Any) -> Any:
        if memories_of(_storage(t.uop))[0].base not in made:
            return t
        copy = make(Ops.CONTIGUOUS, t.uop.dtype, (t.uop,), "a result of a captured call is kept")
        return type(t)(realize_uops([copy])[copy])

    return _rebuilt(ret, own)

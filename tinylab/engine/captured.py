"""What one call of a function computed, ready to be computed again on other inputs.

Each piece of memory that the captured steps use has a number and a role:

    input     replaced at each call by what the function is given
    result    fresh at each call, so that what was returned keeps its value
    piece     a view of an input or a result, which moves with it
    scratch   what lives inside a call only; may be given back between calls
    kept      constants, and state that is written in place
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from tinylab.device import Buffer
from tinylab.dtype import DType, dtypes
from tinylab.engine.buffers import filled, memories_of
from tinylab.engine.capture import CapturedStep, Followers, Replay, before_replay
from tinylab.engine.compile import lower_kernel
from tinylab.engine.dependencies import in_stretches
from tinylab.engine.graph import EachStep, GraphRunner, batched, kind_of
from tinylab.engine.launch import Step, copy_step, program_step
from tinylab.engine.locking import alone
from tinylab.engine.results import Outcome, Outcomes, Piece, pieces_of, seen_anew
from tinylab.errors import FAILURES, JitError
from tinylab.helpers.context import DEBUG, JIT
from tinylab.helpers.interrupts import held_back
from tinylab.mixin.base import Size
from tinylab.opcodes import Ops
from tinylab.schedule.effects import called_with
from tinylab.schedule.plan_memory import may_be_cut, pack, rounded
from tinylab.trace import events
from tinylab.uop.intern import make
from tinylab.uop.ops import UOp

# Where a view begins and ends on an axis, and the axis: variables may move it off.
Box: TypeAlias = tuple[Size, Size, Size]


class InputInfo(NamedTuple):
    """What must be the same at each call: the view, its variables, its dtype and device."""

    view: UOp
    variables: tuple[UOp, ...]
    dtype: DType
    device: Any


class Input(NamedTuple):
    """One tensor that the function got: where it stood, what it looks like, its buffer's node."""

    name: Any
    info: InputInfo
    buffer: UOp


class Inputs(NamedTuple):
    """What a call is made with: tensors, names of bound variables, and their values.

    plain: numbers, strings and the like, by name. objects: all others. given: the tensors.
    """

    tensors: list[Input]
    variables: list[Any]
    bound: dict[str, UOp]  # name -> the variable with its value
    plain: list[tuple[Any, Any]]
    objects: list[tuple[Any, Any]]
    given: list[Any]

    @property
    def var_vals(self) -> dict[str, int]:
        """The values of all variables."""
        return {name: u.unbind()[1] for name, u in self.bound.items()}


class Result(NamedTuple):
    """A tensor in the returned value: how it looked at its buffer, and the memory below it.

    view: its node when it was captured; writes may have given it another one since. numbers: of
    the memory, one for each device. kept: the memory stays, as state or as what was computed once;
    what is returned is a copy, so that no write to it reaches what later calls read.
    """

    tensor: Any
    view: UOp
    buffer: UOp
    numbers: tuple[int, ...]
    kept: bool


class _Lasting(NamedTuple):
    """Memory that is there before and after a call, as wholes, without the inputs'.

    given: the numbers of the inputs that are written to.
    """

    written: set[Buffer]
    used: set[Buffer]
    given: list[int]


@dataclass
class CapturedJit:
    """The captured steps with the numbers of their memory, and how calls are made with them."""

    ret: Any
    expected_names: list[Any]
    expected_input_info: list[InputInfo]
    expected_variables: list[Any]
    bound: dict[str, UOp]
    steps: list[CapturedStep]
    memory: list[Any]  # a Buffer, or None for what each call puts there
    numbers: list[tuple[int, ...]]
    inputs: list[int]
    results: list[Result]
    given: list[tuple[Any, UOp, int]]  # returned tensors that are views of an input, and which
    pieces: list[Piece]
    scratch: list[int]
    native: bool = True
    boxes: list[Box] = field(default_factory=list)  # held against the variables of each call
    plain: list[tuple[Any, Any]] = field(default_factory=list)  # held against those of each call
    # The tensors that see what a call writes; of a function that was saved nobody knows.
    followers: Followers = field(default_factory=Followers)
    _is_free: bool = field(default=False, init=False)
    _lasting: _Lasting = field(init=False)
    # By buffer: what its results look at, and where in memory they are in a call.
    _outcomes: dict[UOp, tuple[Outcomes, list[Result]]] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = [self._with_own_values(s) for s in self.steps]
        self.launchers = batched(self.steps, self.numbers, self.native)
        self._lasting = self._find_lasting()
        self._outcomes = self._find_outcomes()
        # The memory of the captured call goes, except for what stays in use.
        self.steps = [replace(s, buffers=[]) for s in self.steps]

    def _with_own_values(self, s: CapturedStep) -> CapturedStep:
        """A step with the values of variables that were bound inside the function: they stay."""
        if s.step.info is None:
            return s
        given = {name: u.unbind()[1] for name, u in self.bound.items()}
        own = {name: n for name, n in s.var_vals.items() if given.get(name) != n}
        return replace(s, step=replace(s.step, known={**own, **s.step.known})) if own else s

    def _find_lasting(self) -> _Lasting:
        outs = {
            numbers[slot]
            for s, numbers in zip(self.steps, self.numbers, strict=True)
            for slot in s.step.outs
        }
        fresh = {n for r in self.results if not r.kept for n in r.numbers}
        wholes = {p.number: p.whole for p in self.pieces}
        inside = {*fresh, *self.scratch, *(p for p, whole in wholes.items() if whole in fresh)}
        given = {*self.inputs, *(p for p, whole in wholes.items() if whole in self.inputs)}
        kept = set(range(len(self.memory))) - inside - given
        return _Lasting(
            {self.memory[n].base for n in outs & kept},
            {self.memory[n].base for n in kept},
            sorted({wholes.get(n, n) for n in outs & given}),
        )

    def _find_outcomes(self) -> dict[UOp, tuple[Outcomes, list[Result]]]:
        by_buffer: dict[UOp, list[Result]] = {}
        for r in self.results:
            by_buffer.setdefault(r.buffer, []).append(r)
        return {
            old: (Outcomes(old, [] if self.bound else [r.view for r in group]), group)
            for old, group in by_buffer.items()
        }

    # *** to look at, to keep

    @property
    def linear(self) -> UOp:
        """The captured schedule: PARAM(slot) are the inputs, BUFFERs all other memory.

        Each time there are new BUFFERs for results.

        A stretch that one launch runs is CUSTOM_FUNCTION "graph".
        """
        nodes = self._nodes()
        items: list[UOp] = []
        at = 0
        for launcher in self.launchers:
            calls = []
            for s, numbers in zip(
                self.steps[at : at + len(launcher)], launcher.numbers, strict=True
            ):
                body = s.call.src[0] if s.step.code is None else s.step.code
                calls.append(called_with(s.call, (nodes[n] for n in numbers), body))
            at += len(launcher)
            if not launcher.graphed:
                items += calls
                continue
            body = UOp.custom_function("graph", make(Ops.LINEAR, dtypes.void, tuple(calls)))
            items.append(body.call(*dict.fromkeys(a for c in calls for a in c.src[1:])))
        return make(Ops.LINEAR, dtypes.void, tuple(items))

    def _nodes(self) -> list[UOp]:
        memory = self.memory
        nodes: dict[int, UOp] = {}
        for slot, n in enumerate(self.inputs):
            if n not in nodes:  # views of one buffer are one
                nodes[n] = UOp.param(slot, memory[n].dtype, (memory[n].size,), memory[n].device)
        for n in (n for r in self.results if not r.kept for n in r.numbers):
            nodes[n] = UOp.new_buffer(memory[n].device, memory[n].size, memory[n].dtype)
        for p in self.pieces:
            whole = nodes[p.whole]
            unit = whole.dtype.itemsize
            view = whole._shrink((p.offset // unit,), (p.size * p.dtype.itemsize // unit,))
            nodes[p.number] = view.bitcast(p.dtype)
        return [nodes[n] if n in nodes else UOp.from_buffer(b) for n, b in enumerate(memory)]

    def free_intermediates(self) -> None:
        """Give back the memory of what lives inside a call only; the next call takes it again."""
        wholes = dict.fromkeys(self.memory[n].base for n in self.scratch)
        for n in self.scratch:
            if self.memory[n].is_initialized() and self.memory[n] not in wholes:
                self.memory[n].deallocate()
        for whole in wholes:
            if whole.is_initialized():
                whole.deallocate()
        for outcomes, _ in self._outcomes.values():
            outcomes.forget()
        self._is_free = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, tuple(_stored(self))

    # *** running

    @alone
    def __call__(
        self,
        input_uops: Sequence[UOp],
        var_vals: dict[str, int],
        tensors: Sequence[Any] = (),
        check: Callable[[], None] = lambda: None,
    ) -> Any:
        """The function's result for the memory of its inputs and the values of its variables.

        tensors: which the inputs are; they see what is written to their memory. check: is called
        when the writes that waited are done, before anything runs.
        """
        placed = self._place(input_uops)
        self._refuse_shared()
        lasting = self._lasting
        written = lasting.written
        if lasting.given:
            written = written | {self.memory[n].base for n in lasting.given}
        replay = Replay(written, lasting.used, self.followers, tensors or input_uops)
        for compute in before_replay:
            compute(replay)
        check()
        self._run(var_vals)
        sizes = {old: old.src[0].bind(var_vals[name]) for name, old in self.bound.items()}
        views: dict[int, UOp] = {}
        for outcome, group in placed:
            if group[0].kept:
                for m, number in zip(outcome.memory, group[0].numbers, strict=True):
                    m.copy_from(self.memory[number])
            seen = outcome.views or [seen_anew(r.view, outcome.node, sizes) for r in group]
            for r, view in zip(group, seen, strict=True):
                views[id(r.tensor)] = view
        for t, view, n in self.given:
            views[id(t)] = seen_anew(view, input_uops[n], sizes)
        return rebuilt(self.ret, lambda t: type(t)(views.get(id(t), t.uop)))

    def _place(self, given: Sequence[UOp]) -> list[tuple[Outcome, list[Result]]]:
        """Put inputs and fresh memory for results in their places; the latter with their nodes."""
        memory = self.memory
        given_memory = (m for node in given for m in memories_of(node))
        for number, m in zip(self.inputs, given_memory, strict=True):
            memory[number] = filled(m)
        placed = []
        for outcomes, group in self._outcomes.values():
            numbers = group[0].numbers
            outcome = outcomes.next(memory[numbers[0]])
            placed.append((outcome, group))
            if not group[0].kept:
                for number, m in zip(numbers, outcome.memory, strict=True):
                    memory[number] = m
        for p in self.pieces:
            memory[p.number] = memory[p.whole].view(p.size, p.dtype, p.offset).ensure_allocated()
        if self._is_free:
            for n in self.scratch:
                memory[n].ensure_allocated()
            self._is_free = False
        return placed

    def _refuse_shared(self) -> None:
        """Inputs are apart from the state: the order of the steps was found for that.

        Raises: JitError for an input that is state which is written, or is written and is state.
        """
        written, used, given = self._lasting
        for where, numbers in ((written, self.inputs), (used, given)):
            if any(self.memory[n].base in where for n in numbers if where):
                raise JitError(
                    "an input of a captured function lies in memory that it also knows as state, "
                    "and that it writes to",
                    help="pass its .clone()",
                )

    def _run(self, var_vals: dict[str, int]) -> None:
        if DEBUG >= 1 and len(self.steps) >= 10:
            print(f"jit execs {len(self.steps)} calls")
        if events.listening():
            # One native call would hide its kernels: for whoever listens, each runs on its own.
            with events.span("jit", f"jit, {len(self.steps)} steps", count=len(self.steps)):
                self._launch([EachStep(self.steps, self.numbers)], var_vals)
            return
        # All of them or none, so that state is never half moved on; native launches are short.
        together = all(launcher.graphed for launcher in self.launchers)
        with held_back() if together else contextlib.nullcontext():
            self._launch(self.launchers, var_vals)

    def _launch(self, launchers: Sequence[GraphRunner], var_vals: dict[str, int]) -> None:
        """Run all; once state may have changed a Ctrl-C waits for the rest, or it would be torn."""
        for launcher in launchers:
            launcher.forget()
        try:
            for launcher in launchers:
                launcher.run(self.memory, var_vals)
        except FAILURES:
            raise
        except BaseException:
            if any(launcher.has_begun() for launcher in launchers):
                for launcher in launchers:
                    launcher.finish(self.memory, var_vals)
            raise


def storage_below(view: UOp) -> UOp:
    """The buffer's node below a view of memory."""
    return view.unsharded_base.without_after.unsharded_base


def buffer_of_tensor(t: Any) -> UOp | None:
    """The buffer's node below a tensor in memory.

    None for constants, for what is empty, and for files, which no captured step writes to.
    """
    node = storage_below(t.uop)
    if node.op is not Ops.BUFFER or node.is_variable or str(node.arg.device).startswith("DISK:"):
        return None
    return None if any(isinstance(s, int) and s == 0 for s in t.uop.shape) else node


def memory_below(tensors: Iterable[Any]) -> set[Buffer]:
    """The memory (bases) that tensors are views of."""
    nodes = [node for t in tensors if (node := buffer_of_tensor(t)) is not None]
    return {m.base for x in nodes for m in memories_of(x)}


def is_tensor(x: object) -> bool:
    """Whether something is a tensor: it has a graph, and can be computed.

    Told by the class: to ask any object for an attribute may run its code.
    """
    return hasattr(type(x), "uop") and hasattr(type(x), "realize")


def tensors_of(ret: Any) -> list[Any]:
    """The tensors in a returned value.

    Raises: JitError for anything else than tensors, None and containers of them.
    """
    found: list[Any] = []
    rebuilt(ret, lambda t: found.append(t))
    return found


def _refused(ret: Any) -> Any:
    raise JitError(
        f"JIT return contains non-Tensor value of type {type(ret)}",
        help="a replay would not work it out again: return tensors only, or None",
    )


def rebuilt(ret: Any, new: Callable[[Any], Any], other: Callable[[Any], Any] = _refused) -> Any:
    """The returned value with each tensor replaced, and by other what is no tensor.

    Raises: JitError for the latter, if not told otherwise.
    """
    if ret is None:
        return None
    if is_tensor(ret):
        return new(ret)
    if isinstance(ret, dict):
        return {k: rebuilt(v, new, other) for k, v in ret.items()}
    if isinstance(ret, tuple) and hasattr(ret, "_fields"):
        return type(ret)(*(rebuilt(v, new, other) for v in ret))
    if isinstance(ret, list | tuple):
        return type(ret)(rebuilt(v, new, other) for v in ret)
    return other(ret)


# *** from a capture


class _Numbers:
    """Memory by number, in the order in which it is met."""

    def __init__(self) -> None:
        self.memory: list[Buffer] = []
        self._known: dict[int, int] = {}

    def of(self, buffer: Buffer) -> int:
        """The number of a buffer."""
        number = self._known.get(id(buffer))
        if number is None:
            number = self._known[id(buffer)] = len(self.memory)
            self.memory.append(buffer)
        return number


def capture_of(
    ret: Any,
    given: Inputs,
    steps: Sequence[CapturedStep],
    made: set[Buffer],
    once: set[Buffer],
    pack_again: bool,
    followers: Followers,
    boxes: list[Box],
) -> CapturedJit:
    """What a call computed, ready to be computed again.

    made: memory (bases) that the call allocated. once: that out of made which no step fills again.
    pack_again: whether what lives inside the call is to share memory; it did not while the call
    ran. followers: tensors that see what it writes.
    """
    out = memory_below(tensors_of(ret))
    inside = _inside(steps, made - out)
    if pack_again:
        steps, inside = _packed(steps, inside)
    order = in_stretches(steps, [kind_of(s) for s in steps])
    steps = [steps[n] for n in order]
    numbers = _Numbers()
    inputs = [numbers.of(m) for i in given.tensors for m in memories_of(i.buffer)]
    used = [tuple(map(numbers.of, s.buffers)) for s in steps]
    nodes = [i.buffer for i in given.tensors]
    results = list(_results(ret, nodes, made - once, numbers))
    moving = {*inputs, *(n for r in results if not r.kept for n in r.numbers)}
    return CapturedJit(
        ret,
        [i.name for i in given.tensors],
        [i.info for i in given.tensors],
        given.variables,
        given.bound,
        steps,
        list(numbers.memory),
        used,
        inputs,
        results,
        [
            (t, t.uop, nodes.index(b))
            for t in tensors_of(ret)
            if (b := storage_below(t.uop)) in nodes
        ],
        pieces_of(numbers.memory, moving),
        [n for n, b in enumerate(numbers.memory) if b.base in inside],
        JIT.value < 2,
        boxes,
        given.plain,
        followers,
    )


def _results(
    ret: Any, given: Sequence[UOp], fresh: set[Buffer], numbers: _Numbers
) -> Iterable[Result]:
    """Returned tensors, but for views of what is given: each call gives them new memory.

    fresh: memory that each call fills; of any other a result gets a copy.
    """
    for t in tensors_of(ret):
        buffer = buffer_of_tensor(t)
        if buffer is None or buffer in given:
            continue
        memory = memories_of(buffer)
        own = tuple(map(numbers.of, memory))
        yield Result(t, t.uop, buffer, own, memory[0].base not in fresh)


def _inside(steps: Sequence[CapturedStep], made: set[Buffer]) -> set[Buffer]:
    """Memory that the call made for itself: written by a step before any reads it."""
    found: set[Buffer] = set()
    seen: set[Buffer] = set()
    for s in steps:
        for slot, b in enumerate(s.buffers):
            if b.base in made and b.base not in seen and slot not in s.ins:
                found.add(b.base)
        seen |= {b.base for b in s.buffers}
    return found


def _packed(
    steps: Sequence[CapturedStep], inside: set[Buffer]
) -> tuple[list[CapturedStep], set[Buffer]]:
    """The steps with what lives inside the call as views of one block per device; the blocks."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for n, s in enumerate(steps):
        for b in s.buffers:
            if b.base in inside and may_be_cut(b.device):
                lives[b.base] = (lives[b.base][0] if b.base in lives else n, n)
    offsets, sizes = pack(lives, lambda b: rounded(b.nbytes), lambda b: b.device)
    blocks = {device: Buffer(device, size, dtypes.uint8) for device, size in sizes.items()}

    def placed(b: Buffer) -> Buffer:
        if b.base not in offsets:
            return b
        at = offsets[b.base] + b.offset
        return blocks[b.device].view(b.size, b.dtype, at).ensure_allocated()

    moved = [replace(s, buffers=list(map(placed, s.buffers))) for s in steps]
    return moved, {*blocks.values(), *(inside - lives.keys())}


# *** as bytes


def _stored(c: CapturedJit) -> Iterable[Any]:
    """What a captured function is without its programs and without what each call replaces."""
    blank: dict[int, Any] = {}
    results = []
    for r in c.results:
        node = UOp.new_buffer(r.buffer.arg.device, r.buffer.shape[0], r.buffer.dtype)
        view = seen_anew(r.view, node, {})
        blank[id(r.tensor)] = type(r.tensor)(view)
        results.append(r._replace(tensor=blank[id(r.tensor)], view=view, buffer=node))
    given = []
    for t, old_view, n in c.given:
        old = storage_below(old_view)
        view = seen_anew(old_view, UOp.new_buffer(old.arg.device, old.shape[0], old.dtype), {})
        blank[id(t)] = type(t)(view)
        given.append((blank[id(t)], view, n))
    moving = {*c.inputs, *(n for r in c.results if not r.kept for n in r.numbers)}
    moving |= {p.number for p in c.pieces}
    empty = {b: Buffer(b.device, b.size, b.dtype) for b in {c.memory[n].base for n in c.scratch}}
    memory = []
    for n, b in enumerate(c.memory):
        whole = empty.get(b.base)
        if n in moving:
            # Only where it is and how large: a call puts its own there.
            memory.append(Buffer(b.device, b.size, b.dtype))
        elif whole is not None:
            memory.append(whole if b.base is b else whole.view(b.size, b.dtype, b.offset))
        else:
            memory.append(b)
    steps = [(s.call, s.step.device, s.var_vals) for s in c.steps]
    yield rebuilt(c.ret, lambda t: blank.get(id(t), t))
    yield from (c.expected_names, c.expected_input_info, c.expected_variables, c.bound)
    yield from (
        steps,
        memory,
        c.numbers,
        c.inputs,
        results,
        given,
        c.pieces,
        c.scratch,
        c.native,
        c.boxes,
        c.plain,
    )


def _loaded(*parts: Any) -> CapturedJit:
    """A captured function from what `_stored` gave, its programs loaded."""
    found = list(parts)
    memory, numbers = found[6], found[7]
    for b in memory:
        b.ensure_allocated()
    found[5] = [
        CapturedStep(_step(call, device, own), [memory[n] for n in own], call, var_vals)
        for (call, device, var_vals), own in zip(found[5], numbers, strict=True)
    ]
    return CapturedJit(*found)


def _step(call: UOp, device: str, numbers: tuple[int, ...]) -> Step:
    if call.src[0].op is Ops.COPY:
        return copy_step(call, numbers)
    # Compiled for the machine that it is on now.
    step = program_step(lower_kernel(call.src[0], device), device, numbers, call.arg)
    step.ast = call.src[0]
    return step

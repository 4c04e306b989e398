"""State that a captured function reaches: tensors in objects, closures and global names.

Replays read the memory that the capture read. Where the function, or the program between two calls,
puts another tensor into such a place (`self.h = self.h + x`), a replay would not know: that is
refused. Writing to the tensor (`.assign`) is what replays do, and see.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

from tinylab.device import Buffer
from tinylab.dtype import dtypes
from tinylab.engine.arguments import Part, is_object, parts_of, same
from tinylab.engine.buffers import memories_of
from tinylab.engine.captured import Inputs, is_tensor, memory_below, rebuilt
from tinylab.engine.realize import to_store
from tinylab.engine.results import seen_anew
from tinylab.errors import FAILURES, JitError
from tinylab.helpers.arguments import shown
from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

# Objects that are looked into: more are a data set rather than a model.
_MOST = 10_000
# Values that are worked out of nothing get memory up to so many elements.
_MOST_NUMBERS = 1 << 24
_OURS = __name__.split(".")[0]


class Place(NamedTuple):
    """Where a tensor was found: from which root, by which steps, and how that is written."""

    root: int
    steps: tuple[tuple[Callable[[Any, Any], Any], Any], ...]
    words: str
    tensor: Any


def _cell(function: Any, n: int) -> Any:
    return function.__closure__[n].cell_contents


def _global(function: Any, name: str) -> Any:
    return function.__globals__[name]


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


def _of_function(f: types.FunctionType) -> Iterator[Part]:
    for n, (name, cell) in enumerate(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)):
        try:
            yield _cell, n, name, cell.cell_contents
        except ValueError:  # empty
            continue
    for name in dict.fromkeys(_names_in(f.__code__)):
        if name in f.__globals__:
            yield _global, name, name, f.__globals__[name]


def _attribute(x: Any, name: str) -> Any:
    return x.__dict__[name]


def _parts(x: Any) -> Iterable[Part]:
    """What an object, function or container holds."""
    found = parts_of(x)
    if found is not None:
        return found
    if isinstance(x, types.FunctionType):
        return _of_function(x)
    if isinstance(x, types.MethodType):
        return [(getattr, "__self__", "self", x.__self__), (getattr, "__func__", "", x.__func__)]
    if isinstance(x, functools.partial):
        return [(getattr, k, f".{k}", getattr(x, k)) for k in ("func", "args", "keywords")]
    if is_tensor(x):
        return [] if getattr(x, "grad", None) is None else [(getattr, "grad", ".grad", x.grad)]
    if isinstance(x, types.ModuleType | type | UOp) or not is_object(x) or _is_inner(x):
        return []
    slots = [s for cls in type(x).__mro__ for s in _names(cls.__dict__.get("__slots__", ()))]
    stored = [(getattr, k, f".{k}", getattr(x, k)) for k in slots if hasattr(x, k)]
    own = getattr(x, "__dict__", {})
    return [*((_attribute, k, f".{k}", v) for k, v in list(own.items())), *stored]


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _is_inner(x: Any) -> bool:
    """Whether an object is of the compiler or the runtime, and no layer or optimizer."""
    module = type(x).__module__
    return module.split(".")[0] == _OURS and not module.startswith(f"{_OURS}.nn")


def places_below(roots: Sequence[tuple[str, Any]]) -> list[Place]:
    """The tensors that can be reached from named roots."""
    found: list[Place] = []
    seen: set[int] = set()
    # Near ones first: what is far away may be all that there is.
    waiting: collections.deque[tuple[int, tuple[Any, ...], str, Any]] = collections.deque(
        (n, (), name, x) for n, (name, x) in enumerate(roots)
    )
    while waiting and len(seen) < _MOST:
        root, steps, words, x = waiting.popleft()
        if is_tensor(x):
            found.append(Place(root, steps, words, x))
        if id(x) in seen or x is None or isinstance(x, str | int | float | bytes):
            continue
        seen.add(id(x))
        try:
            parts = list(_parts(x))
        except Exception:  # it cannot be looked into
            continue
        waiting.extend((root, (*steps, (get, k)), words + word, v) for get, k, word, v in parts)
    return found


def roots_of(
    fxn: Any, args: Sequence[Any], kwargs: dict[str, Any], bound: bool
) -> list[tuple[str, Any]]:
    """From where state is looked for: the function's names, and its arguments."""
    names = ["self" if bound and n == 0 else f"argument {n}" for n in range(len(args))]
    return [("", fxn), *zip(names, args, strict=True), *sorted(kwargs.items())]


def _memory_read(t: Any) -> set[Buffer]:
    """The memory (bases) that a tensor lies in, or is worked out from."""
    if to_store(t.uop) is None:
        return memory_below([t])
    order = t.uop.toposort(enter_calls=False)
    nodes = [x for x in order if x.op is Ops.BUFFER and x._buffer is not None]
    return {m.base for x in nodes for m in memories_of(x)}


def found_before(roots: Sequence[tuple[str, Any]]) -> list[tuple[Place, Set[Buffer]]]:
    """The tensors that a function is about to find, with the memory that they stand on.

    Writes that wait are done, and gradients computed, so that what the function adds to has a place
    in memory. So has what is worked out of memory, which may be overwritten before a replay; and
    what is worked out of nothing, which may be written to itself. What is weak stays as it is, as
    memory has no weak types.
    """
    places = places_below(roots)
    waiting = [(p, x) for p in places if (x := to_store(p.tensor.uop)) is not None]
    first = [p.tensor for p, x in waiting if x.op is Ops.AFTER or p.words.endswith(".grad")]
    if first:
        first[0].realize(*first[1:])
    for p, _ in waiting:
        if dtypes.is_weak(p.tensor.dtype):
            continue
        if _memory_read(p.tensor) or p.tensor.uop.max_numel() <= _MOST_NUMBERS:
            # The function says so itself if it needs what cannot be computed.
            with contextlib.suppress(*FAILURES):
                p.tensor.realize()
    return [(p, _memory_read(p.tensor)) for p in places]


def found_again(places: Iterable[Place], roots: Sequence[tuple[str, Any]]) -> list[Place]:
    """The places that hold a tensor still, with that tensor."""
    found = []
    for p in places:
        x: Any = roots[p.root][1]
        try:
            for get, key in p.steps:
                x = get(x, key)
        except (AttributeError, LookupError, TypeError, ValueError):
            continue
        if is_tensor(x):
            found.append(p._replace(tensor=x))
    return found


def refuse_rebound(
    before: Sequence[tuple[Place, Set[Buffer]]], after: Sequence[Place], read: Set[Buffer]
) -> None:
    """Hold the tensors that a function found against those that it left.

    before: each with the memory that it stood on. read: memory that the captured steps read.

    Raises: JitError for a place that holds another tensor now, if the steps read the old one.
    """
    now = {(p.root, p.words): p.tensor for p in after}
    for p, memory in before:
        t = now.get((p.root, p.words))
        if t is p.tensor or read.isdisjoint(memory):
            continue
        if t is None or to_store(t.uop) is not None or memory_below([t]) != memory:
            raise JitError(
                f"{p.words} is another tensor after the function that was captured, which read the "
                "one before, and a replay would not do that again",
                help="write to it instead: .assign(value)",
            )


class _Seen:
    """One place on the way to a tensor, or where it is."""

    __slots__ = ("get", "key", "memory", "parent", "ref", "uop", "words")

    def __init__(self, parent: int, get: Any, key: Any) -> None:
        self.parent, self.get, self.key = parent, get, key
        self.ref: weakref.ref[Any] | None = None
        self.uop: UOp | None = None
        self.memory: Set[Buffer] = frozenset()
        self.words = ""


class Watched:
    """The places from which a captured function read tensors, held against each call.

    Nothing here keeps the tensors, or what they are in.
    """

    def __init__(self, places: Iterable[Place], roots: int, used: Set[Buffer]) -> None:
        self._seen: list[_Seen] = []
        known: dict[Any, int] = {}
        for p in places:
            memory = _memory_read(p.tensor)
            if memory and memory.isdisjoint(used):
                continue
            at = p.root
            for get, key in p.steps:
                step = (at, get, key)
                if step not in known:
                    known[step] = roots + len(self._seen)
                    self._seen.append(_Seen(at, get, key))
                at = known[step]
            if p.steps:
                last = self._seen[at - roots]
                last.ref, last.memory, last.words = weakref.ref(p.tensor), memory, p.words
                is_weak = dtypes.is_weak(p.tensor.dtype)
                stays = not memory or is_weak or to_store(p.tensor.uop) is None
                last.uop = p.tensor.uop if stays else None

    def check(self, roots: Iterable[Any]) -> None:
        """Hold what is there now against what was captured.

        Raises: JitError for a place where another tensor is.
        """
        values: list[Any] = list(roots)
        for s in self._seen:
            try:
                x: Any = s.get(values[s.parent], s.key)
            except (AttributeError, LookupError, TypeError, ValueError):
                x = None
            values.append(x)
            if s.ref is not None and (s.ref() is not x or getattr(x, "uop", self) is not s.uop):
                self._look(s, x)

    def _look(self, s: _Seen, x: Any) -> None:
        """Whether another tensor, or another node of the same one, lies in the same memory."""
        if not s.memory and s.ref is not None and s.ref() is not x:
            return  # as with a number that is bound anew
        if is_tensor(x):
            if s.uop is None and s.ref is not None and s.ref() is x:
                return  # it was worked out inside, from what it stood on
            if s.uop is not None and s.memory and memory_below([x]) == s.memory:
                return
        word = "is another tensor than" if is_tensor(x) else "is no tensor any more as it was"
        is_same = s.ref is not None and s.ref() is x
        help_ = "write to it instead: .assign(value); pass it as an argument; or call .reset() to "
        help_ += "capture anew"
        if s.words.endswith(".grad"):
            help_ = (
                "set it to zeros by .assign(0) instead of None, or call .reset() to capture anew"
            )
        elif is_same:
            help_ += "; a view keeps its value, elsewhere, when what it was taken of is written"
        raise JitError(
            f"{s.words} {word} when the function was captured, and a replay would go on with the "
            "old one",
            help=help_,
        )


class Shared(NamedTuple):
    """An input that the function reaches in another way too: its number, its name, and the way."""

    number: int
    name: Any
    words: str
    memory: list[Buffer]


def shared_with_state(
    inputs: Inputs, places: Iterable[Place], roots: Sequence[tuple[str, Any]]
) -> list[Shared]:
    """The inputs that are state as well, which the function may read by name."""
    of = {m.base: n for n, i in enumerate(inputs.tensors) for m in memories_of(i.buffer)}
    objects = {id(x) for _, x in inputs.objects}
    stateful = {n for n, (_, x) in enumerate(roots) if n == 0 or id(x) in objects}
    found: dict[int, Shared] = {}
    for p in places:
        if p.steps and p.root in stateful:
            for n in {of[m] for m in _memory_read(p.tensor) if m in of}:
                i = inputs.tensors[n]
                found.setdefault(n, Shared(n, i.name, p.words, memories_of(i.buffer)))
    return list(found.values())


def refuse_apart(inputs: Inputs, shared: Iterable[Shared]) -> None:
    """Hold the inputs that were written state against those of a call.

    Raises: JitError where one is another tensor: replays write to what was both.
    """
    for s in shared:
        if memories_of(inputs.tensors[s.number].buffer) != s.memory:
            raise JitError(
                f"args mismatch in JIT: argument {s.name!r} was also {s.words} when the function "
                "was captured, and is another tensor now",
                help="call .reset(), and capture it with a tensor of its own: .clone()",
            )


def copied_apart(inputs: Inputs, shared: Iterable[Shared], value: Any) -> Any:
    """Arguments with tensors in memory of their own for those that are state as well."""
    new: dict[int, Any] = {}
    for s in shared:
        t, old = inputs.given[s.number], inputs.tensors[s.number].buffer
        node = UOp.new_buffer(old.arg.device, old.shape[0], old.dtype)
        for to, source in zip(memories_of(node), memories_of(old), strict=True):
            to.allocate().copy_from(source)
        new[id(t)] = type(t)(seen_anew(t.uop, node, {}))
    return rebuilt(value, lambda t: new.get(id(t), t), lambda other: other)


class Known:
    """An object among the arguments, as it was: it is told again, and one that is alike too."""

    def __init__(self, x: Any) -> None:
        self._parts = _weak_parts(x)
        self._ref = _weak(x) if self._parts else lambda: x
        self._type = type(x)

    def __call__(self, x: Any) -> bool:
        """Whether an object is this one, or has the same code, attributes and tensors."""
        old = self._ref()
        if x is old:
            return True
        if type(x) is not self._type:
            return False
        if not self._parts:
            return same(x, old)
        mine = _weak_parts(x)
        return len(mine) == len(self._parts) and all(
            a[0] == b[0] and same(a[1](), b[1]()) for a, b in zip(mine, self._parts, strict=True)
        )


def _weak_parts(x: Any) -> list[tuple[str, Callable[[], Any]]]:
    code = [("", _weak(x.__code__))] if isinstance(x, types.FunctionType) else []
    return [*code, *((word, _weak(v)) for _, _, word, v in _parts(x))]


def _weak(x: Any) -> Callable[[], Any]:
    """What gives an object as long as it is there; one that cannot be looked after, for ever."""
    if isinstance(x, types.MethodType):  # a new one at each look
        return lambda: x
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def refuse_other_objects(got: Sequence[tuple[Any, Any]], want: Sequence[tuple[Any, Known]]) -> None:
    """Hold objects among the arguments against those of the capture.

    Raises: JitError for another one.
    """
    names = [name for name, _ in got], [name for name, _ in want]
    if names[0] != names[1]:
        raise JitError(f"args mismatch in JIT: objects {names[0]} instead of {names[1]}")
    for (name, x), (_, known) in zip(got, want, strict=True):
        if not known(x):
            raise JitError(
                f"args mismatch in JIT: argument {name!r} is {shown(x)}, another object than the "
                "one that was captured",
                help="pass its tensors as arguments, or use one TinyJit for each object",
            )

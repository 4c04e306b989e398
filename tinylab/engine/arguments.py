"""What a captured function is called with: its inputs, and all else that must be as it was.

Tensors are found in lists, tuples, dicts and dataclasses at any depth: those are the inputs.
Numbers, strings and the like are compared with what they were; other objects are state
(`watched.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tinylab.engine.capture import before_inputs
from tinylab.engine.captured import Input, InputInfo, Inputs, is_tensor, storage_below
from tinylab.engine.realize import to_store
from tinylab.errors import JitError
from tinylab.helpers.arguments import shown
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.schedule.views import Window, window_of
from tinylab.uop.ops import UOp

# How a part of something is got again, its key, how that is written, and the part.
Part = tuple[Callable[[Any, Any], Any], Any, str, Any]


def parts_of(x: Any) -> Iterator[Part] | None:
    """What a list, tuple, dict, deque or dataclass holds, in order; None for anything else."""
    if isinstance(x, dict):
        return ((operator.getitem, k, f"[{k!r}]", v) for k, v in list(x.items()))
    if isinstance(x, tuple) and (names := getattr(type(x), "_fields", None)) is not None:
        return ((getattr, k, f".{k}", getattr(x, k)) for k in names)
    if isinstance(x, list | tuple | collections.deque):
        return ((operator.getitem, n, f"[{n}]", v) for n, v in enumerate(list(x)))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]
        return ((getattr, k, f".{k}", getattr(x, k)) for k in fields)
    return None


def is_object(x: Any) -> bool:
    """Whether something has attributes of its own, which may be tensors."""
    return hasattr(x, "__dict__") or hasattr(type(x), "__slots__")


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Found:
    """The arguments of a call by kind, each with its name: a place, a keyword, or a path."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], bound: bool) -> None:
        self.tensors: list[tuple[Any, Any]] = []
        self.variables: list[tuple[Any, UOp]] = []
        self.plain: list[tuple[Any, Any]] = []
        self.objects: list[tuple[Any, Any]] = []
        for name, x in [*enumerate(args), *sorted(kwargs.items())]:
            if bound and name == 0:
                self.objects.append(("self", x))
            else:
                self._sort(name, x, ())

    def _sort(self, name: Any, x: Any, above: tuple[int, ...]) -> None:
        if isinstance(x, _PLAIN):
            self.plain.append((name, x))
        elif is_tensor(x):
            self.tensors.append((name, x))
        elif isinstance(x, UOp):
            self.variables.append((name, x))
        elif (parts := parts_of(x)) is not None:
            self._sort_parts(name, x, parts, above)
        elif isinstance(x, set | frozenset) and any(map(is_tensor, x)):
            raise JitError(
                f"argument {name!r} is a set of tensors, which has no order",
                help="pass a list of them",
            )
        else:
            (self.objects if is_object(x) else self.plain).append((name, _kept(x)))

    def _sort_parts(self, name: Any, x: Any, parts: Iterator[Part], above: tuple[int, ...]) -> None:
        if id(x) in above:
            raise JitError(f"argument {name!r} contains itself", help="pass its parts")
        path = name if isinstance(name, tuple) else (name,)
        for _, key, _, part in parts:
            self._sort((*path, key), part, (*above, id(x)))


def _kept(x: Any) -> Any:
    """What may be changed in place as it is now: arrays, bytes."""
    if isinstance(x, bytearray | memoryview):
        return bytes(x)
    return x.copy() if hasattr(type(x), "__array_interface__") else x


def inputs_of(args: Sequence[Any], kwargs: dict[str, Any], bound: bool = False) -> Inputs:
    """The inputs of a call, tensors in memory. bound: the first is the object of a method.

    Raises: JitError for a tensor without a buffer, and for one buffer under two names; BindError
    for a variable without a value.
    """
    found = _Found(args, kwargs, bound)
    for settle in before_inputs:
        settle([t for _, t in found.tensors])
    pending = [t for _, t in found.tensors if to_store(t.uop) is not None]
    if pending:
        pending[0].realize(*pending[1:])
    inputs = Inputs([], [], {}, found.plain, found.objects, [t for _, t in found.tensors])
    slots: dict[UOp, int] = {}  # views of one buffer have one: which do is part of what they are
    for name, x in found.variables:
        inputs.variables.append((name, x.unbind()[0]))
        _bind(inputs, x)
    for name, t in found.tensors:
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


def _without_marks(view: UOp, buffer: UOp) -> UOp:
    """A view without DETACH, which says nothing about the values."""
    steps, x = [], view
    while x is not buffer and x.src:
        steps.append(x)
        x = x.src[0]
    if x is not buffer or all(step.op is not Ops.DETACH for step in steps):
        return view
    for step in reversed(steps):
        x = x if step.op is Ops.DETACH else step.replace(src=(x, *step.src[1:]))
    return x


def _info(view: UOp, buffer: UOp, param: UOp) -> InputInfo:
    bare: UOp = _without_marks(view, buffer)
    variables: tuple[UOp, ...] = ()
    if _bound_sizes(view):
        bare, values = bare.unbind_all()
        variables = tuple(values)
    return InputInfo(bare.substitute({buffer: param}), variables, view.dtype, view.device)


# *** calls that do not fit


def refuse_other_inputs(inputs: Inputs, captured: Any) -> None:
    """Hold the tensors and variables of a call against those that were captured.

    Raises: JitError with what is another.
    """
    names = [i.name for i in inputs.tensors]
    if inputs.variables != captured.expected_variables or (
        inputs.bound.keys() != captured.bound.keys()
    ):
        raise JitError(
            f"args mismatch in JIT: variables {sorted(inputs.bound)} instead of "
            f"{sorted(captured.bound)}"
        )
    if names != captured.expected_names:
        raise JitError(f"args mismatch in JIT: {names} instead of {captured.expected_names}")
    for i, want in zip(inputs.tensors, captured.expected_input_info, strict=True):
        if i.info != want:
            raise _mismatch(i.name, i.info, want)


def refuse_other_values(
    fxn: Callable[..., Any] | None, got: list[tuple[Any, Any]], want: list[tuple[Any, Any]]
) -> None:
    """Hold what is no tensor, variable or object against what it was.

    Raises: JitError with the argument that is another: replays would go on with the captured one.
    """
    if len(got) == len(want) and all(
        a[0] == b[0] and same(a[1], b[1]) for a, b in zip(got, want, strict=True)
    ):
        return
    now, before = (_with_defaults(fxn, dict(x)) for x in (got, want))
    for name in {**before, **now}:
        if name not in before or name not in now:
            word = "was captured without" if name not in before else "is missing, and was captured"
            raise JitError(
                f"args mismatch in JIT: argument {name!r} {word}",
                help="call it as it was called when it was captured",
            )
        if not same(now[name], before[name]):
            a, b = shown(before[name]), shown(now[name])
            raise JitError(
                f"args mismatch in JIT: argument {name!r} was captured as {a}, and is {b} now",
                help="make it a Variable or a tensor, or use one TinyJit for each value",
            )


def _with_defaults(fxn: Callable[..., Any] | None, plain: dict[Any, Any]) -> dict[Any, Any]:
    """Arguments by the names of the function's parameters, those that were left out too."""
    if fxn is None:
        return plain
    try:
        parameters = list(inspect.signature(fxn).parameters.values())
    except (TypeError, ValueError):
        return plain
    places = {n: p.name for n, p in enumerate(parameters) if p.kind is p.POSITIONAL_OR_KEYWORD}
    defaults = {p.name: p.default for p in parameters if isinstance(p.default, _PLAIN)}
    return {**defaults, **{places.get(k, k): v for k, v in plain.items()}}


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same for a function: of one type, and equal, NaN to itself.

    A tensor is only itself.
    """
    if a is b:
        return True
    if type(a) is not type(b) or is_tensor(a):
        return False
    if hasattr(type(a), "__array_interface__"):
        return bool((a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes()))
    try:
        return bool(a == b) or (isinstance(a, float) and a != a and b != b)
    except Exception:  # arrays and tensors of other libraries say no
        return False


def _words(info: InputInfo) -> str:
    return f"{shape_text(info.view.shape)} {info.dtype} on {info.device}{_cut_words(info.view)}"


def _cut_words(view: UOp) -> str:
    """How a view is spread over its devices."""
    if not isinstance(view.device, tuple):
        return ""
    return ", a copy on each" if view.axis is None else f", cut along axis {view.axis}"


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

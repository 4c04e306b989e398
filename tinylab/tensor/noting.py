"""Who made a node: each method called by the user marks its nodes and, while recorded, its line."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tinylab.engine.locking import engine_lock
from tinylab.errors import OperandError, TinylabError
from tinylab.helpers.arguments import PYTHON_ERRORS, explained, explained_error, shown
from tinylab.helpers.context import TRACEMETA
from tinylab.helpers.measure import Metadata
from tinylab.helpers.plain import OWN, may_be_number, plain_arguments
from tinylab.opcodes import Ops
from tinylab.tensor.core import TensorCore
from tinylab.tensor.held import live, mark_of
from tinylab.tensor.sharing import as_it_is, take_contiguous, take_view
from tinylab.trace import provenance
from tinylab.trace.record import active
from tinylab.uop.intern import is_size
from tinylab.uop.ops import UOp

# The tensors among a method's arguments, with what they held when it was called.
Given = list[tuple[TensorCore, UOp]]


class _Inside(threading.local):
    """The tensor method that this thread is inside of: only the outermost one is noted."""

    call: tuple[str, Given] | None = None
    also: int = 0  # marks of what its results are made of besides its arguments


_inside = _Inside()
_LEAVES = frozenset({Ops.BUFFER, Ops.PARAM, Ops.CONST})


@functools.cache
def _metadata(name: str, backward: bool) -> tuple[Metadata, ...]:
    return (Metadata(name, backward),)


def tensors_in(values: Iterable[Any]) -> Iterator[TensorCore]:
    """The tensors among values, and in lists and tuples among them."""
    for value in values:
        if isinstance(value, TensorCore):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _look(values: Iterable[Any], given: Given) -> bool:
    """Take down the tensors among arguments; whether any may be a number that is not Python's."""
    foreign = False
    for value in values:
        if type(value) in OWN:
            continue
        if isinstance(value, TensorCore):
            given.append((value, value.uop))
        elif isinstance(value, (list, tuple)):
            foreign |= _look(value, given)
        elif not foreign and type(value) is not UOp:
            foreign = may_be_number(value)
    return foreign


def note_nodes(roots: Iterable[UOp], name: str, known: set[UOp], backward: bool = False) -> None:
    """Mark the nodes between results and what was there before as made by a method."""
    records = active()
    if not (records or TRACEMETA.value):
        return
    metadata = _metadata(name, backward)
    frames = provenance.user_frames() if records else ()
    stack, seen = list(roots), set(known)
    while stack:
        node = stack.pop()
        if node in seen or node.op in _LEAVES or is_size(node):
            continue
        seen.add(node)
        if node.metadata is None:
            node.metadata = metadata
        elif not records:
            continue  # made before, with all that is below
        for record in records:
            record.note(node, frames, name)
        stack.extend(node.src)


def made_of(uop: UOp) -> None:
    """The results of the method that this thread is inside of contain a node that was not given."""
    _inside.also |= mark_of(uop)


def note_realized(roots: Iterable[UOp]) -> None:
    """Mark what a method made itself and realizes on its way."""
    if _inside.call is None:
        return
    name, given = _inside.call
    before = {u for _, u in given}
    made = [x for x in roots if x not in before]
    if made:
        note_nodes(made, name, {x for u in before for x in u.toposort()})


def publish(result: Any, name: str, given: Given) -> Any:
    """Take a method's result as something the user holds from now on."""
    found = list(tensors_in((result,)))
    written = [t for t, held in given if t.uop is not held and t.uop.base.op is Ops.AFTER]
    if written:
        note_nodes([t.uop for t in written], name, {x for _, u in given for x in (u, u.base)})
    if found:
        if len(given) == 1 and len(found) == 1 and found[0].uop is given[0][0].uop:
            live.add(found[0])
            return result
        note_nodes([t.uop for t in found], name, {t.uop for t, _ in given})
        marks = _inside.also
        for t, _ in given:
            marks |= t._marks
        for t in found:
            t._marks = marks | mark_of(t.uop)
            live.add(t)
    return result


def _is_told(first: Any, error: Exception) -> bool:
    """Whether what a list of tensors was refused for is told already: `stack` takes one."""
    listed = isinstance(first, (list, tuple)) and any(isinstance(t, TensorCore) for t in first)
    return listed and isinstance(error, TinylabError)


def noted(
    name: str, function: Callable[..., Any], viewing: Callable[[Any, Any], Any] | None = None
) -> Callable[..., Any]:
    """A method that marks what it makes, unless another method called it.

    viewing: for one whose results are views of its tensor: lets them know.
    """

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # a notebook shows the lines that mean something
        if _inside.call is not None:
            return function(*args, **kwargs)
        # From the look at the operands until the result is known: a write that another thread
        # computes between the two would not find this reader of the old value.
        with engine_lock:
            return outermost(*args, **kwargs)

    def outermost(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        given: Given = []
        if _look(args, given) | (bool(kwargs) and _look(kwargs.values(), given)):
            args, kwargs = plain_arguments(function, args, kwargs) or (args, kwargs)
        _inside.call, _inside.also = (name, given), 0
        try:
            made = function(*args, **kwargs)
            if viewing is not None and isinstance(args[0], TensorCore):
                made = viewing(made, args[0])
            elif name not in ITSELF and any(made is t for t, _ in given):
                made = as_it_is(made)  # a value of its own, though nothing had to be done
            result = publish(made, name, given)
        except PYTHON_ERRORS as error:
            found = explained_error(function, name, args, kwargs, error)
            if (
                args
                and not isinstance(args[0], (TensorCore, type))
                and not _is_told(args[0], error)
            ):
                found = OperandError(f"{name} is called on a tensor, not on {shown(args[0])}")
            if found is None:
                raise
            raise found from error
        finally:
            _inside.call = None
        return result

    return method


def _views(result: Any, owner: TensorCore) -> Any:
    if isinstance(result, TensorCore):
        return take_view(result, owner)
    if isinstance(result, (list, tuple)):
        return type(result)(_views(x, owner) for x in result)
    return result


# Methods whose results are views of their tensor: a write through them reaches it.
# fmt: off
VIEWS: dict[str, Callable[[Any, Any], Any]] = dict.fromkeys((
    "reshape", "view", "permute", "transpose", "rearrange", "shrink", "shrink_to", "flip",
    "squeeze", "unsqueeze", "flatten", "unflatten", "unfold", "__getitem__", "split", "chunk",
    "diagonal", "expand", "bitcast", "detach", "T",
), _views)
# fmt: on
VIEWS["contiguous"] = take_contiguous
# Methods that give the tensor itself, always or where nothing is to be done.
# fmt: off
ITSELF = frozenset({
    "realize", "assign", "replace", "to", "to_", "shard", "shard_", "shard_like", "is_param_",
    "as_param", "backward", "callify", "cast", "bool", "int", "long", "short", "float", "double",
    "half", "bfloat16", "train", "dropout",
})
# fmt: on


def note_methods(cls: type) -> None:
    """Wrap every public method of a class, wherever it is inherited from."""
    for name in dir(cls):
        if name.startswith("_") and name not in ("__getitem__", "__setitem__"):
            continue
        raw = inspect.getattr_static(cls, name)
        if name == "sequential":  # what it calls is noted
            setattr(cls, name, explained(raw, name))
            continue
        if isinstance(raw, classmethod):
            setattr(cls, name, classmethod(noted(name, raw.__func__)))
        elif isinstance(raw, staticmethod):
            setattr(cls, name, staticmethod(explained(raw.__func__, name)))
        elif not callable(raw):
            if name == "T" and isinstance(raw, property) and raw.fget is not None:
                setattr(cls, name, property(noted(name, raw.fget, VIEWS[name])))
        elif not getattr(raw, "_plain", False):
            setattr(cls, name, noted(name, raw, VIEWS.get(name)))

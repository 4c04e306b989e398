"""@function: a function of tensors, traced once per call and kept as one node of the graph.

    @function
    def layer(x, w): return (x @ w).relu()

    layer(x, w)  ->  GETTUPLE(FUNCTION(TUPLE(body), x, w), 0)

The body names its inputs only as PARAM(slot), so equal calls are equal nodes. `precompile`
schedules the body on its own, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType
from typing import Any

from tinylab.dtype import dtypes, strong_dtype
from tinylab.engine.locking import alone
from tinylab.errors import ForbiddenDeviceError, FunctionError
from tinylab.helpers.arguments import explained
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below, is_write, written_slots
from tinylab.tensor import Tensor, live
from tinylab.tensor.data import data_noted, note_made
from tinylab.tensor.random import random_state
from tinylab.uop.ops import UOp


@explained
def function(
    fxn: Callable[..., Any] | None = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """A traced function; as a decorator with or without arguments.

    Tensors among the arguments, inside containers and inside objects are its inputs.
    allow_implicit: buffers that it reads besides become inputs too; what it makes and fills itself,
    from data too, may always be read. grad_fxn(*grads, call=node) gives the gradient of every
    input. precompile: the body is scheduled once, on its own, and precompile_backward its gradients
    likewise. Bound variables are inputs too.

    Raises: FunctionError for results that are no tensors, buffers that are not passed in, writes
    in place, and values asked for inside.
    """
    if fxn is None:
        return functools.partial(
            function,
            precompile=precompile,
            precompile_backward=precompile_backward,
            allow_implicit=allow_implicit,
            grad_fxn=grad_fxn,
        )

    if not callable(fxn):
        raise FunctionError(f"function traces a function, not {fxn!r}")
    return TracedFunction(
        fxn,
        precompile=precompile,
        precompile_backward=precompile_backward,
        allow_implicit=allow_implicit,
        grad_fxn=grad_fxn,
    )


class TracedFunction:
    """A function that is traced at each call; as a method it is bound to its object."""

    def __init__(
        self,
        fxn: Callable[..., Any],
        *,
        precompile: bool,
        precompile_backward: bool,
        allow_implicit: bool,
        grad_fxn: Callable[..., Any] | None,
    ) -> None:
        self.fxn, self.allow_implicit, self.grad_fxn = fxn, allow_implicit, grad_fxn
        self.precompile, self.precompile_backward = precompile, precompile_backward
        functools.update_wrapper(self, fxn)

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        """As a method: bound to its object, whose tensors are inputs."""
        return self if obj is None else functools.partial(self, obj)

    @alone  # parameters stand in the tensors' places meanwhile
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results as parts of one node.

        One thread traces at a time: the function must not wait for one that computes.
        """
        inputs = [t for t in _tensors_in((args, kwargs)) if not _is_number(t)]
        name = getattr(self.fxn, "__qualname__", str(self.fxn))
        with data_noted() as made, _named(name):
            ret, body, implicit = _trace(self.fxn, args, kwargs, inputs)
        outside = [u for u in _outside(body, implicit, len(inputs)) if u not in made]
        if outside and not self.allow_implicit:
            raise FunctionError(
                f"function {name} has {len(outside)} implicit buffer(s), but allow_implicit=False",
                help="pass the tensors in as arguments, or set allow_implicit=True",
            )
        note_made(u for u in implicit if u not in outside)
        values = [_strong(u) for u in (*(t.uop for t in inputs), *implicit)]
        body, sizes = _with_numbered_sizes(body, len(values))
        call = body.call(
            *values,
            *sizes,
            grad_fxn=self.grad_fxn,
            name=name,
            precompile=self.precompile,
            precompile_backward=self.precompile_backward,
        )
        results = [Tensor(call.gettuple(n)) for n in range(len(body.src))]
        return results[0] if isinstance(ret, Tensor) else tuple(results)


# What stands for the inputs of the functions that are being traced, the outermost one's first.
_open: list[UOp] = []


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Where a value is asked for inside a function, the error names the function."""
    try:
        yield
    except ForbiddenDeviceError as e:
        if e.help is not None:
            raise
        raise ForbiddenDeviceError(
            f"function {name} asks for a value while it is traced: {e}",
            help="make the value outside and pass it in; inside, nothing is computed yet",
        ) from e


def _trace(
    fxn: Callable[..., Any], args: Any, kwargs: Any, inputs: list[Tensor]
) -> tuple[Any, UOp, list[UOp]]:
    """(what it returned, TUPLE of the values over PARAMs, buffers that were not passed in)."""
    before = [t.uop for t in inputs]
    # Within another function the parameters have numbers of their own until the body is known.
    depth = len(_open)
    params = [_stand_in(u, depth + n) for n, u in enumerate(before)]
    held: list[tuple[Tensor, UOp]] = []
    try:
        _open.extend(params)
        for t, p in zip(inputs, params, strict=True):
            t.uop = p
        held = [(t, t.uop) for t in live]
        with Context(ALLOW_DEVICE_USAGE=0):
            ret = fxn(*args, **kwargs)
        # Now, for one that is an input is only here what the body returns.
        values = [t.uop for t in _results(ret)]
        _refuse_writes("its inputs", zip(inputs, params, strict=True))
        _refuse_writes("tensors from outside", held)
    finally:
        del _open[depth:]
        for t, u in (*held, *zip(inputs, before, strict=True)):
            t.uop = u
    body = UOp.maketuple(*values)
    implicit = _closed_over(body, {u for _, u in held if u not in params}, params)
    numbered = {u: _stand_in(u, len(inputs) + n) for n, u in enumerate(implicit)}
    if _open:
        numbered |= {
            p: _stand_in(u, n) for n, (p, u) in enumerate(zip(params, before, strict=True))
        }
    return ret, body.substitute(numbered, walk=True), implicit


def _closed_over(body: UOp, held: Collection[UOp], params: Collection[UOp]) -> list[UOp]:
    """What a body reads without being given it: values of tensors from outside, and buffers.

    A value that is not in memory yet is one too, or a gradient would not find its tensor. So is
    what waits for a write, which each call would do again; and what is made of the parameters of a
    function around this one, which have other numbers here.
    """
    outer: set[UOp] = set()
    for u in body.toposort(enter_calls=False):
        is_outer = (u.op is Ops.AFTER and not u.is_bound_var) or (
            u.op is Ops.PARAM and u not in params
        )
        if is_outer or not outer.isdisjoint(u.src):
            outer.add(u)
    whole = {u for u in held if u in outer or _may_be_target(u)}
    order = body.toposort(lambda u: u not in whole, enter_calls=False)
    found = {s for u in order for s in u.src if s in whole}
    return [
        *(u for u in body.toposort(enter_calls=False) if u in found),
        *(u for u in order if u.op is Ops.BUFFER and not u.is_variable),
    ]


def _may_be_target(u: UOp) -> bool:
    """Whether a gradient may be asked for with respect to a tensor of this value."""
    strong_float = u.dtype.kind == "float" and not dtypes.is_weak(u.dtype)
    return strong_float and u.base.op is not Ops.CONST


def _is_number(t: Tensor) -> bool:
    """Whether a tensor is worked out where it is read, as Tensor(2.0) is: it stays so in a body."""
    return dtypes.is_weak(t.dtype) and t.uop.is_virtual


def _strong(u: UOp) -> UOp:
    """A value in a type that memory has, which is what a parameter stands for."""
    return u.cast(strong_dtype(u.dtype))


def _stand_in(u: UOp, slot: int) -> UOp:
    """What a body has in a value's place."""
    return _strong(u).param_like(slot).cast(u.dtype)


def _with_numbered_sizes(body: UOp, count: int) -> tuple[UOp, list[UOp]]:
    """(the body with its bound variables as PARAMs from count on, the variables in order)."""
    bound = [u for u in body.toposort(enter_calls=False) if u.is_bound_var]
    numbered = {u: u.param_like(count + n) for n, u in enumerate(bound)}
    return (body.substitute(numbered, walk=True) if bound else body), bound


def _outside(body: UOp, implicit: list[UOp], first: int) -> list[UOp]:
    """The buffers read without being passed in.

    What the function itself makes and fills is none, nor what random numbers are drawn from.
    """
    order = list(body.toposort(enter_calls=False))
    filled = {buffer_below(x) for x in order if is_write(x)}
    for call in order:
        if call.op is Ops.CALL:
            filled |= {buffer_below(call.src[1 + n]) for n in written_slots(call.src[0])}
    own = {u for n, u in enumerate(implicit) if u.param_like(first + n) in filled}
    drawn = random_state()
    return [u for u in implicit if u not in drawn and (u not in own or u.is_realized)]


def _refuse_writes(what: str, held: Iterable[tuple[Tensor, UOp]]) -> None:
    if any(t.uop is not u for t, u in held):
        raise FunctionError(
            f"a traced function must not write into {what}",
            help="return the new value instead, and assign it outside",
        )


def _results(ret: Any) -> tuple[Tensor, ...]:
    found = ret if isinstance(ret, tuple) else (ret,)
    if not found or not all(isinstance(t, Tensor) for t in found):
        raise FunctionError(
            f"function return type {type(ret)} not supported",
            help="return a Tensor or a tuple of them",
        )
    return found


def _tensors_in(root: Any) -> Iterator[Tensor]:
    """Each tensor below a value once: in containers and in the attributes of objects."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, dict):
            stack.extend(reversed(list(x.values())))
        elif isinstance(x, list | tuple):
            stack.extend(reversed(x))
        elif _has_state(x):
            stack.extend(reversed(list(vars(x).values())))


def _has_state(x: Any) -> bool:
    """Whether this is an object with attributes, and no function, class or module."""
    plain = isinstance(x, type | ModuleType | FunctionType | MethodType)
    return hasattr(x, "__dict__") and not plain
